// Leases on the command line: asked of the node's agent where one runs, since it has the node's
// lock, else of the node itself under that lock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "act/lease/lease_forms.h"
#include "api/client.h"
#include "context.h"
#include "node/devices.h"

namespace partita::cli {

// The driver's table of device nodes; empty where there is none.
std::string mig_minors(Context& context);

struct LeaseAnswer {
  lease::LeasesDocument leases;
  std::optional<lease::Refused> refused = {};
};

class LeaseDesk {
 public:
  // Waits so long for whoever changes the node.
  static Result<LeaseDesk> open(Context& context, const DeviceFlags& device, Seconds patience);

  Result<LeaseAnswer> take(const lease::Wanted& wanted);
  // While processes use an instance, up to 10 s.
  Result<LeaseAnswer> give_back(const std::string& owner);
  Result<LeaseAnswer> sweep();
  // What stands, without a lock; of a node that was read already.
  Result<LeaseAnswer> list();
  Result<std::vector<lease::Lease>> list(const device::NodeState& node);

 private:
  LeaseDesk(Context& context, OpenDriver open, Seconds patience)
      : context_(context), open_(std::move(open)), patience_(patience) {}
  // Of this node, whose lock is held.
  Result<LeaseAnswer> ask_node(const lease::Ask& ask);
  // Of the agent that has the lock; nothing: none answers.
  template <class Call>
  std::optional<Result<LeaseAnswer>> ask_agent(const Call& call);
  // Here once the lock is there, or of the agent that has it.
  template <class Here, class There>
  Result<LeaseAnswer> in_time(const Here& here, const There& there);

  Context& context_;
  OpenDriver open_;
  Seconds patience_;
  RealProcesses processes_;
  device::NodeState node_ = {};
};

}  // namespace partita::cli
