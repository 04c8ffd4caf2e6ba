// Settings of one GPU over a trace that is known beforehand: under a policy step by step, or with
// the least energy including what changes cost. One service: an exact dynamic programme over
// clocks x units. Several: one over the settings that are best at some clock at some step, and
// those that the dissertation's table would take; the bound then knows all settings, but changes of
// units cost it nothing. A trace without steps takes nothing.
#pragma once

#include "base/result.h"
#include "plan/power.h"
#include "planners/power/policies.h"

namespace partita::power {

// infeasible names the first step that cannot be carried, by time and service rates.
Result<plan::PowerSchedule> plan_schedule(const Chooser& chooser, const plan::PowerTrace& trace,
                                          const plan::TransitionCost& cost);

}  // namespace partita::power
