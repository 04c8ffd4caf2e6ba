// Health: which GPUs are out of service, by a person or by what they say of themselves, and when
// they are used again. The brain of that; it knows no plan. Internal to control.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/node_view.h"
#include "control/report.h"

namespace partita::control {

class Health {
 public:
  // `kept` is written here only, and outlives this.
  Health(const World& world, HealthKept& kept, Report& report)
      : world_(world), kept_(kept), report_(report) {}

  struct Ground {
    std::int64_t now_ms = 0;
    const NodeView& node;
    bool short_of = false;  // services get less than is asked for: waiting helps nobody
  };
  // What GPUs said, and what the node is like now. What they may be used for then.
  GpuUse watch(const Ground& ground, const std::vector<HealthEvent>& events,
               const std::string& boot);
  // not_found: the node has no such GPU; infeasible: it is not out.
  Reply take_out(const Ground& ground, const TakeOut& request, const std::string& user);
  Reply give_back(const Ground& ground, const GiveBack& request, const std::string& user);

  const std::vector<OutGpu>& out() const { return kept_.out; }

 private:
  OutGpu* out_of(const std::string& uuid);
  void take(const Ground& ground, OutGpu gpu, const std::string& user);
  void give(const std::string& uuid, const std::string& user, const std::string& why);
  void watch_gpu(const Ground& ground, const device::GpuState& gpu, bool needed);
  void hear(const Ground& ground, const HealthEvent& event);
  std::string illness(const HealthEvent& event, const std::string& name) const;
  void watch_boot(const std::string& boot);

  const World& world_;
  HealthKept& kept_;
  Report& report_;
};

}  // namespace partita::control
