#include "act/lent.h"

namespace partita::actuate {

std::vector<const device::Instance*> lent_against(const device::GpuState& gpu,
                                                  const hw::GpuModel& model,
                                                  std::vector<hw::PlacedProfile> placed) {
  std::vector<const device::Instance*> found;
  if (placed.empty()) return found;
  for (const device::Instance& one : gpu.instances) {
    if (!one.lent()) continue;
    placed.push_back({model.profile_index(one.profile), one.start});
    if (hw::conflicts(model, placed).empty()) continue;
    placed.pop_back();
    found.push_back(&one);
  }
  return found;
}

}  // namespace partita::actuate
