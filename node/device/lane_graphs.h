// LaneGraphs: what some LaneDrivers can do beyond their door: kernels of several lanes and the
// dependencies between them given to the device once and launched as one. Found by
// LaneDriver::graphs(). Graphs are numbered by the driver, no number comes twice.
// Thread rule: that of the LaneDriver. Errors: as the door; `limit` for nodes or graphs.
#pragma once

#include <vector>

#include "base/result.h"
#include "device/lane_driver.h"

namespace partita::device {

struct LaneGraphNode {
  int lane = 0;  // whose mask the kernel runs on; its queue is not touched
  Kernel kernel;
  std::vector<int> after = {};  // earlier nodes that must have ended
};

class LaneGraphs {
 public:
  virtual ~LaneGraphs() = default;
  // A graph, ready to be launched often; its number. in_use for its lanes' destruction until
  // destroy_graph. invalid_argument: no node, or one that comes after itself or a later one.
  virtual Result<int> create_graph(const std::vector<LaneGraphNode>& nodes) = 0;
  // Runs it once; returns at once. Runs of one graph come one after another.
  virtual Result<void> launch_graph(int graph) = 0;
  // Blocks until every run of it is finished.
  virtual Result<void> synchronise_graph(int graph) = 0;
  // Forgets a graph; in_use while it runs.
  virtual Result<void> destroy_graph(int graph) = 0;
};

}  // namespace partita::device
