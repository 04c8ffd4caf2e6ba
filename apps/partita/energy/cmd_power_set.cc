#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "act/power_guard.h"
#include "base/parse_number.h"
#include "base/split.h"
#include "energy/power_commands.h"
#include "energy/power_keeper.h"
#include "flags.h"
#include "node/devices.h"
#include "node/state_dir.h"
#include "stop_request.h"

namespace partita::cli {
namespace {

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
      return bad_input("--gpus", fmt::format("'{}': this node has GPUs 0 to {}", word, count - 1));
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
    return bad_input("--limit", fmt::format("GPU {} can be limited to {:g} to {:g} W", gpu,
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
    return bad_input("power set", "wants --limit, --clocks or both");
  std::optional<Seconds> hold;
  if (!flags.hold.empty()) {
    hold = TRY(parse_duration("--hold", flags.hold));
  }
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
  if (hold) {
    auto started = TRY(PowerKeeper::start(flags.device, flags.state_directory));
    keeper.emplace(std::move(started));
  }
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
  stop.within(static_cast<std::int64_t>(hold->value * 1e9));
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
    say(context, fmt::format("GPU {}: {}\n", before.gpu, settings_text(before.settings)));
  if (changed.empty() && !flags.after_stdin) say(context, "nothing is changed\n");
  return Exit::done;
}

}  // namespace

Command add_power_set(CLI::App& power) {
  auto [command, flags] = adding<SetFlags>(
      power, "set", "Set power limit and clocks of GPUs; what was before is kept for 'restore'");
  add_device_flags(*command, flags->device);
  add_state_dir(*command, flags->state_directory);
  flag(*command, "--gpu-index", flags->gpus)->default_str(flags->gpus);
  within(flag(*command, "--power-limit", flags->limit), 1, 5'000);
  flag(*command, "--clocks", flags->clocks);
  flag(*command, "--hold", flags->hold);
  flag(*command, "--dry-run", flags->dry_run);
  command->footer(
      "partita power set --limit 300 --gpus 0\n"
      "partita power set --clocks 1200 --hold 1h --driver sim --machine machine.yaml");
  return {command, [flags](Context& context) { return run_set(context, *flags); }};
}

Command add_power_restore(CLI::App& power) {
  auto [command, flags] = adding<RestoreFlags>(
      power, "restore", "Put power limits and clocks back to what they were before 'set' or 'run'");
  add_device_flags(*command, flags->device);
  add_state_dir(*command, flags->state_directory);
  flag(*command, "--dry-run", flags->dry_run);
  flag(*command, "--after-input", flags->after_stdin);
  command->footer("partita power set --restore");
  return {command, [flags](Context& context) { return run_restore(context, *flags); }};
}

}  // namespace partita::cli
