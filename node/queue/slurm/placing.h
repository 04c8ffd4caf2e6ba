// Where waiting jobs get their instances: an interface that a planner of the whole queue can take
// over, and the placing that stands until then. Best fit: of all places the one after which the
// largest shapes stay free (hw::best_spots), over all nodes that a job may have. In the order in
// which jobs are given; one that has no place now is passed over, but one that has waited long
// enough keeps a place for itself, which later jobs get only if they end before it is free. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "hw/layout.h"
#include "queue/slurm/job_mark.h"

namespace partita::slurm {

inline constexpr double kNever = 1e15;  // seconds

// What stands on a GPU, and for how long at most from now.
struct StandingInstance : hw::PlacedProfile {  // profile -1: all of the GPU
  double ends_s = kNever;
};
struct GpuRoom {
  const hw::GpuModel* model = nullptr;  // must outlive it
  std::vector<StandingInstance> standing = {};
};
struct NodeRoom {
  std::string name;
  std::vector<GpuRoom> gpus = {};
  int cpus = 0;           // that are free
  double memory_mib = 0;  // that is free
  bool empty = true;      // no job is on it
};

struct WaitingJob {
  std::string id;
  std::vector<std::string> shapes = {};
  std::vector<std::size_t> nodes = {};  // that it may have, as indices
  int cpus = 1;
  double memory_mib = 0;
  bool exclusive = false;  // the node for itself
  double limit_s = kNever;
  bool keeps = false;  // has waited so long that a place is kept for it
};

struct JobPlacement {
  std::size_t job = 0, node = 0;  // indices
  std::vector<Seat> seats = {};   // one per shape, in their order
  bool operator==(const JobPlacement&) const = default;
};

// Chooses; what it places fits beside what stands and beside each other.
class Placing {
 public:
  virtual ~Placing() = default;
  virtual std::vector<JobPlacement> place(std::vector<NodeRoom> nodes,
                                          const std::vector<WaitingJob>& waiting) const = 0;
};

class BestFitPlacing final : public Placing {
 public:
  std::vector<JobPlacement> place(std::vector<NodeRoom> nodes,
                                  const std::vector<WaitingJob>& waiting) const override;
};

}  // namespace partita::slurm
