#include "sim/report_forms.h"

#include <fmt/format.h>

#include <limits>

#include "base/form_rules.h"

namespace partita::sim {
namespace {

constexpr Range kShare{.high = 1};

void describe_token_times(Form& f, TokenTimes& times) {
  f.number("ttft_p50_ms", times.ttft_p50.value, kNotNegative, "to the first token");
  f.number("ttft_p99_ms", times.ttft_p99.value, kNotNegative, "to the first token");
  f.number("tpot_p50_ms", times.tpot_p50.value, kNotNegative, "per token after it");
  f.number("tpot_p99_ms", times.tpot_p99.value, kNotNegative, "per token after it");
  f.number("tokens_per_s", times.tokens_per_s, kNotNegative, "produced");
}

void describe_set_times(Form& f, SetTimes& times) {
  f.whole("cold", times.cold, kNotNegative, "requests whose model was loaded first");
  f.number("cold_in_time", times.cold_in_time, kShare, "share of these, by what is promised");
  f.number("cold_p50_ms", times.cold_p50.value, kNotNegative, "of their latency");
  f.number("cold_p99_ms", times.cold_p99.value, kNotNegative, "of their latency");
}

constexpr double kNone = std::numeric_limits<double>::infinity();

void describe(Form& f, ServiceReport& service) {
  f.name("name", service.name, "of the service");
  f.optional(service.rate.value > 0)
      .number("rate_rps", service.rate.value, kNotNegative, "that was played; missing: a trace's");
  f.whole("offered", service.offered, kNotNegative, "requests");
  f.whole("completed", service.completed, kNotNegative, "requests");
  f.optional().whole("refused", service.refused, kNotNegative,
                     "of the offered ones, at once, as the gateway would");
  double in_time = service.offered > 0 || f.reading() ? service.slo_attainment : kNone;
  f.or_null().number("slo_attainment", in_time, kShare,
                     "share of the offered ones that completed within the SLO; null: none was");
  service.slo_attainment = in_time == kNone ? 1 : in_time;
  f.number("p50_ms", service.p50.value, kNotNegative, "of the latency; 0: nothing completed");
  f.number("p95_ms", service.p95.value, kNotNegative, "of the latency");
  f.number("p99_ms", service.p99.value, kNotNegative, "of the latency");
  f.object("tokens", service.tokens, describe_token_times,
           "of a language model, whose latency is that of whole answers");
  f.object("models", service.models, describe_set_times, "of many models that share its instances");
}

// What a run of the simulator came to: speed, randomness, and the hash of its events.
void describe_run(Form& f, long& events, double& per_second, std::uint64_t& seed,
                  std::string& hash) {
  f.whole("events", events, kNotNegative, "that were simulated");
  f.number("events_per_second", per_second, kNotNegative, "of the simulator");
  f.whole("seed", seed, "of the randomness");
  f.text("log_hash", hash, "over all events, equal exactly when the run was");
}

void describe_gpus(Form& f, StatedServingReport& report) {
  f.number("internal_slack", report.internal_slack, kAnyNumber,
           "idle share of the compute inside instances (ParvaGPU, Eq. 3)");
  f.number("external_fragmentation", report.external_fragmentation, kAnyNumber,
           "share of the used GPUs' compute slices that belong to no instance");
}

void describe(Form& f, StatedServingReport& report) {
  f.document("ServingReport");
  f.optional().number("load", report.load, kNotNegative, "share of the declared rates");
  f.list("services", report.services, describe, {}, "what became of their requests");
  f.object("gpus", report, describe_gpus, "how well they were used");
  describe_run(f, report.events, report.events_per_second, report.seed, report.log_hash);
}

void describe(Form& f, StatedDayReport::Period& period) {
  f.note("from", period.from, "time of day, as 08:00");
  f.note("to", period.to, "time of day; not after `from`: over midnight");
  f.integer("gpus", period.gpus, kNotNegative, "of its plan");
  f.object("report", period.report, describe, "a document of kind ServingReport");
}

void describe(Form& f, StatedDayReport& report) {
  f.document("DayReport");
  f.list("periods", report.periods, describe, {}, "in the order of the day, each by itself");
}

void describe(Form& f, StatedBatchReport::Makespan& makespan) {
  f.number("planned", makespan.planned, kNotNegative, "of the schedule");
  f.number("mean", makespan.mean, kNotNegative, "over the runs");
  f.number("p50", makespan.p50, kNotNegative, "half of the runs end within");
  f.number("p95", makespan.p95, kNotNegative, "95 % of the runs end within");
  f.number("worst", makespan.worst, kNotNegative, "over the runs");
}

void describe(Form& f, StatedBatchReport::Task& task) {
  f.name("task", task.task, "its name");
  f.number("planned_end_s", task.planned_end_s, kNotNegative, "of the schedule");
  f.number("mean_end_s", task.mean_end_s, kNotNegative, "over the runs");
  f.number("deadline_s", task.deadline_s, kNotNegative, "should have ended by then");
  f.number("missed", task.missed, kShare, "of the runs that end it later");
}

void describe(Form& f, StatedBatchReport& report) {
  f.document("BatchReport");
  f.note("scheduler", report.scheduler, "who made the schedule");
  f.integer("runs", report.runs, kNotNegative, "how often it ran");
  f.number("spread", report.spread, kNotNegative, "relative deviation of task times");
  f.number("reconfiguration_spread", report.reconfiguration_spread, kNotNegative,
           "the same of creates and destroys");
  f.object("makespan_s", report.makespan, describe, "planned, and over the runs");
  f.list("tasks", report.tasks, describe, {}, "in the order of the batch");
  describe_run(f, report.events, report.events_per_second, report.seed, report.log_hash);
}

double in_s(plan::Nanos time) { return plan::seconds(time).value; }

}  // namespace

StatedServingReport stated(const ServingReport& report, std::uint64_t seed,
                           double events_per_second) {
  return {report.services,
          report.internal_slack,
          report.external_fragmentation,
          report.events,
          events_per_second,
          seed,
          fmt::format("{:016x}", report.log_hash),
          report.load};
}

std::string report_json(const StatedServingReport& report) {
  return write_form(report, describe, Form::Style::indented);
}

Result<StatedServingReport> parse_serving_report(const std::string& file, std::string_view text) {
  return read_form<StatedServingReport>(file, text, describe);
}

std::string report_json(const StatedDayReport& report) {
  return write_form(report, describe, Form::Style::indented);
}

Result<StatedDayReport> parse_day_report(const std::string& file, std::string_view text) {
  return read_form<StatedDayReport>(file, text, describe);
}

std::string report_json(const StatedBatchReport& report) {
  return write_form(report, describe, Form::Style::indented);
}

Result<StatedBatchReport> parse_batch_report(const std::string& file, std::string_view text) {
  return read_form<StatedBatchReport>(file, text, describe);
}

std::string report_json(const ServingReport& report, std::uint64_t seed, double events_per_second) {
  return report_json(stated(report, seed, events_per_second));
}

std::string report_json(const BatchReport& report, const BatchOptions& options,
                        double events_per_second) {
  StatedBatchReport stated{.scheduler = report.scheduler,
                           .runs = static_cast<int>(report.makespans.size()),
                           .spread = options.spread,
                           .reconfiguration_spread = options.reconfiguration_spread,
                           .makespan = {in_s(report.planned), in_s(report.mean), in_s(report.p50),
                                        in_s(report.p95), in_s(report.worst)},
                           .tasks = {},
                           .events = report.events,
                           .events_per_second = events_per_second,
                           .seed = options.seed,
                           .log_hash = fmt::format("{:016x}", report.log_hash)};
  for (const TaskReport& task : report.tasks) {
    stated.tasks.push_back({task.task, in_s(task.planned_end), in_s(task.mean_end), {}, {}});
    if (!task.deadline) continue;
    stated.tasks.back().deadline_s = in_s(*task.deadline);
    stated.tasks.back().missed = task.missed;
  }
  return report_json(stated);
}

std::vector<DocumentKind> document_kinds() {
  return {document_kind<StatedServingReport, describe, "ServingReport",
                        "what became of the requests of simulated services">(),
          document_kind<StatedDayReport, describe, "DayReport",
                        "what became of them in each period of a day">(),
          document_kind<StatedBatchReport, describe, "BatchReport",
                        "how a schedule does when times differ">()};
}

}  // namespace partita::sim
