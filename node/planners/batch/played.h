// Played: an assignment of tasks to nodes, kept with the real length of every GPU's schedule, the
// creates and destroys waiting for each other included, in the better of the two tree orders (large
// instances first, or small ones first). What realise() with Service::longest_tail gives, without
// the times of single tasks, in well under a microsecond per change.
#pragma once

#include <vector>

#include "planners/batch/loads.h"
#include "planners/batch/physical.h"

namespace partita::planners::batch {

class Played {
 public:
  Played(const Forest& forest, const std::vector<int>& assignment);  // complete; keeps the forest

  void assign(const std::vector<int>& assignment);  // another complete one
  void move(int task, int node);
  void swap(int a, int b);  // that fit each other's nodes
  int node_of(int task) const { return loads_.node_of(task); }
  const std::vector<int>& assignment() const { return loads_.assignment(); }
  Nanos longest() const;  // over all GPUs
  Nanos area() const { return loads_.area(); }
  Direction direction(int gpu) const { return direction_[at(gpu)]; }

  // What no schedule of this assignment undercuts, in any order and with instances created as often
  // as one likes: the longest column, and the waiting that cannot be avoided. Take used nodes that
  // are disjoint and directly below the same used one (or below none). The first create inside each
  // comes at another time, and while it runs nothing can run inside those whose first create comes
  // later, nor on anything around them. So the last of k waits for k - 1 creates, besides what it
  // waits inside.
  Nanos bound();

  // The visits that take so long: every GPU in its direction, tasks in the order of `task_order`.
  Visits visits(const std::vector<int>& task_order) const;

 private:
  struct Request {
    Nanos ready = 0;
    int node = 0;
    bool create = true;
  };
  void play(int gpu);
  void gather(int gpu);
  Nanos play_forward();
  Nanos play_reverse();
  Request serve(Nanos& now);
  Nanos bound_below(int above, Nanos saved);

  const Forest& forest_;
  Loads loads_;
  std::vector<Nanos> length_;         // per GPU
  std::vector<Direction> direction_;  // per GPU
  // Of the GPU at hand, per node: its nearest used ancestor or -1, used nodes right below it, the
  // longest work from its creation or destruction on.
  std::vector<int> used_, above_, below_, waits_;
  std::vector<Nanos> create_tail_, destroy_tail_;
  std::vector<Request> waiting_;
};

}  // namespace partita::planners::batch
