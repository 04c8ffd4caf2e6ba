#include "drivers/green_ctx/green_ctx_driver.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "device/lane_refusals.h"

namespace partita::drivers::green_ctx {
namespace {

using device::DeviceKernel;
using device::lane_call;
using device::refused;
using device::within;

// The atoms of a mask; none of them for the mask of all units.
Result<hw::UnitMask> atoms_of(const Atoms& all, const hw::UnitMask& mask, const std::string& call) {
  TRY(device::check_mask(all.topology, mask, call));
  if (mask == hw::all_units(all.topology)) return hw::UnitMask{};
  hw::UnitMask atoms, covered;
  for (std::size_t i = 0; i < all.groups.size(); ++i) {
    const hw::UnitMask atom = hw::units_of(all.topology, all.size, hw::UnitMask{}.set(i));
    if ((atom & ~mask).any()) continue;
    atoms.set(i);
    covered |= atom;
  }
  if (covered == mask) return atoms;
  return refused(
      ErrorCode::invalid_argument,
      fmt::format("masks are made of whole atoms of {} units, or of all units", all.size), call);
}

}  // namespace

// ---- its life ----

GreenCtxDriver::GreenCtxDriver(std::shared_ptr<const PrimaryContext> gpu, Atoms atoms)
    : gpu_(std::move(gpu)),
      atoms_(std::move(atoms)),
      memory_(gpu_, std::bind_front(&GreenCtxDriver::give, this)),
      marks_(gpu_),
      pool_(gpu_) {}

Result<std::unique_ptr<GreenCtxDriver>> GreenCtxDriver::open(const Options& options) {
  auto split = TRY(open_split(options.vendor_library, options.gpu, options.atom));
  return std::unique_ptr<GreenCtxDriver>(
      new GreenCtxDriver(std::move(split.gpu), std::move(split.atoms)));
}

GreenCtxDriver::~GreenCtxDriver() {
  const Current current(*gpu_);
  for (const auto& [number, graph] : graphs_) {
    gpu_->api().synchronise_stream(graph.queue->stream());
    gpu_->api().destroy_exec(graph.exec);
  }
  for (const auto& [number, lane] : lanes_) gpu_->api().synchronise_stream(lane.queue->stream());
}

std::size_t GreenCtxDriver::contexts() {
  const std::lock_guard lock(mutex_);
  return pool_.size();
}

// ---- lanes ----

Result<device::LaneDriverInfo> GreenCtxDriver::info() {
  return device::LaneDriverInfo{.name = "green_ctx",
                                .topology = atoms_.topology,
                                .atom = atoms_.size,
                                .max_lanes = kMaxLanes,
                                .max_events = kMaxEvents,
                                .max_queued = kMaxQueued};
}

// A stream of a context, or of the whole device.
Result<std::unique_ptr<WorkQueue>> GreenCtxDriver::open_queue(const GreenContext* context,
                                                              const std::string& call) {
  const CudaApi& api = gpu_->api();
  abi::Stream stream = nullptr;
  const abi::Return code =
      context ? api.create_green_stream(&stream, context->handle, abi::kStreamNonBlocking, 0)
              : api.create_stream(&stream, abi::kStreamNonBlocking);
  if (code != abi::Return::success) return failed(gpu_->library().error(code, call));
  return std::make_unique<WorkQueue>(gpu_, stream);
}

Result<int> GreenCtxDriver::create_lane(const hw::UnitMask& mask) {
  const std::string call = fmt::format("create_lane(mask {})", hw::mask_hex(mask));
  const auto atoms = TRY(atoms_of(atoms_, mask, call));
  const std::lock_guard lock(mutex_);
  if (lanes_.size() >= kMaxLanes)
    return refused(ErrorCode::limit, fmt::format("there are {} lanes", kMaxLanes), call);
  const Current current(*gpu_);
  Lane lane{.mask = mask, .context = nullptr, .queue = nullptr};
  if (atoms.any()) lane.context = TRY(within(call, pool_.take(atoms_, atoms)));
  lane.queue = TRY(open_queue(lane.context.get(), call));
  lanes_.emplace(next_lane_, std::move(lane));
  pool_.trim();
  return next_lane_++;
}

Result<void> GreenCtxDriver::destroy_lane(int lane) {
  const std::lock_guard lock(mutex_);
  const auto found = TRY(find_lane(lane, "destroy_lane"));
  const Current current(*gpu_);
  const auto queued = TRY(within("destroy_lane", lane, found->queue->unfinished(marks_)));
  if (queued > 0 || found->graphs > 0)
    return refused(ErrorCode::in_use,
                   fmt::format("{} unfinished, {} graphs", queued, found->graphs),
                   lane_call("destroy_lane", lane));
  lanes_.erase(lane);
  pool_.trim();
  return {};
}

Result<device::LaneState> GreenCtxDriver::query(int lane) {
  const std::lock_guard lock(mutex_);
  const auto found = TRY(find_lane(lane, "query"));
  const Current current(*gpu_);
  const auto queued = TRY(within("query", lane, found->queue->unfinished(marks_)));
  return device::LaneState{found->mask, queued};
}

// ---- work ----

Result<void> GreenCtxDriver::launch(int lane, device::Kernel kernel) {
  const DeviceKernel& run = *TRY(device::device_kernel(kernel, lane_call("launch", lane)));
  return give(lane, "launch", [&](abi::Stream stream) {
    return gpu_->api().launch(static_cast<abi::Function>(run.function), run.grid[0], run.grid[1],
                              run.grid[2], run.block[0], run.block[1], run.block[2],
                              run.shared_bytes, stream, const_cast<void**>(run.arguments.data()),
                              nullptr);
  });
}

// One more item of a lane.
Result<void> GreenCtxDriver::give(int lane, std::string_view call,
                                  const std::function<abi::Return(abi::Stream)>& work) {
  const std::lock_guard lock(mutex_);
  const Current current(*gpu_);
  const auto found = TRY(find_with_room(lane, call));
  TRY(found->queue->give(marks_, lane_call(call, lane), work));
  return {};
}

Result<void> GreenCtxDriver::synchronise(int lane) {
  std::unique_lock lock(mutex_);
  const auto found = TRY(find_lane(lane, "synchronise"));
  return wait_for(*found->queue, std::move(lock), lane_call("synchronise", lane));
}

Result<int> GreenCtxDriver::record_event(int lane) {
  const std::string call = lane_call("record_event", lane);
  const std::lock_guard lock(mutex_);
  const Current current(*gpu_);
  const auto found = TRY(find_with_room(lane, "record_event"));
  if (events_.size() >= kMaxEvents)
    return refused(ErrorCode::limit, fmt::format("there are {} events", kMaxEvents), call);
  auto mark =
      TRY(found->queue->give(marks_, call, [](abi::Stream) { return abi::Return::success; }));
  events_.emplace(next_event_, std::move(mark));
  return next_event_++;
}

Result<bool> GreenCtxDriver::wait_event(int lane, int event) {
  const std::string call = fmt::format("wait_event(lane {}, event {})", lane, event);
  const std::lock_guard lock(mutex_);
  const Current current(*gpu_);
  const auto found = TRY(find_with_room(lane, "wait_event"));
  const auto awaited = TRY(find_event(event, "wait_event"));
  const auto finished = TRY(within(call, awaited->finished()));
  if (finished) return false;
  TRY(found->queue->give(marks_, call, [&](abi::Stream stream) {
    return gpu_->api().wait_event(stream, awaited->event, 0);
  }));
  return true;
}

Result<bool> GreenCtxDriver::event_finished(int event) {
  const std::lock_guard lock(mutex_);
  const auto found = TRY(find_event(event, "event_finished"));
  const Current current(*gpu_);
  const auto finished = found->finished();
  if (!finished) return within(fmt::format("event_finished(event {})", event), finished.error());
  return finished;
}

Result<void> GreenCtxDriver::destroy_event(int event) {
  const std::lock_guard lock(mutex_);
  auto found = TRY(find_event(event, "destroy_event"));
  const Current current(*gpu_);
  events_.erase(event);
  marks_.give(std::move(found));
  return {};
}

// ---- under the lock ----

Result<GreenCtxDriver::Lane*> GreenCtxDriver::find_lane(int lane, std::string_view call) {
  const auto at = lanes_.find(lane);
  if (at == lanes_.end())
    return refused(ErrorCode::not_found, "no such lane", lane_call(call, lane));
  return &at->second;
}

Result<GreenCtxDriver::Lane*> GreenCtxDriver::find_with_room(int lane, std::string_view call) {
  const auto found = find_lane(lane, call);
  if (!found || (*found)->queue->at_most() < kMaxQueued) return found;
  const auto queued = TRY(within(call, lane, (*found)->queue->unfinished(marks_)));
  if (queued < kMaxQueued) return found;
  return refused(ErrorCode::limit, fmt::format("{} are queued", kMaxQueued), lane_call(call, lane));
}

Result<std::shared_ptr<Mark>> GreenCtxDriver::find_event(int event, std::string_view call) {
  const auto at = events_.find(event);
  if (at == events_.end())
    return refused(ErrorCode::not_found, "no such event", fmt::format("{}(event {})", call, event));
  return at->second;
}

// Waits, without the lock, for what the queue has now. The queue itself may be gone by then.
Result<void> GreenCtxDriver::wait_for(const WorkQueue& queue, std::unique_lock<std::mutex> lock,
                                      const std::string& call) {
  if (queue.at_most() == 0) return {};
  const std::shared_ptr<Mark> last = queue.last();
  const abi::Stream stream = queue.stream();
  lock.unlock();
  const Current current(*gpu_);
  return gpu_->library().checked(
      last ? gpu_->api().synchronise_event(last->event) : gpu_->api().synchronise_stream(stream),
      call);
}

}  // namespace partita::drivers::green_ctx
