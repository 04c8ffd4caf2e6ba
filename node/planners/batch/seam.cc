#include "planners/batch/seam.h"

#include <algorithm>

namespace partita::planners::batch {
namespace {

// The spots of a node and of all inside it.
void add_spots(const Forest& forest, int node, std::vector<Seam::Spot>& spots) {
  spots.push_back({node, false});
  if (forest.children[at(node)].empty()) return;
  for (const int child : forest.children[at(node)]) add_spots(forest, child, spots);
  spots.push_back({node, true});
}

}  // namespace

Edge edge_of(const std::vector<Nanos>& ends, double level) {
  Edge edge;
  for (const Nanos end : ends) {
    const double beyond = static_cast<double>(end) - level;
    edge.end = std::max(edge.end, end);
    edge.area += beyond;
    edge.squares += beyond * beyond;
  }
  return edge;
}

std::vector<Nanos> column_ends(const Forest& forest, const Start& start) {
  std::vector<Nanos> ends = start.column;
  ends.resize(at(forest.columns()), 0);
  for (const Start::Alive& alive : start.alive) {
    const Node& node = forest.nodes[at(alive.node)];
    Nanos latest = alive.free;
    for (int c = 0; c < node.columns; ++c) {
      latest = std::max(latest, ends[at(node.first_column + c)]);
    }
    std::fill_n(ends.begin() + node.first_column, node.columns, latest);
  }
  return ends;
}

Seam::Seam(const Forest& forest, const Start& start, double level)
    : forest_(forest),
      level_(level),
      start_free_(column_ends(forest, start)),
      start_reconfigurer_(start.reconfigurer),
      start_alive_(start_free_.size(), -1),
      start_destroy_(start_free_.size(), 0),
      before_(forest.nodes.size()),
      after_(forest.nodes.size()),
      spot_(at(forest.tasks), -1),
      edge_(at(forest.gpus)),
      free_(start_free_.size()),
      destroy_(start_free_.size()),
      alive_(start_free_.size()) {
  start_reconfigurer_.resize(at(forest.gpus), 0);
  for (const Start::Alive& alive : start.alive) {
    const Node& node = forest.nodes[at(alive.node)];
    std::fill_n(start_alive_.begin() + node.first_column, node.columns, alive.node);
    std::fill_n(start_destroy_.begin() + node.first_column, node.columns, node.destroy);
  }
  for (int gpu = 0; gpu < forest.gpus; ++gpu) {
    first_spot_.push_back(static_cast<int>(spots_.size()));
    for (int v = forest.first_node[at(gpu)]; v < forest.first_node[at(gpu + 1)]; ++v) {
      if (forest.nodes[at(v)].parent < 0) add_spots(forest, v, spots_);
    }
  }
  first_spot_.push_back(static_cast<int>(spots_.size()));
  for (std::size_t s = 0; s < spots_.size(); ++s) {
    const Spot& spot = spots_[s];
    if (!spot.after) before_[at(spot.node)] = static_cast<int>(s);
    after_[at(spot.node)] = static_cast<int>(s);
    const Node& node = forest.nodes[at(spot.node)];
    lives_.push_back({spot.node, node.gpu, node.first_column, node.first_column + node.columns,
                      node.create, node.destroy});
  }
  load_.assign(spots_.size(), 0);
  count_.assign(spots_.size(), 0);
  for (int gpu = 0; gpu < forest.gpus; ++gpu) update(gpu);
}

int Seam::spot_of(int node, bool after) const { return (after ? after_ : before_)[at(node)]; }

bool Seam::fits(int task, int spot) const {
  return forest_.time(task, lives_[at(spot)].node) < kNever;
}

void Seam::add(int task, int spot) {
  spot_[at(task)] = spot;
  load_[at(spot)] += forest_.time(task, lives_[at(spot)].node);
  ++count_[at(spot)];
}

void Seam::take(int task) {
  const int spot = spot_[at(task)];
  spot_[at(task)] = -1;
  load_[at(spot)] -= forest_.time(task, lives_[at(spot)].node);
  --count_[at(spot)];
}

void Seam::place(int task, int spot) {
  add(task, spot);
  update(gpu_of(spot));
}

void Seam::remove(int task) {
  const int gpu = gpu_of(spot(task));
  take(task);
  update(gpu);
}

void Seam::remember(int a, int b, int other_gpu) {
  const int gpu = gpu_of(spot(a));
  change_ = {a,     b,         spot(a),        b < 0 ? -1 : spot(b),
             gpu,   other_gpu, edge_[at(gpu)], edge_[at(other_gpu)],
             area_, squares_};
}

void Seam::move(int task, int spot) {
  remember(task, -1, gpu_of(spot));
  take(task);
  add(task, spot);
  update(change_.gpu_b);
  if (change_.gpu_a != change_.gpu_b) update(change_.gpu_a);
}

void Seam::swap(int a, int b) {
  remember(a, b, gpu_of(spot(b)));
  take(a);
  take(b);
  add(a, change_.spot_b);
  add(b, change_.spot_a);
  update(change_.gpu_a);
  if (change_.gpu_a != change_.gpu_b) update(change_.gpu_b);
}

void Seam::revert() {
  take(change_.a);
  if (change_.b >= 0) {
    take(change_.b);
    add(change_.b, change_.spot_b);
  }
  add(change_.a, change_.spot_a);
  edge_[at(change_.gpu_a)] = change_.edge_a;
  edge_[at(change_.gpu_b)] = change_.edge_b;
  area_ = change_.area;
  squares_ = change_.squares;
}

void Seam::place_all(const std::vector<int>& spots) {
  for (std::size_t t = 0; t < spots.size(); ++t) {
    if (spot_[t] >= 0) take(static_cast<int>(t));
    if (spots[t] >= 0) add(static_cast<int>(t), spots[t]);
  }
  for (int gpu = 0; gpu < forest_.gpus; ++gpu) update(gpu);
}

// When its first task can begin.
Nanos Seam::begin(const Life& life) const {
  bool continues = true;
  Nanos ready = 0;
  for (int c = life.first; c < life.last; ++c) {
    const bool same = alive_[at(c)] == life.node;
    continues = continues && same;
    ready = std::max(ready, free_[at(c)] + (same ? 0 : destroy_[at(c)]));
  }
  if (continues) return ready;
  return std::max(ready, start_reconfigurer_[at(life.gpu)]) + life.create;
}

void Seam::update(int gpu) {
  const int first = forest_.first_column[at(gpu)];
  const int last = forest_.first_column[at(gpu + 1)];
  for (int c = first; c < last; ++c) {
    free_[at(c)] = start_free_[at(c)];
    alive_[at(c)] = start_alive_[at(c)];
    destroy_[at(c)] = start_destroy_[at(c)];
  }
  for (int s = first_spot_[at(gpu)]; s < first_spot_[at(gpu + 1)]; ++s) {
    if (count_[at(s)] == 0) continue;
    const Life& life = lives_[at(s)];
    const Nanos end = begin(life) + load_[at(s)];
    for (int c = life.first; c < life.last; ++c) {
      free_[at(c)] = end;
      alive_[at(c)] = life.node;
      destroy_[at(c)] = life.destroy;
    }
  }
  Edge edge;
  for (int c = first; c < last; ++c) {
    const double beyond = static_cast<double>(free_[at(c)]) - level_;
    edge.end = std::max(edge.end, free_[at(c)]);
    edge.area += beyond;
    edge.squares += beyond * beyond;
  }
  area_ += edge.area - edge_[at(gpu)].area;
  squares_ += edge.squares - edge_[at(gpu)].squares;
  edge_[at(gpu)] = edge;
}

std::vector<int> Seam::nodes() const {
  std::vector<int> nodes(spot_.size());
  for (std::size_t t = 0; t < spot_.size(); ++t) nodes[t] = spots_[at(spot_[t])].node;
  return nodes;
}

Nanos Seam::end() const {
  Nanos latest = 0;
  for (const Edge& edge : edge_) latest = std::max(latest, edge.end);
  return latest;
}

std::vector<Nanos> Seam::ends() {
  for (int gpu = 0; gpu < forest_.gpus; ++gpu) update(gpu);
  return free_;
}

Nanos Seam::end_with(int spot, Nanos more) {
  load_[at(spot)] += more;
  ++count_[at(spot)];
  update(gpu_of(spot));
  const Nanos result = end();
  load_[at(spot)] -= more;
  --count_[at(spot)];
  update(gpu_of(spot));
  return result;
}

Visits Seam::visits(const std::vector<int>& task_order) const {
  std::vector<std::vector<int>> tasks(spots_.size());
  for (const int task : task_order) tasks[at(spot(task))].push_back(task);
  Visits visits;
  for (std::size_t s = 0; s < tasks.size(); ++s) {
    if (!tasks[s].empty()) visits.push_back({spots_[s].node, std::move(tasks[s])});
  }
  return visits;
}

}  // namespace partita::planners::batch
