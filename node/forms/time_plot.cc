#include "forms/time_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/index.h"
#include "base/terminal.h"
#include "base/unicode.h"
#include "forms/picture.h"
#include "forms/svg_page.h"

namespace partita::forms {
namespace {

constexpr int kPlotWidth = 900, kPlotHeight = 320, kPlotLeft = 70;
constexpr std::size_t kMostPoints = 1200;  // of one line; more cannot be told apart

std::vector<const TimeLine*> shown_lines(const TimePlot& plot) {
  std::vector<const TimeLine*> lines;
  for (const TimeLine& line : plot.lines) {
    CHECK(line.values.size() == plot.seconds.size());
    lines.push_back(&line);
  }
  std::ranges::stable_sort(lines, [](const TimeLine* a, const TimeLine* b) {
    return std::ranges::max(a->values) > std::ranges::max(b->values);
  });
  lines.resize(std::min(lines.size(), kMostTimeLines));
  return lines;
}

// Of many points in one column the least and the largest.
std::string polyline(const TimePlot& plot, const TimeLine& line, auto&& place) {
  std::string points;
  const std::size_t n = line.values.size();
  const std::size_t together = std::max<std::size_t>(1, 2 * n / kMostPoints);
  for (std::size_t from = 0; from < n; from += together) {
    const std::size_t to = std::min(n, from + together);
    const auto begin = line.values.begin();
    const auto [least, most] = std::minmax_element(begin + static_cast<std::ptrdiff_t>(from),
                                                   begin + static_cast<std::ptrdiff_t>(to));
    auto [first, second] = std::minmax(least, most);
    points += place(plot.seconds[static_cast<std::size_t>(first - begin)], *first);
    if (first != second)
      points += place(plot.seconds[static_cast<std::size_t>(second - begin)], *second);
  }
  return points;
}

}  // namespace

std::string time_plot_svg(const TimePlot& plot) {
  CHECK(!plot.seconds.empty());
  const std::vector<const TimeLine*> lines = shown_lines(plot);
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const TimeLine* line : lines) {
    low = std::min(low, std::ranges::min(line->values));
    high = std::max(high, std::ranges::max(line->values));
  }
  for (const TimeLevel& level : plot.levels) {
    low = std::min(low, level.value);
    high = std::max(high, level.value);
  }
  const AxisScale y = axis_scale(low, high, 5);
  const AxisScale x = axis_scale(plot.seconds.front(), plot.seconds.back(), 5);
  SvgPage page;
  const int width = kPlotLeft + kPlotWidth + 2 * kPageMargin;
  const int top = page.head(plot.title, plot.subtitle, width) + 10;
  const auto across = [&](double t) {
    return kPlotLeft + (t - x.low) / (x.high - x.low) * kPlotWidth;
  };
  const auto up = [&](double v) { return top + (y.high - v) / (y.high - y.low) * kPlotHeight; };
  const auto line_at = [&](double x1, double y1, double x2, double y2) {
    page.put("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1,
             y1, x2, y2, kPageLine);
  };
  for (int i = 0; y.low + i * y.step <= y.high + y.step / 2; ++i) {
    const double value = y.low + i * y.step;
    line_at(kPlotLeft, up(value), kPlotLeft + kPlotWidth, up(value));
    page.note(kPageMargin, up(value) + 4, number_text(value));
  }
  for (int i = 0; x.low + i * x.step <= x.high + x.step / 2; ++i) {
    const double time = x.low + i * x.step;
    line_at(across(time), top, across(time), top + kPlotHeight);
    page.note(across(time) - 8, top + kPlotHeight + 16,
              time == 0 ? std::string("0") : duration_text(time));
  }
  page.note(kPageMargin, top - 6, plot.unit);
  const auto place = [&](double t, double v) {
    return fmt::format("{:.1f},{:.1f} ", across(t), up(v));
  };
  page.begin_chips(top + kPlotHeight + 32, width);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string colour = hex(distinct_colour(static_cast<int>(i)));
    page.put("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" points=\"{}\"/>\n", colour,
             polyline(plot, *lines[i], place));
    page.line_chip(fmt::format("stroke=\"{}\" stroke-width=\"3\"", colour), lines[i]->name);
  }
  for (const TimeLevel& level : plot.levels) {
    page.put(
        "<line x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\" stroke=\"#b3261e\" "
        "stroke-width=\"1.5\" stroke-dasharray=\"6 4\"/>\n",
        kPlotLeft, up(level.value), kPlotLeft + kPlotWidth, up(level.value));
    page.line_chip("stroke=\"#b3261e\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"", level.name);
  }
  const int height = page.end_chips() + 10;
  return std::move(page).page(width, height, plot.title,
                              fmt::format("{} over time, {} lines", plot.unit, lines.size()));
}

}  // namespace partita::forms
