// Text for people: short numbers, colours that are told apart, aligned tables, and bars of labelled
// boxes over equally wide units. Used by the text forms of every module. Pure; widths are terminal
// columns (unicode.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace partita {

// Four significant digits, thousands in full: "0.5", "12.35", "1235", "123457"; "unbounded" for
// infinity.
std::string number_text(double value);
// A duration in the unit that fits: "850 ns", "12.3 us", "24.3 ms", "28.43 s", "20 min 34 s",
// "3 h 25 min". Three digits below a second, four above.
std::string duration_text(double seconds);
// "1 task", "2 tasks".
std::string count_text(long count, std::string_view noun);

struct Rgb {
  int red = 0, green = 0, blue = 0;
};
// The n-th colour, starting over after kDistinctColours. Dark text is legible on all, and any two
// can be told apart with normal sight, protanopia, deuteranopia and tritanopia (terminal_test).
inline constexpr int kDistinctColours = 12;
Rgb distinct_colour(int n);

// ANSI colours, or the text as it is.
class Painter {
 public:
  explicit Painter(bool colour) : colour_(colour) {}
  // The bytes of the code that starts `text`, if this painter writes such a one; else 0.
  std::size_t code_at(std::string_view text) const;
  std::string filled(const std::string& text, Rgb background) const;
  std::string dim(const std::string& text) const;
  std::string bold(const std::string& text) const;

 private:
  std::string wrapped(std::string_view code, const std::string& text) const;
  bool colour_;
};

// Text of any origin made safe for a terminal: control characters other than newline and tab, text
// direction marks and bytes that are not UTF-8 are shown as \x1b or \u202e. A painter that colours
// has its own codes left alone.
std::string shown(std::string_view text, const Painter& painter = Painter(false));

std::string repeated(std::string_view piece, int count);

// Lines of at most `width` columns, broken at spaces where there are some; what follows a break is
// indented. Ends in a newline.
std::string folded(std::string_view line, int width, int indent);

// A table, one line per row: columns as wide as their widest cell, the first and the last are text,
// the others numbers. All rows, at least one, are equally long.
using TextRow = std::vector<std::string>;
std::string aligned(const std::vector<TextRow>& rows);

// A box on a bar: which units it covers, and what is written in it: the first of the labels that
// fits, else the last one, cut.
struct LabelledBox {
  int start = 0, size = 1;
  std::vector<std::string> labels;  // printable; longest first, at least one
  std::optional<Rgb> colour;
};

// A bar's units, and the columns that it may fill; units are equally wide.
struct BarShape {
  int units = 1;
  int width = 98;
};
// A ruler over such bars: the number of a unit where it begins, as many as there is room for.
std::string ruler_text(BarShape shape);
// Boxes, ascending and inside, on a bar as wide as its ruler; free units are dotted. What an
// earlier box covers is not drawn again.
std::string bar_text(BarShape shape, const std::vector<LabelledBox>& boxes, const Painter& painter);

}  // namespace partita
