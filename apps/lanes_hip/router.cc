#include "router.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace partita::lanes_hip {

using abi::Status;
using drivers::hip_mask::HipMaskDriver;

namespace {

bool is_null(abi::Stream stream) { return stream == nullptr || stream == kLegacyStream; }

}  // namespace

Router::Router(std::unique_ptr<HipMaskDriver> driver, const PlannedLanes& planned, StreamApi api)
    : driver_(std::move(driver)),
      hip_(driver_->library()->api()),
      api_(api),
      masks_(planned.masks),
      cursor_(planned.steps, 0),
      spare_(planned.masks.size() + 1) {}

Result<std::unique_ptr<Router>> Router::open(const PlannedLanes& planned,
                                             const std::string& vendor_library, StreamApi api) {
  int device = 0;
  if (api.get_device(&device) != Status::success)
    return environment_error("hipGetDevice()", "HIP finds no AMD GPU");
  auto driver = TRY(HipMaskDriver::open({.device = device, .vendor_library = vendor_library}));
  const hw::Topology& board = driver->board().topology;
  if (board.units() != planned.total_units)
    return bad_input("PARTITA_KERNEL_PLAN",
                     fmt::format("it is for {} units, and this GPU ({}) has {}",
                                 planned.total_units, board.name, board.units()));
  std::unique_ptr<Router> router(new Router(std::move(driver), planned, api));
  if (router->hip_.create_event(&router->joint_, abi::kEventDisableTiming) != Status::success)
    return environment_error("hipEventCreateWithFlags()", "HIP makes no event");
  return router;
}

// ---- streams ----

Router::Path& Router::path_of(abi::Stream stream) {
  if (is_null(stream)) return null_;
  static thread_local const char this_thread = 0;  // each has a stream of this number
  const void* key = stream == kThreadStream ? static_cast<const void*>(&this_thread) : stream;
  const auto [found, made] = paths_.try_emplace(key);
  Path& path = found->second;
  if (!made) return path;
  path.self = path.now = stream;
  path.on = {stream};
  unsigned flags = 0;
  if (stream != kThreadStream && api_.get_flags(stream, &flags) == Status::success)
    path.blocking = (flags & kNonBlocking) == 0;
  path.here = on_device();
  return path;
}

// Whether what this thread does without naming a stream is on our device.
bool Router::on_device() const {
  int device = 0;
  return api_.get_device(&device) == Status::success && device == driver_->device();
}

Result<abi::Stream> Router::stream_of_lane(std::size_t lane) {
  auto& spare = spare_[lane];
  if (spare.empty()) return driver_->lend_stream(masks_[lane - 1]);
  const abi::Stream stream = spare.back();
  spare.pop_back();
  return stream;
}

// What is put on `later` from now on begins after what is on `earlier` by now.
void Router::wait_for(abi::Stream later, abi::Stream earlier) {
  ++counts_.events;
  (void)hip_.record_event(joint_, earlier);
  (void)hip_.wait_event(later, joint_, 0);
}

// What lanes::go_to_lane() asks for. HIP's own failures come back from the process's next call.
struct Router::Door {
  Router& router;
  Result<abi::Stream> make(std::size_t lane) const { return router.stream_of_lane(lane); }
  Result<bool> finished(abi::Stream stream) const {
    return router.hip_.query_stream(stream) == Status::success;
  }
  Result<void> wait_for(abi::Stream later, abi::Stream earlier) const {
    router.wait_for(later, earlier);
    return {};
  }
};

void Router::go(Path& path, std::size_t lane) {
  const abi::Stream before = path.now;
  if (auto there = lanes::go_to_lane(path.now, path.on, lane, Door{*this}); !there) {
    ++counts_.unmasked;
    return go(path, 0);
  }
  if (path.now != before) ++counts_.changes;
}

// Work of a blocking stream comes after kernels that the null stream has on a lane.
void Router::order(Path& path) {
  if (!path.blocking) return;
  others_ahead_ = true;
  if (std::exchange(null_ahead_, false)) meet_at_null();
}

// An event of the null stream waits for all blocking streams, and they for it.
void Router::meet_at_null() {
  ++counts_.events;
  int before = 0;
  (void)api_.get_device(&before);
  if (before != driver_->device()) (void)hip_.set_device(driver_->device());
  (void)hip_.record_event(joint_, nullptr);
  if (before != driver_->device()) (void)hip_.set_device(before);
}

void Router::null_goes(std::size_t lane) {
  if (null_.on.empty()) null_.on = {nullptr};
  if (null_.on.size() <= lane) null_.on.resize(lane + 1, nullptr);
  if (lane > 0 && null_.on[lane] == nullptr) {
    const auto made = stream_of_lane(lane);
    if (!made)
      ++counts_.unmasked, lane = 0;
    else
      null_.on[lane] = *made;
  }
  const bool changes = null_.now != null_.on[lane];
  if (changes) ++counts_.changes;
  null_.now = null_.on[lane];
  if (lane > 0 && (changes || others_ahead_)) meet_at_null();
  if (lane > 0) others_ahead_ = false;
  null_ahead_ = lane > 0;
}

// ---- work ----

std::size_t Router::lane_of(const Launch& launch, const Path& path) {
  ++counts_.kernels;
  const std::size_t unknown = cursor_.unknown();
  const auto stream = reinterpret_cast<std::uintptr_t>(&path);
  const std::size_t lane = cursor_.lane_of(std::string(launch.name), launch.shape, stream);
  if (cursor_.unknown() != unknown) return 0;
  if (!path.here) return ++counts_.elsewhere, 0;
  const std::uint64_t units = lane == 0 ? 0 : masks_[lane - 1].count();
  if (lane > 0 && launch.together > units * launch.per_unit && launch.together > 0)
    return ++counts_.together, 0;
  ++counts_.planned;
  return lane;
}

abi::Stream Router::launch(const Launch& launch) {
  const std::lock_guard lock(mutex_);
  if (captures_ > 0) {
    ++counts_.kernels, ++counts_.captured;
    return launch.stream;
  }
  Path& path = path_of(launch.stream);
  if (is_null(launch.stream)) path.here = on_device();
  const std::size_t lane = lane_of(launch, path);
  if (!path.here) return launch.stream;
  if (&path == &null_) {
    null_goes(lane);
  } else {
    order(path);
    go(path, lane);
  }
  return path.now == nullptr ? launch.stream : path.now;
}

abi::Stream Router::work(abi::Stream stream, bool home) {
  const std::lock_guard lock(mutex_);
  if (captures_ > 0 || is_null(stream)) return stream;
  Path& path = path_of(stream);
  order(path);
  if (home) go(path, 0);
  return path.now;
}

void Router::client_waits() {
  const std::lock_guard lock(mutex_);
  cursor_.request_ended();
}

void Router::capture_begins() {
  const std::lock_guard lock(mutex_);
  if (captures_++ > 0) return;
  for (auto& [key, path] : paths_) order(path), go(path, 0);
}

void Router::capture_ends() {
  const std::lock_guard lock(mutex_);
  captures_ = std::max(0, captures_ - 1);
}

void Router::destroyed(abi::Stream stream) {
  const std::lock_guard lock(mutex_);
  const auto found = paths_.find(stream);
  if (found == paths_.end()) return;
  go(found->second, 0);
  for (std::size_t lane = 1; lane < found->second.on.size(); ++lane)
    if (found->second.on[lane] != nullptr) spare_[lane].push_back(found->second.on[lane]);
  paths_.erase(found);
}

std::string Router::told() const {
  const std::lock_guard lock(mutex_);
  std::string text = fmt::format("{} kernels, {} as planned; {} lane changes, {} events",
                                 counts_.kernels, counts_.planned, counts_.changes, counts_.events);
  const std::pair<std::uint64_t, const char*> rest[] = {
      {cursor_.unknown(), "not of the plan"},
      {counts_.captured, "while a stream was captured"},
      {counts_.together, "too large for their lane, all of whose groups wait for each other"},
      {counts_.elsewhere, "on another GPU"},
      {counts_.unmasked, "without a masked stream, of which there are no more"}};
  const char* between = "; on all units: ";
  for (const auto& [count, why] : rest)
    if (count > 0) text += fmt::format("{}{} {}", std::exchange(between, ", "), count, why);
  return text;
}

}  // namespace partita::lanes_hip
