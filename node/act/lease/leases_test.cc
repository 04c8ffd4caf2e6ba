// Leases: who asks gets an instance and keeps it, whoever is killed when; nobody else destroys it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "act/apply.h"
#include "act/lease/leased_driver.h"
#include "act/lease/leases.h"
#include "base/index.h"
#include "base/rng.h"
#include "base/test_rounds.h"
#include "drivers/sim/sim_driver.h"

namespace partita::lease {
namespace {

using drivers::sim::SharedMachine;

constexpr const char* kLog = "node.leases";

struct Killed {};

// Counts what leaves a trace, and kills at one of them.
struct Fuse {
  long seen = 0, at = -1;  // -1: never
  void burn() {
    if (++seen == at) throw Killed();
  }
};

// A driver that may be killed before and after each change, and whose instances may be in use.
class TestDriver final : public device::NodeDriver {
 public:
  TestDriver(SharedMachine& machine, Fuse& fuse) : sim_(machine), fuse_(fuse) {}
  std::set<std::string> busy;           // MIG devices
  std::map<std::string, Error> refuse;  // what a call answers, by its name
  bool refuses_once = true;
  bool forgets = false;  // what is created is gone at once
  long changes = 0, asked = 0;

  template <class Call>
  auto around(const std::string& name, const Call& call) -> decltype(call()) {
    fuse_.burn();
    ++changes;
    if (const auto found = refuse.find(name); found != refuse.end()) {
      const Error error = found->second;
      if (refuses_once) refuse.erase(found);
      return failed(error);
    }
    auto result = call();
    fuse_.burn();
    return result;
  }
  Result<device::DriverInfo> info() override { return sim_.info(); }
  Result<device::GpuState> read(int gpu) override {
    if (const auto found = refuse.find("read"); found != refuse.end()) return failed(found->second);
    auto state = TRY(sim_.read(gpu));
    for (device::Instance& one : state.instances)
      if (busy.contains(one.uuid())) one.holders.push_back({.pid = 99, .name = "python"});
    return state;
  }
  Result<std::vector<device::ProfileInfo>> profiles(int gpu) override {
    ++asked;
    if (const auto found = refuse.find("profiles"); found != refuse.end())
      return failed(found->second);
    return sim_.profiles(gpu);
  }
  Result<device::ModeChange> set_mig_mode(int gpu, bool on) override {
    return sim_.set_mig_mode(gpu, on);
  }
  Result<int> create_instance(int gpu, const device::Placement& placement) override {
    auto made = around("create_instance", [&] { return sim_.create_instance(gpu, placement); });
    if (made && forgets) static_cast<void>(sim_.destroy_instance(gpu, *made));
    return made;
  }
  Result<void> destroy_instance(int gpu, int gi) override {
    return around("destroy_instance", [&] { return sim_.destroy_instance(gpu, gi); });
  }
  Result<device::ComputeInstance> create_compute(int gpu, int gi) override {
    return around("create_compute", [&] { return sim_.create_compute(gpu, gi); });
  }
  Result<void> destroy_compute(int gpu, int gi, int ci) override {
    return around("destroy_compute", [&] { return sim_.destroy_compute(gpu, gi, ci); });
  }
  Result<telemetry::GpuSample> telemetry(int gpu) override { return sim_.telemetry(gpu); }
  Result<device::PowerState> power_settings(int gpu) override { return sim_.power_settings(gpu); }
  Result<void> set_power_settings(int gpu, const device::PowerSettings& settings) override {
    return sim_.set_power_settings(gpu, settings);
  }

 private:
  drivers::sim::SimDriver sim_;
  Fuse& fuse_;
};

// Files whose appends may be killed before, amid and after.
class TestFiles final : public MemoryFiles {
 public:
  explicit TestFiles(Fuse& fuse) : fuse_(fuse) {}
  std::map<std::string, std::string> synced;  // what a crash of the machine leaves at least
  int appends_left = 1 << 30;
  int rewritten = 0;
  Result<void> write_atomic(const std::string& path, std::string_view text) override {
    fuse_.burn();
    ++rewritten;
    if (appends_left <= 0) return environment_error(path, "full");
    auto done = MemoryFiles::write_atomic(path, text);
    synced = content;
    fuse_.burn();
    return done;
  }
  Result<void> append(const std::string& path, std::string_view text) override {
    TRY(append_unsynced(path, text));
    synced = content;
    return {};
  }
  Result<void> append_unsynced(const std::string& path, std::string_view text) override {
    fuse_.burn();
    if (appends_left-- <= 0) return environment_error(path, "full");
    if (++fuse_.seen == fuse_.at) {
      static_cast<void>(MemoryFiles::append(path, text.substr(0, text.size() / 2)));
      throw Killed();
    }
    auto done = MemoryFiles::append(path, text);
    fuse_.burn();
    return done;
  }

 private:
  Fuse& fuse_;
};

class LeasesTest : public testing::Test {
 protected:
  explicit LeasesTest(const std::string& gpus = "[{model: A100-80GB, count: 2, mig: true}]")
      : processes(clock, [](const ProcessSpec&) { return SimBehaviour{}; }), files(fuse) {
    boot(gpus);
  }
  // The machine without any instance, as after a reboot.
  void boot(const std::string& gpus) {
    auto made = drivers::sim::described_machine("machine.yaml", "gpus: " + gpus + "\nspeed: 0\n",
                                                clock, hw::builtin_catalogue());
    EXPECT_TRUE(made);
    machine = *std::move(made);
    driver = std::make_unique<TestDriver>(*machine, fuse);
  }
  Result<Outcome> ask(const Ask& what) {
    auto leases = Leases::open(
        {*driver, files, processes, hw::builtin_catalogue(), [this] { return now_ms; }, closed},
        kLog);
    if (!leases) return failed(leases.error());
    return leases->ask(what);
  }
  Lease taken(const Take& what) {
    const auto outcome = ask(what);
    EXPECT_TRUE(outcome) << (outcome ? "" : to_string(outcome.error()));
    if (!outcome) return {};
    EXPECT_FALSE(outcome->refused) << outcome->refused->reason.detail;
    return outcome->leases.empty() ? Lease{} : outcome->leases.front();
  }
  plan::Reason refusal(const Ask& what) {
    const auto outcome = ask(what);
    EXPECT_TRUE(outcome && outcome->refused);
    return outcome && outcome->refused ? outcome->refused->reason : plan::Reason{};
  }
  std::vector<std::string> devices() {
    std::vector<std::string> all;
    const device::NodeState node = *device::read_node(*driver);
    for (const device::GpuState& gpu : node.gpus)
      for (const device::Instance& one : gpu.instances) all.push_back(one.uuid());
    return all;
  }
  StandingLeases standing() {
    if (!files.exists(kLog)) return {};
    std::string text = *files.read(kLog);
    text.resize(text.rfind('\n') + 1);
    return *parse_leases(kLog, text);
  }

  ManualClock clock;
  Fuse fuse;
  SimProcesses processes;
  TestFiles files;
  std::map<std::string, std::string> closed;
  std::int64_t now_ms = 1'000'000;
  std::unique_ptr<SharedMachine> machine;
  std::unique_ptr<TestDriver> driver;
};

TEST_F(LeasesTest, WhoAsksAgainGetsTheSameAndNothingIsTouched) {
  const Lease first = taken({.owner = "slurm:42", .profile = "3g.40gb"});
  EXPECT_EQ(first.profile, "3g.40gb");
  EXPECT_EQ(first.uuid, devices().front());
  EXPECT_EQ(first.gpu_uuid, driver->read(0)->uuid);
  EXPECT_EQ(first.start, 4);
  const long changes = driver->changes;
  EXPECT_EQ(taken({.owner = "slurm:42", .profile = "3g.40gb"}), first);
  EXPECT_EQ(driver->changes, changes);
  EXPECT_EQ(refusal(Take{.owner = "slurm:42", .profile = "2g.20gb"}).constraint, "owner");
  EXPECT_EQ(refusal(Take{.owner = "slurm:42", .profile = "3g.40gb", .gpu = 1}).constraint, "owner");
  // A part of the owner has one of its own; both go together.
  const Lease second = taken({.owner = "slurm:42/2", .profile = "2g.20gb"});
  const Lease other = taken({.owner = "slurm:421", .profile = "1g.10gb"});
  EXPECT_NE(second.uuid, first.uuid);
  const auto returned = ask(Return{"slurm:42"});
  ASSERT_TRUE(returned);
  EXPECT_EQ(returned->returned, (std::vector<std::string>{"slurm:42", "slurm:42/2"}));
  EXPECT_EQ(devices(), std::vector<std::string>{other.uuid});
  EXPECT_TRUE(ask(Return{"slurm:42"})->returned.empty());
}

TEST_F(LeasesTest, ARefusalSaysWhatIsFree) {
  taken({.owner = "a", .profile = "7g.80gb", .gpu = 1});
  taken({.owner = "b", .profile = "3g.40gb", .gpu = 0, .start = 0, .exact = true});
  const auto no = ask(Take{.owner = "c", .profile = "4g.40gb"});
  ASSERT_TRUE(no && no->refused);
  EXPECT_EQ(no->refused->reason.constraint, "room");
  EXPECT_EQ(no->refused->free,
            (std::vector<FreeShape>{
                {0, "3g.40gb", {4}}, {0, "2g.20gb", {4}}, {0, "1g.10gb", {4, 5, 6}}}));
  EXPECT_EQ(ask(Take{.owner = "c", .profile = "9g"}).error().code, ErrorCode::bad_input);
  EXPECT_EQ(ask(Take{.owner = "c", .profile = "1g.10gb", .gpu = 2}).error().code,
            ErrorCode::bad_input);
  EXPECT_EQ(ask(Take{.owner = "c", .profile = "2g.20gb", .start = 1, .exact = true}).error().code,
            ErrorCode::bad_input);
  EXPECT_EQ(standing().leases.size(), 2U);
}

TEST_F(LeasesTest, TheWantedPlaceComesFirstAndExactMeansNoOther) {
  EXPECT_EQ(taken({.owner = "a", .profile = "1g.10gb", .gpu = 1, .start = 2}).start, 2);
  EXPECT_EQ(refusal(Take{.owner = "b", .profile = "1g.10gb", .gpu = 1, .start = 2, .exact = true})
                .constraint,
            "room");
  const Lease near = taken({.owner = "b", .profile = "1g.10gb", .gpu = 1, .start = 2});
  EXPECT_EQ(near.gpu, 1);
  EXPECT_NE(near.start, 2);
  closed[driver->read(0)->uuid] = "is the batch's";
  EXPECT_EQ(refusal(Take{.owner = "c", .profile = "7g.80gb"}).constraint, "room");
}

TEST_F(LeasesTest, AreHandedOverAsTheyAre) {
  const Lease old = taken({.owner = "slurm:1", .profile = "2g.20gb"});
  const long changes = driver->changes;
  for (int n = 0; n < 2; ++n) {  // twice is once
    const auto now = ask(HandOver{"slurm:1", "slurm:2", "2g.20gb", {}});
    ASSERT_TRUE(now && !now->refused);
    EXPECT_EQ(now->leases.front().uuid, old.uuid);
    EXPECT_EQ(now->leases.front().owner, "slurm:2");
  }
  EXPECT_EQ(driver->changes, changes);
  EXPECT_EQ(refusal(HandOver{"slurm:8", "slurm:9", "", {}}).constraint, "lease");
  EXPECT_EQ(refusal(HandOver{"slurm:2", "slurm:3", "1g.10gb", {}}).constraint, "owner");
  taken({.owner = "slurm:3", .profile = "1g.10gb"});
  EXPECT_EQ(refusal(HandOver{"slurm:2", "slurm:3", "", {}}).constraint, "owner");
}

TEST_F(LeasesTest, EndWithTheirTimeOrProcessUnlessTheyAreUsed) {
  const Pid pid = *processes.start({.argv = {"job"}});
  const Lease timed =
      taken({.owner = "a", .profile = "1g.10gb", .terms = Terms{.until_ms = now_ms + 10}});
  taken({.owner = "b",
         .profile = "1g.10gb",
         .terms = Terms{.pid = pid, .identity = processes.identity(pid)}});
  taken({.owner = "c", .profile = "1g.10gb"});
  EXPECT_EQ(ask(Sweep{})->leases.size(), 3U);
  ASSERT_TRUE(processes.stop(pid, StopSignal::kill));
  clock.sleep_ns(1);
  processes.exited();
  driver->busy.insert(timed.uuid);
  now_ms += 10;
  const auto swept = ask(Sweep{});
  EXPECT_EQ(swept->returned, std::vector<std::string>{"b"});
  ASSERT_EQ(swept->leases.size(), 2U);
  EXPECT_TRUE(swept->leases[0].expired && swept->leases[0].busy);
  EXPECT_EQ(ask(Return{"a"}).error().code, ErrorCode::in_use);
  driver->busy.clear();
  // Who asks with new terms in time keeps it.
  EXPECT_EQ(
      taken({.owner = "a", .profile = "1g.10gb", .terms = Terms{.until_ms = now_ms + 5}}).uuid,
      timed.uuid);
  now_ms += 5;
  EXPECT_EQ(ask(Take{.owner = "d", .profile = "1g.10gb"})->returned, std::vector<std::string>{"a"});
  EXPECT_EQ(devices().size(), 2U);
}

TEST_F(LeasesTest, OneWhoseInstanceIsGoneIsMadeAnew) {
  const Lease lost = taken({.owner = "a", .profile = "2g.20gb"});
  ASSERT_TRUE(driver->destroy_compute(lost.gpu, lost.gi_id, lost.ci_id));
  ASSERT_TRUE(driver->destroy_instance(lost.gpu, lost.gi_id));
  // Somebody else's instance at that place is not taken for it.
  const auto profiles = *driver->profiles(lost.gpu);
  const auto info = std::ranges::find(profiles, "2g.20gb", &device::ProfileInfo::name);
  const int gi = *driver->create_instance(lost.gpu, {info->nvml_enum, lost.start});
  ASSERT_TRUE(driver->create_compute(lost.gpu, gi));
  const Lease anew = taken({.owner = "a", .profile = "2g.20gb"});
  EXPECT_NE(anew.uuid, lost.uuid);
  EXPECT_EQ(devices().size(), 2U);
}

// Whoever changes the node by the door.
TEST_F(LeasesTest, NobodyElseDestroysThemOrPutsSomethingOnThem) {
  const Lease mine = taken({.owner = "slurm:42", .profile = "3g.40gb", .gpu = 0, .start = 0});
  LeasedDriver door(std::make_unique<TestDriver>(*machine, fuse), files,
                    [] { return Result<std::string>(kLog); });
  EXPECT_EQ(door.destroy_compute(0, mine.gi_id, mine.ci_id).error().code, ErrorCode::in_use);
  EXPECT_EQ(to_string(door.read(0)->instances[0].holders[0]), "lease slurm:42");
  const actuate::Doors doors{door, files, clock, hw::builtin_catalogue(), "state"};
  const auto wanted = [&](const std::string& profile, int start, int gpus) {
    actuate::Wanted target;
    for (int g = 0; g < gpus; ++g)
      target.gpus.push_back({"A100-80GB", "", {{profile, start, {"chat", 1, 1, 1}}}});
    return target;
  };
  const auto quiet = [](const actuate::ApplyEvent&) {};
  // Beside it there is room; the one that is lent stays, though the plan does not have it.
  ASSERT_TRUE(actuate::apply(doors, wanted("3g.40gb", 4, 2), {}, quiet));
  EXPECT_EQ(devices().size(), 3U);
  // The very shape that is wanted on both GPUs is not taken for the plan's.
  const auto no = actuate::apply(doors, wanted("3g.40gb", 0, 2), {}, quiet);
  ASSERT_FALSE(no);
  EXPECT_NE(to_string(no.error()).find("lease slurm:42"), std::string::npos)
      << to_string(no.error());
  // One GPU alone: the other one.
  ASSERT_TRUE(actuate::apply(doors, wanted("7g.80gb", 0, 1), {}, quiet));
  EXPECT_EQ(driver->read(1)->instances[0].profile, "7g.80gb");
  EXPECT_EQ(driver->read(0)->instances[0].uuid(), mine.uuid);
  // A log that cannot be read keeps everybody from destroying anything.
  files.content[kLog] += "nonsense\n";
  const device::Instance plans = door.read(1)->instances[0];
  EXPECT_FALSE(door.destroy_compute(1, plans.gi_id, plans.compute[0].ci_id));
}

// ---- what goes wrong

TEST_F(LeasesTest, WhereOnePlaceIsTakenMeanwhileTheNextIsTried) {
  driver->refuse["create_instance"] = {ErrorCode::no_room, "taken", "call"};
  const Lease mine = taken({.owner = "a", .profile = "3g.40gb", .gpu = 0});
  EXPECT_EQ(devices(), std::vector<std::string>{mine.uuid});
  EXPECT_EQ(mine.start, 0) << "4 is better";
  EXPECT_EQ(standing().leases.size(), 1U);
}

TEST_F(LeasesTest, WhatCannotBeMadeForWhoAsksIsTakenBackAndTold) {
  for (const std::string call : {"create_instance", "create_compute"}) {
    driver->refuse[call] = {ErrorCode::denied, "no rights", "call"};
    const auto no = ask(Take{.owner = "a", .profile = "3g.40gb"});
    ASSERT_FALSE(no) << call;
    EXPECT_EQ(no.error(), (Error{ErrorCode::denied, "no rights", "call"}));
    EXPECT_TRUE(devices().empty()) << call;
    EXPECT_TRUE(standing().leases.empty()) << call;
  }
  taken({.owner = "a", .profile = "3g.40gb"});
}

// Another's lease that cannot be brought in order keeps nobody from his.
TEST_F(LeasesTest, WhatIsStuckIsLeftToWhoeverComesNext) {
  const Lease stuck = taken({.owner = "a", .profile = "1g.10gb", .terms = Terms{.until_ms = 1}});
  driver->refuse["destroy_instance"] = {ErrorCode::denied, "no rights", "call"};
  driver->refuses_once = false;
  taken({.owner = "b", .profile = "1g.10gb"});
  ASSERT_EQ(standing().leases.size(), 2U);
  EXPECT_EQ(standing().of("a")->state, LeaseRecord::State::returning);
  const auto no = ask(Return{"a"});
  ASSERT_FALSE(no);
  EXPECT_EQ(no.error().code, ErrorCode::in_use);
  driver->refuse.clear();
  EXPECT_EQ(ask(Sweep{})->returned, std::vector<std::string>{"a"});
  EXPECT_EQ(devices().size(), 1U);
}

TEST_F(LeasesTest, OneThatWasMadeHalfByWhoDiedIsLeftWhereItCannotBeMadeWhole) {
  fuse.seen = 0;
  fuse.at = 7;  // behind the instance
  try {
    static_cast<void>(ask(Take{.owner = "a", .profile = "1g.10gb"}));
  } catch (const Killed&) {
  }
  fuse.at = -1;
  ASSERT_EQ(devices(), std::vector<std::string>{""});
  driver->refuse["create_compute"] = {ErrorCode::denied, "no rights", "call"};
  ASSERT_TRUE(ask(Take{.owner = "b", .profile = "1g.10gb"}));
  EXPECT_EQ(standing().of("a")->state, LeaseRecord::State::intended);
  EXPECT_TRUE(ask(Sweep{}));
  EXPECT_EQ(standing().of("a")->state, LeaseRecord::State::made);
}

TEST_F(LeasesTest, WhatHasGoneMeanwhileIsReturned) {
  taken({.owner = "a", .profile = "1g.10gb"});
  for (const std::string call : {"destroy_compute", "destroy_instance"})
    driver->refuse[call] = {ErrorCode::not_found, "not there", "call"};
  EXPECT_EQ(ask(Return{"a"})->returned, std::vector<std::string>{"a"});
  EXPECT_TRUE(devices().empty());
}

TEST_F(LeasesTest, ANodeThatDoesNotStayAsItIsMadeIsGivenUp) {
  driver->forgets = true;
  const auto no = ask(Take{.owner = "a", .profile = "1g.10gb"});
  ASSERT_FALSE(no);
  EXPECT_EQ(no.error(), (Error{ErrorCode::environment,
                               "the GPUs of this node do not stay as they are made", ""}));
  EXPECT_EQ(driver->changes, 256 + 16 - 1) << "after the announcement";
}

TEST_F(LeasesTest, ADriverThatDoesNotAnswerIsTold) {
  const Error silent{ErrorCode::timeout, "silent", "call"};
  driver->refuse["read"] = silent;
  EXPECT_EQ(ask(Sweep{}).error(), silent);
  driver->refuse = {{"profiles", silent}};
  driver->refuses_once = false;
  EXPECT_EQ(ask(Take{.owner = "a", .profile = "1g.10gb"}).error(), silent);
  EXPECT_TRUE(ask(Sweep{})) << "what boards offer is asked only where something may be made";
  driver->refuse.clear();
  taken({.owner = "a", .profile = "1g.10gb"});
  const long asked = driver->asked;
  taken({.owner = "a", .profile = "1g.10gb"});
  ASSERT_TRUE(ask(Return{"a"}));
  EXPECT_EQ(driver->asked, asked);
}

TEST_F(LeasesTest, ALogThatCannotBeWrittenKeepsEverythingAsItIs) {
  files.appends_left = 0;
  EXPECT_EQ(ask(Take{.owner = "a", .profile = "1g.10gb"}).error().message, "full");
  EXPECT_TRUE(devices().empty());
  files.appends_left = 1;
  EXPECT_EQ(ask(Take{.owner = "a", .profile = "1g.10gb"}).error().message, "full");
  files.appends_left = 1 << 30;
  const Lease made = taken({.owner = "a", .profile = "1g.10gb"});
  EXPECT_EQ(devices(), std::vector<std::string>{made.uuid}) << "it is gone on with";
  files.appends_left = 0;
  EXPECT_EQ(ask(Return{"a"}).error().message, "full");
  EXPECT_EQ(devices().size(), 1U);
}

TEST_F(LeasesTest, ALogThatIsOpenIsInUseAndADamagedOneRefused) {
  const LeaseDoors doors{
      *driver, files, processes, hw::builtin_catalogue(), [this] { return now_ms; }, {}};
  {
    const auto open = Leases::open(doors, kLog);
    ASSERT_TRUE(open);
    EXPECT_EQ(ask(Sweep{}).error().code, ErrorCode::in_use);
  }
  files.content[kLog] = log_header(kLeaseLogKind) + log_line("{}");
  EXPECT_EQ(ask(Sweep{}).error().context, "node.leases:2");
  EXPECT_EQ(read_leases(doors, kLog).error().context, "node.leases:2");
  files.content.clear();
  // Of a machine that nobody else can see nothing is written.
  auto alone = Leases::open(doors, "");
  ASSERT_TRUE(alone && alone->ask(Take{.owner = "a", .profile = "1g.10gb"}));
  EXPECT_EQ(alone->standing().leases.size(), 1U);
  EXPECT_EQ(alone->standing().last, 1);
  ASSERT_TRUE(alone->ask(Return{"a"}) && alone->ask(Take{.owner = "b", .profile = "1g.10gb"}));
  EXPECT_EQ(alone->standing().leases.begin()->first, 2);
  EXPECT_TRUE(files.content.empty());
  EXPECT_TRUE(read_leases(doors, "")->empty());
  EXPECT_TRUE(read_leases(doors, "elsewhere")->empty());
}

// Once it is much longer than what stands.
TEST_F(LeasesTest, ALongLogIsWrittenAnew) {
  taken({.owner = "a", .profile = "1g.10gb"});
  const StandingLeases before = standing();
  const std::string line = log_line(lease_record_text(before.leases.begin()->second));
  std::string& text = files.content[kLog];
  for (long lines = std::ranges::count(text, '\n'); lines <= 48 + 1; ++lines) text += line;
  const int rewritten = files.rewritten;
  ASSERT_TRUE(ask(Sweep{}));
  EXPECT_EQ(files.rewritten, rewritten) << "it is not long yet";
  text += line;
  files.appends_left = 0;
  EXPECT_EQ(ask(Sweep{}).error().message, "full");
  files.appends_left = 1 << 30;
  ASSERT_TRUE(ask(Sweep{}));
  EXPECT_EQ(std::ranges::count(files.content[kLog], '\n'), 2);
  EXPECT_EQ(standing(), before);
}

// ---- how they are told

TEST_F(LeasesTest, AreToldWithTheirInstancesAsTheyAre) {
  const Lease mine =
      taken({.owner = "a", .profile = "2g.20gb", .terms = Terms{.until_ms = now_ms + 9}});
  const auto told = [&] {
    return read_leases(
               {*driver, files, processes, hw::builtin_catalogue(), [this] { return now_ms; }, {}},
               kLog)
        .value()
        .at(0);
  };
  const device::Instance made = driver->read(mine.gpu)->instances.at(0);
  Lease expected{{"2g.20gb", made.start},
                 "a",
                 made.uuid(),
                 mine.gpu,
                 driver->read(mine.gpu)->uuid,
                 made.gi_id,
                 made.compute.at(0).ci_id,
                 1'000'000,
                 {.until_ms = 1'000'009}};
  EXPECT_EQ(told(), expected);
  EXPECT_EQ(mine, expected);
  driver->busy = {mine.uuid};
  now_ms += 9;
  expected.busy = expected.expired = true;
  EXPECT_EQ(told(), expected);
  driver->busy.clear();
  expected.busy = false;
  ASSERT_TRUE(driver->destroy_compute(mine.gpu, made.gi_id, made.compute[0].ci_id));
  expected.uuid.clear();
  expected.gi_id = expected.ci_id = 0;
  EXPECT_EQ(told(), expected) << "half of it is none";
  driver->refuse["read"] = {ErrorCode::timeout, "silent", "call"};
  EXPECT_FALSE(read_leases(
      {*driver, files, processes, hw::builtin_catalogue(), [this] { return now_ms; }, {}}, kLog));
  // Of a GPU that is not there only the log knows; it ended in the first millisecond of all.
  driver->refuse.clear();
  std::string& text = files.content[kLog];
  StandingLeases all = standing();
  all.leases.begin()->second.gpu = expected.gpu_uuid = "GPU-x";
  all.leases.begin()->second.terms.until_ms = expected.terms.until_ms = 1;
  text = log_header(kLeaseLogKind) + log_line(lease_record_text(all.leases.begin()->second));
  expected.gpu = -1;
  EXPECT_EQ(told(), expected);
}

TEST_F(LeasesTest, OneThatEndsWithAProcessHasExpiredOnceThatIsGone) {
  const Pid pid = *processes.start({.argv = {"job"}});
  taken({.owner = "a",
         .profile = "1g.10gb",
         .terms = Terms{.pid = pid, .identity = processes.identity(pid)}});
  const auto told = [&] {
    return read_leases(
               {*driver, files, processes, hw::builtin_catalogue(), [this] { return now_ms; }, {}},
               kLog)
        .value()
        .at(0);
  };
  EXPECT_FALSE(told().expired);
  processes.crash(pid, 0);
  EXPECT_TRUE(told().expired);
  EXPECT_FALSE(told().busy);
}

// The door tells to whom an instance is lent; that is no process that uses it.
TEST_F(LeasesTest, BehindTheDoorALeaseIsNoUse) {
  const Lease mine = taken({.owner = "a", .profile = "1g.10gb"});
  const Lease other = taken({.owner = "b", .profile = "1g.10gb"});
  LeasedDriver door(std::make_unique<TestDriver>(*machine, fuse), files,
                    [] { return Result<std::string>(kLog); });
  const auto all = read_leases(
      {door, files, processes, hw::builtin_catalogue(), [this] { return now_ms; }, {}}, kLog);
  ASSERT_EQ(all->size(), 2U);
  EXPECT_FALSE(all->at(0).busy || all->at(1).busy);
  const auto refused = door.destroy_instance(mine.gpu, mine.gi_id);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), (Error{ErrorCode::in_use,
                                    "1g.10gb at " + std::to_string(mine.start) + " is lent to 'a'",
                                    "gpu " + std::to_string(mine.gpu)}));
  EXPECT_THAT(door.destroy_instance(other.gpu, other.gi_id).error().message,
              testing::HasSubstr("is lent to 'b'"));
  // What is not lent can be destroyed, on the same GPU and on another.
  for (const int gpu : {mine.gpu, 1 - mine.gpu}) {
    const auto profiles = *driver->profiles(gpu);
    const auto info = std::ranges::find(profiles, "1g.10gb", &device::ProfileInfo::name);
    const int gi = *driver->create_instance(gpu, {info->nvml_enum, 0});
    const auto compute = driver->create_compute(gpu, gi);
    ASSERT_TRUE(compute);
    const auto there = door.read(gpu)->instances;
    EXPECT_FALSE(std::ranges::find(there, gi, &device::Instance::gi_id)->lent());
    EXPECT_TRUE(door.destroy_compute(gpu, gi, compute->ci_id));
    EXPECT_TRUE(door.destroy_instance(gpu, gi));
  }
  EXPECT_EQ(devices().size(), 2U);
}

TEST_F(LeasesTest, TheDoorLooksForItsLogOnce) {
  int asked = 0;
  bool known = false;
  LeasedDriver door(std::make_unique<TestDriver>(*machine, fuse), files,
                    [&]() -> Result<std::string> {
                      ++asked;
                      if (!known) return failed({ErrorCode::environment, "no folder", ""});
                      return std::string(kLog);
                    });
  const auto profiles = *driver->profiles(0);
  const int gi = *driver->create_instance(0, {profiles.front().nvml_enum, 0});
  EXPECT_EQ(door.destroy_instance(0, gi).error().message, "no folder");
  EXPECT_TRUE(door.read(0)) << "what is there is told all the same";
  known = true;
  EXPECT_TRUE(door.destroy_instance(0, gi));
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(door.destroy_instance(0, gi).error().code, ErrorCode::not_found);
  EXPECT_EQ(asked, 3);
  // Without a log nothing is lent.
  LeasedDriver alone(std::make_unique<TestDriver>(*machine, fuse), files,
                     [] { return Result<std::string>(""); });
  EXPECT_EQ(alone.destroy_instance(0, gi).error().code, ErrorCode::not_found);
  taken({.owner = "a", .profile = "1g.10gb"});
  auto silent = std::make_unique<TestDriver>(*machine, fuse);
  silent->refuse["read"] = {ErrorCode::timeout, "silent", "call"};
  LeasedDriver deaf(std::move(silent), files, [] { return Result<std::string>(kLog); });
  EXPECT_EQ(deaf.destroy_instance(0, gi).error().message, "silent");
}

// ---- killed at any moment

class KilledLeasesTest : public LeasesTest {
 protected:
  KilledLeasesTest()
      : LeasesTest(
            "[{model: A100-80GB, count: 3, mig: true}, "
            "{model: H100-80GB-SXM5, count: 1, mig: true}, {model: A30-24GB, mig: true}]") {}

  // What is there belongs to exactly one lease, or is the stranger's.
  void check() {
    std::set<std::string> held;
    const StandingLeases now = standing();
    for (const auto& [number, lease] : now.leases) {
      ASSERT_EQ(lease.state, LeaseRecord::State::made) << lease.owner;
      ASSERT_TRUE(held.insert(lease.device).second) << "two leases of " << lease.device;
    }
    held.insert(strange);
    const std::vector<std::string> there = devices();
    ASSERT_EQ(std::set<std::string>(there.begin(), there.end()), held);
    ASSERT_EQ(there.size(), held.size());
    for (const auto& [owner, told] : known) {
      const LeaseRecord* lease = now.of(owner);
      ASSERT_NE(lease, nullptr) << owner;
      ASSERT_EQ(lease->device, told.uuid) << owner;
    }
  }

  struct Told {
    std::string profile, uuid;
  };
  std::map<std::string, Told> known;  // by owner
  std::string strange;                // made by somebody else
};

// What somebody asks for, and with what.
struct Asking {
  Ask what;
  std::string shape, to;
};

Asking some_ask(Rng& rng, const std::string& owner, const std::string* has) {
  static const std::vector<std::string> shapes = {"1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb",
                                                  "7g.80gb", "1g.6gb",  "2g.12gb", "1g.20gb"};
  const auto dice = rng.below(10);
  if (dice < 6) {
    const bool again = has != nullptr && rng.below(4) > 0;
    const std::string shape = again ? *has : shapes[rng.below(shapes.size())];
    return {Take{.owner = owner, .profile = shape}, shape, ""};
  }
  if (dice > 6) return {Return{owner}, "", ""};
  const std::string to = "job:" + std::to_string(rng.below(24));
  return {HandOver{owner, to, "", {}}, "", to};
}

TEST_F(KilledLeasesTest, NothingIsLostOrTwice) {
  const int gi = *driver->create_instance(0, {driver->profiles(0)->front().nvml_enum, 3});
  strange = driver->create_compute(0, gi)->uuid;
  Rng rng(20261125);
  int asks = 0, kills = 0, granted = 0, refused = 0, same = 0, handed = 0;
  const int least_asks = test_rounds(2'000), least_kills = test_rounds(200);
  while (asks < least_asks || kills < least_kills) {
    ++asks;
    const std::string owner = "job:" + std::to_string(rng.below(24));
    const auto has = known.find(owner);
    const auto [what, shape, to] =
        some_ask(rng, owner, has == known.end() ? nullptr : &has->second.profile);
    const auto before = devices();
    fuse.seen = 0;
    fuse.at = rng.below(4) == 0 ? 1 + static_cast<long>(rng.below(16)) : -1;
    try {
      const auto outcome = ask(what);
      fuse.at = -1;
      ASSERT_TRUE(outcome) << to_string(outcome.error());
      if (std::holds_alternative<Return>(what)) known.erase(owner);
      if (outcome->refused) ++refused;
      if (std::holds_alternative<Take>(what) && !outcome->refused) {
        const std::string uuid = outcome->leases.front().uuid;
        ++(has == known.end() ? granted : same);
        if (has != known.end()) {
          ASSERT_EQ(has->second.uuid, uuid);
          ASSERT_EQ(has->second.profile, shape);
        }
        known[owner] = {shape, uuid};
      }
      if (std::holds_alternative<HandOver>(what) && !outcome->refused && has != known.end() &&
          to != owner) {
        ASSERT_EQ(outcome->leases.front().uuid, has->second.uuid);
        known[to] = has->second;
        known.erase(owner);
        ++handed;
      }
      check();
    } catch (const Killed&) {
      fuse.at = -1;
      ++kills;
      // What was made by then is the owner's, though nobody told him; a return, or a hand-over,
      // that was begun may be finished by whoever comes.
      for (const std::string& uuid : devices())
        if (!uuid.empty() && std::ranges::count(before, uuid) == 0) known[owner] = {shape, uuid};
      ASSERT_TRUE(ask(Sweep{}));
      const StandingLeases now = standing();
      if (std::holds_alternative<Return>(what) && now.of(owner) == nullptr) known.erase(owner);
      if (!to.empty() && now.of(owner) == nullptr && has != known.end() && to != owner) {
        ASSERT_NE(now.of(to), nullptr);
        known[to] = has->second;
        known.erase(owner);
      }
      if (std::holds_alternative<Take>(what) && has == known.end())
        if (const LeaseRecord* lease = now.of(owner)) known[owner] = {shape, lease->device};
      check();
    }
    if (HasFatalFailure()) FAIL() << "ask " << asks << " of " << owner;
  }
  for (int n = 0; n < 24; ++n) ASSERT_TRUE(ask(Return{"job:" + std::to_string(n)}));
  EXPECT_EQ(devices(), std::vector<std::string>{strange});
  EXPECT_GT(granted, least_asks / 13);
  EXPECT_GT(same, least_asks / 13);
  EXPECT_GT(refused, least_asks / 20);
  EXPECT_GT(handed, least_asks / 100);
  RecordProperty("kills", kills);
  RecordProperty("granted", granted);
}

// The machine ends at any moment, and with it every instance and any part of what was not synced.
TEST_F(LeasesTest, AfterAnEndOfTheMachineNothingStandsAndAllCanBeAskedFor) {
  Rng rng(7);
  for (int n = 0; n < test_rounds(600); ++n) {
    const std::string owner = "job:" + std::to_string(rng.below(8));
    fuse.seen = 0;
    fuse.at = rng.below(4) == 0 ? 1 + static_cast<long>(rng.below(12)) : -1;
    try {
      if (rng.below(3) > 0)
        ASSERT_TRUE(ask(Take{.owner = owner, .profile = "2g.20gb"}));
      else
        ASSERT_TRUE(ask(Return{owner}));
    } catch (const Killed&) {
      const std::string whole = files.content[kLog], synced = files.synced[kLog];
      ASSERT_TRUE(whole.starts_with(synced));
      files.content[kLog].resize(synced.size() + rng.below(whole.size() - synced.size() + 1));
      files.synced = files.content;
      boot("[{model: A100-80GB, count: 2, mig: true}]");
      fuse.at = -1;
      ASSERT_TRUE(ask(Sweep{}));
      EXPECT_TRUE(standing().leases.empty());
      EXPECT_TRUE(devices().empty());
    }
  }
}

}  // namespace
}  // namespace partita::lease
