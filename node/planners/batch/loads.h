// Loads: an assignment of tasks to nodes, kept with the length of every GPU's longest column, for
// searches that change a task at a time. The length of a column is what no schedule of this
// assignment can undercut: the times of the tasks on the used nodes that cover it, their creates,
// and their destroys but for the longest, since the last instance need not be destroyed. An update
// costs one pass over the nodes of one GPU.
#pragma once

#include <vector>

#include "planners/batch/forest.h"

namespace partita::planners::batch {

class Loads {
 public:
  explicit Loads(const Forest& forest);  // all tasks unplaced; keeps a reference

  void place(int task, int node);  // an unplaced task
  void remove(int task);           // a placed task
  // Moves a placed task. Cheaper than remove and place on one GPU.
  void move(int task, int node);
  void swap(int a, int b);  // two placed tasks that fit each other's nodes

  int node_of(int task) const { return node_of_[at(task)]; }
  const std::vector<int>& assignment() const { return node_of_; }
  Nanos load(int node) const { return load_[at(node)]; }  // tasks only
  int count(int node) const { return count_[at(node)]; }
  Nanos length(int gpu) const { return length_[at(gpu)]; }
  Nanos area(int gpu) const { return area_[at(gpu)]; }
  Nanos longest() const;  // over all GPUs
  Nanos area() const;     // summed over all columns: tasks, creates and destroys

  // Length of the column that ends in each node: of its used ancestors and itself. Only the leaves'
  // are columns of their own; an inner node's is its part of them.
  const std::vector<Nanos>& paths() const { return path_; }

 private:
  void update(int gpu);

  const Forest& forest_;
  std::vector<int> node_of_;
  std::vector<Nanos> load_;           // per node, tasks only
  std::vector<int> count_;            // per node
  std::vector<Nanos> path_;           // per node
  std::vector<Nanos> saved_;          // per node: the longest destroy on its path
  std::vector<Nanos> length_, area_;  // per GPU
};

}  // namespace partita::planners::batch
