#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <limits>

#include "act/power_guard.h"
#include "act/power_loop.h"
#include "base/child.h"
#include "base/descriptor.h"
#include "commands.h"
#include "decide/kernel_inputs.h"
#include "decide/power.h"
#include "decide/power_report.h"
#include "decide/power_seen.h"
#include "forms/power_forms.h"
#include "node/devices.h"
#include "planners/power/controller.h"
#include "planners/power/modelled.h"
#include "verify/judge.h"

namespace partita::cli {
namespace {

// The subcommands of `partita power`, and the flags that several of them have.
struct PowerFlags {
  decide::PowerFiles files;
  std::string gating = "none", promise = "queueing";
  double cap = 0;  // W; 0: none
};

// PowerKeeper: a process of its own, `partita power restore --after-input`, that waits for the end
// of this one and then puts power limits and clocks back, if this one did not: also where it was
// killed. It does nothing when the journal is empty by then.
class PowerKeeper {
 public:
  // Waits until it watches. Where that fails nothing is to be set: nobody would put it back.
  static Result<PowerKeeper> start(const DeviceFlags& device, const std::string& state_directory) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0)
      return environment_error("the keeper of the settings", std::strerror(errno));
    const Descriptor theirs(ends[0]);
    Descriptor ours(ends[1]);
    ChildSpec spec{
        .program = kOwnProgram,
        .argv = {"partita", "power", "restore", "--after-input", "--driver", device.driver},
        .called = "the keeper of the settings",
        .quiet = true,
        .input = theirs.get(),
        // What is typed at this program's terminal is not for it.
        .group = ChildSpec::Group::own_session,
        .outlives = true,
        .ready_within = std::chrono::seconds(20)};
    const auto add = [&](const char* flag, const std::string& value) {
      if (!value.empty()) spec.argv.insert(spec.argv.end(), {flag, value});
    };
    add("--machine", device.machine);
    add("--catalogue", device.catalogue);
    add("--state-dir", state_directory);
    auto child = TRY(Child::start(spec));
    return PowerKeeper(std::move(ours), std::move(child));
  }

 private:
  PowerKeeper(Descriptor ours, Child child) : ours_(std::move(ours)), child_(std::move(child)) {}
  Descriptor ours_;  // its input ends with us
  Child child_;
};

// Reads standard input to its end.
void wait_for_end_of_input() {
  char buffer[256];
  while (true) {
    const auto got = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (got == 0 || (got < 0 && errno != EINTR)) return;
  }
}

struct TableFlags {
  decide::KernelNames kernels;
  power::ClockModel model;
  std::string clocks, output;
};

Result<std::vector<Mhz>> clocks_of(const std::string& text, const std::vector<Mhz>& standard) {
  if (text.empty()) return standard;
  std::vector<Mhz> clocks;
  for (const std::string& word : split(text, ',')) {
    const auto value = parse_number<double>(word);
    if (!value || !(*value >= 50 && *value <= 10'000) ||
        (!clocks.empty() && *value <= clocks.back().value))
      return bad_input("--clocks", fmt::format("'{}' is not a list of ascending MHz, 50 to 10000, "
                                               "separated by commas",
                                               text));
    clocks.push_back({*value});
  }
  if (clocks.size() > plan::kMaxClocks)
    return bad_input("--clocks", fmt::format("at most {} clocks", plan::kMaxClocks));
  return clocks;
}

Result<Exit> run_table(Context& context, const TableFlags& flags) {
  const auto topology = TRY(decide::load_topology(flags.kernels.gpu));
  auto models = TRY(decide::load_kernels(context.files, flags.kernels, topology));
  power::ClockModel model = flags.model;
  model.clocks = TRY(clocks_of(flags.clocks, model.clocks));
  const plan::ResponseTable table =
      power::modelled_table(topology.name, topology.units_in, models, model);
  return finish(context, {flags.output, "csv"}, forms::power_table_csv(table));
}

CLI::Option* add_watts(CLI::App& command, const char* flag, double& value, const char* help) {
  return within(command.add_option(flag, value, help), 0, 5'000)
      ->type_name("W")
      ->default_str(fmt::format("{:g}", value));
}

Command add_power_table(CLI::App& power) {
  auto [command, flags] = adding<TableFlags>(
      power, "table",
      "Model a response table from kernel times: latency, rate and power by clock and units");
  takes(*command, "--models", needed(flags->kernels.workers), "--kernel-profiles",
        needed(flags->kernels.profiles), "--topology", preset(flags->kernels.gpu), "--clocks",
        flags->clocks, "--memory-share", within(flags->model.memory_share, 0, 1), "--board-idle",
        within(flags->model.idle.value, 0, 5'000));
  add_watts(*command, "--unit-idle", flags->model.unit_idle.value,
            "A unit that is clocked and has no work, highest clock");
  add_watts(*command, "--unit-busy", flags->model.unit_busy.value,
            "Additional power of a busy unit");
  within(*command, "--unit-step", flags->model.unit_step, 1, 512);
  add_output_file(*command, flags->output);
  return runs(command, flags, run_table,
              "partita power table --models vgg,bert --kernel-profiles data/published/reef "
              "--topology MI50 -o mi50.csv");
}

void add_power_flags(CLI::App& command, PowerFlags& flags) {
  takes(command, "--services", needed(flags.files.services), "--table", needed(flags.files.table),
        "--topology", preset(flags.files.gpu), "--gating",
        one_of(flags.gating, {"none", "group", "unit"}), "--promise",
        one_of(flags.promise, {"queueing", "execution"}), "--cap", limited(flags.cap, 1, 5'000));
}

plan::PowerPromise promise_of(const PowerFlags& flags) {
  return flags.promise == "execution" ? plan::PowerPromise::execution
                                      : plan::PowerPromise::queueing;
}

Result<plan::PowerProblem> load_power(Context& context, const PowerFlags& flags) {
  auto problem = TRY(decide::load_power_problem(context.files, flags.files));
  problem.gating = flags.gating == "unit"    ? plan::Gating::unit
                   : flags.gating == "group" ? plan::Gating::group
                                             : plan::Gating::none;
  problem.promise = promise_of(flags);
  if (flags.cap > 0) problem.cap = Watts{flags.cap};
  return problem;
}

// Of the plan and its judge.
struct PowerPlanFlags {
  PowerFlags power;
  std::string plan, policy = "exact";
  int gpus = 1;
  double unused = -1;
  Output output;
};

void add_problem(CLI::App& command, PowerPlanFlags& flags) {
  add_power_flags(command, flags.power);
  takes(command, "--gpus", within(flags.gpus, 1, plan::kMaxPowerGpus), "--unused",
        limited(flags.unused, 0, 5'000));
  add_output(command, flags.output, {"text", "json"});
}

Result<plan::PowerProblem> problem_of(Context& context, const PowerPlanFlags& flags) {
  PowerFlags power = flags.power;
  power.files.promise = promise_of(power);
  auto problem = TRY(load_power(context, power));
  problem.gpus = flags.gpus;
  if (flags.unused >= 0) problem.unused = Watts{flags.unused};
  return problem;
}

Result<Exit> run_power_plan(Context& context, const PowerPlanFlags& flags) {
  const auto problem = TRY(problem_of(context, flags));
  const auto made = TRY(decide::make_power_plan(problem, flags.policy));
  if (!made.plan) return refuse(context, flags.output, "plan", made.refusals);
  return finish(context, flags.output,
                flags.output.json() ? forms::power_plan_json(**made.plan)
                                    : decide::power_plan_text(problem, **made.plan));
}

Result<Exit> run_power_verify(Context& context, const PowerPlanFlags& flags) {
  const auto problem = TRY(problem_of(context, flags));
  const auto plan = TRY(read_input(context.files, "PLAN", flags.plan, forms::parse_power_plan));
  const auto verdict = verify::judge(problem, plan);
  const std::string ok = fmt::format(
      "{}: every share is in the table, keeps its SLO and the watts add up\n", flags.plan);
  return say_verdict(context, flags.output, flags.plan, ok,
                     verdict ? std::vector<plan::Reason>{} : verdict.error().violations);
}

Command add_power_plan(CLI::App& power) {
  auto [command, flags] = adding<PowerPlanFlags>(
      power, "plan",
      "Choose which GPUs are on, their clocks and caps, and who has which share of them");
  add_problem(*command, *flags);
  one_of(
      flag(*command, "--policy", flags->policy,
           "exact: the least power, proven or with a bound; the others are CoFRIS's, for one GPU"),
      power::policy_names())
      ->default_str(flags->policy);
  return runs(command, flags, run_power_plan,
              "partita plan --services services.yaml --table mi50.csv --topology MI50 --gpus 4\n"
              "partita plan --services one.yaml --table mi50.csv --policy cofris-cu --format json");
}

Command add_power_verify(CLI::App& power) {
  auto [command, flags] = adding<PowerPlanFlags>(
      power, "verify", "Judge a power plan: units, clocks, SLOs, rates, watts");
  file_argument(*command, "PLAN", flags->plan, "The plan, of kind PowerPlan")->required();
  add_problem(*command, *flags);
  return runs(command, flags, run_power_verify,
              "partita verify plan.json --services services.yaml --table mi50.csv --gpus 4");
}

using decide::PowerCase;

struct PowerSimulateFlags {
  PowerFlags power;
  std::string trace, bin = "10s", duration = "15m", policies, controller = "table";
  std::string poll = "500ms", memory, delay = "0", arrivals = "poisson";
  decide::PowerComparison how;
  bool alone = false, at_most = false, require = false;
  Output output;
};

Result<Seconds> duration_or_zero(const std::string& flag, const std::string& text) {
  if (text == "0" || text.empty()) return Seconds{0};
  return parse_duration(flag, text);
}

Result<decide::PowerComparison> comparison_of(const PowerSimulateFlags& flags) {
  decide::PowerComparison how = flags.how;
  how.policies = flags.policies.empty() ? power::policy_names() : split(flags.policies, ',');
  how.control.poll = TRY(parse_duration("--poll", flags.poll));
  how.control.memory = TRY(duration_or_zero("--look-back", flags.memory));
  how.run.delay = TRY(duration_or_zero("--delay", flags.delay));
  if (flags.controller == "predictive" && flags.memory.empty()) how.control.memory = {10};
  if (flags.controller == "table" && how.control.memory.value > 0)
    return bad_input("--look-back", "it is for --controller predictive");
  how.control.rescue = how.control.guard > 0;
  how.run.even = flags.arrivals == "uniform";
  return how;
}

Result<std::vector<PowerCase>> cases_of(Context& context, const PowerSimulateFlags& flags) {
  auto problem = TRY(load_power(context, flags.power));
  if (flags.at_most) {
    if (problem.services.size() > 1 && !flags.alone)
      return bad_input("--at-most",
                       "services that share a GPU cannot each have all of it: add --alone");
    TRY(decide::to_most(problem));
  }
  const auto duration = TRY(parse_duration("--duration", flags.duration));
  const auto bin = TRY(parse_duration("--bin", flags.bin));
  std::vector<PowerCase> cases;
  if (!flags.alone) cases.push_back({"all", problem, {}, {}});
  for (const plan::Terms& service : problem.services) {
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

Result<Exit> run_power_simulate(Context& context, const PowerSimulateFlags& flags) {
  auto cases = TRY(cases_of(context, flags));
  if (flags.output.svg() && cases.size() > 1)
    return bad_input("--format", "svg draws one case: leave --alone out, or give one service");
  auto how = TRY(comparison_of(flags));
  bool held = true;
  for (PowerCase& one : cases) {
    how.run.trace = one.trace;
    one.outcomes = TRY(decide::compare_power(one.problem, how));
    held = held && decide::all_held(one);
  }
  return finish(context, flags.output,
                flags.output.json()  ? decide::power_cases_json(cases, how)
                : flags.output.svg() ? decide::power_case_svg(cases.front(), how)
                                     : decide::power_cases_text(cases, how, flags.poll),
                flags.require && !held ? Exit::no : Exit::done);
}

Command add_power_simulate(CLI::App& power) {
  auto [command, flags] = adding<PowerSimulateFlags>(
      power, "simulate", "Run policies of power against arrivals: watts, percentiles, SLOs");
  add_power_flags(*command, flags->power);
  takes(*command, "--trace", flags->trace, "--bin", preset(flags->bin), "--duration",
        preset(flags->duration));
  one_of(*command, "--arrivals", flags->arrivals, {"poisson", "uniform"})
      ->transform([](const std::string& word) { return word == "even" ? "uniform" : word; });
  takes(
      *command, "--alone", flags->alone, "--at-most", flags->at_most, "--seed",
      seeded(flags->how.run.seed), "--policies",
      also(flags->policies,
           "Policies between commas (default: baseline,fs,rs-se,rs-cu,cofris-se,cofris-cu,exact)"),
      "--controller", one_of(flags->controller, {"table", "predictive"}), "--look-back",
      flags->memory, "--poll", preset(flags->poll), "--delay", preset(flags->delay), "--guard",
      within(flags->how.control.guard, 0, 20), "--hysteresis-polls",
      within(flags->how.control.hysteresis, 1, 10'000), "--clock-cost",
      limited(flags->how.run.cost.clock.value, 0, 1e6), "--unit-cost",
      limited(flags->how.run.cost.units.value, 0, 1e6), "--strict", flags->require);
  return runs(
      command, flags, run_power_simulate, {"text", "json", "svg"},
      "partita simulate --services mi50.yaml --table mi50.csv --topology MI50 --alone --at-most "
      "--trace data/published/swim/fb09-0.csv");
}

struct FollowFlags {
  DeviceFlags device;
  std::string state_directory, seen, trace, shares, duration = "15m", poll = "500ms";
  std::string stale = "60s";
  decide::PowerFiles files;
  power::ControlOptions control;
  int gpu = 0;
  bool dry_run = false;
};

using Services = std::vector<plan::ServiceSeen>;

// Rates that nobody has written for so long are no rates of now.
Result<void> check_age(const std::string& path, Seconds stale) {
  std::error_code code;
  const auto written = std::filesystem::last_write_time(path, code);
  if (code) return {};  // reading it says what is wrong
  const std::chrono::duration<double> age = std::filesystem::file_time_type::clock::now() - written;
  if (age.count() <= stale.value) return {};
  return environment_error(
      path, fmt::format("was written {} ago, which is no sight of now: full clock until it is "
                        "written again (--stale {:g}s)",
                        duration_text(age.count()), stale.value));
}

Result<Services> read_seen(Files& files, const std::string& path, Seconds stale,
                           const plan::PowerProblem& problem) {
  TRY(check_age(path, stale));
  return read_as(files, path, decide::parse_power_seen, problem.services);
}

// Where the loop sees the services: a file that changes, or a trace played in real time.
Result<std::function<Result<Services>(Seconds)>> services_of(Context& context,
                                                             const FollowFlags& flags,
                                                             const plan::PowerProblem& problem) {
  if (flags.seen.empty() == flags.trace.empty())
    return bad_input("power run", "wants --seen or --trace");
  if (!flags.seen.empty()) {
    const auto stale = TRY(parse_duration("--stale", flags.stale));
    return [&context, path = flags.seen, problem, stale](Seconds) {
      return read_seen(context.files, path, stale, problem);
    };
  }
  const auto duration = TRY(parse_duration("--duration", flags.duration));
  // Bins of 10 s, and some in a short rehearsal, too.
  const Seconds bin = std::min(Seconds{10}, std::max(Seconds{0.05}, duration / 10));
  const auto trace = TRY(decide::load_power_trace(
      context.files, {.file = flags.trace, .duration = duration, .bin = bin}, problem.services));
  return [trace](Seconds at) -> Result<Services> {
    const auto step = static_cast<std::size_t>(at.value / trace.step.value);
    if (step >= trace.rates.size()) return bad_input("--trace", "it has ended");
    Services seen;
    for (const Rps rate : trace.rates[step]) seen.push_back({.rate = rate});
    return seen;
  };
}

void tell_step(Context& context, const actuate::PowerStep& step) {
  if (!step.changed && !step.shared) return;
  std::string rates;
  for (const plan::ServiceSeen& seen : step.seen.services)
    rates += fmt::format("{}{:.0f}", rates.empty() ? "" : ", ", seen.rate.value);
  say(context,
      fmt::format(
          "{:8.1f} s  {} req/s  {} W  ->  {:g} MHz{}{}\n", step.seen.at.value,
          step.blind      ? "?"
          : rates.empty() ? "-"
                          : rates,
          step.seen.power ? fmt::format("{:.0f}", step.seen.power->value) : "-",
          step.settings.clocks->high.value,
          step.settings.limit ? fmt::format(", at most {:g} W", step.settings.limit->value) : "",
          step.setting.units.empty()
              ? ""
              : fmt::format(", {} units", joined(step.setting.units, " + "))));
}

// Whether this process may set the GPU: tried by setting what is set.
Result<bool> may_set(actuate::PowerGuard& guard, device::NodeDriver& driver, int gpu) {
  const auto now = TRY(driver.power_settings(gpu));
  const auto set = guard.set(gpu, now.now);
  if (set) return true;
  if (set.error().code == ErrorCode::denied) return false;
  return failed(set.error());
}

Result<Exit> run_loop(Context& context, const FollowFlags& flags, const actuate::PowerLoop& loop,
                      const OpenDriver& node) {
  device::NodeDriver& driver = *node.driver;
  FileLock lock;  // until all is put back
  std::optional<PowerKeeper> keeper;
  std::optional<actuate::PowerGuard> guard;
  if (!flags.dry_run) {
    const auto directory = TRY(found_state_directory(context, flags.device, flags.state_directory));
    TRY(context.files.make_directories(directory));
    lock = TRY(lock_gpus(context, node, std::vector{flags.gpu}));
    auto opened = TRY(actuate::PowerGuard::open(
        context.files, actuate::power_journal_path(directory), driver, gpu_prefix(node)));
    const auto may = TRY(may_set(opened, driver, flags.gpu));
    if (may) {
      auto started = PowerKeeper::start(flags.device, flags.state_directory);
      if (!started) {
        static_cast<void>(opened.restore());
        return failed(started.error());
      }
      keeper.emplace(*std::move(started));
      guard.emplace(std::move(opened));
    } else {
      complain(context, "no rights to set clocks and limits: a dry run");
    }
  }
  const auto report =
      actuate::run_power_loop(loop, driver, guard ? &*guard : nullptr, context.clock);
  if (guard) TRY(guard->restore());
  if (guard && loop.share)  // nobody adjusts them from now on
    TRY(loop.share(loop.policy.start));
  if (!report) return failed(report.error());
  say(context, fmt::format("{}: {} polls, {} changes, {} without sight; {:.0f} J in {:.1f} s\n",
                           guard ? "restored" : "dry run", report->polls, report->changes,
                           report->blind, report->energy.value, report->time.value));
  return Exit::done;
}

Result<Exit> run_power_run(Context& context, const FollowFlags& flags) {
  const auto poll = TRY(parse_duration("--poll", flags.poll));
  if (poll < Seconds{0.05}) return bad_input("--poll", "must be 50ms or more");
  const auto problem = TRY(decide::load_power_problem(context.files, flags.files));
  power::ControlOptions control = flags.control;
  control.poll = poll;
  auto controller = TRY(power::make_controller(problem, control));
  const auto services = TRY(services_of(context, flags, problem));
  if (problem.services.size() > 1 && flags.shares.empty() && !flags.dry_run)
    return bad_input(
        "power run",
        fmt::format("{} services share the GPU, and what the controller counts on "
                    "holds only if each keeps to its units; no driver sets that. "
                    "--shares-file FILE tells whoever does (CU masks, MPS percentages)",
                    problem.services.size()));
  const OpenDriver opened = TRY(open_driver(context, flags.device));
  StopRequest stop;
  const auto end_ns = [&]() -> std::int64_t {
    if (flags.trace.empty()) return std::numeric_limits<std::int64_t>::max();
    const auto duration = parse_duration("--duration", flags.duration);
    return context.clock.now_ns() + static_cast<std::int64_t>(duration->value * 1e9);
  }();
  power::Controller& chosen = *controller;
  const actuate::PowerLoop loop{
      .gpu = flags.gpu,
      .policy = {.poll = poll,
                 .start = chosen.start(),
                 .decide = [&](const plan::Observation& seen) { return chosen.decide(seen); }},
      .services = services,
      .share = flags.shares.empty() ? decltype(actuate::PowerLoop::share){}
                                    : [&](const plan::Setting& setting) {
                                        return context.files.write_atomic(
                                            flags.shares,
                                            decide::power_shares_json(problem.services,
                                                                      problem.table.units(),
                                                                      setting));
                                      },
      .stopped =
          [&](std::int64_t ns) { return stop.within(ns) || context.clock.now_ns() >= end_ns; },
      .tell =
          [&, blind = false](const actuate::PowerStep& step) mutable {
            if (step.blind && !blind) complain(context, step.why);
            blind = step.blind;
            tell_step(context, step);
          }};
  return run_loop(context, flags, loop, opened);
}

Command add_power_run(CLI::App& power) {
  auto [command, flags] = adding<FollowFlags>(
      power, "run",
      "Follow a controller on a real GPU: clock and limit every poll, put back at the end");
  add_device_flags(*command, flags->device);
  takes(*command, "--state-dir", flags->state_directory, "--gpu-index", within(flags->gpu, 0, 1e6),
        "--services", needed(flags->files.services), "--table", needed(flags->files.table),
        "--topology", preset(flags->files.gpu), "--policy",
        one_of(flags->control.policy, power::policy_names(), "It decides at every poll"), "--poll",
        preset(flags->poll), "--seen", flags->seen, "--stale", preset(flags->stale), "--trace",
        flags->trace, "--duration", preset(flags->duration), "--shares-file", flags->shares,
        "--dry-run", flags->dry_run);
  return runs(
      command, flags, run_power_run,
      "partita power run --services services.yaml --table table.csv --seen /run/rates.json");
}

struct SetFlags {
  DeviceFlags device;
  std::string state_directory, gpus = "all", clocks, hold;
  double limit = 0;
  bool dry_run = false;
};

struct RestoreFlags {
  DeviceFlags device;
  std::string state_directory;
  bool dry_run = false, after_stdin = false;
};

Result<std::optional<device::ClockRange>> clocks_of(const std::string& text) {
  if (text.empty()) return std::optional<device::ClockRange>{};
  const std::vector<std::string> words = split(text, ',');
  const auto low = parse_number<double>(words.front());
  const auto high = parse_number<double>(words.back());
  if (words.size() > 2 || !low || !high || !(*low > 0 && *low <= *high && *high <= 20'000))
    return bad_input("--clocks", fmt::format("'{}' is not MHZ or LOWEST,HIGHEST in MHz", text));
  return std::optional(device::ClockRange{Mhz{*low}, Mhz{*high}});
}

Result<std::vector<int>> gpus_of(const std::string& text, int count) {
  std::vector<int> gpus;
  if (text == "all") {
    for (int gpu = 0; gpu < count; ++gpu) gpus.push_back(gpu);
    return gpus;
  }
  for (const std::string& word : split(text, ',')) {
    const auto gpu = parse_number<int>(word);
    if (!gpu || *gpu < 0 || *gpu >= count)
      return bad_input("--gpu-index",
                       fmt::format("'{}': this node has GPUs 0 to {}", word, count - 1));
    gpus.push_back(*gpu);
  }
  return gpus;
}

std::string settings_text(const device::PowerSettings& settings) {
  const std::string limit = settings.limit ? fmt::format("limit {:g} W", settings.limit->value)
                                           : std::string("default limit");
  if (!settings.clocks) return limit + ", clocks free";
  const auto [low, high] = *settings.clocks;
  return low == high ? fmt::format("{}, clocks {:g} MHz", limit, low.value)
                     : fmt::format("{}, clocks {:g} to {:g} MHz", limit, low.value, high.value);
}

Result<std::string> journal_of(Context& context, const DeviceFlags& device,
                               const std::string& flag) {
  const auto directory = TRY(found_state_directory(context, device, flag));
  TRY(context.files.make_directories(directory));
  return actuate::power_journal_path(directory);
}

// What the flags ask of this GPU: what they do not name stays as it is.
Result<device::PowerSettings> wanted_of(device::NodeDriver& driver, int gpu,
                                        const SetFlags& flags) {
  const auto board = TRY(driver.power_settings(gpu));
  const auto clocks = TRY(clocks_of(flags.clocks));
  device::PowerSettings wanted = board.now;
  if (flags.limit > 0) wanted.limit = Watts{flags.limit};
  if (clocks) wanted.clocks = clocks;
  const bool limited = wanted.limit && board.least_limit && board.most_limit;
  if (limited && (*wanted.limit < *board.least_limit || *wanted.limit > *board.most_limit))
    return bad_input("--power-limit",
                     fmt::format("GPU {} can be limited to {:g} to {:g} W", gpu,
                                 board.least_limit->value, board.most_limit->value));
  if (wanted.clocks && !board.clocks.empty() &&
      (wanted.clocks->low < board.clocks.front() || wanted.clocks->high > board.clocks.back()))
    return bad_input("--clocks",
                     fmt::format("GPU {} runs at {:g} to {:g} MHz", gpu, board.clocks.front().value,
                                 board.clocks.back().value));
  return wanted;
}

using Wanted = std::vector<std::pair<int, device::PowerSettings>>;

Result<Wanted> all_wanted(device::NodeDriver& driver, const SetFlags& flags) {
  const auto info = TRY(driver.info());
  const auto gpus = TRY(gpus_of(flags.gpus, info.gpus));
  Wanted all;
  for (const int gpu : gpus) {
    auto wanted = TRY(wanted_of(driver, gpu, flags));
    all.emplace_back(gpu, std::move(wanted));
  }
  return all;
}

void tell(Context& context, const Wanted& all, std::string_view how) {
  for (const auto& [gpu, settings] : all)
    say(context, fmt::format("{}GPU {}: {}\n", how, gpu, settings_text(settings)));
}

// Sets all or nothing. denied where rights are missing.
Result<void> set_all(actuate::PowerGuard& guard, const Wanted& all) {
  for (const auto& [gpu, settings] : all) {
    auto set = guard.set(gpu, settings);
    if (set) continue;
    if (set.error().code != ErrorCode::denied) TRY(guard.restore());
    return set;
  }
  return {};
}

Result<Exit> run_set(Context& context, const SetFlags& flags) {
  if (flags.limit == 0 && flags.clocks.empty())
    return bad_input("power set", "give --power-limit, --clocks or both");
  std::optional<Seconds> hold;
  if (!flags.hold.empty()) hold = TRY(parse_duration("--hold", flags.hold));
  const OpenDriver opened = TRY(open_driver(context, flags.device));
  const auto wanted = TRY(all_wanted(*opened.driver, flags));
  if (flags.dry_run) {
    tell(context, wanted, "dry run: ");
    return Exit::done;
  }
  const auto journal = TRY(journal_of(context, flags.device, flags.state_directory));
  StopRequest stop;
  std::vector<int> gpus;
  for (const auto& [gpu, settings] : wanted) gpus.push_back(gpu);
  const auto lock = TRY(lock_gpus(context, opened, gpus));
  std::optional<PowerKeeper> keeper;
  auto guard =
      TRY(actuate::PowerGuard::open(context.files, journal, *opened.driver, gpu_prefix(opened)));
  if (hold) keeper.emplace(TRY(PowerKeeper::start(flags.device, flags.state_directory)));
  const auto set = set_all(guard, wanted);
  if (!set && set.error().code == ErrorCode::denied) {
    complain(context, to_string(set.error()) + "; nothing was changed");
    tell(context, wanted, "dry run: ");
    return Exit::done;
  }
  if (!set) return failed(set.error());
  tell(context, wanted, "");
  if (!hold) {
    note(context, "it stays so until 'partita power set --restore' or a reset\n");
    return Exit::done;
  }
  stop.within(*hold);
  TRY(guard.restore());
  say(context, "restored\n");
  return Exit::done;
}

Result<Exit> run_restore(Context& context, const RestoreFlags& flags) {
  const auto journal = TRY(journal_of(context, flags.device, flags.state_directory));
  if (flags.after_stdin) {
    say_ready();
    wait_for_end_of_input();
  }
  if (flags.dry_run) {
    const auto changed = TRY(actuate::read_power_journal(context.files, journal));
    for (const actuate::PowerBefore& before : changed)
      say(context, fmt::format("dry run: GPU {} ({}): {}\n", before.gpu, before.uuid,
                               settings_text(before.settings)));
    if (changed.empty()) say(context, "nothing is changed\n");
    return Exit::done;
  }
  const OpenDriver opened = TRY(open_driver(context, flags.device));
  const auto open_guard = [&] {
    return actuate::PowerGuard::open(context.files, journal, *opened.driver, gpu_prefix(opened));
  };
  auto guard = open_guard();
  // Who ended a moment ago may still hold the journal.
  for (int i = 0; i < 50 && flags.after_stdin && !guard; ++i) {
    context.clock.sleep_ns(100'000'000);
    guard = open_guard();
  }
  if (!guard) return failed(guard.error());
  // A person means all that is changed, in whatever state directory that was noted.
  const auto others = TRY(flags.after_stdin ? Result<std::vector<actuate::PowerBefore>>()
                                            : guard->changed_by_others());
  std::vector<std::string> uuids;
  for (const auto* list : {&guard->changed(), &others})
    for (const actuate::PowerBefore& one : *list) uuids.push_back(one.uuid);
  const auto lock = TRY(lock_gpus(context, opened, std::move(uuids)));
  TRY(guard->take_over(others));
  const std::vector<actuate::PowerBefore> changed = guard->changed();
  TRY(guard->restore());
  for (const actuate::PowerBefore& before : changed)
    say(context, std::ranges::count(guard->gone(), before.uuid, &actuate::PowerBefore::uuid) > 0
                     ? fmt::format("GPU {} ({}): not in this node any more since it was started\n",
                                   before.gpu, before.uuid)
                     : fmt::format("GPU {}: {}\n", before.gpu, settings_text(before.settings)));
  if (changed.empty() && !flags.after_stdin) say(context, "nothing is changed\n");
  return Exit::done;
}

// Those that set clocks and limits of real GPUs.
Command add_power_set(CLI::App& power) {
  auto [command, flags] = adding<SetFlags>(
      power, "set", "Set power limit and clocks of GPUs; what was before is kept for 'restore'");
  add_device_flags(*command, flags->device);
  takes(*command, "--state-dir", flags->state_directory, "--gpu-index", preset(flags->gpus),
        "--power-limit", limited(flags->limit, 1, 5'000), "--clocks", flags->clocks, "--hold",
        flags->hold, "--dry-run", flags->dry_run);
  return runs(command, flags, run_set,
              "partita power set --power-limit 300 --gpu-index 0\n"
              "partita power set --clocks 1200 --hold 1h --driver sim --machine machine.yaml");
}

Command add_power_restore(CLI::App& power) {
  auto [command, flags] = adding<RestoreFlags>(
      power, "restore", "Put power limits and clocks back to what they were before 'set' or 'run'");
  add_device_flags(*command, flags->device);
  takes(*command, "--state-dir", flags->state_directory, "--dry-run", flags->dry_run,
        "--after-input", flags->after_stdin);
  return runs(command, flags, run_restore, "partita power set --restore");
}

}  // namespace

Command add_power(CLI::App& app) {
  CLI::App* power = app.add_subcommand(
      "power", "Plan clocks, caps and shares of GPUs for the least watts within the SLOs");
  return group_of(power, {add_power_table(*power), add_power_plan(*power), add_power_verify(*power),
                          add_power_simulate(*power), add_power_run(*power), add_power_set(*power),
                          add_power_restore(*power)});
}

}  // namespace partita::cli
