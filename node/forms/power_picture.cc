#include "forms/power_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "forms/picture.h"
#include "forms/svg_page.h"

namespace partita::forms {
namespace {

constexpr int kPowerWidth = 960, kPowerHeight = 300, kLoadHeight = 80, kPowerLeft = 64;
constexpr int kPowerTicks = 5;

// A field of the picture, from `top` on.
struct PowerField {
  double top = 0, height = 0, most = 1, seconds = 1;
  double x(double at) const {
    return kPowerLeft + at / seconds * (kPowerWidth - kPowerLeft - kPageMargin);
  }
  double y(double value) const { return top + height * (1 - value / most); }
};

double nice_above(double value) {
  const double decade = std::pow(10, std::floor(std::log10(std::max(value, 1e-9))));
  for (const double step : {1.0, 2.0, 2.5, 5.0, 10.0})
    if (step * decade >= value) return step * decade;
  return 10 * decade;
}

void put_power_axes(SvgPage& page, const PowerField& field, const char* unit) {
  for (int tick = 0; tick <= kPowerTicks; ++tick) {
    const double value = field.most * tick / kPowerTicks;
    page.put("<path d=\"M{} {:.1f}H{}\" stroke=\"{}\" fill=\"none\"/>\n", kPowerLeft,
             field.y(value), kPowerWidth - kPageMargin, kPageLine);
    if (tick == 0 || tick == kPowerTicks || field.height > kLoadHeight)
      page.note(kPageMargin - 16, field.y(value) + 4, fmt::format("{:.4g} {}", value, unit));
  }
}

void put_steps(SvgPage& page, const PowerField& field, const std::vector<double>& values,
               const std::string& stroke) {
  const std::size_t group = (values.size() + kMostPowerSteps - 1) / kMostPowerSteps;
  if (values.empty()) return;
  const double bin = field.seconds / static_cast<double>(values.size());
  std::string path;
  for (std::size_t i = 0; i < values.size(); i += group) {
    const std::size_t end = std::min(values.size(), i + group);
    double sum = 0;
    for (std::size_t k = i; k < end; ++k) sum += values[k];
    path += fmt::format(
        "{}{:.1f} {:.1f}H{:.1f}", i == 0 ? 'M' : 'L', field.x(static_cast<double>(i) * bin),
        field.y(sum / static_cast<double>(end - i)), field.x(static_cast<double>(end) * bin));
  }
  page.put("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", path, stroke);
}

}  // namespace

std::string power_svg(const PowerPicture& picture) {
  SvgPage page;
  PowerField power{0, kPowerHeight, 1, 1};
  power.top = page.head(picture.title, picture.subtitle, kPowerWidth) + 12;
  double most = 0, load = 0;
  std::size_t bins = picture.rps.size();
  for (const PowerCurve& curve : picture.curves) {
    for (const double watts : curve.watts) most = std::max(most, watts);
    bins = std::max(bins, curve.watts.size());
  }
  for (const double rps : picture.rps) load = std::max(load, rps);
  power.most = nice_above(most);
  power.seconds = std::max(1e-9, picture.bin_s * static_cast<double>(bins));
  PowerField below{power.top + kPowerHeight + 28, kLoadHeight, nice_above(load), power.seconds};
  put_power_axes(page, power, "W");
  put_power_axes(page, below, "rps");
  for (std::size_t c = 0; c < picture.curves.size(); ++c)
    put_steps(page, power, picture.curves[c].watts, hex(fill_of(static_cast<int>(c)).colour));
  put_steps(page, below, picture.rps, kInk);
  const double foot = below.top + kLoadHeight + 16;
  for (int tick = 0; tick <= kPowerTicks; ++tick) {
    const double at = power.seconds * tick / kPowerTicks;
    page.note(power.x(at) - 10, foot, fmt::format("{:.4g} s", at));
  }
  page.begin_chips(static_cast<int>(foot) + 16, kPowerWidth);
  for (std::size_t c = 0; c < picture.curves.size(); ++c)
    page.line_chip(
        fmt::format("stroke=\"{}\" stroke-width=\"3\"", hex(fill_of(static_cast<int>(c)).colour)),
        picture.curves[c].name);
  const int bottom = page.end_chips() + kPageMargin;
  return std::move(page).page(kPowerWidth, bottom, picture.title, picture.subtitle);
}

}  // namespace partita::forms
