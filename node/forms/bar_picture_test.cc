#include "forms/bar_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "forms/testing/xml_check.h"

namespace partita::forms {
namespace {

using testing::HasSubstr;

BarPicture some_bars() {
  BarPicture picture{
      .title = "a<b", .subtitle = "s", .unit = "J", .series = {}, .part = "idle", .rows = {}};
  picture.series = {"by model", "by slice"};
  picture.rows = {{"chat & co", "60 J", {{60, 20, 10}, {30, 0, 0}}},
                  {"search", "30 J", {{30, 0, 0}, {60, 0, 0}}}};
  return picture;
}

// Widths of the boxes of a height, from the picture.
std::vector<double> widths(const std::string& svg, const std::string& height) {
  std::vector<double> found;
  const std::regex box("<rect x=\"[0-9.]+\" y=\"[0-9.]+\" width=\"([0-9.]+)\" height=\"" + height +
                       "\"");
  for (std::sregex_iterator at(svg.begin(), svg.end(), box), end; at != end; ++at)
    found.push_back(std::stod((*at)[1]));
  return found;
}

TEST(BarPicture, BarsAreAsLongAsTheirAmounts) {
  const std::string svg = bar_svg(some_bars());
  EXPECT_EQ(XmlCheck(svg).run(), "");
  EXPECT_THAT(svg, HasSubstr("chat &amp; co"));
  // The rest of chat (40), its hatched part once as ground and once as pattern (20), search (30).
  const std::vector<double> thick = widths(svg, "20.0"), thin = widths(svg, "8.0");
  ASSERT_EQ(thick.size(), 4u);
  EXPECT_NEAR(thick[0] / thick[3], 40.0 / 30, 0.01);
  EXPECT_NEAR(thick[1] / thick[3], 20.0 / 30, 0.01);
  EXPECT_EQ(thick[1], thick[2]);
  ASSERT_EQ(thin.size(), 2u);
  EXPECT_NEAR(thin[1] / thin[0], 2, 0.01);
  EXPECT_NEAR(thin[0] / thick[3], 1, 0.01) << "one scale for all";
  EXPECT_THAT(svg, HasSubstr("url(#hatch1)"));
}

TEST(BarPicture, DrawsNothingAndMuch) {
  BarPicture picture{
      .title = "t", .subtitle = "", .unit = "J", .series = {"x"}, .part = "", .rows = {}};
  EXPECT_EQ(XmlCheck(bar_svg(picture)).run(), "");
  picture.rows = {{"zero", "", {{0, 0, 0}}}};
  EXPECT_EQ(XmlCheck(bar_svg(picture)).run(), "");
  for (std::size_t i = 0; i < kMostBarRows + 4; ++i)
    picture.rows.push_back({std::string(300, 'n'), "", {{1e12, 1e13, 1e-9}}});
  const std::string svg = bar_svg(picture);
  EXPECT_EQ(XmlCheck(svg).run(), "");
  EXPECT_THAT(svg, HasSubstr("and 5 more"));
}

}  // namespace
}  // namespace partita::forms
