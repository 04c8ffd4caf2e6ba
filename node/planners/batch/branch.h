// Branch and bound over assignments of tasks to nodes, minimising the longest column (see loads.h).
// Used on whole small batches, for the proof, and on a few tasks at a time among others that stay
// where they are. Deterministic; stops at a budget of search nodes.
//
// Bounds, given that a better assignment stays below the best one known: every task left needs at
// least its least area on a size that still has room for it, and all of them together fit into the
// room left in those columns that some task can still use. Twins (subtrees of the same shape with
// the same content) are tried once.
#pragma once

#include <functional>
#include <vector>

#include "planners/batch/loads.h"

namespace partita::planners::batch {

struct BranchTask {
  std::vector<int> free;  // tasks to place, wherever they are now; all others stay
  std::vector<int> gpus;  // GPUs on which to place them, each once; empty = all
  Nanos cutoff = 0;       // only assignments whose longest column on these GPUs is shorter count
  long budget = 0;        // search nodes
  // The real length of an assignment, if it is to count instead of its longest column, which must
  // not exceed it: given the node of each free task. Empty: the longest column.
  std::function<Nanos(const std::vector<int>&)> real = {};
};

struct BranchResult {
  bool found = false;      // an assignment below the cutoff
  std::vector<int> nodes;  // per free task the node of the shortest one found
  Nanos length = 0;        // its longest column on these GPUs, or its real length
  bool complete = false;   // searched to the end: no other is shorter
  long steps = 0;          // search nodes
};

class Branch {
 public:
  explicit Branch(const Forest& forest);

  // The best way to place the free tasks among the others in `loads`. A free task may be placed
  // there or not; what it does on GPUs that take no part does not matter.
  BranchResult run(const Loads& loads, const BranchTask& task);

 private:
  struct Undo;
  struct ClassRoom {
    int size_class = 0;
    Nanos room = 0;
  };
  struct Choice {
    int node = 0;
    Nanos area = 0;
  };
  void place(int task, int node, Undo& undo);
  void take_back(int task, int node, const Undo& undo);
  void load_up(const Loads& loads);
  void search(int left);
  void place_last(int task);
  void find_room();
  int choose(int left);
  bool twin_was_tried(int node) const;
  bool same_content(int a, int b) const;
  void reach_leaf();
  Nanos longest() const;
  std::vector<Choice>& choices_of(int task, int depth);

  const Forest& forest_;
  std::vector<std::vector<int>> twins_;  // per node: earlier nodes of the same shape and parent
  std::vector<int> subtree_end_;         // per node: one past its last descendant
  std::vector<std::vector<bool>> dominated_;  // per task and node: around it is no worse
  std::vector<Nanos> load_;                   // per node
  std::vector<int> count_;                    // per node
  std::vector<Nanos> busy_;                   // per column: tasks, creates, destroys
  std::vector<Nanos> saved_;                  // per column: the longest destroy
  std::vector<Nanos> room_;                   // per node: a task must be shorter than this
  std::vector<ClassRoom> class_rooms_;        // the rooms of the active nodes
  std::vector<Nanos> class_room_;             // per class
  std::vector<Nanos> shortest_;               // per class, of the tasks left that fit
  Nanos slack_ = 0;                           // room for the tasks left, less their least areas
  Nanos chosen_area_ = 0;                     // least area of the task to place next
  std::vector<char> usable_;                  // per column: some task left could use it
  std::vector<int> active_nodes_, active_columns_;
  std::vector<int> free_;                     // tasks to place; the first `left` are unplaced
  std::vector<int> node_of_;                  // per task
  std::vector<int> leaf_;                     // per free task, at a leaf
  std::vector<std::vector<Choice>> choices_;  // per depth
  const BranchTask* task_ = nullptr;
  Nanos cutoff_ = 0;
  BranchResult result_;
};

}  // namespace partita::planners::batch
