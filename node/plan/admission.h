// Admission: whether a request is let in, as the gateway decides it and the simulator foresees
// it. The judge lets everything in. A request is refused at once when the queue is full, or when it
// would be done too late. Predicted is that full batches follow one another, each on the process
// that can take one first, up to the request's own, which holds what waits before it and itself.
// While no more comes than the pool can do, only what is late even so is refused: nothing else is
// to be lost, and what the judge promised counts nothing as lost. Under overload what comes until
// the batch starts is in it too, and it is to end a margin before the deadline, the one that the
// dispatcher keeps for late wake-ups. Pure: no clock.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "plan/dispatcher.h"
#include "plan/pipeline.h"

namespace partita::plan {

inline constexpr int kDefaultQueueLimit = 4096;  // requests that may wait for one service

// A process of a pool as it stands.
struct PoolProcess {
  Nanos free = 0;  // when it can take its next batch
  Nanos full = 0;  // how long a full batch takes it, > 0
  int batch = 1;   // requests of a full batch
  int kind = 0;    // the caller's word for what it is
};

// The batch in which the last of `ahead` waiting requests would be.
struct PredictedBatch {
  Nanos start = 0;
  int kind = 0;   // of its process
  int place = 1;  // of that request in it, from 1
  bool operator==(const PredictedBatch&) const = default;
};

// At least one process, ahead >= 1. Processes that are free at the same time go by their full
// batch's time, then by its size, then by their kind.
PredictedBatch predicted_batch(std::vector<PoolProcess> processes, long ahead);

// How fast requests came of late, from the times of the last kRemembered.
class RecentRate {
 public:
  void arrived(Nanos now);
  double per_nano(Nanos now) const;  // 0 before two have come

 private:
  static constexpr std::size_t kRemembered = 32;
  std::array<Nanos, kRemembered> times_ = {};
  std::size_t seen_ = 0;
};

// Whether more comes than full batches on all processes do: back to back they would be so far
// behind what has come, let in or not, that the slack of the longest batch is used up. A plan is
// made so that this is rarer than a late request may be; the rate of a few dozen requests exceeds
// capacity all the time.
class Arrears {
 public:
  // `carried`: requests of full batches per nanosecond. `slack`: the SLO without the longest one.
  void arrived(Nanos now, double carried, Nanos slack);
  bool lasts() const { return behind_ > bound_; }

 private:
  double behind_ = 0, bound_ = 0;  // requests
  Nanos last_ = 0;
};

// Of requests that come.
struct Pressure {
  double comes = 0;  // per nanosecond
  bool overload = false;
};

// How large that batch is taken to be when it starts: at most `full`.
int predicted_size(const PredictedBatch& batch, int full, Nanos now, const Pressure& pressure);
// Whether something done then is let in, that should be done by `deadline`.
bool in_time(Nanos finish, Nanos deadline, Nanos slo, const Pressure& pressure);

// What is foreseen of a request behind others, of which some wait and some are still to come.
struct Foreseen {
  Nanos until = 0;  // so long from now on until it is done at the earliest, all of them being there
  Nanos batch = 0;  // in the smallest batch that can hold it, had it nothing to wait for
  bool overload = false;  // more comes than is carried
  bool operator==(const Foreseen&) const = default;
};

// When a request would be through the steps of a pipeline that it has not been asked for yet.
struct WayAhead {
  std::vector<Nanos> ends = {};  // per step; of those that it has been asked for: now
  Nanos end = 0;                 // of the last one
  bool overload = false;         // of one of them
  // When a step has to be done so that the rest is by `deadline`.
  Nanos done_by(std::size_t step, Nanos deadline) const { return deadline - (end - ends[step]); }
};
// Steps take who comes first first: a step's end is not before that of those who are ahead, nor
// before its own batch behind the step before. `steps`: nothing of those that it was asked for.
WayAhead way_ahead(const PipelineGraph& graph, const std::vector<std::optional<Foreseen>>& steps,
                   Nanos now);
// Requests of a step that are reckoned with for one whose numbers are not known yet.
int reckoned_requests(const PipelineGraph& graph, std::size_t step);

// The same for one queue over a pool whose batches take as long as its curves say. Whoever starts
// batches says so; their ends need not be told. O(1) per request while the pool keeps up.
class Admission {
 public:
  // The policy must have an SLO.
  Admission(const DispatchPolicy& policy, int queue_limit);
  void start(int member, Nanos now, Nanos duration);
  // Whether a request that comes now, behind so many that wait, is let in: it is to be done within
  // the SLO, or by then. Every request asks once.
  bool admits(Nanos now, int queued, std::optional<Nanos> done_by = {});
  // So many requests would have come, had they not been refused before: they press as others do.
  void held_off(Nanos now, int requests);
  // Of the last of so many requests that come behind `ahead`, those that wait among them.
  Foreseen foresee(Nanos now, long ahead, int requests) const;

 private:
  struct Kind {  // of a member's processes
    Nanos full = 0;
    int batch = 1;
    profile::BatchCurve curve = {};
  };
  struct Busy {
    Nanos end = 0;
    int member = 0;
  };
  void forget_ended(Nanos now);
  long startable(Nanos now, Nanos until) const;
  std::vector<PoolProcess> processes(Nanos now) const;

  std::vector<Kind> kinds_;  // by member
  std::vector<int> idle_;    // processes, by member
  std::vector<Busy> busy_;   // [head_, end) by their end
  std::size_t head_ = 0;
  long idle_batches_ = 0;  // requests of full batches on all idle processes
  long all_batches_ = 0;   // on all of them
  Nanos slo_ = 0;
  Nanos shortest_ = 0, longest_ = 0;  // of full batches
  int largest_ = 1;                   // full batch
  double carried_ = 0;                // per nanosecond, in full batches
  RecentRate rate_;
  Arrears arrears_;
  int queue_limit_;
};

}  // namespace partita::plan
