#include "planners/mask/lanes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"

namespace partita::planners::mask {
namespace {

// Per atom the most that run on one of its units.
Busy busy_atoms(const hw::Topology& topology, int atom, const Busy& busy) {
  Busy atoms;
  std::size_t first = 0;
  for (const int units : topology.units_in) {
    for (int at = 0; at + atom <= units; at += atom) {
      int most = 0;
      for (int i = 0; i < atom; ++i)
        most = std::max(most, busy[first + static_cast<std::size_t>(at + i)]);
      atoms.push_back(most);
    }
    first += static_cast<std::size_t>(units);
  }
  return atoms;
}

// What a worker sees when it looks for a lane: its own units are free, others cost one, and more by
// the share of their kernels that other workers run there.
Busy seen_by(std::size_t worker, const hw::Topology& topology, const std::vector<plan::Lane>& lanes,
             const std::vector<std::vector<int>>& units) {
  constexpr int kWhole = 10'000;
  Busy busy(static_cast<std::size_t>(topology.units()), 1);
  hw::UnitMask own;
  for (const plan::Lane& lane : lanes) {
    if (lane.worker == worker) own |= lane.mask;
    const auto all = static_cast<double>(units[lane.worker].size());
    const int cost = 1 + static_cast<int>(kWhole * lane.kernels / all);
    for (std::size_t unit = 0; unit < busy.size(); ++unit)
      if (lane.worker != worker && lane.mask[unit]) busy[unit] += cost;
  }
  for (std::size_t unit = 0; unit < busy.size(); ++unit)
    if (own[unit]) busy[unit] = 0;
  return busy;
}

}  // namespace

Grant allocate_atoms(const hw::Topology& topology, int atom, const Busy& busy,
                     const Request& request) {
  if (atom == 1) return allocate(topology, busy, request);
  const hw::Topology coarse = hw::in_atoms(topology, atom);
  CHECK(coarse.units() > 0);
  const auto runs = [](int kernels) { return kernels > 0; };
  Request atoms = request;
  atoms.units = (request.units + atom - 1) / atom;
  atoms.overlap_limit = request.overlap_limit / atom;
  Grant grant;
  if (atoms.units > coarse.units() && std::ranges::count_if(busy, runs) <= request.overlap_limit) {
    grant.mask = hw::all_units(topology);
  } else {
    atoms.units = std::min(atoms.units, coarse.units());
    grant = allocate(coarse, busy_atoms(topology, atom, busy), atoms);
    grant.mask = hw::units_of(topology, atom, grant.mask);
  }
  grant.granted = static_cast<int>(grant.mask.count());
  grant.overlapped = 0;
  for (std::size_t unit = 0; unit < busy.size(); ++unit)
    grant.overlapped += grant.mask[unit] && runs(busy[unit]);
  return grant;
}

plan::Lanes plan_lanes(const hw::Topology& topology, int atom,
                       const std::vector<std::vector<int>>& units) {
  std::map<std::pair<int, std::size_t>, int> wanted;  // kernels by units and worker
  for (std::size_t worker = 0; worker < units.size(); ++worker)
    for (const int count : units[worker]) ++wanted[{count, worker}];
  plan::Lanes lanes{atom, {}};
  for (const auto& [key, kernels] : wanted) {
    const auto [count, worker] = key;
    const Request request{count, Policy::conserved, topology.units()};
    const Busy busy = seen_by(worker, topology, lanes.all, units);
    lanes.all.push_back(
        {worker, count, allocate_atoms(topology, atom, busy, request).mask, kernels});
  }
  std::ranges::sort(lanes.all, {},
                    [](const plan::Lane& lane) { return std::pair(lane.worker, lane.units); });
  return lanes;
}

}  // namespace partita::planners::mask
