#include "fleet/brain/member.h"

#include <fmt/format.h>

namespace partita::fleet {

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
  return {&found->second, {}};
}

}  // namespace partita::fleet
