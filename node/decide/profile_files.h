// Profiles and laws on the Files door: what PATH holds, as measurements or as laws, and the GPU
// that it is about. Refusals name the flag.
#pragma once

#include <optional>
#include <string>

#include "base/files.h"
#include "hw/catalogue.h"
#include "profile/law.h"
#include "profile/workload_profile.h"

namespace partita::decide {

struct ProfileNames {
  std::string path;
  std::string gpu, model;   // --gpu, --model
  std::string measured_on;  // the GPU of the measurements where it is not --gpu
  std::string catalogue;
};

// The GPU model of that name; the refusal names `flag`.
Result<hw::GpuModel> load_gpu(Files& files, const ProfileNames& names, const std::string& flag,
                              const std::string& name);
// The laws in PATH, or nothing when it holds measurements.
Result<std::optional<profile::PerformanceLaws>> load_laws(Files& files, const std::string& path);
// The profiles of PATH. Laws are applied to --gpu, or to the GPU that they were fitted on.
Result<profile::ProfileTable> load_table(Files& files, const ProfileNames& names);
// The one of --model.
Result<profile::WorkloadProfile> chosen_profile(const ProfileNames& names,
                                                const profile::ProfileTable& table);
// The law of --model alone, with the GPU model on which it was learned: read from PATH, or fitted
// to the measurements in it.
Result<profile::PerformanceLaws> load_law(Files& files, const ProfileNames& names);

}  // namespace partita::decide
