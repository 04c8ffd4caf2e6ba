// Which variable in shared memory the addresses in a register begin from, where all its definitions
// agree: so an access that leaves its variable for the next one can be told.
#pragma once

#include <cstdint>
#include <vector>

#include "ptx/function_frames.h"
#include "ptx/program.h"

namespace partita::ptx {

// By register of the frame's function; {0, ~0u} where nothing is known.
std::vector<ArrayBounds> shared_bases(const FunctionFrames& frames, const FunctionFrame& frame);

// Of a name; {0, ~0u} for dynamic memory, and where it is no variable in shared memory.
ArrayBounds bounds_of(const FunctionFrames& frames, const FunctionFrame& frame,
                      const std::string& name);

}  // namespace partita::ptx
