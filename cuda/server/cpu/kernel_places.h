// Where a session's kernels run, and the lanes that its streams are on. Thread rule: one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/cpu/shared_units.h"
#include "server/kernel_times.h"

namespace partita::remote::cpu {

// A kernel's place in its request.
struct Place {
  std::shared_ptr<const Placing> placing = {};
  std::size_t kernel = 0;
  std::optional<hw::UnitMask> taken = {};  // of the shared units
};

class KernelPlaces {
 public:
  // `times` outlives it.
  KernelPlaces(std::shared_ptr<Tenant> tenant, server::LaunchTimes& times)
      : tenant_(std::move(tenant)), times_(times) {}
  // Of the request's next kernel, looked for further on where it is not the placing's next one;
  // null without a tenant.
  std::shared_ptr<Place> next(const std::string& kernel);
  // `said`: by the program; from then on only that counts.
  void request_ended(bool said);

 private:
  std::shared_ptr<Tenant> tenant_;
  server::LaunchTimes& times_;
  std::shared_ptr<const Placing> placing_;  // of this request; null: it has had no kernel
  std::size_t next_ = 0;
  bool said_ = false;
};

// The lanes of one stream, at most kMostLanes.
class StreamLanes {
 public:
  static Result<StreamLanes> open(SharedUnits& units);  // on all units
  int now() const { return now_; }
  // To the lane on these units, made where there is none; `unfinished`: after what is on the lane
  // where it was. Where there are no more lanes it stays.
  void go_to(const hw::UnitMask& mask, bool unfinished);
  // Waits for what is on them.
  void end();

 private:
  int lane_of(const hw::UnitMask& mask);
  drivers::cpu_mask::CpuMaskDriver* driver_ = nullptr;
  int now_ = 0;
  std::vector<std::pair<hw::UnitMask, int>> all_;  // the latest last
};

// What of a stream decides when a kernel that is placed live may begin.
struct Unfinished {
  const std::atomic<std::int64_t>& pushed;  // in its lane
  std::atomic<bool>& starving;              // set: whoever ends work then calls `again`
  std::function<void()> again = {};
};
// Brings the stream to the lane of its next kernel; false: that may not begin yet.
bool settle(Place& place, StreamLanes& lanes, SharedUnits& units, const Unfinished& unfinished);

}  // namespace partita::remote::cpu
