// `partita queue serve`: a queue's host on this node's driver, at a Unix socket, until a signal.
#pragma once

#include <string>

#include "context.h"
#include "node/devices.h"

namespace partita::cli {

struct QueueServeFlags {
  DeviceFlags device;
  std::string state_dir, socket;
  std::string idle = "60s", grace = "10s", patience = "60s";
  int cpus = 0;
  double ram_gib = 0;
};

// Where a queue of a state directory listens, if nothing else is said.
std::string queue_socket(const std::string& state_dir);

Result<Exit> serve_queue(Context& context, const QueueServeFlags& flags);

}  // namespace partita::cli
