// The batch executor on a simulated machine, without and with everything that can go wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/check.h"
#include "base/hash.h"
#include "base/test_rounds.h"
#include "cases.h"
#include "sim/batch.h"
#include "verify/batch.h"

namespace partita::execution_tests {
namespace {

using exec::TaskStatus;

// What the judge says of what took place, about order and places; that times are other than planned
// is the point of a real run.
std::vector<std::string> complaints(const Case& one, const BatchWorld& world) {
  const plan::BatchSchedule real = carry::realised(world.script(), world.report(), one.schedule);
  plan::BatchProblem problem = one.problem;
  for (plan::Task& task : problem.tasks) task.after.clear();  // the world watches that
  const std::set<std::string> kLegal = {"duration", "reconfiguration_time", "missing_task",
                                        "lower_bound"};
  std::vector<std::string> texts;
  for (const plan::Reason& reason : verify::verify(problem, real))
    if (!kLegal.contains(reason.constraint))
      texts.push_back(reason.constraint + ": " + reason.subject + ": " + reason.detail);
  return texts;
}

void expect_sound(const Case& one, BatchWorld& world, int deaths) {
  EXPECT_EQ(world.broken, std::vector<std::string>{});
  // After a death an instance may have been made twice, of which the report has the last time only.
  if (deaths == 0) {
    EXPECT_EQ(complaints(one, world), std::vector<std::string>{});
  }
  EXPECT_TRUE(world.processes_alive().empty());
  for (std::size_t t = 0; t < world.script().tasks.size(); ++t) {
    const exec::TaskRun& run = world.report().tasks[t];
    EXPECT_NE(run.status, TaskStatus::pending);
    EXPECT_NE(run.status, TaskStatus::running);
    EXPECT_EQ(run.status == TaskStatus::finished, run.reason.empty());
  }
}

void expect_all_finished(BatchWorld& world) {
  for (std::size_t t = 0; t < world.script().tasks.size(); ++t)
    EXPECT_EQ(world.report().tasks[t].reason, "") << world.script().tasks[t].name;
  EXPECT_EQ(world.report().count(TaskStatus::finished),
            static_cast<int>(world.script().tasks.size()));
  EXPECT_EQ(world.report().left, std::vector<std::string>{});
  EXPECT_EQ(world.instances(), std::vector<std::string>{});
}

// ---- without faults ----

// The second implementation of the same discipline: on one GPU both must agree to the nanosecond.
TEST(Execution, AgreesWithTheSimulationOfSchedules) {
  Rng rng(2);
  for (int i = 0; i < test_rounds(100); ++i) {
    const Case one =
        random_case(rng, {.most_tasks = 14, .most_gpus = 1, .timed = i % 2 == 0}, "best");
    BatchWorld world(one.problem, one.schedule, {});
    world.live_to_the_end();
    const auto report = sim::simulate(one.problem, one.schedule, {.spread = 0, .runs = 1});
    ASSERT_TRUE(report.has_value());
    for (std::size_t t = 0; t < one.problem.tasks.size(); ++t)
      EXPECT_EQ(world.report().tasks[t].end, report->tasks[t].mean_end);
  }
}

// The driver reconfigures one GPU of the node at a time, schedules assume one of each; what that
// costs is at most the reconfigurations of the others.
TEST(Execution, SeveralGpusWaitForEachOthersReconfigurationsOnly) {
  Rng rng(3);
  for (int i = 0; i < test_rounds(60); ++i) {
    const Case one = random_case(rng, {.most_tasks = 14, .most_gpus = 3}, "best");
    BatchWorld world(one.problem, one.schedule, {});
    world.live_to_the_end();
    expect_sound(one, world, 0);
    expect_all_finished(world);
    Nanos all = 0;
    for (const auto& change : one.schedule.reconfigurations) all += change.end - change.begin;
    EXPECT_LE(world.report().makespan(), one.schedule.makespan + all);
    std::vector<std::pair<Nanos, Nanos>> spans;
    for (const auto& gpu : world.report().changes)
      for (const exec::ChangeRun& change : gpu)
        if (change.status == exec::ChangeStatus::done) spans.emplace_back(change.begin, change.end);
    std::ranges::sort(spans);
    for (std::size_t s = 1; s < spans.size(); ++s) EXPECT_LE(spans[s - 1].second, spans[s].first);
  }
}

// ---- with faults ----

int below(Rng& rng, int bound) {
  return static_cast<int>(rng.below(static_cast<std::uint64_t>(bound)));
}

// Failures, hangs, stubborn processes; the same for the same task and attempt.
void make_tasks_fail(BatchWorld& world, std::uint64_t seed) {
  world.behaviour = [seed](const exec::ScriptTask& task, int attempt) {
    Rng rng = Rng(seed).split(text_hash(task.name)).split(static_cast<std::uint64_t>(attempt));
    SimBehaviour behaviour{.run_ns = task.planned.end - task.planned.begin};
    *behaviour.run_ns =
        static_cast<Nanos>(static_cast<double>(*behaviour.run_ns) * (0.5 + rng.uniform()));
    switch (below(rng, 8)) {
      case 0:
        behaviour.status = 1 + below(rng, 100);
        break;
      case 1:
        behaviour.run_ns.reset();
        behaviour.heeds_terminate = below(rng, 2) == 0;
        behaviour.stop_ns = below(rng, 20) * kSecond;
        break;
      case 2:
        behaviour.refused = Error{ErrorCode::environment, "no such program", "sh"};
        break;
      default:
        break;
    }
    return behaviour;
  };
}

void make_driver_fail(BatchWorld& world, Rng& rng, bool deaths) {
  constexpr std::array kCodes = {ErrorCode::environment, ErrorCode::timeout, ErrorCode::in_use,
                                 ErrorCode::no_room, ErrorCode::denied};
  for (int i = below(rng, 4); i > 0; --i) {
    device::Fault fault;
    fault.call = 1 + below(rng, 30);
    fault.code = kCodes[static_cast<std::size_t>(below(rng, 5))];
    fault.hang_ns = below(rng, 3) * kSecond;
    fault.after_effect = below(rng, 2) == 0;
    // Of a driver that says "no room" the answer is believed.
    if (fault.after_effect) fault.code = ErrorCode::timeout;
    fault.dies = deaths && below(rng, 2) == 0;
    world.faults.push_back(fault);
  }
}

// An instance of somebody else at the last free place of its size, if there is any.
void add_stray(drivers::sim::Machine& machine, Rng& rng) {
  const auto& model = *machine.gpus()[0].model;
  const std::vector<int> plain = hw::plain_profiles(model);
  const int profile = plain[static_cast<std::size_t>(below(rng, static_cast<int>(plain.size())))];
  const auto made = machine.create_instance(0, profile, {});
  if (made)
    CHECK(machine.create_compute(0, made->value,
                                 model.profiles[static_cast<std::size_t>(profile)].gpcs, {}));
}

std::set<std::string> devices(const drivers::sim::Machine& machine) {
  std::set<std::string> uuids;
  for (const auto& gpu : machine.gpus())
    for (const auto& instance : gpu.instances)
      for (const auto& compute : instance.compute) uuids.insert(compute.uuid);
  return uuids;
}

struct Others {
  std::set<std::string> instances;  // devices of others
  bool lost = false;
};

void add_incidents(BatchWorld& world, Rng& rng, Others& others) {
  const auto time = [&] {
    return static_cast<Nanos>(rng.uniform() * static_cast<double>(world.script().planned_makespan));
  };
  if (below(rng, 2) == 0) {
    world.incidents.push_back({time(), [&rng, &others](drivers::sim::Machine& machine) {
                                 const auto before = devices(machine);
                                 add_stray(machine, rng);
                                 for (const std::string& uuid : devices(machine))
                                   if (!before.contains(uuid)) others.instances.insert(uuid);
                               }});
  }
  if (below(rng, 2) == 0) {
    const Nanos begin = time();
    world.incidents.push_back(
        {begin, [](drivers::sim::Machine& machine) {
           for (const auto& instance : machine.gpus()[0].instances)
             if (!instance.compute.empty()) {
               const int ci = instance.compute.front().ci_id;
               static_cast<void>(machine.attach(
                   0, {.pid = 77, .name = "guest", .gi_id = instance.gi_id, .ci_id = ci}));
               return;
             }
         }});
    if (below(rng, 3) > 0)
      world.incidents.push_back({begin + below(rng, 40) * kSecond,
                                 [](drivers::sim::Machine& machine) { machine.detach(77); }});
  }
  if (below(rng, 6) == 0) {
    others.lost = true;
    world.incidents.push_back({time(), [](drivers::sim::Machine& machine) { machine.lose(0); }});
  }
  std::ranges::stable_sort(world.incidents, {}, &Incident::time);
}

// Everything that is there is named: as left, or, when a guest took it before its creation was
// noted and the program died, as in the way; whose it is cannot be known then. What is named as
// left is there.
void expect_named(const std::vector<std::string>& there, const exec::RunReport& report) {
  const auto named = [&](const std::string& instance) {
    const std::string in_the_way = instance.substr(0, instance.find(' ')) + " (gi";
    return std::ranges::any_of(
               report.left, [&](const auto& text) { return text.starts_with(instance + ":"); }) ||
           std::ranges::any_of(report.refusals, [&](const auto& text) {
             return text.find("in the way: ") != std::string::npos &&
                    text.find(in_the_way) != std::string::npos;
           });
  };
  for (const std::string& instance : there) EXPECT_TRUE(named(instance)) << instance;
  for (const std::string& left : report.left)
    EXPECT_EQ(std::ranges::count(there, left.substr(0, left.find(':'))), 1) << left;
}

// A whole run under a seed; the hash of its last life's log and what must hold.
std::uint64_t run_scenario(std::uint64_t seed) {
  SCOPED_TRACE(seed);
  Rng rng(seed);
  const Case one = random_case(
      rng, {.most_tasks = 10, .most_gpus = 1 + below(rng, 2), .timed = below(rng, 2) == 0}, "far");
  const exec::Options options{.retries = below(rng, 3)};
  BatchWorld world(one.problem, one.schedule, options, 2.0);
  Others others;
  if (below(rng, 2) == 0) make_tasks_fail(world, seed);
  if (below(rng, 2) == 0) make_driver_fail(world, rng, true);
  if (below(rng, 2) == 0) add_incidents(world, rng, others);
  if (below(rng, 2) == 0) {
    world.files.die_at = 1 + below(rng, 40);
    world.files.how = static_cast<DeathAt>(below(rng, 3));
  }
  world.downtime = below(rng, 30) * kSecond;
  const int deaths = world.live_to_the_end();
  expect_sound(one, world, deaths);
  EXPECT_FALSE(world.refused().has_value());
  const drivers::sim::Machine end = world.machine();
  const std::set<std::string> there = devices(end);
  for (const std::string& uuid : others.instances)
    EXPECT_TRUE(others.lost || there.contains(uuid)) << "an instance of others is gone";
  if (!others.lost) expect_named(world.instances(others.instances), world.report());
  return world.log_hash();
}

TEST(Execution, SurvivesWhatCanGoWrong) {
  const auto seeds = static_cast<std::uint64_t>(test_rounds(300));
  for (std::uint64_t seed = 1; seed <= seeds && !testing::Test::HasFailure(); ++seed)
    run_scenario(seed);
}

// 34358: somebody takes the place of a creation that was refused, then the program dies.
TEST(Execution, SurvivesWhatOnceWentWrong) {
  for (const std::uint64_t seed : {34358}) run_scenario(seed);
}

TEST(Execution, TheSameSeedGivesTheSameLog) {
  std::set<std::uint64_t> hashes;
  const auto seeds = static_cast<std::uint64_t>(test_rounds(40));
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::uint64_t hash = run_scenario(seed);
    EXPECT_EQ(hash, run_scenario(seed));
    hashes.insert(hash);
  }
  EXPECT_GT(hashes.size() * 8, seeds * 7);
}

// From some append on the disk is full: everything is ended and nothing left, though no record says
// so; with room again the run goes on from the records that there are.
TEST(Execution, EndsInOrderWhenTheDiskIsFull) {
  Rng rng(8);
  const Case one = random_case(rng, {.most_tasks = 7, .most_gpus = 1}, "far");
  BatchWorld whole(one.problem, one.schedule, {});
  whole.live_to_the_end();
  for (int append = 1; append < whole.files.appends; ++append) {
    BatchWorld world(one.problem, one.schedule, {});
    world.files.refuse_from = append;
    EXPECT_TRUE(world.live(false));
    const bool over = append + 1 >= whole.files.appends;  // nothing but its last record is missing
    EXPECT_EQ(world.report().interrupted, !over);
    EXPECT_TRUE(world.processes_alive().empty());
    EXPECT_EQ(world.instances(), std::vector<std::string>{});
    world.files.refuse_from = 0;
    EXPECT_TRUE(world.live(true));
    EXPECT_EQ(world.broken, std::vector<std::string>{});
    expect_all_finished(world);
  }
}

// One batch, dead at every append (before, amid, after) and before and after every driver call.
TEST(Execution, GoesOnAfterEveryDeath) {
  Rng rng(5);
  Case one = random_case(rng, {.most_tasks = 7, .most_gpus = 1, .timed = true}, "far");
  while (one.problem.tasks.size() < 5 || one.schedule.reconfigurations.size() < 4)
    one = random_case(rng, {.most_tasks = 7, .most_gpus = 1, .timed = true}, "far");
  BatchWorld whole(one.problem, one.schedule, {});
  whole.live_to_the_end();
  const int appends = whole.files.appends;
  EXPECT_GT(appends, 15);
  const int stride = std::max(1, 4 / test_rounds(4));
  int deaths = 0, expected = 0;
  const auto expect_goes_on = [&](BatchWorld& world) {
    world.downtime = deaths % 3 * 20 * kSecond;
    const int here = world.live_to_the_end();
    deaths += here;
    ++expected;
    expect_sound(one, world, here);
    expect_all_finished(world);
    for (const auto& [task, count] : world.starts) EXPECT_LE(count, 2) << task;
  };
  for (int append = 1; append <= appends; append += stride) {
    for (const DeathAt how : {DeathAt::before, DeathAt::torn, DeathAt::after}) {
      BatchWorld world(one.problem, one.schedule, {});
      world.files.die_at = append;
      world.files.how = how;
      expect_goes_on(world);
    }
  }
  const int calls = static_cast<int>(whole.script().visits.size()) * 4;
  for (int call = 1; call <= calls; call += stride) {
    for (const bool after : {false, true}) {
      BatchWorld world(one.problem, one.schedule, {});
      device::Fault fault;
      fault.call = call;
      fault.after_effect = after;
      fault.dies = true;
      world.faults = {fault};
      expect_goes_on(world);
    }
  }
  EXPECT_EQ(deaths, expected);
}

// Whatever the disk holds when it dies, until the very end of the process: no task runs twice, and
// what follows the end of the run is its report once more.
TEST(Execution, TheSameCommandNeverRunsATaskTwice) {
  Rng rng(12);
  Case one = random_case(rng, {.most_tasks = 7, .most_gpus = 1, .timed = true}, "far");
  while (one.problem.tasks.size() < 5)
    one = random_case(rng, {.most_tasks = 7, .most_gpus = 1, .timed = true}, "far");
  BatchWorld whole(one.problem, one.schedule, {});
  whole.live_to_the_end();
  const int changes = whole.files.changes;
  EXPECT_GT(changes, 15);
  for (int change = 1; change <= changes; ++change) {
    for (const DeathAt how : {DeathAt::before, DeathAt::after}) {
      if (change == changes && how == DeathAt::after) continue;  // it has ended
      SCOPED_TRACE(change);
      BatchWorld world(one.problem, one.schedule, {});
      world.files.die_at_change = change;
      world.files.how = how;
      EXPECT_EQ(world.live_to_the_end(), 1);
      expect_all_finished(world);
      for (const auto& [task, count] : world.starts) EXPECT_EQ(count, 1) << task;
    }
  }
  EXPECT_TRUE(whole.live(false));  // once it has ended the same command begins anew
  for (const auto& [task, count] : whole.starts) EXPECT_EQ(count, 2) << task;
}

}  // namespace
}  // namespace partita::execution_tests
