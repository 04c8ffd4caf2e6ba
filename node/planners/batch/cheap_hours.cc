#include "planners/batch/cheap_hours.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/index.h"

namespace partita::planners::batch {
namespace {

constexpr double kNothing = 1e-6;  // a weight by which nothing is better
// Weights of a kWh that differ by less are one, so that of equal moments the earliest is taken.
constexpr double kGrains = 1e9;

struct Placed {
  double begin = 0, end = 0;
  const Flexible* task = nullptr;
};

struct Moment {
  double weight = 0, begin = 0;
};

class Search {
 public:
  Search(const plan::Tariff& tariff, const CheapHours& problem)
      : tariff_(tariff), problem_(problem) {}

  // The order in which tasks get their moments is `order`.
  std::optional<Beginnings> run(std::vector<std::size_t> order) {
    order_ = std::move(order);
    bounds_.assign(order_.size() + 1, 0);
    for (std::size_t i = order_.size(); i-- > 0;) {
      const auto own = moments(problem_.tasks[order_[i]]);
      if (own.empty()) return {};
      bounds_[i] = bounds_[i + 1] + own.front().weight;
    }
    steps_ = 0;
    place(0, 0);
    if (!best_) return {};
    best_->least = bounds_.front();
    best_->optimal = steps_ < kSteps || best_->weight <= best_->least + kNothing;
    return best_;
  }

 private:
  double earliest() const { return std::max(problem_.now_s, problem_.free_s); }

  // Of a task, the best first, the earlier one of equals; ends of others among them.
  std::vector<Moment> moments(const Flexible& task) const {
    std::vector<double> begins =
        plan::start_candidates(tariff_, earliest(), task.latest_s, task.length_s);
    for (const Placed& other : placed_)
      if (other.end > earliest() && other.end <= task.latest_s) begins.push_back(other.end);
    std::vector<Moment> all;
    for (const double begin : begins)
      if (const auto rate = plan::mean_rate(tariff_, begin, begin + task.length_s))
        all.push_back({std::round(plan::weight(tariff_, *rate) * kGrains) / kGrains * task.slices *
                           task.length_s,
                       begin});
    std::ranges::sort(all, [](const Moment& a, const Moment& b) {
      return std::pair(a.weight, a.begin) < std::pair(b.weight, b.begin);
    });
    return all;
  }

  // Whether all that is placed at this moment fits onto the GPUs, one shape on each, with this one.
  bool fits_at(const Flexible& task, double at) const {
    std::map<std::pair<int, int>, int> instances{{{task.shape, task.per_gpu}, task.instances}};
    for (const Placed& one : placed_)
      if (one.begin <= at && at < one.end)
        instances[{one.task->shape, one.task->per_gpu}] += one.task->instances;
    int gpus = 0;
    for (const auto& [shape, count] : instances)
      gpus += (count + shape.second - 1) / shape.second;
    return gpus <= problem_.gpus;
  }
  bool fits(const Flexible& task, double begin) const {
    if (!fits_at(task, begin)) return false;
    return std::ranges::all_of(placed_, [&](const Placed& one) {
      const bool begins_within = one.begin > begin && one.begin < begin + task.length_s;
      return !begins_within || fits_at(task, one.begin);
    });
  }

  void place(std::size_t next, double weight) {
    if (best_ && weight + bounds_[next] >= best_->weight - kNothing) return;
    if (next == order_.size()) {
      best_ = Beginnings{std::vector<double>(order_.size()), weight};
      for (std::size_t i = 0; i < order_.size(); ++i)
        best_->begin_s[order_[i]] = placed_[i].begin;
      return;
    }
    const Flexible& task = problem_.tasks[order_[next]];
    for (const Moment& one : moments(task)) {
      if (++steps_ >= kSteps) return;
      if (!fits(task, one.begin)) continue;
      placed_.push_back({one.begin, one.begin + task.length_s, &task});
      place(next + 1, weight + one.weight);
      placed_.pop_back();
    }
  }

  const plan::Tariff& tariff_;
  const CheapHours& problem_;
  std::vector<std::size_t> order_;
  std::vector<double> bounds_;  // of what the tasks from each place of the order on weigh at least
  std::vector<Placed> placed_;  // in the order
  std::optional<Beginnings> best_;
  long steps_ = 0;
};

}  // namespace

std::optional<Beginnings> cheap_hours(const plan::Tariff& tariff, const CheapHours& problem) {
  const std::size_t count = problem.tasks.size();
  if (count == 0 || count > kMostFlexible || tariff.empty()) return {};
  std::vector<std::size_t> by_size(count);
  std::iota(by_size.begin(), by_size.end(), 0);
  std::vector<std::size_t> by_latest = by_size;
  const auto& tasks = problem.tasks;
  std::ranges::stable_sort(by_size, [&](std::size_t a, std::size_t b) {
    return tasks[a].slices * tasks[a].length_s > tasks[b].slices * tasks[b].length_s;
  });
  std::ranges::stable_sort(by_latest, {}, [&](std::size_t t) { return tasks[t].latest_s; });
  std::optional<Beginnings> best = Search(tariff, problem).run(by_size);
  if (best && best->optimal) return best;
  const auto other = Search(tariff, problem).run(by_latest);
  if (other && (!best || other->optimal || other->weight < best->weight)) best = other;
  return best;
}

}  // namespace partita::planners::batch
