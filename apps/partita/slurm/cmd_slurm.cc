#include <dlfcn.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "base/index.h"
#include "base/processes.h"
#include "commands.h"
#include "control/host_meter.h"
#include "device/observe/host_energy.h"
#include "energy/instance_joules.h"
#include "lease/lease_desk.h"
#include "queue/slurm/placer.h"
#include "queue/slurm/site.h"
#include "queue/slurm/site_check.h"
#include "queue/slurm/site_files.h"
#include "queue/slurm/slurm_door.h"

namespace partita::cli {
namespace {

// Slurm's commands, with what they need.
struct OpenSlurm {
  std::unique_ptr<PrivateFolder> folder;
  std::unique_ptr<Processes> processes;
  std::unique_ptr<slurm::RealSlurm> door;
};

std::string spank_plugin();
std::string metered_file(const std::string& folder);

void add_site_flag(CLI::App& command, std::string& site) {
  flag(command, "--site", site)->default_str(slurm::kSiteFile);
}

Result<slurm::SlurmSite> read_site(Context& context, const std::string& path) {
  const std::string file = path.empty() ? slurm::kSiteFile : path;
  return read_as(context.files, file, slurm::parse_site);
}

Result<OpenSlurm> open_slurm(Context& context) {
  PrivateFolder folder = TRY(PrivateFolder::make());
  OpenSlurm open;
  open.folder = std::make_unique<PrivateFolder>(std::move(folder));
  open.processes = std::make_unique<RealProcesses>();
  open.door = std::make_unique<slurm::RealSlurm>(*open.processes, context.clock, context.files,
                                                 open.folder->path());
  return open;
}

// Held by the one placer of a site on this machine; in_use where one runs.
Result<FileLock> lock_of_placer(Context& context, const std::string& site) {
  const std::string folder = lock_directory();
  TRY(context.files.make_directories(folder));
  std::error_code error;
  std::string name = std::filesystem::weakly_canonical(site, error).string();
  if (error) return environment_error(site, error.message());
  std::ranges::replace(name, '/', '_');
  return context.files.lock(folder + "/slurm-placer" + name + ".lock");
}

struct SlurmInstallFlags {
  std::string site = slurm::kSiteFile, catalogue, folder;
  slurm::FilePlaces places;
  slurm::SlurmSite described;
  slurm::SiteNodes nodes;
  bool apply = false, force = false;
};

Result<slurm::SlurmSite> site_of(Context& context, const SlurmInstallFlags& flags) {
  if (flags.nodes.names.empty()) return read_site(context, flags.site);
  slurm::SlurmSite site = flags.described;
  site.nodes = {flags.nodes};
  return site;
}

// Writes one file; what is there and differs stays, unless it is to be replaced.
Result<bool> put(Context& context, const std::string& path, const slurm::SiteFile& file,
                 bool force) {
  const bool there = context.files.exists(path);
  if (there) {
    const std::string now = TRY(context.files.read(path));
    if (now == file.text) {
      say(context, fmt::format("{}: is so already\n", path));
      return true;
    }
    if (!force) {
      complain(context, fmt::format("{}: differs and stays; --replace does it", path));
      return false;
    }
  }
  TRY(context.files.write_atomic(path, file.text));
  if (::chmod(path.c_str(), file.program ? 0755 : 0644) != 0)
    return environment_error(path, "its rights cannot be set");
  say(context, fmt::format("{}: {}\n", path, there ? "replaced" : "written"));
  return true;
}

Result<Exit> run_slurm_install(Context& context, SlurmInstallFlags& flags) {
  const auto catalogue = TRY(decide::load_catalogue(context.files, flags.catalogue));
  const auto site = TRY(site_of(context, flags));
  slurm::FilePlaces places = flags.places;
  places.site = std::filesystem::absolute(flags.site).string();
  places.program = std::filesystem::canonical("/proc/self/exe").string();
  places.spank = spank_plugin();
  const std::string folder = flags.apply ? places.folder : flags.folder;
  if (folder.empty()) return bad_input("--files", "a folder for the files, or --into-etc");
  if (!flags.apply) places.folder = std::filesystem::absolute(folder).string();
  const auto files = TRY(slurm::site_files(site, catalogue, places));
  TRY(context.files.make_directories(folder));
  bool all = true;
  std::map<std::string, slurm::SiteFile> wanted;
  for (const auto& [name, file] : files) wanted[folder + "/" + name] = file;
  if (!flags.nodes.names.empty()) wanted[places.site] = {slurm::site_text(site)};
  for (const auto& [path, file] : wanted) {
    const auto done = TRY(put(context, path, file, flags.force));
    all = all && done;
  }
  say(context,
      "Now put the lines of the .partita files into slurm.conf and gres.conf on every "
      "node, restart slurmctld and slurmd, and see `partita slurm check`.\n");
  return all ? Exit::done : Exit::no;
}

// Beside the program, or where packages put it; empty: nowhere.
std::string spank_plugin() {
  const auto folder = std::filesystem::canonical("/proc/self/exe").parent_path();
  for (const auto& file : {folder / "spank_partita.so", folder / "../lib/partita/spank_partita.so"})
    if (std::filesystem::exists(file)) return std::filesystem::canonical(file).string();
  return {};
}

Command add_slurm_install(CLI::App& slurm) {
  auto [command, flags] = adding<SlurmInstallFlags>(
      slurm, "install", "Write Slurm's plugin, prolog, epilog and lines of configuration");
  add_site_flag(*command, flags->site);
  takes(*command, "--nodes", flags->nodes.names, "--gpu",
        also(flags->nodes.gpu, "With --nodes: theirs"), "--gpus",
        limited(flags->nodes.count, 1, slurm::kMostGpus, "With --nodes: of each"), "--driver",
        word_from(flags->described.driver, {"nvml", "sim"}, "With --nodes: nvml or sim"),
        "--machine",
        also(flags->described.machine,
             "With --nodes and --driver sim: of each node, %n being its name"),
        "--jobs", flags->described.jobs, "--ended", preset(flags->described.ended), "--files",
        flags->folder, "--into-etc", flags->apply, "--etc", preset(flags->places.folder),
        "--replace", flags->force, "--catalogue", flags->catalogue);
  return runs(command, flags, run_slurm_install,
              "partita slurm install --nodes g[0-7] --gpu A100-80GB --files slurm-files\n"
              "partita slurm install --into-etc");
}

struct SlurmCheckFlags {
  std::string site = slurm::kSiteFile, catalogue;
  slurm::FilePlaces places;
};

std::map<std::string, std::string> files_in(Context& context, const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const char* name : {"job_submit.lua", "jobcomp.lua", "partita-prolog.sh",
                           "partita-epilog.sh", "partita-task.sh", "cgroup.conf"}) {
    const std::string path = folder + "/" + name;
    if (!context.files.exists(path)) continue;
    if (auto text = context.files.read(path)) files[name] = *std::move(text);
  }
  return files;
}

Result<Exit> run_slurm_check(Context& context, const SlurmCheckFlags& flags) {
  const auto catalogue = TRY(decide::load_catalogue(context.files, flags.catalogue));
  const auto site = TRY(read_site(context, flags.site));
  auto open = TRY(open_slurm(context));
  const auto config = TRY(slurm::output_of(*open.door, {"scontrol", "show", "config"}));
  const auto shown = TRY(slurm::output_of(*open.door, {"sinfo", "--json"}));
  auto nodes = TRY(slurm::parse_nodes(shown));
  slurm::CheckedSite checked{
      site, catalogue, flags.places, slurm::parse_config(config), std::move(nodes), {}, false};
  if (checked.places.folder.empty())
    checked.places.folder =
        std::filesystem::path(checked.config["SLURM_CONF"]).parent_path().string();
  checked.places.site = std::filesystem::absolute(flags.site).string();
  checked.places.program = std::filesystem::canonical("/proc/self/exe").string();
  checked.files = files_in(context, checked.places.folder);
  if (auto plugstack = context.files.read(checked.config["PlugStackConfig"]))
    checked.files["plugstack.conf"] = *std::move(plugstack);
  const auto lock = lock_of_placer(context, flags.site);
  checked.placer_runs = !lock && lock.error().code == ErrorCode::in_use;
  const auto sentences = TRY(slurm::check_site(checked));
  for (const std::string& sentence : sentences) say(context, sentence + "\n");
  if (sentences.empty()) say(context, "Jobs can ask for MIG instances here.\n");
  return sentences.empty() ? Exit::done : Exit::no;
}

Command add_slurm_check(CLI::App& slurm) {
  auto [command, flags] =
      adding<SlurmCheckFlags>(slurm, "check", "Check Slurm's configuration and list what is wrong");
  flags->places.folder.clear();
  add_site_flag(*command, flags->site);
  takes(*command, "--etc", also(flags->places.folder, "Default: where slurm.conf is"),
        "--catalogue", flags->catalogue);
  return runs(command, flags, run_slurm_check, "partita slurm check");
}

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
  } while (!stop.within(every));
  return Exit::done;
}

Command add_slurm_serve(CLI::App& slurm) {
  auto [command, flags] = adding<SlurmServeFlags>(
      slurm, "serve", "Place jobs that wait for MIG instances, until it is stopped");
  add_site_flag(*command, flags->site);
  takes(*command, "--interval", preset(flags->every), "--keep-after", preset(flags->patience),
        "--stuck", preset(flags->stuck), "--once", flags->once, "--dry-run", flags->dry_run,
        "--catalogue", flags->catalogue);
  return runs(command, flags, run_slurm_serve,
              "partita slurm serve\npartita slurm serve --once --dry-run");
}

// On a node: what its instances take, a reading at each interval, in a file: "since MS", and "UUID
// JOULES" of each device. The prolog keeps what it says when a job begins, the SPANK plugin tells
// Slurm how much more it is at the job's end. Of each job that has a cgroup also "host/JOB JOULES",
// of CPUs and memory since it began, and "idle/JOB JOULES", which of these are idle power.

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
    TRY(context.files.write_atomic(metered_file(folder), text));
  } while (!stop.within(every));
  static_cast<void>(context.files.remove(metered_file(folder)));
  return Exit::done;
}

// Where `partita slurm meter` writes, in the folder of what jobs are told.
std::string metered_file(const std::string& folder) { return folder + "/joules"; }

Command add_slurm_meter(CLI::App& slurm) {
  CLI::App* command =
      slurm.add_subcommand("meter", "On a node: measure what jobs take; Slurm keeps it per job");
  command->group("");  // beside slurmd, started as it is
  auto flags = std::make_shared<MeterFlags>();
  add_site_flag(*command, flags->site);
  takes(*command, "--node-name", needed(flags->node), "--interval", preset(flags->every),
        "--powercap", preset(flags->powercap), "--cgroups", preset(flags->cgroups));
  return runs(command, flags, run_slurm_meter, "partita slurm meter --node-name g3");
}

// What runs on the nodes, in Slurm's prolog and epilog: the job's instances as leases of
// slurm:JOBID, and what the job is told of them. A prolog that fails drains the node, so neither
// does; a job that the node has no room for goes back into the queue.

constexpr std::int64_t kControllerPatience = 60'000'000'000, kControllerRetry = 200'000'000;
constexpr Seconds kNodePatience{60};
// Until slurmd has heard that the job goes back; a job that it starts before would fail.
constexpr std::int64_t kUntilTakenNs = 1'000'000'000;
constexpr int kEndings = 20;
constexpr std::int64_t kEndingNs = 100'000'000;

// In the job's file, which its tasks wait for: should something of it start all the same, it ends.
constexpr const char* kRefused = "PARTITA_REFUSED=1\n";

// Owners of a job's leases: its first is slurm:12, its second slurm:12/2.
std::string owner_of(long job, std::size_t index) {
  return index == 0 ? fmt::format("slurm:{}", job) : fmt::format("slurm:{}/{}", job, index + 1);
}

class NodeSide {
 public:
  NodeSide(Context& context, slurm::SlurmSite site, std::string node, long job)
      : context_(context),
        site_(std::move(site)),
        node_(std::move(node)),
        folder_(slurm::for_node(site_.jobs, node_)),
        file_(fmt::format("{}/{}.env", folder_, job)),
        job_(job) {}

  Result<void> prolog() {
    auto marked = TRY(slurm::parse_mark(environment_variable("SLURM_JOB_COMMENT")));
    if (!marked) return write("");
    slurm::JobMark mark = *marked, wanted = mark;
    if (mark.whole()) {
      auto shapes = shapes_of_whole(mark);
      if (!shapes) {
        complain(context_, fmt::format("job {}: {}", job_, to_string(shapes.error())));
        return refuse(mark);
      }
      if (shapes->empty()) return write("");  // MIG is off: Slurm has told the job its GPUs
      wanted.shapes = *std::move(shapes);
    }
    const auto leases = take(wanted);
    if (leases && !leases->empty()) {
      TRY(tell(*leases));
      note_joules();
      if (mark.placed() && mark.node == node_) return {};
      mark.node = node_;
      mark.seats.clear();
      for (const lease::LeaseDocument& one : *leases)
        mark.seats.push_back({one.lease.gpu, one.lease.start});
      TRY(ask({"scontrol", "update", fmt::format("JobId={}", job_),
               "Comment=" + slurm::mark_text(mark)}));
      return {};
    }
    if (!leases) complain(context_, fmt::format("job {}: {}", job_, to_string(leases.error())));
    return refuse(mark);
  }
  Result<void> epilog() {
    TRY(end_processes(job_));
    auto desk = TRY(this->desk());
    TRY(desk.give_back(owner_of(job_, 0)));
    static_cast<void>(context_.files.remove(before_file()));
    return context_.files.remove(file_ + ".over");
  }

 private:
  Result<LeaseDesk> desk() {
    return LeaseDesk::open(context_, {site_.driver, slurm::for_node(site_.machine, node_), ""},
                           kNodePatience);
  }
  Result<slurm::SlurmDoor*> slurm() {
    if (!open_.door) open_ = TRY(open_slurm(context_));
    return open_.door.get();
  }
  // A command of Slurm's, until its controller answers.
  Result<std::string> ask(const std::vector<std::string>& argv) {
    const auto door = TRY(slurm());
    const std::int64_t give_up = context_.clock.now_ns() + kControllerPatience;
    for (;;) {
      auto said = slurm::output_of(*door, argv);
      if (said || context_.clock.now_ns() >= give_up) return said;
      context_.clock.sleep_ns(kControllerRetry);
    }
  }
  // The job's leases, or why there are none: empty where the node has no room.
  Result<std::vector<lease::LeaseDocument>> take(const slurm::JobMark& mark) {
    auto desk = TRY(this->desk());
    auto leases = take_once(desk, mark);
    if (!leases || !leases->empty()) return leases;
    const auto ended = TRY(end_leftovers(desk));
    if (!ended) return leases;
    return take_once(desk, mark);
  }
  Result<std::vector<lease::LeaseDocument>> take_once(LeaseDesk& desk, const slurm::JobMark& mark) {
    std::vector<lease::LeaseDocument> leases;
    for (std::size_t i = 0; i < mark.shapes.size(); ++i) {
      const auto answer = TRY(desk.take(wanted(mark, i)));
      if (answer.refused) {
        complain(context_, fmt::format("job {}: {}", job_, answer.refused->reason.detail));
        TRY(desk.give_back(owner_of(job_, 0)));
        return std::vector<lease::LeaseDocument>();
      }
      leases.push_back(answer.leases.leases.front());
    }
    return leases;
  }
  // What a whole GPU is where MIG is on: its largest instance.
  Result<std::vector<std::string>> shapes_of_whole(const slurm::JobMark& mark) {
    const auto open =
        TRY(open_driver(context_, {site_.driver, slurm::for_node(site_.machine, node_), ""}));
    const auto node = TRY(device::read_node(*open.bare));
    std::vector<std::string> shapes;
    for (const device::GpuState& gpu : node.gpus) {
      if (!gpu.mig_enabled || gpu.lost) continue;
      const auto model = lease::model_of(gpu, {}, open.catalogue.get());
      const std::vector<int> plain = hw::plain_profiles(*model);
      if (plain.empty()) continue;
      shapes.assign(mark.shapes.size(), model->profiles[at(plain.back())].name);
      break;
    }
    return shapes;
  }
  lease::Wanted wanted(const slurm::JobMark& mark, std::size_t index) const {
    lease::Wanted wanted{.owner = owner_of(job_, index), .profile = mark.shapes[index]};
    if (mark.placed() && mark.node == node_) {
      wanted.gpu = mark.seats[index].gpu;
      wanted.start = mark.seats[index].start;
      wanted.exact = true;
    }
    return wanted;
  }
  Result<std::set<long>> jobs_on_nodes() {
    const auto said = TRY(ask({"squeue", "--json"}));
    const auto jobs = TRY(slurm::parse_jobs(said));
    std::set<long> there;
    for (const slurm::SlurmJob& job : jobs)
      if (job.phase == slurm::Phase::running || job.phase == slurm::Phase::leaving)
        there.insert(job.number);
    return there;
  }
  // Leases of jobs that are on no node any more: an epilog was killed, or the node was lost.
  Result<bool> end_leftovers(LeaseDesk& desk) {
    const auto list = TRY(desk.list());
    auto there = TRY(jobs_on_nodes());
    there.insert(job_);
    bool ended = false;
    for (const lease::LeaseDocument& one : list.leases.leases) {
      std::string_view owner = one.lease.owner;
      if (!owner.starts_with("slurm:")) continue;
      owner = owner.substr(0, owner.find('/'));
      const auto job = parse_number<long>(owner.substr(6));
      if (!job || there.contains(*job)) continue;
      complain(context_, fmt::format("job {} has ended and left its instance", *job));
      TRY(end_processes(*job));
      TRY(desk.give_back(std::string(owner)));
      ended = true;
    }
    return ended;
  }
  // What is told to end while it is launched goes on in Slurm: its processes are asked for, found
  // none, and begin then. They have read the job's file before it went, or do not begin.
  Result<void> end_processes(long job) {
    const auto door = TRY(slurm());
    for (int i = 0; i < kEndings; ++i) {
      const auto said = TRY(door->run({"scontrol", "listpids", std::to_string(job), node_}));
      bool any = false;
      for (const std::string& line : split(said.out, '\n')) {
        const auto process = parse_number<::pid_t>(line.substr(0, line.find(' ')));
        if (!process || *process <= 1) continue;  // "PID JOBID ...", "-1": a step without
        any = true;
        ::kill(*process, SIGKILL);
      }
      if (!any) return {};
      complain(context_,
               fmt::format("job {} went on after its end; its processes are killed", job));
      context_.clock.sleep_ns(kEndingNs);
    }
    return {};
  }
  Result<void> tell(const std::vector<lease::LeaseDocument>& leases) {
    std::vector<std::string> uuids, profiles, nodes;
    for (const lease::LeaseDocument& one : leases) {
      uuids.push_back(one.lease.uuid);
      profiles.push_back(one.lease.profile);
      for (const std::string& path : one.nodes.paths)
        if (std::ranges::find(nodes, path) == nodes.end()) nodes.push_back(path);
    }
    return write(
        fmt::format("CUDA_VISIBLE_DEVICES={}\nNVIDIA_VISIBLE_DEVICES={}\n"
                    "PARTITA_LEASE_OWNER={}\nPARTITA_LEASE_PROFILE={}\n"
                    "PARTITA_LEASE_DEVICE_NODES={}\n",
                    joined(uuids, ","), joined(uuids, ","), owner_of(job_, 0),
                    joined(profiles, ","), joined(nodes, ":")));
  }
  Result<void> write(const std::string& text) {
    TRY(context_.files.make_directories(folder_));
    return context_.files.write_atomic(file_, text);
  }
  std::string before_file() const { return fmt::format("{}/{}.joules", folder_, job_); }
  // What had been measured when it began: a device may have the UUID of an earlier one. The SPANK
  // plugin takes it from what there is at the job's end.
  void note_joules() {
    if (const auto metered = context_.files.read(metered_file(folder_)))
      if (auto written = context_.files.write_atomic(before_file(), *metered); !written)
        complain(context_, to_string(written.error()));
  }
  // Back into the queue; the placer sees by the mark that it is not its user who holds it.
  Result<void> refuse(slurm::JobMark mark) {
    mark.node.clear();
    mark.seats.clear();
    mark.refused = node_;
    const std::string id = std::to_string(job_);
    TRY(ask({"scontrol", "update", "JobId=" + id, "Comment=" + slurm::mark_text(mark)}));
    const auto door = TRY(slurm());
    auto back = slurm::output_of(*door, {"scontrol", "requeuehold", id});
    if (back) {
      context_.clock.sleep_ns(kUntilTakenNs);
      return write(kRefused);
    }
    const auto there = TRY(jobs_on_nodes());
    if (!there.contains(job_))
      return write(kRefused);  // it went back before a prolog like this was killed
    // One that cannot be started again (salloc, --no-requeue) has to go.
    TRY(ask({"scancel", id}));
    return failed(back.error());
  }

  Context& context_;
  const slurm::SlurmSite site_;
  const std::string node_, folder_, file_;
  const long job_;
  OpenSlurm open_;
};

Result<Exit> on_node(Context& context, const std::string& site_file,
                     Result<void> (NodeSide::*what)()) {
  const auto job = parse_number<long>(environment_variable("SLURM_JOB_ID"));
  std::string node = environment_variable("SLURMD_NODENAME");
  if (!job || node.empty())
    return bad_input("SLURM_JOB_ID, SLURMD_NODENAME", "Slurm says which job this is, and where");
  auto site = TRY(read_site(context, site_file));
  NodeSide side(context, std::move(site), std::move(node), *job);
  TRY((side.*what)());
  return Exit::done;
}

Command add_node_command(CLI::App& slurm, const char* name, const char* about,
                         Result<void> (NodeSide::*what)()) {
  CLI::App* command = slurm.add_subcommand(name, about);
  command->group("");  // scripts of Slurm run it
  auto site = std::make_shared<std::string>(slurm::kSiteFile);
  add_site_flag(*command, *site);
  command->footer(fmt::format("partita slurm {} --site {}", name, slurm::kSiteFile));
  return {command, [site, what](Context& context) { return on_node(context, *site, what); }};
}

// What no command of Slurm's does: says that a job has ended, as salloc and srun do of theirs, by
// Slurm's own library. A process of its own, since that library ends its process where it pleases.

constexpr int kOldest = 36, kNewest = 60;  // libslurm.so of Slurm 20.11, and of many to come

struct CompleteFlags {
  long job = 0;
  int status = 0;
};

// Its plugins look for its symbols among those of the program.
void* slurm_library() {
  for (int version = kNewest; version >= kOldest; --version)
    if (void* library =
            ::dlopen(fmt::format("libslurm.so.{}", version).c_str(), RTLD_NOW | RTLD_GLOBAL))
      return library;
  return ::dlopen("libslurm.so", RTLD_NOW | RTLD_GLOBAL);
}

Result<Exit> run_slurm_complete(const CompleteFlags& flags) {
  void* library = slurm_library();
  if (library == nullptr) return environment_error("libslurm.so", ::dlerror());
  const auto init = reinterpret_cast<void (*)(const char*)>(::dlsym(library, "slurm_init"));
  const auto complete = reinterpret_cast<int (*)(std::uint32_t, std::uint32_t)>(
      ::dlsym(library, "slurm_complete_job"));
  if (complete == nullptr) return environment_error("slurm_complete_job", ::dlerror());
  if (init != nullptr) init(nullptr);
  if (complete(static_cast<std::uint32_t>(flags.job), static_cast<std::uint32_t>(flags.status)) !=
      0)
    return environment_error("slurm_complete_job",
                             fmt::format("Slurm does not take the end of job {}", flags.job));
  return Exit::done;
}

Command add_slurm_complete(CLI::App& slurm) {
  CLI::App* command = slurm.add_subcommand("complete", "Say to Slurm that a job has ended");
  command->group("");  // the placer runs it
  auto flags = std::make_shared<CompleteFlags>();
  command->add_option("JOB", flags->job)->required();
  command->add_option("STATUS", flags->status, "As waitpid gives it")->required();
  command->footer("partita slurm complete 12 0");
  return {command, [flags](Context&) { return run_slurm_complete(*flags); }};
}

}  // namespace

Command add_slurm(CLI::App& app) {
  CLI::App* slurm = app.add_subcommand(
      "slurm", "MIG instances for jobs of a Slurm cluster, made for each job as it asks");
  return group_of(
      slurm,
      {add_slurm_install(*slurm), add_slurm_check(*slurm), add_slurm_serve(*slurm),
       add_node_command(*slurm, "prolog",
                        "On a node, from Slurm's prolog: make the instances of the job that starts",
                        &NodeSide::prolog),
       add_node_command(
           *slurm, "epilog",
           "On a node, from Slurm's epilog: destroy the instances of the job that ended",
           &NodeSide::epilog),
       add_slurm_complete(*slurm), add_slurm_meter(*slurm)});
}

}  // namespace partita::cli
