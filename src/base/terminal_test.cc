#include "base/terminal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/unicode.h"

namespace partita {
namespace {

TEST(Numbers, AreShortForPeople) {
  EXPECT_EQ(number_text(0.5), "0.5");
  EXPECT_EQ(number_text(12.3456), "12.35");
  EXPECT_EQ(number_text(999.96), "1000");
  EXPECT_EQ(number_text(123456.7), "123457");
  EXPECT_EQ(number_text(INFINITY), "unbounded");
}

double luminance(Rgb c) {
  const auto linear = [](int channel) {
    const double v = channel / 255.0;
    return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(c.red) + 0.7152 * linear(c.green) + 0.0722 * linear(c.blue);
}

TEST(Colours, CarryDarkTextAndDiffer) {
  constexpr Rgb kInk{0x1c, 0x24, 0x30};
  std::vector<Rgb> colours;
  for (int i = 0; i < 200; ++i) {
    colours.push_back(distinct_colour(i));
    const double contrast = (luminance(colours.back()) + 0.05) / (luminance(kInk) + 0.05);
    EXPECT_GE(contrast, 4.5) << i;  // WCAG 2 AA
  }
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      const Rgb a = colours[i], b = colours[k];
      const int apart =
          std::abs(a.red - b.red) + std::abs(a.green - b.green) + std::abs(a.blue - b.blue);
      EXPECT_GE(apart, 30) << i << " and " << k;
    }
  }
}

TEST(Bar, ShowsTheFirstLabelThatFits) {
  const std::vector<LabelledBox> boxes{{0, 1, {"longer than a unit", "short"}, {}},
                                       {1, 1, {"longer than a unit", "twelve chars"}, {}},
                                       {3, 2, {"longer than a unit", "short"}, {}}};
  const std::string text = bar_text(8, boxes, Painter(false));
  EXPECT_EQ(
      text,
      "│short     │twelve…ars│··········│longer than a unit   │································│");
  EXPECT_EQ(columns(text), columns(ruler_text(8)));
}

TEST(Bar, HidesWhatAnEarlierBoxCovers) {
  const std::vector<LabelledBox> boxes{
      {0, 3, {"first"}, {}}, {1, 1, {"inside"}, {}}, {2, 2, {"beyond"}, {}}};
  const std::string text = bar_text(4, boxes, Painter(false));
  EXPECT_NE(text.find("first"), text.npos);
  EXPECT_EQ(text.find("inside"), text.npos);
  EXPECT_NE(text.find("beyond"), text.npos);
  EXPECT_EQ(columns(text), columns(ruler_text(4)));
}

}  // namespace
}  // namespace partita
