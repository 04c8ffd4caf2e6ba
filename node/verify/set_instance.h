// One instance of a set of models (plan/model_set.h) under its share of the traffic, as the judge
// sees it: request by request, with the models that it holds in the order in which they were asked
// for. Requests are served as they come, one at a time.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "plan/serving.h"
#include "verify/findings.h"

namespace partita::verify {

struct SetLoad {
  Rps rate;
  Millis run;    // of a request whose model is loaded
  int held = 1;  // models at once
};

struct SetVerdict {
  bool stable = true;
  bool holds = false;        // both promises; where few are cold, as far as so few can tell
  double late = 0;           // share of all
  double cold = 0;           // share of all
  double cold_late = 0;      // share of those
  Millis whole, cold_whole;  // at the percentile
};

// `service` has a set. Pure: always the same requests.
SetVerdict judge_set(const plan::Terms& service, const SetLoad& load);

// Room for what an instance of the plan holds, and one request at a time. `there`: its memory.
void check_set_room(const plan::ModelSet& set, const plan::PlannedInstance& planned, Mib there,
                    const std::string& name, Findings& findings);

// An instance of a plan, as findings name it: by its profile.
struct SetPart {
  std::string name;
  SetLoad load;
};
// Plays all instances of a service, and holds its row to that; null: it has none.
void check_set_parts(const plan::Terms& service, const plan::PlannedService* row,
                     const std::vector<SetPart>& parts, Findings& findings);

}  // namespace partita::verify
