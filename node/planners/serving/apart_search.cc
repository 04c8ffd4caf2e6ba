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
constexpr double kShare = 1e-4;        // weights below are rounding
// Where slices cost nothing only GPUs beyond those that there are do; that much is rounding.
constexpr double kNothing = 1e-3;
constexpr std::size_t kMaxTreeCovers = 3'000;

}  // namespace

void ApartState::place(const Pattern& pattern, int its_gpus, const ApartMaster& master) {
  Supply& supply = node.supply[at(pattern.model)];
  gpus.push_back(pattern);
  for (const int cell : pattern.cells) ++node.placed[at(cell)];
  spent += node.gpc_price * master.own_gpcs(pattern);
  const double bought = std::max(0.0, its_gpus - supply.free);
  supply.free -= its_gpus - bought;
  spent += bought * supply.price;
  supply.most -= bought;
}

bool ApartState::may_place(const Pattern& pattern, int its_gpus) const {
  const Supply& supply = node.supply[at(pattern.model)];
  return supply.free + supply.most >= its_gpus;
}

void ApartDive::place(ApartState& state, const Pattern& pattern) const {
  state.place(pattern, gpus_of(pattern, *problem_.fleet), master_);
}

bool ApartDive::may_place(const ApartState& state, const Pattern& pattern) const {
  return state.may_place(pattern, gpus_of(pattern, *problem_.fleet));
}

double ApartDive::score(const Pattern& pattern, double weight) const {
  if (limits_.seed == 0) return weight;
  std::uint64_t hash = limits_.seed * kGolden64;
  for (const int cell : pattern.cells) hash = mix64(hash + static_cast<std::uint64_t>(cell) + 1);
  return weight * (0.5 + static_cast<double>(hash >> 11) * 0x1.0p-53);
}

std::optional<ApartPlan> ApartDive::run(ApartNode root) {
  ApartState state{std::move(root)};
  if (!descend(state, limits_.discrepancies)) return std::nullopt;
  ApartPlan plan{std::move(state.gpus), {}};
  for (const auto& cover : state.node.cover) plan.covers.push_back(*cover);
  return plan;
}

bool ApartDive::descend(ApartState& state, int discrepancies) {
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
      for (int t = 0; t < times && may_place(state, pattern); ++t) {
        place(state, pattern);
        placed = true;
      }
    }
    if (placed) continue;
    return used ? branch(state, solution, discrepancies)
                : fix_covers(state, solution, discrepancies);
  }
}

// Rounds up the patterns with the greatest weight; where that fails, the next ones.
bool ApartDive::branch(ApartState& state, const ApartSolution& solution, int discrepancies) {
  auto patterns = solution.patterns;
  std::stable_sort(patterns.begin(), patterns.end(), [&](const auto& a, const auto& b) {
    return score(a.first, a.second) > score(b.first, b.second);
  });
  bool first = true;
  for (const auto& [pattern, weight] : patterns) {
    if (weight <= kWhole || !may_place(state, pattern)) continue;
    ApartState next = state;
    place(next, pattern);
    if (first)
      for (const auto& [other, share] : patterns)
        if (other != pattern && share > kNearlyWhole && may_place(next, other)) place(next, other);
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
bool ApartDive::fix_covers(ApartState& state, const ApartSolution& solution, int discrepancies) {
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
  if (best == problem_.units.size()) return fix_all(state, solution);
  for (const auto& [counts, weight] : options) {
    ApartState next = state;
    next.node.cover[best] = counts;
    if (descend(next, discrepancies)) {
      state = std::move(next);
      return true;
    }
    if (--discrepancies < 0 || solves_ > limits_.solves) return false;
  }
  return false;
}

bool ApartDive::fix_all(ApartState& state, const ApartSolution& solution) const {
  std::vector<int> left = state.node.placed;
  for (std::size_t u = 0; u < problem_.units.size(); ++u) {
    const auto lighter = [](const auto& a, const auto& b) { return a.second < b.second; };
    if (!state.node.cover[u])
      state.node.cover[u] = std::ranges::max_element(solution.covers[u], lighter)->first;
    for (std::size_t k = 0; k < at(problem_.fleet->classes); ++k)
      left[at(problem_.group[u] * problem_.fleet->classes) + k] -= (*state.node.cover[u])[k];
  }
  return std::ranges::all_of(left, [](int n) { return n >= 0; });
}

// ---- all of them ----

TreeResult ApartTree::run(const ApartNode& root) {
  const bool found = visit({root});
  if (found) return {std::move(found_), false};
  return {std::nullopt, complete_};
}

bool ApartTree::visit(ApartState state) {
  const bool fixed = std::all_of(state.node.cover.begin(), state.node.cover.end(),
                                 [](const auto& cover) { return cover.has_value(); });
  if (fixed && state.node.gpc_price > 0) {
    double gpcs = 0;
    for (const auto& cover : state.node.cover)
      gpcs += cost(*cover, problem_.fleet->gpcs, problem_.fleet->classes);
    if (gpcs * state.node.gpc_price > limits_.cutoff) return false;
    state.node.gpc_price = 0;  // from here on only GPUs count
  }
  const bool slices = state.node.gpc_price > 0;
  const double cutoff = slices ? limits_.cutoff : kNothing;
  while (true) {
    if (++solves_ > limits_.solves) {
      complete_ = false;
      return false;
    }
    const ApartSolution solution = master_.solve(state.node, [&](double bound, double value) {
      return bound > cutoff || (!slices && value < cutoff / 2);
    });
    if (solution.bound > cutoff) return false;
    if (finished(state, solution)) return true;
    const auto options = choose(state, solution);
    if (!options) return false;
    for (const Counts& counts : options->covers) {
      ApartState next = state;
      next.node.cover[options->unit] = counts;
      if (visit(std::move(next))) return true;
      if (solves_ > limits_.solves) return false;
    }
    if (!options->pattern) return false;
    // A group of GPUs of which some are left only is no use any more.
    const int gpus = gpus_of(*options->pattern, *problem_.fleet);
    if (state.node.supply[at(options->pattern->model)].free >= gpus) {
      ApartState next = state;
      next.place(*options->pattern, gpus, master_);
      if (visit(std::move(next))) return true;
      if (solves_ > limits_.solves) return false;
    }
    state.node.banned.push_back(*options->pattern);
  }
}

// Whether the placed cells suffice: a plan.
bool ApartTree::finished(const ApartState& state, const ApartSolution& solution) {
  if (std::any_of(solution.patterns.begin(), solution.patterns.end(),
                  [](const auto& p) { return p.second > kShare; }))
    return false;
  const auto classes = at(problem_.fleet->classes);
  ApartPlan plan{state.gpus, {}};
  for (std::size_t u = 0; u < problem_.units.size(); ++u) {
    Counts placed{};
    for (std::size_t k = 0; k < classes; ++k)
      placed[k] = state.node.placed[at(problem_.group[u]) * classes + k];
    plan.covers.push_back(state.node.cover[u].value_or(placed));
    for (std::size_t k = 0; k < classes; ++k)
      if (plan.covers[u][k] > placed[k]) return false;
    if (!cover_within(problem_.units[u], plan.covers[u], problem_.fleet->classes)) return false;
  }
  found_ = std::move(plan);
  return true;
}

std::optional<ApartTree::Options> ApartTree::choose(const ApartState& state,
                                                    const ApartSolution& solution) {
  Options options;
  if (state.node.gpc_price > 0) {
    // The service whose cover is least decided.
    double least = 2;
    for (std::size_t u = 0; u < problem_.units.size(); ++u) {
      if (state.node.cover[u]) continue;
      double most = 0;
      for (const auto& [counts, weight] : solution.covers[u]) most = std::max(most, weight);
      if (most >= least - kShare) continue;
      least = most;
      options.unit = u;
    }
    if (least < 2) {
      options.covers = possible_covers(options.unit, state.node, solution);
      return options;
    }
  }
  double most = kShare;
  for (const auto& [pattern, weight] : solution.patterns) {
    if (weight <= most || state.node.supply[at(pattern.model)].free < 1) continue;
    most = weight;
    options.pattern = pattern;
  }
  if (!options.pattern) return std::nullopt;
  return options;
}

std::vector<Counts> ApartTree::possible_covers(std::size_t unit, const ApartNode& node,
                                               const ApartSolution& solution) {
  const int classes = problem_.fleet->classes;
  Prices prices{};
  for (std::size_t k = 0; k < at(classes); ++k)
    prices[k] = node.gpc_price * problem_.fleet->gpcs[k] +
                solution.prices[at(problem_.group[unit] * classes) + k];
  const double least = cheapest_within(problem_.units[unit], prices, classes).bound;
  const double slack = limits_.cutoff - solution.bound;
  const EnumerationLimits limits{least + slack + 1e-7 * (1 + least), kMaxTreeCovers};
  Enumeration all = enumerate_covers(problem_.units[unit], prices, problem_.fleet->smaller, limits);
  complete_ = complete_ && all.complete;
  const auto rank = [&](const Counts& counts) {
    double share = 0;
    for (const auto& [used, weight] : solution.covers[unit])
      if (used == counts) share = weight;
    return std::pair(-share, cost(counts, prices, classes));
  };
  std::stable_sort(all.covers.begin(), all.covers.end(),
                   [&](const Counts& a, const Counts& b) { return rank(a) < rank(b); });
  return std::move(all.covers);
}

}  // namespace partita::planners::serving
