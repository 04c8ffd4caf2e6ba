#include "planners/power/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/index.h"
#include "planners/serving/simplex.h"

namespace partita::power {
namespace {

constexpr double kSlack = 1e-9;  // of a rating
constexpr double kMargin = 2;    // of a breaker's time at least so much is left

int feed_of(const PowerTree& tree, int point) {
  while (tree.points[at(point)].parent >= 0) point = tree.points[at(point)].parent;
  return point;
}

bool dead(const PowerTree& tree, const std::set<int>& failed, int point) {
  for (; point >= 0; point = tree.points[at(point)].parent)
    if (failed.contains(point)) return true;
  return false;
}

// The sum of some nodes' shares is at most that.
struct Row {
  int point = 0;
  std::map<std::size_t, double> shares;  // by node
  double most = 0;
  int then = -1;  // the point that has changed before
};

std::vector<Row> loads_of(const PowerTree& tree, const std::set<int>& failed) {
  std::vector<Row> rows;
  for (int p = 0; p < std::ssize(tree.points); ++p) rows.push_back({p, {}, 0, -1});
  for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
    std::vector<int> live = tree.nodes[n].inlets;
    std::erase_if(live, [&](int inlet) { return dead(tree, failed, inlet); });
    for (const int inlet : live)
      for (int p = inlet; p >= 0; p = tree.points[at(p)].parent)
        rows[at(p)].shares[n] += 1.0 / static_cast<double>(live.size());
  }
  return rows;
}

double sum_of(const Row& row, const std::vector<double>& watts) {
  double sum = 0;
  for (const auto& [node, share] : row.shares) sum += share * watts[node];
  return sum;
}

std::vector<double> each_of(const PowerTree& tree, double PoweredNode::*watts) {
  std::vector<double> all;
  for (const PoweredNode& node : tree.nodes) all.push_back(node.*watts);
  return all;
}

// The first row that the watts overfill, or none.
const Row* overfull(const std::vector<Row>& rows, const std::vector<double>& watts) {
  for (const Row& row : rows)
    if (sum_of(row, watts) > row.most * (1 + kSlack)) return &row;
  return nullptr;
}

// What holds now, and in the moment after each feed that may fail, or come back, next.
struct Limits {
  std::vector<Row> rows, alone;  // alone: for who is told nothing then
  std::vector<std::string> unsafe;
};

// Dead points and those that will be, once one of them has changed.
std::vector<std::pair<int, std::set<int>>> next_states(const PowerTree& tree,
                                                       const std::set<int>& failed) {
  std::vector<std::pair<int, std::set<int>>> all;
  for (int p = 0; p < std::ssize(tree.points); ++p) {
    const bool back = failed.contains(p);
    if (!back && tree.points[at(p)].parent >= 0) continue;
    std::set<int> then = failed;
    if (back)
      then.erase(p);
    else
      then.insert(p);
    all.emplace_back(p, std::move(then));
  }
  return all;
}

std::vector<Row> rows_of(const PowerTree& tree, const std::set<int>& failed, double seconds) {
  std::vector<Row> rows = loads_of(tree, failed);
  for (Row& row : rows) row.most = bearable_w(tree.points[at(row.point)], seconds);
  return rows;
}

constexpr double kForEver = std::numeric_limits<double>::infinity();

// Of `now` nodes are at what they may draw, of `tree` at what they fall to.
Limits limits_of(const PowerTree& tree, const PowerTree& now, const std::set<int>& failed) {
  const std::vector<double> least = each_of(tree, &PoweredNode::least_w),
                            floor = each_of(now, &PoweredNode::least_w);
  Limits limits{rows_of(tree, failed, kForEver), {}, {}};
  limits.alone = limits.rows;
  for (const auto& [point, then] : next_states(tree, failed)) {
    std::vector<Row> rest = rows_of(tree, then, kForEver);
    if (overfull(rest, floor) != nullptr && !failed.contains(point))
      limits.unsafe.push_back(tree.points[at(point)].name);
    if (overfull(rest, least) != nullptr) continue;  // no cap helps
    for (Row& row : rest) limits.alone.push_back(std::move(row));
    for (Row& row : rows_of(tree, then, kMargin * tree.react_s)) {
      row.then = point;
      limits.rows.push_back(std::move(row));
    }
  }
  return limits;
}

// Rows that could be full at all.
void drop_idle(const PowerTree& tree, std::vector<Row>& rows) {
  const std::vector<double> most = each_of(tree, &PoweredNode::most_w);
  std::erase_if(rows, [&](const Row& row) { return sum_of(row, most) <= row.most; });
}

// Raises nodes from `watts` towards `tops`, all by the same part of their way, as far as rows let
// each.
void fill(const std::vector<Row>& rows, const std::vector<double>& tops,
          std::vector<double>& watts) {
  std::vector<double> way(watts.size());
  for (std::size_t n = 0; n < watts.size(); ++n) way[n] = std::max(0.0, tops[n] - watts[n]);
  double left = 1;  // of everybody's way
  while (left > 0 && std::ranges::any_of(way, [](double w) { return w > 0; })) {
    double part = left;
    for (const Row& row : rows)
      if (const double more = sum_of(row, way); more > 0)
        part = std::min(part, std::max(0.0, row.most - sum_of(row, watts)) / more);
    for (std::size_t n = 0; n < watts.size(); ++n) watts[n] += part * way[n];
    left -= part;
    for (const Row& row : rows)
      if (sum_of(row, way) > 0 && sum_of(row, watts) >= row.most * (1 - kSlack))
        for (const auto& [node, share] : row.shares) way[node] = 0;
  }
}

// The watts at which a node's worth changes, from its least on, and what they are worth there.
std::vector<std::pair<double, double>> corners_of(const PoweredNode& node) {
  std::vector<std::pair<double, double>> corners = {{node.least_w, 0}};
  for (const Worth& worth : node.worth) {
    const double to = std::min(worth.to_w, node.most_w);
    const auto [from, value] = corners.back();
    if (to > from) corners.emplace_back(to, value + (to - from) * worth.per_w);
  }
  return corners;
}

double value_of(const PoweredNode& node, double watts) {
  const auto corners = corners_of(node);
  for (std::size_t c = 1; c < corners.size(); ++c) {
    const auto [from, low] = corners[c - 1];
    const auto [to, high] = corners[c];
    if (watts < to) return low + std::max(0.0, watts - from) * (high - low) / (to - from);
  }
  return corners.back().second;
}

// A column per corner of a node, of which it takes a mixture; a slack per row.
void solve(const PowerTree& tree, const std::vector<Row>& rows, std::vector<double>& watts) {
  const std::size_t nodes = tree.nodes.size();
  std::vector<double> right(nodes, 1);
  for (const Row& row : rows) right.push_back(row.most);
  planners::serving::Simplex simplex(right);
  std::vector<std::size_t> basis;
  std::vector<std::vector<std::pair<std::size_t, double>>> columns(nodes);  // of each: at watts
  for (std::size_t n = 0; n < nodes; ++n) {
    for (const auto& [at_w, value] : corners_of(tree.nodes[n])) {
      std::vector<double> entries(right.size());
      entries[n] = 1;
      for (std::size_t r = 0; r < rows.size(); ++r)
        if (const auto share = rows[r].shares.find(n); share != rows[r].shares.end())
          entries[nodes + r] = share->second * at_w;
      columns[n].emplace_back(simplex.add(-value, entries), at_w);
    }
    basis.push_back(columns[n].front().first);
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::vector<double> entries(right.size());
    entries[nodes + r] = 1;
    basis.push_back(simplex.add(0, entries));
  }
  simplex.start(basis);
  simplex.optimise();
  for (std::size_t n = 0; n < nodes; ++n) {
    watts[n] = 0;
    for (const auto& [column, at_w] : columns[n]) watts[n] += simplex.value(column) * at_w;
    watts[n] = std::clamp(watts[n], tree.nodes[n].least_w, tree.nodes[n].most_w);
  }
}

bool powered(const PowerTree& tree, const std::set<int>& failed, const PoweredNode& node) {
  return std::ranges::any_of(node.inlets, [&](int inlet) { return !dead(tree, failed, inlet); });
}

// A node that is dark takes its least when it comes back, and has no more before it is told.
PowerTree with_dark_nodes(PowerTree tree, const std::set<int>& failed) {
  for (PoweredNode& node : tree.nodes)
    if (!powered(tree, failed, node)) node.most_w = node.least_w;
  return tree;
}

// Who can be told nothing has what he may draw.
PowerTree with_held_nodes(PowerTree tree) {
  for (PoweredNode& node : tree.nodes)
    if (node.held_w && node.most_w > node.least_w) node.least_w = node.most_w = *node.held_w;
  return tree;
}

std::vector<Full> full_of(const PowerTree& tree, const std::vector<Row>& rows,
                          const std::vector<double>& watts) {
  constexpr double kFull = 1e-6;
  std::vector<Full> full(watts.size());
  for (const Row& row : rows)
    if (sum_of(row, watts) >= row.most * (1 - kFull))
      for (const auto& [node, share] : row.shares)
        if (full[node].point < 0 && watts[node] < tree.nodes[node].most_w)
          full[node] = {row.point, row.then};
  return full;
}

Result<void> fault(const std::string& file, const std::string& name, const char* what) {
  return bad_input(file, fmt::format("'{}': {}", name, what));
}

Result<void> check_point(const std::string& file, const PowerTree& tree, int index) {
  const SupplyPoint& point = tree.points[at(index)];
  if (point.parent < -1 || point.parent >= index)
    return fault(file, point.name, "its parent is to be a point before it");
  if (!(point.rating_w > 0)) return fault(file, point.name, "its rating is to be above 0 W");
  for (std::size_t e = 0; e < point.curve.size(); ++e) {
    const Endurance& one = point.curve[e];
    if (!(one.load > (e == 0 ? 1 : point.curve[e - 1].load)) || !(one.seconds > 0) ||
        (e > 0 && one.seconds > point.curve[e - 1].seconds))
      return fault(file, point.name, "loads of its curve grow from 1 on, and times fall");
  }
  return {};
}

Result<void> check_node(const std::string& file, const PowerTree& tree, const PoweredNode& node) {
  std::set<int> feeds;
  for (const int inlet : node.inlets) {
    if (inlet < 0 || inlet >= std::ssize(tree.points))
      return fault(file, node.name, "no such point");
    if (!feeds.insert(feed_of(tree, inlet)).second)
      return fault(file, node.name, "two inlets at one feed");
  }
  if (feeds.empty()) return fault(file, node.name, "no inlet");
  if (!(node.least_w >= 0 && node.most_w >= node.least_w))
    return fault(file, node.name,
                 "its watts are to be 0 at least, and the most not below the least");
  for (std::size_t w = 1; w < node.worth.size(); ++w)
    if (!(node.worth[w].to_w > node.worth[w - 1].to_w) ||
        node.worth[w].per_w > node.worth[w - 1].per_w)
      return fault(file, node.name, "watts of its worth grow, and what they are worth falls");
  return {};
}

}  // namespace

Result<void> check_tree(const std::string& file, const PowerTree& tree) {
  for (int p = 0; p < std::ssize(tree.points); ++p) TRY(check_point(file, tree, p));
  for (const PoweredNode& node : tree.nodes) TRY(check_node(file, tree, node));
  return {};
}

double bearable_w(const SupplyPoint& point, double seconds) {
  double load = 1;
  for (const Endurance& one : point.curve)
    if (one.seconds >= seconds) load = one.load;
  return load * point.rating_w;
}

Result<Budgets> budgets(const PowerTree& all, const std::set<int>& failed, Sharing sharing) {
  const PowerTree tree = with_dark_nodes(all, failed);
  const PowerTree now = with_held_nodes(tree);
  Limits limits = limits_of(tree, now, failed);
  Budgets found{each_of(now, &PoweredNode::least_w)};
  found.unsafe = std::move(limits.unsafe);
  if (const Row* row = overfull(limits.rows, found.watts))
    return partita::failed({ErrorCode::infeasible, "not even the least of all nodes fits",
                            tree.points[at(row->point)].name});
  drop_idle(now, limits.rows);
  if (sharing == Sharing::fair)
    fill(limits.rows, each_of(now, &PoweredNode::most_w), found.watts);
  else if (limits.rows.size() + tree.nodes.size() > kMostRows)
    return partita::failed(
        {ErrorCode::not_supported, "too large a tree to be shared by value", ""});
  else
    solve(now, limits.rows, found.watts);
  found.full = full_of(now, limits.rows, found.watts);
  found.alone = each_of(tree, &PoweredNode::least_w);
  std::vector<double> tops = found.watts;
  for (std::size_t n = 0; n < tops.size(); ++n)
    if (tree.nodes[n].held_w) tops[n] = found.alone[n];
  fill(limits.alone, tops, found.alone);
  for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
    const bool live = powered(tree, failed, tree.nodes[n]);
    if (!live) found.watts[n] = found.alone[n] = 0;
    if (live) found.value += value_of(tree.nodes[n], found.watts[n]);
  }
  return found;
}

}  // namespace partita::power
