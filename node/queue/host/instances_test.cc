#include "queue/host/instances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/processes.h"
#include "drivers/sim/shared_machine.h"
#include "drivers/sim/sim_driver.h"
#include "queue/host/testing/test_world.h"

namespace partita::queue {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A driver that counts some of its GPUs, in some order.
class OtherOrder final : public device::NodeDriver {
 public:
  explicit OtherOrder(drivers::sim::SharedMachine& machine) : sim_(machine) {}
  std::vector<int> order;

  Result<device::DriverInfo> info() override {
    auto info = TRY(sim_.info());
    info.gpus = static_cast<int>(order.size());
    return info;
  }
  Result<device::GpuState> read(int gpu) override {
    auto state = TRY(sim_.read(at(gpu)));
    state.index = gpu;
    return state;
  }
  Result<std::vector<device::ProfileInfo>> profiles(int gpu) override {
    return sim_.profiles(at(gpu));
  }
  Result<device::ModeChange> set_mig_mode(int gpu, bool on) override {
    return sim_.set_mig_mode(at(gpu), on);
  }
  Result<int> create_instance(int gpu, const device::Placement& placement) override {
    return sim_.create_instance(at(gpu), placement);
  }
  Result<void> destroy_instance(int gpu, int gi) override {
    return sim_.destroy_instance(at(gpu), gi);
  }
  Result<device::ComputeInstance> create_compute(int gpu, int gi) override {
    return sim_.create_compute(at(gpu), gi);
  }
  Result<void> destroy_compute(int gpu, int gi, int ci) override {
    return sim_.destroy_compute(at(gpu), gi, ci);
  }
  Result<telemetry::GpuSample> telemetry(int gpu) override { return sim_.telemetry(at(gpu)); }
  Result<device::PowerState> power_settings(int gpu) override {
    return sim_.power_settings(at(gpu));
  }
  Result<void> set_power_settings(int gpu, const device::PowerSettings& settings) override {
    return sim_.set_power_settings(at(gpu), settings);
  }

 private:
  int at(int gpu) const {
    return gpu >= 0 && gpu < std::ssize(order) ? order[static_cast<std::size_t>(gpu)] : -1;
  }
  drivers::sim::SimDriver sim_;
};

// A GPU is taken out and the driver counts the others anew: what runs on these is there still, new
// instances are made on the GPU that is meant, and a queue that begins anew finds all of it.
TEST(LeasedInstances, AreOnTheGpusThatTheyWereOnHoweverTheDriverCounts) {
  ManualClock clock;
  MemoryFiles files;
  SimProcesses processes(clock, [](const ProcessSpec&) { return SimBehaviour{}; });
  auto machine = *drivers::sim::described_machine(
      "m", "gpus: [{model: A100-80GB, count: 3, mig: true}]\nspeed: 0\n", clock,
      hw::builtin_catalogue());
  OtherOrder driver(*machine);
  driver.order = {0, 1, 2};
  std::vector<std::string> uuids;
  for (int gpu = 0; gpu < 3; ++gpu) uuids.push_back(driver.read(gpu)->uuid);
  const auto door = [&] {
    return LeasedInstances(
        {driver, files, processes, hw::builtin_catalogue(), [] { return std::int64_t{1}; }},
        "node.leases", [&] { return files.lock("lock"); });
  };
  LeasedInstances before = door();
  EXPECT_THAT(before.look()->ours, IsEmpty());
  Place first{{"7g.80gb", 0}, 0, ""}, last{{"3g.40gb", 4}, 2, ""}, more{{"1g.10gb", 6}, 1, ""};
  first.device = *before.create(first);
  last.device = *before.create(last);
  driver.order = {2, 1};
  EXPECT_THAT(before.look()->ours, ElementsAre(last));
  EXPECT_THAT(before.look()->others, IsEmpty());
  more.device = *before.create(more);
  EXPECT_EQ(driver.read(1)->uuid, uuids[1]);
  ASSERT_EQ(driver.read(1)->instances.size(), 1U);
  EXPECT_EQ(driver.read(1)->instances[0].uuid(), more.device);
  EXPECT_FALSE(before.create({{"1g.10gb", 0}, 0, ""}));  // the one that was taken out
  LeasedInstances after = door();
  last.gpu = 0;
  EXPECT_THAT(after.look()->ours, testing::UnorderedElementsAre(last, more));
  EXPECT_TRUE(after.destroy(last));
  EXPECT_THAT(after.look()->ours, ElementsAre(more));
  EXPECT_THAT(driver.read(0)->instances, IsEmpty());
}

// A task runs on the device that it was given, wherever that is counted now.
TEST(LeasedInstances, ATaskThatRunsIsOnItsDevice) {
  const hw::GpuModel& model = *hw::builtin_catalogue().find("A100-80GB");
  const Config config = test::config_on(model, 2);
  Loaded loaded;
  Task& task = loaded.tasks.emplace_back();
  task.id = loaded.last_id = 1;
  task.state = State::running;
  task.attempts = 1;
  task.spec = {.name = "a", .command = "true", .user = "anna"};
  task.places = {{{"3g.40gb", 4}, 0, "MIG-x"}};
  const auto empty = Queue::create(config, {}, {}, test::kEpoch);
  ASSERT_TRUE(empty);
  const auto spots =
      spots_of(empty->planner().machine().forest(),
               {{}, config.models, config.gpus, config.reconfigurer}, config.indices);
  const int node = node_at(spots, {{"3g.40gb", 4}, 1, ""});
  const auto queue = Queue::create(config, loaded, {{node, "MIG-x"}}, test::kEpoch);
  ASSERT_TRUE(queue);
  EXPECT_EQ(queue->planner().machine().nodes_of(1), std::vector<int>{node});
  EXPECT_EQ(queue->tasks().at(1).places[0].gpu, 1);
}

}  // namespace
}  // namespace partita::queue
