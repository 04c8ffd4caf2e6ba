#include "queue/slurm/slurm_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/form.h"
#include "base/parse_number.h"
#include "base/split.h"
#include "base/unicode.h"

namespace partita::slurm {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr double kMinute = 60;
constexpr std::string_view kUnlaunched = "launch failed requeued held";
// Of slurm.h, enum job_states.
constexpr int kCompleted = 3, kCancelled = 4, kFailed = 5, kTimeout = 6, kNodeFail = 7,
              kDeadline = 10, kOom = 11;
constexpr Range kAny{.low = -kMaxQuantity};

// One job as it is written; what is null is kNone.
struct JobRow {
  long id = 0, array = 0, eligible = 0, submitted = 0, started = 0, priority = 0, restarts = 0;
  double task = kNone, limit_min = kNone, memory_per_cpu = kNone, memory_per_node = kNone;
  double cpus = 1;
  std::string tasks, state, reason, told, comment, nodes, excluded, partition, features,
      reservation;
  std::string dependency, shared;
  std::vector<std::string> gres = {};
};

void describe_job(Form& f, JobRow& job) {
  f.whole("job_id", job.id, {}, "");
  f.whole("array_job_id", job.array, {}, "");
  f.or_null().optional().number("array_task_id", job.task, {}, "");
  f.note("array_task_string", job.tasks, "");
  f.note("job_state", job.state, "");
  f.note("state_reason", job.reason, "");
  f.optional().note("state_description", job.told, "");
  f.whole("priority", job.priority, {}, "0: held");
  f.note("comment", job.comment, "");
  f.note("nodes", job.nodes, "");
  f.note("excluded_nodes", job.excluded, "");
  f.note("partition", job.partition, "");
  f.note("features", job.features, "");
  f.note("resv_name", job.reservation, "");
  f.note("dependency", job.dependency, "");
  f.quote("shared", job.shared, "null, none (exclusive), shared, user, mcs");
  f.whole("restart_cnt", job.restarts, {}, "");
  f.whole("eligible_time", job.eligible, kAny, "");
  f.whole("submit_time", job.submitted, kAny, "");
  f.whole("start_time", job.started, kAny, "");
  f.or_null().optional().number("time_limit", job.limit_min, {}, "minutes");
  f.or_null().optional().number("cpus", job.cpus, {}, "");
  f.or_null().optional().number("memory_per_cpu", job.memory_per_cpu, {}, "MiB");
  f.or_null().optional().number("memory_per_node", job.memory_per_node, {}, "MiB");
  f.optional().notes("gres_detail", job.gres, {}, "per node, while it is there");
}

struct JobRows {
  std::vector<JobRow> jobs = {};
};
void describe_jobs(Form& f, JobRows& rows) { f.list("jobs", rows.jobs, describe_job, {}, ""); }

struct NodeRow {
  std::string name, state, features, gres, reason;
  double cpus = 0, busy_cpus = 0, memory = 0, busy_memory = 0;
  std::vector<std::string> flags = {}, partitions = {};
};

void describe_node(Form& f, NodeRow& node) {
  f.note("name", node.name, "");
  f.note("state", node.state, "");
  f.optional().notes("state_flags", node.flags, {}, "");
  f.number("cpus", node.cpus, {}, "");
  f.number("alloc_cpus", node.busy_cpus, kAny, "");
  f.number("real_memory", node.memory, {}, "MiB");
  f.number("alloc_memory", node.busy_memory, kAny, "MiB");
  f.optional().notes("partitions", node.partitions, {}, "");
  f.optional().note("active_features", node.features, "");
  f.optional().note("gres", node.gres, "");
  f.optional().note("reason", node.reason, "");
}

struct NodeRows {
  std::vector<NodeRow> nodes = {};
};
void describe_nodes(Form& f, NodeRows& rows) { f.list("nodes", rows.nodes, describe_node, {}, ""); }

// Names of jobs are bytes of their users.
std::string as_text(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Decoded one = decode(bytes);
    if (one.valid())
      text += bytes.substr(0, one.bytes);
    else
      text += '?';
    bytes.remove_prefix(one.bytes);
  }
  return text;
}

Phase phase_of(std::string_view state) {
  if (state == "PENDING" || state == "REQUEUED" || state == "REQUEUE_HOLD" ||
      state == "SPECIAL_EXIT" || state == "RESV_DEL_HOLD")
    return Phase::waiting;
  if (state == "COMPLETING") return Phase::leaving;
  for (const char* on : {"RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING",
                         "STAGE_OUT", "POWER_UP_NODE"})
    if (state == on) return Phase::running;
  return Phase::gone;
}

// "gpu:a100:2(IDX:0,2-3)" of each node.
std::vector<std::vector<int>> gpus_of(const std::vector<std::string>& gres) {
  std::vector<std::vector<int>> gpus;
  for (const std::string& node : gres) {
    std::vector<int>& here = gpus.emplace_back();
    for (std::size_t i = node.find("gpu"); i != std::string::npos; i = node.find("gpu", i + 1)) {
      const std::size_t open = node.find("(IDX:", i), close = node.find(')', i);
      if (open == std::string::npos || close == std::string::npos || close < open) continue;
      const auto list = array_tasks(std::string_view(node).substr(open + 5, close - open - 5));
      if (list) here.insert(here.end(), list->tasks.begin(), list->tasks.end());
    }
  }
  return gpus;
}

double memory_of(const JobRow& row) {
  if (row.memory_per_node != kNone) return row.memory_per_node;
  return row.memory_per_cpu == kNone ? 0 : row.memory_per_cpu * row.cpus;
}

SlurmJob job_of(const JobRow& row) {
  SlurmJob job;
  job.id = std::to_string(row.id);
  job.number = row.id;
  job.array = row.array;
  if (row.array > 0 && row.task != kNone)
    job.id = fmt::format("{}_{}", row.array, static_cast<long>(row.task));
  job.phase = phase_of(row.state);
  job.state = row.state;
  job.reason = row.reason;
  job.priority = row.priority;
  job.unlaunched = row.priority == 0 && row.told == kUnlaunched;
  auto mark = parse_mark(row.comment);
  if (mark)
    job.mark = *std::move(mark);
  else
    job.why_unmarked = mark.error().message;
  if (auto nodes = host_names(row.nodes)) job.nodes = *std::move(nodes);
  if (auto nodes = host_names(row.excluded)) job.excluded = *std::move(nodes);
  job.gpus = gpus_of(row.gres);
  job.partition = row.partition;
  job.features = row.features;
  if (!row.reservation.empty()) job.reservations = split(row.reservation, ',');
  job.depends = !row.dependency.empty();
  job.exclusive = row.shared == "none";
  job.restarts = static_cast<int>(std::min(row.restarts, 1'000'000L));
  job.submitted = row.submitted;
  job.eligible = row.eligible;
  job.started = row.started;
  if (row.limit_min != kNone) job.limit_s = static_cast<long>(row.limit_min * kMinute);
  job.cpus = row.cpus == kNone ? 1 : static_cast<int>(std::min(row.cpus, 1e6));
  job.memory_mib = memory_of(row);
  return job;
}

void add_jobs(std::vector<SlurmJob>& jobs, const JobRow& row, std::size_t tasks_most) {
  SlurmJob job = job_of(row);
  const bool together = row.array > 0 && row.task == kNone && !row.tasks.empty();
  const auto tasks = together ? array_tasks(row.tasks) : failed({});
  if (!tasks) {
    jobs.push_back(std::move(job));
    return;
  }
  job.most_at_once = tasks->most;
  for (std::size_t i = 0; i < std::min(tasks->tasks.size(), tasks_most); ++i) {
    job.id = fmt::format("{}_{}", row.array, tasks->tasks[i]);
    jobs.push_back(job);
  }
}

SlurmNode node_of(NodeRow row) {
  const auto flagged = [&](std::string_view flag) {
    return std::ranges::find(row.flags, flag) != row.flags.end();
  };
  SlurmNode node{.name = std::move(row.name)};
  node.usable = row.state == "idle" || row.state == "mixed" || row.state == "allocated";
  for (const char* flag : {"DRAIN", "NOT_RESPONDING", "FAIL", "REBOOT_REQUESTED", "REBOOT_ISSUED",
                           "POWERED_DOWN", "POWERING_DOWN", "PLANNED_DOWN", "MAINTENANCE_DOWN"})
    if (flagged(flag)) node.usable = false;
  node.cpus = static_cast<int>(std::min(row.cpus, 1e6));
  node.busy_cpus = static_cast<int>(std::clamp(row.busy_cpus, 0.0, 1e6));
  node.memory_mib = row.memory;
  node.busy_memory_mib = std::max(row.busy_memory, 0.0);
  node.partitions = std::move(row.partitions);
  node.gres = std::move(row.gres);
  node.why = std::move(row.reason);
  if (!row.features.empty()) node.features = split(row.features, ',');
  return node;
}

// "Name=value" of a line whose values have no blanks before the keys that are wanted.
std::string value_of(std::string_view line, std::string_view key) {
  std::size_t at = 0;
  while (at < line.size()) {
    const std::size_t blank = std::min(line.find(' ', at), line.size());
    const std::string_view word = line.substr(at, blank - at);
    if (word.size() > key.size() && word.starts_with(key) && word[key.size()] == '=')
      return std::string(word.substr(key.size() + 1));
    at = blank + 1;
  }
  return {};
}

// "NodeName=g0 CoreIDs=0-3,7 NodeName=g1 ...", as a reservation of some cores says what it has.
std::map<std::string, int> cores_of(std::string_view line) {
  std::map<std::string, int> cores;
  for (std::size_t i = line.find(" NodeName="); i != std::string_view::npos;) {
    const std::size_t next = line.find(" NodeName=", i + 1);
    const std::string_view part = line.substr(i, next - i);
    if (const auto ids = array_tasks(value_of(part, "CoreIDs")))
      cores[value_of(part, "NodeName")] = static_cast<int>(ids->tasks.size());
    i = next;
  }
  return cores;
}

}  // namespace

Result<std::vector<SlurmJob>> parse_jobs(std::string_view json, std::size_t tasks_most) {
  const auto rows = TRY(read_form<JobRows>("squeue", as_text(json), describe_jobs));
  std::vector<SlurmJob> jobs;
  for (const JobRow& row : rows.jobs) add_jobs(jobs, row, tasks_most);
  return jobs;
}

Result<std::vector<SlurmNode>> parse_nodes(std::string_view json) {
  auto rows = TRY(read_form<NodeRows>("sinfo", as_text(json), describe_nodes));
  std::vector<SlurmNode> nodes;
  for (NodeRow& row : rows.nodes) nodes.push_back(node_of(std::move(row)));
  return nodes;
}

Result<std::vector<SlurmReservation>> parse_reservations(std::string_view text) {
  std::vector<SlurmReservation> all;
  int number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (!line.starts_with("ReservationName=")) continue;  // "No reservations in the system"
    SlurmReservation one{.name = value_of(line, "ReservationName")};
    const auto begin = parse_number<long>(value_of(line, "StartTime"));
    const auto end = parse_number<long>(value_of(line, "EndTime"));
    auto nodes = host_names(value_of(line, "Nodes"));
    if (!begin || !end || !nodes)
      return bad_input(fmt::format("scontrol show reservation:{}", number),
                       "a reservation without times or nodes");
    one.begin = *begin;
    one.end = *end;
    one.nodes = *std::move(nodes);
    for (const std::string& flag : split(value_of(line, "Flags"), ',')) {
      one.maintenance = one.maintenance || flag == "MAINT";
      one.overlaps = one.overlaps || flag == "OVERLAP";
      one.flexible = one.flexible || flag == "FLEX";
      one.any_nodes = one.any_nodes || flag == "ANY_NODES";
    }
    one.cores = cores_of(line);
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<EndedRun> parse_ended(std::string_view text) {
  std::map<std::string, std::set<EndedRun>> runs;  // by job
  for (const std::string& line : split(text, '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    if (words.size() != 5 && words.size() != 6) continue;  // five: of an earlier version's
    const auto submitted = parse_number<long>(words[1]);
    const auto restarts = parse_number<int>(words[2]), state = parse_number<int>(words[3]);
    const auto status = parse_number<int>(words[4]);
    if (!submitted || !restarts || !state || !status) continue;
    std::set<EndedRun>& of_job = runs[words[0]];
    const bool itself = *state == kCompleted || *state == kFailed || *state == kOom;
    const bool cancelled = *state == kCancelled || *state == kTimeout || *state == kDeadline;
    if (itself || cancelled) of_job.insert({words[0], *submitted, *restarts, cancelled, *status});
    const auto heard = words.size() == 6 ? parse_number<long>(words[5]) : std::nullopt;
    const auto before = std::ranges::find_if(
        of_job, [&](const EndedRun& run) { return run.is(*submitted, *restarts); });
    if (*state != kNodeFail || !heard || before == of_job.end()) continue;
    EndedRun next = *before;
    ++next.restarts;
    next.submitted = *heard;
    next.later_s = kForgetfulS;
    of_job.insert(next);
  }
  std::vector<EndedRun> all;
  for (const auto& [id, of_job] : runs) all.insert(all.end(), of_job.begin(), of_job.end());
  return all;
}

}  // namespace partita::slurm
