#include "drivers/cpu_mask/cpu_mask_driver.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <system_error>
#include <utility>

#include "device/lane_refusals.h"

namespace partita::drivers::cpu_mask {
namespace {

using device::HostKernel;
using device::lane_call;
using device::refused;

thread_local int unit_of_thread = -1;
thread_local bool comes_again = false;

// Whether the thread keeps its core from others of its priority, sessions that have a kernel to
// launch, say, for as long as it likes.
bool keeps_core() {
  const int policy = ::sched_getscheduler(0);
  return policy == SCHED_FIFO || policy == SCHED_RR;
}

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace

int this_unit() { return unit_of_thread; }
void come_again() { comes_again = true; }

// ---- threads ----

CpuMaskDriver::CpuMaskDriver(hw::Topology topology)
    : topology_(std::move(topology)),
      dispatcher_(topology_.units()),
      signals_(static_cast<std::size_t>(topology_.units())) {}

Result<std::unique_ptr<CpuMaskDriver>> CpuMaskDriver::open(hw::Topology topology) {
  const std::string call = fmt::format("open(topology {})", topology.name);
  if (topology.units() < 1 || topology.units() > hw::kMaxUnits)
    return refused(ErrorCode::invalid_argument,
                   fmt::format("{} units; 1 to {} can be", topology.units(), hw::kMaxUnits), call);
  std::unique_ptr<CpuMaskDriver> driver(new CpuMaskDriver(std::move(topology)));
  if (const auto started = driver->start(); !started)
    return refused(started.error().code, started.error().message, call);
  return driver;
}

Result<void> CpuMaskDriver::start() {
  try {
    for (int unit = 0; unit < topology_.units(); ++unit)
      threads_.emplace_back([this, unit] { work(unit); });
  } catch (const std::system_error& error) {
    return refused(ErrorCode::environment,
                   fmt::format("the system gives {} threads, a unit needs one each: {}",
                               threads_.size(), error.what()),
                   {});
  }
  return {};
}

CpuMaskDriver::~CpuMaskDriver() {
  std::unique_lock lock(mutex_);
  ++synchronising_;
  for (const auto& [number, lane] : lanes_)
    progress_.wait(lock, [&] { return lane->queue.empty(); });
  ending_ = true;
  lock.unlock();
  for (Wake& signal : signals_) signal.raise();
  for (std::thread& thread : threads_) thread.join();
}

// The life of a unit.
void CpuMaskDriver::work(int unit) {
  unit_of_thread = unit;
  pthread_setname_np(pthread_self(), fmt::format("unit {}", unit).c_str());  // top shows it
  const bool gives_way = keeps_core();
  std::int64_t now = now_ns(), gave_way = now;
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const std::optional<Batch> batch = dispatcher_.take(unit);
    const std::vector<int> woken = dispatcher_.woken();
    taken_ += batch.has_value();
    lock.unlock();
    notify(woken);
    std::optional<std::int64_t> until;
    if (batch)
      until = run(*batch);
    else
      signals_[static_cast<std::size_t>(unit)].wait();
    const std::int64_t began = std::exchange(now, now_ns());
    const std::int64_t spent = now - began;
    if (gives_way && now - gave_way > kMaxBatchNs) {
      ::sched_yield();
      gave_way = now = now_ns();
    }
    lock.lock();
    if (!batch) continue;
    const std::int64_t before = batch->lane->ended;
    dispatcher_.finish(*batch, unit, spent, until);
    // Whatever ended on other lanes waited for this one.
    if (batch->lane->ended != before && synchronising_ > 0) progress_.notify_all();
  }
}

// Runs the work-groups; a callable that throws ends the program here.
std::optional<std::int64_t> CpuMaskDriver::run(const Batch& batch) noexcept {
  const int unit = this_unit();
  if (unit < 0 || !batch.lane->mask[static_cast<std::size_t>(unit)])
    outside_ += batch.last - batch.first;
  for (std::int64_t group = batch.first; group < batch.last; ++group) {
    batch.kernel->run(group);
    if (std::exchange(comes_again, false)) return group;
  }
  return std::nullopt;
}

void CpuMaskDriver::notify(const std::vector<int>& units) {
  for (const int unit : units) signals_[static_cast<std::size_t>(unit)].raise();
}

// ---- the door ----

Result<device::LaneDriverInfo> CpuMaskDriver::info() {
  return device::LaneDriverInfo{.name = "cpu_mask",
                                .topology = topology_,
                                .atom = 1,
                                .max_lanes = kMaxLanes,
                                .max_events = kMaxEvents,
                                .max_queued = kMaxQueued};
}

Result<int> CpuMaskDriver::create_lane(const hw::UnitMask& mask) {
  const std::string call = fmt::format("create_lane(mask {})", hw::mask_hex(mask));
  TRY(device::check_mask(topology_, mask, call));
  const std::lock_guard lock(mutex_);
  if (lanes_.size() >= kMaxLanes)
    return refused(ErrorCode::limit, fmt::format("there are {} lanes", kMaxLanes), call);
  lanes_.emplace(next_lane_, dispatcher_.add(mask));
  return next_lane_++;
}

Result<void> CpuMaskDriver::destroy_lane(int lane) {
  const std::lock_guard lock(mutex_);
  const auto found = TRY(find_lane(lane, "destroy_lane"));
  if (!found->queue.empty())
    return refused(ErrorCode::in_use, fmt::format("{} unfinished", found->queued()),
                   lane_call("destroy_lane", lane));
  dispatcher_.remove(*found);
  lanes_.erase(lane);
  return {};
}

Result<device::LaneState> CpuMaskDriver::query(int lane) {
  const std::lock_guard lock(mutex_);
  const auto found = TRY(find_lane(lane, "query"));
  return device::LaneState{found->mask, found->queued()};
}

Result<void> CpuMaskDriver::launch(int lane, device::Kernel kernel) {
  auto* const host = std::get_if<HostKernel>(&kernel.code);
  if (!host)
    return refused(ErrorCode::not_supported, "a kernel of a GPU", lane_call("launch", lane));
  if (kernel.groups < 1 || !host->run)
    return refused(ErrorCode::invalid_argument, "a kernel has work-groups and a callable",
                   lane_call("launch", lane));
  std::unique_lock lock(mutex_);
  const auto found = TRY(find_with_room(lane, "launch"));
  push(std::move(lock), *found, Execution{std::move(host->run), kernel.groups});
  return {};
}

Result<void> CpuMaskDriver::synchronise(int lane) {
  std::unique_lock lock(mutex_);
  const auto found = TRY(find_lane(lane, "synchronise"));
  const std::int64_t all = found->ended + found->queued();
  lock.unlock();
  if (spin_until([&] { return found->ended >= all; })) return {};
  lock.lock();
  ++synchronising_;
  progress_.wait(lock, [&] { return found->ended >= all; });
  --synchronising_;
  return {};
}

Result<int> CpuMaskDriver::record_event(int lane) {
  std::unique_lock lock(mutex_);
  const auto found = TRY(find_with_room(lane, "record_event"));
  if (events_.size() >= kMaxEvents)
    return refused(ErrorCode::limit, fmt::format("there are {} events", kMaxEvents),
                   lane_call("record_event", lane));
  const auto event = std::make_shared<Event>();
  const int number = next_event_++;
  events_.emplace(number, event);
  push(std::move(lock), *found, Record{event});
  return number;
}

Result<bool> CpuMaskDriver::wait_event(int lane, int event) {
  std::unique_lock lock(mutex_);
  const auto found = TRY(find_with_room(lane, "wait_event"));
  const auto awaited = TRY(find_event(event, "wait_event"));
  if (awaited->finished) return false;
  push(std::move(lock), *found, Wait{awaited});
  return true;
}

Result<bool> CpuMaskDriver::event_finished(int event) {
  const std::lock_guard lock(mutex_);
  const auto found = TRY(find_event(event, "event_finished"));
  return found->finished;
}

Result<void> CpuMaskDriver::destroy_event(int event) {
  const std::lock_guard lock(mutex_);
  TRY(find_event(event, "destroy_event"));
  events_.erase(event);
  return {};
}

Result<std::vector<std::int64_t>> CpuMaskDriver::ran(int lane) {
  const std::lock_guard lock(mutex_);
  const auto found = TRY(find_lane(lane, "ran"));
  return found->ran;
}

bool CpuMaskDriver::wanted() {
  const std::lock_guard lock(mutex_);
  return dispatcher_.wanted(this_unit());
}

std::int64_t CpuMaskDriver::taken() {
  const std::lock_guard lock(mutex_);
  return taken_;
}

// ---- under the lock ----

Result<std::shared_ptr<Lane>> CpuMaskDriver::find_lane(int lane, std::string_view call) {
  const auto at = lanes_.find(lane);
  if (at == lanes_.end())
    return refused(ErrorCode::not_found, "no such lane", lane_call(call, lane));
  return at->second;
}

Result<std::shared_ptr<Lane>> CpuMaskDriver::find_with_room(int lane, std::string_view call) {
  auto found = find_lane(lane, call);
  if (found && (*found)->queued() >= kMaxQueued)
    return refused(ErrorCode::limit, fmt::format("{} are queued", kMaxQueued),
                   lane_call(call, lane));
  return found;
}

Result<std::shared_ptr<Event>> CpuMaskDriver::find_event(int event, std::string_view call) {
  const auto at = events_.find(event);
  if (at == events_.end())
    return refused(ErrorCode::not_found, "no such event", fmt::format("{}(event {})", call, event));
  return at->second;
}

// Queues, and wakes who has work now once the lock is free.
void CpuMaskDriver::push(std::unique_lock<QuickMutex> lock, Lane& lane, Item item) {
  dispatcher_.push(lane, std::move(item));
  const std::vector<int> woken = dispatcher_.woken();
  lock.unlock();
  notify(woken);
}

}  // namespace partita::drivers::cpu_mask
