// Instances on loan: made, given back, and taken back from owners that were killed at any moment.
#include <gtest/gtest.h>

#include "device/adaptors.h"
#include "drivers/sim/sim_driver.h"
#include "act/loans/loans.h"

namespace partita::exec {
namespace {

using device::Fault;
using device::FaultyDriver;
using drivers::sim::SharedMachine;

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

  ManualClock clock;
  MemoryFiles files;
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

}  // namespace
}  // namespace partita::exec
