#include "planners/serving/apart.h"

#include <algorithm>
#include <string>

#include "base/index.h"

namespace partita::planners::serving {
namespace {

// Branch and bound over the slots of a fill, largest class first; each takes a group that may still
// join, or stays empty.
class PatternSearch {
 public:
  PatternSearch(const Fleet& fleet, const ApartGroups& groups, const PatternQuestion& question)
      : fleet_(fleet),
        groups_(groups),
        prices_(*question.prices),
        needs_(*question.needs),
        banned_(*question.banned),
        model_(at(question.model)),
        used_(groups.count(), Counts{}) {
    for (std::size_t k = 0; k < fleet.rules[model_].profiles.size(); ++k) {
      std::vector<std::size_t> order;
      for (std::size_t g = 0; g < groups.count(); ++g)
        if (price(g, k) > 0 && most(g, k) > 0) order.push_back(g);
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return price(a, k) > price(b, k); });
      order_.push_back(std::move(order));
    }
  }

  // The greatest value of one fill above the floor; the floor when there is none.
  double run(const hw::Fill& fill, double floor) {
    slots_.clear();
    for (std::size_t k = fill.counts.size(); k-- > 0;)
      slots_.insert(slots_.end(), at(fill.counts[k]), k);
    chosen_.assign(slots_.size(), kEmpty);
    best_ = floor;
    best_chosen_.clear();
    nodes_ = 0;
    const std::uint64_t all = ~std::uint64_t{0};
    visit(0, all, 0);
    return nodes_ > kPatternNodes ? std::max(best_, rest(0, all)) : best_;
  }

  // Instances of groups of GPUs that are worth more than the floor per GPU, each a pattern, and
  // what the best of them is worth.
  PricedPatterns grouped(double floor) const {
    PricedPatterns found{floor, {}};
    const std::size_t classes = fleet_.rules[model_].profiles.size();
    for (std::size_t k = 0; k < classes; ++k) {
      const int gpus = fleet_.gpus[at(fleet_.first_class[model_]) + k];
      for (const std::size_t g : gpus > 1 ? order_[k] : std::vector<std::size_t>{}) {
        Pattern pattern{static_cast<int>(model_), {static_cast<int>(cell(g, k))}};
        const double value = price(g, k) / gpus;
        if (value <= floor || !useful(pattern, needs_, fleet_) || is_banned(pattern)) continue;
        found.value = std::max(found.value, value);
        found.patterns.push_back(std::move(pattern));
      }
    }
    return found;
  }

  // Of the last run; nothing when no value was above the floor.
  std::optional<Pattern> pattern() const {
    if (best_chosen_.empty()) return std::nullopt;
    return pattern_of(best_chosen_);
  }

 private:
  static constexpr std::size_t kEmpty = kMaxApartGroups;

  Pattern pattern_of(const std::vector<std::size_t>& chosen) const {
    Pattern result{static_cast<int>(model_), {}};
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (chosen[i] != kEmpty) result.cells.push_back(static_cast<int>(cell(chosen[i], slots_[i])));
    std::sort(result.cells.begin(), result.cells.end());
    return result;
  }

  bool is_banned(const Pattern& pattern) const {
    return std::ranges::any_of(
        banned_, [&](const Pattern& banned) { return offers(banned, pattern); });
  }
  bool may_be_used() const { return banned_.empty() || !is_banned(pattern_of(chosen_)); }

  std::size_t cell(std::size_t group, std::size_t k) const {
    return group * at(fleet_.classes) + at(fleet_.first_class[model_]) + k;
  }
  double price(std::size_t group, std::size_t k) const { return prices_[cell(group, k)]; }

  // How many instances of a class a group can use on one GPU.
  int most(std::size_t group, std::size_t k) const {
    const int number = needs_.most[cell(group, k)];
    return groups_.apart[group] >> group & 1 ? std::min(number, 1) : number;
  }

  // What the slots from i on are worth at most.
  double rest(std::size_t i, std::uint64_t allowed) const {
    double sum = 0;
    while (i < slots_.size()) {
      const std::size_t k = slots_[i];
      int slots = 0;
      for (; i < slots_.size() && slots_[i] == k; ++i) ++slots;
      for (std::size_t n = 0; n < order_[k].size() && slots > 0; ++n) {
        const std::size_t g = order_[k][n];
        if ((allowed >> g & 1) == 0) continue;
        const int taken = std::min(slots, most(g, k));
        sum += taken * price(g, k);
        slots -= taken;
      }
    }
    return sum;
  }

  void visit(std::size_t i, std::uint64_t allowed, double value) {
    if (++nodes_ > kPatternNodes) return;
    if (i == slots_.size()) {
      if (value <= best_ + 1e-12 || !may_be_used()) return;
      best_ = value;
      best_chosen_ = chosen_;
      return;
    }
    if (value + rest(i, allowed) <= best_ + 1e-12) return;
    const std::size_t k = slots_[i];
    // Slots of one class are interchangeable: their groups go in the class's order.
    const bool repeats = i > 0 && slots_[i - 1] == k;
    const std::size_t first = repeats ? place_of(k, chosen_[i - 1]) : 0;
    for (std::size_t n = first; n < order_[k].size(); ++n) {
      const std::size_t g = order_[k][n];
      std::int32_t& number = used_[g][at(fleet_.first_class[model_]) + k];
      if ((allowed >> g & 1) == 0 || number >= most(g, k) ||
          !needs_.open(g, used_[g], fleet_.classes))
        continue;
      ++number;
      chosen_[i] = g;
      visit(i + 1, allowed & ~groups_.apart[g], value + price(g, k));
      --number;
    }
    chosen_[i] = kEmpty;
    visit(i + 1, allowed, value);
  }

  std::size_t place_of(std::size_t k, std::size_t group) const {
    if (group == kEmpty) return order_[k].size();
    return static_cast<std::size_t>(std::find(order_[k].begin(), order_[k].end(), group) -
                                    order_[k].begin());
  }

  const Fleet& fleet_;
  const ApartGroups& groups_;
  const std::vector<double>& prices_;
  const ApartNeeds& needs_;
  const std::vector<Pattern>& banned_;
  const std::size_t model_;
  std::vector<Counts> used_;                     // per group
  std::vector<std::vector<std::size_t>> order_;  // per class of the model, groups by falling price
  std::vector<std::size_t> slots_, chosen_, best_chosen_;
  double best_ = 0;
  long nodes_ = 0;
};

}  // namespace

Apart make_apart(const std::vector<plan::Service>& services) {
  Apart apart;
  const auto tied = [](const plan::Service& s) { return s.spread || !s.avoid.empty(); };
  if (std::none_of(services.begin(), services.end(), tied)) return apart;
  std::map<std::string, int> index;
  for (std::size_t s = 0; s < services.size(); ++s)
    index.emplace(services[s].name, static_cast<int>(s));
  for (std::size_t s = 0; s < services.size(); ++s) {
    const int self = static_cast<int>(s);
    if (services[s].spread) apart[self].insert(self);
    for (const std::string& name : services[s].avoid) {
      const auto other = index.find(name);
      if (other == index.end() || other->second == self) continue;
      apart[self].insert(other->second);
      apart[other->second].insert(self);
    }
  }
  return apart;
}

std::optional<ApartGroups> apart_groups(const std::vector<plan::Service>& services) {
  const Apart apart = make_apart(services);
  ApartGroups groups;
  std::map<std::set<int>, int> known;
  std::vector<std::set<int>> others;  // per group
  for (std::size_t s = 0; s < services.size(); ++s) {
    const auto found = apart.find(static_cast<int>(s));
    const std::set<int> avoided = found == apart.end() ? std::set<int>{} : found->second;
    const bool spread = avoided.contains(static_cast<int>(s));
    const auto [place, fresh] = known.emplace(avoided, static_cast<int>(others.size()));
    if (fresh || spread || services.size() <= kMaxAlone) {
      groups.of_service.push_back(static_cast<int>(others.size()));
      others.push_back(avoided);
    } else {
      groups.of_service.push_back(place->second);
    }
  }
  if (others.size() > kMaxApartGroups) return std::nullopt;
  for (const std::set<int>& avoided : others) {
    std::uint64_t mask = 0;
    for (const int s : avoided) mask |= std::uint64_t{1} << groups.of_service[at(s)];
    groups.apart.push_back(mask);
  }
  return groups;
}

int gpus_of(const Pattern& pattern, const Fleet& fleet) {
  int gpus = 1;
  for (const int cell : pattern.cells)
    gpus = std::max(gpus, fleet.gpus[at(cell % fleet.classes)]);
  return gpus;
}

std::optional<Counts> cover_within(const Kind& kind, const Counts& counts, int classes) {
  std::optional<Counts> best;
  for (int m = 0; m < modes(kind); ++m) {
    Counts part = counts;
    for (std::size_t k = 0; k < at(classes); ++k)
      if (mode(kind, m).rate[k] <= 0) part[k] = 0;
    if (covers(kind, part, classes) && (!best || total(part) < total(*best))) best = part;
  }
  return best;
}

bool ApartNeeds::open(std::size_t group, const Counts& counts, int classes) const {
  if (alone[group] == nullptr) return true;
  Counts all = placed[group];
  for (std::size_t k = 0; k < at(classes); ++k) all[k] += counts[k];
  return !cover_within(*alone[group], all, classes);
}

bool offers(const Pattern& more, const Pattern& less) {
  return more.model == less.model &&
         std::includes(more.cells.begin(), more.cells.end(), less.cells.begin(), less.cells.end());
}

bool useful(const Pattern& pattern, const ApartNeeds& needs, const Fleet& fleet) {
  std::map<std::size_t, Counts> used;  // per group
  // Largest class first, as in the search: then the one added last is the one to be without.
  for (auto cell = pattern.cells.rbegin(); cell != pattern.cells.rend(); ++cell) {
    const std::size_t group = at(*cell / fleet.classes), k = at(*cell % fleet.classes);
    Counts& counts = used.try_emplace(group, Counts{}).first->second;
    if (counts[k] >= needs.most[at(*cell)] || !needs.open(group, counts, fleet.classes))
      return false;
    ++counts[k];
  }
  return true;
}

PricedPatterns best_patterns(const Fleet& fleet, const ApartGroups& groups,
                             const PatternQuestion& question) {
  PatternSearch search(fleet, groups, question);
  PricedPatterns result{question.floor, {}};
  for (const hw::Fill& fill : fleet.rules[at(question.model)].fills) {
    result.value = std::max(result.value, search.run(fill, question.floor));
    if (auto pattern = search.pattern()) result.patterns.push_back(std::move(*pattern));
  }
  PricedPatterns grouped = search.grouped(question.floor);
  result.value = std::max(result.value, grouped.value);
  std::ranges::move(grouped.patterns, std::back_inserter(result.patterns));
  return result;
}

}  // namespace partita::planners::serving
