#include "oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "hw/catalogue.h"
#include "hw/layout.h"

namespace partita::incremental_test {
namespace {

using Triple = std::tuple<int, std::string, int, std::string>;  // GPU, profile, start, service

std::set<Triple> instances_of(const plan::ServingPlan& plan) {
  std::set<Triple> result;
  for (const plan::PlannedGpu& gpu : plan.gpus)
    for (const auto& instance : gpu.instances)
      result.insert({gpu.index, instance.profile, instance.start, instance.service});
  return result;
}

// Best throughput per service and plain profile under the execution rule.
std::vector<std::vector<double>> rates_of(const plan::ServingProblem& problem) {
  const plan::FleetEntry& entry = problem.fleet[0];
  std::vector<std::vector<double>> rates;
  for (const plan::Service& service : problem.services) {
    rates.emplace_back();
    for (const int p : hw::plain_profiles(entry.gpu)) {
      double best = 0;
      for (const auto& point : entry.profiles.at(service.model).points)
        if (point.gpcs == entry.gpu.profiles[static_cast<std::size_t>(p)].gpcs &&
            point.latency.value < problem.rule.fraction * service.slo.value)
          best = std::max(best, point.throughput.value);
      rates.back().push_back(best);
    }
  }
  return rates;
}

// What a plan gives to services so far: instances per service and profile, a row per service. A
// service that has enough is all ones below zero, whatever it has.
using State = std::vector<std::vector<int>>;

// Exhaustive search: GPU after GPU, every layout with every choice of services.
class Exhaustive {
 public:
  Exhaustive(const plan::ServingProblem& problem, const plan::ServingPlan& current)
      : problem_(problem),
        profiles_(hw::plain_profiles(problem.fleet[0].gpu)),
        rates_(rates_of(problem)),
        running_(instances_of(current)) {
    for (const plan::PlannedGpu& gpu : current.gpus) indices_.push_back(gpu.index);
  }

  int fewest(int gpus) {
    std::vector<std::map<State, int>> reached(static_cast<std::size_t>(gpus) + 1);
    reached[0][State(rates_.size(), std::vector<int>(profiles_.size(), 0))] = 0;
    std::vector<int> all = indices_;
    // A GPU where nothing runs is no better than one where something does.
    for (int n = static_cast<int>(all.size()); n < gpus; ++n) all.push_back(-1 - n);
    for (const int index : all) {
      const std::map<State, int> options = options_on(index);
      for (std::size_t used = reached.size() - 1; used-- > 0;)
        for (const auto& [state, creations] : reached[used])
          for (const auto& [more, cost] : options) {
            const State next = sum(state, more);
            const auto [at, fresh] = reached[used + 1].emplace(next, creations + cost);
            if (!fresh) at->second = std::min(at->second, creations + cost);
          }
    }
    int best = 1 << 20;
    const State enough(rates_.size(), std::vector<int>(profiles_.size(), -1));
    for (const auto& states : reached)
      if (const auto found = states.find(enough); found != states.end())
        best = std::min(best, found->second);
    return best;
  }

 private:
  State sum(const State& a, const State& b) const {
    State result = a;
    for (std::size_t s = 0; s < a.size(); ++s) {
      double rate = 0;
      for (std::size_t k = 0; k < a[s].size() && a[s][k] >= 0; ++k) {
        result[s][k] += b[s][k];
        rate += result[s][k] * rates_[s][k];
      }
      if (a[s][0] < 0 || rate >= problem_.services[s].rate.value * (1 - 1e-12))
        std::fill(result[s].begin(), result[s].end(), -1);
    }
    return result;
  }

  // What a GPU can give, with the fewest creations.
  std::map<State, int> options_on(int index) {
    std::map<State, int> options;
    State state(rates_.size(), std::vector<int>(profiles_.size(), 0));
    std::vector<hw::PlacedProfile> placed;
    visit(index, {}, 0, state, 0, options);
    return options;
  }

  void visit(int index, std::vector<hw::PlacedProfile> placed, std::size_t next, State& state,
             int creations, std::map<State, int>& options) {
    const auto [at, fresh] = options.emplace(state, creations);
    if (!fresh) at->second = std::min(at->second, creations);
    const hw::GpuModel& gpu = problem_.fleet[0].gpu;
    std::size_t number = 0;
    for (std::size_t k = 0; k < profiles_.size(); ++k) {
      const hw::MigProfile& shape = gpu.profiles[static_cast<std::size_t>(profiles_[k])];
      for (const int start : shape.starts) {
        if (number++ < next) continue;
        placed.push_back({profiles_[k], start});
        for (std::size_t s = 0; hw::conflicts(gpu, placed).empty() && s < rates_.size(); ++s) {
          if (rates_[s][k] <= 0) continue;
          const bool kept =
              running_.contains({index, shape.name, start, problem_.services[s].name});
          ++state[s][k];
          visit(index, placed, number, state, creations + (kept ? 0 : 1), options);
          --state[s][k];
        }
        placed.pop_back();
      }
    }
  }

  const plan::ServingProblem& problem_;
  std::vector<int> profiles_;
  std::vector<std::vector<double>> rates_;
  std::set<Triple> running_;
  std::vector<int> indices_;
};

// A largest-weight matching, by augmenting along the path of greatest gain until none gains
// (Bellman-Ford): slow, and nothing like the planner's.
class Matching {
 public:
  explicit Matching(std::vector<std::vector<int>> weight) : weight_(std::move(weight)) {}

  std::vector<int> column_of_row() {
    column_.assign(weight_.size(), -1);
    row_.assign(weight_.empty() ? 0 : weight_[0].size(), -1);
    while (augment()) {
    }
    return column_;
  }

 private:
  bool augment() {
    constexpr int kNone = -(1 << 20);
    std::vector<int> gain(row_.size(), kNone), from(row_.size(), -1);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t r = 0; r < column_.size(); ++r) {
        const int base = column_[r] < 0 ? 0 : gain[static_cast<std::size_t>(column_[r])];
        if (base == kNone) continue;
        const int given = column_[r] < 0 ? 0 : weight_[r][static_cast<std::size_t>(column_[r])];
        for (std::size_t c = 0; c < row_.size(); ++c) {
          if (static_cast<int>(c) == column_[r]) continue;
          const int value = base - given + weight_[r][c];
          if (value > gain[c]) gain[c] = value, from[c] = static_cast<int>(r), changed = true;
        }
      }
    }
    int best = -1;
    for (std::size_t c = 0; c < row_.size(); ++c)
      if (row_[c] < 0 && gain[c] >= 0 &&
          (best < 0 || gain[c] > gain[static_cast<std::size_t>(best)]))
        best = static_cast<int>(c);
    if (best < 0) return false;
    for (int c = best; c >= 0;) {
      const int r = from[static_cast<std::size_t>(c)];
      const int before = column_[static_cast<std::size_t>(r)];
      column_[static_cast<std::size_t>(r)] = c;
      row_[static_cast<std::size_t>(c)] = r;
      c = before;
    }
    return true;
  }

  std::vector<std::vector<int>> weight_;
  std::vector<int> column_, row_;
};

}  // namespace

plan::ServingProblem random_problem(Rng& rng, const std::string& gpu, int services, double scale) {
  plan::ServingProblem problem;
  problem.rule = {plan::SloRule::Kind::execution, 0.5};
  plan::FleetEntry entry;
  entry.gpu = *hw::builtin_catalogue().find(gpu);
  const int count = 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(services)));
  for (int s = 0; s < count; ++s) {
    const std::string name = "m" + std::to_string(s);
    profile::WorkloadProfile profile{name, {}};
    const double base = 50 + 150 * rng.uniform();
    double throughput = 0;
    for (const int p : hw::plain_profiles(entry.gpu)) {
      const int gpcs = entry.gpu.profiles[static_cast<std::size_t>(p)].gpcs;
      throughput = std::max(throughput, base * std::pow(gpcs, 0.6 + 0.6 * rng.uniform()));
      if (rng.below(8) == 0 && p != hw::plain_profiles(entry.gpu).back()) continue;
      profile.points.push_back({gpcs, 1, 1, Rps{throughput}, Millis{10}, {}});
      profile.points.push_back(
          {gpcs, 2, 1, Rps{throughput * (0.7 + 0.6 * rng.uniform())}, Millis{30}, {}});
    }
    entry.profiles[name] = profile;
    plan::Service service;
    service.name = service.model = name;
    service.rate = Rps{std::floor(1 + scale * base * rng.uniform())};
    service.slo = Millis{100};
    problem.services.push_back(service);
  }
  problem.fleet.push_back(entry);
  return problem;
}

plan::ServingProblem changed(Rng& rng, plan::ServingProblem problem, double share) {
  for (plan::Service& service : problem.services) {
    if (rng.uniform() >= share) continue;
    service.rate = (0.5 + rng.uniform()) * service.rate;
    if (rng.below(4) == 0) service.slo = Millis{50};
  }
  if (rng.below(6) == 0) {
    problem.services.push_back(problem.services[0]);
    problem.services.back().name = "new";
  }
  if (rng.below(6) == 0 && problem.services.size() > 1)
    problem.services.erase(problem.services.begin());
  return problem;
}

void shuffle(Rng& rng, plan::ServingPlan& plan) {
  int index = 0;
  for (plan::PlannedGpu& gpu : plan.gpus) {
    gpu.index = index += 1 + static_cast<int>(rng.below(3));
    std::erase_if(gpu.instances, [&](const auto&) { return rng.below(12) == 0; });
    for (auto& instance : gpu.instances)
      if (rng.below(4) == 0) instance.batch = 3 - instance.batch;
  }
}

int fewest_creations(const plan::ServingProblem& problem, const plan::ServingPlan& current,
                     int gpus) {
  return Exhaustive(problem, current).fewest(gpus);
}

int missing_when_all_is_kept(const plan::ServingProblem& problem,
                             const plan::ServingPlan& current) {
  const auto rates = rates_of(problem);
  const auto profiles = hw::plain_profiles(problem.fleet[0].gpu);
  int missing = 0;
  for (std::size_t s = 0; s < rates.size(); ++s) {
    double left = problem.services[s].rate.value * (1 - 1e-12);
    for (const plan::PlannedGpu& gpu : current.gpus)
      for (const auto& instance : gpu.instances) {
        if (instance.service != problem.services[s].name) continue;
        const int p = problem.fleet[0].gpu.profile_index(instance.profile);
        left -= rates[s][static_cast<std::size_t>(
            std::find(profiles.begin(), profiles.end(), p) - profiles.begin())];
      }
    const double largest = *std::max_element(rates[s].begin(), rates[s].end());
    if (left > 0) missing += static_cast<int>(std::ceil(left / largest));
  }
  return missing;
}

plan::ServingPlan matched_to(const plan::ServingPlan& current, plan::ServingPlan plan) {
  const std::set<Triple> running = instances_of(current);
  std::vector<int> indices;
  for (const plan::PlannedGpu& gpu : current.gpus) indices.push_back(gpu.index);
  for (std::size_t fresh = 0; fresh < plan.gpus.size(); ++fresh)
    indices.push_back(1'000'000 + static_cast<int>(fresh));
  std::vector<std::vector<int>> kept;
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    kept.emplace_back();
    for (const int index : indices)
      kept.back().push_back(static_cast<int>(
          std::count_if(gpu.instances.begin(), gpu.instances.end(), [&](const auto& i) {
            return running.contains({index, i.profile, i.start, i.service});
          })));
  }
  const std::vector<int> column = Matching(std::move(kept)).column_of_row();
  for (std::size_t g = 0; g < plan.gpus.size(); ++g)
    plan.gpus[g].index = indices[static_cast<std::size_t>(column[g])];
  return plan;
}

plan::ServingProblem by_hand(double rate) {
  plan::ServingProblem problem;
  problem.rule = {plan::SloRule::Kind::execution, 0.5};
  plan::FleetEntry entry;
  entry.gpu = *hw::builtin_catalogue().find("A30-24GB");
  entry.profiles["m"] = {"m", {}};
  for (const int gpcs : {1, 2, 4}) {
    entry.profiles["m"].points.push_back({gpcs, 1, 1, Rps{10.0 * gpcs}, Millis{10}, {}});
    entry.profiles["m"].points.push_back({gpcs, 2, 1, Rps{5.0 * gpcs}, Millis{30}, {}});
  }
  problem.fleet.push_back(entry);
  plan::Service service;
  service.name = service.model = "m";
  service.rate = Rps{rate};
  service.slo = Millis{100};
  problem.services.push_back(service);
  return problem;
}

TEST(Oracle, CountsByHand) {
  plan::ServingPlan current;
  current.gpus = {{4, "A30-24GB", {{"1g.6gb", 0, "m", 1, 1, Rps{10}, Millis{10}}}}};
  EXPECT_EQ(fewest_creations(by_hand(10), current, 1), 0);
  EXPECT_EQ(fewest_creations(by_hand(30), current, 1), 1);
  EXPECT_EQ(fewest_creations(by_hand(40), current, 1), 1);  // the 4g instead
  EXPECT_EQ(fewest_creations(by_hand(50), current, 2), 1);
  EXPECT_EQ(missing_when_all_is_kept(by_hand(10), current), 0);
  EXPECT_EQ(missing_when_all_is_kept(by_hand(51), current), 2);
}

TEST(Oracle, MatchesByHand) {
  const plan::PlannedInstance one{"1g.6gb", 0, "m", 1, 1, Rps{10}, Millis{10}};
  plan::PlannedInstance two = one, three = one;
  two.start = 1, three.start = 2;
  plan::ServingPlan current, plan;
  current.gpus = {{5, "A30-24GB", {one, two}}, {9, "A30-24GB", {one, two, three}}};
  plan.gpus = {{0, "A30-24GB", {one, two}}, {1, "A30-24GB", {one, three}}};
  const plan::ServingPlan matched = matched_to(current, plan);
  EXPECT_EQ(matched.gpus[0].index, 5);
  EXPECT_EQ(matched.gpus[1].index, 9);
}

}  // namespace partita::incremental_test
