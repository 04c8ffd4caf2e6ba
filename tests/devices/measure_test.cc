// What `profile measure --gpu` borrows of a GPU and puts back, also when calls of the driver fail.
#include <gtest/gtest.h>

#include "device/adaptors.h"
#include "drivers/sim/sim_driver.h"
#include "serve/measure/gpu_places.h"

namespace partita::serve {
namespace {

using device::Fault;
using device::FaultyDriver;
using drivers::sim::Machine;
using drivers::sim::SharedMachine;

class BorrowTest : public testing::Test {
 protected:
  void open(const std::string& model, bool mig, std::vector<Fault> faults = {}) {
    places.reset();
    const std::string text = "gpus: [{model: " + model +
                             ", count: 1, mig: " + (mig ? "true" : "false") + "}]\nspeed: 0\n";
    auto made =
        drivers::sim::described_machine("machine.yaml", text, clock, hw::builtin_catalogue());
    ASSERT_TRUE(made) << to_string(made.error());
    machine = *std::move(made);
    sim = std::make_unique<drivers::sim::SimDriver>(*machine);
    driver = std::make_unique<FaultyDriver>(*sim, clock, std::move(faults), [] {});
    loans.emplace(*exec::Loans::open({*driver, clock, files, processes}, "", 1));
    places = std::make_unique<GpuPlaces>(*driver, *loans, 0, 7);
  }
  std::size_t instances() { return sim->read(0)->instances.size(); }

  ManualClock clock;
  std::unique_ptr<SharedMachine> machine;
  std::unique_ptr<drivers::sim::SimDriver> sim;
  std::unique_ptr<FaultyDriver> driver;
  MemoryFiles files;
  RealProcesses processes;
  std::optional<exec::Loans> loans;
  std::unique_ptr<GpuPlaces> places;
};

TEST_F(BorrowTest, EverySizeOfEveryBoardCanBeHadAndIsGivenBack) {
  for (const hw::GpuModel& model : hw::builtin_catalogue().gpus) {
    if (model.profiles.empty() || model.name.starts_with("CPU-")) continue;
    open(model.name, true);
    const auto sizes = places->sizes();
    ASSERT_TRUE(sizes) << model.name << ": " << to_string(sizes.error());
    for (const int gpcs : *sizes) {
      const auto place = places->borrow(gpcs);  // the one before goes first
      ASSERT_TRUE(place) << model.name << " " << gpcs << ": " << to_string(place.error());
      const device::GpuState state = *sim->read(0);
      ASSERT_EQ(state.instances.size(), 1U);
      EXPECT_EQ(state.instances[0].gpcs, gpcs);
      EXPECT_TRUE(state.instances[0].whole());
      EXPECT_EQ(state.instances[0].uuid(), place->device);
      EXPECT_EQ(place->profile.find('+'), std::string::npos);
    }
    EXPECT_TRUE(places->give_back());
    EXPECT_EQ(instances(), 0U);
    EXPECT_TRUE(places->give_back());  // nothing borrowed
  }
}

TEST_F(BorrowTest, WithoutMigASizeIsAShareOfTheThreads) {
  open("A100-80GB", false);
  EXPECT_EQ(*places->sizes(), (std::vector<int>{1, 2, 3, 4, 5, 6, 7}));
  const auto place = places->borrow(2);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->device, sim->read(0)->uuid);
  EXPECT_NEAR(place->percentage, 200.0 / 7, 1e-9);
  EXPECT_TRUE(places->give_back());
  EXPECT_FALSE(sim->read(0)->mig_enabled);
  GpuPlaces unknown(*driver, *loans, 0, 0);
  EXPECT_EQ(unknown.sizes().error().code, ErrorCode::not_supported);
}

TEST_F(BorrowTest, WhatIsMadeHalfIsDestroyed) {
  open("A100-80GB", true, {{.method = "create_compute", .call = 1, .code = ErrorCode::no_room}});
  EXPECT_FALSE(places->borrow(1));
  EXPECT_EQ(instances(), 0U);
  EXPECT_TRUE(places->borrow(1));
  EXPECT_EQ(instances(), 1U);
  places.reset();  // also without give_back()
  EXPECT_EQ(instances(), 0U);
}

TEST_F(BorrowTest, ProcessesThatEndSlowlyAreWaitedForButNotForever) {
  std::vector<Fault> busy;
  for (int call = 1; call <= 3; ++call)
    busy.push_back({.method = "destroy_compute", .call = call, .code = ErrorCode::in_use});
  open("A100-80GB", true, busy);
  ASSERT_TRUE(places->borrow(3));
  EXPECT_TRUE(places->give_back());
  EXPECT_EQ(instances(), 0U);
  busy.clear();
  for (int call = 1; call <= 1000; ++call)
    busy.push_back({.method = "destroy_instance", .call = call, .code = ErrorCode::in_use});
  open("A100-80GB", true, busy);
  ASSERT_TRUE(places->borrow(3));
  const std::int64_t begin = clock.now_ns();
  const auto gone = places->give_back();
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::in_use);
  EXPECT_LT(clock.now_ns() - begin, 11'000'000'000);
}

TEST_F(BorrowTest, ABoardWithoutRoomSaysSo) {
  open("A100-80GB", true);
  GpuPlaces other(*driver, *loans, 0, 7);
  ASSERT_TRUE(other.borrow(7));
  // That one is idle, so it is used for its size; beside it nothing fits.
  const auto same = places->borrow(7);
  ASSERT_TRUE(same);
  EXPECT_EQ(instances(), 1U);
  EXPECT_EQ(places->borrow(1).error().code, ErrorCode::no_room);
  EXPECT_EQ(instances(), 1U);  // it was not ours to take away
  EXPECT_TRUE(other.give_back());
  EXPECT_EQ(instances(), 0U);
}

}  // namespace
}  // namespace partita::serve
