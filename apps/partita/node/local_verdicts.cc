#include "node/local_verdicts.h"

#include <fmt/format.h>

#include <chrono>

#include "base/processes.h"
#include "base/table.h"
#include "base/terminal.h"
#include "control/host/servers.h"

namespace partita::cli {

std::vector<control::ServiceVerdict> local_verdicts(Context& context,
                                                    const std::string& state_directory) {
  using std::chrono::duration_cast, std::chrono::milliseconds, std::chrono::system_clock;
  RealProcesses processes;
  const auto now = duration_cast<milliseconds>(system_clock::now().time_since_epoch());
  auto verdicts = control::verdicts_of_node({.files = context.files,
                                             .processes = processes,
                                             .state_dir = state_directory,
                                             .now_ns = context.clock.now_ns(),
                                             .wall_ms = now.count()});
  if (verdicts) return *std::move(verdicts);
  complain(context, "how services do is not known: " + to_string(verdicts.error()));
  return {};
}

std::string verdicts_text(const std::vector<control::ServiceVerdict>& verdicts, int width) {
  if (verdicts.empty()) return {};
  constexpr std::size_t kToTheSecond = 19;
  Table table{{"SERVICE", "VERDICT", "SINCE", "ASKED /s", "IN TIME /s", "CAN CARRY /s"}, {}};
  std::string reasons;
  for (const control::ServiceVerdict& one : verdicts) {
    const auto counted = [&](double rps) {
      return one.as_of_ms > 0 ? number_text(rps) : std::string("-");
    };
    table.rows.push_back(
        {one.service, control::to_string(one.verdict),
         one.since_ms > 0 ? control::utc_text(one.since_ms).substr(0, kToTheSecond) + "Z" : "-",
         counted(one.asked_rps), counted(one.answered_rps), number_text(one.can_carry_rps)});
    if (one.cold) reasons += folded(one.service + ": " + actuate::to_string(*one.cold), width, 2);
    if (!one.why.empty()) reasons += folded(one.service + ": " + one.why, width, 2);
  }
  return "\n" + to_string(table) + reasons;
}

std::string lost_text(const device::NodeState& state) {
  std::string text;
  for (const device::GpuState& gpu : state.gpus)
    if (gpu.lost) text += fmt::format("gpu {} fell off the bus\n", gpu.index);
  return text;
}

}  // namespace partita::cli
