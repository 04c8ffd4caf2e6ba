// The snapshot after a step, as loop_work.h says.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "control/loop_work.h"

namespace partita::control {

std::vector<ServiceNow> Loop::Work::services_now() const {
  std::vector<ServiceNow> services;
  const double horizon = world_.settings.forecast.horizon_s;
  std::map<std::string, int> running;  // segments, by service
  for (const actuate::AssignedSegment& segment : assignment_.segments) {
    const device::GpuState* gpu = state_.find(segment.gpu_uuid);
    const bool there = gpu != nullptr && !gpu->lost &&
                       std::ranges::any_of(gpu->instances, [&](const device::Instance& instance) {
                         return instance.uuid() == segment.device;
                       });
    running[segment.service] += there ? 1 : 0;
  }
  for (std::size_t s = 0; s < services_.size(); ++s) {
    const plan::Service& one = services_[s];
    ServiceNow now{one};
    const Meters::Reading reading = meters_.reading(one.name, local());
    if (gateway_) {
      now.rate_rps = reading.rate;
      now.p99_ms = reading.p99_ms;
      now.attainment = reading.attainment;
      now.ready_workers = reading.ready_workers;
    }
    const auto forecast =
        meters_.forecast(one.name, local(), local() + static_cast<std::int64_t>(horizon * 1000));
    if (forecast) {
      now.forecast_rps = forecast->rate;
      now.forecast_low_rps = forecast->low;
      now.forecast_high_rps = forecast->high;
    }
    if (memory_.target)
      for (const PlannedFor& rate : memory_.target->rates)
        if (rate.service == one.name) now.planned_rps = rate.rate_rps;
    now.segments = running[one.name];
    if (const auto known = energy_.draws().find(one.name); known != energy_.draws().end()) {
      now.watts = known->second.watts;
      now.energy_j = known->second.joules;
    }
    now.is = verdicts_[s];
    services.push_back(std::move(now));
  }
  return services;
}

std::vector<GpuNow> Loop::Work::gpus_now(const Seen& seen) const {
  std::vector<GpuNow> gpus;
  for (const device::GpuState& gpu : state_.gpus) {
    GpuNow now{.index = gpu.index, .uuid = gpu.uuid, .model = gpu.model};
    const auto why =
        use_.not_used.find(gpu.uuid.empty() ? fmt::format("gpu {}", gpu.index) : gpu.uuid);
    now.out = why != use_.not_used.end();
    if (now.out) now.why = why->second;
    if (seen.sample)
      for (const telemetry::GpuSample& sample : seen.sample->gpus)
        if (sample.index == gpu.index) now.sample = sample;
    gpus.push_back(std::move(now));
  }
  return gpus;
}

// The node is as the plan in force wants it, and nothing more is needed.
bool Loop::Work::is_converged(bool writing) const {
  if (!memory_.target || !same_gpus_usable(*memory_.target, use_)) return false;
  if (memory_.proposal && !memory_.proposal->gain) return false;
  return writing || ((memory_.target->done || rerated_) && !under_);
}

void Loop::Work::show(const Seen& seen) {
  bool changed = false;
  // Most of a snapshot is as it was: comparing costs less than copying it at every look.
  const auto update = [&](auto& shown, const auto& now) {
    if (shown == now) return false;
    shown = now;
    return changed = true;
  };
  update(snapshot_.node, world_.node);
  update(snapshot_.mode, mode());
  // Where only what is promised is written down, the node is as it shall be.
  const bool writing = under_ && under_->shown.change.empty() && !under_->emptying;
  update(snapshot_.converged, node_known_ && is_converged(writing));
  const bool other_node = update(snapshot_.state, state_);
  update(snapshot_.node_fault, blind_);
  snapshot_.node_read_ms = node_read_ms_;
  const bool others_run = update(snapshot_.assignment, assignment_);
  std::vector<ServiceNow> services = services_now();
  // That it was measured again is no change.
  for (std::size_t s = 0; s < std::min(services.size(), snapshot_.services.size()); ++s)
    snapshot_.services[s].is.as_of_ms = services[s].is.as_of_ms;
  update(snapshot_.services, services);
  update(snapshot_.gpus, gpus_now(seen));
  if (memory_.target)
    update(snapshot_.plan, memory_.target->plan);
  else
    update(snapshot_.plan, std::nullopt);
  if (memory_.proposal && !proposed_) {  // of an agent before this one
    ChangeNow shown;
    shown.number = memory_.proposal->change;
    shown.cause = memory_.proposal->cause;
    shown.planned_ms = memory_.proposal->planned_ms;
    shown.plan = memory_.proposal->plan;
    shown.explanation = memory_.proposal->plan.explanation;
    if (auto change = node_known_ ? change_to(*memory_.proposal) : std::nullopt)
      shown.change = *std::move(change);
    proposed_ = std::move(shown);
  }
  if (under_ && !writing)
    update(snapshot_.current, under_->shown);
  else if (memory_.proposal)
    update(snapshot_.current, proposed_);
  else
    update(snapshot_.current, std::nullopt);
  update(snapshot_.last, last_);
  if (std::vector<BatchInfo> now = batch_list(); now != *batches_)
    batches_ = std::make_shared<const std::vector<BatchInfo>>(std::move(now));
  update(snapshot_.batch, batch_now());
  std::vector<JudgedPlans> judged;
  for (const auto& [asked, said] : memo_.said) judged.push_back({asked, said.first, said.second});
  update(snapshot_.judged, judged);
  update(snapshot_.drifts, memory_.drifts);
  update(snapshot_.changes, made_);
  update(snapshot_.failed_changes, memory_.failed_changes);
  update(snapshot_.doing, doing_);
  if (changed) ++snapshot_.version;
  if (other_node || others_run) snapshot_.node_version = snapshot_.version;
  snapshot_.time_ms = now_;
}

}  // namespace partita::control
