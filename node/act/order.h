// Order: in which sequence instances are created and destroyed, so that every moment is legal and
// no service goes below its floor where that can be had. Internal to actuate.
//
// Greedy, over exact feasibility checks: whatever fits is created; of what is in the way that is
// destroyed which no service misses; when nothing of the kind is left, a stand-in of the same
// profile is created on free slices elsewhere, which goes at the end; where there is no room for
// one either, a service goes below its floor, and the least loss is taken.
#pragma once

#include <vector>

#include "act/layout_state.h"

namespace partita::actuate {

// One instance that comes, goes or gets another segment.
struct Unit {
  enum class Kind { create, destroy, reassign };
  Kind kind = Kind::create;
  int id = 0;  // the caller's number; of a stand-in and its end: that of the unit it stands in for
  Slot slot;
  int loses = -1, gains = -1;  // service that loses, gains capacity; -1: none
  double lost = 0, gained = 0;
  bool temporary = false;
  // Units that come or go as one, a whole GPU each: they gain with the last that comes and lose
  // with the first that goes. -1: alone.
  int group = -1;
  bool operator==(const Unit&) const = default;
};

struct OrderProblem {
  LayoutState layout;            // what is there now
  std::vector<Unit> units;       // in the caller's order of preference
  std::vector<double> capacity;  // per service, now
  std::vector<double> floor;     // per service; never more than now or at the end
};

// The units in order, with stand-ins where they are needed. Every create fits when its turn comes.
std::vector<Unit> in_order(OrderProblem problem);

}  // namespace partita::actuate
