// Health of GPUs, workers and services, as loop_work.h says.
#include <fmt/format.h>

#include <algorithm>

#include "control/loop_work.h"

namespace partita::control {
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
  for (const HealthEvent& event : seen.health) hear_health(event);
  if (!node_known_) return;
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

void Loop::Work::hear_health(const HealthEvent& event) {
  const HealthSettings& policy = world_.settings.health;
  const device::GpuState* gpu = state_.find(event.gpu_uuid);
  const std::string name = gpu == nullptr ? event.gpu_uuid : fmt::format("gpu {}", gpu->index);
  OutGpu* out = out_of(event.gpu_uuid);
  if (event.kind == HealthEvent::Kind::reset) {
    if (out != nullptr) out->errors = false;
    return;
  }
  const bool xid = event.kind == HealthEvent::Kind::xid;
  if (xid ? std::ranges::count(policy.xids, event.code) == 0 : !policy.uncorrected_ecc) return;
  if (out != nullptr && out->errors) return;
  const std::string why =
      xid ? fmt::format("{} reported XID {}", name, event.code)
          : fmt::format("{} has {} memory errors that could not be corrected", name, event.code);
  take_out(event.gpu_uuid, {.uuid = {}, .why = why, .errors = true}, "agent");
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
