// `partita demo models DIR`: small ONNX models to try the serving side with.
#pragma once

#include "context.h"

namespace partita::cli {

// Adds the subcommand to `demo`.
Command add_demo_models(CLI::App& demo);

}  // namespace partita::cli
