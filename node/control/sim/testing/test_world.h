// The node that tests of simulated weeks play on: A100-80GB with the shipped laws.
#pragma once

#include <string>
#include <utility>

#include "base/check.h"
#include "base/source_text.h"
#include "control/sim/sim_weeks.h"
#include "profile/law.h"

namespace partita::control {

inline const plan::FleetEntry& a100_of_tests() {
  static const plan::FleetEntry entry = [] {
    const hw::GpuModel& gpu = *hw::builtin_catalogue().find("A100-80GB");
    const auto laws =
        profile::parse_laws("a100-80gb.json", source_text("data/profiles/a100-80gb.json"));
    CHECK(laws.has_value());
    auto table = profile::table_from_laws(*laws, gpu);
    CHECK(table.has_value());
    return plan::FleetEntry{gpu, *std::move(table), {}, 1};
  }();
  return entry;
}

// Automatic, a look every minute, no trouble.
inline WeeksOptions weeks_of_tests(const std::string& name, int gpus, int days, std::uint64_t seed,
                                   std::string services_text) {
  const hw::Catalogue& catalogue = hw::builtin_catalogue();
  WeeksOptions options{
      .world = {name, {}, catalogue, {a100_of_tests()}, {}, plan::kDefaultMaxProcesses},
      .services_text = std::move(services_text),
      .machine = drivers::sim::Machine({{catalogue.find("A100-80GB"), gpus, true}}, name),
      .days = days,
      .seed = seed};
  options.world.settings.mode = Mode::automatic;
  options.world.settings.look_s = 60;
  return options;
}

}  // namespace partita::control
