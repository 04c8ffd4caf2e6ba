#include "planners/batch/played.h"

#include <algorithm>
#include <functional>

namespace partita::planners::batch {
Played::Played(const Forest& forest, const std::vector<int>& assignment)
    : forest_(forest),
      loads_(forest),
      length_(at(forest.reconfigurers()), 0),
      alone_(at(forest.gpus), 0),
      direction_(at(forest.gpus), Direction::forward),
      above_(forest.nodes.size()),
      below_(forest.nodes.size()),
      waits_(forest.nodes.size()),
      create_tail_(forest.nodes.size()),
      destroy_tail_(forest.nodes.size()) {
  for (int gpu = 0; gpu < forest.gpus; ++gpu) {
    if (forest.reconfigurer.number(gpu) == static_cast<int>(first_gpu_.size())) {
      first_gpu_.push_back(gpu);
    }
  }
  first_gpu_.push_back(forest.gpus);
  for (int task = 0; task < forest.tasks; ++task) loads_.place(task, assignment[at(task)]);
  play_all();
}

void Played::move(int task, int node) {
  const int from = forest_.nodes[at(loads_.node_of(task))].gpu;
  loads_.move(task, node);
  change(from, forest_.nodes[at(node)].gpu);
}

void Played::assign(const std::vector<int>& assignment) {
  for (int task = 0; task < forest_.tasks; ++task) {
    const int node = assignment[at(task)];
    if (loads_.node_of(task) != node) loads_.move(task, node);
  }
  play_all();
}

void Played::swap(int a, int b) {
  loads_.swap(a, b);
  change(forest_.nodes[at(loads_.node_of(a))].gpu, forest_.nodes[at(loads_.node_of(b))].gpu);
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

// Loads of one or two GPUs have changed.
void Played::change(int gpu_a, int gpu_b) {
  turn(gpu_a);
  if (gpu_a != gpu_b) turn(gpu_b);
  const int a = forest_.reconfigurer.number(gpu_a), b = forest_.reconfigurer.number(gpu_b);
  play(a);
  if (a != b) play(b);
}

void Played::play_all() {
  for (int gpu = 0; gpu < forest_.gpus; ++gpu) turn(gpu);
  for (int r = 0; r < forest_.reconfigurers(); ++r) play(r);
}

// A GPU's direction: the better one if nothing else were reconfigured.
void Played::turn(int gpu) {
  used_.clear();
  gather(gpu);
  const Nanos forward = play_alone(gpu, Direction::forward);
  const Nanos reverse = play_alone(gpu, Direction::reverse);
  direction_[at(gpu)] = reverse < forward ? Direction::reverse : Direction::forward;
  alone_[at(gpu)] = std::min(forward, reverse);
}

Nanos Played::play_alone(int gpu, Direction direction) {
  direction_[at(gpu)] = direction;
  waiting_.clear();
  direction == Direction::forward ? prepare_forward(0) : prepare_reverse(0);
  return run();
}

void Played::play(int reconfigurer) {
  const int first = first_gpu_[at(reconfigurer)], last = first_gpu_[at(reconfigurer + 1)];
  if (last - first == 1) {
    length_[at(reconfigurer)] = alone_[at(first)];
    return;
  }
  used_.clear();
  waiting_.clear();
  for (int gpu = first; gpu < last; ++gpu) {
    const std::size_t begin = used_.size();
    gather(gpu);
    direction(gpu) == Direction::forward ? prepare_forward(begin) : prepare_reverse(begin);
  }
  length_[at(reconfigurer)] = run();
}

Nanos Played::bound() {
  Nanos bound = 0;
  for (int r = 0; r < forest_.reconfigurers(); ++r) {
    used_.clear();
    for (int gpu = first_gpu_[at(r)]; gpu < first_gpu_[at(r + 1)]; ++gpu) gather(gpu);
    bound = std::max(bound, bound_below(-1, 0));
  }
  return bound;
}

// The same for the used nodes directly below `above`; `saved` is the longest destroy around them.
Nanos Played::bound_below(int above, Nanos saved) {
  const auto first = static_cast<std::ptrdiff_t>(lengths_.size());
  Nanos create = kNever;
  for (const int v : used_) {
    const Node& node = forest_.nodes[at(v)];
    const bool below = above < 0 || (v > above && forest_.conflict(v, above));
    if (below) create = std::min(create, node.create);
    if (above_[at(v)] != above) continue;
    const Nanos busy = node.create + loads_.load(v) + node.destroy;
    const Nanos kept = std::max(saved, node.destroy);
    lengths_.push_back(busy + (below_[at(v)] > 0 ? bound_below(v, kept) : -kept));
  }
  std::sort(lengths_.begin() + first, lengths_.end(), std::greater{});
  Nanos bound = 0, waited = 0;
  for (auto length = lengths_.begin() + first; length != lengths_.end(); ++length) {
    bound = std::max(bound, *length + waited);
    waited += create;
  }
  lengths_.erase(lengths_.begin() + first, lengths_.end());
  return bound;
}

// Adds the used nodes of the GPU, parents first, and how they hang together.
void Played::gather(int gpu) {
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

// Whether realise() would list a's life before b's.
bool Played::before(int a, int b) const {
  const int gpu = forest_.nodes[at(a)].gpu;
  if (gpu != forest_.nodes[at(b)].gpu) return gpu < forest_.nodes[at(b)].gpu;
  return direction(gpu) == Direction::forward ? a < b : b < a;
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
    if (tail < longest || (tail == longest && before(waiting_[chosen].node, request.node)))
      continue;
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

// Tails of the used nodes from the first one on, and the creates that can begin at once.
void Played::prepare_forward(std::size_t first) {
  for (std::size_t i = first; i < used_.size(); ++i) destroy_tail_[at(used_[i])] = 0;
  for (std::size_t i = used_.size(); i-- > first;) {
    const int v = used_[i];
    const Node& node = forest_.nodes[at(v)];
    if (below_[at(v)] > 0) destroy_tail_[at(v)] += node.destroy;
    create_tail_[at(v)] = node.create + loads_.load(v) + destroy_tail_[at(v)];
    if (const int above = above_[at(v)]; above >= 0) {
      destroy_tail_[at(above)] = std::max(destroy_tail_[at(above)], create_tail_[at(v)]);
    }
  }
  for (std::size_t i = first; i < used_.size(); ++i) {
    if (above_[at(used_[i])] < 0) waiting_.push_back({0, used_[i], true});
  }
}

void Played::prepare_reverse(std::size_t first) {
  for (std::size_t i = first; i < used_.size(); ++i) {
    const int v = used_[i];
    const Node& node = forest_.nodes[at(v)];
    const int above = above_[at(v)];
    destroy_tail_[at(v)] = above < 0 ? 0 : node.destroy + create_tail_[at(above)];
    create_tail_[at(v)] = node.create + loads_.load(v) + destroy_tail_[at(v)];
    waits_[at(v)] = below_[at(v)];
    if (below_[at(v)] == 0) waiting_.push_back({0, v, true});
  }
}

// From what waits at first to the end of the last task.
Nanos Played::run() {
  Nanos now = 0, length = 0;
  while (!waiting_.empty()) {
    const Request request = serve(now);
    const int above = above_[at(request.node)];
    const bool forward = direction(forest_.nodes[at(request.node)].gpu) == Direction::forward;
    if (request.create) {
      const Nanos end = now + loads_.load(request.node);
      length = std::max(length, end);
      const bool follows = forward ? below_[at(request.node)] > 0 : above >= 0;
      if (follows) waiting_.push_back({end, request.node, false});
    } else if (!forward) {
      if (--waits_[at(above)] == 0) waiting_.push_back({now, above, true});
    } else {
      for (const int v : used_) {
        if (above_[at(v)] == request.node) waiting_.push_back({now, v, true});
      }
    }
  }
  return length;
}

}  // namespace partita::planners::batch
