// Planning beside instances that are lent: in the problem each is a service of its own that one
// instance of its shape serves. Where the planner has moved one it is put back, and others change
// places; the plan is then taken without them, and judged. Pure. Internal to control.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/node_view.h"
#include "plan/serving.h"

namespace partita::control {

struct LentPlace {
  std::string name;  // of its service
  int gpu = 0;       // index of the node
  std::string gpu_model;
  hw::MigProfile profile;
  int start = 0;
};

// Those of the usable GPUs, of profiles that the catalogue knows.
std::vector<LentPlace> lent_places(const World& world, const NodeView& node, const GpuUse& use);
void add_lent(plan::ServingProblem& problem, const std::vector<LentPlace>& lent);
// What overlaps one is not kept.
void add_lent(plan::ServingPlan& current, const std::vector<LentPlace>& lent);
// The plan without them, proofs of its optimum left out; nothing: it has no room where they are.
std::optional<plan::ServingPlan> without_lent(plan::ServingPlan plan,
                                              const std::vector<LentPlace>& lent,
                                              const hw::Catalogue& catalogue);

}  // namespace partita::control
