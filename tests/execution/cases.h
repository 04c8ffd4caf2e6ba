// Random batches with their schedules, as the tests of the batch executor carry them out.
#pragma once

#include <string>

#include "../batch/all_schedulers.h"
#include "../batch/random_batch.h"
#include "batch_world.h"

namespace partita::execution_tests {

struct Case {
  plan::BatchProblem problem;
  plan::BatchSchedule schedule;
};

// A batch as `shape` says that this scheduler has a schedule for.
inline Case random_case(Rng& rng, batch_test::Shape shape, const std::string& scheduler) {
  shape.extreme = false;
  const auto chosen = batch_test::named_scheduler(scheduler);
  while (true) {
    Case made{batch_test::RandomBatch(rng, shape).make(), {}};
    made.problem.reconfigurer = {};  // all of one node, as the executor has them
    made.problem.reconfigurer.gpus_per_node = static_cast<int>(made.problem.gpus.size());
    auto outcome = chosen.run(made.problem, 200);
    if (!outcome.schedule) continue;
    made.schedule = *std::move(outcome.schedule);
    return made;
  }
}

}  // namespace partita::execution_tests
