// What simulated GPUs say of themselves: telemetry and settings of sim_driver.h.
#include <algorithm>

#include "device/call.h"
#include "drivers/sim/sim_driver.h"

namespace partita::drivers::sim {
namespace {

using device::Call;
using device::Method;

struct Reason {
  Throttle bit;
  const char* name;
};
// As the real driver's door tells them: a board without work is not slowed down.
constexpr Reason kReasons[] = {{Throttle::hardware_heat, "hw_thermal"},
                               {Throttle::power_cap, "sw_power_cap"},
                               {Throttle::software_heat, "sw_thermal"}};  // sorted by name

telemetry::InstanceSample instance_sample(const SimGpu& gpu, const SimInstance& instance) {
  const hw::MigProfile& shape = gpu.model->profiles[static_cast<std::size_t>(instance.profile)];
  telemetry::InstanceSample sample;
  sample.gi_id = instance.gi_id;
  if (!instance.compute.empty()) sample.uuid = instance.compute.front().uuid;
  sample.profile = shape.name;
  sample.compute_slices = shape.gpcs;
  sample.memory_slices = shape.size;
  return sample;
}

// All but activities.
telemetry::GpuSample board_sample(const SimGpu& gpu, int index, const SimPower& power) {
  const Figures& board = figures_of(*gpu.model);
  telemetry::GpuSample sample;
  sample.index = index;
  sample.uuid = gpu.uuid;
  sample.model = gpu.model->name;
  sample.compute_slices = gpu.model->profiles.empty() ? 0 : gpu.model->compute_slices;
  for (const SimInstance& instance : gpu.instances)
    sample.instances.push_back(instance_sample(gpu, instance));
  for (const SimProcess& process : gpu.processes)
    if (sample.processes.empty() || sample.processes.back().pid != process.pid ||
        sample.processes.back().gi_id != process.gi_id)
      sample.processes.push_back({process.pid, process.gi_id, Mib{}});
  if (board.limit_w == 0) return sample;
  const PowerReading reading = reading_of(power, board);
  sample.power = Watts{reading.watts};
  sample.power_average = Watts{power.average_w};
  sample.energy = Joules{power.energy_j};
  sample.power_limit = power_state(power, board).now.limit;
  sample.temperature = Celsius{power.chip_c};
  sample.memory_temperature = Celsius{power.memory_c};
  sample.sm_clock = Mhz{reading.sm_mhz};
  sample.memory_clock = Mhz{1.0 * board.memory};
  for (const Reason& reason : kReasons)
    if ((reading.reasons & static_cast<unsigned>(reason.bit)) != 0)
      sample.throttle.emplace_back(reason.name);
  return sample;
}

// Weighted by slices.
void add(std::optional<double>& sum, const std::optional<double>& part, double weight) {
  if (part) sum = std::min(1.0, sum.value_or(0) + weight * *part);
}

void add(telemetry::Activity& sum, const telemetry::Activity& part, double weight) {
  add(sum.graphics_engine, part.graphics_engine, weight);
  add(sum.sm, part.sm, weight);
  add(sum.occupancy, part.occupancy, weight);
  add(sum.tensor, part.tensor, weight);
  add(sum.fp64, part.fp64, weight);
  add(sum.fp32, part.fp32, weight);
  add(sum.fp16, part.fp16, weight);
  add(sum.integer, part.integer, weight);
  add(sum.dram, part.dram, weight);
}

Error of_call(Error error, const Call& call) {
  if (error.context.empty()) error.context = to_string(call);
  return error;
}

}  // namespace

Result<telemetry::GpuSample> SimDriver::telemetry(int gpu) {
  const Call call{Method::telemetry, {gpu}};
  Result<SimPower> power = failed({ErrorCode::environment, "the machine did not answer", {}});
  telemetry::GpuSample sample;
  PowerReading now;
  const auto ran = machine_.with([&](Machine& machine) {
    power = machine.power_at(gpu, machine_.now_ns());
    if (!power) return;
    sample = board_sample(*machine.find(gpu), gpu, *power);
    now = reading_of(*power, figures_of(*machine.find(gpu)->model));
  });
  if (!ran) return failed(ran.error());
  if (!power) return failed(of_call(power.error(), call));
  for (std::size_t i = 0; i < power->loads.size(); ++i) {
    const SimLoad& load = power->loads[i];
    Busy& before = before_[{gpu, load.gi_id}];
    const double seconds = static_cast<double>(power->at_ns - before.at_ns) * 1e-9;
    const bool measured = before.at_ns > 0 && seconds > 0 && load.busy_s >= before.busy_s;
    const double share = measured ? (load.busy_s - before.busy_s) / seconds : now.activities[i];
    before = {power->at_ns, load.busy_s};
    const telemetry::Activity activity = activity_of(load, std::clamp(share, 0.0, 1.0));
    add(sample.activity, activity, load.share);
    const auto of =
        std::ranges::find(sample.instances, load.gi_id, &telemetry::InstanceSample::gi_id);
    if (of != sample.instances.end()) of->activity = activity;
  }
  return sample;
}

Result<device::PowerState> SimDriver::power_settings(int gpu) {
  const Call call{Method::power_settings, {gpu}};
  Result<device::PowerState> state =
      failed({ErrorCode::environment, "the machine did not answer", {}});
  const auto ran = machine_.glance([&](const Machine& machine) {
    const SimGpu* found = machine.find(gpu);
    if (!found)
      state = failed({ErrorCode::not_found, "there is no such GPU", {}});
    else if (found->lost)
      state = failed({ErrorCode::lost, "the GPU fell off the bus", {}});
    else if (figures_of(*found->model).limit_w == 0)
      state = failed({ErrorCode::not_supported, "power and clocks of this GPU are not known", {}});
    else
      state = power_state(found->power, figures_of(*found->model));
  });
  if (!ran) return failed(ran.error());
  if (!state) return failed(of_call(state.error(), call));
  return state;
}

Result<void> SimDriver::set_power_settings(int gpu, const device::PowerSettings& settings) {
  const auto set = machine_.set_power(gpu, settings);
  if (!set) return failed(of_call(set.error(), device::power_call(gpu, settings)));
  return {};
}

}  // namespace partita::drivers::sim
