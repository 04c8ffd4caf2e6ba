#include "plan/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/unicode.h"

namespace partita::plan {
namespace {

constexpr int kMaxSlices = 64;  // drawn of a GPU that the catalogue does not know

// One channel of linear light as 0..255 sRGB.
int srgb(double linear) {
  linear = std::clamp(linear, 0.0, 1.0);
  const double encoded =
      linear <= 0.0031308 ? 12.92 * linear : 1.055 * std::pow(linear, 1 / 2.4) - 0.055;
  return static_cast<int>(std::lround(255 * encoded));
}

// Oklab (B. Ottosson, 2020) in polar form: equal lightness looks equally light, whatever the hue.
Rgb from_oklch(double lightness, double chroma, double hue) {
  const double a = chroma * std::cos(hue), b = chroma * std::sin(hue);
  const auto cube = [](double x) { return x * x * x; };
  const double l = cube(lightness + 0.3963377774 * a + 0.2158037573 * b);
  const double m = cube(lightness - 0.1055613458 * a - 0.0638541728 * b);
  const double s = cube(lightness - 0.0894841775 * a - 1.2914855480 * b);
  return {srgb(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
          srgb(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
          srgb(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

// Rough width of a character in em, on the generous side of common sans-serif fonts.
double em(char32_t c) {
  constexpr std::u32string_view kNarrow = U"iljtfrI.,:;'|!()[]-· ", kBroad = U"mwMW@%…";
  if (columns(c) != 1) return columns(c) == 0 ? 0 : 1.05;
  if (kNarrow.find(c) != kNarrow.npos) return 0.40;
  if (kBroad.find(c) != kBroad.npos) return 0.98;
  return c >= 'A' && c <= 'Z' ? 0.74 : 0.63;
}

}  // namespace

Strip strip_of(const PlannedGpu& gpu, const hw::Catalogue& catalogue) {
  const hw::GpuModel* model = catalogue.find(gpu.model);
  Strip strip;
  int needed = 1;
  for (const PlannedInstance& instance : gpu.instances) {
    const int at = model ? model->profile_index(instance.profile) : -1;
    const int size = at < 0 ? 1 : model->profiles[static_cast<std::size_t>(at)].size;
    strip.boxes.push_back({instance.start, size, &instance});
    needed = std::clamp(instance.start, needed - size, kMaxSlices - size) + size;
  }
  strip.slices = model ? model->memory_slices : needed;
  std::stable_sort(strip.boxes.begin(), strip.boxes.end(),
                   [](const Box& a, const Box& b) { return a.start < b.start; });
  for (Box& box : strip.boxes) {
    box.start = std::clamp(box.start, 0, strip.slices - 1);
    box.size = std::clamp(box.size, 1, strip.slices - box.start);
  }
  return strip;
}

std::map<std::string_view, int> service_order(const ServingPlan& plan) {
  std::map<std::string_view, int> order;
  const auto add = [&](std::string_view name) {
    order.emplace(name, static_cast<int>(order.size()));
  };
  for (const PlannedService& service : plan.services) add(service.name);
  for (const PlannedGpu& gpu : plan.gpus)
    for (const PlannedInstance& instance : gpu.instances) add(instance.service);
  return order;
}

Rgb service_colour(int n) {
  // Steps of the golden angle never come close to an earlier hue soon; lightness separates later
  // neighbours.
  constexpr double kGoldenAngle = 2.39996322972865332, kFirstHue = 4.45;
  constexpr std::array<double, 3> kLightness{0.80, 0.88, 0.72};
  constexpr std::array<double, 3> kChroma{0.105, 0.085, 0.115};
  const auto tone = static_cast<std::size_t>(n / 8) % kLightness.size();
  return from_oklch(kLightness[tone], kChroma[tone], kFirstHue + kGoldenAngle * n);
}

std::string number_text(double value) {
  if (!std::isfinite(value)) return "unbounded";
  return std::abs(value) >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string count_text(long count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : noun == "process" ? "es" : "s");
}

std::string objective_text(const Objective& objective) {
  const auto part = [](int gpus, int gpcs, double cost) {
    std::string text = count_text(gpus, "GPU");
    if (gpcs > 0) text.append(", ").append(count_text(gpcs, "GPC"));
    if (cost > 0 && cost != gpus) text += fmt::format(", cost {}", number_text(cost));
    return text;
  };
  std::string text = part(objective.gpus, objective.gpcs, objective.cost);
  if (objective.lower_bound_gpus == 0 && !objective.optimal)
    return text + "; no lower bound stated";
  return fmt::format(
      "{}; lower bound {}: {}", text,
      part(objective.lower_bound_gpus, objective.lower_bound_gpcs, objective.lower_bound_cost),
      objective.optimal ? "optimal" : "not proven optimal");
}

Rgb darker(Rgb c) { return {c.red * 2 / 3, c.green * 2 / 3, c.blue * 2 / 3}; }

double text_width(std::string_view text, double size) {
  double width = 0;
  for (const char32_t c : printable(text)) width += em(c);
  return width * size;
}

std::string cut(std::string_view text, double size, double width) {
  return elided(text, width / size, em);
}

std::string hex(Rgb c) { return fmt::format("#{:02x}{:02x}{:02x}", c.red, c.green, c.blue); }

std::string repeated(std::string_view piece, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += piece;
  return text;
}

std::string Painter::filled(const std::string& text, Rgb c) const {
  const auto level = [](int channel) { return (channel * 5 + 127) / 255; };  // 6x6x6 ANSI cube
  const int index = 16 + 36 * level(c.red) + 6 * level(c.green) + level(c.blue);
  return wrapped(fmt::format("\x1b[48;5;{}m\x1b[38;5;16m", index), text);
}

std::string aligned(const std::vector<TextRow>& rows) {
  std::vector<int> widths(rows.front().size());
  for (const TextRow& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
  std::string text;
  for (const TextRow& row : rows) {
    text += fit(row.front(), widths.front());
    for (std::size_t i = 1; i + 1 < row.size(); ++i)
      text.append(static_cast<std::size_t>(2 + widths[i] - columns(row[i])), ' ').append(row[i]);
    text.append("  ").append(row.back()).append("\n");
  }
  return text;
}

}  // namespace partita::plan
