#include "drivers/nvml_mig/nvml_telemetry.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "hw/telemetry/physics.h"

namespace partita::drivers::nvml_mig {
namespace {

using abi::GpmMetricId;
using abi::Return;

constexpr unsigned kMaxClocks = 1024;

struct Reason {
  unsigned long long bit;
  const char* name;
};
// Why a board that has work to do is slower than it could be, sorted by name. The driver also gives
// a reason to boards without work; a board that rests is not slowed down.
constexpr Reason kReasons[] = {
    {abi::kReasonApplication, "applications_clocks"}, {abi::kReasonDisplay, "display_clocks"},
    {abi::kReasonPowerBrake, "hw_power_brake"},       {abi::kReasonHardware, "hw_slowdown"},
    {abi::kReasonHardwareHeat, "hw_thermal"},         {abi::kReasonPowerCap, "sw_power_cap"},
    {abi::kReasonSoftwareHeat, "sw_thermal"},         {abi::kReasonSyncBoost, "sync_boost"}};

struct Part {
  GpmMetricId metric;
  std::optional<double> telemetry::Activity::*share;
};
constexpr Part kParts[] = {
    {GpmMetricId::graphics, &telemetry::Activity::graphics_engine},
    {GpmMetricId::sm, &telemetry::Activity::sm},
    {GpmMetricId::occupancy, &telemetry::Activity::occupancy},
    {GpmMetricId::integer, &telemetry::Activity::integer},
    {GpmMetricId::any_tensor, &telemetry::Activity::tensor},
    {GpmMetricId::dram, &telemetry::Activity::dram},
    {GpmMetricId::fp64, &telemetry::Activity::fp64},
    {GpmMetricId::fp32, &telemetry::Activity::fp32},
    {GpmMetricId::fp16, &telemetry::Activity::fp16},
};
static_assert(std::size(kParts) <= abi::kGpmMostMetrics);

std::optional<Watts> watts(double milliwatts) {
  return telemetry::plausible_power(milliwatts / 1000);
}

std::optional<double> number(const abi::FieldValue& field) {
  if (field.result != Return::success) return std::nullopt;
  switch (static_cast<abi::ValueType>(field.value_type)) {
    case abi::ValueType::real:
      return field.value.real;
    case abi::ValueType::word:
      return field.value.word;
    case abi::ValueType::wide:
      return static_cast<double>(field.value.wide);
    case abi::ValueType::huge:
      return static_cast<double>(field.value.huge);
    case abi::ValueType::signed_huge:
      return static_cast<double>(field.value.signed_huge);
    case abi::ValueType::signed_word:
      return field.value.signed_word;
  }
  return std::nullopt;
}

// What a function with one number answers; nothing where it does not.
template <class Number, class Function, class... Arguments>
std::optional<Number> asked(Function function, Arguments... arguments) {
  Number value{};
  if (function == nullptr || function(arguments..., &value) != Return::success) return std::nullopt;
  return value;
}

}  // namespace

NvmlTelemetry::~NvmlTelemetry() {
  for (const auto& [key, monitored] : monitored_)
    if (api_.gpm_free != nullptr) api_.gpm_free(monitored.sample);
}

// All in one call, where the driver takes that.
void NvmlTelemetry::read_fields(abi::Device device, telemetry::GpuSample& sample) const {
  if (api_.field_values == nullptr) return;
  abi::FieldValue fields[4] = {};
  fields[0].field = abi::kFieldPowerInstant;
  fields[1].field = abi::kFieldPowerAverage;
  fields[2].field = abi::kFieldEnergy;
  fields[3].field = abi::kFieldMemoryTemperature;
  if (api_.field_values(device, static_cast<int>(std::size(fields)), fields) != Return::success)
    return;
  if (const auto now = number(fields[0])) sample.power = watts(*now);
  if (const auto mean = number(fields[1])) sample.power_average = watts(*mean);
  if (const auto energy = number(fields[2]); energy && *energy >= 0)
    sample.energy = Joules{*energy / 1000};
  if (const auto memory = number(fields[3]); memory && *memory != 0)
    sample.memory_temperature =
        telemetry::plausible(*memory, telemetry::kLeastDegrees, telemetry::kMostDegrees);
}

void NvmlTelemetry::read_board(abi::Device device, telemetry::GpuSample& sample) const {
  read_fields(device, sample);
  if (!sample.power) {
    if (const auto power = asked<unsigned>(api_.power, device)) sample.power = watts(*power);
  }
  if (!sample.energy) {
    if (const auto energy = asked<unsigned long long>(api_.energy, device))
      sample.energy = Joules{static_cast<double>(*energy) / 1000};
  }
  if (const auto limit = asked<unsigned>(api_.enforced_limit, device))
    sample.power_limit = watts(*limit);
  if (const auto chip = asked<unsigned>(api_.temperature, device, 0u))
    sample.temperature =
        telemetry::plausible(*chip, telemetry::kLeastDegrees, telemetry::kMostDegrees);
  if (const auto sm = asked<unsigned>(api_.clock, device, abi::kClockSm))
    sample.sm_clock = telemetry::plausible(*sm, Mhz{0}, telemetry::kMostClock);
  if (const auto memory = asked<unsigned>(api_.clock, device, abi::kClockMemory))
    sample.memory_clock = telemetry::plausible(*memory, Mhz{0}, telemetry::kMostClock);
  if (const auto bits = asked<unsigned long long>(api_.throttle_reasons, device))
    for (const Reason& reason : kReasons)
      if ((*bits & reason.bit) != 0) sample.throttle.emplace_back(reason.name);
}

Result<void> NvmlTelemetry::read_processes(abi::Device device, telemetry::GpuSample& sample) const {
  const auto running = TRY(reader_.processes(device));
  std::map<std::pair<std::int64_t, int>, Mib> memory;  // by pid and instance
  for (const abi::ProcessInfo& process : running) {
    const bool inside = process.gpu_instance_id != abi::kNoInstance;
    Mib& sum = memory[{process.pid, inside ? static_cast<int>(process.gpu_instance_id) : -1}];
    if (process.used_memory != abi::kNotAvailable)
      sum = std::max(sum, Mib{static_cast<double>(process.used_memory) / (1 << 20)});
  }
  for (const auto& [key, held] : memory) {
    if (held > telemetry::kMostMemory) continue;
    sample.processes.push_back({key.first, key.second, held});
    for (telemetry::InstanceSample& instance : sample.instances)
      if (instance.gi_id == key.second)
        instance.memory_used = instance.memory_used.value_or(Mib{}) + held;
  }
  return {};
}

bool NvmlTelemetry::monitors(abi::Device device) const {
  if (api_.gpm_support == nullptr || api_.gpm_alloc == nullptr || api_.gpm_free == nullptr ||
      api_.gpm_metrics == nullptr || api_.gpm_sample == nullptr || api_.gpm_mig_sample == nullptr)
    return false;
  abi::GpmSupport support{abi::kGpmVersion, 0};
  return api_.gpm_support(device, &support) == Return::success && support.supported != 0;
}

telemetry::Activity NvmlTelemetry::between(abi::GpmSample first, abi::GpmSample second) const {
  abi::GpmMetrics metrics{};
  metrics.version = abi::kGpmVersion;
  metrics.count = static_cast<unsigned>(std::size(kParts));
  metrics.first = first;
  metrics.second = second;
  for (std::size_t i = 0; i < std::size(kParts); ++i)
    metrics.metrics[i].metric = static_cast<unsigned>(kParts[i].metric);
  telemetry::Activity activity;
  if (api_.gpm_metrics(&metrics) != Return::success) return activity;
  for (std::size_t i = 0; i < std::size(kParts); ++i) {
    const abi::GpmMetric& metric = metrics.metrics[i];
    if (metric.result == Return::success && std::isfinite(metric.value))
      activity.*kParts[i].share = std::clamp(metric.value / 100, 0.0, 1.0);
  }
  return activity;
}

// Since the reading before; nothing at the first one.
telemetry::Activity NvmlTelemetry::activity(abi::Device device, int gpu, int gi_id,
                                            const std::string& uuid) {
  abi::GpmSample fresh = nullptr;
  if (api_.gpm_alloc(&fresh) != Return::success) return {};
  const Return taken = gi_id < 0 ? api_.gpm_sample(device, fresh)
                                 : api_.gpm_mig_sample(device, static_cast<unsigned>(gi_id), fresh);
  Monitored& before = monitored_[{gpu, gi_id}];
  telemetry::Activity activity;
  if (taken == Return::success && before.sample != nullptr && before.uuid == uuid)
    activity = between(before.sample, fresh);
  if (before.sample != nullptr) api_.gpm_free(before.sample);
  if (taken != Return::success) api_.gpm_free(std::exchange(fresh, nullptr));
  before = {fresh, uuid};
  return activity;
}

Result<telemetry::GpuSample> NvmlTelemetry::sample(abi::Device device,
                                                   const device::GpuState& state,
                                                   int compute_slices) {
  telemetry::GpuSample sample;
  sample.index = state.index;
  sample.uuid = state.uuid;
  sample.model = state.model;
  sample.compute_slices = compute_slices;
  for (const device::Instance& instance : state.instances) {
    telemetry::InstanceSample one;
    one.gi_id = instance.gi_id;
    one.uuid = instance.uuid();
    one.profile = instance.profile;
    one.compute_slices = instance.gpcs;
    one.memory_slices = instance.size;
    sample.instances.push_back(std::move(one));
  }
  std::ranges::sort(sample.instances, {}, &telemetry::InstanceSample::gi_id);
  read_board(device, sample);
  TRY(read_processes(device, sample));
  if (!monitors(device)) return sample;
  sample.activity = activity(device, state.index, -1, state.uuid);
  for (telemetry::InstanceSample& instance : sample.instances)
    instance.activity = activity(device, state.index, instance.gi_id, instance.uuid);
  return sample;
}

Result<device::PowerState> NvmlTelemetry::settings(abi::Device device) const {
  device::PowerState board;
  board.clocks_told = false;
  unsigned limit = 0, low = 0, high = 0;
  const auto ok = library_.call("nvmlDeviceGetPowerManagementLimit", api_.limit, device, &limit);
  if (!ok && ok.error().code != ErrorCode::not_supported) return failed(ok.error());
  if (ok) board.now.limit = Watts{limit / 1000.0};
  if (const auto usual = asked<unsigned>(api_.default_limit, device))
    board.default_limit = Watts{*usual / 1000.0};
  if (api_.limit_range != nullptr && api_.limit_range(device, &low, &high) == Return::success) {
    board.least_limit = Watts{low / 1000.0};
    board.most_limit = Watts{high / 1000.0};
  }
  if (api_.memory_clocks == nullptr || api_.graphics_clocks == nullptr) return board;
  std::vector<unsigned> memory(kMaxClocks), clocks(kMaxClocks);
  unsigned count = kMaxClocks;
  if (api_.memory_clocks(device, &count, memory.data()) != Return::success || count == 0)
    return board;
  memory.resize(std::min(count, kMaxClocks));
  count = kMaxClocks;
  if (api_.graphics_clocks(device, std::ranges::max(memory), &count, clocks.data()) !=
      Return::success)
    return board;
  clocks.resize(std::min(count, kMaxClocks));
  std::ranges::sort(clocks);
  clocks.erase(std::ranges::unique(clocks).begin(), clocks.end());
  for (const unsigned clock : clocks) board.clocks.push_back(Mhz{1.0 * clock});
  return board;
}

Result<void> NvmlTelemetry::set_limit(abi::Device device, const device::PowerState& board,
                                      const device::PowerSettings& settings) const {
  const auto limit = TRY(device::limit_to_set(board, settings, "power limit"));
  if (!limit) return {};
  return library_.call("nvmlDeviceSetPowerManagementLimit", api_.set_limit, device,
                       static_cast<unsigned>(std::lround(limit->value * 1000)));
}

Result<void> NvmlTelemetry::set_clocks(abi::Device device,
                                       const device::PowerSettings& settings) const {
  if (settings.clocks)
    return library_.call("nvmlDeviceSetGpuLockedClocks", api_.lock_clocks, device,
                         static_cast<unsigned>(std::lround(settings.clocks->low.value)),
                         static_cast<unsigned>(std::lround(settings.clocks->high.value)));
  const auto ok = library_.call("nvmlDeviceResetGpuLockedClocks", api_.unlock_clocks, device);
  if (!ok && ok.error().code == ErrorCode::not_supported) return {};  // then none are locked
  return ok;
}

Result<void> NvmlTelemetry::set(abi::Device device, const device::PowerSettings& settings) const {
  const auto board = TRY(this->settings(device));
  TRY(device::check_clocks(settings, Mhz{}, telemetry::kMostClock));
  TRY(set_limit(device, board, settings));
  return set_clocks(device, settings);
}

}  // namespace partita::drivers::nvml_mig
