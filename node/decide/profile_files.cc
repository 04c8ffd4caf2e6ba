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
  Result<PerformanceLaws> laws = profile::parse_laws(path, text);
  if (!laws) return failed(laws.error());
  return std::optional(std::move(*laws));
}

Result<ProfileTable> table_in(Files& files, const ProfileNames& names, const std::string& text) {
  const auto laws = laws_in(names.path, text);
  if (!laws) return failed(laws.error());
  if (!*laws) return profile::parse_native_csv(names.path, text);
  const Result<hw::GpuModel> gpu =
      load_gpu(files, names, "--gpu", names.gpu.empty() ? (*laws)->gpu_model : names.gpu);
  if (!gpu) return failed(gpu.error());
  return profile::table_from_laws(**laws, *gpu);
}

}  // namespace

Result<hw::GpuModel> load_gpu(Files& files, const ProfileNames& names, const std::string& flag,
                              const std::string& name) {
  const Result<hw::Catalogue> catalogue = load_catalogue(files, names.catalogue);
  if (!catalogue) return failed(catalogue.error());
  const Result<const hw::GpuModel*> gpu = catalogue->get(name);
  if (!gpu) return bad_input(flag, gpu.error().message);
  return **gpu;
}

Result<std::optional<PerformanceLaws>> load_laws(Files& files, const std::string& path) {
  if (files.is_directory(path)) return std::optional<PerformanceLaws>();
  const Result<std::string> text = read_input(files, "PATH", path);
  if (!text) return failed(text.error());
  return laws_in(path, *text);
}

Result<ProfileTable> load_table(Files& files, const ProfileNames& names) {
  if (files.is_directory(names.path))
    return load_profiles(files, "PATH", names.path, hw::GpuModel{});
  const Result<std::string> text = read_input(files, "PATH", names.path);
  if (!text) return failed(text.error());
  return table_in(files, names, *text);
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
  const Result<std::string> text = folder ? "" : read_input(files, "PATH", names.path);
  if (!text) return failed(text.error());
  const auto laws = laws_in(names.path, *text);
  if (!laws) return failed(laws.error());
  if (*laws) {
    std::vector<std::string> models;
    for (const PerformanceLaw& law : (*laws)->laws) {
      if (law.model == names.model)
        return PerformanceLaws{(*laws)->gpu_model, (*laws)->source, {law}};
      models.push_back(law.model);
    }
    return unknown_model(names.model, models);
  }
  const Result<ProfileTable> table =
      folder ? load_table(files, names) : table_in(files, names, *text);
  if (!table) return failed(table.error());
  const Result<WorkloadProfile> workload = chosen_profile(names, *table);
  if (!workload) return failed(workload.error());
  const bool same = names.measured_on.empty();
  const Result<hw::GpuModel> gpu = load_gpu(files, names, same ? "--gpu" : "--measured-on",
                                            same ? names.gpu : names.measured_on);
  if (!gpu) return failed(gpu.error());
  Result<PerformanceLaw> law = profile::fit(*workload, *gpu);
  if (!law) return failed(law.error());
  return PerformanceLaws{gpu->name, "", {*std::move(law)}};
}

}  // namespace partita::decide
