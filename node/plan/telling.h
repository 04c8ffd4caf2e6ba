// How much of some traffic must be played before it has shown what it does to a queue; and, where
// that is more than can be played, what is played in its stead. Values, pure.
#pragma once

#include <cstddef>
#include <vector>

#include "base/units.h"
#include "plan/traffic.h"

namespace partita::plan {

// How many requests tell: some hundred gaps of gamma times its dispersion, dozens of bursts, a
// whole recording; at most `most`, at least 0 (Poisson).
inline constexpr long kMostTelling = 4'000'000;
long telling_requests(const Arrivals& arrivals, Rps rate, long most = kMostTelling);

// A part of some traffic, each request of which stands for `weight` of its requests (0: none).
struct Stretch {
  Seconds length;
  Rps rate;  // Poisson's; of recorded times their mean
  double weight = 1;
  std::size_t first = 0, last = 0;  // of recorded times those from first to before last
  Seconds into = {};                // ... of which the recording's first is so long before
};

// What stands for bursts and recordings of which more than `most` requests tell: played one after
// another, at most about `most` requests, whose weights add up to the requests of whole periods.
// Empty: no more tell, or the law has no bursts.
//
// - Bursts are played whole, a few of them. Random lengths are the means of equally likely parts of
//   their law, so that bursts have their share for whoever looks. Of what comes between them the
//   first part is played, in which a queue catches up; the next stands for the rest of it, and is
//   late where the queue has not caught up by then.
// - Bursts too long for that are shortened, and their ends stand for what is left out, as if the
//   rate lasted for ever; what comes after is shortened as much, as so much less is behind. A queue
//   that falls behind but slowly would not show it: where what may wait within `slo` is a share of
//   what is played of a burst, more come by that share, a quarter at most.
// - A recording is cut into 2, 4, 8, ... equal windows until these fit: the busiest, the next, and
//   then the busiest of the next 2, 4, ..., each for all of these, and likewise with more. What a
//   queue has not caught up with goes on in the next window, which stands for as many or more.
std::vector<Stretch> telling_stretches(const Arrivals& arrivals, Rps rate, Millis slo,
                                       long most = kMostTelling);

}  // namespace partita::plan
