// Several PTX modules as one, as a linker of device code makes them.
#pragma once

#include <string_view>

#include "base/result.h"
#include "ptx/module.h"

namespace partita::ptx {

// Parses a text that may hold several modules, each from its own .version on, one behind the other.
// What one declares and another defines is that one's; what only its own module sees stays its own
// where names meet; a second definition that all see is left out where it is a function (as with
// inline ones) and bad_input where it is a variable with another size. What kernels need to launch
// kernels is added where they do. Lines count through the whole text.
Result<Module> parse_linked(std::string_view text, std::string_view name = "ptx");

}  // namespace partita::ptx
