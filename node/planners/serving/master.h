// The linear master of the exact planner, and its bound. Every service is convexified over its
// covers (column generation: cheapest_cover is the pricing problem), the packing of instances onto
// GPUs is described by facets:
//
//   min  sum_m price_m x_m + gpc_price * (compute slices of the chosen covers)
//   s.t. weight_f . N  <=  capacity_f (free_m + x_m)   for every facet f of GPU model m
//        N = sum of the chosen covers, one convex combination per service; 0 <= x_m <= most_m
//
// The bound is the Lagrangian value at prices that are made feasible exactly, so it holds whatever
// the simplex's rounding errors; kBoundSlack is subtracted before rounding up.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "hw/packing.h"
#include "planners/serving/cover.h"

namespace partita::planners::serving {

inline constexpr double kBoundSlack = 1e-6;

// A packing row of the fleet: a facet of one GPU model, over all classes.
struct Row {
  std::array<std::int64_t, kMaxClasses> weight{};
  std::int64_t capacity = 0;
  int model = 0;
};

// GPUs of one model: how many cost nothing, and how many more there are at what price.
struct Supply {
  double free = 0;
  double price = 1;
  double most = std::numeric_limits<double>::infinity();
};

struct MasterProblem {
  int classes = 0;
  const std::vector<Kind>* kinds = nullptr;
  const std::vector<Row>* rows = nullptr;
  std::vector<Supply> supply;  // per model
  double gpc_price = 0;
  Prices gpcs{};  // compute slices per class
  // Where a cover costs something of its own (energy.h): that, and the cover of a kind that is
  // cheapest with it. Both or none.
  std::function<double(std::size_t kind, const Counts&)> own_cost = {};
  std::function<PricedCover(std::size_t kind, const Prices&)> cheapest = {};
};

// One cover for every kind of a group; small problems have one kind per group.
struct Column {
  int group = 0;
  std::vector<Counts> covers;  // per kind of the group, used by all its copies
  double weight = 0;           // in the final solution
};

struct MasterSolution {
  double bound = 0;                 // valid lower bound of the integer problem
  double value = 0;                 // value of the restricted linear program
  Prices prices{};                  // per class, at the best bound
  std::vector<double> multipliers;  // per row, >= 0, at the best bound
  std::vector<Column> columns;      // all generated
  int rounds = 0;
};

// The kinds of a group: kind i belongs to group i % groups.
int group_count(std::size_t kinds);

// Solves the master. `enough(bound, value)` may end it early, e.g. when rounding up both gives the
// same. `seed` columns (of the same kinds) are reused. Limit: kMasterRounds pricing rounds.
inline constexpr int kMasterRounds = 400;
MasterSolution solve_master(const MasterProblem& problem, const std::vector<Column>& seed,
                            const std::function<bool(double bound, double value)>& enough);

}  // namespace partita::planners::serving
