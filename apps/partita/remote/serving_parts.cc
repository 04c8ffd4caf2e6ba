#include "remote/serving_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "remote/cpu/cpu_backend.h"

namespace partita::cli {
namespace {

using remote::server::Part;

Result<std::vector<Part>> cpu_parts(const PartFlags& flags) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int all = flags.units > 0 ? flags.units : cores;
  std::vector<std::string> shapes = flags.shapes;
  if (shapes.empty())
    shapes.assign(static_cast<std::size_t>(flags.sessions), fmt::format("CPU-{}", all));
  std::vector<Part> parts;
  for (const std::string& shape : shapes) {
    const int units = remote::server::cpu_units(shape);
    if (units < 1 || units > hw::kMaxUnits)
      return bad_input("--shape", fmt::format("'{}': shapes of the CPU are CPU-1 to CPU-{}", shape,
                                              hw::kMaxUnits));
    parts.push_back({fmt::format("{}/{}", shape, parts.size()), shape, units});
  }
  return parts;
}

}  // namespace

Result<std::vector<Part>> parts_of(const PartFlags& flags) { return cpu_parts(flags); }

decltype(remote::server::WorkerOptions::open) opener_of(const PartFlags& flags) {
  return [memory = flags.memory](
             const Part&, int units,
             std::uint32_t checks) -> Result<std::unique_ptr<remote::server::DeviceBackend>> {
    return remote::cpu::CpuBackend::open({.units = units, .memory = memory, .flags = checks});
  };
}

}  // namespace partita::cli
