// Admission: whether a request is let in, as the gateway decides it and as simulator and judge
// foresee it. A request is refused at once when the queue is full, or when it would be done too
// late if full batches followed one another, each on the process that can take one first: after
// its deadline less the margin that the dispatcher keeps for late wake-ups. Pure: no clock.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/dispatcher.h"

namespace partita::plan {

inline constexpr int kDefaultQueueLimit = 4096;  // requests that may wait for one service

// A process of a pool as it stands.
struct PoolProcess {
  Nanos free = 0;  // when it can take its next batch
  Nanos full = 0;  // how long a full batch takes it, > 0
  int batch = 1;   // requests of a full batch
};

// When the last of `ahead` waiting requests would be done; at least one process, ahead >= 1.
// Lanes that are free at the same time go by their full batch's time, then by its size.
Nanos predicted_finish(std::vector<PoolProcess> processes, long ahead);

// Whether something done then is let in, that should be done by `deadline`.
inline bool in_time(Nanos finish, Nanos deadline, Nanos slo) {
  return finish <= deadline - usual_margin(slo);
}

// The same for one queue over a pool whose batches take as long as its curves say. Whoever starts
// batches says so; their ends need not be told. O(1) per request while the pool keeps up.
class Admission {
 public:
  // The policy must have an SLO.
  Admission(const DispatchPolicy& policy, int queue_limit);
  void start(int member, Nanos now, Nanos duration);
  // Whether a request that comes now, behind so many that wait, is let in.
  bool admits(Nanos now, int queued);

 private:
  struct Kind {  // of a member's processes
    Nanos full = 0;
    int batch = 1, processes = 1;
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
  Nanos patience_ = 0;     // from arrival until it should be done
  Nanos shortest_ = 0, longest_ = 0;
  int queue_limit_;
};

}  // namespace partita::plan
