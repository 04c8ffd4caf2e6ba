#include "hw/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/check.h"
#include "base/nearest.h"

namespace partita::hw {
namespace {

// {file name, content} of every data/gpus/*.json, written by CMakeLists.txt.
constexpr std::pair<std::string_view, std::string_view> kShippedFiles[] = {
#include "builtin_gpus.inc"
};

constexpr std::size_t kNearestNames = 3;

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

}  // namespace

const GpuModel* Catalogue::find(std::string_view name) const {
  const auto same = [&](const GpuModel& gpu) { return lower_case(gpu.name) == lower_case(name); };
  const auto found = std::ranges::find_if(gpus, same);
  return found == gpus.end() ? nullptr : &*found;
}

Result<const GpuModel*> Catalogue::get(std::string_view name) const {
  if (const GpuModel* gpu = find(name)) return gpu;
  const std::string wanted = lower_case(name.substr(0, kMaxWordBytes));
  std::vector<std::pair<std::size_t, std::string>> nearest;
  for (const GpuModel& gpu : gpus)
    nearest.emplace_back(edits(wanted, lower_case(gpu.name)), gpu.name);
  std::ranges::sort(nearest);
  nearest.resize(std::min(nearest.size(), kNearestNames));
  std::string names;
  for (const auto& [distance, known] : nearest) names += (names.empty() ? "" : ", ") + known;
  return bad_input("",
                   fmt::format("unknown GPU model '{}'; the nearest names are {}", name, names));
}

const Catalogue& builtin_catalogue() {
  static const Catalogue catalogue = [] {
    Catalogue shipped;
    for (const auto& [file, text] : kShippedFiles) {
      auto gpu = parse_gpu_model(std::string(file), text);
      CHECK(gpu.has_value());
      shipped.gpus.push_back(*std::move(gpu));
    }
    std::ranges::sort(shipped.gpus, {}, &GpuModel::name);
    return shipped;
  }();
  return catalogue;
}

}  // namespace partita::hw
