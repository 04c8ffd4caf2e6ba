// From what is wanted and the GPUs that may be used to a judged plan for this node, and from that
// to what apply is told. Pure functions of the loop. Internal to control.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "act/apply.h"
#include "control/damping.h"
#include "control/desired.h"
#include "control/memory.h"
#include "control/node_view.h"
#include "control/plan_memo.h"
#include "control/rates.h"
#include "control/world.h"
#include "decide/beside_lent.h"
#include "plan/changes.h"
#include "plan/judged.h"
#include "verify/judge.h"

namespace partita::control {

// What plans are made from in a step.
struct PlanGround {
  std::int64_t now_ms = 0;
  Mode mode = Mode::automatic;
  const DesiredNow& desired;
  const NodeView& node;
  const PlansKept& plans;
  const std::vector<ServiceNeed>& needs;  // of the desired services, in their order
};

// The services that are wanted, at the rates to plan for.
struct Want {
  std::vector<plan::Service> services;
  int survive = 0;
  std::map<std::string, int> priority;  // where settings say another than the service's own
};

// The problem that a target answers: `relaxed` where there is not enough for all.
plan::ServingProblem problem_of(const World& world, const GpuUse& use, const Want& want,
                                bool relaxed);

// What a target is judged against, of the services as they are wanted now.
Want want_of(const Target& target, const std::vector<plan::Service>& services);

// What is to be kept: the target's plan, or without one what the assignment says.
plan::ServingPlan current_plan(const GpuUse& use, const std::optional<Target>& target,
                               const actuate::Assignment& assignment);

// A plan with its rates, GPUs and `reduced`; number, cause and time are left open.
struct Planned {
  Target target;
  plan::Changes changes;
};
// Infeasible: not even a part can be served, or not with so few moves. Without enough GPUs for all
// (and `partial`): first the margin for a lost GPU goes, then services get less, the lowest
// priority first.
struct PlanAsk {
  Want want;
  plan::ServingPlan current;
  std::optional<int> max_moves = {};
  bool partial = true;
  std::vector<decide::LentPlace> lent = {};  // stay; none where a GPU may be lost (survive)
};
Result<Planned> plan_target(const World& world, const GpuUse& use, const PlanAsk& ask,
                            PlanMemo& memo);

// The judge's word on a target now.
struct JudgeAsk {
  const std::vector<plan::Service>& services;
  const Target& target;
};
verify::Verdict<plan::ServingPlan> judge_target(const World& world, const GpuUse& use,
                                                const JudgeAsk& ask, PlanMemo& memo);

// What apply is told: exactly these GPUs, those that the target does not use being empty. A GPU
// that is lent to batches, and stays so, is left out.
actuate::Wanted wanted_of(const NodeView& node, const plan::Judged<plan::ServingPlan>& plan,
                          const Target& target);
// What is lent of the usable GPUs.
std::vector<decide::LentPlace> lent_places(const NodeView& node, const GpuUse& use);
// GPUs on which the target has an instance where one is lent, by UUID, and what that is.
std::map<std::string, std::string> lent_in_the_way(const World& world, const NodeView& node,
                                                   const Target& target);
// A GPU that this is wanted of, while batches have it; nothing: none.
std::optional<int> lent_of(const NodeView& node, const actuate::Wanted& wanted);
Result<actuate::Change> change_to(const World& world, const NodeView& node,
                                  const actuate::Wanted& wanted);

actuate::ApplyOptions apply_options(const Settings& settings);

Difference difference(const std::optional<Target>& from, const Target& to);

// Compute slices of a MIG profile by its name.
int gpcs_of_profile(const std::string& profile);

// Whether a target takes back what was made on usable GPUs: one of the instances goes, or its
// service has fewer compute slices than before.
bool takes_back(const GpuUse& use, const std::optional<Target>& from, const Target& to,
                const std::vector<MadeAt>& made);

int gpus_in_use(const plan::ServingPlan& plan);

// Whether all GPUs that a target has instances on may be used.
bool same_gpus_usable(const Target& target, const GpuUse& use);

}  // namespace partita::control
