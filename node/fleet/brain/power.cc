#include "fleet/brain/power.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "fleet/brain/view.h"

namespace partita::fleet {
namespace {

constexpr double kStepW = 1;          // budgets are whole watts
constexpr double kSilentShare = 0.5;  // of react_s, after which silence counts

// What a node has, and by what it is to be steered.
struct Level {
  double watts = 0, alone = 0;
  bool operator==(const Level&) const = default;
};
Level lower(const Level& a, const Level& b) {
  return {std::min(a.watts, b.watts), std::min(a.alone, b.alone)};
}
Level higher(const Level& a, const Level& b) {
  return {std::max(a.watts, b.watts), std::max(a.alone, b.alone)};
}

// A node in a decision.
struct At {
  const FleetLoad* load = nullptr;
  double least = 0;  // that it is held to: its boards take no less, whatever was written
  bool there = false, dark = false, heard = false;
  Level told, may, wanted;
  long since = 0;
};

std::set<int> failed_of(const FleetPower& power) {
  std::set<int> failed;
  for (std::size_t p = 0; p < power.tree.size(); ++p)
    if (std::ranges::count(power.failed, power.tree[p].name) > 0)
      failed.insert(static_cast<int>(p));
  return failed;
}

bool is_dark(const power::PowerTree& tree, const std::set<int>& failed, std::size_t node) {
  return std::ranges::all_of(tree.nodes[node].inlets, [&](int point) {
    for (; point >= 0; point = tree.points[static_cast<std::size_t>(point)].parent)
      if (failed.contains(point)) return true;
    return false;
  });
}

// The newest revision that anybody knows.
long newest(const FleetView& view) {
  long revision = view.budgets ? view.budgets->revision : 0;
  for (const auto& [name, node] : view.nodes) revision = std::max(revision, node.holds_budget);
  return revision;
}

// Whether the store has the budgets that nodes hold to: one that was put back to an older state
// says nothing of what they may draw now.
bool is_newest(const FleetView& view) {
  return view.budgets && view.budgets->revision == newest(view);
}

// What is known of each node of the tree, in its order.
std::vector<At> look(const FleetView& view, const power::PowerTree& tree,
                     const std::set<int>& failed) {
  std::map<std::string, const NodeBudget*> before;
  if (is_newest(view))
    for (const NodeBudget& one : view.budgets->nodes) before[one.node] = &one;
  std::vector<At> all;
  for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
    const FleetLoad& load = view.power->nodes[n];
    At& at = all.emplace_back();
    at.load = &load;
    at.dark = is_dark(tree, failed, n);
    const auto record = view.nodes.find(load.node);
    at.there = record != view.nodes.end();
    at.least = load.least_w;
    if (at.there) at.least = std::max(at.least, record->second.least_gpu_w + load.other_w);
    at.told = {at.least, at.least};
    at.may = {load.most_w, load.most_w};  // as long as nobody told it anything
    if (const auto known = before.find(load.node); known != before.end()) {
      const NodeBudget& one = *known->second;
      at.told = higher(at.told, {one.watts, one.alone_w});
      at.may = higher(at.told, {one.may_w, one.may_alone_w});
      at.since = one.since;
      at.heard = at.there && record->second.holds_budget >= one.since;
      if (at.heard) at.may = at.told;
    }
  }
  return all;
}

Level rounded(double watts, double alone, double least) {
  return {std::max(std::floor(watts / kStepW) * kStepW, least),
          std::max(std::floor(alone / kStepW) * kStepW, least)};
}

// What to tell a node now: less first; more once none that is there may draw more than it shall
// have. One that cannot say that it holds to less keeps nobody from what is divided with it.
std::vector<Level> next_levels(const std::vector<At>& nodes) {
  std::vector<Level> less, wanted;
  bool down = true;
  for (const At& at : nodes) {
    const bool told_nothing = !at.there && !at.dark;
    wanted.push_back(told_nothing ? at.told : at.wanted);
    less.push_back(told_nothing ? at.told : lower(at.told, at.wanted));
    down = down && (told_nothing || at.dark || at.may == lower(at.may, at.wanted));
  }
  return down ? wanted : less;
}

std::string limit_text(const FleetPower& power, const power::Full& full) {
  const auto name = [&](int point) { return power.tree[static_cast<std::size_t>(point)].name; };
  if (full.point < 0) return {};
  if (full.then < 0) return name(full.point);
  const bool back = std::ranges::count(power.failed, name(full.then)) > 0;
  return fmt::format("{} once {} {}", name(full.point), name(full.then),
                     back ? "is back" : "fails");
}

}  // namespace

std::map<std::string, std::string> feeds_of(const FleetPower& power) {
  std::map<std::string, std::string> of_point, of_node;
  for (const FleetPoint& one : power.tree)  // points come after what they are under
    of_point[one.name] = one.under.empty() ? one.name : of_point[one.under];
  for (const FleetLoad& load : power.nodes) {
    std::set<std::string> feeds;
    for (const std::string& inlet : load.inlets) feeds.insert(of_point[inlet]);
    of_node[load.node] = feeds.size() == 1 ? *feeds.begin() : "";
  }
  return of_node;
}

Result<power::PowerTree> tree_of(const std::string& file, const FleetPower& power) {
  power::PowerTree tree;
  tree.react_s = power.react_s;
  std::map<std::string, int> points;
  const auto find = [&](const std::string& of, const std::string& name) -> Result<int> {
    const auto found = points.find(name);
    if (found != points.end()) return found->second;
    return bad_input(file, fmt::format("'{}': there is no point '{}' before it", of, name));
  };
  for (const FleetPoint& one : power.tree) {
    power::SupplyPoint point{one.name, -1, one.rating_w, one.curve};
    if (!one.under.empty()) {
      const auto parent = find(one.name, one.under);
      if (!parent) return failed(parent.error());
      point.parent = *parent;
    }
    if (!points.emplace(one.name, static_cast<int>(tree.points.size())).second)
      return bad_input(file, fmt::format("two points are called '{}'", one.name));
    tree.points.push_back(std::move(point));
  }
  std::set<std::string> names;
  for (const FleetLoad& one : power.nodes) {
    if (points.contains(one.node))
      return bad_input(file, fmt::format("'{}' is a node and a point of supply: `drain {}` is to "
                                         "mean one of them",
                                         one.node, one.node));
    power::PoweredNode node{one.node, {}, one.least_w, one.most_w, one.worth};
    if (!names.insert(one.node).second)
      return bad_input(file, fmt::format("node '{}' is there twice", one.node));
    if (one.other_w > one.least_w)
      return bad_input(file, fmt::format("node '{}': other_w is part of least_w", one.node));
    for (const std::string& name : one.inlets) {
      const auto inlet = find(one.node, name);
      if (!inlet) return failed(inlet.error());
      node.inlets.push_back(*inlet);
    }
    if (node.worth.empty()) node.worth = {{one.most_w, 1}};
    tree.nodes.push_back(std::move(node));
  }
  for (const std::string& name : power.failed)
    if (const auto point = find("failed", name); !point) return failed(point.error());
  if (auto fine = power::check_tree(file, tree); !fine) return failed(fine.error());
  return tree;
}

bool PowerBrain::Seen::operator==(const Seen& other) const {
  return power == other.power &&
         std::ranges::equal(tree.nodes, other.tree.nodes, [](const auto& a, const auto& b) {
           return a.held_w == b.held_w && a.least_w == b.least_w;
         });
}

void PowerBrain::divide(const Seen& seen, const std::set<int>& failed) {
  if (seen_ == seen) return;
  shares_ = {};
  auto found = power::budgets(seen.tree, failed, seen.power.sharing);
  if (!found && found.error().code == ErrorCode::not_supported) {
    shares_.over = to_string(found.error()) + ": shared fairly";
    found = power::budgets(seen.tree, failed, power::Sharing::fair);
  }
  if (found) {
    shares_.budgets = *std::move(found);
  } else {
    shares_.over = to_string(found.error());
    for (const power::PoweredNode& node : seen.tree.nodes) {
      shares_.budgets.watts.push_back(node.least_w);
      shares_.budgets.alone.push_back(node.least_w);
    }
    shares_.budgets.full.resize(seen.tree.nodes.size());
  }
  seen_ = seen;
}

Result<std::optional<FleetBudgets>> PowerBrain::decide(const FleetView& view,
                                                       const std::string& leader) {
  if (!view.power) return std::optional<FleetBudgets>{};
  auto tree = tree_of("power", *view.power);
  if (!tree) return failed(tree.error());
  const std::set<int> dead = failed_of(*view.power);
  std::vector<At> nodes = look(view, *tree, dead);
  Seen seen{*view.power, *std::move(tree)};
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    power::PoweredNode& node = seen.tree.nodes[n];
    node.least_w = nodes[n].least;
    node.most_w = std::max(node.most_w, node.least_w);
    if (nodes[n].there || nodes[n].dark) continue;
    node.held_w = nodes[n].may.watts;
    node.least_w = std::min(nodes[n].may.alone, nodes[n].may.watts);
    node.most_w = std::max(node.most_w, nodes[n].may.watts);
  }
  divide(seen, dead);
  FleetBudgets next{.by = leader, .failed = view.power->failed};
  next.unsafe = shares_.budgets.unsafe;
  next.over = shares_.over;
  next.value = shares_.budgets.value;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    At& at = nodes[n];
    at.wanted = at.dark ? Level{at.least, at.least}
                        : rounded(shares_.budgets.watts[n], shares_.budgets.alone[n], at.least);
    if (!next.over.empty() && !at.there && !at.dark)
      next.over +=
          fmt::format("; {} is not there, and counts with {:.0f} W", at.load->node, at.may.watts);
    if (at.least > at.load->least_w)
      next.over +=
          fmt::format("{}{} takes {:.0f} W at the least, not {:.0f}", next.over.empty() ? "" : "; ",
                      at.load->node, at.least, at.load->least_w);
  }
  const std::vector<Level> levels = next_levels(nodes);
  next.revision = newest(view) + 1;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const At& at = nodes[n];
    const Level may = at.dark ? levels[n] : higher(at.may, levels[n]);
    const bool same = at.told == levels[n] && at.since > 0;
    next.nodes.push_back({at.load->node, levels[n].watts, levels[n].alone, may.watts, may.alone,
                          same ? at.since : next.revision,
                          limit_text(*view.power, shares_.budgets.full[n])});
  }
  std::ranges::sort(next.nodes, {}, &NodeBudget::node);
  if (!is_newest(view)) return std::optional(next);
  // That nodes hold to what they were told is written down with the next step.
  FleetBudgets as_before = next;
  as_before.revision = view.budgets->revision;
  as_before.by = view.budgets->by;
  for (std::size_t n = 0; n < as_before.nodes.size() && n < view.budgets->nodes.size(); ++n)
    as_before.nodes[n].may_w = view.budgets->nodes[n].may_w,
    as_before.nodes[n].may_alone_w = view.budgets->nodes[n].may_alone_w;
  return as_before == *view.budgets ? std::optional<FleetBudgets>{} : std::optional(next);
}

std::optional<HeldBudget> budget_of(const FleetView& view, const std::string& node,
                                    const std::optional<HeldBudget>& held) {
  if (!view.budgets || (held && view.budgets->revision < held->revision)) {
    std::optional<HeldBudget> old = held;
    if (old) old->of_others = true;
    return old;
  }
  const auto budget = std::ranges::find(view.budgets->nodes, node, &NodeBudget::node);
  if (budget == view.budgets->nodes.end()) return {};
  HeldBudget now = held.value_or(HeldBudget{});
  now.revision = view.budgets->revision;
  now.watts = budget->watts;
  now.alone_w = budget->alone_w;
  now.of_others = !view.power || view.power->failed != view.budgets->failed;
  if (!view.power) return now;
  now.react_s = view.power->react_s;
  const auto load = std::ranges::find(view.power->nodes, node, &FleetLoad::node);
  if (load == view.power->nodes.end()) return now;
  now.least_w = load->least_w;
  now.other_w = load->other_w;
  return now;
}

double gpu_watts(const HeldBudget& held, double silent_s) {
  const bool alone = held.of_others || silent_s >= kSilentShare * held.react_s;
  return std::max(0.0, (alone ? std::min(held.alone_w, held.watts) : held.watts) - held.other_w);
}

}  // namespace partita::fleet
