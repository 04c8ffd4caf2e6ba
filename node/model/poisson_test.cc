#include "model/poisson.h"

#include <gtest/gtest.h>

#include <cmath>

namespace partita::model {
namespace {

double probability(double mean, int n) {
  return std::exp(n * std::log(mean) - mean - std::lgamma(n + 1.0));
}

TEST(Poisson, TailsAndExcessesEqualTheirDefinitions) {
  Poisson poisson;
  for (const double mean : {0.01, 0.7, 3.0, 40.0, 150.5}) {
    poisson.reset(mean);
    for (int n = -3; n < 300; n += 3) {
      double tail = 0;
      double excess = 0;
      for (int k = std::max(n, 0); k < 600; ++k) {
        tail += probability(mean, k);
        excess += probability(mean, k) * (k - n);
      }
      EXPECT_NEAR(poisson.tail(n), tail, 1e-8) << mean << " " << n;
      EXPECT_NEAR(poisson.excess(n), excess, 1e-7) << mean << " " << n;
    }
  }
}

TEST(Poisson, WithoutArrivalsIsZero) {
  Poisson poisson;
  poisson.reset(9);
  poisson.reset(0);
  EXPECT_EQ(poisson.tail(0), 1);
  EXPECT_EQ(poisson.tail(1), 0);
  EXPECT_EQ(poisson.excess(0), 0);
  EXPECT_EQ(poisson.excess(-2), 2);
}

}  // namespace
}  // namespace partita::model
