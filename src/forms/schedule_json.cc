// schedule_json and parse_schedule of batch_forms.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/fields.h"
#include "base/json_writer.h"
#include "forms/batch_forms.h"
#include "forms/batch_text.h"

namespace partita::plan {
namespace {

constexpr Range kGpuIndices{.high = 1e9};
constexpr Range kTaskStarts{.high = 1023};
// The judge says which times are wrong; here they only have to be times.
constexpr double kMaxSeconds = static_cast<double>(2 * kMaxBatchTime / kNanosInSecond);
constexpr Range kTimes{.low = -kMaxSeconds, .high = kMaxSeconds};

// ---- writing ----

void write_span(JsonWriter& out, Nanos begin, Nanos end) {
  out.raw(", \"begin_s\": ").raw(exact_seconds(begin));
  out.raw(", \"end_s\": ").raw(exact_seconds(end)).raw("}");
}

void write(JsonWriter& out, const ScheduledTask& task) {
  out.raw("{\"task\": ").string(task.task);
  out.raw(", \"gpu\": ").number(long{task.gpu});
  out.raw(", \"profile\": ").string(task.profile);
  out.raw(", \"start\": ").number(long{task.start});
  write_span(out, task.begin, task.end);
}

void write(JsonWriter& out, const Reconfiguration& change) {
  out.raw("{\"gpu\": ").number(long{change.gpu});
  out.raw(", \"op\": ").string(to_string(change.op));
  out.raw(", \"profile\": ").string(change.profile);
  out.raw(", \"start\": ").number(long{change.start});
  write_span(out, change.begin, change.end);
}

void write(JsonWriter& out, const LateTask& late) {
  out.raw("{\"task\": ").string(late.task);
  out.raw(", \"deadline_s\": ").raw(exact_seconds(late.deadline));
  out.raw(", \"end_s\": ").raw(exact_seconds(late.end)).raw("}");
}

// "gpu_model", "gpus", and "gpu_models" where that is not the same model for all.
void write_gpus(JsonWriter& out, const std::vector<std::string>& models) {
  const std::string first = models.empty() ? "" : models.front();
  out.raw(",\n  \"gpu_model\": ").string(first);
  out.raw(",\n  \"gpus\": ").number(static_cast<long>(models.size()));
  if (std::ranges::all_of(models, [&](const std::string& model) { return model == first; })) return;
  out.raw(",\n  \"gpu_models\": ");
  out.list(models, "    ", [&](const std::string& model) { out.string(model); });
}

// ---- reading ----

Nanos read_time(Fields& fields, std::string_view key) {
  return nanos({fields.number(key, kTimes)});
}

ScheduledTask read_task(Fields fields) {
  ScheduledTask task;
  task.task = fields.name("task");
  task.gpu = fields.integer("gpu", kGpuIndices);
  task.profile = fields.name("profile");
  task.start = fields.integer("start", kTaskStarts);
  task.begin = read_time(fields, "begin_s");
  task.end = read_time(fields, "end_s");
  return task;
}

Reconfiguration read_reconfiguration(Fields fields) {
  Reconfiguration change;
  change.gpu = fields.integer("gpu", kGpuIndices);
  const std::string op = fields.text("op");
  change.op = op == "destroy" ? Reconfiguration::Op::destroy : Reconfiguration::Op::create;
  if (op != to_string(change.op))
    fields.refuse("op", fmt::format("'op' is '{}', must be 'create' or 'destroy'", op));
  change.profile = fields.name("profile");
  change.start = fields.integer("start", kTaskStarts);
  change.begin = read_time(fields, "begin_s");
  change.end = read_time(fields, "end_s");
  return change;
}

std::vector<std::string> read_gpu_models(Fields& fields) {
  const std::string model = fields.name("gpu_model");
  const int gpus = fields.integer("gpus", {.low = 1, .high = kMaxBatchGpus});
  if (fields.error()) return {};  // a refused number comes back as it is
  if (!fields.has("gpu_models")) return std::vector(static_cast<std::size_t>(gpus), model);
  std::vector<std::string> models;
  for (const Node& item : fields.list("gpu_models", kMaxBatchGpus))
    models.push_back(fields.name_of(item, "a name in 'gpu_models'"));
  if (models.size() != static_cast<std::size_t>(gpus))
    fields.refuse("gpu_models",
                  fmt::format("'gpu_models' has {} names, 'gpus' is {}", models.size(), gpus));
  if (models.empty() || models.front() != model)
    fields.refuse("gpu_models",
                  fmt::format("the first of 'gpu_models' must be the 'gpu_model', '{}'", model));
  return models;
}

BatchStats read_batch_stats(Fields fields) {
  BatchStats stats;
  if (fields.has("scheduling_ms"))
    stats.scheduling_ms = fields.number("scheduling_ms", kNotNegative);
  if (fields.has("nodes")) stats.nodes = fields.whole("nodes", kNotNegative);
  return stats;
}

void read_lists(Fields& fields, BatchSchedule& schedule) {
  for (const Node& item : fields.list("tasks")) {
    schedule.tasks.push_back(read_task({fields, item}));
    if (fields.error()) return;
  }
  if (fields.has("reconfigurations")) {
    for (const Node& item : fields.list("reconfigurations")) {
      schedule.reconfigurations.push_back(read_reconfiguration({fields, item}));
      if (fields.error()) return;
    }
  }
  if (!fields.has("explanation")) return;
  for (const Node& item : fields.list("explanation")) {
    if (item.kind != Node::Kind::string) fields.refuse(item, "an explanation must be text");
    schedule.explanation.push_back(item.text);
  }
}

}  // namespace

std::string schedule_json(const BatchSchedule& schedule, const std::vector<LateTask>& late) {
  JsonWriter out;
  out.raw("{\n  \"api_version\": \"partita/v1\",\n  \"kind\": \"BatchSchedule\"");
  write_gpus(out, schedule.gpu_models);
  if (!schedule.scheduler.empty()) out.raw(",\n  \"scheduler\": ").string(schedule.scheduler);
  if (!schedule.problem_digest.empty())
    out.raw(",\n  \"problem_digest\": ").string(schedule.problem_digest);
  out.raw(",\n  \"makespan_s\": ").raw(exact_seconds(schedule.makespan));
  out.raw(",\n  \"lower_bound_s\": ").raw(exact_seconds(schedule.lower_bound));
  out.raw(",\n  \"optimal\": ").boolean(schedule.optimal);
  out.raw(",\n  \"tasks\": ");
  out.list(schedule.tasks, "    ", [&](const ScheduledTask& task) { write(out, task); });
  out.raw(",\n  \"reconfigurations\": ");
  out.list(schedule.reconfigurations, "    ", [&](const Reconfiguration& r) { write(out, r); });
  if (!late.empty()) {
    out.raw(",\n  \"late\": ");
    out.list(late, "    ", [&](const LateTask& task) { write(out, task); });
  }
  out.raw(",\n  \"stats\": {\"scheduling_ms\": ").number(schedule.stats.scheduling_ms);
  out.raw(", \"nodes\": ").number(schedule.stats.nodes).raw("}");
  if (!schedule.explanation.empty()) {
    out.raw(",\n  \"explanation\": ");
    out.list(schedule.explanation, "    ", [&](const std::string& line) { out.string(line); });
  }
  return out.raw("\n}\n").take();
}

Result<BatchSchedule> parse_schedule(const std::string& file, std::string_view text) {
  const auto document = parse_document(file, text);
  if (!document) return failed(document.error());
  Fields fields(*document);
  fields.exactly("api_version", "partita/v1");
  fields.exactly("kind", "BatchSchedule");
  BatchSchedule schedule;
  schedule.gpu_models = read_gpu_models(fields);
  if (fields.has("scheduler")) schedule.scheduler = fields.name("scheduler");
  if (fields.has("problem_digest")) schedule.problem_digest = fields.name("problem_digest");
  read_lists(fields, schedule);
  put_in_order(schedule);
  // What is stated is kept, right or wrong: it is the judge who compares.
  if (fields.has("makespan_s")) schedule.makespan = read_time(fields, "makespan_s");
  if (fields.has("lower_bound_s")) schedule.lower_bound = read_time(fields, "lower_bound_s");
  if (fields.has("optimal")) schedule.optimal = fields.boolean("optimal");
  if (fields.has("stats")) schedule.stats = read_batch_stats(fields.object("stats"));
  if (fields.error()) return failed(*fields.error());
  return schedule;
}

}  // namespace partita::plan
