// mig-parted's checkpoint (JSON, Version v1): the exact places of a node's instances by GPU UUID.
// `nvidia-mig-parted restore` clears every GPU it names and then creates them one by one. It has no
// GPU models and no services.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "interop/geometry.h"

namespace partita::interop {

// The checkpoint of these GPUs. Every slot must have a start. Bad input without context when a GPU
// has no UUID, or a profile a size of which mig-parted has no compute instance. Restoring compares
// GPUs by position, so `geometry` should hold every GPU of the node that can do MIG.
Result<std::string> checkpoint_json(const Geometry& geometry);

// Reads a checkpoint onto `boards`: by UUID; in file order where no board has a UUID, as on boards
// of which only the model is known. Refused with FILE:LINE: other versions, unknown fields, a GPU
// that no board is or that is listed twice, profile ids and places that the GPU does not have,
// instances with anything but one compute instance of their full size, places that cannot be taken
// together, instances while MIG is off.
Result<Geometry> parse_checkpoint(const std::string& file, std::string_view text,
                                  const std::vector<Board>& boards);

}  // namespace partita::interop
