// Where the next task of a list schedule could go: per size the node that is available first, kept
// up to date as tasks are appended. Refers to the batch. A put is O(nodes of a GPU + log GPUs).
#pragma once

#include <vector>

#include "planners/batch/timed_decoder.h"

namespace partita::planners::batch {

class TimedPlaces {
 public:
  // `allowed`, per node: whether tasks may go there; empty: all may.
  explicit TimedPlaces(const TimedBatch& batch, std::vector<char> allowed = {});

  Nanos ready(int task) const { return decoder_.ready(task); }
  // The earliest time at which anything is free.
  Nanos now() const;

  // Appends the task where its end, with waste, is least; returns the node, or -1 where it fits
  // none that is allowed.
  int put(int task, double waste);
  // Appends it to the node that is free first among those it fits; the same.
  int put_first(int task);
  // To whatever node it ends first on, allowed or not.
  int put_beside(int task);
  // The node of a class that is free first of those that are allowed; -1: none is.
  int first_of(int size_class) const { return first(size_class).node; }
  // To that node, allowed or not; -1: nowhere.
  int append(int task, int node);
  Nanos end(int task) const { return decoder_.end(task); }
  const Worth& worth() const { return decoder_.worth(); }

 private:
  struct Place {
    int node = -1;
    Nanos available = kNever;
  };
  void look_at(int gpu);
  void set(int size_class, int gpu, const Place& place);
  const Place& first(int size_class) const { return trees_[at(size_class)][1]; }

  const TimedBatch& batch_;
  TimedDecoder decoder_;
  std::vector<char> allowed_;
  std::size_t leaves_ = 1;                 // a power of two, at least the number of GPUs
  std::vector<std::vector<Place>> trees_;  // per class a tournament of the GPUs
  std::vector<std::vector<int>> classes_;  // per GPU its classes
  std::vector<Nanos> least_;               // per task its least area
};

}  // namespace partita::planners::batch
