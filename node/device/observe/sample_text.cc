#include "device/observe/sample_text.h"

#include <fmt/format.h>

#include "base/table.h"
#include "base/terminal.h"
#include "base/unicode.h"

namespace partita::observe {
namespace {

using telemetry::GpuSample;
using telemetry::InstanceSample;

template <class Unit>
std::string whole(const std::optional<Unit>& value) {
  return value ? fmt::format("{:.0f}", value->value) : "-";
}

std::string tenths(const std::optional<Watts>& value) {
  return value ? fmt::format("{:.1f}", value->value) : "-";
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.0f}", 100 * *share) : "-";
}

std::vector<std::string> gpu_row(const GpuSample& gpu, const std::optional<Watts>& mean) {
  std::string slow;
  for (const std::string& reason : gpu.throttle) slow += (slow.empty() ? "" : ", ") + reason;
  return {std::to_string(gpu.index),
          gpu.model.empty() ? "-" : gpu.model,
          tenths(gpu.power),
          tenths(mean ? mean : gpu.power_average),
          whole(gpu.power_limit),
          gpu.energy ? number_text(gpu.energy->value / 1000) : "-",
          whole(gpu.temperature),
          whole(gpu.memory_temperature),
          whole(gpu.sm_clock),
          percent(gpu.activity.graphics_engine),
          std::to_string(gpu.processes.size()),
          slow.empty() ? "-" : slow};
}

std::vector<std::string> instance_row(const GpuSample& gpu, const InstanceSample& one) {
  int processes = 0;
  for (const telemetry::Process& process : gpu.processes) processes += process.gi_id == one.gi_id;
  return {std::to_string(gpu.index),
          std::to_string(one.gi_id),
          one.profile.empty() ? "-" : one.profile,
          percent(one.activity.graphics_engine),
          percent(one.activity.sm),
          percent(one.activity.tensor),
          percent(one.activity.fp32),
          percent(one.activity.fp64),
          percent(one.activity.dram),
          whole(one.memory_used),
          std::to_string(processes),
          one.uuid.empty() ? "-" : one.uuid};
}

// ---- Prometheus

struct Metric {
  const char *name, *type, *help;
};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : utf8(printable(text))) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string labels_of(const GpuSample& gpu, const InstanceSample* one) {
  std::string labels = fmt::format("gpu=\"{}\",UUID=\"{}\",modelName=\"{}\"", gpu.index,
                                   escaped(gpu.uuid), escaped(gpu.model));
  if (one)
    labels +=
        fmt::format(",GPU_I_ID=\"{}\",GPU_I_PROFILE=\"{}\"", one->gi_id, escaped(one->profile));
  return labels;
}

class Scrape {
 public:
  template <class Value>  // of a GPU: optional<double>
  void of_gpus(const telemetry::Sample& sample, const Metric& metric, Value value) {
    head_ = &metric;
    for (const GpuSample& gpu : sample.gpus) put(labels_of(gpu, nullptr), value(gpu));
  }
  template <class Value>
  void of_instances(const telemetry::Sample& sample, const Metric& metric, Value value) {
    head_ = &metric;
    for (const GpuSample& gpu : sample.gpus)
      for (const InstanceSample& one : gpu.instances) put(labels_of(gpu, &one), value(one));
  }
  std::string take() { return std::move(text_); }

  void put(const std::string& labels, std::optional<double> value) {
    if (!value) return;
    if (head_ != last_)
      text_ +=
          fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", head_->name, head_->help, head_->type);
    last_ = head_;
    text_ += fmt::format("{}{{{}}} {}\n", head_->name, labels, *value);
  }

 private:
  const Metric* head_ = nullptr;
  const Metric* last_ = nullptr;
  std::string text_;
};

template <class Unit>
std::optional<double> bare(const std::optional<Unit>& value) {
  return value ? std::optional(value->value) : std::nullopt;
}

void activities(Scrape& scrape, const telemetry::Sample& sample) {
  using Share = std::optional<double> telemetry::Activity::*;
  static constexpr Metric kMetrics[] = {
      {"partita_instance_engine_active_ratio", "gauge", "Share of time the instance was busy."},
      {"partita_instance_sm_active_ratio", "gauge", "Mean share of its SMs with a warp."},
      {"partita_instance_tensor_active_ratio", "gauge", "Share of time its tensor pipes worked."},
      {"partita_instance_dram_active_ratio", "gauge", "Share of its memory bandwidth in use."}};
  static constexpr Share kShares[] = {&telemetry::Activity::graphics_engine,
                                      &telemetry::Activity::sm, &telemetry::Activity::tensor,
                                      &telemetry::Activity::dram};
  for (std::size_t i = 0; i < std::size(kMetrics); ++i)
    scrape.of_instances(sample, kMetrics[i],
                        [&](const InstanceSample& one) { return one.activity.*kShares[i]; });
}

}  // namespace

std::string sample_text(const telemetry::Sample& sample, const MeanPowers& means) {
  if (sample.gpus.empty()) return "no GPU\n";
  Table gpus{{"gpu", "model", "W", "mean W", "limit W", "kJ", "C", "memory C", "SM MHz", "busy %",
              "processes", "slowed by"},
             {}};
  Table instances{{"gpu", "gi", "profile", "busy %", "SM %", "tensor %", "fp32 %", "fp64 %",
                   "DRAM %", "MiB", "processes", "device"},
                  {}};
  for (std::size_t i = 0; i < sample.gpus.size(); ++i) {
    const GpuSample& gpu = sample.gpus[i];
    gpus.rows.push_back(gpu_row(gpu, i < means.size() ? means[i] : std::nullopt));
    for (const InstanceSample& one : gpu.instances)
      instances.rows.push_back(instance_row(gpu, one));
  }
  std::string text = to_string(gpus);
  if (!instances.rows.empty()) text += "\n" + to_string(instances);
  return text;
}

std::string prometheus_text(const telemetry::Sample& sample) {
  static constexpr Metric kPower{"partita_gpu_power_watts", "gauge", "Power of the board now."};
  static constexpr Metric kEnergy{"partita_gpu_energy_joules_total", "counter",
                                  "Energy of the board since its driver was loaded."};
  static constexpr Metric kLimit{"partita_gpu_power_limit_watts", "gauge", "Limit in force."};
  static constexpr Metric kChip{"partita_gpu_temperature_celsius", "gauge", "Of the chip."};
  static constexpr Metric kMemory{"partita_gpu_memory_temperature_celsius", "gauge",
                                  "Of the memory."};
  static constexpr Metric kClock{"partita_gpu_sm_clock_hertz", "gauge", "Clock of the SMs."};
  static constexpr Metric kSlow{"partita_gpu_throttled", "gauge",
                                "1 while power or heat slows the GPU down."};
  static constexpr Metric kUsed{"partita_instance_memory_used_bytes", "gauge",
                                "Memory that its processes hold."};
  Scrape scrape;
  scrape.of_gpus(sample, kPower, [](const GpuSample& gpu) { return bare(gpu.power); });
  scrape.of_gpus(sample, kEnergy, [](const GpuSample& gpu) { return bare(gpu.energy); });
  scrape.of_gpus(sample, kLimit, [](const GpuSample& gpu) { return bare(gpu.power_limit); });
  scrape.of_gpus(sample, kChip, [](const GpuSample& gpu) { return bare(gpu.temperature); });
  scrape.of_gpus(sample, kMemory,
                 [](const GpuSample& gpu) { return bare(gpu.memory_temperature); });
  scrape.of_gpus(sample, kClock, [](const GpuSample& gpu) {
    return gpu.sm_clock ? std::optional(gpu.sm_clock->value * 1e6) : std::nullopt;
  });
  scrape.of_gpus(sample, kSlow, [](const GpuSample& gpu) -> std::optional<double> {
    double slowed = 0;
    for (const std::string& reason : gpu.throttle)
      if (reason.find("thermal") != std::string::npos || reason.find("power") != std::string::npos)
        slowed = 1;
    return slowed;
  });
  activities(scrape, sample);
  scrape.of_instances(sample, kUsed, [](const InstanceSample& one) {
    return one.memory_used ? std::optional(one.memory_used->value * (1 << 20)) : std::nullopt;
  });
  return scrape.take();
}

}  // namespace partita::observe
