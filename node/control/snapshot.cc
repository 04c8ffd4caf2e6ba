#include "control/snapshot.h"

#include <fmt/format.h>

#include <map>

#include "base/form_rules.h"
#include "control/state_forms.h"
#include "forms/serving_forms.h"
#include "forms/terms_form.h"
#include "hw/telemetry/forms.h"

namespace partita::control {
namespace {

constexpr std::initializer_list<const char*> kChangeStates = {"proposed",  "approved", "applying",
                                                              "succeeded", "failed",   "rejected"};
constexpr Range kSnapshotTimes{.high = 4e15};  // milliseconds since 1970
constexpr Range kPercentiles{.high = 100};
constexpr Range kAttained{.high = 1};
constexpr Range kSnapshotCounts{.high = 1e9};

// In a reason that several services have: the name of each, and what is asked of it.
constexpr std::string_view kOwnName = "{service}", kOwnAsked = "{asked}";

// A service as it is written.
struct ServiceRow : ServiceNow {
  bool brief = false;                // what is as it is by default is left out
  std::optional<int> reason = {};    // in the table of reasons, instead of `why`
  std::int64_t others_as_of_ms = 0;  // when most were measured
  bool measured = true;              // says itself when it was
  bool has(bool set) const { return !brief || set; }
};

// A snapshot as it is written: rows instead of services.
struct Written : Snapshot {
  std::vector<ServiceRow> rows;
  std::vector<std::string> reasons;
  std::int64_t as_of_ms = 0;  // when services were measured that do not say it
  bool has(bool set) const { return left_out.empty() || set; }
};

void describe_verdict(Form& f, ServiceRow& s) {
  standing_field(f, "verdict", s.is.verdict, "whether it is served");
  time_field(f, "since", s.is.since_ms, "it has been so, UTC");
  f.optional(s.has(s.is.as_of_ms != s.others_as_of_ms));
  time_field(f, "as_of", s.is.as_of_ms,
             "when that was measured; empty: never; missing: as the document's");
  s.measured = f.reading() == nullptr || f.reading()->has("as_of");
  f.integer("reason", s.reason, kSnapshotCounts, "instead of why: a place in `reasons`, from 0");
  f.optional(!s.reason && s.has(!s.is.why.empty()))
      .note("why", s.is.why, "a sentence; empty: it is served");
  f.optional(s.has(s.is.asked_rps != 0))
      .number("asked_rps", s.is.asked_rps, kNotNegative,
              "answered or not, in the last seconds; missing: 0");
  f.optional(s.has(s.is.answered_rps != 0))
      .number("answered_rps", s.is.answered_rps, kNotNegative,
              "in time, in the last seconds; missing: 0");
  f.optional(s.has(s.is.can_carry_rps != 0))
      .number("can_carry_rps", s.is.can_carry_rps, kNotNegative,
              "by the workers that are ready; missing: 0");
  f.object("cold_starts", s.is.cold, actuate::describe, "of a set of models");
  bool at_risk = s.at_risk();
  f.optional(!s.brief).boolean("at_risk", at_risk, "the verdict is another one than serves");
  if (f.reading()) s.is.service = s.name;
}

void describe_service_now(Form& f, ServiceRow& s) {
  f.note("name", s.name, "of the service");
  f.optional(s.has(!s.model.empty())).note("model", s.model, "that it runs");
  f.optional(s.has(s.slo.value != 0)).number("slo_ms", s.slo.value, kNotNegative, "its objective");
  f.optional(s.has(s.percentile != ServiceNow{}.percentile))
      .number("percentile", s.percentile, kPercentiles,
              "of the requests that shall keep it; missing: 99");
  f.optional(s.has(s.rate.value != 0))
      .number("wanted_rps", s.rate.value, kNotNegative, "as the services file says");
  forms::describe_further_terms(f, s);
  f.number("rate_rps", s.rate_rps, kNotNegative, "as measured now");
  f.number("forecast_rps", s.forecast_rps, kNotNegative, "the highest of the next minutes");
  f.number("forecast_low_rps", s.forecast_low_rps, kNotNegative, "lower end of its interval");
  f.number("forecast_high_rps", s.forecast_high_rps, kNotNegative, "upper end of its interval");
  f.optional(s.has(s.planned_rps != 0))
      .number("planned_rps", s.planned_rps, kNotNegative,
              "what the plan in force is made for; missing: 0");
  f.optional(!s.brief).number("capacity_rps", s.is.can_carry_rps, kNotNegative,
                              "the same as can_carry_rps");
  f.optional(s.has(s.segments != 0))
      .integer("segments", s.segments, kSnapshotCounts, "that run; missing: 0");
  f.optional(s.has(s.ready_workers != 0))
      .integer("ready_workers", s.ready_workers, kSnapshotCounts,
               "as the gateway says; missing: 0");
  f.number("p99_ms", s.p99_ms, kNotNegative, "measured");
  f.number("attainment", s.attainment, kAttained, "share of requests in SLO, measured");
  f.object("token_traffic", s.token_traffic, actuate::describe,
           "of a language model, of the last half minute");
  f.number("watts", s.watts, kNotNegative,
           "its part of the boards': by how busy its instances are, idle power by compute slices");
  f.number("energy_j", s.energy_j, kNotNegative, "the same in joules, since the agent began");
  f.number("host_w", s.host_w, kNotNegative,
           "its part of what CPUs and memory take: by CPU time, else by compute slices");
  f.number("host_energy_j", s.host_energy_j, kNotNegative, "the same in joules");
  f.number("host_idle_j", s.host_idle_j, kNotNegative, "of these: idle power");
  f.number("energy_cost", s.energy_cost, kAnyNumber, "money for all these joules, by the hour");
  f.number("co2_g", s.co2_g, kNotNegative, "grams of CO2 for them");
  describe_verdict(f, s);
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
  f.word("state", c.state, kChangeStates, "how far it is");
  f.note("cause", c.cause, "why, a sentence");
  f.whole("planned_ms", c.planned_ms, kSnapshotTimes, "since 1970");
  f.whole("ended_ms", c.ended_ms, kSnapshotTimes, "since 1970; 0: not yet");
  long steps = static_cast<long>(c.steps_done);
  f.whole("steps_done", steps, kSnapshotCounts, "of change.steps");
  if (f.reading()) c.steps_done = static_cast<std::size_t>(steps);
  f.note("error", c.error, "why it failed; else empty");
  f.integer("steps", c.steps, kSnapshotCounts,
            "how many there are; then explanation, change and plan are left out: AgentChange");
  f.optional(!c.steps || !c.explanation.empty())
      .notes("explanation", c.explanation, {.indent = "      "}, "sentences");
  f.optional(!c.steps || c.change != actuate::Change{})
      .object("change", c.change, describe_change, "how the node gets there");
  f.optional(!c.steps || c.plan != plan::ServingPlan{})
      .object("plan", c.plan, forms::describe_plan, "the target, a document ServingPlan");
}

void describe_judged(Form& f, JudgedPlans& verdicts) {
  f.text("asked", verdicts.asked, "what was judged: planner, target, person");
  f.whole("accepted", verdicts.accepted, kNotNegative, "so often");
  f.whole("refused", verdicts.refused, kNotNegative, "so often");
}

void describe_host(Form& f, HostNow& host) {
  f.number("cpu_w", host.cpu_w, kNotNegative, "of all CPUs, by RAPL; missing: not told");
  f.number("dram_w", host.dram_w, kNotNegative, "of memory");
  f.number("psys_w", host.psys_w, kNotNegative, "of the whole platform, where it says so");
  f.number("node_w", host.node_w, kNotNegative, "of GPUs, CPUs and memory together");
  f.number("cpu_j", host.cpu_j, kNotNegative, "since the agent began");
  f.number("dram_j", host.dram_j, kNotNegative, "the same");
  f.number("psys_j", host.psys_j, kNotNegative, "the same");
  f.optional(!host.fault.empty()).note("fault", host.fault, "why a figure is missing");
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

void describe_power_now(Form& f, PowerNow& power) {
  f.number("budget_w", power.budget_w, kNotNegative, "that its GPUs may draw together now");
  f.number("limits_w", power.limits_w, kNotNegative, "that they are limited to");
  f.optional(power.least_w > 0)
      .number("least_w", power.least_w, kNotNegative, "that they can be limited to, all of them");
  f.number("draw_w", power.draw_w, kNotNegative, "that they draw");
  f.optional(power.unlimited != 0)
      .integer("unlimited", power.unlimited, kSnapshotCounts, "GPUs that do not say their limit");
}

void describe_snapshot(Form& f, Written& s) {
  f.lines("  ");
  f.document("AgentState");
  f.whole("version", s.version, kNotNegative, "grows with every change of the rest");
  f.optional(s.node_version != 0)
      .whole("node_version", s.node_version, kNotNegative,
             "the version in which `state` or `assignment` changed last");
  f.optional(!s.left_out.empty())
      .notes("left_out", s.left_out, {},
             "of a large node: keys that are documents of their own; `changes`: what is in them");
  f.whole("time_ms", s.time_ms, kSnapshotTimes, "since 1970, UTC");
  f.note("node", s.node, "host name");
  f.word("mode", s.mode, kModes, "how changes come about");
  f.boolean("converged", s.converged,
            "the node and its workers are as the plan in force wants them; no change is needed");
  f.note("doing", s.doing, "a sentence");
  f.optional(s.has(s.state != device::NodeState{}))
      .object("state", s.state, describe_node, "what was read of the node");
  time_field(f, "state_as_of", s.node_read_ms, "when that was, UTC");
  f.optional(!s.node_fault.empty())
      .note("state_fault", s.node_fault, "why it cannot be read now, and so is as it was then");
  f.optional(s.has(s.assignment != actuate::Assignment{}))
      .object("assignment", s.assignment, actuate::describe_assignment, "which segment runs where");
  f.list("gpus", s.gpus, describe_gpu_now, {.indent = "    "}, "by index");
  f.optional(s.as_of_ms != 0);
  time_field(f, "as_of", s.as_of_ms, "when services were measured that do not say it");
  f.list("services", s.rows, describe_service_now, {.indent = "    "}, "by name");
  f.optional(!s.reasons.empty())
      .notes("reasons", s.reasons, {.indent = "    "},
             "that several services have; {service}: the name of each, {asked}: its asked_rps");
  f.object("plan", s.plan, forms::describe_plan, "in force, a document ServingPlan");
  f.object("current", s.current, describe_change_now, "proposed or under way");
  f.object("last", s.last, describe_change_now, "that ended");
  f.object("batch", s.batch, describe_batch, "tasks of batches");
  f.object("power", s.power, describe_power_now, "of the GPUs, by the fleet's budgets");
  f.object("host", s.host, describe_host, "what the node takes beside its GPUs");
  f.optional(!s.uncarried.empty())
      .list("uncarried", s.uncarried, actuate::describe, {.indent = "    "},
            "what its gateway is asked for in vain, since no node of the fleet carries it");
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

// ---- reasons

void replace_last(std::string& text, std::string_view what, std::string_view with) {
  const std::size_t at = what.empty() ? text.npos : text.rfind(what);
  if (at != text.npos) text.replace(at, what.size(), with);
}
void replace_first(std::string& text, std::string_view what, std::string_view with) {
  const std::size_t at = what.empty() ? text.npos : text.find(what);
  if (at != text.npos) text.replace(at, what.size(), with);
}

std::string asked_text(const ServiceNow& service) {
  return fmt::format("{:.4g}", service.is.asked_rps);
}

// The reason as others may have it, too; and back.
std::string shared_reason(const ServiceNow& service) {
  std::string why = service.is.why;
  const std::string asked = " " + asked_text(service) + " ";
  if (asked.find('e') == asked.npos) replace_last(why, asked, " " + std::string(kOwnAsked) + " ");
  replace_first(why, service.name, kOwnName);
  return why;
}

std::string own_reason(const std::string& shared, const ServiceNow& service) {
  std::string why = shared;
  replace_last(why, kOwnAsked, asked_text(service));
  replace_first(why, kOwnName, service.name);
  return why;
}

void share_reasons(Written& written) {
  std::map<std::string, std::vector<ServiceRow*>> having;
  for (ServiceRow& row : written.rows)
    if (const std::string shared = shared_reason(row);
        !shared.empty() && own_reason(shared, row) == row.is.why)
      having[shared].push_back(&row);
  for (const auto& [reason, rows] : having) {
    if (rows.size() < 2) continue;
    for (ServiceRow* row : rows) row->reason = static_cast<int>(written.reasons.size());
    written.reasons.push_back(reason);
  }
}

void share_times(Written& written) {
  std::map<std::int64_t, int> counts;
  for (const ServiceRow& row : written.rows) ++counts[row.is.as_of_ms];
  int most = 0;
  for (const auto& [time_ms, count] : counts)
    if (count > most) most = count, written.as_of_ms = time_ms;
  for (ServiceRow& row : written.rows) row.others_as_of_ms = written.as_of_ms;
}

// JSON without blanks and line breaks but the last.
std::string compacted(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  bool quoted = false, escaped = false;
  for (const char c : json) {
    if (!quoted && (c == ' ' || c == '\n')) continue;
    text += c;
    if (c == '"' && !escaped) quoted = !quoted;
    escaped = quoted && c == '\\' && !escaped;
  }
  return text += '\n';
}

Written written(const Snapshot& snapshot) {
  Written all{snapshot, {}, {}};
  const bool brief = !snapshot.left_out.empty();
  for (ServiceNow& service : all.services) all.rows.push_back({std::move(service), brief});
  all.services.clear();
  if (brief) share_reasons(all);
  if (brief) share_times(all);
  return all;
}

}  // namespace

const char* to_string(ChangeState state) { return kChangeStates.begin()[static_cast<int>(state)]; }

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
  std::string text = write_form(written(snapshot), describe_snapshot);
  return snapshot.left_out.empty() ? text : compacted(text);
}

Result<Snapshot> parse_snapshot(const std::string& file, std::string_view text) {
  auto read = TRY(read_form<Written>(file, text, describe_snapshot));
  for (ServiceRow& row : read.rows) {
    if (row.reason && static_cast<std::size_t>(*row.reason) >= read.reasons.size())
      return bad_input(file, fmt::format("{} has the reason {}, there are {}", row.name,
                                         *row.reason, read.reasons.size()));
    if (row.reason)
      row.is.why = own_reason(read.reasons[static_cast<std::size_t>(*row.reason)], row);
    if (!row.measured) row.is.as_of_ms = read.as_of_ms;
    read.services.push_back(std::move(row));
  }
  return static_cast<Snapshot&&>(read);
}

DocumentKind snapshot_kind() {
  return document_kind<Written, describe_snapshot, "AgentState",
                       "what an agent knows, wants and is doing">();
}

}  // namespace partita::control
