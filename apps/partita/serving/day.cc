#include "serving/day.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>

#include "flags.h"
#include "forms/day_forms.h"
#include "progress.h"
#include "reasons.h"
#include "tariff_flags.h"

namespace partita::cli {
namespace {

// Why so many GPUs are not enough: at some time of the day more are in use.
std::vector<plan::Reason> more_than(const plan::DayPlan& day, int max_gpus) {
  std::vector<plan::Reason> reasons;
  const auto report = [&](const std::string& subject, int gpus) {
    if (gpus > max_gpus)
      reasons.push_back({"fleet_count", subject, static_cast<double>(max_gpus),
                         static_cast<double>(gpus), "GPUs at once"});
  };
  for (const plan::DayPeriod& period : day.periods)
    report("from " + plan::clock_text(period.from), period.plan.objective.gpus);
  for (const plan::DayChange& change : day.changes)
    report("change at " + plan::clock_text(change.at), change.gpus);
  return reasons;
}

}  // namespace

void add_day_flags(CLI::App& command, DayFlags& flags) {
  auto* day = flag(command, "--day", flags.day)->excludes("--current")->excludes("--at");
  flag(command, "--change-time", flags.change_time)->default_str(flags.change_time)->needs(day);
  add_tariff_flags(command, flags.tariff)->needs(day);
}

Result<Exit> run_day(Context& context, const DayRun& run, const plan::ServingProblem& problem) {
  const Seconds change_time = TRY(parse_duration("--change-time", run.flags.change_time));
  const auto tariff = TRY(decide::load_tariff(context.files, run.flags.tariff));
  Progress progress(context);
  const auto made =
      TRY(decide::plan_day(problem, {{run.node_budget, progress.watch()}, change_time, tariff}));
  if (!made.day) return refuse(context, run.output, "plan", made.refusals);
  const plan::DayPlan& day = *made.day;
  if (run.max_gpus > 0) {
    const auto reasons = more_than(day, run.max_gpus);
    if (!reasons.empty()) return refuse(context, run.output, "plan", reasons);
  }
  const std::string content =
      run.output.json()  ? forms::day_json(day)
      : run.output.svg() ? forms::day_svg(day)
                         : forms::day_text(day, run.output.file.empty() ? context.width : 100);
  return finish(context, run.output, content);
}

}  // namespace partita::cli
