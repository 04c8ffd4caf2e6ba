#include "forms/comparison_forms.h"

#include "base/form_rules.h"
#include "forms/reason_forms.h"

namespace partita::forms {
namespace {

void describe(Form& f, StatedStanding::Worst& worst) {
  f.name("service", worst.service, "the one that met its SLO least");
  f.number("slo_attainment", worst.slo_attainment, {.high = 1}, "share of its requests");
}

void describe(Form& f, StatedStanding::Unfillable& item) {
  f.name("service", item.service, "whose batch misses the SLO by filling alone");
  f.integer("batch", item.batch, kNotNegative, "as planned");
  f.number("share_rps", item.share_rps, kNotNegative, "that its instance gets");
  f.number("fill_ms", item.fill_ms, kNotNegative, "until the batch is full");
  f.number("execution_ms", item.execution_ms, kNotNegative, "of the full batch");
  f.number("slo_ms", item.slo_ms, kNotNegative, "asked for");
}

void describe(Form& f, StatedStanding& row) {
  f.text("planner", row.planner, "who planned");
  f.text("slo_rule", row.slo_rule, "queueing or execution:F");
  f.boolean("feasible", row.feasible, "there is a plan");
  const bool shown = row.feasible;
  f.optional(!shown).list("reasons", row.reasons, describe_reason, {}, "why there is none");
  f.optional(shown).integer("gpus", row.gpus, kNotNegative, "in use");
  f.optional(shown).integer("gpcs", row.gpcs, kNotNegative, "compute slices in use");
  f.optional(shown).integer("lower_bound_gpus", row.lower_bound_gpus, kNotNegative,
                            "no plan needs fewer; 0: not stated");
  f.optional(shown).boolean("optimal", row.optimal, "the bounds are met");
  f.optional(shown).number("planning_ms", row.planning_ms, kNotNegative, "CPU time");
  f.optional(shown).number("internal_slack", row.internal_slack, kAnyNumber,
                           "idle share of the compute inside instances");
  f.optional(shown).number("external_fragmentation", row.external_fragmentation, kAnyNumber,
                           "share of the used GPUs' compute slices in no instance");
  f.optional(shown).or_null().object("worst_paced", row.worst_paced, describe,
                                     "a batch starts when the pace allows");
  f.optional(shown).or_null().object("worst_full", row.worst_full, describe,
                                     "a batch waits until it is full");
  f.optional(shown).list("unfillable", row.unfillable, describe, {},
                         "the worst instance of each service that has such");
}

void describe(Form& f, StatedComparison& comparison) {
  f.document("Comparison");
  f.number("duration_s", comparison.duration_s, kNotNegative, "of the simulated arrivals");
  f.whole("seed", comparison.seed, "of their randomness");
  f.list("planners", comparison.planners, describe, {}, "in the order asked for");
}

void describe(Form& f, StatedBatchStanding& row) {
  f.text("scheduler", row.scheduler, "who scheduled");
  f.boolean("feasible", row.feasible, "there is a schedule");
  f.boolean("ok", row.ok, "the judge found no violation");
  const bool shown = row.feasible && row.ok;
  f.optional(!shown).list("reasons", row.reasons, describe_reason, {},
                          "why there is none, or what is wrong");
  f.optional(shown).number("makespan_s", row.makespan_s, kNotNegative, "the end of the last task");
  f.optional(shown).number("lower_bound_s", row.lower_bound_s, kNotNegative, "0: not stated");
  f.optional(shown).boolean("optimal", row.optimal, "proven that no schedule is shorter");
  f.optional(shown).or_null().number("ratio_to_bound", row.ratio_to_bound, kNotNegative,
                                     "to the best bound; null: unknown");
  f.optional(shown).or_null().number("ratio_to_far", row.ratio_to_far, kNotNegative,
                                     "to FAR's makespan; null: unknown");
  f.optional(shown).integer("creates", row.creates, kNotNegative, "instances");
  f.optional(shown).integer("destroys", row.destroys, kNotNegative, "instances");
  f.optional(shown).number("utilisation", row.utilisation, kNotNegative,
                           "share of the compute slices that tasks keep busy");
  f.optional(shown).number("mean_end_s", row.mean_end_s, kNotNegative, "over the tasks");
  f.optional(shown).integer("late", row.late, kNotNegative, "tasks that miss their deadline");
  f.optional(shown).number("scheduling_ms", row.scheduling_ms, kNotNegative, "CPU time");
}

void describe(Form& f, StatedBatchComparison& comparison) {
  f.document("BatchComparison");
  f.integer("tasks", comparison.tasks, kNotNegative, "of the batch");
  f.integer("gpus", comparison.gpus, kNotNegative, "that it may use");
  f.number("lower_bound_s", comparison.lower_bound_s, kNotNegative,
           "the largest that is proven; 0: none");
  f.list("schedulers", comparison.schedulers, describe, {}, "in the order asked for");
}

}  // namespace

std::string comparison_json(const StatedComparison& comparison) {
  return write_form(comparison, describe, Form::Style::indented);
}

Result<StatedComparison> parse_comparison(const std::string& file, std::string_view text) {
  return read_form<StatedComparison>(file, text, describe);
}

DocumentKind comparison_kind() {
  return document_kind<StatedComparison, describe, "Comparison",
                       "several planners on one problem, under the same traffic">();
}

std::string batch_comparison_json(const StatedBatchComparison& comparison) {
  return write_form(comparison, describe, Form::Style::indented);
}

Result<StatedBatchComparison> parse_batch_comparison(const std::string& file,
                                                     std::string_view text) {
  return read_form<StatedBatchComparison>(file, text, describe);
}

DocumentKind batch_comparison_kind() {
  return document_kind<StatedBatchComparison, describe, "BatchComparison",
                       "several batch schedulers on one batch">();
}

}  // namespace partita::forms
