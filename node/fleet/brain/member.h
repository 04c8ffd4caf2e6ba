// Member: when a node takes its part: a newer one than it has, never an older one, and only when
// the nodes that must carry more first say that they do and others carry enough; without a store
// it has what it took. What it took outlives it (the caller keeps `taken`). Pure.
#pragma once

#include <optional>
#include <string>

#include "fleet/brain/view.h"

namespace partita::fleet {

// Why a part is not taken now; empty: it is, or there is none that is newer.
struct MemberWord {
  const Part* take = nullptr;  // of the view
  std::string waits;           // for whom, a sentence
};
MemberWord look_at_part(const FleetView& view, const std::string& node, long taken);

// Of a service what nodes but for this one carry and, by their newest parts, go on with.
double stays_elsewhere(const FleetView& view, const std::string& service, const std::string& node);

}  // namespace partita::fleet
