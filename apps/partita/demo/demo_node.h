// The part of the demo that happens on a node: a plan applied to a simulated one, then the plan for
// more traffic, then what its tenants cost. In memory and in virtual time; nothing of it outlives
// the object.
#pragma once

#include <memory>
#include <string>

#include "context.h"
#include "drivers/sim/shared_machine.h"
#include "drivers/sim/sim_driver.h"
#include "plan/judged.h"
#include "plan/serving.h"

namespace partita::cli {

class DemoNode {
 public:
  DemoNode(const hw::GpuModel& model, int gpus);

  // Applies the plan of the problem, then plans anew with every third service's rate a quarter
  // higher, applies that, and shows what changed and what did not.
  Result<void> show_change(Context& context, const plan::ServingProblem& problem,
                           const plan::Judged<plan::ServingPlan>& plan);
  // A minute of work on what was applied last, recorded, and the joules told apart by service.
  Result<void> show_energy(Context& context);

 private:
  Result<void> start_workers();
  Result<std::string> watch(int seconds);

  ManualClock clock_;
  MemoryFiles disk_;
  std::unique_ptr<drivers::sim::SharedMachine> machine_;
  drivers::sim::SimDriver driver_;
  plan::ServingProblem problem_;  // what was applied last serves it
};

}  // namespace partita::cli
