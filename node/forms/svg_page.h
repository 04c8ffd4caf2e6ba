// What all SVG pictures share: the frame (a title and a description for screen readers, colours for
// light and dark screens), boxes told apart by colour and then by hatching, and SvgPage: text that
// grows, legend chips, squares of one colour as one path. Internal to the forms; well-formed XML
// whatever the texts are.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/append.h"
#include "base/terminal.h"

namespace partita::forms {

inline constexpr int kPageMargin = 28, kPageTitle = 20, kPageName = 13, kPageSmall = 11;
inline constexpr const char* kPageLine = "#d5dae0";
inline constexpr const char* kPageGround = "#f3f5f7";

// The whole picture around `body`. Every colour of the page has a twin for dark screens; texts in
// an element of class "on" stand on a coloured box and stay dark.
std::string svg_document(int width, int height, std::string_view title, std::string_view about,
                         std::string_view body);

// How the n-th service or task is filled: the colours first, then the same colours with hatching 1
// to kHatchings. After that many it starts again: kDistinctFills.
inline constexpr int kHatchings = 4;
inline constexpr int kDistinctFills = kDistinctColours * (1 + kHatchings);
struct Fill {
  Rgb colour;
  int hatching = 0;  // none
};
Fill fill_of(int n);

struct SvgBox {
  double x = 0, y = 0, width = 0, height = 0;
  double radius = 0, stroke = 1;
};
std::string box_svg(const SvgBox& box, const Fill& fill);
// Attributes of a text on this fill: a rim in its colour where there is hatching.
std::string rim(const Fill& fill);

class SvgPage {
 public:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    append(text_, format, std::forward<Args>(args)...);
  }
  // The title and a line under it, cut to what fits; returns the y below them.
  int head(std::string_view title, std::string_view subtitle, int width);
  // Text in the faint colour.
  void note(double x, double y, std::string_view text);
  // A square of `fill` with its name; wraps at `width`.
  void chip(std::string_view fill, std::string_view stroke, std::string_view name);
  // A path within 12 x 12 pixels, with its further attributes, and its name.
  void sign_chip(std::string_view path, std::string_view name);
  // A line with its name: stroke, width and dashes.
  void line_chip(std::string_view attributes, std::string_view name);
  // Where chips begin; returns the y below them when they are done.
  void begin_chips(int y, int width);
  int end_chips() const { return chip_y_ + 22; }
  // The whole picture.
  std::string page(int width, int height, std::string_view title, std::string_view about) &&;

 private:
  double place(std::string_view name);

  std::string text_;
  double chip_x_ = kPageMargin;
  int chip_y_ = 0, chip_width_ = 0;
};

}  // namespace partita::forms
