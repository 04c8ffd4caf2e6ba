// A batch schedule as steps that wait for each other: creates, tasks and destroys by number. What
// simulate() plays. Immutable once made; made from schedules that the judge would accept, refused
// otherwise as far as it shows.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "plan/batch.h"

namespace partita::sim {

struct Step {
  plan::Nanos length = 0;      // without differences
  plan::Nanos planned = 0;     // its begin in the schedule
  plan::Nanos earliest = 0;    // release
  int waits = 0;               // steps that must have ended
  int gpu = -1;                // of a reconfiguration; -1: a task
  int rank = 0;                // of a reconfiguration: its place in its GPU's order
  std::string stream = {};     // name of its random stream
  std::vector<int> next = {};  // steps that wait for it
};

// Tasks come first, by their number in the problem; then reconfigurations, by GPU and rank.
struct Steps {
  std::vector<Step> steps;
  int tasks = 0;
  std::vector<int> first_op;  // per GPU its first reconfiguration's number, and one past the last
};

Result<Steps> steps_of(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule);

}  // namespace partita::sim
