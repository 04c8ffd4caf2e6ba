// Running a BatchExecutor: performing its actions at the doors and reporting back. Two runners of
// the same brain: run_real (driver calls on one thread of their own, all else on the caller's) and
// run_simulated (one thread, a clock that jumps from event to event; deterministic). They use no
// other door than they are given.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "act/batch/batch_executor.h"
#include "act/batch/commands.h"

namespace partita::exec {

struct Doors {
  device::NodeDriver& driver;
  Processes& processes;
  Files& files;
  Clock& clock;
};

struct RunSettings {
  RunPaths paths;
  std::shared_ptr<RecordLog> journal = {};  // null: none is kept
  std::map<Pid, StartTask> adopted = {};    // attempts that an earlier process of the run started
  std::int64_t origin = 0;                  // the clock at the start of the run
  std::function<bool()> interrupted = {};   // asked often: should the run end?
  // Asked often: which GPUs of the script are wanted back since the last time?
  std::function<std::vector<Withdrawn>()> withdrawn = {};
  // Asked often: should the run be left as it is? As a kill leaves it: processes live on, and who
  // opens the session again goes on. run_real alone.
  std::function<bool()> left_alone = {};
  std::function<void(Nanos, const RunReport&)> watch = {};  // told often how things stand
};

struct RunEnd {
  std::uint64_t log_hash = 0;         // of all records
  std::optional<Error> journal = {};  // it could not be written, so the run was interrupted
};

// Until the executor has finished. Driver calls that never return are waited for.
RunEnd run_real(BatchExecutor& executor, const Script& script, const Doors& doors,
                const RunSettings& settings);

// A run that is carried on by calls, driver calls included, for who has an own loop. What it
// refers to must outlive it.
class SteppedRun {
 public:
  SteppedRun(BatchExecutor& executor, const Script& script, const Doors& doors,
             const RunSettings& settings);
  ~SteppedRun();
  // Does what can be done now; the time on the clock of the next call at the latest, though nothing
  // happens. Processes that end are a reason to call, too.
  std::optional<std::int64_t> step();
  RunEnd end() const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

// The same on a simulated clock, which must be the driver's and the processes' as well. A driver
// call takes effect at once and answers when it would have ended. `world`, if any, is called before
// every step with the time since the start and tells when it wants to be called again.
using World = std::function<std::optional<Nanos>(Nanos now)>;
RunEnd run_simulated(BatchExecutor& executor, const Script& script, const Doors& doors,
                     const RunSettings& settings, ManualClock& clock, SimProcesses& processes,
                     const World& world = {});

}  // namespace partita::exec
