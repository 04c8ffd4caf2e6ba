// Where the ops of a kernel lead: whether lanes that an exchange of the warp names went on without
// having come to it.
#pragma once

#include <cstdint>

#include "ptx/program.h"

namespace partita::ptx {

// Lanes waited at op `exchange` of the kernel for others that were at op `at` then, and that have
// ended since. Whether those did what all do who leave the exchange behind, so that they did not
// return before it. Who left a loop around the exchange may have returned from within: no.
bool went_on(const Program& program, std::uint32_t exchange, std::uint32_t at);

}  // namespace partita::ptx
