#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/unicode.h"
#include "forms/picture.h"
#include "forms/serving_forms.h"

namespace partita::forms {
namespace {

constexpr int kPlanMargin = 28, kRowHeight = 42, kRowGap = 8, kGutter = 32, kPlanHeadGap = 10;
constexpr int kPlanTitleSize = 20, kPlanNameSize = 13, kPlanSmallSize = 11;
constexpr int kPlanLegendChip = 12, kLegendLine = 22;

// Where the GPUs go: column after column, each read from the top.
struct Grid {
  int columns = 1;
  int rows = 0;
  int head = 0;  // pixels for "GPU 17"
  int bar = 0;   // pixels for the slices of one GPU
  int width() const { return columns * (head + bar) + (columns - 1) * kGutter; }
  int height() const { return rows * (kRowHeight + kRowGap) - kRowGap; }
};

Grid grid_of(const ServingPlan& plan, int shown) {
  Grid grid;
  grid.columns = shown <= 16 ? 1 : shown <= 64 ? 2 : 3;
  constexpr int kBars[] = {840, 576, 448};
  grid.bar = kBars[grid.columns - 1];
  grid.rows = std::max(1, (shown + grid.columns - 1) / grid.columns);
  int index = 0;
  for (const PlannedGpu& gpu : plan.gpus) index = std::max(index, gpu.index);
  grid.head = static_cast<int>(text_width(fmt::format("GPU {}", index), kPlanNameSize)) + kPlanHeadGap;
  return grid;
}

class Svg {
 public:
  Svg(const ServingPlan& plan, const hw::Catalogue& catalogue);
  std::string draw() &&;

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  void header();
  int legend(int y);
  void gpu(const PlannedGpu& gpu, int left, int y);
  void instance(const PlannedGpu& gpu, const Box& box, double x, double y, double width);
  std::string facts(const PlannedGpu& gpu, const PlannedInstance& instance) const;

  const ServingPlan& plan_;
  const hw::Catalogue& catalogue_;
  const std::map<std::string_view, int> order_;
  std::map<std::string_view, const PlannedService*> services_;
  const int shown_;
  const Grid grid_;
  const int width_;
  std::string text_;
};

Svg::Svg(const ServingPlan& plan, const hw::Catalogue& catalogue)
    : plan_(plan),
      catalogue_(catalogue),
      order_(service_order(plan)),
      shown_(static_cast<int>(std::min<std::size_t>(plan.gpus.size(), kMaxSvgGpus))),
      grid_(grid_of(plan, shown_)),
      width_(grid_.width() + 2 * kPlanMargin) {
  for (const PlannedService& service : plan.services) services_.emplace(service.name, &service);
}

void Svg::header() {
  put("<text x=\"{}\" y=\"{}\" font-size=\"{}\" font-weight=\"600\">{}</text>\n", kPlanMargin,
      kPlanMargin + kPlanTitleSize, kPlanTitleSize, xml_escaped(objective_text(plan_.objective)));
  put("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\">{} · {} · planner {} · SLO rule "
      "{}</text>\n",
      kPlanMargin, kPlanMargin + kPlanTitleSize + 22, kPlanNameSize, kFaint, xml_escaped(plan_.gpu_model),
      count_text(static_cast<long>(plan_.services.size()), "service"),
      plan_.planner.empty() ? "unknown" : xml_escaped(plan_.planner), to_string(plan_.rule));
}

// Chips in lines that wrap at the right edge; returns the y below them.
int Svg::legend(int y) {
  double x = kPlanMargin;
  const auto place = [&](double chip_width) {
    if (x > kPlanMargin && x + chip_width > width_ - kPlanMargin) {
      x = kPlanMargin;
      y += kLegendLine;
    }
    return std::exchange(x, x + chip_width);
  };
  const auto shown = std::min<std::size_t>(plan_.services.size(), kMaxSvgLegend);
  for (std::size_t i = 0; i < shown; ++i) {
    const PlannedService& service = plan_.services[i];
    const std::string name = cut(service.name, kPlanNameSize, 220);
    const std::string rate = number_text(service.rate.value) + "/s";
    const double name_width = text_width(name, kPlanNameSize), rate_x = kPlanLegendChip + 12 + name_width;
    const double left = place(rate_x + text_width(rate, kPlanSmallSize) + 22);
    const Rgb colour = distinct_colour(order_.at(service.name));
    put("<g class=\"legend\"><title>{}: {} of {} requests/s planned, SLO {} ms, predicted {} "
        "ms</title><rect x=\"{:.1f}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" fill=\"{}\" "
        "stroke=\"{}\"/>",
        xml_escaped(service.name), number_text(service.planned.value),
        number_text(service.rate.value), number_text(service.slo.value),
        number_text(service.predicted_latency.value), left, y, kPlanLegendChip, kPlanLegendChip,
        hex(colour), hex(darker(colour)));
    put("<text x=\"{:.1f}\" y=\"{}\" font-size=\"{}\">{}<tspan dx=\"6\" font-size=\"{}\" "
        "fill=\"{}\">{}</tspan></text></g>\n",
        left + kPlanLegendChip + 6, y + 11, kPlanNameSize, xml_escaped(name), kPlanSmallSize, kFaint, rate);
  }
  if (shown < plan_.services.size()) {
    const std::string more = fmt::format("... and {} more", plan_.services.size() - shown);
    const double left = place(text_width(more, kPlanNameSize));
    put("<text x=\"{:.1f}\" y=\"{}\" font-size=\"{}\" fill=\"{}\">{}</text>\n", left, y + 11,
        kPlanNameSize, kFaint, more);
  }
  return y + kLegendLine;
}

// What hovering over an instance shows, escaped.
std::string Svg::facts(const PlannedGpu& gpu, const PlannedInstance& instance) const {
  std::string text = fmt::format(
      "{}\nGPU {}, {} at memory slice {}\nbatch {}, {}\nat most {} requests/s, {} ms for a full "
      "batch",
      xml_escaped(instance.service), gpu.index, xml_escaped(instance.profile), instance.start,
      instance.batch, count_text(instance.processes, "process"),
      number_text(instance.throughput.value), number_text(instance.latency.value));
  const auto service = services_.find(instance.service);
  if (service == services_.end()) return text;
  return text + fmt::format("\nreceives {} of the service's {} requests/s",
                            number_text(share_of(*service->second, instance).value),
                            number_text(service->second->rate.value));
}

void Svg::instance(const PlannedGpu& gpu, const Box& box, double x, double y, double width) {
  constexpr double kInset = 1.5;
  const double padding = width < 80 ? 4.5 : 7;
  const PlannedInstance& i = *box.instance;
  const Rgb colour = distinct_colour(order_.at(i.service));
  put("<g class=\"instance\"><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
      "height=\"{:.1f}\" rx=\"4\" fill=\"{}\" stroke=\"{}\"/>",
      facts(gpu, i), x + kInset, y + kInset, width - 2 * kInset, kRowHeight - 2 * kInset,
      hex(colour), hex(darker(colour)));
  const double room = width - 2 * padding;
  const std::string point = fmt::format("b{}×{}", i.batch, i.processes);
  constexpr double kBold = 1.1;  // bold letters are that much wider
  const int name_size = text_width(i.service, kPlanNameSize * kBold) <= room ? kPlanNameSize : kPlanSmallSize;
  std::string second = i.profile + " · " + point;
  if (text_width(second, kPlanSmallSize) > room) second = point;
  put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" font-weight=\"600\">{}</text>", x + padding,
      y + 18, name_size, xml_escaped(cut(i.service, name_size * kBold, room)));
  put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\">{}</text></g>\n", x + padding, y + 33,
      kPlanSmallSize, xml_escaped(cut(second, kPlanSmallSize, room)));
}

void Svg::gpu(const PlannedGpu& gpu, int left, int y) {
  const Strip strip = strip_of(gpu, catalogue_);
  const double slice = static_cast<double>(grid_.bar) / strip.slices;
  const int x = left + grid_.head;
  put("<g><title>GPU {}: {}, {} memory slices</title><text x=\"{}\" y=\"{}\" font-size=\"{}\" "
      "fill=\"{}\">GPU {}</text><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"5\" "
      "fill=\"#f3f5f7\" stroke=\"#d5dae0\"/>",
      gpu.index, xml_escaped(gpu.model), strip.slices, left, y + 26, kPlanNameSize, kFaint, gpu.index,
      x, y, grid_.bar, kRowHeight);
  put("<path d=\"");
  for (int i = 1; i < strip.slices; ++i) put("M{:.1f} {}v{}", x + i * slice, y, kRowHeight);
  put("\" stroke=\"#d5dae0\" stroke-dasharray=\"2 3\"/></g>\n");
  for (const Box& box : strip.boxes) instance(gpu, box, x + box.start * slice, y, box.size * slice);
}

std::string Svg::draw() && {
  header();
  int y = legend(kPlanMargin + kPlanTitleSize + 44) + 14;
  for (int i = 0; i < shown_; ++i)
    gpu(plan_.gpus[static_cast<std::size_t>(i)],
        kPlanMargin + i / grid_.rows * (grid_.head + grid_.bar + kGutter),
        y + i % grid_.rows * (kRowHeight + kRowGap));
  y += grid_.height() + kPlanMargin;
  if (static_cast<std::size_t>(shown_) < plan_.gpus.size()) {
    put("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\">... and {} more GPUs</text>\n",
        kPlanMargin, y, kPlanNameSize, kFaint, plan_.gpus.size() - static_cast<std::size_t>(shown_));
    y += kPlanMargin;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"system-ui, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif\" "
      "fill=\"{2}\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n{3}</svg>\n",
      width_, y, kInk, text_);
}

}  // namespace

std::string plan_svg(const ServingPlan& plan, const hw::Catalogue& catalogue) {
  return Svg(plan, catalogue).draw();
}

}  // namespace partita::forms
