#include "control/own_rates.h"

#include <algorithm>

#include "base/check.h"

namespace partita::control {
namespace {

constexpr double kRounding = 1e-9;  // of a rate

std::vector<double> rates_of(const std::vector<plan::Service>& services) {
  std::vector<double> rates;
  for (const plan::Service& one : services) rates.push_back(one.rate.value);
  return rates;
}

}  // namespace

std::vector<StepRequests> step_requests(const std::vector<plan::Service>& services) {
  std::vector<StepRequests> all;
  for (std::size_t p = 0; p < services.size(); ++p) {
    if (!services[p].pipeline) continue;
    const auto graph = plan::graph_of(*services[p].pipeline);
    CHECK(graph.has_value());
    for (std::size_t s = 0; s < graph->requests.size(); ++s) {
      const auto step =
          std::ranges::find(services, services[p].pipeline->steps[s].service, &plan::Service::name);
      if (step == services.end()) continue;
      all.push_back({static_cast<std::size_t>(step - services.begin()), p, graph->requests[s]});
    }
  }
  return all;
}

std::vector<double> own_rates(const std::vector<plan::Service>& services,
                              std::vector<double> rates) {
  const std::vector<double> whole = rates;
  for (const StepRequests& one : step_requests(services))
    rates[one.step] -= whole[one.pipeline] * one.requests;
  for (std::size_t s = 0; s < services.size(); ++s)
    if (services[s].member || rates[s] <= whole[s] * kRounding) rates[s] = 0;
  return rates;
}

std::vector<double> whole_rates(const std::vector<plan::Service>& services,
                                std::vector<double> own) {
  for (const StepRequests& one : step_requests(services))  // no step is a pipeline
    own[one.step] += own[one.pipeline] * one.requests;
  return own;
}

std::vector<plan::Service> at_whole_rates(std::vector<plan::Service> services) {
  const std::vector<double> rates = whole_rates(services, rates_of(services));
  for (std::size_t s = 0; s < services.size(); ++s) services[s].rate = Rps{rates[s]};
  return services;
}

}  // namespace partita::control
