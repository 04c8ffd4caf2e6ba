#include "drivers/sim/machine_copy.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "drivers/sim/shared_machine.h"
#include "drivers/sim/sim_driver.h"

namespace partita::drivers::sim {
namespace {

device::NodeState read_back(const Machine& machine) {
  ManualClock clock;
  const auto shared = own_machine(machine, clock, 0);
  SimDriver driver(*shared);
  auto state = device::read_node(driver);
  EXPECT_TRUE(state);
  return *std::move(state);
}

// What is there, without what is new at every creation.
struct Seen {
  std::string model;
  bool mig, lost;
  std::vector<std::tuple<std::string, int, bool, std::vector<device::Holder>>> instances;
  bool operator==(const Seen&) const = default;
};
std::vector<Seen> what_is_there(const device::NodeState& node) {
  std::vector<Seen> all;
  for (const device::GpuState& gpu : node.gpus) {
    all.push_back({gpu.model, gpu.mig_enabled, gpu.lost, {}});
    for (const device::Instance& one : gpu.instances)
      all.back().instances.emplace_back(one.profile, one.start, one.whole(), one.holders);
  }
  return all;
}

TEST(MachineCopy, HasTheInstancesAndHoldersOfTheNode) {
  const hw::Catalogue& catalogue = hw::builtin_catalogue();
  const hw::GpuModel& a30 = *catalogue.find("A30-24GB");
  Machine machine({{&a30, 2, true}, {catalogue.find("A100-80GB"), 1, false}}, "node");
  const auto whole = machine.create_instance(0, a30.profile_index("2g.12gb"), 2);
  ASSERT_TRUE(whole);
  const auto compute = machine.create_compute(0, whole->value, 2, 0);
  ASSERT_TRUE(compute);
  ASSERT_TRUE(machine.attach(0, {4711, "job", whole->value, compute->value}));
  ASSERT_TRUE(machine.create_instance(0, a30.profile_index("1g.6gb"), 0));  // cut short
  machine.lose(1);

  const device::NodeState node = read_back(machine);
  ASSERT_EQ(node.gpus[0].instances.size(), 2u);
  EXPECT_EQ(what_is_there(read_back(copy_of(node, catalogue))), what_is_there(node));
}

}  // namespace
}  // namespace partita::drivers::sim
