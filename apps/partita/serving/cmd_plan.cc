#include <filesystem>

#include "base/input_output.h"
#include "base/large_pages.h"
#include "base/shell_word.h"
#include "commands.h"
#include "decide/advice.h"
#include "decide/comparison_report.h"
#include "decide/day.h"
#include "decide/day_verdict.h"
#include "decide/doubts.h"
#include "decide/gpu_costs.h"
#include "decide/layout_file.h"
#include "decide/other_traffic.h"
#include "decide/reasons.h"
#include "decide/serving.h"
#include "decide/serving_inputs.h"
#include "decide/serving_report.h"
#include "decide/simulate.h"
#include "forms/day_forms.h"
#include "forms/serving_forms.h"
#include "plan/predictions.h"
#include "planners/batch/scheduler.h"
#include "planners/serving/planner.h"
#include "profile/workload_profile.h"
#include "progress.h"
#include "show/rows.h"
#include "sim/report_forms.h"

namespace partita::cli {
namespace {

// The flags that name the inputs of serving commands.
struct PlanFlags {
  std::string plan;  // path
  decide::ProblemFiles problem;
};

// `partita plan --day`: its flags, and what it does.
struct DayFlags {
  bool day = false;
  std::string change_time = "5m";
  decide::TariffFiles tariff;
};

// `partita plan --current`: its flags, and what it prints of the changes and of the trade-off
// between GPUs and moves.
struct ReplanFlags {
  std::string current;  // path; empty: plan from scratch
  int max_moves = -1;   // -1: as many as needed
};

void add_problem_flags(CLI::App& command, decide::ProblemFiles& flags) {
  flag(command, "--services", flags.services)->required();
  auto* profiles = flag(command, "--profiles", flags.profiles);
  flag(command, "--fleet", flags.fleet)->excludes(profiles);
  takes(command, "--slo-rule", flags.rule, "--max-processes",
        limited(flags.max_processes, 1, profile::kMaxProcesses), "--survive",
        limited(flags.survive, 0, plan::kMostLost), "--at", flags.at, "--gpu-costs",
        flags.objective.costs, "--power-table", flags.objective.power_table, "--catalogue",
        flags.catalogue);
}

// --dispatch; `what` opens the help text.
void add_dispatch(CLI::App& command, std::string& dispatch) {
  one_of(flag(command, "--dispatch", dispatch), {"pooled", "paced", "shared-queue", "per-process"});
}

// PLAN and the problem flags (the GPU model is the plan's).
void add_plan_flags(CLI::App& command, PlanFlags& flags) {
  file_argument(command, "PLAN", flags.plan,
                "A plan (JSON), as `partita plan --format json` writes it")
      ->required();
  add_problem_flags(command, flags.problem);
}

// Warnings about inputs that are probably not meant, on standard error.
void say_doubts(Context& context, const plan::ServingProblem& problem,
                const decide::ProblemFiles& flags) {
  for (const std::string& doubt : decide::doubts(problem, flags.services))
    complain(context, "warning: " + doubt);
}

// What of the plan rests on predictions, on standard error.
void say_predictions(Context& context, const std::string& file, const plan::ServingPlan& plan) {
  const std::string predictions = plan::predictions_text(plan);
  if (!predictions.empty()) complain(context, fmt::format("{}: {}", file, predictions));
}

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

void add_day_flags(CLI::App& command, DayFlags& flags) {
  auto* day = flag(command, "--day", flags.day)->excludes("--current")->excludes("--at");
  flag(command, "--change-time", flags.change_time)->default_str(flags.change_time)->needs(day);
  add_tariff_flags(command, flags.tariff)->needs(day);
}

using planners::serving::CurvePoint;

void add_replan_flags(CLI::App& command, ReplanFlags& flags) {
  auto* current = flag(command, "--current", flags.current);
  within(flag(command, "--max-moves", flags.max_moves), 0, 1e6)->needs(current);
}

// What the plan's document says of it, in the key `incremental`.
forms::PlanChanges changes_of(const decide::MadeAgain& outcome) {
  const planners::serving::Changes& c = outcome.changes;
  forms::PlanChanges changes{c.kept, c.restarted, c.moved, c.created, c.removed, {}};
  for (const CurvePoint& point : outcome.curve)
    changes.curve.push_back(
        {point.gpus, point.cost, point.moves, point.lower_bound, point.proven()});
  return changes;
}

// For people: what is kept, moved, created and removed, and the curve.
std::string changes_text(const decide::MadeAgain& outcome) {
  const planners::serving::Changes& c = outcome.changes;
  Table table = headed("GPUS|TO CREATE|AT LEAST|PROVEN");
  for (const CurvePoint& point : outcome.curve)
    table.add("{}|{}|{}|{}", point.gpus, point.moves, point.lower_bound,
              point.proven() ? "yes" : "no");
  return fmt::format("\ninstances: {} kept, {} restarted, {} moved, {} created, {} removed\n{}",
                     c.kept, c.restarted, c.moved, c.created, c.removed,
                     table.rows.empty() ? "" : "\n" + to_string(table));
}

struct PlanCommandFlags {
  decide::ProblemFiles problem;
  ReplanFlags replan;
  DayFlags day;
  std::string planner = "exact";
  int max_gpus = 0;  // 0: as many as needed
  long node_budget = decide::PlanOptions{}.node_budget;
  bool explain = false;
  Output output;
};

// Plans the problem's day and writes it.
Result<Exit> run_day(Context& context, const PlanCommandFlags& flags,
                     const plan::ServingProblem& problem) {
  const Seconds change_time = TRY(parse_duration("--change-time", flags.day.change_time));
  const auto tariff = TRY(decide::load_tariff(context.files, flags.day.tariff));
  Progress progress(context);
  const auto made =
      TRY(decide::plan_day(problem, {{flags.node_budget, progress.watch()}, change_time, tariff}));
  if (!made.day) return refuse(context, flags.output, "plan", made.refusals);
  const plan::DayPlan& day = *made.day;
  if (flags.max_gpus > 0) {
    const auto reasons = more_than(day, flags.max_gpus);
    if (!reasons.empty()) return refuse(context, flags.output, "plan", reasons);
  }
  return finish(context, flags.output,
                flags.output.json() ? forms::day_json(day)
                : flags.output.svg()
                    ? forms::day_svg(day)
                    : forms::day_text(day, flags.output.file.empty() ? context.width : 100));
}

struct Said {
  const decide::MadeAgain& result;  // with a plan
  plan::ServingPlan plan;           // it, with what becomes of it above its rates
  std::vector<plan::SloAdvice> advice;
};

// Everything that is said of a plan: itself, what it changes, what longer SLOs would save.
std::string content_of(const Context& context, const PlanCommandFlags& flags,
                       const hw::Catalogue& catalogue, const Said& said) {
  const plan::ServingPlan& plan = said.plan;
  const bool again = !flags.replan.current.empty();
  if (flags.output.json())
    return forms::plan_json(plan, again ? std::optional(changes_of(said.result)) : std::nullopt,
                            said.advice);
  if (flags.output.svg()) return forms::plan_svg(plan, catalogue);
  const bool shown = flags.output.file.empty();
  const int width = shown ? context.width : forms::PictureOptions{}.width;
  std::string content = forms::plan_text(
      plan, catalogue,
      {.colour = context.colour && shown, .explain = flags.explain, .width = width});
  if (std::ranges::all_of(plan.services, [](const auto& one) { return one.overload.empty(); }))
    content += "above these rates: not computed; `partita simulate --load 1.05` plays it\n";
  if (!said.advice.empty()) content += "\n" + forms::advice_text(said.advice, width);
  return again ? content + changes_text(said.result) : content;
}

// Plans; with --current from what runs.
Result<decide::MadeAgain> make(Context& context, const PlanCommandFlags& flags,
                               const planners::serving::Planner& planner,
                               const plan::ServingProblem& problem,
                               const hw::Catalogue& catalogue) {
  const ReplanFlags& again = flags.replan;
  Progress progress(context);
  decide::PlanOptions options{flags.node_budget, progress.watch()};
  if (flags.max_gpus > 0) options.most_gpus = std::min(options.most_gpus, flags.max_gpus);
  if (again.current.empty()) {
    auto made = TRY(decide::make_plan(planner, problem, options));
    return decide::MadeAgain{std::move(made), {}, {}};
  }
  auto layout = TRY(decide::load_layout(context.files, "--current", again.current, catalogue));
  const plan::ServingPlan current = decide::running(std::move(layout));
  if (const std::string others = decide::serves_others(current, problem); !others.empty())
    complain(context, again.current + ": " + others);
  return decide::make_plan_again(
      problem, current, again.max_moves >= 0 ? std::optional(again.max_moves) : std::nullopt,
      options);
}

// Of plans from scratch, where it is shown.
std::vector<plan::SloAdvice> advice_on(Context& context, const PlanCommandFlags& flags,
                                       const planners::serving::Planner& planner,
                                       const plan::ServingProblem& problem,
                                       const plan::ServingPlan& plan) {
  if (!flags.replan.current.empty() || flags.output.svg() || problem.goal) return {};
  Progress progress(context);
  return decide::advise(planner, problem, plan, {flags.node_budget, progress.watch()});
}

// plan.svg, plan-2.svg, ... for a plan of many GPUs; standard output takes the first page only.
Result<void> deliver_pages(Context& context, const Output& output, const hw::Catalogue& catalogue,
                           const plan::ServingPlan& plan) {
  const int pages = output.svg() ? forms::plan_svg_pages(plan) : 1;
  if (pages > 1 && output.file.empty())
    complain(context, fmt::format("page 1 of {}; -o FILE.svg writes them all", pages));
  for (int page = 1; page < pages && !output.file.empty(); ++page) {
    const std::filesystem::path file(output.file);
    const auto name =
        fmt::format("{}-{}{}", file.stem().string(), page + 1, file.extension().string());
    auto written =
        write_output((file.parent_path() / name).string(), forms::plan_svg(plan, catalogue, page));
    if (!written) return written;
  }
  return {};
}

// What least cost and least watts are planned with.
Result<void> check_objective(const PlanCommandFlags& flags) {
  const std::string& objective = flags.problem.objective.objective;
  if (objective.empty() || objective == "gpus") return {};
  if (flags.planner != "exact")
    return bad_input("--objective", objective + " is planned with the planner 'exact' only");
  if (!flags.replan.current.empty())
    return bad_input("--objective",
                     objective +
                         " is not planned from what runs (--current), which counts instances that "
                         "are made: plan from nothing, apply keeps what is equal");
  if (flags.day.day)
    return bad_input("--objective",
                     objective +
                         " is not planned over a day (--day), whose periods are plans on "
                         "the fewest GPUs: --prices weighs the energy that they take");
  return {};
}

// The models that a plan may name: all that there are when it begins with what runs.
Result<hw::Catalogue> models_for(Context& context, const PlanCommandFlags& flags,
                                 const plan::ServingProblem& problem) {
  if (!flags.replan.current.empty())
    return decide::load_catalogue(context.files, flags.problem.catalogue);
  return decide::catalogue_of(problem);
}

Result<Exit> run_plan(Context& context, const PlanCommandFlags& flags) {
  keep_freed_memory();
  const bool again = !flags.replan.current.empty();
  TRY(check_objective(flags));
  const auto planner = TRY(decide::find_planner("--planner", flags.planner));
  if (again && flags.planner != "exact")
    return bad_input("--planner", "--current plans with the planner 'exact' only");
  if (flags.day.day && flags.planner != "exact")
    return bad_input("--planner", "--day plans with the planner 'exact' only");
  decide::ProblemFiles files = flags.problem;
  files.objective.watts = !flags.day.tariff.prices.empty();
  std::vector<std::string> left_out;
  auto problem = TRY(decide::load_problem(context.files, files, &left_out));
  for (const std::string& sentence : left_out) complain(context, "note: " + sentence);
  if (flags.problem.rule.empty() && flags.problem.dispatch.empty())
    problem.rule = decide::rule_for(*planner, std::nullopt);
  say_doubts(context, problem, flags.problem);
  if (flags.day.day) return run_day(context, flags, problem);
  const auto catalogue = TRY(models_for(context, flags, problem));
  const auto result = TRY(make(context, flags, *planner, problem, catalogue));
  if (!result.made.plan) return refuse(context, flags.output, "plan", result.made.refusals);
  const plan::ServingPlan& plan = **result.made.plan;
  if (flags.max_gpus > 0) {
    const auto too_many = decide::too_many_gpus(plan, flags.max_gpus);
    if (!too_many.empty()) return refuse(context, flags.output, "plan", too_many);
  }
  const Said said{result, decide::with_overload(problem, *result.made.plan),
                  advice_on(context, flags, *planner, problem, plan)};
  const std::string content = content_of(context, flags, catalogue, said);
  TRY(deliver(context, flags.output, content));
  TRY(deliver_pages(context, flags.output, catalogue, plan));
  return Exit::done;
}

struct CompareFlags {
  decide::ProblemFiles problem;
  std::optional<std::string> planners;  // none: those that can plan all of the services
  std::string duration = "60s";
  decide::CompareOptions options;
  Output output;
};

Result<Exit> run_compare(Context& context, const CompareFlags& flags) {
  decide::CompareOptions options = flags.options;
  options.duration = TRY(parse_duration("--duration", flags.duration));
  const auto problem = TRY(decide::load_problem(context.files, flags.problem));
  const bool unasked = flags.problem.rule.empty() && flags.problem.dispatch.empty();
  const auto asked = unasked ? std::nullopt : std::optional(problem.rule);
  const std::string planners =
      flags.planners ? *flags.planners : decide::usual_contestants(problem);
  const auto contestants = TRY(decide::parse_contestants("--planners", planners, asked));
  const auto standings =
      TRY(decide::compare(problem, contestants, options, Progress(context).watch()));
  const auto content =
      TRY(wants_document(flags.output)
              ? document_as(flags.output, decide::comparison_json(standings, options))
              : decide::comparison_text(standings, options));
  const bool any = std::ranges::any_of(
      standings, [](const decide::Standing& standing) { return standing.made.plan.has_value(); });
  return finish(context, flags.output, content, any ? Exit::done : Exit::no);
}

struct VerifyFlags {
  PlanFlags plan;
  Output output;
};

Result<Exit> verify_day(Context& context, const VerifyFlags& flags, const plan::DayPlan& day) {
  const auto judged =
      TRY(decide::judge_day(context.files, flags.plan.plan, day, flags.plan.problem));
  say_doubts(context, judged.problem, flags.plan.problem);
  return say_verdict(
      context, flags.output, flags.plan.plan,
      fmt::format("ok: {} services, {} periods on {} GPUs at most, no violation\n",
                  judged.problem.services.size(), day.periods.size(), plan::most_gpus(day)),
      judged.violations);
}

Result<Exit> run_verify(Context& context, const VerifyFlags& flags) {
  const std::string& file = flags.plan.plan;
  const auto text = TRY(read_input(context.files, "PLAN", file));
  if (flags.plan.problem.at.empty())
    if (const auto day = forms::parse_day(file, text)) return verify_day(context, flags, *day);
  auto plan = TRY(decide::parse_plan_at(file, text, flags.plan.problem.at));
  const auto [problem, verdict] =
      TRY(decide::judge_plan(context.files, file, std::move(plan), flags.plan.problem));
  say_doubts(context, problem, flags.plan.problem);
  if (verdict) say_predictions(context, flags.plan.plan, **verdict);
  const std::string ok =
      verdict ? fmt::format("ok: {} on {}, no violation ({})\n",
                            count_text(std::ssize(problem.services), "service"),
                            count_text(std::ssize((*verdict)->gpus), "GPU"),
                            plan::to_string(problem.rule))
              : std::string{};
  const bool shared = verdict && plan::shares_gpus(**verdict);
  const std::string note = shared ? fmt::format("{}\n", plan::kSharesJudged) : std::string{};
  return say_verdict(context, flags.output, flags.plan.plan, ok + note,
                     verdict ? std::vector<plan::Reason>{} : verdict.error().violations);
}

struct SimulateFlags {
  PlanFlags plan;
  std::string duration = "60s";
  decide::OtherTraffic traffic;
  std::string batching = "paced";
  std::string dispatch;  // empty: the plan's
  sim::ServingOptions options;
  bool no_shed = false;
  double require = 0;
  Output output;
};

Result<sim::ServingOptions> options_of(const SimulateFlags& flags) {
  sim::ServingOptions options = flags.options;
  options.duration = TRY(parse_duration("--duration", flags.duration));
  options.shed = !flags.no_shed;
  options.batching = flags.batching == "full" ? sim::BatchingKind::full : sim::BatchingKind::paced;
  if (!flags.dispatch.empty()) options.dispatch = TRY(plan::parse_dispatch(flags.dispatch));
  return options;
}

// `when`: " from 08:00" of a plan for a day.
Exit missed(Context& context, const sim::ServingReport& report, double require,
            const std::string& when = {}) {
  Exit exit = Exit::done;
  for (const sim::ServiceReport& service : report.services) {
    if (service.slo_attainment >= require) continue;
    complain(context, fmt::format("service {}{}: slo_attainment: have {:.6f}, need {}",
                                  service.name, when, service.slo_attainment, require));
    exit = Exit::no;
  }
  return exit;
}

// What nobody asked for keeps no requirement.
Exit unasked(Context& context, const std::map<std::string, long>& offered, double require) {
  Exit exit = Exit::done;
  for (const auto& [service, requests] : offered) {
    if (require <= 0 || requests > 0) continue;
    complain(context, fmt::format("service {}: nothing is asked, so nothing is known; a longer "
                                  "--duration or a higher --load asks",
                                  service));
    exit = Exit::no;
  }
  return exit;
}

struct Played {
  decide::PlayedTraffic traffic;
  decide::Timed<sim::ServingReport> timed;
};

// The plan under the flags' traffic; none: it is broken, which has been said. `doubts`: what it
// rests on is said, too.
Result<std::optional<Played>> play_plan(Context& context, const SimulateFlags& flags,
                                        plan::ServingPlan plan, const decide::ProblemFiles& inputs,
                                        bool doubts) {
  const sim::ServingOptions options = TRY(options_of(flags));
  const auto [problem, verdict] =
      TRY(decide::judge_plan(context.files, flags.plan.plan, std::move(plan), inputs));
  auto played = TRY(decide::play(context.files, problem, flags.traffic, options));
  if (!verdict) {
    complain(context, decide::reasons_text(flags.plan.plan + ": the plan is broken:",
                                           verdict.error().violations));
    return std::optional<Played>{};
  }
  if (doubts) {
    say_doubts(context, problem, inputs);
    say_predictions(context, flags.plan.plan, **verdict);
  }
  auto timed = TRY(
      decide::simulate(played.problem, *verdict, played.options, Progress(context).watch().cpu_ms));
  timed.report.load = flags.traffic.load;
  return std::optional(Played{std::move(played), std::move(timed)});
}

Result<Exit> simulate_plan(Context& context, const SimulateFlags& flags, plan::ServingPlan plan) {
  const auto played = TRY(play_plan(context, flags, std::move(plan), flags.plan.problem, true));
  if (!played) return Exit::no;
  const auto& [traffic, timed] = *played;
  const std::string content = TRY(
      wants_document(flags.output)
          ? document_as(flags.output,
                        sim::report_json(timed.report, flags.options.seed, timed.events_per_second))
      : flags.output.svg() ? decide::report_svg(traffic.problem, timed.report, traffic.options)
                           : decide::report_text(traffic.problem, timed.report, traffic.options));
  TRY(deliver(context, flags.output, content));
  std::map<std::string, long> offered;
  for (const sim::ServiceReport& one : timed.report.services) offered[one.name] = one.offered;
  const Exit asked = unasked(context, offered, flags.require);
  const Exit met = missed(context, timed.report, flags.require);
  return asked == Exit::done ? met : asked;
}

// A row for each period: what was asked for in it, and whom it served worst.
std::string day_report_text(const SimulateFlags& flags, const sim::StatedDayReport& day) {
  Table table = headed("FROM|TO|GPUS|OFFERED|COMPLETED|WORST SERVICE|IN SLO|p99 ms");
  for (const sim::StatedDayReport::Period& period : day.periods) {
    long offered = 0, completed = 0;
    const auto& services = period.report.services;
    for (const sim::ServiceReport& service : services) {
      offered += service.offered;
      completed += service.completed;
    }
    const auto worst = std::min_element(
        services.begin(), services.end(),
        [](const auto& a, const auto& b) { return a.slo_attainment < b.slo_attainment; });
    table.add("{}|{}|{}|{}|{}|{}|{}|{:.1f}", period.from, period.to, period.gpus, offered,
              completed, worst->name, offered > 0 ? decide::percent(worst->slo_attainment) : "-",
              worst->p99.value);
  }
  return to_string(table) +
         fmt::format("\n{} of each period, load {:g}, seed {}; changes are for `verify`\n",
                     flags.duration, flags.traffic.load, flags.options.seed);
}

Result<Exit> simulate_day(Context& context, const SimulateFlags& flags, plan::DayPlan day) {
  if (flags.output.svg())
    return bad_input("--format", "svg shows one plan: --at HH:MM says whose of the day's");
  sim::StatedDayReport report;
  Exit exit = Exit::done;
  std::map<std::string, long> offered;
  for (plan::DayPeriod& period : day.periods) {
    decide::ProblemFiles inputs = flags.plan.problem;
    inputs.at = plan::clock_text(period.from);
    const int gpus = period.plan.objective.gpus;
    const auto played =
        TRY(play_plan(context, flags, std::move(period.plan), inputs, report.periods.empty()));
    if (!played) return Exit::no;
    const auto& timed = played->timed;
    report.periods.push_back(
        {inputs.at, plan::clock_text(period.to), gpus,
         sim::stated(timed.report, flags.options.seed, timed.events_per_second)});
    if (missed(context, timed.report, flags.require, " from " + inputs.at) != Exit::done)
      exit = Exit::no;
    for (const sim::ServiceReport& one : timed.report.services) offered[one.name] += one.offered;
  }
  if (unasked(context, offered, flags.require) != Exit::done) exit = Exit::no;
  const std::string content =
      TRY(wants_document(flags.output) ? document_as(flags.output, sim::report_json(report))
                                       : day_report_text(flags, report));
  return finish(context, flags.output, content, exit);
}

Result<Exit> run_simulate(Context& context, const SimulateFlags& flags) {
  const std::string& file = flags.plan.plan;
  const auto text = TRY(read_input(context.files, "PLAN", file));
  if (flags.plan.problem.at.empty())
    if (auto day = forms::parse_day(file, text))
      return simulate_day(context, flags, *std::move(day));
  auto plan = TRY(decide::parse_plan_at(file, text, flags.plan.problem.at));
  return simulate_plan(context, flags, std::move(plan));
}

Result<Exit> run_planners(Context& context, const Output& output) {
  Table planners = headed("PLANNER|WHAT IT DOES|SLO RULE|SOURCE");
  const auto rule_of = [](const planners::serving::Planner& planner) {
    return planner.own_rule ? plan::to_string(*planner.own_rule) : std::string("any");
  };
  for (const auto& planner : planners::serving::planners())
    planners.rows.push_back({planner.name, planner.summary, rule_of(planner), planner.source});
  Table schedulers = headed("SCHEDULER|WHAT IT DOES|SOURCE");
  for (const auto& scheduler : planners::batch::schedulers()) {
    const std::string arguments = scheduler.arguments.empty() ? "" : ":" + scheduler.arguments;
    schedulers.add("{}|{}|{}", scheduler.name + arguments, scheduler.summary, scheduler.source);
  }
  const std::string text = "Of services:\n\n" + to_string(planners) +
                           "\nOf batches of tasks:\n\n" + to_string(schedulers);
  const auto document = [&](Form& f) {
    f.document("Planners");
    f.rows("planners", planners::serving::planners(),
           [&](Form& g, const auto& one) {
             tell(g, "name", one.name, "summary", one.summary, "source", one.source, "slo_rule",
                  rule_of(one));
           },
           {});
    f.rows("schedulers", planners::batch::schedulers(),
           [](Form& g, const auto& one) {
             tell(g, "name", one.name, "arguments", one.arguments, "summary", one.summary, "source",
                  one.source);
           },
           {});
  };
  return finish(context, output,
                output.json() ? write_form(document, Form::Style::indented) : text);
}

// `partita init`: files to start from, for one's own services.

constexpr std::string_view kFirstServices =
#include "demo_first_services.inc"
    ;
// Predicted by data/profiles/a100-80gb.json.
constexpr std::string_view kFirstProfiles =
#include "demo_first_profiles.inc"
    ;

Result<Exit> run_init(Context& context, const std::string& directory) {
  const std::string base = directory == "."           ? ""
                           : directory.ends_with('/') ? directory
                                                      : directory + "/";
  const std::string services = base + "services.yaml", profiles = base + "profiles.csv";
  for (const std::string& file : {services, profiles})
    if (context.files.exists(file))
      return bad_input(file, "the file exists, and init overwrites nothing; name another folder");
  TRY(context.files.make_directories(directory));
  TRY(context.files.write_atomic(services, kFirstServices));
  TRY(context.files.write_atomic(profiles, kFirstProfiles));
  const std::string inputs =
      fmt::format("--services {} --profiles {}", shell_word(services), shell_word(profiles));
  const std::string plan = shell_word(base + "plan.json");
  return finish(
      context, {},
      fmt::format("{0} and {1} hold an example. Put your services and measurements there, then:\n\n"
                  "    partita plan     {2} --gpu A100-80GB --format json -o {3}\n"
                  "    partita verify   {3} {2}\n"
                  "    partita simulate {3} {2} --duration 60s\n\n"
                  "`partita gpus` lists the GPU models.\n",
                  services, profiles, inputs, plan));
}

}  // namespace

Command add_plan(CLI::App& app) {
  auto [command, flags] = adding<PlanCommandFlags>(
      app, "plan", "Plan which service runs on which slice of which GPU, with which batch size");
  add_problem_flags(*command, flags->problem);
  add_dispatch(*command, flags->problem.dispatch);
  flag(*command, "--gpu", flags->problem.gpu)->excludes("--fleet");
  takes(*command, "--planner", preset(flags->planner), "--objective",
        word_from(flags->problem.objective.objective, {"gpus", "cost", "energy"}));
  within(flag(*command, "--max-gpus", flags->max_gpus), 1, 1e6)->excludes("--fleet");
  add_replan_flags(*command, flags->replan);
  add_day_flags(*command, flags->day);
  takes(*command, "--node-budget", within(flags->node_budget, 1, 1e12), "--explain",
        flags->explain);
  return runs(
      command, flags, run_plan, {"text", "json", "svg"},
      "partita plan --services services.yaml --profiles profiles.csv --gpu A100-80GB\n"
      "partita plan --services services.yaml --fleet fleet.yaml --format json -o plan.json\n"
      "partita plan --services services.yaml --profiles profiles.csv --gpu A100-80GB "
      "--current plan.json\n"
      "partita plan ... --objective energy [--gpu-costs costs.csv]\n"
      "partita plan ... --dispatch shared-queue\n"
      "partita plan --services day.yaml --profiles profiles.csv --gpu A100-80GB --day\n"
      "partita plan --services day.yaml --profiles profiles.csv --gpu A100-80GB --day "
      "--prices hours.csv\n"
      "partita plan --services day.yaml --profiles profiles.csv --gpu A100-80GB --at 20:30");
}

Command add_compare(CLI::App& app) {
  auto [command, flags] = adding<CompareFlags>(
      app, "compare",
      "Compare planners: GPUs, proof, planning time, and SLOs under simulated traffic");
  add_problem_flags(*command, flags->problem);
  flag(*command, "--gpu", flags->problem.gpu)->excludes("--fleet");
  takes(*command, "--planners", flags->planners, "--duration", preset(flags->duration), "--seed",
        seeded(flags->options.seed), "--node-budget", within(flags->options.node_budget, 1, 1e12));
  return runs(command, flags, run_compare, {"text", "json", "csv"},
              "partita compare --services services.yaml --profiles profiles.csv --gpu A100-80GB\n"
              "partita compare ... --planners exact@queueing,parvagpu@execution:0.45");
}

Command add_verify(CLI::App& app) {
  auto [command, flags] = adding<VerifyFlags>(
      app, "verify",
      "Check a plan from any tool against the services, profiles and hardware rules");
  add_plan_flags(*command, flags->plan);
  return runs(command, flags, run_verify, {"text", "json"},
              "partita verify plan.json --services services.yaml --profiles profiles.csv\n"
              "partita verify day.json --services services.yaml --profiles profiles.csv");
}

Command add_simulate(CLI::App& app) {
  auto [command, flags] = adding<SimulateFlags>(
      app, "simulate", "Run a plan under simulated traffic and report the latencies");
  add_plan_flags(*command, flags->plan);
  takes(*command, "--duration", preset(flags->duration), "--arrivals", flags->traffic.arrivals,
        "--load", within(flags->traffic.load, 1e-6, 1e6), "--what-if", flags->traffic.what_if,
        "--batching", one_of(flags->batching, {"paced", "full"}));
  add_dispatch(*command, flags->dispatch);
  takes(*command, "--lateness", within(flags->options.mean_lateness.value, 0, 1000), "--no-shed",
        flags->no_shed, "--seed", seeded(flags->options.seed), "--require",
        limited(flags->require, 0, 1));
  return runs(
      command, flags, run_simulate, {"text", "json", "svg", "csv"},
      "partita simulate plan.json --services services.yaml --profiles profiles.csv --require 0.99\n"
      "partita simulate plan.json ... --format svg -o latencies.svg\n"
      "partita simulate plan.json ... --format csv -o services.csv\n"
      "partita simulate plan.json ... --load 1.2 --arrivals gamma:2 --what-if chat=300\n"
      "partita simulate plan.json ... --dispatch per-process --lateness 0.3\n"
      "partita simulate day.json ... --duration 10s");
}

Command add_planners(CLI::App& app) {
  auto [command, output] = adding<Output>(
      app, "planners", "List the planners of services and the schedulers of batches, with sources");
  add_output(*command, *output, {"text", "json"});
  return runs(command, output, run_planners, "partita planners");
}

Command add_init(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "init", "Write a services file and a profile CSV to start from, and say what to run next");
  auto directory = std::make_shared<std::string>(".");
  command
      ->add_option("DIR", *directory,
                   "The folder for services.yaml and profiles.csv; made when missing")
      ->type_name("DIR")
      ->default_str(*directory);
  command->footer("partita init\npartita init mine");
  return {command, [directory](Context& context) { return run_init(context, *directory); }};
}

}  // namespace partita::cli
