// The live agent: a Loop at the real doors of this node, on the calling thread, its history and its
// API on others. Holds the lock of the node while it lives, so that nobody else changes it.
#pragma once

#include <cstdint>
#include <string>

#include "context.h"
#include "control/host/agent_file.h"
#include "fleet/fleet_place.h"
#include "node/devices.h"
#include "queue/queue_server.h"

namespace partita::cli {

struct LiveFlags {
  std::string config;
  DeviceFlags device;
  std::string state_dir, services, profiles, listen, mode;
  bool once = false, dry_run = false;
  bool driver_said = false;  // the flag, which is stronger than the file
  bool host_queue = false;
  QueueServeFlags queue;
  FleetFlags fleet;
  Output output;
};

// Until it is asked to end; with `once`, one look.
Result<Exit> run_live_agent(Context& context, const LiveFlags& flags);

// `--simulate`: weeks of an agent on a simulated node, and the report.
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
