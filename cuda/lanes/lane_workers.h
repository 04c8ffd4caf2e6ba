// Workers on lanes: several models beside each other, each a sequence of kernels that come one
// after another on lanes made beforehand (ECLIP 2025). Where a worker's next kernel is on another
// lane, an event enforces the order; it costs nothing when the kernel before has finished already.
// One thread per worker, which submits a whole request ahead and waits for its end.
#pragma once

#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "device/lane_driver.h"

namespace partita::exec {

struct LaneStep {
  std::size_t mask = 0;  // of LaneWorker::masks
  device::Kernel kernel;
};

// One request of it is all steps in order. Masks that no step uses get no lane.
struct LaneWorker {
  std::vector<hw::UnitMask> masks;
  std::vector<LaneStep> steps;
};

struct LaneWorkerRun {
  std::vector<std::int64_t> latency_ns;  // per request, submitted to finished
  std::int64_t switches = 0;             // steps on another lane than the one before
  std::int64_t waits = 0;                // of those, how many had to wait for their predecessor
};

struct LaneWorkersRun {
  std::vector<LaneWorkerRun> workers;
  std::int64_t wall_ns = 0;
  int lanes = 0;
};

// Every worker runs requests one after another until all have run at least `requests` (>= 1): who
// is done goes on, so that nobody runs alone. Only the first `requests` of each count. The driver's
// first error ends it; lanes are destroyed either way.
Result<LaneWorkersRun> run_workers(const std::vector<LaneWorker>& workers,
                                   device::LaneDriver& driver, Clock& clock, int requests);

}  // namespace partita::exec
