// Bills: what the joules of tenants cost and stand for, at the rates of the hours in which they
// were taken: of their GPUs (energy_meter.h), and of CPUs and memory where these are told
// (host_meter.h). A figure is missing from when the tariff did not say it. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "control/energy_meter.h"
#include "plan/tariff.h"

namespace partita::control {

class Bills {
 public:
  explicit Bills(plan::Tariff tariff) : tariff_(std::move(tariff)) {}

  // The meters as they are now, since the step before.
  void see(std::int64_t now_ms, const std::map<std::string, Draw>& gpus,
           const std::map<std::string, Draw>& host);
  // Since this began, by tenant; empty without a tariff.
  const std::map<std::string, plan::EnergyBill>& bills() const { return bills_; }

 private:
  plan::Tariff tariff_;
  std::map<std::string, plan::EnergyBill> bills_;
};

}  // namespace partita::control
