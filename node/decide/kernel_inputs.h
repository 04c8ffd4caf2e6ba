// Inputs of masks and kernels: topologies, the kernel profiles of workers, and plans of kernels.
// Refusals name the flag, or FILE:LINE.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "forms/kernel_forms.h"
#include "hw/topology.h"
#include "planners/mask/masks.h"
#include "profile/kernel_profile.h"

namespace partita::decide {

struct KernelNames {
  std::string workers, profiles, gpu = "MI50";
  int atom = 0;  // 0: the GPU's
};

// Refused at `where`, a flag or file: a policy that chooses clusters, on a GPU of which it is only
// assumed which units lie in which. The policy fair stays: it grants the same number whatever the
// clusters.
Result<void> check_mask_policy(const hw::Topology& topology, const std::string& policy,
                               const std::string& where);

// The policies of masks, for --policy.
std::vector<std::string> mask_policy_words();

// The topology that --topology names.
Result<hw::Topology> load_topology(const std::string& gpu);
// The topology's atom where `atom` is 0. Refused if no cluster holds so many units.
Result<int> load_atom(const hw::Topology& topology, int atom);

// Ascending whole numbers between commas, within [1, most].
Result<std::vector<int>> parse_counts(const std::string& flag, const std::string& text, int most);

// The numbers of units of --configs: ascending whole numbers between commas, each of whole atoms or
// all of the GPU; without text a quarter, half, three quarters and all, rounded down to atoms and
// to equally many on every die.
Result<std::vector<int>> load_configs(const std::string& text, const hw::Topology& topology,
                                      int atom);

// Per worker NAME of --workers the kernels in DIR/NAME.csv, or in REEF's pair DIR/NAME.json and
// DIR/NAME.profile.json, which holds for an MI50 and for CLUSTERSxUNITS only. A name may be there
// several times: later ones are called NAME#2, NAME#3. Refused: more than kMaxTimes times in all.
Result<std::vector<profile::ModelKernels>> load_kernels(Files& files, const KernelNames& names,
                                                        const hw::Topology& topology);

inline constexpr std::size_t kMaxTimes = 50'000'000;  // kernels x units, over all workers

// What a KernelPlan says to those who simulate it.
struct PlannedUnits {
  std::string gpu;
  int atom = 1;
  std::string workers;                  // as for --workers: "b#2" is a second b
  std::vector<std::vector<int>> units;  // per worker and kernel
};

PlannedUnits planned_units(const forms::StatedKernelPlan& plan);

// Whether it plans as many workers and kernels as there are; the refusal names `file`.
Result<void> check_planned_units(const std::string& file, const PlannedUnits& plan,
                                 const std::vector<profile::ModelKernels>& models);

// How many kernels run on each unit: the numbers in --busy, a list or one list per cluster; nothing
// runs where the path is empty.
Result<planners::mask::Busy> load_busy(Files& files, const std::string& path,
                                       const hw::Topology& topology);

}  // namespace partita::decide
