// Random services of language models on published points, with lengths of Azure's traces of 2023 or
// lognormal ones, and promises that some engine keeps. For tests.
#pragma once

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "base/source_text.h"
#include "hw/catalogue.h"
#include "llm/engine/engines.h"
#include "llm/engine/workload.h"
#include "planners/serving/token_points.h"

namespace partita::llm_test {

inline plan::TokenTrace trace_of(const std::string& name) {
  const std::string file = "data/published/azure/llm-2023-" + name + ".csv";
  const auto read = llm::parse_token_trace(file, source_text(file));
  CHECK(read);
  return {.file = file,
          .requests = std::make_shared<const std::vector<plan::TracedRequest>>(*read)};
}

inline std::vector<plan::FleetEntry> published_fleets() {
  const std::string file = "data/published/llm/measured.csv";
  const auto points = llm::parse_points(file, source_text(file));
  CHECK(points);
  std::set<std::string> models;
  for (const llm::Measured& one : *points) models.insert(one.configuration.model);
  std::vector<plan::FleetEntry> all;
  for (const char* name : {"H100-80GB-SXM5", "H200-141GB", "B200-180GB"}) {
    all.push_back({*hw::builtin_model(name), {}, std::nullopt, 1});
    all.back().engines = llm::engines_of(*points, {.model = name}, models)->engines;
  }
  return all;
}

inline const std::vector<plan::FleetEntry>& fleets() {
  static const std::vector<plan::FleetEntry> kFleets = published_fleets();
  return kFleets;
}

class RandomService {
 public:
  explicit RandomService(std::uint64_t seed) : rng_(seed) {}

  plan::FleetEntry fleet() { return fleets()[rng_.below(fleets().size())]; }

  plan::Service service(const std::string& name, const plan::FleetEntry& fleet) {
    auto model = fleet.engines.begin();
    std::advance(model, rng_.below(fleet.engines.size()));
    plan::Service one;
    one.name = name;
    one.model = model->first;
    one.tokens = tokens();
    constexpr double kPercentiles[] = {90, 95, 99, 99, 99.5};
    one.percentile = kPercentiles[rng_.below(std::size(kPercentiles))];
    promise(one, model->second[rng_.below(model->second.size())]);
    return one;
  }

  // Every other service has Poisson's; traces are Azure's times, squeezed to its rate.
  plan::Arrivals arrivals() {
    static const plan::TraceArrivals kTrace = [] {
      plan::TraceArrivals trace{.file = "azure", .row = ""};
      auto recorded = std::make_shared<plan::TrafficTrace>();
      const plan::TokenTrace conversation = trace_of("conv");
      for (const plan::TracedRequest& one : *conversation.requests)
        recorded->times_s.push_back(one.at.value);
      trace.trace = std::move(recorded);
      return trace;
    }();
    switch (rng_.below(8)) {
      case 0:
        return plan::GammaArrivals{3};
      case 1:
        return plan::BurstArrivals{{2, 5, 60}};
      case 2:
        return plan::MmppArrivals{{2, 5, 60}};
      case 3:
        return kTrace;
      default:
        return plan::PoissonArrivals{};
    }
  }

 private:
  double between(double low, double high) { return low * std::pow(high / low, rng_.uniform()); }

  plan::TokenTerms tokens() {
    static const plan::TokenTrace kConversation = trace_of("conv"), kCode = trace_of("code");
    plan::TokenTerms terms;
    const std::uint64_t kind = rng_.below(3);
    if (kind < 2)
      terms.lengths = kind == 0 ? kConversation : kCode;
    else
      terms.lengths =
          plan::TokenPair{plan::LognormalTokens{between(200, 4000), 1.5 * rng_.uniform()},
                          plan::LognormalTokens{between(50, 1000), rng_.uniform()}};
    if (rng_.below(4) == 0) terms.prefix_share = rng_.uniform(), terms.prefix_tokens = 512;
    return terms;
  }

  // Some times what an engine that is not full does.
  void promise(plan::Service& one, const profile::TokenEngine& engine) {
    const profile::StepCost& cost = engine.spec.cost;
    const plan::MeanLength mean = plan::mean_of(*one.tokens);
    const double token = cost.step + cost.sequence * 8 + cost.root_sequences * std::sqrt(8) +
                         8 * cost.cached_token * mean.context;
    const double first = engine.request_ms + mean.in * engine.request_token_ms + cost.step +
                         mean.in * cost.prompt_token;
    const std::uint64_t kind = rng_.below(8);
    if (kind != 1) one.tokens->ttft = Millis{first * between(4, 40)};
    if (kind != 2) one.tokens->tpot = Millis{token * between(1.2, 4)};
    if (kind == 3) one.slo = Millis{between(3, 8) * (first + mean.out * token)};
    one.rate = Rps{1};
    const double fluid = planners::serving::fluid_rate(one, engine).value;
    one.rate = Rps{std::max(fluid, 0.01) * between(0.2, 8)};
  }

  Rng rng_;
};

}  // namespace partita::llm_test
