#include "verify/share.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

namespace partita::verify {
namespace {

using profile::ProfilePoint;
using profile::WorkloadProfile;

constexpr double kNear = 1e-9;

// Two-point form of the line through (x0, y0) and (x1, y1).
double on_line(double x, std::pair<double, double> from, std::pair<double, double> to) {
  const auto [x0, y0] = from;
  const auto [x1, y1] = to;
  return (y0 * (x1 - x) + y1 * (x - x0)) / (x1 - x0);
}

}  // namespace

WorkloadProfile shared_workload(const WorkloadProfile& measured, int gpcs, double percent) {
  const double wanted = percent / 100 * gpcs;
  std::set<std::tuple<int, int>> segments;  // processes, batch
  for (const ProfilePoint& point : measured.points) segments.insert({point.processes, point.batch});
  WorkloadProfile result{measured.model, {}};
  for (const auto& [processes, batch] : segments) {
    const ProfilePoint* smaller = nullptr;
    for (int size = 1; size <= gpcs; ++size) {
      const ProfilePoint* point = profile::find_point(measured, size, batch, processes);
      if (!point) continue;
      const bool same = std::abs(size - wanted) <= kNear * gpcs;
      if (!same && size < wanted) {
        smaller = point;
        continue;
      }
      if (!same && !smaller) break;
      ProfilePoint mine = *point;
      mine.gpcs = gpcs;
      if (!same) {
        const double from = smaller->gpcs;
        mine.throughput.value =
            on_line(wanted, {from, smaller->throughput.value}, {size, point->throughput.value});
        mine.latency.value = 1 / on_line(wanted, {from, 1 / smaller->latency.value},
                                         {size, 1 / point->latency.value});
        if (point->memory && smaller->memory)
          mine.memory = std::max(*point->memory, *smaller->memory);
        else
          mine.memory.reset();
      }
      result.points.push_back(mine);
      break;
    }
  }
  return result;
}

}  // namespace partita::verify
