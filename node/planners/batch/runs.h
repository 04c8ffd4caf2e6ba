// What a search budget pays for: a sequence of whole runs, whose lengths and seeds do not depend on
// the budget. A run cannot be cut short or stretched, because a search cools down over its whole
// length; but a larger budget pays for all runs of a smaller one and perhaps for more, so whoever
// keeps the best result never does worse with more.
//
// The sequence: a run without a search; short ones, a 65536th, 4096th, 256th and 16th of the usual
// length, which cost little beside the usual one; the usual one; then 1, 1, 2, 2, 4, 4, ... times
// the usual length with other seeds. A short run is paid for by a budget of its length; from the
// usual run on lengths add up.
#pragma once

#include <optional>

#include "planners/batch/scheduler.h"

namespace partita::planners::batch {

struct Run {
  long steps = 0;
  std::uint64_t seed = 0;
  int restart = 0;  // 0: the usual run and those before it
};

class Runs {
 public:
  // `usual`: the length of the usual run, which is also the default budget; at least 1.
  Runs(long usual, const Options& options);

  // The next run, or nothing when the budget does not pay for it or Options::go_on says no.
  std::optional<Run> next();
  // The least budget that pays for all runs so far.
  long spent() const { return spent_; }

 private:
  long usual_;
  long budget_;
  const Options& options_;
  int made_ = 0;
  long spent_ = 1;
};

}  // namespace partita::planners::batch
