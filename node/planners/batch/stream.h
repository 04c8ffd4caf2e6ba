// Streams: batches or single tasks that arrive over time are planned one after the other onto what
// the earlier ones leave behind. What has begun is never changed; planned tasks that have not begun
// may be planned anew with the arrivals. Methods: those of Section 4 of Villarrubia et al., JPDC
// 204 (2025) on FAR's schedules (concatenate.h), and Partita's own (onto.h), which takes the better
// of its plan and both directions of the paper's. Releases and predecessors are obeyed, not planned
// for; deadlines and priorities count for nothing. Besides the record of what was decided, memory
// and the time of a submission do not grow with the number of earlier ones.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "planners/batch/forest.h"
#include "planners/batch/onto.h"
#include "planners/batch/physical.h"

namespace partita::planners::batch {

inline constexpr long kMaxStreamSteps = 10'000'000;  // of search in one submission

enum class StreamMethod {
  trivial,  // FAR's schedule after the last task before
  reverse,  // every other batch reversed, each instance as early as it can
  overlap,  // the same with moves and swaps across the seam
  best,
};
const char* to_string(StreamMethod method);

struct StreamOptions {
  StreamMethod method = StreamMethod::best;
  long steps = 1'000;  // of search per task planned, by `best`; about 0.1 us each
  int replanned = 10;  // so many planned tasks at most are planned anew, by `best`; 0 = none
  std::uint64_t seed = 1;
};

class OnlineScheduler {
 public:
  // bad_input as make_forest(). At least one GPU.
  static Result<OnlineScheduler> create(std::vector<hw::GpuModel> models, std::vector<int> gpus,
                                        const StreamOptions& options);

  // Plans tasks that arrive at `now`; Task::times as in a BatchProblem of these models.
  // Outlook::last says that nothing follows, so that the end alone matters. bad_input, and nothing
  // changes: a name known already, a task that fits nowhere, an unknown predecessor or a circle of
  // them, a time before the latest submission.
  Result<void> submit(std::vector<plan::Task> tasks, Nanos now, Outlook outlook = Outlook::more);

  // Everything submitted so far, as planned now; lower_bound is 0.
  plan::BatchSchedule schedule() const;

  Nanos makespan() const;                      // 0 before the first task
  double least_area() const { return area_; }  // of all tasks so far, column nanoseconds
  int columns() const { return forest_.columns(); }
  long moves() const { return moves_; }  // across seams, by `overlap`
  long swaps() const { return swaps_; }

 private:
  OnlineScheduler(plan::BatchProblem problem, Forest forest, const StreamOptions& options);

  Result<void> admit(const std::vector<plan::Task>& tasks, Nanos now) const;
  void settle(Nanos cut);
  Nanos cut(Nanos now) const;
  void make_pool(std::vector<plan::Task> tasks);
  Physical plan_pool(const Start& start, Outlook outlook);
  std::vector<Visits> proposals(const Start& start, const Aim& aim);
  Visits one_by_one() const;

  StreamOptions options_;
  Forest forest_;            // of the pool
  plan::BatchProblem pool_;  // the tasks planned last, none of which is settled
  Physical plan_;            // of the pool
  Start base_;               // what is settled leaves behind
  plan::BatchSchedule settled_;
  std::map<std::string, Nanos> ends_;  // of settled tasks; kNever of those in the pool
  Nanos now_ = 0;
  long batches_ = 0, moves_ = 0, swaps_ = 0;
  double area_ = 0;
};

}  // namespace partita::planners::batch
