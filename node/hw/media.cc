#include "hw/media.h"

namespace partita::hw {

Media media_of(const MigProfile& profile) {
  if (profile.engine_mark == Certainty::U) return {};
  const Engines& e = profile.engines;
  return {e.decode, e.encode, e.jpeg, e.optical_flow};
}

std::optional<Media> media_capacity(const GpuModel& gpu) {
  for (const MigProfile& profile : gpu.profiles)
    if (profile.size == gpu.memory_slices && profile.engine_mark != Certainty::U)
      return media_of(profile);
  return std::nullopt;
}

}  // namespace partita::hw
