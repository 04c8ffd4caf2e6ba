// The text form of day_forms.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/table.h"
#include "base/terminal.h"
#include "forms/day_forms.h"

namespace partita::forms {
namespace {

constexpr int kChartRows = 10, kMargin = 7, kHoursOfDay = 24;

// GPUs in use at a minute.
int gpus_at(const plan::DayPlan& day, int minute) {
  for (const plan::DayPeriod& period : day.periods) {
    const bool over_midnight = period.to <= period.from;
    const bool inside = over_midnight ? minute >= period.from || minute < period.to
                                      : minute >= period.from && minute < period.to;
    if (inside) return period.plan.objective.gpus;
  }
  return 0;
}

// The GPUs over the day, a column per so many minutes; dots up to the plan for the peak.
std::string chart(const plan::DayPlan& day, int width) {
  const int columns = width >= kMargin + 96 ? 96 : width >= kMargin + 48 ? 48 : kHoursOfDay;
  int most = day.peak_gpus;
  for (const plan::DayPeriod& period : day.periods)
    most = std::max(most, period.plan.objective.gpus);
  const int rows = std::clamp(most, 1, kChartRows);
  std::string text;
  for (int row = rows; row >= 1; --row) {
    // The row is full from this many GPUs on.
    const int level = static_cast<int>(std::ceil(static_cast<double>(most) * row / rows));
    text += fmt::format("{:>{}} ", level, kMargin - 1);
    std::string line;
    for (int column = 0; column < columns; ++column) {
      const int gpus = gpus_at(day, column * plan::kMinutesOfDay / columns);
      line += gpus >= level ? "█" : day.peak_gpus >= level ? "·" : " ";
    }
    text += line + "\n";
  }
  text += repeated(" ", kMargin);
  constexpr int kTick = 6;
  for (int hour = 0; hour < kHoursOfDay; hour += kTick)
    text += fmt::format("{:<{}}", plan::clock_text(hour * 60), columns * kTick / kHoursOfDay);
  while (text.ends_with(' ')) text.pop_back();
  return text + "\n";
}

// "12.3 kWh, 3.75, 4210 g of CO2"
std::string bill_text(const plan::EnergyBill& bill) {
  std::string text = number_text(bill.joules / plan::kJoulesPerKwh) + " kWh";
  if (bill.cost) text += ", money " + number_text(*bill.cost);
  if (bill.co2_g) text += ", " + number_text(*bill.co2_g) + " g of CO2";
  return text;
}

std::string energy_text(const plan::DayPlan& day) {
  if (!day.energy) return {};
  Table table{{"FROM", "KWH", "MONEY", "g OF CO2"}, {}};
  const auto shown = [](const std::optional<double>& value) {
    return value ? number_text(*value) : std::string("-");
  };
  for (const plan::DayPeriod& period : day.periods)
    if (period.energy)
      table.rows.push_back({plan::clock_text(period.from),
                            number_text(period.energy->joules / plan::kJoulesPerKwh),
                            shown(period.energy->cost), shown(period.energy->co2_g)});
  std::string text = "\n" + to_string(table) + "\nenergy a day: " + bill_text(*day.energy);
  if (day.peak_energy) text += "; of one plan for the peak: " + bill_text(*day.peak_energy);
  return text + "\n";
}

}  // namespace

std::string day_text(const plan::DayPlan& day, int width) {
  Table periods{{"FROM", "TO", "RATE /s", "GPUS", "GPCS", "PROVEN"}, {}};
  for (const plan::DayPeriod& period : day.periods) {
    const plan::Objective& objective = period.plan.objective;
    periods.rows.push_back({plan::clock_text(period.from), plan::clock_text(period.to),
                            number_text(period.rate.value), fmt::format("{}", objective.gpus),
                            fmt::format("{}", objective.gpcs), objective.optimal ? "yes" : "no"});
  }
  Table changes{
      {"AT", "KEPT", "RESTARTED", "MOVED", "CREATED", "REMOVED", "STAND-INS", "GPUS MEANWHILE"},
      {}};
  for (const plan::DayChange& one : day.changes) {
    const plan::Changes& c = one.changes;
    std::vector<std::string> row{plan::clock_text(one.at)};
    for (const int count :
         {c.kept, c.restarted, c.moved, c.created, c.removed, one.stand_ins, one.gpus})
      row.push_back(fmt::format("{}", count));
    changes.rows.push_back(std::move(row));
  }
  std::string text = "GPUs over the day (dots: a plan for the peak)\n" + chart(day, width) + "\n" +
                     to_string(periods);
  if (!day.changes.empty()) text += "\n" + to_string(changes);
  const double share = day.peak_gpu_hours > 0 ? day.gpu_hours / day.peak_gpu_hours : 1;
  text += fmt::format(
      "\n{:.1f} GPU-hours a day, {:.2f} of the {:.1f} for the peak ({}{}); {} created and {} "
      "restarted a day\n",
      day.gpu_hours, share, day.peak_gpu_hours, count_text(day.peak_gpus, "GPU"),
      day.peak_optimal ? ", optimal" : "", count_text(plan::creations(day), "instance"),
      plan::restarts(day));
  if (!day.changes.empty() && plan::creations(day) + plan::restarts(day) == 0)
    text += "one plan stays all day: changing it would cost more than it saves\n";
  if (const int most = plan::most_gpus(day); most > day.peak_gpus)
    text += fmt::format(
        "changes take up to {} at once, {} more than one plan for the peak; it saves {:.1f} "
        "GPU-hours a day all the same\n",
        count_text(most, "GPU"), most - day.peak_gpus, day.peak_gpu_hours - day.gpu_hours);
  if (!day.changes.empty())
    text += fmt::format(
        "a change takes {} before the rates change and {} after it; no service has less than "
        "its traffic needs meanwhile (judged)\n",
        duration_text(day.change_time.value), duration_text(day.change_time.value));
  return text + energy_text(day);
}

}  // namespace partita::forms
