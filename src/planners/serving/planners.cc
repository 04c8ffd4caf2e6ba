#include "planners/serving/exact.h"
#include "planners/serving/parvagpu.h"
#include "planners/serving/planner.h"

namespace partita::planners::serving {

const std::vector<Planner>& planners() {
  static const std::vector<Planner> kPlanners = {
      {"exact", "fewest GPUs, then fewest compute slices, with a proof", "Partita", plan_exact},
      {"parvagpu", "segment configurator and allocator with allocation optimisation",
       "ParvaGPU (SC24), Algorithms 1 and 2", plan_parvagpu},
      {"parvagpu-single", "ParvaGPU with one process per instance (no MPS)",
       "ParvaGPU (SC24), Section IV-A", plan_parvagpu_single},
      {"parvagpu-unoptimized", "ParvaGPU without its allocation optimisation",
       "ParvaGPU (SC24), Section IV-A", plan_parvagpu_unoptimized},
  };
  return kPlanners;
}

}  // namespace partita::planners::serving
