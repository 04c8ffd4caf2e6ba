// What the workers' supervisor asks for before it starts the workers of a segment and after the
// last one is gone: an MPS daemon for a segment of several processes, with a share for each of
// them. The only place where drivers/mps and actuate meet. Blocks while a daemon starts or ends.
#pragma once

#include <string>
#include <vector>

#include "actuate/workers.h"
#include "context.h"
#include "drivers/mps/daemon.h"

namespace partita::cli {

struct MpsFlags {
  bool on = false;
  std::string shares = "equal";  // or "none", or percentages between commas
  bool oversubscribe = false;    // percentages may exceed 100 together
  std::string runtime_directory;
};

// $XDG_RUNTIME_DIR/partita, /run/partita (root) or /tmp/partita-UID: short, as sockets need it.
std::string default_runtime_directory();

// Refuses percentages that no segment could have.
Result<void> check_shares(const MpsFlags& flags);

// `processes` is the hooks' own door; both must outlive what is returned.
actuate::WorkerHooks mps_hooks(Context& context, Processes& processes, const MpsFlags& flags);

}  // namespace partita::cli
