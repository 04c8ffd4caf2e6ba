#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "base/child.h"
#include "base/descriptor.h"
#include "decide/kernel_inputs.h"
#include "decide/kernel_policies.h"
#include "decide/kernel_simulation.h"
#include "drivers/green_ctx/lane_pool.h"
#include "drivers/mps/daemon.h"
#include "hw/cpu_units.h"
#include "hw/topology.h"
#include "lanes/phase_share.h"
#include "node/devices.h"
#include "profile/kernel_profile.h"
#include "remote/remote_commands.h"
#include "server/broker.h"
#include "server/cpu/cpu_backend.h"
#include "server/cuda/cuda_backend.h"
#include "server/messages.h"
#include "server/part_maker.h"
#include "server/worker.h"
#include "sim/colocation.h"
#include "wire/net/system_net.h"

namespace partita::cli {
namespace {

// CpuHouse: units of this machine that the sessions of one process share, kernels placed on them by
// a policy of decide/kernel_policies.h or by a plan. A policy is asked for those who are there:
// whenever a worker comes (with its first kernel) or goes, and taken up with the next request.
// Thread rule: any thread.
// Who may come, and what decides where their kernels run.
struct KernelPolicy {
  std::string policy = {};  // a word of kernel_policy_words(), eclip:N, or "eclip" with units below
  hw::Topology topology = {};
  int atom = 1;
  std::vector<profile::ModelKernels> workers = {};
  std::vector<std::vector<int>> plan_units = {};  // of a plan for all of them; empty: none
  std::int64_t decode_at_most = 0;                // of kPhases, nanoseconds; 0: nothing is promised
};

// The policy that is of no simulation: prefill and decode beside each other (lanes::PhaseShare).
// Sessions are of one of them, or of both: decode on streams of higher priority.
constexpr const char* kPhases = "phases";
const std::array<std::pair<std::string, std::optional<lanes::Phase>>, 3> kPhaseWorkers{
    {{"prefill", lanes::Phase::prefill}, {"decode", lanes::Phase::decode}, {"both", {}}}};

// Of so many units in atoms; bad_input where there is no border between two of them.
Result<std::shared_ptr<lanes::PhaseShare>> phase_share(int units, int atom,
                                                       std::int64_t decode_at_most) {
  units -= units % atom;
  auto borders = lanes::phase_borders(units, atom);
  if (borders.empty())
    return bad_input("--kernel-plan",
                     fmt::format("prefill and decode need a unit each, there is {}", units));
  return std::make_shared<lanes::PhaseShare>(lanes::PhaseOptions{
      .units = units, .decode = std::move(borders), .decode_at_most = decode_at_most});
}

lanes::PhaseUse phase_use(std::shared_ptr<lanes::PhaseShare> share, const std::string& worker) {
  const auto* const found =
      std::ranges::find(kPhaseWorkers, worker, &decltype(kPhaseWorkers)::value_type::first);
  return {std::move(share), found->second};
}

std::string words(const lanes::PhaseShare::Report& report) {
  return fmt::format("phases: prefill {} kernels on {:.1f} units, decode {} on {:.1f}; {} moves",
                     report.kernels[0], report.units[0], report.kernels[1], report.units[1],
                     report.moves);
}

using remote::cpu::Placing;
using remote::cpu::SharedUnits;
// Masks of these depend on what runs.
constexpr std::array<std::string_view, 5> kLive = {"default-stream", "krisp-o", "krisp-i",
                                                   "isolated", "critical"};

namespace mps = drivers::mps;

constexpr const char* kFirstGpu = "0";  // as in CUDA_VISIBLE_DEVICES

struct DeviceShare {
  std::string device;
  mps::Share share;
};

Result<DeviceShare> share_of(const std::string& shape) {
  std::string_view rest = shape;
  const auto percentage = take_number<double>(rest);
  if (percentage && rest == "%") return DeviceShare{kFirstGpu, {*percentage, {}}};
  if (percentage && rest.starts_with("%=") && rest.size() > 2)
    return DeviceShare{std::string(rest.substr(2)), {*percentage, {}}};
  return bad_input(
      "--shape",
      fmt::format("'{}': a share is written 25%, or 25%=UUID of a GPU or MIG instance", shape));
}

// The daemons of a server.
class RunningDaemons {
 public:
  explicit RunningDaemons(Context& context) : context_(context) {}
  ~RunningDaemons() {
    for (const auto& daemon : daemons_)
      if (const auto quit = daemon->quit(); !quit) complain(context_, to_string(quit.error()));
  }
  RunningDaemons(const RunningDaemons&) = delete;

  Result<void> start(const std::string& folder, const std::string& device) {
    mps::Place place = TRY(mps::place_of(folder, device));
    auto daemon = std::make_unique<mps::Daemon>(
        mps::Doors{processes_, context_.files, context_.clock}, std::move(place));
    TRY(daemon->start());
    daemons_.push_back(std::move(daemon));
    return {};
  }

 private:
  Context& context_;
  RealProcesses processes_;
  std::vector<std::unique_ptr<mps::Daemon>> daemons_;
};

class CpuHouse : public std::enable_shared_from_this<CpuHouse> {
 public:
  // `phases`: of policy kPhases.
  CpuHouse(KernelPolicy policy, std::shared_ptr<lanes::PhaseShare> phases)
      : policy_(std::move(policy)), phases_(std::move(phases)) {}

  // A session of this worker.
  Result<std::unique_ptr<remote::server::DeviceBackend>> open(const std::string& worker,
                                                              std::uint64_t memory,
                                                              std::uint32_t checks) {
    auto shared = TRY(units());
    const auto found = std::ranges::find(policy_.workers, worker, &profile::ModelKernels::model);
    auto member = std::make_shared<Member>(
        shared_from_this(), static_cast<std::size_t>(found - policy_.workers.begin()));
    constexpr std::size_t kLanes = drivers::cpu_mask::kMaxLanes;
    return remote::cpu::CpuBackend::open(
        {.memory = memory,
         .flags = checks,
         .shared = std::move(shared),
         .tenant = std::move(member),
         .lanes = std::max<std::size_t>(1, kLanes / policy_.workers.size())});
  }

 private:
  // A worker's session: there from its first kernel on.
  class Member final : public remote::cpu::Tenant {
   public:
    Member(std::shared_ptr<CpuHouse> house, std::size_t worker)
        : house_(std::move(house)), worker_(worker) {}
    ~Member() override {
      if (!here_) return;
      const std::lock_guard lock(house_->mutex_);
      --house_->present_[worker_];
      house_->arrange();
      if (house_->phases_) fmt::print(stderr, "partita: {}\n", words(house_->phases_->report()));
      if (unplanned_ > 0)
        fmt::print(stderr, "partita: {}: {} kernels are not those of its profile: all units\n",
                   house_->policy_.workers[worker_].model, unplanned_);
    }

    std::shared_ptr<const remote::cpu::Placing> placing() override {
      const std::lock_guard lock(house_->mutex_);
      if (!here_) {
        here_ = true;
        ++house_->present_[worker_];
        house_->arrange();
      }
      return house_->placings_[worker_];
    }
    void unplanned() override { ++unplanned_; }

   private:
    const std::shared_ptr<CpuHouse> house_;
    const std::size_t worker_;
    bool here_ = false;
    long unplanned_ = 0;
  };
  using Placings = std::vector<std::shared_ptr<const remote::cpu::Placing>>;  // by worker
  Result<std::shared_ptr<remote::cpu::SharedUnits>> units() {
    const std::lock_guard lock(mutex_);
    if (units_) return units_;
    auto opened = SharedUnits::open(policy_.topology.units());
    if (opened) units_ = *opened;
    return opened;
  }
  // For those who are there; a plan is for all.
  void arrange() {
    std::vector<std::size_t> there;
    std::vector<profile::ModelKernels> models;
    for (std::size_t i = 0; i < present_.size(); ++i) {
      if (present_[i] == 0 && policy_.plan_units.empty()) continue;
      there.push_back(i);
      models.push_back(policy_.workers[i]);
    }
    if (there.empty()) return;
    if (phases_) {
      for (const std::size_t worker : there) placings_[worker] = of_phase(worker);
      return;
    }
    const hw::Topology& topology = policy_.topology;
    const auto masks = decide::kernel_policy(
        policy_.policy, {.topology = topology,
                         .workers = models,
                         .atom = policy_.atom,
                         .sizes = hw::mask_sizes(topology, policy_.atom),
                         .plan_units = policy_.plan_units,
                         .configs = *decide::load_configs("", topology, policy_.atom)});
    if (!masks) return fmt::print(stderr, "partita: {}\n", to_string(masks.error()));
    for (std::size_t i = 0; i < there.size(); ++i) placings_[there[i]] = place(*masks, i, there[i]);
  }
  std::shared_ptr<const Placing> of_phase(std::size_t worker) const {
    auto placing = std::make_shared<Placing>();
    placing->phases = phase_use(phases_, policy_.workers[worker].model);
    const hw::UnitMask all = hw::all_units(policy_.topology);
    placing->masks = {all};
    for (const lanes::Phase phase : {lanes::Phase::prefill, lanes::Phase::decode})
      for (std::size_t border = 1; border <= phases_->borders(); ++border) {
        hw::UnitMask mask = all;
        for (int unit = 0; unit < phases_->units(lanes::Phase::prefill, border); ++unit)
          mask.reset(static_cast<std::size_t>(unit));
        placing->masks.push_back(phase == lanes::Phase::decode ? mask : all & ~mask);
      }
    return placing;
  }
  std::shared_ptr<const remote::cpu::Placing> place(const sim::MaskPolicy& policy,
                                                    std::size_t present, std::size_t worker) const {
    auto placing = std::make_shared<Placing>();
    const auto& kernels = policy_.workers[worker].kernels;
    for (const auto& kernel : kernels) placing->kernels.push_back(kernel.name);
    const hw::UnitMask all = hw::all_units(policy_.topology);
    if (std::ranges::find(kLive, policy_.policy) != kLive.end()) {
      placing->live = [policy, present, count = kernels.size(), all](
                          std::size_t kernel,
                          const std::vector<int>& running) -> std::optional<hw::UnitMask> {
        const auto mask = policy(present, std::min(kernel, count - 1), running);
        return mask && kernel == count ? all : mask;
      };
      return placing;
    }
    const std::vector<int> idle(static_cast<std::size_t>(policy_.topology.units()));
    for (std::size_t k = 0; k < kernels.size(); ++k)
      placing->masks.push_back(policy(present, k, idle).value_or(all));
    const bool one = std::ranges::count(placing->masks, placing->masks[0]) ==
                     static_cast<std::ptrdiff_t>(kernels.size());
    placing->masks.push_back(one ? placing->masks[0] : all);
    return placing;
  }

  const KernelPolicy policy_;
  const std::shared_ptr<lanes::PhaseShare> phases_;
  std::mutex mutex_;  // of what follows
  std::shared_ptr<remote::cpu::SharedUnits> units_;
  std::vector<int> present_ = std::vector<int>(policy_.workers.size());  // sessions of each worker
  Placings placings_ = Placings(policy_.workers.size());                 // of those present
};

// MPS shares as parts of `remote serve`: "25%" of the threads of the first GPU, or "25%=UUID" of a
// GPU or MIG instance. A daemon per device runs while the server does.
class MpsShares {
 public:
  // Of the shapes that are shares; the others are left out. bad_input for what is no share, or
  // where those of a device are more than all of it. Daemons live below `folder`.
  static Result<MpsShares> of(const std::vector<std::string>& shapes, const std::string& folder) {
    MpsShares all;
    all.folder_ = folder;
    std::map<std::string, std::vector<mps::Share>> devices;
    for (const std::string& shape : shapes) {
      if (!is_share(shape)) continue;
      const DeviceShare one = TRY(share_of(shape));
      const mps::Place place = TRY(mps::place_of(folder, one.device));
      devices[one.device].push_back(one.share);
      all.environments_[shape] = mps::client_environment(place, one.share);
      all.environments_[shape]["CUDA_VISIBLE_DEVICES"] = one.device;
    }
    for (const auto& [device, shares] : devices) {
      if (const auto faults = mps::check_shares(shares, {}); !faults.empty())
        return bad_input("--shape",
                         fmt::format("of {}: {}", device, mps::to_string(faults.front())));
      all.devices_.push_back(device);
    }
    return all;
  }
  static bool is_share(const std::string& shape) {
    return shape.substr(0, shape.find('=')).ends_with('%');
  }

  // What a process in this share needs in its environment; empty for what is no share.
  std::map<std::string, std::string> environment(const std::string& shape) const {
    const auto found = environments_.find(shape);
    return found == environments_.end() ? std::map<std::string, std::string>() : found->second;
  }
  bool empty() const { return environments_.empty(); }
  // Starts the daemons; they end when the answer dies.
  Result<std::shared_ptr<void>> start(Context& context) const {
    auto daemons = std::make_shared<RunningDaemons>(context);
    for (const std::string& device : devices_) TRY(daemons->start(folder_, device));
    return std::shared_ptr<void>(std::move(daemons));
  }

 private:
  std::map<std::string, std::map<std::string, std::string>> environments_;  // by shape
  std::vector<std::string> devices_;
  std::string folder_;
};

// The parts of this machine that `partita remote serve` gives to sessions, and how each is opened:
// the only place that knows the back ends.
// A worker of a kernel plan: how many SMs each kernel of its request gets.
struct PlannedWorker {
  std::string name;
  std::vector<std::string> kernels;
  std::vector<int> units;
};

struct PartFlags {
  std::string backend = "cpu";
  int units = 0;                    // of the CPU; 0: as many as there are
  std::vector<std::string> shapes;  // a part each; empty: `sessions` times all units
  int sessions = 8;
  int devices = 1;  // that a session sees, on the CPU
  std::uint64_t memory = std::uint64_t{4} << 30;
  std::string vendor_library = "libcuda.so.1";  // of back end cuda
  MpsShares shares;                             // those of `shapes` that are some
  bool on_demand = false;                       // parts are made, too: without shapes, these alone
  std::vector<PlannedWorker> planned;           // a part each, on lanes
  std::shared_ptr<CpuHouse> house;              // whose workers are the parts, on the CPU
  std::string kernel_times;                     // file that the kernels of sessions go to
  bool phases = false;                          // the workers are those of kPhaseWorkers
  std::int64_t decode_at_most = 0;              // of decode, nanoseconds
};

// What --kernel-plan says: a plan of `kernels plan`, or a policy.
struct KernelPlanFlags {
  std::string plan, profiles, workers;
  int units = 0;         // of the CPU, for a policy
  double decode_ms = 0;  // of policy phases
};

using remote::server::Part;

// Whoever asks for the worker by name.
std::vector<Part> planned_parts(const std::vector<PlannedWorker>& workers) {
  std::vector<Part> parts;
  for (const PlannedWorker& worker : workers)
    parts.push_back({fmt::format("plan/{}", worker.name), worker.name, 0, true});
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
    if (!out_) fmt::print(stderr, "partita: {}: {}\n", file_, kTimesNotWritten);
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
    auto use = TRY(planned == flags_.planned.end() ? alone(*pool, part.units)
                   : flags_.phases                 ? of_phase(*pool, part.shape)
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
  // Lanes of all borders are made beforehand.
  Result<remote::cuda::SharedUse> of_phase(Pool& pool, const std::string& worker) {
    const std::lock_guard lock(mutex_);
    if (!phases_) phases_ = TRY(phase_share(pool.units(), pool.atom(), flags_.decode_at_most));
    remote::cuda::SharedUse use{.phases = phase_use(phases_, worker)};
    const auto add = [&](int first, int units) -> Result<void> {
      auto lane = TRY(pool.share(first, units));
      use.lanes.push_back(lane_on(lane));
      return {};
    };
    TRY(add(0, pool.units()));
    // As CpuHouse::of_phase().
    for (const lanes::Phase phase : {lanes::Phase::prefill, lanes::Phase::decode})
      for (std::size_t border = 1; border <= phases_->borders(); ++border) {
        const int before = phases_->units(lanes::Phase::prefill, border) / pool.atom();
        TRY(add(phase == lanes::Phase::decode ? before : 0, phases_->units(phase, border)));
      }
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
  std::shared_ptr<lanes::PhaseShare> phases_;  // made with the first session
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
// that clients ask for, as in 2g.20gb=MIG-1b2c..., or a share of one.
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

// The policy or plan with the profiles of its workers.
Result<KernelPolicy> read_kernel_policy(Files& files, const KernelPlanFlags& flags) {
  KernelPolicy policy{.policy = flags.plan};
  if (flags.plan == kPhases) {
    if (!flags.profiles.empty())
      return bad_input("--kernel-profiles", "`phases` is not for workers of profiles");
    policy.topology = TRY(decide::load_topology(fmt::format("1x{}", all_units(flags.units))));
    policy.decode_at_most = static_cast<std::int64_t>(flags.decode_ms * 1e6);
    const int units = policy.topology.units();
    for (const auto& [name, phase] : kPhaseWorkers) policy.workers.push_back({name, units, {}});
    return policy;
  }
  if (flags.decode_ms > 0)
    return bad_input("--decode-ms", "is promised by --kernel-plan phases alone");
  if (flags.profiles.empty())
    return bad_input("--kernel-profiles", "a plan or policy needs the profiles of its workers");
  decide::KernelNames names{.workers = flags.workers,
                            .profiles = flags.profiles,
                            .gpu = fmt::format("1x{}", all_units(flags.units))};
  decide::PlannedUnits planned;
  const auto words = decide::parse_policies("--kernel-plan", flags.plan);
  if (!words || words->size() != 1) {
    const auto text = files.read(flags.plan);
    if (!text && flags.plan.find_first_of("./") == std::string::npos)
      return bad_input("--kernel-plan",
                       fmt::format("'{}' is neither a policy ({}, {}) nor a file", flags.plan,
                                   joined(decide::kernel_policy_words(), ", "), kPhases));
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

// The workers of a plan.
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

// What opens one of them, in a worker, and whether workers share a process.
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

using device::ProfileInfo;

constexpr std::int64_t kPatience = 5'000'000'000, kRetry = 20'000'000;

class GpuPartMaker final : public remote::server::PartMaker {
 public:
  GpuPartMaker(Context& context, OpenDriver opened, std::vector<int> gpus)
      : context_(context), opened_(std::move(opened)), gpus_(std::move(gpus)) {}

  Result<void> look() {
    for (const int gpu : gpus_) {
      const device::GpuState state = TRY(opened_.driver->read(gpu));
      if (!state.mig_enabled)
        return failed({ErrorCode::not_supported,
                       fmt::format("MIG is off on GPU {}: no instances can be made; `--shape gpu` "
                                   "lends the whole GPU",
                                   gpu),
                       "--gpu-index"});
      std::vector<ProfileInfo> profiles = TRY(opened_.driver->profiles(gpu));
      std::erase_if(profiles, [](const ProfileInfo& one) { return !exec::is_plain(one.name); });
      profiles_.push_back(std::move(profiles));
    }
    const auto desk = desk_in_time();  // takes back what a killed server left
    if (!desk) return failed(desk.error());
    for (const std::string& left : (*desk)->loans().left())
      complain(context_, left + ", which an ended command had made");
    return {};
  }

  std::vector<std::string> shapes() override {
    std::vector<ProfileInfo> all;
    for (const auto& profiles : profiles_) all.insert(all.end(), profiles.begin(), profiles.end());
    std::ranges::stable_sort(all, [](const ProfileInfo& a, const ProfileInfo& b) {
      return std::pair(a.gpcs, a.size) < std::pair(b.gpcs, b.size);
    });
    std::vector<std::string> names;
    for (const ProfileInfo& profile : all)
      if (std::ranges::find(names, profile.name) == names.end()) names.push_back(profile.name);
    return names;
  }

  Result<std::string> make(const std::string& shape) override {
    const auto desk = TRY(desk_in_time());
    static_cast<void>(pay_back(desk->loans()));
    const Result<exec::Loan> loan = desk->loans().make(gpus_, shape);
    return loan ? Result<std::string>(loan->device) : failed(loan.error());
  }

  Result<void> unmake(const std::string& name) override {
    owed_.push_back(name);
    const auto desk = desk_in_time();
    return desk ? pay_back((*desk)->loans()) : failed(desk.error());
  }

 private:
  // What could not be given back yet, too.
  Result<void> pay_back(exec::Loans& loans) {
    Result<void> all;
    std::erase_if(owed_, [&](const std::string& device) {
      const Result<void> done = loans.give_back(device);
      if (!done) all = done;
      return done.has_value();
    });
    return all;
  }

  // Others have the node for a moment, too.
  Result<std::unique_ptr<LoanDesk>> desk_in_time() {
    const std::int64_t give_up = context_.clock.now_ns() + kPatience;
    for (;;) {
      auto desk = LoanDesk::open(context_, opened_);
      if (desk || desk.error().code != ErrorCode::in_use || context_.clock.now_ns() >= give_up)
        return desk;
      context_.clock.sleep_ns(kRetry);
    }
  }

  Context& context_;
  OpenDriver opened_;
  std::vector<int> gpus_;
  std::vector<std::string> owed_;                   // devices that are to go
  std::vector<std::vector<ProfileInfo>> profiles_;  // per GPU, the plain ones
};

// Destroys what a server that was killed left. not_supported for a GPU without MIG, or with MIG
// off; in_use while somebody else changes the node.
Result<std::unique_ptr<remote::server::PartMaker>> gpu_part_maker(Context& context,
                                                                  const DeviceFlags& device,
                                                                  const std::vector<int>& gpus) {
  OpenDriver opened = TRY(open_driver(context, device));
  auto maker = std::make_unique<GpuPartMaker>(context, std::move(opened), gpus);
  TRY(maker->look());
  return std::unique_ptr<remote::server::PartMaker>(std::move(maker));
}

// partita remote serve: gives parts of this machine to programs that run elsewhere.

using remote::server::Broker;
using remote::server::BrokerOptions;
using remote::server::Confinement;

constexpr int kMaxSessions = 1024, kMostGpus = 1023;
constexpr double kMebibyte = 1 << 20, kSecondNs = 1e9, kCpuMemoryMib = 4096;

struct RemoteServeFlags {
  KernelPlanFlags kernels;
  std::string listen, token_file, state_directory, metrics, images, user, idle, wall;
  PartFlags parts;
  std::vector<int> gpus;  // whose MIG instances are made on demand
  DeviceFlags device;
  int warm = 1, queue = 64;
  double memory_mib = 0;  // 0: kCpuMemoryMib, or what the GPU has
  bool open_sandbox = false, with_parent = false;
};

Result<remote::Nanos> limit_of(const std::string& flag, const std::string& text) {
  if (text.empty()) return remote::Nanos(0);
  const Seconds time = TRY(parse_duration(flag, text));
  return remote::Nanos(static_cast<std::int64_t>(time.value * kSecondNs));
}

// A secret of one line that only its owner may read.
Result<std::string> token_of(Context& context, const std::string& file) {
  if (file.empty()) return std::string();
  std::string token = TRY(read_secret(context, "--token-file", file));
  if (token.empty() || token.size() > remote::kMaxText)
    return bad_input("--token-file", fmt::format("the first line of {} is no token", file));
  return token;
}

Result<void> set_user(const std::string& name, remote::server::SandboxOptions& sandbox) {
  if (name.empty()) return {};
  const passwd* const user = ::getpwnam(name.c_str());
  if (user == nullptr) return bad_input("--run-as", fmt::format("there is no user {}", name));
  sandbox.uid = static_cast<long>(user->pw_uid);
  sandbox.gid = static_cast<long>(user->pw_gid);
  return {};
}

Result<BrokerOptions> broker_options(Context& context, RemoteServeFlags flags) {
  BrokerOptions options;
  if (flags.memory_mib == 0 && flags.parts.backend == "cpu") flags.memory_mib = kCpuMemoryMib;
  flags.parts.memory = static_cast<std::uint64_t>(flags.memory_mib * kMebibyte);
  if (!flags.gpus.empty() && flags.parts.backend != "cuda")
    return bad_input("--gpu-index", "instances are made for --backend cuda");
  if (flags.parts.devices > 1 && (flags.parts.backend != "cpu" || !flags.kernels.plan.empty()))
    return bad_input("--devices", "several are for --backend cpu, without --kernel-plan");
  flags.parts.on_demand = !flags.gpus.empty();
  const std::string directory = remote_state_directory(flags.state_directory);
  const auto shares = TRY(MpsShares::of(flags.parts.shapes, directory + "/mps"));
  if (!shares.empty()) options.begin_beside = [&context, shares] { return shares.start(context); };
  flags.parts.shares = shares;
  if (!flags.kernels.plan.empty()) {
    flags.kernels.units = flags.parts.units;
    auto policy = TRY(read_kernel_policy(context.files, flags.kernels));
    flags.parts.phases = policy.policy == kPhases;
    flags.parts.decode_at_most = policy.decode_at_most;
    if (flags.parts.backend == "cuda" && policy.plan_units.empty() && !flags.parts.phases)
      return bad_input("--kernel-plan", "on a GPU, a plan of `kernels plan`, or phases");
    flags.parts.planned = planned_workers(policy);
    if (flags.parts.backend == "cpu") {
      std::shared_ptr<lanes::PhaseShare> phases;
      if (flags.parts.phases)
        phases = TRY(phase_share(policy.topology.units(), 1, policy.decode_at_most));
      flags.parts.house = std::make_shared<CpuHouse>(std::move(policy), std::move(phases));
    }
  }
  options.parts =
      TRY(flags.parts.backend == "cuda" ? gpu_parts(flags.parts) : cpu_parts(flags.parts));
  if (!flags.gpus.empty())
    options.open_maker = [&context, device = flags.device, gpus = flags.gpus] {
      return gpu_part_maker(context, device, gpus);
    };
  TRY(set_opener(flags.parts, options.worker));
  options.worker.limits.memory = flags.parts.memory == 0 ? ~std::uint64_t{0} : flags.parts.memory;
  options.backend = flags.parts.backend;
  options.worker.sandbox.confinement = flags.open_sandbox ? Confinement::none
                                       : flags.parts.backend == "cpu" && !flags.parts.house
                                           ? Confinement::strict
                                           : Confinement::driver;
  TRY(set_user(flags.user, options.worker.sandbox));
  options.worker.idle_limit = TRY(limit_of("--idle-limit", flags.idle));
  options.worker.wall_limit = TRY(limit_of("--wall-limit", flags.wall));
  options.token = TRY(token_of(context, flags.token_file));
  options.worker.images = flags.images;
  options.limits.warm = static_cast<std::size_t>(flags.warm);
  options.limits.queue = static_cast<std::size_t>(flags.queue);
  options.metrics_file = flags.metrics;
  TRY(context.files.make_directories(directory));
  static_cast<void>(living_servers(context.files, directory));  // dead ones' files go
  options.state_file = fmt::format("{}/server-{}.json", directory, ::getpid());
  return options;
}

// Others than this host's users may only come with a token.
Result<void> check_address(const RemoteServeFlags& flags) {
  if (remote::only_this_host(flags.listen) || !flags.token_file.empty()) return {};
  return bad_input("--listen", fmt::format("{} can be reached from other hosts: give a "
                                           "--token-file, too",
                                           flags.listen));
}

Result<Exit> run_remote_serve(Context& context, RemoteServeFlags flags) {
  if (flags.listen.empty()) flags.listen = default_remote_address();
  TRY(check_address(flags));
  for (const std::string& file : {flags.metrics, flags.parts.kernel_times})
    if (!file.empty() && file != "-") TRY(check_writable(file));
  if (flags.with_parent) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const Descriptor stop(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  BrokerOptions options = TRY(broker_options(context, flags));
  if (flags.listen.starts_with("unix:/") || flags.listen.starts_with("socket:/")) {
    const std::string path = flags.listen.substr(flags.listen.find(':') + 1);
    const std::string folder = std::filesystem::path(path).parent_path().string();
    TRY(context.files.make_directories(folder));
  }
  auto broker = TRY(Broker::open(flags.listen, std::move(options), context.files));
  say(context, fmt::format("listening on {}\n", broker->address()));
  say_ready();
  TRY(broker->run(stop.get()));
  return Exit::done;
}

void add_part_flags(CLI::App& command, RemoteServeFlags& flags) {
  one_of(command, "--backend", flags.parts.backend, {"cpu", "cuda"});
  flag(command, "--library", flags.parts.vendor_library)->default_str("libcuda.so.1");
  takes(command, "--units", limited(flags.parts.units, 1, hw::kMaxUnits), "--devices",
        within(flags.parts.devices, 1, kMostDevices), "--shape", flags.parts.shapes, "--gpu-index",
        limited(flags.gpus, 0, kMostGpus));
  CLI::Option* const profiles = flag(command, "--kernel-profiles", flags.kernels.profiles);
  CLI::Option* const plan = flag(command, "--kernel-plan", flags.kernels.plan);
  profiles->needs(plan);
  within(flag(command, "--decode-ms", flags.kernels.decode_ms), 0.001, 60'000)->needs(plan);
  flag(command, "--workers", flags.kernels.workers)->needs(profiles);
  flag(command, "--kernel-times", flags.parts.kernel_times);
  add_device_flags(command, flags.device);
  takes(command, "--sessions", within(flags.parts.sessions, 1, kMaxSessions), "--memory",
        limited(flags.memory_mib, 1, 256 * 1024));
}

}  // namespace

Command add_remote_serve(CLI::App& remote) {
  auto [command, flags] = adding<RemoteServeFlags>(
      remote, "serve", "Serve parts of this machine to programs started with `remote run`");
  flag(*command, "--listen", flags->listen);
  add_part_flags(*command, *flags);
  takes(*command, "--warm", within(flags->warm, 0, kMaxSessions), "--queue",
        within(flags->queue, 0, kMaxSessions), "--token-file", flags->token_file, "--idle-limit",
        flags->idle, "--wall-limit", flags->wall, "--run-as", flags->user, "--no-sandbox",
        flags->open_sandbox, "--images", flags->images, "--metrics", flags->metrics, "--state-dir",
        flags->state_directory, "--with-parent", flags->with_parent);
  return runs(command, flags, run_remote_serve,
              "partita remote serve --listen unix:/tmp/partita.sock --shape CPU-2 --shape CPU-2");
}

}  // namespace partita::cli
