// Forms of sim_weeks.h: text, JSON, a picture.
#include <fmt/format.h>

#include "base/form_rules.h"
#include "base/table.h"
#include "control/sim/sim_weeks.h"
#include "forms/time_plot.h"

namespace partita::control {
namespace {

constexpr Range kSharesOfAll{.high = 1};

void describe_service(Form& f, ServiceWeeks& one) {
  f.name("name", one.name, "of the service");
  f.number("slo_ms", one.slo.value, kNotNegative, "its objective");
  f.number("percentile", one.percentile, kNotNegative, "of the requests that shall keep it");
  f.number("mean_rps", one.rate.value, kNotNegative, "of the traffic that was played");
  f.number("peak_rps", one.peak_rps, kNotNegative, "of its busiest minute");
  f.number("requests", one.requests, kNotNegative, "that came");
  f.number("attainment", one.attainment, kSharesOfAll, "share answered in time");
  f.number("short_s", one.short_s, kNotNegative, "time with a rate above what was ready");
  f.number("longest_short_s", one.longest_short_s, kNotNegative, "in one piece");
  f.optional(!one.why.empty()).note("why", one.why, "it is at risk at the end");
}

void describe_event(Form& f, WeeksEvent& one) {
  f.name("what", one.what, "happened");
  f.whole("times", one.times, kNotNegative, "how often");
}

// Series: JSON lists of numbers are objects of one service each.
struct Value {
  double rate = 0, ready = 0;
};
void describe_value(Form& f, Value& value) {
  f.number("rate_rps", value.rate, kNotNegative, "that came");
  f.number("ready_rps", value.ready, kNotNegative, "of segments that were ready");
}

void describe_point(Form& f, WeeksPoint& point) {
  f.number("hour", point.hour, kNotNegative, "since the start");
  f.integer("gpus", point.gpus, kNotNegative, "with instances");
  std::vector<Value> values;
  for (std::size_t s = 0; s < point.rate_rps.size(); ++s)
    values.push_back({point.rate_rps[s], point.ready_rps[s]});
  f.list("services", values, describe_value, {}, "in the order of the report's services");
  if (f.reading() == nullptr) return;
  for (const Value& value : values) {
    point.rate_rps.push_back(value.rate);
    point.ready_rps.push_back(value.ready);
  }
}

void describe_weeks(Form& f, WeeksReport& report) {
  f.lines("  ");
  f.document("AgentSimulation");
  f.whole("seed", report.seed, kAnyNumber, "of everything random");
  f.integer("days", report.days, {.low = 1, .high = kMostSimDays}, "simulated");
  f.integer("gpus", report.gpus, kNotNegative, "of the node");
  f.list("services", report.services, describe_service, {.indent = "    "}, "what became of each");
  f.number("gpu_hours", report.gpu_hours, kNotNegative, "of GPUs with instances");
  f.number("peak_gpu_hours", report.peak_gpu_hours, kNotNegative,
           "of the plan for every service's highest rate");
  f.integer("peak_gpus", report.peak_gpus, kNotNegative, "of that plan");
  f.boolean("peak_fits", report.peak_fits, "whether there is such a plan");
  f.whole("instances_made", report.instances_made, kNotNegative, "by the agent");
  f.whole("changes", report.changes, kNotNegative, "that were applied");
  f.whole("failed_changes", report.failed_changes, kNotNegative, "that could not be");
  f.whole("repairs", report.repairs, kNotNegative, "of what reboots and people undid");
  f.optional(report.tasks > 0).whole("tasks", report.tasks, kNotNegative, "of batches, handed in");
  f.optional(report.tasks > 0).whole("tasks_done", report.tasks_done, kNotNegative, "of them");
  f.optional(report.tasks > 0)
      .whole("tasks_failed", report.tasks_failed, kNotNegative, "of them, or skipped");
  f.optional(report.tasks > 0)
      .whole("tasks_begun", report.tasks_begun, kNotNegative, "processes begun for them");
  f.optional(!report.notice.empty())
      .note("notice", report.notice, "the agent's last one, where a service is at risk");
  f.optional(!report.refused_batch.empty())
      .note("refused_batch", report.refused_batch, "why the last that was refused was");
  f.list("events", report.events, describe_event, {.indent = "    "}, "how often what happened");
  f.list("line", report.line, describe_point, {.indent = "    "}, "over time");
}

std::string minutes_text(double seconds) {
  return seconds < 1 ? "0"
                     : fmt::format("{}:{:02}", static_cast<int>(seconds) / 60,
                                   static_cast<int>(seconds) % 60);
}

}  // namespace

std::string weeks_text(const WeeksReport& report) {
  Table table{{"service", "SLO ms", "mean req/s", "peak req/s", "in SLO", "short min", "longest"},
              {}};
  for (const ServiceWeeks& one : report.services)
    table.rows.push_back(
        {one.name, fmt::format("{:.6g}", one.slo.value), fmt::format("{:.1f}", one.rate.value),
         fmt::format("{:.1f}", one.peak_rps), fmt::format("{:.3f} %", one.attainment * 100),
         minutes_text(one.short_s), minutes_text(one.longest_short_s)});
  std::string text = to_string(table);
  text += fmt::format(
      "\n{} days, {} GPUs, seed {}: {:.1f} GPU-hours, {:.2f} of the {:.1f} that {} GPUs planned "
      "for "
      "the peak would take\n",
      report.days, report.gpus, report.seed, report.gpu_hours,
      report.peak_gpu_hours > 0 ? report.gpu_hours / report.peak_gpu_hours : 0,
      report.peak_gpu_hours, report.peak_gpus);
  if (!report.peak_fits) text += "(no plan carries everybody's peak; counted are all GPUs)\n";
  text += fmt::format("{} changes, {} failed, {} repairs, {} instances made\n", report.changes,
                      report.failed_changes, report.repairs, report.instances_made);
  if (report.tasks > 0)
    text += fmt::format("{} tasks of batches: {} done, {} failed; begun {} times\n", report.tasks,
                        report.tasks_done, report.tasks_failed, report.tasks_begun);
  for (const ServiceWeeks& one : report.services)
    if (!one.why.empty()) text += fmt::format("{} at the end: {}\n", one.name, one.why);
  if (!report.notice.empty()) text += "the agent: " + report.notice + "\n";
  if (!report.refused_batch.empty()) text += "a batch was refused: " + report.refused_batch + "\n";
  std::string events;
  for (const WeeksEvent& one : report.events)
    events += fmt::format("{}{} {}", events.empty() ? "" : ", ", one.times, one.what);
  return text + "events: " + events + "\n";
}

std::string weeks_json(const WeeksReport& report) { return write_form(report, describe_weeks); }

Result<WeeksReport> parse_weeks(const std::string& file, std::string_view text) {
  return read_form<WeeksReport>(file, text, describe_weeks);
}

DocumentKind weeks_kind() {
  return document_kind<WeeksReport, describe_weeks, "AgentSimulation",
                       "what became of services, GPUs and changes in simulated weeks">();
}

std::string weeks_svg(const WeeksReport& report) {
  forms::TimePlot plot{
      .title = fmt::format("{} days of an agent", report.days),
      .subtitle = fmt::format("rates and what was ready for them; {:.1f} GPU-hours "
                              "of {:.1f} for the peak",
                              report.gpu_hours, report.peak_gpu_hours),
      .unit = "req/s",
      .seconds = {},
      .lines = {},
      .levels = {}};
  for (const WeeksPoint& point : report.line) plot.seconds.push_back(point.hour * 3600);
  for (std::size_t s = 0; s < report.services.size(); ++s) {
    forms::TimeLine rate{report.services[s].name, {}}, ready{rate.name + ", ready", {}};
    for (const WeeksPoint& point : report.line) {
      rate.values.push_back(point.rate_rps[s]);
      ready.values.push_back(point.ready_rps[s]);
    }
    plot.lines.push_back(std::move(rate));
    plot.lines.push_back(std::move(ready));
  }
  return forms::time_plot_svg(plot);
}

}  // namespace partita::control
