// The processes door on real small programs, and its simulated twin on a clock.
#include "base/processes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/files.h"
#include "base/hash.h"
#include "base/testing/test_without_input.h"

namespace partita {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kMs = 1'000'000;

class Scratch {
 public:
  Scratch() {
    char name[] = "/tmp/processes_test.XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Waits at most two seconds until `done` holds.
template <class Condition>
bool eventually(Condition done) {
  RealClock clock;
  for (int i = 0; i < 1000; ++i) {
    if (done()) return true;
    clock.sleep_ns(2 * kMs);
  }
  return false;
}

int status_of(RealProcesses& processes, Pid pid) {
  std::vector<ProcessExit> exits;
  EXPECT_TRUE(eventually([&] { return !(exits = processes.exited()).empty(); }));
  EXPECT_EQ(exits.size(), 1u);
  EXPECT_EQ(exits.at(0).pid, pid);
  return exits.at(0).status;
}

TEST(RealProcesses, tell_of_each_end_once) {
  RealProcesses processes;
  for (const auto& [argv, status] :
       std::vector<std::pair<std::vector<std::string>, int>>{{{"true"}, 0},
                                                             {{"false"}, 1},
                                                             {{"sh", "-c", "exit 42"}, 42},
                                                             {{"sh", "-c", "kill -9 $$"}, 137}}) {
    const Result<Pid> pid = processes.start({.argv = argv});
    ASSERT_TRUE(pid) << to_string(pid.error());
    EXPECT_EQ(status_of(processes, *pid), status) << argv.back();
    EXPECT_FALSE(processes.alive(*pid));
    EXPECT_THAT(processes.exited(), IsEmpty());
    EXPECT_TRUE(processes.stop(*pid, StopSignal::kill));
  }
}

// Whatever we ignore or block, a program begins in a session of its own, and each signal ends it.
TEST(RealProcesses, begin_with_signals_as_they_are) {
  RealProcesses processes;
  for (const auto& [name, number] : {std::pair{"HUP", SIGHUP}, {"TERM", SIGTERM}}) {
    for (const bool blocked : {false, true}) {
      sigset_t set, before;
      sigemptyset(&set);
      sigaddset(&set, number);
      if (blocked) ::sigprocmask(SIG_BLOCK, &set, &before);
      const auto handler = blocked ? SIG_ERR : ::signal(number, SIG_IGN);
      const auto pid =
          processes.start({.argv = {"sh", "-c", std::string("kill -") + name + " $$; exit 3"}});
      ASSERT_TRUE(pid);
      EXPECT_EQ(::getsid(static_cast<pid_t>(*pid)), *pid);
      EXPECT_EQ(status_of(processes, *pid), 128 + number) << name;
      if (blocked)
        ::sigprocmask(SIG_SETMASK, &before, nullptr);
      else
        ::signal(number, handler);
    }
  }
}

TEST(RealProcesses, hand_over_environment_input_directory_and_log) {
  const Scratch scratch;
  RealProcesses processes;
  RealFiles files;
  ASSERT_TRUE(files.append(scratch / "log", "before\n"));
  const Result<Pid> pid =
      processes.start({.argv = {"sh", "-c", "echo $HOME-$NEW; pwd; cat; echo e >&2"},
                       .environment = {{"HOME", "mine"}, {"NEW", "a=b"}},
                       .log_file = scratch / "log",
                       .directory = scratch.path(),
                       .input = "one\ntwo\n"});
  ASSERT_TRUE(pid) << to_string(pid.error());
  EXPECT_EQ(status_of(processes, *pid), 0);
  EXPECT_EQ(files.read(scratch / "log").value(),
            "before\nmine-a=b\n" + scratch.path() + "\none\ntwo\ne\n");
}

TEST(RealProcesses, have_an_input_and_a_log_where_we_have_none) {
  const Scratch scratch;
  RealProcesses processes;
  for (const std::string input : {"", "typed"}) {
    Result<Pid> pid = 0;
    {
      const WithoutInput number_nought_is_free;
      pid = processes.start({.argv = {"sh", "-c", "cat; echo; echo e >&2"},
                             .log_file = scratch / ("log" + input),
                             .input = input});
    }
    ASSERT_TRUE(pid) << to_string(pid.error());
    EXPECT_EQ(status_of(processes, *pid), 0);
    EXPECT_EQ(RealFiles().read(scratch / ("log" + input)).value_or(""), input + "\ne\n");
  }
}

TEST(RealProcesses, start_in_our_environment_with_theirs_over_it) {
  ASSERT_EQ(::setenv("PARTITA_TEST_KEPT", "ours", 1), 0);
  ASSERT_EQ(::setenv("PARTITA_TEST_CHANGED", "ours", 1), 0);
  const Scratch scratch;
  RealProcesses processes;
  const Pid pid = processes
                      .start({.argv = {"env"},
                              .environment = {{"PARTITA_TEST_CHANGED", "theirs"}},
                              .log_file = scratch / "log"})
                      .value();
  EXPECT_EQ(status_of(processes, pid), 0);
  const std::string told = "\n" + RealFiles().read(scratch / "log").value();
  EXPECT_NE(told.find("\nPARTITA_TEST_KEPT=ours\n"), told.npos);
  EXPECT_NE(told.find("\nPARTITA_TEST_CHANGED=theirs\n"), told.npos);
  EXPECT_EQ(told.find("PARTITA_TEST_CHANGED=ours"), told.npos);
}

TEST(RealProcesses, refuse_what_cannot_be_started_and_say_what) {
  const Scratch scratch;
  RealProcesses processes;
  const std::vector<std::pair<ProcessSpec, std::string>> cases{
      {{.argv = {"no-such-program-here"}}, "no-such-program-here"},
      {{.argv = {scratch.path()}}, scratch.path()},
      {{.argv = {"true"}, .directory = scratch / "gone"}, scratch / "gone"},
      {{.argv = {"true"}, .log_file = scratch / "gone/log"}, scratch / "gone/log"}};
  for (const auto& [spec, named] : cases) {
    const Result<Pid> pid = processes.start(spec);
    ASSERT_FALSE(pid) << named;
    EXPECT_EQ(pid.error().code, ErrorCode::environment);
    EXPECT_EQ(pid.error().context, named);
  }
  EXPECT_THAT(processes.exited(), IsEmpty());
}

// The process and its child write their pids, so that the test can ask for both.
struct Family {
  Pid leader = 0;
  Pid child = 0;
};
Family start_family(RealProcesses& processes, const Scratch& scratch, const std::string& then,
                    bool daemon) {
  RealFiles files;
  Family family;
  family.leader = processes
                      .start({.argv = {"sh", "-c", "sleep 30 & echo $!; " + then},
                              .log_file = scratch / "pids",
                              .daemon = daemon})
                      .value();
  EXPECT_TRUE(eventually([&] {
    const Result<std::string> text = files.read(scratch / "pids");
    return text && text->ends_with('\n');
  }));
  family.child = std::stol(files.read(scratch / "pids").value());
  return family;
}

TEST(RealProcesses, stop_the_whole_group) {
  const Scratch scratch;
  RealProcesses processes;
  const Family family = start_family(processes, scratch, "wait", false);
  EXPECT_TRUE(processes.alive(family.leader));
  EXPECT_TRUE(processes.alive(family.child));
  ASSERT_TRUE(processes.stop(family.leader, StopSignal::terminate));
  EXPECT_EQ(status_of(processes, family.leader), 143);
  EXPECT_TRUE(eventually([&] { return !processes.alive(family.child); }));
}

TEST(RealProcesses, kill_what_a_process_leaves_behind_but_not_what_a_daemon_does) {
  for (const bool daemon : {false, true}) {
    const Scratch scratch;
    RealProcesses processes;
    const Family family = start_family(processes, scratch, "exit 3", daemon);
    EXPECT_EQ(status_of(processes, family.leader), 3);
    if (!daemon) {
      EXPECT_TRUE(eventually([&] { return !processes.alive(family.child); }));
      continue;
    }
    EXPECT_TRUE(processes.alive(family.child));
    ::kill(static_cast<pid_t>(family.child), SIGKILL);
  }
}

TEST(RealProcesses, kill_ends_what_ignores_terminate) {
  const Scratch scratch;
  RealProcesses processes;
  const Family family =
      start_family(processes, scratch, "trap '' TERM; echo; while :; do sleep 1; done", false);
  RealFiles files;
  ASSERT_TRUE(eventually(
      [&] { return std::ranges::count(files.read(scratch / "pids").value(), '\n') == 2; }));
  ASSERT_TRUE(processes.stop(family.leader, StopSignal::terminate));
  RealClock().sleep_ns(20 * kMs);
  EXPECT_TRUE(processes.alive(family.leader));
  ASSERT_TRUE(processes.stop(family.leader, StopSignal::kill));
  EXPECT_EQ(status_of(processes, family.leader), 137);
}

TEST(RealProcesses, live_on_and_are_adopted_by_identity_only) {
  Pid pid = 0;
  std::string identity;
  RealProcesses first;
  pid = first.start({.argv = {"sleep", "30"}}).value();
  identity = first.identity(pid);
  EXPECT_NE(identity, "");

  RealProcesses second;
  EXPECT_TRUE(second.stop(pid, StopSignal::kill));  // not its own: nothing happens
  EXPECT_TRUE(second.alive(pid));
  EXPECT_EQ(second.adopt(pid, "12@elsewhere").error().code, ErrorCode::not_found);
  ASSERT_TRUE(second.adopt(pid, identity));
  EXPECT_THAT(second.exited(), IsEmpty());
  ASSERT_TRUE(second.stop(pid, StopSignal::terminate));
  std::vector<ProcessExit> exits;
  EXPECT_TRUE(eventually([&] { return !(exits = second.exited()).empty(); }));
  EXPECT_THAT(exits, ElementsAre(ProcessExit{pid, kUnknownStatus}));
  EXPECT_EQ(second.adopt(pid, identity).error().code, ErrorCode::not_found);
  EXPECT_EQ(status_of(first, pid), 143);
}

TEST(RealProcesses, kill_what_an_adopted_process_leaves_behind) {
  const Scratch scratch;
  RealProcesses first, second;
  const Family family = start_family(first, scratch, "wait", false);
  ASSERT_TRUE(second.adopt(family.leader, second.identity(family.leader)));
  ::kill(static_cast<pid_t>(family.leader), SIGKILL);
  std::vector<ProcessExit> exits;
  EXPECT_TRUE(eventually([&] { return !(exits = second.exited()).empty(); }));
  EXPECT_THAT(exits, ElementsAre(ProcessExit{family.leader, kUnknownStatus}));
  EXPECT_TRUE(eventually([&] { return !first.alive(family.child); }));
  EXPECT_EQ(status_of(first, family.leader), 137);
}

// Which need not lead a group.
TEST(RealProcesses, stop_an_adopted_one_alone) {
  const Scratch scratch;
  RealProcesses first, second;
  const Family family = start_family(first, scratch, "sleep 30", false);
  ASSERT_TRUE(second.adopt(family.child, second.identity(family.child)));
  ASSERT_TRUE(second.stop(family.child, StopSignal::kill));
  EXPECT_TRUE(eventually([&] { return !second.alive(family.child); }));
  EXPECT_TRUE(first.alive(family.leader));
  EXPECT_TRUE(second.stop(family.child, StopSignal::kill)) << "gone is gone";
  ASSERT_TRUE(first.stop(family.leader, StopSignal::kill));
  EXPECT_EQ(status_of(first, family.leader), 137);
}

// Since when it runs, in the kernel's ticks (proc(5), the 22nd field), and in which boot: nothing
// that changes while it does.
TEST(RealProcesses, have_an_identity_that_stays) {
  std::ifstream file("/proc/self/stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string start;
  for (int field = 3; field <= 22; ++field) fields >> start;
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  EXPECT_EQ(RealProcesses().identity(::getpid()), start + "@" + boot);
}

TEST(RealProcesses, are_found_by_their_environment_without_their_children) {
  const Scratch scratch;
  RealProcesses processes;
  const std::string mark = scratch.path();
  const Pid pid = processes
                      .start({.argv = {"sh", "-c", "sleep 30 & echo; wait"},
                              .environment = {{"PARTITA_TEST_MARK", mark}},
                              .log_file = scratch / "log"})
                      .value();
  RealFiles files;
  ASSERT_TRUE(eventually([&] { return !files.read(scratch / "log").value().empty(); }));
  std::map<Pid, std::string> found = processes.find("PARTITA_TEST_MARK");
  std::erase_if(found, [&](const auto& entry) { return entry.second != mark; });
  EXPECT_EQ(found, (std::map<Pid, std::string>{{pid, mark}}));
  ASSERT_TRUE(processes.stop(pid, StopSignal::kill));
  EXPECT_EQ(status_of(processes, pid), 137);
}

TEST(SimProcesses, end_when_the_clock_says_so) {
  ManualClock clock;
  SimProcesses processes(clock, [](const ProcessSpec& spec) {
    SimBehaviour behaviour;
    if (spec.argv[0] == "task") behaviour = {.run_ns = 5 * kMs, .status = 7};
    if (spec.argv[0] == "slow") behaviour.stop_ns = 2 * kMs;
    if (spec.argv[0] == "deaf") behaviour.heeds_terminate = false;
    if (spec.argv[0] == "gone") behaviour.refused = Error{ErrorCode::environment, "none", "gone"};
    return behaviour;
  });
  EXPECT_FALSE(processes.start({.argv = {"gone"}}));
  const Pid task = processes.start({.argv = {"task"}}).value();
  const Pid slow = processes.start({.argv = {"slow"}}).value();
  const Pid deaf = processes.start({.argv = {"deaf"}}).value();
  const Pid worker = processes.start({.argv = {"worker"}}).value();
  EXPECT_EQ(processes.next_end_ns(), 5 * kMs);
  clock.now = 5 * kMs - 1;
  EXPECT_THAT(processes.exited(), IsEmpty());
  clock.now = 5 * kMs;
  EXPECT_FALSE(processes.alive(task));
  EXPECT_FALSE(processes.running().contains(task));
  EXPECT_TRUE(processes.running().contains(slow));
  EXPECT_THAT(processes.exited(), ElementsAre(ProcessExit{task, 7}));
  EXPECT_EQ(processes.next_end_ns(), std::nullopt);

  for (const Pid pid : {slow, deaf, worker})
    ASSERT_TRUE(processes.stop(pid, StopSignal::terminate));
  EXPECT_THAT(processes.exited(), ElementsAre(ProcessExit{worker, 143}));
  ASSERT_TRUE(processes.stop(deaf, StopSignal::kill));
  clock.now += 2 * kMs;
  EXPECT_THAT(processes.exited(), ElementsAre(ProcessExit{slow, 143}, ProcessExit{deaf, 137}));
  EXPECT_THAT(processes.running(), IsEmpty());
}

// Whether a file holds a line, and the number in it.
Pid number_in(const std::string& path) {
  RealFiles files;
  const Result<std::string> text = files.read(path);
  return text && text->ends_with('\n') ? std::stol(*text) : 0;
}

// A daemon in a session of its own outlives its parent and its group; it ends with its family.
TEST(RealProcesses, end_a_family_in_whatever_session) {
  const Scratch scratch;
  RealProcesses processes;
  const std::string note = scratch / "note";
  const std::string tag = scratch.path() + ":0";
  const auto spec = [&](const std::string& command) {
    ProcessSpec one{.argv = {"sh", "-c", command}, .environment = {{"FAMILY", tag}}};
    one.family_variable = "FAMILY";
    return one;
  };
  const std::string forks = "setsid sh -c 'echo $$ > " + note + "; exec sleep 60' & sleep 0.05";
  for (const bool adopted : {false, true}) {
    const Result<Pid> parent = processes.start(spec(forks));
    ASSERT_TRUE(parent);
    EXPECT_TRUE(eventually([&] { return number_in(note) != 0; }));
    const Pid left = number_in(note);
    EXPECT_TRUE(eventually([&] { return !processes.exited().empty(); }));
    EXPECT_TRUE(processes.alive(left));
    RealProcesses next;  // as a supervisor that comes after a killed one
    (adopted ? next : processes).end_family("FAMILY", "another");
    RealClock().sleep_ns(30 * kMs);  // who is killed is not dead at once
    EXPECT_TRUE(processes.alive(left));
    (adopted ? next : processes).end_family("FAMILY", tag);
    EXPECT_TRUE(eventually([&] { return !processes.alive(left); }));
    EXPECT_TRUE(processes.alive(::getpid()));
    std::filesystem::remove(note);
  }
}

// Only its cgroup knows a daemon that has thrown its environment away.
TEST(RealProcesses, know_a_family_by_its_cgroup) {
  Cgroups cgroups;
  if (!cgroups.enter("partita-test")) GTEST_SKIP() << "no cgroups of version 2 can be made here";
  ASSERT_TRUE(cgroups.leave());
  EXPECT_NE(cgroups.folder_of("partita-test"), "");
  const Scratch scratch;
  RealProcesses processes;
  const std::string note = scratch / "note";
  ProcessSpec spec{
      .argv = {"sh", "-c",
               "env -i setsid sh -c 'echo $$ > " + note + "; exec sleep 60' & sleep 0.05"},
      .environment = {{"FAMILY", scratch.path()}}};
  spec.family_variable = "FAMILY";
  ASSERT_TRUE(processes.start(spec));
  EXPECT_EQ(cgroups.folder_of("partita-test"), "") << "nobody was in it";
  EXPECT_TRUE(eventually([&] { return number_in(note) != 0; }));
  EXPECT_TRUE(eventually([&] { return !processes.exited().empty(); }));
  EXPECT_TRUE(processes.alive(number_in(note)));
  processes.end_family("FAMILY", scratch.path());
  EXPECT_TRUE(eventually([&] { return !processes.alive(number_in(note)); }));
  EXPECT_TRUE(eventually([&] {
    processes.exited();
    return Cgroups().folder_of(fmt::format("partita-{:016x}", text_hash(scratch.path()))).empty();
  }));
}

TEST(SimProcesses, end_by_family_and_tell_who_is_next) {
  ManualClock clock;
  SimProcesses processes(clock, [](const ProcessSpec& spec) {
    SimBehaviour behaviour;
    if (spec.argv[0] != "for ever") behaviour.run_ns = std::stol(spec.argv[0]);
    return behaviour;
  });
  EXPECT_FALSE(processes.next_end_ns());
  const Pid late = processes.start({.argv = {"90"}, .environment = {{"FAMILY", "a"}}}).value();
  EXPECT_EQ(processes.next_end_ns(), 90);
  const Pid soon = processes.start({.argv = {"50"}, .environment = {{"FAMILY", "b"}}}).value();
  EXPECT_EQ(processes.next_end_ns(), 50);
  const Pid other = processes.start({.argv = {"for ever"}, .environment = {{"KIN", "a"}}}).value();
  EXPECT_EQ(processes.find("FAMILY"), (std::map<Pid, std::string>{{late, "a"}, {soon, "b"}}));
  processes.end_family("FAMILY", "a");
  EXPECT_FALSE(processes.alive(late));
  EXPECT_TRUE(processes.alive(soon));
  EXPECT_TRUE(processes.alive(other));
  EXPECT_THAT(processes.exited(), ElementsAre(ProcessExit{late, 137}));
}

TEST(SimProcesses, crash_and_are_adopted) {
  ManualClock clock;
  SimProcesses processes(clock, [](const ProcessSpec&) { return SimBehaviour{}; });
  const Pid first = processes.start({.argv = {"a"}, .environment = {{"X", "1"}}}).value();
  const Pid second = processes.start({.argv = {"b"}}).value();
  const std::string identity = processes.identity(first);
  EXPECT_THAT(processes.find("X"), ElementsAre(testing::Pair(first, "1")));
  processes.orphan_all();
  processes.crash(second, 139);
  EXPECT_THAT(processes.exited(), IsEmpty());
  EXPECT_TRUE(processes.stop(first, StopSignal::kill));
  EXPECT_TRUE(processes.alive(first));
  EXPECT_FALSE(processes.adopt(first, "other"));
  ASSERT_TRUE(processes.adopt(first, identity));
  processes.crash(first, 139);
  EXPECT_THAT(processes.exited(), ElementsAre(ProcessExit{first, kUnknownStatus}));
}

}  // namespace
}  // namespace partita
