#include "act/batch/run.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "act/batch/driver_thread.h"

namespace partita::exec {
namespace {

// Ends of processes are looked for so often.
constexpr Nanos kPoll = 1'000'000;

// What both runners do with the actions of a step.
class Stage {
 public:
  Stage(const Script& script, const Doors& doors, const RunSettings& settings)
      : script_(script), doors_(doors), settings_(settings), attempts_(settings.adopted) {}

  // What the user, our own actions and the processes caused since the last call.
  std::vector<Event> events() {
    std::vector<Event> events;
    const bool asked = settings_.interrupted && settings_.interrupted();
    if ((asked || end_.journal) && !std::exchange(interrupted_, true))
      events.emplace_back(Interrupted{});
    if (settings_.withdrawn)
      for (const Withdrawn& one : settings_.withdrawn()) events.emplace_back(one);
    for (Event& event : std::exchange(next_, {})) events.push_back(std::move(event));
    for (const ProcessExit& exit : doors_.processes.exited())
      events.emplace_back(Exited{exit.pid, status_of(exit)});
    return events;
  }

  // Performs all but the operation, which it returns; what comes of the others are later events.
  // What cannot be announced in the journal is not done.
  std::optional<Operation> perform(const Actions& actions) {
    write(actions.journal);
    std::optional<Operation> operation;
    for (const Action& action : actions.actions) {
      if (const auto* begin = std::get_if<BeginOperation>(&action)) {
        if (end_.journal && begin->operation.kind == Operation::Kind::create)
          next_.emplace_back(OperationDone{{.error = end_.journal}});
        else
          operation = begin->operation;
      } else if (const auto* start = std::get_if<StartTask>(&action)) {
        next_.emplace_back(started(*start));
      } else if (const auto* stop = std::get_if<StopTask>(&action)) {
        // One that cannot be stopped is seen by its not ending.
        static_cast<void>(doors_.processes.stop(stop->pid, stop->signal));
      }
    }
    return operation;
  }

  bool has_next() const { return !next_.empty(); }
  RunEnd end() const { return end_; }

 private:
  Started started(const StartTask& start) {
    const Nanos now = doors_.clock.now_ns() - settings_.origin;
    if (end_.journal) return {start.task, failed(*end_.journal), now};
    const Result<Pid> pid = doors_.processes.start(process_of(script_, start, settings_.paths));
    if (pid) attempts_[*pid] = start;
    return {start.task, pid, now};
  }

  // Only the parent of a process is told how it ended; others find it written down.
  int status_of(const ProcessExit& exit) {
    const auto attempt = attempts_.extract(exit.pid);
    if (exit.status != kUnknownStatus || attempt.empty()) return exit.status;
    return written_status(script_, attempt.mapped(), settings_.paths, doors_.files)
        .value_or(kUnknownStatus);
  }

  void write(const std::vector<Record>& records) {
    std::vector<std::string> texts;
    for (const Record& record : records) texts.push_back(record_text(record));
    for (const std::string& text : texts) end_.log_hash = end_.log_hash * 31 + text_hash(text);
    if (settings_.journal == nullptr || end_.journal) return;
    if (const auto done = settings_.journal->append(texts); !done) end_.journal = done.error();
  }

  const Script& script_;
  Doors doors_;
  const RunSettings& settings_;
  std::map<Pid, StartTask> attempts_;  // those that run
  std::vector<Event> next_;
  RunEnd end_;
  bool interrupted_ = false;
};

}  // namespace

RunEnd run_real(BatchExecutor& executor, const Script& script, const Doors& doors,
                const RunSettings& settings) {
  Stage stage(script, doors, settings);
  DriverThread driver(doors.driver);
  std::optional<Nanos> wake = 0;
  while (!executor.finished() && !(settings.left_alone && settings.left_alone())) {
    std::vector<Event> events = stage.events();
    if (auto outcome = driver.answer()) events.emplace_back(OperationDone{*std::move(outcome)});
    const Nanos now = doors.clock.now_ns() - settings.origin;
    if (settings.watch) settings.watch(now, executor.report());
    if (events.empty() && (!wake || now < *wake)) {
      driver.wait(std::chrono::nanoseconds(wake ? std::min(*wake - now, kPoll) : kPoll));
      continue;
    }
    if (auto operation = stage.perform(executor.step(now, events)))
      driver.begin(*std::move(operation));
    wake = executor.next_wake();
  }
  return stage.end();
}

class SteppedRun::Work {
 public:
  Work(BatchExecutor& executor, const Script& script, const Doors& doors,
       const RunSettings& settings)
      : executor_(executor), doors_(doors), settings_(settings), stage_(script, doors, settings) {}

  std::optional<std::int64_t> step() {
    while (!executor_.finished()) {
      std::vector<Event> events = stage_.events();
      if (outcome_) events.emplace_back(OperationDone{*std::exchange(outcome_, std::nullopt)});
      const Nanos now = doors_.clock.now_ns() - settings_.origin;
      const auto operation = stage_.perform(executor_.step(now, events));
      if (operation) outcome_ = exec::perform(doors_.driver, *operation);
      if (!operation && !stage_.has_next()) break;
    }
    const auto wake = executor_.finished() ? std::nullopt : executor_.next_wake();
    if (!wake) return {};
    return *wake + settings_.origin;
  }
  RunEnd end() const { return stage_.end(); }

 private:
  BatchExecutor& executor_;
  Doors doors_;
  const RunSettings& settings_;
  Stage stage_;
  std::optional<Outcome> outcome_;
};

SteppedRun::SteppedRun(BatchExecutor& executor, const Script& script, const Doors& doors,
                       const RunSettings& settings)
    : work_(std::make_unique<Work>(executor, script, doors, settings)) {}
SteppedRun::~SteppedRun() = default;
std::optional<std::int64_t> SteppedRun::step() { return work_->step(); }
RunEnd SteppedRun::end() const { return work_->end(); }

RunEnd run_simulated(BatchExecutor& executor, const Script& script, const Doors& doors,
                     const RunSettings& settings, ManualClock& clock, SimProcesses& processes,
                     const World& world) {
  Stage stage(script, doors, settings);
  std::optional<std::pair<Nanos, Outcome>> driver;  // when it answers what
  while (!executor.finished()) {
    const Nanos now = clock.now - settings.origin;
    std::optional<Nanos> next = world ? world(now) : std::nullopt;
    std::vector<Event> events = stage.events();
    if (driver && driver->first <= clock.now)
      events.emplace_back(OperationDone{std::exchange(driver, std::nullopt)->second});
    if (const auto operation = stage.perform(executor.step(now, events))) {
      const std::int64_t begin = clock.now;
      Outcome outcome = perform(doors.driver, *operation);
      driver.emplace(std::exchange(clock.now, begin), std::move(outcome));
    }
    if (settings.watch) settings.watch(now, executor.report());
    if (stage.has_next() || executor.finished()) continue;
    const auto consider = [&](std::optional<Nanos> time) {
      if (time) next = std::min(next.value_or(*time), *time);
    };
    consider(executor.next_wake());
    if (driver) consider(driver->first - settings.origin);
    if (const auto end = processes.next_end_ns()) consider(*end - settings.origin);
    CHECK(next.has_value());  // else nothing would ever happen again
    clock.now = std::max(*next + settings.origin, clock.now);
  }
  return stage.end();
}

}  // namespace partita::exec
