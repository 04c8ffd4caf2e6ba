// Workers of kernel profiles on real lanes: stand-ins that take the profiled times, the lanes of a
// policy for them, and what several runs come to. Calls the device only to measure and to make
// kernels; single-threaded.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "device/lane_driver.h"
#include "device/probe_kernels.h"
#include "lanes/lane_workers.h"
#include "hw/topology.h"
#include "profile/kernel_profile.h"

namespace partita::carry {

struct StandInOptions {
  double tolerance = 0.05;  // share by which a kernel may take longer on the units that help
  double scale = 1;         // times are multiplied by it
};

// Per worker, kernel by kernel: as many work-groups as there are units that help, each for the
// kernel's shortest time, as measured on one atom of the device.
using StandIns = std::vector<std::vector<device::Kernel>>;
Result<StandIns> stand_ins(device::LaneDriver& driver, device::ProbeKernels& kernels, Clock& clock,
                           const std::vector<profile::ModelKernels>& models,
                           const StandInOptions& options);

// The mask of a worker's kernel, given how many kernels run on each unit.
using MaskOf = std::function<std::optional<hw::UnitMask>(std::size_t worker, std::size_t kernel,
                                                         const std::vector<int>& running)>;
// The workers on lanes made before the run, for masks that do not depend on what runs. Refused
// where the policy, which the refusal names, gives no mask on an idle GPU.
Result<std::vector<exec::LaneWorker>> on_lanes(const std::string& policy, const MaskOf& masks,
                                               int units, const StandIns& kernels);

// What a policy came to: medians over the repeats.
struct LaneOutcome {
  std::string policy;
  std::vector<double> rps;     // per worker
  std::vector<double> p95_ms;  // per worker
  double switches = 0;         // per request of all workers
  double waits = 0;            // share of the switches that had to wait
  int lanes = 0;
  double total() const {
    double sum = 0;
    for (const double one : rps) sum += one;
    return sum;
  }
};
// At least one run, with a request of every worker.
LaneOutcome outcome_of(const std::string& policy, const std::vector<exec::LaneWorkersRun>& runs);

}  // namespace partita::carry
