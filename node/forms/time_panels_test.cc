#include "forms/time_panels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "forms/testing/xml_check.h"

namespace partita::forms {
namespace {

using testing::HasSubstr;

// The highest and lowest y of the n-th path that has this attribute.
std::pair<double, double> reach(const std::string& svg, const std::string& attribute) {
  std::smatch path;
  const std::regex one("<path d=\"([^\"]*)\" " + attribute);
  EXPECT_TRUE(std::regex_search(svg, path, one)) << attribute;
  const std::string steps = path[1];
  double least = 1e9, most = -1e9;
  const std::regex number("[V ](-?[0-9.]+)");
  for (std::sregex_iterator at(steps.begin(), steps.end(), number), end; at != end; ++at) {
    least = std::min(least, std::stod((*at)[1]));
    most = std::max(most, std::stod((*at)[1]));
  }
  return {least, most};
}

TEST(TimePanels, LevelsLieWhereTheLinesAre) {
  TimePanels plot{.title = "a<b", .subtitle = "s", .seconds = {0, 1, 2}, .panels = {}};
  plot.panels.push_back({.unit = "C", .lines = {{"hot", {40, 80, 60}}}, .levels = {{"cap", 60}}});
  const std::string svg = time_panels_svg(plot);
  EXPECT_EQ(XmlCheck(svg).run(), "");
  const auto [top, bottom] = reach(svg, "fill=\"none\" stroke=\"#[0-9a-f]+\" stroke-width=\"1.6");
  std::smatch level;
  ASSERT_TRUE(std::regex_search(
      svg, level, std::regex("<path d=\"M74 ([0-9.]+)H[0-9]+\" fill=\"none\" stroke=\"#b3261e")));
  EXPECT_NEAR(std::stod(level[1]), (top + bottom) / 2, 0.11) << "60 between 40 and 80";
}

TEST(TimePanels, PartsOfAWholeLieOnEachOther) {
  TimePanels plot{.title = "t", .subtitle = "", .seconds = {0, 1}, .panels = {}};
  plot.panels.push_back({.unit = "K", .lines = {{"one", {1, 1}}, {"two", {3, 3}}}, .levels = {}});
  plot.panels.back().stacked = true;
  const std::string svg = time_panels_svg(plot);
  EXPECT_EQ(XmlCheck(svg).run(), "");
  // The upper area is drawn first and reaches from 0 to 4.
  const auto [top, bottom] = reach(svg, "fill=\"#");
  const std::size_t second = svg.find("<path d=\"", svg.find("Z\" fill=\"#") + 1);
  const auto [lower_top, lower_bottom] = reach(svg.substr(second), "fill=\"#");
  EXPECT_NEAR((bottom - top) / (lower_bottom - lower_top), 4, 0.05);
  EXPECT_EQ(bottom, lower_bottom);
}

TEST(TimePanels, DrawsOneMomentAndMany) {
  TimePanels plot{.title = "t", .subtitle = "", .seconds = {5}, .panels = {}};
  EXPECT_EQ(XmlCheck(time_panels_svg(plot)).run(), "");
  plot.panels.push_back({.unit = "W", .lines = {{"flat", {7}}}, .levels = {}});
  EXPECT_EQ(XmlCheck(time_panels_svg(plot)).run(), "");
}

}  // namespace
}  // namespace partita::forms
