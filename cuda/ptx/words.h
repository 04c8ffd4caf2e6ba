// Words of PTX for types and state spaces, both ways.
#pragma once

#include <string>
#include <string_view>

#include "ptx/module.h"

namespace partita::ptx {

// The type of a word without its dot ("f32"); none for any other word. Handles of textures,
// samplers and surfaces are 64 bits.
Type type_of(std::string_view word);
// "global", "const", ...; empty for none.
std::string_view space_word(Space space);
// reg, const, global, local, param, shared; none for any other word.
Space space_of(std::string_view word);

}  // namespace partita::ptx
