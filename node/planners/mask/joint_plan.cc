#include "planners/mask/joint_plan.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "base/check.h"

namespace partita::planners::mask {
namespace {

using plan::KernelProblem;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Prices are taken this much wider than computed, and values compared this loosely.
constexpr double kPriceRounding = 1e-11;
// A range of prices is looked into again once it has shrunk by this share.
constexpr double kProgress = 0.1;

// A vertex of a worker's hull.
struct Vertex {
  double units = 0, time = 0;
  Grouping grouping;
};

// The vertices that are best at the prices asked for; workers with the same kernels share a hull.
class Hull {
 public:
  Hull(const KernelProblem& problem, const KernelTimes& times)
      : times_(times), planner_(times, problem.switches, problem.switch_cost) {
    // At any price that is high enough: the fewest units, so no switch either.
    Grouping grouping;
    grouping.option.resize(static_cast<std::size_t>(times.kernels()));
    grouping.mean_units = times.units.front();
    for (std::size_t i = 0; i < times.time.size(); i += times.units.size())
      grouping.time += times.time[i];
    known_[kInfinity] = add(std::move(grouping));
  }

  const KernelTimes& times() const { return times_; }
  long programmes() const { return programmes_; }
  const Vertex* fewest_units() const { return known_.at(kInfinity); }

  const Vertex* best(double price) {
    const auto above = known_.lower_bound(price);
    const Vertex* const high = above->second;
    if (above->first == price) return high;
    const Vertex* const low = above == known_.begin() ? nullptr : std::prev(above)->second;
    if (low == high) return high;  // best at a lower price and at a higher one
    ++programmes_;
    Grouping grouping = planner_.best(price);
    const bool is_high = grouping.mean_units == high->units;
    const bool is_low = low != nullptr && grouping.mean_units == low->units;
    return known_[price] = is_high ? high : is_low ? low : add(std::move(grouping));
  }

 private:
  const Vertex* add(Grouping grouping) {
    vertices_.push_back({grouping.mean_units, grouping.time, std::move(grouping)});
    return &vertices_.back();
  }

  const KernelTimes& times_;
  GroupPlanner planner_;
  std::deque<Vertex> vertices_;
  std::map<double, const Vertex*> known_;  // by price
  long programmes_ = 0;                    // solved
};

// The vertices of a worker from the one that is best at price `low` (most units, least time) to
// the one that is best at price `high`.
struct Range {
  const Vertex *left = nullptr, *right = nullptr;
  double low = 0, high = kInfinity;
  bool single() const { return left == right; }
  double width() const { return left->units - right->units; }
};
using Box = std::vector<Range>;

class Solver {
 public:
  Solver(const KernelProblem& problem, long max_boxes) : p_(problem), max_boxes_(max_boxes) {
    for (std::size_t w = 0; w < p_.workers.size(); ++w) {
      const KernelTimes& times = p_.workers[w].times;
      const auto same = std::ranges::find(hulls_, times, &Hull::times);
      const auto hull = static_cast<std::size_t>(same - hulls_.begin());
      if (same == hulls_.end()) {
        hulls_.emplace_back(p_, times);
      } else {
        const auto last = std::ranges::find(hull_of_.rbegin(), hull_of_.rend(), hull);
        twins_.emplace_back(hull_of_.rend() - last - 1, w);
      }
      hull_of_.push_back(hull);
    }
  }

  JointPlan run() {
    std::vector<Box> open{root()};
    double least_open = kInfinity;
    for (long boxes = 0; !open.empty(); ++boxes) {
      Box box = std::move(open.back());
      open.pop_back();
      if (boxes == max_boxes_) {
        least_open = bound(box);
        for (const Box& other : open) least_open = std::min(least_open, bound(other));
        break;
      }
      if (!contract(box)) continue;
      try_ends(box);
      if (bound(box) >= made_.plan.objective * (1 - kPriceRounding)) continue;
      branch(std::move(box), open);
    }
    made_.plan.bound = std::min(made_.plan.objective, least_open);
    made_.plan.optimal = made_.plan.bound >= made_.plan.objective * (1 - kPriceRounding);
    for (const Hull& hull : hulls_) made_.programmes += hull.programmes();
    return std::move(made_);
  }

 private:
  const Vertex* vertex(std::size_t worker, double price) {
    return hulls_[hull_of_[worker]].best(price);
  }

  // A price above every slope of the worker's hull.
  double steep(std::size_t worker) const {
    const KernelTimes& times = p_.workers[worker].times;
    double longest = p_.switch_cost * times.kernels();
    for (const double time : times.time) longest += time;
    return 2 * longest * times.kernels() + 1;
  }

  Box root() {
    Box box(p_.workers.size());
    for (std::size_t w = 0; w < box.size(); ++w) {
      box[w].left = vertex(w, 0);
      box[w].right = hulls_[hull_of_[w]].fewest_units();
    }
    // Above every slope, and above every price: those of others may be far above.
    for (std::size_t w = 0; w < box.size(); ++w)
      box[w].high = std::max(steep(w), prices(box, w).second);
    made_.plan.objective = kInfinity;
    return box;
  }

  double objective(double times, double units) const {
    return times * (1 + units / p_.total_units);
  }

  // The objective at any corner of a box; it grows in every coordinate.
  template <class Units, class Time>
  double at(const Box& box, Units units, Time time) const {
    double all_units = 0, all_times = 0, sum = 0;
    for (const Range& range : box) {
      all_units += units(range);
      all_times += time(range);
    }
    if (p_.overlap == plan::Overlap::literal) return objective(all_times, all_units);
    for (const Range& range : box) sum += objective(time(range), all_units - units(range));
    return sum;
  }

  double bound(const Box& box) const {
    return at(
        box, [](const Range& r) { return r.right->units; },
        [](const Range& r) { return r.left->time; });
  }

  void try_ends(const Box& box) {
    for (const bool left : {true, false}) {
      const auto end = [left](const Range& r) { return left ? r.left : r.right; };
      const double value = at(
          box, [&](const Range& r) { return end(r)->units; },
          [&](const Range& r) { return end(r)->time; });
      if (value >= made_.plan.objective) continue;
      made_.plan.objective = value;
      made_.plan.workers.clear();
      for (const Range& range : box) made_.plan.workers.push_back(end(range)->grouping);
    }
  }

  // The prices of units in time that the box allows for a worker at an optimum.
  std::pair<double, double> prices(const Box& box, std::size_t worker) const {
    double least_time = 0, most_time = 0, least_units = 0, most_units = 0;
    for (std::size_t w = 0; w < box.size(); ++w) {
      if (w == worker && p_.overlap == plan::Overlap::others) continue;
      least_time += box[w].left->time;
      most_time += box[w].right->time;
      least_units += box[w].right->units;
      most_units += box[w].left->units;
    }
    return {least_time / (p_.total_units + most_units) * (1 - kPriceRounding),
            most_time / (p_.total_units + least_units) * (1 + kPriceRounding)};
  }

  // Workers with the same kernels can change places, so that some optimum has them by falling
  // units: ends move as far as that allows. A price that bounds one of them bounds its twin there.
  bool order(Box& box) const {
    for (const auto& [one, later] : twins_)
      if (box[one].left->units < box[later].left->units) {
        box[later].left = box[one].left;
        box[later].low = std::max(box[later].low, box[one].low);
      }
    for (auto twin = twins_.rbegin(); twin != twins_.rend(); ++twin) {
      Range &one = box[twin->first], &later = box[twin->second];
      if (one.right->units < later.right->units) {
        one.right = later.right;
        one.high = std::min(one.high, later.high);
      }
    }
    return std::ranges::all_of(
        box, [](const Range& range) { return range.left->units >= range.right->units; });
  }

  // Narrows the ranges as far as the prices do; false when nothing is left.
  bool contract(Box& box) {
    for (bool changed = true; changed;) {
      changed = false;
      if (!order(box)) return false;
      for (std::size_t w = 0; w < box.size(); ++w) {
        Range& range = box[w];
        const auto [low, high] = prices(box, w);
        if (low > range.high || high < range.low) return false;
        if (range.single()) continue;
        const double enough = kProgress * (std::min(range.high, 2 * high) - range.low);
        if (low > range.low + enough) {
          range.low = low;
          changed |= narrow(range.left, vertex(w, low), range);
        }
        if (high < range.high - enough) {
          range.high = high;
          changed |= narrow(range.right, vertex(w, high), range);
        }
      }
    }
    return true;
  }

  // Moves an end of a range to `to`, unless rounding has put that outside; whether it moved.
  static bool narrow(const Vertex*& end, const Vertex* to, const Range& range) {
    if (to->units > range.left->units || to->units < range.right->units || to == end) return false;
    end = to;
    return true;
  }

  // Splits the widest range at the vertex between its ends, or between them if there is none.
  void branch(Box box, std::vector<Box>& open) {
    const double width = std::ranges::max_element(box, {}, &Range::width)->width();
    if (width <= 0) return;  // one vertex each: its value is known
    std::vector<std::size_t> widest;
    for (std::size_t w = 0; w < box.size(); ++w)
      if (box[w].width() == width) widest.push_back(w);
    // Of twins the one in the middle: half of them lie on either side of it.
    const std::size_t worker = widest[widest.size() / 2];
    Range& range = box[worker];
    const double slope = (range.right->time - range.left->time) / width;
    const Vertex* const middle = vertex(worker, slope);
    const double line = range.left->time + slope * range.left->units;
    const bool none =
        middle->time + slope * middle->units >= line - kPriceRounding * std::abs(line);
    Box right = box;
    right[worker].left = none ? range.right : middle;
    right[worker].low = slope;
    range.right = none ? range.left : middle;
    range.high = slope;
    open.push_back(std::move(right));
    open.push_back(std::move(box));
  }

  const KernelProblem& p_;
  const long max_boxes_;
  std::deque<Hull> hulls_;
  std::vector<std::size_t> hull_of_;  // the workers
  // Of workers with the same kernels each and the next one, by the latter.
  std::vector<std::pair<std::size_t, std::size_t>> twins_;
  JointPlan made_;
};

}  // namespace

JointPlan plan_jointly(const plan::KernelProblem& problem, long max_boxes) {
  CHECK(!problem.workers.empty() && problem.total_units > 0);
  return Solver(problem, max_boxes).run();
}

std::vector<JointPlan> switch_curve(const plan::KernelProblem& problem, long max_boxes) {
  std::vector<JointPlan> curve;
  plan::KernelProblem one = problem;
  for (one.switches = 0; one.switches <= problem.switches; ++one.switches)
    curve.push_back(plan_jointly(one, max_boxes));
  return curve;
}

}  // namespace partita::planners::mask
