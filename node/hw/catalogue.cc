#include "hw/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/check.h"
#include "base/nearest.h"
#include "base/unicode.h"
#include "hw/cpu_units.h"

namespace partita::hw {
namespace {

// {file name, content} of every data/gpus/*.json, written by CMakeLists.txt. A file is named like
// its model.
constexpr std::pair<std::string_view, std::string_view> kShippedFiles[] = {
#include "builtin_gpus.inc"
};

constexpr std::size_t kNearestNames = 3;

// The models that a name stands for: the one with that name, or all whose names begin with it and a
// dash. Both in lower case.
std::vector<const GpuModel*> named(const std::vector<GpuModel>& gpus, const std::string& wanted) {
  std::vector<const GpuModel*> begun;
  for (const GpuModel& gpu : gpus) {
    const std::string name = lower_case(gpu.name);
    if (name == wanted) return {&gpu};
    if (name.starts_with(wanted + "-")) begun.push_back(&gpu);
  }
  return begun;
}

GpuModel parsed(std::string_view file, std::string_view text) {
  auto gpu = parse_gpu_model(std::string(file), text);
  CHECK(gpu.has_value());
  return *std::move(gpu);
}

}  // namespace

const GpuModel* Catalogue::find(std::string_view name) const {
  const std::vector<const GpuModel*> found = named(gpus, lower_case(name));
  return found.size() == 1 ? found.front() : cpu_units(name);
}

Result<const GpuModel*> Catalogue::get(std::string_view name) const {
  const std::vector<const GpuModel*> found = named(gpus, lower_case(name));
  if (found.size() == 1) return found.front();
  if (const GpuModel* cpus = cpu_units(name)) return cpus;
  std::string names;
  const auto list = [&names](const std::string& known) {
    names += (names.empty() ? "" : ", ") + known;
  };
  if (!found.empty()) {
    for (const GpuModel* gpu : found) list(gpu->name);
    return bad_input("", fmt::format("GPU model '{}' may be any of {}", name, names));
  }
  const std::string wanted = lower_case(name.substr(0, kMaxWordBytes));
  std::vector<std::pair<std::size_t, std::string>> nearest;
  for (const GpuModel& gpu : gpus)
    nearest.emplace_back(edits(wanted, lower_case(gpu.name)), gpu.name);
  std::ranges::sort(nearest);
  nearest.resize(std::min(nearest.size(), kNearestNames));
  for (const auto& [distance, known] : nearest) list(known);
  return bad_input("",
                   fmt::format("unknown GPU model '{}'; the nearest names are {}", name, names));
}

const Catalogue& builtin_catalogue() {
  static const Catalogue catalogue = [] {
    Catalogue shipped;
    for (const auto& [file, text] : kShippedFiles) shipped.gpus.push_back(parsed(file, text));
    std::ranges::sort(shipped.gpus, {}, &GpuModel::name);
    return shipped;
  }();
  return catalogue;
}

Result<GpuModel> builtin_model(std::string_view name) {
  const std::string wanted = lower_case(name);
  for (const auto& [file, text] : kShippedFiles)
    if (lower_case(file) == "data/gpus/" + wanted + ".json") return parsed(file, text);
  const GpuModel* found = TRY(builtin_catalogue().get(name));
  return *found;
}

}  // namespace partita::hw
