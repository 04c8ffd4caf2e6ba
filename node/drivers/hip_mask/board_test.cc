// What a board is, from what HIP and the kernel driver tell: hand values of real boards.
#include "drivers/hip_mask/board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace partita::drivers::hip_mask {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// As the kernel driver writes the file of an MI50 at 0000:43:00.0.
constexpr char kMI50[] =
    "cpu_cores_count 0\nsimd_count 240\nmem_banks_count 1\nwave_front_size 64\narray_count 4\n"
    "simd_arrays_per_engine 1\ncu_per_simd_array 16\nsimd_per_cu 4\ngfx_target_version 90006\n"
    "vendor_id 4098\nlocation_id 17152\ndomain 0\nnum_xcc 1\n";

TEST(KfdNodes, AreRead) {
  EXPECT_EQ(parse_kfd_node(kMI50), (KfdNode{.gfx = 90006, .cus = 60, .engines = 4, .bus = 0x43}));
  // A processor's node, and what is none.
  EXPECT_FALSE(parse_kfd_node("cpu_cores_count 16\nsimd_count 0\narray_count 0\n"));
  EXPECT_FALSE(parse_kfd_node(""));
  EXPECT_FALSE(parse_kfd_node("simd_count\nsimd_per_cu four\n\n"));
  EXPECT_FALSE(parse_kfd_node("simd_count 99999999999999999999\nsimd_per_cu 4\n"));
}

TEST(KfdNodes, OfAFolder) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("kfd_nodes_" + std::to_string(getpid()));
  for (const auto& [node, text] : {std::pair("0", "cpu_cores_count 8\n"), std::pair("1", kMI50)}) {
    std::filesystem::create_directories(folder / node);
    std::ofstream(folder / node / "properties") << text;
  }
  EXPECT_THAT(read_kfd_nodes(folder), ElementsAre(*parse_kfd_node(kMI50)));
  EXPECT_THAT(read_kfd_nodes(folder / "absent"), IsEmpty());
  std::filesystem::remove_all(folder);
}

HipFacts facts(std::string name, int gfx, int multiprocessors, std::optional<KfdNode> kfd) {
  return {.name = std::move(name),
          .major = gfx / 10000,
          .minor = gfx / 100 % 100,
          .multiprocessors = multiprocessors,
          .physical = multiprocessors,
          .xccs = 0,
          .kfd = kfd};
}

TEST(Boards, ShippedOnesAreKnownByName) {
  const auto mi50 = board_of(facts("AMD Instinct MI60 / MI50", 90006, 60, parse_kfd_node(kMI50)));
  ASSERT_TRUE(mi50);
  EXPECT_EQ(mi50->topology, *hw::topology_named("MI50"));
  EXPECT_EQ(mi50->layout, (CuLayout{.engines = 4, .active = {15, 15, 15, 15}}));
  EXPECT_THAT(mi50->note, IsEmpty());
  // Without the kernel driver's word, the name is enough, and an MI300X has dies.
  const auto mi300 = board_of(facts("AMD Instinct MI300X", 90402, 304, {}));
  ASSERT_TRUE(mi300);
  EXPECT_EQ(mi300->topology.name, "MI300X");
  EXPECT_EQ(mi300->layout.xccs, 8);
  EXPECT_EQ(mi300->bits[1], 8);
}

TEST(Boards, ShippedOnesAreKnownByArchitecture) {
  const KfdNode node{.gfx = 90008, .cus = 120, .engines = 8};
  const auto board = board_of(facts("", 90008, 120, node));
  ASSERT_TRUE(board);
  EXPECT_EQ(board->topology.name, "MI100");
  EXPECT_EQ(board->name, "gfx 90008");
}

TEST(Boards, OtherNumbersAreGenericAndSayWhy) {
  // Half of the MI300X's dies.
  const KfdNode half{.gfx = 90402, .cus = 152, .engines = 16, .xccs = 4};
  const auto dies = board_of(facts("AMD Instinct MI300X", 90402, 152, half));
  ASSERT_TRUE(dies);
  EXPECT_THAT(dies->topology.units_in, ElementsAre(38, 38, 38, 38));
  EXPECT_EQ(dies->topology.cluster_name, "XCD");
  EXPECT_EQ(dies->layout.xccs, 4);
  EXPECT_THAT(dies->note, HasSubstr("MI300X has 304 CUs in 8 clusters, this board 152"));
  EXPECT_EQ(dies->topology.dies, 4);
  const KfdNode some{.gfx = 90402, .cus = 150, .engines = 16, .xccs = 4};
  const auto unlike = board_of(facts("AMD Instinct MI300X", 90402, 150, some));
  ASSERT_FALSE(unlike);
  EXPECT_EQ(unlike.error().code, ErrorCode::not_supported);
  // 110 CUs in 8 engines cannot be equal.
  const KfdNode unequal{.gfx = 90010, .cus = 110, .engines = 8};
  const auto one = board_of(facts("AMD Instinct MI250X", 90010, 110, unequal));
  ASSERT_TRUE(one);
  EXPECT_THAT(one->topology.units_in, ElementsAre(110));
  EXPECT_EQ(one->bits[109], 109);
  EXPECT_THAT(one->note, HasSubstr("different numbers of CUs"));
  // Nobody tells the engines.
  const auto unknown = board_of(facts("AMD Radeon Pro V620", 100300, 36, {}));
  ASSERT_TRUE(unknown);
  EXPECT_THAT(unknown->topology.units_in, ElementsAre(72));
  EXPECT_THAT(unknown->note, HasSubstr("does not tell"));
}

TEST(Boards, FromGfx10OnCusAreMaskedInPairs) {
  // HIP counts WGPs: 48 of 96 CUs.
  const KfdNode node{.gfx = 110000, .cus = 96, .engines = 6};
  const auto board = board_of(facts("AMD Radeon RX 7900 XTX", 110000, 48, node));
  ASSERT_TRUE(board);
  EXPECT_EQ(board->topology.units(), 96);
  EXPECT_THAT(board->topology.atoms, ElementsAre(2));
  EXPECT_EQ(board->told, 48);
  EXPECT_THAT(std::vector(board->bits.begin(), board->bits.begin() + 4), ElementsAre(0, 1, 12, 13));
}

TEST(Boards, MoreThanMasksHaveIsRefused) {
  for (const int cus : {0, hw::kMaxUnits + 1}) {
    const auto board = board_of(facts("AMD GPU", 90006, cus, {}));
    ASSERT_FALSE(board);
    EXPECT_EQ(board.error().code, ErrorCode::limit);
  }
}

}  // namespace
}  // namespace partita::drivers::hip_mask
