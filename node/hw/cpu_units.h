// A machine without a GPU, planned like one: "CPU-4" is a "GPU" of four units, a unit is a core, an
// instance of k units ("2u") is k cores that its workers are pinned to. Any cores that lie beside
// each other may form an instance. Not in Catalogue::gpus, since no vendor sells it; known by name
// wherever a GPU model is.
#pragma once

#include <string_view>

#include "hw/gpu_model.h"

namespace partita::hw {

// "CPU-1" .. "CPU-16" (kMaxSlices), whatever the case of its letters; null for every other name.
const GpuModel* cpu_units(std::string_view name);

// The units of such a name, also of more than a model has; 0 of every other name.
int cpu_unit_count(std::string_view name);

}  // namespace partita::hw
