// BatchRunner: carries out the runs of batches of a live agent, each on a thread of its own with a
// driver, files and processes of its own, so that the agent's loop never waits for them. Its end
// leaves all runs as they are, as a kill does: tasks live on, the next runner goes on with them.
// Thread rule: one thread calls it; `wake` is called on the threads of the runs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/batch.h"
#include "control/host/batch_work.h"

namespace partita::control {

struct BatchRunnerDoors {
  // A driver of the node for one more thread, with all that it refers to.
  std::function<Result<std::shared_ptr<device::NodeDriver>>()> open_driver;
  std::string state_dir;
  std::function<std::int64_t()> wall_ms;
  const hw::Catalogue& catalogue;  // must outlive the runner
  std::function<void()> wake;      // something was finished
};

class BatchRunner {
 public:
  explicit BatchRunner(BatchRunnerDoors doors);
  ~BatchRunner();
  BatchRunner(const BatchRunner&) = delete;
  BatchRunner& operator=(const BatchRunner&) = delete;

  // The runs that shall be under way: see Deeds::batches.
  void carry(const std::vector<BatchDeed>& deeds);
  std::vector<BatchRunNow> runs() const;

 private:
  class Run;
  BatchRunnerDoors doors_;
  std::map<std::string, std::unique_ptr<Run>> runs_;  // by key
};

}  // namespace partita::control
