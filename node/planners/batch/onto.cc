#include "planners/batch/onto.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "base/rng.h"

namespace partita::planners::batch {
namespace {

constexpr double kHottest = 0.03, kColdest = 0.001;  // of the height of the batch
constexpr std::uint64_t kGreedySpots = 200;          // more than these: a random choice of so many

class Annealing {
 public:
  Annealing(const Forest& forest, const Start& start, const Aim& aim, std::uint64_t seed)
      : forest_(forest), aim_(aim), seam_(forest, start, aim.level()), rng_(seed) {}

  Visits run(long steps) {
    place_greedily();
    best_cost_ = cost_;
    const double columns = static_cast<double>(forest_.columns());
    const double unit = aim_.height() * columns;
    double temperature = kHottest * unit;
    const double cooling =
        std::pow(kColdest / kHottest, 1 / std::max(1.0, static_cast<double>(steps)));
    for (long step = 0; step < steps; ++step) {
      if (forest_.tasks > 1 && rng_.below(2) == 0) {
        try_swap(temperature);
      } else {
        try_move(temperature);
      }
      temperature *= cooling;
    }
    seam_.place_all(best());
    return seam_.visits(longest_first(forest_, seam_.nodes()));
  }

 private:
  // Tasks of most area first, each where it costs least.
  void place_greedily() {
    std::vector<int> order(at(forest_.tasks));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int t) { return std::pair(-least_area(forest_, t), t); });
    for (const int task : order) {
      std::pair<double, int> least{HUGE_VAL, -1};
      const std::uint64_t spots = seam_.spots().size();
      const bool some = spots > kGreedySpots;
      for (std::uint64_t i = 0; i < (some ? kGreedySpots : spots) || least.second < 0; ++i) {
        const int spot = static_cast<int>(some ? rng_.below(spots) : i);
        if (!seam_.fits(task, spot)) continue;
        seam_.place(task, spot);
        least = std::min(least, std::pair(aim_.cost(seam_), spot));
        seam_.remove(task);
      }
      seam_.place(task, least.second);
    }
    cost_ = aim_.cost(seam_);
  }

  int some_task() {
    return static_cast<int>(rng_.below(static_cast<std::uint64_t>(forest_.tasks)));
  }

  void try_move(double temperature) {
    const int task = some_task();
    const int from = seam_.spot(task);
    const int to = static_cast<int>(rng_.below(seam_.spots().size()));
    if (to == from || !seam_.fits(task, to)) return;
    seam_.move(task, to);
    if (accept(temperature)) {
      keep({{task, from}});
    } else {
      seam_.revert();
    }
  }

  void try_swap(double temperature) {
    const int a = some_task();
    const int b = some_task();
    const int spot_a = seam_.spot(a);
    const int spot_b = seam_.spot(b);
    if (spot_a == spot_b || !seam_.fits(a, spot_b) || !seam_.fits(b, spot_a)) return;
    seam_.swap(a, b);
    if (accept(temperature)) {
      keep({{a, spot_a}, {b, spot_b}});
    } else {
      seam_.revert();
    }
  }

  bool accept(double temperature) {
    const double cost = aim_.cost(seam_);
    if (cost > cost_ && cost > cost_ + temperature * rng_.exponential()) return false;
    cost_ = cost;
    return true;
  }

  // Remembers how to get back to the best assignment: by the changes since, or, when they are more
  // than there are tasks, by a copy. So a new best one costs nothing, however many tasks there are.
  void keep(std::initializer_list<std::pair<int, int>> before) {
    if (cost_ < best_cost_) {
      best_cost_ = cost_;
      since_best_.clear();
      best_.clear();
    } else if (best_.empty()) {
      since_best_.insert(since_best_.end(), before);
      if (since_best_.size() > seam_.assignment().size()) best_ = best();
    }
  }

  std::vector<int> best() const {
    if (!best_.empty()) return best_;
    std::vector<int> assignment = seam_.assignment();
    for (auto change = since_best_.rbegin(); change != since_best_.rend(); ++change) {
      assignment[at(change->first)] = change->second;
    }
    return assignment;
  }

  const Forest& forest_;
  const Aim& aim_;
  Seam seam_;
  Rng rng_;
  std::vector<int> best_;                        // or empty: undo the changes
  std::vector<std::pair<int, int>> since_best_;  // task and its spot before
  double cost_ = 0, best_cost_ = 0;
};

}  // namespace

Aim::Aim(const Forest& forest, const Start& start, Outlook outlook)
    : outlook_(outlook), columns_(static_cast<double>(forest.columns())) {
  double area = 0;
  for (int task = 0; task < forest.tasks; ++task) {
    area += static_cast<double>(least_area(forest, task));
  }
  height_ = std::max(1.0, area / columns_);
  tolerance_ = std::max(height_, kFewTasks * area / std::max(1, forest.tasks));
  level_ = height_ + edge_of(column_ends(forest, start), 0).area / columns_;
}

double Aim::cost(const Seam& seam) const {
  const Nanos end = outlook_ == Outlook::last ? seam.end() : 0;
  return cost(Edge{end, seam.area(), seam.squares()});
}

double Aim::cost(const Edge& edge) const {
  if (outlook_ == Outlook::more) return edge.area + kRagged / tolerance_ * edge.squares;
  return 0.1 * edge.area + 0.9 * columns_ * (static_cast<double>(edge.end) - level_);
}

Visits plan_onto(const Forest& forest, const Start& start, const Aim& aim, long steps,
                 std::uint64_t seed) {
  return Annealing(forest, start, aim, seed).run(steps);
}

}  // namespace partita::planners::batch
