// A picture of what is on GPUs: a row of slices per GPU, a box per instance with what runs there.
// Of a change it says of each box whether it stays, goes or comes, in words and by its edge as well
// as by colour. Self-contained, well-formed XML for any layout; dark screens have colours of their
// own (svg_page.h). Limits: kMostLayoutRows rows are drawn, the last line says how many are not.
#pragma once

#include <string>
#include <vector>

namespace partita::forms {

inline constexpr std::size_t kMostLayoutRows = 150;
inline constexpr int kMostLayoutSlices = 64;

enum class BoxFate { stays, goes, comes };

struct LayoutBox {
  int start = 0, size = 1;  // slices; what lies outside the row is drawn at its edge
  std::string service;      // empty: nobody knows
  std::string about;        // under it: "3g.40gb · b8×2"
  std::string facts;        // on hover, lines
  bool busy = false;        // a process holds it
  BoxFate fate = BoxFate::stays;
};

struct LayoutRow {
  std::string label, facts;  // "GPU 0", "A100-80GB, MIG on"
  int slices = 1;
  std::vector<LayoutBox> boxes;
};

struct LayoutPicture {
  std::string title, subtitle;
  std::vector<LayoutRow> rows;
  bool change = false;  // the legend explains fates
};

std::string layout_svg(const LayoutPicture& picture);

}  // namespace partita::forms
