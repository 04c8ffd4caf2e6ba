// ClaimShares: what claims' opaque parameters ask of the node: MPS daemons of instances, caps of
// what GPUs draw. Where drivers/mps and fleet/kubelet meet. Calls block.
#pragma once

#include <map>
#include <string>

#include "context.h"
#include "drivers/mps/daemon.h"
#include "fleet/kubelet/plugin.h"
#include "node/devices.h"

namespace partita::cli {

class ClaimShares {
 public:
  // `directory` keeps the journal of what caps have changed, and MPS' sockets. Context and driver
  // outlive it.
  ClaimShares(Context& context, const OpenDriver& open, const std::string& directory);
  // Adds its calls to the door, which it outlives.
  void add_to(dra::NodeDoor& door);

 private:
  Result<dra::MpsEdits> edits(const std::string& uuid, const dra::MpsShare& share) const;
  Result<void> start(const std::string& uuid);
  Result<void> quit(const std::string& uuid);
  Result<void> may_cap(int gpu, double watts) const;
  Result<void> cap(const std::map<std::string, double>& watts);

  Context& context_;
  const OpenDriver& open_;
  std::string journal_, runtime_;
  RealProcesses processes_;  // of MPS daemons alone
};

}  // namespace partita::cli
