#include "model/model_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <list>

#include "base/rng.h"

namespace partita::model {
namespace {

std::vector<double> zipf(int models, double exponent) {
  std::vector<double> weights;
  for (int i = 1; i <= models; ++i) weights.push_back(std::pow(i, -exponent));
  return weights;
}

// The cache itself, asked.
double counted(const std::vector<double>& weights, int held, int requests) {
  double all = 0;
  std::vector<double> until;
  for (const double weight : weights) until.push_back(all += weight);
  std::list<std::size_t> there;
  Rng rng(7);
  long cold = 0;
  for (int i = -requests / 5; i < requests; ++i) {
    const auto model = static_cast<std::size_t>(
        std::ranges::upper_bound(until, rng.uniform() * all) - until.begin());
    const auto found = std::ranges::find(there, model);
    if (found != there.end())
      there.erase(found);
    else if (i >= 0)
      ++cold;
    there.push_front(model);
    if (static_cast<int>(there.size()) > held) there.pop_back();
  }
  return static_cast<double>(cold) / requests;
}

TEST(ColdShare, IsThatOfACacheThatIsAsked) {
  for (const int held : {5, 20, 60, 95})
    for (const double exponent : {0.0, 0.7, 1.1})
      EXPECT_NEAR(cold_share(zipf(100, exponent), held),
                  counted(zipf(100, exponent), held, 200'000), 0.006)
          << held << " " << exponent;
}

TEST(ColdShare, IsNoneWhereAllAreHeld) {
  EXPECT_EQ(cold_share({1, 2, 3}, 3), 0);
  EXPECT_EQ(cold_share({1}, 1), 0);
  EXPECT_NEAR(cold_share({1, 1}, 1), 0.5, 1e-9);
}

}  // namespace
}  // namespace partita::model
