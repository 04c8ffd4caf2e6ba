#include "planners/batch/spread.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace partita::planners::batch {
namespace {

constexpr double kExact = 1e-3;   // a smaller spread is none
constexpr double kFurther = 0.2;  // of what should have ended: so much of what has passed longer
constexpr double kEdge = 1e-12;

double normal_below(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

double sigma_of(double cv) { return std::sqrt(std::log1p(cv * cv)); }

}  // namespace

// Acklam's rational approximation, and a step of Halley's.
double normal_quantile(double p) {
  constexpr double a[] = {-39.69683028665376, 220.9460984245205,  -275.9285104469687,
                          138.3577518672690,  -30.66479806614716, 2.506628277459239};
  constexpr double b[] = {-54.47609879822406, 161.5858368580409, -155.6989798598866,
                          66.80131188771972, -13.28068155288572};
  constexpr double c[] = {-0.007784894002430293, -0.3223964580411365, -2.400758277161838,
                          -2.549732539343734,    4.374664141464968,   2.938163982698783};
  constexpr double d[] = {0.007784695709041462, 0.3224671290700398, 2.445134137142996,
                          3.754408661907416};
  constexpr double low = 0.02425;
  double x = 0;
  if (p < low || p > 1 - low) {
    const double q = std::sqrt(-2 * std::log(std::min(p, 1 - p)));
    x = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
        ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
    if (p > 0.5) x = -x;
  } else {
    const double q = p - 0.5, r = q * q;
    x = (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
        (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
  }
  const double error = normal_below(x) - p;
  const double step = error * std::sqrt(2 * std::numbers::pi) * std::exp(x * x / 2);
  return x - step / (1 + x * step / 2);
}

double lognormal_at(double quantile, double cv, double passed) {
  if (cv < kExact) return passed < 1 ? 1 : passed * (1 + kFurther);
  const double sigma = sigma_of(cv), mu = -sigma * sigma / 2;
  const double before = passed > 0 ? normal_below((std::log(passed) - mu) / sigma) : 0;
  const double p = std::clamp(before + quantile * (1 - before), kEdge, 1 - kEdge);
  return std::max(std::exp(mu + sigma * normal_quantile(p)), passed * (1 + kExact));
}

double lognormal_mean(double cv, double passed) {
  if (passed <= 0) return 1;
  if (cv < kExact) return passed < 1 ? 1 : passed * (1 + kFurther);
  const double sigma = sigma_of(cv), mu = -sigma * sigma / 2;
  const double z = (mu - std::log(passed)) / sigma;
  const double beyond = normal_below(z);
  if (beyond < kEdge) return passed * (1 + kFurther);
  return std::max(normal_below(z + sigma) / beyond, passed * (1 + kExact));
}

}  // namespace partita::planners::batch
