#include "control/sim/sim_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"

namespace partita::control {
namespace {

constexpr std::int64_t kNs = 1'000'000'000;
constexpr std::int64_t kMinuteNs = 60 * kNs;
// Who sleeps so shortly polls: nothing is missed by waking it when something has happened.
constexpr std::int64_t kPollNs = 25'000'000, kLongestPollNs = 5 * kNs;
constexpr const char* kServicesFile = "/etc/partita/services.yaml";

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

}  // namespace

const char* to_string(SimOutage outage) {
  constexpr const char* kWords[kSimOutages] = {"workers", "some", "supervisor", "watchless",
                                               "gateway", "hung", "driver",     "gpu"};
  return kWords[static_cast<std::size_t>(outage)];
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
    if (path == workers_) return node_.crews_->workers_text();
    if (path == gateway_ && node_.gateway_.pid() != 0)
      return actuate::gateway_json(node_.gateway_.state(node_.now_));
    if (node_.disk_refuses)
      if (auto why = node_.disk_refuses(path, false)) return failed(*std::move(why));
    return node_.disk_.read(path);
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return node_.disk_.list(path);
  }
  bool is_directory(const std::string& path) override { return node_.disk_.is_directory(path); }
  bool exists(const std::string& path) override {
    return path == workers_ ||
           (path == gateway_ ? node_.gateway_.pid() != 0 : node_.disk_.exists(path));
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
    node_.crews_->follow(node_.now_);
    if (node_.at_call) node_.at_call();
    return done;
  }

  SimNode& node_;
  const std::string gateway_, workers_;
};

class SimNode::DriverDoor final : public device::AdaptedDriver {
 public:
  explicit DriverDoor(SimNode& node, bool counted = true) : node_(node), counted_(counted) {}

 private:
  Result<device::Answer> on_call(const device::Call& call, const Make& make) override {
    if (device::changes(call.method)) return around([&] { return make(*node_.faulty_); });
    const bool basic =
        call.method == device::Method::info || call.method == device::Method::read;
    if (basic && node_.broken(SimOutage::driver)) return silent();
    return make(node_.boards_->driver());
  }
  static tl::unexpected<Error> silent() {
    return failed({ErrorCode::environment, "the driver does not answer", ""});
  }
  template <class Act>
  Result<device::Answer> around(Act act) {
    if (node_.at_call) node_.at_call();
    if (node_.broken(SimOutage::driver)) return silent();
    const std::set<std::string> before = node_.boards_->devices();
    auto answer = act();
    const std::set<std::string> after = node_.boards_->devices();
    for (const std::string& device : after) {
      if (before.contains(device) || !counted_) continue;
      ++node_.counts_.created;
      if (node_.touched) node_.touched("create", device);
    }
    for (const std::string& device : before)
      if (!after.contains(device) && counted_ && node_.touched) node_.touched("destroy", device);
    node_.crews_->settle(node_.now_);
    if (node_.at_call) node_.at_call();
    return answer;
  }

  SimNode& node_;
  const bool counted_;
};

// ---- the node ----

SimNode::SimNode(SimNodeOptions options, const hw::Catalogue& catalogue)
    : options_(std::move(options)),
      catalogue_(catalogue),
      rng_(Rng(options_.seed).split(7)),
      clock_(std::make_unique<ClockDoor>(*this)),
      files_(std::make_unique<FilesDoor>(*this)),
      boards_(
          std::make_unique<SimBoards>(std::move(options_.machine), *clock_, options_.power_rights)),
      faulty_(std::make_unique<device::FaultyDriver>(
          boards_->driver(), *clock_,
          fault_script(options_.troubles.driver_faults, Rng(options_.seed).split(8)), [] {})),
      driver_(std::make_unique<DriverDoor>(*this)),
      batch_driver_(std::make_unique<DriverDoor>(*this, false)),
      processes_(std::make_unique<SimProcesses>(*clock_,
                                                [](const ProcessSpec&) { return SimBehaviour{}; })),
      crews_(std::make_unique<SimCrews>(options_.sites, *boards_, disk_, rng_)),
      gateway_(options_.sites, *crews_),
      dates_(options_.troubles, rng_) {
  boards_->told = [this](const std::string& what, const std::string& text) { count(what, text); };
  crews_->kept_down = [this](const std::string& service, long place) {
    const auto down = broken_.find(SimOutage::workers);
    const bool its = down != broken_.end() &&
                     services()[static_cast<std::size_t>(down->second)].wanted.name == service;
    return its || (broken(SimOutage::some) && place % 2 == 0);
  };
  disk_.content[kServicesFile] = options_.services_text;
  gateway_.start(*processes_, now_);
  crews_->supervise(*processes_);
}

SimNode::~SimNode() = default;

AgentDoors SimNode::doors() {
  AgentDoors doors{*driver_, *files_, *clock_, [this] { return wall_ms(); }, kDir};
  doors.services_file = kServicesFile;
  doors.processes = processes_.get();
  doors.gateway = [this] {
    return gateway_.pid() != 0 ? std::optional(gateway_.state(now_)) : std::nullopt;
  };
  doors.telemetry = false;
  doors.health = [this] { return boards_->take_health(broken(SimOutage::driver)); };
  doors.boot = fmt::format("boot {}", boots_);
  doors.ending = [this] { return reboot_due_; };
  return doors;
}

device::NodeDriver& SimNode::batch_driver() { return *batch_driver_; }

void SimNode::count(const std::string& what, const std::string& text) {
  ++counts_.events[what];
  if (log) log(what + " " + text);
}

double SimNode::rate(std::size_t service) const {
  return services()[service].traffic.rate(now_ / kMinuteNs);
}

std::vector<double> SimNode::rates() const {
  std::vector<double> all;
  for (std::size_t s = 0; s < services().size(); ++s) all.push_back(rate(s));
  return all;
}

double SimNode::ready_rps(std::size_t service) const {
  if (!services()[service].wanted.pipeline) return crews_->ready_rps(now_, service);
  return gateway_.ready(now_, service, rates()).planned;
}

double SimNode::share_in_time(std::size_t service) const {
  return gateway_.share_in_time(now_, service, rates());
}

// ---- time ----

std::int64_t SimNode::next_event() const {
  const std::int64_t step = at_second ? kNs : kMinuteNs;
  std::int64_t next = (now_ / step + 1) * step;
  next = std::min(next, dates_.next());
  next = std::min(next, crews_->next(now_).value_or(next));
  for (const Later& later : later_) next = std::min(next, later.at_ns);
  return std::max(next, now_ + 1);
}

void SimNode::advance(std::int64_t until_ns) {
  CHECK(!in_advance_);
  in_advance_ = true;
  while (now_ < until_ns) {
    const std::int64_t next = std::min(until_ns, next_event());
    const std::vector<double> now_rates = rates();
    crews_->pace(now_, now_rates);
    gateway_.account(now_, next, now_rates);
    counts_.gpu_seconds += boards_->used() * (static_cast<double>(next - now_) * 1e-9);
    now_ = next;
    happen();
    if (!at_second || now_ / kNs == told_second_) continue;
    told_second_ = now_ / kNs;
    at_second();
  }
  in_advance_ = false;
}

void SimNode::happen() {
  std::vector<Later> due;
  std::erase_if(later_, [&](const Later& one) {
    if (one.at_ns <= now_) due.push_back(one);
    return one.at_ns <= now_;
  });
  for (const Later& one : due) one.what();
  for (std::size_t kind = 0; kind < kTroubles; ++kind) {
    if (!dates_.due(static_cast<Trouble>(kind), now_)) continue;
    trouble(static_cast<Trouble>(kind));
    dates_.draw(static_cast<Trouble>(kind), now_);
  }
  crews_->settle(now_);
}

// ---- outages ----

void SimNode::break_down(SimOutage outage, int which) {
  CHECK(broken_.emplace(outage, which).second);
  count(fmt::format("outage-{}", to_string(outage)), fmt::format("{}", which));
  crews_->end(now_, [&](const std::string& service, long place) {
    if (outage == SimOutage::workers)
      return services()[static_cast<std::size_t>(which)].wanted.name == service;
    return outage == SimOutage::supervisor || (outage == SimOutage::some && place % 2 == 0);
  });
  if (outage == SimOutage::supervisor || outage == SimOutage::watchless) {
    if (crews_->supervisor() != 0) processes_->crash(crews_->supervisor(), 1);
    crews_->leave_alone();
  }
  if (outage == SimOutage::hung) gateway_.hang(now_);
  if (outage == SimOutage::gateway) gateway_.end(*processes_);
  if (outage == SimOutage::gpu) boards_->lose(which);
}

void SimNode::mend(SimOutage outage) {
  const auto found = broken_.find(outage);
  CHECK(found != broken_.end());
  const int which = found->second;
  broken_.erase(found);
  count(fmt::format("mended-{}", to_string(outage)), "");
  const bool supervised = broken(SimOutage::supervisor) || broken(SimOutage::watchless);
  if (crews_->supervisor() == 0 && !supervised) crews_->supervise(*processes_);
  const bool hung = outage == SimOutage::hung && gateway_.hangs();
  if (hung) gateway_.end(*processes_);
  if (hung || outage == SimOutage::gateway) gateway_.start(*processes_, now_);
  if (outage == SimOutage::gpu) boards_->regain(which);
  crews_->settle(now_);
}

// ---- troubles ----

void SimNode::later(double least_h, double spread_h, std::function<void()> what) {
  const auto after = static_cast<std::int64_t>((least_h + spread_h * rng_.uniform()) * 3600 * kNs);
  later_.push_back({now_ + after, std::move(what)});
}

void SimNode::trouble(Trouble kind) {
  switch (kind) {
    case Trouble::reboot:
      reboot_due_ = true;
      return;
    case Trouble::lost:
      if (const int gpu = boards_->healthy(rng_); gpu >= 0) {
        boards_->lose(gpu);
        later(0.5, 2, [this, gpu] { boards_->regain(gpu); });
      }
      return;
    case Trouble::xid:
    case Trouble::ecc: {
      const int gpu = boards_->healthy(rng_);
      if (gpu < 0) return;
      const bool ecc = kind == Trouble::ecc;
      constexpr int kXids[] = {13, 31, 43, 48, 62, 95};
      ecc ? boards_->add_error(gpu) : boards_->report_xid(gpu, kXids[rng_.below(std::size(kXids))]);
      count(ecc ? "ecc" : "xid", fmt::format("gpu {}", gpu));
      later(0.5, 1, [this, gpu] { boards_->cure(gpu); });
      return;
    }
    case Trouble::foreign:
      return boards_->change_by_others(rng_);
    case Trouble::worker:
      if (const auto device = crews_->end_any(now_)) count("worker-death", *device);
      return;
    case Trouble::gateway:
      gateway_.end(*processes_);
      gateway_.start(*processes_, now_);
      return count("gateway-restart", "");
  }
}

void SimNode::reboot() {
  reboot_due_ = false;
  boards_->reboot();
  crews_->stop();
  for (const Pid pid : {gateway_.pid(), crews_->supervisor()})
    if (pid != 0) processes_->crash(pid, 1);
  count("reboot", "");
  ++boots_;
  advance(now_ + static_cast<std::int64_t>((120 + 120 * rng_.uniform()) * kNs));
  gateway_.start(*processes_, now_);
  crews_->supervise(*processes_);
}

}  // namespace partita::control
