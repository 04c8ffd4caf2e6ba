// Every scheduler of the table as tests and benchmarks run it: plain, and with some arguments.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "planners/batch/scheduler.h"

namespace partita::batch_test {

struct NamedScheduler {
  std::string name;  // "miso:barrier"
  planners::batch::Chosen chosen;

  planners::batch::Outcome run(const plan::BatchProblem& problem, long budget) const {
    planners::batch::Options options;
    options.budget = budget;
    return planners::batch::run(chosen, problem, options);
  }
  // The default must have a schedule for every batch; others may refuse.
  bool is_default() const { return chosen.scheduler == &planners::batch::schedulers().front(); }
};

inline NamedScheduler named_scheduler(const std::string& name) {
  const auto chosen = planners::batch::find_scheduler(name);
  CHECK(chosen);
  return {name, *chosen};
}

// The table's order; the layouts exist on every GPU of the catalogue.
inline std::vector<NamedScheduler> all_schedulers() {
  const std::vector<std::pair<std::string, std::string>> arguments = {
      {"far", "unrefined"}, {"miso", "barrier"}, {"fixed", "2g+1g+1g"}, {"fixed", "1g+1g+1g+1g"}};
  std::vector<NamedScheduler> all;
  for (const planners::batch::Scheduler& scheduler : planners::batch::schedulers()) {
    if (scheduler.name != "fixed") all.push_back(named_scheduler(scheduler.name));
    for (const auto& [name, argument] : arguments)
      if (name == scheduler.name) all.push_back(named_scheduler(name + ":" + argument));
  }
  return all;
}

}  // namespace partita::batch_test
