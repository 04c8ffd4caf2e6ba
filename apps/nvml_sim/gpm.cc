// The performance monitor: how busy instances were between two samples. On boards from Hopper on.
#include <algorithm>
#include <optional>

#include "library.h"

namespace partita::nvml_sim {
namespace {

using abi::GpmMetricId;
using abi::GpmSample;
using drivers::sim::SimLoad;
using drivers::sim::SimPower;

constexpr unsigned kHopper = 9;
constexpr int kWholeGpu = -1;

bool monitored(const Target& target) {
  const Figures& figures = figures_of(*target.gpu.model);
  return figures.limit_w > 0 && figures.architecture >= kHopper;
}

std::uintptr_t number_of(GpmSample sample) { return reinterpret_cast<std::uintptr_t>(sample); }

// The instance's own, or what all loads come to in shares of the GPU.
std::optional<SimLoad> load_of(const SimPower& power, int gi_id) {
  if (gi_id != kWholeGpu) {
    const auto at = std::ranges::find(power.loads, gi_id, &SimLoad::gi_id);
    return at == power.loads.end() ? std::nullopt : std::optional(*at);
  }
  SimLoad all{.gi_id = kWholeGpu, .share = 1};
  for (const SimLoad& load : power.loads) {
    all.seed ^= load.seed;
    all.busy_s += load.share * load.busy_s;
  }
  return all;
}

Return take(Device device, int gi_id, GpmSample sample) {
  if (!Library::here().gpm.find(number_of(sample))) return Return::invalid_argument;
  return on_power(device, true, [&](const Target& target, const SimPower& power) {
    if (!monitored(target)) return Return::not_supported;
    const auto load = load_of(power, gi_id);
    if (!load) return Return::invalid_argument;
    Library::here().gpm.put(number_of(sample), {target.index, power.at_ns, *load});
    return Return::success;
  });
}

// Per cent; nothing for a metric that the simulation does not have.
std::optional<double> value_of(const telemetry::Activity& activity, unsigned metric) {
  const auto share = [&]() -> std::optional<double> {
    switch (static_cast<GpmMetricId>(metric)) {
      case GpmMetricId::graphics:
        return activity.graphics_engine;
      case GpmMetricId::sm:
        return activity.sm;
      case GpmMetricId::occupancy:
        return activity.occupancy;
      case GpmMetricId::integer:
        return activity.integer;
      case GpmMetricId::any_tensor:
        return activity.tensor;
      case GpmMetricId::dram:
        return activity.dram;
      case GpmMetricId::fp64:
        return activity.fp64;
      case GpmMetricId::fp32:
        return activity.fp32;
      case GpmMetricId::fp16:
        return activity.fp16;
    }
    return std::nullopt;
  }();
  return share ? std::optional(100 * *share) : std::nullopt;
}

}  // namespace

extern "C" {

Return nvmlGpmQueryDeviceSupport(Device device, abi::GpmSupport* support) {
  return on_gpu(device, given(support), [&](const Target& target) {
    if (support->version != abi::kGpmVersion) return Return::argument_version_mismatch;
    return answer(&support->supported, monitored(target) ? 1 : 0);
  });
}

Return nvmlGpmSampleAlloc(GpmSample* sample) {
  return on_boards(given(sample), [&](const Machine&) {
    *sample = reinterpret_cast<GpmSample>(Library::here().gpm.add());
    return Return::success;
  });
}

Return nvmlGpmSampleFree(GpmSample sample) {
  return on_boards(given(sample), [&](const Machine&) {
    return Library::here().gpm.remove(number_of(sample)) ? Return::success
                                                         : Return::invalid_argument;
  });
}

Return nvmlGpmSampleGet(Device device, GpmSample sample) { return take(device, kWholeGpu, sample); }

Return nvmlGpmMigSampleGet(Device device, unsigned gi_id, GpmSample sample) {
  constexpr unsigned kMostIds = 1024;
  if (gi_id >= kMostIds) return Return::invalid_argument;
  return take(device, static_cast<int>(gi_id), sample);
}

Return nvmlGpmMetricsGet(abi::GpmMetricsHead* head) {
  return on_boards(given(head), [&](const Machine&) {
    if (head->version != abi::kGpmVersion) return Return::argument_version_mismatch;
    const auto first = Library::here().gpm.find(number_of(head->first));
    const auto second = Library::here().gpm.find(number_of(head->second));
    if (!first || !second || first->at_ns < 0 || second->at_ns <= first->at_ns ||
        first->gpu != second->gpu || first->load.gi_id != second->load.gi_id)
      return Return::invalid_argument;
    const double seconds = static_cast<double>(second->at_ns - first->at_ns) * 1e-9;
    const double busy = (second->load.busy_s - first->load.busy_s) / seconds;
    const telemetry::Activity activity =
        drivers::sim::activity_of(second->load, std::clamp(busy, 0.0, 1.0));
    auto* metrics = static_cast<abi::GpmMetrics*>(head)->metrics;
    for (unsigned i = 0; i < head->count; ++i) {
      const auto value = value_of(activity, metrics[i].metric);
      metrics[i].result = value ? Return::success : Return::not_supported;
      metrics[i].value = value.value_or(0);
      metrics[i].short_name = metrics[i].long_name = metrics[i].unit = nullptr;
    }
    return Return::success;
  });
}

}  // extern "C"

}  // namespace partita::nvml_sim
