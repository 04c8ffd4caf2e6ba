// What the workers' supervisor asks for before it starts the workers of a segment and after the
// last one is gone: an MPS daemon for a segment of several processes, with a share for each of
// them. The only place where drivers/mps and actuate meet. Blocks while a daemon starts or ends.
#pragma once

#include <string>
#include <vector>

#include "act/workers.h"
#include "context.h"
#include "drivers/mps/daemon.h"

namespace partita::cli {

struct MpsFlags {
  bool on = false;
  std::vector<std::string> shares;  // "[SERVICE=]equal|none|PERCENT[:MIB],..."
  bool oversubscribe = false;       // percentages may exceed 100 together
  std::string runtime_directory;
};

// How the processes of a segment share their device.
struct ShareRule {
  enum class Kind { equal, none, listed };
  Kind kind = Kind::equal;
  std::string service;                           // empty: of any
  std::vector<drivers::mps::Share> shares = {};  // listed: for segments of as many processes
};

// The rules of the flags, those of one service first. Refuses shares that no segment could have.
Result<std::vector<ShareRule>> share_rules(const MpsFlags& flags);

// What the hooks of mps_hooks() need. `processes` must be their own door; all must outlive them.
struct MpsWorkers {
  Context& context;
  Processes& processes;
  const hw::Catalogue& catalogue;  // says how much memory a profile has
};
actuate::WorkerHooks mps_hooks(const MpsWorkers& world, const MpsFlags& flags,
                               std::vector<ShareRule> rules);

}  // namespace partita::cli
