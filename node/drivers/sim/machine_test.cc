// Machine against hand values: one test per rule of docs/drivers.md.
#include "drivers/sim/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace partita::drivers::sim {
namespace {

using testing::ElementsAre;
using testing::Pair;

Machine machine_of(const std::string& model, int count = 1, bool mig = true) {
  return Machine({{hw::builtin_catalogue().find(model), count, mig}}, "test");
}

int profile_id(const Machine& machine, int id) {
  const auto& profiles = machine.gpus().front().model->profiles;
  const auto at = std::ranges::find(profiles, id, &hw::MigProfile::profile_id);
  return static_cast<int>(at - profiles.begin());
}

// Creates an instance of the GPU instance profile `id`; its gi_id.
int create(Machine& machine, int id, std::optional<int> start = std::nullopt) {
  return machine.create_instance(0, profile_id(machine, id), start).value().value;
}

ErrorCode create_error(Machine& machine, int id, std::optional<int> start = std::nullopt) {
  return machine.create_instance(0, profile_id(machine, id), start).error().code;
}

// gi_id and start of every instance.
std::vector<std::pair<int, int>> places(const Machine& machine) {
  std::vector<std::pair<int, int>> result;
  for (const SimInstance& i : machine.gpus().front().instances)
    result.emplace_back(i.gi_id, i.start);
  return result;
}

int whole(Machine& machine, int gi_id) {
  const SimInstance& it = *machine.gpus().front().find(gi_id);
  const int gpcs =
      machine.gpus().front().model->profiles[static_cast<std::size_t>(it.profile)].gpcs;
  return machine.create_compute(0, gi_id, gpcs, std::nullopt).value().value;
}

// prefix, then hexadecimal digits in groups of 8-4-4-4-12.
bool is_uuid(std::string_view prefix, const std::string& text) {
  std::string shape = text;
  for (std::size_t i = std::min(prefix.size(), shape.size()); i < shape.size(); ++i)
    if (std::string_view("0123456789abcdef").find(shape[i]) != std::string_view::npos)
      shape[i] = 'x';
  return shape == std::string(prefix) + "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
}

// NVIDIA's MIG guide, A100: -cgi 19,14,5 and two times -cgi 9.
TEST(MachineTest, CreatesWithoutAStartAsNvidiasGuideShows) {
  Machine machine = machine_of("A100-80GB");
  EXPECT_EQ(create(machine, 19), 13);
  EXPECT_EQ(create(machine, 14), 5);
  EXPECT_EQ(create(machine, 5), 1);
  EXPECT_THAT(places(machine), ElementsAre(Pair(1, 0), Pair(5, 4), Pair(13, 6)));
  Machine halves = machine_of("A100-80GB");
  create(halves, 9);
  create(halves, 9);
  EXPECT_THAT(places(halves), ElementsAre(Pair(1, 4), Pair(2, 0)));
}

TEST(MachineTest, AFreeStartIsFoundWheneverThereIsOne) {
  Machine machine = machine_of("A100-80GB");
  for (int i = 0; i < 7; ++i) create(machine, 19);
  EXPECT_EQ(create_error(machine, 19), ErrorCode::no_room);
  std::set<int> starts, ids;
  for (const auto& [id, start] : places(machine)) {
    ids.insert(id);
    starts.insert(start);
  }
  EXPECT_THAT(starts, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(ids, ElementsAre(7, 8, 9, 10, 11, 12, 13));
}

TEST(MachineTest, IdsComeFromTheRangeOfTheSizeAndAreNoFunctionOfThePlace) {
  Machine up = machine_of("A100-80GB"), down = machine_of("A100-80GB");
  for (const int start : {0, 1, 2}) create(up, 19, start);
  for (const int start : {2, 1, 0}) create(down, 19, start);
  EXPECT_THAT(places(up), ElementsAre(Pair(11, 2), Pair(12, 1), Pair(13, 0)));
  EXPECT_THAT(places(down), ElementsAre(Pair(11, 0), Pair(12, 1), Pair(13, 2)));
  // What was given back is handed out last: the same place has another id the next time.
  ASSERT_TRUE(up.destroy_instance(0, 13));
  EXPECT_EQ(create(up, 19, 0), 10);
  Machine whole_gpu = machine_of("A100-80GB");
  EXPECT_EQ(create(whole_gpu, 0), 0);
  Machine a30 = machine_of("A30-24GB");
  EXPECT_EQ(create(a30, 5), 1);
  EXPECT_EQ(create(a30, 14), 5);
  Machine pro = machine_of("RTX-PRO-6000-96GB");
  EXPECT_EQ(create(pro, 14), 5);
  EXPECT_EQ(create(pro, 5), 1);
}

TEST(MachineTest, WhatIsTakenIsNoRoomAndWhatTheBoardDoesNotHaveIsInvalid) {
  Machine machine = machine_of("H100-80GB-SXM5");
  create(machine, 5, 0);
  EXPECT_EQ(create_error(machine, 14, 2), ErrorCode::no_room);           // overlap
  EXPECT_EQ(create_error(machine, 14, 1), ErrorCode::invalid_argument);  // no legal start
  EXPECT_EQ(create_error(machine, 14, 6), ErrorCode::invalid_argument);
  EXPECT_EQ(machine.create_instance(0, 99, 0).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(machine.create_instance(1, 0, 0).error().code, ErrorCode::not_found);
  EXPECT_EQ(machine.destroy_instance(0, 2).error().code, ErrorCode::not_found);
  create(machine, 9, 4);
  EXPECT_EQ(machine.remaining(0, profile_id(machine, 19)), 0);
  // One slice of memory left of 1g.20gb at 6, no compute slice.
  Machine full = machine_of("H100-80GB-SXM5");
  for (const int start : {0, 1, 2, 3, 4, 5}) create(full, 19, start);
  EXPECT_EQ(full.remaining(0, profile_id(full, 15)), 1);
  create(full, 15, 6);
  EXPECT_EQ(create_error(full, 19, 6), ErrorCode::no_room);
}

TEST(MachineTest, MediaEnginesAreAResource) {
  Machine machine = machine_of("A100-80GB");
  create(machine, 20, 0);
  EXPECT_EQ(create_error(machine, 20, 1), ErrorCode::no_room);  // +me once per GPU
  Machine pro = machine_of("RTX-PRO-6000-96GB");
  create(pro, 65, 0);  // +me.all
  EXPECT_EQ(create_error(pro, 14, 3), ErrorCode::no_room);
  create(pro, 67, 3);  // -me
}

TEST(MachineTest, ComputeInstancesAreMadeAfterAndDestroyedBeforeTheirGpuInstance) {
  Machine machine = machine_of("A100-80GB");
  const int gi = create(machine, 9, 4);
  EXPECT_EQ(machine.create_compute(0, gi, 1, {})->value, 0);
  EXPECT_EQ(machine.create_compute(0, gi, 2, {})->value, 1);
  EXPECT_EQ(machine.gpus()[0].instances[0].compute[1].start, 1);
  EXPECT_EQ(machine.create_compute(0, gi, 1, {}).error().code, ErrorCode::no_room);
  EXPECT_EQ(machine.create_compute(0, gi, 4, {}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(machine.create_compute(0, gi, 0, {}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(machine.create_compute(0, gi, 1, 3).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(machine.create_compute(0, 1 + gi, 1, {}).error().code, ErrorCode::not_found);
  EXPECT_EQ(machine.destroy_instance(0, gi).error().code, ErrorCode::in_use);
  EXPECT_TRUE(machine.destroy_compute(0, gi, 0));
  EXPECT_EQ(machine.destroy_compute(0, gi, 0).error().code, ErrorCode::not_found);
  EXPECT_EQ(machine.create_compute(0, gi, 1, 0)->value, 0);  // the lowest free id
  EXPECT_TRUE(machine.destroy_compute(0, gi, 0) && machine.destroy_compute(0, gi, 1));
  EXPECT_TRUE(machine.destroy_instance(0, gi));
}

TEST(MachineTest, AProcessHoldsItsComputeInstance) {
  Machine machine = machine_of("A100-80GB");
  const int gi = create(machine, 14, 2), ci = whole(machine, gi);
  EXPECT_EQ(machine.attach(0, {7, "serve", gi, 3}).error().code, ErrorCode::not_found);
  EXPECT_EQ(machine.attach(0, {0, "serve", gi, ci}).error().code, ErrorCode::invalid_argument);
  ASSERT_TRUE(machine.attach(0, {7, "serve", gi, ci}));
  EXPECT_EQ(machine.destroy_compute(0, gi, ci).error().code, ErrorCode::in_use);
  EXPECT_EQ(machine.reset(0).error().code, ErrorCode::in_use);
  machine.detach(7);
  EXPECT_TRUE(machine.destroy_compute(0, gi, ci));
  // Not the one beside it.
  ASSERT_EQ(machine.create_compute(0, gi, 1, {})->value, 0);
  ASSERT_EQ(machine.create_compute(0, gi, 1, {})->value, 1);
  ASSERT_TRUE(machine.attach(0, {7, "serve", gi, 1}));
  EXPECT_TRUE(machine.destroy_compute(0, gi, 0));
  EXPECT_EQ(machine.destroy_compute(0, gi, 1).error().code, ErrorCode::in_use);
}

TEST(MachineTest, EveryMigDeviceHasANewUuidAndGpusKeepTheirs) {
  Machine machine = machine_of("A100-80GB", 2);
  std::set<std::string> seen;
  for (const SimGpu& gpu : machine.gpus()) {
    EXPECT_TRUE(is_uuid("GPU-", gpu.uuid)) << gpu.uuid;
    EXPECT_TRUE(seen.insert(gpu.uuid).second);
  }
  const std::string first = machine.gpus()[0].uuid;
  const int gi = create(machine, 14, 2);
  for (int i = 0; i < 100; ++i) {
    const int ci = whole(machine, gi);
    const std::string uuid = machine.gpus()[0].instances[0].compute[0].uuid;
    EXPECT_TRUE(is_uuid("MIG-", uuid)) << uuid;
    EXPECT_TRUE(seen.insert(uuid).second);
    ASSERT_TRUE(machine.destroy_compute(0, gi, ci));
  }
  machine.reboot();
  EXPECT_EQ(machine.gpus()[0].uuid, first);
  EXPECT_EQ(machine_of("A30-24GB").gpus()[0].uuid, first);
  EXPECT_NE(Machine({{machine.gpus()[0].model, 1, true}}, "other").gpus()[0].uuid, first);
}

TEST(MachineTest, AmpereChangesMigModeAtAResetHopperAtOnce) {
  Machine ampere = machine_of("A100-80GB", 1, false);
  EXPECT_EQ(create_error(ampere, 19, 0), ErrorCode::not_supported);
  ASSERT_TRUE(ampere.set_mig_mode(0, true));
  EXPECT_TRUE(!ampere.gpus()[0].mig && ampere.gpus()[0].mig_pending);
  ASSERT_TRUE(ampere.reset(0));
  EXPECT_TRUE(ampere.gpus()[0].mig);
  ASSERT_TRUE(ampere.set_mig_mode(0, false));
  ASSERT_TRUE(ampere.set_mig_mode(0, true));  // taken back
  ampere.reboot();
  EXPECT_TRUE(ampere.gpus()[0].mig);
  for (const char* model : {"H200-141GB", "B200-180GB", "B300-269GB", "RTX-PRO-6000-96GB"}) {
    Machine later = machine_of(model, 1, false);
    ASSERT_TRUE(later.set_mig_mode(0, true));
    EXPECT_TRUE(later.gpus()[0].mig && later.gpus()[0].mig_pending) << model;
  }
}

TEST(MachineTest, MigModeStaysWhileInstancesOrProcessesAreThere) {
  for (const char* model : {"A100-80GB", "H200-141GB"}) {
    Machine machine = machine_of(model);
    create(machine, 19, 0);
    EXPECT_EQ(machine.set_mig_mode(0, false).error().code, ErrorCode::in_use);
    EXPECT_TRUE(machine.set_mig_mode(0, true)) << "nothing to change";
    Machine busy = machine_of(model);
    ASSERT_TRUE(busy.attach(0, {7, "monitor"}));
    EXPECT_EQ(busy.set_mig_mode(0, false).error().code, ErrorCode::in_use);
    busy.detach(7);
    EXPECT_TRUE(busy.set_mig_mode(0, false));
  }
}

TEST(MachineTest, ARebootLeavesMigModeAndNothingElse) {
  Machine machine = machine_of("H200-141GB", 2);
  whole(machine, create(machine, 19, 0));
  ASSERT_TRUE(machine.attach(1, {7, "x"}));
  machine.lose(1);
  machine.reboot();
  for (const SimGpu& gpu : machine.gpus()) {
    EXPECT_TRUE(gpu.mig && !gpu.lost && gpu.instances.empty() && gpu.processes.empty());
  }
}

TEST(MachineTest, ALostGpuAnswersLostUntilTheReboot) {
  Machine machine = machine_of("A100-80GB", 2);
  const int gi = create(machine, 19, 0);
  machine.lose(0);
  EXPECT_EQ(create_error(machine, 19, 1), ErrorCode::lost);
  EXPECT_EQ(machine.destroy_instance(0, gi).error().code, ErrorCode::lost);
  EXPECT_EQ(machine.create_compute(0, gi, 1, {}).error().code, ErrorCode::lost);
  EXPECT_EQ(machine.destroy_compute(0, gi, 0).error().code, ErrorCode::lost);
  EXPECT_EQ(machine.set_mig_mode(0, false).error().code, ErrorCode::lost);
  EXPECT_EQ(machine.reset(0).error().code, ErrorCode::lost);
  EXPECT_EQ(machine.attach(0, {7, "x"}).error().code, ErrorCode::lost);
  EXPECT_EQ(machine.remaining(0, 0), 0);
  EXPECT_TRUE(machine.create_instance(1, 0, 0));
  machine.reboot();
  EXPECT_EQ(create(machine, 19, 0), 13);
}

TEST(MachineTest, ALostGpuComesBackWithoutInstancesAndTheOthersKeepTheirs) {
  Machine machine = machine_of("A100-80GB", 2);
  create(machine, 19, 0);
  ASSERT_TRUE(machine.create_instance(1, 0, 0));
  machine.lose(0);
  machine.regain(0);
  machine.regain(1);
  EXPECT_FALSE(machine.gpus()[0].lost);
  EXPECT_TRUE(machine.gpus()[0].mig);
  EXPECT_TRUE(machine.gpus()[0].instances.empty());
  EXPECT_EQ(machine.gpus()[1].instances.size(), 1U);
}

// FAR, Table 1; 1g with double memory costs what 1g costs.
TEST(MachineTest, ChangesTakeTheMeasuredTimes) {
  const auto times = [](const std::string& model, int id) {
    Machine machine = machine_of(model);
    const auto made = machine.create_instance(0, profile_id(machine, id), {});
    EXPECT_EQ(machine.create_compute(0, made->value, 1, {})->duration_ns, 0);
    EXPECT_EQ(machine.destroy_compute(0, made->value, 0)->duration_ns, 0);
    const auto gone = machine.destroy_instance(0, made->value);
    return std::pair(made->duration_ns / 1'000'000, gone->duration_ns / 1'000'000);
  };
  EXPECT_THAT(times("A30-24GB", 0), Pair(130, 100));
  EXPECT_THAT(times("A100-80GB", 19), Pair(160, 200));
  EXPECT_THAT(times("A100-80GB", 15), Pair(160, 200));
  EXPECT_THAT(times("A100-40GB", 9), Pair(200, 210));
  EXPECT_THAT(times("H100-80GB-PCIe", 0), Pair(420, 260));
  hw::GpuModel unmeasured = *hw::builtin_catalogue().find("A100-80GB");
  std::erase_if(unmeasured.reconfiguration, [](const auto& time) { return time.gpcs < 3; });
  Machine machine({{&unmeasured, 1, true}}, "test");
  EXPECT_EQ(machine.create_instance(0, 0, 0)->duration_ns, 200'000'000) << "the next larger size";
}

TEST(MachineTest, ObservedProcessesHoldAndAreNotStored) {
  Machine machine = machine_of("A100-80GB", 2);
  const int gi = create(machine, 14, 2), ci = whole(machine, gi);
  ASSERT_TRUE(machine.attach(0, {7, "serve", gi, ci}));
  const Machine before = machine;
  const std::string mig = machine.gpus()[0].instances[0].compute[0].uuid;
  machine.observe({{7, "x", {mig}}, {9, "y", {mig, machine.gpus()[1].uuid, "GPU-unknown"}}});
  ASSERT_EQ(machine.gpus()[0].processes.size(), 2u);
  EXPECT_EQ(machine.gpus()[0].processes[1], (SimProcess{9, "y", gi, ci, true}));
  EXPECT_EQ(machine.gpus()[1].processes.at(0), (SimProcess{9, "y", -1, -1, true}));
  EXPECT_EQ(machine.text(), before.text());
  machine.detach(7);
  EXPECT_EQ(machine.destroy_compute(0, gi, ci).error().code, ErrorCode::in_use);
  machine.observe({});
  EXPECT_TRUE(machine.destroy_compute(0, gi, ci));
  machine.lose(1);
  machine.observe({{9, "y", {machine.gpus()[1].uuid}}});
  EXPECT_TRUE(machine.gpus()[1].processes.empty());
}

}  // namespace
}  // namespace partita::drivers::sim
