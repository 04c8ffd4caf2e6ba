// The list `priorities: [{service: chat, priority: 5}]` of an agent's settings, of a fleet's
// services and of what its store holds. Pure.
#pragma once

#include <map>
#include <string>

#include "base/form.h"

namespace partita::forms {

// By service; a service that is missing has 0. Refused: one that is listed twice.
void describe_priorities(Form& f, std::map<std::string, int>& priorities);

}  // namespace partita::forms
