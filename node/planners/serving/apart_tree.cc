#include "planners/serving/apart_tree.h"

#include <algorithm>
#include <cmath>

#include "base/index.h"

namespace partita::planners::serving {
namespace {

constexpr double kShare = 1e-4;  // weights below are rounding
// Where slices cost nothing only GPUs beyond those that there are do; that much is rounding.
constexpr double kNothing = 1e-3;
constexpr std::size_t kMaxTreeCovers = 3'000;

}  // namespace

struct ApartTree::State {
  ApartNode node;
  std::vector<Pattern> gpus;

  void place(const Pattern& pattern) {
    gpus.push_back(pattern);
    for (const int cell : pattern.cells) ++node.placed[at(cell)];
    node.supply[at(pattern.model)].free -= 1;
  }
};

TreeResult ApartTree::run(const ApartNode& root) {
  const bool found = visit({root, {}});
  if (found) return {std::move(found_), false};
  return {std::nullopt, complete_};
}

bool ApartTree::visit(State state) {
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
      State next = state;
      next.node.cover[options->unit] = counts;
      if (visit(std::move(next))) return true;
      if (solves_ > limits_.solves) return false;
    }
    if (!options->pattern) return false;
    State next = state;
    next.place(*options->pattern);
    if (visit(std::move(next))) return true;
    if (solves_ > limits_.solves) return false;
    state.node.banned.push_back(*options->pattern);
  }
}

// Whether the placed cells suffice: a plan.
bool ApartTree::finished(const State& state, const ApartSolution& solution) {
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

std::optional<ApartTree::Options> ApartTree::choose(const State& state,
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
