#include "act/batch/operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "act/batch/testing/test_batch.h"

namespace partita::exec {
namespace {

using test::instance;
using testing::ElementsAre;
using testing::IsEmpty;

struct OperationTest : testing::Test {
  using Kind = Operation::Kind;
  OperationTest() { driver.gpus[4].index = 4; }
  Operation half_at(int start, Kind kind) {
    return {.kind = kind, .device = 4, .place = {"2g.12gb", start}, .nvml_enum = 1, .size = 2};
  }
  Outcome look(int start) { return perform(driver, half_at(start, Kind::look)); }
  Outcome create(int start, std::vector<int> present = {}) {
    Operation operation = half_at(start, Kind::create);
    operation.present = std::move(present);
    return perform(driver, operation);
  }
  Outcome destroy(int start, Made made) {
    Operation operation = half_at(start, Kind::destroy);
    operation.made = std::move(made);
    return perform(driver, operation);
  }
  std::vector<device::Instance>& there() { return driver.gpus[4].instances; }
  std::vector<int> ids() {
    std::vector<int> all;
    for (const device::Instance& one : there()) all.push_back(one.gi_id);
    return all;
  }

  test::ToldDriver driver;
  const Error io{ErrorCode::environment, "no answer", "call"};
};

std::string said(const Outcome& outcome) { return outcome.error ? to_string(*outcome.error) : ""; }

TEST_F(OperationTest, DescribesAnInstance) {
  device::Instance one = instance("2g.12gb", 2, 2, 9, "MIG-x");
  EXPECT_EQ(describe(one), "2g.12gb@2 (gi 9)");
  one.holders = {{4711, "python"}, {12, ""}};
  EXPECT_EQ(describe(one), "2g.12gb@2 (gi 9, held by 4711 python, 12)");
  one.holders = {{0, "slurm:7"}};
  EXPECT_EQ(describe(one), "2g.12gb@2 (gi 9, held by slurm:7)");
}

// ---- look

TEST_F(OperationTest, ALookTellsWhoIsThereWhereNobodyIsInTheWay) {
  there() = {instance("1g.6gb", 0, 1, 3, "MIG-a"), instance("1g.6gb", 1, 1, 5)};
  EXPECT_EQ(look(2), (Outcome{.present = {3, 5}}));
  EXPECT_THAT(driver.calls, IsEmpty());
}

// An instance from `start` on stands in the way of [2, 4) where it has a slice of it.
TEST_F(OperationTest, WhoHasASliceOfThePlaceIsInTheWay) {
  const auto blocked = [&](int start, int size) {
    there() = {instance("x", start, size, 3)};
    return look(2).error.has_value();
  };
  EXPECT_FALSE(blocked(0, 2));
  EXPECT_TRUE(blocked(0, 3));
  EXPECT_TRUE(blocked(1, 2));
  EXPECT_TRUE(blocked(3, 1));
  EXPECT_TRUE(blocked(0, 8));
  EXPECT_FALSE(blocked(4, 1));
  there() = {instance("1g.6gb", 0, 1, 3), instance("1g.6gb", 2, 1, 5), instance("x", 3, 1, 6)};
  there()[1].holders = {{7, "guest"}};
  const Outcome no = look(2);
  EXPECT_EQ(no.error->code, ErrorCode::no_room);
  EXPECT_EQ(said(no),
            "create 2g.12gb@2 on GPU 4: in the way: 1g.6gb@2 (gi 5, held by 7 guest), x@3 (gi 6)");
  EXPECT_THAT(no.present, IsEmpty());
}

TEST_F(OperationTest, OfALostGpuNothingIsKnown) {
  driver.gpus[4].lost = true;
  driver.refuse["create_instance"] = io;
  for (const Outcome& no : {look(0), create(0), destroy(0, {7, "MIG-7"})}) {
    EXPECT_EQ(no.error->code, ErrorCode::lost);
    EXPECT_NE(said(no).find("GPU 4: the GPU fell off the bus"), std::string::npos) << said(no);
  }
  driver.gpus.clear();
  EXPECT_EQ(look(0).error->code, ErrorCode::not_found);
}

// ---- create

TEST_F(OperationTest, CreatesAnInstanceWithItsComputeInstance) {
  EXPECT_EQ(create(2), (Outcome{.made = Made{7, "MIG-7"}}));
  EXPECT_THAT(driver.calls, ElementsAre("create_instance", "create_compute"));
  EXPECT_EQ(there()[0].start, 2);
}

TEST_F(OperationTest, ALostAnswerIsFoundByLooking) {
  driver.lose["create_instance"] = io;
  EXPECT_EQ(create(2), (Outcome{.made = Made{7, "MIG-7"}}));
  driver.lose = {{"create_compute", io}};
  EXPECT_EQ(create(0), (Outcome{.made = Made{8, "MIG-8"}}));
  EXPECT_THAT(ids(), ElementsAre(7, 8));
}

// What was there before, is elsewhere or of another shape, is not what appeared.
TEST_F(OperationTest, WhatIsOfOthersIsNotTakenForOurs) {
  driver.refuse["create_instance"] = io;
  there() = {instance("2g.12gb", 0, 2, 3, "MIG-a"), instance("1g.6gb", 2, 1, 4)};
  EXPECT_EQ(said(create(2)), "create 2g.12gb@2 on GPU 4: call: no answer");
  EXPECT_EQ(said(create(0, {3, 4})), "create 2g.12gb@0 on GPU 4: call: no answer");
  EXPECT_EQ(create(0, {4}).made, (Made{3, "MIG-3"})) << "since the look, so it is";
}

TEST_F(OperationTest, ARefusalNamesWhoIsInTheWay) {
  driver.refuse["create_instance"] = {ErrorCode::no_room, "no place", "call"};
  const Outcome free = create(0);
  EXPECT_EQ(said(free), "create 2g.12gb@0 on GPU 4: call: no place");
  EXPECT_EQ(free.error->code, ErrorCode::no_room);
  EXPECT_FALSE(free.unknown);
  // A driver that says so is believed, though one of the shape has appeared.
  there() = {instance("2g.12gb", 0, 2, 3, "MIG-a")};
  EXPECT_EQ(said(create(0)), "create 2g.12gb@0 on GPU 4: in the way: 2g.12gb@0 (gi 3)");
  EXPECT_FALSE(create(0).made.has_value());
}

TEST_F(OperationTest, WhetherItIsThereIsUnknownWhereTheGpuCannotBeRead) {
  driver.refuse = {{"create_instance", io}, {"read", {ErrorCode::timeout, "busy", "read"}}};
  const Outcome no = create(0);
  EXPECT_TRUE(no.unknown);
  EXPECT_FALSE(no.made.has_value());
  EXPECT_EQ(no.error->code, ErrorCode::timeout);
  // Once it is there, it is known to be.
  driver.refuse = {{"create_compute", io}, {"read", io}};
  const Outcome half = create(0);
  EXPECT_EQ(half.made, (Made{7, ""}));
  EXPECT_FALSE(half.unknown);
}

TEST_F(OperationTest, AnInstanceWithoutComputeInstanceIsTakenBack) {
  driver.refuse["create_compute"] = io;
  there() = {instance("2g.12gb", 0, 2, 3, "MIG-a")};
  Outcome no = create(2, {3});
  EXPECT_FALSE(no.made.has_value());
  EXPECT_EQ(said(no), "create 2g.12gb@2 on GPU 4: call: no answer");
  EXPECT_THAT(ids(), ElementsAre(3));
  driver.refuse["destroy_instance"] = {ErrorCode::in_use, "held", "call"};
  no = create(2, {3});
  EXPECT_EQ(no.made, (Made{8, ""}));
  EXPECT_EQ(no.error->code, ErrorCode::environment) << "the first refusal is told";
  // Gone meanwhile: nothing is left to take back.
  driver.refuse = {{"create_compute", io}};
  driver.calls.clear();
  driver.before = [&](const std::string& method) {
    if (method == "create_compute") there().clear();
  };
  no = create(2);
  EXPECT_EQ(said(no), "create 2g.12gb@2 on GPU 4: call: no answer");
  EXPECT_FALSE(no.made.has_value());
  EXPECT_THAT(driver.calls, ElementsAre("create_instance", "create_compute"));
}

// ---- destroy

TEST_F(OperationTest, DestroysWhatWasMade) {
  there() = {instance("2g.12gb", 0, 2, 3, "MIG-a"), instance("2g.12gb", 2, 2, 5, "MIG-b")};
  EXPECT_EQ(destroy(2, {5, "MIG-b"}), Outcome{});
  EXPECT_THAT(ids(), ElementsAre(3));
  EXPECT_THAT(driver.calls, ElementsAre("destroy_compute", "destroy_instance"));
  EXPECT_EQ(destroy(2, {5, "MIG-b"}), Outcome{}) << "it is gone";
  EXPECT_EQ(driver.calls.size(), 2U);
}

TEST_F(OperationTest, AnotherOneIsNotDestroyed) {
  there() = {instance("2g.12gb", 0, 2, 3, "MIG-a")};
  EXPECT_EQ(destroy(0, {3, "MIG-b"}), Outcome{}) << "another one has its number";
  EXPECT_EQ(destroy(0, {4, "MIG-a"}), Outcome{});
  EXPECT_EQ(destroy(2, {3, "MIG-a"}), Outcome{});
  there()[0].profile = "2g.12gb+me";
  EXPECT_EQ(destroy(0, {3, "MIG-a"}), Outcome{});
  EXPECT_THAT(driver.calls, IsEmpty());
  EXPECT_THAT(ids(), ElementsAre(3));
}

TEST_F(OperationTest, OfAHalfMadeOneEveryComputeInstanceGoes) {
  there() = {instance("2g.12gb", 0, 2, 3, "MIG-a")};
  there()[0].compute.push_back({.ci_id = 1, .gpcs = 1, .uuid = "MIG-b"});
  EXPECT_EQ(destroy(0, {3, ""}), Outcome{});
  EXPECT_THAT(driver.calls, ElementsAre("destroy_compute", "destroy_compute", "destroy_instance"));
  there() = {instance("2g.12gb", 0, 2, 3)};
  driver.calls.clear();
  EXPECT_EQ(destroy(0, {3, "MIG-a"}), Outcome{}) << "its compute instance has gone before";
  EXPECT_THAT(driver.calls, ElementsAre("destroy_instance"));
  // Of a known one only its own.
  there() = {instance("2g.12gb", 0, 2, 3, "MIG-a")};
  there()[0].compute.push_back({.ci_id = 1, .gpcs = 1, .uuid = "MIG-b"});
  driver.calls.clear();
  destroy(0, {3, "MIG-b"});
  EXPECT_THAT(driver.calls, ElementsAre("destroy_compute", "destroy_instance"));
}

TEST_F(OperationTest, WhatIsHeldIsNotTouched) {
  there() = {instance("2g.12gb", 0, 2, 3, "MIG-a")};
  there()[0].holders = {{77, "guest"}};
  const Outcome no = destroy(0, {3, "MIG-a"});
  EXPECT_EQ(no.error->code, ErrorCode::in_use);
  EXPECT_EQ(said(no), "destroy 2g.12gb@0 on GPU 4: held by 77 guest");
  EXPECT_THAT(driver.calls, IsEmpty());
}

TEST_F(OperationTest, TheFirstRefusalIsToldUnlessAHolderExplainsIt) {
  const Error in_use{ErrorCode::in_use, "busy", "call"};
  there() = {instance("2g.12gb", 0, 2, 3, "MIG-a")};
  driver.refuse = {{"destroy_compute", in_use}, {"destroy_instance", io}};
  EXPECT_EQ(said(destroy(0, {3, "MIG-a"})), "destroy 2g.12gb@0 on GPU 4: call: busy");
  driver.before = [&](const std::string&) { there()[0].holders = {{77, "guest"}}; };
  EXPECT_EQ(said(destroy(0, {3, "MIG-a"})), "destroy 2g.12gb@0 on GPU 4: held by 77 guest");
  there()[0].holders.clear();
  driver.refuse = {{"destroy_compute", io}, {"destroy_instance", in_use}};
  const Outcome no = destroy(0, {3, "MIG-a"});
  EXPECT_EQ(said(no), "destroy 2g.12gb@0 on GPU 4: call: no answer") << "no holder explains it";
  EXPECT_EQ(no.error->code, ErrorCode::environment);
  driver.before = {};
  there()[0].holders.clear();
  driver.refuse = {{"destroy_instance", io}};
  EXPECT_EQ(destroy(0, {3, "MIG-a"}).error->code, ErrorCode::environment);
}

TEST_F(OperationTest, ALostAnswerToADestructionIsFoundByLooking) {
  there() = {instance("2g.12gb", 0, 2, 3, "MIG-a")};
  driver.lose = {{"destroy_compute", io}};
  EXPECT_EQ(destroy(0, {3, "MIG-a"}), Outcome{});
  EXPECT_THAT(there(), IsEmpty());
  there() = {instance("2g.12gb", 0, 2, 3, "MIG-a")};
  driver.lose = {{"destroy_instance", io}};
  EXPECT_EQ(destroy(0, {3, "MIG-a"}), Outcome{});
  there() = {instance("2g.12gb", 0, 2, 3, "MIG-a")};
  driver.before = [&](const std::string&) {
    driver.refuse["read"] = {ErrorCode::timeout, "slow", "read"};
  };
  EXPECT_EQ(said(destroy(0, {3, "MIG-a"})), "destroy 2g.12gb@0 on GPU 4: read: slow");
}

}  // namespace
}  // namespace partita::exec
