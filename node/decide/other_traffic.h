// Simulations under other traffic than the services declare: other arrivals, more or less of it, or
// what would be if a service had another rate. The plan stays the one that was judged.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "plan/serving.h"
#include "sim/serving.h"

namespace partita::decide {

// As people say it; what is left out stays as it is declared.
struct OtherTraffic {
  std::string arrivals;              // --arrivals: poisson, uniform, gamma:CV, or a file
  double load = 1;                   // --load: of all rates; > 0
  std::vector<std::string> what_if;  // --what-if: SERVICE=RATE, which is meant as it stands
};

// What a simulation is given.
struct PlayedTraffic {
  plan::ServingProblem problem;  // with the rates that are played
  sim::ServingOptions options;
};

// A file of arrivals with the columns time_s and service is played once, as it is at load 1; of any
// other the services take their rows, at their rates (forms/traffic_forms.h). Bad input names the
// flag, or FILE:LINE.
Result<PlayedTraffic> play(Files& files, plan::ServingProblem problem, const OtherTraffic& other,
                           sim::ServingOptions options);

}  // namespace partita::decide
