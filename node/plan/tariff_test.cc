// Means by hand; the best moment to begin against all minutes.
#include "plan/tariff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace partita::plan {
namespace {

constexpr std::int64_t kMidnight = 1'795'737'600;  // 2026-11-27 00:00 UTC

Tariff of(std::vector<double> prices, bool daily = false) {
  Tariff tariff{.from_s = kMidnight, .daily = daily};
  for (const double price : prices) tariff.hours.push_back({price, 1000 * price});
  return tariff;
}

TEST(Tariff, MeansAndEdges) {
  const Tariff tariff = of({0.1, 0.3, 0.2});
  const double at = kMidnight;
  EXPECT_EQ(rate_at(tariff, at - 1), std::nullopt);
  EXPECT_EQ(rate_at(tariff, at)->price, 0.1);
  EXPECT_EQ(rate_at(tariff, at + 3600)->price, 0.3);
  EXPECT_EQ(rate_at(tariff, at + 3 * 3600), std::nullopt);
  // Half an hour at 0.1 and a whole one at 0.3.
  EXPECT_NEAR(*mean_rate(tariff, at + 1800, at + 7200)->price, (0.05 + 0.3) / 1.5, 1e-12);
  EXPECT_NEAR(*mean_rate(tariff, at + 1800, at + 7200)->co2_g, 350 / 1.5, 1e-9);
  EXPECT_EQ(mean_rate(tariff, at + 7200, at + 3 * 3600 + 1), std::nullopt) << "not said";
  EXPECT_EQ(utc_text(at + 2 * 3600 + 61), "2026-11-27 02:01 UTC");
}

TEST(Tariff, ADayComesAgainBeforeAndAfter) {
  std::vector<double> prices(24, 0.2);
  prices[3] = 0.1;
  const Tariff tariff = of(prices, true);
  for (const int day : {-400, -1, 0, 1, 700}) {
    const double at = static_cast<double>(kMidnight) + day * 86'400.0 + 3 * 3600;
    EXPECT_EQ(rate_at(tariff, at)->price, 0.1);
    EXPECT_EQ(rate_at(tariff, at - 1)->price, 0.2);
  }
}

TEST(Tariff, FiguresThatNobodySaidAreMissing) {
  Tariff tariff = of({0.1});
  tariff.hours[0].co2_g.reset();
  const EnergyBill of_both = bill(7.2e6, rate_at(tariff, kMidnight));
  EXPECT_NEAR(*of_both.cost, 0.2, 1e-12);
  EXPECT_EQ(of_both.co2_g, std::nullopt);
  EXPECT_EQ(bill(7.2e6, std::nullopt).cost, std::nullopt);
  // Grams alone are weighed as they are; with a price of carbon both count.
  EXPECT_EQ(weight(tariff, {std::nullopt, 300}), 300);
  tariff.carbon_price = 100;
  EXPECT_NEAR(weight(tariff, {0.2, 300}), 0.2 + 0.03, 1e-12);
}

TEST(Tariff, NoMinuteIsBetterThanTheCandidates) {
  Rng rng(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> prices;
    for (int h = 0; h < 24; ++h) prices.push_back(std::round(rng.uniform() * 40 - 5) / 100);
    const Tariff tariff = of(prices);
    const double from = static_cast<double>(kMidnight) + 60 * std::floor(rng.uniform() * 600);
    const double to = from + 60 * std::floor(rng.uniform() * 700);
    const double length = 60 * (1 + std::floor(rng.uniform() * 200));
    const auto its = [&](double begin) {
      const auto rate = mean_rate(tariff, begin, begin + length);
      return rate ? weight(tariff, *rate) : 1e9;
    };
    double best = 1e9, least = 1e9;
    for (double begin = from; begin <= to; begin += 60) least = std::min(least, its(begin));
    for (const double begin : start_candidates(tariff, from, to, length)) {
      EXPECT_GE(begin, from);
      EXPECT_LE(begin, to);
      best = std::min(best, its(begin));
    }
    EXPECT_NEAR(best, least, 1e-9) << round;
  }
}

}  // namespace
}  // namespace partita::plan
