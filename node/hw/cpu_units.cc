#include "hw/cpu_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/parse_number.h"
#include "base/unicode.h"

namespace partita::hw {
namespace {

constexpr int kDoubleMemory = 9;  // the NVML number that means more than a size

// Sizes above four units are those that people give to servers: layouts are counted in powers of 2.
bool offered(int units, int all) { return units <= 4 || units == all || units % 4 == 0; }

MigProfile profile_of(int units, int all) {
  MigProfile profile;
  profile.name = fmt::format("{}u", units);
  profile.nvml_enum = units < kDoubleMemory ? units : units + 1;
  profile.profile_id = profile.gpcs = profile.size = units;
  profile.max_instances = all / units;
  profile.name_mark = profile.id_mark = Certainty::A;
  profile.placement_mark = profile.max_mark = Certainty::A;
  for (int start = 0; start + units <= all; ++start) profile.starts.push_back(start);
  return profile;
}

GpuModel model_of(int units) {
  GpuModel model{.name = fmt::format("CPU-{}", units),
                 .nvml_names = {fmt::format("CPU-{}", units)},
                 .architecture = "cpu",
                 .total_sms = {},
                 .total_memory = {},
                 .memory_slices = units,
                 .compute_slices = units,
                 .profiles = {},
                 .reconfiguration = {},
                 .reconfiguration_source = "nothing is created: workers are pinned",
                 .sources = {"Partita: a unit is a core"},
                 .notes = {}};
  for (int size = 1; size <= units; ++size) {
    if (!offered(size, units)) continue;
    model.profiles.push_back(profile_of(size, units));
    model.reconfiguration.push_back({.gpcs = size, .create = {}, .destroy = {}});
  }
  return model;
}

}  // namespace

const GpuModel* cpu_units(std::string_view name) {
  static const std::array<GpuModel, kMaxSlices> models = [] {
    std::array<GpuModel, kMaxSlices> made;
    for (int units = 1; units <= kMaxSlices; ++units)
      made.at(static_cast<std::size_t>(units - 1)) = model_of(units);
    return made;
  }();
  const int units = cpu_unit_count(name);
  if (units < 1 || units > kMaxSlices) return nullptr;
  return &models.at(static_cast<std::size_t>(units - 1));
}

int cpu_unit_count(std::string_view name) {
  constexpr std::string_view kPrefix = "cpu-";
  constexpr std::size_t kMostDigits = 6;
  if (name.size() > kPrefix.size() + kMostDigits) return 0;
  const std::string lower = lower_case(name);
  if (!lower.starts_with(kPrefix)) return 0;
  return std::max(parse_number<int>(std::string_view(lower).substr(kPrefix.size())).value_or(0), 0);
}

}  // namespace partita::hw
