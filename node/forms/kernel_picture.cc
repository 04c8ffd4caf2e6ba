#include "forms/kernel_picture.h"

#include <algorithm>
#include <cmath>

#include "base/terminal.h"
#include "base/unicode.h"
#include "forms/picture.h"
#include "forms/svg_page.h"
#include "forms/unit_map.h"

namespace partita::forms {
namespace {

constexpr int kWidth = 1160, kAxis = 52, kPlot = kWidth - 2 * kPageMargin - kAxis;
constexpr std::size_t kMostLabels = 60, kMostMarks = 60;
constexpr const char* kLeastFill = "#cfe8f7";
constexpr const char* kLeastLine = "#56b4e9";

// What a column of the plot shows: the extremes of its kernels.
struct Column {
  int low = 0, high = 0;
};

std::vector<Column> columns_of(const std::vector<int>& units) {
  const std::size_t count = std::min(units.size(), kMaxColumns);
  std::vector<Column> columns(count);
  for (std::size_t c = 0; c < count; ++c) {
    const auto [low, high] = std::minmax_element(
        units.begin() + static_cast<std::ptrdiff_t>(c * units.size() / count),
        units.begin() + static_cast<std::ptrdiff_t>((c + 1) * units.size() / count));
    columns[c] = {*low, *high};
  }
  return columns;
}

struct Group {
  std::size_t first = 0, count = 0;
  int units = 0;
};

std::vector<Group> groups_of(const std::vector<int>& units) {
  std::vector<Group> groups;
  for (std::size_t k = 0; k < units.size(); ++k) {
    if (groups.empty() || groups.back().units != units[k]) groups.push_back({k, 0, units[k]});
    ++groups.back().count;
  }
  return groups;
}

// 1, 2 or 5 times a power of ten, so that there are about twelve in `count`.
std::size_t tick_step(std::size_t count) {
  std::size_t decade = 1;
  for (;; decade *= 10)
    for (const std::size_t digit : {1, 2, 5})
      if (digit * decade * 14 >= count) return digit * decade;
}

class Panel {
 public:
  Panel(SvgPage& svg, const UnitCurve& curve, int number, int top, int height)
      : svg_(svg),
        curve_(curve),
        colour_(distinct_colour(number)),
        kernels_(std::max(curve.least.size(), curve.given.size())),
        top_(top),
        height_(height) {}

  void draw(const std::vector<int>& ticks, int most) {
    most_ = most;
    svg_.put(
        "<g class=\"curve\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n",
        left(), top_, kPlot, height_, kPageGround);
    least();
    axes(ticks);
    if (curve_.everywhere > 0)
      svg_.put(
          "<path d=\"M{} {:.1f}h{}\" stroke=\"{}\" stroke-width=\"1.2\" "
          "stroke-dasharray=\"6 4\"/>\n",
          left(), y(curve_.everywhere), kPlot, kInk);
    given();
    svg_.put("</g>\n");
  }

 private:
  static double left() { return kPageMargin + kAxis; }
  double y(double units) const { return top_ + height_ * (1 - units / std::max(most_, 1)); }
  double x(double kernel) const {
    return left() + kPlot * kernel / static_cast<double>(std::max<std::size_t>(kernels_, 1));
  }

  // A step line over columns; where kernels share one, it goes down to the least of them.
  std::string steps(const std::vector<int>& units) const {
    const std::vector<Column> columns = columns_of(units);
    std::string d;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const double end =
          left() + kPlot * static_cast<double>(c + 1) / static_cast<double>(columns.size());
      if (c == 0) d += fmt::format("M{:.1f} {:.1f}", left(), y(columns[c].high));
      if (c > 0 && columns[c].high != columns[c - 1].high)
        d += fmt::format("V{:.1f}", y(columns[c].high));
      if (columns[c].low != columns[c].high)
        d += fmt::format("V{:.1f}V{:.1f}", y(columns[c].low), y(columns[c].high));
      const bool goes_on = c + 1 < columns.size() && columns[c + 1].high == columns[c].high &&
                           columns[c + 1].low == columns[c + 1].high;
      if (!goes_on) d += fmt::format("H{:.1f}", end);
    }
    return d;
  }

  void least() {
    if (curve_.least.empty()) return;
    const std::string d = steps(curve_.least);
    svg_.put("<path class=\"least\" d=\"{}V{}H{}z\" fill=\"{}\"/>\n", d, top_ + height_, left(),
             kLeastFill);
    svg_.put("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1\"/>\n", d, kLeastLine);
  }

  void axes(const std::vector<int>& ticks) {
    double last = 1e9;
    for (const int tick : ticks) {
      svg_.put(
          "<path d=\"M{} {:.1f}h{}\" stroke=\"#8a94a3\" stroke-opacity=\"0.4\" "
          "stroke-width=\"0.8\"/>\n",
          left(), y(tick), kPlot);
      if (last - y(tick) < kPageSmall) continue;  // no room for its number
      last = y(tick);
      svg_.put(
          "<text x=\"{}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\" "
          "text-anchor=\"end\">{}</text>\n",
          left() - 8, y(tick) + 4, kPageSmall, kFaint, tick);
    }
    const std::size_t step = tick_step(kernels_);
    for (std::size_t k = 0; k < kernels_; k += step)
      svg_.put(
          "<path d=\"M{0:.1f} {1}v4\" stroke=\"#8a94a3\" stroke-width=\"0.8\"/><text "
          "x=\"{0:.1f}\" y=\"{2}\" font-size=\"{3}\" fill=\"{4}\" "
          "text-anchor=\"middle\">{5}</text>\n",
          x(static_cast<double>(k)), top_ + height_, top_ + height_ + 16, kPageSmall, kFaint, k);
  }

  void given() {
    if (curve_.given.empty()) return;
    const std::vector<Group> groups = groups_of(curve_.given);
    const std::string edge = hex(darker(colour_));
    const std::string d = steps(curve_.given);
    svg_.put("<path d=\"{}V{}H{}z\" fill=\"{}\" fill-opacity=\"0.28\"/>\n", d, top_ + height_,
             left(), hex(colour_));
    svg_.put("<path class=\"given\" d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", d,
             edge);
    if (groups.size() - 1 <= kMostMarks)
      for (std::size_t g = 1; g < groups.size(); ++g)
        svg_.put("<path class=\"switch\" d=\"M{0:.1f} {1}l-3.5 -6h7z\" fill=\"{2}\"/>\n",
                 x(static_cast<double>(groups[g].first)), top_, kInk);
    if (groups.size() > kMostLabels) return;
    for (const Group& group : groups) label(group);
  }

  // The number of units of a group, inside its step where there is room.
  void label(const Group& group) {
    const std::string text = fmt::format("{}", group.units);
    const double begin = x(static_cast<double>(group.first));
    const double end = x(static_cast<double>(group.first + group.count));
    if (end - begin < text_width(text, kPageSmall) + 5) return;
    const double above = y(group.units) - 4, below = y(group.units) + kPageSmall + 2;
    svg_.put(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" font-weight=\"600\" "
        "stroke=\"#ffffff\" stroke-width=\"2.5\" paint-order=\"stroke\" "
        "text-anchor=\"middle\">{}</text>\n",
        (begin + end) / 2, above - kPageSmall < top_ ? below : above, kPageSmall, text);
  }

  SvgPage& svg_;
  const UnitCurve& curve_;
  const Rgb colour_;
  const std::size_t kernels_;
  const int top_, height_;
  int most_ = 1;
};

int legend(SvgPage& svg, const UnitsPicture& picture, const std::string& unit, int y) {
  svg.begin_chips(y, kWidth);
  bool least = false, given = false, everywhere = false;
  for (const UnitCurve& curve : picture.curves) {
    least = least || !curve.least.empty();
    given = given || !curve.given.empty();
    everywhere = everywhere || curve.everywhere > 0;
  }
  if (least) svg.chip(kLeastFill, kLeastLine, picture.least);
  if (given) {
    svg.line_chip(fmt::format("stroke=\"{}\" stroke-width=\"2\"", hex(darker(distinct_colour(0)))),
                  picture.given + ", in the colour of the worker");
    svg.sign_chip(fmt::format("M3 3l3.5 6l3.5 -6z\" fill=\"{}", kInk),
                  "change in the number of " + unit + "s");
  }
  if (everywhere)
    svg.line_chip(fmt::format("stroke=\"{}\" stroke-width=\"1.2\" stroke-dasharray=\"6 4\"", kInk),
                  picture.everywhere);
  return svg.end_chips();
}

int lane_legend(SvgPage& svg, const hw::Topology& topology, int y) {
  svg.put("<text x=\"{}\" y=\"{}\" font-size=\"15\" font-weight=\"600\">Masks</text>\n",
          kPageMargin, y + 14);
  svg.begin_chips(y + 26, kWidth);
  const std::string unit = topology.unit_name;
  svg.chip(hex(distinct_colour(0)), hex(darker(distinct_colour(0))),
           unit + " of the mask; a row is a " + topology.cluster_name);
  svg.chip(kPageGround, kPageLine, "not of the mask");
  svg.sign_chip(fmt::format("M3 3h6v6h-6z\" fill=\"{}", kInk),
                "used by kernels of other workers: the larger, the more");
  return svg.end_chips() + 8;
}

}  // namespace

std::string units_svg(const UnitsPicture& picture, const hw::Topology& topology) {
  SvgPage svg;
  int y = svg.head(picture.title, picture.subtitle, kWidth);
  y = legend(svg, picture, topology.unit_name, y) + 4;
  const std::size_t shown = std::min(picture.curves.size(), kMaxPanels);
  const int height = shown <= 4 ? 150 : shown <= 9 ? 100 : 70;
  for (std::size_t i = 0; i < shown; ++i) {
    const UnitCurve& curve = picture.curves[i];
    const std::string name = cut(curve.name, (kPageName + 1) * 1.1, kWidth / 3.0);
    svg.put(
        "<text x=\"{}\" y=\"{}\" font-size=\"{}\"><tspan font-weight=\"600\">{}</tspan><tspan "
        "dx=\"10\" font-size=\"{}\" fill=\"{}\">{}</tspan></text>\n",
        kPageMargin, y + kPageName, kPageName + 1, xml_escaped(name), kPageName, kFaint,
        xml_escaped(curve.facts));
    Panel(svg, curve, static_cast<int>(i), y + 30, height).draw(picture.ticks, topology.units());
    y += 30 + height + 28;
  }
  svg.note(kPageMargin + kAxis, y + 6,
           fmt::format("horizontal: number of the kernel in a request; vertical: {}s",
                       topology.unit_name) +
               (shown < picture.curves.size()
                    ? fmt::format("; {} more are not drawn", picture.curves.size() - shown)
                    : ""));
  y += 28;
  if (!picture.lanes.all.empty()) {
    y = lane_legend(svg, topology, y);
    std::vector<std::string> workers;
    for (const UnitCurve& curve : picture.curves) workers.push_back(curve.name);
    y = draw_lanes(svg, workers, picture.lanes, topology, y, kWidth);
  }
  return std::move(svg).page(kWidth, y + kPageMargin / 2, picture.title, picture.subtitle);
}

}  // namespace partita::forms
