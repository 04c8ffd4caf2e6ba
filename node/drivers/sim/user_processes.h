// The processes of this computer that use devices of a simulated machine: real programs say so with
// CUDA_VISIBLE_DEVICES. Limits: sees what /proc lets this user read, and the environment that a
// program was started with, not what it changed afterwards.
#pragma once

#include <vector>

#include "drivers/sim/machine.h"

namespace partita::drivers::sim {

// Every live process but this one whose CUDA_VISIBLE_DEVICES has UUIDs of GPUs or MIG devices in
// it, by pid. Zombies use nothing.
std::vector<ObservedProcess> user_processes();

}  // namespace partita::drivers::sim
