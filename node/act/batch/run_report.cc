#include "act/batch/run_report.h"

#include <algorithm>

#include "base/json_writer.h"

namespace partita::exec {
namespace {

double seconds(Nanos time) { return static_cast<double>(time) / kSecond; }

// The reason only where there is one.
void write_end(JsonWriter& json, const std::string& reason) {
  if (!reason.empty()) json.raw(", \"reason\": ").string(reason);
  json.raw("}");
}

void write_planned(JsonWriter& json, const Planned& planned) {
  json.raw(", \"planned_begin_s\": ").number(seconds(planned.begin));
  json.raw(", \"planned_end_s\": ").number(seconds(planned.end));
}

void write_task(JsonWriter& json, const Script& script, const ScriptTask& task,
                const TaskRun& run) {
  const Visit& visit = script.visits[static_cast<std::size_t>(task.visit)];
  const ScriptGpu& gpu = script.gpus[static_cast<std::size_t>(visit.gpu)];
  json.raw("{\"task\": ").string(task.name).raw(", \"status\": ").string(to_string(run.status));
  json.raw(", \"attempts\": ").number(static_cast<long>(run.attempts));
  json.raw(", \"gpu\": ").number(static_cast<long>(gpu.device));
  json.raw(", \"profile\": ").string(visit.profile);
  json.raw(", \"start\": ").number(static_cast<long>(visit.start));
  write_planned(json, task.planned);
  if (ran(run.status)) {
    json.raw(", \"begin_s\": ").number(seconds(run.begin));
    json.raw(", \"end_s\": ").number(seconds(run.end));
  }
  if (run.status == TaskStatus::finished) {
    json.raw(", \"deviation_percent\": ").number(deviation_percent(task.planned.end, run.end));
  }
  write_end(json, run.reason);
}

void write_change(JsonWriter& json, const Script& script, const Change& change,
                  const ChangeRun& run) {
  const Visit& visit = script.visits[static_cast<std::size_t>(change.visit)];
  const ScriptGpu& gpu = script.gpus[static_cast<std::size_t>(visit.gpu)];
  json.raw("{\"gpu\": ").number(static_cast<long>(gpu.device));
  json.raw(", \"op\": ").string(change.create ? "create" : "destroy");
  json.raw(", \"profile\": ").string(visit.profile);
  json.raw(", \"start\": ").number(static_cast<long>(visit.start));
  json.raw(", \"status\": ").string(to_string(run.status));
  json.raw(", \"tries\": ").number(static_cast<long>(run.tries));
  if (change.planned) write_planned(json, *change.planned);
  if (run.status == ChangeStatus::done) {
    json.raw(", \"begin_s\": ").number(seconds(run.begin));
    json.raw(", \"end_s\": ").number(seconds(run.end));
    if (change.planned) {
      const double deviation = deviation_percent(change.planned->end, run.end);
      json.raw(", \"deviation_percent\": ").number(deviation);
    }
  }
  write_end(json, run.reason);
}

void write_texts(JsonWriter& json, const char* key, const std::vector<std::string>& texts) {
  json.raw(",\n \"").raw(key).raw("\": ").list(texts, "  ",
                                               [&](const std::string& text) { json.string(text); });
}

}  // namespace

bool ran(TaskStatus status) {
  return status == TaskStatus::finished || status == TaskStatus::failed ||
         status == TaskStatus::timed_out;
}

const char* to_string(TaskStatus status) {
  switch (status) {
    case TaskStatus::pending:
      return "pending";
    case TaskStatus::running:
      return "running";
    case TaskStatus::finished:
      return "finished";
    case TaskStatus::failed:
      return "failed";
    case TaskStatus::timed_out:
      return "timed_out";
    case TaskStatus::skipped:
      return "skipped";
    case TaskStatus::not_run:
      return "not_run";
  }
  return "";
}

const char* to_string(ChangeStatus status) {
  switch (status) {
    case ChangeStatus::pending:
      return "pending";
    case ChangeStatus::running:
      return "running";
    case ChangeStatus::done:
      return "done";
    case ChangeStatus::skipped:
      return "skipped";
    case ChangeStatus::kept:
      return "kept";
    case ChangeStatus::failed:
      return "failed";
  }
  return "";
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
  JsonWriter json;
  json.raw("{\n \"api_version\": \"partita/v1\",\n \"kind\": \"BatchRun\",\n \"driver\": ");
  json.string(names.driver).raw(",\n \"scheduler\": ").string(names.scheduler);
  json.raw(",\n \"run\": ").string(names.run);
  json.raw(",\n \"simulated_clock\": ").boolean(names.simulated_clock);
  json.raw(",\n \"planned_makespan_s\": ").number(seconds(script.planned_makespan));
  json.raw(",\n \"makespan_s\": ").number(seconds(report.makespan()));
  if (report.all_finished()) {
    json.raw(",\n \"deviation_percent\": ")
        .number(deviation_percent(script.planned_makespan, report.makespan()));
  }
  json.raw(",\n \"interrupted\": ").boolean(report.interrupted);
  json.raw(",\n \"finished_earlier\": ").number(static_cast<long>(report.resumed));
  json.raw(",\n \"tasks\": [");
  for (std::size_t t = 0; t < script.tasks.size(); ++t) {
    json.raw(t == 0 ? "\n  " : ",\n  ");
    write_task(json, script, script.tasks[t], report.tasks[t]);
  }
  json.raw("],\n \"reconfigurations\": [");
  bool first = true;
  for (std::size_t g = 0; g < script.gpus.size(); ++g) {
    for (std::size_t r = 0; r < script.gpus[g].changes.size(); ++r) {
      json.raw(first ? "\n  " : ",\n  ");
      write_change(json, script, script.gpus[g].changes[r], report.changes[g][r]);
      first = false;
    }
  }
  json.raw("]");
  write_texts(json, "refusals", report.refusals);
  write_texts(json, "left", report.left);
  return json.raw("\n}\n").take();
}

}  // namespace partita::exec
