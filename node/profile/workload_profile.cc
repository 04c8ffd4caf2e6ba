#include "profile/workload_profile.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace partita::profile {
namespace {

using Key = std::tuple<int, int, int>;
constexpr double kMillisPerSecond = 1e3;

Key key_of(const ProfilePoint& point) { return {point.gpcs, point.processes, point.batch}; }

// The first point whose key is not below `key`.
std::vector<ProfilePoint>::const_iterator first_from(const WorkloadProfile& profile,
                                                     const Key& key) {
  return std::lower_bound(
      profile.points.begin(), profile.points.end(), key,
      [](const ProfilePoint& point, const Key& wanted) { return key_of(point) < wanted; });
}

}  // namespace

Millis BatchCurve::latency(int n) const {
  const auto step = std::lower_bound(steps.begin(), steps.end(), n,
                                     [](const Step& s, int wanted) { return s.batch < wanted; });
  CHECK(n >= 1 && step != steps.end());
  return step->latency;
}

Millis batch_time(const ProfilePoint& point) {
  constexpr double kSame = 1 + 1e-9;  // what two divisions lose is no difference
  const double share = kMillisPerSecond * point.batch * point.processes / point.throughput.value;
  return share <= point.latency.value * kSame ? point.latency : Millis{share};
}

BatchCurve batch_curve(const WorkloadProfile& profile, int gpcs, int processes, int max_batch) {
  BatchCurve curve;
  auto point = first_from(profile, {gpcs, processes, max_batch});
  if (point == profile.points.end() || key_of(*point) != Key{gpcs, processes, max_batch}) {
    return curve;
  }
  // Downwards, keeping only batches that are cheaper than every larger one.
  for (;; --point) {
    if (point->gpcs != gpcs || point->processes != processes) break;
    const Millis time = batch_time(*point);
    if (curve.steps.empty() || time < curve.steps.back().latency) {
      curve.steps.push_back({point->batch, time});
    }
    if (point == profile.points.begin()) break;
  }
  std::reverse(curve.steps.begin(), curve.steps.end());
  return curve;
}

const ProfilePoint* find_point(const WorkloadProfile& profile, int gpcs, int batch, int processes) {
  const Key key{gpcs, processes, batch};
  const auto point = first_from(profile, key);
  return point != profile.points.end() && key_of(*point) == key ? &*point : nullptr;
}

}  // namespace partita::profile
