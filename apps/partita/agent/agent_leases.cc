#include "agent/agent_leases.h"

#include <algorithm>

#include "lease/lease_desk.h"

namespace partita::cli {

Result<std::string> AgentLeases::answer(const api::Backend::LeaseCall& call,
                                        std::map<std::string, std::string> closed) {
  RealProcesses processes;
  lease::Ask ask = lease::Return{call.owner};
  if (call.wanted.empty()) {
    if (const std::string fault = lease::owner_fault(call.owner); !fault.empty())
      return bad_input("owner", fault);
  } else {
    const lease::Wanted wanted = TRY(lease::parse_wanted("body", call.wanted));
    ask = TRY(lease::ask_of(wanted, processes, wall_clock_ms()));
  }
  lease::LeaseDoors doors = lease_doors(context_, open_, processes);
  doors.closed = std::move(closed);
  auto leases = TRY(lease::Leases::open(std::move(doors), log_));
  const lease::Outcome outcome = TRY(leases.ask(ask));
  if (outcome.refused) return failed(lease::error_of(*outcome.refused));
  const std::string minors = mig_minors(context_);
  if (!call.wanted.empty())
    return lease::lease_json(lease::document_of(outcome.leases.front(), minors));
  return lease::leases_json({{}, outcome.returned});
}

void AgentLeases::sweep() {
  if (log_.empty() || !context_.files.exists(log_)) return;
  const Result<std::string> text = context_.files.read(log_);
  const auto standing = text ? lease::parse_leases(log_, *text) : failed(text.error());
  RealProcesses processes;
  const bool due = !standing || std::ranges::any_of(standing->leases, [&](const auto& entry) {
    const lease::Terms& terms = entry.second.terms;
    return (terms.until_ms > 0 && terms.until_ms <= wall_clock_ms()) ||
           (terms.pid > 0 && processes.identity(terms.pid) != terms.identity);
  });
  if (due) settle_leases(context_, open_, log_);
}

Result<std::string> AgentLeases::list(const device::NodeState& node) {
  RealProcesses processes;
  const auto leases = TRY(lease::read_leases(lease_doors(context_, open_, processes), log_, node));
  const std::string minors = mig_minors(context_);
  lease::LeasesDocument document;
  for (const lease::Lease& one : leases) document.leases.push_back(lease::document_of(one, minors));
  return lease::leases_json(document);
}

std::map<std::string, std::string> closed_gpus(const control::Agent& agent,
                                               const control::Settings& policy) {
  std::map<std::string, std::string> closed;
  const control::Snapshot& now = agent.snapshot();
  for (const control::GpuNow& gpu : now.gpus) {
    const bool batch = std::ranges::count(policy.batch.gpus, gpu.index) > 0 ||
                       std::ranges::count(now.batch.gpus, gpu.uuid) > 0;
    if (batch) closed[gpu.uuid] = "is for batches";
  }
  for (const control::OutGpu& one : agent.memory().out)
    closed[one.uuid] = "is taken out (" + one.why + ")";
  return closed;
}

}  // namespace partita::cli
