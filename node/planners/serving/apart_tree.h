// Exhaustive search for services that must keep apart, on the relaxation of apart_master.h. Of what
// is not yet decided it takes a cover for one service (slices), or a pattern that is placed or not
// used any more (GPUs, and slices once all covers are fixed). Only for problems in which every
// service is a group of its own; its "none" is a proof.
#pragma once

#include <optional>
#include <vector>

#include "planners/serving/apart_search.h"

namespace partita::planners::serving {

struct TreeResult {
  std::optional<ApartPlan> plan;
  bool proven = false;  // without a plan: there is none within the cutoff
};

class ApartTree {
 public:
  // Plans on the GPUs of the root of at most `cutoff` slices (when the root prices these) within
  // `solves` linear programs.
  ApartTree(const ApartProblem& problem, ApartMaster& master, const DiveLimits& limits)
      : problem_(problem), master_(master), limits_(limits) {}

  TreeResult run(const ApartNode& root);
  int solves() const { return solves_; }

 private:
  struct State;
  // The next thing to decide; the covers that are possible for a service, or a pattern.
  struct Options {
    std::size_t unit = 0;
    std::vector<Counts> covers;
    std::optional<Pattern> pattern;
  };
  bool visit(State state);
  bool finished(const State& state, const ApartSolution& solution);
  std::optional<Options> choose(const State& state, const ApartSolution& solution);
  std::vector<Counts> possible_covers(std::size_t unit, const ApartNode& node,
                                      const ApartSolution& solution);

  const ApartProblem& problem_;
  ApartMaster& master_;
  const DiveLimits limits_;
  int solves_ = 0;
  bool complete_ = true;
  std::optional<ApartPlan> found_;
};

}  // namespace partita::planners::serving
