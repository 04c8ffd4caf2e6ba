// Several plots above each other over the same time: a self-contained SVG. Pure; well-formed XML
// whatever the names are.
#pragma once

#include <string>
#include <vector>

#include "forms/time_plot.h"

namespace partita::forms {

struct TimePanel {
  std::string unit;
  std::vector<TimeLine> lines;
  std::vector<TimeLevel> levels = {};
  bool stacked = false;  // the lines are parts of a whole: areas on each other, in this order
  bool from_zero = false;
};

struct TimePanels {
  std::string title, subtitle;
  std::vector<double> seconds;  // ascending, at least one; a value holds until the next
  std::vector<TimePanel> panels;
};

std::string time_panels_svg(const TimePanels& plot);

}  // namespace partita::forms
