#include "hw/telemetry/physics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/unicode.h"

namespace partita::telemetry {
namespace {

// Counters are read a little before or after the time of their sample, and count in steps.
constexpr Joules kCounterSlack{2 * kMostPower.value};

// Finite and in [low, high].
bool inside(double value, double low, double high) { return value >= low && value <= high; }

std::string share_fault(std::string_view what, const std::optional<double>& share) {
  if (!share || inside(*share, 0, 1)) return {};
  return fmt::format("{} activity is {:g}, must be a share in 0..1", what, *share);
}

std::string fault_of(const Activity& a) {
  const std::pair<std::string_view, const std::optional<double>&> shares[] = {
      {"graphics engine", a.graphics_engine},
      {"SM", a.sm},
      {"occupancy", a.occupancy},
      {"tensor", a.tensor},
      {"fp64", a.fp64},
      {"fp32", a.fp32},
      {"fp16", a.fp16},
      {"integer", a.integer},
      {"DRAM", a.dram}};
  for (const auto& [what, share] : shares)
    if (std::string fault = share_fault(what, share); !fault.empty()) return fault;
  return {};
}

template <class Unit>
std::string range_fault(std::string_view what, const std::optional<Unit>& value, Unit low,
                        Unit high, std::string_view unit) {
  if (!value || inside(value->value, low.value, high.value)) return {};
  return fmt::format("{} is {:g} {}, must be {:g} to {:g}; another unit?", what, value->value, unit,
                     low.value, high.value);
}

std::string power_fault(std::string_view what, const std::optional<Watts>& power) {
  if (power && power->value == 0)
    return fmt::format("{} is 0 W; leave out what is not known", what);
  return range_fault(what, power, Watts{0}, kMostPower, "W");
}

std::string text_fault(std::string_view what, const std::string& text) {
  const std::string fault = text.empty() ? std::string{} : name_fault(text);
  return fault.empty() ? fault : fmt::format("{}: {}", what, fault);
}

std::string first_of(std::initializer_list<std::string> faults) {
  for (const std::string& fault : faults)
    if (!fault.empty()) return fault;
  return {};
}

std::string fault_of(const InstanceSample& i) {
  std::string fault =
      first_of({text_fault("uuid", i.uuid), text_fault("profile", i.profile), fault_of(i.activity),
                range_fault("memory in use", i.memory_used, Mib{0}, kMostMemory, "MiB")});
  if (fault.empty() && (i.gi_id < 0 || i.compute_slices < 0 || i.memory_slices < 0))
    fault = "negative id or slices";
  return fault.empty() ? fault : fmt::format("instance {}: {}", i.gi_id, fault);
}

std::string instances_fault(const GpuSample& gpu) {
  int slices = 0, before = -1;
  for (const InstanceSample& i : gpu.instances) {
    if (std::string fault = fault_of(i); !fault.empty()) return fault;
    if (i.gi_id <= before)
      return fmt::format("instance {} comes after {}; they are sorted by gi_id", i.gi_id, before);
    before = i.gi_id;
    slices += i.compute_slices;
  }
  if (gpu.compute_slices > 0 && slices > gpu.compute_slices)
    return fmt::format("its instances have {} compute slices, the GPU {}", slices,
                       gpu.compute_slices);
  return {};
}

std::string processes_fault(const GpuSample& gpu) {
  const Process* before = nullptr;
  for (const Process& p : gpu.processes) {
    if (p.pid < 0 || p.gi_id < -1 || !inside(p.memory.value, 0, kMostMemory.value))
      return fmt::format("process {}: negative, or more memory than any GPU has", p.pid);
    if (before && std::tie(before->pid, before->gi_id) >= std::tie(p.pid, p.gi_id))
      return fmt::format("process {} comes after {}; they are sorted by pid", p.pid, before->pid);
    before = &p;
  }
  return {};
}

std::string throttle_fault(const GpuSample& gpu) {
  for (std::size_t i = 0; i < gpu.throttle.size(); ++i) {
    if (const std::string fault = name_fault(gpu.throttle[i]); !fault.empty())
      return fmt::format("throttle reason: {}", fault);
    if (i > 0 && gpu.throttle[i - 1] >= gpu.throttle[i])
      return "throttle reasons must be sorted and distinct";
  }
  return {};
}

std::string fault_of(const GpuSample& g) {
  const std::string fault = first_of(
      {g.index < 0 || g.compute_slices < 0 ? "negative index or slices" : "",
       text_fault("uuid", g.uuid), text_fault("model", g.model), power_fault("power", g.power),
       power_fault("average power", g.power_average), power_fault("power limit", g.power_limit),
       g.energy && !inside(g.energy->value, 0, 1e12) ? "energy counter is out of range" : "",
       range_fault("temperature", g.temperature, kLeastDegrees, kMostDegrees, "C"),
       range_fault("memory temperature", g.memory_temperature, kLeastDegrees, kMostDegrees, "C"),
       range_fault("SM clock", g.sm_clock, Mhz{0}, kMostClock, "MHz"),
       range_fault("memory clock", g.memory_clock, Mhz{0}, kMostClock, "MHz"), throttle_fault(g),
       fault_of(g.activity), instances_fault(g), processes_fault(g)});
  return fault.empty() ? fault : fmt::format("GPU {}: {}", g.index, fault);
}

}  // namespace

std::string fault_of(const Sample& sample) {
  if (!inside(sample.at.value, 0, kLatest.value))
    return fmt::format("time {:g} s is not in 1970..2999; milliseconds?", sample.at.value);
  int before = -1;
  for (const GpuSample& gpu : sample.gpus) {
    if (std::string fault = fault_of(gpu); !fault.empty()) return fault;
    if (gpu.index <= before)
      return fmt::format("GPU {} comes after {}; they are sorted by index", gpu.index, before);
    before = gpu.index;
  }
  return {};
}

std::string Continuity::fault_of(const Sample& sample) {
  if (std::string fault = telemetry::fault_of(sample); !fault.empty()) return fault;
  if (any_ && sample.at <= last_)
    return fmt::format("time {} s is not after {} s", sample.at.value, last_.value);
  for (const GpuSample& gpu : sample.gpus) {
    const auto known = counters_.find(gpu.index);
    if (!gpu.energy || known == counters_.end()) continue;
    const Seconds passed = sample.at - known->second.at;
    const double most = passed.value * kMostPower.value + kCounterSlack.value;
    const double gained = (*gpu.energy - known->second.energy).value;
    if (gained > most)
      return fmt::format("GPU {}: energy grew by {:g} J in {:g} s; millijoules?", gpu.index, gained,
                         passed.value);
    // A counter that started anew holds no more than what was drawn since.
    if (gained < 0 && gpu.energy->value > most)
      return fmt::format(
          "GPU {}: energy counter fell from {:g} to {:g} J, and not to a fresh start", gpu.index,
          known->second.energy.value, gpu.energy->value);
  }
  any_ = true;
  last_ = sample.at;
  for (const GpuSample& gpu : sample.gpus)
    if (gpu.energy) counters_.insert_or_assign(gpu.index, Counter{sample.at, *gpu.energy});
  return {};
}

}  // namespace partita::telemetry
