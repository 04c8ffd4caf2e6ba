#include "planners/batch/timed_search.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/rng.h"

namespace partita::planners::batch {
namespace {

// Temperatures per task, relative to what a stage lowers: a task more or less on some slices
// changes it by its share.
constexpr double kTimedHot = 1.2, kTimedCold = 0.02;
// Price of exceeding what earlier stages reached; weights of what later ones will lower.
constexpr double kPrice = 20, kNext = 0.1, kLast = 0.02;
// How often a step is sought among the tasks on the slices of the one that ends last.
constexpr double kCritical = 0.7;

enum class Stage { lateness, makespan, finishing };

// What one step changes, to be taken back.
struct Change {
  int task = 0, node = 0;          // and the node that it had
  int from = 0, to = 0;            // positions in the order
  int other = -1, other_node = 0;  // a second task, whose node was swapped with the first's
};

class TimedAnnealer {
 public:
  TimedAnnealer(const TimedBatch& batch, const TimedSearch& search)
      : batch_(batch), search_(search), decoder_(batch), rng_(Rng(search.seed).split(0x71d)) {
    for (int t = 0; t < batch.forest.tasks; ++t) {
      std::vector<int>& fits = fits_.emplace_back();
      for (std::size_t v = 0; v < batch.forest.nodes.size(); ++v) {
        if (batch.forest.time(t, static_cast<int>(v)) < kNever) fits.push_back(static_cast<int>(v));
      }
    }
    position_.resize(at(batch.forest.tasks));
  }

  TimedFound run(const std::vector<Choice>& starts) {
    CHECK(!starts.empty());
    std::vector<std::pair<Worth, std::size_t>> ranked;
    for (std::size_t i = 0; i < starts.size(); ++i)
      ranked.emplace_back(decoder_.play(starts[i]), i);
    std::ranges::sort(ranked);
    best_ = {starts[ranked[0].second], ranked[0].first, static_cast<long>(starts.size())};
    std::vector<Choice> good;
    for (const auto& [worth, i] : ranked) {
      if (good.size() < kRuns && std::ranges::count(good, starts[i]) == 0)
        good.push_back(starts[i]);
    }
    if (batch_.forest.tasks == 0) return best_;
    // What a stage that ends early leaves goes to the next.
    const long end = best_.steps + search_.steps;
    anneal_all(Stage::lateness, good, (end - best_.steps) * 2 / 5);
    anneal_all(Stage::makespan, good, (end - best_.steps) * 3 / 4);
    anneal_all(Stage::finishing, {best_.choice}, end - best_.steps);
    return best_;
  }

 private:
  static constexpr std::size_t kRuns = 3;

  bool reached(Stage stage) const {
    switch (stage) {
      case Stage::lateness:
        return best_.worth.lateness <= search_.bounds->lateness;
      case Stage::makespan:
        return best_.worth.makespan <= search_.bounds->makespan;
      case Stage::finishing:
        break;
    }
    return false;
  }

  void anneal_all(Stage stage, const std::vector<Choice>& starts, long steps) {
    const auto runs = static_cast<long>(starts.size());
    for (const Choice& start : starts) {
      if (reached(stage)) return;
      const bool first = &start == &starts.front();
      anneal(stage, first || stage == Stage::finishing ? best_.choice : start, steps / runs);
    }
  }

  // Everything in units of the makespan's bound and the mean weight.
  Energy energy_of(Stage stage) const {
    Wide weights = 0;
    for (const std::int64_t weight : batch_.weight) weights += weight;
    const auto n = static_cast<double>(batch_.weight.size());
    const double span = 1 / static_cast<double>(std::max<Nanos>(1, search_.bounds->makespan));
    const double sum = span / static_cast<double>(weights), mean = sum * n;
    Energy energy;
    switch (stage) {
      case Stage::lateness:
        energy = {.lateness = mean, .makespan = kNext * span, .finishing = kLast * sum};
        break;
      case Stage::makespan:
        energy = {.makespan = span, .finishing = kLast * sum, .lateness_excess = kPrice * mean};
        break;
      case Stage::finishing:
        energy = {
            .finishing = sum, .lateness_excess = kPrice * mean, .makespan_excess = kPrice * span};
        break;
    }
    energy.lateness_target = static_cast<double>(best_.worth.lateness);
    energy.makespan_target = static_cast<double>(best_.worth.makespan);
    return energy;
  }

  void anneal(Stage stage, const Choice& start, long steps) {
    current_ = start;
    for (std::size_t p = 0; p < current_.order.size(); ++p) {
      position_[at(current_.order[p])] = static_cast<int>(p);
    }
    const Energy energy = energy_of(stage);
    double level = energy.of(decoder_.play(current_));
    find_last();
    const double hottest = kTimedHot / static_cast<double>(batch_.weight.size());
    const double cooling =
        std::log(kTimedCold / kTimedHot) / static_cast<double>(std::max(1L, steps));
    for (long step = 0; step < steps; ++step) {
      const double heat = hottest * std::exp(cooling * static_cast<double>(step));
      const Change change = propose();
      ++best_.steps;
      const double limit = level + heat * rng_.exponential();
      if (!decoder_.play(current_, energy, limit)) {
        take_back(change);
        continue;
      }
      level = energy.of(decoder_.worth());
      find_last();
      if (decoder_.worth() < best_.worth) {
        best_.worth = decoder_.worth();
        best_.choice = current_;
        if (reached(stage)) return;
      }
    }
  }

  int draw(std::size_t bound) { return static_cast<int>(rng_.below(bound)); }
  int any_task() { return draw(current_.order.size()); }

  void find_last() {
    last_ = 0;
    for (int t = 1; t < batch_.forest.tasks; ++t) {
      if (decoder_.end(t) > decoder_.end(last_)) last_ = t;
    }
  }

  // Often one that the last task may wait for: one on the same slices.
  int worthwhile_task() {
    const bool critical = rng_.uniform() < kCritical;
    int task = any_task();
    for (int tries = 0; critical && tries < 8; ++tries) {
      if (batch_.forest.conflict(current_.node[at(task)], current_.node[at(last_)])) break;
      task = any_task();
    }
    return task;
  }

  // The first and last position that predecessors and successors leave to a task.
  std::pair<int, int> window(int task) const {
    int first = 0, last = static_cast<int>(current_.order.size()) - 1;
    for (const int t : batch_.before[at(task)]) first = std::max(first, position_[at(t)] + 1);
    for (const int t : batch_.behind[at(task)]) last = std::min(last, position_[at(t)] - 1);
    return {first, last};
  }

  // Moves a task within the order; the others close up.
  void shift(int from, int to) {
    const auto order = current_.order.begin();
    if (from < to) {
      std::rotate(order + from, order + from + 1, order + to + 1);
    } else {
      std::rotate(order + to, order + from, order + from + 1);
    }
    for (int p = std::min(from, to); p <= std::max(from, to); ++p) {
      position_[at(current_.order[at(p)])] = p;
    }
  }

  Change propose() {
    const int task = worthwhile_task();
    Change change{.task = task, .node = current_.node[at(task)], .from = position_[at(task)]};
    change.to = change.from;
    const double kind = rng_.uniform();
    if (kind < 0.15) {
      swap_nodes(change);
    } else if (kind < 0.5) {
      current_.node[at(task)] = fits_[at(task)][at(draw(fits_[at(task)].size()))];
    }
    const bool beside_another = kind >= 0.5 && kind < 0.8;
    if (beside_another) {
      move_beside(change, any_task(), kind < 0.65);
    } else if (kind >= 0.3) {
      const auto [first, last] = window(task);
      change.to = first + draw(at(last - first + 1));
    }
    shift(change.from, change.to);
    return change;
  }

  void swap_nodes(Change& change) {
    const int other = any_task();
    const int node = current_.node[at(other)];
    const Forest& forest = batch_.forest;
    if (forest.time(change.task, node) >= kNever || forest.time(other, change.node) >= kNever) {
      return;
    }
    change.other = other;
    change.other_node = node;
    current_.node[at(change.task)] = node;
    current_.node[at(other)] = change.node;
  }

  // Right before or after another task, and where asked onto its node.
  void move_beside(Change& change, int other, bool onto) {
    const auto [first, last] = window(change.task);
    const int there = position_[at(other)];
    change.to = std::clamp(there - (there > change.from ? 1 : 0) + draw(2), first, last);
    const int node = current_.node[at(other)];
    if (onto && batch_.forest.time(change.task, node) < kNever) {
      current_.node[at(change.task)] = node;
    }
  }

  void take_back(const Change& change) {
    shift(change.to, change.from);
    if (change.other >= 0) current_.node[at(change.other)] = change.other_node;
    current_.node[at(change.task)] = change.node;
  }

  const TimedBatch& batch_;
  const TimedSearch& search_;
  TimedDecoder decoder_;
  Rng rng_;
  std::vector<std::vector<int>> fits_;  // per task the nodes that it fits
  Choice current_;
  std::vector<int> position_;  // per task, in the current order
  int last_ = 0;               // the task that ends last in it
  TimedFound best_;
};

}  // namespace

TimedFound search_timed(const TimedBatch& batch, const std::vector<Choice>& starts,
                        const TimedSearch& search) {
  return TimedAnnealer(batch, search).run(starts);
}

}  // namespace partita::planners::batch
