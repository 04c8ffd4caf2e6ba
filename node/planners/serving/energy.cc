#include "planners/serving/energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/index.h"
#include "planners/serving/planning.h"
#include "planners/serving/watts.h"

namespace partita::planners::serving {
namespace {

constexpr double kAlike = 1e-9;           // of the watts: so much less is no better
constexpr double kMasterGap = 1e-6;       // of the watts: where a master stops
constexpr std::size_t kMostNumbers = 60;  // numbers of GPUs that are looked at
constexpr double kMostVectors = 100'000;  // that are listed for it

class EnergyPlanner : Planning {
 public:
  EnergyPlanner(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
                Fleet fleet, const Options& options)
      : Planning(problem, modes, std::move(fleet), options, OwnCost::watts),
        tied_(std::ranges::any_of(problem.services, [](const plan::Service& one) {
          return one.spread || !one.avoid.empty();
        })) {
    for (const plan::FleetEntry& entry : problem.fleet)
      off_ += entry.count.value_or(0) * entry.power->off.value;
  }

  EnergyOutcome plan() {
    solve_root();
    EnergyOutcome outcome;
    if (rounded_) try_gpus(*rounded_, true);
    const double open = look_at_trials();
    outcome.bound = std::max(root_bound_, std::min(open, watts_));
    if (gpus_.empty()) return outcome;
    outcome.plan = finish();
    if (outcome.plan) state_watts(problem_, outcome.bound, *outcome.plan);
    return outcome;
  }

 private:
  std::size_t models() const { return problem_.fleet.size(); }
  // What a GPU takes more when it is on.
  double idle(std::size_t m) const {
    const plan::GpuPower& power = *problem_.fleet[m].power;
    return problem_.fleet[m].count ? (power.idle - power.off).value : power.idle.value;
  }
  double idle(const GpuCounts& gpus) const {
    double sum = off_;
    for (std::size_t m = 0; m < models(); ++m) sum += gpus[m] * idle(m);
    return sum;
  }
  void solve_root() {
    MasterProblem problem = master_problem();
    for (std::size_t m = 0; m < models(); ++m) {
      Supply supply{0, idle(m)};
      if (problem_.fleet[m].count) supply.most = *problem_.fleet[m].count;
      problem.supply.push_back(supply);
    }
    root_ = solve_master(problem, {}, [](double bound, double value) {
      return value - bound < kMasterGap * (1 + value);
    });
    root_bound_ = off_ + root_.bound - kWattsRounding * (1 + root_.bound);
    for (const Kind& kind : table_.kinds)
      busy_ += kind.copies * cheapest_cover(kind, Prices{}, fleet_.classes).bound;
    say(
        fmt::format("lower bound: {:.6g} W with GPUs cut at will, {:.6g} W of them burnt by work "
                    "even where GPUs cost nothing ({} kinds of service, {} covers, rounds: {})",
                    root_bound_, busy_, table_.kinds.size(), root_.columns.size(), root_.rounds));
    fraction_ = fraction_of(root_.columns);
    rounded_ = needed_by(sum_of(round_columns(table_.kinds, root_.columns)));
  }

  // GPUs per model that the columns take, cut at will.
  std::vector<double> fraction_of(const std::vector<Column>& columns) const {
    const auto groups = at(group_count(table_.kinds.size()));
    std::vector<double> sum(at(fleet_.classes), 0), gpus(models(), 0);
    for (const Column& column : columns)
      for (std::size_t c = 0; c < column.covers.size(); ++c)
        for (std::size_t k = 0; k < sum.size(); ++k)
          sum[k] += column.weight * column.covers[c][k] *
                    table_.kinds[at(column.group) + c * groups].copies;
    for (const Row& row : fleet_.rows) {
      double load = 0;
      for (std::size_t k = 0; k < sum.size(); ++k)
        load += static_cast<double>(row.weight[k]) * sum[k];
      double& most = gpus[at(row.model)];
      most = std::max(most, load / static_cast<double>(row.capacity));
    }
    return gpus;
  }

  std::optional<GpuCounts> needed_by(const Counts& sum) const {
    GpuCounts gpus;
    for (std::size_t m = 0; m < models(); ++m) {
      gpus.push_back(hw::gpus_needed(fleet_.rules[m], fleet_.counts_of(static_cast<int>(m), sum)));
      if (problem_.fleet[m].count && gpus.back() > *problem_.fleet[m].count) return std::nullopt;
    }
    return gpus;
  }

  // A plan on these GPUs, if that takes less than the best. What no plan on exactly these goes
  // below, or infinity where it is not less than the best.
  double try_gpus(const GpuCounts& gpus, bool even = false) {
    if (!even && idle(gpus) + busy_ >= watts_) return kNoWatts;
    MasterProblem problem = master_problem();
    const double extra = 1e5 + 100 * std::abs(root_.value);  // of a GPU that is not there
    for (const int count : gpus) problem.supply.push_back({1.0 * count, extra});
    const double on = idle(gpus);
    const MasterSolution solution =
        solve_master(problem, root_.columns, [&](double bound, double value) {
          return on + bound >= watts_ || value - bound < kMasterGap * (1 + value);
        });
    const double bound = on + solution.bound - kWattsRounding * (1 + solution.bound);
    if (bound >= watts_ * (1 - kAlike)) return kNoWatts;
    limit_spread(std::accumulate(gpus.begin(), gpus.end(), 0));
    SearchProblem search = rows_on(gpus);
    search.tied = tied_;
    search.certificates.push_back({solution.multipliers});
    search.below = watts_ - on;
    const Accept accept = [&](const Choice& choice) {
      const Placement placement = placed(choice, gpus);
      return placement.gpus     ? Acceptance::yes
             : placement.proven ? Acceptance::no
                                : Acceptance::unknown;
    };
    const auto keep = [&](const SearchResult& result) {
      if (result.choice.empty()) return;
      if (tied_ && accept(result.choice) != Acceptance::yes) return;
      search.below = result.watts;
      watts_ = on + result.watts;
      choice_ = result.choice;
      gpus_ = gpus;
    };
    keep(Search(search, solution.columns, Search::Reach::near).cheapen());
    const SearchResult all =
        Search(search, {}, Search::Reach::all).exhaust(nodes_, tied_ ? accept : Accept{});
    keep(all);
    return all.verdict == SearchResult::Verdict::none ? std::max(bound, on + all.bound) : bound;
  }

  void limit_spread(int gpus) {
    for (std::size_t i = 0; i < table_.kinds.size(); ++i)
      if (problem_.services[at(table_.services[i].front())].spread)
        table_.kinds[i].max_count = gpus;
  }

  // The least bound of the numbers of GPUs that were looked at; the root's when some were not.
  double look_at_trials() {
    if (models() == 1) return look_outwards();
    std::vector<GpuCounts> trials = vectors();
    bool all = !trials.empty();
    if (trials.size() > kMostNumbers) {
      trials.resize(kMostNumbers);
      all = false;
    }
    double open = all ? kNoWatts : root_bound_;
    for (const GpuCounts& gpus : trials) open = std::min(open, try_gpus(gpus));
    return open;
  }

  // Bounds are convex in the number of GPUs: from where the linear programme has them, once one is
  // not below the best, those farther off are not either.
  double look_outwards() {
    const int most = problem_.fleet[0].count.value_or(std::numeric_limits<int>::max());
    const int from = static_cast<int>(std::ceil(fraction_[0] - 1e-6));
    double open = kNoWatts;
    std::size_t trials = 0;
    for (int gpus = from; gpus <= most; ++gpus) {
      if (++trials > kMostNumbers) return root_bound_;
      const double bound = try_gpus({gpus});
      // With none yet found, more GPUs are easier, and so they are for who keeps apart.
      const bool certain = !tied_ || idle(GpuCounts{gpus}) + busy_ >= watts_;
      if (bound == kNoWatts && watts_ < kNoWatts && certain) break;
      open = std::min(open, bound);
    }
    for (int gpus = from - 1; gpus >= 0; --gpus) {
      if (++trials > kMostNumbers) return root_bound_;
      const double bound = try_gpus({gpus});
      if (bound == kNoWatts && !tied_) break;
      open = std::min(open, bound);
    }
    return open;
  }

  // All numbers of GPUs that may take less than the best, those like the linear programme's first;
  // none when they are too many.
  std::vector<GpuCounts> vectors() const {
    GpuCounts most;
    double size = 1;
    for (std::size_t m = 0; m < models(); ++m) {
      double limit = problem_.fleet[m].count.value_or(1'000'000);
      if (watts_ < kNoWatts && idle(m) > 0)
        limit = std::min(limit, std::floor((watts_ - off_ - busy_) / idle(m)));
      most.push_back(static_cast<int>(std::max(0.0, limit)));
      size *= most.back() + 1.0;
    }
    const bool few = size <= kMostVectors;
    GpuCounts least(models(), 0);
    for (std::size_t m = 0; m < models() && !few; ++m) {
      least[m] = std::max(0, static_cast<int>(fraction_[m]) - 1);
      most[m] = std::min(most[m], static_cast<int>(fraction_[m]) + 2);
    }
    std::vector<std::pair<double, GpuCounts>> found;
    GpuCounts gpus = least;
    while (true) {
      if (idle(gpus) + busy_ < watts_) found.emplace_back(distance(gpus), gpus);
      std::size_t m = 0;
      while (m < gpus.size() && gpus[m] >= most[m]) gpus[m] = least[m], ++m;
      if (m == gpus.size()) break;
      ++gpus[m];
      if (static_cast<double>(found.size()) > kMostVectors) break;
    }
    std::ranges::sort(found);
    if (!few && found.size() <= kMostNumbers) found.resize(kMostNumbers + 1, found.back());
    std::vector<GpuCounts> result;
    for (auto& [far, counts] : found) result.push_back(std::move(counts));
    return result;
  }
  double distance(const GpuCounts& gpus) const {
    double sum = 0;
    for (std::size_t m = 0; m < models(); ++m) sum += std::abs(gpus[m] - fraction_[m]);
    return sum;
  }

  std::optional<plan::ServingPlan> finish() {
    Placement placement = placed(choice_, gpus_);
    if (!placement.gpus) return std::nullopt;
    return plan_of(*std::move(placement.gpus), gpcs_of(choice_));
  }

  const bool tied_;  // some services keep apart
  double off_ = 0;   // of all GPUs that the fleet counts, off

  MasterSolution root_;
  double root_bound_ = 0;
  double busy_ = 0;               // of the services at least, on any GPUs
  std::vector<double> fraction_;  // GPUs that the root takes
  std::optional<GpuCounts> rounded_;
  GpuCounts gpus_;  // of the best
  Choice choice_;
  double watts_ = kNoWatts;
};

}  // namespace

EnergyOutcome plan_energy(const plan::ServingProblem& problem,
                          const std::vector<PointTables>& modes, const Options& options) {
  auto fleet = make_fleet(problem, modes.front());
  if (!fleet) return {};
  return EnergyPlanner(problem, modes, std::move(*fleet), options).plan();
}

}  // namespace partita::planners::serving
