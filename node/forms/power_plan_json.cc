// PowerPlan JSON of power_forms.h.
#include "base/form_rules.h"
#include "forms/power_forms.h"
#include "hw/topology.h"
#include "profile/workload_profile.h"

namespace partita::forms {
namespace {

constexpr Range kClockMhz{.low = 1, .high = 10'000};
constexpr Range kWattage{.high = 5'000};
constexpr Range kFleetWatts{.high = 1e9};

void describe(Form& f, plan::PowerShare& share) {
  f.name("service", share.service, "who it is for");
  f.integer("units", share.units, {.low = 1, .high = hw::kMaxUnits}, "SMs or CUs that it has");
  f.integer("batch", share.batch, {.low = 1, .high = profile::kMaxBatch},
            "at most so many of those that wait are run at once");
  f.number("rate_rps", share.rate.value, kPositive, "of the service's rate");
}

void describe(Form& f, plan::PowerGpu& gpu) {
  f.number("clock_mhz", gpu.clock.value, kClockMhz, "of all its units");
  f.number("cap_w", gpu.cap.value, kWattage, "what it takes with every share always busy");
  f.number("power_w", gpu.power.value, kWattage, "predicted at these rates");
  f.line("     ").list("shares", gpu.shares, describe,
                       {.most = plan::kMaxPowerServices, .indent = "      ", .least = 1},
                       "the services on it");
}

void describe(Form& f, plan::PowerPlan& plan) {
  f.document("PowerPlan");
  f.line("  ").text("policy", plan.policy, "who chose");
  f.word("gating", plan.gating, {"none", "group", "unit"}, "what happens to units without work");
  f.word("promise", plan.promise, {"queueing", "execution"}, "what within the SLO means");
  f.line("  ").number("power_w", plan.power.value, kFleetWatts, "of all GPUs, used or not");
  f.number("bound_w", plan.bound.value, kFleetWatts, "no plan takes less");
  f.boolean("optimal", plan.optimal, "proven");
  f.integer("unused_gpus", plan.unused_gpus, {.high = plan::kMaxPowerGpus}, "without work");
  f.line("  ")
      .optional(!plan.problem_digest.empty())
      .text("problem_digest", plan.problem_digest, "of what it answers");
  f.line("  ").list("gpus", plan.gpus, describe, {.most = plan::kMaxPowerGpus, .indent = "    "},
                    "with work");
}

}  // namespace

std::string power_plan_json(const plan::PowerPlan& plan) { return write_form(plan, describe); }

Result<plan::PowerPlan> parse_power_plan(const std::string& file, std::string_view text) {
  return read_form<plan::PowerPlan>(file, text, describe);
}

DocumentKind power_plan_kind() {
  return document_kind<plan::PowerPlan, describe, "PowerPlan",
                       "which GPU runs at which clock, and who has which share of it">();
}

}  // namespace partita::forms
