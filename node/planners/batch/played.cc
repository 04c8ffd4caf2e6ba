#include "planners/batch/played.h"

#include <algorithm>
#include <array>
#include <functional>

namespace partita::planners::batch {
Played::Played(const Forest& forest, const std::vector<int>& assignment)
    : forest_(forest),
      loads_(forest),
      length_(at(forest.gpus), 0),
      direction_(at(forest.gpus), Direction::forward),
      above_(forest.nodes.size()),
      below_(forest.nodes.size()),
      waits_(forest.nodes.size()),
      create_tail_(forest.nodes.size()),
      destroy_tail_(forest.nodes.size()) {
  for (int task = 0; task < forest.tasks; ++task) loads_.place(task, assignment[at(task)]);
  for (int gpu = 0; gpu < forest.gpus; ++gpu) play(gpu);
}

void Played::move(int task, int node) {
  const int from = forest_.nodes[at(loads_.node_of(task))].gpu;
  loads_.move(task, node);
  const int to = forest_.nodes[at(node)].gpu;
  play(to);
  if (from != to) play(from);
}

void Played::assign(const std::vector<int>& assignment) {
  for (int task = 0; task < forest_.tasks; ++task) {
    const int node = assignment[at(task)];
    if (loads_.node_of(task) != node) loads_.move(task, node);
  }
  for (int gpu = 0; gpu < forest_.gpus; ++gpu) play(gpu);
}

void Played::swap(int a, int b) {
  loads_.swap(a, b);
  const int gpu_a = forest_.nodes[at(loads_.node_of(a))].gpu;
  const int gpu_b = forest_.nodes[at(loads_.node_of(b))].gpu;
  play(gpu_a);
  if (gpu_a != gpu_b) play(gpu_b);
}

Nanos Played::longest() const { return *std::ranges::max_element(length_); }

Visits Played::visits(const std::vector<int>& task_order) const {
  std::vector<std::vector<int>> tasks(forest_.nodes.size());
  for (const int task : task_order) tasks[at(loads_.node_of(task))].push_back(task);
  Visits visits;
  for (int gpu = 0; gpu < forest_.gpus; ++gpu) {
    const int first = forest_.first_node[at(gpu)];
    const int last = forest_.first_node[at(gpu + 1)] - 1;
    for (int i = first; i <= last; ++i) {
      const int v = direction(gpu) == Direction::forward ? i : first + last - i;
      if (!tasks[at(v)].empty()) visits.push_back({v, std::move(tasks[at(v)])});
    }
  }
  return visits;
}

void Played::play(int gpu) {
  gather(gpu);
  const Nanos forward = play_forward();
  const Nanos reverse = play_reverse();
  direction_[at(gpu)] = reverse < forward ? Direction::reverse : Direction::forward;
  length_[at(gpu)] = std::min(forward, reverse);
}

Nanos Played::bound() {
  Nanos bound = 0;
  for (int gpu = 0; gpu < forest_.gpus; ++gpu) {
    gather(gpu);
    bound = std::max(bound, bound_below(-1, 0));
  }
  return bound;
}

// The same for the used nodes directly below `above`; `saved` is the longest destroy around them.
Nanos Played::bound_below(int above, Nanos saved) {
  std::array<Nanos, hw::kMaxSlices> lengths;
  std::size_t groups = 0;
  Nanos create = kNever;
  for (const int v : used_) {
    const Node& node = forest_.nodes[at(v)];
    const bool below = above < 0 || (v > above && forest_.conflict(v, above));
    if (below) create = std::min(create, node.create);
    if (above_[at(v)] != above) continue;
    const Nanos busy = node.create + loads_.load(v) + node.destroy;
    const Nanos kept = std::max(saved, node.destroy);
    lengths[groups++] = busy + (below_[at(v)] > 0 ? bound_below(v, kept) : -kept);
  }
  std::sort(lengths.begin(), lengths.begin() + groups, std::greater{});
  Nanos bound = 0;
  for (std::size_t i = 0; i < groups; ++i) {
    bound = std::max(bound, lengths[i] + static_cast<Nanos>(i) * create);
  }
  return bound;
}

// The used nodes of the GPU, parents first, and how they hang together.
void Played::gather(int gpu) {
  used_.clear();
  for (int v = forest_.first_node[at(gpu)]; v < forest_.first_node[at(gpu + 1)]; ++v) {
    const int parent = forest_.nodes[at(v)].parent;
    // above_ of a node that is not used holds its nearest used ancestor for those below it.
    int above = parent;
    if (parent >= 0 && loads_.count(parent) == 0) above = above_[at(parent)];
    above_[at(v)] = above;
    below_[at(v)] = 0;
    if (loads_.count(v) == 0) continue;
    used_.push_back(v);
    if (above >= 0) ++below_[at(above)];
  }
}

// Of the requests that are ready when the reconfigurer is, the one with most work behind it; the
// earliest one otherwise. Moves `now` to its end.
Played::Request Played::serve(Nanos& now) {
  std::size_t chosen = 0;
  Nanos earliest = kNever;
  for (const Request& request : waiting_) earliest = std::min(earliest, request.ready);
  now = std::max(now, earliest);
  Nanos longest = -1;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const Request& request = waiting_[i];
    if (request.ready > now) continue;
    const Nanos tail = (request.create ? create_tail_ : destroy_tail_)[at(request.node)];
    if (tail < longest || (tail == longest && request.node > waiting_[chosen].node)) continue;
    longest = tail;
    chosen = i;
  }
  const Request request = waiting_[chosen];
  waiting_[chosen] = waiting_.back();
  waiting_.pop_back();
  const Node& node = forest_.nodes[at(request.node)];
  now += request.create ? node.create : node.destroy;
  return request;
}

Nanos Played::play_forward() {
  for (const int v : used_) destroy_tail_[at(v)] = 0;
  for (std::size_t i = used_.size(); i-- > 0;) {
    const int v = used_[i];
    const Node& node = forest_.nodes[at(v)];
    if (below_[at(v)] > 0) destroy_tail_[at(v)] += node.destroy;
    create_tail_[at(v)] = node.create + loads_.load(v) + destroy_tail_[at(v)];
    if (const int above = above_[at(v)]; above >= 0) {
      destroy_tail_[at(above)] = std::max(destroy_tail_[at(above)], create_tail_[at(v)]);
    }
  }
  waiting_.clear();
  for (const int v : used_) {
    if (above_[at(v)] < 0) waiting_.push_back({0, v, true});
  }
  Nanos now = 0, length = 0;
  while (!waiting_.empty()) {
    const Request request = serve(now);
    if (request.create) {
      const Nanos end = now + loads_.load(request.node);
      length = std::max(length, end);
      if (below_[at(request.node)] > 0) waiting_.push_back({end, request.node, false});
      continue;
    }
    for (const int v : used_) {
      if (above_[at(v)] == request.node) waiting_.push_back({now, v, true});
    }
  }
  return length;
}

Nanos Played::play_reverse() {
  for (const int v : used_) {
    const Node& node = forest_.nodes[at(v)];
    const int above = above_[at(v)];
    destroy_tail_[at(v)] = above < 0 ? 0 : node.destroy + create_tail_[at(above)];
    create_tail_[at(v)] = node.create + loads_.load(v) + destroy_tail_[at(v)];
    waits_[at(v)] = below_[at(v)];
  }
  waiting_.clear();
  for (const int v : used_) {
    if (below_[at(v)] == 0) waiting_.push_back({0, v, true});
  }
  Nanos now = 0, length = 0;
  while (!waiting_.empty()) {
    const Request request = serve(now);
    const int above = above_[at(request.node)];
    if (request.create) {
      const Nanos end = now + loads_.load(request.node);
      length = std::max(length, end);
      if (above >= 0) waiting_.push_back({end, request.node, false});
    } else if (--waits_[at(above)] == 0) {
      waiting_.push_back({now, above, true});
    }
  }
  return length;
}

}  // namespace partita::planners::batch
