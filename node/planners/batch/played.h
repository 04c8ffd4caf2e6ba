// Played: an assignment of tasks to nodes, kept with the real length of the schedule of every
// reconfigurer's GPUs, the creates and destroys waiting for each other included, each GPU in the
// better of the two tree orders (large instances first, or small ones first). What realise() with
// Service::longest_tail gives, without the times of single tasks, in well under a microsecond per
// change of a GPU by itself; a change on a node's GPUs plays all of them.
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
  Nanos longest() const;  // over all
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
  void change(int gpu_a, int gpu_b);
  void play_all();
  void turn(int gpu);
  void play(int reconfigurer);
  void gather(int gpu);
  Nanos play_alone(int gpu, Direction direction);
  void prepare_forward(std::size_t first);
  void prepare_reverse(std::size_t first);
  Nanos run();
  Request serve(Nanos& now);
  bool before(int a, int b) const;
  Nanos bound_below(int above, Nanos saved);

  const Forest& forest_;
  Loads loads_;
  std::vector<Nanos> length_;         // per reconfigurer
  std::vector<Nanos> alone_;          // per GPU, with a reconfigurer of its own
  std::vector<Direction> direction_;  // per GPU
  std::vector<int> first_gpu_;        // per reconfigurer, and one past the last
  // Of the GPUs at hand, per node: its nearest used ancestor or -1, used nodes right below it, the
  // longest work from its creation or destruction on.
  std::vector<int> used_, above_, below_, waits_;
  std::vector<Nanos> create_tail_, destroy_tail_;
  std::vector<Request> waiting_;
  std::vector<Nanos> lengths_;  // of bound_below()
};

}  // namespace partita::planners::batch
