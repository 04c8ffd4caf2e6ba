// Media engines of instances and GPUs. They are a resource of their own: an instance takes its
// share of the engines that the whole GPU has. So +me, which brings the single optical-flow (on A30
// also JPEG) engine, exists once, and beside +me.all, which takes them all, only -me fits. Copy
// engines grow with the slices and never decide.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "hw/gpu_model.h"

namespace partita::hw {

inline constexpr std::array<std::string_view, 4> kMediaNames = {"decode", "encode", "jpeg",
                                                                "optical-flow"};
using Media = std::array<int, kMediaNames.size()>;  // in that order

// Of an instance; none where nobody knows them.
Media media_of(const MigProfile& profile);
// Of the whole GPU, those of an instance that covers it; absent where no such instance is known.
std::optional<Media> media_capacity(const GpuModel& gpu);

}  // namespace partita::hw
