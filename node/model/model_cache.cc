#include "model/model_cache.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace partita::model {
namespace {

// Of equal weights first, so that thousands of them cost what one does.
struct Weight {
  double share = 0;
  double count = 0;
};

std::vector<Weight> shares_of(std::vector<double> weights) {
  std::ranges::sort(weights);
  double all = 0;
  for (const double weight : weights) all += weight;
  std::vector<Weight> shares;
  for (const double weight : weights) {
    if (shares.empty() || shares.back().share != weight / all) shares.push_back({weight / all, 0});
    shares.back().count += 1;
  }
  return shares;
}

double there_after(const std::vector<Weight>& shares, double time) {
  double there = 0;
  for (const Weight& one : shares) there += one.count * -std::expm1(-one.share * time);
  return there;
}

}  // namespace

double cold_share(const std::vector<double>& weights, int held) {
  CHECK(held >= 1);
  if (static_cast<std::size_t>(held) >= weights.size()) return 0;
  const std::vector<Weight> shares = shares_of(weights);
  double low = 0, high = 1;
  while (there_after(shares, high) < held) high *= 2;
  for (int i = 0; i < 100 && high - low > 1e-12 * high; ++i) {
    const double middle = (low + high) / 2;
    (there_after(shares, middle) < held ? low : high) = middle;
  }
  double cold = 0;
  for (const Weight& one : shares) cold += one.count * one.share * std::exp(-one.share * low);
  return cold;
}

}  // namespace partita::model
