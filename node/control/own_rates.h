// Rates of services that pipelines go through. What arrives at such a step is what its own clients
// ask for and what the pipelines make of their requests; only the clients' part is measured,
// forecast and decided on, and a step follows the pipelines that it is of. Pure functions; internal
// to control. Rates are per service, in the order of `services`, whose pipelines are graphs.
#pragma once

#include <vector>

#include "plan/serving.h"

namespace partita::control {

// So many requests of a step are made for one of a pipeline, on average.
struct StepRequests {
  std::size_t step = 0, pipeline = 0;  // places among the services
  double requests = 1;
};
std::vector<StepRequests> step_requests(const std::vector<plan::Service>& services);

// What clients ask for, of rates that have all: 0 for those that only pipelines ask for.
std::vector<double> own_rates(const std::vector<plan::Service>& services,
                              std::vector<double> rates);
// With what the pipelines make of theirs: own_rates(services, whole_rates(services, own)) is `own`.
std::vector<double> whole_rates(const std::vector<plan::Service>& services,
                                std::vector<double> own);
// Services at what they are of a moment, of own rates (forms::at_own_rates).
std::vector<plan::Service> at_whole_rates(std::vector<plan::Service> services);

}  // namespace partita::control
