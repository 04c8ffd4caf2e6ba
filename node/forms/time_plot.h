// A plot of values over time, one line each: a self-contained SVG. Pure; well-formed XML whatever
// the names are.
#pragma once

#include <string>
#include <vector>

namespace partita::forms {

struct TimeLine {
  std::string name;
  std::vector<double> values;  // one per time
};

// A level that is drawn across: a limit.
struct TimeLevel {
  std::string name;
  double value = 0;
};

struct TimePlot {
  std::string title, subtitle, unit;
  std::vector<double> seconds;  // ascending, at least one
  std::vector<TimeLine> lines;  // at most kMostTimeLines are drawn: those with the highest values
  std::vector<TimeLevel> levels;
};

inline constexpr std::size_t kMostTimeLines = 12;

std::string time_plot_svg(const TimePlot& plot);

}  // namespace partita::forms
