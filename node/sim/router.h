// Router: which instance of its service a request joins -- the one that is expected to have worked
// it off first: max(now, entry free again) + (queued + 1) / planned throughput, the lowest index
// among equals. Execution latencies are not compared: the SLO rule has passed every instance.
// A kinetic tournament: instances whose entry is free rank by their queue, the others by the time
// at which they would be done, and a subtree is looked at again only when one of its entries has
// become free. O(log instances) per request. Single-threaded; time never runs backwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/engine.h"

namespace partita::sim {

class Router {
 public:
  // One instance for each element: nanoseconds per request at its planned throughput, > 0.
  explicit Router(const std::vector<double>& nanos_per_request = {});

  // States what waits at an instance and when its entry has worked off what it dispatched.
  void update(std::size_t index, Nanos now, Nanos entry_free, long queued);
  // There must be an instance.
  std::size_t choose(Nanos now);

 private:
  // The best of the instances below, with a free entry and with a busy one.
  struct Node {
    Nanos free_work = kForever;  // from now on
    Nanos busy_done = kForever;  // absolute
    Nanos expiry = kForever;     // the first of the busy entries becomes free
    std::uint32_t free_index = 0;
    std::uint32_t busy_index = 0;
  };
  struct Instance {
    double nanos_per_request = 0;
    Nanos entry_free = 0;
    Nanos work = 0;  // (queued + 1) / planned throughput
  };

  static Node better(const Node& left, const Node& right);
  Node leaf(std::size_t index, Nanos now) const;
  void refresh(std::size_t node, Nanos now);

  std::vector<Instance> instances_;
  std::vector<Node> nodes_;  // a complete binary tree, root at 1, leaves in the second half
};

}  // namespace partita::sim
