// Power of a fleet: the tree of feeds, PDUs and racks that people write, and what its leader lets
// each node draw. planners/power/tree.h divides; here is how that comes about step by step:
// - Budgets go down first, and up once every node that is there has said that it holds to its.
// - A node that is not there may draw what it was told, or could still have had then, at the most.
// - Beside `watts` a node has `alone_w`, safe whichever feed fails next. It falls to that by itself
//   when the store is silent, and when other feeds are dead than its budget was made for: so the
//   time until caps are in effect needs no leader.
// Pure; PowerBrain remembers its last division only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "planners/power/tree.h"

namespace partita::fleet {

struct FleetView;

struct FleetPoint {
  std::string name, under = {};  // empty: it is a feed
  double rating_w = 0;
  std::vector<power::Endurance> curve = {};
  bool operator==(const FleetPoint&) const = default;
};
struct FleetLoad {
  std::string node;
  std::vector<std::string> inlets;
  double other_w = 0;              // that it draws beside its GPUs, at the most
  double least_w = 0, most_w = 0;  // of all of it
  std::vector<power::Worth> worth = {};
  bool operator==(const FleetLoad&) const = default;
};
// Written by people: what there is, and which points are dead now.
struct FleetPower {
  power::Sharing sharing = power::Sharing::fair;
  double react_s = 15;
  std::vector<FleetPoint> tree = {};  // empty: nodes have no budgets
  std::vector<FleetLoad> nodes = {};
  std::vector<std::string> failed = {};
  std::string by = {};
  bool operator==(const FleetPower&) const = default;
};
// Of each node of the tree the feed without which it has no power; empty: it has two.
std::map<std::string, std::string> feeds_of(const FleetPower& power);
// bad_input with `file`.
Result<power::PowerTree> tree_of(const std::string& file, const FleetPower& power);

struct NodeBudget {
  std::string node;
  double watts = 0, alone_w = 0;
  double may_w = 0, may_alone_w = 0;  // that it may have until it says that it holds to those
  long since = 0;                     // revision from which on these are its watts
  std::string limited_by = {};        // why it has not more; empty: it has all that it can draw
  bool operator==(const NodeBudget&) const = default;
};
// Written by the leader.
struct FleetBudgets {
  long revision = 0;
  std::string by = {};
  std::vector<std::string> failed = {};  // points that they are made for
  std::vector<NodeBudget> nodes = {};    // by name
  std::vector<std::string> unsafe = {};  // feeds whose failure the rest would not bear
  std::string over = {};                 // what does not hold, a sentence; empty: all does
  double value = 0;
  bool operator==(const FleetBudgets&) const = default;
};

class PowerBrain {
 public:
  // What is to be written; none: all is as it shall be. bad_input: the tree is none.
  Result<std::optional<FleetBudgets>> decide(const FleetView& view, const std::string& leader);

 private:
  struct Seen {
    FleetPower power;
    power::PowerTree tree;  // with who is held
    bool operator==(const Seen& other) const;
  };
  struct Shares {
    power::Budgets budgets;
    std::string over;
  };
  void divide(const Seen& seen, const std::set<int>& failed);

  std::optional<Seen> seen_;  // of `shares_`
  Shares shares_;
};

// ---- of a node

// What a node was told last; on its disk.
struct HeldBudget {
  long revision = 0;
  double watts = 0, alone_w = 0, least_w = 0, other_w = 0, react_s = 0;
  bool of_others = false;  // made for other dead points than there are, or nobody knows
  std::string boot = {};   // of the node, when it was written down
  bool operator==(const HeldBudget&) const = default;
};
// What the view tells a node that holds to `held`: newer, or the same; none: it has no budget. Of a
// store that has lost the budgets, or who draws from what, it stays, for others than there are.
std::optional<HeldBudget> budget_of(const FleetView& view, const std::string& node,
                                    const std::optional<HeldBudget>& held);
// What its GPUs may draw together, the store having been silent for so long.
double gpu_watts(const HeldBudget& held, double silent_s);

std::string write(const FleetPower& value);
std::string write(const FleetBudgets& value);
std::string write(const HeldBudget& value);
Result<FleetPower> parse_power(const std::string& key, std::string_view text);
Result<FleetBudgets> parse_budgets(const std::string& key, std::string_view text);
Result<HeldBudget> parse_held_budget(const std::string& file, std::string_view text);
// The key `power` of a file that people write.
Result<FleetPower> read_power(const Document& document, const Node& object);
std::vector<DocumentKind> power_kinds();

}  // namespace partita::fleet
