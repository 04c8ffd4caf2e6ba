// What the commands about a node's past share: which history, and how times read.
#pragma once

#include <string>

#include "context.h"
#include "history/store/store.h"
#include "node/devices.h"

namespace partita::cli {

struct PastFlags {
  std::string file;  // empty: the state directory's
  std::string state_dir;
  DeviceFlags device;
};
// Adds --file, --state-dir and what names the node.
void add_past(CLI::App& command, PastFlags& flags);

// For reading. not_found where nothing has been kept yet.
Result<history::Store> open_past(Context& context, const PastFlags& flags);

// "2026-11-22 18:03:10", local time.
std::string local_time(std::int64_t time_ms);

}  // namespace partita::cli
