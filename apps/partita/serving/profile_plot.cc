#include "serving/profile_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "base/terminal.h"
#include "base/unicode.h"
#include "table.h"

namespace partita::cli {
namespace {

struct Sample {
  int batch = 0;
  double value = 0;
};

// Samples by ascending batch, by size.
using Series = std::map<int, std::vector<Sample>>;

enum class Quantity { throughput, latency };

Series series_of(const profile::WorkloadProfile& profile, int processes, Quantity quantity) {
  Series series;
  for (const profile::ProfilePoint& p : profile.points) {
    if (p.processes != processes) continue;
    series[p.gpcs].push_back(
        {p.batch, quantity == Quantity::throughput ? p.throughput.value : p.latency.value});
  }
  return series;
}

struct Range {
  double low = 0, high = 0;
  // Position of a positive value on a logarithmic axis, 0 at the low end and 1 at the high end.
  double position(double value) const {
    return high > low ? std::log(value / low) / std::log(high / low) : 0.5;
  }
};

template <class Value>
Range range_of(const Series& series, Value value) {
  Range range{HUGE_VAL, 0};
  for (const auto& [gpcs, samples] : series) {
    for (const Sample& sample : samples) {
      range.low = std::min(range.low, static_cast<double>(value(sample)));
      range.high = std::max(range.high, static_cast<double>(value(sample)));
    }
  }
  return range;
}

std::string blocks(const std::vector<Sample>& samples, const Range& range) {
  constexpr std::array kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  for (const Sample& sample : samples) {
    text += kBlocks[static_cast<std::size_t>(std::lround(7 * range.position(sample.value)))];
  }
  return text;
}

std::string extremes(const std::vector<Sample>& samples) {
  const auto [low, high] =
      std::minmax_element(samples.begin(), samples.end(),
                          [](const Sample& a, const Sample& b) { return a.value < b.value; });
  return fmt::format("{:.4g} to {:.4g}", low->value, high->value);
}

// Colour-blind safe (Okabe and Ito), as many as A100 sizes and then again.
constexpr std::array kColours = {"#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9"};
constexpr const char* kDarkPlot =
    "<style>@media (prefers-color-scheme: dark) {.plot {fill: #e6edf3} .plot rect {fill: #14181f} "
    ".plot [stroke='#ddd'] {stroke: #47515f}}</style>\n";
constexpr double kPanelWidth = 360, kPanelHeight = 260, kLeft = 64, kTop = 56;

// A power of ten of the 1, 2, 5 series, ascending, within the range.
std::vector<double> ticks(const Range& range) {
  std::vector<double> values;
  for (double decade = std::pow(10, std::floor(std::log10(range.low))); decade <= range.high;
       decade *= 10) {
    for (const double digit : {1, 2, 5}) {
      const double value = digit * decade;
      if (value >= range.low * 0.999 && value <= range.high * 1.001) values.push_back(value);
    }
  }
  return values;
}

struct Panel {
  double left;
  const Series& series;
  Range batches, values;

  double x(double batch) const { return left + kPanelWidth * batches.position(batch); }
  double y(double value) const { return kTop + kPanelHeight * (1 - values.position(value)); }
};

template <class... Args>
void add(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  text += fmt::format(format, std::forward<Args>(args)...);
}

std::string panel_frame(const Panel& panel, const char* title) {
  std::string svg;
  add(svg, "<text x='{:.1f}' y='{:.1f}' font-weight='bold'>{}</text>\n", panel.left, kTop - 12,
      title);
  for (const double value : ticks(panel.values)) {
    add(svg, "<path d='M{:.1f} {:.1f}h{:.1f}' stroke='#ddd'/>\n", panel.left, panel.y(value),
        kPanelWidth);
    add(svg, "<text x='{:.1f}' y='{:.1f}' text-anchor='end'>{:g}</text>\n", panel.left - 6,
        panel.y(value) + 4, value);
  }
  for (double batch = 1; batch <= panel.batches.high; batch *= 2) {
    if (batch < panel.batches.low) continue;
    add(svg, "<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{:g}</text>\n", panel.x(batch),
        kTop + kPanelHeight + 18, batch);
  }
  add(svg, "<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>batch size</text>\n",
      panel.left + kPanelWidth / 2, kTop + kPanelHeight + 36);
  return svg;
}

std::string panel_lines(const Panel& panel) {
  std::string svg;
  std::size_t colour = 0;
  for (const auto& [gpcs, samples] : panel.series) {
    const char* stroke = kColours[colour++ % kColours.size()];
    add(svg, "<polyline fill='none' stroke='{}' stroke-width='2' points='", stroke);
    for (const Sample& s : samples) add(svg, "{:.1f},{:.1f} ", panel.x(s.batch), panel.y(s.value));
    svg += "'/>\n";
    for (const Sample& s : samples) {
      add(svg,
          "<circle cx='{:.1f}' cy='{:.1f}' r='3' fill='{}'><title>{} GPCs, batch {}: "
          "{:.4g}</title></circle>\n",
          panel.x(s.batch), panel.y(s.value), stroke, gpcs, s.batch, s.value);
    }
  }
  return svg;
}

std::string legend(const Series& series, double left) {
  std::string svg;
  std::size_t row = 0;
  for (const auto& [gpcs, samples] : series) {
    const double y = kTop + 20.0 * static_cast<double>(row);
    add(svg, "<path d='M{:.1f} {:.1f}h18' stroke='{}' stroke-width='3'/>\n", left, y,
        kColours[row % kColours.size()]);
    add(svg, "<text x='{:.1f}' y='{:.1f}'>{}</text>\n", left + 24, y + 4, count_text(gpcs, "GPC"));
    ++row;
  }
  return svg;
}

}  // namespace

std::string plot_text(const profile::WorkloadProfile& profile, int processes) {
  const Series throughput = series_of(profile, processes, Quantity::throughput);
  const Series latency = series_of(profile, processes, Quantity::latency);
  if (throughput.empty()) return {};
  const auto value = [](const Sample& sample) { return sample.value; };
  const Range rates = range_of(throughput, value), times = range_of(latency, value);
  Table table{{"GPCs", "BATCHES", "THROUGHPUT", "req/s", "LATENCY", "ms"}, {}};
  for (const auto& [gpcs, samples] : throughput) {
    table.rows.push_back({fmt::format("{}", gpcs),
                          fmt::format("{} to {}", samples.front().batch, samples.back().batch),
                          blocks(samples, rates), extremes(samples),
                          blocks(latency.at(gpcs), times), extremes(latency.at(gpcs))});
  }
  return fmt::format("{} with {}; heights are logarithmic and shared by all sizes\n\n{}",
                     profile.model, count_text(processes, "process"), to_string(table));
}

std::string plot_svg(const profile::WorkloadProfile& profile, int processes) {
  const Series throughput = series_of(profile, processes, Quantity::throughput);
  const Series latency = series_of(profile, processes, Quantity::latency);
  if (throughput.empty()) return {};
  const auto value = [](const Sample& sample) { return sample.value; };
  const auto batch = [](const Sample& sample) { return sample.batch; };
  const Range batches = range_of(throughput, batch);
  const double second = kLeft + kPanelWidth + 80, third = second + kPanelWidth + 30;
  const Panel left{kLeft, throughput, batches, range_of(throughput, value)};
  const Panel right{second, latency, batches, range_of(latency, value)};
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' class='plot' viewBox='0 0 {:.0f} {:.0f}' "
      "font-family='sans-serif' font-size='12'>\n{}<rect width='100%' height='100%' "
      "fill='white'/>\n<text x='{}' y='22' font-size='15'>{}, {}</text>\n",
      third + 90, kTop + kPanelHeight + 52, kDarkPlot, kLeft, xml_escaped(profile.model),
      count_text(processes, "process"));
  svg += panel_frame(left, "Throughput, requests/s") + panel_lines(left);
  svg += panel_frame(right, "Latency of a batch, ms") + panel_lines(right);
  return svg + legend(throughput, third) + "</svg>\n";
}

}  // namespace partita::cli
