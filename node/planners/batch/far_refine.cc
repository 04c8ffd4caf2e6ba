#include "planners/batch/far_refine.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "planners/batch/far_family.h"

namespace partita::planners::batch {
namespace {

using List = std::vector<TaskTime>;  // sorted

// How far a change of `gain` is from half of `room`, twofold: below `room` exactly when
// 0 < gain < room.
Nanos miss(Nanos gain, Nanos room) { return std::abs(2 * gain - room); }

// The task whose move gains most evenly, as an index; nothing when all gain too much or nothing.
std::optional<std::size_t> best_move(const List& from, Nanos room) {
  const auto above = std::ranges::partition_point(
      from, [&](const TaskTime& entry) { return 2 * entry.time > room; });
  std::optional<std::size_t> best;
  Nanos least = room;
  const auto consider = [&](List::const_iterator entry) {
    if (miss(entry->time, room) >= least) return;
    least = miss(entry->time, room);
    best = static_cast<std::size_t>(entry - from.begin());
  };
  if (above != from.begin()) consider(above - 1);
  if (above != from.end()) consider(above);
  return best;
}

struct Swap {
  std::size_t longer = 0, shorter = 0;
};

// The pair whose swap gains most evenly; both lists are passed over once.
std::optional<Swap> best_swap(const List& from, const List& to, Nanos room) {
  std::optional<Swap> best;
  Nanos least = room;
  std::size_t j = 0;
  const auto consider = [&](std::size_t i, std::size_t k) {
    const Nanos distance = miss(from[i].time - to[k].time, room);
    if (distance >= least) return;
    least = distance;
    best = Swap{i, k};
  };
  for (std::size_t i = 0; i < from.size() && !to.empty(); ++i) {
    // The first task of `to` that would gain at least half the room, and the one before it.
    while (j < to.size() && 2 * (from[i].time - to[j].time) < room) ++j;
    if (j > 0) consider(i, j - 1);
    if (j < to.size()) consider(i, j);
    // Tasks of `from` fall, so the next one needs a task of `to` at least as far on.
  }
  return best;
}

class Refinement {
 public:
  Refinement(const Forest& forest, std::vector<int> assignment, std::vector<Nanos> column_end)
      : forest_(forest),
        end_(std::move(column_end)),
        lists_(forest.nodes.size()),
        alike_(at(forest.classes)),
        leaf_(at(forest.columns())),
        opened_(forest.nodes.size(), 0) {
    result_.assignment = std::move(assignment);
    for (std::size_t task = 0; task < result_.assignment.size(); ++task) {
      const int node = result_.assignment[task];
      const int number = static_cast<int>(task);
      lists_[at(node)].push_back({forest.time(number, node), number});
    }
    for (std::size_t v = 0; v < forest.nodes.size(); ++v) {
      std::sort(lists_[v].begin(), lists_[v].end());
      const Node& node = forest.nodes[v];
      alike_[at(node.size_class)].push_back(static_cast<int>(v));
      for (int c = 0; c < node.columns; ++c) {  // children come after their parents
        leaf_[at(node.first_column + c)] = static_cast<int>(v);
      }
    }
  }

  Refined run() && {
    while (!end_.empty() && pass()) {
    }
    return std::move(result_);
  }

 private:
  // From the leaves that end last towards their roots; false when nothing is left to try.
  bool pass() {
    ++passes_;
    makespan_ = *std::ranges::max_element(end_);
    if (makespan_ == 0) return false;
    queue_.clear();
    for (std::size_t c = 0; c < end_.size(); ++c) {
      if (end_[c] == makespan_) open(leaf_[c]);
    }
    while (!queue_.empty()) {
      const int node = queue_.front();
      queue_.pop_front();
      if (result_.moves + result_.swaps >= kMaxRefinements) return false;
      if (improve(node)) continue;
      if (forest_.nodes[at(node)].parent < 0) return false;
      open(forest_.nodes[at(node)].parent);
    }
    return true;
  }

  void open(int node) {
    if (opened_[at(node)] == passes_) return;
    opened_[at(node)] = passes_;
    queue_.push_back(node);
  }

  Nanos end_of(int node_index) const {
    const Node& node = forest_.nodes[at(node_index)];
    const auto first = end_.begin() + node.first_column;
    return *std::max_element(first, first + node.columns);
  }

  // A move or swap from `node` to the instance of its size that ends first.
  bool improve(int node) {
    List& from = lists_[at(node)];
    if (from.empty()) return false;
    int other = -1;
    Nanos least = kNever;
    for (const int candidate : alike_[at(forest_.nodes[at(node)].size_class)]) {
      const Nanos end = end_of(candidate);
      if (candidate == node || end >= least) continue;
      least = end;
      other = candidate;
    }
    const Nanos room = makespan_ - least;
    if (other < 0 || room <= 0) return false;
    List& to = lists_[at(other)];
    if (const auto move = best_move(from, room)) {
      const TaskTime entry = pull(from, *move);
      push(to, other, entry);
      shift(node, other, entry.time);
      ++result_.moves;
      return true;
    }
    if (const auto swap = best_swap(from, to, room)) {
      const TaskTime longer = pull(from, swap->longer), shorter = pull(to, swap->shorter);
      push(to, other, longer);
      push(from, node, shorter);
      shift(node, other, longer.time - shorter.time);
      ++result_.swaps;
      return true;
    }
    return false;
  }

  static TaskTime pull(List& list, std::size_t index) {
    const TaskTime entry = list[index];
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(index));
    return entry;
  }

  void push(List& list, int node, TaskTime entry) {
    list.insert(std::lower_bound(list.begin(), list.end(), entry), entry);
    result_.assignment[at(entry.task)] = node;
  }

  void shift(int from, int to, Nanos time) {
    const Node& a = forest_.nodes[at(from)];
    const Node& b = forest_.nodes[at(to)];
    for (int c = 0; c < a.columns; ++c) end_[at(a.first_column + c)] -= time;
    for (int c = 0; c < b.columns; ++c) end_[at(b.first_column + c)] += time;
  }

  const Forest& forest_;
  std::vector<Nanos> end_;  // per column
  std::vector<List> lists_;
  std::vector<std::vector<int>> alike_;  // per class its nodes
  std::vector<int> leaf_;                // per column the smallest node that covers it
  std::vector<int> opened_;              // per node the last pass in which it was
  std::deque<int> queue_;
  int passes_ = 0;
  Nanos makespan_ = 0;
  Refined result_;
};

}  // namespace

Refined refine(const Forest& forest, std::vector<int> assignment, std::vector<Nanos> column_end) {
  return Refinement(forest, std::move(assignment), std::move(column_end)).run();
}

}  // namespace partita::planners::batch
