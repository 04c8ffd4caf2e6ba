#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/form.h"
#include "base/split.h"
#include "base/table.h"
#include "energy/power_commands.h"
#include "flags.h"
#include "forms/power_picture.h"

namespace partita::cli {
namespace {

using decide::PowerOutcome;

struct PowerSimulateFlags {
  PowerFlags power;
  std::string trace, bin = "10s", duration = "15m", policies, controller = "table";
  std::string poll = "500ms", memory, delay = "0", arrivals = "poisson";
  double guard = 2, clock_cost = 0, unit_cost = 0;
  int hysteresis = 1;
  std::uint64_t seed = 1;
  bool alone = false, at_most = false, require = false;
  Output output;
};

// A service alone, or all together.
struct PowerCase {
  std::string name;
  plan::PowerProblem problem;
  plan::PowerTrace trace;
  std::vector<PowerOutcome> outcomes;
};

Result<Seconds> duration_or_zero(const std::string& flag, const std::string& text) {
  if (text == "0" || text.empty()) return Seconds{0};
  return parse_duration(flag, text);
}

Result<decide::PowerComparison> comparison_of(const PowerSimulateFlags& flags) {
  decide::PowerComparison how;
  how.policies = flags.policies.empty() ? power::policy_names() : split(flags.policies, ',');
  const auto poll = TRY(parse_duration("--poll", flags.poll));
  const auto memory = TRY(duration_or_zero("--memory", flags.memory));
  const auto delay = TRY(duration_or_zero("--delay", flags.delay));
  how.control.poll = poll;
  how.control.memory = memory;
  if (flags.controller == "predictive" && flags.memory.empty()) how.control.memory = {10};
  if (flags.controller == "table" && memory.value > 0)
    return bad_input("--memory", "it is for --controller predictive");
  how.control.guard = flags.guard;
  how.control.rescue = flags.guard > 0;
  how.control.hysteresis = flags.hysteresis;
  how.run.even = flags.arrivals == "uniform";
  how.run.seed = flags.seed;
  how.run.delay = delay;
  how.run.cost = {Joules{flags.clock_cost}, Joules{flags.unit_cost}};
  return how;
}

Result<std::vector<PowerCase>> cases_of(Context& context, const PowerSimulateFlags& flags) {
  auto problem = TRY(load_power(context, flags.power));
  if (flags.at_most) {
    if (problem.services.size() > 1 && !flags.alone)
      return bad_input("--at-most",
                       "services that share a GPU cannot each have all of it: add "
                       "--alone");
    if (auto most = decide::to_most(problem); !most) return failed(most.error());
  }
  const auto duration = TRY(parse_duration("--duration", flags.duration));
  const auto bin = TRY(parse_duration("--bin", flags.bin));
  std::vector<PowerCase> cases;
  if (!flags.alone) cases.push_back({"all", problem, {}, {}});
  for (const plan::PowerService& service : problem.services) {
    if (!flags.alone) break;
    cases.push_back({service.name, problem, {}, {}});
    cases.back().problem.services = {service};
  }
  for (PowerCase& one : cases) {
    if (flags.trace.empty()) {
      one.trace = decide::steady_trace(duration, one.problem.services);
      continue;
    }
    one.trace = TRY(decide::load_power_trace(context.files, {flags.trace, duration, bin},
                                             one.problem.services));
  }
  return cases;
}

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

std::string simulate_text(const PowerSimulateFlags& flags, const std::vector<PowerCase>& cases) {
  Table table{{"SERVICE", "POLICY", "W", "OF FIRST", "KNOWN W", "p ms", "SLO ms", "WITHIN",
               "CLOCK CHANGES", "UNIT CHANGES"},
              {}};
  for (const PowerCase& one : cases)
    for (const PowerOutcome& outcome : one.outcomes)
      for (std::size_t s = 0; s < outcome.run.services.size(); ++s) {
        const sim::PowerRunService& service = outcome.run.services[s];
        const bool first = s == 0;
        table.rows.push_back(
            {service.name, outcome.policy,
             first ? fmt::format("{:.1f}", outcome.run.mean_power().value) : "",
             first ? fmt::format("{:.3f}", outcome.run.energy / one.outcomes.front().run.energy)
                   : "",
             first && outcome.known
                 ? fmt::format("{:.1f}", outcome.known->energy.value / outcome.run.time.value)
                 : (first ? "-" : ""),
             fmt::format("{:.2f}", service.latency.value), fmt::format("{:.2f}", service.slo.value),
             fmt::format("{:.2f} %{}", 100 * service.attained(), service.held() ? "" : " MISSED"),
             first ? fmt::format("{}", outcome.run.clock_changes) : "",
             first ? fmt::format("{}", outcome.run.unit_changes) : ""});
      }
  std::string text = to_string(table);
  if (cases.size() > 1) {
    Table all{{"POLICY", "MEAN W", "OF FIRST (geomean)", "KNOWN W", "WORST WITHIN", "SLOs"}, {}};
    const std::vector<PolicySum> sums = sums_of(cases);
    for (std::size_t p = 0; p < sums.size(); ++p)
      all.rows.push_back({cases.front().outcomes[p].policy, fmt::format("{:.1f}", sums[p].watts),
                          fmt::format("{:.3f}", sums[p].relative),
                          sums[p].all_known ? fmt::format("{:.1f}", sums[p].known) : "-",
                          fmt::format("{:.2f} %", 100 * sums[p].attained),
                          sums[p].held ? "held" : "MISSED"});
    text += "\n" + to_string(all);
  }
  text += fmt::format(
      "\nKNOWN: the same policy if it knew the rates beforehand. Arrivals {}, poll {}, guard {:g}, "
      "seed {}; promise {}.\n",
      flags.arrivals, flags.poll, flags.guard, flags.seed, flags.power.promise);
  const plan::ResponseTable& response = cases.front().problem.table;
  if (response.modelled) text += "The table was " + response.source + "\n";
  return text;
}

void tell_service(Form& f, const sim::PowerRunService& service) {
  f.told("name", service.name);
  f.told("requests", service.requests);
  f.told("late", service.late);
  f.told("latency_ms", service.latency);
  f.told("slo_ms", service.slo);
  f.told("percentile", service.percentile);
  f.told("held", service.held());
}

void tell_outcome(Form& f, const PowerCase& one, const PowerOutcome& outcome) {
  f.told("case", one.name);
  f.told("policy", outcome.policy);
  f.told("gating", to_string(outcome.gating));
  f.told("energy_j", outcome.run.energy);
  f.told("mean_w", outcome.run.mean_power());
  f.told("of_first", outcome.run.energy / one.outcomes.front().run.energy);
  if (outcome.known) {
    f.told("known_j", outcome.known->energy);
    f.optional(outcome.known->bound.value > 0).told("known_bound_j", outcome.known->bound);
  }
  f.told("clock_changes", outcome.run.clock_changes);
  f.told("unit_changes", outcome.run.unit_changes);
  f.line("     ").rows("services", outcome.run.services, tell_service, {.indent = "      "});
}

std::string simulate_json(const PowerSimulateFlags& flags, const std::vector<PowerCase>& cases) {
  std::vector<std::pair<const PowerCase*, const PowerOutcome*>> all;
  for (const PowerCase& one : cases)
    for (const PowerOutcome& outcome : one.outcomes) all.emplace_back(&one, &outcome);
  const auto run = [&](Form& f, std::size_t i) { tell_outcome(f, *all[i].first, *all[i].second); };
  return write_form([&](Form& f) {
    f.document("PowerSimulation");
    f.line("  ").told("seed", static_cast<double>(flags.seed));
    f.told("promise", flags.power.promise);
    f.told("table_modelled", cases.front().problem.table.modelled);
    f.line("  ").rows("runs", all.size(), run, {.indent = "    "});
  });
}

std::string simulate_svg(const PowerSimulateFlags& flags, const PowerCase& one) {
  forms::PowerPicture picture;
  picture.title = "Power over time: " + one.name;
  picture.subtitle = fmt::format("{}, {} arrivals{}", one.problem.table.gpu, flags.arrivals,
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

Result<Exit> run_power_simulate(Context& context, const PowerSimulateFlags& flags) {
  auto cases = TRY(cases_of(context, flags));
  if (flags.output.svg() && cases.size() > 1)
    return bad_input("--format", "svg draws one case: leave --alone out, or give one service");
  auto how = TRY(comparison_of(flags));
  bool held = true;
  for (PowerCase& one : cases) {
    how.run.trace = one.trace;
    one.outcomes = TRY(decide::compare_power(one.problem, how));
    for (const PowerOutcome& outcome : one.outcomes)
      for (const sim::PowerRunService& service : outcome.run.services)
        held = held && service.held();
  }
  const std::string content = flags.output.json()  ? simulate_json(flags, cases)
                              : flags.output.svg() ? simulate_svg(flags, cases.front())
                                                   : simulate_text(flags, cases);
  return finish(context, flags.output, content, flags.require && !held ? Exit::no : Exit::done);
}

void add_trace_flags(CLI::App& command, PowerSimulateFlags& flags) {
  flag(command, "--trace", flags.trace);
  flag(command, "--bin", flags.bin)->default_str(flags.bin);
  flag(command, "--duration", flags.duration)->default_str(flags.duration);
  one_of(flag(command, "--arrivals", flags.arrivals), {"poisson", "uniform"})
      ->default_str(flags.arrivals)
      ->transform([](const std::string& word) { return word == "even" ? "uniform" : word; });
  flag(command, "--alone", flags.alone);
  flag(command, "--at-most", flags.at_most);
  add_seed(command, flags.seed);
}

void add_control_flags(CLI::App& command, PowerSimulateFlags& flags) {
  flag(command, "--policies", flags.policies,
       "Policies between commas (default: baseline,fs,rs-se,rs-cu,cofris-se,cofris-cu,exact)");
  one_of(flag(command, "--controller", flags.controller), {"table", "predictive"})
      ->default_str(flags.controller);
  flag(command, "--look-back", flags.memory);
  flag(command, "--poll", flags.poll)->default_str(flags.poll);
  flag(command, "--delay", flags.delay)->default_str(flags.delay);
  within(flag(command, "--guard", flags.guard), 0, 20)->default_str("2");
  within(flag(command, "--hysteresis-polls", flags.hysteresis), 1, 10'000)->default_str("1");
  within(flag(command, "--clock-cost", flags.clock_cost), 0, 1e6);
  within(flag(command, "--unit-cost", flags.unit_cost), 0, 1e6);
}

}  // namespace

Command add_power_simulate(CLI::App& power) {
  auto [command, flags] = adding<PowerSimulateFlags>(
      power, "simulate", "Run policies of power against arrivals: watts, percentiles, SLOs");
  add_power_flags(*command, flags->power);
  add_trace_flags(*command, *flags);
  add_control_flags(*command, *flags);
  flag(*command, "--strict", flags->require);
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer(
      "partita simulate --services mi50.yaml --table mi50.csv --gpu MI50 --alone --at-most "
      "--trace data/published/swim/fb09-0.csv");
  return {command, [flags](Context& context) { return run_power_simulate(context, *flags); }};
}

}  // namespace partita::cli
