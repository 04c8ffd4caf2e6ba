#include "control/host/servers.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/fan_outs.h"
#include "control/host/agent.h"
#include "forms/serving_forms.h"

namespace partita::control {
namespace {

ServiceLoad load_of(const actuate::GatewayService& service, const actuate::GatewayState& gateway) {
  ServiceLoad load{.service = service.name};
  load.capacity_rps = service.capacity_rps;
  load.tokens = service.tokens;
  load.cold = service.cold;
  load.keys = service.keys;
  load.fan_outs = service.fan_outs;
  if (service.requests) {
    load.arrived = static_cast<std::uint64_t>(service.requests->arrived);
    load.in_slo = static_cast<std::uint64_t>(service.requests->in_slo);
    load.shed = static_cast<std::uint64_t>(service.requests->shed);
    load.by_pipelines = static_cast<std::uint64_t>(service.requests->by_pipelines);
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

template <class T>
using Kept = NodeFilesBefore::Kept<T>;

// What the text says; parsed only where it is another one than before. An error is not kept.
template <class T, class Parse>
Result<T> parsed(Kept<T>& kept, const std::string& file, const std::string& text, Parse parse) {
  if (!kept.value || kept.text != text) {
    T now = TRY(parse(file, text));
    kept = {text, std::move(now)};
  }
  return *kept.value;
}

template <class T, class Parse>
Result<T> read_or_none(const NodeFiles& node, const std::string& path, Kept<T>& kept, Parse parse) {
  if (!node.files.exists(path)) return T{};
  const std::string text = TRY(node.files.read(path));
  return parsed(kept, path, text, parse);
}

Result<std::vector<plan::Service>> parse_wanted(const std::string& file, const std::string& text) {
  auto wanted = TRY(forms::parse_services_file(file, text));
  std::ranges::sort(wanted.services, {}, &plan::Service::name);
  return std::move(wanted.services);
}

}  // namespace

void tell_gateway(ServersSeen& servers, const actuate::GatewayState& gateway, std::int64_t now_ns) {
  servers.gateway = true;
  servers.gateway_age_s = std::max(0.0, static_cast<double>(now_ns) * 1e-9 - gateway.written_s);
  servers.counted_by = fmt::format("{} {}", gateway.pid, gateway.identity);
  for (const actuate::GatewayService& service : gateway.services)
    if (service.requests) servers.loads.push_back(load_of(service, gateway));
  servers.uncarried = gateway.uncarried;
  for (const actuate::GatewayWorker& worker : gateway.workers)
    if (worker.state == actuate::WorkerReadiness::ready) ++servers.ready[worker.device];
}

std::optional<bool> runs(const actuate::SupervisorRecord& supervisor, Processes& processes) {
  if (supervisor.pid == 0) return std::nullopt;
  return processes.identity(supervisor.pid) == supervisor.identity;
}

Result<std::vector<ServiceVerdict>> verdicts_of_node(const NodeFiles& node) {
  NodeFilesBefore none;
  NodeFilesBefore& before = node.before != nullptr ? *node.before : none;
  const auto memory =
      TRY(read_or_none(node, memory_path(node.state_dir), before.memory, parse_memory));
  const auto assignment = TRY(read_or_none(node, actuate::assignment_path(node.state_dir),
                                           before.assignment, actuate::parse_assignment));
  ServersSeen servers;
  const auto gateway =
      actuate::read_gateway({node.processes, node.files, node.state_dir}, node.now_ns);
  if (gateway && *gateway) tell_gateway(servers, **gateway, node.now_ns);
  Kept<actuate::WorkersState> fresh;
  const auto workers =
      read_or_none(node, actuate::workers_path(node.state_dir), fresh, actuate::parse_workers);
  if (workers) servers.supervisor = runs(workers->supervisor, node.processes);
  std::vector<plan::Service> services = services_of(assignment);
  if (!memory.services.empty()) {
    services = TRY(parsed(before.wanted, "services", memory.services, parse_wanted));
    std::vector<FanOutKept> kept = memory.fan_outs;
    FanOuts fan_outs(kept);
    fan_outs.begin(services);
    services = fan_outs.corrected({std::move(services), 0, {}, {}}).services;
  }
  auto verdicts =
      judge_services({services, memory, assignment, servers, node.blind}, node.wall_ms, {});
  // Since when nobody knows, nobody knows where no agent has looked.
  for (ServiceVerdict& one : verdicts)
    if (one.verdict == Standing::unknown &&
        std::ranges::count(memory.verdicts, one.service, &VerdictKept::service) == 0)
      one.since_ms = 0;
  return verdicts;
}

}  // namespace partita::control
