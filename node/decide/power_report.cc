#include "decide/power_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/table.h"
#include "base/tell.h"
#include "forms/power_picture.h"

namespace partita::decide {
namespace {

const char* arrivals(const PowerComparison& how) { return how.run.even ? "uniform" : "poisson"; }

// Watts of a policy relative to the first one, as a geometric mean over the cases.
struct PolicySum {
  double watts = 0, relative = 0, attained = 1, known = 0;
  bool held = true, all_known = true;
};

std::vector<PolicySum> sums_of(const std::vector<PowerCase>& cases) {
  std::vector<PolicySum> sums(cases.front().outcomes.size());
  const auto count = static_cast<double>(cases.size());
  for (const PowerCase& one : cases)
    for (std::size_t p = 0; p < sums.size(); ++p) {
      const PowerOutcome& outcome = one.outcomes[p];
      sums[p].watts += outcome.run.mean_power().value / count;
      sums[p].relative += std::log(outcome.run.energy / one.outcomes.front().run.energy) / count;
      for (const sim::PowerRunService& service : outcome.run.services) {
        sums[p].attained = std::min(sums[p].attained, service.attained());
        sums[p].held = sums[p].held && service.held();
      }
      if (outcome.known)
        sums[p].known += outcome.known->energy.value / outcome.run.time.value / count;
      sums[p].all_known = sums[p].all_known && outcome.known;
    }
  for (PolicySum& sum : sums) sum.relative = std::exp(sum.relative);
  return sums;
}

void tell_service(Form& f, const sim::PowerRunService& service) {
  tell(f, "name", service.name, "requests", service.requests, "late", service.late, "latency_ms",
       service.latency, "slo_ms", service.slo, "percentile", service.percentile, "held",
       service.held());
}

void tell_outcome(Form& f, const PowerCase& one, const PowerOutcome& outcome) {
  tell(f, "case", one.name, "policy", outcome.policy, "gating", to_string(outcome.gating),
       "energy_j", outcome.run.energy, "mean_w", outcome.run.mean_power(), "of_first",
       outcome.run.energy / one.outcomes.front().run.energy);
  if (outcome.known) {
    f.told("known_j", outcome.known->energy);
    f.optional(outcome.known->bound.value > 0).told("known_bound_j", outcome.known->bound);
  }
  tell(f, "clock_changes", outcome.run.clock_changes, "unit_changes", outcome.run.unit_changes);
  f.line("     ").rows("services", outcome.run.services, tell_service, {.indent = "      "});
}

}  // namespace

std::string power_plan_text(const plan::PowerProblem& problem, const plan::PowerPlan& plan) {
  Table table = headed("GPU|MHz|CAP W|W|SERVICE|UNITS|BATCH|RPS");
  for (std::size_t g = 0; g < plan.gpus.size(); ++g) {
    const plan::PowerGpu& gpu = plan.gpus[g];
    for (std::size_t s = 0; s < gpu.shares.size(); ++s) {
      const plan::PowerShare& share = gpu.shares[s];
      std::vector<std::string> row{"", "", "", ""};
      if (s == 0)
        row = {fmt::format("{}", g), fmt::format("{:g}", gpu.clock.value),
               fmt::format("{:g}", gpu.cap.value), fmt::format("{:.1f}", gpu.power.value)};
      row.insert(row.end(),
                 {share.service, fmt::format("{}", share.units), fmt::format("{}", share.batch),
                  fmt::format("{:.6g}", share.rate.value)});
      table.rows.push_back(std::move(row));
    }
  }
  std::string text = to_string(table);
  text +=
      fmt::format("\n{} of {} GPUs have work; {:.1f} W", plan.gpus.size(),
                  plan.gpus.size() + static_cast<std::size_t>(plan.unused_gpus), plan.power.value);
  if (plan.unused_gpus > 0) text += fmt::format(", the {} others included", plan.unused_gpus);
  if (plan.optimal)
    text += "; proven least";
  else if (plan.bound.value > 0)
    text += fmt::format("; no plan takes less than {:.1f} W ({:.2f} % off)", plan.bound.value,
                        100 * (plan.power / plan.bound - 1));
  text += fmt::format("\npolicy {}, gating {}, promise {}\n", plan.policy, to_string(plan.gating),
                      to_string(plan.promise));
  if (plan.gating != plan::Gating::none)
    text += "No GPU that is sold lets users gate units: these watts are what it would take.\n";
  if (problem.table.modelled) text += "The table was " + problem.table.source + "\n";
  return text;
}

bool all_held(const PowerCase& one) {
  return std::ranges::all_of(one.outcomes, [](const PowerOutcome& outcome) {
    return std::ranges::all_of(outcome.run.services, &sim::PowerRunService::held);
  });
}

std::string power_cases_text(const std::vector<PowerCase>& cases, const PowerComparison& how,
                             const std::string& poll) {
  Table table =
      headed("SERVICE|POLICY|W|OF FIRST|KNOWN W|p ms|SLO ms|WITHIN|CLOCK CHANGES|UNIT CHANGES");
  for (const PowerCase& one : cases)
    for (const PowerOutcome& outcome : one.outcomes)
      for (std::size_t s = 0; s < outcome.run.services.size(); ++s) {
        const sim::PowerRun& run = outcome.run;
        const sim::PowerRunService& service = run.services[s];
        table.add(
            "{}|{}|{:.1f}|{:.3f}|{}|{:.2f}|{:.2f}|{:.2f} %{}|{}|{}", service.name, outcome.policy,
            run.mean_power().value, run.energy / one.outcomes.front().run.energy,
            outcome.known ? fmt::format("{:.1f}", outcome.known->energy.value / run.time.value)
                          : "-",
            service.latency.value, service.slo.value, 100 * service.attained(),
            service.held() ? "" : " MISSED", run.clock_changes, run.unit_changes);
        if (s > 0)  // of all services together
          for (const unsigned column : {2u, 3u, 4u, 8u, 9u}) table.rows.back()[column].clear();
      }
  std::string text = to_string(table);
  if (cases.size() > 1) {
    Table all = headed("POLICY|MEAN W|OF FIRST (geomean)|KNOWN W|WORST WITHIN|SLOs");
    const std::vector<PolicySum> sums = sums_of(cases);
    for (std::size_t p = 0; p < sums.size(); ++p)
      all.add("{}|{:.1f}|{:.3f}|{}|{:.2f} %|{}", cases.front().outcomes[p].policy, sums[p].watts,
              sums[p].relative, sums[p].all_known ? fmt::format("{:.1f}", sums[p].known) : "-",
              100 * sums[p].attained, sums[p].held ? "held" : "MISSED");
    text += "\n" + to_string(all);
  }
  text += fmt::format(
      "\nKNOWN: the same policy if it knew the rates beforehand. Arrivals {}, poll {}, guard {:g}, "
      "seed {}; promise {}.\n",
      arrivals(how), poll, how.control.guard, how.run.seed,
      to_string(cases.front().problem.promise));
  const plan::ResponseTable& response = cases.front().problem.table;
  if (response.modelled) text += "The table was " + response.source + "\n";
  return text;
}

std::string power_cases_json(const std::vector<PowerCase>& cases, const PowerComparison& how) {
  std::vector<std::pair<const PowerCase*, const PowerOutcome*>> all;
  for (const PowerCase& one : cases)
    for (const PowerOutcome& outcome : one.outcomes) all.emplace_back(&one, &outcome);
  const auto run = [&](Form& f, std::size_t i) { tell_outcome(f, *all[i].first, *all[i].second); };
  return write_form([&](Form& f) {
    f.document("PowerSimulation");
    tell(f.line("  "), "seed", static_cast<double>(how.run.seed), "promise",
         to_string(cases.front().problem.promise), "table_modelled",
         cases.front().problem.table.modelled);
    f.line("  ").rows("runs", all.size(), run, {.indent = "    "});
  });
}

std::string power_case_svg(const PowerCase& one, const PowerComparison& how) {
  forms::PowerPicture picture;
  picture.title = "Power over time: " + one.name;
  picture.subtitle = fmt::format("{}, {} arrivals{}", one.problem.table.gpu, arrivals(how),
                                 one.problem.table.modelled ? "; modelled, not measured" : "");
  for (const PowerOutcome& outcome : one.outcomes) {
    forms::PowerCurve curve{
        fmt::format("{}: {:.1f} W", outcome.policy, outcome.run.mean_power().value), {}};
    for (const sim::PowerRunBin& bin : outcome.run.bins) curve.watts.push_back(bin.power.value);
    picture.curves.push_back(std::move(curve));
  }
  for (const sim::PowerRunBin& bin : one.outcomes.front().run.bins)
    picture.rps.push_back(bin.rate.value);
  return forms::power_svg(picture);
}

}  // namespace partita::decide
