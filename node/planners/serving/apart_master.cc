#include "planners/serving/apart_master.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/index.h"
#include "planners/serving/simplex.h"

namespace partita::planners::serving {
namespace {

// Price of a GPU beyond a bounded supply: above any saving that it could bring.
constexpr double kBeyondPrice = 1e4;
// Right-hand sides of cells are moved apart by about that much, against degenerate pivots.
constexpr double kStagger = 1e-7;
// More instances than that fit on no GPU.
constexpr int kMostPerGpu = 64;

Counts plus(Counts a, const Counts& b) {
  for (std::size_t k = 0; k < a.size(); ++k) a[k] += b[k];
  return a;
}

}  // namespace

Kind less(Kind kind, const Counts& placed, int classes) {
  const bool done = cover_within(kind, placed, classes).has_value();
  const auto reduce = [&](Mode& mode) {
    for (std::size_t k = 0; k < at(classes); ++k) mode.demand -= placed[k] * mode.rate[k];
    mode.demand = done ? 0 : std::max(mode.demand, 0.0);
  };
  reduce(kind);
  for (Mode& mode : kind.others) reduce(mode);
  const int number = total(placed);
  kind.min_count = !done && kind.min_count > number ? kind.min_count - number : 0;
  if (kind.max_count != INT32_MAX) kind.max_count = std::max(0, kind.max_count - number);
  return kind;
}

// Rows: cells, units, then per model its supply, and its bound where it has one.
class ApartMaster::Program {
 public:
  Program(ApartMaster& master, const ApartNode& node)
      : master_(master),
        problem_(master.problem_),
        node_(node),
        cells_(master.cells_.size()),
        units_(problem_.units.size()),
        models_(node.supply.size()),
        needs_(master.needs(node)),
        simplex_(right_hand_sides()) {
    add_slacks();
    for (std::size_t u = 0; u < units_; ++u) {
      placed_.push_back(placed_for(u));
      left_.push_back(less(problem_.units[u], placed_[u], problem_.fleet->classes));
      add_known_covers(u);
    }
    for (const Pattern& pattern : master.patterns_) {
      const bool usable = may_be_used(pattern);
      if (usable || pattern.cells.size() == 1) add_pattern(pattern, usable ? 0 : kBeyondPrice);
    }
    start();
  }

  ApartSolution solve(const Enough& enough) {
    ApartSolution result;
    result.bound = -std::numeric_limits<double>::infinity();
    for (result.rounds = 1; result.rounds <= kMasterRounds; ++result.rounds) {
      simplex_.optimise();
      result.value = simplex_.objective();
      const double bound = add_round();
      if (bound > result.bound) {
        result.bound = bound;
        result.prices = prices_;
        result.model_prices = worth_;
      }
      if (!grown_ || result.value - result.bound < 1e-9 * (1 + std::abs(result.value)) ||
          enough(result.bound, result.value))
        break;
    }
    for (const auto& [pattern, column] : pattern_columns_)
      if (simplex_.value(column) > 1e-9)
        result.patterns.emplace_back(pattern, simplex_.value(column));
    result.covers.resize(units_);
    for (const auto& [unit, counts, column] : cover_columns_)
      if (simplex_.value(column) > 1e-9)
        result.covers[unit].emplace_back(plus(counts, placed_[unit]), simplex_.value(column));
    return result;
  }

 private:
  struct CoverColumn {
    std::size_t unit;
    Counts counts;
    std::size_t column;
  };

  bool within(std::size_t u, const Counts& counts) const {
    return total(counts) <= left_[u].max_count;
  }
  std::size_t rows() const { return cells_ + units_ + models_ + bounded_.size(); }
  std::size_t unit_row(std::size_t u) const { return cells_ + u; }
  std::size_t model_row(std::size_t m) const { return cells_ + units_ + m; }
  std::vector<double> no_entries() const { return std::vector<double>(rows(), 0); }

  std::vector<double> right_hand_sides() {
    std::vector<double> rhs;
    for (std::size_t r = 0; r < cells_; ++r) {
      const double stagger = kStagger * (1 + 0.618034 * static_cast<double>(r * r % 97));
      rhs.push_back(shared(r) + stagger);
    }
    rhs.resize(cells_ + units_, 1.0);
    for (const Supply& supply : node_.supply) rhs.push_back(supply.free);
    for (std::size_t m = 0; m < models_; ++m) {
      if (!std::isfinite(node_.supply[m].most)) continue;
      bounded_.push_back(m);
      rhs.push_back(node_.supply[m].most);
    }
    return rhs;
  }

  // Placed cells of a row that several units share.
  int shared(std::size_t r) const {
    const auto cell = at(master_.cells_[r]);
    const auto& members = master_.members_[cell / at(problem_.fleet->classes)];
    return members.size() == 1 ? 0 : node_.placed[cell];
  }

  void add_slacks() {
    for (std::size_t r = 0; r < rows(); ++r) {
      std::vector<double> entries = no_entries();
      entries[r] = 1;
      // The slack of a unit's row is never used; its price keeps it out.
      const bool unit = r >= cells_ && r < cells_ + units_;
      simplex_.add(unit ? kBeyondPrice * 100 : 0, entries);
    }
    for (std::size_t m = 0; m < models_; ++m) {
      const Supply& supply = node_.supply[m];
      std::vector<double> entries = no_entries();
      entries[model_row(m)] = -1;
      const bool bounded = std::isfinite(supply.most);
      beyond_.push_back(
          simplex_.add(bounded ? kBeyondPrice * (1 + supply.price) : supply.price, entries));
      if (!bounded) continue;
      const auto b = std::find(bounded_.begin(), bounded_.end(), m) - bounded_.begin();
      entries[model_row(models_) + static_cast<std::size_t>(b)] = 1;
      simplex_.add(supply.price, entries);
    }
  }

  std::size_t cell(std::size_t u, std::size_t k) const {
    return at(problem_.group[u] * problem_.fleet->classes) + k;
  }

  // What a unit alone in its group has; the others have nothing of their own.
  Counts placed_for(std::size_t u) const {
    Counts placed{};
    if (master_.alone(u))
      for (std::size_t k = 0; k < at(problem_.fleet->classes); ++k)
        placed[k] = node_.placed[cell(u, k)];
    return placed;
  }

  // A cover without what is placed.
  Counts rest(std::size_t u, Counts counts) const {
    for (std::size_t k = 0; k < counts.size(); ++k)
      counts[k] = std::max(0, counts[k] - placed_[u][k]);
    return counts;
  }

  // What is placed suffices.
  bool done(std::size_t u) const { return covers(left_[u], Counts{}, problem_.fleet->classes); }

  void add_known_covers(std::size_t u) {
    if (node_.cover[u]) return add_cover(u, rest(u, *node_.cover[u]));
    if (done(u)) return add_cover(u, Counts{});
    std::vector<Counts> known;
    for (const Counts& counts : master_.covers_[u]) known.push_back(rest(u, counts));
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    const bool some = std::any_of(known.begin(), known.end(),
                                  [&](const Counts& counts) { return within(u, counts); });
    for (const Counts& counts : known)
      if (!some || within(u, counts)) add_cover(u, counts);
  }

  // `counts` come on top of what is placed.
  void add_cover(std::size_t u, const Counts& counts) {
    std::vector<double> entries = no_entries();
    double gpcs = 0;
    for (std::size_t k = 0; k < at(problem_.fleet->classes); ++k) {
      if (counts[k] == 0) continue;
      gpcs += counts[k] * problem_.fleet->gpcs[k];
      entries[static_cast<std::size_t>(master_.row_[cell(u, k)])] += counts[k];
    }
    entries[unit_row(u)] = 1;
    cover_columns_.push_back({u, counts, simplex_.add(node_.gpc_price * gpcs, entries)});
  }

  bool may_be_used(const Pattern& pattern) const {
    return useful(pattern, needs_, *problem_.fleet) &&
           std::none_of(node_.banned.begin(), node_.banned.end(),
                        [&](const Pattern& banned) { return offers(banned, pattern); });
  }

  void add_pattern(const Pattern& pattern, double price) {
    std::vector<double> entries = no_entries();
    for (const int cell : pattern.cells)
      entries[static_cast<std::size_t>(master_.row_[at(cell)])] -= 1;
    entries[model_row(at(pattern.model))] = gpus_of(pattern, *problem_.fleet);
    pattern_columns_.emplace_back(pattern, simplex_.add(price, entries));
  }

  // A feasible basis: the first cover of every unit, a pattern of one cell where cells are missing,
  // slacks elsewhere.
  void start() {
    std::vector<std::size_t> basis(rows());
    for (std::size_t r = 0; r < rows(); ++r) basis[r] = r;
    std::vector<double> missing(cells_);
    for (std::size_t r = 0; r < cells_; ++r) missing[r] = -shared(r);
    std::vector<bool> seen(units_, false);
    for (const CoverColumn& cover : cover_columns_) {
      if (seen[cover.unit]) continue;
      seen[cover.unit] = true;
      basis[unit_row(cover.unit)] = cover.column;
      for (std::size_t r = 0; r < cells_; ++r) missing[r] += simplex_.entry(cover.column, r);
    }
    std::vector<double> used(models_, 0);
    for (const auto& [pattern, column] : pattern_columns_) {
      if (pattern.cells.size() != 1) continue;
      const auto r = static_cast<std::size_t>(master_.row_[at(pattern.cells[0])]);
      if (missing[r] <= 0.5) continue;
      basis[r] = column;
      used[at(pattern.model)] += gpus_of(pattern, *problem_.fleet) * missing[r];
    }
    for (std::size_t m = 0; m < models_; ++m)
      if (used[m] > node_.supply[m].free) basis[model_row(m)] = beyond_[m];
    simplex_.start(std::move(basis));
  }

  // Prices everything at the duals; adds the columns that improve; the Lagrangian bound.
  double add_round() {
    grown_ = false;
    const std::vector<double>& duals = simplex_.duals();
    prices_.assign(node_.placed.size(), 0);
    for (std::size_t r = 0; r < cells_; ++r)
      prices_[at(master_.cells_[r])] = std::max(0.0, -duals[r]);
    worth_.assign(models_, 0);
    std::vector<Pattern> fresh;
    for (std::size_t m = 0; m < models_; ++m) {
      const double floor = std::max(0.0, -duals[model_row(m)]);
      const PricedPatterns priced = best_patterns(
          *problem_.fleet, *problem_.groups,
          {static_cast<int>(m), &prices_, &needs_, &node_.banned, floor + 1e-9 * (1 + floor)});
      worth_[m] = priced.value;
      fresh.insert(fresh.end(), priced.patterns.begin(), priced.patterns.end());
    }
    scale();
    const double bound = add_covers() - paid();
    std::sort(fresh.begin(), fresh.end());
    fresh.erase(std::unique(fresh.begin(), fresh.end()), fresh.end());
    for (const Pattern& pattern : fresh) {
      grown_ = true;
      add_pattern(pattern, 0);
      master_.patterns_.push_back(pattern);
    }
    return bound;
  }

  // Cells of a model without bound may not be worth more than its price.
  void scale() {
    for (std::size_t m = 0; m < models_; ++m) {
      const Supply& supply = node_.supply[m];
      if (std::isfinite(supply.most) || worth_[m] <= supply.price) continue;
      const double factor = supply.price / worth_[m];
      for (std::size_t c = 0; c < prices_.size(); ++c)
        if (at(problem_.fleet->model_of[c % at(problem_.fleet->classes)]) == m)
          prices_[c] *= factor;
      worth_[m] = supply.price;
    }
  }

  // What free and bounded GPUs earn, and the placed cells are worth.
  double paid() const {
    double sum = 0;
    for (std::size_t m = 0; m < models_; ++m) {
      const Supply& supply = node_.supply[m];
      sum += supply.free * worth_[m];
      if (std::isfinite(supply.most)) sum += supply.most * std::max(0.0, worth_[m] - supply.price);
    }
    for (std::size_t r = 0; r < cells_; ++r) sum += prices_[at(master_.cells_[r])] * shared(r);
    return sum;
  }

  double add_covers() {
    const int classes = problem_.fleet->classes;
    double sum = 0;
    for (std::size_t u = 0; u < units_; ++u) {
      Prices prices{};
      for (std::size_t k = 0; k < at(classes); ++k)
        prices[k] = node_.gpc_price * problem_.fleet->gpcs[k] + prices_[cell(u, k)];
      if (node_.cover[u]) {
        sum += cost(rest(u, *node_.cover[u]), prices, classes);
        continue;
      }
      if (done(u)) continue;
      const PricedCover priced = cheapest_within(left_[u], prices, classes);
      sum += priced.bound;
      const double worth = simplex_.duals()[unit_row(u)];
      if (cost(priced.counts, prices, classes) >= worth - 1e-9 * (1 + std::abs(worth))) continue;
      if (!within(u, priced.counts)) continue;
      const Counts all = plus(priced.counts, placed_[u]);
      auto& known = master_.covers_[u];
      if (std::find(known.begin(), known.end(), all) != known.end()) continue;
      add_cover(u, priced.counts);
      known.push_back(all);
      grown_ = true;
    }
    return sum;
  }

  ApartMaster& master_;
  const ApartProblem& problem_;
  const ApartNode& node_;
  std::size_t cells_, units_, models_;
  const ApartNeeds needs_;
  std::vector<std::size_t> bounded_;  // models with a bounded supply; filled by right_hand_sides()
  Simplex simplex_;
  std::vector<Counts> placed_;       // per unit
  std::vector<Kind> left_;           // per unit, what it still needs
  std::vector<std::size_t> beyond_;  // per model, the column that supplies without bound
  std::vector<std::pair<Pattern, std::size_t>> pattern_columns_;
  std::vector<CoverColumn> cover_columns_;
  std::vector<double> prices_;  // per cell, of the last round
  std::vector<double> worth_;   // per model, of its best pattern
  bool grown_ = false;
};

ApartMaster::ApartMaster(const ApartProblem& problem) : problem_(problem) {
  const auto classes = at(problem.fleet->classes);
  row_.assign(problem.groups->count() * classes, -1);
  std::vector<bool> used(row_.size(), false);
  covers_.resize(problem.units.size());
  members_.resize(problem.groups->count());
  for (std::size_t u = 0; u < problem.units.size(); ++u)
    members_[at(problem.group[u])].push_back(u);
  for (std::size_t u = 0; u < problem.units.size(); ++u)
    for (std::size_t k = 0; k < classes; ++k)
      if (usable(problem.units[u], k)) used[at(problem.group[u]) * classes + k] = true;
  for (std::size_t c = 0; c < used.size(); ++c) {
    if (!used[c]) continue;
    row_[c] = static_cast<std::ptrdiff_t>(cells_.size());
    cells_.push_back(static_cast<int>(c));
    patterns_.push_back({problem.fleet->model_of[c % classes], {static_cast<int>(c)}});
  }
  for (std::size_t u = 0; u < problem.units.size(); ++u) {
    Prices prices = problem.fleet->gpcs;
    covers_[u].push_back(cheapest_cover(problem.units[u], prices, problem.fleet->classes).counts);
  }
}

// Instances of one class that a unit can use on one GPU, besides what it has.
int ApartMaster::most_useful(const ApartNode& node, std::size_t unit, std::size_t k,
                             const Counts& have) const {
  if (!usable(problem_.units[unit], k)) return 0;
  if (node.cover[unit]) return std::max(0, (*node.cover[unit])[k] - have[k]);
  Counts counts = have;
  int number = 0;
  while (number < kMostPerGpu &&
         !cover_within(problem_.units[unit], counts, problem_.fleet->classes)) {
    ++counts[k];
    ++number;
  }
  return number;
}

ApartNeeds ApartMaster::needs(const ApartNode& node) const {
  const auto classes = at(problem_.fleet->classes);
  ApartNeeds needs;
  needs.most.assign(row_.size(), 0);
  needs.alone.assign(members_.size(), nullptr);
  needs.placed.assign(members_.size(), Counts{});
  for (std::size_t g = 0; g < members_.size(); ++g) {
    Counts placed{};
    for (std::size_t k = 0; k < classes; ++k) placed[k] = node.placed[g * classes + k];
    const bool alone = members_[g].size() == 1;
    if (alone) needs.placed[g] = placed;
    if (alone && !node.cover[members_[g][0]]) needs.alone[g] = &problem_.units[members_[g][0]];
    for (std::size_t k = 0; k < classes; ++k) {
      int most = 0;
      for (const std::size_t u : members_[g])
        most += most_useful(node, u, k, alone ? placed : Counts{});
      needs.most[g * classes + k] = alone ? most : std::max(0, most - placed[k]);
    }
  }
  return needs;
}

double ApartMaster::own_gpcs(const Pattern& pattern) const {
  double sum = 0;
  for (const int cell : pattern.cells)
    if (members_[at(cell / problem_.fleet->classes)].size() == 1)
      sum += problem_.fleet->gpcs[at(cell % problem_.fleet->classes)];
  return sum;
}

ApartSolution ApartMaster::solve(const ApartNode& node, const Enough& enough) {
  return Program(*this, node).solve(enough);
}

}  // namespace partita::planners::serving
