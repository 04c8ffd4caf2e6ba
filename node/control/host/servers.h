// What the gateway and the supervisor of workers say, as what verdicts are made of (verdict.h); and
// the verdicts of a node that nobody asks an agent for: from the files of its state directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "act/gateway_state.h"
#include "act/workers_state.h"
#include "base/files.h"
#include "base/processes.h"
#include "control/verdict.h"

namespace partita::control {

// `now_ns` on the clock of GatewayState::written_s.
void tell_gateway(ServersSeen& servers, const actuate::GatewayState& gateway, std::int64_t now_ns);
// Whether the process that wrote the state of the workers runs; nothing: it was not told.
std::optional<bool> runs(const actuate::SupervisorRecord& supervisor, Processes& processes);

// What files said when they were read before; whoever asks often keeps it. No answer depends on it.
struct NodeFilesBefore {
  template <class T>
  struct Kept {
    std::string text;
    std::optional<T> value = {};
  };
  Kept<AgentMemory> memory = {};
  Kept<actuate::Assignment> assignment = {};
  Kept<std::vector<plan::Service>> wanted = {};
};

struct NodeFiles {
  Files& files;
  Processes& processes;
  std::string state_dir;
  std::int64_t now_ns = 0;   // on CLOCK_MONOTONIC
  std::int64_t wall_ms = 0;  // since 1970
  std::string blind = {};    // why the node cannot be read; empty: it can
  NodeFilesBefore* before = nullptr;
};
// Whether an agent keeps the node or not: the same function of the same files.
Result<std::vector<ServiceVerdict>> verdicts_of_node(const NodeFiles& node);

}  // namespace partita::control
