// The linear master for services that must keep apart: patterns of whole GPUs (apart.h) against
// convexified covers, both generated on demand.
//
//   min  sum_m price_m y_m + gpc_price * (compute slices of the chosen covers)
//   s.t. cells of the chosen covers  <=  cells of the chosen patterns
//        GPUs of patterns of model m <=  free_m + y_m,   0 <= y_m <= most_m
//        one convex combination of covers per service
//
// As in master.h the bound is the Lagrangian value at prices of the cells that are made feasible
// exactly, so it does not depend on the simplex. With patterns that are placed and covers that are
// fixed it is the relaxation of a search node: a service with a group of its own needs what is left
// of its rate; services that share a group share its placed cells, which are added on the right.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/index.h"
#include "planners/serving/apart.h"
#include "planners/serving/master.h"

namespace partita::planners::serving {

struct ApartProblem {
  const Fleet* fleet = nullptr;
  const ApartGroups* groups = nullptr;
  std::vector<Kind> units;  // one service each
  std::vector<int> group;   // per unit
};

// What is decided already, and what more may be bought.
struct ApartNode {
  std::vector<Supply> supply;  // per model
  double gpc_price = 0;
  std::vector<int> placed;                   // per cell
  std::vector<std::optional<Counts>> cover;  // per unit; absent: free
  std::vector<Pattern> banned;               // these and what they offer are not placed any more
};

struct ApartSolution {
  double bound = 0;                                  // valid lower bound of the integer problem
  double value = 0;                                  // of the restricted linear program
  std::vector<double> prices;                        // per cell, at the best bound
  std::vector<double> model_prices;                  // per model, at the best bound
  std::vector<std::pair<Pattern, double>> patterns;  // with their weight > 0
  std::vector<std::vector<std::pair<Counts, double>>> covers;  // per unit, with their weight > 0
  int rounds = 0;
};

// What a service still needs besides instances that it has.
Kind less(Kind kind, const Counts& placed, int classes);

// Keeps the columns from one node to the next.
class ApartMaster {
 public:
  // Rows beyond which the program is not attempted.
  static constexpr std::size_t kMaxRows = 500;
  explicit ApartMaster(const ApartProblem& problem);
  bool fits() const { return rows_of_cells() + problem_.units.size() <= kMaxRows; }

  // Slices of the cells of services that have a group of their own: solve() takes them as spent.
  double own_gpcs(const Pattern& pattern) const;

  // `enough(bound, value)` may end it early.
  using Enough = std::function<bool(double bound, double value)>;
  ApartSolution solve(const ApartNode& node, const Enough& enough);

 private:
  class Program;
  std::size_t rows_of_cells() const { return cells_.size(); }
  bool alone(std::size_t unit) const { return members_[at(problem_.group[unit])].size() == 1; }
  ApartNeeds needs(const ApartNode& node) const;
  int most_useful(const ApartNode& node, std::size_t unit, std::size_t k, const Counts& have) const;

  const ApartProblem& problem_;
  std::vector<std::vector<std::size_t>> members_;  // per group, its units
  std::vector<int> cells_;                         // those that some unit can use
  std::vector<std::ptrdiff_t> row_;                // per cell, -1: nobody's
  std::vector<Pattern> patterns_;                  // generated so far
  std::vector<std::vector<Counts>> covers_;        // per unit, generated so far
};

}  // namespace partita::planners::serving
