// Power over time as a picture: one stepped line per policy, with the load below.
#pragma once

#include <string>
#include <vector>

namespace partita::forms {

struct PowerCurve {
  std::string name;
  std::vector<double> watts;  // per bin; drawn thinned out to kMostPowerSteps means
};
inline constexpr std::size_t kMostPowerSteps = 900;

struct PowerPicture {
  std::string title, subtitle;
  double bin_s = 1;
  std::vector<PowerCurve> curves;
  std::vector<double> rps;  // per bin
};

// A self-contained SVG.
std::string power_svg(const PowerPicture& picture);

}  // namespace partita::forms
