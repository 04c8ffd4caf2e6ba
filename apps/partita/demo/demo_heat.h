// The part of the demo about heat: a chip of our own making at work, and its map as a picture.
#pragma once

#include <string>

#include "context.h"

namespace partita::cli {

// The steady state of the chip under the first sample of its trace; the map goes to `picture`.
Result<void> show_heat(Context& context, const std::string& picture);

}  // namespace partita::cli
