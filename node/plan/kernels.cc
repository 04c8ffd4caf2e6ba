#include "plan/kernels.h"

namespace partita::plan {

const char* to_string(Overlap overlap) { return overlap == Overlap::others ? "others" : "literal"; }

double predicted_time(const KernelProblem& problem, const KernelPlan& plan, std::size_t worker) {
  double units = 0;
  for (std::size_t w = 0; w < plan.workers.size(); ++w)
    if (w != worker || problem.overlap == Overlap::literal) units += plan.workers[w].mean_units;
  return plan.workers[worker].time * (1 + units / problem.total_units);
}

const Lane* Lanes::find(std::size_t worker, int units) const {
  for (const Lane& lane : all)
    if (lane.worker == worker && lane.units == units) return &lane;
  return nullptr;
}

}  // namespace partita::plan
