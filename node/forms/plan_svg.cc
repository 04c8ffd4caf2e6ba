#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <span>

#include "base/append.h"
#include "base/index.h"
#include "base/unicode.h"
#include "forms/picture.h"
#include "forms/serving_forms.h"
#include "forms/svg_page.h"
#include "plan/predictions.h"

namespace partita::forms {
namespace {

constexpr int kPlanMargin = 28, kRowHeight = 42, kRowGap = 8, kGutter = 32, kPlanHeadGap = 10;
constexpr int kPlanTitleSize = 20, kPlanNameSize = 13, kPlanSmallSize = 11;
constexpr int kPlanLegendChip = 12, kLegendLine = 22, kSliceAxis = 14;

// Where the GPUs go: column after column, each read from the top.
struct Grid {
  int columns = 1;
  int rows = 0;
  int head = 0;  // pixels for "GPU 17"
  int bar = 0;   // pixels for the slices of one GPU
  int width() const { return columns * (head + bar) + (columns - 1) * kGutter; }
};

// Every slice is marked, or every tenth of a GPU that is shared.
int slices_per_mark(const Strip& strip) { return strip.shared ? kShareSlices / 10 : 1; }

std::string ms_text(Millis time) { return duration_text(time.value / 1000); }

Grid grid_of(std::span<const PlannedGpu> gpus) {
  Grid grid;
  const int shown = static_cast<int>(gpus.size());
  grid.columns = shown <= 16 ? 1 : shown <= 64 ? 2 : 3;
  constexpr int kBars[] = {840, 576, 448};
  grid.bar = kBars[grid.columns - 1];
  grid.rows = std::max(1, (shown + grid.columns - 1) / grid.columns);
  int index = 0;
  for (const PlannedGpu& gpu : gpus) index = std::max(index, gpu.index);
  grid.head =
      static_cast<int>(text_width(fmt::format("GPU {}", index), kPlanNameSize)) + kPlanHeadGap;
  return grid;
}

class Svg {
 public:
  Svg(const ServingPlan& plan, const hw::Catalogue& catalogue, int page);
  std::string draw() &&;

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    append(text_, format, std::forward<Args>(args)...);
  }
  void header();
  int legend(int y);
  int column(std::span<const PlannedGpu> gpus, int left, int y);
  Strip gpu(const PlannedGpu& gpu, int left, int y);
  int slice_axis(const Strip& strip, int left, int y);
  void instance(const PlannedGpu& gpu, const Box& box, double x, double y, double width);
  std::string facts(const PlannedGpu& gpu, const PlannedInstance& instance) const;

  const ServingPlan& plan_;
  const hw::Catalogue& catalogue_;
  const std::map<std::string_view, int> order_;
  std::map<std::string_view, const PlannedService*> services_;
  const int page_, pages_;
  const std::span<const PlannedGpu> gpus_;  // of this page
  const Grid grid_;
  const int width_;
  std::string text_;
};

std::span<const PlannedGpu> gpus_of(const ServingPlan& plan, int page) {
  const std::span all = plan.gpus;
  const std::size_t first = std::min(all.size(), at(page * kSvgPageGpus));
  return all.subspan(first, std::min(all.size() - first, at(kSvgPageGpus)));
}

Svg::Svg(const ServingPlan& plan, const hw::Catalogue& catalogue, int page)
    : plan_(plan),
      catalogue_(catalogue),
      order_(service_order(plan)),
      page_(page),
      pages_(plan_svg_pages(plan)),
      gpus_(gpus_of(plan, page)),
      grid_(grid_of(gpus_)),
      width_(grid_.width() + 2 * kPlanMargin) {
  for (const PlannedService& service : plan.services) services_.emplace(service.name, &service);
}

void Svg::header() {
  put("<text x=\"{}\" y=\"{}\" font-size=\"{}\" font-weight=\"600\">{}</text>\n", kPlanMargin,
      kPlanMargin + kPlanTitleSize, kPlanTitleSize, xml_escaped(objective_text(plan_.objective)));
  put("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\">{} · {} · planner {} · SLO rule "
      "{}{}</text>\n",
      kPlanMargin, kPlanMargin + kPlanTitleSize + 22, kPlanNameSize, kFaint,
      xml_escaped(plan_.gpu_model), count_text(static_cast<long>(plan_.services.size()), "service"),
      plan_.planner.empty() ? "unknown" : xml_escaped(plan_.planner), to_string(plan_.rule),
      pages_ > 1 ? fmt::format(" · page {} of {}", page_ + 1, pages_) : "");
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
    const double name_width = text_width(name, kPlanNameSize),
                 rate_x = kPlanLegendChip + 12 + name_width;
    const double left = place(rate_x + text_width(rate, kPlanSmallSize) + 22);
    put("<g class=\"legend\"><title>{}: {} of {} requests/s planned, SLO {}, predicted "
        "{}</title>{}",
        xml_escaped(service.name), number_text(service.planned.value),
        number_text(service.rate.value), ms_text(service.slo), ms_text(service.predicted_latency),
        box_svg({left, y + 0.0, kPlanLegendChip, kPlanLegendChip, 3},
                fill_of(order_.at(service.name))));
    put("<text x=\"{:.1f}\" y=\"{}\" font-size=\"{}\">{}<tspan dx=\"6\" font-size=\"{}\" "
        "fill=\"{}\">{}</tspan></text></g>\n",
        left + kPlanLegendChip + 6, y + 11, kPlanNameSize, xml_escaped(name), kPlanSmallSize,
        kFaint, rate);
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
  const std::string place =
      instance.share_percent == 0
          ? fmt::format("{} at memory slice {}", xml_escaped(instance.profile), instance.start)
          : size_text(instance) + " of it under MPS, without MIG";
  std::string text =
      fmt::format("{}\nGPU {}, {}\nbatch {}, {}\nat most {} requests/s, {} for a full batch",
                  xml_escaped(instance.service), gpu.index, place, instance.batch,
                  count_text(instance.processes, "process"), number_text(instance.throughput.value),
                  ms_text(instance.latency));
  if (instance.predicted)
    text += instance.learned_on.empty()
                ? "\npredicted, not measured"
                : fmt::format("\npredicted, not measured: a law learned on {}",
                              xml_escaped(instance.learned_on));
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
  const Fill fill = fill_of(order_.at(i.service));
  put("<g class=\"instance on\"><title>{}</title>{}", facts(gpu, i),
      box_svg({x + kInset, y + kInset, width - 2 * kInset, kRowHeight - 2 * kInset, 4}, fill));
  const double room = width - 2 * padding;
  const std::string point = point_text(i);
  constexpr double kBold = 1.1;  // bold letters are that much wider
  const int name_size =
      text_width(i.service, kPlanNameSize * kBold) <= room ? kPlanNameSize : kPlanSmallSize;
  std::string second = size_text(i) + " · " + point;
  if (text_width(second, kPlanSmallSize) > room) second = point;
  put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" font-weight=\"600\"{}>{}</text>",
      x + padding, y + 18, name_size, rim(fill),
      xml_escaped(cut(i.service, name_size * kBold, room)));
  put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\"{}>{}</text></g>\n", x + padding, y + 33,
      kPlanSmallSize, rim(fill), xml_escaped(cut(second, kPlanSmallSize, room)));
}

Strip Svg::gpu(const PlannedGpu& gpu, int left, int y) {
  const Strip strip = strip_of(gpu, catalogue_);
  const double slice = static_cast<double>(grid_.bar) / strip.slices;
  const int x = left + grid_.head;
  put("<g><title>GPU {}: {}, {}</title><text x=\"{}\" y=\"{}\" font-size=\"{}\" "
      "fill=\"{}\">GPU {}</text><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"5\" "
      "fill=\"{}\" stroke=\"{}\"/>",
      gpu.index, xml_escaped(gpu.model),
      strip.shared ? "shared whole, without MIG" : count_text(strip.slices, "memory slice"), left,
      y + 26, kPlanNameSize, kFaint, gpu.index, x, y, grid_.bar, kRowHeight, kPageGround,
      kPageLine);
  put("<path d=\"");
  const int step = slices_per_mark(strip);
  for (int i = step; i < strip.slices; i += step)
    put("M{:.1f} {}v{}", x + i * slice, y, kRowHeight);
  put("\" stroke=\"{}\" stroke-dasharray=\"2 3\"/></g>\n", kPageLine);
  for (const Box& box : strip.boxes) instance(gpu, box, x + box.start * slice, y, box.size * slice);
  return strip;
}

// The numbers of the memory slices, or percents, under the bars above; returns the y below them.
int Svg::slice_axis(const Strip& strip, int left, int y) {
  const double slice = static_cast<double>(grid_.bar) / strip.slices;
  const int step = slices_per_mark(strip);
  put("<g class=\"axis\" font-size=\"{}\" fill=\"{}\"><text x=\"{}\" y=\"{}\">{}</text>",
      kPlanSmallSize, kFaint, left, y + kSliceAxis - 2, strip.shared ? "%" : "slice");
  for (int i = 0; i < strip.slices; i += step)
    put("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        left + grid_.head + (strip.shared ? i : i + 0.5) * slice, y + kSliceAxis - 2,
        strip.shared ? 100 * i / strip.slices : i);
  put("</g>\n");
  return y + kSliceAxis;
}

// GPUs below each other, the axis wherever those above have as many slices; returns the y below.
int Svg::column(std::span<const PlannedGpu> gpus, int left, int y) {
  Strip last;
  for (const PlannedGpu& each : gpus) {
    const int wanted = strip_of(each, catalogue_).slices;
    if (last.slices != 0 && wanted != last.slices)
      y = slice_axis(last, left, y - kRowGap + 2) + kRowGap;
    last = gpu(each, left, y);
    y += kRowHeight + kRowGap;
  }
  return last.slices == 0 ? y : slice_axis(last, left, y - kRowGap + 2);
}

std::string Svg::draw() && {
  header();
  const int top = legend(kPlanMargin + kPlanTitleSize + 44) + 14;
  int y = top;
  for (std::size_t first = 0; first < gpus_.size(); first += at(grid_.rows)) {
    const int number = static_cast<int>(first) / grid_.rows;
    y = std::max(y, column(gpus_.subspan(first, std::min(gpus_.size() - first, at(grid_.rows))),
                           kPlanMargin + number * (grid_.head + grid_.bar + kGutter), top));
  }
  y += kPlanMargin;
  const long later = static_cast<long>(plan_.gpus.size()) - long{kSvgPageGpus} * kMaxSvgPages;
  if (page_ + 1 == kMaxSvgPages && later > 0) {
    put("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\">... and {} more GPUs</text>\n",
        kPlanMargin, y, kPlanNameSize, kFaint, later);
    y += kPlanMargin;
  }
  if (const std::string predicted = plan::predictions_text(plan_); !predicted.empty()) {
    put("<text class=\"predicted\" x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\">{}</text>\n",
        kPlanMargin, y, kPlanSmallSize, kFaint,
        xml_escaped(cut("~ " + predicted, kPlanSmallSize, width_ - 2.0 * kPlanMargin)));
    y += kPlanMargin;
  }
  const std::string title =
      fmt::format("Plan of {}", count_text(static_cast<long>(plan_.services.size()), "service"));
  return svg_document(width_, y, title, objective_text(plan_.objective), text_);
}

}  // namespace

int plan_svg_pages(const ServingPlan& plan) {
  const auto gpus = static_cast<int>(std::min<std::size_t>(plan.gpus.size(), 1'000'000));
  return std::clamp((gpus + kSvgPageGpus - 1) / kSvgPageGpus, 1, kMaxSvgPages);
}

std::string plan_svg(const ServingPlan& plan, const hw::Catalogue& catalogue, int page) {
  return Svg(plan, catalogue, page).draw();
}

}  // namespace partita::forms
