#include "sim/router.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace partita::sim {
namespace {

constexpr double kMaxWork = 4e18;  // a sum with a time still fits

}  // namespace

Router::Router(const std::vector<double>& nanos_per_request)
    : nodes_(2 * std::bit_ceil(nanos_per_request.size())) {
  for (const double each : nanos_per_request) {
    CHECK(each > 0);
    instances_.push_back({.nanos_per_request = each});
  }
  for (std::size_t i = 0; i < instances_.size(); ++i) update(i, 0, 0, 0);
}

Router::Node Router::better(const Node& left, const Node& right) {
  Node best = left;
  if (right.free_work < left.free_work) {
    best.free_work = right.free_work;
    best.free_index = right.free_index;
  }
  if (right.busy_done < left.busy_done) {
    best.busy_done = right.busy_done;
    best.busy_index = right.busy_index;
  }
  best.expiry = std::min(left.expiry, right.expiry);
  return best;
}

Router::Node Router::leaf(std::size_t index, Nanos now) const {
  const Instance& instance = instances_[index];
  const auto id = static_cast<std::uint32_t>(index);
  if (instance.entry_free <= now) return {.free_work = instance.work, .free_index = id};
  return {.busy_done = instance.entry_free + instance.work,
          .expiry = instance.entry_free,
          .busy_index = id};
}

void Router::update(std::size_t index, Nanos now, Nanos entry_free, long queued) {
  Instance& instance = instances_[index];
  instance.entry_free = entry_free;
  instance.work = static_cast<Nanos>(
      std::min(static_cast<double>(queued + 1) * instance.nanos_per_request, kMaxWork));
  std::size_t node = nodes_.size() / 2 + index;
  nodes_[node] = leaf(index, now);
  while (node > 1) {
    node /= 2;
    nodes_[node] = better(nodes_[2 * node], nodes_[2 * node + 1]);
  }
}

void Router::refresh(std::size_t node, Nanos now) {
  if (nodes_[node].expiry > now) return;
  const std::size_t leaves = nodes_.size() / 2;
  if (node >= leaves) {
    nodes_[node] = leaf(node - leaves, now);
    return;
  }
  refresh(2 * node, now);
  refresh(2 * node + 1, now);
  nodes_[node] = better(nodes_[2 * node], nodes_[2 * node + 1]);
}

std::size_t Router::choose(Nanos now) {
  CHECK(!instances_.empty());
  if (instances_.size() == 1) return 0;
  refresh(1, now);
  const Node& root = nodes_[1];
  if (root.free_work == kForever) return root.busy_index;
  const Nanos free_done = now + root.free_work;
  if (free_done == root.busy_done) return std::min(root.free_index, root.busy_index);
  return free_done < root.busy_done ? root.free_index : root.busy_index;
}

}  // namespace partita::sim
