// How well schedules predict their execution: without faults, the executor on the simulated driver
// ends when the schedule says; every scheduler, all GPU models. docs/results/execution.md quotes
// what is printed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/test_rounds.h"
#include "cases.h"

namespace partita::execution_tests {
namespace {

// Deviations in percent, as the report states them: positive is later than planned.
struct Deviations {
  double sum = 0, most = 0, latest = 0;
  int count = 0, beyond = 0;  // of them by more than 1 %
  Nanos longest_beyond = 0;   // planned

  void add(Nanos planned, Nanos real) {
    const double percent = exec::deviation_percent(planned, real);
    sum += std::abs(percent);
    most = std::max(most, std::abs(percent));
    latest = std::max(latest, percent);
    ++count;
    if (std::abs(percent) <= 1) return;
    ++beyond;
    longest_beyond = std::max(longest_beyond, planned);
  }
  double mean() const { return count == 0 ? 0 : sum / count; }
};

struct Measured {
  Deviations batches, tasks;
};

Measured measure(const std::string& scheduler, int gpus, bool timed, int rounds) {
  Measured measured;
  Rng rng(7);
  for (int round = 0; round < test_rounds(rounds); ++round) {
    Case one = random_case(rng, {.most_tasks = 14, .most_gpus = gpus, .timed = timed}, scheduler);
    BatchWorld world(one.problem, one.schedule, {});
    EXPECT_EQ(world.live_to_the_end(), 0);
    EXPECT_EQ(world.broken, std::vector<std::string>{});
    EXPECT_EQ(world.report().count(exec::TaskStatus::finished),
              static_cast<int>(one.problem.tasks.size()));
    measured.batches.add(one.schedule.makespan, world.report().makespan());
    for (std::size_t t = 0; t < one.problem.tasks.size(); ++t)
      measured.tasks.add(world.script().tasks[t].planned.end, world.report().tasks[t].end);
  }
  const Deviations& all = measured.batches;
  fmt::print(
      "{:<18} {:<6} {:<6}{:>5} batches: mean {:.4f} %, max {:.4f} %, {} beyond 1 % (longest {} s); "
      "{:>6} tasks: mean {:.4f} %, max {:.4f} %\n",
      scheduler, gpus == 1 ? "1 GPU" : "1-4", timed ? "timed" : "", all.count, all.mean(), all.most,
      all.beyond, all.longest_beyond / kSecond, measured.tasks.count, measured.tasks.mean(),
      measured.tasks.most);
  return measured;
}

// miso:barrier plans pauses, in which all instances wait for the last one. Nobody else needs them,
// so the executor does not wait and ends earlier.
bool plans_pauses(const std::string& scheduler) { return scheduler == "miso:barrier"; }

TEST(Deviation, IsAShareOfThePlannedTime) {
  EXPECT_EQ(exec::deviation_percent(4 * kSecond, 6 * kSecond), 50);
  EXPECT_EQ(exec::deviation_percent(4 * kSecond, kSecond), -75);
  EXPECT_EQ(exec::deviation_percent(4 * kSecond, 4 * kSecond), 0);
  EXPECT_EQ(exec::deviation_percent(4 * kSecond, 0), -100);
  EXPECT_EQ(exec::deviation_percent(0, kSecond), 0);
}

TEST(Prediction, OneGpuEndsAsPlanned) {
  for (const batch_test::NamedScheduler& scheduler : batch_test::all_schedulers()) {
    for (const bool timed : {false, true}) {
      SCOPED_TRACE(scheduler.name);
      const Measured measured = measure(scheduler.name, 1, timed, 30);
      EXPECT_EQ(measured.tasks.latest, 0);
      EXPECT_EQ(measured.batches.latest, 0);
      if (plans_pauses(scheduler.name)) continue;
      EXPECT_LE(measured.batches.most, 1);
    }
  }
}

// A node makes one reconfiguration at a time, and that is what schedules of its GPUs are made for.
TEST(Prediction, SeveralGpusOfANodeEndAsPlanned) {
  for (const batch_test::NamedScheduler& scheduler : batch_test::all_schedulers()) {
    for (const bool timed : {false, true}) {
      SCOPED_TRACE(scheduler.name);
      const Measured measured = measure(scheduler.name, 4, timed, 15);
      EXPECT_EQ(measured.tasks.latest, 0);
      EXPECT_EQ(measured.batches.latest, 0);
      if (plans_pauses(scheduler.name)) continue;
      EXPECT_LE(measured.batches.most, 1);
    }
  }
}

}  // namespace
}  // namespace partita::execution_tests
