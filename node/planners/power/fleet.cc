#include "planners/power/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/index.h"
#include "base/rng.h"
#include "planners/power/fleet_master.h"
#include "planners/power/fleet_search.h"
#include "planners/power/one_gpu.h"
#include "planners/power/patterns.h"
#include "planners/power/policies.h"

namespace partita::power {
namespace {

using plan::PowerProblem;

plan::PowerGpu gpu_of(const PowerProblem& problem, const Pattern& pattern) {
  plan::PowerGpu gpu{problem.table.clocks[pattern.clock].clock, {0}, Watts{pattern.watts}, {}};
  int used = 0;
  Watts full{0};
  for (const PatternShare& share : pattern.shares) {
    const plan::Terms& service = problem.services[share.service];
    used += share.option->units;
    full += share.option->busy.full();
    gpu.shares.push_back(
        {service.name, share.option->units, share.option->batch, service.rate * share.part});
  }
  full += ready_power(problem.table, problem.gating, pattern.clock, used);
  gpu.cap = {std::ceil(full.value - 1e-9)};
  if (problem.cap) gpu.cap = std::min(gpu.cap, *problem.cap);
  return gpu;
}

plan::PowerPlan plan_of(const PowerProblem& problem, const std::vector<Pattern>& patterns,
                        double bound) {
  plan::PowerPlan plan{"exact", problem.gating, problem.promise, {}, 0, {0}, {0}, false, ""};
  for (const Pattern& pattern : patterns) {
    plan.gpus.push_back(gpu_of(problem, pattern));
    plan.power += plan.gpus.back().power;
  }
  plan.unused_gpus = problem.gpus - static_cast<int>(patterns.size());
  plan.power += plan.unused_gpus * unused_power(problem);
  plan.bound = {std::min(bound, plan.power.value)};
  plan.optimal = plan.power.value - plan.bound.value <= 1e-9 * plan.power.value;
  return plan;
}

// What rounding left of a rate goes to a share that has room for it.
void spread_rest(const PowerProblem& problem, std::vector<Pattern>& patterns) {
  std::vector<double> carried(problem.services.size(), 0.0);
  for (const Pattern& pattern : patterns)
    for (const PatternShare& share : pattern.shares) carried[share.service] += share.part;
  for (Pattern& pattern : patterns)
    for (PatternShare& share : pattern.shares) {
      share.part += 1 - carried[share.service];
      carried[share.service] = 1;
    }
}

// Whole services on one GPU; they ascend. Solved exactly where there is no cap.
std::optional<Pattern> one_gpu(const PowerProblem& problem,
                               const std::vector<ServiceOptions>& options,
                               const std::vector<std::size_t>& services,
                               const std::optional<Watts>& cap) {
  std::vector<const ServiceOptions*> views;
  std::vector<Rps> rates;
  for (const std::size_t s : services) {
    views.push_back(&options[s]);
    rates.push_back(problem.services[s].rate);
  }
  const auto best = best_setting({problem.table, views}, rates, {0, {}, problem.gating, true, cap});
  if (!best) return std::nullopt;
  Pattern pattern{best->clock, {}, best->power.value, 0};
  for (std::size_t s = 0; s < best->options.size(); ++s)
    pattern.shares.push_back({services[s], best->options[s], 1});
  return pattern;
}

// Above that of as many unused GPUs.
double watts_of(const std::vector<Pattern>& patterns, double unused) {
  double watts = 0;
  for (const Pattern& pattern : patterns) watts += pattern.watts - unused;
  return watts;
}

// Plans that split no service, for few services: dealt where each adds least power, those that need
// most units first, then moved and swapped for as long as that saves power.
class UnsplitSearch {
 public:
  UnsplitSearch(const PowerProblem& problem, const std::vector<ServiceOptions>& options)
      : problem_(problem), options_(options), gpus_(at(problem.gpus)) {}

  std::optional<std::vector<Pattern>> run() {
    std::vector<std::pair<int, std::size_t>> order;  // less units, service
    for (std::size_t s = 0; s < options_.size(); ++s) {
      const std::optional<Pattern>& alone = best_of({s});
      if (!alone) return std::nullopt;
      order.emplace_back(-alone->shares[0].option->units, s);
    }
    std::ranges::sort(order);
    std::optional<std::vector<Pattern>> best;
    for (int start = 0; start < kStarts; ++start) {
      const double unused = unused_power(problem_).value;
      if (auto found = descend(order);
          found && (!best || watts_of(*found, unused) < watts_of(*best, unused)))
        best = std::move(found);
      for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[rng_.below(i + 1)]);
    }
    return best;
  }

 private:
  static constexpr int kStarts = 16;

  std::optional<std::vector<Pattern>> descend(
      const std::vector<std::pair<int, std::size_t>>& order) {
    std::ranges::fill(gpus_, std::vector<std::size_t>{});
    for (const auto& [units, s] : order)
      if (!deal(s)) return std::nullopt;
    while (move_one() || swap_two()) {
    }
    std::vector<Pattern> patterns;
    for (const std::vector<std::size_t>& gpu : gpus_)
      if (!gpu.empty()) patterns.push_back(*best_of(gpu));
    return patterns;
  }

  static constexpr double kTooMuch = 1e12;

  const std::optional<Pattern>& best_of(const std::vector<std::size_t>& services) {
    const auto known = known_.find(services);
    if (known != known_.end()) return known->second;
    return known_.emplace(services, one_gpu(problem_, options_, services, problem_.cap))
        .first->second;
  }
  double watts(const std::vector<std::size_t>& services) {
    if (services.empty()) return unused_power(problem_).value;
    const std::optional<Pattern>& best = best_of(services);
    return best ? best->watts : kTooMuch;
  }
  static std::vector<std::size_t> with(std::vector<std::size_t> services, std::size_t s) {
    services.insert(std::ranges::upper_bound(services, s), s);
    return services;
  }
  static std::vector<std::size_t> without(std::vector<std::size_t> services, std::size_t s) {
    std::erase(services, s);
    return services;
  }

  bool deal(std::size_t s) {
    double least = kTooMuch;
    std::size_t where = 0;
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      const double more = watts(with(gpus_[g], s)) - watts(gpus_[g]);
      if (more < least) least = more, where = g;
      if (gpus_[g].empty()) break;  // the other empty ones are the same
    }
    if (least > kTooMuch / 2) return false;
    gpus_[where] = with(gpus_[where], s);
    return true;
  }

  bool adopt(std::size_t a, std::size_t b, std::vector<std::size_t> on_a,
             std::vector<std::size_t> on_b) {
    const double before = watts(gpus_[a]) + watts(gpus_[b]);
    if (watts(on_a) + watts(on_b) > before - 1e-9) return false;
    gpus_[a] = std::move(on_a);
    gpus_[b] = std::move(on_b);
    return true;
  }

  bool move_one() {
    for (std::size_t a = 0; a < gpus_.size(); ++a)
      for (const std::size_t s : gpus_[a])
        for (std::size_t b = 0; b < gpus_.size(); ++b)
          if (a != b && adopt(a, b, without(gpus_[a], s), with(gpus_[b], s))) return true;
    return false;
  }

  bool swap_two() {
    for (std::size_t a = 0; a < gpus_.size(); ++a)
      for (std::size_t b = a + 1; b < gpus_.size(); ++b)
        for (const std::size_t s : gpus_[a])
          for (const std::size_t t : gpus_[b])
            if (adopt(a, b, with(without(gpus_[a], s), t), with(without(gpus_[b], t), s)))
              return true;
    return false;
  }

  const PowerProblem& problem_;
  const std::vector<ServiceOptions>& options_;
  std::vector<std::vector<std::size_t>> gpus_;  // services, ascending
  std::map<std::vector<std::size_t>, std::optional<Pattern>> known_;
  Rng rng_{0x5117};
};

plan::Reason too_much(const std::string& what) { return {"power_fleet", "plan", 0, 0, what}; }

}  // namespace

FleetOutcome plan_fleet(const PowerProblem& problem, const FleetOptions& options) {
  FleetOutcome outcome;
  const std::vector<ServiceOptions> service_options = options_of(problem, BatchChoice::any);
  const auto refuse = [&] {
    for (const std::string& why : why_impossible(problem, service_options))
      outcome.refusals.push_back(too_much(why));
    return outcome;
  };
  for (const ServiceOptions& one : service_options)
    if (std::ranges::all_of(one, [](const auto& at_clock) { return at_clock.empty(); }))
      return refuse();
  if (problem.services.empty()) {
    outcome.plan = plan_of(problem, {}, problem.gpus * unused_power(problem).value);
    return outcome;
  }
  if (problem.gpus == 1) {
    std::vector<std::size_t> all(problem.services.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    const auto pattern = one_gpu(problem, service_options, all, problem.cap);
    if (!pattern) return refuse();
    // A cap takes settings away, so none is below the best without it.
    const auto least = one_gpu(problem, service_options, all, {});
    outcome.plan = plan_of(problem, {*pattern}, least->watts);
    return outcome;
  }
  const PatternPricing pricing(problem, service_options);
  const double unused = unused_power(problem).value;
  const double fleet_unused = unused * problem.gpus;
  FleetMaster master(problem, pricing,
                     {std::vector<double>(problem.services.size(), 1.0), problem.gpus});
  const FleetPrices prices = master.solve(options.column_rounds);
  if (prices.missing > kDoesNotFit) return refuse();
  const double bound = std::max(fleet_unused + prices.bound, 0.0);
  const SearchLimits limits{options.rounds, bound / (1 - options.gap) - fleet_unused};
  auto cover = FleetSearch(problem, pricing, prices, master.found()).run(limits);
  std::optional<std::vector<Pattern>> patterns;
  if (cover) patterns = std::move(cover->gpus);
  if (at(problem.gpus) * service_options.size() <= kSmallFleet)
    if (auto whole = UnsplitSearch(problem, service_options).run();
        whole && (!patterns || watts_of(*whole, unused) < watts_of(*patterns, unused)))
      patterns = std::move(whole);
  if (!patterns) {
    outcome.refusals.push_back(
        {plan::kNotFound, "plan", 0, 0,
         fmt::format("on {} GPUs, though shares could fit if GPUs could be cut at will",
                     problem.gpus)});
    return outcome;
  }
  spread_rest(problem, *patterns);
  outcome.plan = plan_of(problem, *patterns, bound);
  return outcome;
}

}  // namespace partita::power
