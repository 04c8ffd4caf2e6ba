#include "profile/law.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "hw/layout.h"

namespace partita::profile {
namespace {

constexpr double kHuge = 1e9;
constexpr double kTiny = 1e-9;
constexpr int kGridMaxBatch = 256;
constexpr int kGridMaxProcesses = 5;

// Peak memory bandwidth in GB/s, from the vendor's data sheets.
struct Bandwidth {
  std::string_view gpu;
  double gb_s;
};
constexpr Bandwidth kBandwidths[] = {
    {"A30-24GB", 933},        {"A100-40GB", 1555},         {"A100-80GB", 2039},
    {"H100-80GB-SXM5", 3350}, {"H100-80GB-PCIe", 2000},    {"H100-94GB-NVL", 3900},
    {"GH200-96GB", 4000},     {"GH200-144GB", 4900},       {"H200-141GB", 4800},
    {"B200-180GB", 8000},     {"GB200-186GB", 8000},       {"B300-269GB", 8000},
    {"GB300-278GB", 8000},    {"RTX-PRO-6000-96GB", 1597},
};

double soft_max(double x, double y, double sharpness) {
  const auto [low, high] = std::minmax(x, y);
  return high * std::pow(1 + std::pow(low / high, sharpness), 1 / sharpness);
}

const hw::MigProfile* plain_profile(const hw::GpuModel& gpu, int gpcs) {
  for (const hw::MigProfile& profile : gpu.profiles) {
    if (profile.plain() && profile.gpcs == gpcs) return &profile;
  }
  return nullptr;
}

}  // namespace

const std::array<Coefficient, 10> kCoefficients = {{
    {"launch_ms", &PerformanceLaw::launch_ms, kTiny, kHuge},
    {"contention_ms", &PerformanceLaw::contention_ms, 0, kHuge},
    {"host_ms", &PerformanceLaw::host_ms, 0, kHuge},
    {"compute_sm_ms", &PerformanceLaw::compute_sm_ms, kTiny, kHuge},
    {"serial_ms", &PerformanceLaw::serial_ms, 0, kHuge},
    {"traffic_mb", &PerformanceLaw::traffic_mb, 0, kHuge},
    {"ramp_requests", &PerformanceLaw::ramp_requests, 0, kHuge},
    {"sharpness", &PerformanceLaw::sharpness, 0.5, 100},
    {"process_mib", &PerformanceLaw::process_mib, 0, kHuge},
    {"request_mib", &PerformanceLaw::request_mib, 0, kHuge},
}};

Result<Partition> partition(const hw::GpuModel& gpu, int gpcs) {
  const hw::MigProfile* profile = plain_profile(gpu, gpcs);
  if (profile == nullptr) {
    return bad_input(gpu.name, fmt::format("has no plain MIG profile with {} GPCs", gpcs));
  }
  const auto* bandwidth = std::find_if(std::begin(kBandwidths), std::end(kBandwidths),
                                       [&](const Bandwidth& b) { return b.gpu == gpu.name; });
  if (bandwidth == std::end(kBandwidths)) {
    return bad_input(gpu.name, "memory bandwidth is not known: no law can be fitted or applied");
  }
  if (!profile->sms || !profile->memory) {
    return bad_input(gpu.name, fmt::format("SMs or memory of {} are not known", profile->name));
  }
  return Partition{gpcs, static_cast<double>(*profile->sms),
                   bandwidth->gb_s * profile->size / gpu.memory_slices, *profile->memory};
}

ProfilePoint predict(const PerformanceLaw& law, const Partition& on, int batch, int processes) {
  CHECK(batch >= 1 && processes >= 1 && on.sms > 0 && on.bandwidth_gb_s > 0);
  // 1 GB/s is 1 MB/ms.
  const double device = (batch + law.ramp_requests) * (law.compute_sm_ms / on.sms + law.serial_ms +
                                                       law.traffic_mb / on.bandwidth_gb_s);
  const double issue = law.launch_ms + law.contention_ms * (processes - 1);
  const double alone = soft_max(issue, device, law.sharpness) + law.host_ms * batch;
  const double latency =
      processes == 1 ? alone : soft_max(alone, processes * device, law.sharpness);
  ProfilePoint point{on.gpcs,         batch, processes, Rps{1000.0 * batch * processes / latency},
                     Millis{latency}, {}};
  if (law.knows_memory()) {
    point.memory = Mib{processes * (law.process_mib + law.request_mib * batch)};
  }
  return point;
}

bool fits(const PerformanceLaw& law, const Partition& on, int batch, int processes) {
  return processes * (law.process_mib + law.request_mib * batch) <= on.memory.value;
}

Result<ProfileTable> table_from_laws(const PerformanceLaws& laws, const hw::GpuModel& gpu) {
  ProfileTable table;
  for (const int profile : hw::plain_profiles(gpu)) {
    const Partition on = TRY(partition(gpu, gpu.profiles[static_cast<std::size_t>(profile)].gpcs));
    for (const PerformanceLaw& law : laws.laws) {
      for (int processes = 1; processes <= kGridMaxProcesses; ++processes) {
        for (int batch = 1; batch <= kGridMaxBatch; batch *= 2) {
          if (!fits(law, on, batch, processes)) continue;
          WorkloadProfile& workload = table[law.model];
          workload.model = law.model;
          workload.points.push_back(predict(law, on, batch, processes));
          workload.points.back().learned_on = laws.gpu_model;
        }
      }
    }
  }
  return table;
}

}  // namespace partita::profile
