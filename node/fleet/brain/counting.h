// How a fleet is counted: what services need, what nodes count as, which GPUs there are. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fleet/brain/node_planner.h"
#include "fleet/brain/view.h"

namespace partita::fleet {

constexpr double kTiny = 1e-6;  // of a rate, relative: that does not count

// What a service needs: its rate in the file, or by what arrived lately at all gateways, on steps
// of a tenth.
double need_of(const plan::Service& service, double arrived_rps);

// The rate missing of a service that nodes carry like this, and that shall be so after any one
// domain is lost. `by_domain`: rates.
double missing_of(double need_rps, const std::map<std::string, double>& by_domain, bool survive);
// What a node counts as, where so much may be lost at once. `feeds`: feeds_of the tree of power.
std::string domain_of(const NodeRecord& node, Survive survive,
                      const std::map<std::string, std::string>& feeds);
// No node says the rack, zone or feed that may be lost, a sentence; empty: some do.
std::string why_own_domains(const FleetView& view);
// Refuses, as FILE:LINE, a service that no GPU of the fleet could carry, whatever else is on it.
// Where profiles of one of its GPU models are not known, or it has no nodes and none are, nothing
// is refused.
Result<void> check_carriable(const FleetGround& ground, const FleetView& view,
                             const std::vector<plan::Service>& services, const std::string& file);
// Models of GPUs that nodes have for services, sorted.
std::vector<std::string> gpu_models(const FleetView& view);
// Why a node gets more only where no other has room: its GPUs draw nearly all of their budget.
// Empty: it does not come last.
std::string why_last(const FleetView& view, const std::string& node);

}  // namespace partita::fleet
