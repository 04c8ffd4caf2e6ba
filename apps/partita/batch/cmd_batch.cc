#include <unistd.h>

#include <charconv>
#include <filesystem>

#include "act/apply.h"
#include "act/batch/session.h"
#include "act/carry/batch_script.h"
#include "act/carry/occupancy.h"
#include "act/carry/run_text.h"
#include "act/carry/task_command.h"
#include "base/index.h"
#include "commands.h"
#include "decide/batch.h"
#include "decide/batch_generation.h"
#include "decide/batch_inputs.h"
#include "decide/batch_report.h"
#include "decide/batch_robust.h"
#include "decide/batch_stream.h"
#include "decide/reasons.h"
#include "decide/simulate.h"
#include "drivers/sim/machine_copy.h"
#include "drivers/sim/sim_driver.h"
#include "forms/batch_forms.h"
#include "node/chronicle.h"
#include "node/devices.h"
#include "progress.h"
#include "server/server.h"
#include "show/rows.h"

namespace partita::cli {
namespace {

// What the batch commands share: the flags that name their inputs, and words about tasks.
struct DrawnSchedule {
  const plan::BatchSchedule& schedule;
  const std::vector<plan::LateTask>& late;
  bool explain = false;
};

// The tasks, and the GPUs that they are for.
template <class Tasks>
void add_problem(CLI::App& command, Tasks& tasks, decide::GpuNames& gpus) {
  takes(command, "--tasks", needed(tasks), "--gpu", needed(gpus.gpu), "--catalogue", gpus.catalogue,
        "--gpus", within(gpus.gpus, 1, plan::kMaxBatchGpus), "--reconfigurer",
        preset(gpus.reconfigurer), "--gpus-per-node",
        within(gpus.gpus_per_node, 1, plan::kMaxBatchGpus));
}

void add_search_flags(CLI::App& command, decide::SearchOptions& flags) {
  takes(command, "--seed", seeded(flags.seed), "--budget",
        limited(flags.budget, 1, decide::kMostBudget));
}

// SCHEDULE, --tasks and --catalogue: the GPUs are the schedule's.
void add_schedule_flags(CLI::App& command, decide::ScheduleFiles& flags) {
  file_argument(command, "SCHEDULE", flags.schedule,
                "A schedule (JSON), as `partita plan --format json` writes it")
      ->required();
  takes(command, "--tasks", needed(flags.tasks), "--catalogue", flags.catalogue);
}

// A schedule for people, or as a picture of --format svg.
Result<std::string> shown_schedule(Context& context, const Output& output,
                                   const std::string& catalogue, const DrawnSchedule& drawn) {
  const hw::Catalogue models = TRY(decide::load_catalogue(context.files, catalogue));
  if (output.svg()) return forms::schedules_svg({drawn.schedule}, models);
  forms::GanttOptions gantt;
  gantt.colour = context.colour && output.file.empty();
  if (output.file.empty()) gantt.width = context.width;
  gantt.explain = drawn.explain;
  return forms::schedule_text(drawn.schedule, drawn.late, models, gantt);
}

// Says on standard error what is odd about a batch.
void warn_about(Context& context, const std::string& tasks, const plan::BatchProblem& problem) {
  for (const std::string& warning : forms::task_warnings(problem))
    complain(context, fmt::format("warning: {}: {}", tasks, warning));
}

struct BatchGenerateFlags {
  decide::GpuNames gpus;
  decide::BatchWords words;
  Output output;
};

Result<Exit> run_batch_generate(Context& context, const BatchGenerateFlags& flags) {
  const auto gpus = TRY(decide::load_gpus(context.files, flags.gpus));
  const auto problem = TRY(decide::generate_batch(flags.words, gpus));
  return finish(context, flags.output, forms::tasks_csv(problem));
}

CLI::Option* add_share(CLI::App& command, const char* name, double& value, const char* help) {
  return within(command.add_option(name, value, help), 0, 1)
      ->type_name("SHARE")
      ->default_str(fmt::format("{}", value));
}

CLI::Option* add_word(CLI::App& command, const char* name, std::string& value, const char* help) {
  return command.add_option(name, value, help)->default_str(value);
}

Command add_batch_generate(CLI::App& batch) {
  auto [command, flags] = adding<BatchGenerateFlags>(
      batch, "generate",
      "Make up a batch after Section 6.3 of the FAR paper: tasks that scale to a size");
  within(flag(*command, "--count", flags->words.count), 1, plan::kMaxTasks)->required();
  one_of(add_word(*command, "--scaling", flags->words.scaling,
                  "poor: half of the tasks in each of the two smallest sizes; mixed: the same "
                  "share in all; good: half in each of the two largest"),
         {"poor", "mixed", "good"});
  one_of(add_word(*command, "--times", flags->words.times,
                  "Seconds on one slice: 1 to 100 (wide) or 90 to 100 (narrow)"),
         {"wide", "narrow"});
  takes(*command, "--gpu", needed(flags->gpus.gpu), "--catalogue", flags->gpus.catalogue, "--seed",
        seeded(flags->words.seed));
  add_share(*command, "--p-sup", flags->words.super_linear,
            "Share of memory-bound tasks: super-linear from one slice to two");
  add_share(*command, "--transition", flags->words.transition,
            "Probability that a memory-bound task becomes compute-bound with a further slice");
  one_of(add_word(*command, "--after-transition", flags->words.after_transition,
                  "How a memory-bound task scales once it is compute-bound"),
         {"sub-linear", "near-linear", "none"});
  one_of(add_word(*command, "--clip", flags->words.clip,
                  "What to do with a scaling factor outside its range: clamp it, or draw again"),
         {"clamp", "truncate"});
  one_of(add_word(*command, "--leftovers", flags->words.leftovers,
                  "Class of the tasks that are left when the shares are rounded"),
         {"largest-remainder", "smallest-class"});
  takes(*command, "--shares", flags->words.shares, "--time-range", flags->words.time_range);
  one_of(add_word(*command, "--order", flags->words.order, "Order of the tasks in the file"),
         {"shuffled", "classes"});
  takes(*command, "--releases", limited(flags->words.releases, 0, 1e6), "--deadlines",
        limited(flags->words.deadlines, 1, 1e6));
  return runs(command, flags, run_batch_generate, {"csv"},
              "partita init --count 20 --scaling mixed --gpu A100-80GB --seed 7 -o tasks.csv");
}

struct BatchScheduleFlags {
  std::string tasks;
  decide::GpuNames gpus;
  std::string scheduler = "best";
  decide::SearchOptions search;
  double spread = 0;  // 0: task times are taken as exact
  bool explain = false;
  bool require = false;
  Output output;
};

forms::ChosenFor chosen_for(const decide::Robust& robust) {
  return {robust.options.spread, robust.options.runs, robust.options.seed,
          plan::seconds(robust.report.mean), plan::seconds(robust.report.p95)};
}

// The schedule, and what was simulated to choose it when --spread was given.
Result<decide::Robust> make(Context& context, const BatchScheduleFlags& flags,
                            const planners::batch::Chosen& chosen,
                            const plan::BatchProblem& problem) {
  Progress progress(context);
  if (flags.spread > 0)
    return decide::make_robust_schedule(chosen, problem, flags.search, flags.spread,
                                        progress.watch());
  auto made = TRY(decide::make_schedule(chosen, problem, flags.search, progress.watch()));
  return decide::Robust{std::move(made), {}, {}, {}};
}

Result<std::string> render(Context& context, const BatchScheduleFlags& flags,
                           const plan::BatchProblem& problem, const decide::Robust& robust) {
  const plan::BatchSchedule& schedule = **robust.made.plan;
  const std::vector<plan::LateTask> late = plan::late_tasks(problem, schedule);
  if (flags.output.json())
    return flags.spread > 0 ? forms::schedule_json(schedule, late, chosen_for(robust))
                            : forms::schedule_json(schedule, late);
  auto text =
      shown_schedule(context, flags.output, flags.gpus.catalogue, {schedule, late, flags.explain});
  if (!text || flags.output.svg() || flags.spread == 0) return text;
  return *text + fmt::format("\n{} runs with task times of {:.4g} % spread:\n{}",
                             robust.options.runs, flags.spread * 100, robust.candidates);
}

Result<Exit> run_batch_schedule(Context& context, const BatchScheduleFlags& flags) {
  const auto chosen = TRY(decide::choose_scheduler("--scheduler", flags.scheduler));
  const auto gpus = TRY(decide::load_gpus(context.files, flags.gpus));
  const auto problem = TRY(decide::load_batch(context.files, flags.tasks, gpus));
  warn_about(context, flags.tasks, problem);
  const decide::Robust robust = TRY(make(context, flags, chosen, problem));
  const decide::Made<plan::BatchSchedule>& made = robust.made;
  if (const auto wrong = decide::misuse("--scheduler", made.refusals)) return failed(*wrong);
  if (!made.plan) return refuse(context, flags.output, "schedule", made.refusals);
  const std::string content = TRY(render(context, flags, problem, robust));
  TRY(deliver(context, flags.output, content));
  if (flags.search.time.value > 0 && made.budget > 0)
    complain(context, fmt::format("--budget {} makes this schedule on any machine", made.budget));
  const std::string late = decide::late_text(problem, **made.plan);
  if (!late.empty()) complain(context, late);
  return flags.require && !late.empty() ? Exit::no : Exit::done;
}

Command add_batch_schedule(CLI::App& batch) {
  auto [command, flags] = adding<BatchScheduleFlags>(
      batch, "schedule",
      "Schedule tasks: which instances to create and destroy when, and what runs on them");
  add_problem(*command, flags->tasks, flags->gpus);
  flag(*command, "--scheduler", flags->scheduler)->default_str(flags->scheduler);
  add_search_flags(*command, flags->search);
  takes(*command, "--time", limited(flags->search.time.value, 1e-3, 1e6));
  within(flag(*command, "--spread", flags->spread,
              "Of several schedules the one that ends first on average is chosen"),
         0, sim::kMaxSpread)
      ->excludes(command->get_option("--time"));
  takes(*command, "--strict", flags->require, "--explain", flags->explain);
  return runs(command, flags, run_batch_schedule, {"text", "json", "svg"},
              "partita plan --tasks data/batches/rodinia-a30.csv --gpu A30\n"
              "partita plan --tasks tasks.csv --gpu A100-80GB --gpus 4 --format json -o s.json\n"
              "partita plan --tasks tasks.csv --gpu H100-80GB-SXM5:2,A30 --format svg -o s.svg");
}

using planners::batch::StreamMethod;

constexpr StreamMethod kMethods[] = {StreamMethod::trivial, StreamMethod::reverse,
                                     StreamMethod::overlap, StreamMethod::best};

struct BatchStreamFlags {
  std::vector<std::string> tasks;
  decide::GpuNames gpus;
  std::string method = "best";
  bool online = false;
  planners::batch::StreamOptions options;
  Output output;
};

std::string summary(const plan::BatchProblem& problem, const decide::Streamed& streamed) {
  const plan::BatchSchedule& schedule = *streamed.schedule;
  if (streamed.area_bound <= 0) return "";
  return fmt::format(
      "{} in {} submissions: {:.2f} % above the bound by areas; {:.3f} ms of CPU per submission\n",
      decide::size_text(problem), streamed.submissions,
      100 * (static_cast<double>(schedule.makespan) / streamed.area_bound - 1),
      schedule.stats.scheduling_ms / static_cast<double>(streamed.submissions));
}

Result<std::string> render(Context& context, const BatchStreamFlags& flags,
                           const plan::BatchProblem& problem, const plan::BatchSchedule& schedule) {
  const std::vector<plan::LateTask> late = plan::late_tasks(problem, schedule);
  if (flags.output.json()) return forms::schedule_json(schedule, late);
  return shown_schedule(context, flags.output, flags.gpus.catalogue, {schedule, late});
}

Result<Exit> run_batch_stream(Context& context, const BatchStreamFlags& flags) {
  if (flags.online && flags.method != "best")
    return bad_input("--method", "--online plans while tasks run; the others are for batches");
  const auto gpus = TRY(decide::load_gpus(context.files, flags.gpus));
  std::vector<plan::BatchProblem> batches;
  for (const std::string& file : flags.tasks) {
    auto batch = TRY(decide::load_batch(context.files, file, gpus));
    warn_about(context, file, batch);
    batches.push_back(std::move(batch));
  }
  const auto stream = TRY(decide::stream_of(std::move(batches), gpus, flags.online));
  planners::batch::StreamOptions options = flags.options;
  for (const StreamMethod method : kMethods)
    if (flags.method == to_string(method)) options.method = method;
  const auto streamed = TRY(decide::play(stream, options, Progress(context).watch().cpu_ms));
  const plan::BatchProblem& problem = stream.problem;
  std::string content = TRY(render(context, flags, problem, *streamed.schedule));
  if (flags.output.format == "text") content += "\n" + summary(problem, streamed);
  TRY(deliver(context, flags.output, content));
  const std::string late = decide::late_text(problem, *streamed.schedule);
  if (!late.empty()) complain(context, late);
  return Exit::done;
}

Command add_batch_stream(CLI::App& batch) {
  auto [command, flags] = adding<BatchStreamFlags>(
      batch, "stream", "Schedule batches that follow each other, or tasks that arrive over time");
  add_problem(*command, flags->tasks, flags->gpus);
  takes(
      *command, "--method",
      one_of(flags->method, {"trivial", "reverse", "overlap", "best"},
             "trivial: FAR's schedules one after the other; reverse: every second one reversed; "
             "overlap: also moves and swaps where two meet; best: Partita's own, never worse than "
             "these for a batch"),
      "--online", flags->online, "--replan", within(flags->options.replanned, 0, plan::kMaxTasks),
      "--seed", seeded(flags->options.seed));
  return runs(command, flags, run_batch_stream, {"text", "json", "svg"},
              "partita plan --tasks monday.csv --tasks tuesday.csv --gpu A100-80GB\n"
              "partita plan --tasks arrivals.csv --online --gpu A30 --format json -o "
              "schedule.json");
}

struct BatchVerifyFlags {
  decide::ScheduleFiles schedule;
  Output output;
};

Result<Exit> run_batch_verify(Context& context, const BatchVerifyFlags& flags) {
  const auto [problem, verdict] = TRY(decide::load_schedule(context.files, flags.schedule));
  const plan::BatchSchedule& schedule = verdict ? **verdict : verdict.error().plan;
  const auto exit = TRY(
      say_verdict(context, flags.output, flags.schedule.schedule,
                  fmt::format("ok: {}, makespan {:.3f} s, no violation\n",
                              decide::size_text(problem), plan::seconds(schedule.makespan).value),
                  verdict ? std::vector<plan::Reason>{} : verdict.error().violations));
  // Deadlines are wishes: who misses one is said, but is no violation.
  const std::string late = decide::late_text(problem, schedule);
  if (!late.empty()) complain(context, late);
  return exit;
}

Command add_batch_verify(CLI::App& batch) {
  auto [command, flags] = adding<BatchVerifyFlags>(
      batch, "verify", "Check a schedule from any tool against the tasks and the hardware rules");
  add_schedule_flags(*command, flags->schedule);
  add_output(*command, flags->output, {"text", "json"});
  return runs(command, flags, run_batch_verify, "partita verify schedule.json --tasks tasks.csv");
}

struct BatchCompareFlags {
  std::string tasks;
  decide::GpuNames gpus;
  std::string schedulers;  // empty: the standard ones
  decide::SearchOptions search;
  Output output;
};

Result<std::string> render(Context& context, const BatchCompareFlags& flags,
                           const plan::BatchProblem& problem,
                           const decide::BatchComparison& comparison) {
  if (wants_document(flags.output))
    return document_as(flags.output, decide::batch_comparison_json(problem, comparison));
  if (flags.output.format == "text") return decide::batch_comparison_text(problem, comparison);
  const hw::Catalogue catalogue = TRY(decide::load_catalogue(context.files, flags.gpus.catalogue));
  return forms::schedules_svg(decide::schedules_of(comparison), catalogue);
}

Result<Exit> run_batch_compare(Context& context, const BatchCompareFlags& flags) {
  const auto gpus = TRY(decide::load_gpus(context.files, flags.gpus));
  const auto problem = TRY(decide::load_batch(context.files, flags.tasks, gpus));
  const auto contestants = TRY(decide::parse_batch_contestants(
      "--schedulers",
      flags.schedulers.empty() ? decide::default_contestants(problem) : flags.schedulers));
  warn_about(context, flags.tasks, problem);
  const auto comparison = TRY(
      decide::compare_schedulers(problem, contestants, flags.search, Progress(context).watch()));
  bool any = false;
  for (const decide::BatchStanding& standing : comparison.standings) {
    any = any || standing.made.plan;
    if (const auto wrong = decide::misuse("--schedulers", standing.made.refusals))
      return failed(*wrong);
  }
  const auto content = TRY(render(context, flags, problem, comparison));
  return finish(context, flags.output, content, any ? Exit::done : Exit::no);
}

Command add_batch_compare(CLI::App& batch) {
  auto [command, flags] = adding<BatchCompareFlags>(
      batch, "compare",
      "Compare schedulers: makespan, proof, reconfigurations, utilisation, CPU time");
  add_problem(*command, flags->tasks, flags->gpus);
  flag(*command, "--schedulers", flags->schedulers)->check([](const std::string& text) {
    return text.empty() ? std::string("give a scheduler") : std::string{};
  });
  add_search_flags(*command, flags->search);
  return runs(command, flags, run_batch_compare, {"text", "json", "svg", "csv"},
              "partita compare --tasks data/batches/rodinia-a30.csv --gpu A30\n"
              "partita compare --tasks tasks.csv --gpu A100-80GB --schedulers best,fixed:4g+2g+1g");
}

struct BatchSimulateFlags {
  decide::ScheduleFiles schedule;
  sim::BatchOptions options;
  Output output;
};

Result<Exit> run_batch_simulate(Context& context, const BatchSimulateFlags& flags) {
  const auto [problem, verdict] = TRY(decide::load_schedule(context.files, flags.schedule));
  if (!verdict) {
    complain(context, decide::reasons_text(flags.schedule.schedule + ": the schedule is broken:",
                                           verdict.error().violations));
    return Exit::no;
  }
  const auto timed =
      TRY(decide::simulate(problem, *verdict, flags.options, Progress(context).watch().cpu_ms));
  const std::string content =
      TRY(wants_document(flags.output)
              ? document_as(flags.output,
                            sim::report_json(timed.report, flags.options, timed.events_per_second))
              : sim::report_text(timed.report, flags.options));
  return finish(context, flags.output, content);
}

Command add_batch_simulate(CLI::App& batch) {
  auto [command, flags] = adding<BatchSimulateFlags>(
      batch, "simulate",
      "Run a schedule many times with task times that differ from the planned ones");
  add_schedule_flags(*command, flags->schedule);
  takes(*command, "--spread", within(flags->options.spread, 0, sim::kMaxSpread),
        "--reconfiguration-spread",
        within(flags->options.reconfiguration_spread, 0, sim::kMaxSpread), "--runs",
        within(flags->options.runs, 1, sim::kMaxRuns), "--seed", seeded(flags->options.seed));
  return runs(command, flags, run_batch_simulate, {"text", "json", "csv"},
              "partita simulate schedule.json --tasks tasks.csv --spread 0.1 --runs 1000");
}

// partita apply of a schedule: carried out on this node, or rehearsed on a copy of it in memory.

constexpr exec::Nanos kLook = exec::kSecond / 5;  // between two lines of progress
constexpr double kMaxFactor = 1e6;

struct BatchRunFlags {
  decide::ScheduleFiles schedule;  // its schedule empty: one is made
  std::string scheduler = "best";
  decide::SearchOptions search;
  std::string gpus;  // indices
  DeviceFlags device;
  std::string command, state_dir, log_dir, why;
  std::string timeout, grace = "10s", patience = "30s";
  exec::Options options;
  bool simulate = false, resume = false;
  Output output;
};

// A schedule with what it solves and the GPUs of the node that it is for.
struct Decided {
  plan::BatchProblem problem;
  plan::Judged<plan::BatchSchedule> schedule;
  std::vector<int> devices;
};

// All that is known before anything is done.
struct Prepared {
  OpenDriver open;
  device::NodeState node;
  std::optional<Decided> decided = {};
  exec::Script script = {};
  exec::Options options = {};
};

struct Times {
  std::optional<double> factor;         // of the planned time, or
  std::optional<exec::Nanos> duration;  // the timeout of every attempt
};

// "90s" or "3x".
Result<Times> parse_timeout(const std::string& text) {
  if (text.empty()) return Times{};
  if (!text.ends_with('x')) {
    const exec::Nanos duration = TRY(parse_nanos("--timeout", text));
    return Times{{}, duration};
  }
  double factor = 0;
  const char* const end = text.data() + text.size() - 1;
  const auto [rest, error] = std::from_chars(text.data(), end, factor);
  if (error != std::errc{} || rest != end || !(factor > 0 && factor <= kMaxFactor))
    return bad_input("--timeout",
                     fmt::format("'{}' is neither a duration (90s) nor a multiple of the planned "
                                 "time (3x)",
                                 text));
  return Times{factor, {}};
}

Result<exec::Options> options_of(const BatchRunFlags& flags) {
  exec::Options options = flags.options;
  options.grace = TRY(parse_nanos("--grace", flags.grace));
  options.patience = TRY(parse_nanos("--patience", flags.patience));
  return options;
}

Result<Decided> read_schedule(Context& context, const BatchRunFlags& flags,
                              const device::NodeState& node, const std::vector<int>& named) {
  auto judged = TRY(decide::load_schedule(context.files, flags.schedule));
  const std::string& file = flags.schedule.schedule;
  auto& [problem, verdict] = judged;
  if (!verdict)
    return failed({ErrorCode::infeasible,
                   decide::reasons_text("the schedule is broken:", verdict.error().violations),
                   file});
  auto devices = TRY(carry::matching_gpus(problem, node, named, file));
  return Decided{std::move(problem), *std::move(verdict), std::move(devices)};
}

Result<Decided> make_schedule_for(Context& context, const BatchRunFlags& flags,
                                  const device::NodeState& node, const std::vector<int>& named) {
  const auto chosen = TRY(decide::choose_scheduler("--scheduler", flags.scheduler));
  auto devices = TRY(named.empty() ? carry::usable_gpus(node) : Result<std::vector<int>>(named));
  decide::GpuNames gpus{.gpu = "", .gpus = 1, .catalogue = flags.device.catalogue};
  gpus.gpus_per_node = std::max(1, static_cast<int>(devices.size()));  // of this node, all
  for (const int index : devices)
    gpus.gpu += (gpus.gpu.empty() ? "" : ",") + node.gpus[at(index)].model;
  const auto list = TRY(decide::load_gpus(context.files, gpus));
  auto problem = TRY(decide::load_batch(context.files, flags.schedule.tasks, list));
  warn_about(context, flags.schedule.tasks, problem);
  auto made = TRY(decide::make_schedule(chosen, problem, flags.search, Progress(context).watch()));
  if (const auto wrong = decide::misuse("--scheduler", made.refusals)) return failed(*wrong);
  if (!made.plan)
    return failed({ErrorCode::infeasible,
                   decide::reasons_text("no such schedule exists:", made.refusals), ""});
  return Decided{std::move(problem), *std::move(made.plan), std::move(devices)};
}

Result<Prepared> prepare(Context& context, const BatchRunFlags& flags) {
  exec::Options options = TRY(options_of(flags));
  const Times timeout = TRY(parse_timeout(flags.timeout));
  Prepared prepared;
  prepared.options = options;
  prepared.open = TRY(open_driver(context, flags.device));
  prepared.node = TRY(device::read_node(*prepared.open.driver));
  const std::vector<int> named = TRY(carry::named_gpus(flags.gpus, prepared.node));
  prepared.decided =
      TRY(flags.schedule.schedule.empty() ? make_schedule_for(context, flags, prepared.node, named)
                                          : read_schedule(context, flags, prepared.node, named));
  const auto& [problem, schedule, devices] = *prepared.decided;
  prepared.script = TRY(carry::make_script(problem, schedule, {devices, timeout.factor}));
  if (timeout.duration)
    for (exec::ScriptTask& task : prepared.script.tasks) task.timeout = timeout.duration;
  if (flags.simulate) return prepared;
  TRY(carry::give_commands(prepared.script, flags.command));
  return prepared;
}

Result<void> check_free(const Prepared& prepared) {
  const std::vector<std::string> found =
      carry::blockers(prepared.script, prepared.node, *prepared.open.catalogue);
  if (found.empty()) return {};
  return failed({ErrorCode::in_use,
                 fmt::format("instances that this run did not make are in its way:\n  {}",
                             joined(found, "\n  ")),
                 ""});
}

// Tells people how a run goes: a line on a terminal, and for good what goes wrong.
class Watcher {
 public:
  Watcher(Context& context, const exec::Script& script)
      : context_(context), progress_(context), script_(script) {}

  void look(exec::Nanos now, const exec::RunReport& report, bool last = false) {
    if (!last && seen_ && now < next_) return;
    next_ = now + kLook;
    if (seen_) {
      for (const std::string& line : carry::news(script_, *seen_, report)) complain(context_, line);
    }
    seen_ = report;
    if (!last) progress_.show(carry::progress_text(script_, report, now));
  }

 private:
  Context& context_;
  Progress progress_;
  const exec::Script& script_;
  std::optional<exec::RunReport> seen_;
  exec::Nanos next_ = 0;
};

Result<Exit> finish(Context& context, const BatchRunFlags& flags, const Prepared& prepared,
                    const exec::RunReport& report, const exec::RunNames& names) {
  const std::string content = flags.output.json()
                                  ? exec::report_json(prepared.script, report, names)
                                  : carry::run_text(prepared.script, report, names);
  TRY(deliver(context, flags.output, content));
  const auto& [problem, schedule, devices] = *prepared.decided;
  const std::string late =
      decide::late_text(problem, carry::realised(prepared.script, report, *schedule));
  if (!late.empty()) complain(context, late);
  const int finished = report.count(exec::TaskStatus::finished);
  if (report.left.empty() && finished == static_cast<int>(prepared.script.tasks.size()))
    return Exit::done;
  if (report.interrupted) complain(context, "interrupted; run the same command again to continue");
  const bool refused = !report.refusals.empty() || !report.left.empty();
  return report.interrupted || refused ? Exit::environment : Exit::no;
}

Result<Exit> rehearse(Context& context, const BatchRunFlags& flags, const Prepared& prepared) {
  TRY(check_free(prepared));
  ManualClock clock;
  MemoryFiles files;
  const auto machine = drivers::sim::own_machine(
      drivers::sim::copy_of(prepared.node, *prepared.open.catalogue), clock, 1);
  drivers::sim::SimDriver driver(*machine);
  const exec::Script& script = prepared.script;
  SimProcesses processes(clock, [&](const ProcessSpec& spec) {
    const std::string& name = spec.environment.at("PARTITA_TASK");
    const auto task = std::ranges::find(script.tasks, name, &exec::ScriptTask::name);
    return SimBehaviour{.run_ns = task->planned.end - task->planned.begin};
  });
  exec::BatchExecutor executor(script, prepared.options);
  exec::run_simulated(executor, script, {driver, processes, files, clock}, {}, clock, processes);
  return finish(context, flags, prepared, executor.report(),
                {prepared.node.driver, prepared.decided->schedule->scheduler, "", true});
}

// Where a run keeps what it writes.
struct Paths {
  std::string state, journal, logs;
};
Paths paths_of(const BatchRunFlags& flags, const device::NodeState& node) {
  const std::filesystem::path state =
      std::filesystem::absolute(state_directory(flags.state_dir, node)).lexically_normal();
  const std::string logs = flags.log_dir.empty()
                               ? (state / "batch-logs").string()
                               : std::filesystem::absolute(flags.log_dir).string();
  return {state.string(), (state / "batch.journal").string(), logs};
}

// What the history says of a run.
std::string begin_text(const Prepared& prepared, bool continued) {
  exec::Nanos planned = 0;
  for (const exec::ScriptTask& task : prepared.script.tasks)
    planned = std::max(planned, task.planned.end);
  return fmt::format("{} tasks on {} GPUs, {:.1f} s planned{}", prepared.script.tasks.size(),
                     prepared.script.gpus.size(), plan::seconds(planned).value,
                     continued ? "; goes on where a run was interrupted" : "");
}

void keep_end(Chronicle& chronicle, const Prepared& prepared, const exec::RunReport& report,
              const std::string& run) {
  std::string text = fmt::format("{} of {} tasks finished",
                                 report.count(exec::TaskStatus::finished), report.tasks.size());
  for (const std::string& why : report.refusals) text += "; " + why;
  for (const std::string& why : report.left) text += "; " + why;
  Result<void> outcome;
  if (report.interrupted)
    outcome = failed({ErrorCode::environment, "interrupted: " + text, ""});
  else if (!report.all_finished() || !report.left.empty())
    outcome = failed({ErrorCode::environment, text, ""});
  chronicle.end(
      outcome, text,
      {{"report", exec::report_json(
                      prepared.script, report,
                      {prepared.node.driver, prepared.decided->schedule->scheduler, run, false})}});
}

Result<Exit> carry_out(Context& context, const BatchRunFlags& flags, const Prepared& prepared) {
  const Paths paths = paths_of(flags, prepared.node);
  TRY(context.files.make_directories(paths.state));
  // Nobody else changes this node meanwhile, whatever state directory it uses.
  auto node_lock = TRY(lock_node(context, prepared.open, prepared.node));
  RealProcesses processes;
  const exec::Doors doors{*prepared.open.driver, processes, context.files, context.clock};
  const exec::SessionFlags session_flags{
      .journal = paths.journal,
      .resume = flags.resume,
      .run = fmt::format("{:x}-{}", context.clock.now_ns(), ::getpid()),
      .log_dir = paths.logs,
      .find = exec::find_attempts,
      .may_begin = [&] { return check_free(prepared); }};
  StopRequest stop;
  exec::Session session = TRY(exec::open_session(prepared.script, doors, session_flags));
  const bool continued = session.past.now > 0;
  if (continued) complain(context, "continuing an earlier run that was interrupted");
  Chronicle chronicle(context, paths.state, "partita apply", flags.why);
  chronicle.begin(begin_text(prepared, continued));
  auto watcher = std::make_unique<Watcher>(context, prepared.script);
  session.settings.interrupted = [&] { return stop.within(0); };
  session.settings.watch = [&](exec::Nanos now, const exec::RunReport& report) {
    watcher->look(now, report);
  };
  exec::BatchExecutor executor(prepared.script, prepared.options, session.past);
  const exec::RunEnd end = exec::run_real(executor, prepared.script, doors, session.settings);
  keep_end(chronicle, prepared, executor.report(), session.settings.paths.run);
  watcher->look(0, executor.report(), true);
  watcher.reset();  // the terminal is free for the table
  const Exit exit = TRY(finish(context, flags, prepared, executor.report(),
                               {prepared.node.driver, prepared.decided->schedule->scheduler,
                                session.settings.paths.run, false}));
  if (end.journal) return failed(*end.journal);
  TRY(exec::close_session(session, executor.report(), doors));
  context.last = [&context, lock = std::move(node_lock), session = std::move(session),
                  report = executor.report()] {
    if (auto ended = exec::end_session(session, report, context.files); !ended)
      complain(context, to_string(ended.error()));
  };
  return exit;
}

Result<Exit> run_batch_run(Context& context, BatchRunFlags flags) {
  flags.schedule.catalogue = flags.device.catalogue;
  const Prepared prepared = TRY(prepare(context, flags));
  return flags.simulate ? rehearse(context, flags, prepared) : carry_out(context, flags, prepared);
}

void add_inputs(CLI::App& command, BatchRunFlags& flags) {
  file_argument(command, "SCHEDULE", flags.schedule.schedule,
                "A schedule (JSON), as `partita plan --format json` writes it; without "
                "it --scheduler makes one for the GPUs");
  takes(command, "--tasks", needed(flags.schedule.tasks), "--scheduler", preset(flags.scheduler));
  add_search_flags(command, flags.search);
  flag(command, "--gpu-index", flags.gpus);
  add_device_flags(command, flags.device);
}

Command add_batch_run(CLI::App& batch) {
  auto [command, flags] = adding<BatchRunFlags>(
      batch, "run", "Run a schedule on this node; it may be killed and restarted at any time");
  add_inputs(*command, *flags);
  takes(*command, "--command", flags->command, "--retries", within(flags->options.retries, 0, 1000),
        "--timeout", flags->timeout, "--grace", preset(flags->grace), "--patience",
        preset(flags->patience), "--keep", flags->options.keep, "--rehearse", flags->simulate,
        "--resume", flags->resume, "--state-dir", flags->state_dir, "--why", flags->why,
        "--log-dir", flags->log_dir);
  add_output(*command, flags->output, {"text", "json"});
  return runs(command, flags, run_batch_run,
              "partita apply schedule.json --tasks tasks.csv --retries 1 --timeout 3x\n"
              "partita apply --tasks tasks.csv --gpu-index 0 --format json -o report.json\n"
              "partita apply --tasks tasks.csv --driver sim --command 'sleep {seconds}'\n"
              "partita apply schedule.json --tasks tasks.csv --driver sim --rehearse");
}

}  // namespace

Command add_batch(CLI::App& app) {
  CLI::App* batch = app.add_subcommand(
      "batch", "Schedule a queue of GPU jobs on MIG instances, so that the last one ends early");
  std::vector<Command> commands = {add_batch_schedule(*batch), add_batch_stream(*batch),
                                   add_batch_verify(*batch),   add_batch_compare(*batch),
                                   add_batch_simulate(*batch), add_batch_run(*batch),
                                   add_batch_generate(*batch)};
  for (Command& one : add_operations(*batch, "batch")) commands.push_back(std::move(one));
  batch->footer(
      "partita init --count 12 --scaling mixed --gpu A30 --seed 1 -o tasks.csv\n"
      "partita plan --tasks tasks.csv --gpu A30");
  return group_of(batch, commands);
}

}  // namespace partita::cli
