// Cheap hours: when tasks begin that may wait until their deadlines, so that their energy costs
// least by a tariff (plan/tariff.h). Only moments are chosen: which GPU a task gets is decided
// when its time has come (live.h). No more is begun at once than surely fits: every GPU that is
// free then carries instances of one shape. Tasks are taken as of the same watts per slice.
//
// Exact over the moments that it looks at (the ends of each task's range, where it would begin or
// end with an hour, and where another one ends), as long as the search is through within kSteps;
// where that is not so, or not all fit, it says so. Pure.
#pragma once

#include <optional>
#include <vector>

#include "plan/tariff.h"

namespace partita::planners::batch {

struct Flexible {
  long id = 0;
  double latest_s = 0;  // when it begins at the latest
  double length_s = 0;  // what it takes at the most
  int slices = 1;       // compute slices, of all its instances: what it draws goes by these
  int shape = 0;        // a number per instance shape
  int instances = 1;    // that it has at once
  int per_gpu = 1;      // most instances of that shape on a GPU
};

struct CheapHours {
  double now_s = 0;
  double free_s = 0;  // what runs and waits besides is done by then; `now_s`: nothing does
  int gpus = 1;
  std::vector<Flexible> tasks = {};
};

struct Beginnings {
  std::vector<double> begin_s;  // per task
  double weight = 0;            // mean weights of the tariff x slices x seconds, summed
  double least = 0;             // each task by itself: no choice is below that
  bool optimal = false;         // of the moments looked at there is no better choice
};

inline constexpr long kSteps = 4'000;
inline constexpr std::size_t kMostFlexible = 100;

// None: not all of them surely fit before their latest moments, or they are more than
// kMostFlexible, or the tariff does not reach so far. They are better begun as they come then.
std::optional<Beginnings> cheap_hours(const plan::Tariff& tariff, const CheapHours& problem);

}  // namespace partita::planners::batch
