// Which points are measured: hand-made throughputs, a kill anywhere, hand values of the intervals.
#include "serve/measure/points.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "serve/measure/interval.h"

namespace partita::serve {
namespace {

using Throughput = std::function<double(const MeasurePoint&)>;  // 0: does not run

profile::WorkloadProfile measure_all(const MeasureGrid& grid, const Throughput& of,
                                     profile::WorkloadProfile measured = {}) {
  while (const auto point = next_point(grid, measured)) {
    const double rps = of(*point);
    if (rps == 0) {
      add_no_run(measured, *point);
      continue;
    }
    add_point(measured, {.gpcs = point->units,
                         .batch = point->batch,
                         .processes = point->processes,
                         .throughput = {rps},
                         .latency = {1000.0 * point->batch * point->processes / rps},
                         .memory = {}});
  }
  return measured;
}

std::vector<int> batches_of(const profile::WorkloadProfile& measured, int units, int processes) {
  std::vector<int> batches;
  for (const auto& point : measured.points) {
    if (point.gpcs == units && point.processes == processes) batches.push_back(point.batch);
  }
  return batches;
}

const MeasureGrid kGrid{.units = {1, 2}, .processes = {1, 2, 3}, .batches = {1, 2, 4, 8, 16, 32}};

TEST(Points, AllWhereEachGivesMore) {
  const auto measured = measure_all(
      kGrid, [](const MeasurePoint& p) { return 100.0 * p.units * p.batch * p.processes; });
  EXPECT_EQ(measured.points.size(), 36U);
  EXPECT_EQ(points_left(kGrid, {}), 36);
  EXPECT_EQ(points_left(kGrid, measured), 0);
}

TEST(Points, LargerBatchesThatGiveNothingAreSkipped) {
  // As fast as it gets at 4: two more are tried, then no more.
  const auto measured = measure_all(kGrid, [](const MeasurePoint& p) {
    return 100.0 * p.units * p.processes * std::min(p.batch, 4);
  });
  EXPECT_EQ(batches_of(measured, 1, 1), (std::vector{1, 2, 4, 8, 16}));
  // One flat step is no reason: 2 gives nothing, 4 does.
  const auto stepped = measure_all(kGrid, [](const MeasurePoint& p) {
    return p.batch <= 2 ? 100.0 : 100.0 * p.batch * p.processes;
  });
  EXPECT_EQ(batches_of(stepped, 1, 1), kGrid.batches);
}

TEST(Points, LargerBatchesThanOneThatDoesNotRunAreSkipped) {
  const auto measured = measure_all(kGrid, [](const MeasurePoint& p) {
    return p.batch > 4 ? 0.0 : 100.0 * p.batch * p.processes;
  });
  EXPECT_EQ(batches_of(measured, 2, 3), (std::vector{1, 2, 4}));
  EXPECT_EQ(measured.no_runs.size(), 6U);  // batch 8 of each ladder
}

TEST(Points, MoreProcessesThatGiveNothingAreSkipped) {
  const auto measured = measure_all(kGrid, [](const MeasurePoint& p) {
    return 100.0 * p.batch * (p.units == 1 ? 1 : p.processes);
  });
  EXPECT_EQ(batches_of(measured, 1, 2), kGrid.batches);  // tried, worth nothing
  EXPECT_EQ(batches_of(measured, 1, 3), std::vector<int>{});
  EXPECT_EQ(batches_of(measured, 2, 3), kGrid.batches);
}

TEST(Points, AKillChangesNothing) {
  const Throughput of = [](const MeasurePoint& p) {
    return p.batch * p.processes > 40 ? 0.0 : 50.0 * p.units * std::sqrt(p.batch * p.processes);
  };
  const auto whole = measure_all(kGrid, of);
  for (std::size_t keep = 0; keep <= whole.points.size(); ++keep) {
    profile::WorkloadProfile torn = whole;
    torn.points.resize(keep);
    EXPECT_TRUE(measure_all(kGrid, of, torn) == whole) << keep;
  }
}

TEST(Points, ReadsListsOfCounts) {
  EXPECT_EQ(*parse_counts("f", "4,1,2", 8), (std::vector{1, 2, 4}));
  EXPECT_EQ(*parse_counts("f", "1..3", 8), (std::vector{1, 2, 3}));
  EXPECT_EQ(*parse_counts("f", "1,3..", 13), (std::vector{1, 3, 6, 12}));
  for (const char* text : {"", "0", "9", "1..9", "3..1", "1,", "x", "1...3", "-1", "1-2"}) {
    EXPECT_FALSE(parse_counts("f", text, 8)) << text;
  }
}

TEST(Interval, IsStudents) {
  const std::vector<double> five = {9, 10, 11, 10, 10};
  const Interval interval = confidence(five);
  EXPECT_DOUBLE_EQ(interval.mean, 10);
  // s = sqrt(2 / 4), t(4) = 2.776: 2.776 x 0.7071 / sqrt(5)
  EXPECT_NEAR(interval.half_width, 0.87785, 1e-4);
  EXPECT_TRUE(narrow_enough(five, 0.09));
  EXPECT_FALSE(narrow_enough(five, 0.08));
  const std::vector<double> four = {10, 10, 10, 10};
  EXPECT_FALSE(narrow_enough(four, 0.5));  // too few to say
  EXPECT_TRUE(std::isinf(confidence(std::vector<double>{3}).half_width));
}

}  // namespace
}  // namespace partita::serve
