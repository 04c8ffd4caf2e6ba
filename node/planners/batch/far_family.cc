#include "planners/batch/far_family.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace partita::planners::batch {
namespace {

// Per GPU model that has a GPU its classes, ascending size; models in the order of their first GPU.
std::vector<std::vector<int>> ladders_of(const Forest& forest) {
  std::vector<std::vector<int>> ladders;
  std::vector<bool> seen(at(forest.classes));
  for (int gpu = 0; gpu < forest.gpus; ++gpu) {
    std::vector<int> ladder;
    for (int v = forest.first_node[at(gpu)]; v < forest.first_node[at(gpu) + 1]; ++v) {
      const int size_class = forest.nodes[at(v)].size_class;
      if (seen[at(size_class)]) continue;
      seen[at(size_class)] = true;
      ladder.push_back(size_class);
    }
    if (ladder.empty()) continue;
    std::ranges::sort(ladder, {},
                      [&](int c) { return std::tuple(forest.class_columns[at(c)], c); });
    ladders.push_back(std::move(ladder));
  }
  return ladders;
}

}  // namespace

bool AllocationFamily::Pair::operator<(const Pair& other) const {
  return std::tuple(time, -task, -model) < std::tuple(other.time, -other.task, -other.model);
}

AllocationFamily::AllocationFamily(const Forest& forest)
    : forest_(forest),
      ladders_(ladders_of(forest)),
      rung_(at(forest.classes)),
      places_(at(forest.classes)),
      current_(at(forest.tasks) * ladders_.size(), -1),
      lists_(at(forest.classes)),
      sums_(at(forest.classes)) {
  for (const std::vector<int>& ladder : ladders_) {
    for (std::size_t r = 0; r < ladder.size(); ++r) rung_[at(ladder[r])] = r;
  }
  for (int c = 0; c < forest.classes; ++c) {
    if (forest.class_columns[at(c)] == 0) continue;  // of a model without a GPU
    for (int gpu = 0; gpu < forest.gpus; ++gpu) {
      const int columns = forest.first_column[at(gpu) + 1] - forest.first_column[at(gpu)];
      places_[at(c)] += columns / forest.class_columns[at(c)];
    }
  }
  heap_.reserve(current_.size());
  for (int task = 0; task < forest.tasks; ++task) {
    for (int model = 0; model < models(); ++model) {
      const int first = least_work(task, model, 0);
      current(task, model) = first;
      if (first < 0) continue;
      lists_[at(first)].push_back({time(task, first), task});
      sums_[at(first)] += time(task, first);
      heap_.push_back({time(task, first), task, model});
    }
    area_ += least_area(task);
  }
  for (std::vector<TaskTime>& list : lists_) std::sort(list.begin(), list.end());
  std::make_heap(heap_.begin(), heap_.end());
}

Nanos AllocationFamily::time(int task, int size_class) const {
  return forest_.times[at(task) * at(forest_.classes) + at(size_class)];
}

Nanos AllocationFamily::work(int task, int size_class) const {
  return time(task, size_class) * forest_.class_columns[at(size_class)];
}

int& AllocationFamily::current(int task, int model) {
  return current_[at(task) * ladders_.size() + at(model)];
}

// The class of least work from a rung of a ladder on, or -1 when the task fits none of them. Works
// are known to half a nanosecond per column.
int AllocationFamily::least_work(int task, int model, std::size_t from) const {
  const std::vector<int>& ladder = ladders_[at(model)];
  int best = -1;
  for (std::size_t r = from; r < ladder.size(); ++r) {
    const int c = ladder[r];
    if (time(task, c) >= kNever) continue;
    if (best < 0) {
      best = c;
      continue;
    }
    const int rounding = forest_.class_columns[at(c)] + forest_.class_columns[at(best)];
    if (2 * (work(task, best) - work(task, c)) > rounding) best = c;
  }
  return best;
}

// The least work that this allocation or a later one can give to a task.
Nanos AllocationFamily::least_area(int task) {
  Nanos least = kNever;
  for (int model = 0; model < models(); ++model) {
    const int now = current(task, model);
    if (now < 0) continue;
    const std::vector<int>& ladder = ladders_[at(model)];
    for (std::size_t r = rung_[at(now)]; r < ladder.size(); ++r) {
      if (time(task, ladder[r]) < kNever) least = std::min(least, work(task, ladder[r]));
    }
  }
  CHECK(least < kNever);  // the task fits somewhere
  return least;
}

bool AllocationFamily::on_another_model(int task, int model) {
  for (int other = 0; other < models(); ++other) {
    if (other != model && current(task, other) >= 0) return true;
  }
  return false;
}

void AllocationFamily::put(int task, int size_class) {
  std::vector<TaskTime>& list = lists_[at(size_class)];
  const TaskTime entry{time(task, size_class), task};
  list.insert(std::lower_bound(list.begin(), list.end(), entry), entry);
  sums_[at(size_class)] += entry.time;
}

void AllocationFamily::take(int task, int size_class) {
  std::vector<TaskTime>& list = lists_[at(size_class)];
  const TaskTime entry{time(task, size_class), task};
  list.erase(std::lower_bound(list.begin(), list.end(), entry));
  sums_[at(size_class)] -= entry.time;
}

bool AllocationFamily::next() {
  if (heap_.empty()) return false;
  const auto [old_time, task, model] = heap_.front();
  const int now = current(task, model);
  const int larger = least_work(task, model, rung_[at(now)] + 1);
  if (larger < 0 && !on_another_model(task, model)) return false;
  area_ -= least_area(task);
  take(task, now);
  std::pop_heap(heap_.begin(), heap_.end());
  heap_.pop_back();
  current(task, model) = larger;
  if (larger >= 0) {
    put(task, larger);
    heap_.push_back({time(task, larger), task, model});
    std::push_heap(heap_.begin(), heap_.end());
  }
  area_ += least_area(task);
  return true;
}

Nanos AllocationFamily::area_bound() const {
  const int columns = std::max(1, forest_.columns());
  return static_cast<Nanos>((area_ + columns - 1) / columns);
}

Nanos AllocationFamily::rigid_bound() const {
  if (models() != 1 || heap_.empty()) return 0;
  Nanos bound = heap_.front().time;
  Nanos sum = 0;
  const std::vector<int>& ladder = ladders_.front();
  for (std::size_t r = ladder.size(); r-- > 0;) {
    const int places = places_[at(ladder[r])];
    sum += sums_[at(ladder[r])];
    bound = std::max(bound, (sum + places - 1) / places);
  }
  return bound;
}

}  // namespace partita::planners::batch
