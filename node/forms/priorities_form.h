// The list `priorities: [{service: chat, priority: 5}]` of an agent's settings, of a fleet's
// services and of what its store holds. Pure.
#pragma once

#include <map>
#include <string>

#include "base/form.h"
#include "plan/terms.h"

namespace partita::forms {

inline constexpr Range kPriorities{.low = -plan::kMostPriority, .high = plan::kMostPriority};

// By service; one that is missing has its own (plan/terms.h). Refused: one that is listed twice.
void describe_priorities(Form& f, std::map<std::string, int>& priorities);

}  // namespace partita::forms
