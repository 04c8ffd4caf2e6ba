// The joint plan against brute force over all groupings of all workers.
#include "planners/mask/joint_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "base/rng.h"
#include "base/test_rounds.h"

namespace partita::planners::mask {
namespace {

// Times that mostly fall with the units, sometimes do not, and are sometimes equal.
KernelTimes random_times(int kernels, const std::vector<int>& units, Rng& rng) {
  KernelTimes times{units, {}};
  for (int k = 0; k < kernels; ++k) {
    const double work = 1 + 100 * rng.uniform(), knee = 60 * rng.uniform();
    for (const int n : units) {
      double time = work * std::max(1.0, knee / n);
      if (rng.below(8) == 0) time *= 1 + rng.uniform();
      times.time.push_back(rng.below(4) == 0 ? std::round(time) : time);
    }
  }
  return times;
}

plan::KernelProblem random_problem(Rng& rng) {
  plan::KernelProblem problem;
  const std::vector<std::vector<int>> options{{15, 30, 60}, {15, 30, 45, 60}, {20, 60}};
  problem.switches = static_cast<int>(rng.below(4));
  problem.switch_cost = rng.below(3) == 0 ? 20 * rng.uniform() : 0;
  problem.overlap = rng.below(2) == 0 ? plan::Overlap::others : plan::Overlap::literal;
  const int workers = 1 + static_cast<int>(rng.below(3));
  const int most = workers == 3 ? 4 : 6;
  for (int w = 0; w < workers; ++w) {
    const auto& units = options[workers == 3 ? 2 * rng.below(2) : rng.below(3)];
    const int kernels = 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(most)));
    const std::string name(1, static_cast<char>('a' + w));
    problem.workers.push_back({name, random_times(kernels, units, rng)});
    if (w > 0 && rng.below(2) == 0) {  // a replica of one before it
      problem.workers.back().times =
          problem.workers[rng.below(static_cast<std::uint64_t>(w))].times;
      continue;
    }
    const double scale = rng.below(3) == 0 ? std::pow(10, 10 * rng.uniform() - 5) : 1;
    for (double& time : problem.workers.back().times.time) time *= scale;
  }
  return problem;
}

// What a grouping comes to, from its options alone.
Grouping measured(const KernelTimes& times, std::vector<std::uint8_t> option, double switch_cost) {
  Grouping one;
  const std::size_t options = times.units.size();
  for (std::size_t k = 0; k < option.size(); ++k) {
    one.time += times.time[k * options + option[k]];
    one.mean_units += times.units[option[k]] / static_cast<double>(option.size());
    one.switches += k > 0 && option[k] != option[k - 1];
  }
  one.time += switch_cost * one.switches;
  one.option = std::move(option);
  return one;
}

std::vector<Grouping> all_groupings(const plan::KernelProblem& problem, const KernelTimes& times) {
  std::vector<Grouping> all;
  std::vector<std::uint8_t> option(static_cast<std::size_t>(times.kernels()));
  while (true) {
    Grouping one = measured(times, option, problem.switch_cost);
    if (one.switches <= problem.switches) all.push_back(std::move(one));
    std::size_t k = 0;
    while (k < option.size() && ++option[k] == times.units.size()) option[k++] = 0;
    if (k == option.size()) return all;
  }
}

// The objective of any groupings of the workers.
double objective_of(const plan::KernelProblem& problem, const std::vector<Grouping>& workers) {
  double units = 0, sum = 0;
  for (const Grouping& one : workers) units += one.mean_units;
  for (const Grouping& one : workers) {
    const double mine = problem.overlap == plan::Overlap::literal ? 0 : one.mean_units;
    sum += one.time * (1 + (units - mine) / problem.total_units);
  }
  return sum;
}

// The least objective; of each worker only groupings that no other beats in both respects.
double brute_force(const plan::KernelProblem& problem) {
  std::vector<std::vector<Grouping>> choices;
  for (const plan::KernelWorker& worker : problem.workers) {
    std::vector<Grouping> all = all_groupings(problem, worker.times), kept;
    std::ranges::sort(all, [](const Grouping& a, const Grouping& b) {
      return std::pair(a.mean_units, a.time) < std::pair(b.mean_units, b.time);
    });
    for (Grouping& one : all) {
      if (kept.empty() || one.time < kept.back().time) kept.push_back(std::move(one));
    }
    choices.push_back(std::move(kept));
  }
  double best = INFINITY;
  std::vector<Grouping> chosen;
  const std::function<void(std::size_t)> choose = [&](std::size_t w) {
    if (w == choices.size()) {
      best = std::min(best, objective_of(problem, chosen));
      return;
    }
    for (const Grouping& one : choices[w]) {
      chosen.push_back(one);
      choose(w + 1);
      chosen.pop_back();
    }
  };
  choose(0);
  return best;
}

TEST(JointPlan, IsAsGoodAsBruteForce) {
  Rng rng(5);
  for (int round = 0; round < test_rounds(1500); ++round) {
    const plan::KernelProblem problem = random_problem(rng);
    const plan::KernelPlan plan = plan_jointly(problem).plan;
    const double best = brute_force(problem);
    ASSERT_TRUE(plan.optimal) << round;
    ASSERT_NEAR(plan.objective, best, 1e-9 * best) << round;
    ASSERT_LE(plan.bound, best * (1 + 1e-9)) << round;
    ASSERT_EQ(plan.workers.size(), problem.workers.size());
    for (std::size_t w = 0; w < plan.workers.size(); ++w) {
      const Grouping& mine = plan.workers[w];
      const Grouping again = measured(problem.workers[w].times, mine.option, problem.switch_cost);
      ASSERT_EQ(mine.switches, again.switches);
      ASSERT_LE(mine.switches, problem.switches);
      ASSERT_NEAR(mine.time, again.time, 1e-9 * again.time);
      ASSERT_NEAR(mine.mean_units, again.mean_units, 1e-9 * again.mean_units);
    }
    ASSERT_NEAR(objective_of(problem, plan.workers), plan.objective, 1e-9 * best);
  }
}

TEST(JointPlan, BoundsHoldWhenItIsCutShort) {
  Rng rng(6);
  for (int round = 0; round < test_rounds(300); ++round) {
    const plan::KernelProblem problem = random_problem(rng);
    const plan::KernelPlan cut = plan_jointly(problem, 1).plan, whole = plan_jointly(problem).plan;
    ASSERT_GE(cut.objective, whole.objective * (1 - 1e-9));
    ASSERT_LE(cut.bound, whole.objective * (1 + 1e-9));
    if (cut.optimal) {
      ASSERT_NEAR(cut.objective, whole.objective, 1e-9 * whole.objective);
    }
  }
}

TEST(JointPlan, TwoWorkersOnAllUnitsTakeTwiceAsLong) {
  // Footnote 3 of the paper, and what the printed formula makes of it: three times.
  plan::KernelProblem problem;
  problem.workers = {{"a", {{60}, {10}}}, {"b", {{60}, {10}}}};
  EXPECT_DOUBLE_EQ(plan_jointly(problem).plan.objective, 2 * 20);
  problem.overlap = plan::Overlap::literal;
  EXPECT_DOUBLE_EQ(plan_jointly(problem).plan.objective, 3 * 20);
}

// The price of units that a large worker sets is above everything that a small one could save.
TEST(JointPlan, ASmallWorkerBesideALargeOne) {
  plan::KernelProblem problem;
  problem.workers = {{"small", {{15, 60}, {5, 3}}}, {"large", {{15, 60}, {40'000, 10'000}}}};
  const plan::KernelPlan plan = plan_jointly(problem).plan;
  EXPECT_DOUBLE_EQ(plan.objective, 5 * (1 + 60.0 / 60) + 10'000 * (1 + 15.0 / 60));
  EXPECT_TRUE(plan.optimal);
}

plan::KernelProblem replicas(int count, int kernels, Rng& rng) {
  plan::KernelProblem problem;
  const KernelTimes times = random_times(kernels, {15, 30, 45, 60}, rng);
  for (int w = 0; w < count; ++w) problem.workers.push_back({"w" + std::to_string(w), times});
  return problem;
}

// Times that differ in the last digits are no replicas: they are searched in every order.
TEST(JointPlan, ReplicasComeToWhatTheUnorderedSearchFinds) {
  Rng rng(8);
  for (int round = 0; round < test_rounds(100); ++round) {
    plan::KernelProblem problem = replicas(2 + round % 3, 30, rng);
    problem.overlap = round % 2 == 0 ? plan::Overlap::others : plan::Overlap::literal;
    const plan::KernelPlan ordered = plan_jointly(problem).plan;
    for (std::size_t w = 1; w < problem.workers.size(); ++w)
      problem.workers[w].times.time[0] *= 1 + 1e-13 * static_cast<double>(w);
    const plan::KernelPlan unordered = plan_jointly(problem).plan;
    ASSERT_TRUE(ordered.optimal && unordered.optimal) << round;
    ASSERT_NEAR(ordered.objective, unordered.objective, 1e-9 * ordered.objective) << round;
  }
}

TEST(JointPlan, ManyReplicasAreCertified) {
  Rng rng(9);
  for (const int count : {8, 12, 32}) {
    for (const auto overlap : {plan::Overlap::others, plan::Overlap::literal}) {
      plan::KernelProblem problem = replicas(count, 60, rng);
      problem.overlap = overlap;
      const JointPlan plan = plan_jointly(problem, count < 32 ? 2'000 : kDefaultBoxes);
      EXPECT_TRUE(plan.plan.optimal) << count << ": " << plan.plan.bound / plan.plan.objective;
      EXPECT_LT(plan.programmes, 1'000) << count;
      EXPECT_NEAR(objective_of(problem, plan.plan.workers), plan.plan.objective,
                  1e-9 * plan.plan.objective);
    }
  }
}

TEST(JointPlan, TheCurveFallsWithTheBudget) {
  Rng rng(7);
  plan::KernelProblem problem;
  problem.switches = 6;
  for (const char* name : {"a", "b", "c"})
    problem.workers.push_back({name, random_times(40, {15, 30, 45, 60}, rng)});
  const std::vector<JointPlan> curve = switch_curve(problem);
  ASSERT_EQ(curve.size(), 7u);
  for (std::size_t s = 1; s < curve.size(); ++s) {
    EXPECT_TRUE(curve[s].plan.optimal);
    EXPECT_LE(curve[s].plan.objective, curve[s - 1].plan.objective * (1 + 1e-12));
  }
  EXPECT_LT(curve[6].plan.objective, curve[0].plan.objective);
}

}  // namespace
}  // namespace partita::planners::mask
