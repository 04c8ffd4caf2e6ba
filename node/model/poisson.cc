#include "model/poisson.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace partita::model {

void Poisson::reset(double mean) {
  CHECK(mean >= 0 && mean < 1e8);
  if (mean == mean_) return;
  mean_ = mean;
  const double reach = kPoissonSpread * std::sqrt(mean);
  first_ = static_cast<int>(std::max(0.0, std::floor(mean - reach)));
  const auto size = static_cast<std::size_t>(std::ceil(mean + reach) + 8 - first_) + 1;
  tail_.resize(size + 1);
  excess_.resize(size + 1);

  // Weights relative to the mode, outwards; their sum normalises them, which spares a logarithm of
  // a factorial.
  const auto mode = static_cast<std::size_t>(static_cast<int>(mean) - first_);
  const double inverse = 1 / mean;
  double n = std::floor(mean);
  tail_[mode] = 1;
  for (std::size_t i = mode; i > 0; --i, --n) tail_[i - 1] = tail_[i] * (n * inverse);
  n = std::floor(mean);
  for (std::size_t i = mode + 1; i < size; ++i) tail_[i] = tail_[i - 1] * (mean / ++n);
  tail_[size] = 0;
  excess_[size] = 0;

  for (std::size_t i = size; i-- > 0;) tail_[i] += tail_[i + 1];
  const double scale = 1 / tail_[0];
  for (std::size_t i = size; i-- > 0;) {
    tail_[i] *= scale;
    excess_[i] = excess_[i + 1] + tail_[i + 1];
  }
}

}  // namespace partita::model
