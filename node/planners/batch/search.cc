#include "planners/batch/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>

#include "base/check.h"
#include "base/rng.h"
#include "planners/batch/anneal.h"
#include "planners/batch/branch.h"
#include "planners/batch/loads.h"

namespace partita::planners::batch {
namespace {

constexpr int kGreedyGpus = 16;        // more GPUs: only the emptiest are tried
constexpr int kBranchTasks = 22;       // larger batches are not proven by branch and bound
constexpr long kReinsertNodes = 3000;  // search nodes of one re-insertion

// The shortest assignments met, one per length: assignments of equal length mostly differ in what
// does not matter.
class Pool {
 public:
  void add(Nanos length, const std::vector<int>& assignment) {
    if (kept_.size() == kPoolSize && length >= kept_.rbegin()->first) return;
    kept_.emplace(length, assignment);
    if (kept_.size() > kPoolSize) kept_.erase(std::prev(kept_.end()));
  }
  Nanos length() const { return kept_.begin()->first; }
  const std::vector<int>& best() const { return kept_.begin()->second; }
  std::vector<std::vector<int>> all() const {
    std::vector<std::vector<int>> assignments;
    for (const auto& [length, assignment] : kept_) assignments.push_back(assignment);
    return assignments;
  }

 private:
  std::map<Nanos, std::vector<int>> kept_;
};

// Takes a few tasks out, one of the longest column among them, and puts them back in the best way.
class Reinsertion {
 public:
  Reinsertion(const Forest& forest, Branch& branch, Pool& pool, std::uint64_t seed)
      : forest_(forest), branch_(branch), pool_(pool), rng_(seed), loads_(forest) {}

  // `least` to `most` tasks at a time. Returns the steps used, about `steps`.
  long run(const std::vector<int>& start, int least, int most, long steps) {
    for (int task = 0; task < forest_.tasks; ++task) {
      if (loads_.node_of(task) < 0) {
        loads_.place(task, start[at(task)]);
      } else if (loads_.node_of(task) != start[at(task)]) {
        loads_.move(task, start[at(task)]);
      }
    }
    // What a round costs besides its search nodes: a look at every task.
    const long overhead = 8 + forest_.tasks / 16;
    long used = 0;
    while (used < steps) {
      BranchTask task = pick(least, most);
      task.budget = kReinsertNodes;
      const BranchResult result = branch_.run(loads_, task);
      used += overhead + result.steps * kBranchCost;
      if (!result.found) continue;
      for (std::size_t i = 0; i < task.free.size(); ++i) {
        if (loads_.node_of(task.free[i]) != result.nodes[i]) {
          loads_.move(task.free[i], result.nodes[i]);
        }
      }
      pool_.add(loads_.longest(), loads_.assignment());
    }
    return used;
  }

 private:
  BranchTask pick(int least, int most) {
    BranchTask task;
    const int longest = longest_gpu();
    task.cutoff = loads_.length(longest);
    int other = longest;
    if (forest_.gpus > 2) {
      while (other == longest) other = below(forest_.gpus);
      task.gpus = {std::min(longest, other), std::max(longest, other)};
    }
    const std::vector<bool> critical = longest_path(longest);
    std::vector<int> on_path, near;
    for (int t = 0; t < forest_.tasks; ++t) {
      const int node = loads_.node_of(t);
      const int gpu = forest_.nodes[at(node)].gpu;
      if (critical[at(node)]) {
        on_path.push_back(t);
      } else if (forest_.gpus <= 2 || gpu == longest || gpu == other) {
        near.push_back(t);
      }
    }
    const int wanted = least + below(most - least + 1);
    const int share = 1 + below(std::min(wanted, static_cast<int>(on_path.size())));
    draw(on_path, share, task.free);
    draw(near, wanted - static_cast<int>(task.free.size()), task.free);
    std::ranges::sort(task.free);
    return task;
  }

  int below(int bound) { return static_cast<int>(rng_.below(static_cast<std::uint64_t>(bound))); }

  void draw(std::vector<int>& from, int count, std::vector<int>& to) {
    for (; count > 0 && !from.empty(); --count) {
      const auto chosen = at(below(static_cast<int>(from.size())));
      to.push_back(from[chosen]);
      from[chosen] = from.back();
      from.pop_back();
    }
  }

  int longest_gpu() const {
    int longest = 0;
    for (int gpu = 1; gpu < forest_.gpus; ++gpu) {
      if (loads_.length(gpu) > loads_.length(longest)) longest = gpu;
    }
    return longest;
  }

  // The nodes on the path that is longest before its last destroy is taken off.
  std::vector<bool> longest_path(int gpu) const {
    int end = -1;
    for (int v = forest_.first_node[at(gpu)]; v < forest_.first_node[at(gpu + 1)]; ++v) {
      if (end < 0 || loads_.paths()[at(v)] > loads_.paths()[at(end)]) end = v;
    }
    std::vector<bool> on(forest_.nodes.size());
    for (int v = end; v >= 0; v = forest_.nodes[at(v)].parent) on[at(v)] = true;
    return on;
  }

  const Forest& forest_;
  Branch& branch_;
  Pool& pool_;
  Rng rng_;
  Loads loads_;
};

// How the steps are spent: one annealing after the other, each followed by re-insertions. Figures
// found by trial on synthetic batches: with many tasks or GPUs the length alone says little.
struct Round {
  double hot;         // see AnnealOptions
  double area_share;  //
  double anneal;      // share of the steps
  double reinsert;    // share of the steps
};
constexpr Round kSmall[] = {{0.1, 2, 0.04, 0.06}};  // before branch and bound
constexpr Round kMedium[] = {{0.1, 5, 0.15, 0.1}, {0.1, 10, 0.15, 0.1}, {0.1, 2, 0.15, 0.1}};
constexpr Round kLarge[] = {{0.03, 30, 0.6, 0.15}};
constexpr int kSmallTasks = 16;  // branch and bound soon ends
constexpr int kLargeTasks = 60;  // or more than one GPU
constexpr double kCooling = 0.01;

long portion(long steps, double share) {
  return static_cast<long>(static_cast<double>(steps) * share);
}

}  // namespace

Nanos length_of(const Forest& forest, const std::vector<int>& assignment) {
  Loads loads(forest);
  for (int task = 0; task < forest.tasks; ++task) loads.place(task, assignment[at(task)]);
  return loads.longest();
}

std::vector<int> greedy(const Forest& forest) {
  std::vector<Nanos> area(at(forest.tasks));
  for (int task = 0; task < forest.tasks; ++task) area[at(task)] = least_area(forest, task);
  std::vector<int> order(at(forest.tasks));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater{}, [&](int task) { return area[at(task)]; });
  Loads loads(forest);
  std::vector<int> gpus(at(forest.gpus));
  std::iota(gpus.begin(), gpus.end(), 0);
  for (const int task : order) {
    if (forest.gpus > kGreedyGpus) {
      std::ranges::partial_sort(gpus, gpus.begin() + kGreedyGpus, {},
                                [&](int gpu) { return std::pair(loads.area(gpu), gpu); });
    }
    int best = -1;
    double least = 0;
    for (int i = 0; i < std::min(forest.gpus, kGreedyGpus); ++i) {
      const int gpu = gpus[at(i)];
      const Nanos length = loads.length(gpu);
      const Nanos area_before = loads.area(gpu);
      const auto columns = forest.first_column[at(gpu + 1)] - forest.first_column[at(gpu)];
      for (int v = forest.first_node[at(gpu)]; v < forest.first_node[at(gpu + 1)]; ++v) {
        if (forest.time(task, v) >= kNever) continue;
        loads.place(task, v);
        const double energy = static_cast<double>(loads.length(gpu)) +
                              static_cast<double>(loads.area(gpu) - area_before) / columns +
                              0.01 * static_cast<double>(loads.length(gpu) - length);
        loads.remove(task);
        if (best >= 0 && energy >= least) continue;
        best = v;
        least = energy;
      }
    }
    // A task that fits only GPUs that are not among the emptiest.
    for (int v = 0; best < 0; ++v) {
      if (forest.time(task, v) < kNever) best = v;
    }
    loads.place(task, best);
  }
  return loads.assignment();
}

long usual_steps(const Forest& forest) {
  const double size = std::max(1.0, forest.tasks / 100.0);
  return static_cast<long>(280'000 * std::pow(size, 0.65));
}

namespace {

// One search, step by step.
class Searcher {
 public:
  Searcher(const Forest& forest, const SearchOptions& options)
      : forest_(forest),
        options_(options),
        branch_(forest),
        reinsertion_(forest, branch_, pool_, options.seed) {
    bound_ = area_bound(forest);
  }

  Found run(const std::vector<std::vector<int>>& starts) {
    for (const std::vector<int>& start : starts) pool_.add(length_of(forest_, start), start);
    const bool provable = options_.proof_steps > 0 && forest_.tasks <= kBranchTasks;
    const bool large = forest_.tasks > kLargeTasks || forest_.gpus > 1;
    if (!closed() && forest_.tasks > 0) {
      look_around(large                                      ? std::span(kLarge)
                  : provable && forest_.tasks <= kSmallTasks ? std::span<const Round>(kSmall)
                                                             : std::span<const Round>(kMedium));
      if (provable) prove(pool_.length(), options_.proof_steps);
      const long left = options_.heuristic_steps - steps_;
      say("re-inserting");
      if (!closed() && left > 0) steps_ += reinsertion_.run(pool_.best(), 6, 10, left);
      if (provable && !closed()) narrow();
    }
    return {.pool = pool_.all(), .length = pool_.length(), .lower_bound = bound_, .steps = steps_};
  }

 private:
  bool closed() const { return bound_ >= pool_.length(); }

  void say(const char* stage) const {
    if (!options_.progress) return;
    options_.progress(fmt::format("{}: slices busy for {:.3f} s, at least {:.3f} s", stage,
                                  plan::seconds(pool_.length()).value,
                                  plan::seconds(bound_).value));
  }

  void look_around(std::span<const Round> rounds) {
    const std::vector<int> start = pool_.best();
    std::uint64_t seed = options_.seed;
    for (const Round& round : rounds) {
      say("annealing");
      const AnnealOptions cooling{.seed = seed++,
                                  .steps = portion(options_.heuristic_steps, round.anneal),
                                  .hot = round.hot,
                                  .cold = round.hot * kCooling,
                                  .area_share = round.area_share};
      const std::vector<int> cool = anneal(forest_, start, cooling);
      pool_.add(length_of(forest_, cool), cool);
      steps_ += cooling.steps;
      const long steps = portion(options_.heuristic_steps, round.reinsert);
      steps_ += reinsertion_.run(cool, 5, 8, steps);
      if (closed()) return;
    }
  }

  // Is there an assignment below the cutoff? If the search ends, the bound or the pool knows.
  bool prove(Nanos cutoff, long budget) {
    say("branch and bound");
    BranchTask task{.free = {}, .gpus = {}, .cutoff = cutoff, .budget = budget};
    task.free.resize(at(forest_.tasks));
    std::iota(task.free.begin(), task.free.end(), 0);
    const BranchResult result = branch_.run(Loads(forest_), task);
    steps_ += result.steps * kBranchCost;
    if (result.found) pool_.add(result.length, result.nodes);
    if (result.complete) bound_ = std::max(bound_, result.found ? result.length : cutoff);
    return result.complete || result.found;
  }

  // The proof did not end: the best bound that a few shorter searches can prove, by bisection.
  void narrow() {
    for (int round = 0; round < kNarrowings && !closed(); ++round) {
      const Nanos cutoff = bound_ + (pool_.length() - bound_) / 2;
      if (!prove(cutoff, options_.proof_steps / (2 * kNarrowings))) break;
    }
  }

  static constexpr int kNarrowings = 6;

  const Forest& forest_;
  const SearchOptions& options_;
  Pool pool_;
  Branch branch_;
  Reinsertion reinsertion_;
  Nanos bound_ = 0;
  long steps_ = 0;
};

}  // namespace

Found search(const Forest& forest, const std::vector<std::vector<int>>& starts,
             const SearchOptions& options) {
  CHECK(!starts.empty());
  return Searcher(forest, options).run(starts);
}

}  // namespace partita::planners::batch
