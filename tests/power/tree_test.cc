// Budgets of trees of power: random ones with two feeds and more, whose feeds fail and come back.
// The judge keeps every breaker's heat by itself; the value is compared with a linear programme of
// another form (a variable per step of worth), solved by CBC.
#include "planners/power/tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#ifdef PARTITA_HAVE_CBC
#include <coin/Cbc_C_Interface.h>
#endif

#include "base/rng.h"
#include "base/test_rounds.h"

namespace partita::power {
namespace {

int below(Rng& rng, int count) { return static_cast<int>(rng.below(static_cast<unsigned>(count))); }
std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::vector<Endurance> random_curve(Rng& rng) {
  if (rng.uniform() < .2) return {};
  return {{1.1 + .1 * rng.uniform(), 600},
          {1.25 + .2 * rng.uniform(), 15 + 60 * rng.uniform()},
          {1.6 + rng.uniform(), 1 + 10 * rng.uniform()}};
}

PoweredNode random_node(Rng& rng, std::vector<int> inlets) {
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
PowerTree random_tree(Rng& rng, int most_nodes = 34) {
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
std::vector<double> loads(const PowerTree& tree, const std::set<int>& failed,
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

struct Course {
  const PowerTree& tree;
  Sharing sharing;
  Rng rng;
  Breakers breakers;
  std::set<int> failed = {};
  std::vector<double> caps = {};
  int events = 0;

  std::vector<double> draw() const {
    std::vector<double> all = caps;  // the worst: all that they may
    for (std::size_t n = 0; n < all.size(); ++n) all[n] = std::max(all[n], tree.nodes[n].least_w);
    return all;
  }
  void pass(double seconds) { breakers.carry(loads(tree, failed, draw()), seconds); }
  // Caps are in effect so much later, each node at another moment of it.
  void follow() {
    const auto wanted = budgets(tree, failed, sharing);
    ASSERT_TRUE(wanted) << to_string(wanted.error());
    while (caps != wanted->watts) {
      const std::vector<double> to = on_the_way(caps, wanted->watts);
      std::vector<std::size_t> order;
      for (std::size_t n = 0; n < caps.size(); ++n) order.push_back(n);
      for (std::size_t n = order.size(); n > 1; --n) std::swap(order[n - 1], order[rng.below(n)]);
      pass(tree.react_s);  // nobody has heard it
      for (const std::size_t n : order) {
        caps[n] = to[n];
        pass(1e-3);
      }
    }
    pass(3'600);
  }
  void change() {
    const auto now = budgets(tree, failed, sharing);
    ASSERT_TRUE(now);
    std::vector<int> feeds;
    for (int p = 0; p < std::ssize(tree.points); ++p)
      if (tree.points[at(p)].parent < 0 && !failed.contains(p)) feeds.push_back(p);
    if (!failed.empty() && (feeds.size() == 1 || rng.uniform() < .5)) {
      failed.erase(failed.begin());
    } else {
      const int feed = feeds[rng.below(feeds.size())];
      if (std::ranges::count(now->unsafe, tree.points[at(feed)].name) > 0) return;
      failed.insert(feed);
    }
    ++events;
    follow();
  }
};

TEST(PowerTree, NoBreakerTripsWhicheverFeedFails) {
  int events = 0;
  for (int round = 0; round < test_rounds(500); ++round) {
    Rng rng(static_cast<std::uint64_t>(round) + 1);
    const PowerTree tree = random_tree(rng);
    ASSERT_TRUE(check_tree("tree", tree));
    for (const Sharing sharing : {Sharing::value, Sharing::fair}) {
      Course run{tree, sharing, rng.split(7), Breakers(tree)};
      for (const PoweredNode& node : tree.nodes) run.caps.push_back(node.least_w);
      run.follow();
      for (int n = 0; n < 8; ++n) run.change();
      ASSERT_LT(run.breakers.worst(), 1) << round;
      events += run.events;
    }
  }
  std::printf("%d feeds failed or came back\n", events);
}

// Max-min: who has less than the most is below a point that is full in some state, where nobody
// has more of his way.
TEST(PowerTree, FairIsMaxMin) {
  for (int round = 0; round < test_rounds(100); ++round) {
    Rng rng(static_cast<std::uint64_t>(round) + 1'000);
    const PowerTree tree = random_tree(rng);
    const auto found = budgets(tree, {}, Sharing::fair);
    ASSERT_TRUE(found);
    std::vector<double> part;
    for (std::size_t n = 0; n < tree.nodes.size(); ++n)
      part.push_back((found->watts[n] - tree.nodes[n].least_w) /
                     (tree.nodes[n].most_w - tree.nodes[n].least_w));
    std::vector<bool> blocked(tree.nodes.size());
    for (int feed = -1; feed < std::ssize(tree.points); ++feed) {
      if (feed >= 0 && tree.points[at(feed)].parent >= 0) continue;
      const std::set<int> failed = feed < 0 ? std::set<int>{} : std::set<int>{feed};
      const std::vector<double> load = loads(tree, failed, found->watts);
      for (std::size_t p = 0; p < load.size(); ++p) {
        const double most =
            feed < 0 ? tree.points[p].rating_w : bearable_w(tree.points[p], 2 * tree.react_s);
        if (load[p] < most * (1 - 1e-6)) continue;
        EXPECT_LE(load[p], most * (1 + 1e-6));
        std::vector<std::size_t> here;
        for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
          std::vector<double> one(tree.nodes.size());
          one[n] = 1;
          if (loads(tree, failed, one)[p] > 0) here.push_back(n);
        }
        double highest = 0;
        for (const std::size_t n : here) highest = std::max(highest, part[n]);
        for (const std::size_t n : here) blocked[n] = blocked[n] || part[n] >= highest - 1e-6;
      }
    }
    for (std::size_t n = 0; n < tree.nodes.size(); ++n)
      EXPECT_TRUE(blocked[n] || part[n] > 1 - 1e-9) << round << " node " << n << " has " << part[n];
  }
}

#ifdef PARTITA_HAVE_CBC
// The most that budgets can be worth.
std::optional<double> bound(const PowerTree& tree) {
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

TEST(PowerTree, ValueIsTheBoundOfTheLinearProgramme) {
  double worst = 1, fair = 0;
  int compared = 0;
  for (int round = 0; round < test_rounds(500); ++round) {
    Rng rng(static_cast<std::uint64_t>(round) + 1);
    const PowerTree tree = random_tree(rng);
    const auto found = budgets(tree, {}, Sharing::value);
    ASSERT_TRUE(found);
    ASSERT_TRUE(found->unsafe.empty());
    const std::optional<double> most = bound(tree);
    ASSERT_TRUE(most);
    EXPECT_GE(found->value, .98 * *most) << round;
    EXPECT_LE(found->value, *most * (1 + 1e-6)) << round;
    worst = std::min(worst, found->value / *most);
    fair += budgets(tree, {}, Sharing::fair)->value / *most;
    ++compared;
  }
  std::printf("%d trees: at least %.6f of the bound; fair sharing %.3f\n", compared, worst,
              fair / std::max(1, compared));
}

TEST(PowerTree, FourHundredNodes) {
  Rng rng(3);
  PowerTree tree = random_tree(rng, 400);
  while (tree.nodes.size() < 350) tree = random_tree(rng, 400);
  const auto found = budgets(tree, {}, Sharing::value);
  ASSERT_TRUE(found) << to_string(found.error());
  EXPECT_NEAR(found->value / *bound(tree), 1, 1e-6);
}
#endif

}  // namespace
}  // namespace partita::power
