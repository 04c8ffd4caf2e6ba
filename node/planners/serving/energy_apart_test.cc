// The fewest watts where services keep apart or a GPU may be lost: against every way to fill the
// GPUs of small fleets, one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "base/index.h"
#include "base/rng.h"
#include "base/test_rounds.h"
#include "hw/catalogue.h"
#include "hw/layout.h"
#include "hw/packing.h"
#include "planners/serving/exact.h"
#include "planners/serving/watts.h"

namespace partita::planners::serving {
namespace {

// Two services on at most four A30s, of 1, 2 and 4 compute slices.
plan::ServingProblem apart_problem(Rng& rng) {
  plan::ServingProblem problem;
  problem.rule = {plan::SloRule::Kind::execution, 1, plan::Dispatch::paced};
  problem.goal = plan::Goal::energy;
  plan::FleetEntry& entry = problem.fleet.emplace_back();
  entry.gpu = **hw::builtin_catalogue().get("A30-24GB");
  entry.count = 4;
  entry.power = plan::GpuPower{Watts{10 + 60 * rng.uniform()}, Watts{150 + 300 * rng.uniform()},
                               Watts{5 * rng.uniform()}};
  for (const char* name : {"a", "b"}) {
    profile::WorkloadProfile& profile = entry.profiles[name];
    profile.model = name;
    const double whole = 30 + 70 * rng.uniform(), power = 0.5 + 0.6 * rng.uniform();
    for (const int gpcs : {1, 2, 4}) {
      if (gpcs != 4 && rng.below(5) == 0) continue;
      const double rate = whole * std::pow(gpcs / 4.0, power);
      profile.points.push_back({gpcs, 4, 1, Rps{rate}, Millis{4e3 / rate}, {}});
    }
    plan::Service& service = problem.services.emplace_back();
    service.name = service.model = name;
    service.rate = Rps{5 + 45 * rng.uniform()};
    service.slo = Millis{1e4};
    service.min_replicas = 1 + static_cast<int>(rng.below(3) == 0);
  }
  return problem;
}

class EveryFilling {
 public:
  // `narrow`: at most one instance of a service on a GPU.
  EveryFilling(const plan::ServingProblem& problem, bool narrow)
      : problem_(problem), narrow_(narrow) {
    const hw::GpuModel& gpu = problem.fleet[0].gpu;
    std::vector<int> profiles = hw::plain_profiles(gpu);
    std::ranges::sort(profiles, {}, [&](int p) { return gpu.profiles[at(p)].gpcs; });
    const auto rules = hw::packing_rules(gpu, profiles);
    for (const int p : profiles) gpcs_.push_back(gpu.profiles[at(p)].gpcs);
    Filling filling{std::vector<int>(2 * gpcs_.size(), 0)};
    list(rules, 0, filling);
  }

  double least() {
    std::vector<std::size_t> chosen;
    choose(0, chosen);
    return best_;
  }

 private:
  struct Filling {
    std::vector<int> counts;  // [service * sizes + size]
  };
  double rate(std::size_t s, std::size_t k) const {
    const auto* point = profile::find_point(
        problem_.fleet[0].profiles.at(problem_.services[s].model), gpcs_[k], 4, 1);
    return point == nullptr ? 0 : point->throughput.value;
  }
  double rate(const Filling& filling, std::size_t s) const {
    double sum = 0;
    for (std::size_t k = 0; k < gpcs_.size(); ++k)
      sum += filling.counts[s * gpcs_.size() + k] * rate(s, k);
    return sum;
  }
  int instances(const Filling& filling, std::size_t s) const {
    int sum = 0;
    for (std::size_t k = 0; k < gpcs_.size(); ++k) sum += filling.counts[s * gpcs_.size() + k];
    return sum;
  }

  bool fits(const hw::PackingRules& rules, const Filling& filling) const {
    return std::ranges::any_of(rules.fills, [&](const hw::Fill& fill) {
      for (std::size_t k = 0; k < gpcs_.size(); ++k)
        if (filling.counts[k] + filling.counts[gpcs_.size() + k] > fill.counts[k]) return false;
      return true;
    });
  }
  bool allowed(const Filling& filling) const {
    for (std::size_t s = 0; s < 2; ++s) {
      const plan::Service& service = problem_.services[s];
      if ((narrow_ || service.spread) && instances(filling, s) > 1) return false;
      if (!service.avoid.empty() && instances(filling, 0) > 0 && instances(filling, 1) > 0)
        return false;
    }
    return true;
  }
  void list(const hw::PackingRules& rules, std::size_t next, Filling& filling) {
    if (!fits(rules, filling)) return;
    if (next == filling.counts.size()) {
      if (allowed(filling)) fillings_.push_back(filling);
      return;
    }
    const bool usable = rate(next / gpcs_.size(), next % gpcs_.size()) > 0;
    for (int n = 0; n <= (usable ? 4 : 0); ++n) {
      filling.counts[next] = n;
      list(rules, next + 1, filling);
    }
    filling.counts[next] = 0;
  }

  void choose(std::size_t from, std::vector<std::size_t>& chosen) {
    best_ = std::min(best_, watts(chosen));
    if (chosen.size() == 4) return;
    for (std::size_t f = from; f < fillings_.size(); ++f) {
      chosen.push_back(f);
      choose(f, chosen);
      chosen.pop_back();
    }
  }

  double watts(const std::vector<std::size_t>& chosen) const {
    const plan::FleetEntry& entry = problem_.fleet[0];
    const auto on = static_cast<double>(chosen.size());
    double sum = on * entry.power->idle.value + (4 - on) * entry.power->off.value;
    for (std::size_t s = 0; s < 2; ++s) {
      const plan::Service& service = problem_.services[s];
      double carried = 0, burnt = 0, most = 0;
      int count = 0;
      for (const std::size_t f : chosen) {
        carried += rate(fillings_[f], s);
        most = std::max(most, rate(fillings_[f], s));
        count += instances(fillings_[f], s);
        for (std::size_t k = 0; k < gpcs_.size(); ++k)
          burnt += fillings_[f].counts[s * gpcs_.size() + k] * gpcs_[k] *
                   (entry.power->busy - entry.power->idle).value / entry.gpu.compute_slices;
      }
      const double left = carried - (problem_.survive > 0 ? most : 0);
      if (left < service.rate.value * (1 - 1e-9) || count < service.min_replicas) return 1e300;
      sum += service.rate.value * burnt / carried;
    }
    return sum;
  }

  const plan::ServingProblem& problem_;
  const bool narrow_;
  std::vector<int> gpcs_;
  std::vector<Filling> fillings_;
  double best_ = 1e300;
};

struct ApartTally {
  int found = 0, least = 0, proven = 0;
  double worst = 0, open = 0;
};

void compare_apart(const plan::ServingProblem& problem, ApartTally& tally, int round) {
  const bool survives = problem.survive > 0;
  const double own = EveryFilling(problem, survives).least();
  const double any = survives ? EveryFilling(problem, false).least() : own;
  const Outcome outcome = plan_exact(problem, {});
  ASSERT_EQ(outcome.plan.has_value(), own < 1e299) << round;
  if (!outcome.plan) return;
  const plan::Objective& objective = outcome.plan->objective;
  EXPECT_NEAR(objective.watts, expected_watts(problem, *outcome.plan), 1e-9 * objective.watts);
  EXPECT_GE(objective.watts, own * (1 - 1e-9)) << round;
  EXPECT_LE(objective.lower_bound_watts, any * (1 + 1e-9)) << round;
  if (objective.optimal) {
    EXPECT_NEAR(objective.watts, any, 1e-8 * any) << round;
  }
  ++tally.found;
  tally.least += objective.watts <= own * (1 + 1e-9);
  tally.proven += objective.optimal;
  tally.worst = std::max(tally.worst, objective.watts / own - 1);
  tally.open = std::max(tally.open, 1 - objective.lower_bound_watts / any);
}

TEST(EnergyApart, ServicesThatKeepApartTakeTheLeastOfAllWays) {
  Rng rng(11);
  ApartTally tally;
  for (int round = 0; round < test_rounds(60); ++round) {
    plan::ServingProblem problem = apart_problem(rng);
    problem.services[0].spread = round % 3 != 1;
    problem.services[1].spread = round % 3 == 2;
    if (round % 3 == 1) problem.services[0].avoid = {"b"};
    compare_apart(problem, tally, round);
  }
  std::printf("%d found, %d the least, %d proven, %.3g above, bound %.3g below\n", tally.found,
              tally.least, tally.proven, tally.worst, tally.open);
  EXPECT_GE(tally.found, test_rounds(60) / 2);
  EXPECT_LT(tally.worst, 1e-9);
  EXPECT_GE(tally.proven, tally.found / 2);
}

TEST(EnergyApart, PlansThatSurviveTakeTheLeastOfAllWaysWithOneInstanceOnAGpu) {
  Rng rng(12);
  ApartTally tally;
  for (int round = 0; round < test_rounds(12); ++round) {
    plan::ServingProblem problem = apart_problem(rng);
    problem.survive = 1;
    compare_apart(problem, tally, round);
  }
  std::printf("%d found, %d the least, %d proven, %.3g above, bound %.3g below\n", tally.found,
              tally.least, tally.proven, tally.worst, tally.open);
  EXPECT_GE(tally.found, test_rounds(12) / 2);
  EXPECT_LT(tally.worst, 1e-9);
}

}  // namespace
}  // namespace partita::planners::serving
