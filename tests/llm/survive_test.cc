// Language models when a GPU is lost, with the rest of its group, and such as keep apart: against
// all placements, the judge and a simulation of every loss at the full rate.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "base/index.h"
#include "base/rng.h"
#include "base/test_rounds.h"
#include "hw/packing.h"
#include "planners/serving/exact.h"
#include "planners/serving/testing/token_cases.h"
#include "sim/serving.h"
#include "verify/groups.h"
#include "verify/serving.h"

namespace partita::llm_test {
namespace {

using planners::serving::plan_exact;
using Rates = std::array<double, 2>;

plan::Service asking_for(const std::string& name, const std::string& model, double rate) {
  plan::Service service{.name = name, .model = model, .rate = Rps{rate}, .percentile = 95};
  service.tokens = plan::TokenTerms{
      .ttft = Millis{model == "m32" || model == "m70" ? 3000.0 : 1000.0},
      .tpot = Millis{60},
      .lengths = plan::TokenPair{plan::LognormalTokens{500, 0.6}, plan::LognormalTokens{120, 0.6}}};
  return service;
}

const char* const kShapes[] = {"1g.10gb", "3g.40gb", "7g.80gb"};

// On these shapes and groups of 2 and 4 alone.
plan::ServingProblem on_few_shapes(std::vector<plan::Service> services) {
  plan::ServingProblem problem;
  problem.fleet.push_back(planners::serving::made_up_fleet());
  for (auto& [model, engines] : problem.fleet[0].engines)
    std::erase_if(engines, [](const profile::TokenEngine& one) {
      return one.gpus == 8 || one.mig_profile == "2g.20gb" || one.mig_profile == "4g.40gb";
    });
  problem.services = std::move(services);
  return problem;
}

// What is on some GPUs that are lost together, requests/s by service.
struct Piece {
  int gpus = 1;
  Rates rates{};
};

bool covers(const Piece& more, const Piece& less) {
  return more.gpus <= less.gpus && more.rates[0] >= less.rates[0] && more.rates[1] >= less.rates[1];
}

// Of all ways to fill a GPU, and of groups, those of which none is worth more. `apart`: at most one
// instance of a service on a GPU.
class Pieces {
 public:
  Pieces(const plan::ServingProblem& problem, planners::serving::TokenOracle& oracle, bool apart)
      : apart_(apart) {
    const plan::FleetEntry& entry = problem.fleet[0];
    std::vector<int> profiles;
    for (const char* const name : kShapes) profiles.push_back(entry.gpu.profile_index(name));
    for (std::size_t s = 0; s < problem.services.size(); ++s) {
      for (const profile::TokenEngine& engine : entry.engines.at(problem.services[s].model)) {
        const double rate = oracle.rate(problem.services[s], engine).rate.value;
        const std::string name = engine.mig_profile.empty() ? "7g.80gb" : engine.mig_profile;
        const auto k = std::ranges::find(kShapes, name) - std::begin(kShapes);
        if (engine.gpus == 1) each_[at(static_cast<int>(k))][s] = rate;
        Piece group{engine.gpus, {}};
        group.rates[s] = rate;
        if (engine.gpus > 1) take(group);
      }
    }
    for (const hw::Fill& fill : hw::packing_rules(entry.gpu, profiles).fills)
      visit(fill, 0, {}, {});
  }

  std::vector<Piece> all;

 private:
  void take(const Piece& piece) {
    if (std::ranges::any_of(all, [&](const Piece& one) { return covers(one, piece); })) return;
    std::erase_if(all, [&](const Piece& one) { return covers(piece, one); });
    all.push_back(piece);
  }
  void visit(const hw::Fill& fill, std::size_t k, Piece piece, std::array<int, 2> count) {
    if (k == std::size(kShapes)) return take(piece);
    for (int a = 0; a <= fill.counts[k]; ++a)
      for (int b = 0; a + b <= fill.counts[k]; ++b) {
        if (apart_ && (count[0] + a > 1 || count[1] + b > 1)) continue;
        Piece next = piece;
        next.rates[0] += a * each_[k][0];
        next.rates[1] += b * each_[k][1];
        visit(fill, k + 1, next, {count[0] + a, count[1] + b});
      }
  }

  const bool apart_;
  std::array<Rates, 3> each_{};
};

// Whether some of these on so many GPUs carry all that is wanted when any of them is lost.
bool some_survive(const std::vector<Piece>& pieces, int gpus, const Rates& wanted) {
  const std::function<bool(int, std::size_t, Rates, Rates)> visit = [&](int left, std::size_t from,
                                                                        Rates sum, Rates most) {
    if (sum[0] - most[0] >= wanted[0] * (1 - 1e-9) && sum[1] - most[1] >= wanted[1] * (1 - 1e-9))
      return true;
    for (std::size_t p = from; p < pieces.size(); ++p) {
      if (pieces[p].gpus > left) continue;
      Rates next = sum, largest = most;
      for (std::size_t s = 0; s < 2; ++s) {
        next[s] += pieces[p].rates[s];
        largest[s] = std::max(largest[s], pieces[p].rates[s]);
      }
      if (visit(left - pieces[p].gpus, p, next, largest)) return true;
    }
    return false;
  };
  return visit(gpus, 0, {}, {});
}

int fewest(const std::vector<Piece>& pieces, const Rates& wanted) {
  int gpus = 1;
  while (gpus < 12 && !some_survive(pieces, gpus, wanted)) ++gpus;
  return gpus;
}

void expect_no_violation(const plan::ServingProblem& problem, const plan::ServingPlan& plan) {
  for (const plan::Reason& violation : verify::verify(problem, plan))
    ADD_FAILURE() << to_string(violation);
}

// Every loss for ten minutes, at the rate that is promised.
void expect_losses_kept(const plan::ServingProblem& problem, const plan::ServingPlan& plan) {
  for (const std::vector<std::size_t>& lost : verify::lost_with(plan)) {
    plan::ServingPlan left = plan;
    for (std::size_t g = lost.size(); g-- > 0;)
      left.gpus.erase(left.gpus.begin() + static_cast<std::ptrdiff_t>(lost[g]));
    sim::ServingOptions options;
    options.duration = Seconds{600};
    const auto report = sim::simulate(problem, left, options);
    ASSERT_TRUE(report) << to_string(report.error());
    for (const sim::ServiceReport& service : report->services)
      EXPECT_GE(service.slo_attainment, 0.95) << service.name;
  }
}

plan::ServingProblem one_or_two(Rng& rng) {
  const std::uint64_t count = 1 + rng.below(2);
  std::vector<plan::Service> services;
  for (std::uint64_t s = 0; s < count; ++s) {
    const std::pair<const char*, double> scales[] = {
        {"m3", 30}, {"m8", 12}, {"m32", 2.5}, {"m70", 2}};
    const auto& [model, scale] = scales[rng.below(4)];
    services.push_back(asking_for("s" + std::to_string(s), model, scale * (0.1 + rng.uniform())));
  }
  return on_few_shapes(std::move(services));
}

TEST(SurvivingLanguageModels, AreThoseOfAllPlacementsAndPassTheJudge) {
  planners::serving::TokenOracle oracle;
  planners::serving::Options options;
  options.tokens = &oracle;
  Rng rng(33);
  int compared = 0, least = 0, grouped = 0;
  const int rounds = test_rounds(40);
  for (int round = 0; round < rounds; ++round) {
    plan::ServingProblem problem = one_or_two(rng);
    const auto without = plan_exact(problem, options);
    problem.survive = 1;
    const auto outcome = plan_exact(problem, options);
    ASSERT_TRUE(without.plan && outcome.plan) << round;
    const plan::Objective& objective = outcome.plan->objective;
    expect_no_violation(problem, *outcome.plan);
    EXPECT_GT(objective.gpus, without.plan->objective.lower_bound_gpus) << round;
    Rates wanted{};
    for (std::size_t s = 0; s < problem.services.size(); ++s)
      wanted[s] = problem.services[s].rate.value;
    const int apart = fewest(Pieces(problem, oracle, true).all, wanted);
    const int any = fewest(Pieces(problem, oracle, false).all, wanted);
    if (apart > 8) continue;
    ++compared;
    EXPECT_EQ(objective.gpus, apart) << round;  // the optimum of its space
    EXPECT_LE(objective.gpus, any + 1) << round;
    EXPECT_LE(objective.lower_bound_gpus, any) << round;
    least += objective.gpus == any;
    for (const plan::PlannedGpu& gpu : outcome.plan->gpus)
      grouped += gpu.instances.front().group > 1;
    if (round % 10 == 0) expect_losses_kept(problem, *outcome.plan);
  }
  EXPECT_GT(compared, rounds / 2);
  EXPECT_GT(grouped, 0);
  std::printf("%d of %d with the fewest GPUs of all placements\n", least, compared);
}

// A group of which one GPU is lost is lost whole: two groups are no spare for a rate that takes
// both, three are.
TEST(SurvivingLanguageModels, LoseTheirWholeGroup) {
  planners::serving::TokenOracle oracle;
  plan::ServingProblem problem = on_few_shapes({asking_for("a", "m70", 1)});
  for (auto& [model, engines] : problem.fleet[0].engines)
    std::erase_if(engines, [](const auto& one) { return one.gpus != 2; });
  const double each =
      oracle.rate(problem.services[0], problem.fleet[0].engines.at("m70")[0]).rate.value;
  ASSERT_GT(each, 0);
  problem.services[0].rate = Rps{2 * each};  // all of it
  const auto two = plan_exact(problem, {});
  ASSERT_TRUE(two.plan);
  EXPECT_EQ(two.plan->objective.gpus, 4);
  problem.survive = 1;
  const auto violations = verify::verify(problem, *two.plan);
  std::set<std::string> subjects;
  for (const plan::Reason& one : violations)
    if (one.constraint == "survive") subjects.insert(one.subject);
  EXPECT_EQ(subjects,
            (std::set<std::string>{"service a without gpu 0", "service a without gpu 1",
                                   "service a without gpu 2", "service a without gpu 3"}));
  // One group for little is lost with either of its GPUs.
  plan::ServingProblem little = problem;
  little.services[0].rate = Rps{0.1 * each};
  little.survive = 0;
  const auto one = plan_exact(little, {});
  ASSERT_TRUE(one.plan);
  EXPECT_EQ(one.plan->objective.gpus, 2);
  little.survive = 1;
  int lost_whole = 0;
  for (const plan::Reason& found : verify::verify(little, *one.plan))
    lost_whole += found.constraint == "survive" && found.have == 0 && found.need == 1;
  EXPECT_EQ(lost_whole, 2);  // without either
  const auto three = plan_exact(problem, {});
  ASSERT_TRUE(three.plan);
  EXPECT_EQ(three.plan->objective.gpus, 6);
  expect_no_violation(problem, *three.plan);
  problem.services[0].rate = Rps{2 * each * 1.001};
  const auto four = plan_exact(problem, {});
  ASSERT_TRUE(four.plan);
  EXPECT_EQ(four.plan->objective.gpus, 8);
}

// A looser promise or a lower rate needs no more GPUs, and planning for a loss no fewer.
TEST(SurvivingLanguageModels, AskForLessAndNeedNoMore) {
  planners::serving::TokenOracle oracle;
  planners::serving::Options options;
  options.tokens = &oracle;
  Rng rng(71);
  const auto gpus_of = [&](plan::ServingProblem problem) {
    problem.survive = 1;
    const auto made = plan_exact(problem, options);
    return made.plan ? made.plan->objective.gpus : 0;
  };
  for (int round = 0; round < test_rounds(8); ++round) {
    const plan::ServingProblem strict = one_or_two(rng);
    const int more = gpus_of(strict);
    ASSERT_GT(more, 0);
    plan::ServingProblem slower = strict, looser = strict, fewer = strict;
    slower.services[0].rate = 0.9 * slower.services[0].rate;
    looser.services[0].tokens->ttft = 2 * looser.services[0].tokens->ttft;
    fewer.services.resize(1);
    for (const plan::ServingProblem& less : {slower, looser, fewer}) {
      EXPECT_LE(gpus_of(less), more) << round;
      EXPECT_GT(gpus_of(less), 0) << round;
    }
  }
}

// Beside an ordinary service, on counted nodes, with wishes: judged.
TEST(SurvivingLanguageModels, StandBesideOthers) {
  plan::ServingProblem problem = on_few_shapes(
      {asking_for("a", "m8", 14), asking_for("b", "m32", 2), asking_for("c", "m3", 20)});
  profile::WorkloadProfile profile{.model = "vision", .points = {}};
  for (const int gpcs : {1, 3, 7})
    profile.points.push_back({.gpcs = gpcs,
                              .batch = 4,
                              .processes = 1,
                              .throughput = Rps{60.0 * gpcs},
                              .latency = Millis{4000 / (60.0 * gpcs)},
                              .memory = std::nullopt});
  problem.fleet[0].profiles.emplace("vision", profile);
  plan::Service vision{.name = "vision", .model = "vision", .rate = Rps{150}, .slo = Millis{400}};
  vision.avoid = {"a"};
  problem.services.push_back(vision);
  problem.services[1].min_replicas = 3;
  problem.survive = 1;
  const auto outcome = plan_exact(problem, {});
  ASSERT_TRUE(outcome.plan) << to_string(outcome.refusals.front());
  expect_no_violation(problem, *outcome.plan);
  const int all = outcome.plan->objective.gpus;
  problem.fleet[0].count = all;
  problem.fleet[0].node_gpus = 6;  // a group of 4 leaves two over
  const auto counted = plan_exact(problem, {});
  if (counted.plan) expect_no_violation(problem, *counted.plan);
  problem.fleet[0].count = 1;
  const auto refused = plan_exact(problem, {});
  ASSERT_FALSE(refused.plan);
  EXPECT_GT(refused.refusals.front().need, 1);
  EXPECT_LE(refused.refusals.front().need, all);
}

// ---- services that keep apart ----

TEST(LanguageModelsApart, UseGroupsOfGpusAndKeepApart) {
  planners::serving::TokenOracle oracle;
  planners::serving::Options options;
  options.tokens = &oracle;
  Rng rng(5);
  int tied = 0, grouped = 0;
  for (int round = 0; round < test_rounds(30); ++round) {
    plan::ServingProblem problem = one_or_two(rng);
    const auto free = plan_exact(problem, options);
    ASSERT_TRUE(free.plan);
    problem.services[0].spread = rng.below(2) == 0;
    if (problem.services.size() > 1) problem.services[0].avoid = {problem.services[1].name};
    if (!problem.services[0].spread && problem.services.size() == 1) continue;
    const auto outcome = plan_exact(problem, options);
    ASSERT_TRUE(outcome.plan) << round;
    expect_no_violation(problem, *outcome.plan);
    EXPECT_GE(outcome.plan->objective.gpus, free.plan->objective.gpus) << round;
    EXPECT_LE(outcome.plan->objective.lower_bound_gpus, outcome.plan->objective.gpus) << round;
    // Where all of it is on whole GPUs and groups already, keeping apart costs nothing.
    const bool alone = std::ranges::all_of(
        free.plan->gpus, [](const plan::PlannedGpu& gpu) { return gpu.instances.size() == 1; });
    if (alone) {
      EXPECT_EQ(outcome.plan->objective.gpus, free.plan->objective.gpus) << round;
    }
    ++tied;
    for (const plan::PlannedGpu& gpu : outcome.plan->gpus)
      grouped += gpu.instances.front().group > 1;
  }
  EXPECT_GT(tied, 0);
  EXPECT_GT(grouped, 0);
}

}  // namespace
}  // namespace partita::llm_test
