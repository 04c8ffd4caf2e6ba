// Leases on the command line: asked of the node's agent where one runs, since it has the node's
// lock, else of the node itself under that lock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "act/lease/lease_forms.h"
#include "api/client.h"
#include "context.h"
#include "node/lease_doors.h"

namespace partita::cli {

// The driver's table of device nodes; empty where there is none.
std::string mig_minors(Context& context);

struct LeaseAnswer {
  lease::LeasesDocument leases;
  std::optional<lease::Refused> refused = {};
};
// The same of an agent: a lease of what is wanted; what `owner` has, back.
Result<LeaseAnswer> take_of_agent(const api::Client& agent, const lease::Wanted& wanted);
Result<LeaseAnswer> give_back_to_agent(const api::Client& agent, const std::string& owner);

// How commands say it. A refusal ends with 1.
Result<Exit> show_lease(Context& context, const Output& output, const LeaseAnswer& answer);
Result<Exit> show_returned(Context& context, const Output& output, const std::string& owner,
                           const LeaseAnswer& answer);
Result<Exit> show_leases(Context& context, const Output& output, const LeaseAnswer& answer);
// An error about a key of what is wanted, by the flag that says it.
Error by_flag(Error error);

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
