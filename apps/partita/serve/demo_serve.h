// `partita demo serve`: the whole circle on this machine's own cores, with real models and
// requests.
#pragma once

#include "context.h"

namespace partita::cli {

// Adds the subcommand to `demo`.
Command add_demo_serve(CLI::App& demo);

}  // namespace partita::cli
