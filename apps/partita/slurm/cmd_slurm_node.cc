// What runs on the nodes, in Slurm's prolog and epilog: the job's instances as leases of
// slurm:JOBID, and what the job is told of them. A prolog that fails drains the node, so neither
// does; a job that the node has no room for goes back into the queue.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <memory>

#include "base/append.h"
#include "base/index.h"
#include "base/parse_number.h"
#include "base/split.h"
#include "commands.h"
#include "lease/lease_desk.h"
#include "slurm/slurm_commands.h"

namespace partita::cli {
namespace {

constexpr std::int64_t kControllerPatience = 60'000'000'000, kControllerRetry = 200'000'000;
constexpr Seconds kNodePatience{60};
// Until slurmd has heard that the job goes back; a job that it starts before would fail.
constexpr std::int64_t kUntilTakenNs = 1'000'000'000;
constexpr int kEndings = 20;
constexpr std::int64_t kEndingNs = 100'000'000;

// In the job's file, which its tasks wait for: should something of it start all the same, it ends.
constexpr const char* kRefused = "PARTITA_REFUSED=1\n";

struct NodeFlags {
  std::string site = slurm::kSiteFile;
};

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

  Result<void> prolog();
  Result<void> epilog();

 private:
  Result<LeaseDesk> desk() {
    return LeaseDesk::open(context_, {site_.driver, slurm::for_node(site_.machine, node_), ""},
                           kNodePatience);
  }
  Result<slurm::SlurmDoor*> slurm() {
    if (!open_.door) {
      open_ = TRY(open_slurm(context_));
    }
    return open_.door.get();
  }
  // A command of Slurm's, until its controller answers.
  Result<std::string> ask(const std::vector<std::string>& argv);
  // The job's leases, or why there are none: empty where the node has no room.
  Result<std::vector<lease::LeaseDocument>> take(const slurm::JobMark& mark);
  Result<std::vector<lease::LeaseDocument>> take_once(LeaseDesk& desk, const slurm::JobMark& mark);
  Result<std::vector<std::string>> shapes_of_whole(const slurm::JobMark& mark);
  lease::Wanted wanted(const slurm::JobMark& mark, std::size_t index) const;
  Result<std::set<long>> jobs_on_nodes();
  Result<bool> end_leftovers(LeaseDesk& desk);
  Result<void> end_processes(long job);
  Result<void> tell(const std::vector<lease::LeaseDocument>& leases);
  Result<void> write(const std::string& text);
  std::string before_file() const { return fmt::format("{}/{}.joules", folder_, job_); }
  void note_joules();
  Result<void> refuse(slurm::JobMark mark);

  Context& context_;
  const slurm::SlurmSite site_;
  const std::string node_, folder_, file_;
  const long job_;
  OpenSlurm open_;
};

Result<std::string> NodeSide::ask(const std::vector<std::string>& argv) {
  const auto door = TRY(slurm());
  const std::int64_t give_up = context_.clock.now_ns() + kControllerPatience;
  for (;;) {
    auto said = slurm::output_of(*door, argv);
    if (said || context_.clock.now_ns() >= give_up) return said;
    context_.clock.sleep_ns(kControllerRetry);
  }
}

lease::Wanted NodeSide::wanted(const slurm::JobMark& mark, std::size_t index) const {
  lease::Wanted wanted{.owner = owner_of(job_, index), .profile = mark.shapes[index]};
  if (mark.placed() && mark.node == node_) {
    wanted.gpu = mark.seats[index].gpu;
    wanted.start = mark.seats[index].start;
    wanted.exact = true;
  }
  return wanted;
}

Result<std::vector<lease::LeaseDocument>> NodeSide::take_once(LeaseDesk& desk,
                                                              const slurm::JobMark& mark) {
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
Result<std::vector<std::string>> NodeSide::shapes_of_whole(const slurm::JobMark& mark) {
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

Result<std::set<long>> NodeSide::jobs_on_nodes() {
  const auto said = TRY(ask({"squeue", "--json"}));
  const auto jobs = TRY(slurm::parse_jobs(said));
  std::set<long> there;
  for (const slurm::SlurmJob& job : jobs)
    if (job.phase == slurm::Phase::running || job.phase == slurm::Phase::leaving)
      there.insert(job.number);
  return there;
}

// Leases of jobs that are on no node any more: an epilog was killed, or the node was lost.
Result<bool> NodeSide::end_leftovers(LeaseDesk& desk) {
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

Result<std::vector<lease::LeaseDocument>> NodeSide::take(const slurm::JobMark& mark) {
  auto desk = TRY(this->desk());
  auto leases = take_once(desk, mark);
  if (!leases || !leases->empty()) return leases;
  const auto ended = TRY(end_leftovers(desk));
  if (!ended) return leases;
  return take_once(desk, mark);
}

Result<void> NodeSide::write(const std::string& text) {
  TRY(context_.files.make_directories(folder_));
  return context_.files.write_atomic(file_, text);
}

Result<void> NodeSide::tell(const std::vector<lease::LeaseDocument>& leases) {
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
                  joined(uuids, ","), joined(uuids, ","), owner_of(job_, 0), joined(profiles, ","),
                  joined(nodes, ":")));
}

// What had been measured when it began: a device may have the UUID of an earlier one. The SPANK
// plugin takes it from what there is at the job's end.
void NodeSide::note_joules() {
  if (const auto metered = context_.files.read(metered_file(folder_)))
    if (auto written = context_.files.write_atomic(before_file(), *metered); !written)
      complain(context_, to_string(written.error()));
}

// Back into the queue; the placer sees by the mark that it is not its user who holds it.
Result<void> NodeSide::refuse(slurm::JobMark mark) {
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

Result<void> NodeSide::prolog() {
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

// What is told to end while it is launched goes on in Slurm: its processes are asked for, found
// none, and begin then. They have read the job's file before it went, or do not begin.
Result<void> NodeSide::end_processes(long job) {
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
    complain(context_, fmt::format("job {} went on after its end; its processes are killed", job));
    context_.clock.sleep_ns(kEndingNs);
  }
  return {};
}

Result<void> NodeSide::epilog() {
  TRY(end_processes(job_));
  auto desk = TRY(this->desk());
  TRY(desk.give_back(owner_of(job_, 0)));
  static_cast<void>(context_.files.remove(before_file()));
  return context_.files.remove(file_ + ".over");
}

Result<Exit> on_node(Context& context, const NodeFlags& flags, Result<void> (NodeSide::*what)()) {
  const auto job = parse_number<long>(environment_variable("SLURM_JOB_ID"));
  std::string node = environment_variable("SLURMD_NODENAME");
  if (!job || node.empty())
    return bad_input("SLURM_JOB_ID, SLURMD_NODENAME", "Slurm says which job this is, and where");
  auto site = TRY(read_site(context, flags.site));
  NodeSide side(context, std::move(site), std::move(node), *job);
  TRY((side.*what)());
  return Exit::done;
}

Command add_node_command(CLI::App& slurm, const char* name, const char* about,
                         Result<void> (NodeSide::*what)()) {
  CLI::App* command = slurm.add_subcommand(name, about);
  command->group("");  // scripts of Slurm run it
  auto flags = std::make_shared<NodeFlags>();
  add_site_flag(*command, flags->site);
  command->footer(fmt::format("partita slurm {} --site {}", name, slurm::kSiteFile));
  return {command, [flags, what](Context& context) { return on_node(context, *flags, what); }};
}

}  // namespace

Command add_slurm_prolog(CLI::App& slurm) {
  return add_node_command(
      slurm, "prolog", "On a node, from Slurm's prolog: make the instances of the job that starts",
      &NodeSide::prolog);
}

Command add_slurm_epilog(CLI::App& slurm) {
  return add_node_command(
      slurm, "epilog",
      "On a node, from Slurm's epilog: destroy the instances of the job that ended",
      &NodeSide::epilog);
}

}  // namespace partita::cli
