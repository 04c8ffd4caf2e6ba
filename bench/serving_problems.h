// Problems that the planners' benchmarks plan: services over the shipped laws of one GPU model.
#pragma once

#include <string>
#include <vector>

#include "base/rng.h"
#include "base/source_text.h"
#include "forms/serving_forms.h"
#include "hw/catalogue.h"
#include "profile/law.h"

namespace partita {

// Without services.
inline plan::ServingProblem empty_problem() {
  const std::string name = "data/profiles/a100-80gb.json";
  const auto laws = profile::parse_laws(name, source_text(name));
  plan::ServingProblem problem;
  plan::FleetEntry entry;
  entry.gpu = *hw::builtin_catalogue().find("A100-80GB");
  entry.profiles = *profile::table_from_laws(*laws, entry.gpu);
  problem.fleet.push_back(entry);
  problem.rule = {plan::SloRule::Kind::execution, 0.45};
  return problem;
}

// The services of S1 .. S6, each so many times.
inline plan::ServingProblem scenario(int number, int copies) {
  const std::string name = "data/scenarios/s" + std::to_string(number) + ".yaml";
  plan::ServingProblem problem = empty_problem();
  const auto services = *forms::parse_services(name, source_text(name));
  for (int copy = 0; copy < copies; ++copy)
    for (plan::Service service : services) {
      service.name += "-" + std::to_string(copy);
      problem.services.push_back(service);
    }
  return problem;
}

// So many services at random rates up to the largest.
inline plan::ServingProblem random_problem(int services, double largest_rate) {
  plan::ServingProblem problem = empty_problem();
  std::vector<std::string> models;
  for (const auto& [name, profile] : problem.fleet[0].profiles) models.push_back(name);
  Rng rng(1);
  for (int s = 0; s < services; ++s) {
    plan::Service service;
    service.model = models[rng.below(models.size())];
    service.name = service.model + "-" + std::to_string(s);
    const bool slow = service.model == "bert";
    service.rate = Rps{1 + largest_rate * rng.uniform() / (slow ? 5 : 1)};
    service.slo = Millis{(50 + 400 * rng.uniform()) * (slow ? 15 : 1)};
    problem.services.push_back(service);
  }
  return problem;
}

}  // namespace partita
