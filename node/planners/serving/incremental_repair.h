// Repair: the fewest instances to be created so that no service is short, on a few GPUs of a
// deployment while the others stay as they are.
//
// Iterative deepening over chains of displacement. Start: the GPUs that stay open keep all that
// runs there. While a service is short, an instance is created for it on some place and displaces
// what it overlaps, which may make others short. Every plan with the same GPUs closed is reached,
// whatever service is tried first: a plan's own creations displace nothing that it keeps. So
// `none` is a proof, as long as places clash in pairs only (Site::pairwise).
#pragma once

#include <vector>

#include "planners/serving/incremental_state.h"

namespace partita::planners::serving {

struct Window {
  std::vector<int> hosts;  // of one fleet entry
  int open = 0;            // at most so many of their GPUs may be used
};

enum class Repaired { yes, none, unknown };

// Rearranges the hosts of the window from what the current plan runs there. yes: nobody is short
// and the whole deployment has at most `limit` creations, as few as any arrangement of the window.
// Otherwise the deployment is as before; none: there is no such arrangement. Counts tried
// placements down from `budget`; at 0 the answer is unknown.
Repaired rearrange(Deployment& deployment, const Window& window, int limit, long& budget);

// The same without closing or resetting anything: only adds to, and displaces from, these hosts.
Repaired repair(Deployment& deployment, const std::vector<int>& hosts, int limit, long& budget);

}  // namespace partita::planners::serving
