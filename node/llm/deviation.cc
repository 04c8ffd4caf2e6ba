#include "llm/deviation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/check.h"
#include "base/numeric/dense.h"

namespace partita::llm {
namespace {

constexpr double kWorstRatio = 1;  // log ratio that counts
constexpr int kRounds = 6;         // of weighing outliers anew; the weights settle within a few

// Where straight trends cross: in the middle of what people measure.
constexpr Place kMiddle{4, 11, 10};

double square(double x) { return x * x; }

// How alike two values are that lie so many octaves apart.
double alike(double squared, double octaves) { return std::exp(-squared / (2 * square(octaves))); }

double covariance(const Place& a, const Place& b, const Belief& belief) {
  const double concurrency =
      alike(square(a.concurrency - b.concurrency), belief.concurrency_octaves);
  const double shape =
      alike(square(a.tokens_in - b.tokens_in) + square(a.tokens_out - b.tokens_out),
            belief.shape_octaves);
  const auto trend = [&](double Place::*axis, double slope) {
    return square(slope) * (a.*axis - kMiddle.*axis) * (b.*axis - kMiddle.*axis);
  };
  return trend(&Place::concurrency, belief.per_octave_concurrency) +
         trend(&Place::tokens_in, belief.per_octave_in) +
         trend(&Place::tokens_out, belief.per_octave_out) +
         square(belief.over_concurrency) * concurrency + square(belief.over_shapes) * shape +
         square(belief.over_both) * concurrency * shape;
}

// Several groups of places, one after the other.
struct Groups {
  std::vector<Place> places;
  std::vector<double> log_ratios;
  std::vector<std::size_t> of;  // the group of each place
};

Groups together(const std::vector<Deviations>& seen) {
  Groups all;
  for (std::size_t group = 0; group < seen.size(); ++group) {
    const Deviations& one = seen[group];
    CHECK(one.places.size() == one.log_ratios.size());
    all.places.insert(all.places.end(), one.places.begin(), one.places.end());
    all.log_ratios.insert(all.log_ratios.end(), one.log_ratios.begin(), one.log_ratios.end());
    all.of.insert(all.of.end(), one.places.size(), group);
  }
  return all;
}

// What is to be multiplied by covariances and summed, with the variance of each one's noise.
struct Kriged {
  std::vector<double> matrix;  // covariances and noise
  std::vector<double> weights;
};

Kriged kriged(const std::vector<double>& covariances, const std::vector<double>& log_ratios,
              const Belief& belief) {
  CHECK(belief.noise > 0);
  const std::size_t n = log_ratios.size();
  const double usual = square(belief.noise);
  std::vector<double> noise(n, usual);
  Kriged found;
  for (int round = 0; round < kRounds && n > 0; ++round) {
    found.matrix = covariances;
    for (std::size_t i = 0; i < n; ++i) found.matrix[i * n + i] += noise[i];
    found.weights = numeric::solve_symmetric(found.matrix, log_ratios);
    for (std::size_t i = 0; i < n; ++i) {
      const double left = noise[i] * found.weights[i];  // above what is expected
      noise[i] = usual * (belief.freedom + square(left) / usual) / (belief.freedom + 1);
    }
  }
  return found;
}

// How far off the first `own` log ratios are where all of their concurrency are left out; none by
// more than kWorstRatio. With K the matrix: (K^-1 of those left out)^-1 times their weights.
double left_out_error(const Kriged& all, const std::vector<Place>& places, std::size_t own) {
  const std::size_t n = all.weights.size();
  const std::vector<double> inverse = numeric::inverse_definite(all.matrix, n, own);
  std::map<double, std::vector<std::size_t>> by_concurrency;
  for (std::size_t i = 0; i < own; ++i) by_concurrency[places[i].concurrency].push_back(i);
  double sum = 0;
  for (const auto& [concurrency, rows] : by_concurrency) {
    std::vector<double> block, weights;
    for (const std::size_t i : rows) {
      weights.push_back(all.weights[i]);
      for (const std::size_t j : rows) block.push_back(inverse[i * n + j]);
    }
    for (const double error : numeric::solve_symmetric(block, weights))
      sum += std::min(kWorstRatio, std::abs(error));
  }
  return sum;
}

}  // namespace

Deviation::Deviation(const Deviations& seen, const Belief& belief)
    : Deviation(
          {seen}, [](std::size_t, std::size_t) { return 1.0; }, belief) {}

Deviation::Deviation(const std::vector<Deviations>& seen, const Likeness& alike,
                     const Belief& belief)
    : belief_(belief) {
  const Groups all = together(seen);
  const std::size_t own = seen.front().places.size();
  const auto covariances = [&](double trust) {  // with no trust, of the first one alone
    const std::size_t n = trust > 0 ? all.places.size() : own;
    std::vector<double> matrix(n * n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j) {
        const std::size_t a = all.of[i], b = all.of[j];
        const double share = a == b ? 1.0 : alike(a, b) * (b == 0 ? trust : 1.0);
        matrix[i * n + j] = matrix[j * n + i] =
            share * covariance(all.places[i], all.places[j], belief);
      }
    return matrix;
  };
  double least = std::numeric_limits<double>::infinity();
  for (const double trust : {1.0, 0.5, 0.0}) {
    if (trust > 0 && seen.size() == 1) continue;
    const std::vector<double> matrix = covariances(trust);
    const auto n = static_cast<std::ptrdiff_t>(trust > 0 ? all.places.size() : own);
    Kriged found = kriged(matrix, {all.log_ratios.begin(), all.log_ratios.begin() + n}, belief);
    const double error = seen.size() > 1 ? left_out_error(found, all.places, own) : 0;
    if (error >= least) continue;
    least = error;
    places_.assign(all.places.begin(), all.places.begin() + n);
    weights_ = std::move(found.weights);
    for (std::size_t i = own; i < weights_.size(); ++i) weights_[i] *= trust * alike(0, all.of[i]);
  }
}

double Deviation::at(const Place& place) const {
  double sum = 0;
  for (std::size_t i = 0; i < places_.size(); ++i)
    sum += weights_[i] * covariance(place, places_[i], belief_);
  return sum;
}

}  // namespace partita::llm
