#include "control/snapshot.h"

#include <fmt/format.h>

#include "control/state_forms.h"
#include "forms/serving_forms.h"
#include "telemetry/forms.h"

namespace partita::control {
namespace {

constexpr Range kSnapshotTimes{.high = 4e15};  // milliseconds since 1970
constexpr Range kPercentiles{.high = 100};
constexpr Range kAttained{.high = 1};
constexpr Range kSnapshotCounts{.high = 1e9};

void describe_service_now(Form& f, ServiceNow& s) {
  f.note("name", s.name, "of the service");
  f.note("model", s.model, "that it runs");
  f.number("slo_ms", s.slo_ms, kNotNegative, "its objective");
  f.number("percentile", s.percentile, kPercentiles, "of the requests that shall keep it");
  f.number("wanted_rps", s.wanted_rps, kNotNegative, "as the services file says");
  f.number("rate_rps", s.rate_rps, kNotNegative, "as measured now");
  f.number("forecast_rps", s.forecast_rps, kNotNegative, "the highest of the next minutes");
  f.number("forecast_low_rps", s.forecast_low_rps, kNotNegative, "lower end of its interval");
  f.number("forecast_high_rps", s.forecast_high_rps, kNotNegative, "upper end of its interval");
  f.number("planned_rps", s.planned_rps, kNotNegative, "what the plan in force is made for");
  f.number("capacity_rps", s.is.can_carry_rps, kNotNegative, "the same as can_carry_rps");
  f.integer("segments", s.segments, kSnapshotCounts, "that run");
  f.integer("ready_workers", s.ready_workers, kSnapshotCounts, "as the gateway says");
  f.number("p99_ms", s.p99_ms, kNotNegative, "measured");
  f.number("attainment", s.attainment, kAttained, "share of requests in SLO, measured");
  f.number("watts", s.watts, kNotNegative,
           "its part of the boards': by how busy its instances are, idle power by compute slices");
  f.number("energy_j", s.energy_j, kNotNegative, "the same in joules, since the agent began");
  describe_verdict(f, s.is);
  bool at_risk = s.at_risk();
  f.boolean("at_risk", at_risk, "the verdict is another one than serves");
  if (f.reading()) s.is.service = s.name;
}

void describe_gpu_now(Form& f, GpuNow& gpu) {
  f.integer("index", gpu.index, kSnapshotCounts, "the driver's");
  f.note("uuid", gpu.uuid, "of the GPU");
  f.note("model", gpu.model, "catalogue name; empty: unknown");
  f.boolean("out", gpu.out, "not used: taken out by a person or by its health, or not usable");
  f.optional(!gpu.why.empty()).note("why", gpu.why, "why it is out");
  f.object("sample", gpu.sample, telemetry::describe_gpu, "what it said of itself last");
}

void describe_change_now(Form& f, ChangeNow& c) {
  f.lines("    ");
  f.whole("number", c.number, kSnapshotCounts, "of the change");
  f.word("state", c.state, {"proposed", "approved", "applying", "succeeded", "failed", "rejected"},
         "how far it is");
  f.note("cause", c.cause, "why, a sentence");
  f.whole("planned_ms", c.planned_ms, kSnapshotTimes, "since 1970");
  f.whole("ended_ms", c.ended_ms, kSnapshotTimes, "since 1970; 0: not yet");
  long steps = static_cast<long>(c.steps_done);
  f.whole("steps_done", steps, kSnapshotCounts, "of change.steps");
  if (f.reading()) c.steps_done = static_cast<std::size_t>(steps);
  f.note("error", c.error, "why it failed; else empty");
  f.notes("explanation", c.explanation, {.indent = "      "}, "sentences");
  f.object("change", c.change, describe_change, "how the node gets there");
  f.object("plan", c.plan, forms::describe_plan, "the target, a document ServingPlan");
}

void describe_judged(Form& f, JudgedPlans& verdicts) {
  f.text("asked", verdicts.asked, "what was judged: planner, target, person");
  f.whole("accepted", verdicts.accepted, kNotNegative, "so often");
  f.whole("refused", verdicts.refused, kNotNegative, "so often");
}

void describe_batch(Form& f, BatchNow& batch) {
  f.integer("waiting", batch.waiting, kSnapshotCounts, "tasks");
  f.integer("running", batch.running, kSnapshotCounts, "tasks");
  f.integer("done", batch.done, kSnapshotCounts, "tasks");
  long ends = static_cast<long>(batch.ends_ms.value_or(0));
  f.optional(batch.ends_ms.has_value()).whole("ends_ms", ends, kSnapshotTimes, "as scheduled");
  if (f.reading() && f.reading()->has("ends_ms")) batch.ends_ms = ends;
  f.optional(batch.failed > 0)
      .integer("failed", batch.failed, kSnapshotCounts, "tasks, or skipped");
  f.optional(batch.cancelled > 0).integer("cancelled", batch.cancelled, kSnapshotCounts, "tasks");
  f.number("watts", batch.watts, kNotNegative, "their part of the boards'");
  f.number("energy_j", batch.energy_j, kNotNegative, "the same in joules, since the agent began");
  f.optional(!batch.gpus.empty()).notes("gpus", batch.gpus, {}, "that batches have now, by UUID");
  f.optional(!batch.tasks.empty())
      .list("tasks", batch.tasks, describe_batch_task, {.indent = "    "},
            "of batches that are not over, and the newest others");
}

void describe_snapshot(Form& f, Snapshot& s) {
  f.lines("  ");
  f.document("AgentState");
  f.whole("version", s.version, kNotNegative, "grows with every change of the rest");
  f.whole("time_ms", s.time_ms, kSnapshotTimes, "since 1970, UTC");
  f.note("node", s.node, "host name");
  f.word("mode", s.mode, {"automatic", "approve", "observe"}, "how changes come about");
  f.boolean("converged", s.converged, "the node is as the plan in force wants it, and no change is needed");
  f.note("doing", s.doing, "a sentence");
  f.object("state", s.state, describe_node, "what was read of the node");
  time_field(f, "state_as_of", s.node_read_ms, "when that was, UTC");
  f.optional(!s.node_fault.empty())
      .note("state_fault", s.node_fault, "why it cannot be read now, and so is as it was then");
  f.object("assignment", s.assignment, describe_assignment, "which segment runs where");
  f.list("gpus", s.gpus, describe_gpu_now, {.indent = "    "}, "by index");
  f.list("services", s.services, describe_service_now, {.indent = "    "}, "by name");
  f.object("plan", s.plan, forms::describe_plan, "in force, a document ServingPlan");
  f.object("current", s.current, describe_change_now, "proposed or under way");
  f.object("last", s.last, describe_change_now, "that ended");
  f.object("batch", s.batch, describe_batch, "tasks of batches");
  f.notes("notices", s.notices, {.indent = "    "}, "newest first, few");
  f.optional(!s.judged.empty())
      .list("verdicts", s.judged, describe_judged, {.indent = "    "},
            "of the judge since the agent began");
  f.whole("restarts", s.restarts, kNotNegative, "of workers");
  f.whole("given_up_workers", s.given_up_workers, kNotNegative, "that keep failing now");
  f.whole("drifts", s.drifts, kNotNegative, "how often the node was not as it was left");
  f.whole("changes", s.changes, kNotNegative, "made so far");
  f.whole("failed_changes", s.failed_changes, kNotNegative, "so far");
}

}  // namespace

const char* to_string(ChangeState state) {
  switch (state) {
    case ChangeState::proposed:
      return "proposed";
    case ChangeState::approved:
      return "approved";
    case ChangeState::applying:
      return "applying";
    case ChangeState::succeeded:
      return "succeeded";
    case ChangeState::failed:
      return "failed";
    case ChangeState::rejected:
      return "rejected";
  }
  return "?";
}

Snapshot aged(Snapshot snapshot, std::int64_t looked_ms, std::int64_t now_ms) {
  const std::string why =
      fmt::format("the agent has not looked for {} s", (now_ms - looked_ms) / 1000);
  for (ServiceNow& one : snapshot.services) {
    if (one.is.verdict != Standing::unknown) one.is.since_ms = looked_ms;
    one.is.verdict = Standing::unknown;
    one.is.why = why;
  }
  snapshot.converged = false;
  if (snapshot.node_fault.empty()) snapshot.node_fault = why;
  return snapshot;
}

std::string snapshot_json(const Snapshot& snapshot) {
  return write_form(snapshot, describe_snapshot);
}

Result<Snapshot> parse_snapshot(const std::string& file, std::string_view text) {
  return read_form<Snapshot>(file, text, describe_snapshot);
}

DocumentKind snapshot_kind() {
  return {"AgentState", "what an agent knows, wants and is doing", [] {
            return schema_form<Snapshot>(snapshot_kind().name, snapshot_kind().about,
                                         describe_snapshot);
          }};
}

}  // namespace partita::control
