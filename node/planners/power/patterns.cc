#include "planners/power/patterns.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "base/index.h"

namespace partita::power {
namespace {

constexpr double kLeastPart = 1e-9;
constexpr double kNoWorth = -1e300;

}  // namespace

// worth[u]: the best of the services so far on exactly u units.
struct PatternPricing::Sack {
  struct Column {
    std::size_t service = 0;
    std::vector<Item> items;          // of more worth than any with fewer units
    std::vector<std::int32_t> taken;  // per units in all: an item, or -1
  };
  std::size_t clock = 0;
  std::vector<double> worth;
  std::vector<Column> columns;
};

PatternPricing::PatternPricing(const plan::PowerProblem& problem,
                               const std::vector<ServiceOptions>& options)
    : problem_(problem), options_(options) {
  for (std::size_t s = 0; s < options.size(); ++s) {
    uses_.emplace_back();
    for (std::size_t c = 0; c < options[s].size(); ++c) uses_.back().push_back(uses_of(s, c));
  }
}

// What a part is worth less its watts is linear between the steps of the busy power: the best is at
// one of them, or at all that is carried. A use is left out if another has no more units and watts
// and carries no less.
std::vector<PatternPricing::Use> PatternPricing::uses_of(std::size_t service,
                                                         std::size_t clock) const {
  std::vector<Use> uses;
  const double rate = problem_.services[service].rate.value;
  for (const ServiceOption& option : options_[service][clock]) {
    const double most = std::min(1.0, option.capacity.value / rate);
    const auto add = [&](double part) {
      if (part <= most)
        uses.push_back({option.units, part, option.busy.at(Rps{part * rate}).value, &option});
    };
    add(most);
    for (const BusyPower::Step& step : option.busy.steps) add(step.rate.value / rate);
  }
  std::ranges::stable_sort(
      uses, {}, [](const Use& use) { return std::tuple(use.units, -use.part, use.watts); });
  std::vector<Use> kept;
  for (const Use& use : uses)
    if (std::ranges::none_of(kept, [&](const Use& other) {
          return other.part >= use.part && other.watts <= use.watts;
        }))
      kept.push_back(use);
  return kept;
}

std::vector<PatternPricing::Item> PatternPricing::items_of(std::size_t service, std::size_t clock,
                                                           const Wanted& wanted) const {
  const double price = wanted.prices[service], left = wanted.left[service];
  const double rate = problem_.services[service].rate.value;
  const double whole = wanted.whole.empty() ? 0 : wanted.whole[service];
  std::vector<Item> items;
  double before = 0;  // what fewer units are worth
  if (whole > 0 && !uses_[service][clock].empty()) {
    before = whole / 2;
    items.push_back({before, 0, uses_[service][clock].front().option});
  }
  for (const Use& use : uses_[service][clock]) {
    const bool rest = use.part >= left;
    const double part = rest ? left : use.part;
    const double watts = part < use.part ? use.option->busy.at(Rps{part * rate}).value : use.watts;
    const double worth = price * part - watts + (rest ? wanted.finish * price + whole : whole / 2);
    if (worth <= before) continue;
    before = worth;
    if (items.empty() || items.back().option->units != use.units) items.emplace_back();
    items.back() = {worth, part, use.option};
  }
  return items;
}

PatternPricing::Sack PatternPricing::fill(std::size_t clock, const Wanted& wanted) const {
  const int units = problem_.table.units();
  Sack sack{clock, std::vector<double>(at(units) + 1, kNoWorth), {}};
  sack.worth[0] = 0;
  for (std::size_t s = 0; s < wanted.prices.size(); ++s) {
    if (wanted.left[s] <= kLeastPart) continue;
    if (wanted.prices[s] <= 0 && (wanted.whole.empty() || wanted.whole[s] <= 0)) continue;
    Sack::Column column{s, items_of(s, clock, wanted), {}};
    if (column.items.empty()) continue;
    column.taken.assign(sack.worth.size(), -1);
    for (std::size_t all = sack.worth.size(); all-- > 1;)
      for (std::size_t i = 0; i < column.items.size(); ++i) {
        const std::size_t own = at(column.items[i].option->units);
        if (own > all) break;
        const double worth = sack.worth[all - own] + column.items[i].worth;
        if (worth > sack.worth[all]) {
          sack.worth[all] = worth;
          column.taken[all] = static_cast<std::int32_t>(i);
        }
      }
    sack.columns.push_back(std::move(column));
  }
  return sack;
}

Pattern PatternPricing::pattern_of(const Sack& sack, std::size_t units) const {
  Pattern pattern{sack.clock, {}, 0, 0};
  const Watts ready =
      ready_power(problem_.table, problem_.gating, sack.clock, static_cast<int>(units));
  pattern.watts = ready.value;
  pattern.worth = sack.worth[units] - ready.value;
  for (std::size_t c = sack.columns.size(); c-- > 0;) {
    const Sack::Column& column = sack.columns[c];
    if (column.taken[units] < 0) continue;
    const Item& item = column.items[at(column.taken[units])];
    pattern.shares.push_back({column.service, item.option, item.part});
    const double rate = problem_.services[column.service].rate.value * item.part;
    pattern.watts += item.option->busy.at(Rps{rate}).value;
    units -= at(item.option->units);
  }
  std::ranges::reverse(pattern.shares);
  return pattern;
}

bool PatternPricing::within_cap(const Pattern& pattern) const {
  if (!problem_.cap) return true;
  int used = 0;
  Watts busy{0};
  for (const PatternShare& share : pattern.shares) {
    used += share.option->units;
    busy += share.option->busy.full();
  }
  return ready_power(problem_.table, problem_.gating, pattern.clock, used) + busy <= *problem_.cap;
}

Pattern PatternPricing::cut(const Pattern& pattern, const std::vector<double>& left) const {
  Pattern cut{pattern.clock, {}, 0, 0};
  int used = 0;
  for (const PatternShare& share : pattern.shares) {
    const double part = std::min(share.part, left[share.service]);
    if (part <= kLeastPart) continue;
    cut.shares.push_back({share.service, share.option, part});
    cut.watts += share.option->busy.at(problem_.services[share.service].rate * part).value;
    used += share.option->units;
  }
  cut.watts += ready_power(problem_.table, problem_.gating, cut.clock, used).value;
  return cut;
}

PatternPricing::Priced PatternPricing::best(const Wanted& wanted) const {
  Priced priced;
  std::vector<std::size_t> clocks = wanted.clocks;
  for (std::size_t c = 0; wanted.clocks.empty() && c < problem_.table.clocks.size(); ++c)
    clocks.push_back(c);
  for (const std::size_t c : clocks) {
    const Sack sack = fill(c, wanted);
    if (sack.columns.empty()) continue;
    std::vector<std::pair<double, std::size_t>> order;  // worth, units
    for (std::size_t units = 1; units < sack.worth.size(); ++units)
      if (sack.worth[units] > kNoWorth)
        order.emplace_back(
            ready_power(problem_.table, problem_.gating, c, static_cast<int>(units)).value -
                sack.worth[units],
            units);
    std::ranges::sort(order);
    if (!order.empty()) priced.most = std::max(priced.most, -order.front().first);
    for (const auto& [cost, units] : order) {
      Pattern pattern = pattern_of(sack, units);
      if (!within_cap(pattern)) continue;
      priced.patterns.push_back(std::move(pattern));
      break;
    }
  }
  return priced;
}

}  // namespace partita::power
