// Fleets of several GPU models: the exact planner against exhaustive search over whole GPUs, which
// shares nothing with it but hw's layouts, and pools on more models and on fewer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/test_rounds.h"
#include "hw/catalogue.h"
#include "hw/layout.h"
#include "planners/serving/exact.h"
#include "problems.h"
#include "verify/serving.h"

namespace partita::planning_test {
namespace {

using planners::serving::plan_exact;

constexpr double kCent = 1e-9;

// What GPUs give to each service, in so many slices.
struct Given {
  std::vector<double> rates;
  std::vector<int> counts;
  int slices = 0;

  bool operator==(const Given&) const = default;
  bool as_good_as(const Given& other) const {
    for (std::size_t s = 0; s < rates.size(); ++s)
      if (rates[s] < other.rates[s] || counts[s] < other.counts[s]) return false;
    return slices <= other.slices;
  }
  void add(const Given& other) {
    for (std::size_t s = 0; s < rates.size(); ++s) {
      rates[s] += other.rates[s];
      counts[s] += other.counts[s];
    }
    slices += other.slices;
  }
};

struct Price {
  double cost = 0;
  int slices = 0;
  bool below(const Price& other) const {
    return cost < other.cost - kCent || (cost < other.cost + kCent && slices < other.slices);
  }
};

class CheapestGpus {
 public:
  // Of what is below `known`.
  CheapestGpus(const plan::ServingProblem& problem, Price known) : problem_(problem), best_(known) {
    for (const plan::FleetEntry& entry : problem.fleet) {
      std::vector<Given>& fills = fills_.emplace_back();
      const auto rates = rates_of(problem, entry);
      const std::vector<int> sizes = hw::plain_profiles(entry.gpu);
      for (const hw::Layout& layout : hw::maximal_layouts(entry.gpu, sizes))
        fill(entry, rates, layout, 0, nothing(), fills);
    }
  }

  Price best() {
    buy(0, 0, 0, {nothing(), 0});
    return best_;
  }

 private:
  struct Bought {
    Given filled;
    double cost;
  };

  Given nothing() const {
    const std::size_t all = problem_.services.size();
    return {std::vector<double>(all, 0), std::vector<int>(all, 0), 0};
  }

  bool may_join(std::size_t s, const Given& gpu) const {
    const auto avoids = [](const plan::Service& a, const plan::Service& b) {
      return std::ranges::count(a.avoid, b.name) > 0;
    };
    const plan::Service& service = problem_.services[s];
    for (std::size_t t = 0; t < gpu.counts.size(); ++t) {
      const plan::Service& other = problem_.services[t];
      if (gpu.counts[t] > 0 &&
          (t == s ? service.spread : avoids(service, other) || avoids(other, service)))
        return false;
    }
    return true;
  }

  void fill(const plan::FleetEntry& entry, const std::vector<std::vector<double>>& rates,
            const hw::Layout& layout, std::size_t place, const Given& gpu,
            std::vector<Given>& fills) {
    if (place == layout.size()) {
      const auto as_good = [&](const Given& known) { return known.as_good_as(gpu); };
      if (std::ranges::any_of(fills, as_good)) return;
      std::erase_if(fills, [&](const Given& known) { return gpu.as_good_as(known); });
      return fills.push_back(gpu);
    }
    const std::vector<int> sizes = hw::plain_profiles(entry.gpu);
    const auto size = std::ranges::find(sizes, layout[place].profile) - sizes.begin();
    fill(entry, rates, layout, place + 1, gpu, fills);
    for (std::size_t s = 0; s < rates.size(); ++s) {
      const double rate = rates[s][static_cast<std::size_t>(size)];
      if (rate <= 0 || !may_join(s, gpu)) continue;
      Given more = gpu;
      more.rates[s] += rate;
      ++more.counts[s];
      more.slices += entry.gpu.profiles[static_cast<std::size_t>(layout[place].profile)].gpcs;
      fill(entry, rates, layout, place + 1, more, fills);
    }
  }

  bool enough(const Given& all) const {
    for (std::size_t s = 0; s < problem_.services.size(); ++s) {
      const plan::Service& service = problem_.services[s];
      if (all.rates[s] < service.rate.value * (1 - kCent)) return false;
      if (all.counts[s] < service.min_replicas) return false;
    }
    return true;
  }

  // More GPUs of model m from fill f on, of which there are `had`, and of later models.
  void buy(std::size_t m, std::size_t f, int had, const Bought& bought) {
    if (!Price{bought.cost, bought.filled.slices}.below(best_)) return;
    if (enough(bought.filled)) {
      best_ = {bought.cost, bought.filled.slices};
      return;
    }
    for (; m < fills_.size(); ++m, f = 0, had = 0) {
      const plan::FleetEntry& entry = problem_.fleet[m];
      if (had == entry.count.value_or(INT32_MAX)) continue;
      for (std::size_t next = f; next < fills_[m].size(); ++next) {
        Bought more = bought;
        more.filled.add(fills_[m][next]);
        more.cost += entry.price;
        buy(m, next, had + 1, more);
      }
    }
  }

  const plan::ServingProblem& problem_;
  std::vector<std::vector<Given>> fills_;  // per model, none as good as another
  Price best_;
};

// GPUs of four slices at prices that are often the same; larger instances are not always faster.
plan::ServingProblem random_fleet(Rng& rng, int models) {
  const double prices[] = {1, 1, 1.5, 2, 3.3};
  const char* const names[] = {"A30-24GB", "RTX-PRO-6000-96GB"};
  plan::ServingProblem problem;
  problem.rule = {plan::SloRule::Kind::execution, 0.5};
  const int services = 1 + static_cast<int>(rng.below(3));
  for (int m = 0; m < models; ++m) {
    plan::FleetEntry& entry = problem.fleet.emplace_back();
    entry.gpu = *hw::builtin_catalogue().find(names[m % 2]);
    if (m > 1) entry.gpu.name += " again";
    entry.price = prices[rng.below(std::size(prices))];
    if (rng.below(2) == 0) entry.count = 1 + static_cast<int>(rng.below(2));
    for (int s = 0; s < services; ++s) {
      profile::WorkloadProfile profile{"m" + std::to_string(s), {}};
      const double base = 50 + 150 * rng.uniform(), power = 0.3 + 0.9 * rng.uniform();
      for (const int gpcs : {1, 2, 4})
        if (gpcs == 4 || rng.below(8) > 0)
          profile.points.push_back({gpcs,
                                    1,
                                    1,
                                    Rps{base * std::pow(gpcs, power) * (0.7 + 0.6 * rng.uniform())},
                                    Millis{10},
                                    {}});
      entry.profiles[profile.model] = profile;
    }
  }
  for (int s = 0; s < services; ++s) {
    plan::Service& one = problem.services.emplace_back();
    one.name = one.model = "m" + std::to_string(s);
    one.rate = Rps{20 + 400 * rng.uniform()};
    one.slo = Millis{100};
    one.spread = rng.below(4) == 0;
    if (s > 0 && rng.below(4) == 0) one.avoid = {"m0"};
  }
  return problem;
}

TEST(Fleets, EqualExhaustiveSearch) {
  Rng rng(7);
  int planned = 0, optimal = 0;
  for (int round = 0; round < test_rounds(400); ++round) {
    const plan::ServingProblem problem = random_fleet(rng, 2 + round % 2);
    const auto outcome = plan_exact(problem, {});
    if (!outcome.plan) continue;
    for (const plan::Reason& violation : verify::verify(problem, *outcome.plan))
      ADD_FAILURE() << round << ": " << to_string(violation);
    const plan::Objective& objective = outcome.plan->objective;
    if (objective.gpus > 4) continue;
    ++planned;
    optimal += objective.optimal;
    const Price best = CheapestGpus(problem, {objective.cost, objective.gpcs}).best();
    EXPECT_LE(objective.lower_bound_cost, best.cost + kCent) << round;
    if (best.cost > objective.cost - kCent) {
      EXPECT_LE(objective.lower_bound_gpcs, best.slices) << round;
    }
    if (objective.optimal) {
      EXPECT_NEAR(objective.cost, best.cost, kCent) << round;
      EXPECT_EQ(objective.gpcs, best.slices) << round;
    }
  }
  EXPECT_GE(optimal, planned * 95 / 100);
  EXPECT_GE(planned, test_rounds(400) / 2);
}

profile::WorkloadProfile random_batches(Rng& rng, const hw::GpuModel& gpu,
                                        const std::string& model) {
  profile::WorkloadProfile profile{model, {}};
  const double base = 1 + 19 * rng.uniform(), each = 0.5 + 4.5 * rng.uniform();
  const double power = 0.5 + 0.5 * rng.uniform();
  for (const int p : hw::plain_profiles(gpu))
    for (const int processes : {1, 2, 3})
      for (const int batch : {1, 2, 4, 8, 16}) {
        const int gpcs = gpu.profiles[static_cast<std::size_t>(p)].gpcs;
        const double shared = 1 + (processes - 1) * (0.3 + 0.7 * rng.uniform());
        const double ms = (base + each * batch) / std::pow(gpcs, power) * shared;
        profile.points.push_back(
            {gpcs, batch, processes, Rps{1e3 * batch * processes / ms}, Millis{ms}, {}});
      }
  return profile;
}

plan::ServingProblem random_pools(Rng& rng) {
  const double prices[] = {1, 1.7, 2, 3};
  plan::ServingProblem problem;
  const int services = 1 + static_cast<int>(rng.below(3));
  for (const char* name : {"A100-80GB", "H100-80GB-SXM5", "A30-24GB"}) {
    plan::FleetEntry& entry = problem.fleet.emplace_back();
    entry.gpu = *hw::builtin_catalogue().find(name);
    entry.price = prices[rng.below(std::size(prices))];
    for (const char* model : {"m0", "m1"})
      entry.profiles[model] = random_batches(rng, entry.gpu, model);
  }
  for (int s = 0; s < services; ++s) {
    plan::Service& one = problem.services.emplace_back();
    one.name = "s" + std::to_string(s);
    one.model = rng.below(2) == 0 ? "m0" : "m1";
    one.rate = Rps{std::pow(10, 1 + 2 * rng.uniform())};
    one.slo = Millis{std::pow(10, 1.6 + 0.9 * rng.uniform())};
    one.spread = rng.below(4) == 0;
  }
  return problem;
}

std::optional<double> cost_of(const plan::ServingProblem& problem) {
  const auto outcome = plan_exact(problem, {});
  if (!outcome.plan) return std::nullopt;
  for (const plan::Reason& violation : verify::verify(problem, *outcome.plan))
    ADD_FAILURE() << to_string(violation);
  return outcome.plan->objective.cost;
}

TEST(Fleets, MoreModelsNeverMakePoolsDearer) {
  Rng rng(8);
  int compared = 0;
  for (int round = 0; round < test_rounds(20); ++round) {
    const plan::ServingProblem problem = random_pools(rng);
    const auto all = cost_of(problem);
    for (unsigned taken = 1; taken < 7; ++taken) {  // a bit for each model
      plan::ServingProblem fewer = problem;
      fewer.fleet.clear();
      for (std::size_t m = 0; m < 3; ++m)
        if (taken >> m & 1U) fewer.fleet.push_back(problem.fleet[m]);
      const auto cost = cost_of(fewer);
      if (!cost) continue;
      ++compared;
      ASSERT_TRUE(all) << round << ", models " << taken;
      EXPECT_LE(*all, *cost + kCent) << round << ", models " << taken;
    }
  }
  EXPECT_GT(compared, 2 * test_rounds(20));
}

}  // namespace
}  // namespace partita::planning_test
