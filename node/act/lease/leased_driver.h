// LeasedDriver: any driver, which shows instances that are lent as held by their lease (a Holder of
// pid 0, "lease slurm:42") and refuses to destroy them. So whoever changes a node by the door,
// whatever it is about, leaves them alone and says whose they are; only leases.h has the bare
// driver. The log is read whenever it matters: there is one truth for all processes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "act/lease/lease_record.h"
#include "base/files.h"
#include "device/node_driver.h"

namespace partita::lease {

class LeasedDriver final : public device::NodeDriver {
 public:
  // `log` names the log of leases, asked when it is first needed; empty: nobody has leases. Files
  // must outlive it.
  LeasedDriver(std::unique_ptr<device::NodeDriver> bare, Files& files,
               std::function<Result<std::string>()> log)
      : bare_(std::move(bare)), files_(files), log_(std::move(log)) {}

  device::NodeDriver& bare() { return *bare_; }

  Result<device::DriverInfo> info() override { return bare_->info(); }
  // A log that cannot be read shows no leases; see destroy_instance.
  Result<device::GpuState> read(int gpu) override;
  Result<std::vector<device::ProfileInfo>> profiles(int gpu) override {
    return bare_->profiles(gpu);
  }
  Result<device::ModeChange> set_mig_mode(int gpu, bool enabled) override {
    return bare_->set_mig_mode(gpu, enabled);
  }
  Result<int> create_instance(int gpu, const device::Placement& placement) override {
    return bare_->create_instance(gpu, placement);
  }
  // in_use: it is lent. A log that cannot be read refuses.
  Result<void> destroy_instance(int gpu, int gi_id) override;
  Result<device::ComputeInstance> create_compute(int gpu, int gi_id) override {
    return bare_->create_compute(gpu, gi_id);
  }
  Result<void> destroy_compute(int gpu, int gi_id, int ci_id) override;
  Result<telemetry::GpuSample> telemetry(int gpu) override { return bare_->telemetry(gpu); }
  Result<device::PowerState> power_settings(int gpu) override {
    return bare_->power_settings(gpu);
  }
  Result<void> set_power_settings(int gpu, const device::PowerSettings& settings) override {
    return bare_->set_power_settings(gpu, settings);
  }

 private:
  Result<StandingLeases> standing();
  Result<void> not_lent(int gpu, int gi_id);

  std::unique_ptr<device::NodeDriver> bare_;
  Files& files_;
  std::function<Result<std::string>()> log_;
  std::optional<std::string> path_;
};

}  // namespace partita::lease
