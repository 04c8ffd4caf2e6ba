#include "remote/serving_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>

#include "base/parse_number.h"
#include "drivers/green_ctx/lane_pool.h"
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

// SMs of LANE-64; 0 of LANE.
std::optional<int> lane_units(std::string_view shape) {
  if (shape == "LANE") return 0;
  if (!shape.starts_with("LANE-")) return std::nullopt;
  std::string_view rest = shape.substr(5);
  const auto units = take_number<int>(rest);
  if (!units || !rest.empty() || *units < 1 || *units > hw::kMaxUnits) return std::nullopt;
  return units;
}

// The lanes of this process's device, from the first session on.
class SharedDevice {
 public:
  explicit SharedDevice(std::string library) : library_(std::move(library)) {}

  Result<std::unique_ptr<remote::server::DeviceBackend>> open(int units, std::uint64_t memory) {
    auto pool = lanes();
    if (!pool) return failed(pool.error());
    auto taken = (*pool)->take(units);
    if (!taken) return failed(taken.error());
    const auto create = [lane = *taken](int priority) -> Result<remote::cuda::abi::Stream> {
      auto made = lane->create_stream(priority);
      if (!made) return failed(made.error());
      return reinterpret_cast<remote::cuda::abi::Stream>(*made);
    };
    return remote::cuda::CudaBackend::open(
        {.vendor_library = library_,
         .memory = memory,
         .lane = remote::cuda::Lane{create, (*taken)->units(), [this] { lost_ = true; }}});
  }
  bool lost() const { return lost_; }

 private:
  Result<std::shared_ptr<drivers::green_ctx::LanePool>> lanes() {
    const std::lock_guard lock(mutex_);
    if (pool_) return pool_;
    auto opened =
        drivers::green_ctx::LanePool::open({.gpu = "0", .atom = 0, .vendor_library = library_});
    if (opened) pool_ = *opened;
    return opened;
  }

  const std::string library_;
  std::mutex mutex_;
  std::shared_ptr<drivers::green_ctx::LanePool> pool_;
  std::atomic<bool> lost_ = false;
};

// A shape is a device: "gpu" (the first), or the UUID of a GPU or MIG instance behind the profile
// that clients ask for, as in 2g.20gb=MIG-1b2c..., or a share of one (mps_shares.h).
Result<std::vector<Part>> gpu_parts(const PartFlags& flags) {
  std::vector<Part> parts;
  for (const std::string& shape : flags.shapes) {
    if (is_lane(shape)) {
      parts.push_back({fmt::format("{}/{}", shape, parts.size()), shape, *lane_units(shape)});
      continue;
    }
    const std::size_t equals = shape.find('=');
    if (MpsShares::is_share(shape) && shape.size() < remote::server::StartMessage::kMaxText) {
      parts.push_back({shape, shape.substr(0, equals), 0});
      continue;
    }
    if (equals == 0 || equals + 1 >= shape.size() || (equals == shape.npos && shape != "gpu") ||
        shape.size() >= remote::server::StartMessage::kMaxText)
      return bad_input("--shape", fmt::format("'{}': with --backend cuda, gpu, PROFILE=UUID as "
                                              "in 2g.20gb=MIG-1b2c..., a share as in 25%, or a "
                                              "lane as in LANE-64",
                                              shape));
    parts.push_back(
        {equals == shape.npos ? "gpu" : shape.substr(equals + 1), shape.substr(0, equals), 0});
  }
  if (parts.empty() && !flags.on_demand) parts.push_back({"gpu", "gpu", 0});
  return parts;
}

tl::unexpected<Error> no_checks() {
  return failed({ErrorCode::not_supported, "--check needs the back end cpu", ""});
}

}  // namespace

Result<std::vector<Part>> parts_of(const PartFlags& flags) {
  return flags.backend == "cuda" ? gpu_parts(flags) : cpu_parts(flags);
}

bool is_lane(const std::string& shape) { return lane_units(shape).has_value(); }

Result<bool> shares_process(const PartFlags& flags) {
  const auto lanes = std::ranges::count_if(flags.shapes, is_lane);
  if (lanes == 0) return false;
  if (flags.backend == "cuda" && static_cast<std::size_t>(lanes) == flags.shapes.size() &&
      !flags.on_demand)
    return true;
  return bad_input("--shape", "lanes share one process of --backend cuda, with no other shapes");
}

Result<void> set_opener(const PartFlags& flags, remote::server::WorkerOptions& options) {
  using Opened = Result<std::unique_ptr<remote::server::DeviceBackend>>;
  const auto shared = shares_process(flags);
  if (!shared) return failed(shared.error());
  options.shared = *shared;
  if (*shared) {
    const auto device = std::make_shared<SharedDevice>(flags.vendor_library);
    options.spent = [device] { return device->lost(); };
    options.open = [device, memory = flags.memory](const Part& part, int, std::uint32_t checks) {
      return checks != 0 ? Opened(no_checks()) : device->open(part.units, memory);
    };
  } else if (flags.backend == "cuda") {
    options.open = [flags](const Part& part, int, std::uint32_t checks) -> Opened {
      if (checks != 0) return no_checks();
      // The driver shows the process this one device.
      const auto environment = flags.shares.environment(part.name);
      for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
      if (environment.empty() && part.name != "gpu")
        ::setenv("CUDA_VISIBLE_DEVICES", part.name.c_str(), 1);
      return remote::cuda::CudaBackend::open(
          {.vendor_library = flags.vendor_library, .memory = flags.memory, .own_process = true});
    };
  } else {
    options.open = [memory = flags.memory](const Part&, int units, std::uint32_t checks) -> Opened {
      return remote::cpu::CpuBackend::open({.units = units, .memory = memory, .flags = checks});
    };
  }
  return {};
}

}  // namespace partita::cli
