// Instances on loan: made, given back, and taken back from owners that were killed at any moment.
#include "act/loans/loans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/adaptors.h"
#include "drivers/sim/sim_driver.h"

namespace partita::exec {
namespace {

using device::Fault;
using device::FaultyDriver;
using drivers::sim::SharedMachine;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kLog = "state/node.loans";

struct Killed {};

class LoansTest : public testing::Test {
 protected:
  LoansTest() : processes(clock, [](const ProcessSpec&) { return SimBehaviour{}; }) {
    auto made = drivers::sim::described_machine(
        "machine.yaml", "gpus: [{model: A100-80GB, count: 2, mig: true}]\nspeed: 0\n", clock,
        hw::builtin_catalogue());
    EXPECT_TRUE(made);
    machine = *std::move(made);
    sim = std::make_unique<drivers::sim::SimDriver>(*machine);
  }
  // A process that lends instances, with a driver of its own.
  struct Owner {
    Pid pid;
    std::unique_ptr<FaultyDriver> driver;
  };
  Owner owner(std::vector<Fault> faults = {}) {
    return {*processes.start({.argv = {"partita"}}),
            std::make_unique<FaultyDriver>(*sim, clock, std::move(faults), [] { throw Killed(); })};
  }
  Result<Loans> open(Owner& owner, const std::string& path = kLog) {
    return Loans::open({*owner.driver, clock, files, processes}, path, owner.pid);
  }
  std::vector<device::ProfileInfo> named(const std::string& name) {
    auto profiles = *sim->profiles(0);
    std::erase_if(profiles, [&](const device::ProfileInfo& p) { return p.name != name; });
    return profiles;
  }
  void kill(Owner& owner) {
    ASSERT_TRUE(processes.stop(owner.pid, StopSignal::kill));
    clock.sleep_ns(1);
    processes.exited();
  }
  std::size_t instances(int gpu = 0) { return sim->read(gpu)->instances.size(); }
  void use(const std::string& device, std::int64_t pid, const std::string& name) {
    ASSERT_TRUE(machine->with([&](drivers::sim::Machine& all) {
      for (const auto& one : all.gpus()[0].instances) {
        if (one.compute.empty() || one.compute[0].uuid != device) continue;
        ASSERT_TRUE(all.attach(0, {pid, name, one.gi_id, one.compute[0].ci_id}));
      }
    }));
  }
  StandingLoans standing() {
    const std::string text = files.content.at(kLog);
    return standing_loans(kLog, parse_log(kLog, kLoanLogKind, text).value()).value();
  }

  // A machine on which time passes while it is waited.
  struct WatchedClock final : Clock {
    std::int64_t now = 0;
    std::function<void()> slept = [] {};
    std::int64_t now_ns() override { return now; }
    std::int64_t cpu_ns() override { return now; }
    void sleep_ns(std::int64_t ns) override {
      now += ns > 0 ? ns : 0;
      if (ns > 1) slept();
    }
  } clock;
  // Appends fail from one on.
  struct FillingFiles final : MemoryFiles {
    int appends_left = 1 << 30;
    Result<void> append(const std::string& path, std::string_view text) override {
      if (appends_left-- <= 0) return environment_error(path, "full");
      return MemoryFiles::append(path, text);
    }
    Result<void> write_atomic(const std::string& path, std::string_view text) override {
      ++rewritten;
      return MemoryFiles::write_atomic(path, text);
    }
    Result<void> remove(const std::string& path) override {
      if (path.ends_with(".room")) appends_left += freed;
      return MemoryFiles::remove(path);
    }
    int rewritten = 0, freed = 0;
  } files;
  SimProcesses processes;
  std::unique_ptr<SharedMachine> machine;
  std::unique_ptr<drivers::sim::SimDriver> sim;
};

TEST_F(LoansTest, AreMadeAndGivenBack) {
  Owner mine = owner();
  auto loans = open(mine);
  ASSERT_TRUE(loans);
  const auto first = loans->make(0, named("3g.40gb"));
  const auto second = loans->make(1, named("3g.40gb"));
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->device, sim->read(0)->instances[0].uuid());
  EXPECT_EQ(first->profile, "3g.40gb");
  EXPECT_EQ(first->gpcs, 3);
  ASSERT_TRUE(loans->give_back(first->device));
  EXPECT_EQ(instances(0), 0U);
  EXPECT_EQ(instances(1), 1U);
  ASSERT_TRUE(loans->give_back(first->device));  // it is no loan any more
  ASSERT_TRUE(loans->give_back(second->device));
  EXPECT_EQ(instances(1), 0U);
  // With no log it is the same.
  auto unwritten = open(mine, "");
  const auto third = unwritten->make(0, named("1g.10gb"));
  ASSERT_TRUE(third);
  ASSERT_TRUE(unwritten->give_back(third->device));
  EXPECT_EQ(instances(0), 0U);
}

TEST_F(LoansTest, TheFirstProfileWithRoomIsMade) {
  Owner mine = owner();
  auto loans = open(mine);
  auto profiles = named("7g.80gb");
  profiles.push_back(named("2g.20gb").front());
  EXPECT_EQ(loans->make(0, profiles)->profile, "7g.80gb");
  EXPECT_EQ(loans->make(0, profiles).error().code, ErrorCode::no_room);
  ASSERT_TRUE(loans->give_back(sim->read(0)->instances[0].uuid()));
  for (int n = 0; n < 3; ++n) EXPECT_EQ(loans->make(0, named("2g.20gb"))->profile, "2g.20gb");
  EXPECT_EQ(loans->make(0, named("2g.20gb")).error().code, ErrorCode::no_room);
}

TEST_F(LoansTest, SmallOnesLeaveRoomForLargeOnes) {
  Owner mine = owner();
  auto loans = open(mine);
  EXPECT_TRUE(loans->make(0, named("1g.10gb")));
  EXPECT_TRUE(loans->make(0, named("1g.10gb")));
  EXPECT_TRUE(loans->make(0, named("4g.40gb")));
  EXPECT_TRUE(loans->make(1, named("2g.20gb")));
  EXPECT_TRUE(loans->make(1, named("4g.40gb")));
}

// The owner dies before and after each of its changing calls, and with its last line torn.
TEST_F(LoansTest, OfAnOwnerThatWasKilledAreTakenBackByTheNext) {
  constexpr int kCalls = 4;  // create_instance, create_compute, destroy_compute, destroy_instance
  Owner other = owner();
  {
    auto loans = open(other);
    ASSERT_TRUE(loans && loans->make(1, named("4g.40gb")));  // alive: it keeps its own
  }
  int deaths = 0;
  for (int call = 1; call <= kCalls; ++call) {
    for (const bool after : {false, true}) {
      Owner mine = owner({{.method = "", .call = call, .after_effect = after, .dies = true}});
      try {
        auto loans = open(mine);
        ASSERT_TRUE(loans);
        const auto loan = loans->make(0, named("2g.20gb"));
        if (loan) static_cast<void>(loans->give_back(loan->device));
      } catch (const Killed&) {
        ++deaths;
      }
      kill(mine);
      const std::string whole = files.content.at(kLog);
      if (call == 2 && after) files.content[kLog] += "0123abcd {\"loan\": 1";
      Owner next = owner();
      ASSERT_TRUE(open(next)) << call << after;
      EXPECT_EQ(instances(0), 0U) << "call " << call << (after ? " after" : " before");
      EXPECT_EQ(instances(1), 1U);
      // And what stood in the log is struck out: the one after has nothing to do.
      Owner last = owner({{.method = "", .call = 1, .dies = true}});
      EXPECT_TRUE(open(last));
    }
  }
  EXPECT_EQ(deaths, 2 * kCalls);
}

TEST_F(LoansTest, OnesThatAreUsedAreNotDestroyed) {
  Owner mine = owner();
  std::string device;
  {
    auto loans = open(mine);
    device = loans->make(0, named("1g.10gb"))->device;
  }
  Owner busy = owner({{.method = "destroy_compute", .call = 1, .code = ErrorCode::in_use}});
  kill(mine);
  {
    auto loans = open(busy);
    ASSERT_TRUE(loans);
    EXPECT_EQ(loans->left().size(), 1U);
    EXPECT_EQ(instances(), 1U);
    // Whoever has the log open has it alone.
    EXPECT_EQ(open(busy).error().code, ErrorCode::in_use);
  }
  Owner next = owner();
  const auto loans = open(next);
  EXPECT_TRUE(loans->left().empty());
  EXPECT_EQ(instances(), 0U);
}

TEST_F(LoansTest, AnInstanceThatTookItsPlaceStays) {
  Owner mine = owner();
  std::string device;
  {
    auto loans = open(mine);
    device = loans->make(0, named("1g.10gb"))->device;
  }
  kill(mine);
  const device::Instance made = sim->read(0)->instances[0];
  ASSERT_TRUE(sim->destroy_compute(0, made.gi_id, made.compute[0].ci_id));
  ASSERT_TRUE(sim->destroy_instance(0, made.gi_id));
  const auto anew = sim->create_instance(
      0, {.nvml_enum = named("1g.10gb").front().nvml_enum, .start = made.start});
  ASSERT_TRUE(anew && sim->create_compute(0, *anew));
  Owner next = owner();
  ASSERT_TRUE(open(next));
  EXPECT_EQ(instances(), 1U);
}

TEST_F(LoansTest, ADamagedLogIsRefusedAndNothingIsTouched) {
  Owner mine = owner();
  { ASSERT_TRUE(open(mine)->make(0, named("1g.10gb"))); }
  kill(mine);
  for (const std::string line : {"{}", R"({"loan": 0})", "nonsense"}) {
    const std::string before = files.content[kLog];
    files.content[kLog] += log_line(line);
    Owner next = owner();
    const auto loans = open(next);
    ASSERT_FALSE(loans) << line;
    EXPECT_NE(to_string(loans.error()).find("node.loans:4"), std::string::npos)
        << to_string(loans.error());
    EXPECT_EQ(instances(), 1U);
    files.content[kLog] = before;
  }
}

// ---- what is in use

constexpr std::int64_t kMs = 1'000'000;

TEST_F(LoansTest, ProcessesHaveTenSecondsToEnd) {
  Owner mine = owner();
  auto loans = open(mine);
  const std::string device = loans->make(0, named("1g.10gb"))->device;
  use(device, 77, "python");
  const std::int64_t begin = clock.now;
  const auto refused = loans->give_back(device);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::in_use);
  EXPECT_EQ(refused.error().message, "the borrowed instance 1g.10gb at " +
                                         std::to_string(sim->read(0)->instances[0].start) +
                                         " of GPU 0 is used by process 77 (python)");
  EXPECT_EQ(clock.now - begin, 10'000 * kMs);
  EXPECT_EQ(instances(), 1U);
  EXPECT_EQ(standing().size(), 1U) << "the loan stands";
  clock.slept = [&] {
    if (clock.now < begin + 10'200 * kMs) return;
    ASSERT_TRUE(machine->with([](drivers::sim::Machine& all) { all.detach(77); }));
  };
  ASSERT_TRUE(loans->give_back(device));
  EXPECT_EQ(clock.now - begin, 10'200 * kMs) << "it is looked every 50 ms";
  EXPECT_EQ(instances(), 0U);
  EXPECT_TRUE(standing().empty());
}

TEST_F(LoansTest, ProcessesWithoutANameAreNamedByTheirNumber) {
  Owner mine = owner();
  {
    auto loans = open(mine);
    use(loans->make(0, named("1g.10gb"))->device, 78, "");
  }
  kill(mine);
  Owner next = owner();
  const auto loans = open(next);
  ASSERT_TRUE(loans);
  ASSERT_EQ(loans->left().size(), 1U);
  EXPECT_THAT(loans->left()[0], HasSubstr("of GPU 0 is used by process 78"));
  EXPECT_EQ(loans->left()[0].find('('), std::string::npos);
  EXPECT_EQ(instances(), 1U);
}

// Only what in-use is worth waiting for.
TEST_F(LoansTest, OtherRefusalsAreToldAtOnce) {
  Owner mine = owner({{.method = "destroy_instance", .call = 1, .code = ErrorCode::denied}});
  auto loans = open(mine);
  const std::string device = loans->make(0, named("1g.10gb"))->device;
  const std::int64_t begin = clock.now;
  EXPECT_EQ(loans->give_back(device).error().code, ErrorCode::denied);
  EXPECT_EQ(clock.now, begin);
  ASSERT_TRUE(loans->give_back(device)) << "half of it had gone";
  EXPECT_EQ(instances(), 0U);
}

// What somebody else destroyed meanwhile is gone.
TEST_F(LoansTest, WhatIsNotThereIsGivenBack) {
  Owner mine = owner({{.method = "destroy_compute", .call = 1, .code = ErrorCode::not_found},
                      {.method = "destroy_instance", .call = 1, .code = ErrorCode::not_found}});
  auto loans = open(mine);
  const std::string device = loans->make(0, named("1g.10gb"))->device;
  ASSERT_TRUE(loans->give_back(device));
  EXPECT_TRUE(standing().empty());
  Owner refused = owner({{.method = "destroy_compute", .call = 1, .code = ErrorCode::denied}});
  auto others = open(refused, "another");
  EXPECT_EQ(others->give_back(others->make(0, named("1g.10gb"))->device).error().code,
            ErrorCode::denied);
}

TEST_F(LoansTest, OnALostGpuNothingCanBeGivenBack) {
  Owner mine = owner();
  auto loans = open(mine);
  const std::string device = loans->make(0, named("1g.10gb"))->device;
  ASSERT_TRUE(machine->with([](drivers::sim::Machine& all) { all.lose(0); }));
  const auto lost = loans->give_back(device);
  EXPECT_EQ(lost.error().code, ErrorCode::lost);
  EXPECT_EQ(lost.error().message, "GPU 0 fell off the bus");
  EXPECT_EQ(standing().size(), 1U);
  EXPECT_EQ(loans->make({0}, "1g.10gb").error().code, ErrorCode::lost);
}

// The log of another machine: a GPU that is not there has no instances.
TEST_F(LoansTest, OfAGpuThatIsNotThereNothingIsLeft) {
  files.content[kLog] =
      log_header(kLoanLogKind) + log_line(loan_record_text({.loan = 3,
                                                            .state = LoanRecord::State::made,
                                                            .pid = 5,
                                                            .owner = "gone",
                                                            .gpu = "GPU-x",
                                                            .profile_id = 19,
                                                            .start = 0,
                                                            .device = "MIG-x"}));
  Owner mine = owner();
  auto loans = open(mine);
  ASSERT_TRUE(loans);
  EXPECT_TRUE(standing().empty());
  // Numbers go on where the log's end.
  ASSERT_TRUE(loans->make(0, named("1g.10gb")));
  EXPECT_EQ(standing().begin()->first, 4);
}

// ---- what is made

TEST_F(LoansTest, ALoanIsWrittenDownWithAllThatIsKnownOfIt) {
  Owner mine = owner();
  auto loans = open(mine);
  const auto first = loans->make(1, named("2g.20gb"));
  const auto second = loans->make(1, named("2g.20gb"));
  ASSERT_TRUE(first && second);
  const device::GpuState gpu = *sim->read(1);
  const StandingLoans all = standing();
  ASSERT_EQ(all.size(), 2U);
  for (const long number : {1L, 2L}) {
    const LoanRecord& record = all.at(number);
    const std::string device = number == 1 ? first->device : second->device;
    const auto made = std::ranges::find(gpu.instances, device, &device::Instance::uuid);
    ASSERT_NE(made, gpu.instances.end());
    EXPECT_EQ(record, (LoanRecord{.loan = number,
                                  .state = LoanRecord::State::made,
                                  .pid = mine.pid,
                                  .owner = processes.identity(mine.pid),
                                  .gpu = gpu.uuid,
                                  .profile_id = made->profile_id,
                                  .start = made->start,
                                  .device = device}));
  }
}

TEST_F(LoansTest, TheNumbersOfLoansGoOn) {
  Owner mine = owner();
  {
    auto loans = open(mine);
    for (int n = 0; n < 2; ++n) ASSERT_TRUE(loans->make(0, named("1g.10gb")));
  }
  auto loans = open(mine);
  ASSERT_TRUE(loans->make(0, named("1g.10gb")));
  EXPECT_EQ(standing().rbegin()->first, 3);
  EXPECT_EQ(standing().size(), 3U) << "one's own stay";
}

TEST_F(LoansTest, TheBestPlaceOfSeveralGpusIsTaken) {
  Owner mine = owner();
  auto loans = open(mine);
  ASSERT_TRUE(loans->make(1, named("1g.10gb")));
  EXPECT_TRUE(loans->make({0, 1}, "1g.10gb"));
  EXPECT_EQ(instances(0), 0U) << "the whole of it stays free";
  EXPECT_TRUE(loans->make({0, 1}, "7g.80gb"));
  EXPECT_EQ(instances(0), 1U);
  const auto full = loans->make({0, 1}, "7g.80gb");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::no_room);
  EXPECT_EQ(full.error().message,
            "2 GPUs have no room for 7g.80gb beside the 3 instances that are there");
  EXPECT_EQ(loans->make(0, named("2g.20gb")).error().message,
            "GPU 0 has no room for 2g.20gb beside the 1 instances that are there");
  EXPECT_EQ(loans->make(0, std::vector<device::ProfileInfo>{}).error().message,
            "GPU 0 has no room for it beside the 1 instances that are there");
  EXPECT_EQ(loans->make({0, 1}, "9g").error().code, ErrorCode::no_room);
  EXPECT_EQ(loans->make({5}, "1g.10gb").error().code, ErrorCode::not_found);
}

TEST_F(LoansTest, WhereOnePlaceIsTakenMeanwhileTheNextIsTried) {
  Owner mine = owner({{.method = "create_instance", .call = 1, .code = ErrorCode::no_room}});
  auto loans = open(mine);
  ASSERT_TRUE(loans->make(0, named("1g.10gb")));
  EXPECT_EQ(standing().begin()->first, 2) << "the first one is struck out";
  EXPECT_EQ(standing().size(), 1U);
  EXPECT_EQ(instances(), 1U);
}

TEST_F(LoansTest, OtherRefusalsEndTheAsking) {
  Owner mine = owner({{.method = "create_instance", .call = 1, .code = ErrorCode::denied}});
  auto loans = open(mine);
  EXPECT_EQ(loans->make(0, named("1g.10gb")).error().code, ErrorCode::denied);
  EXPECT_TRUE(standing().empty());
  EXPECT_EQ(instances(), 0U);
}

TEST_F(LoansTest, WhatIsMadeHalfIsGoneAgain) {
  Owner mine = owner({{.method = "create_compute", .call = 1, .code = ErrorCode::timeout}});
  EXPECT_EQ(open(mine)->make(0, named("1g.10gb")).error().code, ErrorCode::timeout);
  EXPECT_EQ(instances(), 0U);
  EXPECT_TRUE(standing().empty());
  // Unless the driver refuses that, too: then the next who opens the log does it.
  Owner worse = owner({{.method = "create_compute", .call = 1, .code = ErrorCode::timeout},
                       {.method = "destroy_instance", .call = 1, .code = ErrorCode::denied}});
  {
    auto again = open(worse);
    EXPECT_EQ(again->make(0, named("1g.10gb")).error().code, ErrorCode::timeout);
    EXPECT_EQ(instances(), 1U);
    EXPECT_EQ(standing().size(), 1U);
  }
  kill(worse);
  ASSERT_TRUE(open(mine));
  EXPECT_EQ(instances(), 0U);
}

// ---- a disk that is full

TEST_F(LoansTest, WhatCannotBeAnnouncedIsNotMade) {
  Owner mine = owner();
  auto loans = open(mine);
  files.appends_left = 0;
  EXPECT_EQ(loans->make(0, named("1g.10gb")).error().message, "full");
  EXPECT_EQ(instances(), 0U);
  files.appends_left = 1;  // the announcement alone
  EXPECT_EQ(loans->make(0, named("1g.10gb")).error().message, "full");
  EXPECT_EQ(instances(), 0U) << "nobody would know whose it is";
  files.appends_left = 1 << 30;
  const std::string device = loans->make(0, named("1g.10gb"))->device;
  files.appends_left = 0;
  EXPECT_EQ(loans->give_back(device).error().message, "full");
  files.appends_left = 1 << 30;
  ASSERT_TRUE(loans->give_back(device));
  ASSERT_EQ(standing().size(), 1U) << "whose end nobody could note; who opens the log next does";
  EXPECT_EQ(standing().begin()->second.state, LoanRecord::State::intended);
}

TEST_F(LoansTest, NoRoomThatCannotBeStruckOutIsAnError) {
  Owner mine = owner({{.method = "create_instance", .call = 1, .code = ErrorCode::no_room}});
  auto loans = open(mine);
  files.appends_left = 1;
  EXPECT_EQ(loans->make(0, named("1g.10gb")).error().message, "full");
}

// What another makes later where a loan was announced that did not come about is left alone.
TEST_F(LoansTest, ADiskThatFillsBehindAnAnnouncementCostsOthersNothing) {
  Owner mine = owner({{.method = "create_instance", .call = 1, .code = ErrorCode::no_room}});
  files.appends_left = 1;  // the announcement
  files.freed = 2;         // its outcome, tried twice
  EXPECT_EQ(open(mine)->make(0, named("1g.10gb")).error().message, "full");
  EXPECT_TRUE(standing().empty());
  const auto log = parse_log(kLog, kLoanLogKind, files.content.at(kLog));
  const auto announced = standing_loans(kLog, {.records = {log->records.front()}});
  ASSERT_EQ(announced->size(), 1U);
  ASSERT_TRUE(sim->create_instance(0, {.nvml_enum = named("1g.10gb").front().nvml_enum,
                                       .start = announced->begin()->second.start}));
  kill(mine);
  files.appends_left = 1 << 30;
  Owner next = owner();
  ASSERT_TRUE(open(next));
  EXPECT_EQ(instances(0), 1U);
}

// A long log is written anew with what stands; what is in it stays.
TEST_F(LoansTest, ALongLogIsWrittenAnew) {
  Owner mine = owner();
  { ASSERT_TRUE(open(mine)->make(1, named("2g.20gb"))); }
  LoanRecord old{.loan = 2,
                 .state = LoanRecord::State::gone,
                 .pid = 5,
                 .owner = "gone",
                 .gpu = "GPU-x",
                 .device = {}};
  std::string& text = files.content[kLog];
  const std::string line = log_line(loan_record_text(old));
  while (text.size() + line.size() <= 65'536) text += line;
  const StandingLoans before = standing();
  const int rewritten = files.rewritten;
  ASSERT_TRUE(open(mine));
  EXPECT_EQ(files.rewritten, rewritten) << "it is not long yet";
  text += line;
  ASSERT_TRUE(open(mine));
  EXPECT_EQ(files.rewritten, rewritten + 1);
  EXPECT_LT(files.content[kLog].size(), 1000U);
  EXPECT_EQ(standing(), before);
  EXPECT_EQ(before.size(), 1U);
}

TEST_F(LoansTest, WhatAnotherDriverRefusesKeepsTheLogShut) {
  Owner mine = owner();
  { ASSERT_TRUE(open(mine)->make(0, named("1g.10gb"))); }
  kill(mine);
  Owner next = owner({{.method = "destroy_compute", .call = 1, .code = ErrorCode::denied}});
  EXPECT_EQ(open(next).error().code, ErrorCode::denied);
  files.appends_left = 0;
  Owner last = owner();
  EXPECT_EQ(open(last).error().message, "full");
  files.appends_left = 1 << 30;
  EXPECT_TRUE(open(last));
  EXPECT_TRUE(standing().empty());
}

TEST(Profiles, ArePlainWithoutEnginesBeside) {
  EXPECT_TRUE(is_plain("1g.10gb"));
  EXPECT_FALSE(is_plain("1g.10gb+me"));
}

}  // namespace
}  // namespace partita::exec
