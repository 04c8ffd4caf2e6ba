#include "planners/power/fleet_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/index.h"

namespace partita::power {
namespace {

constexpr double kCovered = 1e-7;  // of a rate: what is left over then is rounding
constexpr double kNoLimit = 1e300;
constexpr double kGain = 1e-6;  // watts
constexpr double kSure = 0.95;  // of a GPU: the programme takes it
constexpr double kLikely = 0.6;
constexpr int kTakenAtOnce = 6;  // at most one in so many GPUs that are only likely
constexpr double kChance = 0.5;  // of a GPU: how far a later dive goes another way
constexpr int kDiveRounds = 30;  // of pricing, between two steps of a dive

}  // namespace

double Cover::missing() const { return std::reduce(left.begin(), left.end()); }

FleetSearch::FleetSearch(const plan::PowerProblem& problem, const PatternPricing& pricing,
                         const FleetPrices& prices, std::vector<Pattern> known)
    : problem_(problem),
      pricing_(pricing),
      prices_(prices),
      unused_(unused_power(problem).value),
      known_(std::move(known)) {}

std::optional<Cover> FleetSearch::run(const SearchLimits& limits) {
  Cover now = start();
  for (int round = 0; round < limits.rounds && !now.gpus.empty(); ++round) {
    if (now.missing() <= kCovered && now.watts <= limits.enough) break;
    improve(now, round % 3 == 2 ? kChance : 0);
  }
  if (now.missing() > kCovered) return std::nullopt;
  return now;
}

// A dive from the programme's own solution; where that leaves something, and for small fleets, GPU
// after GPU takes what is worth most, in several ways.
Cover FleetSearch::start() {
  const std::vector<double> all(problem_.services.size(), 1.0);
  Cover best{{}, all, 0};
  take_most(prices_, problem_.gpus, 0, best);
  const int room = problem_.gpus - static_cast<int>(best.gpus.size());
  const Cover rest = dive({best.left, room}, kNoLimit, 0);
  best.gpus.insert(best.gpus.end(), rest.gpus.begin(), rest.gpus.end());
  best.left = rest.left;
  best.watts += rest.watts;
  const bool few = at(problem_.gpus) * problem_.services.size() <= kSmallFleet;
  if (best.missing() <= kCovered && !few) return best;
  for (const double eager : {1.0, 1.1, 1.5, 2.5})
    for (const double finish : {0.0, 0.1, 0.3, 1.0}) {
      std::vector<double> prices = prices_.prices;
      for (std::size_t s = 0; s < prices.size(); ++s)
        prices[s] = eager * (prices[s] + prices_.whole[s]);
      Cover cover = fill({std::move(prices), all, finish, {}, {}}, problem_.gpus);
      const bool less = cover.missing() < best.missing() - kCovered;
      if (less || (cover.missing() <= kCovered && cover.watts < best.watts))
        best = std::move(cover);
    }
  return best;
}

Cover FleetSearch::dive(const FleetDemand& demand, double limit, double chance) {
  Cover cover{{}, demand.left, 0};
  std::vector<Pattern> known = known_;
  while (cover.missing() > kCovered) {
    const int room = demand.gpus - static_cast<int>(cover.gpus.size());
    if (room <= 0) break;
    std::erase_if(known, [&](const Pattern& pattern) {
      return std::ranges::any_of(pattern.shares, [&](const PatternShare& share) {
        return share.part > 0 && cover.left[share.service] <= kCovered;
      });
    });
    FleetMaster master(problem_, pricing_, {cover.left, room});
    for (const Pattern& pattern : known) master.offer(pattern);
    const FleetPrices prices = master.solve(kDiveRounds);
    if (cover.watts + prices.bound >= limit) break;
    if (prices.missing > kDoesNotFit) break;
    const std::size_t before = cover.gpus.size();
    take_most(prices, room, chance, cover);
    if (cover.gpus.size() == before) break;
    known.insert(known.end(), master.found().begin(), master.found().end());
  }
  return cover;
}

// The patterns of which the programme takes a whole GPU, and some of which it takes most of one, up
// to `chance` out of order.
void FleetSearch::take_most(const FleetPrices& prices, int most_gpus, double chance, Cover& cover) {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t p = 0; p < prices.used.size(); ++p) {
    const double value = prices.used[p].first;
    order.emplace_back(-value + (value < kSure ? chance * rng_.uniform() : 0), p);
  }
  std::ranges::sort(order);
  const std::size_t before = cover.gpus.size();
  for (const auto& [key, p] : order) {
    const auto& [value, pattern] = prices.used[p];
    const int taken = static_cast<int>(cover.gpus.size() - before);
    const bool unsure = value < kSure && taken >= std::max(1, most_gpus / kTakenAtOnce);
    if (taken == most_gpus || (taken > 0 && (value < kLikely || unsure))) break;
    if (std::ranges::all_of(pattern.shares, [&](const PatternShare& share) {
          return share.part <= cover.left[share.service] + kCovered;
        }))
      take(pattern, cover);
  }
}

// GPU after GPU takes the pattern that is worth most.
Cover FleetSearch::fill(PatternPricing::Wanted wanted, int most_gpus) const {
  Cover cover{{}, std::move(wanted.left), 0};
  while (cover.missing() > kCovered && static_cast<int>(cover.gpus.size()) < most_gpus) {
    wanted.left = cover.left;
    const std::vector<Pattern> patterns = pricing_.best(wanted).patterns;
    if (patterns.empty()) break;
    take(*std::ranges::max_element(patterns, {}, &Pattern::worth), cover);
  }
  return cover;
}

void FleetSearch::take(const Pattern& pattern, Cover& cover) const {
  const Pattern cut = pricing_.cut(pattern, cover.left);
  if (cut.shares.empty()) return;
  for (const PatternShare& share : cut.shares) {
    double& left = cover.left[share.service];
    left -= share.part;
    if (left < kCovered) left = 0;
  }
  cover.watts += cut.watts - unused_;
  cover.gpus.push_back(cut);
}

// What a GPU takes beyond what its shares are worth.
double FleetSearch::waste(const Pattern& pattern) const {
  double waste = pattern.watts - unused_;
  for (const PatternShare& share : pattern.shares)
    waste -= prices_.prices[share.service] * share.part +
             prices_.whole[share.service] * (share.part >= 1 - kCovered ? 1 : 0.5);
  return std::max(waste, 0.0);
}

// One by chance, those that carry the rest of its services, then others by chance, wasteful ones
// more often. They ascend.
std::vector<std::size_t> FleetSearch::some_gpus(const Cover& cover) {
  const std::vector<Pattern>& gpus = cover.gpus;
  const std::size_t first = rng_.below(gpus.size());
  const auto split_with_first = [&](const Pattern& pattern) {
    return std::ranges::any_of(gpus[first].shares, [&](const PatternShare& share) {
      return share.part < 1 - kCovered &&
             std::ranges::count(pattern.shares, share.service, &PatternShare::service) > 0;
    });
  };
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    double key = (waste(gpus[g]) + 0.5) * rng_.uniform();
    if (split_with_first(gpus[g])) key += 10 * rng_.uniform();
    order.emplace_back(g == first ? -kNoLimit : -key, g);
  }
  std::ranges::sort(order);
  std::vector<std::size_t> some;
  const std::size_t most = 5 + rng_.below(4);
  for (const auto& [key, g] : order)
    if (some.size() < most) some.push_back(g);
  std::ranges::sort(some);
  return some;
}

// Empties some GPUs and deals what they carried, and what was left, anew.
void FleetSearch::improve(Cover& now, double chance) {
  const std::vector<std::size_t> emptied = some_gpus(now);
  FleetDemand demand{now.left, problem_.gpus - static_cast<int>(now.gpus.size() - emptied.size())};
  double before = 0;
  Cover next{{}, {}, now.watts};
  for (std::size_t g = 0; g < now.gpus.size(); ++g) {
    if (!std::ranges::binary_search(emptied, g)) {
      next.gpus.push_back(now.gpus[g]);
      continue;
    }
    before += now.gpus[g].watts - unused_;
    for (const PatternShare& share : now.gpus[g].shares) demand.left[share.service] += share.part;
  }
  const bool complete = now.missing() <= kCovered;
  const Cover fresh = dive(demand, complete ? before - kGain : kNoLimit, chance);
  if (fresh.missing() > now.missing() + kCovered) return;
  if (complete && fresh.watts >= before - kGain) return;
  next.gpus.insert(next.gpus.end(), fresh.gpus.begin(), fresh.gpus.end());
  next.left = fresh.left;
  next.watts += fresh.watts - before;
  now = std::move(next);
}

}  // namespace partita::power
