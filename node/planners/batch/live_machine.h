// What runs on some GPUs and which instances exist or are being made, as whoever carries out a
// LivePlanner's decisions reports it; and what a plan of the waiting tasks finds there. Times are
// the caller's clock. Single-threaded, no door.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "planners/batch/physical.h"

namespace partita::planners::batch {

using LiveOp = plan::Reconfiguration::Op;

struct LiveTask {
  long id = 0;                         // unique
  std::vector<plan::SizeTimes> times;  // expected, per GPU model; 0 where it does not fit
  // Per GPU model a bit for each of its profiles that it may have; empty: all plain ones.
  std::vector<std::uint32_t> profiles = {};
  int width = 1;      // so many instances of one profile at once
  double weight = 1;  // > 0
  std::optional<Nanos> deadline = {};
  Nanos release = 0;
  std::vector<long> after = {};  // ids: of those that wait or run here it waits for the end
  double cv = 0;                 // of its time: standard deviation / mean
  long rank = 0;                 // tasks wait in the order of rank, then of id
  Nanos since = 0;               // when it came
  int cpus = 0;                  // of capacity()
  double ram_gib = 0;
};

struct LiveChange {
  LiveOp op = LiveOp::create;
  int node = 0;
};

class LiveMachine {
 public:
  LiveMachine(plan::BatchProblem problem, Forest forest);

  const Forest& forest() const { return forest_; }

  // ---- what happens
  // What all tasks together may use beside instances; 0: it is not counted.
  void capacity(int cpus, double ram_gib) { cpus_ = cpus, ram_gib_ = ram_gib; }
  void began(LiveTask task, std::vector<int> nodes, Nanos now);
  // A task runs no more, or did not begin: its instances are idle.
  void ended(long id);
  // An instance that is there, though nobody here decided it; idle.
  void found(int node);
  // One that is not there any more, though nobody here decided it: the task that runs on it, whose
  // other instances are idle once it has ended. None: nothing does, or it is being changed.
  std::optional<long> gone(int node);
  void change_began(const LiveChange& change, Nanos now);
  // What came of it: done, or refused, and then the node is as it was before.
  void changed(const LiveChange& change, bool done);
  // Columns of the node are others' from now on, or no longer.
  void close(int node, bool closed);
  // Nothing is tried there until then: the driver has just refused.
  void avoid(int node, Nanos until);
  // Begins to destroy an idle instance that nobody waits for; false: not now.
  bool retire(int node, Nanos now);

  // ---- what is known
  // Grows with everything that a plan could not foresee.
  long surprises() const { return surprises_; }
  bool idle(int node) const;
  bool runs(long id) const { return running_.contains(id); }
  const std::vector<int>& nodes_of(long running) const;  // empty: it does not run
  Nanos expected_end(long running, Nanos now) const;     // on average
  // The task may run on some node whose columns are nobody else's.
  bool fits_somewhere(const LiveTask& task) const;
  Nanos time(const LiveTask& task, int node) const;  // 0: it does not fit
  // Whether as many nodes of this one's class as the task takes can exist at once.
  bool enough(const LiveTask& task, int node) const {
    return task.width <= room_[at(forest_.nodes[at(node)].size_class)];
  }
  double least_area(const LiveTask& task) const;  // column nanoseconds
  // There are CPUs and memory for it.
  bool has_room(const LiveTask& task) const;
  bool can_begin(const LiveChange& change) const;
  // When something that was avoided may be tried again.
  std::optional<Nanos> next_try(Nanos now) const;
  // Relative to now. `quantile`: per running task at which quantile of its time it ends; empty: as
  // expected.
  using Quantile = std::function<double(long task)>;
  Start start(Nanos now, const Quantile& quantile = {}) const;

  Nanos end_of(long running, Nanos now, const Quantile& quantile) const;

 private:
  struct Running {
    LiveTask task;
    std::vector<int> nodes;
    Nanos began = 0, time = 0;
  };
  struct Instance {
    enum class State { creating, idle, busy, destroying } state = State::idle;
    Nanos until = 0;  // expected end of creating or destroying
    long task = 0;    // busy
    bool gone = false;
  };
  void count_room();
  bool open(int node) const;
  void add_instances(Start& start, Nanos now, const Quantile& quantile) const;

  plan::BatchProblem gpus_;  // without tasks
  Forest forest_;            // without tasks
  std::vector<int> gpcs_;    // per node
  std::map<long, Running> running_;
  std::map<int, Instance> instances_;  // by node
  std::vector<int> closed_;            // per column and token: how many close it
  std::vector<int> room_;              // per class how many that are not closed can exist at once
  std::map<int, Nanos> avoided_;       // nodes, and until when
  std::vector<char> reconfiguring_;    // per reconfigurer
  int cpus_ = 0;                       // in all; 0: not counted
  double ram_gib_ = 0;
  long surprises_ = 0;
};

}  // namespace partita::planners::batch
