// A segment under load, as the queueing rule judges it: the pace by PacedQueue, which is exact,
// plus what a busy process adds. With several processes and batches that take differently long, all
// may be busy when the pace has passed; PacedQueue leaves that out. The difference is estimated by
// playing the policy on a fixed stream of arrivals with and without the wait for a process: common
// random numbers, so that only the difference is uncertain. Pure: same question, same answer.
#pragma once

#include "base/units.h"
#include "profile/workload_profile.h"
#include "verify/paced_queue.h"

namespace partita::verify {

// The play stops when the answer is clear by so many standard errors, or after so many requests;
// then the doubt is the segment's benefit. Load that flips between two modes once in more requests
// than that is not seen.
inline constexpr double kClearErrors = 4;
inline constexpr int kMaxPlayedRequests = 320'000;

struct Segment {
  profile::BatchCurve curve;  // at least one step
  int processes = 1;
  Rps load;  // > 0
};

// Whether the percentile (0 < p < 100) of the time from arrival to the end of execution is <=
// limit. `queue` is the segment's own.
bool meets(const Segment& segment, const PacedQueue& queue, Millis limit, double percentile);

// About that percentile, for messages; infinite when the queue is not stable.
Millis latency(const Segment& segment, const PacedQueue& queue, double percentile);

}  // namespace partita::verify
