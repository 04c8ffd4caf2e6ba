#include "planners/serving/energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/index.h"
#include "planners/serving/energy_covers.h"
#include "planners/serving/energy_search.h"
#include "planners/serving/fleet.h"
#include "planners/serving/master.h"
#include "planners/serving/place.h"

namespace partita::planners::serving {
namespace {

using GpuCounts = std::vector<int>;  // per model

constexpr double kAlike = 1e-9;           // of the watts: so much less is no better
constexpr double kMasterGap = 1e-6;       // of the watts: where a master stops
constexpr double kBoundRounding = 1e-9;   // of the watts, taken off every bound
constexpr std::size_t kMostNumbers = 60;  // numbers of GPUs that are looked at
constexpr double kMostVectors = 100'000;  // that are listed for it

class EnergyPlanner {
 public:
  EnergyPlanner(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
                Fleet fleet, const Options& options)
      : problem_(problem),
        modes_(modes),
        fleet_(std::move(fleet)),
        options_(options),
        kinds_(make_burning_kinds(problem, modes, fleet_)),
        nodes_(options.node_budget) {
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
  void say(std::string sentence) {
    if (options_.progress) options_.progress(sentence);
    explanation_.push_back(std::move(sentence));
  }

  MasterProblem master() const {
    MasterProblem master;
    master.classes = fleet_.classes;
    master.kinds = &kinds_.table.kinds;
    master.rows = &fleet_.rows;
    master.gpcs = fleet_.gpcs;
    master.own_cost = [this](std::size_t i, const Counts& counts) {
      return least_burnt(kinds_.table.kinds[i], kinds_.burns[i], counts, fleet_.classes);
    };
    master.cheapest = [this](std::size_t i, const Prices& prices) {
      return cheapest_burning(kinds_.table.kinds[i], kinds_.burns[i], prices, fleet_.classes);
    };
    return master;
  }

  void solve_root() {
    MasterProblem problem = master();
    for (std::size_t m = 0; m < models(); ++m) {
      Supply supply{0, idle(m)};
      if (problem_.fleet[m].count) supply.most = *problem_.fleet[m].count;
      problem.supply.push_back(supply);
    }
    root_ = solve_master(problem, {}, [](double bound, double value) {
      return value - bound < kMasterGap * (1 + value);
    });
    root_bound_ = off_ + root_.bound - kBoundRounding * (1 + root_.bound);
    for (std::size_t i = 0; i < kinds_.burns.size(); ++i)
      busy_ +=
          kinds_.table.kinds[i].copies *
          cheapest_burning(kinds_.table.kinds[i], kinds_.burns[i], Prices{}, fleet_.classes).bound;
    say(
        fmt::format("lower bound: {:.6g} W with GPUs cut at will, {:.6g} W of them burnt by work "
                    "even where GPUs cost nothing ({} kinds of service, {} covers, rounds: {})",
                    root_bound_, busy_, kinds_.burns.size(), root_.columns.size(), root_.rounds));
    fraction_ = fraction_of(root_.columns);
    rounded_ = needed_by(sum_of(round_columns(kinds_.table.kinds, root_.columns)));
  }

  // GPUs per model that the columns take, cut at will.
  std::vector<double> fraction_of(const std::vector<Column>& columns) const {
    const auto groups = at(group_count(kinds_.burns.size()));
    std::vector<double> sum(at(fleet_.classes), 0), gpus(models(), 0);
    for (const Column& column : columns)
      for (std::size_t c = 0; c < column.covers.size(); ++c)
        for (std::size_t k = 0; k < sum.size(); ++k)
          sum[k] += column.weight * column.covers[c][k] *
                    kinds_.table.kinds[at(column.group) + c * groups].copies;
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
    MasterProblem problem = master();
    const double extra = 1e5 + 100 * std::abs(root_.value);  // of a GPU that is not there
    for (const int count : gpus) problem.supply.push_back({1.0 * count, extra});
    const double on = idle(gpus);
    const MasterSolution solution =
        solve_master(problem, root_.columns, [&](double bound, double value) {
          return on + bound >= watts_ || value - bound < kMasterGap * (1 + value);
        });
    const double bound = on + solution.bound - kBoundRounding * (1 + solution.bound);
    if (bound >= watts_ * (1 - kAlike)) return kNoWatts;
    double paid = 0;
    for (std::size_t f = 0; f < fleet_.rows.size(); ++f)
      paid += solution.multipliers[f] * static_cast<double>(fleet_.rows[f].capacity) *
              gpus[at(fleet_.rows[f].model)];
    const BurningResult result = search_burning(
        {&kinds_, &fleet_, gpus, solution.prices, paid, watts_ - on}, solution.columns, nodes_);
    if (result.choice) {
      watts_ = on + result.watts;
      choice_ = *result.choice;
      gpus_ = gpus;
    }
    return result.exhausted ? std::max(bound, on + result.bound) : bound;
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
      // With none yet found, more GPUs are easier.
      if (bound == kNoWatts && watts_ < kNoWatts) break;
      open = std::min(open, bound);
    }
    for (int gpus = from - 1; gpus >= 0; --gpus) {
      if (++trials > kMostNumbers) return root_bound_;
      const double bound = try_gpus({gpus});
      if (bound == kNoWatts) break;
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

  // ---- the plan ----

  std::optional<plan::ServingPlan> finish() {
    PointTables tables = modes_.front();
    std::vector<Counts> counts(problem_.services.size(), Counts{});
    double slices = 0;
    for (std::size_t i = 0; i < choice_.size(); ++i)
      for (std::size_t copy = 0; copy < choice_[i].size(); ++copy) {
        const auto s = at(kinds_.table.services[i][copy]);
        counts[s] = choice_[i][copy];
        slices += cost(counts[s], fleet_.gpcs, fleet_.classes);
        const int m = burnt(kinds_.table.kinds[i], kinds_.burns[i], counts[s], fleet_.classes).mode;
        for (std::size_t e = 0; e < tables.size() && m > 0; ++e)
          tables[e].best[s] = modes_[at(m)][e].best[s];
      }
    Placement placement = place(problem_, tables, fleet_, counts, gpus_);
    if (!placement.gpus) return std::nullopt;
    plan::ServingPlan plan;
    plan.gpus = *std::move(placement.gpus);
    plan.objective.gpus = static_cast<int>(plan.gpus.size());
    plan.objective.gpcs = static_cast<int>(std::lround(slices));
    for (const plan::PlannedGpu& gpu : plan.gpus)
      for (const plan::FleetEntry& entry : problem_.fleet)
        if (entry.gpu.name == gpu.model) plan.objective.cost += entry.price;
    plan.explanation = std::move(explanation_);
    plan.stats.nodes = options_.node_budget - nodes_;
    return plan;
  }

  const plan::ServingProblem& problem_;
  const std::vector<PointTables>& modes_;
  const Fleet fleet_;
  const Options& options_;
  const BurningKinds kinds_;
  long nodes_;
  double off_ = 0;  // of all GPUs that the fleet counts, off

  MasterSolution root_;
  double root_bound_ = 0;
  double busy_ = 0;               // of the services at least, on any GPUs
  std::vector<double> fraction_;  // GPUs that the root takes
  std::optional<GpuCounts> rounded_;
  GpuCounts gpus_;  // of the best
  Choice choice_;
  double watts_ = kNoWatts;
  std::vector<std::string> explanation_;
};

}  // namespace

EnergyOutcome plan_energy(const plan::ServingProblem& problem,
                          const std::vector<PointTables>& modes, const Options& options) {
  auto fleet = make_fleet(problem, modes.front());
  if (!fleet) return {};
  return EnergyPlanner(problem, modes, std::move(*fleet), options).plan();
}

double expected_watts(const plan::ServingProblem& problem, const plan::ServingPlan& plan) {
  std::map<std::string, double> carried, joules;  // by service: the sum, and weighted with it
  std::map<std::string, int> used;                // by GPU model
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    ++used[gpu.model];
    const auto entry = std::ranges::find_if(
        problem.fleet, [&](const plan::FleetEntry& one) { return one.gpu.name == gpu.model; });
    for (const plan::PlannedInstance& instance : gpu.instances) {
      const auto service =
          std::ranges::find(problem.services, instance.service, &plan::Service::name);
      const int gpcs = entry->gpu.profiles[at(entry->gpu.profile_index(instance.profile))].gpcs;
      const double each =
          joules_per_request(*entry, service->model, {gpcs, instance.batch, instance.processes});
      carried[instance.service] += instance.throughput.value;
      joules[instance.service] += instance.throughput.value * each;
    }
  }
  double watts = 0;
  for (const plan::Service& service : problem.services)
    if (const double sum = carried[service.name]; sum > 0)
      watts += service.rate.value * joules[service.name] / sum;
  for (const plan::FleetEntry& entry : problem.fleet) {
    const int on = used[entry.gpu.name];
    watts += on * entry.power->idle.value;
    if (entry.count) watts += (*entry.count - on) * entry.power->off.value;
  }
  return watts;
}

void state_watts(const plan::ServingProblem& problem, double bound, plan::ServingPlan& plan) {
  plan::Objective& objective = plan.objective;
  objective.goal = problem.goal;
  objective.watts = expected_watts(problem, plan);
  objective.lower_bound_watts = std::min(objective.watts, std::max(0.0, bound));
  objective.lower_bound_gpus = objective.lower_bound_gpcs = 0;
  objective.lower_bound_cost = 0;
  objective.optimal = objective.watts <= objective.lower_bound_watts * (1 + 2 * kBoundRounding);
}

}  // namespace partita::planners::serving
