// TaskRuns: the tasks of a script and the attempts at them: which is under way and as which
// process, when it is asked to end and when it is killed, whether it is tried again, and what
// becomes of those after it. Part of the brain BatchExecutor, which says when one may begin.
// RunNotes: what the parts of that brain write down together.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "act/batch/run_events.h"
#include "act/batch/run_report.h"
#include "act/batch/script.h"

namespace partita::exec {

struct RunNotes {
  Nanos now = 0;
  RunReport report = {};
  Actions out = {};
  std::set<int> touched = {};    // visits to be examined
  std::set<int> withdrawn = {};  // GPUs of the script

  void record(Record record);
};

class TaskRuns {
 public:
  // Refers to all of them.
  TaskRuns(const Script& script, const Options& options, RunNotes& notes);

  void take_over(int task, const PastTask& then);
  // What an earlier process of the run left undecided: call once all were taken over.
  void decide(int task, const PastTask& then);

  bool settled(int task) const;
  // The first task of a visit that is not settled; none: all are.
  std::optional<int> next_of(int visit) const;
  bool at_work(int visit) const { return at_work_[static_cast<std::size_t>(visit)] > 0; }
  // Whether it may begin now, as far as it and those before it go.
  bool may_start(int task) const;
  void start(int task, const std::string& device);
  void started(const Started& event);
  void exited(const Exited& event);

  void settle(int task, TaskStatus status, const std::string& reason);
  // What has not begun of a visit is not run; what is under way is stopped, unless it may end.
  void drop(int visit, const std::string& reason, bool stop = true);

  // Asks to end what takes too long, and kills what does not end.
  void watch_times();
  std::optional<Nanos> next_wake() const;
  // Nothing is under way, and nothing is left to do.
  bool over() const { return open_ == 0 && by_pid_.empty(); }

 private:
  struct TaskNow {
    bool starting = false;
    std::optional<Pid> pid;
    int attempt = 0, failures = 0;
    std::optional<Nanos> stopped;  // when it was asked to end
    bool killed = false, timed_out = false;
    bool adopted = false;       // the attempt was started by an earlier process of the run
    bool stopped_then = false;  // which had asked it to end before its time
    std::string doomed;         // why it is not tried again; empty: it may be
    std::vector<int> followers;
  };

  void attempt_ended(int task, int status);
  void doom(int task, const std::string& reason);
  Record attempt_record(Record::Kind kind, int task) const;

  const Script& script_;
  const Options& options_;
  RunNotes& notes_;
  std::vector<TaskNow> tasks_;
  mutable std::vector<std::size_t> next_;  // per visit: the first of its tasks that is not settled
  std::vector<int> at_work_;               // per visit: its tasks under way, at most one
  std::map<Pid, int> by_pid_;
  std::size_t open_ = 0;
};

// The earlier of what may be nothing and a time.
void earlier(std::optional<Nanos>& least, Nanos time);

}  // namespace partita::exec
