// Joules of each MIG instance by the UUID of its device, as telemetry comes in: a board's are told
// apart as `partita energy attribute` does it (control/energy_meter.h).
#pragma once

#include <map>
#include <string>

#include "control/energy_meter.h"

namespace partita::cli {

class InstanceJoules {
 public:
  void see(const telemetry::Sample& sample) {
    energy::Tenancy tenancy;  // each instance is its own
    for (const telemetry::GpuSample& gpu : sample.gpus)
      for (const telemetry::InstanceSample& one : gpu.instances)
        if (!one.uuid.empty()) tenancy.tenures.push_back({{}, one.uuid, one.uuid});
    meter_.see(sample, tenancy);
    seen_ = sample.at;
  }
  // Of all instances that were ever seen.
  const std::map<std::string, control::Draw>& draws() const { return meter_.draws(); }
  // Since this began; what came after the last sample is gone on with. 0 for one not seen yet.
  double of(const std::string& device, Seconds now) const {
    const auto draw = draws().find(device);
    if (draw == draws().end()) return 0;
    return draw->second.joules + draw->second.watts * (now - seen_).value;
  }
  Seconds seen() const { return seen_; }

 private:
  control::EnergyMeter meter_;
  Seconds seen_;
};

}  // namespace partita::cli
