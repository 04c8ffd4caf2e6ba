#include "verify/poisson.h"

#include <algorithm>
#include <cstddef>

namespace partita::verify {
namespace {

// Terms below this share of the largest term are left out.
constexpr double kNegligible = 1e-16;

}  // namespace

// Weights relative to the mode, outwards by the ratio of neighbours, then normalised: no
// factorials.
Poisson::Poisson(double mean) : mean_(mean) {
  const int mode = static_cast<int>(mean);
  std::vector<double> below;
  double weight = 1;
  for (int n = mode; n > 0; --n) {
    weight *= n / mean;
    if (weight < kNegligible) break;
    below.push_back(weight);
  }
  first_ = mode - static_cast<int>(below.size());
  tail_.assign(below.rbegin(), below.rend());
  weight = 1;
  for (int n = mode; weight >= kNegligible; weight *= mean / ++n) tail_.push_back(weight);
  tail_.push_back(0);
  for (std::size_t i = tail_.size() - 1; i > 0; --i) tail_[i - 1] += tail_[i];
  const double total = tail_.front();
  for (double& sum : tail_) sum /= total;
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
