// A service as one pool: several instances, one queue, any idle process takes the next batch. How
// much it carries so that the percentile stays within the SLO, by a closed form and by a simulation
// that jumps from dispatch to dispatch.
//
// The policy is that of plan/dispatcher.h with an SLO (pooled_policy): idle process of the class
// with the smallest full batch, at the pool's pace, at once when the batch is full or its oldest
// request's slack is used up. A test holds both against each other, request by request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/draws/poisson_times.h"
#include "base/units.h"
#include "profile/workload_profile.h"

namespace partita::model {

// Instances that run the same point; the curve's end is the batch limit.
struct PoolClass {
  profile::BatchCurve curve;
  int processes = 1;  // of all its instances together
};
using Pool = std::vector<PoolClass>;

// Requests/s when every process runs full batches back to back.
Rps fluid(const Pool& pool);

// The SLO and what of it may be missed.
struct PoolSlo {
  Millis slo;
  double late = 0.01;  // share of the requests
};

// Requests/s that the pool carries with Poisson arrivals, in closed form. The queue above a batch
// falls like exp(-theta x), theta the root of rho (e^theta - 1) = theta (bulk queue in heavy
// traffic), and what is served within the slack of the longest batch must not be exceeded by more
// than the late share.
// Against simulations: within 2 % from four processes and an SLO of 1.6 times the longest batch on,
// optimistic by up to 2.4 %; with fewer processes or a tighter SLO it is a guess.
Rps closed_form_capacity(const Pool& pool, const PoolSlo& wanted);
// The least fluid rate of a pool with such batches whose closed form reaches `rate`.
Rps closed_form_fluid(Rps rate, const PoolSlo& wanted, Millis longest, double batch);

// The same the other way round, class by class: the share of the requests that come late at that
// rate. Near saturation (kSaturated of the fluid rate) every batch is full and this is within a
// factor of 3 of simulations of 20 million requests, for any number of processes and any SLO; a
// shorter run tells nothing there, as late requests come in clusters of (1 - load)^-2 or more.
inline constexpr double kSaturated = 0.9;
double saturated_late(const Pool& pool, Millis slo, Rps rate);

// No more of the requests than this come late in the long run: proven for any pool below
// saturation, so far too high where the SLO leaves room for a few batches only.
//  - Behind Q requests that wait one starts once these and one batch per process have been started
//    by full batches, a longest batch (until a process is idle) and a pace later.
//  - While the largest batch waits no process idles, so that more than x above it and a batch per
//    process wait at no more than exp(-theta x) of the times (Lundberg), which arrivals see.
double most_late(const Pool& pool, Millis slo, Rps rate);

// Arrivals of rate 1 for all runs that are compared.
using UnitPoisson = PoissonTimes;

// Arrival times in nanoseconds, ascending, one after another.
using PoolArrivals = std::function<std::int64_t()>;

struct PoolCount {
  long requests = 0;
  long late = 0;
  double share() const {
    return requests == 0 ? 0 : static_cast<double>(late) / static_cast<double>(requests);
  }
};

// none: whatever waits starts as soon as a process is idle, as in an ordinary server.
enum class Pace { pool, none };

// A pool at work. Keeps its state from one run() to the next, so that a caller may look at the
// count and go on. Memory grows with the queue.
class PoolRun {
 public:
  PoolRun(const Pool& pool, Millis slo, Pace pace = Pace::pool);

  // `units` must outlive the run.
  void poisson(Rps rate, UnitPoisson& units);
  void arrivals(PoolArrivals source) { source_ = std::move(source); }

  // All processes are busy until then, as after a hiccup: the requests of that time wait.
  void stall(Millis until);

  // Dispatches until `requests` more have been served, or more than `most_late` of them were late.
  PoolCount run(long requests, long most_late);
  std::size_t largest_batch() const;

  // Before the first run(): keeps when batches end, so that the percentile of the latencies is
  // known (of some thousand, evenly spread). A run of `planned` requests or more need not keep as
  // many.
  void keep_latencies(long planned = 0);
  Millis percentile(double percent);

 private:
  struct Group {
    std::vector<std::int64_t> durations, paces;  // of a batch of i + 1
    std::vector<std::int64_t> ends;  // per process, ascending from the first on, round and round
    std::size_t first = 0;
    bool ascending = true;  // durations, as of every sane curve
    std::int64_t idle_from() const { return ends[first]; }
  };

  struct Start {
    std::int64_t time;
    std::size_t group, batch;
  };
  struct Kept {
    std::size_t behind;  // requests up to and with those of this batch
    std::int64_t end;
  };

  const double* window();
  std::int64_t arrival(double time) const;
  std::size_t arrived(const double* times, std::size_t most, std::int64_t now) const;
  std::size_t group_at(std::int64_t now) const;
  std::int64_t better_from(std::size_t group) const;
  void occupy(Group& group, std::int64_t end);
  Start next_start(const double* times) const;
  std::vector<std::int64_t> latencies();

  std::vector<Group> groups_;  // smallest full batch first
  std::int64_t slo_ = 0, margin_ = 0;
  UnitPoisson* units_ = nullptr;
  double gap_ns_ = 1;  // between arrivals, on average, where times are those of the units
  PoolArrivals source_;
  std::vector<double> times_;  // of the source, nanoseconds
  std::vector<double> seen_;   // of the units, where a window goes over the end of a chunk
  std::size_t head_ = 0;       // the oldest request that waits or arrives next
  std::int64_t now_ = 0, ready_ = INT64_MIN;
  bool keep_ = false;
  std::size_t stride_ = 1, next_kept_ = SIZE_MAX;  // of requests whose latency is kept
  std::vector<Kept> kept_;                         // of the batches that have one
};

// Whether at most wanted.late of the requests are late at that rate: a sequential test of one
// simulated run, Poisson, or of `arrivals` when given. Deterministic.
struct PoolTest {
  long fewest = 20'000;          // requests before a verdict
  long most = 400'000;           // requests after which the count decides
  UnitPoisson* units = nullptr;  // Poisson arrivals to share between tests; null: drawn anew
  // It must hold again after a stall of one SLO too, in so many requests once the backlog is worked
  // off. A pool of few processes can have two ways of working, with full and with many small
  // batches; from the worse one it would not come back. 0: not asked.
  long after_stall = 0;
  // Ends a run as soon as it is clear that the next look at the count will say no. The verdict is
  // the same, without a percentile then. holds() always does.
  bool hurried = false;
};
bool holds(const Pool& pool, const PoolSlo& wanted, Rps rate, const PoolTest& test = {},
           Pace pace = Pace::pool);
bool holds(const Pool& pool, const PoolSlo& wanted, PoolArrivals arrivals, const PoolTest& test);

// The same, with a percentile of the latencies seen (0: a hurried test that does not hold).
struct PoolVerdict {
  bool holds = false;
  Millis percentile{0};
};
PoolVerdict examine(const Pool& pool, const PoolSlo& wanted, Rps rate, const PoolTest& test,
                    double percentile, Pace pace = Pace::pool);

PoolVerdict examine(const Pool& pool, const PoolSlo& wanted, PoolArrivals arrivals,
                    const PoolTest& test, double percentile);

// The highest rate (to 0.5 %, rounded down) at which it holds, there and on a coarse grid below.
Rps pool_capacity(const Pool& pool, const PoolSlo& wanted, const PoolTest& test = {},
                  Pace pace = Pace::pool);

}  // namespace partita::model
