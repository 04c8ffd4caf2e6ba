#include "remote/serving_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>

#include "base/parse_number.h"
#include "decide/kernel_inputs.h"
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

using Opened = Result<std::unique_ptr<remote::server::DeviceBackend>>;
using PoolLane = std::shared_ptr<const drivers::green_ctx::PoolLane>;

remote::cuda::Lane lane_on(const PoolLane& lane) {
  const auto create = [lane](int priority) -> Result<remote::cuda::abi::Stream> {
    auto made = lane->create_stream(priority);
    if (!made) return failed(made.error());
    return reinterpret_cast<remote::cuda::abi::Stream>(*made);
  };
  return {create, lane->units()};
}

// A row for each kernel of a session's request, as `kernels plan` reads them.
void append_times(const std::string& file, int units,
                  const std::vector<remote::server::TimedKernel>& kernels) {
  static std::mutex mutex;  // sessions are threads
  const std::lock_guard lock(mutex);
  std::string rows;
  for (std::size_t i = 0; i < kernels.size(); ++i)
    rows += fmt::format("{},{},{},{:.3f}\n", i, kernels[i].name, units, kernels[i].us);
  std::ofstream out(file, std::ios::app);
  if (out.tellp() == 0) out << "index,kernel,units,time_us\n";
  out << rows << std::flush;
  if (!out) fmt::print(stderr, "partita: {}: the times of kernels cannot be written\n", file);
}

// The lanes of this process's device, from the first session on.
class SharedDevice {
 public:
  explicit SharedDevice(PartFlags flags) : flags_(std::move(flags)) {}

  // A session on SMs of its own (0: all, with everybody), or as a worker of the plan.
  Opened open(const Part& part) {
    auto pool = lanes();
    if (!pool) return failed(pool.error());
    const auto planned = std::ranges::find(flags_.planned, part.shape, &PlannedWorker::name);
    auto use = planned == flags_.planned.end()
                   ? alone(**pool, part.units)
                   : as_planned(**pool, planned - flags_.planned.begin());
    if (!use) return failed(use.error());
    use->lost = [this] { lost_ = true; };
    return remote::cuda::CudaBackend::open({.vendor_library = flags_.vendor_library,
                                            .memory = flags_.memory,
                                            .shared = *std::move(use)});
  }
  bool lost() const { return lost_; }

 private:
  using Pool = drivers::green_ctx::LanePool;
  Result<std::shared_ptr<Pool>> lanes() {
    const std::lock_guard lock(mutex_);
    if (pool_) return pool_;
    auto opened = Pool::open({.vendor_library = flags_.vendor_library});
    if (opened) pool_ = *opened;
    return opened;
  }
  Result<remote::cuda::SharedUse> alone(Pool& pool, int units) const {
    auto lane = pool.take(units);
    if (!lane) return failed(lane.error());
    remote::cuda::SharedUse use;
    use.lanes = {lane_on(*lane)};
    if (!flags_.kernel_times.empty())
      use.measured = [file = flags_.kernel_times, units = (*lane)->units()](const auto& kernels) {
        append_times(file, units, kernels);
      };
    return use;
  }
  // Workers have their SMs one behind the other, as far as there are enough; which they are is this
  // board's, since boards of one model differ in their GPCs. The last lane has all SMs.
  Result<remote::cuda::SharedUse> as_planned(Pool& pool, std::ptrdiff_t worker) const {
    int first = 0;
    for (std::ptrdiff_t i = 0; i < worker; ++i) {
      const int most = most_masked(pool, flags_.planned[static_cast<std::size_t>(i)]);
      first += (most + pool.atom() - 1) / pool.atom();
    }
    const PlannedWorker& mine = flags_.planned[static_cast<std::size_t>(worker)];
    std::vector<int> sizes = mine.units;
    sizes.push_back(pool.units());
    std::ranges::sort(sizes);
    sizes.erase(std::ranges::unique(sizes).begin(), sizes.end());
    remote::cuda::SharedUse use;
    for (const int units : sizes) {
      auto lane = pool.share(first, units);
      if (!lane) return failed(lane.error());
      use.lanes.push_back(lane_on(*lane));
    }
    std::vector<remote::server::KernelCursor::Step> steps;
    for (std::size_t i = 0; i < mine.units.size(); ++i)
      steps.push_back({mine.kernels[i],
                       static_cast<std::size_t>(std::ranges::lower_bound(sizes, mine.units[i]) -
                                                sizes.begin())});
    use.cursor.emplace(std::move(steps), sizes.size() - 1);
    return use;
  }
  // The most SMs that a worker has short of all.
  static int most_masked(const Pool& pool, const PlannedWorker& worker) {
    int most = 0;
    for (const int units : worker.units)
      if (units < pool.units()) most = std::max(most, units);
    return most;
  }

  const PartFlags flags_;
  std::mutex mutex_;
  std::shared_ptr<Pool> pool_;
  std::atomic<bool> lost_ = false;
};

// LANE-64: SMs of a GPU that other lanes do not have; LANE: all SMs, shared.
bool is_lane(const std::string& shape) { return lane_units(shape).has_value(); }

// Whether all sessions share one process; refused where some shapes are lanes and others not.
Result<bool> shares_process(const PartFlags& flags) {
  const auto lanes = std::ranges::count_if(flags.shapes, is_lane);
  if (!flags.planned.empty() && !flags.kernel_times.empty())
    return bad_input("--kernel-times", "kernels are timed on one lane, not by --kernel-plan");
  if (lanes == 0 && flags.planned.empty()) {
    if (flags.kernel_times.empty()) return false;
    return bad_input("--kernel-times",
                     "kernels are timed on lanes: give a --shape such as LANE-64");
  }
  if (flags.backend == "cuda" && static_cast<std::size_t>(lanes) == flags.shapes.size() &&
      !flags.on_demand)
    return true;
  return bad_input("--shape", "lanes share one process of --backend cuda, with no other shapes");
}

// A shape is a device: "gpu" (the first), or the UUID of a GPU or MIG instance behind the profile
// that clients ask for, as in 2g.20gb=MIG-1b2c..., or a share of one (mps_shares.h).
Result<std::vector<Part>> gpu_parts(const PartFlags& flags) {
  std::vector<Part> parts;
  for (const PlannedWorker& worker : flags.planned)
    parts.push_back({fmt::format("plan/{}", worker.name), worker.name, 0});
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

Result<std::vector<PlannedWorker>> planned_workers(Files& files, const std::string& file,
                                                   const std::string& profiles) {
  auto text = files.read(file);
  if (!text) return failed(text.error());
  const auto plan = forms::parse_kernel_plan(file, *text);
  if (!plan) return failed(plan.error());
  const auto topology = decide::load_topology(plan->gpu);
  if (!topology) return failed(topology.error());
  const auto units = decide::planned_units(*plan);
  const auto models = decide::load_kernels(
      files, {.workers = units.workers, .profiles = profiles, .gpu = plan->gpu, .atom = units.atom},
      *topology);
  if (!models) return failed(models.error());
  if (auto fits = decide::check_planned_units(file, units, *models); !fits)
    return failed(fits.error());
  std::vector<PlannedWorker> workers;
  for (std::size_t i = 0; i < models->size(); ++i) {
    workers.push_back({(*models)[i].model, {}, units.units[i]});
    for (const auto& kernel : (*models)[i].kernels) workers.back().kernels.push_back(kernel.name);
  }
  return workers;
}

Result<void> set_opener(const PartFlags& flags, remote::server::WorkerOptions& options) {
  const auto shared = shares_process(flags);
  if (!shared) return failed(shared.error());
  options.shared = *shared;
  if (*shared) {
    const auto device = std::make_shared<SharedDevice>(flags);
    options.spent = [device] { return device->lost(); };
    options.open = [device](const Part& part, int, std::uint32_t checks) {
      return checks != 0 ? Opened(no_checks()) : device->open(part);
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
