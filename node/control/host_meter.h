// Whose joules of CPUs and memory a node's are, as readings come in (telemetry/host.h). What the
// node took between two of them is shared out by CPU time, where that of all processes and of the
// tenants' is known, else by the share of the GPUs' compute slices that each tenant holds; the rest
// is nobody's. Parts and nobody's are the whole, to the microjoule. A tenant of no part is in no
// figure, nor is an interval longer than EnergyMeter::kLongestS. Of each part it says what CPUs and
// memory would have taken without work: by the least watts that there were, which is at most that.
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "control/energy_meter.h"
#include "control/snapshot.h"
#include "hw/telemetry/host.h"

namespace partita::control {

// Compute slices that tenants hold, as parts of those of all GPUs in the sample.
std::map<std::string, double> slice_shares(const telemetry::Sample& sample,
                                           const energy::Tenancy& tenancy);

// Watts of GPUs, CPUs and memory; none where one of them is not told.
std::optional<double> together(const HostNow& host, const telemetry::Sample& sample);

class HostMeter {
 public:
  // `shares`: of the node's compute slices, by tenant; together at most 1.
  void see(const telemetry::HostSample& sample, const std::map<std::string, double>& shares);
  // Parts of CPUs and memory together, by tenant; kNobody: what is nobody's.
  const std::map<std::string, Draw>& draws() const { return draws_; }
  // Of those joules, what is idle power; by tenant, kNobody too.
  double idle_joules(const std::string& tenant) const;
  // A tenant's joules by its CPU time; nothing: its time or the counters are not known.
  struct Part {
    double joules = 0, idle_joules = 0;  // of joules
  };
  std::optional<Part> part_of(const std::string& tenant) const;
  // What it had is nobody's from now on.
  void forget(const std::string& tenant);
  // None before the first reading.
  const std::optional<HostNow>& whole() const { return whole_; }

  static constexpr const char* kNobody = "(nobody)";

 private:
  struct Micro {
    std::int64_t all = 0, idle = 0;  // microjoules
  };
  void share_out(const Micro& took, double seconds, const telemetry::HostSample& now,
                 const std::map<std::string, double>& shares);

  std::optional<telemetry::HostSample> last_;
  std::optional<HostNow> whole_;
  std::optional<double> idle_cpu_w_, idle_dram_w_;
  std::map<std::string, Micro> taken_;  // by tenant
  std::map<std::string, Draw> draws_;
};

}  // namespace partita::control
