// Which GPU model of the catalogue a board is, and what the board says otherwise than the
// catalogue. Pure.
#pragma once

#include <string>
#include <vector>

#include "device/node_driver.h"
#include "hw/catalogue.h"

namespace partita::device {

// The catalogue entry of a board: by PCI device id, else by product name, of several the one with
// the nearest total memory; null when there is none.
const hw::GpuModel* recognise(const hw::Catalogue& catalogue, const GpuState& gpu);

// The catalogue's name of an instance profile of this id; empty when the model has none.
std::string profile_name(const hw::GpuModel& model, int profile_id);

// One sentence per figure in which the board differs from its catalogue entry: profiles missing on
// either side, names (known aliases do not count), ids, slices, starts, SMs, counts, and memory by
// more than the rounding of the listings that the catalogue was read off. What the catalogue does
// not know is no difference.
std::vector<std::string> differences(const hw::GpuModel& model,
                                     const std::vector<ProfileInfo>& board);

// A catalogue entry of the board as it tells about itself, for people to complete: a board does not
// tell its architecture, media engines and reconfiguration times, and without the times the entry
// is refused. Meaningless without profiles.
hw::GpuModel drafted(const GpuState& gpu, const std::vector<ProfileInfo>& board);

}  // namespace partita::device
