#include "fleet/brain/member.h"

#include <fmt/format.h>

namespace partita::fleet {
namespace {

constexpr double kOfItsRate = 1e-6;

// Null: it carries all of it.
const Carried* missing_at(const NodeRecord& node, const Wait& wait) {
  const Rates is = rates_of(node.carries);
  for (const Carried& one : wait.carries) {
    const auto rate = is.find(one.service);
    if (rate == is.end() || rate->second < one.rate_rps * (1 - kOfItsRate)) return &one;
  }
  return nullptr;
}

}  // namespace

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
    if (const Carried* missing = missing_at(other->second, wait))
      return {nullptr, fmt::format("{} must carry {:.4g} req/s of {} first, and does not",
                                   wait.node, missing->rate_rps, missing->service)};
  }
  return {&found->second, {}};
}

}  // namespace partita::fleet
