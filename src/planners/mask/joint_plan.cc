#include "planners/mask/joint_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/check.h"

namespace partita::planners::mask {
namespace {

using plan::KernelProblem;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Prices are taken this much wider than computed, and values compared this loosely.
constexpr double kRounding = 1e-11;
// A range of prices is looked into again once it has shrunk by this share.
constexpr double kProgress = 0.1;

// A vertex of a worker's hull.
struct Vertex {
  double units = 0, time = 0;
  Grouping grouping;
};

// The vertices of a worker from the one that is best at price `low` (most units, least time) to
// the one that is best at price `high`.
struct Range {
  Vertex left, right;
  double low = 0, high = kInfinity;
  bool single() const { return left.grouping.option == right.grouping.option; }
};
using Box = std::vector<Range>;

class Solver {
 public:
  Solver(const KernelProblem& problem, long max_boxes) : p_(problem), max_boxes_(max_boxes) {
    for (const plan::KernelWorker& worker : p_.workers)
      planners_.emplace_back(worker.times, p_.switches, p_.switch_cost);
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
      if (bound(box) >= made_.plan.objective * (1 - kRounding)) continue;
      branch(std::move(box), open);
    }
    made_.plan.bound = std::min(made_.plan.objective, least_open);
    made_.plan.optimal = made_.plan.bound >= made_.plan.objective * (1 - kRounding);
    return std::move(made_);
  }

 private:
  Vertex vertex(std::size_t worker, double price) {
    ++made_.programmes;
    Grouping grouping = planners_[worker].best(price);
    return {grouping.mean_units, grouping.time, std::move(grouping)};
  }

  // A price above every slope of the worker's hull.
  double steep(std::size_t worker) const {
    const KernelTimes& times = p_.workers[worker].times;
    double longest = p_.switch_cost * times.kernels();
    for (const double time : times.time) longest += time;
    return 2 * longest * times.kernels() + 1;
  }

  // Best at any price that is high enough: the fewest units, so no switch either.
  Vertex fewest_units(std::size_t worker) const {
    const KernelTimes& times = p_.workers[worker].times;
    Grouping grouping;
    grouping.option.resize(static_cast<std::size_t>(times.kernels()));
    grouping.mean_units = times.units.front();
    for (std::size_t i = 0; i < times.time.size(); i += times.units.size())
      grouping.time += times.time[i];
    return {grouping.mean_units, grouping.time, std::move(grouping)};
  }

  Box root() {
    Box box(p_.workers.size());
    for (std::size_t w = 0; w < box.size(); ++w) {
      box[w].left = vertex(w, 0);
      box[w].right = fewest_units(w);
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
        box, [](const Range& r) { return r.right.units; },
        [](const Range& r) { return r.left.time; });
  }

  void try_ends(const Box& box) {
    for (const bool left : {true, false}) {
      const auto end = [left](const Range& r) -> const Vertex& { return left ? r.left : r.right; };
      const double value = at(
          box, [&](const Range& r) { return end(r).units; },
          [&](const Range& r) { return end(r).time; });
      if (value >= made_.plan.objective) continue;
      made_.plan.objective = value;
      made_.plan.workers.clear();
      for (const Range& range : box) made_.plan.workers.push_back(end(range).grouping);
    }
  }

  // The prices of units in time that the box allows for a worker at an optimum.
  std::pair<double, double> prices(const Box& box, std::size_t worker) const {
    double least_time = 0, most_time = 0, least_units = 0, most_units = 0;
    for (std::size_t w = 0; w < box.size(); ++w) {
      if (w == worker && p_.overlap == plan::Overlap::others) continue;
      least_time += box[w].left.time;
      most_time += box[w].right.time;
      least_units += box[w].right.units;
      most_units += box[w].left.units;
    }
    return {least_time / (p_.total_units + most_units) * (1 - kRounding),
            most_time / (p_.total_units + least_units) * (1 + kRounding)};
  }

  // Narrows the ranges as far as the prices do; false when nothing is left.
  bool contract(Box& box) {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t w = 0; w < box.size(); ++w) {
        Range& range = box[w];
        if (range.single()) continue;
        const auto [low, high] = prices(box, w);
        if (low > range.high || high < range.low) return false;
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
  static bool narrow(Vertex& end, Vertex to, const Range& range) {
    if (to.units > range.left.units || to.units < range.right.units || to.units == end.units)
      return false;
    end = std::move(to);
    return true;
  }

  // Splits the widest range at the vertex between its ends, or between them if there is none.
  void branch(Box box, std::vector<Box>& open) {
    std::size_t widest = box.size();
    double width = 0;
    for (std::size_t w = 0; w < box.size(); ++w) {
      const double mine = box[w].left.units - box[w].right.units;
      if (box[w].single() || mine <= width) continue;
      width = mine;
      widest = w;
    }
    if (widest == box.size()) return;  // one vertex each: its value is known
    Range& range = box[widest];
    const double slope = (range.right.time - range.left.time) / width;
    Vertex middle = vertex(widest, slope);
    const double line = range.left.time + slope * range.left.units;
    const bool none = middle.time + slope * middle.units >= line - kRounding * std::abs(line);
    Box right = box;
    right[widest].left = none ? range.right : middle;
    right[widest].low = slope;
    range.right = none ? range.left : std::move(middle);
    range.high = slope;
    open.push_back(std::move(right));
    open.push_back(std::move(box));
  }

  const KernelProblem& p_;
  const long max_boxes_;
  std::vector<GroupPlanner> planners_;
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
