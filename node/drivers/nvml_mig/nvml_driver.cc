#include "drivers/nvml_mig/nvml_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "device/call.h"
#include "drivers/nvml_mig/nvml_reader.h"
#include "drivers/nvml_mig/nvml_telemetry.h"

namespace partita::drivers::nvml_mig {
namespace {

using abi::Return;
using device::ComputeInstance;
using device::GpuState;
using device::in_call;
using device::ModeChange;

constexpr int kReadAttempts = 3;

int whole(unsigned value) { return static_cast<int>(value); }

class NvmlDriver final : public device::NodeDriver {
 public:
  NvmlDriver(const hw::Catalogue& catalogue, std::unique_ptr<NvmlLibrary> library)
      : catalogue_(catalogue),
        library_(std::move(library)),
        api_(library_->api()),
        reader_(catalogue, *library_),
        telemetry_(*library_, reader_) {}

  Result<device::DriverInfo> info() override;
  Result<GpuState> read(int gpu) override {
    return in_call(try_read(gpu), fmt::format("read(gpu {})", gpu));
  }
  Result<std::vector<device::ProfileInfo>> profiles(int gpu) override {
    return in_call(try_profiles(gpu), fmt::format("profiles(gpu {})", gpu));
  }
  Result<ModeChange> set_mig_mode(int gpu, bool enabled) override {
    return in_call(try_set_mig_mode(gpu, enabled),
                   fmt::format("set_mig_mode(gpu {}, {})", gpu, enabled ? "on" : "off"));
  }
  Result<int> create_instance(int gpu, const device::Placement& at) override {
    return in_call(
        try_create_instance(gpu, at),
        fmt::format("create_instance(gpu {}, profile {}, start {})", gpu, at.nvml_enum, at.start));
  }
  Result<void> destroy_instance(int gpu, int gi_id) override {
    return in_call(try_destroy_instance(gpu, gi_id),
                   fmt::format("destroy_instance(gpu {}, gi {})", gpu, gi_id));
  }
  Result<ComputeInstance> create_compute(int gpu, int gi_id) override {
    return in_call(try_create_compute(gpu, gi_id),
                   fmt::format("create_compute(gpu {}, gi {})", gpu, gi_id));
  }
  Result<void> destroy_compute(int gpu, int gi_id, int ci_id) override {
    return in_call(try_destroy_compute(gpu, gi_id, ci_id),
                   fmt::format("destroy_compute(gpu {}, gi {}, ci {})", gpu, gi_id, ci_id));
  }
  Result<telemetry::GpuSample> telemetry(int gpu) override {
    return in_call(try_telemetry(gpu), fmt::format("telemetry(gpu {})", gpu));
  }
  Result<device::PowerState> power_settings(int gpu) override {
    return in_call(try_power_settings(gpu), fmt::format("power_settings(gpu {})", gpu));
  }
  Result<void> set_power_settings(int gpu, const device::PowerSettings& settings) override {
    return in_call(try_set_power_settings(gpu, settings),
                   to_string(device::power_call(gpu, settings)));
  }

 private:
  Result<telemetry::GpuSample> try_telemetry(int gpu);
  Result<device::PowerState> try_power_settings(int gpu);
  Result<void> try_set_power_settings(int gpu, const device::PowerSettings& settings);
  Result<GpuState> try_read(int gpu);
  Result<std::vector<device::ProfileInfo>> try_profiles(int gpu);
  Result<ModeChange> try_set_mig_mode(int gpu, bool enabled);
  Result<int> try_create_instance(int gpu, const device::Placement& placement);
  Result<void> try_destroy_instance(int gpu, int gi_id);
  Result<ComputeInstance> try_create_compute(int gpu, int gi_id);
  Result<void> try_destroy_compute(int gpu, int gi_id, int ci_id);
  Result<abi::GpuInstance> find_instance(int gpu, int gi_id);
  Result<abi::Place> place_of(abi::Device device, unsigned profile_id, int start);
  Result<abi::ComputeInstanceProfile> widest(abi::GpuInstance handle);

  const hw::Catalogue& catalogue_;
  std::unique_ptr<NvmlLibrary> library_;
  const NvmlApi& api_;
  NvmlReader reader_;
  NvmlTelemetry telemetry_;
};

Result<device::DriverInfo> NvmlDriver::info() {
  std::array<char, abi::kVersionSize> version{};
  TRY(library_->call("nvmlSystemGetDriverVersion", api_.driver_version, version.data(),
                     abi::kVersionSize));
  const unsigned gpus = TRY(reader_.count());
  return device::DriverInfo{.name = "nvml", .version = version.data(), .gpus = whole(gpus)};
}

Result<GpuState> NvmlDriver::try_read(int gpu) {
  const Result<abi::Device> device = reader_.find(gpu);
  if (!device && device.error().code == ErrorCode::lost) {
    GpuState state;
    state.index = gpu;
    state.lost = true;
    return state;
  }
  if (!device) return failed(device.error());
  Result<GpuState> state = reader_.state(*device, gpu);
  // An instance that somebody else destroys between two of the calls leaves a handle that is gone.
  for (int attempt = 1; attempt < kReadAttempts && !state && absent(state.error()); ++attempt)
    state = reader_.state(*device, gpu);
  return state;
}

Result<std::vector<device::ProfileInfo>> NvmlDriver::try_profiles(int gpu) {
  const abi::Device device = TRY(reader_.find(gpu));
  return reader_.profiles(device);
}

Result<ModeChange> NvmlDriver::try_set_mig_mode(int gpu, bool enabled) {
  const abi::Device device = TRY(reader_.find(gpu));
  const std::string call = "nvmlDeviceSetMigMode";
  Return activation = Return::success;
  TRY(library_->call(call, api_.set_mig_mode, device, enabled ? 1u : 0u, &activation));
  if (activation == Return::reset_required) return ModeChange::pending_reset;
  if (activation != Return::success) return failed(library_->error(activation, call));
  unsigned current = 0, pending = 0;
  TRY(library_->call("nvmlDeviceGetMigMode", api_.mig_mode, device, &current, &pending));
  return (current == 1) == enabled ? ModeChange::done : ModeChange::pending_reset;
}

Result<abi::Place> NvmlDriver::place_of(abi::Device device, unsigned profile_id, int start) {
  const auto places = TRY(reader_.placements(device, profile_id));
  const auto place = std::ranges::find(
      places, start, [](const abi::Place& possible) { return whole(possible.start); });
  if (place == places.end())
    return failed({ErrorCode::invalid_argument, "this profile cannot start there", {}});
  return *place;
}

Result<int> NvmlDriver::try_create_instance(int gpu, const device::Placement& placement) {
  const abi::Device device = TRY(reader_.find(gpu));
  const auto known = reader_.profile(device, static_cast<unsigned>(placement.nvml_enum));
  if (!known && absent(known.error()))
    return failed({ErrorCode::invalid_argument, "the board has no such profile", {}});
  if (!known) return failed(known.error());
  const auto place = TRY(place_of(device, known->figures.id, placement.start));
  abi::GpuInstance handle = nullptr;
  TRY(library_->call("nvmlDeviceCreateGpuInstanceWithPlacement", api_.create_instance, device,
                     known->figures.id, &place, &handle));
  abi::GpuInstanceInfo info{};
  TRY(library_->call("nvmlGpuInstanceGetInfo", api_.instance_info, handle, &info));
  return whole(info.id);
}

Result<abi::GpuInstance> NvmlDriver::find_instance(int gpu, int gi_id) {
  const abi::Device device = TRY(reader_.find(gpu));
  abi::GpuInstance handle = nullptr;
  const auto ok = library_->call("nvmlDeviceGetGpuInstanceById", api_.instance_by_id, device,
                                 static_cast<unsigned>(gi_id), &handle);
  if (!ok) return failed(no_such(ok.error()));
  return handle;
}

Result<void> NvmlDriver::try_destroy_instance(int gpu, int gi_id) {
  const abi::GpuInstance handle = TRY(find_instance(gpu, gi_id));
  return library_->call("nvmlGpuInstanceDestroy", api_.destroy_instance, handle);
}

// The compute instance profile with all slices, of several the one with the most SMs.
Result<abi::ComputeInstanceProfile> NvmlDriver::widest(abi::GpuInstance handle) {
  std::optional<abi::ComputeInstanceProfile> best;
  const std::string call = "nvmlGpuInstanceGetComputeInstanceProfileInfo";
  for (unsigned i = 0; i < kMaxProfiles; ++i) {
    abi::ComputeInstanceProfile known{};
    const auto ok = library_->call(call, api_.compute_profile, handle, i, 0u, &known);
    if (!ok && past_the_last(ok.error(), i)) break;
    if (!ok && absent(ok.error())) continue;
    if (!ok) return failed(ok.error());
    if (!best || std::pair(known.slices, known.multiprocessors) >
                     std::pair(best->slices, best->multiprocessors))
      best = known;
  }
  if (!best) return failed({ErrorCode::not_supported, "the instance has no compute profile", call});
  return *best;
}

Result<ComputeInstance> NvmlDriver::try_create_compute(int gpu, int gi_id) {
  const abi::GpuInstance handle = TRY(find_instance(gpu, gi_id));
  const auto profile = TRY(widest(handle));
  abi::ComputeInstance made = nullptr;
  TRY(library_->call("nvmlGpuInstanceCreateComputeInstance", api_.create_compute, handle,
                     profile.id, &made));
  abi::ComputeInstanceInfo info{};
  TRY(library_->call("nvmlComputeInstanceGetInfo", api_.compute_info, made, &info));
  const abi::Device device = TRY(reader_.find(gpu));
  const auto devices = TRY(reader_.mig_devices(device, false));
  const auto seen = devices.find({static_cast<unsigned>(gi_id), info.id});
  return ComputeInstance{.ci_id = whole(info.id),
                         .gpcs = whole(profile.slices),
                         .uuid = seen == devices.end() ? "" : seen->second.uuid};
}

Result<void> NvmlDriver::try_destroy_compute(int gpu, int gi_id, int ci_id) {
  const abi::GpuInstance handle = TRY(find_instance(gpu, gi_id));
  abi::ComputeInstance compute = nullptr;
  const auto ok = library_->call("nvmlGpuInstanceGetComputeInstanceById", api_.compute_by_id,
                                 handle, static_cast<unsigned>(ci_id), &compute);
  if (!ok) return failed(no_such(ok.error()));
  return library_->call("nvmlComputeInstanceDestroy", api_.destroy_compute, compute);
}

Result<telemetry::GpuSample> NvmlDriver::try_telemetry(int gpu) {
  const GpuState state = TRY(try_read(gpu));
  if (state.lost) return failed({ErrorCode::lost, "the GPU fell off the bus", {}});
  const abi::Device device = TRY(reader_.find(gpu));
  const hw::GpuModel* model = state.model.empty() ? nullptr : catalogue_.find(state.model);
  const bool slices = model != nullptr && state.mig_capable;
  return telemetry_.sample(device, state, slices ? model->compute_slices : 0);
}

Result<device::PowerState> NvmlDriver::try_power_settings(int gpu) {
  const abi::Device device = TRY(reader_.find(gpu));
  return telemetry_.settings(device);
}

Result<void> NvmlDriver::try_set_power_settings(int gpu, const device::PowerSettings& settings) {
  const abi::Device device = TRY(reader_.find(gpu));
  return telemetry_.set(device, settings);
}

}  // namespace

Result<std::unique_ptr<device::NodeDriver>> open_nvml(const hw::Catalogue& catalogue,
                                                      const std::string& library) {
  auto loaded = TRY(NvmlLibrary::open(library));
  return std::make_unique<NvmlDriver>(catalogue, std::move(loaded));
}

}  // namespace partita::drivers::nvml_mig
