#include "profile/share.h"

#include <algorithm>
#include <map>
#include <utility>

namespace partita::profile {
namespace {

// Sizes within this share of each other are equal: 100/7 % of seven slices are one.
constexpr double kRounding = 1e-9;

// The point `part` of the way from one size to the next.
ProfilePoint between(const ProfilePoint& below, const ProfilePoint& above, double part) {
  ProfilePoint point = below;
  point.throughput = below.throughput * (1 - part) + above.throughput * part;
  point.latency = Millis{1 / ((1 - part) / below.latency.value + part / above.latency.value)};
  if (below.memory && above.memory)
    point.memory = std::max(*below.memory, *above.memory);
  else
    point.memory.reset();
  return point;
}

}  // namespace

WorkloadProfile at_share(const WorkloadProfile& profile, int gpcs, double percent) {
  const double size = gpcs * percent / 100;
  std::map<std::pair<int, int>, std::pair<const ProfilePoint*, const ProfilePoint*>> around;
  for (const ProfilePoint& point : profile.points) {  // ascending gpcs
    auto& [below, above] = around[{point.processes, point.batch}];
    if (point.gpcs <= size * (1 + kRounding)) below = &point;
    if (point.gpcs >= size * (1 - kRounding) && !above) above = &point;
  }
  WorkloadProfile shared{profile.model, {}};
  for (const auto& [key, neighbours] : around) {
    const auto [below, above] = neighbours;
    if (!below || !above) continue;
    const int gap = above->gpcs - below->gpcs;
    ProfilePoint point = gap <= 0 ? *below : between(*below, *above, (size - below->gpcs) / gap);
    point.gpcs = gpcs;
    shared.points.push_back(point);
  }
  return shared;
}

}  // namespace partita::profile
