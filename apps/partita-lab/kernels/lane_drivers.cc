#include "kernels/lane_drivers.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <thread>

#include "drivers/cpu_mask/cpu_mask_driver.h"
#include "drivers/cpu_mask/host_kernels.h"
#include "drivers/green_ctx/cuda_kernels.h"
#include "drivers/green_ctx/green_ctx_driver.h"
#include "drivers/hip_mask/hip_kernels.h"
#include "drivers/hip_mask/hip_mask_driver.h"
#include "flags.h"
#include "kernels/kernel_inputs.h"

namespace partita::cli {
namespace {

Result<OpenLaneDriver> on_threads(const LaneDriverFlags& flags) {
  if (flags.device != "0") return bad_input("--device", "only GPUs have it, not --driver cpu_mask");
  if (!flags.vendor_library.empty())
    return bad_input("--library", "only GPUs have it, not --driver cpu_mask");
  const int cores = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 64);
  const std::string name = flags.gpu.empty() ? fmt::format("1x{}", cores) : flags.gpu;
  const hw::Topology topology = TRY(decide::load_topology(name));
  OpenLaneDriver opened{std::make_unique<drivers::cpu_mask::HostKernels>(), nullptr};
  opened.driver = TRY(drivers::cpu_mask::CpuMaskDriver::open(topology));
  return opened;
}

template <class Driver, class Kernels>
Result<OpenLaneDriver> with_kernels(Result<std::unique_ptr<Driver>> driver) {
  if (!driver) return failed(driver.error());
  auto kernels = TRY(Kernels::open(**driver));
  return OpenLaneDriver{std::move(kernels), *std::move(driver)};
}

Result<OpenLaneDriver> on_nvidia(const LaneDriverFlags& flags) {
  drivers::green_ctx::Options options;
  options.gpu = flags.device;
  options.atom = flags.atom;
  if (!flags.vendor_library.empty()) options.vendor_library = flags.vendor_library;
  using Driver = drivers::green_ctx::GreenCtxDriver;
  return with_kernels<Driver, drivers::green_ctx::CudaKernels>(Driver::open(options));
}

Result<OpenLaneDriver> on_amd(const LaneDriverFlags& flags) {
  drivers::hip_mask::HipMaskOptions options;
  const char* const end = flags.device.data() + flags.device.size();
  const auto [rest, error] = std::from_chars(flags.device.data(), end, options.device);
  if (error != std::errc{} || rest != end || options.device < 0)
    return bad_input("--device", fmt::format("'{}': AMD's GPUs have numbers from 0", flags.device));
  options.vendor_library = flags.vendor_library;
  using Driver = drivers::hip_mask::HipMaskDriver;
  return with_kernels<Driver, drivers::hip_mask::HipKernels>(Driver::open(options));
}

using Open = Result<OpenLaneDriver> (*)(const LaneDriverFlags&);
struct Named {
  const char* name;
  Open open;
};
// In the order in which "auto" tries them; the last one always opens.
constexpr Named kDrivers[] = {
    {"green_ctx", on_nvidia}, {"hip_mask", on_amd}, {"cpu_mask", on_threads}};

}  // namespace

void add_lane_driver_flags(CLI::App& command, LaneDriverFlags& flags) {
  std::vector<std::string> words{"auto"};
  for (const Named& driver : kDrivers) words.emplace_back(driver.name);
  one_of(flag(command, "--lane-driver", flags.driver), words)->default_str(flags.driver);
  flag(command, "--device", flags.device)->default_str(flags.device);
  flag(command, "--library", flags.vendor_library);
}

Result<OpenLaneDriver> open_lane_driver(const LaneDriverFlags& flags) {
  const bool any = flags.driver == "auto";
  for (const Named& driver : kDrivers) {
    if (!any && flags.driver != driver.name) continue;
    auto opened = driver.open(flags);
    if (opened || !any || &driver == std::end(kDrivers) - 1) return opened;
  }
  return bad_input("--driver", "unknown");
}

}  // namespace partita::cli
