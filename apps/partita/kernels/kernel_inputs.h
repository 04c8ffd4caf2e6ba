// Inputs of `partita mask` and `partita kernels`: topologies and the kernel profiles of workers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "context.h"
#include "forms/kernel_forms.h"
#include "hw/topology.h"
#include "profile/kernel_profile.h"

namespace partita::cli {

struct KernelFlags {
  std::string workers, profiles, gpu = "MI50";
  int atom = 0;  // 0: the GPU's
};

inline constexpr char kGpuHelp[] =
    "MI50, MI100, MI210, MI250, MI300X, A100, H100, H200, or CLUSTERSxUNITS";

// Adds --atom: units that can only be masked together.
void add_atom_flag(CLI::App& command, int& atom);
// The topology's atom where `atom` is 0. Refused if no cluster holds so many units.
Result<int> load_atom(const hw::Topology& topology, int atom);

// The policies of masks, for --policy.
std::vector<std::string> mask_policy_words();

// Adds --profiles.
void add_profiles_flag(CLI::App& command, KernelFlags& flags);
// Adds --workers, --profiles, --gpu and --atom.
void add_kernel_flags(CLI::App& command, KernelFlags& flags);

// The topology that --gpu names.
Result<hw::Topology> load_topology(const std::string& gpu);

// Adds --configs: the numbers of units that a kernel may have.
void add_configs_flag(CLI::App& command, std::string& configs);
// Adds --switches: how often that number may change.
void add_switches_flag(CLI::App& command, int& switches);

// The numbers of units of --configs: ascending whole numbers between commas, each of whole atoms or
// all of the GPU; without text a quarter, half, three quarters and all, rounded down to atoms.
Result<std::vector<int>> load_configs(const std::string& text, const hw::Topology& topology,
                                      int atom);

// Per worker NAME of --workers the kernels in DIR/NAME.csv, or in REEF's pair DIR/NAME.json and
// DIR/NAME.profile.json, which holds for an MI50 and for CLUSTERSxUNITS only. A name may be there
// several times: later ones are called NAME#2, NAME#3. Refused: more than kMaxTimes times in all.
Result<std::vector<profile::ModelKernels>> load_kernels(Context& context, const KernelFlags& flags,
                                                        const hw::Topology& topology);

inline constexpr std::size_t kMaxTimes = 50'000'000;  // kernels x units, over all workers

// The workers of a plan, as for --workers: "b#2" is a second b.
std::string worker_names(const forms::StatedKernelPlan& plan);

// What `kernels simulate` takes of a KernelPlan (JSON).
struct PlannedUnits {
  std::string gpu;
  int atom = 1;
  std::string workers;                  // as for --workers: "b#2" is a second b
  std::vector<std::vector<int>> units;  // per worker and kernel
};

// Units that a mask on its GPU can have. Refused with FILE:LINE.
Result<PlannedUnits> parse_kernel_plan(const std::string& file, std::string_view text);

}  // namespace partita::cli
