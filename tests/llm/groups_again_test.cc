// Language models on groups of GPUs, planned again from what runs: against every way to fill the
// GPUs of small fleets, place by place.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "base/index.h"
#include "base/rng.h"
#include "base/test_rounds.h"
#include "decide/serving.h"
#include "hw/catalogue.h"
#include "plan/changes.h"
#include "planners/serving/token_points.h"

namespace partita::llm_test {
namespace {

profile::TokenEngine engine_on(const std::string& model, int gpus, double speed,
                               const std::string& mig = "") {
  profile::TokenEngine engine;
  engine.name.configuration = model + " on " + std::to_string(gpus) + mig;
  engine.mig_profile = mig;
  engine.gpus = gpus;
  engine.spec.cost = {.step = 8 / speed, .sequence = 0.05, .prompt_token = 0.04 / speed};
  engine.spec.sequences = 64;
  engine.least_in = engine.least_out = 1;
  engine.most_in = engine.most_out = 100'000;
  return engine;
}

// Two models on 1, 2 and 4 GPUs, or some of these, and one on halves of a GPU.
plan::ServingProblem small_problem(Rng& rng) {
  plan::ServingProblem problem;
  plan::FleetEntry& entry = problem.fleet.emplace_back();
  entry.gpu = *hw::builtin_model("A100-80GB");
  for (const char* name : {"a", "b", "c"}) {
    auto& engines = entry.engines[name];
    const bool small = *name == 'c';
    if (small) engines.push_back(engine_on(name, 1, 0.5, "3g.40gb"));
    for (const int gpus : {1, 2, 4})
      if (small ? gpus == 1 : rng.below(3) > 0 || (gpus == 2 && engines.empty()))
        engines.push_back(engine_on(name, gpus, gpus * (0.8 + 0.5 * rng.uniform())));
    plan::Service& service = problem.services.emplace_back();
    service.name = service.model = name;
    service.percentile = 90;
    service.tokens = plan::TokenTerms{.ttft = Millis{1500}, .tpot = Millis{60}};
    service.tokens->lengths = plan::TokenPair{500, 100};
    planners::serving::TokenOracle oracle;
    service.rate = Rps{1};
    service.rate = oracle.rate(service, engines.front()).rate * (0.3 + 3 * rng.uniform());
  }
  return problem;
}

// ---- the oracle: GPU after GPU, every instance and group that may begin there ----

struct Shape {
  std::size_t service = 0;
  std::string profile;
  int gpus = 1;
  double rate = 0;
};

using InstancePlace =
    std::tuple<int, std::string, int, std::string, int>;  // GPU, profile, start, service

std::set<InstancePlace> pieces_of(const plan::ServingPlan& plan) {
  std::set<InstancePlace> all;
  for (const plan::InstanceAt& one : plan::instances_of(plan.gpus))
    all.insert({one.gpus.front()->index, one.instance->profile, one.instance->start,
                one.instance->service, one.instance->group});
  return all;
}

class EveryWay {
 public:
  // `sizes`: also groups that carry less per GPU than smaller ones, of which some run.
  EveryWay(const plan::ServingProblem& problem, const plan::ServingPlan& current)
      : problem_(problem), runs_(pieces_of(current)) {
    planners::serving::TokenOracle oracle;
    for (std::size_t s = 0; s < problem.services.size(); ++s)
      for (const auto& engine : problem.fleet[0].engines.at(problem.services[s].model))
        shapes_.push_back({s, engine.mig_profile.empty() ? "7g.80gb" : engine.mig_profile,
                           engine.gpus, oracle.rate(problem.services[s], engine).rate.value});
  }

  // The fewest GPUs, and on these the fewest instances to be made; {0, 0}: there is no way.
  std::pair<int, int> least() {
    const plan::FleetEntry& entry = problem_.fleet[0];
    std::map<State, int> begin{{State{}, 0}};
    reached_.assign(at(*entry.count) + 1, {});
    reached_[0] = begin;
    for (int g = 0; g < *entry.count; ++g) fill(g);
    std::pair<int, int> best{0, 0};
    for (const auto& [state, made] : reached_[at(*entry.count)])
      if (carries(state) && (best.first == 0 || std::pair(state.back(), made) < best))
        best = {state.back(), made};
    return best;
  }

 private:
  using State = std::array<int, 12>;  // instances by shape; GPUs used, at last

  void reach(int g, const State& state, int made) {
    const auto [found, fresh] = reached_[at(g)].emplace(state, made);
    if (!fresh) found->second = std::min(found->second, made);
  }

  int price(int g, std::size_t k, int start) const {
    const Shape& shape = shapes_[k];
    const std::string& service = problem_.services[shape.service].name;
    return runs_.contains({g, shape.profile, start, service, shape.gpus}) ? 0 : 1;
  }

  void fill(int g) {
    const int node = problem_.fleet[0].node_gpus;
    for (const auto& [state, made] : reached_[at(g)]) {
      reach(g + 1, state, made);
      for (std::size_t k = 0; k < shapes_.size(); ++k) {
        const int gpus = shapes_[k].gpus;
        const bool half = shapes_[k].profile != "7g.80gb";
        if (g + gpus > *problem_.fleet[0].count || g / node != (g + gpus - 1) / node) continue;
        State next = state;
        ++next[k];
        next.back() += gpus;
        if (!half) reach(g + gpus, next, made + price(g, k, 0));
        for (const int start : {0, 4})
          if (half) reach(g + 1, next, made + price(g, k, start));
        ++next[k];
        if (half) reach(g + 1, next, made + price(g, k, 0) + price(g, k, 4));
      }
    }
  }

  bool carries(const State& state) const {
    for (std::size_t s = 0; s < problem_.services.size(); ++s) {
      double rate = 0;
      for (std::size_t k = 0; k < shapes_.size(); ++k)
        if (shapes_[k].service == s) rate += state[k] * shapes_[k].rate;
      if (rate < plan::planning_rate(problem_.services[s]).value * (1 - 1e-9)) return false;
    }
    return true;
  }

  const plan::ServingProblem& problem_;
  const std::set<InstancePlace> runs_;
  std::vector<Shape> shapes_;
  std::vector<std::map<State, int>> reached_;
};

decide::MadeAgain made_again(const plan::ServingProblem& problem, const plan::ServingPlan& current,
                             std::optional<int> most = {}) {
  auto made = decide::make_plan_again(problem, current, most, {});
  EXPECT_TRUE(made) << made.error().message;
  return *std::move(made);
}

int moves(const plan::Changes& changes) { return changes.moved + changes.created; }

// Whether the judge's arrivals asked for more room than the promise says.
bool has_more_room(const plan::ServingPlan& plan) {
  return std::ranges::any_of(plan.explanation, [](const std::string& one) {
    return one.find("more room") != std::string::npos;
  });
}

struct GroupsTally {
  int rounds = 0, planned = 0, changed = 0, proven = 0, above = 0;
};

void compare_groups(Rng& rng, GroupsTally& tally, int round) {
  plan::ServingProblem problem = small_problem(rng);
  plan::FleetEntry& entry = problem.fleet[0];
  entry.node_gpus = std::array{4, 6, 8}[rng.below(3)];
  entry.count = 12;
  const auto first = decide::make_plan(**decide::find_planner("", "exact"), problem, {});
  ASSERT_TRUE(first) << round << first.error().message;
  ++tally.rounds;
  if (!first->plan) return;
  const plan::ServingPlan& before = **first->plan;
  const decide::MadeAgain same = made_again(problem, before);
  ASSERT_TRUE(same.made.plan) << round;
  EXPECT_EQ((*same.made.plan)->gpus, before.gpus) << round;  // no change at all
  EXPECT_EQ(moves(same.changes) + same.changes.restarted + same.changes.removed, 0) << round;

  entry.count = *entry.count - static_cast<int>(rng.below(3));
  for (plan::Service& one : problem.services)
    if (rng.below(2) == 0) one.rate = one.rate * (0.4 + 1.4 * rng.uniform());
  const auto [gpus, fewest] = EveryWay(problem, before).least();
  const decide::MadeAgain changed = made_again(problem, before);
  ASSERT_EQ(changed.made.plan.has_value(), gpus > 0) << round;
  if (!changed.made.plan) return;
  const plan::ServingPlan& plan = **changed.made.plan;
  if (has_more_room(plan)) return;
  ++tally.planned;
  tally.changed += fewest > 0;
  EXPECT_EQ(plan.objective.gpus, gpus) << round;
  EXPECT_EQ(changed.changes, plan::changes_between(before, plan)) << round;
  EXPECT_GE(moves(changed.changes), fewest) << round;
  tally.above += moves(changed.changes) - fewest;
  if (changed.curve.empty()) return;
  EXPECT_LE(changed.curve.front().lower_bound, fewest) << round;
  tally.proven += changed.curve.front().proven();
}

TEST(GroupsAgain, MakeAsFewInstancesAsAnyPlanOnAsFewGpus) {
  GroupsTally tally;
  for (int round = 0; round < test_rounds(60); ++round) {
    Rng rng(static_cast<std::uint64_t>(round) + 4000);
    compare_groups(rng, tally, round);
  }
  std::printf("%d planned of %d, %d of them changed, %d proven, %d instances above the fewest\n",
              tally.planned, tally.rounds, tally.changed, tally.proven, tally.above);
  EXPECT_GE(tally.planned, tally.rounds / 2);
  EXPECT_GE(tally.changed, tally.rounds / 6);
  EXPECT_EQ(tally.above, 0);
}

}  // namespace
}  // namespace partita::llm_test
