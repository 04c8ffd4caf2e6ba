// Against brute force over start hours, with feasibility checked hour by hour.
#include "planners/batch/cheap_hours.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/index.h"
#include "base/rng.h"

namespace partita::planners::batch {
namespace {

constexpr double kMidnight = 1'795'737'600, kHour = 3600;

plan::Tariff of(const std::vector<double>& prices) {
  plan::Tariff tariff{.from_s = static_cast<std::int64_t>(kMidnight)};
  for (const double price : prices) tariff.hours.push_back({price, std::nullopt});
  return tariff;
}

// Tasks of a shape of which a GPU holds so many, at most one shape on a GPU.
bool feasible(const CheapHours& problem, const std::vector<double>& begin_s) {
  for (std::size_t t = 0; t < begin_s.size(); ++t) {
    if (begin_s[t] > problem.tasks[t].latest_s || begin_s[t] < problem.free_s) return false;
    std::map<int, int> instances;
    std::map<int, int> per_gpu;
    for (std::size_t o = 0; o < begin_s.size(); ++o) {
      const Flexible& other = problem.tasks[o];
      if (begin_s[o] > begin_s[t] || begin_s[o] + other.length_s <= begin_s[t]) continue;
      instances[other.shape] += other.instances;
      per_gpu[other.shape] = other.per_gpu;
    }
    int gpus = 0;
    for (const auto& [shape, count] : instances)
      gpus += static_cast<int>(std::ceil(static_cast<double>(count) / per_gpu[shape]));
    if (gpus > problem.gpus) return false;
  }
  return true;
}

double weight_of(const plan::Tariff& tariff, const CheapHours& problem,
                 const std::vector<double>& begin_s) {
  double sum = 0;
  for (std::size_t t = 0; t < begin_s.size(); ++t) {
    const Flexible& task = problem.tasks[t];
    const auto rate = plan::mean_rate(tariff, begin_s[t], begin_s[t] + task.length_s);
    if (!rate) return 1e18;
    sum += plan::weight(tariff, *rate) * task.slices * task.length_s;
  }
  return sum;
}

// Over all whole hours.
double brute(const plan::Tariff& tariff, const CheapHours& problem, std::vector<double>& begin_s) {
  if (begin_s.size() == problem.tasks.size())
    return feasible(problem, begin_s) ? weight_of(tariff, problem, begin_s) : 1e18;
  double best = 1e18;
  for (std::size_t hour = 0; hour < tariff.hours.size(); ++hour) {
    begin_s.push_back(kMidnight + static_cast<double>(hour) * kHour);
    best = std::min(best, brute(tariff, problem, begin_s));
    begin_s.pop_back();
  }
  return best;
}

CheapHours random_problem(Rng& rng, int hours) {
  const auto whole = [&](int most) { return static_cast<int>(rng.uniform() * most); };
  CheapHours problem{.now_s = kMidnight, .free_s = kMidnight + kHour * whole(3)};
  problem.gpus = 1 + whole(2);
  const int count = 1 + whole(4);
  for (int t = 0; t < count; ++t) {
    Flexible task{.id = t + 1};
    task.length_s = kHour * (1 + whole(3));
    task.latest_s = kMidnight + kHour * whole(hours);
    task.shape = whole(2);
    task.per_gpu = task.shape == 0 ? 1 : 2;
    task.slices = task.shape == 0 ? 7 : 3;
    problem.tasks.push_back(task);
  }
  return problem;
}

TEST(CheapHours, IsNeverWorseThanAnyChoiceOfHours) {
  Rng rng(11);
  int found = 0, refused = 0, crowded = 0;
  for (int round = 0; round < 400; ++round) {
    const int hours = 8;
    std::vector<double> prices;
    for (int h = 0; h < hours; ++h) prices.push_back(std::round(rng.uniform() * 30 - 3) / 100);
    const plan::Tariff tariff = of(prices);
    const CheapHours problem = random_problem(rng, hours);
    std::vector<double> none;
    const double least = brute(tariff, problem, none);
    const auto chosen = cheap_hours(tariff, problem);
    if (!chosen) {
      EXPECT_GE(least, 1e17) << "there was a way, round " << round;
      ++refused;
      continue;
    }
    ++found;
    ASSERT_TRUE(feasible(problem, chosen->begin_s)) << round;
    EXPECT_TRUE(chosen->optimal);
    const double its = weight_of(tariff, problem, chosen->begin_s);
    EXPECT_NEAR(its, chosen->weight, 1e-3);
    EXPECT_LE(its, least + 1e-3) << round;
    EXPECT_GE(its, chosen->least - 1e-3);
    if (its > chosen->least + 1) ++crowded;
  }
  EXPECT_GT(found, 150);
  EXPECT_GT(refused, 20);
  EXPECT_GT(crowded, 20) << "tasks were in each other's way";
}

TEST(CheapHours, OfEqualMomentsTheFirst) {
  const plan::Tariff tariff = of({0.3, 0.1, 0.1, 0.1, 0.3});
  CheapHours problem{.now_s = kMidnight + 60, .free_s = kMidnight + 60};
  problem.tasks = {{.id = 1, .latest_s = kMidnight + 3 * kHour, .length_s = 1234.5}};
  auto chosen = cheap_hours(tariff, problem);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->begin_s[0], kMidnight + kHour);
  // When that has come it is still the moment, a little later, too.
  problem.now_s = problem.free_s = kMidnight + kHour + 0.25;
  chosen = cheap_hours(tariff, problem);
  EXPECT_EQ(chosen->begin_s[0], problem.now_s);
}

TEST(CheapHours, ManyTasksStayWithinTheSteps) {
  std::vector<double> prices;
  for (int h = 0; h < 48; ++h) prices.push_back(0.2 + 0.1 * std::sin(h / 24.0 * 6.28));
  const plan::Tariff tariff = of(prices);
  CheapHours problem{.now_s = kMidnight, .free_s = kMidnight, .gpus = 4};
  for (int t = 0; t < static_cast<int>(kMostFlexible); ++t)
    problem.tasks.push_back({t + 1, kMidnight + 40 * kHour, 1800.0 + 60 * t, 1, 0, 1, 7});
  const auto chosen = cheap_hours(tariff, problem);
  ASSERT_TRUE(chosen);
  EXPECT_TRUE(feasible(problem, chosen->begin_s));
  EXPECT_LE(chosen->weight, weight_of(tariff, problem, std::vector<double>(
                                                           problem.tasks.size(), kMidnight)));
  problem.tasks.push_back(problem.tasks[0]);
  EXPECT_FALSE(cheap_hours(tariff, problem)) << "more than the limit";
}

}  // namespace
}  // namespace partita::planners::batch
