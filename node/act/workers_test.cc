// The supervisor on simulated processes, clock and files: single rules by hand, and random
// histories (crashes of workers, changes of the assignment, killed supervisors) with invariants.
#include "act/workers.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>

#include "base/clock.h"
#include "base/rng.h"
#include "base/test_rounds.h"

namespace partita::actuate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kWorkersSecond = 1'000'000'000;

AssignedSegment segment(const std::string& device, const std::string& service, int processes) {
  return {{"1g.10gb", 0}, {service, 4, processes}, device, "GPU-a"};
}

Assignment assigned(std::vector<AssignedSegment> segments) {
  Assignment assignment;
  assignment.segments = std::move(segments);
  return assignment;
}

// Dies in the middle of things: thrown out of the files door.
struct WorkersKilled {};

class DeadlyFiles final : public MemoryFiles {
 public:
  // Asked before and after each write of the state: true kills.
  std::function<bool()> dies = [] { return false; };

  Result<void> write_atomic(const std::string& path, std::string_view text) override {
    if (dies()) throw WorkersKilled{};
    Result<void> written = MemoryFiles::write_atomic(path, text);
    if (dies()) throw WorkersKilled{};
    return written;
  }
};

struct World {
  ManualClock clock;
  DeadlyFiles files;
  std::function<SimBehaviour(const ProcessSpec&)> script = [](const ProcessSpec&) {
    return SimBehaviour{};
  };
  SimProcesses processes{clock, [this](const ProcessSpec& spec) { return script(spec); }};
  std::vector<std::string> log;
  std::vector<std::string> released;
  int prepare_calls = 0;
  std::string prepares_not;           // a device
  std::vector<std::string> prepared;  // devices, in order
  bool prepares = true, releases = true, killed_in_prepare = false;
  std::string command = "worker {service} {batch} {index} {port} {processes}";
  std::string share = "50";
  std::int64_t poll_ns = WorkerPolicy{}.poll_ns;

  std::unique_ptr<Supervisor> supervisor() {
    SupervisorOptions options{.command = parse_command("c", command).value(),
                              .state_file = "/s/workers.json",
                              .log_dir = "/s/log",
                              .first_port = 8000};
    options.policy.poll_ns = options.policy.quick_poll_ns = poll_ns;
    options.hooks.prepare = [this](const AssignedSegment& s) -> Result<std::vector<Environment>> {
      ++prepare_calls;
      if (killed_in_prepare) throw WorkersKilled{};
      prepared.push_back(s.device);
      if (!prepares || s.device == prepares_not) return environment_error("mps", "no daemon");
      return std::vector<Environment>(static_cast<std::size_t>(s.processes), {{"SHARE", share}});
    };
    options.hooks.release = [this](const AssignedSegment& s) -> Result<void> {
      released.push_back(s.device);
      if (!releases) return environment_error("mps", "it stays");
      return {};
    };
    options.hooks.say = [this](const std::string& line) { log.push_back(line); };
    auto made = std::make_unique<Supervisor>(processes, files, std::move(options));
    const Result<void> recovered = made->recover(clock.now);
    EXPECT_TRUE(recovered) << to_string(recovered.error());
    return made;
  }
  // As after kill -9 of the supervisor.
  void forget(std::unique_ptr<Supervisor>& supervisor) {
    supervisor.reset();
    processes.orphan_all();
  }
  void run_for(Supervisor& supervisor, std::int64_t ns) {
    for (const std::int64_t until = clock.now + ns; clock.now <= until;)
      clock.now = supervisor.step(clock.now);
  }
  // "DEVICE/SERVICE/INDEX" of what runs, sorted.
  std::vector<std::string> running() {
    std::vector<std::string> all;
    for (const auto& [pid, process] : processes.running()) {
      all.push_back(process.spec.environment.at("CUDA_VISIBLE_DEVICES") + "/" +
                    process.spec.argv[1] + "/" + process.spec.argv[3]);
    }
    std::ranges::sort(all);
    return all;
  }
  std::set<Pid> pids() {
    std::set<Pid> all;
    for (const auto& [pid, process] : processes.running()) all.insert(pid);
    return all;
  }
};

TEST(Supervisor, starts_what_is_assigned_with_its_environment) {
  World world;
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("MIG-1", "a", 2), segment("MIG-2", "b/c d", 1)}));
  EXPECT_FALSE(supervisor->settled());
  EXPECT_LE(supervisor->step(0), kWorkersSecond);
  EXPECT_TRUE(supervisor->settled());
  EXPECT_THAT(world.running(), ElementsAre("MIG-1/a/0", "MIG-1/a/1", "MIG-2/b/c d/0"));
  const ProcessSpec spec = world.processes.running().at(1002).spec;
  EXPECT_THAT(spec.argv, ElementsAre("worker", "b/c d", "4", "0", "8002", "1"));
  EXPECT_EQ(spec.environment, (Environment{{"CUDA_VISIBLE_DEVICES", "MIG-2"},
                                           {"SHARE", "50"},
                                           {"PARTITA_WORKER", "/s/workers.json:MIG-2:0"}}));
  EXPECT_EQ(spec.log_file, "/s/log/b_c_d.MIG-2.0.log");
  EXPECT_EQ(spec.family_variable, "PARTITA_WORKER");
  const WorkersState state = parse_workers("w", world.files.content["/s/workers.json"]).value();
  EXPECT_EQ(state, supervisor->state());
  EXPECT_EQ(state.workers.at(2).pid, 1002);
}

TEST(Supervisor, leaves_alone_what_stays_and_replaces_what_changed) {
  World world;
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("MIG-1", "a", 1), segment("MIG-2", "b", 1)}));
  world.run_for(*supervisor, kWorkersSecond);
  AssignedSegment kept = segment("MIG-1", "a", 1);
  kept.throughput_rps = 99;  // is no reason
  supervisor->follow(assigned({kept, segment("MIG-2", "c", 1), segment("MIG-3", "b", 1)}));
  world.run_for(*supervisor, kWorkersSecond);
  EXPECT_THAT(world.running(), ElementsAre("MIG-1/a/0", "MIG-2/c/0", "MIG-3/b/0"));
  EXPECT_TRUE(world.pids().contains(1000));
  EXPECT_FALSE(world.pids().contains(1001));
  EXPECT_THAT(world.released, ElementsAre("MIG-2"));
}

TEST(Supervisor, kills_after_the_grace_and_only_then_gives_the_device_away) {
  World world;
  world.script = [](const ProcessSpec& spec) {
    return SimBehaviour{.heeds_terminate = spec.argv[1] != "deaf"};
  };
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("MIG-1", "deaf", 1), segment("MIG-2", "b", 1)}));
  world.run_for(*supervisor, 0);
  supervisor->follow(assigned({segment("MIG-1", "next", 1)}));
  const auto killed = [&] {
    return std::ranges::count_if(world.log, [](const std::string& line) {
      return line == "deaf 0 on MIG-1: did not end within 10.0 s; killed it";
    });
  };
  world.run_for(*supervisor, 9 * kWorkersSecond);
  EXPECT_THAT(world.running(), ElementsAre("MIG-1/deaf/0"));
  EXPECT_THAT(world.released, ElementsAre("MIG-2"));
  EXPECT_EQ(killed(), 0);
  world.run_for(*supervisor, 2 * kWorkersSecond);
  EXPECT_EQ(killed(), 1);
  EXPECT_THAT(world.log, testing::Contains(HasSubstr("deaf 0 on MIG-1: ended")));
  EXPECT_THAT(world.running(), ElementsAre("MIG-1/next/0"));

  const auto kept = [&] {
    return std::ranges::count(world.log, std::string("MIG-1: mps: it stays"));
  };
  EXPECT_EQ(kept(), 0);
  world.releases = false;
  supervisor->stop_all();
  EXPECT_FALSE(supervisor->stopped());
  world.run_for(*supervisor, kWorkersSecond);
  EXPECT_TRUE(supervisor->stopped());
  EXPECT_EQ(kept(), 1);
  EXPECT_THAT(world.running(), IsEmpty());
  EXPECT_THAT(world.released, ElementsAre("MIG-2", "MIG-1", "MIG-1"));
  EXPECT_THAT(parse_workers("w", world.files.content["/s/workers.json"])->workers, IsEmpty());
}

TEST(Supervisor, does_not_keep_what_it_has_told_to_end) {
  World world;
  world.script = [](const ProcessSpec&) { return SimBehaviour{.heeds_terminate = false}; };
  auto supervisor = world.supervisor();
  const Assignment assignment = assigned({segment("MIG-1", "a", 1)});
  supervisor->follow(assignment);
  world.run_for(*supervisor, 0);
  supervisor->follow({});
  world.run_for(*supervisor, kWorkersSecond);
  supervisor->follow(assignment);
  world.run_for(*supervisor, 11 * kWorkersSecond);
  EXPECT_THAT(world.pids(), ElementsAre(1001));
}

// First wait 1 s, doubled to at most 60 s, five quick failures, then every 300 s.
TEST(Supervisor, restarts_after_longer_and_longer_waits) {
  World world;
  std::vector<std::int64_t> starts;
  world.script = [&](const ProcessSpec&) {
    starts.push_back(world.clock.now / kWorkersSecond);
    return SimBehaviour{.run_ns = 0, .status = 3};
  };
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("MIG-1", "a", 1)}));
  world.run_for(*supervisor, 20 * kWorkersSecond);
  EXPECT_THAT(starts, ElementsAre(0, 1, 3, 7, 15));
  EXPECT_TRUE(supervisor->troubled());
  EXPECT_TRUE(supervisor->state().workers.at(0).given_up);
  EXPECT_EQ(supervisor->state().workers.at(0).last_status, 3);
  EXPECT_THAT(world.log, testing::Contains("a 0 on MIG-1: ended with status 3 after 0.2 s, starts "
                                           "again in 8.0 s"));
  EXPECT_THAT(world.log.back(), HasSubstr("starts again in 300.0 s (it keeps failing)"));
  world.script = [](const ProcessSpec&) { return SimBehaviour{.run_ns = 20 * kWorkersSecond}; };
  world.run_for(*supervisor, 330 * kWorkersSecond);
  EXPECT_FALSE(supervisor->troubled());
  EXPECT_EQ(supervisor->state().workers.at(0).quick_failures, 0);
}

TEST(Supervisor, waits_for_a_device_that_cannot_be_made_ready) {
  World world;
  world.prepares = false;
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("MIG-1", "a", 2)}));
  world.run_for(*supervisor, 5 * kWorkersSecond);
  EXPECT_THAT(world.running(), IsEmpty());
  EXPECT_THAT(world.log.back(), HasSubstr("MIG-1: mps: no daemon; tried again in 4.0 s"));
  EXPECT_EQ(world.prepare_calls, 3) << "after 1 and 2 s more";
  EXPECT_FALSE(supervisor->troubled());
  world.run_for(*supervisor, 11 * kWorkersSecond);
  EXPECT_EQ(world.prepare_calls, 5);
  EXPECT_TRUE(supervisor->troubled()) << "five times in a row";
  world.prepares = true;
  world.run_for(*supervisor, 300 * kWorkersSecond);
  EXPECT_THAT(world.running(), ElementsAre("MIG-1/a/0", "MIG-1/a/1"));
  EXPECT_FALSE(supervisor->troubled());
}

// Engines with prefill and decode on shares of their SMs: started by a command that says them, with
// no other, and kept over a restart of the supervisor.
TEST(Supervisor, starts_shares_of_sms_by_a_command_that_says_them) {
  AssignedSegment lanes = segment("MIG-1", "chat", 1);
  lanes.prefill_units = 24;
  lanes.decode_units = 74;
  AssignedSegment set = segment("MIG-2", "set", 1);
  set.held = 3;
  World world;
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({lanes, set}));
  world.run_for(*supervisor, kWorkersSecond);
  EXPECT_THAT(world.running(), ElementsAre("MIG-2/set/0"));
  EXPECT_THAT(world.log, testing::Contains(HasSubstr("chat has prefill on 24 SMs and decode on 74, "
                                                     "and the workers' command says neither")));
  world.forget(supervisor);
  world.command += " {prefill_units} {decode_percent}";
  supervisor = world.supervisor();
  supervisor->follow(assigned({lanes, set}));
  world.run_for(*supervisor, 30 * kWorkersSecond);
  EXPECT_THAT(world.running(), ElementsAre("MIG-1/chat/0", "MIG-2/set/0"));
  for (const auto& [pid, process] : world.processes.running()) {
    const std::vector<std::string>& argv = process.spec.argv;
    EXPECT_THAT(std::vector(argv.end() - 2, argv.end()),
                argv[1] == "chat" ? ElementsAre("24", "76") : ElementsAre("0", "0"));
  }
  const std::set<Pid> before = world.pids();
  world.forget(supervisor);
  supervisor = world.supervisor();
  supervisor->follow(assigned({lanes, set}));
  world.run_for(*supervisor, 30 * kWorkersSecond);
  EXPECT_EQ(world.pids(), before);
}

TEST(Supervisor, waits_for_one_device_at_a_time) {
  World world;
  world.prepares = false;
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("MIG-1", "a", 2), segment("MIG-2", "b", 2)}));
  for (int workers_step = 1; workers_step <= 2; ++workers_step) {
    EXPECT_LE(supervisor->step(0), kWorkersSecond);
    EXPECT_EQ(world.prepare_calls, workers_step);
  }
  EXPECT_THAT(world.log, ElementsAre(HasSubstr("MIG-1"), HasSubstr("MIG-2")));
}

// Making a device ready may take long: the ones that failed wait for the others.
TEST(Supervisor, tries_what_failed_last) {
  World world;
  world.prepares_not = "MIG-1";
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("MIG-1", "a", 1), segment("MIG-2", "b", 1)}));
  supervisor->step(0);
  supervisor->step(1000 * kWorkersSecond);
  EXPECT_THAT(world.prepared, ElementsAre("MIG-1", "MIG-2", "MIG-1"));
  EXPECT_THAT(world.running(), ElementsAre("MIG-2/b/0"));
}

// A worker that ran for as long as it has to is started again after the first wait, however often.
TEST(Supervisor, long_runs_are_no_failures) {
  for (const std::int64_t short_of : {0, 1}) {
    World world;
    std::vector<std::int64_t> starts;
    world.script = [&](const ProcessSpec&) {
      starts.push_back(world.clock.now);
      return SimBehaviour{.run_ns = WorkerPolicy{}.quick_ns - short_of, .status = 3};
    };
    world.poll_ns = 1;
    auto supervisor = world.supervisor();
    supervisor->follow(assigned({segment("MIG-1", "a", 1)}));
    for (int end = 0; end < 3; ++end) {
      supervisor->step(world.clock.now);
      world.clock.now = world.processes.next_end_ns().value();
      supervisor->step(world.clock.now);
      EXPECT_EQ(supervisor->state().workers.at(0).quick_failures, short_of == 0 ? 0 : end + 1);
      world.clock.now += kWorkersSecond << (short_of == 0 ? 0 : end);
    }
    EXPECT_EQ(starts.size(), 3u);
  }
}

// What makes a device ready may have died with the worker: it is asked again before the next.
TEST(Supervisor, makes_a_device_ready_again_after_an_end) {
  World world;
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("MIG-1", "a", 1)}));
  world.run_for(*supervisor, 2 * kWorkersSecond);
  EXPECT_EQ(world.prepare_calls, 1);
  world.processes.crash(1000, 1);
  world.share = "25";
  world.run_for(*supervisor, 3 * kWorkersSecond);
  EXPECT_EQ(world.prepare_calls, 2);
  EXPECT_EQ(world.processes.running().begin()->second.spec.environment.at("SHARE"), "25");
}

// Whoever is told to end has the grace to the moment, whenever it begins.
TEST(Supervisor, kills_when_the_grace_is_over) {
  World world;
  world.script = [](const ProcessSpec&) { return SimBehaviour{.heeds_terminate = false}; };
  world.poll_ns = 300'000'000;  // of which the grace is no multiple
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("MIG-1", "a", 1)}));
  supervisor->step(0);
  const std::int64_t told = 70'000'001;
  world.clock.now = told;
  supervisor->follow({});
  while (!world.pids().empty()) {
    ASSERT_LT(world.clock.now, 20 * kWorkersSecond);
    const std::int64_t next = supervisor->step(world.clock.now);
    if (world.pids().empty()) break;
    world.clock.now = next;
  }
  EXPECT_EQ(world.clock.now, told + WorkerPolicy{}.grace_ns);
}

// What could not even be started is said, and counts as a failure.
TEST(Supervisor, tries_again_what_cannot_be_started) {
  World world;
  int tries = 0;
  world.script = [&](const ProcessSpec&) {
    SimBehaviour behaviour;
    if (++tries <= 2) behaviour.refused = Error{ErrorCode::environment, "no such program", "w"};
    return behaviour;
  };
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("MIG-1", "a", 1), segment("MIG-2", "b", 0)}));
  supervisor->step(0);
  EXPECT_THAT(world.log, ElementsAre("a 0 on MIG-1: w: no such program; tried again in 1.0 s"));
  EXPECT_FALSE(supervisor->settled());
  world.run_for(*supervisor, 2 * kWorkersSecond);
  EXPECT_THAT(world.running(), IsEmpty());
  EXPECT_EQ(world.log.back(), "a 0 on MIG-1: w: no such program; tried again in 2.0 s");
  EXPECT_EQ(supervisor->state().workers.at(0).quick_failures, 2);
  world.run_for(*supervisor, 2 * kWorkersSecond);
  EXPECT_THAT(world.running(), ElementsAre("MIG-1/a/0"));
  EXPECT_EQ(supervisor->state().workers.at(0).restarts, 1);
  EXPECT_THAT(world.prepared, ElementsAre("MIG-1")) << "a segment of no process needs nothing";
  EXPECT_TRUE(supervisor->settled());
}

// One that came up only later was started again.
TEST(Supervisor, counts_a_start_after_a_failed_one) {
  World world;
  world.script = [tries = 0](const ProcessSpec&) mutable {
    SimBehaviour behaviour;
    if (++tries == 1) behaviour.refused = Error{ErrorCode::environment, "no such program", "w"};
    return behaviour;
  };
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("MIG-1", "a", 1)}));
  world.run_for(*supervisor, 2 * kWorkersSecond);
  EXPECT_THAT(world.running(), ElementsAre("MIG-1/a/0"));
  EXPECT_EQ(supervisor->state().workers.at(0).restarts, 1);
}

// What is ours by its environment alone goes, and its device is released.
TEST(Supervisor, ends_what_no_state_knows) {
  World world;
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("MIG-1", "a", 1)}));
  world.run_for(*supervisor, kWorkersSecond);
  world.forget(supervisor);
  world.files.content.clear();
  supervisor = world.supervisor();
  EXPECT_THAT(world.log, testing::Contains("worker 0 on MIG-1: process 1000 is not in the state "
                                           "file; stopping it"));
  world.run_for(*supervisor, kWorkersSecond);
  EXPECT_THAT(world.running(), IsEmpty());
  EXPECT_THAT(world.released, ElementsAre("MIG-1"));
}

// When to come again is told to the moment, however seldom anybody looks.
TEST(Supervisor, says_when_to_come_again) {
  World world;
  world.poll_ns = 1000 * kWorkersSecond;
  world.script = [](const ProcessSpec&) { return SimBehaviour{.run_ns = 0, .status = 3}; };
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("MIG-1", "a", 1)}));
  supervisor->step(0);
  world.clock.now = 5;
  EXPECT_EQ(supervisor->step(5), 5 + kWorkersSecond);
  EXPECT_EQ(world.log.back(),
            "a 0 on MIG-1: ended with status 3 after 0.0 s, starts again in 1.0 s");
  world.clock.now = 5 + kWorkersSecond;
  supervisor->step(world.clock.now);
  EXPECT_EQ(supervisor->state().workers.at(0).restarts, 1);
  supervisor->follow({});
  supervisor->step(world.clock.now);
  EXPECT_EQ(world.log.back(), "MIG-1: no worker is left");
}

// Records of one device that contradict each other are of no use: all of it begins anew.
TEST(Supervisor, does_not_keep_what_contradicts_itself) {
  for (const std::size_t other : {0, 1}) {
    World world;
    auto supervisor = world.supervisor();
    const Assignment assignment = assigned({segment("MIG-1", "a", 2)});
    supervisor->follow(assignment);
    world.run_for(*supervisor, kWorkersSecond);
    WorkersState state = supervisor->state();
    world.forget(supervisor);
    state.workers.at(other).segment.batch = 8;
    world.files.content["/s/workers.json"] = workers_json(state);
    supervisor = world.supervisor();
    supervisor->follow(assignment);
    world.run_for(*supervisor, 3 * kWorkersSecond);
    EXPECT_THAT(world.running(), ElementsAre("MIG-1/a/0", "MIG-1/a/1"));
    EXPECT_THAT(world.pids(), ElementsAre(1002, 1003)) << other;
  }
}

// What a worker leaves behind ends with it, and what its neighbour has started does not.
TEST(Supervisor, ends_what_one_of_two_leaves_behind) {
  World world;
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("MIG-1", "a", 2)}));
  world.run_for(*supervisor, kWorkersSecond);
  const auto orphan = [&](int index) {
    ProcessSpec spec = world.processes.running().at(1000 + index).spec;
    return world.processes.start(spec).value();
  };
  const Pid of_first = orphan(0), of_second = orphan(1);
  world.processes.crash(1000, 1);
  world.run_for(*supervisor, kWorkersSecond / 2);
  EXPECT_EQ(supervisor->state().workers.at(0).identity, "");
  EXPECT_NE(supervisor->state().workers.at(1).identity, "");
  EXPECT_FALSE(world.pids().contains(of_first));
  EXPECT_TRUE(world.pids().contains(of_second));
}

// Waits double from the first to the longest; what was given up is tried seldom.
TEST(Supervisor, waits_as_its_policy_says) {
  World world;
  std::vector<std::int64_t> starts;
  world.script = [&](const ProcessSpec&) {
    starts.push_back(world.clock.now / kWorkersSecond);
    return SimBehaviour{.run_ns = 0, .status = 3};
  };
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("MIG-1", "a", 1)}));
  world.run_for(*supervisor, 700 * kWorkersSecond);
  // Ends are seen 0.2 s later.
  EXPECT_THAT(starts, ElementsAre(0, 1, 3, 7, 15, 316, 616));
  EXPECT_EQ(supervisor->state().workers.at(0).restarts, 6);
  EXPECT_EQ(supervisor->state().workers.at(0).quick_failures, 7);
}

TEST(Supervisor, adopts_what_a_killed_one_left) {
  World world;
  auto supervisor = world.supervisor();
  const Assignment assignment = assigned({segment("MIG-1", "a", 2), segment("MIG-2", "b", 1)});
  supervisor->follow(assignment);
  world.run_for(*supervisor, kWorkersSecond);
  const std::set<Pid> before = world.pids();
  world.forget(supervisor);
  world.processes.crash(1001, 139);
  supervisor = world.supervisor();
  EXPECT_THAT(world.log, testing::Contains("a 0 on MIG-1: adopted, process 1000"));
  world.run_for(*supervisor, 3 * kWorkersSecond);  // also before it knows the assignment
  supervisor->follow(assignment);
  world.run_for(*supervisor, 3 * kWorkersSecond);
  EXPECT_THAT(world.running(), ElementsAre("MIG-1/a/0", "MIG-1/a/1", "MIG-2/b/0"));
  EXPECT_TRUE(world.pids().contains(1000) && world.pids().contains(1002));
  EXPECT_TRUE(supervisor->settled());
  world.processes.crash(1000, 1);
  world.run_for(*supervisor, 3 * kWorkersSecond);
  EXPECT_THAT(world.running(), ElementsAre("MIG-1/a/0", "MIG-1/a/1", "MIG-2/b/0"));
}

TEST(Supervisor, starts_anew_what_would_now_run_otherwise) {
  for (const bool other_command : {true, false}) {
    World world;
    auto supervisor = world.supervisor();
    supervisor->follow(assigned({segment("MIG-1", "a", 2)}));
    world.run_for(*supervisor, kWorkersSecond);
    world.forget(supervisor);
    if (other_command)
      world.command = "other {service} {batch} {index}";
    else
      world.share = "30";
    supervisor = world.supervisor();
    supervisor->follow(assigned({segment("MIG-1", "a", 2)}));
    world.run_for(*supervisor, kWorkersSecond);
    EXPECT_THAT(world.pids(), ElementsAre(1002, 1003));
    EXPECT_TRUE(supervisor->settled());
    EXPECT_THAT(world.log, testing::Contains(
                               "a 0 on MIG-1: runs another command or environment; restarting it"));
  }
}

TEST(Supervisor, releases_what_a_killed_one_was_making_ready) {
  World world;
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("MIG-1", "a", 2)}));
  world.killed_in_prepare = true;
  EXPECT_THROW(supervisor->step(0), WorkersKilled);
  world.forget(supervisor);
  world.killed_in_prepare = false;
  supervisor = world.supervisor();
  supervisor->follow({});
  world.run_for(*supervisor, kWorkersSecond);
  EXPECT_THAT(world.released, ElementsAre("MIG-1"));
}

TEST(Supervisor, never_touches_a_stranger_with_a_recycled_number) {
  World world;
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("MIG-1", "a", 1)}));
  world.run_for(*supervisor, kWorkersSecond);
  world.forget(supervisor);
  std::string& text = world.files.content["/s/workers.json"];
  world.processes.crash(1000, 1);
  const Pid stranger = world.processes
                           .start({.argv = {"stranger", "s", "", "0"},
                                   .environment = {{"CUDA_VISIBLE_DEVICES", "x"}}})
                           .value();
  text.replace(text.find("1000"), 4, std::to_string(stranger));
  supervisor = world.supervisor();
  supervisor->follow(assigned({}));
  world.run_for(*supervisor, 30 * kWorkersSecond);
  EXPECT_THAT(world.running(), ElementsAre("x/s/0"));
}

TEST(Supervisor, refuses_a_second_one) {
  World world;
  auto first = world.supervisor();
  Supervisor second(
      world.processes, world.files,
      {.command = parse_command("c", "w").value(), .state_file = "/s/workers.json", .log_dir = ""});
  EXPECT_EQ(second.recover(0).error().code, ErrorCode::in_use);
}

TEST(Supervisor, a_damaged_state_is_set_aside_and_its_copy_read) {
  World world;
  const Assignment wanted = assigned({segment("x", "s", 2)});
  auto first = world.supervisor();
  first->follow(wanted);
  world.run_for(*first, kWorkersSecond);
  const WorkersState before = first->state();
  const std::string whole = world.files.content.at("/s/workers.json");
  for (const bool copied : {true, false}) {
    world.forget(first);
    world.log.clear();
    world.files.content["/s/workers.json"] = "{\"kind\": \"Work";
    if (!copied) world.files.content["/s/workers.json.copy"] = whole.substr(1);
    first = world.supervisor();
    EXPECT_EQ(
        world.files.content.at(copied ? "/s/workers.json.damaged-1" : "/s/workers.json.damaged-2"),
        "{\"kind\": \"Work");
    ASSERT_FALSE(world.log.empty());
    EXPECT_THAT(world.log.front(), HasSubstr("/s/workers.json"));
    first->follow(wanted);
    world.run_for(*first, 30 * kWorkersSecond);
    EXPECT_THAT(world.running(), ElementsAre("x/s/0", "x/s/1"));
    // With a copy the workers go on; without, they are ended first: never two in one place.
    EXPECT_EQ(first->state().workers[0].pid == before.workers[0].pid, copied);
    EXPECT_EQ(first->state().workers[1].pid == before.workers[1].pid, copied);
  }
}

TEST(Supervisor, what_others_do_to_the_state_file_is_made_good) {
  World world;
  auto supervisor = world.supervisor();
  supervisor->follow(assigned({segment("x", "s", 1)}));
  world.run_for(*supervisor, kWorkersSecond);
  const std::string whole = world.files.content.at("/s/workers.json");
  for (const char* text : {"", "{"}) {
    world.files.content["/s/workers.json"] = text;
    world.run_for(*supervisor, 2 * kWorkersSecond);
    EXPECT_EQ(world.files.content.at("/s/workers.json"), whole);
  }
  world.files.content.erase("/s/workers.json");
  world.run_for(*supervisor, 2 * kWorkersSecond);
  EXPECT_EQ(world.files.content.at("/s/workers.json"), whole);
}

// ---- random histories ----

// A world in which things happen, and what must be true of it at every moment.
class History {
 public:
  explicit History(std::uint64_t seed) : rng_(seed) {
    world_.poll_ns = kWorkersSecond / 2;
    world_.script = [this](const ProcessSpec&) { return workers_behaviour(); };
    world_.files.dies = [this] { return troubled_ && chance(0.02); };
    workers_begin();
  }

  void trouble(std::int64_t ns) {
    for (const std::int64_t until = world_.clock.now + ns; world_.clock.now < until;) {
      if (chance(0.05)) assign();
      if (chance(0.05)) crash_one();
      if (chance(0.02)) world_.prepares = !world_.prepares;
      if (chance(0.02)) restart();
      workers_step();
    }
  }
  // Nothing goes wrong any more: the slowest retry, a grace, and a second.
  void calm() {
    troubled_ = false;
    world_.prepares = true;
    world_.run_for(*supervisor_, 312 * kWorkersSecond);
    std::vector<std::string> expected;
    for (const AssignedSegment& s : assignment_.segments)
      for (int i = 0; i < s.processes; ++i)
        expected.push_back(s.device + "/" + s.service + "/" + std::to_string(i));
    std::ranges::sort(expected);
    EXPECT_EQ(world_.running(), expected);
    EXPECT_TRUE(supervisor_->settled());
  }
  const std::vector<std::string>& log() const { return world_.log; }
  int deaths() const { return deaths_; }

 private:
  bool chance(double p) { return rng_.uniform() < p; }

  SimBehaviour workers_behaviour() {
    SimBehaviour workers_behaviour;
    if (!troubled_) return workers_behaviour;
    if (chance(0.05))
      workers_behaviour.refused = Error{ErrorCode::environment, "no such program", "w"};
    if (chance(0.3))
      workers_behaviour.run_ns = static_cast<std::int64_t>(rng_.below(30 * kWorkersSecond));
    workers_behaviour.status = static_cast<int>(rng_.below(3));
    workers_behaviour.heeds_terminate = chance(0.8);
    workers_behaviour.stop_ns = static_cast<std::int64_t>(rng_.below(3 * kWorkersSecond));
    return workers_behaviour;
  }

  void workers_begin() {
    while (!supervisor_) {
      try {
        supervisor_ = world_.supervisor();
      } catch (const WorkersKilled&) {
        ++deaths_;
      }
    }
    std::set<Pid> recorded;
    for (const WorkerRecord& worker : supervisor_->state().workers) recorded.insert(worker.pid);
    for (const Pid pid : world_.pids())
      if (!recorded.contains(pid)) doomed_.insert(pid);
    supervisor_->follow(assignment_);
    came_ns_ = world_.clock.now;
  }
  void restart() {
    ++deaths_;
    world_.forget(supervisor_);
    world_.clock.now += static_cast<std::int64_t>(rng_.below(5 * kWorkersSecond));
    workers_begin();
  }

  void assign() {
    assignment_ = {};
    for (const char* device : {"MIG-1", "MIG-2", "MIG-3"}) {
      if (!chance(0.7)) continue;
      const std::string service(1, static_cast<char>('a' + rng_.below(2)));
      assignment_.segments.push_back(segment(device, service, static_cast<int>(rng_.below(3))));
    }
    for (const std::string& slot : slots_)
      if (!assigned_slot(slot)) gone_ns_.try_emplace(slot, world_.clock.now);
    supervisor_->follow(assignment_);
  }
  void crash_one() {
    const std::set<Pid> pids = world_.pids();
    if (pids.empty()) return;
    world_.processes.crash(*std::next(pids.begin(), static_cast<long>(rng_.below(pids.size()))),
                           139);
  }

  void workers_step() {
    try {
      note_doomed();
      const std::set<Pid> told_before = told(), before = world_.pids();
      const std::int64_t next = supervisor_->step(world_.clock.now);
      for (const Pid pid : before)
        EXPECT_TRUE(world_.pids().contains(pid) || doomed_.contains(pid)) << pid << " was killed";
      for (const Pid pid : told())
        EXPECT_TRUE(told_before.contains(pid) || doomed_.contains(pid)) << pid << " was stopped";
      world_.clock.now = next;
      check();
    } catch (const WorkersKilled&) {
      restart();
    }
  }
  void note_doomed() {
    for (const auto& [pid, process] : world_.processes.running())
      if (!assigned_slot(slot_of(process))) doomed_.insert(pid);
  }

  // What has been asked to end and has not yet.
  std::set<Pid> told() {
    std::set<Pid> all;
    for (const auto& [pid, process] : world_.processes.running())
      if (process.ends_ns && process.status >= 128 && process.status != 139) all.insert(pid);
    return all;
  }

  static std::string slot_of(const SimProcesses::Process& process) {
    const ProcessSpec& spec = process.spec;
    return spec.environment.at("CUDA_VISIBLE_DEVICES") + "/" + spec.argv[1] + "/" + spec.argv[3] +
           "/" + spec.argv[5];
  }
  static std::string slot_of(const AssignedSegment& s, int index) {
    return s.device + "/" + s.service + "/" + std::to_string(index) + "/" +
           std::to_string(s.processes);
  }
  bool assigned_slot(const std::string& slot) const {
    return std::ranges::any_of(assignment_.segments, [&](const AssignedSegment& s) {
      for (int i = 0; i < s.processes; ++i)
        if (slot == slot_of(s, i)) return true;
      return false;
    });
  }

  void check() {
    std::set<std::string> places;
    slots_.clear();
    for (const auto& [pid, process] : world_.processes.running()) {
      EXPECT_TRUE(places.insert(process.spec.environment.at(kWorkerVariable)).second)
          << "two workers in one place";
      const std::string slot = slot_of(process);
      slots_.insert(slot);
      if (assigned_slot(slot))
        gone_ns_.erase(slot);
      else
        check_leaving(slot);
    }
    std::erase_if(gone_ns_, [&](const auto& entry) { return !slots_.contains(entry.first); });
  }
  // No longer than the grace, counted from when the supervisor could know; polls come on top.
  void check_leaving(const std::string& slot) {
    const std::int64_t since =
        std::max(gone_ns_.try_emplace(slot, world_.clock.now).first->second, came_ns_);
    EXPECT_LE(world_.clock.now - since, 11 * kWorkersSecond) << slot;
  }

  Rng rng_;
  World world_;
  std::unique_ptr<Supervisor> supervisor_;
  Assignment assignment_;
  bool troubled_ = true;
  std::int64_t came_ns_ = 0;                     // when this supervisor came
  std::set<std::string> slots_;                  // occupied after the last workers_step
  std::map<std::string, std::int64_t> gone_ns_;  // since when they should not be
  std::set<Pid> doomed_;  // may be stopped: once unassigned, or unknown to the state file
  int deaths_ = 0;
};

TEST(SupervisorHistories, keep_the_rules_and_end_as_assigned) {
  int deaths = 0;
  const auto rounds = static_cast<std::uint64_t>(test_rounds(200));
  for (std::uint64_t seed = 0; seed < rounds; ++seed) {
    History history(seed);
    history.trouble(120 * kWorkersSecond);
    history.calm();
    deaths += history.deaths();
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(deaths, static_cast<int>(rounds));
}

TEST(SupervisorHistories, are_the_same_for_the_same_seed) {
  const auto log = [](std::uint64_t seed) {
    History history(seed);
    history.trouble(60 * kWorkersSecond);
    history.calm();
    return history.log();
  };
  EXPECT_EQ(log(7), log(7));
  EXPECT_NE(log(7), log(8));
}

}  // namespace
}  // namespace partita::actuate
