#include "hw/telemetry/forms.h"

#include <string>
#include <vector>

#include "hw/telemetry/physics.h"

namespace partita::telemetry {
namespace {

constexpr std::size_t kMaxGpus = 4096;
constexpr std::size_t kMaxInstances = 64;
constexpr std::size_t kMaxProcesses = 100'000;
constexpr std::size_t kMaxReasons = 64;
constexpr Range kShare{.high = 1};
constexpr Range kSlices{.high = kMostSlices};
constexpr Range kIdentifier{.high = 1e9};

// Written where it is known; a reader leaves it empty where it is missing.
template <class Unit>
void quantity(Form& f, std::string_view key, std::optional<Unit>& value, Range range,
              std::string_view about) {
  std::optional<double> number;
  if (value) number = value->value;
  f.number(key, number, range, about);
  if (f.reading() != nullptr && number) value = Unit{*number};
}

void text(Form& f, std::string_view key, std::string& value, std::string_view about) {
  f.optional(!value.empty()).note(key, value, about);
}

void describe(Form& f, Activity& a) {
  f.number("graphics_engine", a.graphics_engine, kShare, "share of time it was busy");
  f.number("sm", a.sm, kShare, "mean share of SMs with a warp on them");
  f.number("occupancy", a.occupancy, kShare, "warps on the SMs, of the most there can be");
  f.number("tensor", a.tensor, kShare, "share of time the tensor pipes were busy");
  f.number("fp64", a.fp64, kShare, "share of time the FP64 pipe was busy");
  f.number("fp32", a.fp32, kShare, "share of time the FP32 pipe was busy");
  f.number("fp16", a.fp16, kShare, "share of time the FP16 pipe was busy");
  f.number("integer", a.integer, kShare, "share of time the integer pipe was busy");
  f.number("dram", a.dram, kShare, "share of the memory's bandwidth in use");
  f.closed();
}

void activity(Form& f, Activity& a, std::string_view about) {
  f.optional(a != Activity{}).object("activity", a, describe, about);
}

void describe(Form& f, Process& p) {
  long pid = static_cast<long>(p.pid);
  f.whole("pid", pid, {.high = 4294967295.0}, "as the system numbers it");
  p.pid = pid;
  f.optional(p.gi_id >= 0).integer("gi_id", p.gi_id, kIdentifier, "its instance");
  f.number("memory_mib", p.memory.value, {.high = kMostMemory.value}, "that it holds");
  f.closed();
}

void describe(Form& f, InstanceSample& i) {
  f.integer("gi_id", i.gi_id, kIdentifier, "of the GPU instance");
  text(f, "uuid", i.uuid, "of the MIG device; missing without a compute instance");
  text(f, "profile", i.profile, "\"3g.40gb\"");
  // Left out only where nothing says which instance this is but its number.
  const bool bare = i.uuid.empty() && i.profile.empty();
  if (bare) f.optional(i.compute_slices > 0);
  f.integer("compute_slices", i.compute_slices, kSlices, "");
  if (bare) f.optional(i.memory_slices > 0);
  f.integer("memory_slices", i.memory_slices, kSlices, "");
  activity(f, i.activity, "of this instance, in shares of it");
  quantity(f, "memory_used_mib", i.memory_used, {.high = kMostMemory.value}, "");
  f.closed();
}

}  // namespace

void describe_gpu(Form& f, GpuSample& g) {
  constexpr Range kPower{.high = kMostPower.value, .above = true};
  constexpr Range kDegrees{.low = kLeastDegrees.value, .high = kMostDegrees.value};
  constexpr Range kClock{.high = kMostClock.value};
  f.integer("index", g.index, {.high = 1e6}, "of the GPU on its node");
  text(f, "uuid", g.uuid, "of the GPU");
  text(f, "model", g.model, "as the catalogue names it");
  f.optional(g.compute_slices > 0)
      .integer("compute_slices", g.compute_slices, kSlices, "of the whole board");
  quantity(f, "power_w", g.power, kPower, "of the board, now");
  quantity(f, "power_average_w", g.power_average, kPower, "mean of the last second");
  quantity(f, "energy_j", g.energy, kNotNegative, "counter of the board");
  quantity(f, "power_limit_w", g.power_limit, kPower, "in force");
  quantity(f, "temperature_c", g.temperature, kDegrees, "of the chip");
  quantity(f, "memory_temperature_c", g.memory_temperature, kDegrees, "");
  quantity(f, "sm_clock_mhz", g.sm_clock, kClock, "");
  quantity(f, "memory_clock_mhz", g.memory_clock, kClock, "");
  f.optional(!g.throttle.empty())
      .names("throttle", g.throttle, {.most = kMaxReasons}, "reasons in force, sorted");
  // Older versions listed boards without work as slowed down.
  if (f.reading()) std::erase(g.throttle, "gpu_idle");
  activity(f, g.activity, "of the whole GPU");
  f.optional(!g.instances.empty())
      .list("instances", g.instances, describe, {.most = kMaxInstances}, "by gi_id");
  f.optional(!g.processes.empty())
      .list("processes", g.processes, describe, {.most = kMaxProcesses}, "by pid");
  f.closed();
}

void describe_sample(Form& f, Sample& s) {
  f.number("at_s", s.at.value, {.high = kLatest.value}, "since the epoch or the start");
  f.list("gpus", s.gpus, describe_gpu, {.most = kMaxGpus}, "by index");
  f.closed();
}

}  // namespace partita::telemetry
