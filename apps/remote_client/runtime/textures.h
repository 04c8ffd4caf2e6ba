// Copies with arrays, for cudaMemcpy3D.
#pragma once

#include "abi.h"

namespace partita::remote::shim {

// One of both sides is an array: places in it, and the extent, are in its elements.
Status copy_space_with_arrays(const Copy3& copy, void* stream, bool later);

}  // namespace partita::remote::shim
