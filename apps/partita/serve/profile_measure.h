// `partita profile measure` and the forms of other profilers for `profile import`, kept apart from
// the commands that only read profiles.
#pragma once

#include "context.h"

namespace partita::cli {

// Adds the subcommand `measure` to `profile`.
Command add_profile_measure(CLI::App& profile);

}  // namespace partita::cli
