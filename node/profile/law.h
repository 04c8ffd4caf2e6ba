// PerformanceLaw: ten coefficients per model that say how fast a batch runs on any instance of any
// GPU. Coefficients carry units of work (SM-milliseconds, megabytes), not of one GPU, so a law
// fitted on one GPU predicts another.
//   device  = (batch + ramp) (compute / SMs + serial + traffic / bandwidth)
//   alone   = softmax(launch + contention (processes - 1), device) + host x batch
//   latency = alone for one process, softmax(alone, processes x device) for more,
//             where softmax(x, y) = (x^s + y^s)^(1/s)
// Assumed on other GPUs: the host is as fast, an SM does the same work per millisecond (newer SMs
// are not credited), bandwidth is the memory slices' share of the vendor's figure. A value; pure
// functions; no limits but kMax* of workload_profile.h.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "hw/gpu_model.h"
#include "profile/workload_profile.h"

namespace partita::profile {

struct PerformanceLaw {
  std::string model;
  double launch_ms = 0;      // host time to issue a batch; hides behind a busy device
  double contention_ms = 0;  // added to it by every further process
  double host_ms = 0;        // host and copy time per request; only other processes can hide it
  double compute_sm_ms = 0;  // SM-milliseconds per request
  double serial_ms = 0;      // device time per request that no instance size shortens
  double traffic_mb = 0;     // megabytes (10^6 bytes) to and from device memory per request
  double ramp_requests = 0;  // an underfilled batch costs as much as one of this many more requests
  double sharpness = 1;      // s of the soft maximum
  double process_mib = 0;    // memory of a process, and of each request in its batch;
  double request_mib = 0;    // both 0: unknown, everything fits
  bool operator==(const PerformanceLaw&) const = default;

  bool knows_memory() const { return process_mib > 0 || request_mib > 0; }
};

// The coefficients as data, in the order of the struct: fitting, reading and printing walk this
// list.
struct Coefficient {
  const char* name;
  double PerformanceLaw::*member;
  double min, max;
};
extern const std::array<Coefficient, 10> kCoefficients;
inline constexpr std::size_t kSpeedCoefficients = 8;  // the first ones; the others are memory

// Laws of several models, fitted on one GPU model.
struct PerformanceLaws {
  std::string gpu_model;             // catalogue name
  std::string source;                // where the measurements come from
  std::vector<PerformanceLaw> laws;  // ascending model, unique
  bool operator==(const PerformanceLaws&) const = default;
};

// What a law needs to know of an instance.
struct Partition {
  int gpcs = 0;
  double sms = 0;
  double bandwidth_gb_s = 0;
  Mib memory;
};

// The plain MIG profile of this size. bad_input when the GPU has none, or its SMs, memory or
// bandwidth are unknown.
Result<Partition> partition(const hw::GpuModel& gpu, int gpcs);

// Throughput (of all processes), latency and memory; latency = batch x processes / throughput.
// Whether the memory is there is fits()'s question. batch in 1..kMaxBatch, processes
// in 1..kMaxProcesses.
ProfilePoint predict(const PerformanceLaw& law, const Partition& on, int batch, int processes);

// Whether so many processes with such batches have room in the instance.
bool fits(const PerformanceLaw& law, const Partition& on, int batch, int processes);

// Predicted points on the grid of the published measurements: the GPU's plain profiles x batch 1,
// 2, 4 .. 256 x processes 1..5, without those that do not fit; marked as predicted. Models that fit
// nowhere are left out.
Result<ProfileTable> table_from_laws(const PerformanceLaws& laws, const hw::GpuModel& gpu);

// JSON, kind PerformanceLaws (docs/profiles.md). Unknown keys, repeated models, coefficients out of
// range: bad input.
Result<PerformanceLaws> parse_laws(const std::string& file, std::string_view text);

// The text that parse_laws gives back exactly.
std::string laws_json(const PerformanceLaws& laws);

}  // namespace partita::profile
