// What the text and the SVG pictures share: where the boxes of a GPU lie, which colour a service
// has, how numbers are written for people, how wide text is. Internal to the forms. Draws any plan
// without crashing, also one the judge would refuse.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hw/catalogue.h"
#include "plan/serving.h"

namespace partita::plan {

struct Box {
  int start = 0;  // memory slices
  int size = 0;
  const PlannedInstance* instance = nullptr;
};

// One GPU: `slices` memory slices and the boxes on them, ascending and inside. An unknown GPU model
// gets as many slices as its instances need, an unknown profile one slice.
struct Strip {
  int slices = 0;
  std::vector<Box> boxes;
};
Strip strip_of(const PlannedGpu& gpu, const hw::Catalogue& catalogue);

// Position of every service by name: the plan's services first, then strangers named by instances.
std::map<std::string_view, int> service_order(const ServingPlan& plan);

struct Rgb {
  int red = 0, green = 0, blue = 0;
};
// The colour of the n-th service: the first ones are far apart, none is dark, so that dark text is
// legible on all.
Rgb service_colour(int n);
Rgb darker(Rgb colour);

// Four significant digits, thousands in full: "0.5", "12.35", "1235", "123457"; "unbounded" for
// infinity.
std::string number_text(double value);
// "1 GPU", "2 GPUs".
std::string count_text(long count, std::string_view noun);
// "12 GPUs, 82 GPCs; lower bound 12 GPUs, 82 GPCs: optimal".
std::string objective_text(const Objective& objective);

// ---- terminals ----

// ANSI colours, or the text as it is.
class Painter {
 public:
  explicit Painter(bool colour) : colour_(colour) {}
  std::string filled(const std::string& text, Rgb background) const;
  std::string dim(const std::string& text) const { return wrapped("\x1b[2m", text); }
  std::string bold(const std::string& text) const { return wrapped("\x1b[1m", text); }

 private:
  std::string wrapped(const std::string& code, const std::string& text) const {
    return colour_ ? code + text + "\x1b[0m" : text;
  }
  bool colour_;
};

std::string repeated(std::string_view piece, int count);
// A table, one line per row: columns as wide as their widest cell, the first and the last are text,
// the others numbers. All rows, at least one, are equally long.
using TextRow = std::vector<std::string>;
std::string aligned(const std::vector<TextRow>& rows);

// ---- SVG ----

inline constexpr const char* kInk = "#1c2430";
inline constexpr const char* kFaint = "#667080";
std::string hex(Rgb colour);  // "#1c2430"
// Pixels that a text of this font size fills in common sans-serif fonts, on the generous side.
double text_width(std::string_view text, double size);
// The text without as much of its middle as makes it `width` pixels wide.
std::string cut(std::string_view text, double size, double width);

}  // namespace partita::plan
