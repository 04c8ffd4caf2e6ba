// Queue: the brain of tasks that wait for GPUs. Single-threaded and without doors: step(now,
// events) -> outputs; whoever runs it (host/) makes `keep` durable first, then performs the actions
// and reports what comes of them. Which task goes where is the planner's (planners/batch/live.h);
// here is who may run at all, in what weight, and what becomes of tasks that end.
//
// A task comes in by admit(), which only checks, and is the queue's once the host has it on disk
// and says Arrived: so nothing is ever answered that a crash could lose. An attempt is on disk as
// `starting` before its process is started; whether one was, the machine says after a crash.
// Times are nanoseconds since 1970. Limits: those of task.h.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "planners/batch/live.h"
#include "queue/atlas.h"
#include "queue/hours.h"
#include "queue/shares.h"
#include "queue/task.h"
#include "queue/times.h"
#include "queue/turns.h"

namespace partita::queue {

using planners::batch::LiveOp;

struct Quota {
  int running = 1'000'000;  // instances of their tasks at once
  bool operator==(const Quota&) const = default;
};

struct Config {
  std::vector<hw::GpuModel> models;
  std::vector<int> gpus;     // per GPU its model
  std::vector<int> indices;  // per GPU its index on the node
  plan::Reconfigurer reconfigurer = {};
  int cpus = 0;                              // of the node; 0: not counted
  double ram_gib = 0;                        // the same
  std::map<std::string, Quota> quotas = {};  // "": of everybody else
  // Tasks of a user that have not ended; "": of everybody else; kMostOfUser where nothing is said.
  std::map<std::string, int> most_tasks = {};
  std::map<std::string, double> shares = {};
  Nanos grace = 10'000'000'000;        // from asking a process to end to killing it
  Nanos checkpoint_limit = 600'000'000'000;  // then its command is killed, and the task ended
  Nanos idle_return = 60'000'000'000;  // an instance that nobody waits for goes after that
  Nanos patience = 60'000'000'000;     // what waits longer than so may end what is preemptible
  planners::batch::LiveOptions planning = {};
  plan::Tariff tariff = {};  // for tasks that may wait for cheap hours
};
const Quota* quota_of(const Config& config, const std::string& user);  // null: none
int most_tasks_of(const Config& config, const std::string& user);

// ---- events

struct Arrived {
  std::vector<Task> tasks;  // as admit() made them
};
struct Asked {
  enum class What { cancel, hold, release } what = What::cancel;
  long task = 0;
};
struct Began {
  long task = 0;
  Pid pid = 0;
  std::string identity, boot;
};
struct NotBegun {  // and never will
  long task = 0;
  std::string reason;
  bool by_its_fault = true;  // counts as a failure
};
struct Ended {
  long task = 0;
  std::optional<int> status;  // nothing: nobody knows
  long at_ms = 0;             // when, where it was while the queue was away; 0: now
};
struct Saved {  // its checkpoint command ended
  long task = 0;
};
struct Changed {
  planners::batch::LiveChange change;
  std::string device;               // UUID, of what was created
  std::optional<Error> error = {};  // it is as it was before
};
// A node that others have, or have no longer.
struct Closed {
  int node = 0;
  bool closed = true;
};
// Its instance is not there any more, and nobody here destroyed it: with its GPU, most likely.
struct Gone {
  int node = 0;
};
using Event = std::variant<Arrived, Asked, Began, NotBegun, Ended, Saved, Changed, Closed, Gone>;

// ---- outputs

struct Create {
  int node = 0;
};
struct Destroy {
  int node = 0;
};
struct StartTask {
  Task task;
};
struct StopTask {
  long task = 0;
  Pid pid = 0;
  StopSignal signal = StopSignal::terminate;
};
struct SaveTask {  // run its checkpoint command
  Task task;
};
struct StopSave {  // kill it
  long task = 0;
};
using Action = std::variant<Create, Destroy, StartTask, StopTask, SaveTask, StopSave>;

struct Keep {
  std::vector<Task> tasks;
  std::vector<Run> runs;
  std::map<TimeKey, TimeStats> times;
  std::map<std::string, Usage> usage;
  bool empty() const { return tasks.empty() && runs.empty() && times.empty() && usage.empty(); }
};

struct Outputs {
  Keep keep;                    // durable before anything of it is performed
  std::vector<Action> actions;  // in this order
  std::optional<Nanos> wake;    // when to step again, though nothing happened
  void wake_at(Nanos time) {
    if (!wake || time < *wake) wake = time;
  }
};

// What a store has, and the machine as it was found.
struct Loaded {
  std::vector<Task> tasks;   // that have not ended
  std::vector<Task> recent;  // the last that have, by id
  long last_id = 0;
  std::map<TimeKey, TimeStats> times;
  std::map<std::string, Usage> usage;
};
struct FoundInstance {
  int node = 0;
  std::string device;
};

class Queue {
 public:
  // Tasks that were starting or running have to be told of by Began, NotBegun or Ended before
  // their instances are used again.
  static Result<Queue> create(const Config& config, const Loaded& loaded,
                              const std::vector<FoundInstance>& found, Nanos now);

  // The tasks that a submission means. `ended`: how those that it comes after ended, where they
  // have; where it cannot come they are skipped at once. bad_input whose context is the key;
  // limit: quotas.
  Result<std::vector<Task>> admit(const Spec& spec, Nanos now,
                                  const std::map<long, State>& ended = {}) const;
  Outputs step(Nanos now, const std::vector<Event>& events);

  const std::map<long, Task>& tasks() const { return tasks_; }  // that have not ended
  const planners::batch::LivePlanner& planner() const { return planner_; }
  const Hours& hours() const { return hours_; }  // as of the last step
  const std::map<int, std::string>& devices() const { return devices_; }  // per node with one

 private:
  Queue(Config config, planners::batch::LivePlanner planner)
      : config_(std::move(config)), planner_(std::move(planner)) {}

  void handle(const Arrived& event);
  void handle(const Asked& event);
  void handle(const Began& event);
  void handle(const NotBegun& event);
  void handle(const Ended& event);
  void handle(const Saved& event);
  void handle(const Changed& event);
  void handle(const Closed& event);
  void handle(const Gone& event);

  void restore(const Loaded& loaded, const std::vector<FoundInstance>& found);
  void end_attempt(Task& task, const std::string& outcome, int status, bool counts);
  void settle(Task& task, State state, const std::string& reason);
  void look_at_followers(long task);
  void ask_to_end(Task& task, const std::string& outcome);

  void offer();  // brings what the planner knows in line with what may run
  planners::batch::LiveTask live(const Task& task) const;
  void decide();
  bool choose_hours();  // whether tasks were let go that waited for theirs
  void start(long id, const std::vector<int>& nodes);
  void watch_limits();
  void preempt();
  void return_idle();

  // What else is known of an attempt under way.
  struct Under {
    std::optional<Nanos> stopped;  // when it was asked to end
    bool killed = false;
    std::optional<Nanos> saving;  // since when its checkpoint runs
    bool unknown = false;  // of an earlier process: nobody has said yet what became of it
  };

  Config config_;
  planners::batch::LivePlanner planner_;
  std::map<long, Task> tasks_;                   // not over
  std::map<long, Under> under_;                  // starting and running
  std::map<long, std::vector<long>> followers_;  // task -> those after it, not over
  std::map<std::string, int> open_, running_;    // per user tasks, and instances of them
  std::vector<Spot> spots_;                      // per node
  std::map<int, std::string> devices_;           // per node with an instance
  std::map<int, Nanos> idle_since_;
  std::map<int, int> closed_;  // per GPU how many of its nodes others have
  Hours hours_;                // which of what waits is not planned yet
  Turns turns_;  // of what is not over; what is neither under way nor held waits
  Times times_;
  Shares shares_;
  long last_id_ = 0;
  Nanos now_ = 0, weighed_ = 0;
  std::set<long> changed_;
  Outputs out_;
};

// Of a node's instance, where it has one.
Place place_of(const std::vector<Spot>& spots, const std::map<int, std::string>& devices, int node);
// Why this cannot be asked of the task; nothing: it can.
Result<void> can(const Task& task, const Asked& asked);
// Why a waiting task is not planned; empty: it is.
std::string why_waiting(const Queue& queue, const Task& task, Nanos now);

}  // namespace partita::queue
