#include "fleet/fleet_place.h"

#include "base/split.h"
#include "flags.h"
#include "fleet/brain/view.h"

namespace partita::cli {

void add_fleet_flags(CLI::App& command, FleetFlags& flags) {
  flag(command, "--fleet", flags.endpoints);
  flag(command, "--fleet-name", flags.name);
}

Result<control::AgentFleet> settled_fleet(control::AgentFleet fleet, const FleetFlags& flags) {
  if (!flags.endpoints.empty()) {
    fleet.endpoints.clear();
    for (const auto& one : split(flags.endpoints, ',')) fleet.endpoints.emplace_back(one);
  }
  if (!flags.name.empty()) fleet.name = flags.name;
  TRY(fleet::parse_fleet_word("--fleet-name", fleet.name));
  return fleet;
}

Result<std::unique_ptr<fleet::EtcdStore>> open_fleet(Context& context,
                                                     const control::AgentFleet& fleet) {
  return fleet::EtcdStore::to(
      {.endpoints = fleet.endpoints,
       .tls = {.ca_file = fleet.ca, .certificate = fleet.certificate, .key = fleet.key},
       .user = fleet.user,
       .password_file = fleet.password_file},
      context.files, context.clock);
}

}  // namespace partita::cli
