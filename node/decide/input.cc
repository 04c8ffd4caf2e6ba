#include "decide/input.h"

#include <fmt/format.h>

#include <algorithm>

namespace partita::decide {

Result<hw::Catalogue> load_catalogue(Files& files, const std::string& directory) {
  if (directory.empty()) return hw::builtin_catalogue();
  const std::string where = "--catalogue " + directory;
  const Result<std::vector<std::string>> names = files.list(directory);
  if (!names) return bad_input(where, names.error().message);
  hw::Catalogue catalogue;
  for (const std::string& name : *names) {
    if (!name.ends_with(".json")) continue;
    const std::string path = directory + "/" + name;
    hw::GpuModel gpu = TRY(read_input(files, "--catalogue", path, hw::parse_gpu_model));
    catalogue.gpus.push_back(std::move(gpu));
  }
  if (catalogue.gpus.empty()) return bad_input(where, "there is no .json file in it");
  std::sort(catalogue.gpus.begin(), catalogue.gpus.end(),
            [](const hw::GpuModel& a, const hw::GpuModel& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(
      catalogue.gpus.begin(), catalogue.gpus.end(),
      [](const hw::GpuModel& a, const hw::GpuModel& b) { return a.name == b.name; });
  if (twice != catalogue.gpus.end()) {
    return bad_input(where, fmt::format("GPU model '{}' is listed twice", twice->name));
  }
  return catalogue;
}

}  // namespace partita::decide
