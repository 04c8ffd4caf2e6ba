#include "forms/gantt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/terminal.h"
#include "base/unicode.h"

namespace partita::forms {
namespace {

constexpr int kMaxRowSlices = 64;  // drawn of a GPU that the catalogue does not know

// Catalogue models by the schedule's GPU; null for what the catalogue or the schedule lacks.
class Models {
 public:
  Models(const BatchSchedule& schedule, const hw::Catalogue& catalogue) {
    for (const std::string& name : schedule.gpu_models) models_.push_back(catalogue.find(name));
  }
  const hw::GpuModel* of(int gpu) const {
    const auto at = static_cast<std::size_t>(gpu);
    return gpu >= 0 && at < models_.size() ? models_[at] : nullptr;
  }
  const hw::MigProfile* profile(int gpu, const std::string& name) const {
    const hw::GpuModel* model = of(gpu);
    const int at = model ? model->profile_index(name) : -1;
    return at < 0 ? nullptr : &model->profiles[static_cast<std::size_t>(at)];
  }

 private:
  std::vector<const hw::GpuModel*> models_;
};

Nanos drawn(Nanos time) { return std::clamp<Nanos>(time, 0, kMaxBatchTime); }

// Unknown models get as many slices as their instances need.
void fit_into(GpuRow& lane, const hw::GpuModel* model) {
  int needed = 1;
  for (const auto* bars : {&lane.tasks, &lane.changes})
    for (const Bar& bar : *bars)
      needed = std::max(needed, std::clamp(bar.first, 0, kMaxRowSlices - 1) + 1);
  lane.slices = model ? model->memory_slices : needed;
  for (auto* bars : {&lane.tasks, &lane.changes}) {
    for (Bar& bar : *bars) {
      bar.first = std::clamp(bar.first, 0, lane.slices - 1);
      bar.slices = std::clamp(bar.slices, 1, lane.slices - bar.first);
    }
  }
}

// Rounded up to two digits, so that "at most" is true.
std::string percent_above(double share) {
  const double percent = std::max(100 * share, 0.01);
  const double unit = std::pow(10, std::floor(std::log10(percent)) - 1);
  return number_text(std::ceil(percent / unit - 1e-9) * unit);
}

std::string bound_text(const BatchSchedule& schedule) {
  const Nanos bound = schedule.lower_bound;
  if (bound <= 0) return schedule.optimal ? "optimal" : "no lower bound stated";
  std::string text = fmt::format("lower bound {}: ", seconds_text(bound));
  if (schedule.optimal || bound == schedule.makespan) return text + "optimal";
  if (bound > schedule.makespan) return text + "above the makespan";
  return text + fmt::format("at most {} % above the optimum",
                            percent_above(static_cast<double>(schedule.makespan - bound) /
                                          static_cast<double>(bound)));
}

std::string gpus_text(const std::vector<std::string>& models) {
  std::vector<std::pair<std::string_view, int>> counts;
  for (const std::string& model : models) {
    const auto found = std::ranges::find(counts, model, &std::pair<std::string_view, int>::first);
    if (found == counts.end()) {
      counts.emplace_back(model, 1);
    } else {
      ++found->second;
    }
  }
  std::string text;
  for (const auto& [model, count] : counts)
    text += fmt::format("{}{} × {}", text.empty() ? "" : ", ", count, utf8(printable(model)));
  return text.empty() ? "no GPU" : text;
}

double length(Nanos begin, Nanos end) {
  return seconds(std::max<Nanos>(0, drawn(end) - drawn(begin))).value;
}

}  // namespace

std::vector<GpuRow> gpu_rows(const BatchSchedule& schedule, const hw::Catalogue& catalogue) {
  const Models models(schedule, catalogue);
  std::map<int, GpuRow> lanes;
  for (std::size_t i = 0; i < schedule.gpu_models.size(); ++i)
    lanes[static_cast<int>(i)].model = schedule.gpu_models[i];
  const auto bar = [&](const auto& item) {
    const hw::MigProfile* profile = models.profile(item.gpu, item.profile);
    return Bar{item.start, profile ? profile->size : 1, drawn(item.begin), drawn(item.end)};
  };
  for (const ScheduledTask& task : schedule.tasks) {
    auto& bars = lanes[task.gpu].tasks;
    bars.push_back(bar(task));
    bars.back().task = &task;
  }
  for (const Reconfiguration& change : schedule.reconfigurations) {
    auto& bars = lanes[change.gpu].changes;
    bars.push_back(bar(change));
    bars.back().change = &change;
  }
  std::vector<GpuRow> all;
  for (auto& [gpu, lane] : lanes) {
    lane.gpu = gpu;
    fit_into(lane, models.of(gpu));
    all.push_back(std::move(lane));
  }
  return all;
}

Nanos last_end(const BatchSchedule& schedule) {
  Nanos end = 1;
  for (const ScheduledTask& task : schedule.tasks) end = std::max(end, drawn(task.end));
  for (const Reconfiguration& r : schedule.reconfigurations) end = std::max(end, drawn(r.end));
  return end;
}

std::vector<Nanos> ticks(Nanos end, int most) {
  Nanos step = 1;
  for (int i = 0; end / step > most; ++i) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
  std::vector<Nanos> all;
  for (Nanos tick = 0; tick <= end; tick += step) all.push_back(tick);
  return all;
}

std::string instance_text(const ScheduledTask& task) {
  return fmt::format("{}@{}", utf8(printable(task.profile)), task.start);
}

std::string seconds_text(Nanos time) { return duration_text(seconds(time).value); }

std::string AxisUnit::number(Nanos time) const {
  return fmt::format("{:.10g}", static_cast<double>(time) / nanos);
}

AxisUnit axis_unit(Nanos end) {
  if (end < 1'000) return {1, "ns"};
  if (end < 1'000'000) return {1e3, "us"};
  if (end < 1'000'000'000) return {1e6, "ms"};
  return {};
}

std::string axis_text(Nanos end, int head, int cells, int columns_per_tick) {
  const AxisUnit unit = axis_unit(end);
  std::string ruler, numbers;
  for (const Nanos tick : ticks(end, std::max(1, cells / columns_per_tick))) {
    const double share = static_cast<double>(tick) / static_cast<double>(end);
    const int at = static_cast<int>(std::lround(share * cells));
    ruler += repeated("─", at - columns(ruler)) + (tick == 0 ? "└" : "┴");
    const std::string number = unit.number(tick);
    const int left = at - static_cast<int>(number.size()) / 2 + head;
    const int taken = static_cast<int>(numbers.size());
    if (left <= taken && tick > 0) continue;
    numbers += std::string(static_cast<std::size_t>(left - taken), ' ') + number;
  }
  ruler += repeated("─", cells + 1 - columns(ruler));
  return std::string(static_cast<std::size_t>(head), ' ') + ruler + "\n" + numbers + " " +
         unit.name + "\n";
}

std::string makespan_text(const BatchSchedule& schedule) {
  return fmt::format("makespan {} on {} ({})", seconds_text(schedule.makespan),
                     gpus_text(schedule.gpu_models), bound_text(schedule));
}

std::string effort_text(const BatchSchedule& schedule, const hw::Catalogue& catalogue) {
  const Models models(schedule, catalogue);
  long counts[2] = {0, 0};
  double times[2] = {0, 0};
  for (const Reconfiguration& change : schedule.reconfigurations) {
    const int op = change.op == Reconfiguration::Op::create ? 0 : 1;
    ++counts[op];
    times[op] += length(change.begin, change.end);
  }
  double used = 0, offered = 0;
  for (const ScheduledTask& task : schedule.tasks)
    if (const hw::MigProfile* profile = models.profile(task.gpu, task.profile))
      used += profile->gpcs * length(task.begin, task.end);
  for (std::size_t i = 0; i < schedule.gpu_models.size(); ++i)
    if (const hw::GpuModel* model = models.of(static_cast<int>(i)))
      offered += model->compute_slices * length(0, schedule.makespan);
  std::string text =
      fmt::format("{} take {}, {} {}", count_text(counts[0], "create"), duration_text(times[0]),
                  count_text(counts[1], "destroy"), duration_text(times[1]));
  if (offered > 0)
    text += fmt::format("; tasks keep {:.0f} % of the compute slices busy", 100 * used / offered);
  return text;
}

}  // namespace partita::forms
