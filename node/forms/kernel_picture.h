// Pictures of kernels on units, as SVG and text: how many units each kernel needs and has, and
// which units a mask is made of. Draws whatever it is given without crashing. Pure. Limits:
// kMaxPanels curves, kMaxMaps masks; more kernels than kMaxColumns share columns.
#pragma once

#include <string>
#include <vector>

#include "forms/vocabulary.h"
#include "hw/topology.h"
#include "plan/kernels.h"

namespace partita::forms {

inline constexpr std::size_t kMaxPanels = 24, kMaxMaps = 96, kMaxColumns = 2000;

// The units of the kernels of one model or worker, in the order in which they run.
struct UnitCurve {
  std::string name, facts;  // facts: one line beside the name
  std::vector<int> least;   // the fewest that are as good as all; may be empty
  std::vector<int> given;   // what they get; may be empty, else as long as `least`
  int everywhere = 0;       // a number for all kernels at once, drawn dashed; 0: none
};

struct UnitsPicture {
  std::string title, subtitle;
  std::string least, given, everywhere;  // what the lines are called in the legend
  std::vector<int> ticks;                // numbers of units on the axis
  std::vector<UnitCurve> curves;
  Lanes lanes;  // of the curves as workers; may be empty
};

// A panel per curve over the number of the kernel; then a map of the units of every lane, with
// those marked that lanes of other workers have as well.
std::string units_svg(const UnitsPicture& picture, const hw::Topology& topology);

// The same maps as text: a line per lane with a character per unit, or, where that is wider than
// `width`, the number of units per cluster.
std::string lanes_text(const std::vector<std::string>& workers, const Lanes& lanes,
                       const hw::Topology& topology, int width);

struct MaskPicture {
  std::string title, subtitle;
  int atom = 1;
  hw::UnitMask mask;
  std::vector<int> busy;  // kernels that run on each unit; as many as the topology has
};

// A row of squares per cluster: granted, granted though others run there, busy, idle.
std::string mask_svg(const MaskPicture& picture, const hw::Topology& topology);

}  // namespace partita::forms
