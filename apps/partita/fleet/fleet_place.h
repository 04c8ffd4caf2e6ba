// Where a command or an agent finds its fleet: etcd's endpoints and the fleet's name, by flags or
// by the key `fleet` of a settings file.
#pragma once

#include <memory>
#include <string>

#include "context.h"
#include "control/host/agent_file.h"
#include "fleet/etcd/etcd_store.h"
#include "interop/balancer.h"

namespace partita::cli {

struct FleetFlags {
  std::string endpoints, name;
};
void add_fleet_flags(CLI::App& command, FleetFlags& flags);

// Flags are stronger than the settings. bad_input: a name that is none.
Result<control::AgentFleet> settled_fleet(control::AgentFleet fleet, const FleetFlags& flags);
Result<std::unique_ptr<fleet::EtcdStore>> open_fleet(Context& context,
                                                     const control::AgentFleet& fleet);

// export --to haproxy|nginx|envoy: a fleet's balancers, from what its store or its status says,
// once or again whenever it changes.

struct BalanceFlags {
  std::string to, file;  // a document FleetStatus; empty: the store is asked
  FleetFlags place;
  std::string settings, reload, interval = "100ms";
  interop::BalancerOptions balancer;
  bool watch = false;
  Output output;
};

bool is_balancer(const std::string& form);
Result<Exit> run_balance(Context& context, const BalanceFlags& flags);

}  // namespace partita::cli
