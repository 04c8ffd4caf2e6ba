// Energy of CPUs and memory as Linux tells it: RAPL's counters below /sys/class/powercap
// (intel-rapl:N and intel-rapl:N:M; AMD's are there, too), and CPU times of processes in /proc.
// Counters wrap at max_energy_range_uj: an interval so long that one may have done so twice is
// counted by nobody. Single-threaded; the door must outlive it.
// Limits: kMostPackages packages, kMostParts parts of each.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "hw/telemetry/host.h"

namespace partita::observe {

inline constexpr int kMostPackages = 64, kMostParts = 8;
inline constexpr double kMostZoneWatts = 1'000;  // no part of a node takes more for long

struct HostPaths {
  std::string powercap = "/sys/class/powercap";
  std::string proc = "/proc";
};

// A process of a tenant: a service, a batch, a task.
struct TenantProcess {
  std::string tenant;
  std::int64_t pid = 0;
  std::string identity;  // so that another process of that number is not taken for it
};

class HostEnergyReader {
 public:
  explicit HostEnergyReader(Files& files, HostPaths paths = {});

  // Joules since the first call. Without RAPL, or without the right to read it (the kernel's
  // default is root's alone), figures are missing and `fault` says why.
  telemetry::HostSample read(Seconds at, const std::vector<TenantProcess>& processes);

 private:
  struct Zone {
    std::string path, name;
    double range_j = 0;  // 0: not told
    std::optional<double> last_j = {};
    double sum_j = 0;
  };
  void find_zones();
  void add(Zone& zone, Seconds at, telemetry::HostSample& sample);
  void read_times(const std::vector<TenantProcess>& processes, telemetry::HostSample& sample);

  Files& files_;
  HostPaths paths_;
  std::vector<Zone> zones_;
  std::optional<Seconds> last_;
  std::map<std::pair<std::int64_t, std::string>, double> last_cpu_s_;  // by process
  std::map<std::string, double> cpu_of_;                               // by tenant
};

}  // namespace partita::observe
