// Batch jobs of one simulated node: the real queue, as its agent hosts it, on a machine in virtual
// time. Jobs come by themselves, now and then. Their instances are leases beside those of services;
// the fleet hears where they are in the node's record. What must hold, at every turn:
// - no slice of a GPU has two owners, and no attempt begins twice;
// - a job that waits while nothing runs and there is room for it begins soon;
// - one for which there is no room is said to wait for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fleet/brain/values.h"

namespace partita::fleet {

// Instances of services and leases that are on the same slices of a GPU, or on one that is lost; a
// sentence each.
std::vector<std::string> faults_of_owners(const NodeRecord& node,
                                          const std::vector<plan::PlannedGpu>& services);

class SimBatches {
 public:
  SimBatches(const NodeRecord& node, std::uint64_t seed);
  ~SimBatches();

  // What happens to the node; times never go back.
  void agent_starts(std::int64_t now_ms, const NodeRecord& node);
  void agent_ends();  // what runs goes on
  // What runs ends, and leases are gone.
  void node_dies(std::int64_t now_ms, NodeRecord& node);
  void loses_gpu(std::int64_t now_ms, NodeRecord& node, int gpu);

  // A turn of its agent, which makes no leases during a change. Whether leases are others now.
  bool turn(std::int64_t now_ms, NodeRecord& node, bool in_change);
  // What was wrong since this was asked last.
  std::vector<std::string> take_faults();

  long submitted() const;
  long done() const;      // with success
  long attempts() const;  // that began

 private:
  struct Of;
  std::unique_ptr<Of> of_;
};

}  // namespace partita::fleet
