#include "planners/serving/energy_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/index.h"

namespace partita::planners::serving {
namespace {

constexpr std::size_t kNearCovers = 60;    // per kind, for the local search
constexpr std::size_t kAllCovers = 1'500;  // per kind, for the proof
constexpr std::size_t kMostUnits = 40;     // services of a proof
constexpr double kWork = 1e7;              // of a local search: moves looked at times rows
constexpr double kNoBetter = 1e-9;
constexpr double kNear = 0.15;  // of the cheapest cover: how much dearer ones are tried

// A cover of one kind.
struct BurningCandidate {
  Counts counts{};
  double watts = 0, least = 0, reduced = 0;  // reduced: least, and its instances at the prices
  std::vector<std::int64_t> load;            // per row
};

class BurningSearch {
 public:
  BurningSearch(const BurningProblem& problem, const std::vector<Column>& columns)
      : problem_(problem), kinds_(problem.kinds->table.kinds), classes_(problem.fleet->classes) {
    for (const Row& row : problem.fleet->rows)
      limits_.push_back(row.capacity * problem.gpus[at(row.model)]);
    candidates_.resize(kinds_.size());
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      collect(i, columns);
      for (int copy = 0; copy < kinds_[i].copies; ++copy) units_.push_back(i);
    }
  }

  BurningResult run(long& nodes) {
    BurningResult result;
    best_ = problem_.below;
    for (const bool lean : {false, true}) improve(lean);
    exhaust(nodes, result);
    if (!found_.empty()) {
      result.choice = choice_of(found_);
      result.watts = best_;
    }
    return result;
  }

 private:
  const Burn& burn(std::size_t kind) const { return problem_.kinds->burns[kind]; }

  BurningCandidate candidate(std::size_t kind, const Counts& counts) const {
    BurningCandidate made{counts,
                          burnt(kinds_[kind], burn(kind), counts, classes_).watts,
                          least_burnt(kinds_[kind], burn(kind), counts, classes_),
                          0,
                          {}};
    made.reduced = made.least + cost(counts, problem_.prices, classes_);
    for (const Row& row : problem_.fleet->rows) {
      std::int64_t load = 0;
      for (std::size_t k = 0; k < at(classes_); ++k) load += row.weight[k] * counts[k];
      made.load.push_back(load);
    }
    return made;
  }

  // Of the columns and the nearly cheapest, those that no other beats.
  void collect(std::size_t kind, const std::vector<Column>& columns) {
    std::set<Counts> all;
    const auto groups = at(group_count(kinds_.size()));
    for (const Column& column : columns)
      if (at(column.group) == kind % groups) all.insert(column.covers[kind / groups]);
    const double least =
        cheapest_burning(kinds_[kind], burn(kind), problem_.prices, classes_).bound;
    const Enumeration near = burning_covers(kinds_[kind], burn(kind), problem_.prices,
                                            {least * (1 + kNear) + 1e-9, kNearCovers}, classes_);
    all.insert(near.covers.begin(), near.covers.end());
    candidates_[kind] = kept(kind, {all.begin(), all.end()});
  }

  std::vector<BurningCandidate> kept(std::size_t kind, const std::vector<Counts>& all) const {
    std::vector<BurningCandidate> made;
    for (const Counts& counts : all) {
      BurningCandidate one = candidate(kind, counts);
      if (std::isfinite(one.watts)) made.push_back(std::move(one));
    }
    std::ranges::stable_sort(made, {},
                             [](const BurningCandidate& c) { return std::pair(c.watts, c.least); });
    std::vector<BurningCandidate> result;
    for (BurningCandidate& one : made) {
      const auto beats = [&](const BurningCandidate& other) {
        return other.watts <= one.watts && other.least <= one.least &&
               std::ranges::equal(other.load, one.load, std::less_equal<>());
      };
      if (std::ranges::none_of(result, beats)) result.push_back(std::move(one));
    }
    return result;
  }

  // ---- local search ----

  struct Point {
    std::vector<std::size_t> chosen;  // per unit
    std::vector<std::int64_t> load;
    double watts = 0;
  };

  Point start(bool lean) const {
    Point point;
    point.load.assign(limits_.size(), 0);
    for (const std::size_t kind : units_) {
      std::size_t best = 0;
      for (std::size_t c = 1; lean && c < candidates_[kind].size(); ++c)
        if (candidates_[kind][c].reduced < candidates_[kind][best].reduced) best = c;
      point.chosen.push_back(best);
      const BurningCandidate& one = candidates_[kind][best];
      point.watts += one.watts;
      for (std::size_t r = 0; r < limits_.size(); ++r) point.load[r] += one.load[r];
    }
    return point;
  }

  double over(std::size_t row, std::int64_t load) const {
    return load <= limits_[row] ? 0
                                : static_cast<double>(load - limits_[row]) /
                                      static_cast<double>(problem_.fleet->rows[row].capacity);
  }

  // Moves one service at a time; what does not fit costs more the longer it does not, and less when
  // all does.
  void improve(bool lean) {
    if (std::ranges::any_of(candidates_, [](const auto& c) { return c.empty(); })) return;
    Point point = start(lean);
    std::size_t moves = 0;
    for (const std::size_t kind : units_) moves += candidates_[kind].size();
    const double each = static_cast<double>(moves * (limits_.size() + 1));
    const auto steps = static_cast<std::size_t>(std::clamp(kWork / each, 1.0, 3'000.0));
    double weight = point.watts / static_cast<double>(units_.size());
    std::vector<std::size_t> tabu(units_.size(), 0);
    for (std::size_t step = 1; step <= steps; ++step) {
      bool fits = true;
      for (std::size_t r = 0; r < limits_.size(); ++r) fits = fits && point.load[r] <= limits_[r];
      if (fits && point.watts < best_ * (1 - kNoBetter)) {
        best_ = point.watts;
        found_ = point.chosen;
        taken_ = candidates_;
      }
      weight *= fits ? 0.85 : 1.1;
      if (!move(point, weight, step, tabu)) break;
    }
  }

  bool move(Point& point, double weight, std::size_t step, std::vector<std::size_t>& tabu) const {
    double best = kNoWatts;
    std::size_t unit = 0, to = 0;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (tabu[u] > step) continue;
      if (u > 0 && units_[u - 1] == units_[u] && point.chosen[u - 1] == point.chosen[u] &&
          tabu[u - 1] <= step)
        continue;  // the same again
      const std::vector<BurningCandidate>& options = candidates_[units_[u]];
      const BurningCandidate& now = options[point.chosen[u]];
      for (std::size_t c = 0; c < options.size(); ++c) {
        if (c == point.chosen[u]) continue;
        double change = options[c].watts - now.watts;
        for (std::size_t r = 0; r < limits_.size(); ++r) {
          const std::int64_t load = point.load[r];
          change += weight * (over(r, load - now.load[r] + options[c].load[r]) - over(r, load));
        }
        if (change < best) best = change, unit = u, to = c;
      }
    }
    if (best == kNoWatts) return false;
    const BurningCandidate& from = candidates_[units_[unit]][point.chosen[unit]];
    const BurningCandidate& next = candidates_[units_[unit]][to];
    for (std::size_t r = 0; r < limits_.size(); ++r) point.load[r] += next.load[r] - from.load[r];
    point.watts += next.watts - from.watts;
    point.chosen[unit] = to;
    tabu[unit] = step + 2 + step % std::min<std::size_t>(7, units_.size());
    return true;
  }

  // ---- all of them ----

  // What the units from there on come to at least.
  struct Rest {
    double watts = 0, least = 0, reduced = 0;
    std::vector<std::int64_t> load;
  };

  void exhaust(long& nodes, BurningResult& result) {
    if (units_.size() > kMostUnits || nodes <= 0) return;
    double all = 0;
    std::vector<double> cheapest;
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      cheapest.push_back(cheapest_burning(kinds_[i], burn(i), problem_.prices, classes_).bound);
      all += kinds_[i].copies * cheapest.back();
    }
    const double slack = best_ - (all - problem_.paid);
    if (slack <= 0) {
      result.exhausted = true;
      result.bound = best_;
      return;
    }
    std::vector<std::vector<BurningCandidate>> every;
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      const Enumeration covers = burning_covers(kinds_[i], burn(i), problem_.prices,
                                                {cheapest[i] + slack, kAllCovers}, classes_);
      if (!covers.complete) return;
      every.push_back(kept(i, covers.covers));
      if (every.back().empty()) {  // none within what is of interest
        result.exhausted = true;
        result.bound = best_;
        return;
      }
    }
    every_ = std::move(every);
    descend_all(nodes, result);
  }

  void descend_all(long& nodes, BurningResult& result) {
    rest_.assign(units_.size() + 1, {});
    rest_.back().load.assign(limits_.size(), 0);
    for (std::size_t u = units_.size(); u-- > 0;) {
      Rest rest{kNoWatts, kNoWatts, kNoWatts, std::vector<std::int64_t>(limits_.size(), INT64_MAX)};
      for (const BurningCandidate& one : every_[units_[u]]) {
        rest.watts = std::min(rest.watts, one.watts);
        rest.least = std::min(rest.least, one.least);
        rest.reduced = std::min(rest.reduced, one.reduced);
        for (std::size_t r = 0; r < limits_.size(); ++r)
          rest.load[r] = std::min(rest.load[r], one.load[r]);
      }
      const Rest& after = rest_[u + 1];
      rest.watts += after.watts;
      rest.least += after.least;
      rest.reduced += after.reduced;
      for (std::size_t r = 0; r < limits_.size(); ++r) rest.load[r] += after.load[r];
      rest_[u] = std::move(rest);
    }
    chosen_.assign(units_.size(), 0);
    load_.assign(limits_.size(), 0);
    least_ = best_;
    checks_ = kProofChecks;
    visit(0, 0, 0, -problem_.paid);
    nodes -= 1 + (kProofChecks - checks_) / kChecksPerNode;
    if (checks_ <= 0) return;
    result.exhausted = true;
    result.bound = std::min(best_, least_);
  }

  void visit(std::size_t unit, double watts, double least, double reduced) {
    if (unit == units_.size()) {
      least_ = std::min(least_, least);
      if (watts < best_ * (1 - kNoBetter)) {
        best_ = watts;
        found_ = chosen_;
        taken_ = every_;
      }
      return;
    }
    const std::vector<BurningCandidate>& options = every_[units_[unit]];
    const Rest& rest = rest_[unit + 1];
    const bool repeats = unit > 0 && units_[unit - 1] == units_[unit];
    for (std::size_t c = repeats ? chosen_[unit - 1] : 0; c < options.size(); ++c) {
      if (--checks_ <= 0) return;
      const BurningCandidate& one = options[c];
      // Whoever burns less than the best has less than it in `least`, too.
      if (least + one.least + rest.least >= best_ || reduced + one.reduced + rest.reduced >= best_)
        continue;
      bool fits = true;
      for (std::size_t r = 0; fits && r < limits_.size(); ++r)
        fits = load_[r] + one.load[r] + rest.load[r] <= limits_[r];
      if (!fits) continue;
      chosen_[unit] = c;
      for (std::size_t r = 0; r < limits_.size(); ++r) load_[r] += one.load[r];
      visit(unit + 1, watts + one.watts, least + one.least, reduced + one.reduced);
      for (std::size_t r = 0; r < limits_.size(); ++r) load_[r] -= one.load[r];
    }
  }

  Choice choice_of(const std::vector<std::size_t>& chosen) const {
    Choice choice(kinds_.size());
    for (std::size_t u = 0; u < units_.size(); ++u)
      choice[units_[u]].push_back(taken_[units_[u]][chosen[u]].counts);
    return choice;
  }

  static constexpr long kProofChecks = 3'000'000, kChecksPerNode = 64;  // covers looked at

  const BurningProblem& problem_;
  const std::vector<Kind>& kinds_;
  const int classes_;
  std::vector<std::int64_t> limits_;                                       // per row
  std::vector<std::vector<BurningCandidate>> candidates_, every_, taken_;  // per kind
  std::vector<std::size_t> units_;                                         // kinds
  std::vector<Rest> rest_;
  std::vector<std::size_t> chosen_, found_;
  std::vector<std::int64_t> load_;
  double best_ = kNoWatts, least_ = kNoWatts;
  long checks_ = 0;
};

}  // namespace

BurningResult search_burning(const BurningProblem& problem, const std::vector<Column>& columns,
                             long& nodes) {
  return BurningSearch(problem, columns).run(nodes);
}

}  // namespace partita::planners::serving
