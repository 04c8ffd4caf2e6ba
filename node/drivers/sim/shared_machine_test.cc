// SharedMachine: time, faults, and one state file under several processes.
#include "drivers/sim/shared_machine.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "base/files.h"
#include "base/rng.h"
#include "drivers/sim/sim_driver.h"

namespace partita::drivers::sim {
namespace {

using device::Fault;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kMs = 1'000'000;

Machine one_a100() {
  return Machine({{hw::builtin_catalogue().find("A100-80GB"), 1, true}}, "test");
}

// A fresh folder with a description, gone at the end.
class Folder {
 public:
  explicit Folder(const std::string& more, const std::string& gpus = "[{model: A100-80GB}]") {
    char path[] = "/tmp/partita_sim_XXXXXX";
    path_ = ::mkdtemp(path);
    describe("gpus: " + gpus + "\nstate: state.json\n" + more);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;

  void describe(const std::string& text) const {
    EXPECT_TRUE(RealFiles().write_atomic(description(), text));
  }
  std::string description() const { return path_ + "/machine.yaml"; }
  std::string state() const { return path_ + "/state.json"; }
  std::unique_ptr<SharedMachine> open(Clock& clock) const {
    auto machine = open_machine(description(), clock, hw::builtin_catalogue());
    EXPECT_TRUE(machine) << to_string(machine.error());
    return *std::move(machine);
  }
  Error refusal() const {
    ManualClock clock;
    auto machine = open_machine(description(), clock, hw::builtin_catalogue());
    return machine ? Error{} : machine.error();
  }

 private:
  std::string path_;
};

std::vector<device::Instance> instances(SharedMachine& machine) {
  return SimDriver(machine).read(0).value().instances;
}

// Runs `work` in a process of its own and ends that with what it answers.
template <class Work>
pid_t in_child(Work work) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(work());
  return pid;
}

int status_of(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(SharedMachineTest, ChangesTakeTheirTimeAndRefusalsNone) {
  ManualClock clock;
  const auto machine = own_machine(one_a100(), clock, 0.5);
  SimDriver driver(*machine);
  const auto gi = driver.create_instance(0, {.nvml_enum = 2, .start = 4});
  EXPECT_EQ(clock.now, 100 * kMs);  // half of 0.20 s
  ASSERT_TRUE(driver.create_compute(0, *gi));
  EXPECT_FALSE(driver.create_instance(0, {.nvml_enum = 2, .start = 4}));
  EXPECT_FALSE(driver.destroy_instance(0, *gi));
  EXPECT_EQ(clock.now, 100 * kMs);
  ASSERT_TRUE(driver.destroy_compute(0, *gi, 0) && driver.destroy_instance(0, *gi));
  EXPECT_EQ(clock.now, 205 * kMs);  // and of 0.21 s
}

TEST(SharedMachineTest, FaultsStrikeTheCountedCall) {
  ManualClock clock;
  const std::vector<Fault> script{
      {.method = "create_instance", .call = 2, .code = ErrorCode::no_room},
      {.method = "",
       .call = 4,
       .code = ErrorCode::timeout,
       .hang_ns = 7 * kMs,
       .after_effect = true}};
  const auto machine = own_machine(one_a100(), clock, 0, script);
  SimDriver driver(*machine);
  EXPECT_TRUE(driver.create_instance(0, {0, 0}));  // 1
  EXPECT_TRUE(driver.set_mig_mode(0, true));       // 2
  const auto second = driver.create_instance(0, {0, 1});
  EXPECT_EQ(second.error().code, ErrorCode::no_room);
  EXPECT_EQ(second.error().context, "create_instance(gpu 0, nvml_enum 0, start 1)");
  EXPECT_EQ(driver.read(0)->instances.size(), 1u);
  EXPECT_EQ(driver.create_instance(0, {0, 1}).error().code, ErrorCode::timeout);  // 4
  EXPECT_EQ(clock.now, 7 * kMs);
  EXPECT_EQ(driver.read(0)->instances.size(), 2u) << "it took effect";
  EXPECT_TRUE(driver.create_instance(0, {0, 2}));
}

TEST(SharedMachineTest, TheDefaultIsOneA100WithMigOn) {
  ManualClock clock;
  const auto machine = open_machine("", clock, hw::builtin_catalogue());
  ASSERT_TRUE(machine);
  SimDriver driver(**machine);
  EXPECT_EQ(driver.info()->gpus, 1);
  const auto state = driver.read(0);
  EXPECT_EQ(state->model, "A100-80GB");
  EXPECT_TRUE(state->mig_enabled && state->instances.empty());
}

TEST(SharedMachineTest, TheStateOutlivesItsProcess) {
  const Folder folder("speed: 0\n");
  ManualClock clock;
  const pid_t child = in_child([&] {
    const auto machine = folder.open(clock);
    SimDriver driver(*machine);
    return driver.create_instance(0, {0, 3}) ? 0 : 1;
  });
  EXPECT_EQ(status_of(child), 0);
  const auto machine = folder.open(clock);
  EXPECT_EQ(instances(*machine).at(0).start, 3);
}

TEST(SharedMachineTest, RefusesAStateThatIsNotItsOwn) {
  const Folder folder("speed: 0\n");
  ManualClock clock;
  folder.open(clock);
  const std::string sound = RealFiles().read(folder.state()).value();
  const auto refusal_of = [&](const std::string& from, const std::string& to) {
    std::string text = sound;
    const auto at = text.find(from);
    EXPECT_NE(at, text.npos);
    EXPECT_TRUE(RealFiles().write_atomic(folder.state(), text.replace(at, from.size(), to)));
    return to_string(folder.refusal());
  };
  EXPECT_THAT(refusal_of("\"mig\": true", "\"mig\": 1"), HasSubstr(folder.state() + ":8"));
  EXPECT_THAT(refusal_of("A100-80GB", "A100-40GB"), HasSubstr("state of other GPUs"));
  EXPECT_THAT(refusal_of(sound.substr(100), ""), HasSubstr(folder.state() + ":"));
  folder.describe("gpus: []\n");
  EXPECT_THAT(to_string(folder.refusal()), HasSubstr("machine.yaml:1"));
  folder.describe("gpus: [{model: A30-24GB}]\nstate: no/such/folder/state.json\n");
  EXPECT_EQ(folder.refusal().code, ErrorCode::environment);
}

// Each process keeps what it created. Nothing of anybody is lost or there twice.
TEST(SharedMachineTest, ProcessesDoNotLoseEachOthersChanges) {
  const Folder folder("speed: 0\n");
  constexpr int kProcesses = 4, kSteps = 60;
  std::array<std::array<int, 2>, kProcesses> pipes{};
  std::array<pid_t, kProcesses> children{};
  for (std::size_t p = 0; p < kProcesses; ++p) {
    ASSERT_EQ(::pipe(pipes[p].data()), 0);
    children[p] = in_child([&, p] {
      ManualClock clock;
      const auto machine = folder.open(clock);
      SimDriver driver(*machine);
      Rng rng(p);
      std::vector<int> mine;
      for (int step = 0; step < kSteps; ++step) {
        if (!mine.empty() && rng.below(2) == 0) {
          if (!driver.destroy_instance(0, mine.back())) return 1;
          mine.pop_back();
        } else if (const auto gi = driver.create_instance(0, {0, static_cast<int>(rng.below(7))})) {
          mine.push_back(*gi);
        } else if (gi.error().code != ErrorCode::no_room) {
          return 2;
        }
      }
      const auto bytes = static_cast<ssize_t>(mine.size() * sizeof(int));
      return ::write(pipes[p][1], mine.data(), mine.size() * sizeof(int)) == bytes ? 0 : 3;
    });
  }
  std::multiset<int> kept;
  for (std::size_t p = 0; p < kProcesses; ++p) {
    EXPECT_EQ(status_of(children[p]), 0);
    ::close(pipes[p][1]);
    for (int gi = 0; ::read(pipes[p][0], &gi, sizeof gi) == sizeof gi;) kept.insert(gi);
    ::close(pipes[p][0]);
  }
  ManualClock clock;
  const auto machine = folder.open(clock);
  std::multiset<int> there;
  for (const device::Instance& instance : instances(*machine)) there.insert(instance.gi_id);
  EXPECT_EQ(there, kept);
}

TEST(SharedMachineTest, AKilledProcessLeavesAWholeState) {
  const Folder folder("speed: 0\n");
  ManualClock clock;
  folder.open(clock);
  for (int round = 0; round < 6; ++round) {
    const pid_t child = in_child([&] {
      const auto machine = folder.open(clock);
      SimDriver driver(*machine);
      while (true) {
        if (const auto gi = driver.create_instance(0, {0, 0})) {
          if (!driver.destroy_instance(0, *gi)) return 1;
        } else if (!driver.destroy_instance(0, driver.read(0)->instances.at(0).gi_id)) {
          return 2;  // what a killed one left
        }
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(7 + 5 * round));
    ::kill(child, SIGKILL);
    EXPECT_EQ(status_of(child), 128 + SIGKILL);
    const auto machine = folder.open(clock);
    EXPECT_LE(instances(*machine).size(), 1u);
  }
}

TEST(SharedMachineTest, FaultsAreCountedOverAllProcesses) {
  const Folder folder(
      "speed: 0\nfaults:\n"
      "  - {method: create_instance, call: 2, dies: true}\n"
      "  - {method: create_instance, call: 3, dies: true, after_effect: true}\n"
      "  - {method: create_instance, call: 4, error: lost}\n");
  std::vector<int> statuses;
  for (int start = 0; start < 5; ++start) {
    statuses.push_back(status_of(in_child([&] {
      ManualClock clock;
      const auto machine = folder.open(clock);
      const auto made = SimDriver(*machine).create_instance(0, {0, start});
      return made ? 0 : static_cast<int>(made.error().code);
    })));
  }
  EXPECT_THAT(statuses, ElementsAre(0, 137, 137, static_cast<int>(ErrorCode::lost), 0));
  ManualClock clock;
  const auto machine = folder.open(clock);
  std::vector<int> starts;
  for (const device::Instance& instance : instances(*machine)) starts.push_back(instance.start);
  EXPECT_THAT(starts, ElementsAre(0, 2, 4));
}

// Reconfigurations of one node wait for each other; reading does not wait for them.
TEST(SharedMachineTest, OneReconfigurationAtATimePerNode) {
  const Folder folder("speed: 1\n");
  RealClock clock;
  const auto machine = folder.open(clock);
  const std::int64_t begin = clock.now_ns();
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i)
    children.push_back(in_child([&] { return folder.open(clock)->spend(150 * kMs) ? 0 : 1; }));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(machine->with([](Machine&) {}));
  const std::int64_t reads_done = clock.now_ns() - begin;
  for (const pid_t child : children) EXPECT_EQ(status_of(child), 0);
  EXPECT_GE(clock.now_ns() - begin, 300 * kMs);
  EXPECT_LT(reads_done, clock.now_ns() - begin);
}

// A real program that is given the MIG device is a process of the simulated machine.
TEST(SharedMachineTest, RealProcessesHoldTheDevicesThatTheySee) {
  const Folder folder("speed: 0\n");
  ManualClock clock;
  const auto machine = folder.open(clock);
  SimDriver driver(*machine);
  const auto gi = driver.create_instance(0, {0, 0});
  const auto compute = driver.create_compute(0, *gi);
  const std::string gpu = driver.read(0)->uuid;
  std::string visible = "CUDA_VISIBLE_DEVICES=MIG-of-another-machine," + compute->uuid + "," + gpu;
  std::string sleep = "/bin/sleep", time = "60";
  char* const arguments[] = {sleep.data(), time.data(), nullptr};
  char* const environment[] = {visible.data(), nullptr};
  pid_t user = 0;
  ASSERT_EQ(::posix_spawn(&user, sleep.c_str(), nullptr, nullptr, arguments, environment), 0);
  const device::Holder holder{user, "sleep"};
  auto state = driver.read(0);
  for (int tries = 0; tries < 200 && state->instances[0].holders != std::vector{holder}; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // until it has started
    state = driver.read(0);
  }
  EXPECT_THAT(state->instances[0].holders, ElementsAre(holder));
  EXPECT_THAT(state->holders, ElementsAre(holder));
  const auto held = driver.destroy_compute(0, *gi, compute->ci_id);
  EXPECT_EQ(held.error().code, ErrorCode::in_use);
  EXPECT_THAT(held.error().message, HasSubstr("sleep"));
  EXPECT_THAT(RealFiles().read(folder.state()).value(), testing::Not(HasSubstr("sleep")));
  ::kill(user, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(user), &ended, WEXITED | WNOWAIT), 0);  // a zombie
  EXPECT_TRUE(driver.read(0)->instances[0].holders.empty());
  EXPECT_TRUE(driver.destroy_compute(0, *gi, compute->ci_id));
  EXPECT_EQ(status_of(user), 128 + SIGKILL);
}

TEST(SharedMachineTest, ProcessesSeeTheSamePowerAndSettings) {
  const Folder folder(
      "instances: [{gpu: 0, profile: 3g.40gb, start: 4}]\n"
      "processes: [{gpu: 0, start: 4, pid: 4711, name: train.py, activity: 0.8}]\n");
  ManualClock clock;
  clock.now = 1'000'000 * kMs;
  const auto one = folder.open(clock), other = folder.open(clock);
  SimDriver mine(*one), theirs(*other);
  Joules before{-1};
  for (int i = 0; i < 30; ++i) {
    clock.now += 1'777 * kMs * (i % 5 + 1);
    if (i == 10) {
      ASSERT_TRUE(theirs.set_power_settings(0, {Watts{200}, {}}));
    }
    if (i == 20) {
      ASSERT_TRUE(mine.set_power_settings(0, {{}, {{Mhz{600}, Mhz{900}}}}));
    }
    const auto seen = mine.telemetry(0), again = theirs.telemetry(0);
    ASSERT_TRUE(seen && again);
    EXPECT_EQ(seen->energy, again->energy);
    EXPECT_EQ(seen->power, again->power);
    EXPECT_EQ(seen->temperature, again->temperature);
    EXPECT_EQ(seen->sm_clock, again->sm_clock);
    EXPECT_EQ(mine.power_settings(0)->now, theirs.power_settings(0)->now);
    EXPECT_GT(*seen->energy, before);
    before = *seen->energy;
    EXPECT_LE(*seen->power, i >= 10 && i < 20 ? Watts{200} : Watts{400});
    EXPECT_LE(*seen->sm_clock, i >= 20 ? Mhz{900} : Mhz{1410});
  }
}

}  // namespace
}  // namespace partita::drivers::sim
