// The parts of this machine that `partita remote serve` gives to sessions, and how each is opened:
// the only place that knows the back ends.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "remote/cpu_house.h"
#include "remote/mps_shares.h"
#include "server/worker.h"

namespace partita::cli {

// A worker of a kernel plan: how many SMs each kernel of its request gets.
struct PlannedWorker {
  std::string name;
  std::vector<std::string> kernels;
  std::vector<int> units;
};

inline constexpr int kMostDevices = 16;

struct PartFlags {
  std::string backend = "cpu";
  int units = 0;                    // of the CPU; 0: as many as there are
  std::vector<std::string> shapes;  // a part each; empty: `sessions` times all units
  int sessions = 8;
  int devices = 1;  // that a session sees, on the CPU
  std::uint64_t memory = std::uint64_t{4} << 30;
  std::string vendor_library = "libcuda.so.1";  // of back end cuda
  MpsShares shares;                             // those of `shapes` that are some
  bool on_demand = false;                       // parts are made, too: without shapes, these alone
  std::vector<PlannedWorker> planned;           // a part each, on lanes
  std::shared_ptr<CpuHouse> house;              // whose workers are the parts, on the CPU
  std::string kernel_times;                     // file that the kernels of sessions go to
};

// bad_input for shapes that this machine does not have.
Result<std::vector<remote::server::Part>> parts_of(const PartFlags& flags);

// What --kernel-plan says: a plan of `kernels plan`, or a policy.
struct KernelPlanFlags {
  std::string plan, profiles, workers;
  int units = 0;  // of the CPU, for a policy
};
// The policy or plan with the profiles of its workers.
Result<KernelPolicy> read_kernel_policy(Files& files, const KernelPlanFlags& flags);
// The workers of a plan.
std::vector<PlannedWorker> planned_workers(const KernelPolicy& policy);

// What opens one of them, in a worker, and whether workers share a process.
Result<void> set_opener(const PartFlags& flags, remote::server::WorkerOptions& options);

}  // namespace partita::cli
