// Placing: from how many instances of each profile to where they lie, for forms that have counts
// only. Exact search over hw::conflicts; deterministic. Limit: GPUs of the catalogue have at most a
// few thousand layouts.
#pragma once

#include <vector>

#include "base/result.h"
#include "interop/geometry.h"

namespace partita::interop {

// The legal layout with exactly counts[k] instances of profile k that leaves the most room: of all
// such layouts the one that still takes most further instances of the largest profile, then of the
// next smaller one, and so on; then the first in order of start and profile. Bad input without
// context when there is none, with the rule that forbids it.
Result<hw::Layout> roomiest_layout(const hw::GpuModel& model, const std::vector<int>& counts);

// Further instances of `profile` alone that fit beside a legal layout.
int room_for(const hw::GpuModel& model, const hw::Layout& layout, int profile);

}  // namespace partita::interop
