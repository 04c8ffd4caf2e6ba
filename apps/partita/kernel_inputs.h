// Inputs of `partita mask` and `partita kernels`: topologies and the kernel profiles of workers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "context.h"
#include "hw/topology.h"
#include "profile/kernel_profile.h"

namespace partita::cli {

struct KernelFlags {
  std::string workers, profiles, gpu = "MI50";
};

// Adds --workers, --profiles and --gpu.
void add_kernel_flags(CLI::App& command, KernelFlags& flags);

// The topology that --gpu names.
Result<hw::Topology> load_topology(const std::string& gpu);

// Whole numbers between commas, ascending and within [1, most].
Result<std::vector<int>> parse_counts(const std::string& flag, const std::string& text, int most);

// A quarter, half, three quarters and all of the units.
std::vector<int> quarters(const hw::Topology& topology);

// Per worker NAME of --workers the kernels in DIR/NAME.csv, or in REEF's pair DIR/NAME.json and
// DIR/NAME.profile.json. A name may be there several times: later ones are called NAME#2, NAME#3.
Result<std::vector<profile::ModelKernels>> load_kernels(Context& context, const KernelFlags& flags,
                                                        const hw::Topology& topology);

// What a KernelPlan (JSON) says of its workers.
struct PlannedUnits {
  std::string workers;                  // as for --workers: "b#2" is a second b
  std::vector<std::vector<int>> units;  // per worker and kernel
};

// A plan for a GPU of at most `most` units. Refused with FILE:LINE.
Result<PlannedUnits> parse_kernel_plan(const std::string& file, std::string_view text, int most);

}  // namespace partita::cli
