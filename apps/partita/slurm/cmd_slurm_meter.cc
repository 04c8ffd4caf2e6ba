// On a node: what its instances take, a reading at each interval, in a file: "since MS", and "UUID
// JOULES" of each device. The prolog keeps what it says when a job begins, the SPANK plugin tells
// Slurm how much more it is at the job's end.
#include <fmt/format.h>

#include <memory>

#include "base/append.h"
#include "commands.h"
#include "energy/instance_joules.h"
#include "flags.h"
#include "lease/lease_desk.h"
#include "slurm/slurm_commands.h"
#include "stop_request.h"

namespace partita::cli {
namespace {

struct MeterFlags {
  std::string site = slurm::kSiteFile, node, every = "1s";
};

telemetry::Sample read_sample(device::NodeDriver& driver, int gpus) {
  telemetry::Sample sample{.at = Seconds{static_cast<double>(wall_clock_ms()) / 1e3}};
  for (int gpu = 0; gpu < gpus; ++gpu)
    if (auto read = driver.telemetry(gpu)) sample.gpus.push_back(*std::move(read));
  return sample;
}

Result<Exit> run_slurm_meter(Context& context, const MeterFlags& flags) {
  const Result<Seconds> every = parse_duration("--interval", flags.every);
  if (!every) return failed(every.error());
  const auto site = read_site(context, flags.site);
  if (!site) return failed(site.error());
  const auto open =
      open_driver(context, {site->driver, slurm::for_node(site->machine, flags.node), ""});
  if (!open) return failed(open.error());
  const auto info = open->bare->info();
  if (!info) return failed(info.error());
  const std::string folder = slurm::for_node(site->jobs, flags.node);
  if (auto made = context.files.make_directories(folder); !made) return failed(made.error());
  const std::int64_t since_ms = wall_clock_ms();
  InstanceJoules joules;
  StopRequest stop;
  do {
    joules.see(read_sample(*open->bare, info->gpus));
    std::string text = fmt::format("since {}\n", since_ms);
    for (const auto& [device, draw] : joules.draws())
      append(text, "{} {:.3f}\n", device, draw.joules);
    if (auto written = context.files.write_atomic(metered_file(folder), text); !written)
      return failed(written.error());
  } while (!stop.within(static_cast<std::int64_t>(every->value * 1e9)));
  static_cast<void>(context.files.remove(metered_file(folder)));
  return Exit::done;
}

}  // namespace

std::string metered_file(const std::string& folder) { return folder + "/joules"; }

Command add_slurm_meter(CLI::App& slurm) {
  CLI::App* command =
      slurm.add_subcommand("meter", "On a node: measure what jobs take; Slurm keeps it per job");
  command->group("");  // beside slurmd, started as it is
  auto flags = std::make_shared<MeterFlags>();
  add_site_flag(*command, flags->site);
  flag(*command, "--node-name", flags->node)->required();
  flag(*command, "--interval", flags->every)->default_str(flags->every);
  command->footer("partita slurm meter --node-name g3");
  return {command, [flags](Context& context) { return run_slurm_meter(context, *flags); }};
}

}  // namespace partita::cli
