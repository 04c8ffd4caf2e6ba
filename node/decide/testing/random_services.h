// Random services on the published A100 profiles, for programs that plan thousands of them. The
// same number gives the same service, and a pair differs in one wish only.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>

#include "base/rng.h"
#include "hw/catalogue.h"
#include "plan/serving.h"
#include "profile/testing/published.h"

namespace partita {

// Where services are drawn: anywhere; with an SLO of 1.02 to 4 times the fastest batch; with many
// instances of a point whose batch takes 1 / 1.1 to 1 / 1.6 of the SLO.
enum class Draw { anywhere, fast, tight };

inline std::optional<Draw> draw_of(const std::string& name) {
  if (name == "anywhere") return Draw::anywhere;
  if (name == "fast") return Draw::fast;
  if (name == "tight") return Draw::tight;
  return std::nullopt;
}

inline double fastest_batch(const profile::WorkloadProfile& profile) {
  double fastest = 1e9;
  for (const profile::ProfilePoint& point : profile.points)
    if (point.processes <= plan::kDefaultMaxProcesses)
      fastest = std::min(fastest, profile::batch_time(point).value);
  return fastest;
}

inline double rounded(double value, double digits) { return std::round(value * digits) / digits; }

inline plan::ServingProblem random_service(Draw draw, int number) {
  Rng rng(static_cast<std::uint64_t>(number) + 7000 + 1'000'000 * static_cast<std::uint64_t>(draw));
  plan::ServingProblem problem;
  problem.rule = plan::SloRule{};
  plan::FleetEntry entry;
  entry.gpu = *hw::builtin_catalogue().find("A100-80GB");
  entry.profiles = profile::published_profiles();
  auto model = entry.profiles.begin();
  std::advance(model, static_cast<long>(rng.below(entry.profiles.size())));
  constexpr std::array kPercentiles = {90.0, 95.0, 99.0, 99.9};
  plan::Service service;
  service.name = service.model = model->first;
  service.percentile = kPercentiles[rng.below(kPercentiles.size())];
  if (draw == Draw::tight) {
    const profile::ProfilePoint* point = nullptr;
    while (point == nullptr || point->processes > plan::kDefaultMaxProcesses)
      point = &model->second.points[rng.below(model->second.points.size())];
    const double room = 1.1 + 0.5 * rng.uniform();
    service.slo = Millis{rounded(room * profile::batch_time(*point).value, 1e3)};
    const double gpus = 3 * std::pow(10, rng.uniform());
    service.rate = Rps{rounded(gpus * 7 / point->gpcs * point->throughput.value, 1e3)};
  } else {
    const double most = draw == Draw::fast ? 4 : 30, least = draw == Draw::fast ? 1.02 : 1.05;
    service.rate = Rps{rounded(5 * std::pow(20'000 / 5.0, rng.uniform()), 1e3)};
    service.slo = Millis{
        rounded(least * fastest_batch(model->second) * std::pow(most / least, rng.uniform()), 1e3)};
  }
  problem.services.push_back(service);
  problem.fleet.push_back(std::move(entry));
  return problem;
}

// The same service with one wish, the SLO, the rate or the percentile, that asks for less.
inline plan::ServingProblem looser(plan::ServingProblem problem, int number) {
  Rng rng(static_cast<std::uint64_t>(number) + 70'000'000);
  plan::Service& service = problem.services[0];
  const double factor = 1 + 0.6 * rng.uniform() * rng.uniform();
  switch (rng.below(3)) {
    case 0:
      service.slo = Millis{rounded(service.slo.value * factor, 1e3)};
      break;
    case 1:
      service.rate = Rps{rounded(service.rate.value / factor, 1e3)};
      break;
    default:
      service.percentile = 100 - (100 - service.percentile) * factor;
      break;
  }
  return problem;
}

}  // namespace partita
