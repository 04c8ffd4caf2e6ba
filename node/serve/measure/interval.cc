#include "serve/measure/interval.h"

#include <array>
#include <cmath>
#include <limits>

namespace partita::serve {
namespace {

// Student's t, two-sided 95 %, for 1 .. 30 degrees of freedom; 1.96 beyond.
constexpr std::array<double, 30> kStudent = {
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
constexpr double kNormal = 1.96;

}  // namespace

Interval confidence(std::span<const double> samples) {
  const auto count = static_cast<double>(samples.size());
  double sum = 0, squares = 0;
  for (const double sample : samples) sum += sample;
  const double mean = samples.empty() ? 0 : sum / count;
  if (samples.size() < 2) return {mean, std::numeric_limits<double>::infinity()};
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  const std::size_t freedom = samples.size() - 1;
  const double t = freedom <= kStudent.size() ? kStudent.at(freedom - 1) : kNormal;
  return {mean, t * std::sqrt(squares / static_cast<double>(freedom) / count)};
}

bool narrow_enough(std::span<const double> samples, double precision) {
  if (samples.size() < kFewestWindows) return false;
  const Interval interval = confidence(samples);
  return interval.half_width <= precision * interval.mean;
}

}  // namespace partita::serve
