// What claims take, as metrics for Prometheus in a file: the joules of their instances, told apart
// as `partita energy attribute` does it, and of CPUs and memory those of their pods, by CPU time.
// A claim that has ended is said with all that it took, and is in the file no more.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "act/lease/leases.h"
#include "context.h"
#include "control/host_meter.h"
#include "device/observe/host_energy.h"
#include "energy/instance_joules.h"
#include "fleet/dra/claims.h"

namespace partita::cli {

struct ClaimEnergyFlags {
  std::string file;  // of metrics; empty: nothing is measured
  std::string powercap = observe::HostPaths{}.powercap, cgroups = "/sys/fs/cgroup";
};

class ClaimEnergy {
 public:
  ClaimEnergy(Context& context, const ClaimEnergyFlags& flags)
      : context_(context), flags_(flags), reader_(context.files, {.powercap = flags.powercap}) {}

  // How the GPUs are now, what is lent, and who claims it.
  void look(const telemetry::Sample& sample, const std::vector<lease::Lease>& leases,
            const std::vector<dra::Claim>& claims);

 private:
  struct Taken {
    dra::Claim claim;
    double joules = 0;                   // of its instances
    std::map<std::string, double> last;  // of each, by the UUID of its device
  };
  std::vector<observe::TenantProcess> pods_of(const std::vector<dra::Claim>& claims);
  void add(const lease::Lease& lease, const telemetry::Sample& sample);
  void end(const Taken& taken);
  std::string metrics() const;

  Context& context_;
  const ClaimEnergyFlags& flags_;
  InstanceJoules instances_;
  observe::HostEnergyReader reader_;
  control::HostMeter host_;
  std::map<std::string, Taken> taken_;  // by UID of the claim
  std::string said_;
};

}  // namespace partita::cli
