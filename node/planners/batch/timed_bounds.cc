#include "planners/batch/timed_bounds.h"

#include <algorithm>
#include <numeric>

namespace partita::planners::batch {
namespace {

// Tails that are tried as the end of an area; more distinct ones are thinned out.
constexpr std::size_t kTails = 64;

// Per size class the cheapest creation of a node of it.
std::vector<Nanos> cheapest_creates(const Forest& forest) {
  std::vector<Nanos> creates(at(forest.classes), kNever);
  for (const Node& node : forest.nodes) {
    Nanos& create = creates[at(node.size_class)];
    create = std::min(create, node.create);
  }
  return creates;
}

std::vector<Nanos> some_tails(std::vector<Nanos> tails) {
  std::ranges::sort(tails);
  tails.erase(std::ranges::unique(tails).begin(), tails.end());
  if (tails.size() <= kTails) return tails;
  std::vector<Nanos> some;
  for (std::size_t i = 0; i < kTails; ++i) some.push_back(tails[i * tails.size() / kTails]);
  return some;
}

// Tasks that start at `from` or later and are followed by `tail` or more share the columns.
Nanos area_between(const TimedBatch& batch, const std::vector<Nanos>& starts,
                   const TimedBounds& bounds) {
  const Forest& forest = batch.forest;
  std::vector<int> latest_first(starts.size());
  std::iota(latest_first.begin(), latest_first.end(), 0);
  std::ranges::sort(latest_first, {}, [&](int t) { return std::pair(-starts[at(t)], t); });
  std::vector<Nanos> areas;
  for (int t = 0; t < forest.tasks; ++t) areas.push_back(least_area(forest, t));
  Nanos bound = 0;
  const Wide columns = forest.columns();
  for (const Nanos tail : some_tails(bounds.tail)) {
    Wide area = 0;
    for (const int t : latest_first) {
      if (bounds.tail[at(t)] < tail) continue;
      area += areas[at(t)];
      const auto share = static_cast<Nanos>((area + columns - 1) / columns);
      bound = std::max(bound, starts[at(t)] + share + tail);
    }
  }
  return bound;
}

}  // namespace

TimedBounds timed_bounds(const TimedBatch& batch) {
  const Forest& forest = batch.forest;
  const std::size_t n = batch.release.size();
  TimedBounds bounds{.ready = batch.release,
                     .end = std::vector<Nanos>(n, kNever),
                     .least = std::vector<Nanos>(n, kNever),
                     .tail = std::vector<Nanos>(n, 0)};
  const std::vector<Nanos> creates = cheapest_creates(forest);
  std::vector<Nanos> starts(n, kNever);
  for (const int task : batch.topological) {
    const std::size_t t = at(task);
    for (const int before : batch.before[t]) {
      bounds.ready[t] = std::max(bounds.ready[t], bounds.end[at(before)]);
    }
    for (std::size_t k = 0; k < creates.size(); ++k) {
      const Nanos time = forest.times[t * creates.size() + k];
      if (time >= kNever || creates[k] >= kNever) continue;
      const Nanos start = std::max(bounds.ready[t], creates[k]);
      starts[t] = std::min(starts[t], start);
      bounds.least[t] = std::min(bounds.least[t], time);
      bounds.end[t] = std::min(bounds.end[t], start + time);
    }
    const Nanos late = bounds.end[t] - batch.deadline[t];
    if (late > 0) bounds.lateness += Wide{batch.weight[t]} * late;
  }
  for (std::size_t i = n; i-- > 0;) {
    const std::size_t t = at(batch.topological[i]);
    for (const int next : batch.behind[t]) {
      bounds.tail[t] = std::max(bounds.tail[t], bounds.least[at(next)] + bounds.tail[at(next)]);
    }
    bounds.makespan = std::max(bounds.makespan, bounds.end[t] + bounds.tail[t]);
  }
  bounds.makespan = std::max(bounds.makespan, area_between(batch, starts, bounds));
  return bounds;
}

}  // namespace partita::planners::batch
