#include "act/workers_on.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/append.h"

namespace partita::actuate {
namespace {

std::string list(const std::vector<std::string>& names) { return joined(names, "; "); }

// Whether what has `devices` has `device`: it is that, or one of a group of whole GPUs.
bool lies_on(const std::string& devices, const std::string& device) {
  if (devices == device) return true;
  const std::vector<std::string> whole = whole_gpus(devices);
  return std::ranges::count(whole, device) > 0;
}

Result<WorkersState> read_state(const WorkersDoors& doors) {
  if (!doors.files.exists(doors.state_file)) return WorkersState{};
  const std::string text = TRY(doors.files.read(doors.state_file));
  return parse_workers(doors.state_file, text);
}

}  // namespace

Result<std::string> workers_on(const WorkersDoors& doors, const std::string& device,
                               long revision) {
  const WorkersState state = TRY(read_state(doors));
  const auto runs = [&](Pid pid, const std::string& identity) {
    return !identity.empty() && doors.processes.identity(pid) == identity;
  };
  const SupervisorRecord& supervisor = state.supervisor;
  const bool supervised = runs(supervisor.pid, supervisor.identity);
  if (supervised && state.revision < revision) {
    return fmt::format(
        "the supervisor of the workers, process {}, which has not yet followed "
        "assignment {}",
        supervisor.pid, revision);
  }
  const char* nobody = supervised ? "" : " (no supervisor runs: partita workers)";
  std::vector<std::string> left;
  for (const WorkerRecord& worker : state.workers) {
    if (lies_on(worker.segment.device, device) && (supervised || runs(worker.pid, worker.identity)))
      left.push_back(to_string(worker));
  }
  if (!left.empty()) return list(left) + nobody;
  // Those that no state file knows, because the supervisor was killed while it started them.
  for (const auto& [pid, tag] : doors.processes.find(kWorkerVariable)) {
    const auto place = worker_place(tag, doors.state_file);
    if (place && lies_on(place->first, device))
      left.push_back(fmt::format("worker {}, process {}", place->second, pid));
  }
  return left.empty() ? std::string{} : list(left) + nobody;
}

}  // namespace partita::actuate
