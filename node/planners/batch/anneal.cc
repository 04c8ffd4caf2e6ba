#include "planners/batch/anneal.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/rng.h"
#include "planners/batch/played.h"

namespace partita::planners::batch {
namespace {

// exp(-x) for x >= 0, within a few percent: accepting needs no more.
double falling(double x) {
  if (x > 20) return 0;
  const double y = 1 + x / 16;
  const double y2 = y * y, y4 = y2 * y2, y8 = y4 * y4;
  return 1 / (y8 * y8);
}

// State: Loads or Played.
template <class State>
class Annealer {
 public:
  Annealer(const Forest& forest, State state, const AnnealOptions& options)
      : forest_(forest),
        options_(options),
        state_(std::move(state)),
        rng_(options.seed),
        best_(state_.assignment()),
        best_length_(state_.longest()),
        energy_(energy()) {
    rank_sizes();
  }

  std::vector<int> run() {
    const double scale = mean_time();
    const double factor = std::pow(options_.cold / options_.hot,
                                   64.0 / static_cast<double>(std::max(options_.steps, 64L)));
    double temperature = options_.hot * scale;
    for (long step = 0; step < options_.steps; ++step) {
      if (step % 64 == 63) temperature *= factor;
      if (forest_.tasks > 1 && rng_.below(3) == 0) {
        swap(temperature);
      } else {
        move(temperature);
      }
    }
    return best_;
  }

 private:
  // Of a task where it starts.
  double mean_time() const {
    double sum = 0;
    for (int task = 0; task < forest_.tasks; ++task) {
      sum += static_cast<double>(forest_.time(task, best_[at(task)]));
    }
    return sum / forest_.tasks;
  }

  double energy() const {
    return static_cast<double>(state_.longest()) +
           options_.area_share * static_cast<double>(state_.area()) / forest_.columns();
  }

  bool accept(double temperature) {
    const double now = energy();
    if (now > energy_ && rng_.uniform() >= falling((now - energy_) / temperature)) return false;
    energy_ = now;
    const Nanos length = state_.longest();
    if (length < best_length_) {
      best_length_ = length;
      best_ = state_.assignment();
    }
    return true;
  }

  void move(double temperature) {
    const int task = static_cast<int>(rng_.below(static_cast<std::uint64_t>(forest_.tasks)));
    const int from = state_.node_of(task);
    const int to = target(task);
    if (to == from) return;
    state_.move(task, to);
    if (!accept(temperature)) state_.move(task, from);
  }

  // A node for the task: of one of its sizes, more often of those that cost it little area.
  int target(int task) {
    const int first = size_first_[at(task)];
    const auto count = static_cast<std::uint64_t>(size_first_[at(task + 1)] - first);
    const auto rank = std::min(rng_.below(count), rng_.below(count));
    const std::vector<int>& nodes = class_nodes_[at(sizes_[at(first) + rank])];
    return nodes[rng_.below(nodes.size())];
  }

  // Per task the classes that it fits, by rising area.
  void rank_sizes() {
    class_nodes_.resize(at(forest_.classes));
    for (std::size_t v = 0; v < forest_.nodes.size(); ++v) {
      class_nodes_[at(forest_.nodes[v].size_class)].push_back(static_cast<int>(v));
    }
    for (int task = 0; task < forest_.tasks; ++task) {
      size_first_.push_back(static_cast<int>(sizes_.size()));
      const Nanos* times = &forest_.times[at(task * forest_.classes)];
      for (int k = 0; k < forest_.classes; ++k) {
        if (times[k] < kNever && !class_nodes_[at(k)].empty()) sizes_.push_back(k);
      }
      std::sort(sizes_.begin() + size_first_.back(), sizes_.end(), [&](int a, int b) {
        return std::pair(times[a] * forest_.class_columns[at(a)], a) <
               std::pair(times[b] * forest_.class_columns[at(b)], b);
      });
    }
    size_first_.push_back(static_cast<int>(sizes_.size()));
  }

  void swap(double temperature) {
    const auto tasks = static_cast<std::uint64_t>(forest_.tasks);
    const int a = static_cast<int>(rng_.below(tasks));
    const int b = static_cast<int>(rng_.below(tasks));
    const int at_a = state_.node_of(a);
    const int at_b = state_.node_of(b);
    if (at_a == at_b || forest_.time(a, at_b) >= kNever || forest_.time(b, at_a) >= kNever) return;
    state_.swap(a, b);
    if (!accept(temperature)) state_.swap(a, b);
  }

  const Forest& forest_;
  const AnnealOptions& options_;
  State state_;
  Rng rng_;
  std::vector<int> best_;
  Nanos best_length_;
  double energy_;
  std::vector<std::vector<int>> class_nodes_;
  std::vector<int> sizes_;       // classes, task after task
  std::vector<int> size_first_;  // per task where its classes begin, and the end
};

}  // namespace

std::vector<int> anneal(const Forest& forest, const std::vector<int>& start,
                        const AnnealOptions& options) {
  if (forest.tasks == 0) return start;
  Loads loads(forest);
  for (int task = 0; task < forest.tasks; ++task) loads.place(task, start[at(task)]);
  return Annealer(forest, std::move(loads), options).run();
}

std::vector<int> anneal_played(const Forest& forest, const std::vector<int>& start,
                               const AnnealOptions& options) {
  if (forest.tasks == 0) return start;
  return Annealer(forest, Played(forest, start), options).run();
}

}  // namespace partita::planners::batch
