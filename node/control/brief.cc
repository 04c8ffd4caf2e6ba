// Brief snapshots, as snapshot.h says.
#include <algorithm>
#include <cmath>

#include "control/snapshot.h"

namespace partita::control {
namespace {

// To so many digits, where fewer of them are known anyway.
double rounded(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int shift = digits - 1 - static_cast<int>(std::floor(std::log10(std::abs(value))));
  const double scale = std::pow(10.0, std::abs(shift));
  return shift >= 0 ? std::round(value * scale) / scale : std::round(value / scale) * scale;
}

void round_off(std::optional<double>& value, int digits) {
  if (value) *value = rounded(*value, digits);
}

void shorten(ServiceNow& service) {
  service.rate_rps.reset();  // asked_rps says it
  service.planned_rps = rounded(service.planned_rps, 6);
  for (auto* value : {&service.forecast_rps, &service.forecast_low_rps, &service.forecast_high_rps,
                      &service.p99_ms, &service.watts, &service.host_w})
    round_off(*value, 4);
  for (double* value : {&service.is.asked_rps, &service.is.answered_rps})
    *value = rounded(*value, 4);
  service.is.can_carry_rps = rounded(service.is.can_carry_rps, 5);
  // /metrics and the history have these
  for (auto* value :
       {&service.energy_j, &service.host_energy_j, &service.host_idle_j, &service.energy_cost,
        &service.co2_g})
    value->reset();
  constexpr double kAttainedGrains = 1e5;  // never rounded up to all
  if (service.attainment)
    *service.attainment = std::floor(*service.attainment * kAttainedGrains) / kAttainedGrains;
}

template <class Unit>
void round_off(std::optional<Unit>& value) {
  if (value) value->value = rounded(value->value, 4);
}

void shorten(telemetry::GpuSample& sample) {
  for (auto* power : {&sample.power, &sample.power_average, &sample.power_limit}) round_off(*power);
  for (auto* degrees : {&sample.temperature, &sample.memory_temperature}) round_off(*degrees);
  using Activity = telemetry::Activity;
  for (auto Activity::*share :
       {&Activity::graphics_engine, &Activity::sm, &Activity::occupancy, &Activity::tensor,
        &Activity::fp64, &Activity::fp32, &Activity::fp16, &Activity::integer, &Activity::dram})
    round_off(sample.activity.*share, 3);
  sample.uuid.clear();
  sample.model.clear();
  sample.processes.clear();
  for (telemetry::InstanceSample& one : sample.instances) {
    std::optional<double> busy = one.activity.sm, engine = one.activity.graphics_engine;
    round_off(busy, 3);
    round_off(engine, 3);
    one = telemetry::InstanceSample{.gi_id = one.gi_id};
    one.activity.sm = busy;
    if (!busy) one.activity.graphics_engine = engine;
  }
}

void shorten(std::optional<ChangeNow>& change) {
  if (!change) return;
  change->steps = static_cast<int>(change->change.steps.size());
  change->explanation.clear();
  change->change = {};
  change->plan = {};
}

}  // namespace

bool is_large(const Snapshot& snapshot) {
  std::size_t rows = snapshot.services.size();
  for (const device::GpuState& gpu : snapshot.state.gpus) rows += gpu.instances.size();
  return rows > kWholeRows;
}

Snapshot brief_of(Snapshot snapshot) {
  snapshot.left_out = {"state", "assignment", "plan", "changes", "tasks"};
  snapshot.state = {};
  snapshot.assignment = {};
  snapshot.plan.reset();
  shorten(snapshot.current);
  shorten(snapshot.last);
  for (ServiceNow& service : snapshot.services) shorten(service);
  for (GpuNow& gpu : snapshot.gpus)
    if (gpu.sample) shorten(*gpu.sample);
  auto& tasks = snapshot.batch.tasks;
  tasks.resize(std::min(tasks.size(), kBriefTasks));
  return snapshot;
}

void complete(Snapshot& brief, device::NodeState state, const device::Occupants& occupants) {
  for (ServiceNow& service : brief.services)
    if (service.is.as_of_ms > 0) service.rate_rps = service.is.asked_rps;
  for (GpuNow& now : brief.gpus) {
    const device::GpuState* gpu = state.find(now.uuid);
    if (!now.sample || gpu == nullptr) continue;
    now.sample->uuid = now.uuid;
    now.sample->model = now.model;
    for (telemetry::InstanceSample& one : now.sample->instances) {
      const auto found = std::ranges::find(gpu->instances, one.gi_id, &device::Instance::gi_id);
      if (found == gpu->instances.end()) continue;
      one.uuid = found->uuid();
      one.profile = found->profile;
      one.compute_slices = found->gpcs;
      one.memory_slices = found->size;
    }
  }
  brief.state = std::move(state);
  brief.assignment.segments.clear();
  for (const device::GpuState& gpu : brief.state.gpus) {
    const auto add = [&](const hw::Placement& place, const std::string& device) {
      if (const auto runs = occupants.find(device); runs != occupants.end()) {
        const device::Occupant& is = runs->second;
        brief.assignment.segments.push_back(
            {place, {is.service, is.batch, is.processes}, device, gpu.uuid});
      }
    };
    add({}, gpu.uuid);
    for (const device::Instance& one : gpu.instances) add(one, one.uuid());
  }
  std::ranges::sort(brief.assignment.segments, {}, &actuate::AssignedSegment::device);
}

}  // namespace partita::control
