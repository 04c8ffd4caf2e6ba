// Every NodeDriver on the conformance suite: drivers that conform, and broken ones that must not.
#include "device/testing/conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/recognise.h"
#include "drivers/sim/sim_driver.h"

namespace partita::device {
namespace {

using drivers::sim::Machine;
using drivers::sim::SharedMachine;
using drivers::sim::SimDriver;
using drivers::sim::SimGpu;
using drivers::sim::SimInstance;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const hw::GpuModel& model_named(const std::string& name) {
  return *hw::builtin_catalogue().find(name);
}

std::unique_ptr<SharedMachine> machine_with(const std::string& model, Clock& clock, bool mig) {
  return drivers::sim::own_machine(Machine({{&model_named(model), 2, mig}}, "conformance"), clock,
                                   1);
}

// A process on the MIG device, until the answer is called.
std::function<void()> hold(SharedMachine& shared, const std::string& uuid) {
  constexpr std::int64_t kPid = 4711;
  const auto used = shared.with([&](Machine& machine) {
    for (int gpu = 0; machine.find(gpu); ++gpu) {
      for (const SimInstance& instance : machine.find(gpu)->instances) {
        for (const auto& compute : instance.compute) {
          if (compute.uuid != uuid) continue;
          EXPECT_TRUE(machine.attach(gpu, {kPid, "train", instance.gi_id, compute.ci_id}));
        }
      }
    }
  });
  EXPECT_TRUE(used);
  return [&shared] { EXPECT_TRUE(shared.with([](Machine& machine) { machine.detach(kPid); })); };
}

ConformanceSubject subject_on(NodeDriver& driver, SharedMachine& shared, const std::string& model) {
  return {.driver = driver,
          .gpu = 1,
          .model = model_named(model),
          .hold = [&shared](const std::string& uuid) { return hold(shared, uuid); },
          .lose = [&shared] { EXPECT_TRUE(shared.with([](Machine& it) { it.lose(1); })); }};
}

class SimConformance : public testing::TestWithParam<const char*> {};

TEST_P(SimConformance, Conforms) {
  ManualClock clock;
  const auto shared = machine_with(GetParam(), clock, true);
  SimDriver driver(*shared);
  const auto board = driver.profiles(1);
  EXPECT_THAT(differences(model_named(GetParam()), *board), IsEmpty());
  EXPECT_THAT(check_reading(driver, hw::builtin_catalogue()), IsEmpty());
  EXPECT_THAT(check_conformance(subject_on(driver, *shared, GetParam())), IsEmpty());
  EXPECT_THAT(check_reading(driver, hw::builtin_catalogue()), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Models, SimConformance,
                         testing::Values("A30-24GB", "A100-80GB", "H100-80GB-SXM5", "H200-141GB",
                                         "RTX-PRO-6000-96GB"));

TEST(ConformanceTest, ReadingHoldsOnEveryModelBusyAndWithMigOff) {
  for (const hw::GpuModel& model : hw::builtin_catalogue().gpus) {
    ManualClock clock;
    const auto shared = machine_with(model.name, clock, false);
    SimDriver driver(*shared);
    EXPECT_THAT(check_reading(driver, hw::builtin_catalogue()), IsEmpty()) << model.name;
    ASSERT_TRUE(shared->with([&](Machine& machine) {
      EXPECT_TRUE(machine.set_mig_mode(0, true));
      machine.reboot();
      for (int profile = static_cast<int>(model.profiles.size()); profile-- > 0;)
        while (const auto made = machine.create_instance(0, profile, {}))
          EXPECT_TRUE(machine.create_compute(0, made->value, 1, {}));
      EXPECT_TRUE(machine.attach(0, {7, "x", machine.gpus()[0].instances[0].gi_id, 0}));
      machine.lose(1);
    }));
    EXPECT_THAT(check_reading(driver, hw::builtin_catalogue()), IsEmpty()) << model.name;
  }
}

// What a driver may do wrong; the suite must find each.
enum class Flaw {
  none,
  gi_id_of_place_taken,  // an occupied placement is called an invalid argument
  old_uuid,              // a MIG device has the UUID of its predecessor
  no_context,
  forgets_holders,
  counts_wrongly,
  destroys_with_compute,
  mode_not_pending,
  unknown_is_ok,
};

class FlawedDriver final : public NodeDriver {
 public:
  FlawedDriver(NodeDriver& inner, Flaw flaw) : inner_(inner), flaw_(flaw) {}
  Result<DriverInfo> info() override { return inner_.info(); }
  Result<GpuState> read(int gpu) override {
    auto state = inner_.read(gpu);
    if (!state) return state;
    for (Instance& instance : state->instances) {
      if (flaw_ == Flaw::forgets_holders) instance.holders.clear();
      for (ComputeInstance& compute : instance.compute) rename(compute);
    }
    if (flaw_ == Flaw::mode_not_pending) state->mig_pending = state->mig_enabled;
    return state;
  }
  Result<std::vector<ProfileInfo>> profiles(int gpu) override {
    auto profiles = inner_.profiles(gpu);
    if (profiles && flaw_ == Flaw::counts_wrongly)
      profiles->back().remaining = profiles->back().max_instances;
    return profiles;
  }
  Result<ModeChange> set_mig_mode(int gpu, bool enabled) override {
    return inner_.set_mig_mode(gpu, enabled);
  }
  Result<int> create_instance(int gpu, const Placement& placement) override {
    auto made = inner_.create_instance(gpu, placement);
    if (!made && flaw_ == Flaw::gi_id_of_place_taken && made.error().code == ErrorCode::no_room)
      made.error().code = ErrorCode::invalid_argument;
    if (!made && flaw_ == Flaw::no_context) made.error().context.clear();
    return made;
  }
  Result<void> destroy_instance(int gpu, int gi_id) override {
    auto gone = inner_.destroy_instance(gpu, gi_id);
    if (gone) return gone;
    if (flaw_ == Flaw::unknown_is_ok && gone.error().code == ErrorCode::not_found) return {};
    if (flaw_ == Flaw::destroys_with_compute && gone.error().code == ErrorCode::in_use) return {};
    return gone;
  }
  Result<ComputeInstance> create_compute(int gpu, int gi_id) override {
    auto made = inner_.create_compute(gpu, gi_id);
    if (made) rename(*made);
    return made;
  }
  Result<void> destroy_compute(int gpu, int gi_id, int ci_id) override {
    return inner_.destroy_compute(gpu, gi_id, ci_id);
  }
  Result<telemetry::GpuSample> telemetry(int gpu) override { return inner_.telemetry(gpu); }
  Result<PowerState> power_settings(int gpu) override { return inner_.power_settings(gpu); }
  Result<void> set_power_settings(int gpu, const PowerSettings& settings) override {
    return inner_.set_power_settings(gpu, settings);
  }

 private:
  void rename(ComputeInstance& compute) const {
    if (flaw_ == Flaw::old_uuid) compute.uuid = "MIG-of-the-place";
  }
  NodeDriver& inner_;
  Flaw flaw_;
};

TEST(ConformanceTest, FindsEachFlaw) {
  const std::map<Flaw, std::string> findings{
      {Flaw::gi_id_of_place_taken, "answered invalid_argument, no_room is due"},
      {Flaw::old_uuid, "is no new UUID"},
      {Flaw::no_context, "not the call and its arguments"},
      {Flaw::forgets_holders, "shows who holds an instance"},
      {Flaw::counts_wrongly, "are said to fit beside"},
      {Flaw::destroys_with_compute, "with a compute instance: answered ok, in_use is due"},
      {Flaw::mode_not_pending, "nor that it is pending"},
      {Flaw::unknown_is_ok, "unknown id: answered ok, not_found is due"}};
  for (const auto& [flaw, finding] : findings) {
    ManualClock clock;
    const auto shared = machine_with("A30-24GB", clock, true);
    SimDriver sound(*shared);
    FlawedDriver driver(sound, flaw);
    EXPECT_THAT(check_conformance(subject_on(driver, *shared, "A30-24GB")),
                Contains(HasSubstr(finding)));
  }
}

TEST(ConformanceTest, ReadingFindsADriverThatDoesNotAnswerWell) {
  ManualClock clock;
  const auto shared = machine_with("A30-24GB", clock, true);
  SimDriver sound(*shared);
  ASSERT_TRUE(sound.create_instance(0, {0, 0}) && sound.create_instance(0, {0, 1}));
  ASSERT_TRUE(sound.create_compute(0, 5) && sound.create_compute(0, 4));
  EXPECT_THAT(check_reading(sound, hw::builtin_catalogue()), IsEmpty());
  FlawedDriver driver(sound, Flaw::old_uuid);
  EXPECT_THAT(check_reading(driver, hw::builtin_catalogue()),
              Contains(HasSubstr("has a MIG device without a UUID of its own")));
}

}  // namespace
}  // namespace partita::device
