#include "planners/batch/branch.h"

#include <algorithm>
#include <array>

namespace partita::planners::batch {
namespace {

// Whether the subtrees of a and b have the same sizes and columns.
bool same_shape(const Forest& forest, int a, int b) {
  const Node& x = forest.nodes[at(a)];
  const Node& y = forest.nodes[at(b)];
  const auto& below_x = forest.children[at(a)];
  const auto& below_y = forest.children[at(b)];
  if (x.size_class != y.size_class || x.columns != y.columns || below_x.size() != below_y.size()) {
    return false;
  }
  for (std::size_t i = 0; i < below_x.size(); ++i) {
    const int offset_x = forest.nodes[at(below_x[i])].first_column - x.first_column;
    const int offset_y = forest.nodes[at(below_y[i])].first_column - y.first_column;
    if (offset_x != offset_y || !same_shape(forest, below_x[i], below_y[i])) return false;
  }
  return true;
}

}  // namespace

// What a placement changed, to be put back.
struct Branch::Undo {
  std::array<Nanos, hw::kMaxSlices> busy, saved;
};

Branch::Branch(const Forest& forest) : forest_(forest) {
  const int nodes = static_cast<int>(forest.nodes.size());
  twins_.resize(at(nodes));
  subtree_end_.resize(at(nodes));
  for (int v = nodes; v-- > 0;) {
    const auto& children = forest.children[at(v)];
    subtree_end_[at(v)] = children.empty() ? v + 1 : subtree_end_[at(children.back())];
    for (int w = 0; w < v; ++w) {
      if (forest.nodes[at(w)].parent == forest.nodes[at(v)].parent && same_shape(forest, v, w)) {
        twins_[at(v)].push_back(w);
      }
    }
  }
  dominated_.assign(at(forest.tasks), std::vector<bool>(at(nodes)));
  for (int v = 0; v < nodes; ++v) {
    const Node& node = forest.nodes[at(v)];
    const int w = node.parent;
    if (w < 0 || forest.nodes[at(w)].columns != node.columns) continue;
    const Node& around = forest.nodes[at(w)];
    // Moving all tasks costs the difference of the instances, one alone may cost a whole one.
    const Nanos difference = std::max(Nanos{0}, around.create - node.create) +
                             std::max(Nanos{0}, around.destroy - node.destroy);
    bool all = true;
    for (int task = 0; task < forest.tasks; ++task) {
      const Nanos inside = forest.time(task, v);
      all = all && (inside >= kNever || forest.time(task, w) + difference <= inside);
    }
    const Nanos extra = all ? difference : around.create + around.destroy;
    for (int task = 0; task < forest.tasks; ++task) {
      dominated_[at(task)][at(v)] = forest.time(task, w) + extra <= forest.time(task, v);
    }
  }
  load_.resize(at(nodes));
  count_.resize(at(nodes));
  room_.resize(at(nodes));
  busy_.resize(at(forest.columns()));
  saved_.resize(at(forest.columns()));
  node_of_.resize(at(forest.tasks));
  class_room_.resize(at(forest.classes));
  shortest_.resize(at(forest.classes));
  usable_.resize(at(forest.columns()));
}

BranchResult Branch::run(const Loads& loads, const BranchTask& task) {
  task_ = &task;
  free_ = task.free;
  cutoff_ = task.cutoff;
  result_ = {};
  load_up(loads);
  choices_.resize(std::max(choices_.size(), free_.size() + 1));
  search(static_cast<int>(free_.size()));
  result_.complete = result_.steps <= task.budget;
  return std::move(result_);
}

// The state without the free tasks on the GPUs that take part.
void Branch::load_up(const Loads& loads) {
  active_nodes_.clear();
  active_columns_.clear();
  const auto add = [&](int gpu) {
    for (int v = forest_.first_node[at(gpu)]; v < forest_.first_node[at(gpu + 1)]; ++v) {
      active_nodes_.push_back(v);
      load_[at(v)] = loads.load(v);
      count_[at(v)] = loads.count(v);
    }
    for (int c = forest_.first_column[at(gpu)]; c < forest_.first_column[at(gpu + 1)]; ++c) {
      active_columns_.push_back(c);
      busy_[at(c)] = saved_[at(c)] = 0;
    }
  };
  for (const int gpu : task_->gpus) add(gpu);
  if (task_->gpus.empty()) {
    for (int gpu = 0; gpu < forest_.gpus; ++gpu) add(gpu);
  }
  for (const int task : free_) {
    const int node = loads.node_of(task);
    if (node < 0) continue;
    load_[at(node)] -= forest_.time(task, node);
    --count_[at(node)];
  }
  for (const int v : active_nodes_) {
    if (count_[at(v)] == 0) continue;
    const Node& node = forest_.nodes[at(v)];
    for (int c = node.first_column; c < node.first_column + node.columns; ++c) {
      busy_[at(c)] += node.create + load_[at(v)] + node.destroy;
      saved_[at(c)] = std::max(saved_[at(c)], node.destroy);
    }
  }
}

void Branch::place(int task, int node_index, Undo& undo) {
  const Node& node = forest_.nodes[at(node_index)];
  const Nanos time = forest_.time(task, node_index);
  const bool first = count_[at(node_index)]++ == 0;
  load_[at(node_index)] += time;
  node_of_[at(task)] = node_index;
  for (int c = 0; c < node.columns; ++c) {
    Nanos& busy = busy_[at(node.first_column + c)];
    Nanos& saved = saved_[at(node.first_column + c)];
    undo.busy[at(c)] = busy;
    undo.saved[at(c)] = saved;
    busy += time;
    if (!first) continue;
    busy += node.create + node.destroy;
    saved = std::max(saved, node.destroy);
  }
}

void Branch::take_back(int task, int node_index, const Undo& undo) {
  const Node& node = forest_.nodes[at(node_index)];
  --count_[at(node_index)];
  load_[at(node_index)] -= forest_.time(task, node_index);
  for (int c = 0; c < node.columns; ++c) {
    busy_[at(node.first_column + c)] = undo.busy[at(c)];
    saved_[at(node.first_column + c)] = undo.saved[at(c)];
  }
}

// How long a task on each node may be, exclusively, for the result to stay below the cutoff.
void Branch::find_room() {
  std::ranges::fill(class_room_, 0);
  class_rooms_.clear();
  for (const int v : active_nodes_) {
    const Node& node = forest_.nodes[at(v)];
    Nanos room = kNever;
    for (int c = node.first_column; c < node.first_column + node.columns; ++c) {
      Nanos length = busy_[at(c)] - saved_[at(c)];
      if (count_[at(v)] == 0) length += node.create + std::min(saved_[at(c)], node.destroy);
      room = std::min(room, cutoff_ - length);
    }
    room_[at(v)] = room;
    class_rooms_.push_back({node.size_class, room});
    Nanos& best = class_room_[at(node.size_class)];
    best = std::max(best, room);
  }
}

// The index in free_ of the task to place next, or -1 when no better assignment exists below here.
int Branch::choose(int left) {
  std::ranges::fill(shortest_, kNever);
  Nanos need = 0;
  Nanos most = -1;
  int fewest = INT32_MAX;
  int chosen = -1;
  for (int i = 0; i < left; ++i) {
    const Nanos* times = &forest_.times[at(free_[at(i)] * forest_.classes)];
    Nanos area = kNever;
    for (int k = 0; k < forest_.classes; ++k) {
      if (times[k] >= class_room_[at(k)]) continue;
      area = std::min(area, times[k] * forest_.class_columns[at(k)]);
      shortest_[at(k)] = std::min(shortest_[at(k)], times[k]);
    }
    if (area == kNever) return -1;
    need += area;
    int ways = 0;
    for (const ClassRoom& node : class_rooms_) ways += times[node.size_class] < node.room;
    if (ways < fewest || (ways == fewest && area > most)) {
      fewest = ways;
      most = area;
      chosen = i;
    }
  }
  // Room in the columns that some task left could still use.
  Nanos room = 0;
  for (const int c : active_columns_) usable_[at(c)] = false;
  for (const int v : active_nodes_) {
    const Node& node = forest_.nodes[at(v)];
    if (shortest_[at(node.size_class)] >= room_[at(v)]) continue;
    for (int c = node.first_column; c < node.first_column + node.columns; ++c) {
      usable_[at(c)] = true;
    }
  }
  for (const int c : active_columns_) {
    if (!usable_[at(c)]) continue;
    room = std::min(kNever, room + cutoff_ - 1 - (busy_[at(c)] - saved_[at(c)]));
  }
  slack_ = room - need;
  chosen_area_ = most;
  return slack_ >= 0 ? chosen : -1;
}

bool Branch::same_content(int a, int b) const {
  for (int i = 0; i < subtree_end_[at(a)] - a; ++i) {
    if (load_[at(a + i)] != load_[at(b + i)] || count_[at(a + i)] != count_[at(b + i)])
      return false;
  }
  return true;
}

// Whether the node lies in a subtree with an earlier twin of the same content.
bool Branch::twin_was_tried(int node) const {
  for (int v = node; v >= 0; v = forest_.nodes[at(v)].parent) {
    for (const int twin : twins_[at(v)]) {
      if (same_content(v, twin)) return true;
    }
  }
  return false;
}

std::vector<Branch::Choice>& Branch::choices_of(int task, int depth) {
  std::vector<Choice>& choices = choices_[at(depth)];
  choices.clear();
  for (const int v : active_nodes_) {
    const Nanos time = forest_.time(task, v);
    if (time >= room_[at(v)] || twin_was_tried(v)) continue;
    // On real times another instance may also make others wait.
    if (!task_->real && dominated_[at(task)][at(v)]) continue;
    const Node& node = forest_.nodes[at(v)];
    Nanos area = time * node.columns;
    if (count_[at(v)] == 0) area += node.create * node.columns;
    if (area - chosen_area_ <= slack_) choices.push_back({v, area});
  }
  std::ranges::sort(choices, {}, [](const Choice& c) { return std::pair(c.area, c.node); });
  return choices;
}

void Branch::search(int left) {
  if (++result_.steps > task_->budget) return;
  if (left == 0) {
    if (longest() < cutoff_) reach_leaf();
    return;
  }
  find_room();
  const int chosen = choose(left);
  if (chosen < 0) return;
  std::swap(free_[at(chosen)], free_[at(left - 1)]);
  const int task = free_[at(left - 1)];
  if (left == 1 && !task_->real) {
    place_last(task);
  } else {
    for (const Choice& choice : choices_of(task, left)) {
      Undo undo;
      place(task, choice.node, undo);
      search(left - 1);
      take_back(task, choice.node, undo);
      if (result_.steps > task_->budget) break;
    }
  }
  std::swap(free_[at(chosen)], free_[at(left - 1)]);
}

// The last task goes where it ends first; all that it can choose from is room_.
void Branch::place_last(int task) {
  int best = -1;
  for (const int v : active_nodes_) {
    const Nanos margin = room_[at(v)] - forest_.time(task, v);
    if (margin > 0 && (best < 0 || margin > room_[at(best)] - forest_.time(task, best))) best = v;
  }
  if (best < 0) return;
  Undo undo;
  place(task, best, undo);
  if (longest() < cutoff_) reach_leaf();
  take_back(task, best, undo);
}

Nanos Branch::longest() const {
  Nanos length = 0;
  for (const int c : active_columns_) length = std::max(length, busy_[at(c)] - saved_[at(c)]);
  return length;
}

void Branch::reach_leaf() {
  leaf_.clear();
  for (const int task : task_->free) leaf_.push_back(node_of_[at(task)]);
  const Nanos length = task_->real ? task_->real(leaf_) : longest();
  if (length >= cutoff_) return;
  result_.found = true;
  result_.nodes = leaf_;
  result_.length = cutoff_ = length;
}

}  // namespace partita::planners::batch
