#include "drivers/amd_smi/amd_smi_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "device/call.h"
#include "device/recognise.h"
#include "drivers/amd_smi/amd_smi_library.h"
#include "hw/telemetry/physics.h"

namespace partita::drivers::amd_smi {
namespace {

using abi::AmdProcessor;
using abi::AmdStatus;
using device::Call;
using device::Method;

constexpr std::uint32_t kMaxProcessors = 1024;
// Boards that name fewer clocks than this take any within their range; steps of it are offered.
constexpr std::size_t kFewClocks = 4;
constexpr double kClockStepMhz = 50;

using telemetry::plausible;

std::optional<Watts> watts(double value) { return telemetry::plausible_power(value); }

std::optional<double> share(std::uint32_t percent) {
  return percent <= 100 ? std::optional(percent / 100.0) : std::nullopt;
}

template <std::size_t size>
std::string text(const char (&field)[size]) {
  return {field, std::find(field, field + size, '\0')};
}

class AmdSmiDriver final : public device::NodeDriver {
 public:
  AmdSmiDriver(const hw::Catalogue& catalogue, std::unique_ptr<AmdSmiLibrary> library,
               std::vector<AmdProcessor> gpus)
      : catalogue_(catalogue),
        library_(std::move(library)),
        api_(library_->api()),
        gpus_(std::move(gpus)) {}

  Result<device::DriverInfo> info() override;
  Result<device::GpuState> read(int gpu) override;
  Result<std::vector<device::ProfileInfo>> profiles(int gpu) override;
  Result<device::ModeChange> set_mig_mode(int gpu, bool enabled) override {
    return no_mig({Method::set_mig_mode, {gpu, enabled}}, gpu);
  }
  Result<int> create_instance(int gpu, const device::Placement& at) override {
    return no_mig({Method::create_instance, {gpu, at.nvml_enum, at.start}}, gpu);
  }
  Result<void> destroy_instance(int gpu, int gi_id) override {
    return no_mig({Method::destroy_instance, {gpu, gi_id}}, gpu);
  }
  Result<device::ComputeInstance> create_compute(int gpu, int gi_id) override {
    return no_mig({Method::create_compute, {gpu, gi_id}}, gpu);
  }
  Result<void> destroy_compute(int gpu, int gi_id, int ci_id) override {
    return no_mig({Method::destroy_compute, {gpu, gi_id, ci_id}}, gpu);
  }
  Result<telemetry::GpuSample> telemetry(int gpu) override;
  Result<device::PowerState> power_settings(int gpu) override;
  Result<void> set_power_settings(int gpu, const device::PowerSettings& settings) override;

 private:
  // What is asked of a GPU, in a call of the door.
  template <class Ask>
  auto asked_of(int gpu, const Call& call, Ask ask) const -> decltype(ask(AmdProcessor{})) {
    using Answer = decltype(ask(AmdProcessor{}));
    const auto found = find(gpu);
    return device::in_call(found ? ask(*found) : Answer(failed(found.error())), to_string(call));
  }
  Result<AmdProcessor> find(int gpu) const {
    if (gpu < 0 || static_cast<std::size_t>(gpu) >= gpus_.size())
      return failed({ErrorCode::not_found,
                     fmt::format("there is no such GPU; AMD SMI lists {}", gpus_.size()),
                     {}});
    return gpus_[static_cast<std::size_t>(gpu)];
  }
  tl::unexpected<Error> no_mig(const Call& call, int gpu) const;

  // What a function with one number answers; nothing where it does not.
  template <class Number, class Function, class... Arguments>
  std::optional<Number> asked(Function function, Arguments... arguments) const {
    Number value{};
    if (function == nullptr || function(arguments..., &value) != AmdStatus::success)
      return std::nullopt;
    return value;
  }

  Result<std::string> uuid_of(AmdProcessor gpu) const;
  Result<device::GpuState> state_of(AmdProcessor gpu, int index) const;
  Result<telemetry::GpuSample> sample_of(AmdProcessor gpu, int index) const;
  void read_power(AmdProcessor gpu, telemetry::GpuSample& sample) const;
  void read_heat(AmdProcessor gpu, telemetry::GpuSample& sample) const;
  std::vector<std::string> throttle_of(AmdProcessor gpu) const;
  std::vector<Mhz> clocks_of(AmdProcessor gpu) const;
  Result<device::PowerState> settings_of(AmdProcessor gpu) const;
  Result<void> set_limit(AmdProcessor gpu, const device::PowerState& board,
                         const device::PowerSettings& settings) const;
  Result<void> set_clocks(AmdProcessor gpu, const device::PowerState& board,
                          const device::PowerSettings& settings) const;
  Result<void> set(AmdProcessor gpu, const device::PowerSettings& settings) const;

  const hw::Catalogue& catalogue_;
  std::unique_ptr<AmdSmiLibrary> library_;
  const AmdSmiApi& api_;
  std::vector<AmdProcessor> gpus_;
};

tl::unexpected<Error> AmdSmiDriver::no_mig(const Call& call, int gpu) const {
  const auto refused = asked_of(gpu, call, [](AmdProcessor) -> Result<void> {
    return failed({ErrorCode::not_supported,
                   "AMD GPUs have no MIG; their partitions (SPX, CPX ...) are set with "
                   "amd-smi, and every partition is a GPU here",
                   {}});
  });
  return failed(refused.error());
}

Result<device::DriverInfo> AmdSmiDriver::info() {
  std::string version = "amd_smi " + library_->version();
  abi::AmdDriverInfo kernel{};
  if (!gpus_.empty() && api_.driver && api_.driver(gpus_[0], &kernel) == AmdStatus::success)
    version = fmt::format("{} {}, {}", text(kernel.name), text(kernel.version), version);
  return device::DriverInfo{
      .name = "amd", .version = std::move(version), .gpus = static_cast<int>(gpus_.size())};
}

// ---- reading ----

Result<std::string> AmdSmiDriver::uuid_of(AmdProcessor gpu) const {
  std::array<char, abi::kUuidSize + 1> uuid{};
  unsigned length = abi::kUuidSize;
  TRY(library_->call("amdsmi_get_gpu_device_uuid", api_.uuid, gpu, &length, uuid.data()));
  return std::string("GPU-") + uuid.data();
}

Result<device::GpuState> AmdSmiDriver::state_of(AmdProcessor gpu, int index) const {
  const auto uuid = TRY(uuid_of(gpu));
  abi::AmdAsicInfo asic{};
  TRY(library_->call("amdsmi_get_gpu_asic_info", api_.asic, gpu, &asic));
  device::GpuState state;
  state.index = index;
  state.uuid = uuid;
  state.name = text(asic.market_name);
  if (state.name.empty()) state.name = fmt::format("AMD GPU {:#x}", asic.device);
  state.pci_device_id = fmt::format("0x{:04X}{:04X}", asic.device & 0xFFFF, asic.vendor & 0xFFFF);
  if (const auto bytes = asked<std::uint64_t>(api_.memory, gpu, abi::AmdMemory::vram))
    state.memory =
        plausible(static_cast<double>(*bytes) / (1 << 20), Mib{0}, telemetry::kMostMemory)
            .value_or(Mib{});
  if (const hw::GpuModel* model = device::recognise(catalogue_, state)) state.model = model->name;
  return state;
}

Result<device::GpuState> AmdSmiDriver::read(int gpu) {
  return asked_of(gpu, {Method::read, {gpu}},
                  [&](AmdProcessor board) { return state_of(board, gpu); });
}

Result<std::vector<device::ProfileInfo>> AmdSmiDriver::profiles(int gpu) {
  return asked_of(gpu, {Method::profiles, {gpu}},
                  [](AmdProcessor) { return Result<std::vector<device::ProfileInfo>>{}; });
}

void AmdSmiDriver::read_power(AmdProcessor gpu, telemetry::GpuSample& sample) const {
  if (const auto power = asked<abi::AmdPowerInfo>(api_.power, gpu)) {
    sample.power = watts(power->current);
    sample.power_average = watts(power->average);
    if (!sample.power && !sample.power_average)
      sample.power = watts(static_cast<double>(power->socket));
  }
  std::uint64_t counter = 0, time = 0;
  float microjoules = 0;
  if (api_.energy && api_.energy(gpu, &counter, &microjoules, &time) == AmdStatus::success &&
      microjoules > 0 && counter > 0)
    sample.energy = Joules{static_cast<double>(counter) * microjoules * 1e-6};
  if (const auto cap = asked<abi::AmdPowerCap>(api_.cap, gpu, 0u))
    sample.power_limit = watts(static_cast<double>(cap->cap) * 1e-6);
}

void AmdSmiDriver::read_heat(AmdProcessor gpu, telemetry::GpuSample& sample) const {
  const auto degrees = [&](abi::AmdSensor sensor) -> std::optional<Celsius> {
    const auto told =
        asked<std::int64_t>(api_.temperature, gpu, sensor, abi::AmdTemperature::current);
    if (!told || *told == 0) return std::nullopt;
    return plausible(static_cast<double>(*told), telemetry::kLeastDegrees, telemetry::kMostDegrees);
  };
  sample.temperature = degrees(abi::AmdSensor::hotspot);  // what the board throttles by
  if (!sample.temperature) sample.temperature = degrees(abi::AmdSensor::edge);
  sample.memory_temperature = degrees(abi::AmdSensor::memory);
}

std::vector<std::string> AmdSmiDriver::throttle_of(AmdProcessor gpu) const {
  std::vector<std::string> reasons;  // sorted, with NVML's words
  const auto now = asked<abi::AmdViolations>(api_.violations, gpu);
  if (!now) return reasons;
  if (now->processor_hot == 1) reasons.emplace_back("hw_slowdown");
  if (now->socket_heat == 1 || now->regulator_heat == 1 || now->memory_heat == 1)
    reasons.emplace_back("hw_thermal");
  if (now->power == 1) reasons.emplace_back("sw_power_cap");
  return reasons;
}

Result<telemetry::GpuSample> AmdSmiDriver::sample_of(AmdProcessor gpu, int index) const {
  const auto state = TRY(state_of(gpu, index));
  telemetry::GpuSample sample;
  sample.index = index;
  sample.uuid = state.uuid;
  sample.model = state.model;
  read_power(gpu, sample);
  read_heat(gpu, sample);
  if (const auto clock = asked<abi::AmdClockInfo>(api_.clock, gpu, abi::AmdClock::graphics))
    sample.sm_clock = plausible(clock->now, Mhz{0}, telemetry::kMostClock);
  if (const auto clock = asked<abi::AmdClockInfo>(api_.clock, gpu, abi::AmdClock::memory))
    sample.memory_clock = plausible(clock->now, Mhz{0}, telemetry::kMostClock);
  if (const auto usage = asked<abi::AmdEngineUsage>(api_.activity, gpu)) {
    sample.activity.graphics_engine = share(usage->graphics);
    sample.activity.dram = share(usage->memory);
  }
  sample.throttle = throttle_of(gpu);
  return sample;
}

Result<telemetry::GpuSample> AmdSmiDriver::telemetry(int gpu) {
  return asked_of(gpu, {Method::telemetry, {gpu}},
                  [&](AmdProcessor board) { return sample_of(board, gpu); });
}

// ---- settings ----

// The levels that the board lists; where it lists its range only, steps of it.
std::vector<Mhz> AmdSmiDriver::clocks_of(AmdProcessor gpu) const {
  const auto told = asked<abi::AmdFrequencies>(api_.frequencies, gpu, abi::AmdClock::graphics);
  if (!told || told->count > abi::kMaxFrequencies) return {};
  std::vector<Mhz> clocks;
  for (std::uint32_t i = told->has_deep_sleep ? 1 : 0; i < told->count; ++i) {
    const double mhz = std::round(static_cast<double>(told->hertz[i]) * 1e-6);
    if (mhz > 0 && mhz <= telemetry::kMostClock.value) clocks.push_back(Mhz{mhz});
  }
  std::ranges::sort(clocks);
  clocks.erase(std::ranges::unique(clocks).begin(), clocks.end());
  if (clocks.size() < 2 || clocks.size() >= kFewClocks) return clocks;
  const Mhz low = clocks.front(), high = clocks.back();
  clocks.clear();
  for (Mhz clock = low; clock < high; clock = clock + Mhz{kClockStepMhz}) clocks.push_back(clock);
  clocks.push_back(high);
  return clocks;
}

Result<device::PowerState> AmdSmiDriver::settings_of(AmdProcessor gpu) const {
  device::PowerState board;
  board.clocks_told = false;
  abi::AmdPowerCap cap{};
  const auto ok = library_->call("amdsmi_get_power_cap_info", api_.cap, gpu, 0u, &cap);
  if (!ok && ok.error().code != ErrorCode::not_supported) return failed(ok.error());
  if (ok) {
    const auto of = [](std::uint64_t microwatts) {
      return watts(static_cast<double>(microwatts) * 1e-6);
    };
    board.now.limit = of(cap.cap);
    board.default_limit = of(cap.usual);
    board.most_limit = of(cap.most);
    if (board.most_limit) board.least_limit = of(cap.least).value_or(Watts{1});  // some tell 0
  }
  board.clocks = clocks_of(gpu);
  return board;
}

Result<device::PowerState> AmdSmiDriver::power_settings(int gpu) {
  return asked_of(gpu, {Method::power_settings, {gpu}},
                  [&](AmdProcessor board) { return settings_of(board); });
}

Result<void> AmdSmiDriver::set_limit(AmdProcessor gpu, const device::PowerState& board,
                                     const device::PowerSettings& settings) const {
  const auto limit = TRY(device::limit_to_set(board, settings, "power cap"));
  if (!limit) return {};
  return library_->call("amdsmi_set_power_cap", api_.set_cap, gpu, 0u,
                        static_cast<std::uint64_t>(std::llround(limit->value * 1e6)));
}

// Both ends of the range; back to automatic takes both away. The library moves one end at a time,
// and the lower must not pass the upper: so all is taken away first.
Result<void> AmdSmiDriver::set_clocks(AmdProcessor gpu, const device::PowerState& board,
                                      const device::PowerSettings& settings) const {
  const auto freed = library_->call("amdsmi_set_gpu_perf_level", api_.performance, gpu,
                                    abi::AmdPerformance::automatic);
  if (!settings.clocks) {
    if (!freed && freed.error().code == ErrorCode::not_supported) return {};  // then none are set
    return freed;
  }
  if (!freed) return freed;
  const auto limit = [&](abi::AmdClockLimit end, Mhz clock) {
    return library_->call("amdsmi_set_gpu_clk_limit", api_.limit_clock, gpu,
                          abi::AmdClock::graphics, end,
                          static_cast<std::uint64_t>(std::llround(clock.value)));
  };
  const auto [low, high] = *settings.clocks;
  TRY(limit(abi::AmdClockLimit::most, high));
  if (!board.clocks.empty() && low <= board.clocks.front()) return {};  // it is the lower end
  return limit(abi::AmdClockLimit::least, low);
}

Result<void> AmdSmiDriver::set(AmdProcessor gpu, const device::PowerSettings& settings) const {
  const auto board = TRY(settings_of(gpu));
  const bool listed = !board.clocks.empty();
  TRY(device::check_clocks(settings, listed ? board.clocks.front() : Mhz{},
                           listed ? board.clocks.back() : telemetry::kMostClock));
  TRY(set_limit(gpu, board, settings));
  return set_clocks(gpu, board, settings);
}

Result<void> AmdSmiDriver::set_power_settings(int gpu, const device::PowerSettings& settings) {
  return asked_of(gpu, device::power_call(gpu, settings),
                  [&](AmdProcessor board) { return set(board, settings); });
}

// ---- finding ----

// The handles that `list` gives: asked for their number first.
Result<std::vector<void*>> listed(
    const AmdSmiLibrary& library, const char* what,
    const std::function<AmdStatus(std::uint32_t* count, void** handles)>& list) {
  std::uint32_t count = 0;
  AmdStatus status = list(&count, nullptr);
  if (status == AmdStatus::success && count > kMaxProcessors)
    return failed({ErrorCode::environment, fmt::format("lists {} handles", count), what});
  std::vector<void*> handles(count);
  if (status == AmdStatus::success && count > 0) status = list(&count, handles.data());
  if (status != AmdStatus::success) return failed(library.error(status, what));
  handles.resize(std::min<std::size_t>(handles.size(), count));
  return handles;
}

Result<std::vector<AmdProcessor>> gpus_of(const AmdSmiLibrary& library) {
  const AmdSmiApi& api = library.api();
  if (!api.sockets || !api.processors || !api.type)
    return failed({ErrorCode::no_driver, "this AMD SMI does not list GPUs", {}});
  const auto sockets = TRY(listed(library, "amdsmi_get_socket_handles", api.sockets));
  std::vector<AmdProcessor> gpus;
  for (abi::AmdSocket socket : sockets) {
    const auto processors = listed(library, "amdsmi_get_processor_handles",
                                   [&](std::uint32_t* count, AmdProcessor* handles) {
                                     return api.processors(socket, count, handles);
                                   });
    if (!processors) return failed(processors.error());
    for (AmdProcessor processor : *processors) {
      auto type = abi::AmdProcessorType::unknown;
      TRY(library.call("amdsmi_get_processor_type", api.type, processor, &type));
      if (type == abi::AmdProcessorType::gpu) gpus.push_back(processor);
    }
  }
  return gpus;
}

}  // namespace

Result<std::unique_ptr<device::NodeDriver>> open_amd_smi(const hw::Catalogue& catalogue,
                                                         const std::string& library) {
  auto loaded = TRY(AmdSmiLibrary::open(library));
  auto gpus = TRY(gpus_of(*loaded));
  return std::make_unique<AmdSmiDriver>(catalogue, std::move(loaded), std::move(gpus));
}

}  // namespace partita::drivers::amd_smi
