#include "planners/batch/tail.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "planners/batch/timed_places.h"
#include "planners/batch/timed_starts.h"

namespace partita::planners::batch {
namespace {

constexpr double kLatenessPrice = 1000;  // of a second of lateness, in seconds of mean end
// Work of the list schedules: tasks that all of them together append.
constexpr long kListed = 8'000;
// Heat of the search, of the level of its start over the number of tasks: where it begins with the
// plan before, which earlier searches have made, and anywhere else.
constexpr double kWarm = 0.1, kHot = 0.5, kCold = 0.002;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostLayouts = 64;

// ---- layouts

using Layout = std::vector<int>;  // nodes of one GPU

// All maximal sets of disjoint nodes of a GPU, one of each kind of sizes.
std::vector<Layout> layouts_of(const Forest& forest, int gpu) {
  std::map<std::vector<int>, Layout> kinds;
  Layout layout;
  const int end = forest.first_column[at(gpu) + 1];
  const std::function<void(int)> extend = [&](int column) {
    if (column >= end) {
      std::vector<int> kind;
      for (const int v : layout) kind.push_back(forest.nodes[at(v)].size_class);
      std::ranges::sort(kind);
      kinds.try_emplace(std::move(kind), layout);
      return;
    }
    bool any = false;
    for (int v = forest.first_node[at(gpu)]; v < forest.first_node[at(gpu) + 1]; ++v) {
      if (forest.nodes[at(v)].first_column != column || !forest.nodes[at(v)].plain) continue;
      any = true;
      layout.push_back(v);
      extend(column + forest.nodes[at(v)].columns);
      layout.pop_back();
    }
    if (!any) extend(column + 1);
  };
  extend(forest.first_column[at(gpu)]);
  std::vector<Layout> all;
  for (auto& [kind, nodes] : kinds) all.push_back(std::move(nodes));
  return all;
}

// GPUs whose nodes have the same classes are of one model.
std::map<int, std::vector<int>> gpus_by_model(const Forest& forest) {
  std::map<int, std::vector<int>> models;
  for (int gpu = 0; gpu < forest.gpus; ++gpu) {
    models[forest.nodes[at(forest.first_node[at(gpu)])].size_class].push_back(gpu);
  }
  return models;
}

// ---- worth

class Aimed {
 public:
  Aimed(const TimedBatch& batch, const TailAim& aim) : batch_(batch) {
    double weights = 0;
    for (const std::int64_t weight : batch.weight) weights += static_cast<double>(weight);
    mean_ = 1 / std::max(1.0, weights);
    finishing_ = aim.finishing * mean_;
    makespan_ = aim.makespan;
    beyond_ = aim.beyond;
    after_ = static_cast<double>(aim.after);
    area_ = aim.area / batch.forest.columns();
  }
  double area(int task, int node) const {
    return area_ * static_cast<double>(batch_.forest.time(task, node)) *
           batch_.forest.nodes[at(node)].columns * batch_.width_of(task);
  }
  double area(const Choice& choice) const {
    double sum = 0;
    for (std::size_t t = 0; t < choice.node.size(); ++t)
      sum += area(static_cast<int>(t), choice.node[t]);
    return sum;
  }
  Energy energy() const {
    return {.lateness = kLatenessPrice * mean_,
            .makespan = makespan_,
            .finishing = finishing_,
            .makespan_excess = beyond_,
            .makespan_target = after_};
  }

 private:
  const TimedBatch& batch_;
  double mean_ = 0, finishing_ = 0, makespan_ = 0, beyond_ = 0, after_ = 0, area_ = 0;
};

// ---- the planner

class TailPlanner {
 public:
  TailPlanner(const TimedBatch& batch, const TailOptions& options)
      : batch_(batch),
        options_(options),
        aimed_(batch, options.aim),
        decoder_(batch),
        rng_(Rng(options.seed).split(0x7a11)) {
    for (const TimedBatch& scenario : options.scenarios) others_.emplace_back(scenario);
  }

  TailPlan run() {
    if (batch_.forest.tasks == 0) return {};
    if (options_.follow && options_.before) {
      plan_.from = "before";
      return finish(*options_.before);
    }
    in_queue_order();
    energy_ = aimed_.energy();
    for (auto& [choice, name] : fixed_) consider(choice, name);
    if (options_.before) consider(completed(*options_.before), "before");
    lists();
    CHECK(best_);
    search();
    hand_out();
    return finish(*best_);
  }

 private:
  TailPlan finish(Choice choice) {
    plan_.choice = std::move(choice);
    plan_.physical = decoder_.physical(plan_.choice);
    plan_.worth = decoder_.worth();
    return std::move(plan_);
  }

  int n() const { return batch_.forest.tasks; }

  // In the queue's order on every fixed layout; the limit that the plan may not exceed.
  void in_queue_order() {
    long left = kListed;
    for (const std::vector<char>& layout : fixed_layouts(batch_.forest)) {
      for (const bool first_free : {true, false}) {
        if (left < 0) return;
        left -= n();
        std::optional<Choice> choice =
            in_order(batch_, {layout, batch_.topological, first_free}, nullptr);
        if (!choice) continue;
        const Played played = play(*choice, kNoLimit);
        plan_.in_order = std::min(plan_.in_order, static_cast<Nanos>(std::ceil(played.span)));
        fixed_.emplace_back(*std::move(choice), "in order on a fixed layout");
      }
    }
  }

  bool fits_plain(int task) const {
    const std::vector<Node>& nodes = batch_.forest.nodes;
    for (std::size_t v = 0; v < nodes.size(); ++v) {
      if (nodes[v].plain && batch_.forest.time(task, static_cast<int>(v)) < kNever) return true;
    }
    return false;
  }

  struct Listing {
    const std::vector<char>& layout;
    const std::vector<int>& order;
    bool first_free = true;  // each task where it may begin first; else where it ends first
  };
  // What needs another profile than those of layouts has its instance made.
  std::optional<Choice> in_order(const TimedBatch& batch, const Listing& listing,
                                 Worth* worth) const {
    TimedPlaces places(batch, listing.layout);
    Choice choice;
    choice.node.resize(at(n()), -1);
    for (const int task : listing.order) {
      int node = listing.first_free ? places.put_first(task) : places.put(task, 0);
      if (node < 0 && !fits_plain(task)) node = places.put_beside(task);
      if (node < 0) return std::nullopt;
      choice.node[at(task)] = node;
      choice.order.push_back(task);
    }
    if (worth != nullptr) *worth = places.worth();
    return choice;
  }

  // Orders in which tasks may be handed out: the queue's, the longest first, the shortest first.
  std::vector<std::vector<int>> orders() const {
    std::vector<std::vector<int>> all = {batch_.topological, best_->order};
    if (std::ranges::any_of(batch_.before, [](const auto& b) { return !b.empty(); })) return all;
    for (const bool longest : {true, false}) {
      std::vector<int> order = batch_.topological;
      std::ranges::stable_sort(order, {}, [&](int t) {
        const Nanos area = least_area(batch_.forest, t);
        return std::pair(batch_.release[at(t)], longest ? -area : area);
      });
      all.push_back(std::move(order));
    }
    return all;
  }

  // Times turn out while tasks are handed out, which a choice of nodes beforehand cannot use.
  void hand_out() {
    if (options_.draws.empty()) return;
    double least = aimed_.area(*best_);
    const auto count = static_cast<double>(options_.draws.size());
    for (const TimedBatch& draw : options_.draws)
      least += energy_.of(TimedDecoder(draw).play(*best_)) / count;
    const std::vector<std::vector<int>> all = orders();
    for (const std::vector<char>& layout : fixed_layouts(batch_.forest)) {
      for (const std::vector<int>& order : all) {
        double level = 0;
        for (const TimedBatch& draw : options_.draws) {
          Worth worth;
          const auto choice = in_order(draw, {layout, order}, &worth);
          level += choice ? (energy_.of(worth) + aimed_.area(*choice)) / count : kNoLimit;
          if (level >= least) break;
        }
        if (level >= least) continue;
        least = level;
        best_ = in_order(batch_, {layout, order}, nullptr);
        plan_.from = "handed out as times turn out";
      }
    }
  }

  // With what has come since at its end, each task where it ends first.
  Choice completed(Choice choice) {
    choice.node.resize(at(n()), -1);
    decoder_.clear();
    std::vector<char> there(at(n()), 0);
    for (const int task : choice.order) {
      decoder_.append(task, choice.node[at(task)]);
      there[at(task)] = 1;
    }
    for (const int task : batch_.topological) {
      if (there[at(task)]) continue;
      choice.node[at(task)] = first_end(task);
      decoder_.append(task, choice.node[at(task)]);
      choice.order.push_back(task);
    }
    return choice;
  }

  int first_end(int task) {
    std::pair<Nanos, int> first{kNever, -1};
    const Nanos ready = decoder_.ready(task);
    for (int v = 0; v < static_cast<int>(batch_.forest.nodes.size()); ++v) {
      const Nanos time = batch_.forest.time(task, v);
      if (time >= kNever || !open(v)) continue;
      first = std::min(first, std::pair(std::max(ready, decoder_.available(v)) + time, v));
    }
    return first.second;
  }

  void lists() {
    const TimedBounds bounds = timed_bounds(batch_);
    long left = options_.before ? kListed / 3 : kListed;
    for (const double waste : {1.0, 0.0, 2.0, 0.5, 4.0}) {
      for (const Urgency urgency :
           {Urgency::smith, Urgency::path, Urgency::area, Urgency::release, Urgency::slack}) {
        if (left < 0) return;
        left -= n();
        consider(list_schedule(batch_, bounds, {urgency, waste, false}), "a list");
      }
    }
  }

  struct Played {
    double level = 0, span = 0;  // means over the scenarios
    bool below = true;           // the limit; else the others are of no use
  };
  // Later than the best in order costs as much as being late does.
  Played play(const Choice& choice, double limit) {
    ++plan_.plays;
    const auto count = static_cast<double>(std::max<std::size_t>(1, others_.size()));
    double sum = 0, span = 0;
    const auto add = [&](TimedDecoder& decoder) {
      if (!decoder.play(choice, energy_, limit * count - sum)) return false;
      sum += energy_.of(decoder.worth());
      span += static_cast<double>(decoder.worth().makespan);
      return true;
    };
    if (others_.empty() && !add(decoder_)) return {.below = false};
    for (TimedDecoder& decoder : others_) {
      if (!add(decoder)) return {.below = false};
    }
    span /= count;
    const double over = std::max(0.0, span - static_cast<double>(plan_.in_order));
    const double level = sum / count + kLatenessPrice * over;
    return {level, span, level <= limit};
  }
  TimedDecoder& first() { return others_.empty() ? decoder_ : others_.front(); }

  void consider(const Choice& choice, const char* name) {
    const double level = play(choice, kNoLimit).level + aimed_.area(choice);
    if (best_ && level >= level_) return;
    best_ = choice;
    level_ = level;
    plan_.from = name;
  }

  // ---- changes of single tasks

  void search() {
    const auto each = n() * std::max(1, static_cast<int>(others_.size()));
    const long steps = options_.appends / std::max(1, each);
    if (n() == 0 || steps < 1) return;
    for (int t = 0; t < n(); ++t) {
      std::vector<int>& fits = fits_.emplace_back();
      for (int v = 0; v < static_cast<int>(batch_.forest.nodes.size()); ++v) {
        if (batch_.forest.time(t, v) < kNever && open(v)) fits.push_back(v);
      }
    }
    Choice current = *best_;
    double level = level_, area = aimed_.area(current);
    position_.resize(at(n()));
    for (std::size_t p = 0; p < current.order.size(); ++p)
      position_[at(current.order[p])] = static_cast<int>(p);
    play(current, kNoLimit);
    find_last();
    const double hot = level * (plan_.from == "before" ? kWarm : kHot) / n();
    const double cold = level * kCold / n();
    const double cooling = std::log(cold / hot) / static_cast<double>(steps);
    for (long step = 0; step < steps; ++step) {
      const double heat = hot * std::exp(cooling * static_cast<double>(step));
      const Undo undo = propose(current);
      const double changed = area + area_change(current, undo);
      const double limit = level + heat * rng_.exponential();
      const Played played = play(current, limit - changed);
      if (!played.below) {
        take_back(current, undo);
        continue;
      }
      area = changed;
      level = played.level + area;
      find_last();
      if (level < level_) {
        level_ = level;
        *best_ = current;
        plan_.from = "a search";
      }
    }
  }

  struct Undo {
    int task = 0, node = 0, from = 0, to = 0, other = -1, other_node = 0;
  };

  double area_change(const Choice& now, const Undo& undo) const {
    double change =
        aimed_.area(undo.task, now.node[at(undo.task)]) - aimed_.area(undo.task, undo.node);
    if (undo.other >= 0) {
      change += aimed_.area(undo.other, now.node[at(undo.other)]) -
                aimed_.area(undo.other, undo.other_node);
    }
    return change;
  }

  bool open(int v) const {
    if (batch_.start.column.empty()) return true;
    bool free = true;
    batch_.forest.each_held(v, [&](int c) { free = free && batch_.start.column[at(c)] < kNever; });
    return free;
  }

  void find_last() {
    last_ = 0;
    for (int t = 1; t < n(); ++t) {
      if (first().end(t) > first().end(last_)) last_ = t;
    }
  }

  int draw(std::size_t bound) { return static_cast<int>(rng_.below(bound)); }

  int worthwhile(const Choice& choice) {
    int task = draw(at(n()));
    if (rng_.uniform() < 0.5) return task;
    for (int tries = 0; tries < 6; ++tries) {
      if (batch_.forest.conflict(choice.node[at(task)], choice.node[at(last_)])) break;
      task = draw(at(n()));
    }
    return task;
  }

  std::pair<int, int> window(int task) const {
    int first = 0, last = n() - 1;
    for (const int t : batch_.before[at(task)]) first = std::max(first, position_[at(t)] + 1);
    for (const int t : batch_.behind[at(task)]) last = std::min(last, position_[at(t)] - 1);
    return {first, last};
  }

  void shift(Choice& choice, int from, int to) {
    const auto order = choice.order.begin();
    if (from < to) {
      std::rotate(order + from, order + from + 1, order + to + 1);
    } else {
      std::rotate(order + to, order + from, order + from + 1);
    }
    for (int p = std::min(from, to); p <= std::max(from, to); ++p)
      position_[at(choice.order[at(p)])] = p;
  }

  Undo propose(Choice& choice) {
    const int task = worthwhile(choice);
    Undo undo{.task = task, .node = choice.node[at(task)], .from = position_[at(task)]};
    undo.to = undo.from;
    const double kind = rng_.uniform();
    if (kind < 0.15) {
      swap(choice, undo);
    } else if (kind < 0.5) {
      choice.node[at(task)] = fits_[at(task)][at(draw(fits_[at(task)].size()))];
    }
    const auto [first, last] = window(task);
    if (kind >= 0.5 && kind < 0.8) {
      const int other = draw(at(n()));
      const int there = position_[at(other)];
      undo.to = std::clamp(there - (there > undo.from ? 1 : 0) + draw(2), first, last);
      const int node = choice.node[at(other)];
      if (kind < 0.65 && batch_.forest.time(task, node) < kNever) choice.node[at(task)] = node;
    } else if (kind >= 0.3) {
      undo.to = first + draw(at(last - first + 1));
    }
    shift(choice, undo.from, undo.to);
    return undo;
  }

  void swap(Choice& choice, Undo& undo) {
    const int other = draw(at(n()));
    const int node = choice.node[at(other)];
    if (batch_.forest.time(undo.task, node) >= kNever ||
        batch_.forest.time(other, undo.node) >= kNever || other == undo.task)
      return;
    undo.other = other;
    undo.other_node = node;
    choice.node[at(undo.task)] = node;
    choice.node[at(other)] = undo.node;
  }

  void take_back(Choice& choice, const Undo& undo) {
    shift(choice, undo.to, undo.from);
    if (undo.other >= 0) choice.node[at(undo.other)] = undo.other_node;
    choice.node[at(undo.task)] = undo.node;
  }

  const TimedBatch& batch_;
  const TailOptions& options_;
  const Aimed aimed_;
  TimedDecoder decoder_;
  std::vector<TimedDecoder> others_;  // of the scenarios
  Rng rng_;
  TailPlan plan_;
  Energy energy_;
  std::vector<std::pair<Choice, const char*>> fixed_;
  std::optional<Choice> best_;
  double level_ = 0;
  std::vector<std::vector<int>> fits_;
  std::vector<int> position_;
  int last_ = 0;
};

}  // namespace

std::vector<std::vector<char>> fixed_layouts(const Forest& forest) {
  const std::map<int, std::vector<int>> models = gpus_by_model(forest);
  // Per model its layouts, as nodes counted from the GPU's first.
  std::vector<std::pair<std::vector<int>, std::vector<Layout>>> all;
  for (const auto& [model, gpus] : models) all.emplace_back(gpus, layouts_of(forest, gpus[0]));
  std::vector<std::vector<char>> marks;
  const auto mark = [&](std::vector<char>& marked, const std::vector<int>& gpus,
                        const Layout& layout) {
    for (const int gpu : gpus) {
      for (const int v : layout) {
        marked[at(v - forest.first_node[at(gpus[0])] + forest.first_node[at(gpu)])] = 1;
      }
    }
  };
  for (std::size_t varied = 0; varied < all.size(); ++varied) {
    for (const Layout& layout : all[varied].second) {
      if (marks.size() >= kMostLayouts) return marks;
      std::vector<char> marked(forest.nodes.size(), 0);
      for (std::size_t m = 0; m < all.size(); ++m)
        mark(marked, all[m].first, m == varied ? layout : all[m].second[0]);
      marks.push_back(std::move(marked));
    }
  }
  return marks;
}

TailPlan plan_tail(const TimedBatch& batch, const TailOptions& options) {
  return TailPlanner(batch, options).run();
}

}  // namespace partita::planners::batch
