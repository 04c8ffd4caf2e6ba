#include "base/numeric/robust.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "base/numeric/dense.h"

namespace partita::numeric {
namespace {

constexpr double kHuber = 1.345, kBisquare = 4.685, kNormal = 0.6745;
constexpr double kLeastScale = 1e-9;  // of residuals: an exact fit has none
constexpr double kMeasured = 1e-4;    // of a row: rows that agree better do not outweigh beliefs
constexpr double kStill = 1e-9;       // a step, relative to the coefficients
constexpr int kMostIterations = 200;
constexpr double kSingular = 1e-14;  // of the largest eigenvalue
constexpr double kPart = 0.7;        // of the rows; so many are fitted from random starts
constexpr int kStarts = 100, kConcentrations = 4;
constexpr std::size_t kTrimmedRows = 2000;  // of more, so many are drawn for the random starts

double weight_of(Loss loss, double u) {
  u = std::abs(u);
  if (loss == Loss::squares) return 1;
  if (loss == Loss::huber) return u <= kHuber ? 1 : kHuber / u;
  const double rest = 1 - u * u / (kBisquare * kBisquare);
  return u < kBisquare ? rest * rest : 0;
}

// d(u weight)/du.
double slope_of(Loss loss, double u) {
  u = std::abs(u);
  if (loss == Loss::squares) return 1;
  if (loss == Loss::huber) return u <= kHuber ? 1 : 0;
  const double q = u * u / (kBisquare * kBisquare);
  return u < kBisquare ? (1 - q) * (1 - 5 * q) : 0;
}

// Of the normal equations with what is believed: leverages of the rows, and variances of the
// coefficients for residuals of variance 1.
struct Spread {
  std::vector<double> leverages, variances;
};

// The problem with rows divided by y and columns of length 1, so that coefficients compare.
struct Problem {
  DenseRows x;
  std::vector<double> y, lengths;
  std::vector<Belief> beliefs;        // in scaled coefficients
  double least = 0;                   // no row is measured better than this
  std::optional<Spread> spread = {};  // where nothing is believed it depends on nothing else

  std::size_t rows() const { return y.size(); }

  std::vector<double> residuals(std::span<const double> b) const {
    std::vector<double> r = product(x, b);
    for (std::size_t i = 0; i < r.size(); ++i) r[i] = y[i] - r[i];
    return r;
  }
};

Problem problem_of(const DenseRows& x, std::span<const double> y, const RobustOptions& options) {
  Problem p{
      x, {y.begin(), y.end()}, std::vector<double>(static_cast<std::size_t>(x.columns)), {}, 0};
  for (int i = 0; i < x.rows; ++i) {
    double& value = p.y[static_cast<std::size_t>(i)];
    CHECK(!options.relative || value > 0);
    for (int c = 0; c < x.columns; ++c) {
      if (options.relative) p.x.at(i, c) /= value;
      p.lengths[static_cast<std::size_t>(c)] += p.x.at(i, c) * p.x.at(i, c);
    }
    if (options.relative) value = 1;
  }
  for (int c = 0; c < x.columns; ++c) {
    double& length = p.lengths[static_cast<std::size_t>(c)];
    length = length > 0 ? std::sqrt(length) : 1;
    for (int i = 0; i < x.rows; ++i) p.x.at(i, c) /= length;
    if (options.beliefs.empty()) continue;
    const Belief& belief = options.beliefs[static_cast<std::size_t>(c)];
    p.beliefs.push_back({belief.mean * length, belief.deviation * length});
  }
  for (const double value : p.y) p.least += value * value / static_cast<double>(p.y.size());
  p.least = kMeasured * std::sqrt(p.least);
  return p;
}

std::vector<double> solve(const Problem& p, std::span<const double> weights, double scale) {
  const int more = static_cast<int>(p.beliefs.size());
  scale = std::max(scale, p.least);
  const bool many = p.x.rows > kManyRows;
  const DenseRows small = many ? triangle(p.x, p.y, weights) : DenseRows{};
  const int rows = many ? small.rows : p.x.rows;
  DenseRows a = dense_rows(rows + more, p.x.columns);
  std::vector<double> b(static_cast<std::size_t>(a.rows));
  for (int i = 0; i < rows; ++i) {
    const auto row = static_cast<std::size_t>(i);
    const double root = many ? 1 : std::sqrt(weights[row]);
    for (int c = 0; c < p.x.columns; ++c) a.at(i, c) = root * (many ? small : p.x).at(i, c);
    b[row] = many ? small.at(i, p.x.columns) : root * p.y[row];
  }
  for (int c = 0; c < more; ++c) {
    const Belief& belief = p.beliefs[static_cast<std::size_t>(c)];
    a.at(rows + c, c) = scale / belief.deviation;
    b[static_cast<std::size_t>(rows + c)] = scale * belief.mean / belief.deviation;
  }
  return nnls(a, b);
}

Spread spread_of(const Problem& p, double scale) {
  if (p.spread) return *p.spread;
  const auto n = static_cast<std::size_t>(p.x.columns);
  const auto row = [&](std::size_t i) { return std::span(p.x.values).subspan(i * n, n); };
  std::vector<double> normal(n * n);
  for (std::size_t i = 0; i < p.rows(); ++i)
    for (std::size_t c = 0; c < n; ++c)
      for (std::size_t k = c; k < n; ++k) normal[c * n + k] += row(i)[c] * row(i)[k];
  for (std::size_t c = 0; c < p.beliefs.size(); ++c)
    normal[c * n + c] += std::pow(std::max(scale, p.least) / p.beliefs[c].deviation, 2);
  const EigenPairs pairs = symmetric_eigen(normal, n);
  Spread spread{std::vector<double>(p.rows()), std::vector<double>(n)};
  for (std::size_t k = 0; k < n; ++k) {
    const double value = pairs.values[k];
    if (value <= kSingular * pairs.values.back()) continue;
    const auto vector = pairs.vector(k);
    for (std::size_t i = 0; i < p.rows(); ++i) {
      const auto x = row(i);
      const double along = std::inner_product(x.begin(), x.end(), vector.begin(), 0.0);
      spread.leverages[i] += along * along / value;
    }
    for (std::size_t c = 0; c < n; ++c) spread.variances[c] += vector[c] * vector[c] / value;
  }
  for (double& h : spread.leverages) h = std::min(h, 0.9999);
  return spread;
}

// Residuals / sqrt(1 - h).
std::vector<double> adjusted(std::vector<double> residuals, const Spread& spread) {
  for (std::size_t i = 0; i < residuals.size(); ++i)
    residuals[i] /= std::sqrt(1 - spread.leverages[i]);
  return residuals;
}

// As many residuals as the rows leave no freedom to are small of themselves, and left out.
double scale_of(std::vector<double> residuals, double freedom_lost) {
  for (double& r : residuals) r = std::abs(r);
  const std::size_t lost =
      std::min(residuals.size() - 1, static_cast<std::size_t>(std::max(freedom_lost - 1, 0.0)));
  const std::size_t left = residuals.size() - lost, middle = lost + left / 2;
  const auto at = residuals.begin() + static_cast<std::ptrdiff_t>(middle);
  std::nth_element(residuals.begin(), at, residuals.end());
  const double mid = left % 2 == 1 ? *at : (*std::max_element(residuals.begin(), at) + *at) / 2;
  return std::max(mid / kNormal, kLeastScale);
}

struct State {
  std::vector<double> b, weights;
  double scale = 0.1;
  int iterations = 0;
  bool converged = false;
};

double freedom_lost(const Spread& spread) {
  double sum = 0;
  for (const double h : spread.leverages) sum += h;
  return sum;
}

void reweigh(const Problem& p, Loss loss, State& state) {
  for (int i = 0; i < kMostIterations; ++i) {
    const Spread spread = spread_of(p, state.scale);
    const std::vector<double> r = adjusted(p.residuals(state.b), spread);
    state.scale = scale_of(r, freedom_lost(spread));
    for (std::size_t k = 0; k < r.size(); ++k)
      state.weights[k] = weight_of(loss, r[k] / state.scale);
    const std::vector<double> next = solve(p, state.weights, state.scale);
    double moved = 0, size = 1e-30;
    for (std::size_t c = 0; c < next.size(); ++c) {
      moved = std::max(moved, std::abs(next[c] - state.b[c]));
      size = std::max(size, std::abs(next[c]));
    }
    state.b = next;
    ++state.iterations;
    state.converged = moved <= kStill * size;
    if (state.converged) return;
  }
}

double rho(double u) {  // whose derivative is u times the weight of bisquare; at most 1
  const double rest = 1 - u * u / (kBisquare * kBisquare);
  return std::abs(u) < kBisquare ? 1 - rest * rest * rest : 1;
}

// The fit to kPart of the rows that fits them best, from a guess: rows that fit worst are dropped,
// the rest is fitted again. The sum of squares of those kept.
double concentrate(const Problem& p, std::vector<double>& b, double scale) {
  const std::size_t kept =
      static_cast<std::size_t>(std::ceil(kPart * static_cast<double>(p.rows())));
  double sum = 0;
  for (int step = 0; step < kConcentrations; ++step) {
    const std::vector<double> r = p.residuals(b);
    std::vector<std::size_t> order(r.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(
        order, [&](std::size_t i, std::size_t j) { return std::abs(r[i]) < std::abs(r[j]); });
    std::vector<double> weights(r.size());
    sum = 0;
    for (std::size_t k = 0; k < kept; ++k) {
      weights[order[k]] = 1;
      sum += r[order[k]] * r[order[k]];
    }
    if (step + 1 < kConcentrations) b = solve(p, weights, scale);
  }
  return sum;
}

// kTrimmedRows of the rows.
Problem drawn(const Problem& p, Rng& rng) {
  std::vector<bool> taken(p.rows());
  for (std::size_t left = kTrimmedRows; left > 0;) {
    const std::size_t row = rng.below(p.rows());
    if (taken[row]) continue;
    taken[row] = true;
    --left;
  }
  Problem part{
      dense_rows(static_cast<int>(kTrimmedRows), p.x.columns), {}, p.lengths, p.beliefs, p.least};
  for (std::size_t i = 0; i < p.rows(); ++i) {
    if (!taken[i]) continue;
    for (int c = 0; c < p.x.columns; ++c)
      part.x.at(static_cast<int>(part.y.size()), c) = p.x.at(static_cast<int>(i), c);
    part.y.push_back(p.y[i]);
  }
  return part;
}

// Least trimmed squares from fits to random rows (Rousseeuw and Van Driessen 2006): where outliers
// are many, some of these rows have none, and Huber's fit may be too far off to come back from.
State trimmed(const Problem& whole) {
  Rng rng(1);
  const Problem part = whole.rows() > kTrimmedRows ? drawn(whole, rng) : Problem{};
  const Problem& p = part.rows() > 0 ? part : whole;
  State best;
  double least = std::numeric_limits<double>::infinity();
  const std::size_t size = std::min(p.rows(), static_cast<std::size_t>(p.x.columns) + 1);
  for (int start = 0; start < kStarts; ++start) {
    std::vector<double> weights(p.rows());
    for (std::size_t left = size; left > 0;) {
      double& one = weights[rng.below(p.rows())];
      if (one != 0) continue;
      one = 1;
      --left;
    }
    std::vector<double> b = solve(p, weights, best.scale);
    const double sum = concentrate(p, b, best.scale);
    if (sum >= least) continue;
    least = sum;
    best.b = std::move(b);
  }
  best.weights.assign(whole.rows(), 1);
  return best;
}

// Of two fits the one whose residuals are smaller, outliers counted as far off, on one scale.
bool better(const Problem& p, const State& a, const State& b) {
  const double scale = std::min(a.scale, b.scale);
  const std::vector<double> first = adjusted(p.residuals(a.b), spread_of(p, a.scale));
  const std::vector<double> second = adjusted(p.residuals(b.b), spread_of(p, b.scale));
  double left = 0, right = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    left += rho(first[i] / scale);
    right += rho(second[i] / scale);
  }
  return left < right;
}

// Variance of a residual, after Street, Carroll and Ruppert (1988), as robustfit has it.
double variance_of(const Problem& p, Loss loss, const State& state, const Spread& spread) {
  const std::vector<double> r = adjusted(p.residuals(state.b), spread);
  const double n = static_cast<double>(r.size());
  double squares = 0, slope = 0, slopes = 0;
  for (const double value : r) {
    const double u = value / state.scale;
    squares += std::pow(u * weight_of(loss, u), 2);
    slope += slope_of(loss, u) / n;
    slopes += std::pow(slope_of(loss, u), 2) / n;
  }
  const double free = std::max(1.0, n - freedom_lost(spread));
  slope = std::max(slope, 0.1);
  const double correction = 1 + (n - free) / n * (slopes - slope * slope) / (slope * slope);
  return std::max(0.0, correction * correction * squares / free) * state.scale * state.scale /
         (slope * slope);
}

}  // namespace

std::vector<double> product(const DenseRows& x, std::span<const double> b) {
  CHECK(static_cast<int>(b.size()) == x.columns);
  std::vector<double> y(static_cast<std::size_t>(x.rows));
  for (int i = 0; i < x.rows; ++i)
    for (int c = 0; c < x.columns; ++c)
      y[static_cast<std::size_t>(i)] += x.at(i, c) * b[static_cast<std::size_t>(c)];
  return y;
}

RobustFit robust_fit(const DenseRows& x, std::span<const double> y, const RobustOptions& options) {
  CHECK(static_cast<int>(y.size()) == x.rows && x.rows >= 1 && x.columns >= 1);
  CHECK(options.beliefs.empty() || static_cast<int>(options.beliefs.size()) == x.columns);
  CHECK(x.rows > x.columns || !options.beliefs.empty());
  Problem p = problem_of(x, y, options);
  if (p.beliefs.empty()) p.spread = spread_of(p, 0);
  State state;
  state.weights.assign(p.rows(), 1);
  state.b = solve(p, state.weights, state.scale);
  if (options.loss == Loss::squares) {
    reweigh(p, Loss::squares, state);
  } else {
    reweigh(p, Loss::huber, state);
  }
  if (options.loss == Loss::bisquare) {
    reweigh(p, Loss::bisquare, state);
    State other = trimmed(p);
    reweigh(p, Loss::bisquare, other);
    if (better(p, other, state)) state = other;
  }

  const Spread spread = spread_of(p, state.scale);
  const double variance = variance_of(p, options.loss, state, spread);
  RobustFit fit;
  fit.scale = options.loss == Loss::squares ? std::sqrt(variance) : state.scale;
  for (std::size_t c = 0; c < state.b.size(); ++c) {
    fit.coefficients.push_back(state.b[c] / p.lengths[c]);
    fit.standard_errors.push_back(std::sqrt(variance * spread.variances[c]) / p.lengths[c]);
  }
  fit.residuals = p.residuals(state.b);
  fit.weights = state.weights;
  fit.condition = condition(p.x);
  fit.iterations = state.iterations;
  fit.converged = state.converged;
  return fit;
}

}  // namespace partita::numeric
