#include "planners/serving/mig_serving_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/rng.h"

namespace partita::planners::serving {
namespace {

constexpr std::uint64_t kEvolutionSeed = 0x4d49'4753;
constexpr double kExplore = 1.0;  // GPUs: how much a rarely seen child is favoured

// GPUs for what is missing. A node is what is still missing after the configurations on its path; a
// playout picks among the best few until nothing is.
class Tree {
 public:
  Tree(const ConfigSpace& space, Missing missing, Rng& rng, long& steps)
      : space_(space), rng_(rng), steps_(steps) {
    nodes_.push_back({std::move(missing), {}, {}, 0, 0});
  }

  // The shortest list found, if it is of at most `most` GPUs.
  std::optional<GpuConfigs> search(std::size_t most, long budget) {
    most_ = most;
    for (int i = 0; i < kTreePlayouts && steps_ < budget; ++i) play();
    return best_;
  }

 private:
  struct Node {
    Missing missing;
    std::vector<GpuConfig> configs;  // one per child
    std::vector<int> children;       // -1: not visited yet
    int visits = 0;
    double gpus = 0;  // summed over the visits
  };

  void play() {
    std::vector<int> path{0};
    GpuConfigs taken;
    while (!ConfigSpace::done(node(path.back()).missing) && taken.size() < most_) {
      expand(path.back());
      const std::size_t chosen = choose(path.back());
      taken.push_back(node(path.back()).configs[chosen]);
      const bool fresh = node(path.back()).children[chosen] < 0;
      path.push_back(child(path.back(), chosen));
      if (fresh) break;
    }
    finish(taken, node(path.back()).missing);
    for (const int n : path) {
      ++node(n).visits;
      node(n).gpus += static_cast<double>(taken.size());
    }
  }

  Node& node(int n) { return nodes_[static_cast<std::size_t>(n)]; }

  void expand(int n) {
    if (!node(n).configs.empty()) return;
    ++steps_;
    node(n).configs = space_.best_gains(node(n).missing, kTreeChildren);
    node(n).children.assign(node(n).configs.size(), -1);
  }

  int child(int n, std::size_t chosen) {
    if (node(n).children[chosen] < 0) {
      Missing missing = node(n).missing;
      space_.take(missing, node(n).configs[chosen]);
      node(n).children[chosen] = static_cast<int>(nodes_.size());
      nodes_.push_back({std::move(missing), {}, {}, 0, 0});
    }
    return node(n).children[chosen];
  }

  // Children that were never visited first, then those with few GPUs on average or few visits.
  std::size_t choose(int n) {
    const Node& at = node(n);
    std::size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t c = 0; c < at.children.size(); ++c) {
      if (at.children[c] < 0) return c;
      const Node& seen = node(at.children[c]);
      const double value =
          seen.gpus / seen.visits - kExplore * std::sqrt(std::log(1.0 + at.visits) / seen.visits);
      if (value >= least) continue;
      least = value;
      best = c;
    }
    return best;
  }

  // The playout; a list that gets no shorter than what is known is given up.
  void finish(GpuConfigs& taken, Missing missing) {
    while (!ConfigSpace::done(missing)) {
      if (taken.size() >= most_) {
        taken.resize(most_ + 1);  // counts as worse
        return;
      }
      ++steps_;
      std::vector<GpuConfig> choices = space_.best_gains(missing, kPlayoutChoices);
      taken.push_back(std::move(choices[rng_.below(choices.size())]));
      space_.take(missing, taken.back());
    }
    if (taken.size() > most_) return;
    best_ = taken;
    most_ = taken.empty() ? 0 : taken.size() - 1;  // from here on only shorter ones
  }

  const ConfigSpace& space_;
  Rng& rng_;
  long& steps_;
  std::size_t most_ = 0;
  std::vector<Node> nodes_;
  std::optional<GpuConfigs> best_;
};

class Evolution {
 public:
  Evolution(const ConfigSpace& space, long budget)
      : space_(space), budget_(budget), rng_(kEvolutionSeed) {}

  Evolved run(GpuConfigs first) {
    population_ = {std::move(first)};
    for (int g = 0; g < kMaxGenerations && steps_ < budget_; ++g) {
      const std::size_t parents = population_.size();
      for (std::size_t p = 0; p < parents && steps_ < budget_; ++p) {
        GpuConfigs mutant = population_[p];
        mutate(mutant);
        population_.push_back(cross(std::move(mutant)));
      }
      select();
    }
    return {population_.front(), steps_};
  }

 private:
  // Some GPUs, chosen at random, are planned anew for what the others leave missing.
  GpuConfigs cross(GpuConfigs deployment) {
    const GpuConfigs parent = deployment;
    const std::size_t most = std::min(kCrossedGpus, deployment.size());
    const std::size_t taken = 1 + rng_.below(most);
    for (std::size_t i = 0; i < taken; ++i) {
      const std::size_t last = deployment.size() - 1;
      std::swap(deployment[rng_.below(last + 1)], deployment[last]);
      deployment.pop_back();
    }
    Missing missing = space_.all();
    for (const GpuConfig& config : deployment) space_.take(missing, config);
    const auto found = Tree(space_, std::move(missing), rng_, steps_).search(taken, budget_);
    if (!found) return parent;
    deployment.insert(deployment.end(), found->begin(), found->end());
    return deployment;
  }

  // Two instances of one size change their services.
  void mutate(GpuConfigs& deployment) {
    if (deployment.size() < 2) return;
    GpuConfig& one = deployment[rng_.below(deployment.size())];
    GpuConfig& other = deployment[rng_.below(deployment.size())];
    const std::size_t i = rng_.below(one.service.size());
    for (std::size_t j = 0; j < other.service.size(); ++j) {
      if (space_.size_at(one.fill, i) != space_.size_at(other.fill, j)) continue;
      std::swap(one.service[i], other.service[j]);
      break;
    }
  }

  // The fewest GPUs, then the most that could be done without.
  void select() {
    std::vector<std::pair<std::pair<std::size_t, double>, std::size_t>> ranks;
    for (std::size_t p = 0; p < population_.size(); ++p)
      ranks.push_back({{population_[p].size(), -surplus(population_[p])}, p});
    std::ranges::sort(ranks);
    std::vector<GpuConfigs> next;
    for (const auto& [rank, p] : ranks)
      if (next.size() < kPopulation && std::ranges::find(next, population_[p]) == next.end())
        next.push_back(population_[p]);
    population_ = std::move(next);
  }

  double surplus(const GpuConfigs& deployment) const {
    Missing missing = space_.all();
    for (const GpuConfig& config : deployment) space_.take(missing, config);
    return -space_.in_gpus(missing);
  }

  const ConfigSpace& space_;
  const long budget_;
  Rng rng_;
  long steps_ = 0;
  std::vector<GpuConfigs> population_;
};

}  // namespace

Evolved evolve(const ConfigSpace& space, GpuConfigs first, long budget) {
  return Evolution(space, std::min(budget, kMaxTreeSteps)).run(std::move(first));
}

}  // namespace partita::planners::serving
