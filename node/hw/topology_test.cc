#include "hw/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::hw {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Topology, ShippedOnesSayDiesAndWhatIsAssumed) {
  for (const Topology& topology : builtin_topologies()) {
    EXPECT_EQ(topology.dies, topology.name == "MI300X" ? 8 : 1) << topology.name;
    EXPECT_EQ(topology.assumed, topology.unit_name == "SM") << topology.name;
  }
}

TEST(Topology, DiesAreEqualClusters) {
  const auto parsed = [](const char* units, const char* dies) {
    return parse_topology("f.json", std::string("{\"name\": \"x\", \"cluster\": \"XCD\",\n") +
                                        "\"unit\": \"CU\", \"atoms\": [1], \"source\": \"s\",\n" +
                                        "\"units\": " + units + ",\n\"dies\": " + dies + "}");
  };
  EXPECT_EQ(parsed("[3, 3]", "2")->dies, 2);
  for (const auto& [units, dies] :
       {std::pair("[3, 4]", "2"), {"[3, 3, 3, 3]", "2"}, {"[3]", "0"}}) {
    const auto refused = parsed(units, dies);
    ASSERT_FALSE(refused) << units;
    EXPECT_THAT(to_string(refused.error()), HasSubstr("f.json:4"));
  }
}

TEST(Topology, GrainsAreOneAtomOfEachDie) {
  Topology topology = generic_topology(2, 5);
  EXPECT_EQ(grains(topology, 2), 4);  // two atoms in each cluster
  EXPECT_EQ(units_of_grains(topology, 2, 0b0100), UnitMask(0b00011'00000));
  EXPECT_THAT(mask_sizes(topology, 2), ElementsAre(2, 4, 6, 8, 10));
  EXPECT_THAT(units_per_die(topology, 0b00011'00001), ElementsAre(3));
  topology.dies = 2;
  EXPECT_EQ(grains(topology, 2), 2);
  EXPECT_EQ(units_of_grains(topology, 2, 0b10), UnitMask(0b01100'01100));
  EXPECT_THAT(mask_sizes(topology, 2), ElementsAre(4, 6, 8, 10));
  EXPECT_THAT(units_per_die(topology, 0b00011'00001), ElementsAre(1, 2));
  EXPECT_EQ(all_units(topology), UnitMask(0b11111'11111));
  EXPECT_EQ(all_units(generic_topology(1, kMaxUnits)).count(), 512u);
}

}  // namespace
}  // namespace partita::hw
