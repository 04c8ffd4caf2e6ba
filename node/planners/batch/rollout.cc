#include "planners/batch/rollout.h"

#include <algorithm>
#include <utility>

#include "planners/batch/tail.h"
#include "planners/batch/timed_places.h"

namespace partita::planners::batch {
namespace {

constexpr double kLatePrice = 1000;
constexpr std::size_t kKeptRules = 3, kFewNodes = 30;
constexpr double kClearly = 1 - 1e-6;  // of the best: what is not below that is no better
constexpr double kNone = 1e300;

// By which what comes is handed out: to what is free first of a layout, or where it ends first,
// with so much for slices that it wastes.
struct Rule {
  std::vector<char> layout;
  bool first_free = true;
  double waste = 0;
};

class Rollout {
 public:
  Rollout(const std::vector<TimedBatch>& futures, const Choice& choice,
          const RolloutOptions& options)
      : futures_(futures), options_(options), known_(choice.order.size()), best_(choice) {}

  Choice run() {
    TimedDecoder plan(first());
    latest_.resize(known_);
    for (const int task : best_.order)
      latest_[at(task)] = std::max(options_.late, plan.append(task, best_.node[at(task)]));
    make_rules();
    choose_rules();
    while (left_ > 0 && improve()) {
    }
    return best_;
  }

 private:
  const TimedBatch& first() const { return futures_.front(); }

  void make_rules() {
    for (std::vector<char>& layout : fixed_layouts(first().forest))
      rules_.push_back({std::move(layout), true, 0});
    for (const double waste : {0.0, 1.0, 3.0}) rules_.push_back({{}, false, waste});
  }

  int put(TimedPlaces& places, const Rule& rule, int task) const {
    const int node = rule.first_free ? places.put_first(task) : places.put(task, rule.waste);
    return node < 0 ? places.put_beside(task) : node;
  }

  // What comes of the choice, or of the rule alone, in a future.
  double play(const TimedBatch& future, const Rule& rule, const Choice* choice,
              Choice* made = nullptr) const {
    TimedPlaces places(future, rule.layout);
    double beyond = 0;
    Nanos over = 0;
    for (std::size_t i = 0; i < known_; ++i) {
      const int task = choice ? choice->order[i] : best_.order[i];
      const int node =
          choice ? places.append(task, choice->node[at(task)]) : put(places, rule, task);
      if (made) made->node[at(task)] = node;
      const Nanos end = places.end(task), begin = end - future.forest.time(task, node);
      over += std::max<Nanos>(0, end - latest_[at(task)]);
      beyond += options_.price * future.forest.nodes[at(node)].columns * future.width_of(task) *
                static_cast<double>(std::max<Nanos>(0, end - std::max(begin, options_.horizon)));
    }
    for (int task = static_cast<int>(known_); task < future.forest.tasks; ++task)
      put(places, rule, task);
    const Worth& worth = places.worth();
    return kLatePrice * (static_cast<double>(worth.lateness) +
                         static_cast<double>(over) / future.weight_unit) +
           static_cast<double>(worth.finishing) + beyond / future.weight_unit;
  }

  // The sum over the futures.
  double level(const Rule& rule, const Choice* choice, double limit) {
    double sum = 0;
    for (const TimedBatch& future : futures_) {
      --left_;
      sum += play(future, rule, choice);
      if (sum >= limit) break;
    }
    return sum;
  }

  // The rules that are best with the plan at hand; and what they say themselves.
  void choose_rules() {
    std::vector<std::pair<double, std::size_t>> by_level;
    for (std::size_t r = 0; r < rules_.size(); ++r)
      by_level.emplace_back(level(rules_[r], &best_, kNone), r);
    std::ranges::sort(by_level);
    level_ = by_level.front().first;
    for (const Rule& rule : rules_) {
      const double alone = level(rule, nullptr, level_ * kClearly);
      if (alone >= level_ * kClearly) continue;
      level_ = alone;
      play(first(), rule, nullptr, &best_);
    }
    by_level.resize(std::min(kKeptRules, by_level.size()));
    std::vector<Rule> kept;
    for (const auto& [level, r] : by_level) kept.push_back(rules_[r]);
    rules_ = std::move(kept);
  }

  // Where a task of the choice could go instead: any node of a few, else what is free first of each
  // class by then.
  std::vector<int> elsewhere(const Choice& choice, std::size_t turn) const {
    TimedPlaces places(first());
    for (std::size_t i = 0; i < turn; ++i)
      places.append(choice.order[i], choice.node[at(choice.order[i])]);
    const int task = choice.order[turn];
    std::vector<int> nodes;
    const bool all = first().forest.nodes.size() <= kFewNodes;
    const int count = all ? static_cast<int>(first().forest.nodes.size()) : first().forest.classes;
    for (int i = 0; i < count; ++i) nodes.push_back(all ? i : places.first_of(i));
    std::erase_if(nodes, [&](int node) {
      return node < 0 || node == choice.node[at(task)] || first().forest.time(task, node) >= kNever;
    });
    return nodes;
  }

  // The best change of one task, in its turn or, where it comes after none, before all others.
  bool improve() {
    const Choice before = best_;
    bool better = false;
    for (std::size_t i = 0; i < known_; ++i) {
      better = move(before, i) || better;
      if (i == 0 || !first().before[at(before.order[i])].empty()) continue;
      Choice ahead = before;
      const auto order = ahead.order.begin(), turn = order + static_cast<std::ptrdiff_t>(i);
      std::rotate(order, turn, turn + 1);
      better = move(std::move(ahead), 0) || better;
    }
    return better;
  }

  bool move(Choice choice, std::size_t turn) {
    bool better = false;
    for (const int node : elsewhere(choice, turn)) {
      if (left_ <= 0) return better;
      choice.node[at(choice.order[turn])] = node;
      better = consider(choice) || better;
    }
    return better;
  }

  bool consider(const Choice& choice) {
    bool better = false;
    for (const Rule& rule : rules_) {
      const double changed = level(rule, &choice, level_ * kClearly);
      if (changed >= level_ * kClearly) continue;
      level_ = changed;
      best_ = choice;
      better = true;
    }
    return better;
  }

  const std::vector<TimedBatch>& futures_;
  const RolloutOptions options_;
  std::size_t known_;
  std::vector<Rule> rules_;
  Choice best_;
  double level_ = 0;
  std::vector<Nanos> latest_;  // per task
  long left_ = options_.plays;
};

}  // namespace

Choice rolled_out(const std::vector<TimedBatch>& futures, const Choice& choice,
                  const RolloutOptions& options) {
  if (futures.empty() || choice.order.empty()) return choice;
  return Rollout(futures, choice, options).run();
}

}  // namespace partita::planners::batch
