// Where a node's gateway may hand requests over to, by the shares of a fleet's plan. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "act/gateway_peers.h"
#include "fleet/brain/status.h"

namespace partita::fleet {

// The gateways of all nodes but `node` that are there and have an address, with the services of
// which they get some requests; the shares are the fleet's, so they sum to 1 less what `node` gets.
// A service that no node is said to carry stays where it was by `before`, beside where it is to be:
// a node that the store does not hear may serve on. So does all of it where no services are known.
actuate::GatewayPeers peers_of(const FleetStatus& status, const std::string& node,
                               const actuate::GatewayPeers& before);

// The same of all nodes, by node, as a leader writes it for the others; a node's value is of its
// peer alone. Shares are of a power of two, not of the sum: where one node carries more, the
// values of others stay as they are.
using NodePeers = std::map<std::string, actuate::GatewayPeers>;
NodePeers node_peers(FleetStatus status, const NodePeers& before);
// What of it a node's gateway is told, of these services. Where nothing is written of a service,
// it stays where it was by `before`: a store that has lost everything sends nobody away.
actuate::GatewayPeers peers_of(const NodePeers& all, const std::vector<std::string>& wanted,
                               const std::string& node, const actuate::GatewayPeers& before);

}  // namespace partita::fleet
