// Verdicts on the services of this node, as its state directory tells, whether an agent keeps it or
// not; and how they are written for people.
#pragma once

#include <string>
#include <vector>

#include "context.h"
#include "control/verdict.h"
#include "device/node_state.h"

namespace partita::cli {

// Empty where nothing is served here. Says on standard error what cannot be read.
std::vector<control::ServiceVerdict> local_verdicts(Context& context,
                                                    const std::string& state_directory);
// A line per service; empty without services.
std::string verdicts_text(const std::vector<control::ServiceVerdict>& verdicts, int width);
// A line per GPU that is lost.
std::string lost_text(const device::NodeState& state);

}  // namespace partita::cli
