#include "control/sim/sim_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/check.h"
#include "hw/xids.h"

namespace partita::control {
namespace {

using drivers::sim::Machine;
using drivers::sim::SimGpu;
using drivers::sim::SimInstance;

constexpr std::int64_t kNs = 1'000'000'000;
constexpr std::int64_t kMinuteNs = 60 * kNs;
constexpr std::int64_t kDayNs = 86'400 * kNs;
constexpr std::int64_t kNeverNs = INT64_MAX / 4;
// Who sleeps so shortly polls: nothing is missed by waking it when something has happened.
constexpr std::int64_t kPollNs = 25'000'000, kLongestPollNs = 5 * kNs;
constexpr const char* kDir = "/state";
constexpr const char* kServicesFile = "/etc/partita/services.yaml";

// Where a MIG device is.
struct Spot {
  int gpu = -1, gi_id = -1, ci_id = -1;
};
Spot spot_of(const Machine& machine, const std::string& device) {
  for (std::size_t g = 0; g < machine.gpus().size(); ++g)
    for (const SimInstance& instance : machine.gpus()[g].instances)
      for (const auto& compute : instance.compute)
        if (compute.uuid == device) return {static_cast<int>(g), instance.gi_id, compute.ci_id};
  return {};
}

// What a model carries at a clock against what it carries at the highest one, by the widest row of
// its smallest batch; between clocks as straight lines, below the lowest in proportion.
double speed_at(const plan::ResponseTable& table, const std::string& name, Mhz clock) {
  const plan::ModelResponse* model = table.find(name);
  if (model == nullptr) return 1;
  std::map<double, double> rates;  // by clock
  for (const plan::PowerPoint& point : model->points)
    if (point.units == table.units() && !rates.contains(point.clock.value))
      rates[point.clock.value] = point.max_rate.value;
  const double top = rates.rbegin()->second;
  const auto above = rates.lower_bound(clock.value);
  if (above == rates.end()) return 1;
  if (above == rates.begin())
    return above->second / top * std::min(1.0, clock.value / above->first);
  const auto below = std::prev(above);
  const double at = (clock.value - below->first) / (above->first - below->first);
  return (below->second + at * (above->second - below->second)) / top;
}

// Faults of random changing calls, for as many calls as a simulation can make.
std::vector<device::Fault> fault_script(double chance, Rng rng) {
  constexpr int kCalls = 20'000;
  constexpr ErrorCode kCodes[] = {ErrorCode::environment, ErrorCode::timeout, ErrorCode::in_use};
  std::vector<device::Fault> script;
  for (int call = 1; chance > 0 && call <= kCalls; ++call) {
    if (rng.uniform() >= chance) continue;
    device::Fault& fault = script.emplace_back();
    fault.call = call;
    fault.code = kCodes[rng.below(std::size(kCodes))];
    fault.hang_ns = static_cast<std::int64_t>(rng.uniform() * 3 * kNs);
    fault.after_effect = rng.below(2) == 0;
  }
  return script;
}

long whole(double count) { return static_cast<long>(std::floor(count)); }

}  // namespace

const char* to_string(SimOutage outage) {
  constexpr const char* kWords[kSimOutages] = {"workers", "some", "supervisor", "watchless",
                                               "gateway", "hung", "driver",     "gpu"};
  return kWords[static_cast<std::size_t>(outage)];
}

SimTroubles usual_troubles() {
  return {.reboots = 0.1,
          .lost_gpus = 0.1,
          .xids = 0.3,
          .ecc = 0.1,
          .foreign = 0.3,
          .worker_deaths = 2,
          .gateway_restarts = 0.3,
          .driver_faults = 0.005};
}

double attained(double rate, double planned, double most, double percentile) {
  if (rate <= 0) return 1;
  if (planned <= 0) return 0;
  const double late = std::clamp(1 - percentile / 100, 1e-9, 1.0);
  const double full = std::max(most, planned * 1.05);
  const double idle = (full - rate) / (full - planned);  // 1 at the planned rate
  const double in_time = idle <= 0 ? 0 : 1 - std::pow(late, idle);
  // Above, a gateway that sheds keeps what was promised for as many as were planned.
  return std::max(in_time, rate > planned ? (1 - late) * planned / rate : 0.0);
}

// ---- doors ----

class SimNode::ClockDoor final : public Clock {
 public:
  explicit ClockDoor(SimNode& node) : node_(node) {}
  std::int64_t now_ns() override { return node_.now_; }
  std::int64_t cpu_ns() override { return node_.now_; }
  void sleep_ns(std::int64_t ns) override {
    if (node_.at_call) node_.at_call();
    std::int64_t until = node_.now_ + std::max<std::int64_t>(ns, 0);
    if (ns <= kPollNs)
      until = std::max(until, std::min(node_.next_event(), node_.now_ + kLongestPollNs));
    node_.advance(until);
  }

 private:
  SimNode& node_;
};

class SimNode::FilesDoor final : public Files {
 public:
  explicit FilesDoor(SimNode& node)
      : node_(node), gateway_(actuate::gateway_path(kDir)), workers_(actuate::workers_path(kDir)) {}
  Result<std::string> read(const std::string& path) override {
    if (path == workers_) return node_.workers_text();
    if (path == gateway_ && node_.gateway_ != 0)
      return actuate::gateway_json(node_.gateway_state());
    if (node_.disk_refuses)
      if (auto why = node_.disk_refuses(path, false)) return failed(*std::move(why));
    return node_.disk_.read(path);
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return node_.disk_.list(path);
  }
  bool is_directory(const std::string& path) override { return node_.disk_.is_directory(path); }
  bool exists(const std::string& path) override {
    return path == workers_ || (path == gateway_ ? node_.gateway_ != 0 : node_.disk_.exists(path));
  }
  Result<void> make_directories(const std::string& path) override {
    return node_.disk_.make_directories(path);
  }
  Result<FileLock> lock(const std::string& path) override { return node_.disk_.lock(path); }
  Result<void> remove(const std::string& path) override { return node_.disk_.remove(path); }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return around(from, [&] { return node_.disk_.rename(from, to); });
  }
  Result<void> write_atomic(const std::string& path, std::string_view text) override {
    return around(path, [&] { return node_.disk_.write_atomic(path, text); });
  }
  Result<void> append(const std::string& path, std::string_view text) override {
    return around(path, [&] { return node_.disk_.append(path, text); });
  }

 private:
  template <class Act>
  Result<void> around(const std::string& path, Act act) {
    if (node_.at_call) node_.at_call();
    if (node_.disk_refuses)
      if (auto why = node_.disk_refuses(path, true)) return failed(*std::move(why));
    const Result<void> done = act();
    node_.follow_assignment();
    if (node_.at_call) node_.at_call();
    return done;
  }

  SimNode& node_;
  const std::string gateway_, workers_;
};

class SimNode::DriverDoor final : public device::NodeDriver {
 public:
  explicit DriverDoor(SimNode& node, bool counted = true) : node_(node), counted_(counted) {}
  Result<device::DriverInfo> info() override {
    if (node_.broken(SimOutage::driver)) return silent();
    return node_.inner_->info();
  }
  Result<device::GpuState> read(int gpu) override {
    if (node_.broken(SimOutage::driver)) return silent();
    return node_.inner_->read(gpu);
  }
  Result<std::vector<device::ProfileInfo>> profiles(int gpu) override {
    return node_.inner_->profiles(gpu);
  }
  Result<device::ModeChange> set_mig_mode(int gpu, bool enabled) override {
    return around([&] { return node_.faulty_->set_mig_mode(gpu, enabled); });
  }
  Result<int> create_instance(int gpu, const device::Placement& at) override {
    return around([&] { return node_.faulty_->create_instance(gpu, at); });
  }
  Result<void> destroy_instance(int gpu, int gi_id) override {
    return around([&] { return node_.faulty_->destroy_instance(gpu, gi_id); });
  }
  Result<device::ComputeInstance> create_compute(int gpu, int gi_id) override {
    return around([&] { return node_.faulty_->create_compute(gpu, gi_id); });
  }
  Result<void> destroy_compute(int gpu, int gi_id, int ci_id) override {
    return around([&] { return node_.faulty_->destroy_compute(gpu, gi_id, ci_id); });
  }
  Result<telemetry::GpuSample> telemetry(int gpu) override { return node_.inner_->telemetry(gpu); }
  Result<device::PowerState> power_settings(int gpu) override {
    return node_.inner_->power_settings(gpu);
  }
  Result<void> set_power_settings(int gpu, const device::PowerSettings& settings) override {
    return around([&] { return node_.faulty_->set_power_settings(gpu, settings); });
  }

 private:
  static tl::unexpected<Error> silent() {
    return failed({ErrorCode::environment, "the driver does not answer", ""});
  }
  // The devices of the machine.
  std::set<std::string> devices() {
    std::set<std::string> all;
    node_.with_machine([&](Machine& machine) {
      for (const SimGpu& gpu : machine.gpus())
        for (const SimInstance& instance : gpu.instances)
          for (const auto& compute : instance.compute) all.insert(compute.uuid);
    });
    return all;
  }
  template <class Act>
  auto around(Act act) -> decltype(act()) {
    if (node_.at_call) node_.at_call();
    if (node_.broken(SimOutage::driver)) return silent();
    const std::set<std::string> before = devices();
    auto answer = act();
    const std::set<std::string> after = devices();
    for (const std::string& device : after) {
      if (before.contains(device) || !counted_) continue;
      ++node_.created_;
      if (node_.touched) node_.touched("create", device);
    }
    for (const std::string& device : before)
      if (!after.contains(device) && counted_ && node_.touched) node_.touched("destroy", device);
    node_.settle_crews();
    if (node_.at_call) node_.at_call();
    return answer;
  }

  SimNode& node_;
  const bool counted_;
};

// ---- the node ----

SimNode::SimNode(SimNodeOptions options, const hw::Catalogue& catalogue)
    : options_(std::move(options)), catalogue_(catalogue), rng_(Rng(options_.seed).split(7)) {
  clock_ = std::make_unique<ClockDoor>(*this);
  files_ = std::make_unique<FilesDoor>(*this);
  machine_ =
      drivers::sim::own_machine(std::move(options_.machine), *clock_, 1, {}, options_.power_rights);
  inner_ = std::make_unique<drivers::sim::SimDriver>(*machine_);
  faulty_ = std::make_unique<device::FaultyDriver>(
      *inner_, *clock_, fault_script(options_.troubles.driver_faults, Rng(options_.seed).split(8)),
      [] {});
  driver_ = std::make_unique<DriverDoor>(*this);
  batch_driver_ = std::make_unique<DriverDoor>(*this, false);
  processes_ =
      std::make_unique<SimProcesses>(*clock_, [](const ProcessSpec&) { return SimBehaviour{}; });
  tallies_.resize(options_.services.size());
  counted_.resize(options_.services.size());
  recent_.resize(options_.services.size());
  disk_.content[kServicesFile] = options_.services_text;
  start_gateway();
  start_supervisor();
  for (std::size_t kind = 0; kind < next_.size(); ++kind) draw_next(static_cast<Trouble>(kind));
}

SimNode::~SimNode() = default;

AgentDoors SimNode::doors() {
  AgentDoors doors{*driver_, *files_, *clock_, [this] { return wall_ms(); }, kDir};
  doors.services_file = kServicesFile;
  doors.processes = processes_.get();
  doors.gateway = [this] { return gateway_ != 0 ? std::optional(gateway_state()) : std::nullopt; };
  doors.telemetry = false;
  doors.health = [this] { return take_health(); };
  doors.boot = fmt::format("boot {}", boots_);
  doors.ending = [this] { return reboot_due_; };
  return doors;
}

device::NodeDriver& SimNode::batch_driver() { return *batch_driver_; }

void SimNode::hold(const std::string& device, Pid pid, const std::string& name) {
  with_machine([&](Machine& machine) {
    const Spot spot = spot_of(machine, device);
    if (spot.gpu >= 0)
      static_cast<void>(machine.attach(spot.gpu, {pid, name, spot.gi_id, spot.ci_id}));
  });
}

void SimNode::let_go(Pid pid) {
  with_machine([&](Machine& machine) { machine.detach(pid); });
}

void SimNode::write(const std::string& path, const std::string& text) {
  disk_.content[path] = text;
}

template <class Use>
void SimNode::with_machine(Use use) {
  CHECK(machine_->with(use).has_value());
}

Machine SimNode::machine() {
  std::optional<Machine> copy;
  with_machine([&](Machine& machine) { copy = machine; });
  return *std::move(copy);
}

device::NodeState SimNode::look() {
  auto state = device::read_node(*inner_);
  CHECK(state.has_value());
  return *std::move(state);
}

actuate::Assignment SimNode::assignment() {
  const auto text = disk_.content.find(actuate::assignment_path(kDir));
  if (text != disk_.content.end() && text->second == followed_) return followed_assignment_;
  auto read = actuate::read_assignment(disk_, kDir);
  CHECK(read.has_value());
  return *std::move(read);
}

void SimNode::count(const std::string& what, const std::string& text) {
  ++events_[what];
  if (log) log(what + " " + text);
}

double SimNode::rate(std::size_t service) const {
  return options_.services[service].traffic.rate(now_ / kMinuteNs);
}

double SimNode::ready_rps(std::size_t service) const {
  double sum = 0;
  for (const auto& [device, crew] : crews_)
    if (crew.pid != 0 && !crew.leave_ns && crew.ready_ns <= now_ &&
        crew.segment.service == options_.services[service].wanted.name)
      sum += crew.segment.throughput_rps;
  return sum;
}

int SimNode::gpus_used() const {
  int used = 0;
  const auto seen = machine_->glance([&](const Machine& machine) {
    for (const SimGpu& gpu : machine.gpus()) used += gpu.instances.empty() ? 0 : 1;
  });
  CHECK(seen.has_value());
  return used;
}

bool SimNode::calm(std::int64_t now_ns) const {
  constexpr std::int64_t kHalfDay = kDayNs / 2;
  const auto calm = static_cast<std::int64_t>(options_.troubles.calm_hours * 3600e9);
  return now_ns % kHalfDay >= kHalfDay - calm;
}

// Full batches back to back, as measured.
double SimNode::most_rps(const actuate::AssignedSegment& segment) const {
  const auto wanted = std::ranges::find(options_.services, segment.service,
                                        [](const SimService& one) { return one.wanted.name; });
  if (wanted == options_.services.end()) return segment.throughput_rps;
  for (const plan::FleetEntry& entry : options_.profiles) {
    const int profile = [&] {
      for (std::size_t p = 0; p < entry.gpu.profiles.size(); ++p)
        if (entry.gpu.profiles[p].name == segment.profile) return static_cast<int>(p);
      return -1;
    }();
    const auto table = entry.profiles.find(wanted->wanted.model);
    if (profile < 0 || table == entry.profiles.end()) continue;
    const auto* point = profile::find_point(
        table->second, entry.gpu.profiles[static_cast<std::size_t>(profile)].gpcs, segment.batch,
        segment.processes);
    if (point != nullptr) return point->throughput.value;
  }
  return segment.throughput_rps;
}

// ---- time ----

std::int64_t SimNode::next_event() const {
  const std::int64_t step = at_second ? kNs : kMinuteNs;
  std::int64_t next = (now_ / step + 1) * step;
  for (const std::int64_t at : next_) next = std::min(next, std::max(at, now_ + 1));
  for (const auto& [device, crew] : crews_) {
    if (crew.leave_ns) next = std::min(next, *crew.leave_ns);
    if (crew.pid != 0 && crew.ready_ns > now_) next = std::min(next, crew.ready_ns);
    if (crew.pid == 0 && crew.start_ns > now_) next = std::min(next, crew.start_ns);
  }
  for (const Later& later : later_) next = std::min(next, later.at_ns);
  return std::max(next, now_ + 1);
}

void SimNode::advance(std::int64_t until_ns) {
  CHECK(!in_advance_);
  in_advance_ = true;
  while (now_ < until_ns) {
    account(std::min(until_ns, next_event()));
    happen();
    if (!at_second || now_ / kNs == told_second_) continue;
    told_second_ = now_ / kNs;
    at_second();
  }
  in_advance_ = false;
}

double SimNode::energy_j() {
  double sum = 0;
  for (int gpu = 0; gpu < inner_->info()->gpus; ++gpu)
    if (const auto sample = inner_->telemetry(gpu); sample && sample->energy)
      sum += sample->energy->value;
  return sum;
}

// How fast each crew is at its board's clock, and how busy that makes it.
void SimNode::pace_crews() {
  for (auto& [device, crew] : crews_) {
    if (crew.pid == 0 || crew.leave_ns || crew.ready_ns > now_) continue;
    Spot spot;
    std::string gpu;
    with_machine([&](Machine& machine) {
      spot = spot_of(machine, device);
      if (spot.gpu >= 0) gpu = machine.gpus()[static_cast<std::size_t>(spot.gpu)].model->name;
    });
    const auto table = std::ranges::find(options_.tables, gpu, &plan::ResponseTable::gpu);
    const auto wanted = std::ranges::find(options_.services, crew.segment.service,
                                          [](const SimService& one) { return one.wanted.name; });
    if (table == options_.tables.end() || wanted == options_.services.end()) continue;
    const auto service = static_cast<std::size_t>(wanted - options_.services.begin());
    const auto sample = inner_->telemetry(spot.gpu);
    if (!sample || !sample->sm_clock) continue;
    const double all = ready_rps(service);
    const double share = all > 0 ? crew.segment.throughput_rps / all : 1;
    crew.speed = speed_at(*table, wanted->wanted.model, *sample->sm_clock);
    const double busy = std::min(1.0, rate(service) * share / (most_.at(device) * crew.speed));
    with_machine([&](Machine& machine) {
      machine.detach(crew.pid);
      CHECK(machine.attach(spot.gpu, {crew.pid, "worker", spot.gi_id, spot.ci_id, false, busy})
                .has_value());
    });
  }
}

// What the ready segments of a service are planned to carry, and what they carry at most.
std::pair<double, double> SimNode::ready(std::size_t service) const {
  double planned = 0, most = 0;
  for (const auto& [device, crew] : crews_) {
    if (crew.pid == 0 || crew.leave_ns || crew.ready_ns > now_) continue;
    if (crew.segment.service != options_.services[service].wanted.name) continue;
    planned += crew.segment.throughput_rps * crew.speed;
    most += most_.at(device) * crew.speed;
  }
  return {planned, most};
}

double SimNode::share_in_time(std::size_t service) const {
  if (gateway_ == 0 || hung_) return 0;
  const auto [planned, most] = ready(service);
  return attained(rate(service), planned, most, options_.services[service].wanted.percentile);
}

// Rates and capacities stay the same until then.
void SimNode::account(std::int64_t until_ns) {
  const double seconds = static_cast<double>(until_ns - now_) * 1e-9;
  if (!options_.tables.empty()) pace_crews();
  for (std::size_t s = 0; s < options_.services.size(); ++s) {
    const auto [planned, most] = ready(s);
    const double rate_now = rate(s), requests = rate_now * seconds;
    const bool heard = gateway_ != 0 && !hung_;
    const double share = share_in_time(s);
    const double lost = requests * (1 - share);
    const double shed = rate_now > planned ? 0.8 * lost : 0;
    for (SimTally* tally : {&tallies_[s], heard ? &counted_[s] : nullptr}) {
      if (tally == nullptr) continue;
      tally->arrived += requests;
      tally->in_slo += requests * share;
      tally->shed += shed;
      tally->missed += lost - shed;
    }
    const SimTally& counted = counted_[s];
    if (heard)
      recent_[s].note(static_cast<double>(until_ns) * 1e-9,
                      {counted.arrived, counted.in_slo, counted.missed + counted.shed, 0});
    if (s < floors_.size() && most < floors_[s] * (1 - 1e-9)) below_s_[s] += seconds;
    SimTally& tally = tallies_[s];
    const bool is_short = rate_now > planned;
    tally.short_now_s = is_short ? tally.short_now_s + seconds : 0;
    tally.short_s += is_short ? seconds : 0;
    tally.longest_short_s = std::max(tally.longest_short_s, tally.short_now_s);
  }
  gpu_seconds_ += gpus_used() * seconds;
  now_ = until_ns;
}

// ---- workers ----

void SimNode::follow_assignment() {
  const auto found = disk_.content.find(actuate::assignment_path(kDir));
  if (found == disk_.content.end() || found->second == followed_) return;
  auto assignment = actuate::parse_assignment(found->first, found->second);
  if (!assignment) return;  // the last good one stays in force
  followed_ = found->second;
  followed_assignment_ = *assignment;
  if (supervisor_ != 0) supervised_revision_ = assignment->revision;
  for (auto& [device, crew] : crews_) {
    const auto same =
        std::ranges::find(assignment->segments, device, &actuate::AssignedSegment::device);
    // As the supervisor of workers: what a segment is planned to carry is no reason to restart.
    const auto work_of = [](actuate::AssignedSegment segment) {
      segment.throughput_rps = 0;
      return segment;
    };
    const bool stays =
        same != assignment->segments.end() && work_of(*same) == work_of(crew.segment);
    if (stays) crew.segment.throughput_rps = same->throughput_rps;
    if (!stays && !crew.leave_ns)
      crew.leave_ns = now_ + static_cast<std::int64_t>((0.5 + 1.5 * rng_.uniform()) * kNs);
  }
  for (const actuate::AssignedSegment& segment : assignment->segments) {
    const auto [place, fresh] = crews_.try_emplace(segment.device);
    if (fresh) {
      place->second.segment = segment;
      most_[segment.device] = most_rps(segment);
    }
  }
  settle_crews();
}

void SimNode::start_crew(const std::string& device, Crew& crew) {
  with_machine([&](Machine& machine) {
    const Spot spot = spot_of(machine, device);
    if (spot.gpu < 0) return;
    crew.pid = next_pid_++;
    if (!machine.attach(spot.gpu, {crew.pid, "worker", spot.gi_id, spot.ci_id})) crew.pid = 0;
  });
  crew.ready_ns = now_ + static_cast<std::int64_t>((10 + 20 * rng_.uniform()) * kNs);
}

bool SimNode::may_start(const std::string& device, const Crew& crew) const {
  const auto kept_down = broken_.find(SimOutage::workers);
  if (supervisor_ == 0 || crew.start_ns > now_) return false;
  if (kept_down != broken_.end() &&
      options_.services[static_cast<std::size_t>(kept_down->second)].wanted.name ==
          crew.segment.service)
    return false;
  const auto place = std::distance(crews_.begin(), crews_.find(device));
  return !broken(SimOutage::some) || place % 2 == 1;
}

void SimNode::end_crew(Crew& crew) {
  if (crew.pid == 0) return;
  with_machine([&](Machine& machine) { machine.detach(crew.pid); });
  crew.pid = 0;
  crew.start_ns = now_ + kNs;
}

// Crews that are to go and have gone; those whose device is gone; those that may begin.
void SimNode::settle_crews() {
  bool gone = false;
  for (auto it = crews_.begin(); it != crews_.end();) {
    Crew& crew = it->second;
    const auto there = [&] {
      bool found = false;
      with_machine([&](Machine& machine) { found = spot_of(machine, it->first).gpu >= 0; });
      return found;
    }();
    if (crew.pid != 0 && !there) crew.pid = 0;
    if (crew.leave_ns && (*crew.leave_ns <= now_ || crew.pid == 0)) {
      if (crew.pid != 0) with_machine([&](Machine& machine) { machine.detach(crew.pid); });
      most_.erase(it->first);
      it = crews_.erase(it);
      gone = true;
      continue;
    }
    if (crew.pid == 0 && there && may_start(it->first, crew)) start_crew(it->first, crew);
    ++it;
  }
  if (!gone) return;
  followed_.clear();  // another segment may have waited for the device
  follow_assignment();
}

// ---- the gateway ----

void SimNode::start_gateway() {
  const auto pid = processes_->start({.argv = {"partita", "gateway"}});
  CHECK(pid.has_value());
  gateway_ = *pid;
  hung_.reset();
  std::ranges::fill(counted_, SimTally{});
  for (actuate::RecentRequests& one : recent_) {
    one = {};
    one.note(static_cast<double>(now_) * 1e-9, {});
  }
}

void SimNode::start_supervisor() {
  const auto pid = processes_->start({.argv = {"partita", "workers"}});
  CHECK(pid.has_value());
  supervisor_ = *pid;
  supervisor_record_ = {supervisor_, processes_->identity(supervisor_)};
  supervised_revision_ = followed_assignment_.revision;
}

// Its workers are not told one by one: crews are.
std::string SimNode::workers_text() const {
  return actuate::workers_json({supervised_revision_, supervisor_record_, {}});
}

// ---- outages ----

void SimNode::break_down(SimOutage outage, int which) {
  CHECK(broken_.emplace(outage, which).second);
  count(fmt::format("outage-{}", to_string(outage)), fmt::format("{}", which));
  long place = 0;
  for (auto& [device, crew] : crews_) {
    const bool its =
        outage == SimOutage::workers &&
        options_.services[static_cast<std::size_t>(which)].wanted.name == crew.segment.service;
    if (its || outage == SimOutage::supervisor || (outage == SimOutage::some && place % 2 == 0))
      end_crew(crew);
    ++place;
  }
  if (outage == SimOutage::supervisor || outage == SimOutage::watchless) {
    if (supervisor_ != 0) processes_->crash(supervisor_, 1);
    supervisor_ = 0;
  }
  if (outage == SimOutage::hung && gateway_ != 0) hung_ = gateway_state();
  if (outage == SimOutage::gateway) {
    processes_->crash(gateway_, 1);
    gateway_ = 0;
    hung_.reset();
  }
  if (outage == SimOutage::gpu) lose_gpu(which, 79);
}

void SimNode::mend(SimOutage outage) {
  const auto found = broken_.find(outage);
  CHECK(found != broken_.end());
  const int which = found->second;
  broken_.erase(found);
  count(fmt::format("mended-{}", to_string(outage)), "");
  const bool supervised = broken(SimOutage::supervisor) || broken(SimOutage::watchless);
  if (supervisor_ == 0 && !supervised) start_supervisor();
  if (outage == SimOutage::hung && hung_) {
    hung_.reset();
    processes_->crash(gateway_, 1);
    start_gateway();
  }
  if (outage == SimOutage::gateway) start_gateway();
  if (outage == SimOutage::gpu)
    regain_gpu(which, machine().gpus()[static_cast<std::size_t>(which)].uuid);
  settle_crews();
}

actuate::GatewayState SimNode::gateway_state() {
  if (hung_) return *hung_;
  actuate::GatewayState state;
  state.pid = gateway_;
  state.identity = processes_->identity(gateway_);
  state.written_s = static_cast<double>(now_) * 1e-9;
  state.revision = followed_assignment_.revision;
  std::map<std::string, double> capacity;
  for (const auto& [device, crew] : crews_) {
    if (crew.pid == 0 || crew.ready_ns > now_) continue;
    if (!crew.leave_ns) capacity[crew.segment.service] += most_.at(device);
    for (int index = 0; index < crew.segment.processes; ++index)
      state.workers.push_back(
          {device, index, crew.segment.service, crew.pid,
           crew.leave_ns ? actuate::WorkerReadiness::leaving : actuate::WorkerReadiness::ready,
           0.1});
  }
  for (std::size_t s = 0; s < options_.services.size(); ++s) {
    const SimTally& tally = counted_[s];
    actuate::GatewayRequests requests{
        .in_slo = whole(tally.in_slo), .missed = whole(tally.missed), .shed = whole(tally.shed)};
    requests.arrived = requests.in_slo + requests.missed + requests.shed;
    const plan::Service& service = options_.services[s].wanted;
    const double slo_s = service.slo.value * 1e-3;
    requests.recent = recent_[s].last(actuate::kShortStretch, slo_s);
    requests.lately = recent_[s].last(actuate::kMiddleStretch, slo_s);
    requests.minute = recent_[s].last(actuate::kLongStretch, slo_s);
    const auto assigned =
        std::ranges::find(followed_assignment_.services, service.name, &plan::Terms::name);
    const bool planned = assigned != followed_assignment_.services.end();
    state.services.push_back({service.name, capacity[service.name],
                              planned ? assigned->rate.value : service.rate.value, requests});
  }
  return state;
}

// ---- troubles ----

double SimNode::per_day(Trouble kind) const {
  const SimTroubles& t = options_.troubles;
  const double per_day[] = {t.reboots,       t.lost_gpus,       t.xids, t.ecc, t.foreign,
                            t.worker_deaths, t.gateway_restarts};
  return per_day[static_cast<std::size_t>(kind)];
}

void SimNode::draw_next(Trouble kind) {
  std::int64_t& next = next_[static_cast<std::size_t>(kind)];
  next = kNeverNs;
  if (per_day(kind) <= 0) return;
  next = now_ + static_cast<std::int64_t>(rng_.exponential() * kDayNs / per_day(kind)) + 1;
  while (calm(next)) next += kDayNs / 24;
}

void SimNode::happen() {
  std::vector<Later> due;
  std::erase_if(later_, [&](const Later& one) {
    if (one.at_ns <= now_) due.push_back(one);
    return one.at_ns <= now_;
  });
  for (const Later& one : due) one.what();
  for (std::size_t kind = 0; kind < next_.size(); ++kind) {
    if (next_[kind] > now_) continue;
    trouble(static_cast<Trouble>(kind));
    draw_next(static_cast<Trouble>(kind));
  }
  settle_crews();
}

// A GPU that is there; -1: none.
int SimNode::healthy_gpu() {
  std::vector<int> well;
  with_machine([&](Machine& machine) {
    for (std::size_t g = 0; g < machine.gpus().size(); ++g)
      if (!machine.gpus()[g].lost) well.push_back(static_cast<int>(g));
  });
  return well.empty() ? -1 : well[rng_.below(well.size())];
}

void SimNode::report_xid(const std::string& uuid, int xid) {
  health_.push_back({uuid, HealthEvent::Kind::xid, xid});
  const hw::Xid* known = hw::find_xid(xid);
  if (known != nullptr && known->action == hw::XidAction::reset_gpu) ills_[uuid].recovery = 1;
}

std::vector<HealthEvent> SimNode::take_health() {
  std::vector<HealthEvent> news = std::exchange(health_, {});
  if (broken(SimOutage::driver)) return news;
  with_machine([&](Machine& machine) {
    for (const SimGpu& gpu : machine.gpus()) {
      device::HealthReading now = ills_[gpu.uuid];
      now.gpu_uuid = gpu.uuid;
      now.lost = gpu.lost;
      if (!now.uncorrected_errors) now.uncorrected_errors = 0;
      if (!now.recovery) now.recovery = 0;
      for (HealthEvent& one : health_changes_.hear(now)) news.push_back(std::move(one));
    }
  });
  return news;
}

void SimNode::watch_anew() {
  health_.clear();
  health_changes_ = {};
}

void SimNode::lose_gpu(int gpu, int xid) {
  std::string uuid;
  with_machine([&](Machine& machine) {
    uuid = machine.gpus()[static_cast<std::size_t>(gpu)].uuid;
    machine.lose(gpu);
  });
  report_xid(uuid, xid);
  count("lost", fmt::format("gpu {}", gpu));
}

void SimNode::regain_gpu(int gpu, const std::string& uuid) {
  with_machine([&](Machine& machine) { machine.regain(gpu); });
  ills_.erase(uuid);
  count("regained", fmt::format("gpu {}", gpu));
}

// Somebody destroys an instance, whoever uses it, or makes a small one.
void SimNode::foreign_change() {
  const int gpu = healthy_gpu();
  if (gpu < 0) return;
  const bool destroys = rng_.below(2) == 0;
  const std::uint64_t pick = rng_.next();
  std::string what;
  with_machine([&](Machine& machine) {
    const SimGpu& there = machine.gpus()[static_cast<std::size_t>(gpu)];
    if (destroys && !there.instances.empty()) {
      const SimInstance instance = there.instances[pick % there.instances.size()];
      const std::vector<drivers::sim::SimProcess> processes = there.processes;
      for (const auto& process : processes)
        if (process.gi_id == instance.gi_id) machine.detach(process.pid);
      for (const auto& compute : instance.compute)
        CHECK(machine.destroy_compute(gpu, instance.gi_id, compute.ci_id).has_value());
      CHECK(machine.destroy_instance(gpu, instance.gi_id).has_value());
      what = fmt::format("destroys gi {} of gpu {}", instance.gi_id, gpu);
    } else if (const auto made = machine.create_instance(gpu, 0, std::nullopt)) {
      const int gpcs = there.model->profiles[0].gpcs;
      CHECK(machine.create_compute(gpu, made->value, gpcs, std::nullopt).has_value());
      foreign_.insert(there.find(made->value)->compute.front().uuid);
      what = fmt::format("makes gi {} on gpu {}", made->value, gpu);
    }
  });
  if (!what.empty()) count("foreign", what);
}

void SimNode::trouble(Trouble kind) {
  switch (kind) {
    case Trouble::reboot:
      reboot_due_ = true;
      return;
    case Trouble::lost:
      if (const int gpu = healthy_gpu(); gpu >= 0) {
        lose_gpu(gpu, 79);
        const std::string uuid = machine().gpus()[static_cast<std::size_t>(gpu)].uuid;
        const auto after_ns = static_cast<std::int64_t>((0.5 + 2 * rng_.uniform()) * 3600 * kNs);
        later_.push_back({now_ + after_ns, [this, gpu, uuid] { regain_gpu(gpu, uuid); }});
      }
      return;
    case Trouble::xid:
    case Trouble::ecc: {
      const int gpu = healthy_gpu();
      if (gpu < 0) return;
      const std::string uuid = machine().gpus()[static_cast<std::size_t>(gpu)].uuid;
      const bool ecc = kind == Trouble::ecc;
      constexpr int kXids[] = {13, 31, 43, 48, 62, 95};
      if (ecc) {
        ills_[uuid].uncorrected_errors = ills_[uuid].uncorrected_errors.value_or(0) + 1;
      } else {
        report_xid(uuid, kXids[rng_.below(std::size(kXids))]);
      }
      count(ecc ? "ecc" : "xid", fmt::format("gpu {}", gpu));
      later_.push_back({now_ + static_cast<std::int64_t>((0.5 + rng_.uniform()) * 3600 * kNs),
                        [this, uuid] { ills_.erase(uuid); }});
      return;
    }
    case Trouble::foreign:
      return foreign_change();
    case Trouble::worker: {
      if (crews_.empty()) return;
      auto victim = std::next(crews_.begin(), static_cast<long>(rng_.below(crews_.size())));
      Crew& crew = victim->second;
      if (crew.pid == 0) return;
      end_crew(crew);
      return count("worker-death", victim->first);
    }
    case Trouble::gateway:
      processes_->crash(gateway_, 1);
      start_gateway();
      return count("gateway-restart", "");
    case Trouble::count:
      return;
  }
}

void SimNode::reboot() {
  reboot_due_ = false;
  with_machine([](Machine& machine) { machine.reboot(); });
  for (auto& [device, crew] : crews_) crew.pid = 0;
  for (const Pid pid : {gateway_, supervisor_})
    if (pid != 0) processes_->crash(pid, 1);
  count("reboot", "");
  ++boots_;
  ills_.clear();
  advance(now_ + static_cast<std::int64_t>((120 + 120 * rng_.uniform()) * kNs));
  start_gateway();
  start_supervisor();
}

}  // namespace partita::control
