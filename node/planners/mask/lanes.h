// Masks of whole atoms, and the lanes of a plan: one mask per worker and number of units that its
// kernels use, made before the run. Pure.
#pragma once

#include <vector>

#include "hw/topology.h"
#include "plan/kernels.h"
#include "planners/mask/masks.h"

namespace partita::planners::mask {

// As allocate() of masks.h, where only whole atoms of `atom` units can be masked: the units asked
// for are rounded up to atoms, the overlap limit down, and an atom is as busy as its busiest unit.
// More units than atoms hold are the whole GPU, where the overlap limit allows that. Units are
// numbered as the topology's. Needs a cluster with an atom in it.
Grant allocate_atoms(const hw::Topology& topology, int atom, const Busy& busy,
                     const Request& request);

// The lanes of workers whose kernels have these numbers of units (each of hw::mask_sizes): as few
// clusters as hold them (conserved), a worker's greater lanes around its smaller ones, and where
// others run the fewest of their kernels. Two workers on 4 x 15 units get what ECLIP gives them:
// clusters 0, 0+2, 0+2+3 and 1, 1+3, 1+2+3. On several dies every lane has equal shares of all.
// All units are the GPU without a mask. By worker, then
// units.
plan::Lanes plan_lanes(const hw::Topology& topology, int atom,
                       const std::vector<std::vector<int>>& units);

}  // namespace partita::planners::mask
