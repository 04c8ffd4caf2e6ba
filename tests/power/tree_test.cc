// Budgets of trees of power: random ones with two feeds and more, whose feeds fail and come back.
// The judge keeps every breaker's heat by itself; the value is compared with a linear programme of
// another form (a variable per step of worth), solved by CBC.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "base/test_rounds.h"
#include "power_oracle.h"

namespace partita::power {
namespace {

// From caps that hold to others, where nodes take theirs at different times: first down, and up
// once every node is down.
std::vector<double> on_the_way(const std::vector<double>& now, const std::vector<double>& wanted) {
  std::vector<double> lower;
  for (std::size_t n = 0; n < now.size(); ++n) lower.push_back(std::min(now[n], wanted[n]));
  return lower == now ? wanted : lower;
}

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
