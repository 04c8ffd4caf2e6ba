// The picture of day_forms.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "forms/day_forms.h"
#include "forms/picture.h"
#include "forms/svg_page.h"

namespace partita::forms {
namespace {

constexpr int kDayWidth = 960, kDayHeight = 260, kDayLeft = 64, kTicks = 5, kTickHours = 3;

struct Frame {
  double top = 0;
  int most = 1;  // GPUs at the top
  double x(double minute) const {
    return kDayLeft + minute / plan::kMinutesOfDay * (kDayWidth - kDayLeft - kPageMargin);
  }
  double y(double gpus) const { return top + kDayHeight * (1 - gpus / most); }
};

void put_axes(SvgPage& page, const Frame& frame) {
  for (int hour = 0; hour <= 24; hour += kTickHours) {
    const double x = frame.x(hour * 60.0);
    page.put("<path d=\"M{:.1f} {:.1f}v{}\" stroke=\"{}\" fill=\"none\"/>\n", x, frame.top,
             kDayHeight, kPageLine);
    page.note(x - 14, frame.top + kDayHeight + 16, plan::clock_text(hour * 60));
  }
  const int step = std::max(1, (frame.most + kTicks - 1) / kTicks);
  for (int gpus = 0; gpus <= frame.most; gpus += step)
    page.note(kPageMargin, frame.y(gpus) + 4, fmt::format("{}", gpus));
}

void put_stretch(SvgPage& page, const Frame& frame, const plan::DayPeriod& period, int from,
                 int to) {
  const int gpus = period.plan.objective.gpus;
  const double x = frame.x(from), y = frame.y(gpus);
  page.put("<g><title>{} to {}: {} GPUs, {} GPCs, {:.6g} req/s</title>",
           plan::clock_text(period.from), plan::clock_text(period.to), gpus,
           period.plan.objective.gpcs, period.rate.value);
  page.put("{}</g>\n", box_svg({.x = x,
                                .y = y,
                                .width = frame.x(to) - x,
                                .height = frame.y(0) - y,
                                .radius = 0,
                                .stroke = 0},
                               fill_of(0)));
}

void put_periods(SvgPage& page, const Frame& frame, const plan::DayPlan& day) {
  for (const plan::DayPeriod& period : day.periods) {
    if (period.to > period.from) {
      put_stretch(page, frame, period, period.from, period.to);
      continue;
    }
    put_stretch(page, frame, period, period.from, plan::kMinutesOfDay);
    if (period.to > 0) put_stretch(page, frame, period, 0, period.to);
  }
}

void put_changes(SvgPage& page, const Frame& frame, const plan::DayPlan& day) {
  for (const plan::DayChange& change : day.changes) {
    const double x = frame.x(change.at);
    page.put(
        "<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"{}\" stroke-width=\"3\"><title>{}: {}, {} "
        "stand-ins, {} GPUs meanwhile</title></path>\n",
        x, frame.y(change.gpus), frame.y(0), kInk, plan::clock_text(change.at),
        plan::to_string(change.changes), change.stand_ins, change.gpus);
  }
}

}  // namespace

std::string day_svg(const plan::DayPlan& day) {
  SvgPage page;
  const double share = day.peak_gpu_hours > 0 ? day.gpu_hours / day.peak_gpu_hours : 1;
  const std::string summary = fmt::format(
      "{:.1f} GPU-hours, {:.2f} of the {:.1f} of a plan for the peak; {} instances created a day",
      day.gpu_hours, share, day.peak_gpu_hours, plan::creations(day));
  Frame frame;
  frame.top = page.head("GPUs over the day", summary, kDayWidth) + 12;
  for (const plan::DayPeriod& period : day.periods)
    frame.most = std::max(frame.most, period.plan.objective.gpus);
  for (const plan::DayChange& change : day.changes) frame.most = std::max(frame.most, change.gpus);
  frame.most = std::max(frame.most, day.peak_gpus);
  put_periods(page, frame, day);
  put_axes(page, frame);
  put_changes(page, frame, day);
  page.put(
      "<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"{}\" stroke-dasharray=\"6 4\" fill=\"none\"/>\n",
      frame.x(0), frame.y(day.peak_gpus), frame.x(plan::kMinutesOfDay), kFaint);
  page.begin_chips(static_cast<int>(frame.top) + kDayHeight + 32, kDayWidth);
  page.chip(hex(fill_of(0).colour), kPageLine, "GPUs in use");
  page.line_chip(fmt::format("stroke=\"{}\" stroke-width=\"3\"", kInk),
                 "a change, with the GPUs that it takes");
  page.line_chip(fmt::format("stroke=\"{}\" stroke-dasharray=\"6 4\"", kFaint),
                 fmt::format("a plan for the peak: {} GPUs", day.peak_gpus));
  const int bottom = page.end_chips() + kPageMargin;
  return std::move(page).page(kDayWidth, bottom, "GPUs over the day", summary);
}

}  // namespace partita::forms
