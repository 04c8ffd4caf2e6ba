#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <optional>

#include "act/power_loop.h"
#include "base/append.h"
#include "base/terminal.h"
#include "decide/power.h"
#include "decide/power_seen.h"
#include "energy/power_commands.h"
#include "energy/power_keeper.h"
#include "flags.h"
#include "node/devices.h"
#include "node/state_dir.h"
#include "planners/power/controller.h"
#include "stop_request.h"

namespace partita::cli {
namespace {

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
  const auto text = TRY(files.read(path));
  return decide::parse_power_seen(path, text, problem.services);
}

// Where the loop sees the services: a file that changes, or a trace played in real time.
Result<std::function<Result<Services>(Seconds)>> services_of(Context& context,
                                                             const FollowFlags& flags,
                                                             const plan::PowerProblem& problem) {
  if (flags.seen.empty() == flags.trace.empty())
    return bad_input("power run", "wants --seen or --trace");
  if (!flags.seen.empty()) {
    const auto stale = parse_duration("--stale", flags.stale);
    if (!stale) return failed(stale.error());
    return [&context, path = flags.seen, problem, stale = *stale](Seconds) {
      return read_seen(context.files, path, stale, problem);
    };
  }
  const auto duration = TRY(parse_duration("--duration", flags.duration));
  // Bins of 10 s, and some in a short rehearsal, too.
  const Seconds bin = std::min(Seconds{10}, std::max(Seconds{0.05}, duration / 10));
  const auto trace = decide::load_power_trace(
      context.files, {.file = flags.trace, .duration = duration, .bin = bin}, problem.services);
  if (!trace) return failed(trace.error());
  return [trace = *trace](Seconds at) -> Result<Services> {
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
    return bad_input("power run",
                     fmt::format("{} services share the GPU, and what the controller counts on "
                                 "holds only if each keeps to its units; no driver sets that. "
                                 "--shares FILE tells whoever does (CU masks, MPS percentages)",
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

}  // namespace

Command add_power_run(CLI::App& power) {
  auto [command, flags] = adding<FollowFlags>(
      power, "run",
      "Follow a controller on a real GPU: clock and limit every poll, put back at the end");
  add_device_flags(*command, flags->device);
  add_state_dir(*command, flags->state_directory);
  within(flag(*command, "--gpu-index", flags->gpu), 0, 1e6)->default_str("0");
  flag(*command, "--services", flags->files.services)->required();
  flag(*command, "--table", flags->files.table)->required();
  flag(*command, "--topology", flags->files.gpu)->default_str(flags->files.gpu);
  one_of(flag(*command, "--policy", flags->control.policy, "The controller"), power::policy_names())
      ->default_str(flags->control.policy);
  flag(*command, "--poll", flags->poll)->default_str(flags->poll);
  flag(*command, "--seen", flags->seen);
  flag(*command, "--stale", flags->stale)->default_str(flags->stale);
  flag(*command, "--trace", flags->trace);
  flag(*command, "--duration", flags->duration)->default_str(flags->duration);
  flag(*command, "--shares-file", flags->shares);
  flag(*command, "--dry-run", flags->dry_run);
  command->footer(
      "partita power run --services services.yaml --table table.csv --seen /run/rates.json");
  return {command, [flags](Context& context) { return run_power_run(context, *flags); }};
}

}  // namespace partita::cli
