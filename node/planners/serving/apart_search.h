// Integer plans for services that must keep apart, on the relaxation of apart_master.h. A node
// places patterns and fixes covers, and solves again.
// ApartDive goes down: it places the patterns that the relaxation uses whole, then rounds one up,
// then fixes covers; a few other choices are tried where a dive ends above the cutoff.
// ApartTree tries all: of what is not yet decided it takes a cover for one service (slices), or a
// pattern that is placed or not used any more (GPUs, and slices once all covers are fixed). Only
// for problems in which every service is a group of its own; its "none" is a proof.
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

struct ApartLimits {
  double cutoff = 0;       // plans that cost more are of no interest
  int discrepancies = 0;   // how often a dive may take another than its first choice
  int solves = 0;          // linear programs at most
  std::uint64_t seed = 0;  // of a dive; 0: by the weights alone
};

// What is decided on the way to a node.
struct ApartState {
  ApartNode node;
  std::vector<Pattern> gpus = {};
  double spent = 0;

  // Places a pattern on its GPUs: free ones, then such as are bought.
  void place(const Pattern& pattern, int its_gpus, const ApartMaster& master);
  bool may_place(const Pattern& pattern, int its_gpus) const;
};

class ApartDive {
 public:
  ApartDive(const ApartProblem& problem, ApartMaster& master, const ApartLimits& limits)
      : problem_(problem), master_(master), limits_(limits) {}

  // A plan from the node on, or nothing (no proof).
  std::optional<ApartPlan> run(ApartNode root);

  int solves() const { return solves_; }

 private:
  bool descend(ApartState& state, int discrepancies);
  bool branch(ApartState& state, const ApartSolution& solution, int discrepancies);
  bool fix_covers(ApartState& state, const ApartSolution& solution, int discrepancies);
  bool fix_all(ApartState& state, const ApartSolution& solution) const;
  void place(ApartState& state, const Pattern& pattern) const;
  bool may_place(const ApartState& state, const Pattern& pattern) const;
  double score(const Pattern& pattern, double weight) const;

  const ApartProblem& problem_;
  ApartMaster& master_;
  const ApartLimits limits_;
  int solves_ = 0;
};

struct TreeResult {
  std::optional<ApartPlan> plan;
  bool proven = false;  // without a plan: there is none within the cutoff
};

class ApartTree {
 public:
  // Plans on the GPUs of the root of at most `cutoff` slices (when the root prices these) within
  // `solves` linear programs.
  ApartTree(const ApartProblem& problem, ApartMaster& master, const ApartLimits& limits)
      : problem_(problem), master_(master), limits_(limits) {}

  TreeResult run(const ApartNode& root);
  int solves() const { return solves_; }

 private:
  // The next thing to decide; the covers that are possible for a service, or a pattern.
  struct Options {
    std::size_t unit = 0;
    std::vector<Counts> covers;
    std::optional<Pattern> pattern;
  };
  bool visit(ApartState state);
  bool finished(const ApartState& state, const ApartSolution& solution);
  std::optional<Options> choose(const ApartState& state, const ApartSolution& solution);
  std::vector<Counts> possible_covers(std::size_t unit, const ApartNode& node,
                                      const ApartSolution& solution);

  const ApartProblem& problem_;
  ApartMaster& master_;
  const ApartLimits limits_;
  int solves_ = 0;
  bool complete_ = true;
  std::optional<ApartPlan> found_;
};

}  // namespace partita::planners::serving
