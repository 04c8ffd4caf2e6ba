// The component model fitted to counters: robust regression on relative residuals (numeric/robust),
// with what was measured of it: standard errors, condition, which rows do not fit, and how well it
// predicts rows that it has not seen.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/energy/components.h"
#include "model/energy/counters.h"
#include "base/numeric/robust.h"

namespace partita::energy {

struct FitOptions {
  numeric::Loss loss = numeric::Loss::bisquare;
  bool relative = true;
  // What is believed of components before: of a number for all, or of a model's by name. Others are
  // then believed to be 0 within `deviation` x their own first estimate -- that is, freely.
  // deviation: standard deviation, as a share of the coefficient. Off: no belief.
  std::vector<ComponentCost> prior;  // by name; empty: none
  double prior_for_all = 0;          // > 0: of every component, instead of `prior`
  double deviation = 2;              // > 0
};

// A row that the others do not explain: it counted less than half, or for nothing.
struct Outlier {
  std::string name;
  double residual = 0;  // (measured - model) / measured
  bool operator==(const Outlier&) const = default;
};

struct EnergyModel {
  ComponentModel components;
  std::vector<ComponentColumns> columns;  // what was added up for each
  bool watts = false;                     // fitted to power and rates
  double idle_w = 0;                      // was taken off before; 0: nothing
  numeric::Loss loss = numeric::Loss::bisquare;
  int rows = 0;
  double residual_scale = 0;  // relative, of ordinary rows
  double condition = 0;
  double r2 = 0, mape = 0;  // of the rows it was fitted to; shares
  std::vector<Outlier> outliers;
  std::vector<std::string> notes;
  bool operator==(const EnergyModel&) const = default;
};

// Refused: columns that nothing tells apart, or that are 0 in every row, unless something is
// believed of them; fewer rows than components + 1.
Result<EnergyModel> fit(const CounterTable& table, const FitOptions& options);

// Joules or watts, without idle_w, of accesses per component of the model.
double predict(const EnergyModel& model, const std::vector<double>& accesses);
// Standard error of the same, of the coefficients alone.
double prediction_error(const EnergyModel& model, const std::vector<double>& accesses);

// How well rows are predicted by a model that was fitted to the others.
struct Validation {
  struct Row {
    std::string name;
    double measured = 0, predicted = 0;  // J or W, idle_w included again
    bool operator==(const Row&) const = default;
  };
  std::vector<Row> rows;
  int parts = 0;                                 // that were left out whole; 0: every row by itself
  double mape = 0, worst = 0, bias = 0, r2 = 0;  // shares; bias: mean of (predicted / measured - 1)
  std::string worst_row;
  bool operator==(const Validation&) const = default;
};
// Leaves out every row in turn; of more rows than kLeftOutAlone every kParts-th together.
inline constexpr std::size_t kLeftOutAlone = 200, kParts = 20;
Result<Validation> leave_one_out(const CounterTable& table, const FitOptions& options,
                                 double idle_w);
// A model against a table that it has not seen; its components are the model's.
Validation validate(const EnergyModel& model, const CounterTable& table);

}  // namespace partita::energy
