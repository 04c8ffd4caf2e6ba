// A pool as objects of the API server: ResourceSlices with counters, then ResourceSlices with
// devices, by name in the order in which the scheduler looks at them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fleet/dra/pool.h"

namespace partita::dra {

inline constexpr std::string_view kDriver = "partita.gpu";
// Limits of a slice, by Kubernetes: sets of counters; devices that take counters.
inline constexpr std::size_t kMaxSetsOfSlice = 8, kMaxDevicesOfSlice = 64;

struct ResourceSlice {
  std::string name;  // metadata.name
  // Indices into the pool: sets of counters, or devices.
  std::vector<std::size_t> counters = {}, devices = {};
  bool operator==(const ResourceSlice&) const = default;
};
// The slices of a node's pool, by name.
std::vector<ResourceSlice> slices_of(const Pool& pool, const std::string& node);

// Where a slice stands at the server.
struct SliceHead {
  std::string name;
  std::string resource_version = {};  // empty: it is not there yet
  long generation = 0;                // of its pool
  bool operator==(const SliceHead&) const = default;
};
struct SliceWriting {
  std::string node;
  long generation = 1;  // of the pool
  std::size_t slices = 1;
  std::string node_uid = {};  // whose going removes it; empty: nobody's
};
// The object; `head` names it and says the version that it replaces.
std::string slice_json(const Pool& pool, const ResourceSlice& slice, const SliceHead& head,
                       const SliceWriting& writing);

// The UID of a Node; refused with FILE:LINE what is none.
Result<std::string> parse_node_uid(const std::string& file, std::string_view text);

// The slices of this driver and node in a ResourceSliceList, or the one in a ResourceSlice. Refused
// with FILE:LINE what is neither.
Result<std::vector<SliceHead>> parse_slices(const std::string& file, std::string_view text,
                                            const std::string& node);

}  // namespace partita::dra
