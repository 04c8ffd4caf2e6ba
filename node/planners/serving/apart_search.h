// Integer plans for services that must keep apart: dives down the master (apart_master.h). A node
// places the patterns that the relaxation uses whole, then rounds one up, then fixes covers, and
// solves again; a few other choices are tried where a dive ends above the cutoff.
#pragma once

#include <optional>
#include <vector>

#include "planners/serving/apart_master.h"

namespace partita::planners::serving {

// A whole plan: what every GPU offers, and the cover of every unit, which fits into the cells.
struct ApartPlan {
  std::vector<Pattern> gpus;
  std::vector<Counts> covers;  // per unit
};

struct DiveLimits {
  double cutoff = 0;       // plans that cost more are of no interest
  int discrepancies = 0;   // how often a dive may take another than its first choice
  int solves = 0;          // linear programs at most
  std::uint64_t seed = 0;  // 0: by the weights alone
};

class ApartDive {
 public:
  ApartDive(const ApartProblem& problem, ApartMaster& master, const DiveLimits& limits)
      : problem_(problem), master_(master), limits_(limits) {}

  // A plan from the node on, or nothing (no proof).
  std::optional<ApartPlan> run(ApartNode root);

  int solves() const { return solves_; }

 private:
  struct State;
  bool descend(State& state, int discrepancies);
  bool branch(State& state, const ApartSolution& solution, int discrepancies);
  bool fix_covers(State& state, const ApartSolution& solution, int discrepancies);
  double score(const Pattern& pattern, double weight) const;

  const ApartProblem& problem_;
  ApartMaster& master_;
  const DiveLimits limits_;
  int solves_ = 0;
};

}  // namespace partita::planners::serving
