#include "planners/batch/concatenate.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "planners/batch/seam.h"

namespace partita::planners::batch {
namespace {

// More work than any margin; three of them can be added to a time.
constexpr Nanos kProbe = kNever / 4;

class Refitting {
 public:
  Refitting(const Forest& forest, const std::vector<int>& assignment, const Start& start,
            Direction direction)
      : forest_(forest), seam_(forest, start, 0) {
    std::vector<int> spots;
    for (const int node : assignment) {
      const bool leaf = forest.children[at(node)].empty();
      spots.push_back(seam_.spot_of(node, direction == Direction::reverse && !leaf));
    }
    seam_.place_all(spots);
    for (int v = 0; v < static_cast<int>(forest.nodes.size()); ++v) {
      const bool leaf = forest.children[at(v)].empty();
      spots_.push_back(seam_.spot_of(v, direction == Direction::reverse && !leaf));
    }
    std::ranges::sort(spots_);
  }

  Refit run() {
    Refit result;
    while (result.moves + result.swaps < kMaxRefits) {
      const std::optional<bool> moved = improve();
      if (!moved) break;
      ++(*moved ? result.moves : result.swaps);
    }
    result.visits = seam_.visits(longest_first(forest_, seam_.nodes()));
    return result;
  }

 private:
  // One move (true) or swap (false) that improves the end, if there is one.
  std::optional<bool> improve() {
    tasks_.assign(seam_.spots().size(), {});
    for (const int task : longest_first(forest_, seam_.nodes())) {
      tasks_[at(seam_.spot(task))].push_back(task);
    }
    const Nanos end = seam_.end();
    for (const int from : spots_) {
      if (tasks_[at(from)].empty() || seam_.end_with(from, 1) == end) continue;
      const auto [to, margin] = widest(from, end);
      if (margin <= 0) continue;
      if (move(from, to, margin)) return true;
      if (swap(from, to, margin)) return false;
    }
    return std::nullopt;
  }

  // The spot of the same size that can take most before it ends the batch, and how much.
  std::pair<int, Nanos> widest(int from, Nanos end) {
    const Node& node = forest_.nodes[at(seam_.spots()[at(from)].node)];
    std::pair<int, Nanos> best{-1, 0};
    for (const int to : spots_) {
      const Node& other = forest_.nodes[at(seam_.spots()[at(to)].node)];
      if (to == from || other.size_class != node.size_class) continue;
      const Nanos margin = end + kProbe - seam_.end_with(to, kProbe);
      if (margin > best.second) best = {to, margin};
    }
    return best;
  }

  Nanos time(int task, int spot) const { return forest_.time(task, seam_.spots()[at(spot)].node); }

  // Less is better: the end, then how many columns reach it.
  std::pair<Nanos, long> rank() {
    const Nanos end = seam_.end();
    return {end, std::ranges::count(seam_.ends(), end)};
  }

  bool move(int from, int to, Nanos margin) {
    int best = -1;
    Nanos distance = kNever;
    for (const int task : tasks_[at(from)]) {
      const Nanos off = std::abs(time(task, from) - margin / 2);
      if (time(task, from) >= margin || off >= distance) continue;
      best = task;
      distance = off;
    }
    if (best < 0) return false;
    const auto before = rank();
    seam_.move(best, to);
    if (rank() < before) return true;
    seam_.revert();
    return false;
  }

  // Both lists fall, so for falling tasks of `from` the best partner moves down its list.
  bool swap(int from, int to, Nanos margin) {
    const std::vector<int>& partners = tasks_[at(to)];
    std::pair<int, int> best{-1, -1};
    Nanos distance = kNever;
    std::size_t p = 0;
    for (const int task : tasks_[at(from)]) {
      const auto gain = [&](std::size_t i) { return time(task, from) - time(partners[i], to); };
      while (p < partners.size() && gain(p) < margin / 2) ++p;
      for (std::size_t i = p - std::min<std::size_t>(p, 1); i < std::min(p + 1, partners.size());
           ++i) {
        const Nanos off = std::abs(gain(i) - margin / 2);
        if (gain(i) <= 0 || gain(i) >= margin || off >= distance) continue;
        best = {task, partners[i]};
        distance = off;
      }
    }
    if (best.first < 0) return false;
    const auto before = rank();
    seam_.swap(best.first, best.second);
    if (rank() < before) return true;
    seam_.revert();
    return false;
  }

  const Forest& forest_;
  Seam seam_;
  std::vector<int> spots_;               // of every node, in order of life
  std::vector<std::vector<int>> tasks_;  // per spot, longest first
};

}  // namespace

Start after_all(const Forest& forest, const Start& start) {
  Start later = start;
  const std::vector<Nanos> ends = column_ends(forest, start);
  const Nanos end = ends.empty() ? 0 : *std::ranges::max_element(ends);
  later.column.assign(ends.size(), end);
  later.reconfigurer.resize(at(forest.gpus), 0);
  for (Nanos& free : later.reconfigurer) free = std::max(free, end);
  return later;
}

Refit refit(const Forest& forest, const std::vector<int>& assignment, const Start& start,
            Direction direction) {
  return Refitting(forest, assignment, start, direction).run();
}

}  // namespace partita::planners::batch
