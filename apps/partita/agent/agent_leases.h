// Leases of a running agent, which has the node's lock: asked by its API, on its own thread.
#pragma once

#include <map>
#include <string>

#include "api/backend.h"
#include "context.h"
#include "control/host/agent.h"
#include "control/settings.h"
#include "node/devices.h"

namespace partita::cli {

class AgentLeases {
 public:
  // Both must outlive it. `log` is the log of leases; empty: nobody else sees the node.
  AgentLeases(Context& context, const OpenDriver& open, std::string log)
      : context_(context), open_(open), log_(std::move(log)) {}

  // On the thread of the agent, while it makes no change. `closed`: GPUs that are not lent of.
  Result<std::string> answer(const api::Backend::LeaseCall& call,
                             std::map<std::string, std::string> closed);
  // Ends what has expired; to be called now and then.
  void sweep();
  // The document Leases on the node as it was read last; any thread.
  Result<std::string> list(const device::NodeState& node);

 private:
  Context& context_;
  const OpenDriver& open_;
  const std::string log_;
};

// GPUs that are out, or are for batches: nothing is lent of them, and why.
std::map<std::string, std::string> closed_gpus(const control::Agent& agent,
                                               const control::Settings& policy);

}  // namespace partita::cli
