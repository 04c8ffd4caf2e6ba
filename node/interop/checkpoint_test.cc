#include "interop/checkpoint.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "interop/testing/random_geometry.h"

namespace partita::interop {
namespace {

Geometry with_uuids(Geometry geometry) {
  for (GpuGeometry& gpu : geometry.gpus)
    gpu.board.uuid = fmt::format("GPU-{:08x}-0000-0000-0000-000000000000", gpu.board.index);
  return geometry;
}

constexpr const char* kGolden = R"({
  "Version": "v1",
  "MigState": {
    "Devices": [
      {"UUID": "GPU-a", "MigMode": 1, "GpuInstances": [
        {"ProfileID": 2, "Placement": {"Start": 4, "Size": 4}, )"
                                R"("ComputeInstances": [{"ProfileID": 2, "EngProfileID": 0}]},
        {"ProfileID": 9, "Placement": {"Start": 0, "Size": 2}, )"
                                R"("ComputeInstances": [{"ProfileID": 0, "EngProfileID": 0}]}]},
      {"UUID": "GPU-b", "MigMode": 0, "GpuInstances": null}]
  }
}
)";

// What kGolden says.
Geometry golden() {
  const hw::GpuModel& a100 = model("A100-80GB");
  return {{{{.index = 0, .model = &a100, .uuid = "GPU-a"},
            true,
            {slot(a100, "1g.20gb", 0), slot(a100, "3g.40gb", 4)}},
           {{.index = 1, .model = &a100, .uuid = "GPU-b"}, false, {}}}};
}

TEST(Checkpoint, ByHand) {
  EXPECT_EQ(*checkpoint_json(golden()), kGolden);
  const Result<Geometry> by_uuid = parse_checkpoint("c.json", kGolden, boards(golden()));
  ASSERT_TRUE(by_uuid) << to_string(by_uuid.error());
  EXPECT_EQ(*by_uuid, golden());
  const Result<Geometry> by_position =
      parse_checkpoint("c.json", kGolden, boards_of(model("A100-80GB"), 8));
  ASSERT_TRUE(by_position) << to_string(by_position.error());
  EXPECT_EQ(*by_position, golden());
}

TEST(Checkpoint, NeedsUuids) {
  Geometry geometry = golden();
  geometry.gpus[1].board.uuid.clear();
  EXPECT_EQ(to_string(checkpoint_json(geometry).error()),
            "a checkpoint names GPUs by UUID, and that of GPU 1 is not known");
}

TEST(Checkpoint, WrongInputIsRefusedWithItsLine) {
  // A change of kGolden, and the refusal.
  struct Wrong {
    std::string from, to, expected;
  };
  const std::vector<Wrong> wrong{
      {kGolden, "", "1: the file is empty"},
      {kGolden, "[]", "1: must be an object with named values"},
      {kGolden, "{\"Version\": \"v1\"}", "1: 'MigState' is missing"},
      {"\"v1\"", "\"v2\"", "2: 'Version' is 'v2', must be 'v1'"},
      {"\"Devices\"", "\"Device\"", "4: unknown key 'Device'; did you mean 'Devices'?"},
      {"GPU-b", "GPU-c", "8: the node has no GPU 'GPU-c'"},
      {"GPU-b", "GPU-a", "8: GPU 'GPU-a' is listed twice"},
      {"\"UUID\": \"GPU-b\", ", "", "8: 'UUID' is missing"},
      {"\"MigMode\": 0", "\"MigMode\": 2", "8: 'MigMode' is 2, must be at most 1"},
      {"\"MigMode\": 1", "\"MigMode\": 0", "5: 'GpuInstances' are given while 'MigMode' is 0"},
      {"\"MigMode\": 1", "\"MigMode\": true", "5: 'MigMode' must be a finite number"},
      {"\"ProfileID\": 2, \"Pl", "\"ProfileID\": 19, \"Pl", "6: A100-80GB has no profile with the"},
      {"\"ProfileID\": 2, \"Pl", "\"ProfileID\": -1, \"Pl", "6: 'ProfileID' is -1"},
      {"\"Start\": 4", "\"Start\": 3", "6: 3g.40gb at 3 cannot start there"},
      {"\"Start\": 4", "\"Start\": 0", "7: 3g.40gb at 0 and 1g.20gb at 0 share 2 memory slices"},
      {"\"Start\": 4", "\"Start\": 99", "6: 'Start' is 99"},
      {"\"Size\": 2", "\"Size\": 1", "7: 1g.20gb fills 2 memory slices"},
      {"{\"Start\": 4, \"Size\": 4}", "{\"Start\": 4}", "6: 'Size' is missing"},
      {"[{\"ProfileID\": 0, \"EngProfileID\": 0}]", "[]", "7: 1g.20gb needs one compute instance"},
      {"[{\"ProfileID\": 0, \"EngProfileID\": 0}]", "null", "7: 'ComputeInstances' must be a list"},
      {"[{\"ProfileID\": 2,", "[{\"ProfileID\": 0,", "6: 3g.40gb needs one compute instance of al"},
      {"\"EngProfileID\": 0}]}]", "\"EngProfileID\": 1}]}]", "7: 1g.20gb needs one compute"},
      {"\"EngProfileID\": 0}]}]", "\"Eng\": 0}]}]", "7: unknown key 'Eng'"},
      {"null}]", "null}", "9: not valid JSON"}};
  for (const Wrong& one : wrong) {
    std::string text = kGolden;
    const auto at = text.find(one.from);
    ASSERT_NE(at, text.npos) << one.from;
    text.replace(at, one.from.size(), one.to);
    const Result<Geometry> read = parse_checkpoint("c.json", text, boards(golden()));
    ASSERT_FALSE(read) << one.to;
    const std::string found = to_string(read.error());
    EXPECT_TRUE(found.starts_with("c.json:" + one.expected)) << one.to << " -> " << found;
  }
  const Result<Geometry> few = parse_checkpoint("c.json", kGolden, boards_of(model("A30-24GB"), 0));
  EXPECT_EQ(to_string(few.error()), "c.json:5: the checkpoint has more GPUs than the 0 there are");
}

RC_GTEST_PROP(CheckpointProperty, PlacesSurvive, ()) {
  const Geometry geometry = with_uuids(any_geometry(*rc::gen::arbitrary<bool>()));
  const Result<std::string> text = checkpoint_json(geometry);
  RC_ASSERT(static_cast<bool>(text));
  const Result<Geometry> again = parse_checkpoint("c.json", *text, boards(geometry));
  RC_ASSERT(static_cast<bool>(again));
  RC_ASSERT(*again == geometry);
}

}  // namespace
}  // namespace partita::interop
