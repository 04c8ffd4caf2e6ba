// Simulations for people.
#pragma once

#include <string>

#include "sim/serving.h"

namespace partita::decide {

// A table of the services, then the slack of the GPUs, the seed and the log's hash.
std::string report_text(const plan::ServingProblem& problem, const sim::ServingReport& report,
                        const sim::ServingOptions& options);

// The same as a picture.
std::string report_svg(const plan::ServingProblem& problem, const sim::ServingReport& report,
                       const sim::ServingOptions& options);

// A share as a percentage that is rounded down, so that only a full share reads 100 %: "99.99 %".
std::string percent(double share);

}  // namespace partita::decide
