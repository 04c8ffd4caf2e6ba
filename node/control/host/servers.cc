#include "control/host/servers.h"

#include <algorithm>
#include <optional>

#include "control/host/agent.h"
#include "forms/serving_forms.h"

namespace partita::control {
namespace {

ServiceLoad load_of(const actuate::GatewayService& service, const actuate::GatewayState& gateway) {
  ServiceLoad load{.service = service.name};
  load.capacity_rps = service.capacity_rps;
  if (service.requests) {
    load.arrived = static_cast<std::uint64_t>(service.requests->arrived);
    load.in_slo = static_cast<std::uint64_t>(service.requests->in_slo);
    load.shed = static_cast<std::uint64_t>(service.requests->shed);
    load.p99_ms = service.requests->p99_ms;
    load.recent = service.requests->recent;
    load.lately = service.requests->lately;
    load.minute = service.requests->minute;
  }
  for (const actuate::GatewayWorker& worker : gateway.workers)
    if (worker.service == service.name && worker.state == actuate::WorkerReadiness::ready)
      ++load.ready_workers;
  return load;
}

template <class T, class Parse>
Result<T> read_or_none(Files& files, const std::string& path, Parse parse) {
  if (!files.exists(path)) return T{};
  const Result<std::string> text = files.read(path);
  if (!text) return failed(text.error());
  return parse(path, *text);
}

}  // namespace

void tell_gateway(ServersSeen& servers, const actuate::GatewayState& gateway, std::int64_t now_ns) {
  servers.gateway = true;
  servers.gateway_age_s =
      std::max(0.0, static_cast<double>(now_ns) * 1e-9 - gateway.written_s);
  for (const actuate::GatewayService& service : gateway.services)
    if (service.requests) servers.loads.push_back(load_of(service, gateway));
  for (const actuate::GatewayWorker& worker : gateway.workers)
    if (worker.state == actuate::WorkerReadiness::ready) ++servers.ready[worker.device];
}

std::optional<bool> runs(const actuate::SupervisorRecord& supervisor, Processes& processes) {
  if (supervisor.pid == 0) return std::nullopt;
  return processes.identity(supervisor.pid) == supervisor.identity;
}

Result<std::vector<ServiceVerdict>> verdicts_of_node(const NodeFiles& node) {
  const auto memory =
      read_or_none<AgentMemory>(node.files, memory_path(node.state_dir), parse_memory);
  if (!memory) return failed(memory.error());
  const auto assignment = read_or_none<actuate::Assignment>(
      node.files, actuate::assignment_path(node.state_dir), actuate::parse_assignment);
  if (!assignment) return failed(assignment.error());
  ServersSeen servers;
  const auto gateway =
      actuate::read_gateway({node.processes, node.files, node.state_dir}, node.now_ns);
  if (gateway && *gateway) tell_gateway(servers, **gateway, node.now_ns);
  const auto workers = read_or_none<actuate::WorkersState>(
      node.files, actuate::workers_path(node.state_dir), actuate::parse_workers);
  if (workers) servers.supervisor = runs(workers->supervisor, node.processes);
  std::vector<plan::Service> services = services_of(*assignment);
  if (!memory->services.empty()) {
    auto wanted = forms::parse_services_file("services", memory->services);
    if (!wanted) return failed(wanted.error());
    services = std::move(wanted->services);
    std::ranges::sort(services, {}, &plan::Service::name);
  }
  return judge_services({services, *memory, *assignment, servers, node.blind}, node.wall_ms, {});
}

}  // namespace partita::control
