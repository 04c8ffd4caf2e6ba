// On a node: what its instances take, a reading at each interval, in a file: "since MS", and "UUID
// JOULES" of each device. The prolog keeps what it says when a job begins, the SPANK plugin tells
// Slurm how much more it is at the job's end. Of each job that has a cgroup also "host/JOB JOULES",
// of CPUs and memory since it began, and "idle/JOB JOULES", which of these are idle power.
#include <fmt/format.h>

#include <memory>
#include <set>

#include "base/append.h"
#include "base/parse_number.h"
#include "commands.h"
#include "control/host_meter.h"
#include "device/observe/host_energy.h"
#include "energy/instance_joules.h"
#include "flags.h"
#include "lease/lease_desk.h"
#include "slurm/slurm_commands.h"
#include "stop_request.h"

namespace partita::cli {
namespace {

struct MeterFlags {
  std::string site = slurm::kSiteFile, node, every = "1s";
  std::string powercap = observe::HostPaths{}.powercap, cgroups = "/sys/fs/cgroup";
};

// Jobs that have instances here and a cgroup, as Slurm's plugin cgroup/v2 makes them, with one
// slurmd on the machine or several; `folder` has a file of each that began.
std::vector<observe::TenantProcess> jobs_in(Files& files, const std::string& folder,
                                            const MeterFlags& flags) {
  std::vector<observe::TenantProcess> jobs;
  const auto names = files.list(folder);
  for (const std::string& name : names ? *names : std::vector<std::string>{}) {
    if (!name.ends_with(".env")) continue;
    const auto job = parse_number<long>(std::string_view(name).substr(0, name.size() - 4));
    if (!job) continue;
    for (const std::string& place :
         {fmt::format("{}/system.slice/slurmstepd.scope/job_{}", flags.cgroups, *job),
          fmt::format("{}/system.slice/{}_slurmstepd.scope/job_{}", flags.cgroups, flags.node,
                      *job)})
      if (files.exists(place + "/cpu.stat"))
        jobs.push_back({.tenant = std::to_string(*job), .cgroup = place});
  }
  return jobs;
}

// CPUs and memory, by job.
class JobsOfHost {
 public:
  JobsOfHost(Files& files, const MeterFlags& flags)
      : files_(files), flags_(flags), reader_(files, {.powercap = flags.powercap}) {}

  std::string look(Seconds at, const std::string& folder) {
    const auto jobs = jobs_in(files_, folder, flags_);
    reader_.keep_only(jobs);
    meter_.see(reader_.read(at, jobs), {});
    std::string text;
    std::set<std::string> there;
    for (const observe::TenantProcess& job : jobs) {
      there.insert(job.tenant);
      if (const auto part = meter_.part_of(job.tenant))
        append(text, "host/{0} {1:.3f}\nidle/{0} {2:.3f}\n", job.tenant, part->joules,
               part->idle_joules);
    }
    for (const std::string& gone : before_)
      if (!there.contains(gone)) meter_.forget(gone);
    before_ = std::move(there);
    return text;
  }

 private:
  Files& files_;
  const MeterFlags& flags_;
  observe::HostEnergyReader reader_;
  control::HostMeter meter_;
  std::set<std::string> before_;
};

telemetry::Sample read_sample(device::NodeDriver& driver, int gpus) {
  telemetry::Sample sample{.at = Seconds{static_cast<double>(wall_clock_ms()) / 1e3}};
  for (int gpu = 0; gpu < gpus; ++gpu)
    if (auto read = driver.telemetry(gpu)) sample.gpus.push_back(*std::move(read));
  return sample;
}

Result<Exit> run_slurm_meter(Context& context, const MeterFlags& flags) {
  const Seconds every = TRY(parse_duration("--interval", flags.every));
  const auto site = TRY(read_site(context, flags.site));
  const auto open =
      TRY(open_driver(context, {site.driver, slurm::for_node(site.machine, flags.node), ""}));
  const auto info = TRY(open.bare->info());
  const std::string folder = slurm::for_node(site.jobs, flags.node);
  TRY(context.files.make_directories(folder));
  const std::int64_t since_ms = wall_clock_ms();
  InstanceJoules joules;
  JobsOfHost hosts(context.files, flags);
  StopRequest stop;
  do {
    joules.see(read_sample(*open.bare, info.gpus));
    std::string text = fmt::format("since {}\n", since_ms);
    for (const auto& [device, draw] : joules.draws())
      append(text, "{} {:.3f}\n", device, draw.joules);
    text += hosts.look(Seconds{static_cast<double>(context.clock.now_ns()) * 1e-9}, folder);
    if (auto written = context.files.write_atomic(metered_file(folder), text); !written)
      return failed(written.error());
  } while (!stop.within(static_cast<std::int64_t>(every.value * 1e9)));
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
  flag(*command, "--powercap", flags->powercap)->capture_default_str();
  flag(*command, "--cgroups", flags->cgroups)->capture_default_str();
  command->footer("partita slurm meter --node-name g3");
  return {command, [flags](Context& context) { return run_slurm_meter(context, *flags); }};
}

}  // namespace partita::cli
