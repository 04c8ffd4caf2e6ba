// Services that must keep apart, against exhaustive search: every combination of covers, every way
// to fill a GPU. The oracle shares nothing with the planner but hw's layouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/test_rounds.h"
#include "hw/catalogue.h"
#include "hw/layout.h"
#include "planners/serving/exact.h"
#include "problems.h"
#include "verify/serving.h"

namespace partita::planning_test {
namespace {

using planners::serving::plan_exact;
using Numbers = std::vector<int>;

bool meet(const plan::Service& a, const plan::Service& b) {
  const auto names = [](const plan::Service& x, const plan::Service& y) {
    return std::find(x.avoid.begin(), x.avoid.end(), y.name) != x.avoid.end();
  };
  return !names(a, b) && !names(b, a);
}

// Instances left, per service and size; a GPU takes any of them that fit and may meet.
class Exhaustion {
 public:
  explicit Exhaustion(const plan::ServingProblem& problem)
      : problem_(problem), sizes_(hw::plain_profiles(problem.fleet[0].gpu)) {
    const hw::GpuModel& gpu = problem.fleet[0].gpu;
    for (const hw::Layout& layout : hw::maximal_layouts(gpu, sizes_)) {
      Numbers counts(sizes_.size(), 0);
      for (const hw::PlacedProfile& placed : layout)
        ++counts[static_cast<std::size_t>(std::find(sizes_.begin(), sizes_.end(), placed.profile) -
                                          sizes_.begin())];
      layouts_.push_back(counts);
      int slices = 0;
      for (std::size_t k = 0; k < counts.size(); ++k) slices += counts[k] * slices_of(k);
      most_slices_ = std::max(most_slices_, slices);
    }
    rates_ = rates_of(problem, problem.fleet[0]);
  }

  // Fewest GPUs, then fewest slices.
  std::pair<int, int> best() {
    choose(0, Numbers(problem_.services.size() * sizes_.size(), 0), 0);
    return best_;
  }

 private:
  void choose(std::size_t s, Numbers wanted, int slices) {
    if (s == problem_.services.size()) {
      best_ = std::min(best_, {gpus(wanted), slices});
      return;
    }
    cover(s, 0, 0, wanted, slices);
  }

  void cover(std::size_t s, std::size_t k, double rate, Numbers wanted, int slices) {
    if (std::pair((slices + most_slices_ - 1) / most_slices_, slices) >= best_) return;
    const plan::Service& service = problem_.services[s];
    const auto first = wanted.begin() + static_cast<std::ptrdiff_t>(s * sizes_.size());
    int count = 0;
    for (std::size_t j = 0; j < sizes_.size(); ++j) count += first[static_cast<std::ptrdiff_t>(j)];
    if (rate >= service.rate.value * (1 - 1e-9) && count >= service.min_replicas)
      return choose(s + 1, wanted, slices);
    for (std::size_t j = k; j < sizes_.size(); ++j) {
      if (rates_[s][j] <= 0) continue;
      Numbers next = wanted;
      ++next[s * sizes_.size() + j];
      cover(s, j, rate + rates_[s][j], next, slices + slices_of(j));
    }
  }

  int slices_of(std::size_t k) const {
    return problem_.fleet[0].gpu.profiles[static_cast<std::size_t>(sizes_[k])].gpcs;
  }

  int gpus(const Numbers& wanted) {
    if (std::all_of(wanted.begin(), wanted.end(), [](int n) { return n == 0; })) return 0;
    if (const auto known = known_.find(wanted); known != known_.end()) return known->second;
    const int fewest = fill(0, wanted, Numbers(wanted.size(), 0));
    return known_[wanted] = fewest;
  }

  // A GPU that holds the first instance left and whatever else.
  int fill(std::size_t cell, const Numbers& wanted, Numbers held) {
    if (cell == wanted.size()) {
      Numbers left = wanted;
      for (std::size_t c = 0; c < left.size(); ++c) left[c] -= held[c];
      const auto first = std::find_if(wanted.begin(), wanted.end(), [](int n) { return n > 0; });
      const bool takes = held[static_cast<std::size_t>(first - wanted.begin())] > 0;
      return takes ? 1 + gpus(left) : 1 << 20;
    }
    int fewest = 1 << 20;
    for (int n = 0; n <= wanted[cell]; ++n) {
      held[cell] = n;
      if (!legal(held)) break;
      fewest = std::min(fewest, fill(cell + 1, wanted, held));
    }
    return fewest;
  }

  bool legal(const Numbers& held) const {
    Numbers sum(sizes_.size(), 0);
    std::vector<std::size_t> present;
    for (std::size_t s = 0; s < problem_.services.size(); ++s) {
      int count = 0;
      for (std::size_t k = 0; k < sizes_.size(); ++k) {
        count += held[s * sizes_.size() + k];
        sum[k] += held[s * sizes_.size() + k];
      }
      if (count == 0) continue;
      if (problem_.services[s].spread && count > 1) return false;
      for (const std::size_t other : present)
        if (!meet(problem_.services[s], problem_.services[other])) return false;
      present.push_back(s);
    }
    return std::any_of(layouts_.begin(), layouts_.end(), [&](const Numbers& layout) {
      for (std::size_t k = 0; k < sum.size(); ++k)
        if (sum[k] > layout[k]) return false;
      return true;
    });
  }

  const plan::ServingProblem& problem_;
  const std::vector<int> sizes_;
  std::vector<Numbers> layouts_;
  std::vector<std::vector<double>> rates_;
  int most_slices_ = 0;  // of one GPU
  std::map<Numbers, int> known_;
  std::pair<int, int> best_{1 << 20, 1 << 20};
};

// Lists, `true` and replicas in all mixtures.
void keep_apart(Rng& rng, plan::ServingProblem& problem) {
  for (plan::Service& service : problem.services) {
    service.spread = rng.below(3) == 0;
    if (rng.below(4) == 0) service.min_replicas = 2;
    for (const plan::Service& other : problem.services)
      if (other.name != service.name && rng.below(3) == 0) service.avoid.push_back(other.name);
  }
}

int instances_at_least(const plan::ServingProblem& problem) {
  const auto rates = rates_of(problem, problem.fleet[0]);
  double sum = 0;
  for (std::size_t s = 0; s < rates.size(); ++s) {
    double smallest = 1e9;
    for (const double rate : rates[s])
      if (rate > 0) smallest = std::min(smallest, rate);
    sum += problem.services[s].rate.value / smallest;
  }
  return static_cast<int>(sum);
}

TEST(Apart, EqualsExhaustiveSearch) {
  Rng rng(1);
  const std::string gpus[] = {"A100-80GB", "A30-24GB", "H200-141GB"};
  int compared = 0, apart_matters = 0;
  for (int round = 0; round < test_rounds(400); ++round) {
    auto problem = random_problem(rng, gpus[round % 3], 4, 1 + 3 * rng.uniform());
    if (instances_at_least(problem) > 5) continue;
    const int free = plan_exact(problem, {}).plan->objective.gpus;
    keep_apart(rng, problem);
    const auto outcome = plan_exact(problem, {});
    ASSERT_TRUE(outcome.plan) << round;
    EXPECT_TRUE(verify::verify(problem, *outcome.plan).empty()) << round;
    const plan::Objective& objective = outcome.plan->objective;
    EXPECT_EQ(std::pair(objective.gpus, objective.gpcs), Exhaustion(problem).best()) << round;
    EXPECT_TRUE(objective.optimal) << round;
    ++compared;
    apart_matters += objective.gpus > free ? 1 : 0;
  }
  EXPECT_GT(3 * apart_matters, compared);  // the problems are about keeping apart
}

// As many GPUs as needed are found, and one fewer is refused with that number.
TEST(Apart, NothingFeasibleIsRefused) {
  Rng rng(2);
  for (int round = 0; round < test_rounds(60); ++round) {
    auto problem = published_problem(rng, 2 + static_cast<int>(rng.below(7)), 1);
    keep_apart(rng, problem);
    const auto free = plan_exact(problem, {});
    ASSERT_TRUE(free.plan) << round;
    ASSERT_EQ(free.plan->objective.gpus, free.plan->objective.lower_bound_gpus) << round;
    problem.fleet[0].count = free.plan->objective.gpus;
    const auto bounded = plan_exact(problem, {});
    ASSERT_TRUE(bounded.plan) << round;
    EXPECT_EQ(bounded.plan->objective.gpus, free.plan->objective.gpus) << round;
    problem.fleet[0].count = free.plan->objective.gpus - 1;
    const auto refused = plan_exact(problem, {});
    ASSERT_FALSE(refused.plan) << round;
    EXPECT_EQ(refused.refusals[0].need, free.plan->objective.gpus) << round;
  }
}

// The cheaper model does not suffice; both pack alike, so the fleet needs as many GPUs as one.
TEST(Apart, FleetsOfTwoModelsPayTheLeast) {
  Rng rng(3);
  for (int round = 0; round < test_rounds(12); ++round) {
    auto problem = random_problem(rng, "A100-80GB", 6, 8);
    keep_apart(rng, problem);
    plan::FleetEntry other = problem.fleet[0];
    other.gpu = *hw::builtin_catalogue().find("H100-80GB-SXM5");
    problem.fleet[0].count = static_cast<int>(rng.below(3));
    other.price = 1.5;
    problem.fleet.push_back(other);
    const int alone =
        plan_exact({problem.services, {other}, problem.rule}, {}).plan->objective.gpus;
    const auto outcome = plan_exact(problem, {});
    ASSERT_TRUE(outcome.plan) << round;
    EXPECT_TRUE(verify::verify(problem, *outcome.plan).empty()) << round;
    const double least = 1.5 * alone - 0.5 * std::min(alone, *problem.fleet[0].count);
    EXPECT_NEAR(outcome.plan->objective.cost, least, 1e-9) << round;
    EXPECT_LE(outcome.plan->objective.lower_bound_cost, least + 1e-9) << round;
  }
}

// More groups than the master takes: plans are legal and near to the bound.
TEST(Apart, ManyServicesStillGetAPlan) {
  Rng rng(4);
  auto problem = published_problem(rng, 90, 0.2);
  for (std::size_t s = 0; s < problem.services.size(); ++s) {
    problem.services[s].spread = s % 2 == 0;
    if (s > 0) problem.services[s].avoid = {problem.services[s - 1].name};
  }
  const auto outcome = plan_exact(problem, {});
  ASSERT_TRUE(outcome.plan);
  EXPECT_TRUE(verify::verify(problem, *outcome.plan).empty());
  EXPECT_LE(outcome.plan->objective.lower_bound_gpus, outcome.plan->objective.gpus);
  EXPECT_LE(outcome.plan->objective.gpus, 1.1 * outcome.plan->objective.lower_bound_gpus + 1);
}

}  // namespace
}  // namespace partita::planning_test
