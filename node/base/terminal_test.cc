#include "base/terminal.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/testing/sight.h"
#include "base/unicode.h"

namespace partita {
namespace {

TEST(Numbers, AreShortForPeople) {
  EXPECT_EQ(number_text(0.5), "0.5");
  EXPECT_EQ(number_text(12.3456), "12.35");
  EXPECT_EQ(number_text(999.96), "1000");
  EXPECT_EQ(number_text(1000), "1000");
  EXPECT_EQ(number_text(-1000.4), "-1000");
  EXPECT_EQ(number_text(1000.44), "1000");
  EXPECT_EQ(number_text(123456.7), "123457");
  EXPECT_EQ(number_text(INFINITY), "unbounded");
}

TEST(Counts, HaveTheirPlural) {
  EXPECT_EQ(count_text(0, "task"), "0 tasks");
  EXPECT_EQ(count_text(1, "task"), "1 task");
  EXPECT_EQ(count_text(2, "process"), "2 processes");
  EXPECT_EQ(count_text(1, "process"), "1 process");
}

TEST(Aligned, NumbersStandAtTheRightAndTextAtTheLeft) {
  EXPECT_EQ(aligned({{"NAME", "GPUS", "W", "WHY"},  //
                     {"a", "3", "12.5", "x"},
                     {"日本", "10", "", "long"}}),
            "NAME  GPUS     W  WHY\n"
            "a        3  12.5  x\n"
            "日本    10        long\n");
  EXPECT_EQ(aligned({{"a", "b"}}), "a  b\n");
  EXPECT_EQ(aligned({{"wide", "1", "x"}, {"a", "12345", "y"}}), "wide      1  x\na     12345  y\n");
}

TEST(Colours, AreTheNearestOfTheTerminalsCube) {
  const Painter colours(true);
  EXPECT_NE(colours.filled("x", {0, 0, 0}).find("48;5;16m"), std::string::npos);
  EXPECT_NE(colours.filled("x", {255, 255, 255}).find("48;5;231m"), std::string::npos);
  EXPECT_NE(colours.filled("x", {255, 0, 0}).find("48;5;196m"), std::string::npos);
  EXPECT_NE(colours.filled("x", {0, 255, 0}).find("48;5;46m"), std::string::npos);
  EXPECT_NE(colours.filled("x", {25, 26, 128}).find("48;5;25m"), std::string::npos);
  EXPECT_EQ(Painter(false).filled("x", {1, 2, 3}), "x");
}

TEST(Durations, AreInTheUnitThatFits) {
  EXPECT_EQ(duration_text(0), "0 s");
  EXPECT_EQ(duration_text(850e-9), "850 ns");
  EXPECT_EQ(duration_text(12.3456e-6), "12.3 us");
  EXPECT_EQ(duration_text(24288e-6), "24.3 ms");
  EXPECT_EQ(duration_text(999.4e-6), "999 us");
  EXPECT_EQ(duration_text(999.6e-6), "1 ms");
  EXPECT_EQ(duration_text(0.99951), "0.9995 s");
  EXPECT_EQ(duration_text(28.4321), "28.43 s");
  EXPECT_EQ(duration_text(999.9), "999.9 s");
  EXPECT_EQ(duration_text(999.95), "16 min 40 s");
  EXPECT_EQ(duration_text(1234.4), "20 min 34 s");
  EXPECT_EQ(duration_text(3599.4), "59 min 59 s");
  EXPECT_EQ(duration_text(3599.5), "1 h 0 min");
  EXPECT_EQ(duration_text(3599.6), "1 h 0 min");
  EXPECT_EQ(duration_text(12300), "3 h 25 min");
  EXPECT_EQ(duration_text(-0.024288), "-24.3 ms");
  EXPECT_EQ(duration_text(INFINITY), "unbounded");
}

TEST(Sight, KnowsPublishedDistances) {
  // Rows 1, 7 and 25 of the table of Sharma, Wu and Dalal (2005).
  EXPECT_NEAR(sight::ciede2000({50, 2.6772, -79.7751}, {50, 0, -82.7485}), 2.0425, 1e-4);
  EXPECT_NEAR(sight::ciede2000({50, 0, 0}, {50, -1, 2}), 2.3669, 1e-4);
  EXPECT_NEAR(sight::ciede2000({60.2574, -34.0099, 36.2677}, {60.4626, -34.1751, 39.4387}), 1.2644,
              1e-4);
  for (const sight::Matrix& its : sight::kSights) {  // white stays white
    const sight::Triple white = sight::lab({255, 255, 255}, its);
    EXPECT_NEAR(white[0], 100, 0.01);
    EXPECT_NEAR(white[1], 0, 0.05);
    EXPECT_NEAR(white[2], 0, 0.05);
  }
}

TEST(Colours, CarryDarkTextAndDifferForEveryKindOfSight) {
  for (int i = 0; i < kDistinctColours; ++i) {
    EXPECT_GE(sight::contrast(distinct_colour(i), {0x1c, 0x24, 0x30}), 4.5) << i;  // WCAG 2 AA
    for (int k = 0; k < i; ++k)
      EXPECT_GE(sight::distance(distinct_colour(i), distinct_colour(k)), i < 6 ? 13 : 11)
          << i << " and " << k;
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
  EXPECT_EQ(bar_text({1, 11}, {{0, 1, {"nine long", "short"}, {}}}, Painter(false)), "│nine long│");
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
  EXPECT_EQ(ruler_text({10, 21}), "┌0┬1┬2┬3┬4┬5┬6┬7┬8┬9┐") << "10 is not among them";
  EXPECT_EQ(ruler_text({11, 23}), "┌0──┬2──┬4──┬6──┬8──┬─┐") << "and 10 has no room";
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
  EXPECT_EQ(folded("one two a b c", 7, 2), "one two\n  a b c\n");
  EXPECT_EQ(folded("  - indented text", 12, 4), "  - indented\n    text\n");
  EXPECT_EQ(folded("word-too-long x", 5, 1), "word-too-long\n x\n");
}

}  // namespace
}  // namespace partita
