// schedules_svg of batch_forms.h.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/append.h"
#include "base/unicode.h"
#include "forms/batch_forms.h"
#include "forms/batch_text.h"
#include "forms/gantt.h"
#include "forms/svg_page.h"

namespace partita::forms {
namespace {

constexpr int kGanttMargin = 28, kGanttPlotWidth = 1040, kGanttHeadGap = 10, kGpuGap = 10;
constexpr int kGanttTitleSize = 20, kGanttNameSize = 13, kGanttSmallSize = 11,
              kGanttLegendChip = 12;
constexpr int kGanttMostTicks = 12;
constexpr int kLeastNumbered = 14,
              kSliceNumber = 12;          // rows as high have the number of their slice
constexpr double kGanttLeastWidth = 1.2;  // of a box, so that the shortest is still seen

class GanttSvg {
 public:
  GanttSvg(const std::vector<BatchSchedule>& schedules, const hw::Catalogue& catalogue);
  std::string draw() &&;

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    append(text_, format, std::forward<Args>(args)...);
  }
  double x(Nanos time) const {
    return left_ + kGanttPlotWidth * static_cast<double>(time) / static_cast<double>(end_);
  }
  void title();
  void legend(int y);
  int panel(const BatchSchedule& schedule, int y);
  int lanes(const std::vector<GpuRow>& lanes, int y);
  void lane(const GpuRow& lane, int y);
  void task(const Bar& bar, int y);
  void change(const Bar& bar, int y);
  void box(const Bar& bar, int y, const Fill& fill);
  void mark(Nanos time, int top, int bottom, const char* dashes);
  int axis(int top, int bottom);
  int left_out(const std::vector<GpuRow>& lanes, int y);

  const std::vector<BatchSchedule>& schedules_;
  const hw::Catalogue& catalogue_;
  std::size_t shown_;
  Nanos end_ = 1;                            // of the common time scale
  int row_ = 20;                             // pixels of a memory slice
  int left_ = 0;                             // of the time scale
  int tasks_left_ = 0, changes_left_ = 0;    // that may still be drawn of this schedule
  std::map<std::string_view, int> colours_;  // one per task, the same in all schedules
  std::string text_;
};

GanttSvg::GanttSvg(const std::vector<BatchSchedule>& schedules, const hw::Catalogue& catalogue)
    : schedules_(schedules),
      catalogue_(catalogue),
      shown_(std::min<std::size_t>(schedules.size(), kMaxSvgSchedules)) {
  std::string widest = "slice 0";
  std::size_t gpus = 1;
  for (std::size_t i = 0; i < shown_; ++i) {
    const BatchSchedule& schedule = schedules[i];
    end_ = std::max(end_, last_end(schedule));
    gpus = std::max(gpus, schedule.gpu_models.size());
    for (const ScheduledTask& t : schedule.tasks)
      colours_.emplace(t.task, static_cast<int>(colours_.size()));
    for (const GpuRow& lane : gpu_rows(schedule, catalogue))
      widest = std::max(widest, fmt::format("GPU {}", lane.gpu),
                        [](const auto& a, const auto& b) { return a.size() < b.size(); });
  }
  row_ = gpus <= 2 ? 20 : gpus <= 8 ? 14 : 8;
  left_ = kGanttMargin + static_cast<int>(text_width(widest, kGanttNameSize)) + kGanttHeadGap +
          (row_ >= kLeastNumbered ? kSliceNumber : 0);
}

void GanttSvg::title() {
  const std::size_t tasks = shown_ == 0 ? 0 : schedules_.front().tasks.size();
  std::string text = count_text(static_cast<long>(tasks), "task");
  if (shown_ != 1)
    text += ", " + count_text(static_cast<long>(shown_), "schedule") + " on one time scale";
  put("<text x=\"{}\" y=\"{}\" font-size=\"{}\" font-weight=\"600\">{}</text>\n", kGanttMargin,
      kGanttMargin + kGanttTitleSize, kGanttTitleSize, text);
}

void GanttSvg::legend(int y) {
  double at = kGanttMargin;
  const std::pair<const char*, Rgb> chips[] = {{"create an instance", kCreateColour},
                                               {"destroy an instance", kDestroyColour}};
  const auto name = [&](const char* text) {
    put("<text x=\"{:.1f}\" y=\"{}\" font-size=\"{}\" fill=\"{}\">{}</text></g>\n",
        at + kGanttLegendChip + 6, y + 11, kGanttNameSize, kFaint, text);
    at += kGanttLegendChip + 28 + text_width(text, kGanttNameSize);
  };
  for (const auto& [text, colour] : chips) {
    put("<g class=\"legend\">{}",
        box_svg({at, y + 0.0, kGanttLegendChip, kGanttLegendChip, 3}, {colour}));
    name(text);
  }
  for (const auto& [text, dashes] :
       {std::pair("makespan", "none"), std::pair("lower bound", "3 3")}) {
    put("<g class=\"legend\"><path d=\"M{:.1f} {}v{}\" stroke=\"{}\" stroke-width=\"1.5\" "
        "stroke-dasharray=\"{}\"/>",
        at + kGanttLegendChip / 2.0, y - 1, kGanttLegendChip + 2, kInk, dashes);
    name(text);
  }
}

void GanttSvg::box(const Bar& bar, int y, const Fill& fill) {
  const double begin = x(bar.begin), width = std::max(kGanttLeastWidth, x(bar.end) - begin);
  put("{}", box_svg({begin, y + bar.first * row_ + 0.0, width, bar.slices * row_ + 0.0,
                     width > 8 ? 2.0 : 0.0, width > 4 ? 0.8 : 0.3},
                    fill));
}

void GanttSvg::task(const Bar& bar, int y) {
  const ScheduledTask& t = *bar.task;
  const int size = row_ >= 14 ? kGanttSmallSize : row_ - 1;
  const std::string instance = instance_text(t);
  const Fill fill = fill_of(colours_.at(t.task));
  put("<g class=\"task on\"><title>{}\n{} on GPU {}\n{} s to {} s: {} s</title>",
      xml_escaped(t.task), xml_escaped(instance), t.gpu, exact_seconds(bar.begin),
      exact_seconds(bar.end), exact_seconds(bar.end - bar.begin));
  box(bar, y, fill);
  constexpr double kPadding = 4, kLeastName = 2.5;
  const double room = x(bar.end) - x(bar.begin) - 2 * kPadding;
  const double middle = y + (bar.first + bar.slices / 2.0) * row_;
  const std::string second = fmt::format("{} · {}", instance, seconds_text(bar.end - bar.begin));
  const bool two = bar.slices * row_ >= 3 * size && text_width(second, size) <= room;
  const bool named = text_width(t.task, size) <= room || room >= kLeastName * size;
  const std::string name = named ? cut(t.task, size, room) : "";
  if (!name.empty())
    put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\"{}>{}</text>", x(bar.begin) + kPadding,
        middle + (two ? -0.15 : 0.35) * size, size, rim(fill), xml_escaped(name));
  if (!name.empty() && two)
    put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" fill-opacity=\"0.85\"{}>{}</text>",
        x(bar.begin) + kPadding, middle + 1.05 * size, size, rim(fill), xml_escaped(second));
  put("</g>\n");
}

void GanttSvg::change(const Bar& bar, int y) {
  const Reconfiguration& r = *bar.change;
  put("<g class=\"{0}\"><title>{0} {1}@{2} on GPU {3}\n{4} s to {5} s: {6} s</title>",
      to_string(r.op), xml_escaped(r.profile), r.start, r.gpu, exact_seconds(bar.begin),
      exact_seconds(bar.end), exact_seconds(bar.end - bar.begin));
  box(bar, y, {r.op == Reconfiguration::Op::create ? kCreateColour : kDestroyColour});
  put("</g>\n");
}

void GanttSvg::lane(const GpuRow& lane, int y) {
  const int height = lane.slices * row_;
  put("<g><title>GPU {}: {}, {} memory slices</title><text x=\"{}\" y=\"{}\" font-size=\"{}\" "
      "fill=\"{}\">GPU {}</text><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
      "fill=\"{}\" stroke=\"{}\"/><path d=\"",
      lane.gpu, lane.model.empty() ? "not listed" : xml_escaped(lane.model), lane.slices,
      kGanttMargin, y + std::min(height, 18) - 4, kGanttNameSize, kFaint, lane.gpu, left_, y,
      kGanttPlotWidth, height, kPageGround, kPageLine);
  for (int i = 1; i < lane.slices; ++i) put("M{} {}h{}", left_, y + i * row_, kGanttPlotWidth);
  put("\" stroke=\"{}\" stroke-dasharray=\"2 3\"/></g>\n", kPageLine);
  for (int i = 0; i < lane.slices && row_ >= kLeastNumbered; ++i)
    put("<text class=\"axis\" x=\"{}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\" "
        "text-anchor=\"end\">{}</text>\n",
        left_ - 5, y + (i + 0.5) * row_ + 0.35 * kGanttSmallSize, kGanttSmallSize, kFaint, i);
  for (const Bar& bar : lane.tasks)
    if (tasks_left_-- > 0) task(bar, y);
  for (const Bar& bar : lane.changes)
    if (changes_left_-- > 0) change(bar, y);
}

// A line across all GPUs of a schedule.
void GanttSvg::mark(Nanos time, int top, int bottom, const char* dashes) {
  if (time <= 0 || time > end_) return;
  put("<path class=\"mark\" d=\"M{:.2f} {}V{}\" stroke=\"{}\" stroke-width=\"1.5\" "
      "stroke-dasharray=\"{}\"/>\n",
      x(time), top - 4, bottom + 4, kInk, dashes);
}

int GanttSvg::axis(int top, int bottom) {
  const std::vector<Nanos> all = ticks(end_, kGanttMostTicks);
  const AxisUnit unit = axis_unit(end_);
  put("<path d=\"");
  for (const Nanos tick : all) put("M{:.2f} {}V{}", x(tick), top, bottom + 5);
  put("\" stroke=\"#8a94a3\" stroke-opacity=\"0.45\" stroke-width=\"0.8\"/>\n");
  for (const Nanos tick : all)
    put("<text x=\"{:.2f}\" y=\"{}\" font-size=\"{}\" fill=\"{}\" "
        "text-anchor=\"middle\">{}{}</text>\n",
        x(tick), bottom + 19, kGanttSmallSize, kFaint, unit.number(tick),
        tick == all.back() ? fmt::format(" {}", unit.name) : "");
  return bottom + 26;
}

int GanttSvg::lanes(const std::vector<GpuRow>& lanes, int y) {
  tasks_left_ = changes_left_ = kMaxGanttTasks;
  const auto shown = std::min<std::size_t>(lanes.size(), kMaxGanttGpus);
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) y += kGpuGap;
    lane(lanes[i], y);
    y += lanes[i].slices * row_;
  }
  return y;
}

// How much of a schedule is not drawn.
int GanttSvg::left_out(const std::vector<GpuRow>& lanes, int y) {
  long tasks = 0, changes = 0;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    tasks += static_cast<long>(lanes[i].tasks.size());
    changes += static_cast<long>(lanes[i].changes.size());
  }
  const std::pair<long, const char*> all[] = {
      {static_cast<long>(lanes.size()) - kMaxGanttGpus, "GPU"},
      {tasks - (kMaxGanttTasks - std::max(tasks_left_, 0)), "task"},
      {changes - (kMaxGanttTasks - std::max(changes_left_, 0)), "reconfiguration"}};
  std::string text;
  for (const auto& [count, noun] : all)
    if (count > 0) text += (text.empty() ? "" : ", ") + count_text(count, noun);
  if (text.empty()) return y;
  put("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\">not drawn: {}</text>\n", left_, y + 14,
      kGanttNameSize, kFaint, text);
  return y + 22;
}

int GanttSvg::panel(const BatchSchedule& schedule, int y) {
  const std::string who = schedule.scheduler.empty() ? "schedule" : schedule.scheduler;
  const double width = left_ + kGanttPlotWidth - kGanttMargin;
  put("<text x=\"{}\" y=\"{}\" font-size=\"{}\"><tspan font-weight=\"600\">{}</tspan><tspan "
      "dx=\"10\">{}</tspan></text>\n",
      kGanttMargin, y + kGanttNameSize, kGanttNameSize + 1,
      xml_escaped(cut(who, kGanttNameSize + 1, width / 3)),
      xml_escaped(cut(makespan_text(schedule), kGanttNameSize + 1, width * 2 / 3)));
  put("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\">{}</text>\n", kGanttMargin,
      y + kGanttNameSize + 17, kGanttSmallSize + 1, kFaint, effort_text(schedule, catalogue_));
  const std::vector<GpuRow> all = gpu_rows(schedule, catalogue_);
  const int top = y + kGanttNameSize + 30, bottom = lanes(all, top);
  mark(schedule.makespan, top, bottom, "none");
  mark(schedule.lower_bound, top, bottom, "3 3");
  return left_out(all, axis(top, bottom)) + 14;
}

std::string GanttSvg::draw() && {
  title();
  legend(kGanttMargin + kGanttTitleSize + 16);
  int y = kGanttMargin + kGanttTitleSize + 48;
  for (std::size_t i = 0; i < shown_; ++i) y = panel(schedules_[i], y);
  if (shown_ < schedules_.size()) {
    put("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\">... and {} more schedules</text>\n",
        kGanttMargin, y + kGanttNameSize, kGanttNameSize, kFaint, schedules_.size() - shown_);
    y += kGanttMargin;
  }
  return svg_document(left_ + kGanttPlotWidth + kGanttMargin, y + kGanttMargin / 2,
                      count_text(static_cast<long>(schedules_.size()), "schedule"),
                      "tasks on the slices of GPUs over time", text_);
}

}  // namespace

std::string schedules_svg(const std::vector<BatchSchedule>& schedules,
                          const hw::Catalogue& catalogue) {
  return GanttSvg(schedules, catalogue).draw();
}

}  // namespace partita::forms
