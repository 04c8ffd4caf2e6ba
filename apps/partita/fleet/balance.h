// export --to haproxy|nginx|envoy: a fleet's balancers, from what its store or its status says,
// once or again whenever it changes.
#pragma once

#include <string>

#include "context.h"
#include "fleet/fleet_place.h"
#include "interop/balancer.h"

namespace partita::cli {

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
