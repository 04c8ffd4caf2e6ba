#include "act/batch/run_report.h"

#include <algorithm>

#include "base/form.h"

namespace partita::exec {
namespace {

double seconds(Nanos time) { return static_cast<double>(time) / kSecond; }

// What a report tells, with the script that it is about.
struct ReportForm {
  const Script& script;
  const RunReport& report;
  const RunNames& names;

  void place(Form& f, int at) const {
    const Visit& visit = script.visits[static_cast<std::size_t>(at)];
    f.told("profile", visit.place.profile);
    f.told("start", visit.place.start);
  }

  int device(int at) const {
    const Visit& visit = script.visits[static_cast<std::size_t>(at)];
    return script.gpus[static_cast<std::size_t>(visit.gpu)].device;
  }

  static void planned(Form& f, const Planned& planned) {
    f.told("planned_begin_s", seconds(planned.begin));
    f.told("planned_end_s", seconds(planned.end));
  }

  void task(Form& f, std::size_t index) const {
    const ScriptTask& task = script.tasks[index];
    const TaskRun& run = report.tasks[index];
    f.told("task", task.name);
    f.told("status", to_string(run.status));
    f.told("attempts", run.attempts);
    f.told("gpu", device(task.visit));
    place(f, task.visit);
    planned(f, task.planned);
    f.optional(ran(run.status)).told("begin_s", seconds(run.begin));
    f.optional(ran(run.status)).told("end_s", seconds(run.end));
    f.optional(run.status == TaskStatus::finished)
        .told("deviation_percent", deviation_percent(task.planned.end, run.end));
    f.optional(!run.reason.empty()).told("reason", run.reason);
  }

  void step(Form& f, const Change& change, const ChangeRun& run) const {
    f.told("gpu", device(change.visit));
    f.told("op", change.create ? "create" : "destroy");
    place(f, change.visit);
    f.told("status", to_string(run.status));
    f.told("tries", run.tries);
    if (change.planned) planned(f, *change.planned);
    const bool done = run.status == ChangeStatus::done;
    f.optional(done).told("begin_s", seconds(run.begin));
    f.optional(done).told("end_s", seconds(run.end));
    if (done && change.planned)
      f.told("deviation_percent", deviation_percent(change.planned->end, run.end));
    f.optional(!run.reason.empty()).told("reason", run.reason);
  }

  void operator()(Form& f) const {
    const ListForm rows{.indent = "  "};
    f.lines(" ");
    f.document("BatchRun");
    f.told("driver", names.driver);
    f.told("scheduler", names.scheduler);
    f.told("run", names.run);
    f.told("simulated_clock", names.simulated_clock);
    f.told("planned_makespan_s", seconds(script.planned_makespan));
    f.told("makespan_s", seconds(report.makespan()));
    f.optional(report.all_finished())
        .told("deviation_percent",
              deviation_percent(script.planned_makespan, report.makespan()));
    f.told("interrupted", report.interrupted);
    f.told("finished_earlier", report.resumed);
    f.rows("tasks", script.tasks.size(), [&](Form& row, std::size_t i) { task(row, i); }, rows);
    std::vector<std::pair<const Change*, const ChangeRun*>> changes;
    for (std::size_t g = 0; g < script.gpus.size(); ++g)
      for (std::size_t r = 0; r < script.gpus[g].changes.size(); ++r)
        changes.emplace_back(&script.gpus[g].changes[r], &report.changes[g][r]);
    const auto step_at = [&](Form& row, std::size_t i) {
      step(row, *changes[i].first, *changes[i].second);
    };
    f.rows("reconfigurations", changes.size(), step_at, rows);
    f.told_list("refusals", report.refusals, rows);
    f.told_list("left", report.left, rows);
  }
};

}  // namespace

bool ran(TaskStatus status) {
  return status == TaskStatus::finished || status == TaskStatus::failed ||
         status == TaskStatus::timed_out;
}

Nanos RunReport::makespan() const {
  Nanos last = 0;
  for (const TaskRun& task : tasks)
    if (ran(task.status)) last = std::max(last, task.end);
  return last;
}

int RunReport::count(TaskStatus status) const {
  return static_cast<int>(std::ranges::count(tasks, status, &TaskRun::status));
}

bool RunReport::all_finished() const {
  return count(TaskStatus::finished) == static_cast<int>(tasks.size());
}

double deviation_percent(Nanos planned, Nanos real) {
  if (planned == 0) return 0;
  return static_cast<double>(real - planned) / static_cast<double>(planned) * 100;
}

std::string report_json(const Script& script, const RunReport& report, const RunNames& names) {
  return write_form(ReportForm{script, report, names});
}

}  // namespace partita::exec
