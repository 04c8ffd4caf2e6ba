// Dispatcher: which unit runs which work-groups next, as plain state without threads. A lane is a
// queue whose head is at most one kernel in execution; a unit takes work-groups in batches, each of
// the lane that it has served for the shortest time among those that have work (in turn where that
// is equal), so lanes that go on having work differ by less than a batch. A lane that had none has
// no claim on what was given meanwhile. A batch is one work-group until the kernel's are known to
// be short.
// Work-conserving: no unit goes on sleeping while a lane on it has a work-group that nobody has
// taken, because whoever takes a batch wakes one more sleeper for each lane that still has some.
// Thread rule: one call at a time; what a Batch points to stays until finish(). Unknown lanes and
// events are the caller's business: it holds the pointers.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "hw/topology.h"

namespace partita::drivers::cpu_mask {

// The most work-groups that a unit takes at once.
inline constexpr std::int64_t kMaxBatch = 64;
// How long a batch of more than one lasts at most, by the mean of its kernel's work-groups: others
// wait no longer for the unit, and what taking a batch costs (0.4 us) is lost in it.
inline constexpr std::int64_t kMaxBatchNs = 100'000;

struct Lane;

struct Event {
  bool finished = false;
  std::vector<Lane*> waiting = {};  // lanes whose head waits for it
};

// What a lane's queue holds: a kernel, a record of an event, a wait for one.
struct Execution {
  std::function<void(std::int64_t)> run;
  std::int64_t groups = 0;
  std::int64_t taken = 0;
  std::int64_t finished = 0;
  std::int64_t spent_ns = 0;  // on those that are finished
  std::vector<std::pair<std::int64_t, std::int64_t>> again = {};  // taken, and to be taken again
};
struct Record {
  std::shared_ptr<Event> event;
};
struct Wait {
  std::shared_ptr<Event> event;
};
using Item = std::variant<Execution, Record, Wait>;

struct Lane {
  hw::UnitMask mask;
  std::vector<int> units;               // of the mask, ascending
  std::deque<Item> queue;               // unfinished; the first is at work or waits
  Execution* running = nullptr;         // the head of the queue when it is a kernel
  std::vector<std::int64_t> ran;        // work-groups per unit of the topology
  std::atomic<std::int64_t> ended = 0;  // items that are finished; anybody may look
  std::int64_t queued() const { return static_cast<std::int64_t>(queue.size()); }
  bool has_work() const {
    return running != nullptr && (running->taken < running->groups || !running->again.empty());
  }
};

// Work-groups first .. last - 1 of the kernel that runs on a lane.
struct Batch {
  Lane* lane = nullptr;
  Execution* kernel = nullptr;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

class Dispatcher {
 public:
  // All units are awake.
  explicit Dispatcher(int units);

  // An idle lane; the mask has units, and none beyond those there are.
  std::shared_ptr<Lane> add(const hw::UnitMask& mask);
  // Ends an idle lane.
  void remove(const Lane& lane);
  // Queues what comes next on a lane.
  void push(Lane& lane, Item item);

  // The next batch of a unit; nothing when there is no work for it: it sleeps from now on.
  std::optional<Batch> take(int unit);
  // The unit has run the batch in that time, to its end or to this work-group, which comes again as
  // those behind it do; it takes its next one now.
  void finish(const Batch& batch, int unit, std::int64_t spent_ns,
              std::optional<std::int64_t> until = {});
  // Whether a unit that runs a batch has work on another lane.
  bool wanted(int unit) const;

  bool sleeps(int unit) const { return sleeping_[static_cast<std::size_t>(unit)]; }
  // The units that became awake since the last call of this.
  std::vector<int> woken();

 private:
  struct Served {
    Lane* lane = nullptr;
    std::int64_t ns = 0;  // that the unit has given it; not less than `least_ns` once it has work
  };
  struct Unit {
    std::vector<Served> lanes;  // that it serves, in the order of their creation
    std::size_t turn = 0;       // where it looks for work first
    std::int64_t least_ns = 0;  // what the lane that it took from last had been given
    const Lane* serves = nullptr;  // the lane that it took from last
  };
  std::optional<std::size_t> next_lane(Unit& unit);
  void advance(Lane& lane, int searching);
  void wake_one(const Lane& lane);

  std::vector<Unit> units_;
  hw::UnitMask sleeping_;
  std::vector<int> woken_;
};

}  // namespace partita::drivers::cpu_mask
