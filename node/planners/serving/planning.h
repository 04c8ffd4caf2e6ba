// What planners over covers share (exact.h, energy.h): the problem as kinds on a fleet, its linear
// master, the rows of a search on fixed GPUs, and the plan that a choice of covers makes. One per
// plan; the problem, modes and options outlive it.
#pragma once

#include <string>
#include <vector>

#include "planners/serving/fleet.h"
#include "planners/serving/place.h"
#include "planners/serving/planner.h"
#include "planners/serving/search.h"

namespace partita::planners::serving {

using GpuCounts = std::vector<int>;  // per model

// A bound of whole numbers, rounded up.
double round_up(double bound);

class Planning {
 protected:
  Planning(const plan::ServingProblem& problem, const std::vector<PointTables>& modes, Fleet fleet,
           const Options& options, OwnCost own)
      : problem_(problem),
        modes_(modes),
        fleet_(std::move(fleet)),
        options_(options),
        table_(make_kinds(problem, modes, fleet_, own)),
        nodes_(options.node_budget) {}

  bool single() const { return problem_.fleet.size() == 1; }
  double price(const GpuCounts& gpus) const;
  void say(std::string sentence);

  // Without supplies.
  MasterProblem master_problem() const;
  // The rows of the packing on these GPUs.
  SearchProblem rows_on(const GpuCounts& gpus) const;

  int gpcs_of(const Choice& choice) const;
  std::vector<Counts> per_service(const Choice& choice) const;
  // Every service's points are those of the mode in which the choice covers it.
  PointTables tables_of(const Choice& choice) const;
  Placement placed(const Choice& choice, const GpuCounts& gpus) const;
  // GPUs, slices and cost of the objective, and what was said.
  plan::ServingPlan plan_of(std::vector<plan::PlannedGpu> gpus, int gpcs);

  const plan::ServingProblem& problem_;
  const std::vector<PointTables>& modes_;
  const Fleet fleet_;
  const Options& options_;
  KindTable table_;
  long nodes_;

 private:
  std::vector<std::string> explanation_;
};

}  // namespace partita::planners::serving
