// CpuMaskDriver: the LaneDriver door on threads of this process. Each unit of the topology is one
// thread, also where there are more units than cores; a thread without work sleeps. The operating
// system shares cores among threads, so masks here say who runs a work-group, not how fast. Owns
// its threads; lanes and events end with it. Limits: kMaxLanes lanes, kMaxEvents events, kMaxQueued
// unfinished kernels, records and waits per lane.
// Thread rule: any thread, at the same time; work-groups as the door allows.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/spin.h"
#include "device/lane_driver.h"
#include "drivers/cpu_mask/dispatcher.h"

namespace partita::drivers::cpu_mask {

inline constexpr int kMaxLanes = 256;
inline constexpr int kMaxEvents = 1 << 16;
inline constexpr std::int64_t kMaxQueued = 1 << 16;

// The unit that the calling thread is, in whichever driver; -1 when it is none.
int this_unit();
// Said by a work-group before it returns: it is not at its end, and is run again once other lanes
// have had their turn.
void come_again();

class CpuMaskDriver final : public device::LaneDriver {
 public:
  // Starts one thread per unit; environment when the system has no more threads.
  static Result<std::unique_ptr<CpuMaskDriver>> open(hw::Topology topology);
  // Runs what is queued to its end first.
  ~CpuMaskDriver() override;
  CpuMaskDriver(const CpuMaskDriver&) = delete;
  CpuMaskDriver& operator=(const CpuMaskDriver&) = delete;

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
  bool open_to_groups() const override { return true; }

  // Asked by a work-group: whether another lane has one for this unit.
  bool wanted();
  // How many work-groups of the lane each unit ran.
  Result<std::vector<std::int64_t>> ran(int lane);
  // How many batches units have taken so far.
  std::int64_t taken();
  // Work-groups that a thread was given of a lane without its unit. Each thread asks by its own
  // number, not the dispatcher's, before it runs them. Always 0.
  std::int64_t outside() const { return outside_; }

 private:
  explicit CpuMaskDriver(hw::Topology topology);
  Result<void> start();
  void work(int unit);
  // Up to the work-group that is to come again.
  std::optional<std::int64_t> run(const Batch& batch) noexcept;
  void notify(const std::vector<int>& units);
  Result<std::shared_ptr<Lane>> find_lane(int lane, std::string_view call);
  Result<std::shared_ptr<Event>> find_event(int event, std::string_view call);
  Result<std::shared_ptr<Lane>> find_with_room(int lane, std::string_view call);
  void push(std::unique_lock<QuickMutex> lock, Lane& lane, Item item);

  const hw::Topology topology_;
  std::atomic<std::int64_t> outside_ = 0;
  QuickMutex mutex_;  // of everything below, signals_ and threads_ excepted
  Dispatcher dispatcher_;
  std::map<int, std::shared_ptr<Lane>> lanes_;
  std::map<int, std::shared_ptr<Event>> events_;
  int next_lane_ = 1;
  int next_event_ = 1;
  std::int64_t taken_ = 0;
  std::atomic<bool> ending_ = false;
  int synchronising_ = 0;                 // threads that wait for progress_
  std::condition_variable_any progress_;  // something of a lane was finished
  std::deque<Wake> signals_;              // per unit: it is awake, or all end
  std::vector<std::thread> threads_;
};

}  // namespace partita::drivers::cpu_mask
