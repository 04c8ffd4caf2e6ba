#include "remote/serving_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "hw/cpu_units.h"
#include "server/cpu/cpu_backend.h"
#include "server/cuda/cuda_backend.h"
#include "server/messages.h"

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
    const int units = hw::cpu_unit_count(shape);
    if (units < 1 || units > hw::kMaxUnits)
      return bad_input("--shape", fmt::format("'{}': shapes of the CPU are CPU-1 to CPU-{}", shape,
                                              hw::kMaxUnits));
    parts.push_back({fmt::format("{}/{}", shape, parts.size()), shape, units});
  }
  return parts;
}

// A shape is a device: "gpu" (the first), or the UUID of a GPU or MIG instance behind the profile
// that clients ask for, as in 2g.20gb=MIG-1b2c..., or a share of one (mps_shares.h).
Result<std::vector<Part>> gpu_parts(const PartFlags& flags) {
  std::vector<Part> parts;
  for (const std::string& shape : flags.shapes) {
    const std::size_t equals = shape.find('=');
    if (MpsShares::is_share(shape) && shape.size() < remote::server::StartMessage::kMaxText) {
      parts.push_back({shape, shape.substr(0, equals), 0});
      continue;
    }
    if (equals == 0 || equals + 1 >= shape.size() || (equals == shape.npos && shape != "gpu") ||
        shape.size() >= remote::server::StartMessage::kMaxText)
      return bad_input("--shape", fmt::format("'{}': with --backend cuda, gpu, PROFILE=UUID as "
                                              "in 2g.20gb=MIG-1b2c..., or a share as in 25%",
                                              shape));
    parts.push_back(
        {equals == shape.npos ? "gpu" : shape.substr(equals + 1), shape.substr(0, equals), 0});
  }
  if (parts.empty() && !flags.on_demand) parts.push_back({"gpu", "gpu", 0});
  return parts;
}

}  // namespace

Result<std::vector<Part>> parts_of(const PartFlags& flags) {
  return flags.backend == "cuda" ? gpu_parts(flags) : cpu_parts(flags);
}

decltype(remote::server::WorkerOptions::open) opener_of(const PartFlags& flags) {
  using Opened = Result<std::unique_ptr<remote::server::DeviceBackend>>;
  if (flags.backend == "cuda") {
    return [flags](const Part& part, int, std::uint32_t checks) -> Opened {
      if (checks != 0)
        return failed({ErrorCode::not_supported, "--check needs the back end cpu", ""});
      // The driver shows the process this one device.
      const auto shared = flags.shares.environment(part.name);
      for (const auto& [name, value] : shared) ::setenv(name.c_str(), value.c_str(), 1);
      if (shared.empty() && part.name != "gpu")
        ::setenv("CUDA_VISIBLE_DEVICES", part.name.c_str(), 1);
      return remote::cuda::CudaBackend::open(
          {.vendor_library = flags.vendor_library, .memory = flags.memory});
    };
  }
  return [memory = flags.memory](const Part&, int units, std::uint32_t checks) -> Opened {
    return remote::cpu::CpuBackend::open({.units = units, .memory = memory, .flags = checks});
  };
}

}  // namespace partita::cli
