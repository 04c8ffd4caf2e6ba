// The parts of this machine that `partita remote serve` gives to sessions, and how each is opened:
// the only place that knows the back ends.
#pragma once

#include <string>
#include <vector>

#include "remote/mps_shares.h"
#include "server/worker.h"

namespace partita::cli {

struct PartFlags {
  std::string backend = "cpu";
  int units = 0;                    // of the CPU; 0: as many as there are
  std::vector<std::string> shapes;  // a part each; empty: `sessions` times all units
  int sessions = 8;
  std::uint64_t memory = std::uint64_t{4} << 30;
  std::string vendor_library = "libcuda.so.1";  // of back end cuda
  MpsShares shares;                             // those of `shapes` that are some
  bool on_demand = false;                       // parts are made, too: without shapes, these alone
};

// Whether a shape is a lane, SMs of a GPU that other lanes do not have: LANE-64; LANE: all SMs, shared.
bool is_lane(const std::string& shape);
// Whether all sessions share one process; bad_input where some shapes are lanes and others not.
Result<bool> shares_process(const PartFlags& flags);

// bad_input for shapes that this machine does not have.
Result<std::vector<remote::server::Part>> parts_of(const PartFlags& flags);

// What opens one of them, in a worker, and whether workers share a process.
Result<void> set_opener(const PartFlags& flags, remote::server::WorkerOptions& options);

}  // namespace partita::cli
