#include "forms/profile_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/append.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/unicode.h"

namespace partita::forms {
namespace {

struct PlotSample {
  int batch = 0;
  double value = 0;
  bool predicted = false;
};

// Samples by ascending batch, by size.
using PlotSeries = std::map<int, std::vector<PlotSample>>;

enum class PlotQuantity { throughput, latency };

PlotSeries plot_series(const profile::WorkloadProfile& profile, int processes,
                       PlotQuantity quantity) {
  PlotSeries series;
  for (const profile::ProfilePoint& p : profile.points) {
    if (p.processes != processes) continue;
    series[p.gpcs].push_back(
        {p.batch, quantity == PlotQuantity::throughput ? p.throughput.value : p.latency.value,
         p.predicted()});
  }
  return series;
}

// Under a plot of points that are not all measured; empty where they are.
std::string prediction_note(const profile::WorkloadProfile& profile, int processes) {
  std::set<std::string> learned_on;
  int points = 0, predicted = 0;
  for (const profile::ProfilePoint& p : profile.points) {
    if (p.processes != processes) continue;
    ++points;
    if (!p.predicted()) continue;
    ++predicted;
    if (!p.learned_on->empty()) learned_on.insert(*p.learned_on);
  }
  if (predicted == 0) return {};
  std::string note = fmt::format("{} of {} points are predicted, not measured", predicted, points);
  if (!learned_on.empty())
    note += fmt::format(", by a law learned on {}", joined(learned_on, ", "));
  return note;
}

struct PlotRange {
  double low = 0, high = 0;
  // Position of a positive value on a logarithmic axis, 0 at the low end and 1 at the high end.
  double position(double value) const {
    return high > low ? std::log(value / low) / std::log(high / low) : 0.5;
  }
};

template <class Value>
PlotRange plot_range(const PlotSeries& series, Value value) {
  PlotRange range{HUGE_VAL, 0};
  for (const auto& [gpcs, samples] : series) {
    for (const PlotSample& sample : samples) {
      range.low = std::min(range.low, static_cast<double>(value(sample)));
      range.high = std::max(range.high, static_cast<double>(value(sample)));
    }
  }
  return range;
}

std::string plot_blocks(const std::vector<PlotSample>& samples, const PlotRange& range) {
  constexpr std::array kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  for (const PlotSample& sample : samples) {
    text += kBlocks[static_cast<std::size_t>(std::lround(7 * range.position(sample.value)))];
  }
  return text;
}

std::string plot_extremes(const std::vector<PlotSample>& samples) {
  const auto [low, high] = std::minmax_element(
      samples.begin(), samples.end(),
      [](const PlotSample& a, const PlotSample& b) { return a.value < b.value; });
  return fmt::format("{:.4g} to {:.4g}", low->value, high->value);
}

// Colour-blind safe (Okabe and Ito), as many as A100 sizes and then again.
constexpr std::array kColours = {"#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9"};
constexpr const char* kDarkPlot =
    "<style>@media (prefers-color-scheme: dark) {.plot {fill: #e6edf3} .plot rect {fill: #14181f} "
    ".plot [stroke='#ddd'] {stroke: #47515f}}</style>\n";
constexpr double kPanelWidth = 360, kPanelHeight = 260, kLeft = 64, kTop = 56;

// A power of ten of the 1, 2, 5 series, ascending, within the range.
std::vector<double> plot_ticks(const PlotRange& range) {
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

struct PlotPanel {
  double left;
  const PlotSeries& series;
  PlotRange batches, values;

  double x(double batch) const { return left + kPanelWidth * batches.position(batch); }
  double y(double value) const { return kTop + kPanelHeight * (1 - values.position(value)); }
};

template <class... Args>
void plot_add(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  text += fmt::format(format, std::forward<Args>(args)...);
}

std::string plot_frame(const PlotPanel& panel, const char* title) {
  std::string svg;
  plot_add(svg, "<text x='{:.1f}' y='{:.1f}' font-weight='bold'>{}</text>\n", panel.left, kTop - 12,
           title);
  for (const double value : plot_ticks(panel.values)) {
    plot_add(svg, "<path d='M{:.1f} {:.1f}h{:.1f}' stroke='#ddd'/>\n", panel.left, panel.y(value),
             kPanelWidth);
    plot_add(svg, "<text x='{:.1f}' y='{:.1f}' text-anchor='end'>{:g}</text>\n", panel.left - 6,
             panel.y(value) + 4, value);
  }
  for (double batch = 1; batch <= panel.batches.high; batch *= 2) {
    if (batch < panel.batches.low) continue;
    plot_add(svg, "<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{:g}</text>\n", panel.x(batch),
             kTop + kPanelHeight + 18, batch);
  }
  plot_add(svg, "<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>batch size</text>\n",
           panel.left + kPanelWidth / 2, kTop + kPanelHeight + 36);
  return svg;
}

std::string plot_lines(const PlotPanel& panel) {
  std::string svg;
  std::size_t colour = 0;
  for (const auto& [gpcs, samples] : panel.series) {
    const char* stroke = kColours[colour++ % kColours.size()];
    plot_add(svg, "<polyline fill='none' stroke='{}' stroke-width='2' points='", stroke);
    for (const PlotSample& s : samples)
      plot_add(svg, "{:.1f},{:.1f} ", panel.x(s.batch), panel.y(s.value));
    svg += "'/>\n";
    for (const PlotSample& s : samples) {
      plot_add(svg,
               "<circle cx='{:.1f}' cy='{:.1f}' r='3' stroke='{}' fill='{}'><title>{} GPCs, batch "
               "{}: {:.4g}{}</title></circle>\n",
               panel.x(s.batch), panel.y(s.value), stroke, s.predicted ? "white" : stroke, gpcs,
               s.batch, s.value, s.predicted ? ", predicted" : "");
    }
  }
  return svg;
}

std::string plot_legend(const PlotSeries& series, double left) {
  std::string svg;
  std::size_t row = 0;
  for (const auto& [gpcs, samples] : series) {
    const double y = kTop + 20.0 * static_cast<double>(row);
    plot_add(svg, "<path d='M{:.1f} {:.1f}h18' stroke='{}' stroke-width='3'/>\n", left, y,
             kColours[row % kColours.size()]);
    plot_add(svg, "<text x='{:.1f}' y='{:.1f}'>{}</text>\n", left + 24, y + 4,
             count_text(gpcs, "GPC"));
    ++row;
  }
  return svg;
}

}  // namespace

std::string plot_text(const profile::WorkloadProfile& profile, int processes) {
  const PlotSeries throughput = plot_series(profile, processes, PlotQuantity::throughput);
  const PlotSeries latency = plot_series(profile, processes, PlotQuantity::latency);
  if (throughput.empty()) return {};
  const auto value = [](const PlotSample& sample) { return sample.value; };
  const PlotRange rates = plot_range(throughput, value), times = plot_range(latency, value);
  Table table{{"GPCs", "BATCHES", "THROUGHPUT", "req/s", "LATENCY", "ms"}, {}};
  for (const auto& [gpcs, samples] : throughput) {
    table.rows.push_back({fmt::format("{}", gpcs),
                          fmt::format("{} to {}", samples.front().batch, samples.back().batch),
                          plot_blocks(samples, rates), plot_extremes(samples),
                          plot_blocks(latency.at(gpcs), times), plot_extremes(latency.at(gpcs))});
  }
  const std::string note = prediction_note(profile, processes);
  return fmt::format("{} with {}; heights are logarithmic and shared by all sizes\n\n{}{}",
                     profile.model, count_text(processes, "process"), to_string(table),
                     note.empty() ? "" : fmt::format("\n~ {}\n", note));
}

std::string plot_svg(const profile::WorkloadProfile& profile, int processes) {
  const PlotSeries throughput = plot_series(profile, processes, PlotQuantity::throughput);
  const PlotSeries latency = plot_series(profile, processes, PlotQuantity::latency);
  if (throughput.empty()) return {};
  const auto value = [](const PlotSample& sample) { return sample.value; };
  const auto batch = [](const PlotSample& sample) { return sample.batch; };
  const PlotRange batches = plot_range(throughput, batch);
  const double second = kLeft + kPanelWidth + 80, third = second + kPanelWidth + 30;
  const PlotPanel left{kLeft, throughput, batches, plot_range(throughput, value)};
  const PlotPanel right{second, latency, batches, plot_range(latency, value)};
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' class='plot' viewBox='0 0 {:.0f} {:.0f}' "
      "font-family='sans-serif' font-size='12'>\n{}<rect width='100%' height='100%' "
      "fill='white'/>\n<text x='{}' y='22' font-size='15'>{}, {}</text>\n",
      third + 90, kTop + kPanelHeight + 52, kDarkPlot, kLeft, xml_escaped(profile.model),
      count_text(processes, "process"));
  svg += plot_frame(left, "Throughput, requests/s") + plot_lines(left);
  svg += plot_frame(right, "Latency of a batch, ms") + plot_lines(right);
  if (const std::string note = prediction_note(profile, processes); !note.empty())
    plot_add(svg, "<text x='{}' y='{}' class='predicted'>Hollow: {}</text>\n", kLeft, 38,
             xml_escaped(note));
  return svg + plot_legend(throughput, third) + "</svg>\n";
}

}  // namespace partita::forms
