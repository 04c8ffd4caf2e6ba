#include "forms/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/unicode.h"

namespace partita::forms {
namespace {

constexpr int kMaxDrawnSlices = 64;  // drawn of a GPU that the catalogue does not know

// Rough width of a character in em, on the generous side of common sans-serif fonts.
double em(char32_t c) {
  constexpr std::u32string_view kNarrow = U"iljtfrI.,:;'|!()[]-· ", kBroad = U"mwMW@%…";
  if (columns(c) != 1) return columns(c) == 0 ? 0 : 1.05;
  if (kNarrow.find(c) != kNarrow.npos) return 0.40;
  if (kBroad.find(c) != kBroad.npos) return 0.98;
  return c >= 'A' && c <= 'Z' ? 0.74 : 0.63;
}

Strip shared_strip(const PlannedGpu& gpu) {
  Strip strip{.slices = kShareSlices, .boxes = {}, .shared = true};
  double percent = 0;
  const auto slice = [&] { return static_cast<int>(std::lround(percent * kShareSlices / 100)); };
  for (const PlannedInstance& instance : gpu.instances) {
    const int start = std::min(slice(), kShareSlices - 1);
    percent = std::clamp(percent + instance.share_percent, percent, 100.0);
    strip.boxes.push_back({start, std::max(1, slice() - start), &instance});
  }
  return strip;
}

}  // namespace

std::string size_text(const PlannedInstance& instance) {
  if (instance.group > 1) return fmt::format("{} GPUs", instance.group);
  if (instance.share_percent == 0) return instance.profile;
  return number_text(instance.share_percent) + "%";
}

Strip strip_of(const PlannedGpu& gpu, const hw::Catalogue& catalogue) {
  if (std::ranges::any_of(gpu.instances, [](const auto& i) { return i.share_percent != 0; }))
    return shared_strip(gpu);
  const hw::GpuModel* model = catalogue.find(gpu.model);
  Strip strip;
  int needed = 1;
  for (const PlannedInstance& instance : gpu.instances) {
    const int at = model ? model->profile_index(instance.profile) : -1;
    const int size = at < 0 ? 1 : model->profiles[static_cast<std::size_t>(at)].size;
    strip.boxes.push_back({instance.start, size, &instance});
    needed = std::clamp(instance.start, needed - size, kMaxDrawnSlices - size) + size;
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

std::string point_text(const PlannedInstance& instance) {
  return fmt::format("{}b{}×{}", instance.predicted ? "~" : "", instance.batch, instance.processes);
}

std::string objective_text(const Objective& objective) {
  const char* const unit = objective.goal == plan::Goal::cost ? " per hour" : "";
  const auto part = [unit](int gpus, int gpcs, double cost) {
    std::string text = count_text(gpus, "GPU");
    if (gpcs > 0) text.append(", ").append(count_text(gpcs, "GPC"));
    if (cost > 0 && cost != gpus) text += fmt::format(", cost {}{}", number_text(cost), unit);
    return text;
  };
  if (objective.goal == plan::Goal::energy) {
    const double bound = objective.lower_bound_watts;
    const std::string gap = objective.optimal ? "optimal"
                            : bound > 0       ? fmt::format("at most {:.2g} % above the least",
                                                            100 * (objective.watts / bound - 1))
                                              : "not proven optimal";
    return fmt::format("{:.5g} W expected at these rates, lower bound {:.5g} W: {}; {}",
                       objective.watts, bound, gap, part(objective.gpus, objective.gpcs, 0));
  }
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

AxisScale axis_scale(double low, double high, int steps) {
  if (!(high > low)) high = low + 1;
  const double rough = (high - low) / steps, power = std::pow(10, std::floor(std::log10(rough)));
  const double step = power * (rough / power > 5 ? 10 : rough / power > 2 ? 5 : 2);
  return {std::floor(low / step) * step, std::ceil(high / step) * step, step};
}

std::string hex(Rgb c) { return fmt::format("#{:02x}{:02x}{:02x}", c.red, c.green, c.blue); }

}  // namespace partita::forms
