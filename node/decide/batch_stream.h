// Streams: batches that follow each other, or tasks that are known only from their release on,
// scheduled submission by submission and judged as one batch. Pure but for the CPU clock.
#pragma once

#include <functional>
#include <vector>

#include "decide/batch_inputs.h"
#include "planners/batch/stream.h"

namespace partita::decide {

// What is submitted at one time.
struct Submission {
  std::vector<plan::Task> tasks;
  plan::Nanos now = 0;
};

struct Stream {
  plan::BatchProblem problem;  // all tasks, for the judge
  std::vector<Submission> submissions;
  // Nobody knows what follows, and it is planned while it runs; else the last one is known.
  bool online = false;
};

// One submission per batch; or, `online`, one per release time, and nobody knows what follows.
// Where a name comes twice every task is called N/NAME, batches from 1. Refused: too many tasks.
Result<Stream> stream_of(std::vector<plan::BatchProblem> batches, const GpuList& gpus, bool online);

struct Streamed {
  plan::Judged<plan::BatchSchedule> schedule;  // of the whole stream
  std::size_t submissions = 0;
  double area_bound = 0;  // nanoseconds that the areas of the tasks alone need
};

// Refused as planners::batch::OnlineScheduler does. A schedule that the judge refuses is our bug.
Result<Streamed> play(const Stream& stream, const planners::batch::StreamOptions& options,
                      const std::function<double()>& cpu_ms);

}  // namespace partita::decide
