#include "queue/task_forms.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/form_rules.h"
#include "base/unicode.h"

namespace partita::queue {
namespace {

constexpr double kMostSeconds = 1e9;
constexpr Range kTimeS{.low = 0, .high = kMostSeconds, .above = true};

void describe(Form& f, Dependency& one) {
  f.whole("task", one.task, {.low = 1, .high = 9e15}, "its id");
  f.optional().word("until", one.kind, {"ok", "any", "not_ok"},
                    "it ended with status 0; it ended; it ended with another one");
}

void describe(Form& f, KnownTime& time) {
  f.integer("gpcs", time.gpcs, {.low = 0, .high = 16}, "compute slices; 0: whatever it has");
  f.number("time_s", time.time_s, kTimeS, "how long it takes there");
}

void describe_what(Form& f, Spec& spec) {
  f.optional(!spec.name.empty()).note("name", spec.name, "its times are learned under it");
  f.text("command", spec.command, "for /bin/sh");
  f.optional(!spec.user.empty()).note("user", spec.user, "whose it is; the caller's where missing");
  f.optional(!spec.directory.empty()).note("directory", spec.directory, "where it runs");
  f.optional(spec.count != 1)
      .integer("count", spec.count, {.low = 1, .high = kMaxArray}, "an array of so many tasks");
  f.optional(!spec.after.empty())
      .list(
          "after", spec.after, [](Form& g, Dependency& d) { describe(g, d); }, {},
          "what it waits for");
  f.optional(spec.priority != 0)
      .integer("priority", spec.priority, {.low = -kMaxPriority, .high = kMaxPriority},
               "each step counts twice as much");
  f.optional(spec.deadline_s.has_value())
      .number("deadline_s", spec.deadline_s, kTimeS, "from its submission");
  f.optional(spec.time_limit_s.has_value())
      .number("time_limit_s", spec.time_limit_s, kTimeS, "of one attempt");
  f.optional(spec.retries != 0)
      .integer("retries", spec.retries, {.low = 0, .high = kMaxRetries}, "after a failure");
}

void describe_needs(Form& f, Spec& spec) {
  f.optional(spec.memory_gib.has_value())
      .number("memory_gib", spec.memory_gib, {.low = 0, .high = 1e6}, "of the GPU");
  f.optional(!spec.profiles.empty())
      .notes("profiles", spec.profiles, {}, "that it may run on: \"3g.40gb\", \"3g\"");
  f.optional(!spec.times.empty())
      .list(
          "times", spec.times, [](Form& g, KnownTime& t) { describe(g, t); }, {.most = 32},
          "how long it takes, as far as is known");
  f.optional(spec.time_cv != Spec{}.time_cv)
      .number("time_cv", spec.time_cv, {.low = 0, .high = 10}, "spread of these times");
  f.optional(spec.gpus != 1)
      .integer("gpus", spec.gpus, {.low = 1, .high = kMaxGpus},
               "instances of one profile at once; of none named, whole GPUs");
  f.optional(spec.cpus != 0).integer("cpus", spec.cpus, {.low = 0, .high = 1e6}, "of the node");
  f.optional(spec.ram_gib != 0)
      .number("ram_gib", spec.ram_gib, {.low = 0, .high = 1e6}, "of the node");
  f.optional(spec.preemptible)
      .boolean("preemptible", spec.preemptible, "may be ended and begun again");
  f.optional(!spec.checkpoint.empty())
      .note("checkpoint", spec.checkpoint, "command that is run before that");
  f.optional(spec.held).boolean("held", spec.held, "waits until it is released");
  f.optional(spec.flexible)
      .boolean("flexible", spec.flexible, "may wait for cheap hours until its deadline");
}

void describe(Form& f, Spec& spec) {
  f.document("QueueSubmission");
  describe_what(f, spec);
  describe_needs(f, spec);
  f.closed();
}

void describe(Form& f, Place& place) {
  f.integer("gpu", place.gpu, {.low = 0, .high = 1e6}, "index on the node");
  f.text("profile", place.profile, "its shape");
  f.integer("start", place.start, {.low = 0, .high = 64}, "memory slice");
  f.note("device", place.device, "UUID of the MIG device");
}

constexpr Range kIds{.low = 0, .high = 9e15};
constexpr Range kStatus{.low = -1, .high = 1e6};

void describe_task(Form& f, Task& task) {
  f.whole("task", task.id, kIds, "its id");
  f.word("state", task.state,
         {"waiting", "held", "starting", "running", "done", "failed", "cancelled", "skipped"},
         "what became of it");
  f.optional(task.array != 0).whole("array", task.array, kIds, "the first task of its array");
  f.optional(task.array != 0).integer("index", task.index, {.low = 0, .high = kMaxArray}, "in it");
  f.object(
      "spec", task.spec,
      [](Form& g, Spec& spec) { describe_what(g, spec), describe_needs(g, spec); },
      "as it was submitted");
  f.whole("submitted_ms", task.submitted_ms, kIds, "since 1970");
  f.integer("attempts", task.attempts, {.low = 0, .high = 1e9}, "begun so far");
  f.integer("failures", task.failures, {.low = 0, .high = 1e9}, "of them");
  f.whole("began_ms", task.began_ms, kIds, "the last attempt");
  f.whole("ended_ms", task.ended_ms, kIds, "the same");
  f.integer("status", task.status, kStatus, "exit status; -1: nobody knows");
  f.optional(!task.reason.empty()).note("reason", task.reason, "why it is not done");
  f.optional(!task.places.empty())
      .list(
          "places", task.places, [](Form& g, Place& p) { describe(g, p); }, {}, "where it runs");
  f.optional(!task.ending.empty()).note("ending", task.ending, "why its attempt was asked to end");
  f.optional(task.pid != 0).whole("pid", task.pid, kIds, "its process");
  f.optional(!task.identity.empty()).note("identity", task.identity, "of that process");
  f.optional(!task.boot.empty()).note("boot", task.boot, "of the machine");
}

void describe(Form& f, Run& run) {
  f.whole("task", run.task, kIds, "its id");
  f.integer("attempt", run.attempt, {.low = 0, .high = 1e9}, "from 1");
  f.whole("began_ms", run.began_ms, kIds, "since 1970");
  f.whole("ended_ms", run.ended_ms, kIds, "the same");
  f.integer("status", run.status, kStatus, "exit status; -1: nobody knows");
  f.text("outcome", run.outcome, "done, failed, timed out, preempted, cancelled, lost");
  f.list(
      "places", run.places, [](Form& g, Place& p) { describe(g, p); }, {}, "where it ran");
  f.optional(run.energy_j.has_value())
      .number("energy_j", run.energy_j, {.low = 0, .high = 1e15},
              "joules of its instances; missing where nobody measured all the while");
  f.optional(run.host_energy_j.has_value())
      .number("host_energy_j", run.host_energy_j, {.low = 0, .high = 1e15},
              "joules of CPUs and memory, its part by CPU time; missing where nobody tells them");
  f.optional(run.host_idle_j.has_value())
      .number("host_idle_j", run.host_idle_j, {.low = 0, .high = 1e15}, "of these: idle power");
  const auto money = [&f](const char* key, std::optional<double>& value, const char* about) {
    f.optional(value.has_value()).number(key, value, kAnyNumber, about);
  };
  money("cost", run.cost, "money for all these joules, by the prices of its hours");
  money("co2_g", run.co2_g, "grams of CO2 for them");
  money("saved_cost", run.saved_cost, "against the hours from its submission on");
  money("saved_co2_g", run.saved_co2_g, "the same");
}

void describe(Form& f, Deadline& deadline) {
  f.word("promise", deadline.promise, {"met", "missed", "likely met", "likely missed", "unknown"},
         "what became of it, or is expected");
  f.optional(deadline.late_s.has_value())
      .number("late_s", deadline.late_s, kAnyNumber,
              "seconds from the deadline to its end, or the expected one; missing where none is");
}

void describe(Form& f, Shown& shown) {
  describe_task(f, shown.task);
  f.optional(shown.begins_in_s.has_value())
      .number("begins_in_s", shown.begins_in_s, kAnyNumber, "as planned now");
  f.optional(shown.ends_in_s.has_value()).number("ends_in_s", shown.ends_in_s, kAnyNumber, "so");
  f.object(
      "deadline", shown.deadline, [](Form& g, Deadline& d) { describe(g, d); }, "its promise");
  f.optional(!shown.why.empty()).note("why", shown.why, "why it is not planned");
}

void describe(Form& f, TasksDocument& tasks) {
  f.document("QueueTasks");
  f.list(
      "tasks", tasks.tasks, [](Form& g, Shown& s) { describe(g, s); }, {.indent = "  "}, "by id");
}

std::string place_text(const Task& task) {
  if (task.places.empty()) return "";
  const Place& place = task.places.front();
  const std::string more =
      task.places.size() > 1 ? fmt::format(", {} more", task.places.size() - 1) : "";
  return fmt::format("{}@{} on GPU {}{}", place.profile, place.start, place.gpu, more);
}

std::string seconds_text(double time_s) { return fmt::format("{:.1f} s", time_s); }

// "missed by 4.1 s"; in a table nothing of what is as it should be.
std::string promise_text(const Deadline& deadline) {
  const double late_s = deadline.late_s.value_or(0);
  switch (deadline.promise) {
    case Promise::met:
      return "met, " + seconds_text(-late_s) + " before it";
    case Promise::missed:
      return deadline.late_s ? "missed by " + seconds_text(late_s) : "missed";
    case Promise::likely_met:
      return "likely met, " + seconds_text(-late_s) + " before it";
    case Promise::likely_missed:
      return "likely missed by " + seconds_text(late_s);
    case Promise::unknown:
      break;
  }
  return "not known yet";
}

std::string lateness_text(const Shown& shown) {
  if (!shown.deadline) return "";
  const Promise promise = shown.deadline->promise;
  const bool late = promise == Promise::missed || promise == Promise::likely_missed;
  return late ? "deadline " + promise_text(*shown.deadline) : "";
}

// What was expected for a time that has passed is expected now.
std::string time_left(double seconds) { return seconds_text(std::max(0.0, seconds)); }

std::string when_text(const Shown& shown) {
  const Task& task = shown.task;
  if (task.state == State::waiting && shown.begins_in_s)
    return "in " + time_left(*shown.begins_in_s);
  if (!is_over(task.state) && shown.ends_in_s) return "ends in " + time_left(*shown.ends_in_s);
  if (is_over(task.state) && task.attempts > 0)
    return seconds_text(static_cast<double>(task.ended_ms - task.began_ms) / 1e3);
  return "";
}

}  // namespace

std::optional<Deadline> deadline_of(const Task& task, std::optional<double> ends_in_s,
                                    double now_s) {
  if (!task.spec.deadline_s) return std::nullopt;
  const double due_s = static_cast<double>(task.submitted_ms) / 1e3 + *task.spec.deadline_s;
  if (task.state == State::done) {
    const double late_s = static_cast<double>(task.ended_ms) / 1e3 - due_s;
    return Deadline{late_s > 0 ? Promise::missed : Promise::met, late_s};
  }
  if (is_over(task.state)) return Deadline{Promise::missed};
  if (now_s > due_s) return Deadline{Promise::missed, now_s - due_s + ends_in_s.value_or(0)};
  if (!ends_in_s) return Deadline{};
  const double late_s = now_s + *ends_in_s - due_s;
  return Deadline{late_s > 0 ? Promise::likely_missed : Promise::likely_met, late_s};
}

std::string submission_json(const Spec& spec) {
  return write_form(spec, [](Form& f, Spec& s) { describe(f, s); });
}
Result<Spec> parse_submission(const std::string& file, std::string_view text) {
  return read_form<Spec>(file, text, [](Form& f, Spec& s) { describe(f, s); });
}

std::string task_line(const Task& task) { return line_form(task, describe_task); }
Result<Task> parse_task(const std::string& file, std::string_view text) {
  return read_form<Task>(file, text, describe_task);
}
std::string run_line(const Run& run) {
  std::string text = write_form(run, [](Form& f, Run& r) { describe(f, r); });
  text.pop_back();
  return text;
}
Result<Run> parse_run(const std::string& file, std::string_view text) {
  return read_form<Run>(file, text, [](Form& f, Run& r) { describe(f, r); });
}

namespace {

struct Told {
  Shown shown;
  std::vector<Run> runs;
};
void describe(Form& f, Told& told) {
  f.document("QueueTask");
  describe(f, told.shown);
  f.list(
      "runs", told.runs, [](Form& g, Run& run) { describe(g, run); }, {.indent = "  "},
      "its attempts that ended");
}

}  // namespace

std::string task_json(const Shown& shown, const std::vector<Run>& runs) {
  return write_form(Told{shown, runs}, [](Form& f, Told& t) { describe(f, t); });
}

Result<Shown> parse_shown(const std::string& file, std::string_view text) {
  return read_form<Shown>(file, text, [](Form& f, Shown& s) {
    f.document("QueueTask");
    describe(f, s);
  });
}

std::string tasks_json(const TasksDocument& tasks) {
  return write_form(tasks, [](Form& f, TasksDocument& t) { describe(f, t); });
}
Result<TasksDocument> parse_tasks(const std::string& file, std::string_view text) {
  return read_form<TasksDocument>(file, text, [](Form& f, TasksDocument& t) { describe(f, t); });
}

std::string task_text(const Shown& shown) {
  const Task& task = shown.task;
  std::string text = fmt::format("task {}: {}\n  command   {}\n  user      {}\n", task.id,
                                 to_string(task.state), task.spec.command, task.spec.user);
  if (!task.reason.empty()) text += "  because   " + task.reason + "\n";
  if (!shown.why.empty()) text += "  waits     " + shown.why + "\n";
  if (!task.places.empty()) text += "  place     " + place_text(task) + "\n";
  if (task.attempts > 0) text += fmt::format("  attempts  {}\n", task.attempts);
  if (is_over(task.state) && task.attempts > 0)
    text += fmt::format("  status    {}\n  took      {}\n", task.status, when_text(shown));
  if (shown.ends_in_s)
    text += "  expected  " +
            (shown.begins_in_s ? "begins in " + time_left(*shown.begins_in_s) + ", " : "") +
            "ends in " + time_left(*shown.ends_in_s) + "\n";
  if (shown.deadline) text += "  deadline  " + promise_text(*shown.deadline) + "\n";
  return text;
}

std::string tasks_text(const TasksDocument& tasks) {
  if (tasks.tasks.empty()) return "no tasks\n";
  return fmt::format("{:>7}  {:<10} {:<10} {:<24} {:<20} {:<12} {}\n", "task", "state", "user",
                     "name", "place", "time", "why") +
         tasks_lines(tasks);
}

std::string tasks_lines(const TasksDocument& tasks) {
  std::string text;
  for (const Shown& shown : tasks.tasks) {
    const Task& task = shown.task;
    const std::string& name = task.spec.name.empty() ? task.spec.command : task.spec.name;
    const std::string& why = shown.why.empty() ? task.reason : shown.why;
    const std::string late = lateness_text(shown);
    const std::string line =
        fmt::format("{:>7}  {:<10} {} {} {:<20} {:<12} {}", task.id, to_string(task.state),
                    fit(task.spec.user, 10), fit(name, 24), place_text(task), when_text(shown),
                    fmt::format("{}{}{}", why, why.empty() || late.empty() ? "" : "; ", late));
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

DocumentKind submission_kind() {
  return document_kind<Spec, describe, "QueueSubmission", "A task that somebody wants run">();
}
DocumentKind task_kind() {
  return document_kind<Told, describe, "QueueTask", "A task of a queue, and its attempts">();
}
DocumentKind tasks_kind() {
  return document_kind<TasksDocument, describe, "QueueTasks", "Tasks of a queue">();
}

}  // namespace partita::queue
