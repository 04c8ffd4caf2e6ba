#include "queue/hours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/index.h"

namespace partita::queue {
namespace {

constexpr double kLookAgainS = 60;
// A task may take longer than it does on average by so many standard deviations.
constexpr double kDeviations = 2;
constexpr auto kSecondNs = static_cast<double>(plan::kNanosInSecond);

std::string change(const char* format, double then, double now) {
  return fmt::format(fmt::runtime(format), then, now);
}

}  // namespace

void Hours::came(const Task& task) {
  if (tariff_.empty() || !task.spec.flexible || !task.spec.deadline_s) return;
  held_.insert(task.id);
  next_s_ = 0;
}

void Hours::forget(long task) {
  held_.erase(task);
  later_.erase(task);
}

bool Hours::choose(const planners::batch::CheapHours& look, const std::vector<long>& hurried) {
  bool any = !hurried.empty();
  for (const long task : hurried) forget(task);
  later_.clear();
  next_s_ = look.now_s + kLookAgainS;
  if (look.tasks.empty()) return any;
  const auto chosen = planners::batch::cheap_hours(tariff_, look);
  for (std::size_t t = 0; t < look.tasks.size(); ++t) {
    const auto& task = look.tasks[t];
    if (!chosen || chosen->begin_s[t] <= look.now_s) {
      forget(task.id);
      any = true;
      continue;
    }
    later_[task.id] = {chosen->begin_s[t], chosen->begin_s[t] + task.length_s};
    next_s_ = std::min(next_s_, chosen->begin_s[t]);
  }
  return any;
}

std::optional<Nanos> Hours::next() const {
  if (held_.empty()) return {};
  return static_cast<Nanos>(std::ceil(next_s_ * kSecondNs));
}

std::optional<Hours::Later> Hours::later(long task) const {
  const auto found = later_.find(task);
  if (found == later_.end()) return {};
  return found->second;
}

std::string Hours::why(const Later& later, double now_s) const {
  const double length_s = later.end_s - later.begin_s;
  std::string text = "waits until " + plan::utc_text(later.begin_s);
  const auto then = plan::mean_rate(tariff_, later.begin_s, later.end_s);
  const auto now = plan::mean_rate(tariff_, now_s, now_s + length_s);
  if (!then || !now) return text + " for cheaper hours";
  std::string more;
  if (then->price) more += change("costs {:.4g} then and {:.4g} now", *then->price, *now->price);
  if (then->co2_g)
    more += (more.empty() ? "" : ", ") +
            change("is {:.4g} g of CO2 then and {:.4g} now", *then->co2_g, *now->co2_g);
  return text + ": a kWh " + more;
}

std::optional<Fastest> fastest(const planners::batch::LiveTask& task,
                               const std::vector<hw::GpuModel>& models) {
  std::optional<Fastest> slowest;  // of the models: it may get any of them
  for (std::size_t m = 0; m < models.size(); ++m) {
    std::optional<Fastest> best;
    for (std::size_t p = 0; p < models[m].profiles.size(); ++p) {
      const hw::MigProfile& profile = models[m].profiles[p];
      const Nanos time = task.times[m].by_gpcs[at(profile.gpcs)];
      if ((task.profiles[m] >> p & 1U) == 0 || time <= 0) continue;
      const double length_s =
          static_cast<double>(time) / kSecondNs * (1 + kDeviations * task.cv);
      if (!best || length_s < best->length_s)
        best = {length_s, static_cast<int>(p), profile.max_instances, profile.gpcs * task.width};
    }
    if (best && (!slowest || best->length_s > slowest->length_s)) slowest = best;
  }
  return slowest;
}

}  // namespace partita::queue
