#include "remote/serving_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>

#include "base/append.h"
#include "base/parse_number.h"
#include "decide/kernel_inputs.h"
#include "decide/kernel_policies.h"
#include "decide/kernel_simulation.h"
#include "drivers/green_ctx/lane_pool.h"
#include "hw/cpu_units.h"
#include "server/cpu/cpu_backend.h"
#include "server/cuda/cuda_backend.h"
#include "server/messages.h"

namespace partita::cli {
namespace {

using remote::server::Part;

// Whoever asks for the worker by name.
std::vector<Part> planned_parts(const std::vector<PlannedWorker>& workers) {
  std::vector<Part> parts;
  for (const PlannedWorker& worker : workers)
    parts.push_back({fmt::format("plan/{}", worker.name), worker.name, 0});
  return parts;
}

int all_units(int wanted) {
  return wanted > 0 ? wanted : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

Result<std::vector<Part>> cpu_parts(const PartFlags& flags) {
  const int all = all_units(flags.units);
  if (flags.house) {
    if (!flags.shapes.empty() || !flags.kernel_times.empty())
      return bad_input("--kernel-plan", "its workers are the parts, and it times no kernels");
    return planned_parts(flags.planned);
  }
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
    auto made = TRY(lane->create_stream(priority));
    return reinterpret_cast<remote::cuda::abi::Stream>(made);
  };
  return {create, lane->units()};
}

// The file of --kernel-times: a row for each kernel of a session's request, as `kernels plan` reads
// them. Opened with the first session, before that gives up opening files. Thread-safe.
class TimesFile {
 public:
  explicit TimesFile(std::string file) : file_(std::move(file)) {}

  remote::server::LaunchTimes::Told of_units(const std::shared_ptr<TimesFile>& self, int units) {
    if (file_.empty()) return {};
    const std::lock_guard lock(mutex_);
    if (!out_.is_open()) out_.open(file_, std::ios::app | std::ios::ate);
    return [self, units](const auto& kernels) { self->append(units, kernels); };
  }

 private:
  void append(int units, const std::vector<remote::server::TimedKernel>& kernels) {
    if (kernels.empty()) return;
    const std::lock_guard lock(mutex_);
    std::string rows =
        out_.seekp(0, std::ios::end).tellp() > 0 ? "" : "index,kernel,units,time_us,gap_us\n";
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const auto& [name, shape, us, gap_us] = kernels[i];
      rows += fmt::format("{},{},{},{:.3f},{}\n", i, name, units, us,
                          gap_us ? fmt::format("{:.3f}", *gap_us) : "");
    }
    out_ << rows << std::flush;
    if (!out_) fmt::print(stderr, "partita: {}: the times of kernels cannot be written\n", file_);
  }

  const std::string file_;
  std::mutex mutex_;  // sessions may be threads
  std::ofstream out_;
};

// The lanes of this process's device, from the first session on.
class SharedDevice {
 public:
  explicit SharedDevice(PartFlags flags) : flags_(std::move(flags)) {}

  // A session on SMs of its own (0: all, with everybody), or as a worker of the plan.
  Opened open(const Part& part) {
    auto pool = TRY(lanes());
    const auto planned = std::ranges::find(flags_.planned, part.shape, &PlannedWorker::name);
    auto use =
        TRY(planned == flags_.planned.end() ? alone(*pool, part.units)
                                            : as_planned(*pool, planned - flags_.planned.begin()));
    use.lost = [this] { lost_ = true; };
    return remote::cuda::CudaBackend::open({.vendor_library = flags_.vendor_library,
                                            .memory = flags_.memory,
                                            .shared = std::move(use)});
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
    auto lane = TRY(pool.take(units));
    remote::cuda::SharedUse use;
    use.lanes = {lane_on(lane)};
    use.measured = times_->of_units(times_, lane->units());
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
      auto lane = TRY(pool.share(first, units));
      use.lanes.push_back(lane_on(lane));
    }
    std::vector<lanes::KernelCursor::Step> steps;
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
  const std::shared_ptr<TimesFile> times_ = std::make_shared<TimesFile>(flags_.kernel_times);
  std::mutex mutex_;
  std::shared_ptr<Pool> pool_;
  std::atomic<bool> lost_ = false;
};

// LANE-64: SMs of a GPU that other lanes do not have; LANE: all SMs, shared.
bool is_lane(const std::string& shape) { return lane_units(shape).has_value(); }

// Whether all sessions share one process; refused where some shapes are lanes and others not.
Result<bool> shares_process(const PartFlags& flags) {
  if (flags.kernel_times == "-")
    return bad_input("--kernel-times", "rows come to a file; standard output is the server's");
  if (flags.backend == "cpu") return flags.house != nullptr;
  const auto lanes = std::ranges::count_if(flags.shapes, is_lane);
  if (!flags.planned.empty() && !flags.kernel_times.empty())
    return bad_input("--kernel-times", "kernels are timed on one lane, not by --kernel-plan");
  if (lanes == 0 && flags.planned.empty()) {
    if (flags.kernel_times.empty()) return false;
    return bad_input("--kernel-times",
                     "kernels are timed on lanes: give a --shape such as LANE-64");
  }
  if (static_cast<std::size_t>(lanes) == flags.shapes.size() && !flags.on_demand) return true;
  return bad_input("--shape", "lanes share one process of --backend cuda, with no other shapes");
}

// A shape is a device: "gpu" (the first), or the UUID of a GPU or MIG instance behind the profile
// that clients ask for, as in 2g.20gb=MIG-1b2c..., or a share of one (mps_shares.h).
Result<std::vector<Part>> gpu_parts(const PartFlags& flags) {
  std::vector<Part> parts = planned_parts(flags.planned);
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

Result<KernelPolicy> read_kernel_policy(Files& files, const KernelPlanFlags& flags) {
  KernelPolicy policy{.policy = flags.plan};
  decide::KernelNames names{.workers = flags.workers,
                            .profiles = flags.profiles,
                            .gpu = fmt::format("1x{}", all_units(flags.units))};
  decide::PlannedUnits planned;
  const auto words = decide::parse_policies("--kernel-plan", flags.plan);
  if (!words || words->size() != 1) {
    const auto text = files.read(flags.plan);
    if (!text && flags.plan.find_first_of("./") == std::string::npos)
      return bad_input("--kernel-plan",
                       fmt::format("'{}' is neither a policy ({}) nor a file", flags.plan,
                                   joined(decide::kernel_policy_words(), ", ")));
    if (!text) return failed(text.error());
    const auto plan = TRY(forms::parse_kernel_plan(flags.plan, *text));
    planned = decide::planned_units(plan);
    names = {planned.workers, flags.profiles, planned.gpu, planned.atom};
    policy.policy = "eclip";
  } else if (flags.workers.empty()) {
    return bad_input("--workers", "a policy is for workers: names of profiles");
  }
  auto topology = TRY(decide::load_topology(names.gpu));
  const auto atom = TRY(decide::load_atom(topology, names.atom));
  auto models = TRY(decide::load_kernels(files, names, topology));
  if (!planned.units.empty()) TRY(decide::check_planned_units(flags.plan, planned, models));
  policy.topology = std::move(topology);
  policy.atom = atom;
  policy.workers = std::move(models);
  policy.plan_units = std::move(planned.units);
  return policy;
}

std::vector<PlannedWorker> planned_workers(const KernelPolicy& policy) {
  std::vector<PlannedWorker> workers;
  for (std::size_t i = 0; i < policy.workers.size(); ++i) {
    workers.push_back({policy.workers[i].model, {}, {}});
    if (!policy.plan_units.empty()) workers.back().units = policy.plan_units[i];
    for (const auto& kernel : policy.workers[i].kernels)
      workers.back().kernels.push_back(kernel.name);
  }
  return workers;
}

Result<void> set_opener(const PartFlags& flags, remote::server::WorkerOptions& options) {
  const auto shared = TRY(shares_process(flags));
  options.shared = shared;
  if (flags.house) {
    options.open = [house = flags.house, memory = flags.memory](const Part& part, int,
                                                                std::uint32_t checks) {
      return house->open(part.shape, memory, checks);
    };
  } else if (shared) {
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
    options.open = [memory = flags.memory, devices = flags.devices,
                    times = std::make_shared<TimesFile>(flags.kernel_times)](
                       const Part&, int units, std::uint32_t checks) -> Opened {
      return remote::cpu::CpuBackend::open({.units = units,
                                            .memory = memory,
                                            .flags = checks,
                                            .measured = times->of_units(times, units),
                                            .devices = static_cast<std::uint32_t>(devices)});
    };
  }
  return {};
}

}  // namespace partita::cli
