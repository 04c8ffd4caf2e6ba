// FAR's first phase: a family of allocations, each a size for every task, after Turek, Wolf and Yu
// (SPAA 1992) as in Section 3.1 of Villarrubia et al., JPDC 204 (2025). The first allocation gives
// every task the size of least work; each further one gives the longest task the size of least work
// among the larger ones. Ties go to the smallest size; a size that a task does not fit is skipped.
// Work is columns x time: on every GPU of the catalogue a size has as many columns as compute
// slices, the paper's measure. Times are whole nanoseconds, so works that differ by no more than
// that rounding are equal (a generator's exact ties stay ties).
// Several GPU models: a task has a size on each of them, and the first instance that is free takes
// it. Of all (task, model) pairs the longest gets the next size; at the largest one the task leaves
// that model while another is left to it. On one model this is the paper's family; it ends when the
// longest task can neither grow nor leave.
// Deviation: of several longest tasks one grows at a time (the paper's formula grows all, its text
// one), so the family has the paper's allocations and more. Keeps a reference to the forest.
#pragma once

#include <vector>

#include "planners/batch/forest.h"

namespace partita::planners::batch {

// A task and its time on the size it has; the longest comes first, ties by number.
struct TaskTime {
  Nanos time = 0;
  int task = 0;
  bool operator<(const TaskTime& other) const {
    return time != other.time ? time > other.time : task < other.task;
  }
};

class AllocationFamily {
 public:
  explicit AllocationFamily(const Forest& forest);  // at the first allocation

  // Per class the tasks allocated to it, sorted. With several models a task is in one list per
  // model.
  const std::vector<std::vector<TaskTime>>& lists() const { return lists_; }
  int models() const { return static_cast<int>(ladders_.size()); }

  // Steps to the next allocation; false at the last one.
  bool next();

  // No schedule of this allocation or of one after it is shorter. Never falls.
  Nanos area_bound() const;
  // No schedule of this allocation is shorter: the longest task, and per size the tasks of at least
  // that size against the places for them. 0 with several models.
  Nanos rigid_bound() const;

 private:
  // A task on a model, by the time of its size there.
  struct Pair {
    Nanos time = 0;
    int task = 0;
    int model = 0;  // index into ladders_
    bool operator<(const Pair& other) const;
  };

  Nanos time(int task, int size_class) const;
  Nanos work(int task, int size_class) const;
  int& current(int task, int model);
  int least_work(int task, int model, std::size_t from) const;
  Nanos least_area(int task);
  bool on_another_model(int task, int model);
  void put(int task, int size_class);
  void take(int task, int size_class);

  const Forest& forest_;
  std::vector<std::vector<int>> ladders_;  // per model its classes, ascending size
  std::vector<std::size_t> rung_;          // per class its index in its ladder
  std::vector<int> places_;                // per class: so many fit beside each other at most
  std::vector<int> current_;               // tasks x models: class, or -1
  std::vector<std::vector<TaskTime>> lists_;
  std::vector<Nanos> sums_;  // per class, of its list's times
  std::vector<Pair> heap_;   // longest pair first
  __int128 area_ = 0;        // sum of the least areas that tasks have now or later
};

}  // namespace partita::planners::batch
