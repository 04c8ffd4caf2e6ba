// BatchWork: one run of a batch beside services, at the doors of a node: schedules what it was told
// on its GPUs, keeps script and journal in a directory of its own, and goes on with what an earlier
// process of the run left there. Who carries it on (batch_runner.h in real time, control/sim in
// virtual time) drives `executor` with `settings`. One thread at a time per object.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "control/batch.h"
#include "act/batch/session.h"
#include "hw/catalogue.h"

namespace partita::control {

struct BatchDoors {
  exec::Doors doors;
  std::string state_dir;
  std::function<std::int64_t()> wall_ms;
  const hw::Catalogue& catalogue;
  std::function<exec::Attempts(const std::string& run)> find = {};  // see exec::SessionFlags
  long budget = 0;       // of the scheduler, in search steps; 0: its own default
  std::string tag = {};  // makes names of new runs unique on this machine, beside other agents'
};

// What is wanted of the GPUs of a run while it is under way; may be set by another thread.
class BatchOrders {
 public:
  void set(const BatchDeed& deed);
  // GPUs that are wanted back, by their place in the run, each once and once more to stop.
  std::vector<exec::Withdrawn> take();
  // A run is opened again: take() tells everything once more.
  void repeat();

 private:
  std::mutex mutex_;
  std::vector<exec::Withdrawn> told_, fresh_;
};

class BatchWork {
 public:
  // Over at once where an earlier process of the run has brought it to its end. Errors before the
  // run began: it cannot be; later ones (has_begun): it cannot go on now.
  static Result<std::unique_ptr<BatchWork>> open(const BatchDeed& deed, BatchDoors doors);
  static bool has_begun(const BatchDeed& deed, const BatchDoors& doors);
  // Removes what goes on with a run; its output stays.
  static void forget(const std::string& key, Files& files, const std::string& state_dir);

  bool over() const { return over_; }
  exec::BatchExecutor& executor() { return *executor_; }
  const exec::Script& script() const { return script_; }
  exec::RunSettings& settings() { return session_.settings; }
  const exec::Doors& doors() const { return doors_.doors; }
  BatchRunNow now() const;
  // The executor has finished: keeps its result, which makes the run over.
  Result<void> close();

 private:
  BatchWork(const BatchDeed& deed, BatchDoors doors) : deed_(deed), doors_(std::move(doors)) {}
  Result<void> prepare();
  Result<void> go_on();
  Result<exec::Script> read_script() const;
  Result<void> write_script() const;
  void take_failures();
  std::string path(const char* name) const;

  BatchDeed deed_;
  BatchDoors doors_;
  exec::Script script_;
  exec::Session session_;
  std::unique_ptr<exec::BatchExecutor> executor_;
  std::int64_t opened_ms_ = 0, opened_ns_ = 0;
  bool over_ = false;
  BatchRunNow result_;
};

}  // namespace partita::control
