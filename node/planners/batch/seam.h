// Seam: the tasks of a batch on the ragged edge that earlier work leaves behind, kept so that a
// search can change a task at a time. A spot is a node together with a side: before everything
// inside the node, or after it. So large instances first (FAR), small ones first (its reversal) and
// every mixture are assignments of tasks to spots. A change costs about 0.1 us per GPU. Times are
// those of realise() except that reconfigurations of one GPU do not wait for each other.
#pragma once

#include <vector>

#include "planners/batch/physical.h"

namespace partita::planners::batch {

// What the ends of columns come to, measured from a level in nanoseconds.
struct Edge {
  Nanos end = 0;       // the latest, from time 0
  double area = 0;     // sum of (end - level)
  double squares = 0;  // sum of (end - level)^2
};

Edge edge_of(const std::vector<Nanos>& ends, double level);

// Per column when it is free: after what is alive there.
std::vector<Nanos> column_ends(const Forest& forest, const Start& start);

class Seam {
 public:
  struct Spot {
    int node = 0;
    bool after = false;  // behind everything inside the node; never true of a leaf
  };

  // All tasks unplaced. Keeps a reference to the forest; the start's vectors may be empty.
  Seam(const Forest& forest, const Start& start, double level);

  // All spots, by GPU; within one in the order in which their instances live.
  const std::vector<Spot>& spots() const { return spots_; }
  int spot_of(int node, bool after) const;
  // Whether the task fits there.
  bool fits(int task, int spot) const;

  void place(int task, int spot);  // an unplaced task that fits there; so do the others
  void remove(int task);           // a placed task
  void move(int task, int spot);   // a placed task
  void swap(int a, int b);         // two placed tasks
  void revert();                   // takes back the latest move or swap, once
  void place_all(const std::vector<int>& spots);  // the assignment, whatever was before

  int spot(int task) const { return spot_[static_cast<std::size_t>(task)]; }
  const std::vector<int>& assignment() const { return spot_; }  // task -> spot; -1 = unplaced
  std::vector<int> nodes() const;                               // task -> node; all are placed

  Nanos end() const;                           // of the latest column
  double area() const { return area_; }        // as in Edge, over all columns
  double squares() const { return squares_; }  // likewise
  std::vector<Nanos> ends();                   // per column

  // When the latest column ended if so much more work ran at a spot in use.
  Nanos end_with(int spot, Nanos more);

  // The visits of the assignment; tasks in the order of `task_order`.
  Visits visits(const std::vector<int>& task_order) const;

 private:
  struct Life {  // a spot's node, at hand
    int node = 0, gpu = 0, first = 0, last = 0;
    Nanos create = 0, destroy = 0;
  };

  struct Change {
    int a = -1, b = -1;            // tasks; b = -1: a move
    int spot_a = 0, spot_b = 0;    // where they were
    int gpu_a = 0, gpu_b = 0;      // which GPUs it touched
    Edge edge_a, edge_b;           // and their edges before
    double area = 0, squares = 0;  // over all columns before
  };

  void remember(int a, int b, int other_gpu);
  void add(int task, int spot);
  void take(int task);
  void update(int gpu);
  Nanos begin(const Life& life) const;
  int gpu_of(int spot) const { return lives_[static_cast<std::size_t>(spot)].gpu; }

  const Forest& forest_;
  double level_;
  std::vector<Nanos> start_free_, start_reconfigurer_;  // per column, per GPU
  std::vector<int> start_alive_;                        // per column its node, or -1
  std::vector<Nanos> start_destroy_;                    // per column, of that node
  std::vector<Spot> spots_;
  std::vector<Life> lives_;          // per spot
  std::vector<int> first_spot_;      // per GPU, and one past the last
  std::vector<int> before_, after_;  // per node its spots
  std::vector<int> spot_;            // per task
  std::vector<Nanos> load_;          // per spot
  std::vector<int> count_;           // per spot
  std::vector<Edge> edge_;           // per GPU
  double area_ = 0, squares_ = 0;
  Change change_;                      // the latest move or swap
  std::vector<Nanos> free_, destroy_;  // per column, after the latest update of its GPU
  std::vector<int> alive_;
};

}  // namespace partita::planners::batch
