#include "verify/poisson.h"

// Boost's inverse functions, which nothing here needs, would bring <iostream> and its start-up code
// into a pure module: they count as included.
#define BOOST_MATH_SPECIAL_FUNCTIONS_IGAMMA_INVERSE_HPP
#define BOOST_MATH_SF_ERF_INV_HPP
#define BOOST_MATH_TOOLS_NEWTON_SOLVER_HPP

#include <algorithm>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <cstddef>

namespace partita::verify {
namespace {

// Terms below this share of the largest term are left out.
constexpr double kNegligible = 1e-16;
// A table has about this many standard deviations, and a few counts more.
constexpr double kReach = 18;
constexpr std::size_t kLeastTable = 32;

// In doubles: the wider type that Boost would take costs a multiple and changes nothing here.
using InDoubles = boost::math::policies::policy<boost::math::policies::promote_double<false>>;

}  // namespace

double poisson_cdf(double mean, int n) { return boost::math::gamma_q(n + 1.0, mean, InDoubles()); }

// Boost's probability of the mode; outwards from it, neighbours have a known ratio.
Poisson::Poisson(double mean) : mean_(mean) {
  const int mode = static_cast<int>(mean);
  const double peak = boost::math::gamma_p_derivative(mode + 1.0, mean, InDoubles());
  const double least = kNegligible * peak;
  tail_.reserve(static_cast<std::size_t>(kReach * std::sqrt(mean)) + kLeastTable);
  double p = peak;
  for (int n = mode; n > 0 && (p *= n / mean) >= least; --n) tail_.push_back(p);
  std::ranges::reverse(tail_);
  first_ = mode - static_cast<int>(tail_.size());
  p = peak;
  for (int n = mode; p >= least; p *= mean / ++n) tail_.push_back(p);
  tail_.push_back(0);
  for (std::size_t i = tail_.size() - 1; i > 0; --i)
    tail_[i - 1] = std::min(1.0, tail_[i - 1] + tail_[i]);
}

double Poisson::tail(int n) const {
  if (n <= first_) return 1;
  return n > last() ? 0 : tail_[static_cast<std::size_t>(n - first_)];
}

double Poisson::at(int n) const {
  if (n < first_ || n > last()) return 0;
  const auto i = static_cast<std::size_t>(n - first_);
  return tail_[i] - tail_[i + 1];
}

double Poisson::found_at_least(int m) const {
  if (m <= 0) return mean_;
  return std::max(0.0, mean_ * tail(m) - m * tail(m + 1));
}

}  // namespace partita::verify
