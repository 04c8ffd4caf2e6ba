// EarlySignals: SIGINT, SIGTERM and SIGHUP from the first line of main() until the chosen command
// has what takes them (StopRequest, AgentSignals). Nothing has been begun by then, so a command
// that promises to end in order just ends, with the status that it promises.
#pragma once

#include <csignal>
#include <string_view>

namespace partita::cli {

class EarlySignals {
 public:
  enum class Way {
    plain,     // they end the program, as they do any
    in_order,  // they end it with a sentence and the status of an interruption
    kept,      // they wait for whoever takes them
  };
  // Blocks them.
  EarlySignals();
  // Which way they go from now on; `command`: "batch run".
  void hand_over(std::string_view command) const;

 private:
  static Way way_of(std::string_view command);
  sigset_t before_{};
};

}  // namespace partita::cli
