#include "node/lease_doors.h"

#include <chrono>

namespace partita::cli {

std::int64_t wall_clock_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

lease::LeaseDoors lease_doors(Context& context, const OpenDriver& open, Processes& processes) {
  return {*open.bare, context.files, processes, *open.catalogue, wall_clock_ms};
}

void settle_leases(Context& context, const OpenDriver& open, const std::string& log) {
  if (log.empty() || !context.files.exists(log)) return;
  RealProcesses processes;
  auto leases = lease::Leases::open(lease_doors(context, open, processes), log);
  const auto swept = leases ? leases->ask(lease::Sweep{}) : failed(leases.error());
  if (!swept) complain(context, "leases cannot be looked after: " + to_string(swept.error()));
}

}  // namespace partita::cli
