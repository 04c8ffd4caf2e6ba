// Random trees of power and their judge: what points carry by hand, breakers that get hot, and the
// most that budgets can be worth, by a linear programme in another form (CBC).
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#ifdef PARTITA_HAVE_CBC
#include <coin/Cbc_C_Interface.h>
#endif

#include "base/rng.h"
#include "planners/power/tree.h"

namespace partita::power {

inline int below(Rng& rng, int count) {
  return static_cast<int>(rng.below(static_cast<unsigned>(count)));
}
inline std::size_t at(int index) { return static_cast<std::size_t>(index); }

inline std::vector<Endurance> random_curve(Rng& rng) {
  if (rng.uniform() < .2) return {};
  return {{1.1 + .1 * rng.uniform(), 600},
          {1.25 + .2 * rng.uniform(), 15 + 60 * rng.uniform()},
          {1.6 + rng.uniform(), 1 + 10 * rng.uniform()}};
}

inline PoweredNode random_node(Rng& rng, std::vector<int> inlets) {
  PoweredNode node{"", std::move(inlets), 300 + 500 * rng.uniform(), 0, {}};
  node.most_w = node.least_w + 500 + 6'000 * rng.uniform();
  double price = 1 + 9 * rng.uniform(), to = node.least_w;
  for (int steps = 1 + below(rng, 4); steps > 0; --steps) {
    to = steps == 1 ? node.most_w : to + (node.most_w - to) * (.2 + .6 * rng.uniform());
    node.worth.push_back({to, price});
    price *= .2 + .7 * rng.uniform();
  }
  return node;
}

// Feeds with PDUs with racks; nodes at one rack, or at racks of two feeds. Ratings between what
// all least and all most would take.
inline PowerTree random_tree(Rng& rng, int most_nodes = 34) {
  PowerTree tree;
  tree.react_s = 2 + 10 * rng.uniform();
  const int feeds = 2 + below(rng, 2);
  std::vector<std::vector<int>> racks(at(feeds));
  for (int f = 0; f < feeds; ++f) tree.points.push_back({"feed", -1, 1, random_curve(rng)});
  for (int f = 0; f < feeds; ++f)
    for (int pdus = 1 + below(rng, 3); pdus > 0; --pdus) {
      tree.points.push_back({"pdu", f, 1, random_curve(rng)});
      const int pdu = static_cast<int>(tree.points.size()) - 1;
      for (int count = 1 + below(rng, 3); count > 0; --count) {
        tree.points.push_back({"rack", pdu, 1, random_curve(rng)});
        racks[at(f)].push_back(static_cast<int>(tree.points.size()) - 1);
      }
    }
  for (int nodes = 4 + below(rng, most_nodes - 4); nodes > 0; --nodes) {
    const int f = below(rng, feeds), g = (f + 1 + below(rng, feeds - 1)) % feeds;
    std::vector<int> inlets = {racks[at(f)][rng.below(racks[at(f)].size())]};
    if (rng.uniform() < .8) inlets.push_back(racks[at(g)][rng.below(racks[at(g)].size())]);
    tree.nodes.push_back(random_node(rng, inlets));
  }
  std::vector<double> least(tree.points.size()), most(tree.points.size());
  for (const PoweredNode& node : tree.nodes)
    for (const int inlet : node.inlets)
      for (int p = inlet; p >= 0; p = tree.points[at(p)].parent) {
        least[at(p)] += node.least_w;  // all of it: the other inlet may be dead
        most[at(p)] += node.most_w;
      }
  for (std::size_t p = 0; p < tree.points.size(); ++p)
    tree.points[p].rating_w =
        1 + least[p] * 1.05 + rng.uniform() * .8 * std::max(0.0, most[p] - least[p]);
  return tree;
}

// What each point carries of such draws, by hand.
inline std::vector<double> loads(const PowerTree& tree, const std::set<int>& failed,
                                 const std::vector<double>& draw) {
  std::vector<double> load(tree.points.size());
  for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
    std::vector<std::vector<int>> live;
    for (const int inlet : tree.nodes[n].inlets) {
      std::vector<int> path;
      bool dead = false;
      for (int p = inlet; p >= 0; p = tree.points[at(p)].parent) {
        path.push_back(p);
        dead = dead || failed.contains(p);
      }
      if (!dead) live.push_back(path);
    }
    for (const std::vector<int>& path : live)
      for (const int p : path) load[at(p)] += draw[n] / static_cast<double>(live.size());
  }
  return load;
}

// Breakers that get hot: how much of the time that they bear is used up. At 1 one trips.
class Breakers {
 public:
  explicit Breakers(const PowerTree& tree) : tree_(tree), heat_(tree.points.size()) {}
  void carry(const std::vector<double>& load, double seconds) {
    for (std::size_t p = 0; p < load.size(); ++p) {
      const double ratio = load[p] / tree_.points[p].rating_w;
      if (ratio <= 1 + 1e-6) {
        heat_[p] = std::max(0.0, heat_[p] - seconds / 600);
        continue;
      }
      double bears = 1e-3;
      for (const Endurance& one : tree_.points[p].curve)
        if (ratio <= one.load * (1 + 1e-6)) {
          bears = one.seconds;
          break;
        }
      heat_[p] += seconds / bears;
      worst_ = std::max(worst_, heat_[p]);
    }
  }
  double worst() const { return worst_; }

 private:
  const PowerTree& tree_;
  std::vector<double> heat_;
  double worst_ = 0;
};

#ifdef PARTITA_HAVE_CBC
// The most that budgets can be worth.
inline std::optional<double> bound(const PowerTree& tree) {
  std::vector<int> start, index;
  std::vector<double> entry, least, most, cost, lower, upper;
  constexpr double kFar = std::numeric_limits<double>::max();
  std::vector<double> floor;
  for (const PoweredNode& node : tree.nodes) floor.push_back(node.least_w);
  struct State {
    std::set<int> failed;
    bool now;
  };
  std::vector<State> states = {{{}, true}};
  for (int p = 0; p < std::ssize(tree.points); ++p)
    if (tree.points[at(p)].parent < 0) states.push_back({{p}, false});
  for (const State& state : states) {
    const std::vector<double> base = loads(tree, state.failed, floor);
    for (std::size_t p = 0; p < base.size(); ++p) {
      lower.push_back(-kFar);
      upper.push_back(
          (state.now ? tree.points[p].rating_w : bearable_w(tree.points[p], 2 * tree.react_s)) -
          base[p]);
    }
  }
  for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
    double from = tree.nodes[n].least_w;
    for (const Worth& worth : tree.nodes[n].worth) {
      start.push_back(static_cast<int>(index.size()));
      std::vector<double> one(tree.nodes.size());
      one[n] = 1;
      int row = 0;
      for (const State& state : states)
        for (const double share : loads(tree, state.failed, one)) {
          if (share > 0) {
            index.push_back(row);
            entry.push_back(share);
          }
          ++row;
        }
      least.push_back(0);
      most.push_back(worth.to_w - from);
      cost.push_back(-worth.per_w);
      from = worth.to_w;
    }
  }
  start.push_back(static_cast<int>(index.size()));
  Cbc_Model* model = Cbc_newModel();
  Cbc_loadProblem(model, static_cast<int>(cost.size()), static_cast<int>(lower.size()),
                  start.data(), index.data(), entry.data(), least.data(), most.data(), cost.data(),
                  lower.data(), upper.data());
  Cbc_setLogLevel(model, 0);
  Cbc_solve(model);
  std::optional<double> found;
  if (Cbc_isProvenOptimal(model)) found = -Cbc_getObjValue(model);
  Cbc_deleteModel(model);
  return found;
}
#endif

}  // namespace partita::power
