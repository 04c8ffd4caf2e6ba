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

#include "lanes/kernel_cursor.h"
#include "server/cpu/shared_units.h"
#include "server/kernel_times.h"

namespace partita::remote::cpu {

// A kernel's place in its request; or its phase.
struct Place {
  std::shared_ptr<const Placing> placing = {};
  std::size_t kernel = 0;
  std::optional<hw::UnitMask> taken = {};  // of the shared units
  lanes::Phase phase = {};
  std::shared_ptr<void> of_phase = {};  // until it has ended
};

class KernelPlaces {
 public:
  // `times` outlives it.
  KernelPlaces(std::shared_ptr<Tenant> tenant, server::LaunchTimes& times)
      : tenant_(std::move(tenant)), times_(times) {}
  // Of the request's next kernel on a stream (lanes::KernelCursor) of that priority; null without
  // a tenant.
  std::shared_ptr<Place> next(const std::string& kernel, const server::LaunchWork& work,
                              server::Id stream, int priority);
  // `said`: by the program; from then on only that counts.
  void request_ended(bool said);

 private:
  std::shared_ptr<Tenant> tenant_;
  server::LaunchTimes& times_;
  std::shared_ptr<const Placing> placing_;  // of this request; null: it has had no kernel
  std::shared_ptr<const Placing> last_;     // of the cursor
  std::optional<lanes::KernelCursor> cursor_;
  bool said_ = false;
};

// The lanes of a session, at most so many that its streams share. A lane goes once no stream has it
// and what is on it has ended.
class SessionLanes {
 public:
  using Lane = std::shared_ptr<const int>;  // the driver's number
  SessionLanes(std::shared_ptr<SharedUnits> units, std::size_t most)
      : units_(std::move(units)), most_(most) {}
  drivers::cpu_mask::CpuMaskDriver& driver() { return units_->driver(); }
  // On these units: a new one, or where there are no more the one that the fewest streams are on;
  // null where there is none on them.
  Lane take(const hw::UnitMask& mask);
  bool spent();  // there are no more

 private:
  const std::shared_ptr<SharedUnits> units_;
  const std::size_t most_;
  std::vector<std::pair<hw::UnitMask, std::weak_ptr<const int>>> all_ = {};
};

// The lanes of one stream, at most kMostLanes.
class StreamLanes {
 public:
  static Result<StreamLanes> open(SessionLanes& session);  // on all units
  int now() const { return now_; }
  // Whether the lane may be another stream's, too; and as much is queued there as may be.
  bool shares() const { return all_.back().second.use_count() > 1; }
  bool full() const;
  // To the lane on these units, made where there is none; `unfinished`: after what is on the lane
  // where it was. Where there are no more lanes it stays.
  void go_to(const hw::UnitMask& mask, bool unfinished);
  // Waits for what is on those that are no other stream's.
  void end() { all_.clear(); }

 private:
  int lane_of(const hw::UnitMask& mask);
  SessionLanes* session_ = nullptr;
  int now_ = 0;
  std::vector<std::pair<hw::UnitMask, SessionLanes::Lane>> all_;  // the latest last
};

// What of a stream decides when a kernel that is placed live may begin.
struct Unfinished {
  const std::atomic<std::int64_t>& pushed;  // in its lane
  std::atomic<bool>& starving;              // set: whoever ends work then calls `again`
  std::function<void()> again = {};
};
// Pieces of work in a stream's lane while its next kernel of a phase waits: where that runs is said
// late, but its lane is not empty meanwhile.
inline constexpr std::int64_t kAhead = 8;
// Brings the stream to the lane of its next kernel; false: that may not begin yet.
bool settle(Place& place, StreamLanes& lanes, SharedUnits& units, const Unfinished& unfinished);

}  // namespace partita::remote::cpu
