#include "drivers/sim/sim_health.h"

#include <utility>

namespace partita::drivers::sim {

using device::HealthEvent;

std::vector<HealthEvent> SimHealthWatch::look() {
  std::vector<HealthEvent> news;
  const auto looked = machine_.glance([&](const Machine& machine) {
    std::map<std::string, const SimGpu*> gpus;
    for (const SimGpu& gpu : machine.gpus()) {
      gpus[gpu.uuid] = &gpu;
      const auto [at, is_new] = heard_.try_emplace(gpu.uuid, gpu.health.reported);
      for (const SimXid& one : gpu.health.xids)
        if (one.number > at->second)
          news.push_back({gpu.uuid, HealthEvent::Kind::xid, one.xid, one.gi_id, one.ci_id});
      at->second = gpu.health.reported;
    }
    for (const auto& [uuid, gpu] : gpus) {
      const SimHealth& now = gpu->health;
      for (HealthEvent& one : changes_.hear({uuid, gpu->lost, now.uncorrected_errors,
                                             now.rows_pending, now.rows_failed, now.recovery}))
        news.push_back(std::move(one));
    }
  });
  complaint_ = looked ? "" : "health is not read: " + to_string(looked.error());
  return news;
}

std::vector<std::string> SimHealthWatch::complaints() {
  if (complaint_ == said_) return {};
  said_ = complaint_;
  return said_.empty() ? std::vector<std::string>{} : std::vector{said_};
}

}  // namespace partita::drivers::sim
