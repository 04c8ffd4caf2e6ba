#include "heat/dtm/dtm_forms.h"

#include "base/form_rules.h"

namespace partita::dtm {
namespace {

constexpr Range kShareOf1{.high = 1};

void describe(Form& f, StatedClockShare& clock) {
  f.number("mhz", clock.mhz, kPositive, "of the step");
  f.number("share", clock.share, {.high = 1.000001}, "of the run's time");
}

void describe(Form& f, StatedTenantHeat& tenant) {
  f.name("name", tenant.name, "of the tenant");
  f.number("energy_j", tenant.energy_j, kNotNegative, "of its blocks above idle");
  f.number("throttle_share", tenant.throttle_share, {.high = 1.000001},
           "of the work lost to throttling that its heat caused");
}

void describe(Form& f, StatedDtmRun& run) {
  f.name("workload", run.workload, "which one");
  f.name("governor", run.governor, "step, pid or predictive");
  f.number("percent", run.percent, {.high = 100}, "by which the cap is below the own maximum");
  f.number("cap_c", run.cap_c, kAnyNumber, "degrees Celsius");
  f.boolean("can_be_met", run.can_be_met, "whether the lowest clock would do in the long run");
  f.number("slowdown", run.slowdown, kNotNegative, "time over that at the highest clock");
  f.number("seconds", run.seconds, kNotNegative, "until the work was done");
  f.number("energy_j", run.energy_j, kNotNegative, "of the whole chip");
  f.number("energy_ratio", run.energy_ratio, kNotNegative, "over that at the highest clock");
  f.number("over_cap_s", run.over_cap_s, kNotNegative, "hotter than the cap");
  f.number("worst_over_k", run.worst_over_k, kNotNegative, "by how much, at worst");
  f.number("max_c", run.max_c, kAnyNumber, "of the hottest block");
  f.number("mean_c", run.mean_c, kAnyNumber, "of the hottest block, over time");
  f.boolean("finished", run.finished, "false: given up after the most epochs of a run");
  f.list("clocks", run.clocks, describe, {}, "the steps that were used");
  f.optional(!run.tenants.empty())
      .list("tenants", run.tenants, describe, {}, "who heated, and who throttled");
}

void describe(Form& f, StatedHotWork& work) {
  f.name("name", work.name, "of the workload");
  f.number("memory_share", work.memory_share, kShareOf1, "of its time that no clock shortens");
  f.number("seconds", work.seconds, kNotNegative, "at the highest clock");
  f.number("energy_j", work.energy_j, kNotNegative, "at the highest clock");
  f.number("max_c", work.max_c, kAnyNumber, "of the hottest block at the highest clock");
  f.number("lowest_c", work.lowest_c, kAnyNumber,
           "of the hottest block, settled at the lowest clock: no cap below can be met");
}

void describe(Form& f, StatedDtm& study) {
  f.document("DtmReport");
  f.text("caps_of", study.caps_of, "what the percentages are of: rise (above ambient) or celsius");
  f.number("ambient_c", study.ambient_c, kAnyNumber, "around the chip");
  f.number("idle_c", study.idle_c, kAnyNumber, "hottest block with idle power alone");
  f.number("epoch_ms", study.epoch_ms, kPositive, "between two settings of the clock");
  f.integer("blocks", study.blocks, kPositive, "of the chip");
  f.integer("states", study.states, kPositive, "of the reduced thermal model");
  f.whole("epochs", study.epochs, kNotNegative, "simulated in all");
  f.optional(study.epochs_per_second > 0)
      .number("epochs_per_second", study.epochs_per_second, kNotNegative, "of the simulation");
  f.list("workloads", study.workloads, describe, {.indent = "    "}, "at the highest clock");
  f.list("runs", study.runs, describe, {.indent = "    "}, "one per workload, governor and cap");
}

}  // namespace

std::string dtm_json(const StatedDtm& study) { return write_form(study, describe); }

Result<StatedDtm> parse_dtm(const std::string& file, std::string_view text) {
  return read_form<StatedDtm>(file, text, describe);
}

DocumentKind dtm_kind() {
  return document_kind<StatedDtm, describe, "DtmReport",
                       "what caps on a chip's temperature cost">();
}

}  // namespace partita::dtm
