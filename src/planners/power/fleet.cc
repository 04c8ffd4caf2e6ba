#include "planners/power/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/index.h"
#include "base/rng.h"
#include "planners/power/one_gpu.h"
#include "planners/power/patterns.h"
#include "planners/power/policies.h"
#include "planners/serving/simplex.h"

namespace partita::power {
namespace {

using plan::PowerProblem;

constexpr double kCovered = 1e-7;       // of a rate: what is left over then is rounding
constexpr std::size_t kFewPairs = 300;  // of services and GPUs: whole services are tried as well
constexpr double kHeat = 0.0005;  // of the bound: how much worse the search lets pass at first
constexpr double kMissing = 1e5;  // watts for a service that no pattern carries

// What the linear programme tells: prices per service, the bound, what it could not carry.
struct FleetPrices {
  std::vector<double> prices;
  double bound = 0;                              // watts of the fleet
  double missing = 0;                            // rates that do not fit at all, in services
  std::vector<std::pair<double, Pattern>> used;  // how many of a pattern, the most first
};

class PatternMaster {
 public:
  PatternMaster(const PowerProblem& problem, const PatternPricing& pricing)
      : problem_(problem), pricing_(pricing), services_(problem.services.size()), simplex_(rows()) {
    std::vector<std::size_t> basis;
    for (std::size_t s = 0; s < services_; ++s) basis.push_back(simplex_.add(kMissing, unit(s, 1)));
    basis.push_back(simplex_.add(0, unit(services_, 1)));
    for (std::size_t s = 0; s < services_; ++s) simplex_.add(0, unit(s, -1));
    simplex_.start(basis);
  }

  FleetPrices solve(const FleetOptions& options) {
    const double unused = unused_power(problem_).value;
    const double gpus = problem_.gpus;
    const std::vector<double> all(services_, 1.0);
    FleetPrices found;
    for (int round = 0; round < options.column_rounds; ++round) {
      simplex_.optimise();
      std::vector<double> prices(simplex_.duals().begin(), simplex_.duals().end() - 1);
      for (double& price : prices) price = std::max(0.0, price);
      const double count = std::min(0.0, simplex_.duals().back());
      // What a pattern is worth beyond its GPU's part: how far the prices are too high.
      const PatternPricing::Priced priced = pricing_.best({prices, all, 0});
      const double excess = std::max(0.0, priced.most + unused + count);
      const double sum = std::reduce(prices.begin(), prices.end());
      const double bound = unused * gpus + sum + (count - excess) * gpus;
      if (bound > found.bound || round == 0) found.bound = bound;
      found.prices = prices;
      const double value = unused * gpus + simplex_.objective();
      if (excess < 1e-6 || value - found.bound < 1e-4 * value) break;
      for (const Pattern& pattern : priced.patterns)
        if (pattern.worth + unused + count > 1e-7) add(pattern, unused);
    }
    for (std::size_t s = 0; s < services_; ++s) found.missing += simplex_.value(s);
    for (std::size_t p = 0; p < patterns_.size(); ++p)
      if (const double value = simplex_.value(patterns_[p].first); value > 1e-6)
        found.used.emplace_back(value, patterns_[p].second);
    std::ranges::stable_sort(found.used, std::greater{},
                             [](const auto& used) { return used.first; });
    found.bound = std::max(found.bound, 0.0);
    return found;
  }

 private:
  std::vector<double> rows() const {
    std::vector<double> rhs(services_, 1.0);
    rhs.push_back(problem_.gpus);
    return rhs;
  }
  std::vector<double> unit(std::size_t row, double value) const {
    std::vector<double> entries(services_ + 1, 0.0);
    entries[row] = value;
    return entries;
  }
  void add(const Pattern& pattern, double unused) {
    std::vector<double> entries(services_ + 1, 0.0);
    for (const PatternShare& share : pattern.shares) entries[share.service] = share.part;
    entries.back() = 1;
    patterns_.emplace_back(simplex_.add(pattern.watts - unused, entries), pattern);
  }

  const PowerProblem& problem_;
  const PatternPricing& pricing_;
  const std::size_t services_;
  planners::serving::Simplex simplex_;
  std::vector<std::pair<std::size_t, Pattern>> patterns_;  // with their columns
};

// Patterns that together carry everything, or what they leave.
struct Cover {
  std::vector<Pattern> gpus;
  std::vector<double> left;
  double watts = 0;  // above that of as many unused GPUs

  double missing() const { return std::reduce(left.begin(), left.end()); }
};

class FleetSearch {
 public:
  FleetSearch(const PowerProblem& problem, const PatternPricing& pricing, const FleetPrices& prices)
      : problem_(problem),
        pricing_(pricing),
        prices_(prices),
        unused_(unused_power(problem).value) {
    std::set<std::size_t> clocks;
    for (const auto& [value, pattern] : prices.used) clocks.insert(pattern.clock);
    clocks_.assign(clocks.begin(), clocks.end());
  }

  // The best cover found; none if nothing that was found carries everything.
  std::optional<Cover> run(const FleetOptions& options) {
    const std::vector<double> all(problem_.services.size(), 1.0);
    Cover best;
    for (const double least : {0.95, 0.8, 0.6, 0.4})
      for (const double finish : {0.0, 0.1, 0.3, 1.0}) {
        Cover cover = from_programme(least, finish);
        if (best.gpus.empty() || better(cover, best)) best = std::move(cover);
      }
    for (const double eager : {1.0, 1.1, 1.5}) {
      for (const double finish : {0.0, 0.1, 0.3, 1.0}) {
        Cover cover = fill({scaled(eager, 0), all, finish, clocks_}, problem_.gpus);
        if (best.gpus.empty() || better(cover, best)) best = std::move(cover);
      }
    }
    Cover now = best;
    for (int round = 0; round < options.rounds && !good_enough(best, options); ++round) {
      // At first a little worse is let pass, so that the search leaves where it began.
      const double heat = 1 - static_cast<double>(round) / options.rounds;
      improve(now, round, kHeat * heat * heat * prices_.bound);
      if (better(now, best)) best = now;
    }
    if (best.missing() > kCovered) return std::nullopt;
    return best;
  }

 private:
  bool good_enough(const Cover& cover, const FleetOptions& options) const {
    const double fleet = unused_ * problem_.gpus + cover.watts;
    return cover.missing() <= kCovered && fleet - prices_.bound <= options.gap * fleet;
  }

  static bool better(const Cover& a, const Cover& b) {
    if (std::abs(a.missing() - b.missing()) > kCovered) return a.missing() < b.missing();
    return a.watts < b.watts - 1e-9;
  }

  // The prices, made keener on full GPUs, with up to `noise` more on each.
  std::vector<double> scaled(double eager, double noise) {
    std::vector<double> prices = prices_.prices;
    for (double& price : prices) price *= eager * (1 + noise * rng_.uniform());
    return prices;
  }

  // The patterns of which the linear programme takes at least so much of a GPU, then filled up.
  Cover from_programme(double least, double finish) {
    Cover cover{{}, std::vector<double>(problem_.services.size(), 1.0), 0};
    for (const auto& [value, pattern] : prices_.used) {
      const auto fits = [&](const PatternShare& share) {
        return share.part <= cover.left[share.service] + kCovered;
      };
      for (double rest = value; rest >= least && std::ranges::all_of(pattern.shares, fits) &&
                                static_cast<int>(cover.gpus.size()) < problem_.gpus;
           rest -= 1)
        take(cover, pattern);
    }
    const int room = problem_.gpus - static_cast<int>(cover.gpus.size());
    Cover rest = fill({prices_.prices, cover.left, finish, clocks_}, room);
    rest.watts += cover.watts;
    rest.gpus.insert(rest.gpus.begin(), cover.gpus.begin(), cover.gpus.end());
    return rest;
  }

  // GPU after GPU takes the pattern that is worth most.
  Cover fill(PatternPricing::Wanted wanted, int most_gpus) const {
    Cover cover{{}, std::move(wanted.left), 0};
    while (cover.missing() > kCovered && static_cast<int>(cover.gpus.size()) < most_gpus) {
      wanted.left = cover.left;
      const std::vector<Pattern> patterns = pricing_.best(wanted).patterns;
      if (patterns.empty()) break;
      take(cover, *std::ranges::max_element(patterns, {}, &Pattern::worth));
    }
    return cover;
  }

  void take(Cover& cover, const Pattern& pattern) const {
    for (const PatternShare& share : pattern.shares) {
      double& left = cover.left[share.service];
      left -= share.part;
      if (left < kCovered) left = 0;
    }
    cover.watts += pattern.watts - unused_;
    cover.gpus.push_back(pattern);
  }

  // What a GPU takes beyond what its shares are worth.
  double waste(const Pattern& pattern) const {
    double waste = pattern.watts;
    for (const PatternShare& share : pattern.shares)
      waste -= prices_.prices[share.service] * share.part;
    return waste;
  }

  // Empties a few GPUs, wasteful ones more often, and fills as many anew.
  void improve(Cover& best, int round, double worse) {
    constexpr double kEager[] = {1.0, 1.02, 1.05, 1.1, 1.2, 1.5, 2.5};
    constexpr double kFinish[] = {0, 0.1, 0.3, 1};
    std::vector<std::size_t> order(best.gpus.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<double> key;
    for (const Pattern& pattern : best.gpus) key.push_back(-waste(pattern) * rng_.uniform());
    std::ranges::sort(order, {}, [&](std::size_t g) { return std::pair(key[g], g); });
    const auto emptied =
        std::min<std::size_t>(order.size(), 2 + rng_.below(round % 8 == 0 ? 7 : 3));
    order.resize(emptied);
    std::ranges::sort(order);
    std::vector<double> left = best.left;
    double watts = best.watts;
    for (const std::size_t g : order) {
      watts -= best.gpus[g].watts - unused_;
      for (const PatternShare& share : best.gpus[g].shares) left[share.service] += share.part;
    }
    const int room = problem_.gpus - static_cast<int>(best.gpus.size() - emptied);
    const double finish = kFinish[rng_.below(4)];
    Cover fresh = fill({scaled(kEager[rng_.below(7)], 0.1), left, finish, clocks_}, room);
    const double surplus = fresh.watts + watts;
    fresh.watts = surplus - worse * rng_.uniform();
    const bool pass = better(fresh, best);
    fresh.watts = surplus;
    if (!pass) return;
    std::vector<Pattern> gpus;
    for (std::size_t g = 0; g < best.gpus.size(); ++g)
      if (!std::ranges::binary_search(order, g)) gpus.push_back(std::move(best.gpus[g]));
    for (Pattern& pattern : fresh.gpus) gpus.push_back(std::move(pattern));
    best = {std::move(gpus), std::move(fresh.left), fresh.watts};
  }

  const PowerProblem& problem_;
  const PatternPricing& pricing_;
  const FleetPrices& prices_;
  const double unused_;
  std::vector<std::size_t> clocks_;  // that the linear programme uses
  Rng rng_{0x90e5};
};

plan::PowerGpu gpu_of(const PowerProblem& problem, const Pattern& pattern) {
  plan::PowerGpu gpu{problem.table.clocks[pattern.clock].clock, {0}, Watts{pattern.watts}, {}};
  int used = 0;
  Watts full{0};
  for (const PatternShare& share : pattern.shares) {
    const plan::PowerService& service = problem.services[share.service];
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

// Whole services on one GPU, solved exactly; they ascend.
std::optional<Pattern> one_gpu(const PowerProblem& problem,
                               const std::vector<ServiceOptions>& options,
                               const std::vector<std::size_t>& services) {
  std::vector<const ServiceOptions*> views;
  std::vector<Rps> rates;
  for (const std::size_t s : services) {
    views.push_back(&options[s]);
    rates.push_back(problem.services[s].rate);
  }
  const auto best =
      best_setting({problem.table, views}, rates, {0, {}, problem.gating, true, problem.cap});
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
    return known_.emplace(services, one_gpu(problem_, options_, services)).first->second;
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
    const auto pattern = one_gpu(problem, service_options, all);
    if (!pattern) return refuse();
    outcome.plan = plan_of(problem, {*pattern}, problem.cap ? 0 : pattern->watts);
    return outcome;
  }
  const PatternPricing pricing(problem, service_options);
  const FleetPrices prices = PatternMaster(problem, pricing).solve(options);
  if (prices.missing > 1e-4) return refuse();
  const double unused = unused_power(problem).value;
  auto cover = FleetSearch(problem, pricing, prices).run(options);
  std::optional<std::vector<Pattern>> patterns;
  if (cover) patterns = std::move(cover->gpus);
  if (at(problem.gpus) * service_options.size() <= kFewPairs)
    if (auto whole = UnsplitSearch(problem, service_options).run();
        whole && (!patterns || watts_of(*whole, unused) < watts_of(*patterns, unused)))
      patterns = std::move(whole);
  if (!patterns) {
    outcome.refusals.push_back(too_much(fmt::format(
        "no plan was found on {} GPUs, though shares could fit if GPUs could be cut at will",
        problem.gpus)));
    return outcome;
  }
  spread_rest(problem, *patterns);
  outcome.plan = plan_of(problem, *patterns, prices.bound);
  return outcome;
}

}  // namespace partita::power
