#include "control/health.h"

#include <fmt/format.h>

#include <algorithm>

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

tl::unexpected<Error> unknown_gpu(const std::string& uuid) {
  return failed({ErrorCode::not_found, fmt::format("this node has no GPU {}", uuid), ""});
}

}  // namespace

OutGpu* Health::out_of(const std::string& uuid) {
  const auto found = std::ranges::find(kept_.out, uuid, &OutGpu::uuid);
  return found == kept_.out.end() ? nullptr : &*found;
}

void Health::take(const Ground& ground, OutGpu gpu, const std::string& user) {
  gpu.since_ms = ground.now_ms;
  report_.record(history::EventKind::health, {.user = user,
                                              .cause = gpu.why,
                                              .subject = gpu.uuid,
                                              .outcome = history::Outcome::succeeded,
                                              .detail = "taken out"});
  if (!gpu.by_person)
    report_.tell(NoticeKind::health, "out:" + gpu.uuid, gpu.uuid,
                 gpu.why + ": it is taken out of service");
  if (OutGpu* there = out_of(gpu.uuid)) {
    gpu.by_person = gpu.by_person || there->by_person;
    gpu.errors = gpu.errors || there->errors;
    gpu.lost = gpu.lost || there->lost;
    *there = std::move(gpu);
    return;
  }
  kept_.out.push_back(std::move(gpu));
  std::ranges::sort(kept_.out, {}, &OutGpu::uuid);
}

void Health::give(const std::string& uuid, const std::string& user, const std::string& why) {
  std::erase_if(kept_.out, [&](const OutGpu& one) { return one.uuid == uuid; });
  report_.over("out:" + uuid);
  report_.record(history::EventKind::health, {.user = user,
                                              .cause = why,
                                              .subject = uuid,
                                              .outcome = history::Outcome::succeeded,
                                              .detail = "used again"});
}

GpuUse Health::watch(const Ground& ground, const std::vector<HealthEvent>& events,
                     const std::string& boot) {
  watch_boot(boot);
  for (const HealthEvent& event : events) hear(ground, event);
  if (!ground.node.known) return ground.node.use;
  // Where there is nothing else to serve with, waiting helps nobody.
  const bool needed =
      ground.short_of || gpus_for_services(world_, ground.node.state, kept_.out).usable.empty();
  for (const device::GpuState& gpu : ground.node.state.gpus)
    if (!gpu.uuid.empty()) watch_gpu(ground, gpu, needed);
  GpuUse use = gpus_for_services(world_, ground.node.state, kept_.out);
  for (const auto& [uuid, why] : use.not_used)
    if (out_of(uuid) == nullptr) report_.tell(NoticeKind::health, "unusable:" + uuid, uuid, why);
  for (const GpuUse::Gpu& gpu : use.usable) report_.over("unusable:" + gpu.uuid);
  return use;
}

void Health::watch_gpu(const Ground& ground, const device::GpuState& gpu, bool needed) {
  OutGpu* out = out_of(gpu.uuid);
  if (gpu.lost) {
    if (out == nullptr)
      take(ground, {.uuid = gpu.uuid, .why = fmt::format("gpu {} fell off the bus", gpu.index)},
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
  const double back_after_s = world_.settings.health.back_after_s;
  if (out->well_ms == 0) out->well_ms = ground.now_ms;
  out->why = fmt::format("gpu {} is well again since {}, and is used again after {:g} s", gpu.index,
                         utc_text(out->well_ms), back_after_s);
  const auto wait = static_cast<std::int64_t>(back_after_s * 1000);
  if (needed || ground.now_ms - out->well_ms >= wait)
    give(gpu.uuid, "agent", fmt::format("gpu {} is there again", gpu.index));
}

// A sentence on what the event says of the GPU; empty: nothing that takes it out.
std::string Health::illness(const HealthEvent& event, const std::string& name) const {
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

void Health::hear(const Ground& ground, const HealthEvent& event) {
  using Kind = HealthEvent::Kind;
  const device::GpuState* gpu = ground.node.state.find(event.gpu_uuid);
  const std::string name = gpu == nullptr ? event.gpu_uuid : fmt::format("gpu {}", gpu->index);
  OutGpu* out = out_of(event.gpu_uuid);
  if (event.kind == Kind::reset) {
    report_.over("rows:" + event.gpu_uuid);
    if (out != nullptr) out->errors = false;
    return;
  }
  if (event.kind == Kind::well) {
    if (out != nullptr && (event.code != 0 || out->read)) out->errors = false;
    return;
  }
  if (event.kind == Kind::rows_pending)
    return report_.tell(
        NoticeKind::health, "rows:" + event.gpu_uuid, event.gpu_uuid,
        name + " will remap rows of memory at its next reset: reset it when convenient");
  const std::string why = illness(event, name);
  if (why.empty() || (out != nullptr && out->errors)) return;
  const bool xid = event.kind == Kind::xid;
  take(ground, {.uuid = event.gpu_uuid, .why = why, .errors = true, .read = !xid}, "agent");
}

// What a boot ends: every error that was seen before it.
void Health::watch_boot(const std::string& boot) {
  if (boot.empty() || boot == kept_.boot) return;
  if (!kept_.boot.empty())
    for (OutGpu& out : kept_.out) out.errors = false;
  kept_.boot = boot;
}

Reply Health::take_out(const Ground& ground, const TakeOut& request, const std::string& user) {
  const device::GpuState* gpu = ground.node.state.find(request.gpu_uuid);
  if (gpu == nullptr) return unknown_gpu(request.gpu_uuid);
  const std::string why = fmt::format("gpu {} was taken out by {}{}", gpu->index, user,
                                      request.why.empty() ? std::string{} : ": " + request.why);
  take(ground, {.uuid = request.gpu_uuid, .why = why, .by_person = true}, user);
  return Receipt{0, why + "; its services move elsewhere, then it is left empty"};
}

Reply Health::give_back(const Ground& ground, const GiveBack& request, const std::string& user) {
  if (out_of(request.gpu_uuid) == nullptr) {
    if (ground.node.state.find(request.gpu_uuid) == nullptr) return unknown_gpu(request.gpu_uuid);
    return failed(
        {ErrorCode::infeasible, fmt::format("GPU {} is not taken out", request.gpu_uuid), ""});
  }
  give(request.gpu_uuid, user, fmt::format("{} gave it back", user));
  return Receipt{0, "it may be used again; services move there when a plan needs it"};
}

}  // namespace partita::control
