#include "planners/batch/loads.h"

#include <algorithm>
#include <numeric>

namespace partita::planners::batch {
Loads::Loads(const Forest& forest)
    : forest_(forest),
      node_of_(at(forest.tasks), -1),
      load_(forest.nodes.size(), 0),
      count_(forest.nodes.size(), 0),
      path_(forest.nodes.size(), 0),
      saved_(forest.nodes.size(), 0),
      length_(at(forest.gpus), 0),
      area_(at(forest.gpus), 0) {}

void Loads::place(int task, int node) {
  node_of_[at(task)] = node;
  load_[at(node)] += forest_.time(task, node);
  ++count_[at(node)];
  update(forest_.nodes[at(node)].gpu);
}

void Loads::remove(int task) {
  const int node = node_of_[at(task)];
  node_of_[at(task)] = -1;
  load_[at(node)] -= forest_.time(task, node);
  --count_[at(node)];
  update(forest_.nodes[at(node)].gpu);
}

void Loads::move(int task, int node) {
  const int from = node_of_[at(task)];
  load_[at(from)] -= forest_.time(task, from);
  --count_[at(from)];
  if (forest_.nodes[at(from)].gpu != forest_.nodes[at(node)].gpu) {
    update(forest_.nodes[at(from)].gpu);
  }
  place(task, node);
}

void Loads::swap(int a, int b) {
  const int at_a = node_of_[at(a)];
  const int at_b = node_of_[at(b)];
  load_[at(at_a)] += forest_.time(b, at_a) - forest_.time(a, at_a);
  load_[at(at_b)] += forest_.time(a, at_b) - forest_.time(b, at_b);
  node_of_[at(a)] = at_b;
  node_of_[at(b)] = at_a;
  const int gpu_a = forest_.nodes[at(at_a)].gpu;
  const int gpu_b = forest_.nodes[at(at_b)].gpu;
  update(gpu_a);
  if (gpu_a != gpu_b) update(gpu_b);
}

void Loads::update(int gpu) {
  Nanos longest = 0;
  Nanos area = 0;
  for (auto v = at(forest_.first_node[at(gpu)]); v < at(forest_.first_node[at(gpu + 1)]); ++v) {
    const Node& node = forest_.nodes[v];
    Nanos path = node.parent < 0 ? 0 : path_[at(node.parent)];
    Nanos saved = node.parent < 0 ? 0 : saved_[at(node.parent)];
    if (count_[v] > 0) {
      const Nanos busy = node.create + load_[v] + node.destroy;
      path += busy;
      saved = std::max(saved, node.destroy);
      area += busy * node.columns;
      longest = std::max(longest, path - saved);
    }
    path_[v] = path;
    saved_[v] = saved;
  }
  length_[at(gpu)] = longest;
  area_[at(gpu)] = area;
}

Nanos Loads::longest() const { return *std::ranges::max_element(length_); }

Nanos Loads::area() const { return std::accumulate(area_.begin(), area_.end(), Nanos{0}); }

}  // namespace partita::planners::batch
