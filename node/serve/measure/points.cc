#include "serve/measure/points.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/parse_number.h"
#include "base/split.h"

namespace partita::serve {
namespace {

using profile::ProfilePoint;
using profile::WorkloadProfile;

auto order_of(const ProfilePoint& p) { return std::tuple(p.gpcs, p.processes, p.batch); }
auto order_of(const profile::NoRun& p) { return std::tuple(p.gpcs, p.processes, p.batch); }

// The batches of a ladder that are still to be measured.
std::vector<int> rest_of_ladder(const MeasureGrid& grid, const WorkloadProfile& measured, int units,
                                int processes) {
  std::vector<int> rest;
  double best = 0;
  int flat = 0;
  for (const int batch : grid.batches) {
    const std::tuple key(units, processes, batch);
    const auto failed = std::ranges::any_of(
        measured.no_runs, [&](const profile::NoRun& p) { return order_of(p) == key; });
    if (failed || flat >= kFlatSteps) break;
    const ProfilePoint* point = find_point(measured, units, batch, processes);
    if (point == nullptr) {
      rest.push_back(batch);
      continue;
    }
    const bool gains = point->throughput.value > best * (1 + kGain);
    flat = gains ? 0 : flat + 1;
    best = std::max(best, point->throughput.value);
  }
  return rest;
}

// The highest throughput of a size with this many processes.
double best_of(const WorkloadProfile& measured, int units, int processes) {
  double best = 0;
  for (const ProfilePoint& point : measured.points) {
    if (point.gpcs == units && point.processes == processes)
      best = std::max(best, point.throughput.value);
  }
  return best;
}

// All that is to come as things look now, in order.
std::vector<MeasurePoint> rest_of_grid(const MeasureGrid& grid, const WorkloadProfile& measured) {
  std::vector<MeasurePoint> rest;
  for (const int units : grid.units) {
    double best = 0;
    for (const int processes : grid.processes) {
      const std::vector<int> batches = rest_of_ladder(grid, measured, units, processes);
      for (const int batch : batches) rest.push_back({units, processes, batch});
      if (!batches.empty()) continue;  // what it reaches is not known yet
      const double reached = best_of(measured, units, processes);
      if (reached <= best * (1 + kGain)) break;
      best = reached;
    }
  }
  return rest;
}

}  // namespace

std::optional<MeasurePoint> next_point(const MeasureGrid& grid, const WorkloadProfile& measured) {
  const std::vector<MeasurePoint> rest = rest_of_grid(grid, measured);
  return rest.empty() ? std::nullopt : std::optional(rest.front());
}

int points_left(const MeasureGrid& grid, const WorkloadProfile& measured) {
  return static_cast<int>(rest_of_grid(grid, measured).size());
}

void add_point(WorkloadProfile& profile, const ProfilePoint& point) {
  profile.points.push_back(point);
  std::ranges::sort(profile.points, {}, [](const ProfilePoint& p) { return order_of(p); });
}

void add_no_run(WorkloadProfile& profile, const MeasurePoint& point) {
  profile.no_runs.push_back(
      {.gpcs = point.units, .batch = point.batch, .processes = point.processes});
  std::ranges::sort(profile.no_runs, {}, [](const profile::NoRun& p) { return order_of(p); });
}

Result<std::vector<int>> parse_counts(const std::string& flag, const std::string& text, int most) {
  std::set<int> counts;
  const auto refused = [&] {
    return bad_input(flag,
                     fmt::format("'{}': say numbers up to {} as in 1,2,4 or 1..4", text, most));
  };
  for (const std::string& part : split(text, ',')) {
    std::string_view rest = part;
    const auto first = take_number<int>(rest);
    if (!first || *first < 1 || *first > most) return refused();
    counts.insert(*first);
    if (rest == "..") {
      for (int count = *first; count <= most; count *= 2) counts.insert(count);
    } else if (rest.starts_with("..")) {
      const auto last = parse_number<int>(rest.substr(2));
      if (!last || *last < *first || *last > most) return refused();
      for (int count = *first; count <= *last; ++count) counts.insert(count);
    } else if (!rest.empty()) {
      return refused();
    }
  }
  return std::vector<int>(counts.begin(), counts.end());
}

}  // namespace partita::serve
