#include "act/workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/unicode.h"
#include "plan/streams.h"

namespace partita::actuate {
namespace {

// What a worker is started for; how much of it is used does not matter to it.
AssignedSegment work_of(AssignedSegment segment) {
  segment.throughput_rps = 0;
  return segment;
}

// A name as part of a file's name.
std::string file_word(const std::string& name) {
  std::string word = utf8(printable(name));
  std::ranges::replace(word, '/', '_');
  std::ranges::replace(word, ' ', '_');
  return word;
}

std::string name_of(const WorkerRecord& worker) {
  const std::string& service = worker.segment.service;
  return fmt::format("{} {} on {}", service.empty() ? "worker" : service, worker.index,
                     worker.segment.device);
}

std::string about(const std::string& device, const Error& error) {
  return error.context == device ? to_string(error) : device + ": " + to_string(error);
}

double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

}  // namespace

Supervisor::Supervisor(Processes& processes, Files& files, SupervisorOptions options)
    : processes_(processes),
      files_(files),
      options_(std::move(options)),
      file_(files, options_.state_file, options_.hooks.say),
      pulse_(processes_, options_) {}

bool Supervisor::Group::living() const {
  return std::ranges::any_of(workers, &Worker::living) ||
         std::ranges::any_of(strays, &Worker::living);
}

void Supervisor::say(const std::string& line) const {
  if (options_.hooks.say) options_.hooks.say(line);
}

// ---- after a restart ----

Result<void> Supervisor::recover(std::int64_t now_ns) {
  // Nothing may ever have been applied yet.
  const std::string home = std::filesystem::path(options_.state_file).parent_path();
  TRY(files_.make_directories(home));
  lock_ = TRY(files_.lock(options_.state_file + ".lock"));
  if (!options_.log_dir.empty()) {
    TRY(files_.make_directories(options_.log_dir));
  }
  const WorkersState before = TRY(file_.recall());
  adopt_recorded(before, now_ns);
  adopt_strays(now_ns);
  file_.save(state());
  return {};
}

void Supervisor::adopt_recorded(const WorkersState& state, std::int64_t now_ns) {
  for (const WorkerRecord& record : state.workers) {
    Group& group = groups_[record.segment.device];
    if (group.workers.empty()) group.segment = record.segment;
    // Records of one device that contradict each other: nothing of it is kept.
    group.stale = group.stale || group.segment != record.segment;
    wanted_[record.segment.device] = record.segment;
    Worker worker{.record = record, .started_ns = now_ns};
    worker.adopted = processes_.adopt(record.pid, record.identity).has_value();
    worker.answered = worker.adopted;
    if (worker.adopted)
      say(fmt::format("{}: adopted, process {}", name_of(record), record.pid));
    else
      worker.record.pid = 0;
    group.workers.push_back(std::move(worker));
  }
  for (auto& [device, group] : groups_) {
    const auto expected = static_cast<std::size_t>(group.segment.processes);
    group.stale = group.stale || group.workers.size() != expected ||
                  group.workers.back().record.index != group.segment.processes - 1;
  }
}

// A supervisor that was killed between a start and the note of it leaves such workers.
void Supervisor::adopt_strays(std::int64_t now_ns) {
  std::set<Pid> known;
  for (const auto& [device, group] : groups_)
    for (const Worker& worker : group.workers) known.insert(worker.record.pid);
  for (const auto& [pid, tag] : processes_.find(kWorkerVariable)) {
    const auto place = worker_place(tag, options_.state_file);
    if (!place || known.contains(pid)) continue;
    const std::string identity = processes_.identity(pid);
    if (!processes_.adopt(pid, identity)) continue;  // it ended meanwhile
    const auto [group, fresh] = groups_.try_emplace(place->first);
    if (fresh) {
      group->second.segment.device = place->first;
      group->second.stale = true;
    }
    Worker stray{.record = {.segment = group->second.segment}, .started_ns = now_ns};
    stray.record.index = place->second;
    stray.record.pid = pid;
    say(fmt::format("{}: process {} is not in the state file; stopping it", name_of(stray.record),
                    pid));
    group->second.strays.push_back(std::move(stray));
  }
}

void Supervisor::follow(const Assignment& assignment) {
  followed_ = true;
  revision_ = assignment.revision;
  wanted_.clear();
  for (const plan::Terms& one : assignment.services)
    if (one.tokens) drains_[one.name] = plan::drain_of(one);
  for (const AssignedSegment& segment : assignment.segments)
    if (segment.processes > 0) wanted_[segment.device] = work_of(segment);
}

// ---- one step ----

std::int64_t Supervisor::step(std::int64_t now_ns) {
  reap(now_ns);
  watch(now_ns);
  file_.check(now_ns);
  stop_rest(now_ns);
  if (followed_ && !stopping_) {
    add_missing();
    file_.save(state());  // whoever comes after us can then undo what prepare() is about to do
    // Making a device ready may block: where it failed comes last, and nobody waits for two.
    prepare_failed_ = false;
    for (const bool failing : {false, true})
      for (auto& [device, group] : groups_)
        if (keeps(group) && (group.failures > 0) == failing) run(group, now_ns);
  }
  file_.save(state());
  return next_time(now_ns);
}

bool Supervisor::keeps(const Group& group) const {
  if (stopping_ || group.stale) return false;
  const auto wanted = wanted_.find(group.segment.device);
  return wanted != wanted_.end() && wanted->second == group.segment;
}

void Supervisor::reap(std::int64_t now_ns) {
  for (const ProcessExit& exit : processes_.exited()) {
    if (!pulse_.http()) probe_ended(exit.pid, exit.status == 0, now_ns);
    for (auto& [device, group] : groups_) {
      const auto stray =
          std::ranges::find(group.strays, exit.pid, [](const Worker& w) { return w.record.pid; });
      if (stray != group.strays.end()) {
        const int index = stray->record.index;
        group.strays.erase(stray);
        end_family(group, index);
      }
      for (Worker& worker : group.workers)
        if (worker.record.pid == exit.pid) ended(group, worker, now_ns, exit.status);
    }
  }
}

void Supervisor::ended(Group& group, Worker& worker, std::int64_t now_ns, int status) {
  WorkerRecord& record = worker.record;
  const std::string how =
      status == kUnknownStatus ? "ended" : fmt::format("ended with status {}", status);
  const Pid pid = std::exchange(record.pid, 0);
  worker.failed_pid.reset();
  record.identity.clear();
  record.last_status = status;
  record.answering = Answering::unknown;
  worker.adopted = worker.proven = false;
  worker.misses = 0;
  worker.silent_ns.reset();
  pulse_.drop(worker);
  group.prepared = false;
  end_family(group, record.index);
  const bool replaced = std::exchange(worker.hung, false);
  if (replaced) worker.kill_ns.reset();
  if (worker.kill_ns) {
    say(fmt::format("{}: {}", name_of(record), how));
    return;
  }
  const std::int64_t ran = now_ns - worker.started_ns;
  if (ran < options_.policy.quick_ns) {
    worker.failed_pid = pid;
    worker.failed_ns = now_ns;
    worker.failures_before = record.quick_failures;
    failed_quickly(worker, now_ns);
  } else {
    record.quick_failures = 0;
    record.given_up = false;
    worker.next_start_ns = now_ns + wait_after(1);
  }
  say(fmt::format("{}: {} after {:.1f} s, starts again in {:.1f} s{}", name_of(record), how,
                  seconds(ran), seconds(worker.next_start_ns - now_ns),
                  record.given_up ? " (it keeps failing)" : ""));
}

// What a worker leaves behind in a session of its own; not while another is in its place.
void Supervisor::end_family(const Group& group, int index) {
  const auto there = [&](const Worker& worker) {
    return worker.record.index == index && worker.living();
  };
  if (std::ranges::any_of(group.workers, there) || std::ranges::any_of(group.strays, there)) return;
  processes_.end_family(kWorkerVariable,
                        worker_tag(options_.state_file, group.segment.device, index));
}

std::int64_t Supervisor::wait_after(int failures) const {
  const WorkerPolicy& policy = options_.policy;
  if (failures >= policy.give_up_after) return policy.seldom_ns;
  std::int64_t wait = policy.first_wait_ns;
  for (int i = 1; i < failures && wait < policy.longest_wait_ns; ++i) wait *= 2;
  return std::min(wait, policy.longest_wait_ns);
}

void Supervisor::failed_quickly(Worker& worker, std::int64_t now_ns) {
  WorkerRecord& record = worker.record;
  ++record.quick_failures;
  record.given_up = record.quick_failures >= options_.policy.give_up_after;
  worker.next_start_ns = now_ns + wait_after(record.quick_failures);
}

void Supervisor::stop(Worker& worker, std::int64_t now_ns) {
  if (!worker.living() || (worker.kill_ns && now_ns < *worker.kill_ns)) return;
  if (!worker.kill_ns && !worker.hung && pulse_.streams(worker)) {
    worker.record.answering = Answering::leaving;  // the gateway reads it, and sends it no more
    if (!worker.drain_ns) {
      const auto drain = drains_.find(worker.record.segment.service);
      const Seconds takes = drain == drains_.end() ? plan::kUsualDrain : drain->second;
      worker.drain_ns = now_ns + static_cast<std::int64_t>(takes.value * 1e9);
    }
    if (now_ns < *worker.drain_ns) return;
  }
  const StopSignal signal = worker.kill_ns ? StopSignal::kill : StopSignal::terminate;
  if (signal == StopSignal::kill)
    say(fmt::format("{}: did not end within {:.1f} s; killed it", name_of(worker.record),
                    seconds(options_.policy.grace_ns)));
  if (const auto told = processes_.stop(worker.record.pid, signal); !told)
    say(fmt::format("{}: {}", name_of(worker.record), to_string(told.error())));
  worker.kill_ns = now_ns + options_.policy.grace_ns;
}

// What is not to run any more: stopped, then released, then forgotten.
void Supervisor::stop_rest(std::int64_t now_ns) {
  for (auto it = groups_.begin(); it != groups_.end();) {
    Group& group = it->second;
    for (Worker& stray : group.strays) stop(stray, now_ns);
    if (keeps(group)) {
      for (Worker& worker : group.workers)
        if (worker.hung) stop(worker, now_ns);
      ++it;
      continue;
    }
    group.stale = true;  // what was told to end is not kept, whatever is assigned meanwhile
    for (Worker& worker : group.workers) stop(worker, now_ns);
    if (group.living()) {
      ++it;
      continue;
    }
    const auto& release = options_.hooks.release;
    const Result<void> released = release ? release(group.segment) : Result<void>{};
    if (!released) say(about(it->first, released.error()));
    say(fmt::format("{}: no worker is left", it->first));
    it = groups_.erase(it);
  }
}

void Supervisor::add_missing() {
  for (const auto& [device, segment] : wanted_) {
    const auto [it, fresh] = groups_.try_emplace(device);
    if (!fresh) continue;
    it->second.segment = segment;
    for (int index = 0; index < segment.processes; ++index) {
      Worker worker;
      worker.record.segment = segment;
      worker.record.index = index;
      if (options_.command.ports) worker.record.port = free_port();
      it->second.workers.push_back(std::move(worker));
    }
  }
}

// The least port that no other worker has.
int Supervisor::free_port() const {
  std::set<int> taken;
  for (const auto& [device, group] : groups_)
    for (const Worker& worker : group.workers) taken.insert(worker.record.port);
  int port = options_.first_port;
  while (taken.contains(port)) ++port;
  return port;
}

// Whether what lives has one of the whole GPUs of a group that is yet to start.
bool Supervisor::shares_a_gpu(const Group& group) const {
  const std::vector<std::string> mine = whole_gpus(group.segment.device);
  return !mine.empty() && std::ranges::any_of(groups_, [&](const auto& entry) {
    const std::vector<std::string> whole = whole_gpus(entry.first);
    return &entry.second != &group && entry.second.living() &&
           std::ranges::any_of(mine, [&](const std::string& uuid) {
             return std::ranges::count(whole, uuid) > 0 || entry.second.segment.gpu_uuid == uuid;
           });
  });
}

void Supervisor::run(Group& group, std::int64_t now_ns) {
  const auto due = [&](const Worker& worker) {
    return !worker.living() && worker.next_start_ns <= now_ns &&
           std::ranges::none_of(group.strays, [&](const Worker& stray) {
             return stray.record.index == worker.record.index;
           });
  };
  if (shares_a_gpu(group)) return;
  const bool unknown = std::ranges::any_of(group.workers, &Worker::adopted);
  if (!unknown && std::ranges::none_of(group.workers, due)) return;
  if (!group.prepared && !prepare(group, now_ns)) return;
  for (Worker& worker : group.workers)
    if (due(worker)) start(group, worker, now_ns);
}

// True when workers may be started.
bool Supervisor::prepare(Group& group, std::int64_t now_ns) {
  if (now_ns < group.next_try_ns || prepare_failed_) return false;
  const auto count = static_cast<std::size_t>(group.segment.processes);
  Result<std::vector<Environment>> environments = std::vector<Environment>(count);
  if (group.segment.prefill_units > 0 && !options_.command.lanes)
    environments = bad_input(
        group.segment.device,
        fmt::format("{} has prefill on {} SMs and decode on {}, and the workers' command says "
                    "neither {{prefill_units}} nor {{decode_units}} nor their percent",
                    group.segment.service, group.segment.prefill_units,
                    group.segment.decode_units));
  else if (options_.hooks.prepare)
    environments = options_.hooks.prepare(group.segment);
  if (!environments) {
    prepare_failed_ = true;
    group.next_try_ns = now_ns + wait_after(++group.failures);
    say(fmt::format("{}; tried again in {:.1f} s",
                    about(group.segment.device, environments.error()),
                    seconds(group.next_try_ns - now_ns)));
    return false;
  }
  CHECK(environments->size() == count);
  group.failures = 0;
  group.prepared = true;
  group.environments = *std::move(environments);
  for (Worker& worker : group.workers) {
    const WorkerRecord& record = worker.record;
    const auto& environment = group.environments[static_cast<std::size_t>(record.index)];
    if (!std::exchange(worker.adopted, false)) continue;
    if (record.environment == environment &&
        record.command == command_of(options_.command, group.segment, record.index, record.port))
      continue;
    say(fmt::format("{}: runs another command or environment; restarting it", name_of(record)));
    group.stale = true;
  }
  return !group.stale;
}

void Supervisor::start(Group& group, Worker& worker, std::int64_t now_ns) {
  WorkerRecord& record = worker.record;
  record.command = command_of(options_.command, group.segment, record.index, record.port);
  record.environment = group.environments[static_cast<std::size_t>(record.index)];
  ProcessSpec spec{.argv = record.command, .environment = record.environment};
  spec.environment.try_emplace("CUDA_VISIBLE_DEVICES", group.segment.device);
  spec.environment[kWorkerVariable] =
      worker_tag(options_.state_file, group.segment.device, record.index);
  spec.family_variable = kWorkerVariable;
  if (!options_.log_dir.empty()) {
    // Somebody may have tidied up; what cannot be made, start() finds missing.
    static_cast<void>(files_.make_directories(options_.log_dir));
    spec.log_file =
        fmt::format("{}/{}.{}.{}.log", options_.log_dir, file_word(record.segment.service),
                    file_word(record.segment.device), record.index);
  }
  const bool again = record.last_status.has_value() || record.quick_failures > 0;
  const Result<Pid> pid = processes_.start(spec);
  if (!pid) {
    failed_quickly(worker, now_ns);
    say(fmt::format("{}: {}; tried again in {:.1f} s", name_of(record), to_string(pid.error()),
                    seconds(worker.next_start_ns - now_ns)));
    return;
  }
  if (again) ++record.restarts;
  record.pid = *pid;
  record.identity = processes_.identity(*pid);
  worker.started_ns = now_ns;
  worker.answered = false;
  worker.probe_ns = now_ns + options_.policy.probe_period_ns;
  if (options_.probe) record.answering = Answering::starting;
  say(fmt::format("{}: started, process {}", name_of(record), *pid));
}

// ---- what others see ----

std::int64_t Supervisor::next_time(std::int64_t now_ns) const {
  std::int64_t next = now_ns + options_.policy.poll_ns;
  const auto due = [&](std::int64_t at) {
    if (at > now_ns) next = std::min(next, at);
  };
  for (const auto& [device, group] : groups_) {
    due(group.next_try_ns);
    for (const auto* workers : {&group.workers, &group.strays}) {
      for (const Worker& worker : *workers) {
        if (worker.kill_ns && worker.living()) {
          due(*worker.kill_ns);
          due(now_ns + options_.policy.quick_poll_ns);
        }
        if (!worker.living()) due(worker.next_start_ns);
        if (worker.probe) due(now_ns + options_.policy.quick_poll_ns);
        if (worker.living() && options_.probe) due(worker.probe_ns);
      }
    }
  }
  return next;
}

bool Supervisor::settled() const {
  if (stopping_) return groups_.empty();
  const bool known = std::ranges::all_of(
      wanted_, [&](const auto& wanted) { return groups_.contains(wanted.first); });
  return followed_ && known && std::ranges::all_of(groups_, [&](const auto& entry) {
           const Group& group = entry.second;
           return keeps(group) && group.strays.empty() &&
                  std::ranges::all_of(group.workers, &Worker::living) &&
                  std::ranges::none_of(group.workers, &Worker::adopted);
         });
}

bool Supervisor::troubled() const {
  return std::ranges::any_of(groups_, [&](const auto& entry) {
    const Group& group = entry.second;
    return group.failures >= options_.policy.give_up_after ||
           std::ranges::any_of(group.workers, [](const Worker& w) { return w.record.given_up; });
  });
}

WorkersState Supervisor::state() const {
  WorkersState state{.revision = revision_, .supervisor = options_.self, .workers = {}};
  for (const auto& [device, group] : groups_)
    for (const Worker& worker : group.workers) state.workers.push_back(worker.record);
  return state;
}

}  // namespace partita::actuate
