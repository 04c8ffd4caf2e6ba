#include "forms/unit_map.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/terminal.h"
#include "base/unicode.h"
#include "forms/kernel_picture.h"
#include "forms/picture.h"

namespace partita::forms {
namespace {

constexpr int kFold = 64;             // squares in a row
constexpr double kClusterGap = 0.35;  // of a square, between rows of different clusters

// For how many of its kernels another worker uses each unit, as a share, averaged over the other
// workers.
std::vector<double> use_by_others(const Lanes& lanes, std::size_t worker, int units) {
  std::map<std::size_t, double> kernels;  // by worker
  for (const Lane& lane : lanes.all) kernels[lane.worker] += lane.kernels;
  std::vector<double> use(static_cast<std::size_t>(units));
  const double others = static_cast<double>(kernels.size()) - 1;
  for (const Lane& lane : lanes.all) {
    if (lane.worker == worker || lane.kernels <= 0) continue;
    for (std::size_t unit = 0; unit < use.size(); ++unit)
      if (lane.mask[unit]) use[unit] += lane.kernels / kernels[lane.worker] / others;
  }
  return use;
}

class LaneMaps {
 public:
  LaneMaps(SvgPage& svg, const Lanes& lanes, const hw::Topology& topology)
      : svg_(svg), lanes_(lanes), topology_(topology), units_(topology.units()) {
    const int widest = *std::ranges::max_element(topology.units_in);
    grid_ = unit_grid(topology, widest <= 20 ? 9 : widest <= 40 ? 7 : 5, lanes.atom, 1.5);
  }

  int draw(const std::vector<std::string>& workers, int y, int width) {
    std::size_t drawn = 0;
    for (std::size_t w = 0; w < workers.size(); ++w) {
      const double left = kPageMargin + 118;
      double x = left;
      svg_.put("<text x=\"{}\" y=\"{}\" font-size=\"{}\" font-weight=\"600\">{}</text>\n",
               kPageMargin, y + 12, kPageName, xml_escaped(cut(workers[w], kPageName * 1.1, 108)));
      use_ = use_by_others(lanes_, w, units_);
      for (const Lane& lane : lanes_.all) {
        if (lane.worker != w) continue;
        if (++drawn > kMaxMaps) break;
        if (x > left && x + step() - kBetween > width - kPageMargin) {
          x = left;
          y += row();
        }
        map(lane, x, y);
        x += step();
      }
      y += row();
      if (drawn < kMaxMaps) continue;
      svg_.note(kPageMargin, y + 4, "further masks are not drawn");
      return y + 20;
    }
    return y;
  }

 private:
  static constexpr double kBetween = 26;
  double step() const { return std::max(grid_.width, 96.0) + kBetween; }
  int row() const { return static_cast<int>(grid_.height) + 38; }

  void map(const Lane& lane, double x, int y) {
    const std::string unit_name = topology_.unit_name;
    const std::string name = fmt::format("{}{} {}s · {}", lane.units == units_ ? "all " : "",
                                         lane.units, unit_name, count_text(lane.kernels, "kernel"));
    svg_.put("<g class=\"lane\"><title>{}: mask {}</title>", xml_escaped(name),
             hw::mask_hex(lane.mask));
    svg_.note(x, y + 11, name);
    svg_.put("<g class=\"on\" transform=\"translate({:.1f} {})\">", x, y + 18);
    const Rgb colour = distinct_colour(static_cast<int>(lane.worker));
    const auto all_of = [&](bool in) {
      return squares(grid_, [&](std::size_t unit) { return lane.mask[unit] == in ? 1.0 : 0.0; });
    };
    path(all_of(false), kPageGround, kPageLine);
    path(all_of(true), hex(colour), hex(darker(colour)));
    path(squares(
             grid_,
             [&](std::size_t unit) { return lane.mask[unit] ? 0.7 * std::sqrt(use_[unit]) : 0; }),
         kInk, "none");
    svg_.put("</g></g>\n");
  }
  void path(const std::string& d, std::string_view fill, std::string_view stroke) {
    if (d.empty()) return;
    svg_.put("<path d=\"{}\" fill=\"{}\" stroke=\"{}\" stroke-width=\"0.8\"/>", d, fill, stroke);
  }

  SvgPage& svg_;
  const Lanes& lanes_;
  const hw::Topology& topology_;
  const int units_;
  UnitGrid grid_;
  std::vector<double> use_;  // of the worker that is drawn
};

}  // namespace

UnitGrid unit_grid(const hw::Topology& topology, double cell, int atom, double gap) {
  UnitGrid grid;
  grid.cell = cell;
  grid.pitch = cell + 1.5;
  double y = 0;
  for (const int units : topology.units_in) {
    grid.rows.push_back(y);
    const int lines = (units + kFold - 1) / kFold, each = (units + lines - 1) / lines;
    for (int i = 0; i < units; ++i) {
      const int column = i % each;
      const double x = column * grid.pitch + (atom > 1 ? column / atom * gap : 0);
      grid.units.push_back({x, y + i / each * grid.pitch});
      grid.width = std::max(grid.width, x + cell);
    }
    y += lines * grid.pitch + kClusterGap * cell;
  }
  grid.height = y - kClusterGap * cell;
  return grid;
}

std::string squares(const UnitGrid& grid, const std::function<double(std::size_t)>& side) {
  std::string d;
  for (std::size_t unit = 0; unit < grid.units.size(); ++unit) {
    const double edge = side(unit) * grid.cell, inset = (grid.cell - edge) / 2;
    if (edge > 0.5)
      d += fmt::format("M{:.5g} {:.5g}h{:.3g}v{:.3g}h-{:.3g}z", grid.units[unit].x + inset,
                       grid.units[unit].y + inset, edge, edge, edge);
  }
  return d;
}

int draw_lanes(SvgPage& svg, const std::vector<std::string>& workers, const Lanes& lanes,
               const hw::Topology& topology, int y, int width) {
  if (lanes.all.empty()) return y;
  return LaneMaps(svg, lanes, topology).draw(workers, y, width);
}

std::string lanes_text(const std::vector<std::string>& workers, const Lanes& lanes,
                       const hw::Topology& topology, int width) {
  const int units = topology.units();
  std::size_t longest = 0;
  for (const std::string& worker : workers)
    longest = std::max(longest, static_cast<std::size_t>(columns(worker)));
  const bool drawn =
      static_cast<int>(longest) + 6 + units + topology.clusters() <= std::max(width, 80);
  std::string text = fmt::format("{}s of each mask, cluster by cluster{}\n", topology.unit_name,
                                 topology.assumed ? " (assumed: boards differ)" : "");
  if (drawn)
    text += "█ no other worker's, ▓ others use it for less than half their kernels, ▒ more\n";
  for (const Lane& lane : lanes.all) {
    const std::vector<double> use = use_by_others(lanes, lane.worker, units);
    text +=
        fit(workers[lane.worker], static_cast<int>(longest)) + fmt::format(" {:>4} ", lane.units);
    std::size_t unit = 0;
    for (const int size : topology.units_in) {
      if (!drawn) {
        int count = 0;
        for (int i = 0; i < size; ++i) count += lane.mask[unit++];
        text += fmt::format(" {:>3}", count);
        continue;
      }
      text += " ";
      for (int i = 0; i < size; ++i, ++unit)
        text += !lane.mask[unit] ? "·" : use[unit] >= 0.5 ? "▒" : use[unit] > 0 ? "▓" : "█";
    }
    text += "\n";
  }
  return text;
}

std::string mask_svg(const MaskPicture& picture, const hw::Topology& topology) {
  const int widest = std::min(*std::ranges::max_element(topology.units_in), kFold);
  const UnitGrid grid = unit_grid(topology, widest <= 40 ? 22 : 15, picture.atom, 5);
  const std::vector<int> shares = hw::units_per_cluster(topology, picture.mask);
  constexpr double kHead = 92;
  const int width = std::max(720, static_cast<int>(kHead + grid.width) + 2 * kPageMargin);
  SvgPage svg;
  int y = svg.head(picture.title, picture.subtitle, width);
  const auto busy = [&](std::size_t unit) { return picture.busy[unit] > 0; };
  const struct {
    const char *name, *fill, *stroke;
    bool in, busy;
  } kinds[] = {{"granted", "#56b4e9", "#0072b2", true, false},
               {"granted and shared", "#f2b134", "#a86a00", true, true},
               {"busy", "#c3c9d1", "#8a94a3", false, true},
               {"idle", kPageGround, "#b8c0ca", false, false}};
  svg.begin_chips(y, width);
  for (const auto& kind : kinds) svg.chip(kind.fill, kind.stroke, kind.name);
  y = svg.end_chips() + 10;
  for (std::size_t cluster = 0; cluster < grid.rows.size(); ++cluster) {
    const double middle = y + grid.rows[cluster] + grid.cell / 2 + 4.5;
    svg.put("<text x=\"{}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\">{} {}</text>\n", kPageMargin,
            middle, kPageName, kFaint, xml_escaped(topology.cluster_name), cluster);
    svg.put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" text-anchor=\"end\">{}</text>\n",
            kPageMargin + kHead - 14, middle, kPageName, shares[cluster]);
  }
  svg.put("<g class=\"on\" transform=\"translate({:.1f} {})\">", kPageMargin + kHead, y);
  for (const auto& kind : kinds) {
    const std::string d = squares(grid, [&](std::size_t unit) {
      return picture.mask[unit] == kind.in && busy(unit) == kind.busy ? 1.0 : 0.0;
    });
    if (!d.empty())
      svg.put("<path d=\"{}\" fill=\"{}\" stroke=\"{}\"/>\n", d, kind.fill, kind.stroke);
  }
  for (std::size_t unit = 0; unit < grid.units.size(); ++unit) {
    if (!busy(unit)) continue;
    const std::string count =
        picture.busy[unit] > 99 ? "99+" : fmt::format("{}", picture.busy[unit]);
    svg.put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
            grid.units[unit].x + grid.cell / 2, grid.units[unit].y + grid.cell * 0.68,
            grid.cell * (count.size() > 2 ? 0.4 : 0.5), count);
  }
  svg.put("</g>\n");
  y += static_cast<int>(grid.height) + 22;
  svg.note(kPageMargin, y,
           "in the squares: number of kernels running there; before the rows: units granted");
  const std::string mask = "mask " + hw::mask_hex(picture.mask);
  svg.put("<text x=\"{}\" y=\"{}\" font-size=\"{}\" font-family=\"monospace\">{}</text>\n",
          kPageMargin, y + 18, kPageSmall, cut(mask, kPageSmall, width - 2 * kPageMargin));
  return std::move(svg).page(width, y + 18 + kPageMargin, picture.title, picture.subtitle);
}

}  // namespace partita::forms
