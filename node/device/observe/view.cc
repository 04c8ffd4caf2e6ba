#include "device/observe/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/unicode.h"

namespace partita::observe {
namespace {

constexpr std::size_t kMostPast = 240;
constexpr int kPowerOfGpu = -1;
constexpr int kNotedWidth = 34;  // of an instance with what runs there
constexpr Rgb kCool{126, 200, 140}, kWarm{235, 200, 95}, kHot{235, 120, 100};

double share_of(double value, double most) {
  return most > 0 ? std::clamp(value / most, 0.0, 1.0) : 0;
}

// "[#####.....]", filled by colour or by signs.
std::string bar(double share, int width, const Painter& painter, bool colour) {
  const int full = static_cast<int>(std::lround(share * width));
  const Rgb fill = share > 0.9 ? kHot : share > 0.7 ? kWarm : kCool;
  const std::string filled = repeated(colour ? " " : "#", full);
  const std::string rest = repeated(colour ? "·" : ".", width - full);
  return (colour && full > 0 ? painter.filled(filled, fill) : filled) + painter.dim(rest);
}

template <class Unit>
std::string shown_value(const std::optional<Unit>& value, const char* unit) {
  return value ? fmt::format("{:.0f} {}", value->value, unit) : fmt::format("- {}", unit);
}

double power_share(const telemetry::GpuSample& gpu) {
  const Watts power = gpu.power.value_or(gpu.power_average.value_or(Watts{}));
  return share_of(power.value, gpu.power_limit.value_or(Watts{1000}).value);
}

}  // namespace

std::string sparkline(const std::deque<double>& shares, int width) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::size_t room = static_cast<std::size_t>(std::max(0, width));
  const std::size_t skipped = shares.size() - std::min(shares.size(), room);
  std::string line = repeated(" ", static_cast<int>(room - std::min(shares.size(), room)));
  for (std::size_t i = skipped; i < shares.size(); ++i)
    line += kBlocks[static_cast<std::size_t>(std::clamp(std::lround(shares[i] * 7), 0L, 7L))];
  return line;
}

void View::remember(int gpu, int gi_id, double share) {
  std::deque<double>& shares = past_[{gpu, gi_id}].shares;
  shares.push_back(share);
  if (shares.size() > kMostPast) shares.pop_front();
}

void View::add(const telemetry::Sample& sample) {
  last_ = sample;
  for (const telemetry::GpuSample& gpu : sample.gpus) {
    remember(gpu.index, kPowerOfGpu, power_share(gpu));
    for (const telemetry::InstanceSample& one : gpu.instances)
      remember(gpu.index, one.gi_id, one.activity.graphics_engine.value_or(0));
  }
  // Instances that are gone have no past.
  std::erase_if(past_, [&](const auto& entry) {
    const auto gpu =
        std::ranges::find(sample.gpus, entry.first.first, &telemetry::GpuSample::index);
    if (gpu == sample.gpus.end()) return true;
    return entry.first.second != kPowerOfGpu &&
           std::ranges::count(gpu->instances, entry.first.second,
                              &telemetry::InstanceSample::gi_id) == 0;
  });
}

std::string View::gpu_lines(const telemetry::GpuSample& gpu, const ViewOptions& options) const {
  const Painter painter(options.colour);
  const std::string title =
      fmt::format("GPU {}  {}", gpu.index, gpu.model.empty() ? gpu.uuid : gpu.model);
  std::string slow;
  for (const std::string& reason : gpu.throttle) slow += " " + reason;
  const std::string heat =
      fmt::format("{}  memory {}  SM {}{}", shown_value(gpu.temperature, "C"),
                  shown_value(gpu.memory_temperature, "C"), shown_value(gpu.sm_clock, "MHz"), slow);
  const std::string power = fit(
      fmt::format("{} of {}", shown_value(gpu.power, "W"), shown_value(gpu.power_limit, "W")), 18);
  const int room = options.width - 2 - 18 - 2 - 2;
  const int bar_width = std::max(4, room / 2), line_width = std::max(0, room - bar_width);
  std::string text = painter.bold(fit(title, std::min(options.width, 40)));
  if (options.width > 42) text += "  " + fit(heat, options.width - 42);
  text += "\n  " + power + "  " + bar(power_share(gpu), bar_width, painter, options.colour) + "  " +
          sparkline(past_.at({gpu.index, kPowerOfGpu}).shares, line_width) + "\n";
  return text;
}

std::string View::instance_line(const telemetry::GpuSample& gpu,
                                const telemetry::InstanceSample& one,
                                const ViewOptions& options) const {
  const Painter painter(options.colour);
  const int name_width = notes_.empty() ? 18 : kNotedWidth;
  const auto noted = notes_.find(one.uuid);
  std::string label = fmt::format("{} {}", one.profile.empty() ? "?" : one.profile, one.gi_id);
  if (noted != notes_.end()) label += "  " + noted->second.runs;
  const std::string name = fit(label, name_width);
  const auto busy = one.activity.graphics_engine;
  std::string numbers =
      busy ? fmt::format("{:3.0f} %  tensor {:3.0f}  DRAM {:3.0f}", 100 * *busy,
                         100 * one.activity.tensor.value_or(0), 100 * one.activity.dram.value_or(0))
           : "activity unknown";
  if (noted != notes_.end() && noted->second.watts)
    numbers = fmt::format("~{:.0f} W  ", noted->second.watts->value) + numbers;
  const int fixed = 2 + name_width + 2 + 2 + 2 + 30;
  const int room = std::max(8, options.width - fixed);
  const int bar_width = std::max(4, room / 2);
  const std::string line =
      "  " + name + "  " + bar(busy.value_or(0), bar_width, painter, options.colour) + "  ";
  const std::string past = sparkline(past_.at({gpu.index, one.gi_id}).shares, room - bar_width);
  return options.width >= fixed + 8 ? line + past + "  " + fit(numbers, 30) + "\n" : line + "\n";
}

std::string View::frame(const ViewOptions& options) const {
  std::string text;
  int lines = 0, hidden = 0;
  const auto put = [&](const std::string& piece) {
    const int more = static_cast<int>(std::ranges::count(piece, '\n'));
    if (options.height > 0 && lines + more > options.height - 1) {
      hidden += more;
      return;
    }
    lines += more;
    text += piece;
  };
  for (const telemetry::GpuSample& gpu : last_.gpus) {
    put(gpu_lines(gpu, options));
    for (const telemetry::InstanceSample& one : gpu.instances)
      put(instance_line(gpu, one, options));
  }
  if (last_.gpus.empty()) text = "no GPU\n";
  if (hidden > 0) text += fit(fmt::format("... {} more lines", hidden), options.width) + "\n";
  return text;
}

}  // namespace partita::observe
