// GraphBrain: what of a task graph begins next and on which units, as plain state without threads,
// doors or time; graph_run.h carries it out, on lanes and in virtual time. Those begin
// first behind which the longest chain of tasks waits, then those that became ready first; a kernel
// that gets no units is passed over until something has ended.
// A kernel is queued before the last of those that it waits for has ended (ahead) where it takes
// nothing from anybody by that: the last is a kernel on a lane, and it is given units of that
// alone, as many as it wants. On the same lane it needs nothing more, on another it waits for an
// event.
// Thread rule: one call at a time. Limits: kMostTried tasks behind a lane's last are looked at for
// it; kMostQueued kernels wait on a lane, less than a driver refuses; at most as many lanes as the
// driver allows, an idle one is made anew for another mask. Of kernels that are taken several at a
// time kLeftForEach stay for each unit, so that all units end at about the same time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <vector>

#include "hw/topology.h"
#include "lanes/task_graph.h"

namespace partita::exec {

inline constexpr std::size_t kMostTried = 64;
inline constexpr int kMostQueued = 64;
inline constexpr std::size_t kLeftForEach = 4;

// The units of a kernel, given how many kernels use each; none: it waits until some task ends and
// is asked again. Kernels that want equally many are answered alike.
using MaskChoice =
    std::function<std::optional<hw::UnitMask>(int task, const std::vector<int>& running)>;

// What became of the dependencies between tasks; together as many as the graph has.
struct Dependencies {
  long skipped = 0;    // the task before had ended when anybody looked
  long on_device = 0;  // by the order of a lane, or an event
  long on_host = 0;    // a task was held back for it
  bool operator==(const Dependencies&) const = default;
};

// A kernel to be queued on a lane.
struct Enqueued {
  int task = 0;
  int lane = 0;              // numbered from 0
  bool fresh = false;        // the lane is to be made, anew if it exists
  hw::UnitMask mask;         // of the lane
  std::optional<int> waits;  // for another lane's last kernel
};

class GraphBrain {
 public:
  struct Options {
    int units = 0;  // of the topology
    int max_lanes = 0;
    bool ahead = true;
  };
  // The graph has no cycle; graph and choice outlive the brain.
  GraphBrain(const TaskGraph& graph, const MaskChoice& mask, const Options& options);

  // The next task of the CPU that may begin; it has begun.
  std::optional<int> next_cpu();
  bool cpu_ready() const { return !cpu_ready_.empty(); }
  // The next kernel to be queued; it counts as running.
  std::optional<Enqueued> next_kernel();
  // The next kernel that may begin, for a lane behind what is queued there, as if that had ended;
  // it counts as running. Only one of one work-group, on just the lane's units.
  std::optional<int> next_behind(int lane);
  // A task that had begun or was queued has ended.
  void ended(int task);
  // The last kernel's wait was for an event that is over.
  void skipped_wait();

  // Whether everything before a task has ended.
  bool may_begin(int task) const { return state(task).missing == 0; }
  // Whether no other kernel is queued on a unit of this one's.
  bool alone_on_units(int task) const;
  bool done() const { return left_ == 0; }
  // Whether nothing runs and no task of the CPU may begin, though tasks are left.
  bool stuck() const { return left_ > 0 && active_ == 0 && cpu_ready_.empty(); }
  // Tasks that have begun or are queued.
  std::size_t active() const { return active_; }
  const Dependencies& dependencies() const { return dependencies_; }
  int lanes() const { return static_cast<int>(lanes_.size()); }

 private:
  struct State {
    int missing = 0;  // tasks before it that have not ended
    int outside = 0;  // of them, those that are not queued on a lane
    int behind = 0;   // tasks of the longest chain that waits for it
    bool started = false, ended = false;
    int lane = -1;
    hw::UnitMask mask;
  };
  struct Lane {
    hw::UnitMask mask;
    int queued = 0;  // kernels
    int last = -1;   // the last of them
  };
  struct Ready {
    int behind = 0;
    long turn = 0;
    int task = 0;
    bool operator<(const Ready& other) const {
      return behind != other.behind ? behind > other.behind : turn < other.turn;
    }
    bool operator>(const Ready& other) const { return other < *this; }
  };
  using Waiting = std::priority_queue<Ready, std::vector<Ready>, std::greater<>>;
  const State& state(int task) const { return states_[static_cast<std::size_t>(task)]; }
  State& state(int task) { return states_[static_cast<std::size_t>(task)]; }
  bool is_kernel(int task) const;
  void count_behind();
  void ready(int task);
  void look_ahead(int task);
  Waiting* first_waiting();
  void left_lane(const State& ended);
  void use(const hw::UnitMask& mask, int more);
  std::optional<int> last_unfinished(int task) const;
  std::optional<hw::UnitMask> taken_over(int task, int before);
  std::optional<int> free_lane(const hw::UnitMask& mask, std::optional<int> before) const;
  std::optional<Enqueued> enqueue(int task, const hw::UnitMask& mask, std::optional<int> before);
  void put(int task, int lane, const hw::UnitMask& mask);

  const std::vector<GraphTask>& tasks_;
  const MaskChoice& mask_;
  const Options options_;
  std::vector<State> states_;
  std::vector<std::vector<int>> after_;  // per task those that wait for it
  Waiting cpu_ready_;
  std::map<int, Waiting> kernels_ready_;  // by the units that they want
  std::vector<int> refused_;              // numbers of units, in one look at those that are ready
  std::deque<int> ahead_;
  long turns_ = 0;
  std::vector<int> running_;  // kernels per unit, queued ones too
  std::vector<int> counts_;   // of one look at a lane that may be taken over
  std::vector<Lane> lanes_;
  std::size_t left_ = 0, active_ = 0;
  Dependencies dependencies_;
};

}  // namespace partita::exec
