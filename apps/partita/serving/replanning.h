// `partita plan --current`: its flags, and what it prints of the changes and of the trade-off
// between GPUs and moves.
#pragma once

#include <string>

#include "decide/serving.h"
#include "forms/serving_forms.h"

namespace CLI {
class App;
}

namespace partita::cli {

struct ReplanFlags {
  std::string current;  // path; empty: plan from scratch
  int max_moves = -1;   // -1: as many as needed
};

// Adds --current and --max-moves.
void add_replan_flags(CLI::App& command, ReplanFlags& flags);

// What the plan's document says of it, in the key `incremental`.
forms::PlanChanges changes_of(const decide::MadeAgain& outcome);

// For people: what is kept, moved, created and removed, and the curve.
std::string changes_text(const decide::MadeAgain& outcome);

}  // namespace partita::cli
