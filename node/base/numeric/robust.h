// Regression that outliers do not bend: y = x b with b >= 0, residuals relative to y, so that rows
// of pico- and of microjoules count alike. Iteratively reweighted least squares: Huber's loss
// (k = 1.345), then Tukey's bisquare (c = 4.685) from there. The scale is the median absolute
// residual / 0.6745 without the smallest ones that the columns themselves make small; residuals are
// adjusted by leverage, r / sqrt(1 - h), as in robustfit.
#pragma once

#include <span>
#include <vector>

#include "base/numeric/nnls.h"

namespace partita::numeric {

enum class Loss { squares, huber, bisquare };

// What is believed of a coefficient before any row is seen.
struct Belief {
  double mean = 0;
  double deviation = 0;  // standard deviation, > 0
};

struct RobustOptions {
  Loss loss = Loss::bisquare;
  bool relative = true;         // residuals over y; else in units of y
  std::vector<Belief> beliefs;  // one per column; none: nothing is believed (no ridge)
};

struct RobustFit {
  std::vector<double> coefficients;     // per column, >= 0
  std::vector<double> standard_errors;  // per column; of those at 0 as if they were free
  std::vector<double> residuals;        // per row: (y - x b) / y, or y - x b
  std::vector<double> weights;          // per row, in [0, 1]: how much it counted in the end
  double scale = 0;                     // of the residuals of ordinary rows
  double condition = 0;                 // of the scaled columns, see nnls.h
  int iterations = 0;
  bool converged = false;  // steps fell below 1e-9
};

// More rows than columns, or a belief for every column; every y > 0 where residuals are relative.
// Columns that nothing tells apart (see dependence()) get some share of what they have in common.
RobustFit robust_fit(const DenseRows& x, std::span<const double> y, const RobustOptions& options);

// x b, a value per row.
std::vector<double> product(const DenseRows& x, std::span<const double> b);

}  // namespace partita::numeric
