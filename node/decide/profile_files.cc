#include "decide/profile_files.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/nearest.h"
#include "decide/input.h"
#include "decide/serving_inputs.h"
#include "profile/fit.h"
#include "profile/readers.h"

namespace partita::decide {

using profile::PerformanceLaw;
using profile::PerformanceLaws;
using profile::ProfileTable;
using profile::WorkloadProfile;

namespace {

tl::unexpected<Error> unknown_model(const std::string& model,
                                    const std::vector<std::string>& models) {
  return bad_input("--model",
                   fmt::format("there is no profile of '{}'{} (there are {})", model,
                               did_you_mean(model, models), nearest_first(model, models)));
}

// The laws that a file holds; nothing where it is no JSON.
Result<std::optional<PerformanceLaws>> laws_in(const std::string& path, const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{') return std::optional<PerformanceLaws>();
  PerformanceLaws laws = TRY(profile::parse_laws(path, text));
  return std::optional(std::move(laws));
}

Result<ProfileTable> table_in(Files& files, const ProfileNames& names, const std::string& text) {
  const auto laws = TRY(laws_in(names.path, text));
  if (!laws) return profile::parse_native_csv(names.path, text);
  const hw::GpuModel gpu =
      TRY(load_gpu(files, names, "--gpu", names.gpu.empty() ? laws->gpu_model : names.gpu));
  return profile::table_from_laws(*laws, gpu);
}

}  // namespace

Result<hw::GpuModel> load_gpu(Files& files, const ProfileNames& names, const std::string& flag,
                              const std::string& name) {
  const hw::Catalogue catalogue = TRY(load_catalogue(files, names.catalogue));
  const Result<const hw::GpuModel*> gpu = catalogue.get(name);
  if (!gpu) return bad_input(flag, gpu.error().message);
  return **gpu;
}

Result<std::optional<PerformanceLaws>> load_laws(Files& files, const std::string& path) {
  if (files.is_directory(path)) return std::optional<PerformanceLaws>();
  const std::string text = TRY(read_input(files, "PATH", path));
  return laws_in(path, text);
}

Result<ProfileTable> load_table(Files& files, const ProfileNames& names) {
  if (files.is_directory(names.path))
    return load_profiles(files, "PATH", names.path, hw::GpuModel{});
  const std::string text = TRY(read_input(files, "PATH", names.path));
  return table_in(files, names, text);
}

Result<WorkloadProfile> chosen_profile(const ProfileNames& names, const ProfileTable& table) {
  const auto found = table.find(names.model);
  if (found != table.end()) return found->second;
  std::vector<std::string> models;
  for (const auto& [model, workload] : table) models.push_back(model);
  return unknown_model(names.model, models);
}

Result<PerformanceLaws> load_law(Files& files, const ProfileNames& names) {
  const bool folder = files.is_directory(names.path);
  const std::string text = TRY(folder ? "" : read_input(files, "PATH", names.path));
  const auto laws = TRY(laws_in(names.path, text));
  if (laws) {
    std::vector<std::string> models;
    for (const PerformanceLaw& law : laws->laws) {
      if (law.model == names.model) return PerformanceLaws{laws->gpu_model, laws->source, {law}};
      models.push_back(law.model);
    }
    return unknown_model(names.model, models);
  }
  const ProfileTable table = TRY(folder ? load_table(files, names) : table_in(files, names, text));
  const WorkloadProfile workload = TRY(chosen_profile(names, table));
  const bool same = names.measured_on.empty();
  const hw::GpuModel gpu = TRY(load_gpu(files, names, same ? "--gpu" : "--measured-on",
                                        same ? names.gpu : names.measured_on));
  PerformanceLaw law = TRY(profile::fit(workload, gpu));
  return PerformanceLaws{gpu.name, "", {std::move(law)}};
}

}  // namespace partita::decide
