#include "lane_drivers.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <thread>

#include "drivers/cpu_mask/cpu_mask_driver.h"
#include "drivers/cpu_mask/host_kernels.h"
#include "flags.h"
#include "kernel_inputs.h"

namespace partita::cli {
namespace {

Result<OpenLaneDriver> on_threads(const LaneDriverFlags& flags) {
  if (flags.device != 0) return bad_input("--device", "only GPUs have it, not --driver cpu_mask");
  if (flags.atom > 1) return bad_input("--atom", "cpu_mask masks single units");
  const int cores = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 64);
  const std::string name = flags.gpu.empty() ? fmt::format("1x{}", cores) : flags.gpu;
  const Result<hw::Topology> topology = load_topology(name);
  if (!topology) return failed(topology.error());
  OpenLaneDriver opened{std::make_unique<drivers::cpu_mask::HostKernels>(), nullptr};
  auto driver = drivers::cpu_mask::CpuMaskDriver::open(*topology);
  if (!driver) return failed(driver.error());
  opened.driver = *std::move(driver);
  return opened;
}

using Open = Result<OpenLaneDriver> (*)(const LaneDriverFlags&);
struct Named {
  const char* name;
  Open open;
};
// In the order in which "auto" tries them; the last one always opens.
constexpr Named kDrivers[] = {{"cpu_mask", on_threads}};

}  // namespace

void add_lane_driver_flags(CLI::App& command, LaneDriverFlags& flags) {
  std::vector<std::string> words{"auto"};
  for (const Named& driver : kDrivers) words.emplace_back(driver.name);
  one_of(command.add_option("--driver", flags.driver,
                            "What lanes are made on. cpu_mask: threads of this machine; auto: the "
                            "first GPU that there is, else cpu_mask"),
         words)
      ->default_str(flags.driver);
  within(command.add_option("--atom", flags.atom,
                            "Units that can only be masked together; default: the GPU's"),
         1, hw::kMaxUnits)
      ->type_name("N");
  within(command.add_option("--device", flags.device, "Which GPU, from 0"), 0, 1'000)
      ->type_name("N");
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
