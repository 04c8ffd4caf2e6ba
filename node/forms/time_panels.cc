#include "forms/time_panels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/terminal.h"
#include "base/unicode.h"
#include "forms/picture.h"
#include "forms/svg_page.h"

namespace partita::forms {
namespace {

constexpr int kPanelsWidth = 960, kPanelLeft = 74, kPanelsHeight = 170, kPanelGap = 30;
constexpr const char* kLevelStroke =
    "stroke=\"#b3261e\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"";

// The lines as they are drawn: of a whole, sums from the first on.
std::vector<std::vector<double>> drawn_lines(const TimePanel& panel, std::size_t times) {
  std::vector<std::vector<double>> values;
  for (const TimeLine& line : panel.lines) {
    CHECK(line.values.size() == times);
    values.push_back(line.values);
    if (panel.stacked && values.size() > 1)
      for (std::size_t t = 0; t < times; ++t) values.back()[t] += values[values.size() - 2][t];
  }
  return values;
}

AxisScale scale_of_panel(const TimePanel& panel, const std::vector<std::vector<double>>& values) {
  double low = panel.stacked || panel.from_zero ? 0 : HUGE_VAL, high = -HUGE_VAL;
  for (const std::vector<double>& line : values)
    for (const double value : line) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  for (const TimeLevel& level : panel.levels) {
    low = std::min(low, level.value);
    high = std::max(high, level.value);
  }
  return std::isfinite(low) && std::isfinite(high) ? axis_scale(low, high, 4) : AxisScale{};
}

// A panel's place on the page.
struct PanelPlace {
  double top = 0;
  AxisScale y;
  double first_s = 0, last_s = 1;

  double across(double at) const {
    const double length = last_s > first_s ? last_s - first_s : 1;
    return kPanelLeft + (at - first_s) / length * (kPanelsWidth - kPanelLeft - kPageMargin);
  }
  double up(double value) const {
    return top + (y.high - value) / (y.high - y.low) * kPanelsHeight;
  }
  // Steps: every value holds until the next time.
  std::string steps(const std::vector<double>& seconds, const std::vector<double>& values) const {
    std::string path;
    for (std::size_t t = 0; t < values.size(); ++t)
      path += t == 0 ? fmt::format("M{:.1f} {:.1f}", across(seconds[t]), up(values[t]))
                     : fmt::format("H{:.1f}V{:.1f}", across(seconds[t]), up(values[t]));
    return path;
  }
};

void put_grid(SvgPage& page, const PanelPlace& place, const std::string& unit) {
  for (int i = 0; place.y.low + i * place.y.step <= place.y.high + place.y.step / 2; ++i) {
    const double value = place.y.low + i * place.y.step;
    page.put("<path d=\"M{} {:.1f}H{}\" stroke=\"{}\" fill=\"none\"/>\n", kPanelLeft,
             place.up(value), kPanelsWidth - kPageMargin, kPageLine);
    page.note(kPageMargin, place.up(value) + 4, number_text(value));
  }
  page.note(kPageMargin, place.top - 8, unit);
}

// From the last line to the first, so that every area covers what is beneath it.
void put_areas(SvgPage& page, const PanelPlace& place, const TimePanels& plot,
               const std::vector<std::vector<double>>& values, int first_fill) {
  for (std::size_t i = values.size(); i-- > 0;) {
    const Fill fill = fill_of(first_fill + static_cast<int>(i));
    const std::string path = fmt::format("{}V{:.1f}H{:.1f}Z", place.steps(plot.seconds, values[i]),
                                         place.up(place.y.low), place.across(plot.seconds.front()));
    page.put("<path d=\"{}\" fill=\"{}\"/>\n", path, hex(fill.colour));
    if (fill.hatching > 0)
      page.put("<path d=\"{}\" fill=\"url(#hatch{})\"/>\n", path, fill.hatching);
  }
}

// A line that is alone in its panel is as dark as text; the colours are for telling apart.
bool alone(const TimePanel& panel) { return panel.lines.size() == 1 && !panel.stacked; }

int fills_of(const TimePanel& panel) {
  return alone(panel) ? 0 : static_cast<int>(panel.lines.size());
}

void put_lines(SvgPage& page, const PanelPlace& place, const TimePanels& plot,
               const std::vector<std::vector<double>>& values, int first_fill) {
  for (std::size_t i = 0; i < values.size(); ++i)
    page.put("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"/>\n",
             place.steps(plot.seconds, values[i]),
             first_fill < 0 ? kInk : hex(fill_of(first_fill + static_cast<int>(i)).colour));
}

void put_legend(SvgPage& page, const TimePanels& plot) {
  int fill = 0;
  for (const TimePanel& panel : plot.panels) {
    for (const TimeLine& line : panel.lines) {
      const std::string colour = alone(panel) ? kInk : hex(fill_of(fill++).colour);
      if (panel.stacked) {
        page.chip(colour, colour, line.name);
      } else {
        page.line_chip(fmt::format("stroke=\"{}\" stroke-width=\"3\"", colour), line.name);
      }
    }
    for (const TimeLevel& level : panel.levels) page.line_chip(kLevelStroke, level.name);
  }
}

}  // namespace

std::string time_panels_svg(const TimePanels& plot) {
  CHECK(!plot.seconds.empty());
  SvgPage page;
  double top = page.head(plot.title, plot.subtitle, kPanelsWidth) + 16;
  PanelPlace place{top, {}, plot.seconds.front(), plot.seconds.back()};
  int fill = 0;
  for (const TimePanel& panel : plot.panels) {
    const std::vector<std::vector<double>> values = drawn_lines(panel, plot.seconds.size());
    place.top = top;
    place.y = scale_of_panel(panel, values);
    if (panel.stacked) put_areas(page, place, plot, values, fill);
    put_grid(page, place, panel.unit);
    if (!panel.stacked) put_lines(page, place, plot, values, alone(panel) ? -1 : fill);
    for (const TimeLevel& level : panel.levels)
      page.put("<path d=\"M{} {:.1f}H{}\" fill=\"none\" {}/>\n", kPanelLeft, place.up(level.value),
               kPanelsWidth - kPageMargin, kLevelStroke);
    fill += fills_of(panel);
    top += kPanelsHeight + kPanelGap;
  }
  const double foot = top - kPanelGap + 18;
  const AxisScale x = axis_scale(place.first_s, place.last_s, 4);
  for (double at = x.low; at <= place.last_s + 1e-9 * x.step; at += x.step)
    if (at >= place.first_s)
      page.note(place.across(at) - 8, foot, at == 0 ? std::string("0") : duration_text(at));
  page.begin_chips(static_cast<int>(foot) + 16, kPanelsWidth);
  put_legend(page, plot);
  const int bottom = page.end_chips() + 10;
  return std::move(page).page(kPanelsWidth, bottom, plot.title, plot.subtitle);
}

}  // namespace partita::forms
