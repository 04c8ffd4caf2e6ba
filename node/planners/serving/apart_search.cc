#include "planners/serving/apart_search.h"

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "base/index.h"

namespace partita::planners::serving {
namespace {

constexpr double kWhole = 1e-4;        // weights that near to a whole number are one
constexpr double kNearlyWhole = 0.85;  // rounded up together
constexpr int kNodeRounds = 15;        // pricing rounds below the root

}  // namespace

struct ApartDive::State {
  ApartNode node;
  std::vector<Pattern> gpus;
  double spent = 0;

  // Places a GPU of a pattern: a free one, or one that is bought.
  void place(const Pattern& pattern, const ApartMaster& master) {
    Supply& supply = node.supply[at(pattern.model)];
    gpus.push_back(pattern);
    for (const int cell : pattern.cells) ++node.placed[at(cell)];
    spent += node.gpc_price * master.own_gpcs(pattern);
    if (supply.free >= 1) {
      supply.free -= 1;
    } else {
      spent += supply.price;
      supply.most -= 1;
    }
  }
  bool may_place(const Pattern& pattern) const {
    const Supply& supply = node.supply[at(pattern.model)];
    return supply.free >= 1 || supply.most >= 1;
  }
};

double ApartDive::score(const Pattern& pattern, double weight) const {
  if (limits_.seed == 0) return weight;
  std::uint64_t hash = limits_.seed * kGolden64;
  for (const int cell : pattern.cells) hash = mix64(hash + static_cast<std::uint64_t>(cell) + 1);
  return weight * (0.5 + static_cast<double>(hash >> 11) * 0x1.0p-53);
}

std::optional<ApartPlan> ApartDive::run(ApartNode root) {
  State state{std::move(root), {}, 0};
  if (!descend(state, limits_.discrepancies)) return std::nullopt;
  ApartPlan plan{std::move(state.gpus), {}};
  for (const auto& cover : state.node.cover) plan.covers.push_back(*cover);
  return plan;
}

bool ApartDive::descend(State& state, int discrepancies) {
  while (true) {
    if (++solves_ > limits_.solves) return false;
    const double left = limits_.cutoff - state.spent;
    int rounds = 0;
    const ApartSolution solution = master_.solve(state.node, [&](double bound, double value) {
      return bound > left || (++rounds >= kNodeRounds && value <= left) || rounds > 4 * kNodeRounds;
    });
    if (solution.bound > left || solution.value > left + 0.5) return false;
    bool placed = false, used = false;
    for (const auto& [pattern, weight] : solution.patterns) {
      const int times = static_cast<int>(std::floor(weight + kWhole));
      used = used || weight > kWhole;
      for (int t = 0; t < times && state.may_place(pattern); ++t) {
        state.place(pattern, master_);
        placed = true;
      }
    }
    if (placed) continue;
    return used ? branch(state, solution, discrepancies)
                : fix_covers(state, solution, discrepancies);
  }
}

// Rounds up the patterns with the greatest weight; where that fails, the next ones.
bool ApartDive::branch(State& state, const ApartSolution& solution, int discrepancies) {
  auto patterns = solution.patterns;
  std::stable_sort(patterns.begin(), patterns.end(), [&](const auto& a, const auto& b) {
    return score(a.first, a.second) > score(b.first, b.second);
  });
  bool first = true;
  for (const auto& [pattern, weight] : patterns) {
    if (weight <= kWhole || !state.may_place(pattern)) continue;
    State next = state;
    next.place(pattern, master_);
    if (first)
      for (const auto& [other, share] : patterns)
        if (other != pattern && share > kNearlyWhole && next.may_place(other))
          next.place(other, master_);
    if (descend(next, discrepancies)) {
      state = std::move(next);
      return true;
    }
    first = false;
    if (--discrepancies < 0 || solves_ > limits_.solves) return false;
  }
  return false;
}

// All cells are placed: the covers that are whole stay, of the others the weightiest is fixed.
bool ApartDive::fix_covers(State& state, const ApartSolution& solution, int discrepancies) {
  std::size_t best = problem_.units.size();
  std::vector<std::pair<Counts, double>> options;
  double most = 0;
  for (std::size_t u = 0; u < problem_.units.size(); ++u) {
    if (state.node.cover[u]) continue;
    auto covers = solution.covers[u];
    std::stable_sort(covers.begin(), covers.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    if (covers.empty()) return false;
    if (covers[0].second > 1 - kWhole || covers[0].second <= most) continue;
    most = covers[0].second;
    best = u;
    options = std::move(covers);
  }
  if (best == problem_.units.size()) {
    std::vector<int> left = state.node.placed;
    for (std::size_t u = 0; u < problem_.units.size(); ++u) {
      if (!state.node.cover[u])
        state.node.cover[u] =
            std::max_element(solution.covers[u].begin(), solution.covers[u].end(),
                             [](const auto& a, const auto& b) { return a.second < b.second; })
                ->first;
      for (std::size_t k = 0; k < at(problem_.fleet->classes); ++k)
        left[at(problem_.group[u] * problem_.fleet->classes) + k] -= (*state.node.cover[u])[k];
    }
    return std::all_of(left.begin(), left.end(), [](int n) { return n >= 0; });
  }
  for (const auto& [counts, weight] : options) {
    State next = state;
    next.node.cover[best] = counts;
    if (descend(next, discrepancies)) {
      state = std::move(next);
      return true;
    }
    if (--discrepancies < 0 || solves_ > limits_.solves) return false;
  }
  return false;
}

}  // namespace partita::planners::serving
