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
#include "device/adapted_driver.h"

namespace partita::lease {

class LeasedDriver final : public device::AdaptedDriver {
 public:
  // `log` names the log of leases, asked when it is first needed; empty: nobody has leases. Files
  // must outlive it.
  LeasedDriver(std::unique_ptr<device::NodeDriver> bare, Files& files,
               std::function<Result<std::string>()> log)
      : bare_(std::move(bare)), files_(files), log_(std::move(log)) {}

  device::NodeDriver& bare() { return *bare_; }

 private:
  // Destroying what is lent is in_use; a log that cannot be read refuses it, and shows no leases.
  Result<device::Answer> on_call(const device::Call& call, const Make& make) override;
  Result<StandingLeases> standing();
  void show_leases(device::GpuState& state);
  Result<void> not_lent(int gpu, int gi_id);

  std::unique_ptr<device::NodeDriver> bare_;
  Files& files_;
  std::function<Result<std::string>()> log_;
  std::optional<std::string> path_;
};

}  // namespace partita::lease
