// Factors by which what the services file says of requests is off, learned from what comes.
// Internal to control.
#pragma once

#include <algorithm>
#include <cmath>

namespace partita::control {

inline constexpr double kFactorStep = 1.1;  // factors are powers of it: noise moves none
inline constexpr double kMostFactor = 64;   // either way

// The factor from now on, by a ratio that is a mean of so many samples; `factor`, the one before,
// while that will do. A mean of n numbers, which are spread about as far as they are large, is off
// by a few times 1/sqrt(n).
inline double followed_factor(double factor, double ratio, double samples) {
  constexpr double kMore = 1.05, kLess = 0.8, kNoise = 3;
  const double noise = kNoise / std::sqrt(samples);
  if (ratio <= factor * (kMore + noise) && ratio >= factor * (kLess - noise)) return factor;
  const double power = std::ceil(std::log(ratio) / std::log(kFactorStep) - 1e-9);
  return std::clamp(std::pow(kFactorStep, power), 1 / kMostFactor, kMostFactor);
}

}  // namespace partita::control
