#include "act/layout_state.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace partita::actuate {

std::uint32_t slices_of(const Slot& slot) {
  return ((std::uint32_t{1} << slot.size) - 1) << slot.start;
}

void LayoutState::put(const Slot& slot) {
  Gpu& gpu = at(slot.gpu);
  gpu.present.push_back(slot);
  gpu.used |= slices_of(slot);
}

void LayoutState::take(const Slot& slot) {
  Gpu& gpu = at(slot.gpu);
  const auto found = std::find(gpu.present.begin(), gpu.present.end(), slot);
  CHECK(found != gpu.present.end());
  gpu.present.erase(found);
  gpu.used = 0;
  for (const Slot& other : gpu.present) gpu.used |= slices_of(other);
}

bool LayoutState::fits(const Slot& slot) const {
  if ((at(slot.gpu).used & slices_of(slot)) != 0) return false;
  return fits_without(slot, {});
}

bool LayoutState::fits_without(const Slot& slot, const std::vector<Slot>& without) const {
  const Gpu& gpu = at(slot.gpu);
  std::vector<hw::PlacedProfile> placed{slot};
  for (const Slot& other : gpu.present) {
    if (std::find(without.begin(), without.end(), other) != without.end()) continue;
    if ((slices_of(other) & slices_of(slot)) != 0) return false;
    if (other.profile >= 0) placed.push_back(other);
  }
  // What is there is there, legal or not: only rules that the new one breaks count.
  const std::vector<hw::PlacedProfile> before(placed.begin() + 1, placed.end());
  return hw::conflicts(*gpu.model, placed).size() == hw::conflicts(*gpu.model, before).size();
}

int LayoutState::free_slices(int gpu) const {
  return at(gpu).open ? at(gpu).model->memory_slices - std::popcount(at(gpu).used) : 0;
}

}  // namespace partita::actuate
