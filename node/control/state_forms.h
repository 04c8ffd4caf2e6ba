// Fields of what a snapshot holds of the node: its state, a change of it. With the keys of the
// documents NodeState and Change. Internal to control.
#pragma once

#include "act/change.h"
#include "base/form.h"
#include "device/node_state.h"

namespace partita::control {

void describe_node(Form& f, device::NodeState& state);
void describe_change(Form& f, actuate::Change& change);

}  // namespace partita::control
