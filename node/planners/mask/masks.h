// The mask of one kernel: which units of a GPU it gets, given how many kernels run on each already.
// Pure; a call takes well under a microsecond on 60 units.
//
// A dispatcher that splits a kernel's work-groups equally over the clusters of its mask is as slow
// as the cluster with the fewest units: effective units = clusters x smallest share. Hence the
// policies (Chow 2022, section 3.3.3):
//   packed       fills one cluster after the other
//   distributed  all clusters, equally
//   conserved    the fewest clusters that have that many units, equally
//   fair         the number k of clusters with the greatest min(n, k x smallest idle share),
//                equally; then every idle unit that is left, so that none is refused
//   balanced     the number of clusters that gives the most effective idle units, equally, and no
//                more than that: more units could slow the kernel down
//   krisp        Algorithm 1 as printed, with its defects: the count of overlapping units goes on
//                rising after the limit, so that idle units in later clusters are refused; units
//                that were refused count as allocated; clusters short of idle units are not made up
//                for by others
// On a GPU of several dies, which are its clusters, every mask has equal shares of all of them
// (hw/topology.h), whatever the policy: at least one unit each, so that fewer than dies asked for
// are rounded up; as many as the die with the least to give has, and one more on some; `balanced`
// gives no such one more. Policies differ only in which dies these are.
// Clusters are taken by ascending number of running kernels, units in a cluster likewise, ties by
// number. Units that run kernels already are given only up to overlap_limit.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "hw/topology.h"

namespace partita::planners::mask {

enum class Policy { packed, distributed, conserved, fair, balanced, krisp };
inline constexpr std::array kPolicies{Policy::packed, Policy::distributed, Policy::conserved,
                                      Policy::fair,   Policy::balanced,    Policy::krisp};
const char* to_string(Policy policy);
std::optional<Policy> policy_named(std::string_view word);

struct Request {
  int units = 1;  // >= 1; at least as many as dies are meant
  Policy policy = Policy::fair;
  int overlap_limit = 0;  // how many units of the mask may run other kernels already
};

// granted may be less than was asked for; 0 means that every unit that the policy may give is busy:
// the kernel has to wait for one, or be launched with a larger overlap limit.
struct Grant {
  hw::UnitMask mask;
  int granted = 0;
  int overlapped = 0;  // of the granted, those that run other kernels
};

// How many kernels run on each unit; as many entries as the topology has units.
using Busy = std::vector<int>;

Grant allocate(const hw::Topology& topology, const Busy& busy, const Request& request);

// Clusters that the mask touches x the smallest share among them.
int effective_units(const hw::Topology& topology, const hw::UnitMask& mask);

}  // namespace partita::planners::mask
