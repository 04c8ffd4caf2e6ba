// Energy of CPUs and memory as Linux tells it: RAPL's counters below /sys/class/powercap
// (intel-rapl:N and intel-rapl:N:M; AMD's are there, too), and CPU times of processes in /proc, and
// of cgroups (version 2, usage_usec of cpu.stat: all that ever ran in them).
// Counters wrap at max_energy_range_uj: an interval so long that one may have done so twice is
// counted by nobody. Single-threaded; the door must outlive it.
// Limits: kMostPackages packages, kMostParts parts of each.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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
  std::string identity = {};  // so that another process of that number is not taken for it
  // It has a cgroup of its own, as ProcessSpec::family_variable gives it: all that is in there.
  bool family = false;
  std::string cgroup = {};  // a folder of cgroups, in place of a process
};

// The prefix of cgroups that Processes makes for families.
inline constexpr const char* kFamilyCgroup = "partita-";

class HostEnergyReader {
 public:
  explicit HostEnergyReader(Files& files, HostPaths paths = {});

  // Joules since the first call. Without RAPL, or without the right to read it (the kernel's
  // default is root's alone), figures are missing and `fault` says why.
  // The time of a cgroup that is not there, or not its process's own, is not known: a tenant of
  // such ones alone is not in `cpu_of`.
  telemetry::HostSample read(Seconds at, const std::vector<TenantProcess>& processes);
  // Tenants but these are not told of any more.
  void keep_only(const std::vector<TenantProcess>& processes);

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
  std::optional<double> time_of(const TenantProcess& process);
  std::string family_cgroup(std::int64_t pid);

  Files& files_;
  HostPaths paths_;
  std::vector<Zone> zones_;
  std::optional<Seconds> last_;
  std::optional<std::string> cgroups_;  // where they are mounted; empty: nowhere
  std::map<std::pair<std::int64_t, std::string>, double> last_cpu_s_;  // by process
  std::map<std::string, double> cpu_of_;                               // by tenant
};

}  // namespace partita::observe
