#include "drivers/hip_mask/hip_mask_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <utility>

#include "device/lane_refusals.h"

namespace partita::drivers::hip_mask {
namespace {

using abi::Status;
using device::lane_call;
using device::refused;
using device::within;

std::string hex(const std::vector<std::uint32_t>& words) {
  std::string text;
  for (const std::uint32_t word : words)
    text += fmt::format("{}{:#010x}", text.empty() ? "" : " ", word);
  return text;
}

// An attribute that younger versions have; 0 without it.
int attribute(const HipLibrary& library, abi::Attribute which, int device) {
  int value = 0;
  const Status status = library.api().get_attribute(&value, which, device);
  return status == Status::success ? value : 0;
}

Result<HipFacts> facts_of(const HipLibrary& library, const HipMaskOptions& options) {
  HipFacts facts;
  const abi::HipApi& api = library.api();
  char name[256] = {};
  const int device = options.device;
  TRY(library.call("hipDeviceGetName", api.get_name, name, 255, device));
  facts.name = name;
  TRY(library.call("hipDeviceComputeCapability", api.compute_capability, &facts.major, &facts.minor,
                   device));
  TRY(library.call("hipDeviceGetAttribute", api.get_attribute, &facts.multiprocessors,
                   abi::Attribute::multiprocessor_count, device));
  facts.physical = attribute(library, abi::Attribute::physical_multiprocessor_count, device);
  facts.xccs = attribute(library, abi::Attribute::number_of_xccs, device);
  const int domain = attribute(library, abi::Attribute::pci_domain, device);
  const int bus = attribute(library, abi::Attribute::pci_bus, device);
  const int slot = attribute(library, abi::Attribute::pci_device, device);
  for (const KfdNode& node : read_kfd_nodes(options.kfd))
    if (!facts.kfd && node.domain == domain && node.bus == bus && node.device == slot)
      facts.kfd = node;
  return facts;
}

// Whether a mask has whole work-group processors.
Result<void> check_units(const HipBoard& board, const hw::UnitMask& mask, const std::string& call) {
  TRY(device::check_mask(board.topology, mask, call));
  const auto units = static_cast<std::size_t>(board.topology.units());
  for (std::size_t unit = 0; board.layout.step == 2 && unit < units; unit += 2)
    if (mask[unit] != mask[unit + 1])
      return refused(
          ErrorCode::invalid_argument,
          fmt::format("units {} and {} are one work-group processor: a kernel on half of "
                      "it would hang",
                      unit, unit + 1),
          call);
  return {};
}

}  // namespace

class HipMaskDriver::Event {
 public:
  static Result<std::shared_ptr<Event>> create(const std::shared_ptr<HipLibrary>& library,
                                               int device) {
    abi::Event event = nullptr;
    TRY(library->call("hipEventCreateWithFlags", library->api().create_event, &event,
                      abi::kEventDisableTiming));
    return std::make_shared<Event>(library, device, event);
  }
  Event(std::shared_ptr<HipLibrary> library, int device, abi::Event event)
      : library_(std::move(library)), device_(device), event_(event) {}
  ~Event() {
    (void)library_->api().set_device(device_);
    (void)library_->api().destroy_event(event_);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  abi::Event handle() const { return event_; }
  Result<bool> finished() const {
    const Status status = library_->api().query_event(event_);
    if (status == Status::not_ready) return false;
    if (status == Status::success) return true;
    return failed(library_->error(status, "hipEventQuery()"));
  }

 private:
  const std::shared_ptr<HipLibrary> library_;
  const int device_;
  const abi::Event event_;
};

// ---- opening and ending ----

HipMaskDriver::HipMaskDriver(std::shared_ptr<HipLibrary> library, const HipMaskOptions& options,
                             HipBoard board)
    : library_(std::move(library)),
      device_(options.device),
      mark_every_(std::max(1, options.mark_every)),
      board_(std::move(board)),
      memory_(library_, device_, std::bind_front(&HipMaskDriver::give, this)) {}

Result<std::unique_ptr<HipMaskDriver>> HipMaskDriver::open(const HipMaskOptions& options) {
  const std::string call = fmt::format("open(device {})", options.device);
  for (const char* name : {"HSA_CU_MASK", "ROC_GLOBAL_CU_MASK"}) {
    const char* value = std::getenv(name);
    if (value && *value)
      return refused(ErrorCode::environment,
                     fmt::format("{} is set, which takes CUs from every mask: unset it", name),
                     call);
  }
  const auto library = TRY(HipLibrary::open(options.vendor_library));
  const abi::HipApi& api = library->api();
  int devices = 0;
  if (const Status status = api.get_device_count(&devices); status != Status::success) {
    Error error = library->error(status, "hipGetDeviceCount()");
    error.code = ErrorCode::environment;
    return failed(std::move(error));
  }
  if (options.device < 0 || options.device >= devices)
    return refused(ErrorCode::environment,
                   fmt::format("HIP sees {} GPUs, numbered from 0", devices), call);
  TRY(library->call("hipSetDevice", api.set_device, options.device));
  const auto facts = TRY(facts_of(*library, options));
  auto board = board_of(facts);
  if (!board) return refused(board.error().code, board.error().message, call);
  return std::unique_ptr<HipMaskDriver>(new HipMaskDriver(library, options, *std::move(board)));
}

HipMaskDriver::~HipMaskDriver() {
  const std::lock_guard lock(mutex_);
  (void)use_device();
  const abi::HipApi& api = library_->api();
  for (const auto& [number, lane] : lanes_) {
    (void)api.synchronise_stream(lane->stream);
    (void)api.destroy_stream(lane->stream);
  }
  for (const IdleStream& idle : idle_) (void)api.destroy_stream(idle.stream);
}

Result<void> HipMaskDriver::use_device() const {
  return library_->call("hipSetDevice", library_->api().set_device, device_);
}

Result<device::LaneDriverInfo> HipMaskDriver::info() {
  return device::LaneDriverInfo{.name = "hip_mask",
                                .topology = board_.topology,
                                .atom = board_.layout.step,
                                .max_lanes = kMaxLanes,
                                .max_events = kMaxEvents,
                                .max_queued = kMaxQueued};
}

// ---- lanes ----

Result<int> HipMaskDriver::create_lane(const hw::UnitMask& mask) {
  const std::string call = fmt::format("create_lane(mask {})", hw::mask_hex(mask));
  TRY(check_units(board_, mask, call));
  const std::lock_guard lock(mutex_);
  if (lanes_.size() >= kMaxLanes)
    return refused(ErrorCode::limit, fmt::format("there are {} lanes", kMaxLanes), call);
  const auto lane = std::make_shared<Lane>();
  lane->mask = mask;
  lane->stream = TRY(within(call, stream_of(mask)));
  lanes_.emplace(next_lane_, lane);
  return next_lane_++;
}

Result<abi::Stream> HipMaskDriver::lend_stream(const hw::UnitMask& mask) {
  const std::string call = fmt::format("lend_stream(mask {})", hw::mask_hex(mask));
  TRY(check_units(board_, mask, call));
  const std::lock_guard lock(mutex_);
  if (streams_ >= kMaxLanes && idle_.empty())
    return refused(ErrorCode::limit, fmt::format("there are {} streams", kMaxLanes), call);
  return within(call, stream_of(mask));
}

// An idle stream of this mask, or a new one in place of the longest idle.
Result<abi::Stream> HipMaskDriver::stream_of(const hw::UnitMask& mask) {
  TRY(use_device());
  const auto same = std::ranges::find(idle_, mask, &IdleStream::mask);
  if (same != idle_.end()) {
    const abi::Stream stream = same->stream;
    idle_.erase(same);
    return stream;
  }
  const abi::HipApi& api = library_->api();
  if (streams_ >= kMaxLanes && !idle_.empty()) {
    const abi::Stream oldest = idle_.front().stream;
    idle_.pop_front();
    --streams_;
    TRY(library_->call("hipStreamDestroy", api.destroy_stream, oldest));
  }
  const std::vector<std::uint32_t> words = cu_words(board_.bits, mask);
  abi::Stream stream = nullptr;
  TRY(library_->call("hipExtStreamCreateWithCUMask", api.create_stream, &stream,
                     static_cast<std::uint32_t>(words.size()), words.data()));
  if (auto right = check_mask(stream, words); !right) {
    (void)api.destroy_stream(stream);
    return failed(right.error());
  }
  ++streams_;
  return stream;
}

// Whether HIP says that the stream has the mask. It tells only as many bits as it counts
// multiprocessors -- half of them where those are WGPs -- and all of these when none of them is on.
Result<void> HipMaskDriver::check_mask(abi::Stream stream,
                                       const std::vector<std::uint32_t>& words) const {
  const abi::HipApi& api = library_->api();
  if (!api.get_mask) return {};
  std::vector<std::uint32_t> has(words.size()), all(words.size()), told(words.size());
  for (std::size_t bit = 0; bit < std::min(static_cast<std::size_t>(board_.told), 32 * all.size());
       ++bit)
    all[bit / 32] |= std::uint32_t{1} << bit % 32;
  for (std::size_t i = 0; i < words.size(); ++i) told[i] = words[i] & all[i];
  if (std::ranges::all_of(told, [](std::uint32_t word) { return word == 0; })) told = all;
  TRY(library_->call("hipExtStreamGetCUMask", api.get_mask, stream,
                     static_cast<std::uint32_t>(has.size()), has.data()));
  if (has == told || has == words) return {};
  return refused(ErrorCode::environment,
                 fmt::format("the stream has mask {} instead of {}; something takes CUs from masks",
                             hex(has), hex(words)),
                 "hipExtStreamGetCUMask()");
}

// The stream of a lane that ended is idle from now on.
void HipMaskDriver::release(const Lane& lane) { idle_.push_back({lane.mask, lane.stream}); }

Result<void> HipMaskDriver::destroy_lane(int lane) {
  const std::lock_guard lock(mutex_);
  const auto found = TRY(find_lane(lane, "destroy_lane"));
  TRY(within("destroy_lane", lane, look(*found)));
  if (found->finished < found->given)
    return refused(ErrorCode::in_use, fmt::format("{} unfinished", found->given - found->finished),
                   lane_call("destroy_lane", lane));
  lanes_.erase(lane);
  found->ended = true;
  if (found->synchronising == 0) release(*found);
  return {};
}

Result<device::LaneState> HipMaskDriver::query(int lane) {
  const std::lock_guard lock(mutex_);
  const auto found = TRY(find_lane(lane, "query"));
  TRY(within("query", lane, look(*found)));
  return device::LaneState{found->mask, found->given - found->finished};
}

// Finds out what of the lane is finished.
Result<void> HipMaskDriver::look(Lane& lane) {
  TRY(use_device());
  if (lane.finished == lane.given) return {};
  const Status status = library_->api().query_stream(lane.stream);
  if (status == Status::success) {
    lane.finished = lane.given;
    lane.marks.clear();
    return {};
  }
  if (status != Status::not_ready) return failed(library_->error(status, "hipStreamQuery()"));
  while (!lane.marks.empty()) {
    const auto finished = TRY(lane.marks.front().event->finished());
    if (!finished) break;
    lane.finished = lane.marks.front().count;
    lane.marks.pop_front();
  }
  return {};
}

Result<void> HipMaskDriver::synchronise(int lane) {
  std::unique_lock lock(mutex_);
  const auto found = TRY(find_lane(lane, "synchronise"));
  Lane& synchronised = *found;
  const std::int64_t all = synchronised.given;
  ++synchronised.synchronising;
  lock.unlock();
  auto done = use_device();
  if (done)
    done = library_->call("hipStreamSynchronize", library_->api().synchronise_stream,
                          synchronised.stream);
  lock.lock();
  if (--synchronised.synchronising == 0 && synchronised.ended) release(synchronised);
  if (!done) return within(lane_call("synchronise", lane), done.error());
  synchronised.finished = std::max(synchronised.finished, all);
  while (!synchronised.marks.empty() && synchronised.marks.front().count <= all)
    synchronised.marks.pop_front();
  return {};
}

// ---- what is queued ----

Result<void> HipMaskDriver::launch(int lane, device::Kernel kernel) {
  device::DeviceKernel run = *TRY(device::device_kernel(kernel, lane_call("launch", lane)));
  return give(lane, "launch", [&](abi::Stream stream) {
    return library_->call("hipModuleLaunchKernel", library_->api().launch,
                          static_cast<abi::Function>(run.function), run.grid[0], run.grid[1],
                          run.grid[2], run.block[0], run.block[1], run.block[2], run.shared_bytes,
                          stream, run.arguments.data(), static_cast<void**>(nullptr));
  });
}

// One more item of a lane.
Result<void> HipMaskDriver::give(int lane, std::string_view call, const GiveStream& work) {
  const std::lock_guard lock(mutex_);
  const auto found = TRY(find_with_room(lane, call));
  TRY(within(call, lane, work(found->stream)));
  count_one(*found);
  return {};
}

// One more item is queued; puts a mark behind it when it is time.
void HipMaskDriver::count_one(Lane& lane) {
  ++lane.given;
  const std::int64_t marked = lane.marks.empty() ? lane.finished : lane.marks.back().count;
  // The item is queued in any case: without its mark only the count of the unfinished is coarser.
  if (lane.given - marked >= mark_every_) (void)mark(lane, "");
}

// An event that is finished when everything given so far is.
Result<std::shared_ptr<HipMaskDriver::Event>> HipMaskDriver::mark(Lane& lane,
                                                                  std::string_view call) {
  auto event = TRY(within(call, Event::create(library_, device_)));
  TRY(within(call, library_->call("hipEventRecord", library_->api().record_event, event->handle(),
                                  lane.stream)));
  lane.marks.push_back({lane.given, event});
  return event;
}

Result<int> HipMaskDriver::record_event(int lane) {
  const std::lock_guard lock(mutex_);
  const auto found = TRY(find_with_room(lane, "record_event"));
  const std::string call = lane_call("record_event", lane);
  if (events_.size() >= kMaxEvents)
    return refused(ErrorCode::limit, fmt::format("there are {} events", kMaxEvents), call);
  ++found->given;  // the record is finished when its event is
  auto event = mark(*found, call);
  if (!event) {
    --found->given;
    return failed(event.error());
  }
  events_.emplace(next_event_, *std::move(event));
  return next_event_++;
}

Result<bool> HipMaskDriver::wait_event(int lane, int event) {
  const std::lock_guard lock(mutex_);
  const auto found = TRY(find_with_room(lane, "wait_event"));
  const auto awaited = TRY(find_event(event, "wait_event"));
  const std::string call = fmt::format("wait_event(lane {}, event {})", lane, event);
  const auto finished = TRY(within(call, awaited->finished()));
  if (finished) return false;
  TRY(within(call, library_->call("hipStreamWaitEvent", library_->api().wait_event, found->stream,
                                  awaited->handle(), 0u)));
  count_one(*found);
  return true;
}

Result<bool> HipMaskDriver::event_finished(int event) {
  const std::lock_guard lock(mutex_);
  const auto found = TRY(find_event(event, "event_finished"));
  const auto usable = use_device();
  auto finished = usable ? found->finished() : failed(usable.error());
  if (!finished) return within(fmt::format("event_finished(event {})", event), finished.error());
  return finished;
}

Result<void> HipMaskDriver::destroy_event(int event) {
  const std::lock_guard lock(mutex_);
  TRY(find_event(event, "destroy_event"));
  events_.erase(event);
  return {};
}

// ---- under the lock ----

Result<std::shared_ptr<HipMaskDriver::Lane>> HipMaskDriver::find_lane(int lane,
                                                                      std::string_view call) {
  const auto at = lanes_.find(lane);
  if (at == lanes_.end())
    return refused(ErrorCode::not_found, "no such lane", lane_call(call, lane));
  return at->second;
}

// The lane, on the device that is the thread's from now on.
Result<std::shared_ptr<HipMaskDriver::Lane>> HipMaskDriver::find_with_room(int lane,
                                                                           std::string_view call) {
  auto found = TRY(find_lane(lane, call));
  Lane& wanted = *found;
  TRY(within(call, lane,
             wanted.given - wanted.finished < kMaxQueued ? use_device() : look(wanted)));
  if (wanted.given - wanted.finished >= kMaxQueued)
    return refused(ErrorCode::limit, fmt::format("{} are queued", kMaxQueued),
                   lane_call(call, lane));
  return found;
}

Result<std::shared_ptr<HipMaskDriver::Event>> HipMaskDriver::find_event(int event,
                                                                        std::string_view call) {
  const auto at = events_.find(event);
  if (at == events_.end())
    return refused(ErrorCode::not_found, "no such event", fmt::format("{}(event {})", call, event));
  return at->second;
}

}  // namespace partita::drivers::hip_mask
