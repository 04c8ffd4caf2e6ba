// Amounts by name as a picture: a row per name, a thick bar with its uncertainty, thin bars beneath
// to compare with. A self-contained SVG. Pure; well-formed XML whatever the names are.
#pragma once

#include <string>
#include <vector>

namespace partita::forms {

struct AmountBar {
  double value = 0;  // at least 0
  double part = 0;   // of it: drawn hatched, from the left
  double error = 0;  // standard deviation
};

struct AmountRow {
  std::string name, note;       // the note stands behind the thick bar
  std::vector<AmountBar> bars;  // one per series; the first is the thick one
};

struct BarPicture {
  std::string title, subtitle, unit;
  std::vector<std::string> series;  // what the bars are
  std::string part;                 // what is hatched; empty: nothing
  std::vector<AmountRow> rows;      // at most kMostBarRows are drawn, then how many are not
};

inline constexpr std::size_t kMostBarRows = 60;

std::string bar_svg(const BarPicture& picture);

}  // namespace partita::forms
