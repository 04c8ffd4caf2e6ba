// AgentSignals: what may end or interrupt the agent's wait: SIGINT and SIGTERM (end), SIGHUP (read
// the settings again), and wake() from any thread. Made on the main thread before others start, so
// that all of them block the signals; while it lives nothing else gets them.
#pragma once

#include <csignal>
#include <cstdint>

#include "base/descriptor.h"

namespace partita::cli {

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
