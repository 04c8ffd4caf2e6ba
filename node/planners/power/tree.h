// Power of many nodes: what each may draw, so that no breaker above it ever trips, whichever single
// feed fails next. Points (feeds, PDUs, racks) form trees; a node has an inlet at one point or at
// several of different feeds, and its load is shared equally by those that are live. When a feed
// fails, the others carry more at once, and caps come down only a while later: until then a breaker
// bears what its curve says. Pure.
//
// By value: the optimum of a linear programme, of kMostRows rows at most. Fair: every node the same
// part of what it could have, until a point above it is full (max-min).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"

namespace partita::power {

inline constexpr std::size_t kMostRows = 600;  // nodes, and points that could be full in some state

// Up to so many times its rating a breaker bears for so long.
struct Endurance {
  double load = 1, seconds = 0;
  bool operator==(const Endurance&) const = default;
};
struct SupplyPoint {
  std::string name;
  int parent = -1;  // an earlier point; -1: it is a feed
  double rating_w = 0;
  std::vector<Endurance> curve = {};  // loads grow, times fall; empty: never above the rating
};
// Watts up to here are worth so much each.
struct Worth {
  double to_w = 0, per_w = 0;
  bool operator==(const Worth&) const = default;
};
struct PoweredNode {
  std::string name;
  std::vector<int> inlets;         // points
  double least_w = 0, most_w = 0;  // that it can be held to; that it can draw
  std::vector<Worth> worth = {};   // above least_w, the last up to most_w; per_w falls
  // Nobody can tell it anything: it may draw so much, and falls to least_w by itself.
  std::optional<double> held_w = {};
};
struct PowerTree {
  std::vector<SupplyPoint> points;
  std::vector<PoweredNode> nodes;
  double react_s = 10;  // after a feed has failed, until every cap is in effect
};
// Bad input with `file` as context: a parent that is not an earlier point, inlets that do not exist
// or hang on one feed twice, numbers out of order.
Result<void> check_tree(const std::string& file, const PowerTree& tree);

enum class Sharing { fair, value };
// What keeps a node from more: a point that is full now, or once `then` has changed. -1: none.
struct Full {
  int point = -1, then = -1;
};
struct Budgets {
  // Per node; 0: no inlet of it is live. One that comes back takes its least until it is told more.
  std::vector<double> watts;
  // Per node, at most that: with these no point is above its rating, neither now nor once any one
  // feed has failed or come back. For who hears nothing, and for the time until all have heard it.
  std::vector<double> alone = {};
  std::vector<Full> full = {};  // per node
  double value = 0;
  // Feeds whose failure the rest would not bear, if who can be told nothing draws what he may.
  std::vector<std::string> unsafe = {};
};
// `failed`: points that are dead, and all below them. infeasible with the point's name: not even
// the least of all nodes fits. not_supported: more than kMostRows, by value.
Result<Budgets> budgets(const PowerTree& tree, const std::set<int>& failed, Sharing sharing);

// How much a point may carry for so long.
double bearable_w(const SupplyPoint& point, double seconds);

}  // namespace partita::power
