#include "queue/host/host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include "base/test_rounds.h"
#include "queue/host/testing/test_world.h"

namespace partita::queue {
namespace {

using test::kSec;
using test::Machine;
using test::World;

const hw::GpuModel& a100() { return *hw::builtin_catalogue().find("A100-80GB"); }

// Takes 70 s on a slice and shrinks with the size, but for 5 s.
Spec scaling(const std::string& name) {
  Spec spec{.name = name, .command = "true", .user = "anna"};
  for (const int gpcs : {1, 2, 3, 4, 7}) spec.times.push_back({gpcs, 5 + 65.0 / gpcs});
  return spec;
}

struct Bench {
  World world{a100()};
  MemoryStore store;
  Machine machine{world, store, test::config_on(a100(), 1)};
  State state(long task) { return machine.host().show(task, world.now)->task.state; }
  void finish() {
    EXPECT_TRUE(machine.run_until(world.now + 100'000 * kSec)) << "it stands still";
    EXPECT_EQ(world.faults, std::vector<std::string>());
  }
};

TEST(QueueHost, ALoneTaskGetsItsFastestSize) {
  Bench bench;
  ASSERT_TRUE(bench.machine.submit(scaling("a")));
  bench.finish();
  ASSERT_EQ(bench.world.starts.size(), 1u);
  EXPECT_EQ(bench.world.starts[0].places[0].profile, "7g.80gb");
  EXPECT_EQ(bench.state(1), State::done);
}

// What is said of a deadline before, while and after the task runs is what comes.
TEST(QueueHost, SaysWhatBecomesOfADeadline) {
  Bench bench;
  Spec late = scaling("late"), in_time = scaling("in time");
  late.deadline_s = 5;  // it takes 14 s at least
  in_time.deadline_s = 1'000;
  ASSERT_TRUE(bench.machine.submit(late));
  ASSERT_TRUE(bench.machine.submit(in_time));
  std::set<Promise> said[2];
  const Nanos begin = bench.world.now;
  const auto promise = [&](long task) {
    return bench.machine.host().show(task, bench.world.now)->deadline->promise;
  };
  for (Nanos step = 0; step < 200; ++step) {
    bench.machine.run_until(begin + step * kSec / 2);
    for (const long task : {1, 2}) said[task - 1].insert(promise(task));
  }
  bench.finish();
  EXPECT_TRUE(said[0].contains(Promise::likely_missed));
  EXPECT_FALSE(said[0].contains(Promise::likely_met));
  EXPECT_EQ(promise(1), Promise::missed);
  EXPECT_TRUE(said[1].contains(Promise::likely_met));
  EXPECT_FALSE(said[1].contains(Promise::likely_missed));
  EXPECT_EQ(promise(2), Promise::met);
  const auto all = bench.machine.host().list({.all = true, .after = 0, .most = 10}, 0);
  ASSERT_TRUE(all);
  for (const Shown& one : *all) EXPECT_EQ(one.deadline->promise, promise(one.task.id));
}

TEST(QueueHost, ABusyQueueUsesSlicesWell) {
  Bench bench;
  Spec spec{.name = "flat", .command = "true", .user = "anna", .count = 14};
  for (const int gpcs : {1, 2, 3, 4, 7}) spec.times.push_back({gpcs, 60.0});  // no use of more
  ASSERT_TRUE(bench.machine.submit(spec));
  const Nanos begin = bench.world.now;
  bench.finish();
  // Two rounds of seven, and seven creations one after the other before the first.
  EXPECT_LT(bench.world.now - begin, 125 * kSec);
}

// Who comes with one task does not wait behind all tasks of who came with many, quotas or not, and
// over a restart; of two who came with many each has what is due to them.
TEST(QueueHost, UsersTakeTurns) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "one thread, and minutes of planning";
#endif
  for (const int most : {1'000'000, 3}) {
    World world{a100()};
    MemoryStore store;
    Config config = test::config_on(a100(), 1);
    config.planning.window = 20;
    config.planning.appends = 300;
    config.planning.arrivals = 0;
    config.quotas[""].running = most;
    config.shares["carla"] = 3;
    Machine machine(world, store, config);
    const auto submit = [&](const char* user, int count) {
      Spec spec{.name = "flat", .command = "true", .user = user, .count = count};
      for (const int gpcs : {1, 2, 3, 4, 7}) spec.times.push_back({gpcs, 60.0});
      ASSERT_TRUE(machine.submit(spec));
      machine.run_until(world.now);
    };
    const auto begun = [&](std::string_view user, std::size_t from) {
      return std::count_if(world.starts.begin() + static_cast<long>(from), world.starts.end(),
                           [&](const Task& task) { return task.spec.user == user; });
    };
    submit("mallory", 300);
    machine.run_until(world.now + 300 * kSec);
    if (most == 3) machine.revive();
    const std::size_t before = world.starts.size();
    EXPECT_GT(before, 10u);
    submit("anna", 1);
    machine.run_until(world.now + 130 * kSec);  // what runs ends, and once more
    EXPECT_EQ(begun("anna", before), 1) << most;
    EXPECT_EQ(world.faults, std::vector<std::string>());
    if (most == 3) continue;  // that each may have
    submit("anna", 200);
    submit("carla", 200);
    const std::size_t rivals = world.starts.size();
    machine.run_until(world.now + 1'200 * kSec);
    const auto mallory = begun("mallory", rivals), anna = begun("anna", rivals),
               carla = begun("carla", rivals);
    EXPECT_GE(anna, mallory) << "who has had much lately waits more";
    EXPECT_GE(mallory, 4);
    EXPECT_NEAR(static_cast<double>(carla), 3.0 * static_cast<double>(anna), 28);
    EXPECT_GE(anna, 10);
  }
}

// What others have is kept free of, and used once they have it no longer.
TEST(QueueHost, OthersComeAndGo) {
  Bench bench;
  const Place half{{"4g.40gb", 0}, 0, ""};
  bench.machine.host().others({half});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(bench.machine.submit(scaling("a")));
  bench.finish();
  for (const Task& task : bench.world.starts) EXPECT_GE(task.places[0].start, 4) << task.id;
  bench.machine.host().others({});
  ASSERT_TRUE(bench.machine.submit(scaling("b")));
  bench.finish();
  EXPECT_EQ(bench.world.starts.back().places[0].profile, "7g.80gb");
}

// What ran on a GPU that is lost begins on the other, though nobody retries it, whether it fails
// by that or hangs; an instance that was idle there is not used, but by who begins before anybody
// has looked, and fails. What fails by itself has failed.
TEST(QueueHost, WhatRanOnALostGpuIsLostAndBeginsElsewhere) {
  for (const bool hangs : {false, true}) {
    World world{a100()};
    MemoryStore store;
    Machine machine(world, store, test::config_on(a100(), 2));
    Spec spec{.name = "long", .command = "true", .user = "anna", .profiles = {"3g.40gb"}};
    spec.times = {{0, 600}};
    spec.count = 4;
    ASSERT_TRUE(machine.submit(spec));
    Spec brief = spec;
    brief.count = 1, brief.profiles = {"1g.10gb"}, brief.times = {{0, 1}};
    ASSERT_TRUE(machine.submit(brief));
    world.status = [](const Task& task) { return task.id == 4 ? 3 : 0; };
    machine.run_until(world.now + 30 * kSec);
    ASSERT_EQ(world.starts.size(), 5U);
    const int gpu = world.starts.back().places[0].gpu;  // where one is idle now
    long lost = 0;
    for (const Task& task : world.starts) lost += task.places[0].gpu == gpu && task.id < 4 ? 1 : 0;
    ASSERT_GT(lost, 0);
    world.lose(gpu, hangs);
    ASSERT_TRUE(machine.submit(brief));
    machine.host().turn(world.now);
    EXPECT_EQ(world.starts.back().places[0].gpu, gpu);
    world.others = {{{"7g.80gb", 0}, gpu, ""}};
    machine.host().saw(world.look());
    ASSERT_TRUE(machine.submit(brief));
    EXPECT_TRUE(machine.run_until(world.now + 10'000 * kSec)) << "it stands still";
    EXPECT_EQ(world.faults, std::vector<std::string>());
    long told = 0;
    for (const auto& [key, run] : store.all_runs) {
      const bool there = run.places[0].gpu == gpu;
      told += run.outcome == "lost" && there ? 1 : 0;
      EXPECT_TRUE(run.outcome == "lost" ? there
                                        : run.outcome == (run.task == 4 ? "failed" : "done"))
          << run.outcome;
    }
    EXPECT_GE(told, lost + 1);  // who began too late
    EXPECT_LE(told, lost + 2);  // task 4 may have been there, too
    for (long id = 1; id <= 7; ++id)
      EXPECT_EQ(machine.host().show(id, world.now)->task.state,
                id == 4 ? State::failed : State::done)
          << id;
  }
}

// The same while the queue was down.
TEST(QueueHost, WhatRanOnAGpuThatWasLostMeanwhileIsLostAndBeginsElsewhere) {
  for (const bool hangs : {false, true}) {
    World world{a100()};
    MemoryStore store;
    Machine machine(world, store, test::config_on(a100(), 2));
    Spec spec{.name = "long", .command = "true", .user = "anna", .profiles = {"3g.40gb"}};
    spec.times = {{0, 600}};
    spec.count = 4;
    ASSERT_TRUE(machine.submit(spec));
    machine.run_until(world.now + 30 * kSec);
    ASSERT_EQ(world.starts.size(), 4U);
    world.orphan();  // from here on nobody hears of an end
    world.now += 10 * kSec;
    for (auto& [pid, process] : world.processes)  // one fails by itself, one is done
      if (process.task.places[0].gpu == 0)
        process.ends = world.now, process.code = process.task.places[0].start == 0 ? 3 : 0;
    world.now += kSec;
    world.lose(1, hangs);
    world.others = {{{"7g.80gb", 0}, 1, ""}};
    machine.revive();
    EXPECT_TRUE(machine.run_until(world.now + 10'000 * kSec)) << "it stands still";
    EXPECT_EQ(world.faults, std::vector<std::string>());
    std::map<std::string, int> outcomes;
    for (const auto& [key, run] : store.all_runs) {
      ++outcomes[run.outcome];
      EXPECT_EQ(run.outcome == "lost", run.places[0].gpu == 1) << run.task;
    }
    EXPECT_EQ(outcomes, (std::map<std::string, int>{{"done", 3}, {"failed", 1}, {"lost", 2}}));
  }
}

// A task that takes its GPU with it, wherever it begins, fails some day.
TEST(QueueHost, WhoLosesItsInstanceAgainAndAgainFails) {
  Bench bench;
  Spec spec{.name = "long", .command = "true", .user = "anna", .profiles = {"7g.80gb"}};
  spec.times = {{0, 600}};
  ASSERT_TRUE(bench.machine.submit(spec));
  for (int times = 0; times < 20 && bench.machine.host().queue().tasks().size() > 0; ++times) {
    bench.machine.run_until(bench.world.now + 60 * kSec);
    bench.world.lose(0);  // and it is back at once
    bench.machine.run_until(bench.world.now + 60 * kSec);
  }
  EXPECT_EQ(bench.state(1), State::failed);
  const auto runs = *bench.machine.host().runs(1);
  EXPECT_EQ(runs.size(), 4U);
  for (const queue::Run& run : runs) EXPECT_EQ(run.outcome, "lost");
}

// A queue that has seen poor scalers come again and again leaves room, also after a restart.
TEST(QueueHost, ATaskThatWaitsForWhatOthersHaveSaysSo) {
  Bench bench;
  bench.machine.host().others({Place{{"7g.80gb", 0}, 0, ""}});
  ASSERT_TRUE(bench.machine.submit(scaling("a")));
  bench.machine.run_until(bench.world.now + 10 * kSec);
  const auto why = [&] { return bench.machine.host().show(1, bench.world.now)->why; };
  EXPECT_NE(why().find("others have every place"), std::string::npos) << why();
  bench.machine.host().others({});
  bench.machine.run_until(bench.world.now + kSec);
  EXPECT_EQ(why(), "");
  bench.finish();
}

TEST(QueueHost, WhatCameIsRememberedOverARestart) {
  Bench bench;
  Spec spec{.name = "poor", .command = "true", .user = "anna"};
  for (const int gpcs : {1, 2, 3, 4, 7}) spec.times.push_back({gpcs, 60.0 - 2 * gpcs});
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(bench.machine.submit(spec));
    bench.machine.run_until(bench.world.now + 10 * kSec);
  }
  bench.machine.run_until(bench.world.now + 2 * kSec);
  const std::string kept = bench.world.starts.back().places[0].profile;
  bench.machine.revive();
  ASSERT_TRUE(bench.machine.submit(spec));
  bench.finish();
  EXPECT_EQ(kept, "1g.10gb");
  EXPECT_EQ(bench.world.starts.back().places[0].profile, "1g.10gb");
}

TEST(QueueHost, DependenciesDecideWhoRuns) {
  Bench bench;
  bench.world.status = [](const Task& task) { return task.spec.name == "bad" ? 3 : 0; };
  ASSERT_TRUE(bench.machine.submit(scaling("good")));  // 1
  ASSERT_TRUE(bench.machine.submit(scaling("bad")));   // 2
  const auto after = [&](long task, Dependency::Kind kind) {
    Spec spec = scaling("after");
    spec.after = {{task, kind}};
    EXPECT_TRUE(bench.machine.submit(spec));
  };
  after(1, Dependency::Kind::ok);      // 3 runs
  after(2, Dependency::Kind::ok);      // 4 does not
  after(2, Dependency::Kind::any);     // 5 runs
  after(2, Dependency::Kind::not_ok);  // 6 runs
  after(1, Dependency::Kind::not_ok);  // 7 does not
  after(4, Dependency::Kind::any);     // 8 runs: 4 has ended, as skipped
  bench.finish();
  const State wanted[] = {State::done, State::failed, State::done,    State::skipped,
                          State::done, State::done,   State::skipped, State::done};
  for (long task = 1; task <= 8; ++task) EXPECT_EQ(bench.state(task), wanted[task - 1]) << task;
  std::map<long, long> began, ended;
  for (const auto& [key, run] : bench.store.all_runs)
    began[run.task] = run.began_ms, ended[run.task] = run.ended_ms;
  EXPECT_GE(began[3], ended[1]);
  EXPECT_GE(began[5], ended[2]);
  EXPECT_GE(began[6], ended[2]);
}

// What has ended is out of the brain, and asked of the store: for who comes after it, too, and
// over a restart.
TEST(QueueHost, WhatComesAfterATaskThatEndedLongAgo) {
  Bench bench;
  bench.world.status = [](const Task& task) { return task.spec.name == "bad" ? 3 : 0; };
  ASSERT_TRUE(bench.machine.submit(scaling("good")));  // 1
  ASSERT_TRUE(bench.machine.submit(scaling("bad")));   // 2
  bench.finish();
  EXPECT_TRUE(bench.machine.host().queue().tasks().empty());
  using Kind = Dependency::Kind;
  const std::pair<Dependency, State> wanted[] = {{{1, Kind::ok}, State::done},
                                                 {{2, Kind::ok}, State::skipped},
                                                 {{2, Kind::any}, State::done},
                                                 {{2, Kind::not_ok}, State::done},
                                                 {{1, Kind::not_ok}, State::skipped}};
  for (const auto& [dependency, state] : wanted) {
    bench.machine.revive();
    Spec spec = scaling("after");
    spec.after = {dependency};
    ASSERT_TRUE(bench.machine.submit(spec));
    bench.finish();
    EXPECT_EQ(bench.state(bench.store.tasks.rbegin()->first), state);
  }
  Spec nobody = scaling("after");
  nobody.after = {{77}};
  EXPECT_EQ(bench.machine.submit(nobody).error().code, ErrorCode::bad_input);
  EXPECT_EQ(bench.machine.ask(Asked::What::cancel, 77).error().code, ErrorCode::not_found);
  EXPECT_EQ(bench.machine.ask(Asked::What::cancel, 1).error().code, ErrorCode::bad_input);
  EXPECT_EQ(bench.machine.host().list({}, bench.world.now)->size(), 0u);
  const auto all = *bench.machine.host().list({.all = true}, bench.world.now);
  ASSERT_EQ(all.size(), 7u);
  const auto page = *bench.machine.host().list({true, all[2].task.id, 3}, bench.world.now);
  EXPECT_EQ(page, std::vector(all.begin() + 3, all.begin() + 6));
}

TEST(QueueHost, RetriesLimitsAndCancellations) {
  Bench bench;
  bench.world.status = [](const Task& task) {
    return task.spec.name == "third" && task.attempts < 3 ? 1 : 0;
  };
  bench.world.factor = [](const Task& task) { return task.spec.name == "long" ? 100.0 : 1.0; };
  Spec third = scaling("third");
  third.retries = 2;
  ASSERT_TRUE(bench.machine.submit(third));
  Spec slow = scaling("long");
  slow.time_limit_s = 200;
  slow.priority = 5;  // it has its turn before the other that takes long
  ASSERT_TRUE(bench.machine.submit(slow));
  ASSERT_TRUE(bench.machine.submit(scaling("long")));
  Spec held = scaling("held");
  held.held = true;
  ASSERT_TRUE(bench.machine.submit(held));
  bench.machine.run_until(bench.world.now + 400 * kSec);
  EXPECT_EQ(bench.state(2), State::failed);
  EXPECT_EQ(bench.machine.host().runs(2)->front().outcome, "timed out");
  EXPECT_EQ(bench.state(3), State::running);
  EXPECT_EQ(bench.state(4), State::held);
  ASSERT_TRUE(bench.machine.ask(Asked::What::cancel, 3));
  ASSERT_TRUE(bench.machine.ask(Asked::What::release, 4));
  EXPECT_FALSE(bench.machine.ask(Asked::What::hold, 2));
  bench.finish();
  EXPECT_EQ(bench.state(1), State::done);
  EXPECT_EQ(bench.machine.host().runs(1)->size(), 3u);
  EXPECT_EQ(bench.state(3), State::cancelled);
  EXPECT_EQ(bench.state(4), State::done);
}

// A time limit holds although the clock was set back by a day while the queue was away.
TEST(QueueHost, AClockThatWasSetBack) {
  Bench bench;
  bench.world.factor = [](const Task&) { return 1'000.0; };
  Spec spec = scaling("stuck");
  spec.time_limit_s = 200;
  ASSERT_TRUE(bench.machine.submit(spec));
  bench.machine.run_until(bench.world.now + 100 * kSec);
  EXPECT_EQ(bench.state(1), State::running);
  bench.world.now -= 24L * 3'600 * kSec;
  bench.machine.revive();
  bench.machine.run_until(bench.world.now + 300 * kSec);
  EXPECT_EQ(bench.state(1), State::failed);
  EXPECT_EQ(bench.machine.host().runs(1)->front().outcome, "timed out");
  bench.world.factor = [](const Task&) { return 1.0; };
  ASSERT_TRUE(bench.machine.submit(scaling("after")));
  bench.finish();
  EXPECT_EQ(bench.state(2), State::done);
}

TEST(QueueHost, AnUrgentTaskIsUrgentThoughTheClockWasSetBack) {
  Bench bench;
  Spec low{.name = "low", .command = "true", .user = "anna", .profiles = {"7g"}};
  low.times = {{7, 5'000}};
  low.preemptible = true;
  ASSERT_TRUE(bench.machine.submit(low));
  bench.machine.run_until(bench.world.now + 10 * kSec);
  Spec high = scaling("high");
  high.priority = 3;
  ASSERT_TRUE(bench.machine.submit(high));
  bench.machine.run_until(bench.world.now + 10 * kSec);
  bench.world.now -= 3'600 * kSec;
  for (auto& [pid, process] : bench.world.processes) process.ends -= 3'600 * kSec;
  bench.machine.revive();
  bench.machine.run_until(bench.world.now + 150 * kSec);
  EXPECT_EQ(bench.state(2), State::done);
}

TEST(QueueHost, AnUrgentTaskMayEndAPreemptibleOne) {
  Bench bench;
  Spec low{.name = "low", .command = "true", .user = "anna", .profiles = {"7g"}};
  low.times = {{7, 5'000}};
  low.preemptible = true;
  low.checkpoint = "save";
  ASSERT_TRUE(bench.machine.submit(low));
  bench.machine.run_until(bench.world.now + 10 * kSec);
  Spec high = scaling("high");
  high.priority = 3;
  ASSERT_TRUE(bench.machine.submit(high));
  const Nanos begin = bench.world.now;
  bench.machine.run_until(begin + 100 * kSec);
  EXPECT_EQ(bench.world.saves, 1);
  EXPECT_EQ(bench.state(2), State::done);  // patience is 60 s
  bench.finish();
  EXPECT_EQ(bench.state(1), State::done);
  EXPECT_EQ(bench.machine.host().runs(1)->front().outcome, "preempted");
}

TEST(QueueHost, ACheckpointThatHangsIsGivenUp) {
  Bench bench;
  bench.world.save_hangs = true;
  Spec low{.name = "low", .command = "true", .user = "anna", .profiles = {"7g"}};
  low.times = {{7, 5'000}};
  low.preemptible = true;
  low.checkpoint = "save";
  ASSERT_TRUE(bench.machine.submit(low));
  bench.machine.run_until(bench.world.now + 10 * kSec);
  Spec high = scaling("high");
  high.priority = 3;
  ASSERT_TRUE(bench.machine.submit(high));
  bench.machine.run_until(bench.world.now + 600 * kSec);
  EXPECT_EQ(bench.state(1), State::running);
  EXPECT_EQ(bench.world.saving, std::set<long>{1});
  bench.machine.run_until(bench.world.now + 200 * kSec);
  EXPECT_EQ(bench.state(2), State::done);
  EXPECT_TRUE(bench.world.saving.empty());
  // It ends by itself while it is saved: nobody saves any longer.
  ASSERT_TRUE(bench.machine.submit(high));
  bench.machine.run_until(bench.world.now + 100 * kSec);
  ASSERT_EQ(bench.world.saving, std::set<long>{1});
  ASSERT_TRUE(bench.machine.ask(Asked::What::cancel, 1));
  bench.finish();
  EXPECT_TRUE(bench.world.saving.empty());
  EXPECT_EQ(bench.state(3), State::done);
  EXPECT_TRUE(bench.world.faults.empty());
}

TEST(QueueHost, TimesAreLearned) {
  Bench bench;
  bench.world.factor = [](const Task&) { return 1; };
  Spec spec{.name = "x", .command = "true", .user = "anna", .count = 5};
  ASSERT_TRUE(bench.machine.submit(spec));  // nobody knows how long: the world says a second
  bench.finish();
  ASSERT_FALSE(bench.store.times.empty());
  for (const auto& [key, stats] : bench.store.times) EXPECT_NEAR(stats.mean_s, 1, 0.01);
}

// 40 W while it runs, of which an instance says so many joules since some time.
// It took what it took, however long the queue was away.
TEST(QueueHost, WhatEndsWhileTheQueueIsAway) {
  Bench bench;
  Spec spec{.name = "hour", .command = "true", .user = "anna", .profiles = {"7g"}};
  spec.times = {{7, 100}};
  ASSERT_TRUE(bench.machine.submit(spec));
  bench.machine.run_until(bench.world.now + 10 * kSec);
  ASSERT_EQ(bench.state(1), State::running);
  bench.world.now += 3'600 * kSec;
  bench.machine.revive();
  bench.finish();
  ASSERT_EQ(bench.state(1), State::done);
  const queue::Run run = bench.machine.host().runs(1)->front();
  EXPECT_EQ(run.ended_ms - run.began_ms, 100'000);
}

TEST(QueueHost, JoulesOfEachRun) {
  World world{a100()};
  MemoryStore store;
  const auto joules = [&](const std::string&) {
    return std::optional(40e-9 * static_cast<double>(world.now - test::kEpoch));
  };
  // Of CPUs and memory 9 W, of which 2 W idle; whoever measures began with the attempt.
  const auto of_host = [&](long, int) {
    return std::optional(HostDoors::OfHost{540, 120});
  };
  const Config config = test::config_on(a100(), 1);
  auto host = *Host::open(config, {store, world, world, joules, of_host}, world.now);
  Spec spec{.name = "x", .command = "true", .user = "anna"};
  spec.times = {{0, 60}};
  ASSERT_TRUE(host->submit(spec, world.now));
  const auto create = host->next_call();
  ASSERT_TRUE(create);
  host->call_done(*create, world.create(create->place), world.now += kSec);
  host->turn(world.now);
  ASSERT_EQ(world.starts.size(), 1u);
  host->turn(world.now += 60 * kSec);
  ASSERT_EQ(host->runs(1)->size(), 1u);
  ASSERT_TRUE(host->runs(1)->front().energy_j);
  EXPECT_NEAR(*host->runs(1)->front().energy_j, 40 * 60, 1e-3);
  EXPECT_EQ(host->runs(1)->front().host_energy_j, 540);
  EXPECT_EQ(host->runs(1)->front().host_idle_j, 120);
  // Who comes after a kill has not seen it begin.
  ASSERT_TRUE(host->submit(spec, world.now));
  host->turn(world.now);
  ASSERT_EQ(world.starts.size(), 2u);
  host = *Host::open(config, {store, world, world, joules, of_host}, world.now);
  host->turn(world.now += 60 * kSec);
  ASSERT_EQ(host->runs(2)->size(), 1u);
  EXPECT_FALSE(host->runs(2)->front().energy_j);
  EXPECT_FALSE(host->runs(2)->front().host_energy_j);
}

TEST(QueueHost, AFullDiskTakesNothingInAndLosesNothing) {
  Bench bench;
  ASSERT_TRUE(bench.machine.submit(scaling("a")));
  bool full = true;
  bench.store.fault = [&]() -> Result<void> {
    if (full) return failed({ErrorCode::environment, "no room", "queue.db"});
    return {};
  };
  const auto refused = bench.machine.submit(scaling("b"));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("no room"), std::string::npos);
  bench.machine.run_until(bench.world.now + 300 * kSec);
  full = false;
  ASSERT_TRUE(bench.machine.submit(scaling("c")));
  bench.finish();
  EXPECT_EQ(bench.store.tasks.size(), 2u);
  for (const auto& [id, task] : bench.store.tasks) EXPECT_EQ(task.state, State::done);
}

// Random submissions, refusals of the driver, full disks, and the queue killed at any moment,
// between any two deeds: nothing that was answered is lost, nothing runs twice.
void kill_it(std::uint64_t seed, bool reboots) {
  World world{a100()};
  world.rng = Rng(seed).split(2);
  Rng rng = Rng(seed).split(1);
  MemoryStore store;
  bool full = false;
  store.fault = [&]() -> Result<void> {
    world.may_crash();
    if (full) return failed({ErrorCode::environment, "no room", "queue.db"});
    return {};
  };
  Machine machine(world, store, test::config_on(a100(), 1 + static_cast<int>(seed % 2)));
  machine.on_revival = [&] {
    world.until_crash = 1 + static_cast<long>(rng.below(60));
    if (reboots && rng.below(4) == 0) world.reboot();
  };
  world.until_crash = 10;
  world.refusals = 0.05;
  std::set<long> answered;
  for (int i = 0; i < 30; ++i) {
    Spec spec = scaling(fmt::format("t{}", rng.below(5)));
    for (KnownTime& known : spec.times) known.time_s *= 0.01 + rng.uniform();
    spec.retries = 1'000;
    if (rng.below(4) == 0) spec.count = 3;
    if (rng.below(4) == 0) spec.profiles = {rng.below(2) == 0 ? "1g.20gb" : "1g.10gb+me"};
    if (rng.below(4) == 0) {
      spec.profiles = {rng.below(2) == 0 ? "1g.20gb" : "2g"};
      spec.gpus = 2;
    }
    if (seed % 2 == 1 && rng.below(6) == 0) {  // there are two of them
      spec.profiles = {rng.below(2) == 0 ? "1g.10gb+me" : "7g"};
      spec.gpus = 2;
    }
    if (!answered.empty() && rng.below(4) == 0)
      spec.after = {{*answered.rbegin(), Dependency::Kind::any}};
    full = rng.below(6) == 0;
    if (const auto tasks = machine.submit(spec)) {
      for (const Task& task : *tasks) answered.insert(task.id);
    }
    machine.run_until(world.now + static_cast<Nanos>(rng.below(20)) * kSec);
  }
  full = false;
  ASSERT_TRUE(machine.run_until(world.now + 1'000'000 * kSec)) << "it stands still";
  EXPECT_EQ(world.faults, std::vector<std::string>());
  EXPECT_GT(machine.crashes(), 5);
  for (const long id : answered) ASSERT_TRUE(store.tasks.contains(id)) << id;
  for (const auto& [id, task] : store.tasks) {
    EXPECT_EQ(task.state, State::done) << id << " " << task.reason;
    EXPECT_EQ(world.completed[id], 1) << id;
  }
}

TEST(QueueHost, SeveralGpusBeginTogether) {
  World world{a100()};
  MemoryStore store;
  Machine machine(world, store, test::config_on(a100(), 4));
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(machine.submit(scaling("small")));
  Spec whole = scaling("whole");
  whole.gpus = 4;
  ASSERT_TRUE(machine.submit(whole));  // 13
  Spec slices = scaling("slices");
  slices.gpus = 3;
  slices.profiles = {"2g"};
  ASSERT_TRUE(machine.submit(slices));  // 14
  Spec many = scaling("many");
  many.gpus = 5;
  const auto refused = machine.submit(many);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().context, "gpus");
  EXPECT_TRUE(machine.run_until(world.now + 10'000 * kSec));
  EXPECT_EQ(world.faults, std::vector<std::string>());
  for (const Task& task : world.starts) {
    EXPECT_EQ(task.places.size(), at(task.spec.gpus));
    if (task.id != 13) continue;
    std::set<int> gpus;
    for (const Place& place : task.places) gpus.insert(place.gpu);
    EXPECT_EQ(gpus.size(), 4u);
  }
  EXPECT_EQ(world.completed.size(), 14u);
}

TEST(QueueHost, QuotasAndSharesCountEveryInstance) {
  World world{a100()};
  MemoryStore store;
  Config config = test::config_on(a100(), 4);
  config.quotas["anna"] = {.running = 3};
  Machine machine(world, store, config);
  Spec two = scaling("two");
  two.gpus = 2;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(machine.submit(two));
  Spec four = two;
  four.gpus = 4;
  EXPECT_FALSE(machine.submit(four));
  EXPECT_TRUE(machine.run_until(world.now + 10'000 * kSec));
  EXPECT_EQ(world.faults, std::vector<std::string>());
  long began = 0, ended = 0;
  for (const auto& [key, run] : store.all_runs) {
    if (run.task == 1) ended = run.ended_ms;
    if (run.task == 2) began = run.began_ms;
  }
  EXPECT_GE(began, ended);  // four at once are more than three
  // Two runs of two whole GPUs of seven columns.
  EXPECT_NEAR(store.usage.at("anna").slice_s, 2 * 2 * 7 * (5 + 65.0 / 7), 1);
}

// Nobody alone takes all places of the queue, whatever is said of others.
TEST(QueueHost, AUserHasAPartOfItsPlaces) {
  World world{a100()};
  MemoryStore store;
  Config config = test::config_on(a100(), 1);
  config.quotas["anna"] = {.running = 3};
  config.most_tasks["bob"] = 2;
  Machine machine(world, store, config);
  Spec many = scaling("many");
  many.held = true;
  many.user = "bob";
  many.count = 3;
  EXPECT_FALSE(machine.submit(many));
  many.count = 2;
  EXPECT_TRUE(machine.submit(many));
  many.count = kMaxArray;
  many.user = "anna";
  EXPECT_TRUE(machine.submit(many));
  many.count = 1;
  EXPECT_FALSE(machine.submit(many));
  many.user = "carl";
  EXPECT_TRUE(machine.submit(many));
}

// A GPU has room for seven of a slice, for four of these, and has its media extensions once.
TEST(QueueHost, EveryProfileOfTheBoard) {
  Bench bench;
  Spec spec{.name = "x", .command = "true", .user = "anna", .count = 4};
  spec.times = {{1, 100}};
  spec.profiles = {"1g.20gb"};
  ASSERT_TRUE(bench.machine.submit(spec));
  const Nanos begin = bench.world.now;
  bench.finish();
  EXPECT_LT(bench.world.now - begin, 110 * kSec);  // all at once
  spec.profiles = {"1g.10gb+me"};
  spec.count = 3;
  ASSERT_TRUE(bench.machine.submit(spec));
  spec.profiles = {"1g.10gb"};
  ASSERT_TRUE(bench.machine.submit(spec));
  const Nanos then = bench.world.now;
  bench.finish();
  EXPECT_GT(bench.world.now - then, 300 * kSec);  // one after the other, the others beside them
  EXPECT_LT(bench.world.now - then, 310 * kSec);
}

TEST(QueueHost, KilledAtAnyMoment) {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(test_rounds(6)); ++seed) {
    SCOPED_TRACE(seed);
    kill_it(seed, false);
    kill_it(seed, true);
  }
}

}  // namespace
}  // namespace partita::queue
