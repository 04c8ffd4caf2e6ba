// GraphMachine: kernels, tasks of the CPU and copies of a task graph in virtual time: what ends
// when, of what has begun. What begins when on which units is the caller's decision
// (exec/graph_run.h makes it as on a real device).
//
// A kernel alone takes what its equal work-groups take on its mask under a dispatcher that splits
// them equally over clusters (dispatch_time_us). A unit divides itself equally among the kernels on
// it; a kernel whose units leave it S of its E effective units (clusters x the least sum of shares
// in one of them) proceeds at S / E of its speed alone. Tasks of the CPU and copies do not disturb
// anybody, and copies have a rate. All of these are a model's parameters, not measurements.
//
// Same calls, same answers. Nothing is rounded but what is told; times in nanoseconds.
#pragma once

#include <cstdint>
#include <vector>

#include "hw/topology.h"
#include "plan/graph.h"

namespace partita::sim {

class GraphMachine {
 public:
  // Copies run at `copy_gbps` times 10^9 bytes a second, above 0. The arguments outlive the
  // machine.
  GraphMachine(const hw::Topology& topology, const plan::GraphProblem& problem, double copy_gbps);

  // A task begins now: a kernel on a mask of the topology's units, at least one; others on none.
  void begin(int task, const hw::UnitMask& mask);
  // Moves on to the next end; something must run. The tasks that end then, by number.
  std::vector<int> next();
  std::int64_t now_ns() const;

 private:
  struct Running {
    int task = 0;
    hw::UnitMask mask;
    double alone_ns = 0;  // it takes
    double left = 1;      // share of it
    double speed = 1;     // as a share of that alone
  };
  double effective(const hw::UnitMask& mask, bool shared);
  void set_speeds();

  const hw::Topology& topology_;
  const plan::GraphProblem& problem_;
  const double copy_gbps_;
  std::vector<Running> running_;  // by task
  std::vector<int> kernels_on_;   // per unit
  double now_ = 0;
};

// What one thread takes that runs every task and work-group one after another.
double graph_sequential_us(const plan::GraphProblem& problem, double copy_gbps);

}  // namespace partita::sim
