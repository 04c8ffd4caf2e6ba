#include "planners/serving/energy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "base/rng.h"
#include "base/test_rounds.h"
#include "hw/catalogue.h"
#include "hw/layout.h"
#include "hw/packing.h"
#include "planners/serving/exact.h"

namespace partita::planners::serving {
namespace {

using hw::GpuModel;

const GpuModel& gpu_named(const std::string& name) { return **hw::builtin_catalogue().get(name); }

// A random profile: per size a point, sometimes none; larger sizes are faster, by a random law.
profile::WorkloadProfile random_profile(Rng& rng, const GpuModel& gpu, const std::string& model) {
  profile::WorkloadProfile made{model, {}};
  const double whole = 20 + 80 * rng.uniform(), power = 0.5 + 0.6 * rng.uniform();
  for (const int p : hw::plain_profiles(gpu)) {
    const int gpcs = gpu.profiles[at(p)].gpcs;
    const bool known =
        std::ranges::any_of(made.points, [&](const auto& x) { return x.gpcs == gpcs; });
    if (known || (rng.uniform() < 0.15 && gpcs != 7)) continue;
    const double rate = whole * std::pow(gpcs / 7.0, power) * (0.9 + 0.2 * rng.uniform());
    made.points.push_back({gpcs, 4, 1, Rps{rate}, Millis{4e3 / rate}, {}});
  }
  return made;
}

plan::ServingProblem random_energy_problem(Rng& rng, std::vector<std::string> gpus, int services) {
  plan::ServingProblem problem;
  problem.rule = {plan::SloRule::Kind::execution, 1, plan::Dispatch::paced};
  problem.goal = plan::Goal::energy;
  for (const std::string& name : gpus) {
    plan::FleetEntry entry{gpu_named(name), {}, {}};
    entry.power = plan::GpuPower{Watts{20 + 80 * rng.uniform()}, Watts{200 + 500 * rng.uniform()}};
    if (rng.uniform() < 0.3) {
      entry.count = 2 + static_cast<int>(rng.below(4));
      entry.power->off = Watts{10 * rng.uniform()};
    }
    for (int s = 0; s < services; ++s) {
      const std::string model = "m" + std::to_string(s);
      entry.profiles[model] = random_profile(rng, entry.gpu, model);
    }
    if (rng.uniform() < 0.3)
      for (const auto& point : entry.profiles["m0"].points)
        entry.power->measured["m0"][point.gpcs] = Watts{point.gpcs * (10 + 60 * rng.uniform())};
    problem.fleet.push_back(std::move(entry));
  }
  for (int s = 0; s < services; ++s) {
    plan::Service service;
    service.name = "s" + std::to_string(s);
    service.model = "m" + std::to_string(s);
    service.rate = Rps{5 + (gpus.size() > 1 ? 12 : 60) * rng.uniform()};
    service.slo = Millis{1e4};
    if (rng.uniform() < 0.2) service.min_replicas = 2;
    problem.services.push_back(std::move(service));
  }
  return problem;
}

// Every way to carry every service with at most as many instances of a size as carry it alone, the
// fewest GPUs for each: the least watts.
class EveryWay {
 public:
  explicit EveryWay(const plan::ServingProblem& problem) : problem_(problem) {
    for (std::size_t e = 0; e < problem.fleet.size(); ++e) {
      const GpuModel& gpu = problem.fleet[e].gpu;
      std::vector<int> profiles = hw::plain_profiles(gpu);
      std::ranges::sort(profiles, {}, [&](int p) { return gpu.profiles[at(p)].gpcs; });
      rules_.push_back(hw::packing_rules(gpu, profiles));
      for (const int p : profiles) shapes_.push_back({e, gpu.profiles[at(p)].gpcs});
    }
    for (const plan::Service& service : problem.services) {
      ways_.emplace_back();
      std::vector<int> counts(shapes_.size(), 0);
      list(service, 0, counts);
      std::ranges::sort(ways_.back(), {}, &Way::watts);
    }
  }
  double least() {
    choose(0, std::vector<int>(shapes_.size(), 0), 0);
    return best_;
  }

 private:
  struct Shape {
    std::size_t entry;
    int gpcs;
  };
  struct Way {
    std::vector<int> counts;
    double watts;
  };
  const profile::ProfilePoint* point(const plan::Service& service, std::size_t k) const {
    const auto& entry = problem_.fleet[shapes_[k].entry];
    return profile::find_point(entry.profiles.at(service.model), shapes_[k].gpcs, 4, 1);
  }
  double busy(const plan::Service& service, std::size_t k) const {
    const auto& entry = problem_.fleet[shapes_[k].entry];
    const auto measured = entry.power->measured.find(service.model);
    if (measured != entry.power->measured.end()) return measured->second.at(shapes_[k].gpcs).value;
    return (entry.power->busy - entry.power->idle).value * shapes_[k].gpcs /
           entry.gpu.compute_slices;
  }
  void list(const plan::Service& service, std::size_t k, std::vector<int>& counts) {
    if (k == shapes_.size()) {
      double rate = 0, weighted = 0;
      int total = 0;
      for (std::size_t i = 0; i < k; ++i)
        if (counts[i] > 0) {
          rate += counts[i] * point(service, i)->throughput.value;
          weighted += counts[i] * busy(service, i);
          total += counts[i];
        }
      if (rate >= service.rate.value && total >= service.min_replicas)
        ways_.back().push_back({counts, service.rate.value * weighted / rate});
      return;
    }
    const auto* measured = point(service, k);
    const int most =
        measured ? std::max(service.min_replicas,
                            static_cast<int>(std::ceil(service.rate / measured->throughput)))
                 : 0;
    for (int n = 0; n <= most; ++n) {
      counts[k] = n;
      list(service, k + 1, counts);
    }
    counts[k] = 0;
  }
  void choose(std::size_t s, const std::vector<int>& sum, double watts) {
    if (watts >= best_) return;
    if (s == ways_.size()) {
      std::size_t first = 0;
      for (std::size_t e = 0; e < problem_.fleet.size(); ++e) {
        const auto& entry = problem_.fleet[e];
        const std::size_t sizes = rules_[e].profiles.size();
        const std::vector<int> own(sum.begin() + static_cast<std::ptrdiff_t>(first),
                                   sum.begin() + static_cast<std::ptrdiff_t>(first + sizes));
        first += sizes;
        const int on = hw::gpus_needed(rules_[e], own);
        if (entry.count && on > *entry.count) return;
        watts += on * entry.power->idle.value;
        if (entry.count) watts += (*entry.count - on) * entry.power->off.value;
      }
      best_ = std::min(best_, watts);
      return;
    }
    for (const Way& way : ways_[s]) {
      std::vector<int> next = sum;
      for (std::size_t k = 0; k < next.size(); ++k) next[k] += way.counts[k];
      choose(s + 1, next, watts + way.watts);
    }
  }

  const plan::ServingProblem& problem_;
  std::vector<hw::PackingRules> rules_;
  std::vector<Shape> shapes_;
  std::vector<std::vector<Way>> ways_;
  double best_ = 1e300;
};

struct Tally {
  int found = 0, optimal = 0;
  double worst = 0, open = 0;  // above the least; of the bound below it
};

void compare(const plan::ServingProblem& problem, Tally& tally, int round) {
  const double least = EveryWay(problem).least();
  const Outcome outcome = plan_exact(problem, {});
  ASSERT_EQ(outcome.plan.has_value(), least < 1e299) << round;
  if (!outcome.plan) return;
  const plan::Objective& objective = outcome.plan->objective;
  EXPECT_NEAR(objective.watts, expected_watts(problem, *outcome.plan), 1e-9 * objective.watts);
  EXPECT_GE(objective.watts, least * (1 - 1e-9)) << round;
  EXPECT_LE(objective.lower_bound_watts, least * (1 + 1e-9)) << round;
  if (objective.optimal) {
    EXPECT_NEAR(objective.watts, least, 1e-8 * least) << round;
  }
  ++tally.found;
  tally.optimal += objective.optimal;
  tally.worst = std::max(tally.worst, objective.watts / least - 1);
  tally.open = std::max(tally.open, 1 - objective.lower_bound_watts / least);
}

TEST(Energy, OneModelComesToTheLeastOfAllWays) {
  Rng rng(1);
  Tally tally;
  for (int round = 0; round < test_rounds(60); ++round)
    compare(random_energy_problem(rng, {round % 2 == 0 ? "A30-24GB" : "A100-80GB"}, 2), tally,
            round);
  EXPECT_GE(tally.found, test_rounds(60) * 2 / 3);
  EXPECT_LT(tally.worst, 1e-9);
  EXPECT_LT(tally.open, 0.05);
  EXPECT_GE(tally.optimal, tally.found / 2);
  RecordProperty("optimal", tally.optimal);
}

TEST(Energy, TwoModelsComeToTheLeastOfAllWays) {
  Rng rng(2);
  Tally tally;
  for (int round = 0; round < test_rounds(16); ++round)
    compare(random_energy_problem(rng, {"A30-24GB", "RTX-PRO-6000-96GB"}, 1 + round % 2), tally,
            round);
  EXPECT_LT(tally.worst, 1e-9);
  EXPECT_LT(tally.open, 0.1);
}

// By hand: one service of 30/s on an A100, of which the whole carries 70 and a seventh 20.
TEST(Energy, ByHand) {
  plan::ServingProblem problem;
  problem.rule = {plan::SloRule::Kind::execution, 1, plan::Dispatch::paced};
  problem.goal = plan::Goal::energy;
  plan::FleetEntry entry{gpu_named("A100-80GB"), {}, {}};
  entry.power = plan::GpuPower{Watts{50}, Watts{400}};
  entry.profiles["m"] = {"m",
                         {{1, 1, 1, Rps{20}, Millis{50}, {}}, {7, 1, 1, Rps{70}, Millis{10}, {}}}};
  problem.fleet = {entry};
  plan::Service service;
  service.name = "s";
  service.model = "m";
  service.rate = Rps{30};
  service.slo = Millis{100};
  problem.services = {service};
  const Outcome outcome = plan_exact(problem, {});
  ASSERT_TRUE(outcome.plan);
  // Two sevenths: 50 W each when busy, busy 3/4 of the time.
  EXPECT_NEAR(outcome.plan->objective.watts, 50 + 2 * 50 * 0.75, 1e-9);
  EXPECT_TRUE(outcome.plan->objective.optimal);
  EXPECT_EQ(outcome.plan->objective.goal, plan::Goal::energy);
}

// Fewer GPUs are not always fewer watts: small slices of a second GPU burn less than they save.
TEST(Energy, CanTakeMoreGpusForFewerWatts) {
  Rng rng(7);
  int more = 0;
  for (int round = 0; round < 40; ++round) {
    plan::ServingProblem problem = random_energy_problem(rng, {"A100-80GB"}, 4);
    problem.fleet[0].count.reset();
    problem.fleet[0].power = plan::GpuPower{Watts{10}, Watts{400}};
    const Outcome energy = plan_exact(problem, {});
    problem.goal.reset();
    const Outcome gpus = plan_exact(problem, {});
    ASSERT_TRUE(energy.plan && gpus.plan);
    EXPECT_LE(energy.plan->objective.watts, expected_watts(problem, *gpus.plan) * (1 + 1e-9));
    more += energy.plan->objective.gpus > gpus.plan->objective.gpus;
  }
  EXPECT_GT(more, 0);
}

}  // namespace
}  // namespace partita::planners::serving
