// What a decision of the leader says: each changed node's part with what it waits for, sentences
// for people, how each service stands. Pure.
#pragma once

#include <string>

#include "fleet/brain/leader.h"
#include "fleet/brain/sight.h"

namespace partita::fleet {

// `leader` signs the parts.
Decision decision_of(const Sight& sight, const std::string& leader);

}  // namespace partita::fleet
