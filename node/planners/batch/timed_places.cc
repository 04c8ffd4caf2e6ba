#include "planners/batch/timed_places.h"

#include <algorithm>
#include <utility>

namespace partita::planners::batch {

TimedPlaces::TimedPlaces(const TimedBatch& batch, std::vector<char> allowed)
    : batch_(batch),
      decoder_(batch),
      allowed_(std::move(allowed)),
      classes_(at(batch.forest.gpus)) {
  const Forest& forest = batch.forest;
  while (leaves_ < at(forest.gpus)) leaves_ *= 2;
  trees_.assign(at(forest.classes), std::vector<Place>(2 * leaves_));
  std::vector<char> wanted(at(forest.classes), 0);
  for (std::size_t i = 0; i < forest.times.size(); ++i) {
    if (forest.times[i] < kNever) wanted[i % wanted.size()] = 1;
  }
  for (const Node& node : forest.nodes) {
    std::vector<int>& classes = classes_[at(node.gpu)];
    if (wanted[at(node.size_class)] && std::ranges::count(classes, node.size_class) == 0)
      classes.push_back(node.size_class);
  }
  for (int t = 0; t < forest.tasks; ++t) least_.push_back(least_area(forest, t));
  for (int gpu = 0; gpu < forest.gpus; ++gpu) look_at(gpu);
}

Nanos TimedPlaces::now() const {
  Nanos now = kNever;
  for (const auto& tree : trees_) now = std::min(now, tree[1].available);
  return now;
}

void TimedPlaces::set(int size_class, int gpu, const Place& place) {
  std::vector<Place>& tree = trees_[at(size_class)];
  std::size_t i = leaves_ + at(gpu);
  tree[i] = place;
  for (i /= 2; i > 0; i /= 2) {
    const Place &left = tree[2 * i], &right = tree[2 * i + 1];
    tree[i] = right.available < left.available ? right : left;
  }
}

void TimedPlaces::look_at(int gpu) {
  const Forest& forest = batch_.forest;
  for (const int size : classes_[at(gpu)]) {
    Place best;
    for (int v = forest.first_node[at(gpu)]; v < forest.first_node[at(gpu) + 1]; ++v) {
      if (forest.nodes[at(v)].size_class != size) continue;
      if (!allowed_.empty() && !allowed_[at(v)]) continue;
      const Nanos available = decoder_.available(v);
      if (available < best.available) best = {v, available};
    }
    set(size, gpu, best);
  }
}

int TimedPlaces::append(int task, int node) {
  if (node < 0) return node;
  decoder_.append(task, node);
  const Forest& forest = batch_.forest;
  for (const int one : decoder_.taken()) look_at(forest.nodes[at(one)].gpu);
  return node;
}

int TimedPlaces::put(int task, double waste) {
  const Forest& forest = batch_.forest;
  const Nanos ready = decoder_.ready(task);
  const auto least = static_cast<double>(least_[at(task)]);
  double least_cost = 0;
  int chosen = -1;
  for (int size = 0; size < forest.classes; ++size) {
    const Place& place = first(size);
    if (place.node < 0 || forest.time(task, place.node) >= kNever) continue;
    const Nanos time = forest.time(task, place.node);
    const Node& node = forest.nodes[at(place.node)];
    const int columns = forest.first_column[at(node.gpu) + 1] - forest.first_column[at(node.gpu)];
    const double excess =
        (static_cast<double>(time) * node.columns - least) * batch_.width_of(task);
    const double cost =
        static_cast<double>(std::max(ready, place.available) + time) + waste * excess / columns;
    if (chosen < 0 || cost < least_cost) {
      chosen = place.node;
      least_cost = cost;
    }
  }
  return append(task, chosen);
}

int TimedPlaces::put_first(int task) {
  const Forest& forest = batch_.forest;
  int chosen = -1;
  Nanos available = kNever;
  for (int size = 0; size < forest.classes; ++size) {
    const Place& place = first(size);
    if (place.node < 0 || forest.time(task, place.node) >= kNever) continue;
    const bool larger = chosen >= 0 && place.available == available &&
                        forest.nodes[at(place.node)].columns > forest.nodes[at(chosen)].columns;
    if (place.available < available || larger) {
      chosen = place.node;
      available = place.available;
    }
  }
  return append(task, chosen);
}

int TimedPlaces::put_beside(int task) {
  std::pair<Nanos, int> first{kNever, -1};
  for (int v = 0; v < static_cast<int>(batch_.forest.nodes.size()); ++v) {
    const Nanos time = batch_.forest.time(task, v);
    if (time < kNever) first = std::min(first, {decoder_.available(v) + time, v});
  }
  return append(task, first.second);
}

}  // namespace partita::planners::batch
