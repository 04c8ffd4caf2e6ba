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
    return;
  }
  if (out == nullptr || out->by_person || out->errors) return;
  if (out->well_ms == 0) out->well_ms = now_;
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
  if (event.kind == Kind::rows_pending)
    return tell(NoticeKind::health, "rows:" + event.gpu_uuid, event.gpu_uuid,
                name + " will remap rows of memory at its next reset: reset it when convenient");
  const std::string why = illness(event, name);
  if (why.empty() || (out != nullptr && out->errors)) return;
  take_out(event.gpu_uuid, {.uuid = {}, .why = why, .errors = true}, "agent");
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

// Says once which services are at risk; show() takes the sentences over.
void Loop::Work::watch_services() {
  for (const plan::Service& service : services_) {
    const std::string key = "risk:" + service.name;
    const Meters::Reading reading = meters_.reading(service.name, local());
    const double target = service.percentile / 100;
    const std::optional<double> rate = promised(service.name);
    std::string why;
    if (gateway_ && reading.attainment && *reading.attainment < target)
      why = fmt::format(
          "{:.2f} % of the requests of {} were in time in the last minute, {:g} % "
          "are promised ({:.4g} req/s came, {:.4g} are planned for)",
          100 * *reading.attainment, service.name, service.percentile, reading.rate.value_or(0),
          rate.value_or(0));
    else if (memory_.target && !rate)
      why = fmt::format("{} is not served: {}", service.name, memory_.target->reduced);
    else if (memory_.target && !memory_.target->reduced.empty() &&
             *rate < need(service, 0) * (1 - 1e-9))
      why = fmt::format("{} is served up to {:.4g} req/s, {:.4g} are needed", service.name, *rate,
                        need(service, 0));
    if (why.empty())
      untell(key);
    else
      tell(NoticeKind::slo_risk, key, service.name, why);
  }
}

}  // namespace partita::control
