// Rules of thumb against the planner, on fleets of language models and ordinary services: what each
// rule would let it use, planned by the same planner and passed by the same judge.
//   one size     every language model on groups of the same number of GPUs, every other service on
//                instances of one MIG profile; the best of all such pairs
//   AIConfigurator  per language model the engine and group with most tokens/s per GPU among those
//                whose mean TTFT and TPOT are as promised, at mean lengths and any concurrency, as
//                NVIDIA's AIConfigurator chooses by its CLI guide (aggregated serving only)
//   whole GPUs   no MIG instance and no group
// PARTITA_ROUNDS=5 tries 20 fleets; the table is printed.
#include <gtest/gtest.h>

#include <functional>

#include "base/test_rounds.h"
#include "decide/serving.h"
#include "llm/engine/learned.h"
#include "profile/testing/published.h"
#include "random_services.h"

namespace partita::llm_test {
namespace {

using Engine = profile::TokenEngine;

constexpr int kSizes[] = {1, 2, 3, 4, 7};

plan::Service ordinary(int number, Rng& rng) {
  const profile::ProfileTable& table = profile::published_profiles();
  auto model = table.begin();
  std::advance(model, rng.below(table.size()));
  const double slow = model->first == "bert" ? 15 : 1;
  plan::Service one;
  one.name = "dnn" + std::to_string(number);
  one.model = model->first;
  one.rate = Rps{(50 + 1500 * rng.uniform()) / slow};
  one.slo = Millis{(100 + 300 * rng.uniform()) * slow};
  return one;
}

// Every other one has only models that were measured on one GPU, too.
plan::ServingProblem mixed_fleet(std::uint64_t seed) {
  RandomService random(seed);
  Rng rng = Rng(seed).split(7);
  plan::ServingProblem problem;
  problem.fleet.push_back(random.fleet());
  problem.fleet[0].profiles = profile::published_profiles();
  if (seed % 2 == 0)
    std::erase_if(problem.fleet[0].engines, [](const auto& model) {
      return std::ranges::none_of(model.second, [](const Engine& one) { return one.gpus == 1; });
    });
  const int language = 2 + static_cast<int>(rng.below(4)),
            others = 1 + static_cast<int>(rng.below(5));
  for (int s = 0; s < language; ++s) {
    problem.services.push_back(random.service("llm" + std::to_string(s), problem.fleet[0]));
    problem.services.back().rate = 0.2 * problem.services.back().rate;
  }
  for (int s = 0; s < others; ++s) problem.services.push_back(ordinary(s, rng));
  return problem;
}

// GPUs of the judged plan; 0: there is none.
int gpus(const plan::ServingProblem& problem, planners::serving::TokenOracle& oracle) {
  decide::PlanOptions options;
  options.planners_tokens = &oracle;
  const auto made = decide::make_plan(**decide::find_planner("", "exact"), problem, options);
  EXPECT_TRUE(made) << (made ? "" : to_string(made.error()));
  return made && made->plan ? (*made->plan)->objective.gpus : 0;
}

using Allowed = std::function<bool(const std::string& model, const Engine&)>;

plan::ServingProblem only(plan::ServingProblem problem, const Allowed& engines,
                          const std::function<bool(int gpcs)>& sizes) {
  for (auto& [model, all] : problem.fleet[0].engines)
    std::erase_if(all, [&](const Engine& one) { return !engines(model, one); });
  for (auto& [model, profile] : problem.fleet[0].profiles)
    std::erase_if(profile.points,
                  [&](const profile::ProfilePoint& point) { return !sizes(point.gpcs); });
  return problem;
}

int one_size(const plan::ServingProblem& problem, planners::serving::TokenOracle& oracle) {
  int best = 0;
  for (const int group : {1, 2, 4, 8})
    for (const int size : kSizes) {
      const int found =
          gpus(only(
                   problem, [&](const auto&, const Engine& one) { return one.gpus == group; },
                   [&](int gpcs) { return gpcs == size; }),
               oracle);
      if (found > 0 && (best == 0 || found < best)) best = found;
    }
  return best;
}

int whole_gpus(const plan::ServingProblem& problem, planners::serving::TokenOracle& oracle) {
  return gpus(only(
                  problem, [](const auto&, const Engine& one) { return one.gpus == 1; },
                  [](int gpcs) { return gpcs == 7; }),
              oracle);
}

// Tokens/s per GPU of the best concurrency whose means are as promised; 0: there is none.
double tokens_per_gpu(const plan::Service& service, const Engine& engine) {
  const plan::MeanLength mean = plan::mean_of(*service.tokens);
  const llm::Shape shape{static_cast<int>(std::lround(mean.in)),
                         std::max(2, static_cast<int>(std::lround(mean.out)))};
  const llm::LearnedEngine learned{engine.spec, Millis{engine.request_ms}, engine.request_token_ms};
  double best = 0;
  for (int n = 1; n <= engine.spec.sequences; n = n < 8 ? n + 1 : n * 5 / 4) {
    const auto times = llm::closed_loop(learned, shape, n);
    if (!times) break;
    const auto keeps = [](Millis limit, Millis value) {
      return limit.value <= 0 || value <= limit;
    };
    const double whole = times->ttft.value + times->tpot.value * (shape.tokens_out - 1);
    if (keeps(service.tokens->ttft, times->ttft) && keeps(service.tokens->tpot, times->tpot) &&
        keeps(service.slo, Millis{whole}))
      best = std::max(best, 1e3 * n * shape.tokens_out / whole / engine.gpus);
  }
  return best;
}

int configured(plan::ServingProblem problem, planners::serving::TokenOracle& oracle) {
  plan::FleetEntry& entry = problem.fleet[0];
  for (plan::Service& service : problem.services) {
    if (!service.tokens) continue;
    const Engine* chosen = nullptr;
    double best = 0;
    for (const Engine& engine : entry.engines.at(service.model))
      if (const double now = tokens_per_gpu(service, engine); now > best)
        best = now, chosen = &engine;
    if (chosen == nullptr) return 0;
    const Engine copy = *chosen;
    entry.engines[service.model + " for " + service.name] = {copy};
    service.model += " for " + service.name;
  }
  return gpus(problem, oracle);
}

TEST(LlmRules, never_need_fewer_gpus) {
  const int fleets_wanted = test_rounds(4);
  planners::serving::TokenOracle oracle;
  std::printf("| fleet | services | planner | one size | AIConfigurator | whole GPUs |\n");
  int done = 0;
  for (std::uint64_t seed = 1; done < fleets_wanted && seed < 200; ++seed) {
    const plan::ServingProblem problem = mixed_fleet(seed);
    const int ours = gpus(problem, oracle);
    if (ours == 0) continue;
    ++done;
    const int others[] = {one_size(problem, oracle), configured(problem, oracle),
                          whole_gpus(problem, oracle)};
    std::printf("| %s %d | %zu | %d |", problem.fleet[0].gpu.name.c_str(), static_cast<int>(seed),
                problem.services.size(), ours);
    for (const int other : others) {
      std::printf(" %s |", other == 0 ? "none" : std::to_string(other).c_str());
      EXPECT_TRUE(other == 0 || ours <= other) << "fleet " << seed;
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  EXPECT_EQ(done, fleets_wanted);
}

}  // namespace
}  // namespace partita::llm_test
