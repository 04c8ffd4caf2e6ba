// `partita agent --simulate`: weeks of an agent on a simulated node, and the report.
#pragma once

#include <cstdint>
#include <string>

#include "agent/agent_live.h"
#include "control/sim/sim_weeks.h"

namespace partita::cli {

struct WeeksFlags {
  LiveFlags live;
  int days = 0;  // 0: not simulated
  std::string machine;
  std::string tasks;  // a tasks file, handed in each day
  bool calm = false;
  double pace_s = 0;  // real seconds per simulated day; 0: as fast as it goes
  std::uint64_t seed = 1;
};

Result<Exit> run_agent_weeks(Context& context, const WeeksFlags& flags);

}  // namespace partita::cli
