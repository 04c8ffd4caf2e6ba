#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <limits>
#include <set>

#include "base/append.h"
#include "commands.h"
#include "decide/input.h"
#include "flags.h"
#include "lease/lease_desk.h"
#include "queue/slurm/placer.h"
#include "slurm/slurm_commands.h"
#include "stop_request.h"

namespace partita::cli {
namespace {

constexpr std::size_t kMostComplaints = 10'000;  // that are remembered, so as to be said once

struct SlurmServeFlags {
  std::string site = slurm::kSiteFile, catalogue;
  std::string every = "1s", patience = "5m", stuck = "60s";
  bool once = false, dry_run = false;
};

Result<slurm::PlacerSettings> placer_settings(const SlurmServeFlags& flags) {
  slurm::PlacerSettings settings;
  const Seconds patience = TRY(parse_duration("--keep-after", flags.patience));
  const Seconds stuck = TRY(parse_duration("--stuck", flags.stuck));
  settings.patience_s = static_cast<long>(patience.value);
  settings.stuck_s = std::max(1L, static_cast<long>(stuck.value));
  return settings;
}

class SlurmServer {
 public:
  SlurmServer(Context& context, slurm::SlurmDoor& door, slurm::Placer& placer,
              const SlurmServeFlags& flags, std::string ended)
      : context_(context),
        door_(door),
        placer_(placer),
        dry_run_(flags.dry_run),
        ended_(std::move(ended)) {}

  // One look at Slurm, and what follows from it.
  Result<void> look() {
    const long now_s = wall_clock_ms() / 1'000;
    // First: what ends between this and the look at Slurm was not forgotten.
    std::string ended;
    if (now_s < controller_since_ + slurm::kForgetfulS)
      ended = context_.files.read(ended_ + ".old").value_or("") +
              context_.files.read(ended_).value_or("");
    auto state = TRY(slurm::read_slurm(door_));
    controller_since_ = state.controller_since;
    state.ended = slurm::parse_ended(ended);
    const slurm::PlacerStep step = placer_.step(now_s, state);
    if (complained_.size() > kMostComplaints) complained_.clear();
    for (const std::string& complaint : step.complaints)
      if (complained_.insert(complaint).second) complain(context_, complaint);
    for (const slurm::SlurmCommand& command : step.commands) TRY(perform(command));
    return {};
  }

 private:
  Result<void> perform(const slurm::SlurmCommand& command) {
    if (dry_run_) {
      say(context_, joined(command.argv, " ") + "\n");
      return {};
    }
    std::vector<std::string> argv = command.argv;
    if (argv.front() == "partita")
      argv.front() = std::filesystem::canonical("/proc/self/exe").string();
    const auto answer = TRY(door_.run(argv));
    // A job that has ended meanwhile is no fault; the next look sees it.
    say(context_, fmt::format("job {}: {}{}\n", command.job, command.why,
                              answer.status == 0 ? "" : "; Slurm: " + answer.complaint));
    return {};
  }

  Context& context_;
  slurm::SlurmDoor& door_;
  slurm::Placer& placer_;
  const bool dry_run_;
  const std::string ended_;
  long controller_since_ = std::numeric_limits<long>::max() / 2;  // not known yet
  std::set<std::string> complained_ = {};
};

Result<Exit> run_slurm_serve(Context& context, const SlurmServeFlags& flags) {
  const auto settings = TRY(placer_settings(flags));
  const Seconds every = TRY(parse_duration("--interval", flags.every));
  const auto catalogue = TRY(decide::load_catalogue(context.files, flags.catalogue));
  const auto site = TRY(read_site(context, flags.site));
  auto gpus = TRY(slurm::gpus_of_site(site, catalogue));
  auto open = TRY(open_slurm(context));
  const auto lock = TRY(lock_of_placer(context, flags.site));
  const slurm::BestFitPlacing placing;
  slurm::Placer placer(placing, std::move(gpus), settings);
  SlurmServer server(context, *open.door, placer, flags, site.ended);
  if (flags.once) {
    TRY(server.look());
    return Exit::done;
  }
  StopRequest stop;
  std::string trouble;  // said once
  do {
    const auto done = server.look();
    const std::string now = done ? "" : to_string(done.error());
    if (now != trouble) complain(context, done ? "Slurm answers again" : now);
    trouble = now;
  } while (!stop.within(static_cast<std::int64_t>(every.value * 1e9)));
  return Exit::done;
}

}  // namespace

Command add_slurm_serve(CLI::App& slurm) {
  auto [command, flags] = adding<SlurmServeFlags>(
      slurm, "serve",
      "Give jobs that wait for MIG instances their nodes and places, as long as it runs");
  add_site_flag(*command, flags->site);
  flag(*command, "--interval", flags->every)->default_str(flags->every);
  flag(*command, "--keep-after", flags->patience)->default_str(flags->patience);
  flag(*command, "--stuck", flags->stuck)->default_str(flags->stuck);
  flag(*command, "--once", flags->once);
  flag(*command, "--dry-run", flags->dry_run);
  add_catalogue(*command, flags->catalogue);
  command->footer("partita slurm serve\npartita slurm serve --once --dry-run");
  return {command, [flags](Context& context) { return run_slurm_serve(context, *flags); }};
}

}  // namespace partita::cli
