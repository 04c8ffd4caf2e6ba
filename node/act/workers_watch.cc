// The part of the supervisor that asks whether workers answer (workers.h).
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "act/workers.h"

namespace partita::actuate {
namespace {

auto find_worker(const GatewayState& gateway, const WorkerRecord& record) {
  return std::ranges::find_if(gateway.workers, [&](const GatewayWorker& one) {
    return one.device == record.segment.device && one.index == record.index &&
           one.pid == record.pid;
  });
}

}  // namespace

Result<WorkerProbe> parse_probe(const std::string& context, const std::string& text,
                                HttpProbes& http) {
  CommandTemplate command = TRY(parse_command(context, text));
  WorkerProbe probe{std::move(command)};
  if (!text.starts_with("http://")) return probe;
  probe.http = &http;
  if (probe.command.words.size() != 1) return bad_input(context, "a URL has no blanks");
  // With any words in its places.
  AssignedSegment some;
  some.device = some.gpu_uuid = some.profile = some.service = "x";
  TRY(parse_probe_url(context, command_of(probe.command, some, 0, 1).front()));
  return probe;
}

void Supervisor::watch(std::int64_t now_ns) {
  if (HttpProbes* http = pulse_.http())
    for (const ProbeEnd& end : http->ended()) probe_ended(end.id, end.well, now_ns);
  const auto gateway =
      options_.hooks.gateway ? options_.hooks.gateway() : std::optional<GatewayState>{};
  for (auto& [device, group] : groups_)
    for (Worker& worker : group.workers) {
      if (gateway) pulse_.hear(worker, *gateway, now_ns);
      pulse_.look(worker, keeps(group), now_ns);
    }
}

void WorkerPulse::say(const std::string& line) const {
  if (hooks_.say) hooks_.say(line);
}

void WorkerPulse::look(SupervisedWorker& worker, bool keeps, std::int64_t now_ns) {
  if (!probe_ || now_ns < worker.probe_ns) return;
  if (worker.probe) {  // it takes too long
    drop(worker);
    if (worker.living() && !worker.hung) probed(worker, false, now_ns);
  } else if (worker.living() && !worker.hung && !worker.kill_ns && keeps) {
    begin(worker, now_ns);
  }
}

void WorkerPulse::begin(SupervisedWorker& worker, std::int64_t now_ns) {
  const WorkerRecord& record = worker.record;
  const std::vector<std::string> words =
      command_of(probe_->command, record.segment, record.index, record.port);
  worker.probe_ns = now_ns + policy_.probe_timeout_ns;
  if (http() != nullptr) {
    worker.probe = http()->begin(words.front());
    return;
  }
  ProcessSpec spec;
  spec.argv = words;
  spec.environment = record.environment;
  const Result<Pid> pid = processes_.start(spec);
  if (pid) worker.probe = *pid;
  if (!pid) probed(worker, false, now_ns);
}

// Whatever it comes to.
void WorkerPulse::drop(SupervisedWorker& worker) {
  const auto probe = std::exchange(worker.probe, std::nullopt);
  if (!probe) return;
  if (http() != nullptr)
    http()->abandon(*probe);
  else
    static_cast<void>(processes_.stop(*probe, StopSignal::kill));
}

// Nothing, when nobody has begun it.
void Supervisor::probe_ended(std::int64_t probe, bool well, std::int64_t now_ns) {
  for (auto& [device, group] : groups_) {
    for (Worker& worker : group.workers) {
      if (worker.probe != probe) continue;
      worker.probe.reset();
      if (worker.living() && !worker.hung) pulse_.probed(worker, well, now_ns);
    }
  }
}

void WorkerPulse::probed(SupervisedWorker& worker, bool well, std::int64_t now_ns) {
  worker.probe_ns = now_ns + policy_.probe_period_ns;
  worker.misses = well ? 0 : worker.misses + 1;
  if (well) {
    worker.proven = true;
    return is_ready(worker, now_ns);
  }
  const bool starting = !worker.proven && now_ns - worker.started_ns < policy_.startup_ns;
  worker.record.answering = starting ? Answering::starting : Answering::silent;
  if (!starting && worker.misses >= policy_.probe_failures)
    replace(worker, fmt::format("does not answer, {} probes failed", worker.misses));
}

void WorkerPulse::hear(SupervisedWorker& worker, const GatewayState& gateway, std::int64_t now_ns) {
  if (worker.failed_pid) forgive(worker, gateway);
  if (worker.living()) hear_beat(worker, gateway, now_ns);
}

bool WorkerPulse::streams(const SupervisedWorker& worker) const {
  const auto gateway = hooks_.gateway ? hooks_.gateway() : std::nullopt;
  if (!gateway) return false;
  const auto told = find_worker(*gateway, worker.record);
  if (told == gateway->workers.end() || !told->open) return false;
  if (told->state == WorkerReadiness::silent) return false;
  return *told->open > 0 || told->state == WorkerReadiness::ready;
}

void WorkerPulse::hear_beat(SupervisedWorker& worker, const GatewayState& gateway,
                            std::int64_t now_ns) {
  const auto told = find_worker(gateway, worker.record);
  if (told == gateway.workers.end() || told->state != WorkerReadiness::silent) {
    worker.silent_ns.reset();
    if (told == gateway.workers.end()) {
      if (!probe_) worker.record.answering = Answering::starting;
    } else {
      if (told->state == WorkerReadiness::ready) return is_ready(worker, now_ns);
      worker.record.answering = Answering::leaving;
    }
    return;
  }
  worker.record.answering = Answering::silent;
  if (!worker.silent_ns) worker.silent_ns = now_ns;
  if (now_ns - *worker.silent_ns >= policy_.silent_ns && !worker.hung && !worker.kill_ns)
    replace(worker, fmt::format("does not answer, the gateway has heard nothing for {:.1f} s",
                                told->last_beat_s));
}

void WorkerPulse::is_ready(SupervisedWorker& worker, std::int64_t now_ns) {
  worker.record.answering = Answering::ready;
  if (std::exchange(worker.answered, true)) return;
  worker.record.start_s = 1e-9 * static_cast<double>(now_ns - worker.started_ns);
}

// Its last process ended soon after its start, but under requests: that is theirs.
void WorkerPulse::forgive(SupervisedWorker& worker, const GatewayState& gateway) {
  WorkerRecord& record = worker.record;
  const bool at_work = std::ranges::any_of(gateway.lost, [&](const GatewayLoss& loss) {
    return loss.device == record.segment.device && loss.index == record.index &&
           loss.pid == worker.failed_pid;
  });
  if (!at_work) return;
  worker.failed_pid.reset();
  record.quick_failures = worker.failures_before;
  record.given_up = record.quick_failures >= policy_.give_up_after;
  if (!worker.living())
    worker.next_start_ns = std::min(worker.next_start_ns, worker.failed_ns + policy_.first_wait_ns);
  say(fmt::format("{} {} on {}: ended under requests, which is no failed start",
                  record.segment.service, record.index, record.segment.device));
}

// It is told to end in this step, and counts as failed.
void WorkerPulse::replace(SupervisedWorker& worker, const std::string& why) {
  worker.hung = true;
  say(fmt::format("{} {} on {}: {}; replacing it", worker.record.segment.service,
                  worker.record.index, worker.record.segment.device, why));
}

}  // namespace partita::actuate
