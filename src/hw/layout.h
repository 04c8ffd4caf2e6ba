// Layouts: which sets of placements may exist on one GPU at the same time.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "hw/gpu_model.h"

namespace partita::hw {

// An instance at a place: index into GpuModel::profiles and start in memory slices.
struct PlacedProfile {
  int profile = 0;
  int start = 0;
  auto operator<=>(const PlacedProfile&) const = default;
};

using Layout = std::vector<PlacedProfile>;  // sorted by start, then profile

// Why a set of placements cannot exist: which rule, which instance(s) of the input, how much is there and needed.
struct Conflict {
  // "unknown_profile", "illegal_start", "memory_slices" (overlap), "compute_slices" (sum over the GPU),
  // "max_instances", "media_engines"
  std::string constraint;
  int first = -1, second = -1;  // indices into the input
  double have = 0, need = 0;
  bool operator==(const Conflict&) const = default;
};

// All conflicts of a set of placements on an empty GPU; empty means the layout is legal.
std::vector<Conflict> conflicts(const GpuModel& gpu, const std::vector<PlacedProfile>& placed);

// All maximal layouts (no further instance of an allowed profile fits) from the profiles listed (indices into
// gpu.profiles), each sorted, the list sorted. A100 with its five plain profiles: 19.
std::vector<Layout> maximal_layouts(const GpuModel& gpu, const std::vector<int>& profiles);

// Indices of the plain profiles, ascending gpcs.
std::vector<int> plain_profiles(const GpuModel& gpu);

}  // namespace partita::hw
