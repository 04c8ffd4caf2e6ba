// Where a node's gateway may hand requests over to, by the shares of a fleet's plan. Pure.
#pragma once

#include <string>

#include "act/gateway_peers.h"
#include "fleet/brain/status.h"

namespace partita::fleet {

// The gateways of all nodes but `node` that are there and have an address, with the services of
// which they get some requests; the shares are the fleet's, so they sum to 1 less what `node` gets.
// A service that no node is said to carry stays where it was by `before`, beside where it is to be:
// a node that the store does not hear may serve on. So does all of it where no services are known.
actuate::GatewayPeers peers_of(const FleetStatus& status, const std::string& node,
                               const actuate::GatewayPeers& before);

}  // namespace partita::fleet
