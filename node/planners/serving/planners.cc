#include "planners/serving/exact.h"
#include "planners/serving/gpulet.h"
#include "planners/serving/gslice.h"
#include "planners/serving/igniter.h"
#include "planners/serving/mig_serving.h"
#include "planners/serving/on_gpus.h"
#include "planners/serving/paris_elsa.h"
#include "planners/serving/parvagpu.h"
#include "planners/serving/planner.h"

namespace partita::planners::serving {

namespace {

constexpr plan::SloRule execution(double fraction) {
  return {plan::SloRule::Kind::execution, fraction};
}

}  // namespace

const std::vector<Planner>& planners() {
  static const std::vector<Planner> kPlanners = {
      {"exact", "fewest GPUs, then fewest compute slices, with a proof", "Partita", plan_exact,
       std::nullopt, plan_on_gpus},
      {"parvagpu", "segment configurator and allocator with allocation optimisation",
       "ParvaGPU (SC24), Algorithms 1 and 2", plan_parvagpu},
      {"parvagpu-single", "ParvaGPU with one process per instance (no MPS)",
       "ParvaGPU (SC24), Section IV-A", plan_parvagpu_single},
      {"parvagpu-unoptimized", "ParvaGPU without its allocation optimisation",
       "ParvaGPU (SC24), Section IV-A", plan_parvagpu_unoptimized},
      {"mig-serving", "MIG: greedy configurations, then generations with a tree search",
       "MIG-serving (arXiv:2109.11067), both phases", plan_mig_serving, execution(1)},
      {"mig-serving-greedy", "MIG: configurations of two services by score",
       "MIG-serving (arXiv:2109.11067), fast algorithm", plan_mig_serving_greedy, execution(1)},
      {"paris-elsa", "MIG: sizes by the knees of batch sizes, for queries of mixed sizes",
       "PARIS and ELSA (DAC22)", plan_paris_elsa, execution(1)},
      {"gpulet", "MPS shares of whole GPUs: elastic partitioning, two to a GPU",
       "gpulet (ATC22), and its code by ParvaGPU's authors", plan_gpulet, execution(0.5)},
      {"igniter", "MPS shares of whole GPUs, raised until interference leaves all in time",
       "iGniter (TPDS 2022), Algorithms 1 and 2", plan_igniter, execution(0.5)},
      {"gslice", "MPS shares of whole GPUs: one tuned share per service", "GSLICE (SoCC20)",
       plan_gslice, execution(0.5)},
  };
  return kPlanners;
}

}  // namespace partita::planners::serving
