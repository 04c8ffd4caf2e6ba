// Supervisor: keeps the workers of an assignment running, `processes` of them per segment, and
// nothing else. A single-threaded brain: the caller says what is assigned and when it is, step()
// does what is due and says when to come again. It owns no process: workers live on when it dies,
// and the next supervisor with the same state file adopts them.
//
// Rules: a segment that stays is not touched. One that is gone or changed is stopped (streams that
// the gateway knows of are waited for, then terminate, the grace, kill) and released before another
// takes its device. A worker that ends is started again, after longer and longer waits when it
// fails quickly; after too many quick failures it is marked and tried seldom. One that ended under
// requests, as the gateway says, had started well: it is no quick failure. Never two workers in one
// place; what a worker leaves behind when it ends is killed, in whatever session it is.
//
// A worker that runs and does not answer is replaced: told to end like any other, and counted as
// failed. Who asks: a probe, a command or a URL, every probe_period_ns; and the gateway, whose word
// is taken for the workers that it knows.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "act/assignment.h"
#include "act/gateway_state.h"
#include "act/http_probes.h"
#include "act/worker_command.h"
#include "act/workers_file.h"
#include "act/workers_state.h"
#include "base/files.h"
#include "base/processes.h"
#include "base/result.h"
#include "base/units.h"

namespace partita::actuate {

struct WorkerPolicy {
  std::int64_t grace_ns = 10'000'000'000;      // from terminate to kill
  std::int64_t first_wait_ns = 1'000'000'000;  // before a restart; doubles with quick failures
  std::int64_t longest_wait_ns = 60'000'000'000;
  std::int64_t seldom_ns = 300'000'000'000;       // between tries of what was given up
  std::int64_t quick_ns = 10'000'000'000;         // who ends sooner than this failed quickly
  int give_up_after = 5;                          // quick failures in a row
  std::int64_t poll_ns = 200'000'000;             // how often ends of workers are looked for;
  std::int64_t quick_poll_ns = 20'000'000;        // of those that were told to end, and of probes
  std::int64_t probe_period_ns = 1'000'000'000;   // from the end of a probe to the next
  std::int64_t probe_timeout_ns = 1'000'000'000;  // what takes longer has failed
  int probe_failures = 3;                         // in a row, and the worker is replaced
  std::int64_t startup_ns = 60'000'000'000;       // until the first probe must have succeeded
  std::int64_t silent_ns = 3'000'000'000;  // what the gateway calls silent for longer is replaced
};

struct WorkerHooks {
  // Makes the device ready (an MPS daemon) and gives the environment of each of the segment's
  // workers. Asked before workers start, also again after one ended. Empty: nothing is needed.
  std::function<Result<std::vector<Environment>>(const AssignedSegment&)> prepare = {};
  // Undoes it, once no worker is left. Only the device is sure to be known.
  std::function<Result<void>(const AssignedSegment&)> release = {};
  // What a gateway that lives says of its workers; nothing when none runs. Asked at every step.
  std::function<std::optional<GatewayState>()> gateway = {};
  // Hears what happens, a line each.
  std::function<void(const std::string&)> say = {};
};

// How workers are asked whether they are well: a command that ends with status 0, or a URL.
struct WorkerProbe {
  CommandTemplate command;     // of a URL, one word
  HttpProbes* http = nullptr;  // it is a URL; must outlive the supervisor
};
// A URL when it begins with http://, else a command; refused with `context`.
Result<WorkerProbe> parse_probe(const std::string& context, const std::string& text,
                                HttpProbes& http);

struct SupervisorOptions {
  CommandTemplate command;
  std::string state_file;      // workers_path(); beside it lies its lock
  std::string log_dir;         // empty: output is thrown away
  int first_port = 0;          // {port} counts up from it
  SupervisorRecord self = {};  // this process
  WorkerPolicy policy = {};
  WorkerHooks hooks = {};
  std::optional<WorkerProbe> probe = {};
};

// A worker that a supervisor answers for.
struct SupervisedWorker {
  WorkerRecord record;
  std::int64_t started_ns = 0;
  std::int64_t next_start_ns = 0;
  std::optional<std::int64_t> drain_ns = {};   // streams are waited for, until then
  std::optional<std::int64_t> kill_ns = {};    // told to terminate; killed at this time
  bool adopted = false;                        // whether it runs as it would now is not yet known
  std::optional<std::int64_t> probe = {};      // under way: a process, or a number of HttpProbes
  std::int64_t probe_ns = 0;                   // then: when it has failed; else: of the next one
  int misses = 0;                              // probes in a row
  bool proven = false;                         // one has succeeded
  bool answered = false;                       // it was ready, or nobody saw it start
  std::optional<std::int64_t> silent_ns = {};  // since when the gateway says so
  bool hung = false;                           // being replaced
  // Of the process before this one, where it failed quickly.
  std::optional<Pid> failed_pid = {};
  std::int64_t failed_ns = 0;
  int failures_before = 0;
  bool living() const { return record.pid != 0; }
};

// WorkerPulse: whether workers answer, by probes and by what the gateway says of them; who does not
// is to be replaced. It knows one worker at a time, and starts and ends none.
class WorkerPulse {
 public:
  // The door must outlive it.
  WorkerPulse(Processes& processes, const SupervisorOptions& options)
      : processes_(processes),
        probe_(options.probe),
        policy_(options.policy),
        hooks_(options.hooks) {}

  // A probe that is due begins, one that takes too long has failed; `keeps`: the worker stays.
  void look(SupervisedWorker& worker, bool keeps, std::int64_t now_ns);
  void drop(SupervisedWorker& worker);
  void probed(SupervisedWorker& worker, bool well, std::int64_t now_ns);
  void hear(SupervisedWorker& worker, const GatewayState& gateway, std::int64_t now_ns);
  // Whether the gateway says that it has requests, or may still get some.
  bool streams(const SupervisedWorker& worker) const;
  // Of HTTP; else they are processes.
  HttpProbes* http() const { return probe_ ? probe_->http : nullptr; }

 private:
  void begin(SupervisedWorker& worker, std::int64_t now_ns);
  void hear_beat(SupervisedWorker& worker, const GatewayState& gateway, std::int64_t now_ns);
  void forgive(SupervisedWorker& worker, const GatewayState& gateway);
  static void is_ready(SupervisedWorker& worker, std::int64_t now_ns);
  void replace(SupervisedWorker& worker, const std::string& why);
  void say(const std::string& line) const;

  Processes& processes_;
  std::optional<WorkerProbe> probe_;
  WorkerPolicy policy_;
  WorkerHooks hooks_;
};

class Supervisor {
 public:
  // Both doors must outlive it.
  Supervisor(Processes& processes, Files& files, SupervisorOptions options);

  // Must come first: takes the lock (in_use: another supervisor has it), reads the state file and
  // adopts what still runs, and says in the state file who follows from now on. A damaged state
  // file is set aside and its copy read; refused only when it cannot be moved, with nothing
  // touched. The assignment must be read after it.
  Result<void> recover(std::int64_t now_ns);
  // What is to run from now on. Before the first call nothing is started; what recover() adopted
  // goes on.
  void follow(const Assignment& assignment);
  // Everything is to be stopped.
  void stop_all() { stopping_ = true; }
  // Does what is due; when to call again.
  std::int64_t step(std::int64_t now_ns);

  // Exactly what is assigned runs, as far as anybody knows.
  bool settled() const;
  // stop_all() is done.
  bool stopped() const { return stopping_ && groups_.empty(); }
  // Some worker or segment failed give_up_after times in a row.
  bool troubled() const;
  WorkersState state() const;

 private:
  using Worker = SupervisedWorker;
  // The workers on one device.
  struct Group {
    AssignedSegment segment;
    std::vector<Worker> workers = {};  // by index
    std::vector<Worker> strays = {};   // ours by their environment, but in nobody's place
    bool prepared = false;
    bool stale = false;  // to be stopped, whatever is assigned
    std::vector<Environment> environments = {};
    int failures = 0;  // of prepare, in a row
    std::int64_t next_try_ns = 0;
    bool living() const;
  };

  void adopt_recorded(const WorkersState& state, std::int64_t now_ns);
  void adopt_strays(std::int64_t now_ns);
  bool keeps(const Group& group) const;
  void reap(std::int64_t now_ns);
  void ended(Group& group, Worker& worker, std::int64_t now_ns, int status);
  void end_family(const Group& group, int index);
  void watch(std::int64_t now_ns);
  void probe_ended(std::int64_t probe, bool well, std::int64_t now_ns);
  void stop(Worker& worker, std::int64_t now_ns);
  void stop_rest(std::int64_t now_ns);
  void add_missing();
  bool shares_a_gpu(const Group& group) const;
  void run(Group& group, std::int64_t now_ns);
  bool prepare(Group& group, std::int64_t now_ns);
  void start(Group& group, Worker& worker, std::int64_t now_ns);
  void failed_quickly(Worker& worker, std::int64_t now_ns);
  std::int64_t wait_after(int failures) const;
  int free_port() const;
  std::int64_t next_time(std::int64_t now_ns) const;
  void say(const std::string& line) const;

  Processes& processes_;
  Files& files_;
  SupervisorOptions options_;
  WorkersFile file_;
  WorkerPulse pulse_;
  FileLock lock_;
  bool followed_ = false;
  long revision_ = 0;
  std::map<std::string, Seconds> drains_;          // by service, also of those that were
  std::map<std::string, AssignedSegment> wanted_;  // by device
  std::map<std::string, Group> groups_;            // by device
  bool stopping_ = false;
  bool prepare_failed_ = false;  // in this step
};

}  // namespace partita::actuate
