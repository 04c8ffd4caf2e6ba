// Streams under the judge: whatever arrives whenever, nothing is lost, nothing that has begun is
// ever changed, and Partita's own method beats the paper's.
#include "planners/batch/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/test_rounds.h"
#include "random_batch.h"
#include "sim/batch_generator.h"
#include "verify/batch.h"

namespace partita::batch_test {
namespace {

using plan::Nanos;
using planners::batch::OnlineScheduler;
using planners::batch::Outlook;
using planners::batch::StreamMethod;
using planners::batch::StreamOptions;

constexpr StreamMethod kMethods[] = {StreamMethod::trivial, StreamMethod::reverse,
                                     StreamMethod::overlap, StreamMethod::best};

OnlineScheduler stream_on(const plan::BatchProblem& problem, const StreamOptions& options) {
  return *OnlineScheduler::create(problem, options);
}

// What of a schedule begins up to `now`.
plan::BatchSchedule begun(const plan::BatchSchedule& schedule, Nanos now) {
  plan::BatchSchedule part = schedule;
  std::erase_if(part.tasks, [&](const auto& task) { return task.begin > now; });
  std::erase_if(part.reconfigurations, [&](const auto& op) { return op.begin > now; });
  plan::put_in_order(part);
  return part;
}

// Whether everything of `part` is in `whole`, and what is not begins at `now` or later.
void expect_only_later_changes(const plan::BatchSchedule& before, const plan::BatchSchedule& after,
                               Nanos now) {
  const plan::BatchSchedule part = begun(before, now);
  const auto in = [](const auto& all, const auto& one) {
    return std::ranges::find(all, one) != all.end();
  };
  for (const auto& task : part.tasks) EXPECT_TRUE(in(after.tasks, task)) << task.task;
  for (const auto& op : part.reconfigurations) EXPECT_TRUE(in(after.reconfigurations, op));
  for (const auto& task : after.tasks) {
    if (task.begin < now) {
      EXPECT_TRUE(in(part.tasks, task)) << task.task;
    }
  }
  for (const auto& op : after.reconfigurations) {
    if (op.begin < now) {
      EXPECT_TRUE(in(part.reconfigurations, op));
    }
  }
}

// What is planned but not begun is for tasks: no instance is created that nothing runs on.
void expect_creates_are_used(const plan::BatchSchedule& schedule, Nanos now) {
  for (const auto& op : schedule.reconfigurations) {
    if (op.op == plan::Reconfiguration::Op::destroy || op.begin <= now) continue;
    EXPECT_TRUE(std::ranges::any_of(schedule.tasks, [&](const auto& task) {
      return task.gpu == op.gpu && task.profile == op.profile && task.start == op.start &&
             task.begin >= op.end;
    }));
  }
}

// A random stream of one method: tasks in groups at random times; judged after every submission.
void try_stream(Rng& rng, bool timed, const StreamOptions& options) {
  plan::BatchProblem problem =
      random_batch(rng, {.most_tasks = 30, .timed = timed, .extreme = timed});
  const std::vector<plan::Task> tasks = std::move(problem.tasks);
  problem.tasks.clear();
  OnlineScheduler stream = stream_on(problem, options);
  Nanos now = 0;
  for (std::size_t t = 0; t < tasks.size();) {
    const std::size_t group = std::min(tasks.size() - t, 1 + rng.below(6));
    std::vector<plan::Task> arrivals(tasks.begin() + static_cast<std::ptrdiff_t>(t),
                                     tasks.begin() + static_cast<std::ptrdiff_t>(t + group));
    t += group;
    const plan::BatchSchedule before = stream.schedule();
    if (rng.below(3) > 0) {
      now += static_cast<Nanos>(0.5 * rng.uniform() *
                                static_cast<double>(std::max<Nanos>(1, before.makespan)));
    }
    for (plan::Task task : arrivals) {
      task.release = std::max(task.release, now);
      if (task.deadline) task.deadline = std::max(*task.deadline, task.release);
      problem.tasks.push_back(task);
    }
    const Outlook outlook = rng.below(4) == 0 ? Outlook::last : Outlook::more;
    const auto submitted = stream.submit(std::move(arrivals), now, outlook);
    ASSERT_TRUE(submitted) << submitted.error().message;
    const plan::BatchSchedule after = stream.schedule();
    EXPECT_EQ(after.makespan, stream.makespan());
    expect_only_later_changes(before, after, now);
    if (options.replanned == 0 || options.replanned >= 30) expect_creates_are_used(after, now);
    for (const plan::Reason& violation : verify::verify(problem, after))
      ADD_FAILURE() << to_string(violation);
  }
  EXPECT_EQ(stream.schedule().tasks.size(), tasks.size());
}

TEST(Stream, RandomStreamsAreValidAndKeepWhatHasBegun) {
  Rng rng(1);
  for (int round = 0; round < test_rounds(400) && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(round);
    StreamOptions options;
    options.method = kMethods[round % 4];
    options.steps = 50;
    options.replanned = std::array{0, 4, 40}[rng.below(3)];
    try_stream(rng, round % 3 == 0, options);
  }
}

plan::BatchProblem generated(sim::Scaling scaling, sim::TimeRange range, int count,
                             std::uint64_t seed, double super_linear = 0.5) {
  const hw::GpuModel& gpu = *hw::builtin_catalogue().find("A100-80GB");
  sim::BatchRecipe recipe = sim::batch_recipe(gpu, scaling, range);
  recipe.count = count;
  recipe.super_linear = super_linear;
  plan::BatchProblem problem = *sim::generate_batch(recipe, {gpu}, {0}, seed);
  for (plan::Task& task : problem.tasks) task.name += "-" + std::to_string(seed);
  return problem;
}

// Percent by which so many batches of 10 end beyond the bound of their areas.
double excess(sim::Scaling scaling, sim::TimeRange range, const StreamOptions& options,
              int batches) {
  std::optional<OnlineScheduler> stream;
  for (int b = 1; b <= batches; ++b) {
    plan::BatchProblem problem = generated(scaling, range, 10, static_cast<std::uint64_t>(b));
    if (!stream) stream = stream_on(problem, options);
    EXPECT_TRUE(stream->submit(problem.tasks, 0, b == batches ? Outlook::last : Outlook::more));
  }
  const double bound = stream->least_area() / stream->columns();
  return 100 * (static_cast<double>(stream->makespan()) / bound - 1);
}

TEST(Stream, EveryConfigurationGainsFromStepToStep) {
  for (const sim::Scaling scaling : {sim::Scaling::poor, sim::Scaling::mixed, sim::Scaling::good}) {
    for (const sim::TimeRange range : {sim::TimeRange::wide, sim::TimeRange::narrow}) {
      StreamOptions options;
      options.steps = 300;
      double last = HUGE_VAL;
      for (const StreamMethod method : kMethods) {
        options.method = method;
        const double now = excess(scaling, range, options, 40);
        EXPECT_GT(now, -1e-9);
        if (method != StreamMethod::reverse) {
          EXPECT_LT(now, last) << to_string(method);
          last = now;
        }
      }
      EXPECT_LT(last, range == sim::TimeRange::wide ? 10 : 15);
    }
  }
}

// The aim of the last batch is mostly its end.
TEST(Stream, LastBatchEndsNoLaterThanByThePapersMethods) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const plan::BatchProblem problem = generated(sim::Scaling::good, sim::TimeRange::wide, 8, seed);
    Nanos ours = 0;
    for (const StreamMethod method : {StreamMethod::best, StreamMethod::overlap}) {
      OnlineScheduler stream = stream_on(problem, {.method = method, .steps = 200});
      EXPECT_TRUE(stream.submit(problem.tasks, 0, Outlook::last));
      if (method == StreamMethod::best) ours = stream.makespan();
      EXPECT_LE(ours, stream.makespan() + stream.makespan() / 10'000) << seed;
    }
  }
}

TEST(Stream, SameStreamSameSchedule) {
  const auto run = [] {
    const plan::BatchProblem first = generated(sim::Scaling::mixed, sim::TimeRange::wide, 10, 1);
    OnlineScheduler stream = stream_on(first, {});
    for (std::uint64_t b = 1; b <= 5; ++b) {
      const plan::BatchProblem batch = generated(sim::Scaling::mixed, sim::TimeRange::wide, 10, b);
      EXPECT_TRUE(stream.submit(batch.tasks, static_cast<Nanos>(b) * 10'000'000'000));
    }
    return stream.schedule();
  };
  EXPECT_EQ(run(), run());
}

TEST(Stream, RefusesWhatItCannotPlanAndStaysAsItWas) {
  const plan::BatchProblem problem = generated(sim::Scaling::mixed, sim::TimeRange::wide, 4, 1);
  OnlineScheduler stream = stream_on(problem, {});
  ASSERT_TRUE(stream.submit(problem.tasks, 5));
  const plan::BatchSchedule before = stream.schedule();
  plan::Task task = problem.tasks[0];
  EXPECT_FALSE(stream.submit({task}, 5));  // known
  task.name = "new";
  EXPECT_FALSE(stream.submit({task, task}, 5));
  EXPECT_FALSE(stream.submit({task}, 4));  // back in time
  task.after = {"nobody"};
  EXPECT_FALSE(stream.submit({task}, 5));
  task.after = {"new"};
  EXPECT_FALSE(stream.submit({task}, 5));  // a circle
  task.after = {};
  task.times = {{}};
  EXPECT_FALSE(stream.submit({task}, 5));  // fits nowhere
  EXPECT_EQ(stream.schedule(), before);
  task.times = problem.tasks[0].times;
  task.after = {problem.tasks[1].name};
  EXPECT_TRUE(stream.submit({task}, 5));
  EXPECT_EQ(stream.schedule().tasks.size(), 5U);
}

}  // namespace
}  // namespace partita::batch_test
