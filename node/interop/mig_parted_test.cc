#include "interop/mig_parted.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "interop/testing/random_geometry.h"

namespace partita::interop {
namespace {

Result<Geometry> read(const std::string& text, const std::vector<Board>& on,
                      const std::string& label = "") {
  const MigPartedFile file = TRY(parse_mig_parted("c.yaml", text));
  const MigPartedLabel* chosen = TRY(chosen_label(file, label));
  return geometry_of(file, *chosen, on);
}

std::string mig_parted_refusal(const std::string& text, const std::string& label = "") {
  const Result<Geometry> geometry = read(text, boards_of(model("A100-80GB"), 4), label);
  return geometry ? std::string("accepted") : to_string(geometry.error());
}

// Which instances are on each GPU.
std::map<int, std::vector<int>> counts(const Geometry& geometry) {
  std::map<int, std::vector<int>> all;
  for (const GpuGeometry& gpu : geometry.gpus) all[gpu.board.index] = counts_of(gpu);
  return all;
}

constexpr const char* kMigPartedGolden = R"(version: v1
mig-configs:
  all-disabled:
    - devices: all
      mig-enabled: false
  mixed:
    - device-filter: "0x20B210DE"
      devices: all
      mig-enabled: true
      mig-devices: {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}
    - device-filter: ["0x233010de", "0x20B710DE"]
      devices: [2, 3]
      mig-enabled: true
      mig-devices:
        7g.80gb: 1
    - devices: [0]
      mig-enabled: true
      mig-devices: {"7g.79gb": 1}
)";

TEST(MigParted, AFileByHand) {
  std::vector<Board> on = boards_of(model("A100-80GB"), 2);
  const std::vector<Board> more = boards_of(model("H100-80GB-SXM5"), 4);
  on.insert(on.end(), more.begin() + 2, more.end());
  const Result<Geometry> off = read(kMigPartedGolden, on, "all-disabled");
  ASSERT_TRUE(off);
  EXPECT_EQ(off->gpus.size(), 4U);
  for (const GpuGeometry& gpu : off->gpus) EXPECT_FALSE(gpu.mig_enabled);

  const Result<Geometry> mixed = read(kMigPartedGolden, on, "mixed");
  ASSERT_TRUE(mixed) << to_string(mixed.error());
  const hw::GpuModel &a100 = model("A100-80GB"), &h100 = model("H100-80GB-SXM5");
  ASSERT_EQ(mixed->gpus.size(), 4U);
  EXPECT_EQ(mixed->gpus[0].slots, std::vector<Slot>{slot(a100, "7g.80gb", 0)});  // the last entry
  EXPECT_EQ(mixed->gpus[1].slots,
            (std::vector<Slot>{slot(a100, "1g.10gb", 0), slot(a100, "1g.10gb", 1),
                               slot(a100, "2g.20gb", 2), slot(a100, "3g.40gb", 4)}));
  EXPECT_EQ(mixed->gpus[2].slots, std::vector<Slot>{slot(h100, "7g.80gb", 0)});
  EXPECT_EQ(mixed->gpus[3].slots, std::vector<Slot>{slot(h100, "7g.80gb", 0)});

  EXPECT_EQ(to_string(read(kMigPartedGolden, on).error()),
            "--label: c.yaml has the labels all-disabled, mixed: name one");
  EXPECT_EQ(to_string(read(kMigPartedGolden, on, "mixd").error()),
            "--label: c.yaml has no label 'mixd'; did you mean 'mixed'?");
}

TEST(MigParted, GpusThatNoEntryNamesAreLeftOut) {
  const Result<Geometry> geometry =
      read("version: v1\nmig-configs: {a: [{devices: [1], mig-enabled: true, mig-devices: {}}]}",
           boards_of(model("A30-24GB"), 3));
  ASSERT_TRUE(geometry);
  ASSERT_EQ(geometry->gpus.size(), 1U);
  EXPECT_EQ(geometry->gpus[0].board.index, 1);
  EXPECT_TRUE(geometry->gpus[0].mig_enabled);
}

TEST(MigParted, WrittenByHand) {
  const hw::GpuModel& a100 = model("A100-80GB");
  const std::vector<Slot> halves{slot(a100, "3g.40gb", 0), slot(a100, "3g.40gb", 4)};
  Geometry geometry;
  for (const int index : {0, 2, 5})
    geometry.gpus.push_back({{.index = index, .model = &a100}, true, halves});
  geometry.gpus[1].slots.pop_back();
  geometry.gpus.push_back({{.index = 6, .model = &a100}, false, {}});
  geometry.gpus.push_back({{.index = 7, .model = &a100}, true, {}});
  EXPECT_EQ(*mig_parted_yaml(geometry, "two.halves"), R"(# Counts only: mig-parted chooses the )"
                                                      R"(places itself. Its checkpoint keeps them.
version: v1
mig-configs:
  "two.halves":
    - devices: [0, 5]
      mig-enabled: true
      mig-devices:
        "3g.40gb": 2
    - devices: [2]
      mig-enabled: true
      mig-devices:
        "3g.40gb": 1
    - devices: [6]
      mig-enabled: false
    - devices: [7]
      mig-enabled: true
      mig-devices: {}
)");
  for (const char* label : {"", "a b", "-a", "a.", "ü"})
    EXPECT_EQ(mig_parted_yaml(geometry, label).error().context, "--label") << label;
  EXPECT_FALSE(mig_parted_yaml({}, "a"));
}

TEST(MigParted, ModelsAreToldApartByPciId) {
  const hw::GpuModel &a30 = model("A30-24GB"), &h100 = model("H100-80GB-SXM5");
  const Geometry geometry{{{{.index = 0, .model = &a30}, true, {slot(a30, "4g.24gb", 0)}},
                           {{.index = 1, .model = &h100, .pci_device_id = "0x233010DE"},
                            true,
                            {slot(h100, "7g.80gb", 0)}}}};
  const std::string text = *mig_parted_yaml(geometry, "p");
  EXPECT_NE(text.find("- device-filter: [\"0x20B710DE\"]\n      devices: [0]"), text.npos) << text;
  EXPECT_NE(text.find("- device-filter: [\"0x233010DE\"]\n      devices: [1]"), text.npos) << text;
}

// What is inside "version: v1\nmig-configs:\n  a:\n    - " is on line 4.
TEST(MigParted, WrongEntriesAreRefusedWithTheirLine) {
  const std::map<std::string, std::string> wrong{
      {"{devices: all}", "4: 'mig-enabled' is missing"},
      {"{mig-enabled: false}", "4: 'devices' is missing"},
      {"{devices: none, mig-enabled: false}", "4: 'devices' must be 'all' or a list"},
      {"{devices: 3, mig-enabled: false}", "4: 'devices' must be a list"},
      {"{devices: [0.5], mig-enabled: false}", "4: 'devices' must list GPU indices"},
      {"{devices: [-1], mig-enabled: false}", "4: 'devices' must list GPU indices"},
      {"{devices: [one], mig-enabled: false}", "4: 'devices' must list GPU indices"},
      {"{devices: [1, 1], mig-enabled: false}", "4: 'devices' names GPU 1 twice"},
      {"{devices: [4], mig-enabled: false}", "4: 'devices' names GPU 4, which the node does not"},
      {"{devices: all, mig-enabled: maybe}", "4: 'mig-enabled' must be true or false"},
      {"{devices: all, mig-enabled: true}", "4: 'mig-devices' is needed"},
      {"{devices: all, mig-enabled: false, mig-devices: {1g.10gb: 1}}",
       "4: 'mig-devices' is given while 'mig-enabled' is false"},
      {"{devices: all, mig-enabled: true, mig-devices: [1g.10gb]}", "4: 'mig-devices' must be an"},
      {"{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 0}}", "4: 'mig-devices' counts 0"},
      {"{devices: all, mig-enabled: true, mig-devices: {1g.10gb: -1}}", "4: '1g.10gb' is -1"},
      {"{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 1.5}}", "4: '1g.10gb' must be a"},
      {"{devices: all, mig-enabled: true, mig-devices: {1g.10gb: many}}", "4: '1g.10gb' must be a"},
      {"{devices: all, mig-enabled: true, mig-devices: {1g10gb: 1}}", "4: '1g10gb' is not a MIG"},
      {"{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 1}}", "4: A100-80GB has no MIG"},
      {"{devices: all, mig-enabled: true, mig-devices: {1c.3g.40gb: 1}}", "4: 1c.3g.40gb has a"},
      {"{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 3}}", "4: 3 x 3g.40gb do not fit"},
      {"{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2, 1g.10gb: 1}}", "4: 2 x 3g.40g"},
      {"{devices: all, mig-enabled: false, device-filter: A100}", "4: 'device-filter' must hold"},
      {"{devices: all, mig-enabled: false, device-filter: 7}", "4: 'device-filter' must hold"},
      {"{devices: all, mig-enabled: false, device-filter: [{}]}", "4: 'device-filter' must list"},
      {"{devices: all, mig-enabled: false, mig_devices: {}}", "4: unknown key 'mig_devices'; did"},
      {"{devices: all, mig-enabled: false, devices: all}", "4: duplicate key 'devices'"},
      {"all", "4: must be an object with named values"},
      {"{devices: all, mig-enabled: false}\n    - {devices: 1}", "5: 'devices' must be a list"},
      {"devices: all\n      mig-enabled: true\n      mig-devices:\n        9g.1gb: 1",
       "7: A100-80GB has no MIG profile '9g.1gb'"}};
  for (const auto& [entry, expected] : wrong) {
    const std::string found =
        mig_parted_refusal("version: v1\nmig-configs:\n  a:\n    - " + entry + "\n");
    EXPECT_TRUE(found.starts_with("c.yaml:" + expected)) << entry << " -> " << found;
  }
}

TEST(MigParted, WrongFilesAreRefusedWithTheirLine) {
  const std::map<std::string, std::string> wrong{
      {"", "1: the file is empty"},
      {"- a", "1: must be an object with named values"},
      {"mig-configs: {}", "1: 'version' is missing"},
      {"version: v2\nmig-configs: {}", "1: 'version' is 'v2', must be 'v1'"},
      {"version: v1", "1: 'mig-configs' is missing"},
      {"version: v1\nmig-configs: {}", "2: 'mig-configs' has no label"},
      {"version: v1\nmig-configs: 3", "2: 'mig-configs' must be an object"},
      {"version: v1\nmig-configs: {a: []}", "2: a label needs at least one entry"},
      {"version: v1\nmig-configs: {a: {}}", "2: 'a' must be a list"},
      {"version: v1\nmig-configs: {a: []}\nmig-config: 3", "3: unknown key 'mig-config'"},
      {"version: v1\nmig-configs: &x {}", "2: anchors are not supported"},
      {"version: v1\n---\nversion: v1", "1: "}};
  for (const auto& [text, expected] : wrong) {
    const std::string found = mig_parted_refusal(text);
    EXPECT_TRUE(found.starts_with("c.yaml:" + expected)) << text << " -> " << found;
  }
}

RC_GTEST_PROP(MigPartedProperty, CountsSurviveAndPlacesAreLegal, ()) {
  const Geometry geometry = any_geometry(*rc::gen::arbitrary<bool>());
  const Result<std::string> text = mig_parted_yaml(geometry, "partita");
  RC_ASSERT(static_cast<bool>(text));
  const Result<Geometry> again = read(*text, boards(geometry));
  RC_ASSERT(static_cast<bool>(again));
  RC_ASSERT(counts(*again) == counts(geometry));
  for (std::size_t i = 0; i < geometry.gpus.size(); ++i) {
    RC_ASSERT(again->gpus[i].board == geometry.gpus[i].board);
    RC_ASSERT(again->gpus[i].mig_enabled == geometry.gpus[i].mig_enabled);
    std::vector<hw::PlacedProfile> places;
    for (const Slot& s : again->gpus[i].slots) places.push_back({s.profile, *s.start});
    RC_ASSERT(hw::conflicts(*again->gpus[i].board.model, places).empty());
  }
}

}  // namespace
}  // namespace partita::interop
