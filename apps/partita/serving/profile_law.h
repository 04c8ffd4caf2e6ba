// `partita profile law`: how well the law of token-level services says what was measured.
#pragma once

#include "context.h"

namespace partita::cli {

Command add_profile_law(CLI::App& profile);

}  // namespace partita::cli
