// Day JSON of day_forms.h.
#include <fmt/format.h>

#include "base/form_rules.h"
#include "forms/clock_time.h"
#include "forms/day_forms.h"
#include "forms/serving_forms.h"

namespace partita::forms {
namespace {

constexpr Range kCounts{.high = 1e9};

// A minute of the day as people write it.
void describe_minute(Form& f, std::string_view key, int& minute, std::string_view about) {
  std::string text = plan::clock_text(minute);
  f.text(key, text, about);
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  const auto read = minute_of(text);
  if (!read) in->refuse(key, fmt::format("'{}' must be a time from 00:00 to 23:59", key));
  minute = read.value_or(0);
}

void describe_bill(Form& f, plan::EnergyBill& bill) {
  f.number("joules", bill.joules, kNotNegative, "expected");
  f.optional(bill.cost.has_value()).number("cost", bill.cost, kAnyNumber, "money, by the prices");
  f.optional(bill.co2_g.has_value()).number("co2_g", bill.co2_g, kNotNegative, "grams of CO2");
}

void describe_energy(Form& f, std::string_view key, std::optional<plan::EnergyBill>& bill,
                     std::string_view about) {
  f.optional(bill.has_value()).object(key, bill, describe_bill, about);
}

void describe(Form& f, plan::DayPeriod& period) {
  describe_minute(f, "from", period.from, "time of day, as 08:00");
  describe_minute(f, "to", period.to, "time of day; not after `from`: over midnight");
  f.number("rate_rps", period.rate.value, kNotNegative, "of all services");
  f.object("plan", period.plan, describe_plan, "a document of kind ServingPlan");
  describe_energy(f, "energy", period.energy, "that the plan takes, by a tariff");
  f.optional(period.weighed_gpu_hours != 0)
      .number("weighed_gpu_hours", period.weighed_gpu_hours, kAnyNumber,
              "of the plan, one being a GPU's hour at the day's mean rate");
}

void describe(Form& f, plan::DayChange& change) {
  describe_minute(f, "at", change.at, "time of day at which the rates change");
  f.integer("kept", change.changes.kept, kCounts, "instances that stay as they are");
  f.integer("restarted", change.changes.restarted, kCounts, "stay, with other processes");
  f.integer("moved", change.changes.moved, kCounts, "are created elsewhere");
  f.integer("created", change.changes.created, kCounts, "are new");
  f.integer("removed", change.changes.removed, kCounts, "go");
  f.integer("stand_ins", change.stand_ins, kCounts, "exist while the change is made");
  f.integer("gpus", change.gpus, kCounts, "in use while it is made");
}

void describe(Form& f, plan::DayPlan& day) {
  f.document("DayPlan");
  f.number("gpu_hours", day.gpu_hours, kNotNegative, "of the day, with those of its changes");
  f.number("peak_gpu_hours", day.peak_gpu_hours, kNotNegative, "of a plan for the peak, all day");
  describe_energy(f, "energy", day.energy, "of the day's plans, by a tariff");
  describe_energy(f, "peak_energy", day.peak_energy, "of a plan for the peak, all day");
  f.integer("peak_gpus", day.peak_gpus, kCounts, "of a plan for the peak");
  f.boolean("peak_optimal", day.peak_optimal, "no plan for the peak is better");
  f.number("change_time_s", day.change_time.value, kNotNegative,
           "before the rates change, and after it");
  f.list("periods", day.periods, describe, {.most = plan::kMinutesOfDay, .least = 1},
         "in the order of the day; the first follows the last");
  f.list("changes", day.changes, describe, {.most = plan::kMinutesOfDay},
         "into each period; none of one period");
}

}  // namespace

std::string day_json(const plan::DayPlan& day) {
  return write_form(day, describe, Form::Style::indented);
}

Result<plan::DayPlan> parse_day(const std::string& file, std::string_view text) {
  return read_form<plan::DayPlan>(file, text, describe);
}

DocumentKind day_kind() {
  return document_kind<plan::DayPlan, describe, "DayPlan",
                       "a plan for every period of a day, and what changes between them">();
}

}  // namespace partita::forms
