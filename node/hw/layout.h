// Layouts: which sets of placements may exist on one GPU at the same time.
//
// Rules: legal starts, no memory slice twice, compute slices add up, max_instances per profile, and
// media engines add up to those of the whole GPU (so +me exists once per GPU and +me.all leaves
// room for -me only). Limits: enumeration is exponential in the slices, which the catalogue bounds
// by kMaxSlices.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "hw/gpu_model.h"

namespace partita::hw {

// An instance's profile, by its name on its GPU's model, and its start in memory slices.
struct Placement {
  std::string profile;
  int start = 0;
  bool operator==(const Placement&) const = default;
};

// An instance at a place: index into GpuModel::profiles and start in memory slices.
struct PlacedProfile {
  int profile = 0;
  int start = 0;
  auto operator<=>(const PlacedProfile&) const = default;
};

using Layout = std::vector<PlacedProfile>;  // sorted by start, then profile

// Why a set of placements cannot exist: which rule, which instance(s) of the input, how much is
// there and needed.
struct Conflict {
  // "unknown_profile", "illegal_start", "memory_slices" (overlap), "compute_slices" (sum over the
  // GPU), "max_instances", "media_engines"
  std::string constraint;
  // Indices into the input; -1 where the rule is about the GPU. memory_slices: `second` wants
  // slices `first` holds.
  int first = -1, second = -1;
  // illegal_start: the start and the nearest legal one. memory_slices: 0 and the slices shared.
  // Else what the GPU offers and what the input adds up to.
  double have = 0, need = 0;
  bool operator==(const Conflict&) const = default;
};

// All conflicts of a set of placements on an empty GPU; empty means the layout is legal. Instances
// at illegal starts hold no slices. A few conflicts per instance at most, however many are given.
std::vector<Conflict> conflicts(const GpuModel& gpu, const std::vector<PlacedProfile>& placed);

// All maximal layouts (no further instance of an allowed profile fits) from the profiles listed
// (indices into gpu.profiles), each sorted, the list sorted by the same (start, profile) order.
// A100 with its five plain profiles: 19.
std::vector<Layout> maximal_layouts(const GpuModel& gpu, const std::vector<int>& profiles);

// Indices of the plain profiles, ascending gpcs.
std::vector<int> plain_profiles(const GpuModel& gpu);

// ---- where to put one more instance

// What an instance of a profile that the model does not know takes.
struct Taken {
  int start = 0, size = 0, gpcs = 0;
  bool operator==(const Taken&) const = default;
};
// A GPU with what is on it.
struct Room {
  const GpuModel* gpu = nullptr;
  std::vector<PlacedProfile> placed = {};
  std::vector<Taken> others = {};
};

// An instance that could still be made, by what it is worth.
struct Shape {
  int gpcs = 0, size = 0;
  auto operator<=>(const Shape&) const = default;
};
// The largest plain shapes that can still be made beside each other, descending: of all sets that
// fit the one whose largest shape is largest, then its second ...; a set goes before its part.
std::vector<Shape> largest_shapes(const Room& room);

struct Spot {
  std::size_t room = 0;  // index
  int start = 0;
  bool operator==(const Spot&) const = default;
};
// Every legal place of an instance in rooms, `profile` of each being its index there (-1: not
// offered), the best first: the one after which the largest shapes of all rooms together are
// largest, compared as largest_shapes() does; then the lower room, then the lower start.
std::vector<Spot> best_spots(const std::vector<Room>& rooms, const std::vector<int>& profile);

}  // namespace partita::hw
