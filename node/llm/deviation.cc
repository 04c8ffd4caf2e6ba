#include "llm/deviation.h"

#include <cmath>

#include "base/check.h"
#include "base/numeric/dense.h"

namespace partita::llm {
namespace {

constexpr int kRounds = 12;  // of weighing outliers anew; the weights settle within a few

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

}  // namespace

Deviation::Deviation(std::vector<Place> places, std::span<const double> log_ratios,
                     const Belief& belief)
    : places_(std::move(places)), belief_(belief) {
  const std::size_t n = places_.size();
  CHECK(log_ratios.size() == n && belief.noise > 0);
  std::vector<double> alike_as(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      alike_as[i * n + j] = covariance(places_[i], places_[j], belief);
  const double usual = square(belief.noise);
  std::vector<double> noise(n, usual);
  for (int round = 0; round < kRounds && n > 0; ++round) {
    std::vector<double> matrix = alike_as;
    for (std::size_t i = 0; i < n; ++i) matrix[i * n + i] += noise[i];
    weights_ = numeric::solve_symmetric(matrix, log_ratios);
    for (std::size_t i = 0; i < n; ++i) {
      const double left = noise[i] * weights_[i];  // of the measurement, above what is expected
      noise[i] = usual * (belief.freedom + square(left) / usual) / (belief.freedom + 1);
    }
  }
}

double Deviation::at(const Place& place) const {
  double sum = 0;
  for (std::size_t i = 0; i < places_.size(); ++i)
    sum += weights_[i] * covariance(place, places_[i], belief_);
  return sum;
}

}  // namespace partita::llm
