#include "forms/layout_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "forms/latency_svg.h"
#include "forms/testing/xml_check.h"

namespace partita::forms {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count_of(std::string_view text, std::string_view piece) {
  std::size_t found = 0;
  for (std::size_t at = text.find(piece); at != text.npos; at = text.find(piece, at + 1)) ++found;
  return found;
}

LayoutPicture changed_layout() {
  LayoutPicture picture{"What <would> be", "a & b", {}, true};
  picture.rows = {{"GPU 0", "A100", 8, {{0, 4, "chat", "4g.40gb", "facts \"1\"", true}}},
                  {"GPU 1",
                   "A100",
                   8,
                   {{0, 1, "se<arch", "1g.10gb", "x", false, BoxFate::goes},
                    {2, 2, "chat", "2g.20gb", "y", false, BoxFate::comes},
                    {4, 1, "", "1g.10gb", "z"}}}};
  return picture;
}

TEST(LayoutSvg, SaysOfEveryBoxWhatBecomesOfIt) {
  const std::string svg = layout_svg(changed_layout());
  EXPECT_EQ(XmlCheck(svg).run(), "");
  EXPECT_THAT(svg, HasSubstr(">chat •</text>"));
  EXPECT_THAT(svg, HasSubstr(">− se&lt;arch</text>"));
  EXPECT_THAT(svg, HasSubstr(">+ chat</text>"));
  EXPECT_THAT(svg, HasSubstr(">free</text>"));
  EXPECT_EQ(count_of(svg, "class=\"legend\""), 4u);  // two services, two fates
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
  LayoutPicture plain = changed_layout();
  plain.change = false;
  EXPECT_EQ(count_of(layout_svg(plain), "class=\"legend\""), 2u);
}

TEST(LayoutSvg, DrawsWhatCannotBe) {
  LayoutPicture picture{
      "", "", {{"", "", -3, {{-5, 100, "a", "", ""}}}, {"x", "", 1000, {}}}, true};
  EXPECT_EQ(XmlCheck(layout_svg(picture)).run(), "");
  picture.rows.assign(kMostLayoutRows + 7, {"GPU", "", 7, {}});
  EXPECT_THAT(layout_svg(picture), HasSubstr("... and 7 more"));
  EXPECT_EQ(XmlCheck(layout_svg({})).run(), "");
}

TEST(LatencySvg, WorstFirstWithASignBesideTheColour) {
  const std::string svg =
      latency_svg("Simulated", "load 1",
                  {{"go<od", 100, 10, 50, 99, 0.999, 0.99}, {"bad", 100, 50, 150, 900, 0.9, 0.99}});
  EXPECT_EQ(XmlCheck(svg).run(), "");
  EXPECT_LT(svg.find(">bad<"), svg.find(">go&lt;od<"));
  EXPECT_THAT(svg, HasSubstr("✗ 90.00 % of 99.00 %"));
  EXPECT_THAT(svg, HasSubstr("✓ 99.90 % of 99.00 %"));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
}

TEST(LatencySvg, BarsEndWhereTheShareOfTheObjectiveSays) {
  // The scale is 410 pixels for twice the objective, from x = 220.
  const std::string svg = latency_svg("", "", {{"a", 200, 100, 200, 5000, 1, 0.99}});
  EXPECT_THAT(svg, HasSubstr("H630.0\""));                      // p99: at the edge
  EXPECT_THAT(svg, HasSubstr("x=\"220.00\" "));                 // p95: from the left
  EXPECT_THAT(svg, HasSubstr("width=\"205.00\""));              // to the objective
  EXPECT_THAT(svg, HasSubstr("M322.5 "));                       // p50: half of it
  EXPECT_THAT(svg, HasSubstr("M425.0 "));                       // the objective
  EXPECT_EQ(XmlCheck(latency_svg("", "", {{"a"}})).run(), "");  // no objective
  EXPECT_THAT(latency_svg("", "", std::vector<LatencyRow>(61)), HasSubstr("... and 1 more"));
  EXPECT_THAT(latency_svg("", "", std::vector<LatencyRow>(60)), Not(HasSubstr("more")));
}

}  // namespace
}  // namespace partita::forms
