// HipMaskDriver: the LaneDriver door on an AMD GPU. A lane is a HIP stream whose hardware queue
// runs on the CUs of its mask only; a lane of all units has a mask too, because streams without
// one share GPU_MAX_HW_QUEUES (4) hardware queues and would wait for each other. Streams of lanes
// that ended are kept for lanes of the same mask. Owns streams and events; they end with it, after
// what is queued. Limits: kMaxLanes lanes (and streams), kMaxEvents events, kMaxQueued unfinished
// kernels, records and waits per lane. Thread rule: any thread, at the same time. No work on HIP's
// null stream meanwhile: it and masked streams wait for each other.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "device/lane_driver.h"
#include "drivers/hip_mask/board.h"
#include "drivers/hip_mask/hip_library.h"
#include "drivers/hip_mask/hip_memory.h"

namespace partita::drivers::hip_mask {

// The kernel driver keeps 24 compute queues on the hardware at a time and gives more of them turns;
// four are left for HIP's own. One stable figure is published, for an MI50: 7 beside the default.
inline constexpr int kMaxLanes = 20;
inline constexpr int kMaxEvents = 1 << 14;
inline constexpr std::int64_t kMaxQueued = 512;  // far less than a queue of HIP holds

struct HipMaskOptions {
  int device = 0;              // HIP's number
  std::string vendor_library;  // file of libamdhip64; empty: the installed one
  std::string kfd = "/sys/class/kfd/kfd/topology/nodes";
  // A HIP event is put behind every so many kernels and waits of a lane, to see how far it is.
  // Above 1 a lane has fewer of them, which take time between kernels, and counts kernels that are
  // finished as unfinished until a later event is finished or the lane is idle.
  int mark_every = 1;
};

class HipMaskDriver final : public device::LaneDriver {
 public:
  // environment: no HIP, no such GPU, or HSA_CU_MASK or ROC_GLOBAL_CU_MASK is set, which take CUs
  // from every mask unseen.
  static Result<std::unique_ptr<HipMaskDriver>> open(const HipMaskOptions& options = {});
  // Waits for what is queued.
  ~HipMaskDriver() override;
  HipMaskDriver(const HipMaskDriver&) = delete;
  HipMaskDriver& operator=(const HipMaskDriver&) = delete;

  Result<device::LaneDriverInfo> info() override;
  Result<int> create_lane(const hw::UnitMask& mask) override;
  Result<void> destroy_lane(int lane) override;
  Result<device::LaneState> query(int lane) override;
  Result<void> launch(int lane, device::Kernel kernel) override;
  Result<void> synchronise(int lane) override;
  Result<int> record_event(int lane) override;
  Result<bool> wait_event(int lane, int event) override;
  Result<bool> event_finished(int event) override;
  Result<void> destroy_event(int event) override;
  device::LaneMemory* memory() override { return &memory_; }

  // A stream of these units for work that is given to HIP itself; it stays the caller's. limit
  // where lanes and such streams are kMaxLanes.
  Result<abi::Stream> lend_stream(const hw::UnitMask& mask);

  // The GPU, and how its topology was found.
  const HipBoard& board() const { return board_; }
  int device() const { return device_; }
  const std::shared_ptr<HipLibrary>& library() const { return library_; }

 private:
  class Event;
  struct Mark {
    std::int64_t count = 0;  // items of the lane up to it
    std::shared_ptr<Event> event;
  };
  struct Lane {
    hw::UnitMask mask;
    abi::Stream stream = nullptr;
    std::int64_t given = 0;     // kernels, records and waits
    std::int64_t finished = 0;  // of them, as far as is known
    std::deque<Mark> marks;     // that were not seen finished
    int synchronising = 0;      // threads; the stream stays theirs
    bool ended = false;
  };
  struct IdleStream {
    hw::UnitMask mask;
    abi::Stream stream = nullptr;
  };

  HipMaskDriver(std::shared_ptr<HipLibrary> library, const HipMaskOptions& options, HipBoard board);
  Result<void> use_device() const;
  Result<abi::Stream> stream_of(const hw::UnitMask& mask);
  Result<void> check_mask(abi::Stream stream, const std::vector<std::uint32_t>& words) const;
  void release(const Lane& lane);
  Result<void> look(Lane& lane);
  Result<std::shared_ptr<Lane>> find_lane(int lane, std::string_view call);
  Result<std::shared_ptr<Lane>> find_with_room(int lane, std::string_view call);
  Result<std::shared_ptr<Event>> find_event(int event, std::string_view call);
  Result<std::shared_ptr<Event>> mark(Lane& lane, std::string_view call);
  void count_one(Lane& lane);
  Result<void> give(int lane, std::string_view call, const GiveStream& work);

  const std::shared_ptr<HipLibrary> library_;
  const int device_;
  const int mark_every_;
  const HipBoard board_;
  HipMemory memory_;
  std::mutex mutex_;  // of everything below, and of calls that change a stream
  std::map<int, std::shared_ptr<Lane>> lanes_;
  std::map<int, std::shared_ptr<Event>> events_;
  std::deque<IdleStream> idle_;  // the longest idle first
  int streams_ = 0;              // of lanes, and idle ones
  int next_lane_ = 1;
  int next_event_ = 1;
};

}  // namespace partita::drivers::hip_mask
