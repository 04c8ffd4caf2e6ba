// partita apply of a schedule: carried out on this node, or rehearsed on a copy of it in memory.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "act/apply.h"
#include "act/batch/session.h"
#include "act/carry/batch_script.h"
#include "act/carry/occupancy.h"
#include "act/carry/run_text.h"
#include "act/carry/task_command.h"
#include "base/append.h"
#include "base/index.h"
#include "batch/batch_inputs.h"
#include "commands.h"
#include "decide/batch.h"
#include "decide/batch_report.h"
#include "drivers/sim/machine_copy.h"
#include "drivers/sim/sim_driver.h"
#include "flags.h"
#include "node/chronicle.h"
#include "node/devices.h"
#include "node/state_dir.h"
#include "progress.h"
#include "stop_request.h"

namespace partita::cli {
namespace {

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
  int retries = 0;
  bool keep = false, simulate = false, resume = false;
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

// ---- what to do ----

struct Times {
  std::optional<double> factor;         // of the planned time, or
  std::optional<exec::Nanos> duration;  // the timeout of every attempt
};

Result<exec::Nanos> nanos_of(const std::string& flag, const std::string& text) {
  const Seconds duration = TRY(parse_duration(flag, text));
  return plan::nanos(duration);
}

// "90s" or "3x".
Result<Times> parse_timeout(const std::string& text) {
  if (text.empty()) return Times{};
  if (!text.ends_with('x')) {
    const exec::Nanos duration = TRY(nanos_of("--timeout", text));
    return Times{{}, duration};
  }
  double factor = 0;
  const char* const end = text.data() + text.size() - 1;
  const auto [rest, error] = std::from_chars(text.data(), end, factor);
  if (error != std::errc{} || rest != end || !(factor > 0 && factor <= kMaxFactor)) {
    return bad_input("--timeout",
                     fmt::format("'{}' is neither a duration (90s) nor a multiple of the planned "
                                 "time (3x)",
                                 text));
  }
  return Times{factor, {}};
}

Result<exec::Options> options_of(const BatchRunFlags& flags) {
  const exec::Nanos grace = TRY(nanos_of("--grace", flags.grace));
  const exec::Nanos patience = TRY(nanos_of("--patience", flags.patience));
  exec::Options options{.retries = flags.retries, .grace = grace, .patience = patience};
  options.keep = flags.keep;
  return options;
}

Result<Decided> read_schedule(Context& context, const BatchRunFlags& flags,
                              const device::NodeState& node, const std::vector<int>& named) {
  auto judged = TRY(decide::load_schedule(context.files, flags.schedule));
  const std::string& file = flags.schedule.schedule;
  auto& [problem, verdict] = judged;
  if (!verdict) {
    return failed({ErrorCode::infeasible,
                   decide::reasons_text("the schedule is broken:", verdict.error().violations),
                   file});
  }
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
  if (!made.plan) {
    return failed({ErrorCode::infeasible,
                   decide::reasons_text("no such schedule exists:", made.refusals), ""});
  }
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

// ---- doing it ----

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
  Result<exec::Session> session = exec::open_session(prepared.script, doors, session_flags);
  if (!session) return failed(session.error());
  const bool continued = session->past.now > 0;
  if (continued) complain(context, "continuing an earlier run that was interrupted");
  Chronicle chronicle(context, paths.state, "partita apply", flags.why);
  chronicle.begin(begin_text(prepared, continued));
  auto watcher = std::make_unique<Watcher>(context, prepared.script);
  session->settings.interrupted = [&] { return stop.within(0); };
  session->settings.watch = [&](exec::Nanos now, const exec::RunReport& report) {
    watcher->look(now, report);
  };
  exec::BatchExecutor executor(prepared.script, prepared.options, session->past);
  const exec::RunEnd end = exec::run_real(executor, prepared.script, doors, session->settings);
  keep_end(chronicle, prepared, executor.report(), session->settings.paths.run);
  watcher->look(0, executor.report(), true);
  watcher.reset();  // the terminal is free for the table
  const Exit exit = TRY(finish(context, flags, prepared, executor.report(),
                               {prepared.node.driver, prepared.decided->schedule->scheduler,
                                session->settings.paths.run, false}));
  if (end.journal) return failed(*end.journal);
  TRY(exec::close_session(*session, executor.report(), doors));
  context.last = [&context, lock = std::move(node_lock), session = *std::move(session),
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

// ---- flags ----

void add_inputs(CLI::App& command, BatchRunFlags& flags) {
  command
      .add_option("SCHEDULE", flags.schedule.schedule,
                  "A schedule (JSON), as `partita plan --format json` writes it; without "
                  "it --scheduler makes one for the GPUs")
      ->type_name("FILE");
  add_tasks_flag(command, flags.schedule.tasks);
  flag(command, "--scheduler", flags.scheduler)->default_str(flags.scheduler);
  add_search_flags(command, flags.search);
  flag(command, "--gpu-index", flags.gpus);
  add_device_flags(command, flags.device);
}

void add_conduct(CLI::App& command, BatchRunFlags& flags) {
  flag(command, "--command", flags.command);
  within(flag(command, "--retries", flags.retries), 0, 1000)->capture_default_str();
  flag(command, "--timeout", flags.timeout);
  flag(command, "--grace", flags.grace)->capture_default_str();
  flag(command, "--patience", flags.patience)->capture_default_str();
  flag(command, "--keep", flags.keep);
}

void add_record(CLI::App& command, BatchRunFlags& flags) {
  flag(command, "--rehearse", flags.simulate);
  flag(command, "--resume", flags.resume);
  add_state_dir(command, flags.state_dir);
  add_why(command, flags.why);
  flag(command, "--log-dir", flags.log_dir);
  add_output(command, flags.output, {"text", "json"});
}

}  // namespace

Command add_batch_run(CLI::App& batch) {
  auto [command, flags] = adding<BatchRunFlags>(
      batch, "run", "Run a schedule on this node; it may be killed and restarted at any time");
  add_inputs(*command, *flags);
  add_conduct(*command, *flags);
  add_record(*command, *flags);
  command->footer(
      "partita apply schedule.json --tasks tasks.csv --retries 1 --timeout 3x\n"
      "partita apply --tasks tasks.csv --gpu 0 --format json -o report.json\n"
      "partita apply --tasks tasks.csv --driver sim --command 'sleep {seconds}'\n"
      "partita apply schedule.json --tasks tasks.csv --driver sim --simulate");
  return {command, [flags](Context& context) { return run_batch_run(context, *flags); }};
}

}  // namespace partita::cli
