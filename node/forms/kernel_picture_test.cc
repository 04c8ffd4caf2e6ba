#include "forms/kernel_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "forms/testing/xml_check.h"

namespace partita::forms {
namespace {

using testing::HasSubstr;

std::size_t count(const std::string& text, std::string_view piece) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(piece, at)) != text.npos; at += piece.size()) ++found;
  return found;
}

// The heights that the step line of a class is at, from the picture itself: the numbers after V and
// the second after M, as pixels above the bottom of a panel 150 high.
std::vector<double> heights(const std::string& svg, const std::string& kind) {
  const std::size_t at = svg.find("class=\"" + kind + "\" d=\"M");
  std::string d = svg.substr(svg.find("d=\"", at) + 3);
  d = d.substr(0, d.find_first_of("\"z"));
  std::vector<double> all{std::stod(d.substr(d.find(' ')))};
  for (std::size_t v = 0; (v = d.find('V', v)) != d.npos; ++v) all.push_back(std::stod(&d[v + 1]));
  return all;
}

UnitsPicture picture_of(std::vector<UnitCurve> curves) {
  return {"Title", "below", "least", "planned", "knee", {1, 2, 4}, std::move(curves), {}};
}

TEST(UnitsSvg, DrawsWhatIsGiven) {
  const hw::Topology topology = hw::generic_topology(2, 2);
  UnitsPicture picture =
      picture_of({{"a<&>\"'", "3 kernels", {1, 4, 2}, {2, 2, 4}, 0}, {"b", "", {3}, {1}, 2}});
  picture.lanes = {1, {{0, 2, 0b0011, 2}, {0, 4, 0b1111, 1}, {1, 1, 0b0001, 1}}};
  const std::string svg = units_svg(picture, topology);
  EXPECT_EQ(XmlCheck(svg).run(), "");
  EXPECT_EQ(count(svg, "class=\"curve\""), 2u);
  EXPECT_EQ(count(svg, "class=\"switch\""), 1u);
  EXPECT_EQ(count(svg, "class=\"lane\""), 3u);
  EXPECT_THAT(svg, HasSubstr("<title id=\"title\">Title</title>"));
  EXPECT_THAT(svg, HasSubstr("mask 0x3"));
  const std::vector<double> given = heights(svg, "given");
  ASSERT_EQ(given.size(), 2u);  // on 2, then on 4 of 4 units: half of the panel
  EXPECT_NEAR(given[0] - given[1], 75, 0.11);
  const std::vector<double> least = heights(svg, "least");
  ASSERT_EQ(least.size(), 4u);  // 1, 4, 2 and down to the axis
  EXPECT_NEAR(least[0] - least[1], 112.5, 0.11);
  EXPECT_NEAR(least[2] - least[1], 75, 0.11);
  EXPECT_NEAR(least[3] - least[1], 150, 0.11);
}

TEST(UnitsSvg, ManyKernelsShareColumnsAndKeepTheirExtremes) {
  std::vector<int> least(100'000, 2);
  least[77'777] = 4;
  least[33'333] = 1;
  const std::string svg =
      units_svg(picture_of({{"a", "", least, {}, 0}}), hw::generic_topology(1, 4));
  EXPECT_EQ(XmlCheck(svg).run(), "");
  EXPECT_LT(svg.size(), 20'000u);
  std::vector<double> at = heights(svg, "least");
  at.pop_back();  // the axis
  const auto [low, high] = std::ranges::minmax(at);
  EXPECT_NEAR(high - low, 112.5, 0.11);  // from 1 to 4 of 4 units
}

TEST(UnitsSvg, DrawsNothingAndTooMuch) {
  const hw::Topology topology = hw::generic_topology(1, 3);
  EXPECT_EQ(XmlCheck(units_svg(picture_of({}), topology)).run(), "");
  EXPECT_EQ(XmlCheck(units_svg(picture_of({{"a", "", {}, {}, 0}}), topology)).run(), "");
  UnitsPicture picture = picture_of(std::vector<UnitCurve>(64, {"w", "", {1}, {1}, 1}));
  for (std::size_t w = 0; w < 64; ++w)
    for (int units = 1; units <= 3; ++units)
      picture.lanes.all.push_back({w, units, (1u << units) - 1, 1});
  const std::string svg = units_svg(picture, topology);
  EXPECT_EQ(XmlCheck(svg).run(), "");
  EXPECT_EQ(count(svg, "class=\"curve\""), kMaxPanels);
  EXPECT_EQ(count(svg, "class=\"lane\""), kMaxMaps);
  EXPECT_THAT(svg, HasSubstr("40 more are not drawn"));
}

// Worker a has units 0-1 for both of its kernels; b unit 1 for one of two and all for the other.
TEST(LanesText, ShowsWhatOthersUse) {
  const hw::Topology topology = hw::generic_topology(2, 2);
  const Lanes lanes{1, {{0, 2, 0b0011, 2}, {1, 1, 0b0010, 1}, {1, 4, 0b1111, 1}}};
  const std::string text = lanes_text({"a", "b"}, lanes, topology, 80);
  EXPECT_THAT(text, HasSubstr("a    2  ▒▒ ··\n"));
  EXPECT_THAT(text, HasSubstr("b    1  ·▒ ··\n"));
  EXPECT_THAT(text, HasSubstr("b    4  ▒▒ ██\n"));
  const hw::Topology wide = hw::generic_topology(2, 200);
  EXPECT_THAT(lanes_text({"a"}, {1, {{0, 1, 1, 1}}}, wide, 80), HasSubstr("a    1    1   0\n"));
}

TEST(MaskSvg, DrawsEveryUnitOnce) {
  const hw::Topology h200 = *hw::topology_named("H200");
  std::vector<int> busy(132);
  busy[0] = 1;
  busy[131] = 1'000'000;
  const hw::UnitMask mask = 0b1111;
  for (const int atom : {1, 8}) {
    const std::string svg = mask_svg({"t", "s", atom, mask, busy}, h200);
    EXPECT_EQ(XmlCheck(svg).run(), "");
    EXPECT_EQ(count(svg, "h-22z"), 132u);
    EXPECT_THAT(svg, HasSubstr(">99+</text>"));
    EXPECT_THAT(svg, HasSubstr("mask 0xf"));
  }
  const hw::Topology flat = hw::generic_topology(1, 512);
  EXPECT_EQ(count(mask_svg({"t", "s", 1, {}, std::vector<int>(512)}, flat), "h-15z"), 512u);
}

}  // namespace
}  // namespace partita::forms
