// `partita demo serve` and `partita demo llm`: the whole circle on this machine's own cores, with
// real models and requests; of language models, with a real engine.
#pragma once

#include "context.h"

namespace partita::cli {

// Add the subcommands to `demo`.
Command add_demo_serve(CLI::App& demo);
Command add_demo_llm(CLI::App& demo);
// `partita demo models DIR`: small ONNX models to try the serving side with.
Command add_demo_models(CLI::App& demo);

}  // namespace partita::cli
