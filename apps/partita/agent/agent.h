// The live agent: a Loop at the real doors of this node, on the calling thread, its history and its
// API on others. Holds the lock of the node while it lives, so that nobody else changes it.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>

#include "base/descriptor.h"
#include "context.h"
#include "control/host/agent_file.h"
#include "control/loop.h"
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

// What an agent works with, from its settings file and the node: profiles of the node's GPU models,
// the SLO rule, the policy.

// The settings file; relative paths in it are from beside it. `path` empty: the defaults.
Result<control::AgentFile> load_agent_file(Context& context, const std::string& path);

// Refused: profiles that cannot be read. A GPU model without profiles is left out.
Result<control::World> agent_world(Context& context, const control::AgentFile& file,
                                   const hw::Catalogue& catalogue,
                                   const std::vector<std::string>& models);
std::string host_name();
// The catalogue names of a node's GPUs.
std::vector<std::string> models_of(const device::NodeState& node);

// AgentSignals: what may end or interrupt the agent's wait: SIGINT and SIGTERM (end), SIGHUP (read
// the settings again), and wake() from any thread. Made on the main thread before others start, so
// that all of them block the signals; while it lives nothing else gets them.

class AgentSignals {
 public:
  AgentSignals();
  ~AgentSignals();
  AgentSignals(const AgentSignals&) = delete;
  AgentSignals& operator=(const AgentSignals&) = delete;

  // Returns after that long, or when something comes: true then.
  bool wait(std::int64_t ns);
  // Ends the wait that is under way, or the next one.
  void wake();
  bool ending();  // somebody wants the agent to end
  bool reread();  // SIGHUP came since it was asked last

 private:
  void look();

  sigset_t signals_{}, before_{};
  Descriptor signal_, event_;
  bool ending_ = false, reread_ = false;
};

}  // namespace partita::cli
