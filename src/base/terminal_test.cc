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
  const std::string text = bar_text({8, 90}, boxes, Painter(false));
  EXPECT_EQ(
      text,
      "│short     │twelve…ars│··········│longer than a unit   │································│");
  EXPECT_EQ(columns(text), columns(ruler_text({8, 90})));
}

TEST(Bar, HidesWhatAnEarlierBoxCovers) {
  const std::vector<LabelledBox> boxes{
      {0, 3, {"first"}, {}}, {1, 1, {"inside"}, {}}, {2, 2, {"beyond"}, {}}};
  const std::string text = bar_text({4, 98}, boxes, Painter(false));
  EXPECT_NE(text.find("first"), text.npos);
  EXPECT_EQ(text.find("inside"), text.npos);
  EXPECT_NE(text.find("beyond"), text.npos);
  EXPECT_EQ(columns(text), columns(ruler_text({4, 98})));
}

TEST(Bar, FillsItsWidthAndNumbersWhatItCan) {
  EXPECT_EQ(ruler_text({4, 41}), "┌0────────┬1────────┬2────────┬3────────┐");
  EXPECT_EQ(ruler_text({12, 13}), "┌0─┬3─┬6─┬9─┐");
  EXPECT_EQ(ruler_text({5, 6}), "┌0┬2┬┐");
  for (const int units : {1, 7, 8, 64})
    for (const int width : {70, 190}) {
      EXPECT_LE(columns(ruler_text({units, width})), width);
      EXPECT_GT(columns(ruler_text({units, width})), width - units - 1);
    }
}

TEST(Shown, EscapesWhatMovesACursorOrDeceivesAnEye) {
  EXPECT_EQ(shown("plain\ttäxt 字\n"), "plain\ttäxt 字\n");
  EXPECT_EQ(shown("a\x1b]0;title\x07z\r"), "a\\x1b]0;title\\x07z\\x0d");
  EXPECT_EQ(shown("\x7f\xff\xc2\x9b"), "\\x7f\\xff\\u009b");
  EXPECT_EQ(shown("a\xe2\x80\xae"
                  "b"),
            "a\\u202eb");
  EXPECT_EQ(shown(std::string_view("\0x", 2)), "\\x00x");
}

TEST(Shown, LetsAPaintersOwnCodesThrough) {
  const Painter colours(true);
  const std::string text =
      colours.bold("b") + colours.dim("d") + colours.filled("f", distinct_colour(3));
  EXPECT_EQ(shown(text, colours), text);
  EXPECT_EQ(shown(text).find('\x1b'), std::string::npos);
  for (const char* alien : {"\x1b[2J", "\x1b[8m", "\x1b[48;5;1", "\x1b[48;5;1H", "\x1b"})
    EXPECT_EQ(shown(alien, colours).find('\x1b'), std::string::npos) << alien + 1;
}

TEST(Folded, BreaksAtSpaces) {
  EXPECT_EQ(folded("fits", 4, 2), "fits\n");
  EXPECT_EQ(folded("one two three", 7, 2), "one two\n  three\n");
  EXPECT_EQ(folded("one two three four", 9, 2), "one two\n  three\n  four\n");
  EXPECT_EQ(folded("  - indented text", 12, 4), "  - indented\n    text\n");
  EXPECT_EQ(folded("word-too-long x", 5, 1), "word-too-long\n x\n");
}

}  // namespace
}  // namespace partita
