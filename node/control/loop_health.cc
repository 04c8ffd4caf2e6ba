// Health of GPUs, workers and services, as loop_work.h says.
#include <fmt/format.h>

#include <algorithm>

#include "control/loop_work.h"
#include "hw/xids.h"

namespace partita::control {
namespace {

std::string recovery_words(int code) {
  switch (static_cast<device::GpuRecovery>(code)) {
    case device::GpuRecovery::reset:
      return "to be reset";
    case device::GpuRecovery::reboot:
      return "to be recovered by a restart of the node";
    case device::GpuRecovery::drain_peers:
      return "to end its traffic with other GPUs";
    case device::GpuRecovery::drain_and_reset:
      return "to be drained and reset: it works with less than it has";
    case device::GpuRecovery::none:
      break;
  }
  return fmt::format("to be recovered (action {})", code);
}

}  // namespace

OutGpu* Loop::Work::out_of(const std::string& uuid) {
  const auto found = std::ranges::find(memory_.out, uuid, &OutGpu::uuid);
  return found == memory_.out.end() ? nullptr : &*found;
}

void Loop::Work::take_out(const std::string& uuid, OutGpu gpu, const std::string& user) {
  gpu.uuid = uuid;
  gpu.since_ms = now_;
  record(history::EventKind::health, {.user = user,
                                      .cause = gpu.why,
                                      .subject = uuid,
                                      .outcome = history::Outcome::succeeded,
                                      .detail = "taken out"});
  if (!gpu.by_person)
    tell(NoticeKind::health, "out:" + uuid, uuid, gpu.why + ": it is taken out of service");
  if (OutGpu* there = out_of(uuid)) {
    gpu.by_person = gpu.by_person || there->by_person;
    gpu.errors = gpu.errors || there->errors;
    gpu.lost = gpu.lost || there->lost;
    *there = std::move(gpu);
    return;
  }
  memory_.out.push_back(std::move(gpu));
  std::ranges::sort(memory_.out, {}, &OutGpu::uuid);
}

void Loop::Work::give_back(const std::string& uuid, const std::string& user,
                           const std::string& why) {
  std::erase_if(memory_.out, [&](const OutGpu& one) { return one.uuid == uuid; });
  untell("out:" + uuid);
  record(history::EventKind::health, {.user = user,
                                      .cause = why,
                                      .subject = uuid,
                                      .outcome = history::Outcome::succeeded,
                                      .detail = "used again"});
}

void Loop::Work::watch_health(const Seen& seen) {
  watch_boot(seen.boot);
  for (const HealthEvent& event : seen.health) hear_health(event);
  if (!node_known_) return;
  use_ = gpus_for_services(world_, state_, memory_.out);  // a new agent knows none before
  for (const device::GpuState& gpu : state_.gpus)
    if (!gpu.uuid.empty()) watch_gpu(gpu);
  use_ = gpus_for_services(world_, state_, memory_.out);
  for (const auto& [uuid, why] : use_.not_used)
    if (out_of(uuid) == nullptr) tell(NoticeKind::health, "unusable:" + uuid, uuid, why);
  for (const GpuUse::Gpu& gpu : use_.usable) untell("unusable:" + gpu.uuid);
}

void Loop::Work::watch_gpu(const device::GpuState& gpu) {
  OutGpu* out = out_of(gpu.uuid);
  if (gpu.lost) {
    if (out == nullptr)
      take_out(gpu.uuid, {.uuid = {}, .why = fmt::format("gpu {} fell off the bus", gpu.index)},
               "agent");
    else
      out->well_ms = 0;
    out_of(gpu.uuid)->lost = true;
    return;
  }
  if (out == nullptr || out->by_person) return;
  // Only a reset, whoever saw it, brings back what fell off the bus.
  if (out->lost) out->errors = out->lost = false;
  if (out->errors) return;
  if (out->well_ms == 0) out->well_ms = now_;
  out->why = fmt::format("gpu {} is well again since {}, and is used again after {:g} s", gpu.index,
                         utc_text(out->well_ms), world_.settings.health.back_after_s);
  // Where there is nothing else to serve with, waiting helps nobody.
  const bool needed = use_.usable.empty() || (memory_.target && !memory_.target->reduced.empty());
  const auto wait = static_cast<std::int64_t>(world_.settings.health.back_after_s * 1000);
  if (needed || now_ - out->well_ms >= wait)
    give_back(gpu.uuid, "agent", fmt::format("gpu {} is there again", gpu.index));
}

// A sentence on what the event says of the GPU; empty: nothing that takes it out.
std::string Loop::Work::illness(const HealthEvent& event, const std::string& name) const {
  using Kind = HealthEvent::Kind;
  const HealthSettings& policy = world_.settings.health;
  const std::string on =
      event.gi_id < 0 ? "" : fmt::format(" on its instance with gi_id {}", event.gi_id);
  switch (event.kind) {
    case Kind::xid: {
      if (std::ranges::count(policy.xids, event.code) == 0) return {};
      const hw::Xid* known = hw::find_xid(event.code);
      return fmt::format("{} reported XID {}{}{}", name, event.code, on,
                         known == nullptr ? "" : fmt::format(" ({})", known->what));
    }
    case Kind::ecc:
      if (!policy.uncorrected_ecc) return {};
      return fmt::format("{} has {} memory errors that could not be corrected", name, event.code);
    case Kind::rows_failed:
      if (!policy.recovery) return {};
      return name + " has rows of memory that could not be remapped";
    case Kind::recovery:
      if (!policy.recovery || event.code == 0) return {};
      return fmt::format("the driver wants {} {}", name, recovery_words(event.code));
    case Kind::reset:
    case Kind::rows_pending:
    case Kind::well:
      return {};
  }
  return {};
}

void Loop::Work::hear_health(const HealthEvent& event) {
  using Kind = HealthEvent::Kind;
  const device::GpuState* gpu = state_.find(event.gpu_uuid);
  const std::string name = gpu == nullptr ? event.gpu_uuid : fmt::format("gpu {}", gpu->index);
  OutGpu* out = out_of(event.gpu_uuid);
  if (event.kind == Kind::reset) {
    untell("rows:" + event.gpu_uuid);
    if (out != nullptr) out->errors = false;
    return;
  }
  if (event.kind == Kind::well) {
    if (out != nullptr && (event.code != 0 || out->read)) out->errors = false;
    return;
  }
  if (event.kind == Kind::rows_pending)
    return tell(NoticeKind::health, "rows:" + event.gpu_uuid, event.gpu_uuid,
                name + " will remap rows of memory at its next reset: reset it when convenient");
  const std::string why = illness(event, name);
  if (why.empty() || (out != nullptr && out->errors)) return;
  const bool xid = event.kind == Kind::xid;
  take_out(event.gpu_uuid,
           {.uuid = {},
            .why = why,
            .errors = true,
            .read = !xid},
           "agent");
}

// What a boot ends: every error that was seen before it.
void Loop::Work::watch_boot(const std::string& boot) {
  if (boot.empty() || boot == memory_.boot) return;
  if (!memory_.boot.empty())
    for (OutGpu& out : memory_.out) out.errors = false;
  memory_.boot = boot;
}

void Loop::Work::watch_workers(const Seen& seen) {
  long restarts = 0, given_up = 0;
  for (const actuate::WorkerRecord& one : seen.workers) {
    restarts += one.restarts;
    const std::string key =
        fmt::format("worker:{}:{}:{}", one.segment.service, one.segment.device, one.index);
    if (!one.given_up) {
      untell(key);
      continue;
    }
    ++given_up;
    tell(NoticeKind::given_up_worker, key, one.segment.service,
         fmt::format("worker {} of {} on {} keeps failing{}", one.index, one.segment.service,
                     one.segment.device,
                     one.last_status ? fmt::format(" (status {})", *one.last_status) : ""));
  }
  snapshot_.restarts = restarts;
  snapshot_.given_up_workers = given_up;
}

bool Loop::Work::glance(std::int64_t now_ms, const ServersSeen& servers) const {
  const auto now = judge_services({services_, memory_, assignment_, servers, blind_},
                                  std::max(now_, now_ms), verdicts_);
  return !std::ranges::equal(now, verdicts_, {}, &ServiceVerdict::verdict,
                             &ServiceVerdict::verdict);
}

void Loop::Work::judge_services_now() {
  verdicts_ =
      judge_services({services_, memory_, assignment_, servers_, blind_}, now_, verdicts_);
  std::vector<VerdictKept> kept;
  std::set<std::string> there;
  for (const ServiceVerdict& one : verdicts_) {
    const bool served = one.verdict != Standing::down && one.verdict != Standing::unknown;
    const bool known = std::ranges::count(memory_.verdicts, one.service, &VerdictKept::service) > 0;
    if (!known && !served) starting_.insert(one.service);
    if (served) starting_.erase(one.service);
    tell_verdict(one);
    kept.push_back({one.service, one.verdict, one.since_ms});
    there.insert(one.service);
  }
  if (memory_.verdicts != kept) memory_.verdicts = std::move(kept);
  const auto gone = [&](const auto& one) { return !there.contains(one.first); };
  for (const auto& [service, word] : told_of_)
    if (!there.contains(service)) untell("risk:" + service);
  std::erase_if(told_of_, gone);
}

// Once what is bad, again when it becomes worse; that it is over, when it has been for a while.
void Loop::Work::tell_verdict(const ServiceVerdict& one) {
  constexpr int kWorse[] = {0, 2, 1, 3, 1};  // by Standing
  constexpr std::int64_t kSteadyMs = kMinuteMs, kShortMs = 10'000, kStartMs = 2 * kMinuteMs;
  const std::string key = "risk:" + one.service;
  const auto told = told_of_.find(one.service);
  const std::int64_t lasts = now_ - one.since_ms;
  if (one.verdict == Standing::serves) {
    if (told == told_of_.end() || lasts < kShortMs) return;
    untell(key);
    told_of_.erase(told);
    tell(NoticeKind::other, key, one.service, one.service + " is served again");
    return untell(key);
  }
  std::int64_t patience = 0;
  if (one.verdict == Standing::at_risk) patience = kSteadyMs;  // a change, a worker that comes back
  if (one.verdict == Standing::unknown) patience = kShortMs;
  if (starting_.contains(one.service)) patience = kStartMs;
  if (lasts < patience || (one.verdict == Standing::unknown && one.as_of_ms == 0)) return;
  const auto worse = [&](Standing word) { return kWorse[static_cast<std::size_t>(word)]; };
  if (told != told_of_.end() && worse(told->second) >= worse(one.verdict)) return;
  const char* const words[] = {"is served", "is degraded", "is at risk", "is down",
                               "is not known to be served"};
  untell(key);
  told_of_[one.service] = one.verdict;
  tell(NoticeKind::slo_risk, key, one.service,
       fmt::format("{} {}: {}", one.service, words[static_cast<std::size_t>(one.verdict)],
                   one.why));
}

}  // namespace partita::control
