#include "fleet/brain/member.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/terminal.h"

namespace partita::fleet {

double stays_elsewhere(const FleetView& view, const std::string& service, const std::string& node) {
  double all = 0;
  for (const auto& [name, other] : view.nodes) {
    const auto is = std::ranges::find(other.carries, service, &Carried::service);
    if (name == node || is == other.carries.end()) continue;
    const auto part = view.parts.find(name);
    double stays = is->rate_rps;
    if (part != view.parts.end()) {
      const Rates rates = rates_of(part->second);
      const auto rate = rates.find(service);
      stays = rate == rates.end() ? 0 : std::min(stays, rate->second);
    }
    all += stays;
  }
  return all;
}

MemberWord look_at_part(const FleetView& view, const std::string& node, long taken) {
  const auto found = view.parts.find(node);
  if (found == view.parts.end() || found->second.revision <= taken) return {};
  for (const Wait& wait : found->second.waits_for) {
    const auto other = view.nodes.find(wait.node);
    if (other == view.nodes.end())
      return {nullptr, fmt::format("{} must have carried out revision {} first, and is not there",
                                   wait.node, wait.revision)};
    if (other->second.ready < wait.revision)
      return {nullptr, fmt::format("{} must have carried out revision {} first, and has {}",
                                   wait.node, wait.revision, other->second.ready)};
  }
  for (const Carried& one : found->second.elsewhere)
    if (const double is = stays_elsewhere(view, one.service, node); is < one.rate_rps)
      return {nullptr, fmt::format("other nodes must carry {} req/s of {} first, and go on with {}",
                                   number_text(one.rate_rps), one.service, number_text(is))};
  return {&found->second, {}};
}

}  // namespace partita::fleet
