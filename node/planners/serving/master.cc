#include "planners/serving/master.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "planners/serving/simplex.h"

namespace partita::planners::serving {
namespace {

constexpr std::size_t kMaxGroups = 40;
// Price of a GPU beyond a bounded supply: above any saving that it could bring.
constexpr double kOverflowPrice = 1e4;

// Rows of the program: facets, then the bounds of bounded supplies, then one convexity row per
// group.
class Master {
 public:
  Master(const MasterProblem& problem, const std::vector<Column>& seed)
      : problem_(problem),
        groups_(static_cast<std::size_t>(group_count(problem.kinds->size()))),
        facets_(problem.rows->size()),
        simplex_(right_hand_sides()) {
    add_supply();
    for (const Column& column : seed) add(column);
    add_round(start_prices());
    start();
  }

  MasterSolution solve(const std::function<bool(double, double)>& enough) {
    MasterSolution result;
    result.bound = -std::numeric_limits<double>::infinity();
    for (result.rounds = 1; result.rounds <= kMasterRounds; ++result.rounds) {
      simplex_.optimise();
      result.value = simplex_.objective();
      const std::vector<double> multipliers = feasible_multipliers();
      const Prices prices = prices_at(multipliers);
      const double bound = add_round(prices) - paid_ - supply_value(multipliers);
      if (bound > result.bound) {
        result.bound = bound;
        result.prices = prices;
        result.multipliers = multipliers;
      }
      if (!grown_ || result.value - result.bound < 1e-9 * (1 + std::abs(result.value)) ||
          enough(result.bound, result.value))
        break;
    }
    for (std::size_t i = 0; i < columns_.size(); ++i)
      columns_[i].weight = simplex_.value(column_index_[i]);
    result.columns = std::move(columns_);
    return result;
  }

 private:
  std::size_t rows() const { return facets_ + bounded_.size() + groups_; }

  std::vector<double> right_hand_sides() {
    std::vector<double> rhs;
    for (const Row& row : *problem_.rows)
      rhs.push_back(static_cast<double>(row.capacity) * problem_.supply[model(row)].free);
    for (std::size_t m = 0; m < problem_.supply.size(); ++m) {
      if (!std::isfinite(problem_.supply[m].most)) continue;
      bounded_.push_back(m);
      rhs.push_back(problem_.supply[m].most);
    }
    rhs.resize(rhs.size() + groups_, 1.0);
    return rhs;
  }

  static std::size_t model(const Row& row) { return static_cast<std::size_t>(row.model); }

  std::vector<double> supply_column(std::size_t m, bool bounded) const {
    std::vector<double> entries(rows(), 0);
    for (std::size_t f = 0; f < facets_; ++f)
      if (model((*problem_.rows)[f]) == m)
        entries[f] = -static_cast<double>((*problem_.rows)[f].capacity);
    for (std::size_t b = 0; bounded && b < bounded_.size(); ++b)
      if (bounded_[b] == m) entries[facets_ + b] = 1;
    return entries;
  }

  void add_supply() {
    for (std::size_t r = 0; r < facets_ + bounded_.size(); ++r) {
      std::vector<double> slack(rows(), 0);
      slack[r] = 1;
      simplex_.add(0, slack);
    }
    for (std::size_t m = 0; m < problem_.supply.size(); ++m) {
      const bool bounded = std::isfinite(problem_.supply[m].most);
      if (bounded) simplex_.add(problem_.supply[m].price, supply_column(m, true));
      const double price =
          bounded ? kOverflowPrice * (1 + problem_.supply[m].price) : problem_.supply[m].price;
      unbounded_.push_back(simplex_.add(price, supply_column(m, false)));
    }
  }

  void add(Column column) {
    double gpcs = 0, own = 0;
    std::vector<double> entries(rows(), 0);
    std::size_t i = static_cast<std::size_t>(column.group);
    for (const Counts& counts : column.covers) {
      const double copies = (*problem_.kinds)[i].copies;
      own += copies * own_cost(i, counts);
      for (std::size_t k = 0; k < static_cast<std::size_t>(problem_.classes); ++k) {
        if (counts[k] == 0) continue;
        const double n = copies * counts[k];
        gpcs += n * problem_.gpcs[k];
        for (std::size_t f = 0; f < facets_; ++f)
          entries[f] += n * static_cast<double>((*problem_.rows)[f].weight[k]);
      }
      i += groups_;
    }
    entries[facets_ + bounded_.size() + static_cast<std::size_t>(column.group)] = 1;
    column_index_.push_back(simplex_.add(problem_.gpc_price * gpcs + own, entries));
    columns_.push_back(std::move(column));
  }

  double own_cost(std::size_t kind, const Counts& counts) const {
    return problem_.own_cost ? problem_.own_cost(kind, counts) : 0;
  }

  // Prices all groups; adds the columns that improve; returns the summed bounds of the covers.
  double add_round(const Prices& prices) {
    double sum = 0;
    grown_ = false;
    const bool started = !simplex_.duals().empty();
    for (std::size_t g = 0; g < groups_; ++g) {
      Column column{static_cast<int>(g), {}, 0};
      double group_cost = 0;
      for (std::size_t i = g; i < problem_.kinds->size(); i += groups_) {
        const Kind& kind = (*problem_.kinds)[i];
        const PricedCover priced = problem_.cheapest
                                       ? problem_.cheapest(i, prices)
                                       : cheapest_cover(kind, prices, problem_.classes);
        sum += kind.copies * priced.bound;
        group_cost += kind.copies *
                      (cost(priced.counts, prices, problem_.classes) + own_cost(i, priced.counts));
        column.covers.push_back(priced.counts);
      }
      const double worth =
          started ? simplex_.duals()[facets_ + bounded_.size() + g] : kOverflowPrice;
      if (started && group_cost >= worth - 1e-9 * (1 + std::abs(worth))) continue;
      add(std::move(column));
      grown_ = true;
    }
    return sum;
  }

  // Any sensible first prices: the mean normalised facet weight, plus the slices.
  Prices start_prices() const {
    Prices prices{};
    for (std::size_t k = 0; k < static_cast<std::size_t>(problem_.classes); ++k) {
      prices[k] = problem_.gpc_price * problem_.gpcs[k];
      for (const Row& row : *problem_.rows)
        prices[k] += static_cast<double>(row.weight[k]) / static_cast<double>(row.capacity) /
                     static_cast<double>(facets_);
    }
    return prices;
  }

  // A feasible basis: the newest column of every group, the slacks, and per model the supply that
  // its worst row needs.
  void start() {
    std::vector<std::size_t> newest(groups_);
    for (std::size_t i = 0; i < columns_.size(); ++i)
      newest[static_cast<std::size_t>(columns_[i].group)] = column_index_[i];
    std::vector<std::size_t> basis;
    std::vector<double> load(facets_, 0);
    for (const std::size_t column : newest)
      for (std::size_t f = 0; f < facets_; ++f) load[f] += simplex_.entry(column, f);
    std::vector<std::size_t> worst(problem_.supply.size(), facets_);
    std::vector<double> most(problem_.supply.size(), 0);
    for (std::size_t f = 0; f < facets_; ++f) {
      const Row& row = (*problem_.rows)[f];
      const double over =
          load[f] / static_cast<double>(row.capacity) - problem_.supply[model(row)].free;
      if (over <= most[model(row)]) continue;
      most[model(row)] = over;
      worst[model(row)] = f;
    }
    for (std::size_t r = 0; r < facets_ + bounded_.size(); ++r) {
      const bool is_worst = r < facets_ && worst[model((*problem_.rows)[r])] == r;
      basis.push_back(is_worst ? unbounded_[model((*problem_.rows)[r])] : r);
    }
    basis.insert(basis.end(), newest.begin(), newest.end());
    simplex_.start(std::move(basis));
  }

  // Row multipliers >= 0 at which no supply is worth more than its price: the duals, scaled where
  // they exceed it.
  std::vector<double> feasible_multipliers() {
    std::vector<double> result(facets_);
    std::vector<double> worth(problem_.supply.size(), 0);
    for (std::size_t f = 0; f < facets_; ++f) {
      const Row& row = (*problem_.rows)[f];
      result[f] = std::max(0.0, -simplex_.duals()[f]);
      worth[model(row)] += result[f] * static_cast<double>(row.capacity);
    }
    for (std::size_t f = 0; f < facets_; ++f) {
      const std::size_t m = model((*problem_.rows)[f]);
      const Supply& supply = problem_.supply[m];
      if (!std::isfinite(supply.most) && worth[m] > supply.price)
        result[f] *= supply.price / worth[m];
    }
    // What a bounded supply earns beyond its price, at most.
    paid_ = 0;
    for (const std::size_t m : bounded_)
      paid_ += problem_.supply[m].most * std::max(0.0, worth[m] - problem_.supply[m].price);
    return result;
  }

  Prices prices_at(const std::vector<double>& multipliers) const {
    Prices prices{};
    for (std::size_t k = 0; k < static_cast<std::size_t>(problem_.classes); ++k) {
      prices[k] = problem_.gpc_price * problem_.gpcs[k];
      for (std::size_t f = 0; f < facets_; ++f)
        prices[k] += multipliers[f] * static_cast<double>((*problem_.rows)[f].weight[k]);
    }
    return prices;
  }

  // What the free GPUs are worth at these multipliers.
  double supply_value(const std::vector<double>& multipliers) const {
    double sum = 0;
    for (std::size_t f = 0; f < facets_; ++f) {
      const Row& row = (*problem_.rows)[f];
      sum += multipliers[f] * static_cast<double>(row.capacity) * problem_.supply[model(row)].free;
    }
    return sum;
  }

  const MasterProblem& problem_;
  std::size_t groups_;
  std::size_t facets_;
  std::vector<std::size_t> bounded_;  // models with a bounded supply; filled by right_hand_sides()
  Simplex simplex_;
  std::vector<std::size_t> unbounded_;  // per model, the column that supplies without bound
  std::vector<Column> columns_;
  std::vector<std::size_t> column_index_;
  double paid_ = 0;
  bool grown_ = false;
};

}  // namespace

int group_count(std::size_t kinds) { return static_cast<int>(std::min(kinds, kMaxGroups)); }

MasterSolution solve_master(const MasterProblem& problem, const std::vector<Column>& seed,
                            const std::function<bool(double, double)>& enough) {
  CHECK(!problem.kinds->empty() && problem.classes <= kMaxClasses);
  return Master(problem, seed).solve(enough);
}

}  // namespace partita::planners::serving
