#include "planners/serving/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>

#include "base/index.h"
#include "planners/serving/watts.h"

namespace partita::planners::serving {
namespace {

// Class j is smaller than k when every row of its model and the slices count it for no more, and
// one for less.
bool is_smaller(const Fleet& fleet, std::size_t j, std::size_t k) {
  if (j == k || fleet.model_of[j] != fleet.model_of[k]) return false;
  bool less = fleet.gpcs[j] < fleet.gpcs[k];
  if (fleet.gpcs[j] > fleet.gpcs[k]) return false;
  for (const Row& row : fleet.rows) {
    if (row.weight[j] > row.weight[k]) return false;
    less = less || row.weight[j] < row.weight[k];
  }
  return less;
}

// Services of an avoid list, and those that have one: they are not interchangeable with others.
std::set<std::string> named_in_avoid(const std::vector<plan::Service>& services) {
  std::set<std::string> names;
  for (const plan::Service& service : services) {
    if (!service.avoid.empty()) names.insert(service.name);
    names.insert(service.avoid.begin(), service.avoid.end());
  }
  return names;
}

double price_of(const std::vector<plan::FleetEntry>& fleet, const std::vector<int>& gpus) {
  double sum = 0;
  for (std::size_t m = 0; m < gpus.size(); ++m) sum += gpus[m] * fleet[m].price;
  return sum;
}

int apart_by(const std::vector<int>& a, const std::vector<int>& b) {
  int sum = 0;
  for (std::size_t m = 0; m < a.size(); ++m) sum += std::abs(a[m] - b[m]);
  return sum;
}

// All ways to spend a sum on GPUs; false when there are too many to look at.
class Spending {
 public:
  Spending(const std::vector<plan::FleetEntry>& fleet, double sum)
      : fleet_(fleet), sum_(sum), cent_(1e-9 * (1 + sum)), gpus_(fleet.size(), 0) {}

  bool run(std::vector<std::vector<int>>& found) { return spend(0, sum_, found); }

 private:
  static constexpr int kMostSteps = 1'000'000;

  bool spend(std::size_t m, double left, std::vector<std::vector<int>>& found) {
    if (++steps_ > kMostSteps) return false;
    if (m == fleet_.size()) {
      if (left < cent_) found.push_back(gpus_);
      return true;
    }
    const double price = fleet_[m].price;
    double limit = fleet_[m].count.value_or(INT32_MAX);
    if (price > 0) limit = std::min(limit, (left + cent_) / price);
    if (limit > kMostSteps) return false;
    const int most = static_cast<int>(limit);
    // The last one takes the rest, and what costs nothing is taken whole.
    const bool all = m + 1 == fleet_.size() || price <= 0;
    for (int n = all ? most : 0; n <= most; ++n) {
      gpus_[m] = n;
      if (!spend(m + 1, left - n * price, found)) return false;
    }
    return true;
  }

  const std::vector<plan::FleetEntry>& fleet_;
  const double sum_, cent_;  // as good as nothing, however it was added up
  std::vector<int> gpus_;
  int steps_ = 0;
};

}  // namespace

Mode mode_in(const plan::ServingProblem& problem, const PointTables& tables, const Fleet& fleet,
             std::size_t service) {
  Mode mode{{}, demand_of(problem, tables, service)};
  for (std::size_t m = 0; m < tables.size(); ++m)
    for (std::size_t k = 0; k < tables[m].profiles.size(); ++k)
      if (const auto& point = tables[m].best[service][k])
        mode.rate[at(fleet.first_class[m]) + k] = point->throughput.value;
  return mode;
}

double slices_at_least(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
                       const Fleet& fleet) {
  double slices = 0;
  for (const Kind& kind : make_kinds(problem, modes, fleet).kinds)
    slices += kind.copies * cheapest_cover(kind, fleet.gpcs, fleet.classes).bound;
  return slices;
}

std::vector<int> Fleet::counts_of(int model, const Counts& counts) const {
  const auto m = static_cast<std::size_t>(model);
  const auto begin = counts.begin() + first_class[m];
  return {begin, begin + static_cast<std::ptrdiff_t>(rules[m].profiles.size())};
}

bool Fleet::has_groups() const {
  return std::ranges::any_of(gpus, [](int one) { return one > 1; });
}

bool Fleet::fit_nodes(const Counts& sum) const {
  return std::ranges::all_of(group_rows, [&](const GroupRow& row) {
    std::int64_t weight = 0;
    for (std::size_t k = 0; k < at(classes); ++k) weight += row.weight[k] * sum[k];
    return weight <= row.most;
  });
}

int groups_in_nodes(const plan::FleetEntry& entry, int gpus) {
  if (!entry.domains.empty())
    return std::accumulate(entry.domains.begin(), entry.domains.end(), 0,
                           [&](int sum, const std::vector<int>& domain) {
                             return sum + static_cast<int>(domain.size()) / gpus;
                           });
  const int linked = entry.linked_gpus();
  return *entry.count / linked * (linked / gpus) + *entry.count % linked / gpus;
}

namespace {

// Every size divides the larger ones, so that groups which fill domains largest first leave room
// for as many of the next size as if every domain were cut down to a multiple of it: one row per
// size is all there is to say. Where no domain has GPUs over, the packing says so already.
void add_group_rows(const plan::FleetEntry& entry, std::size_t model, Fleet& fleet) {
  if (!entry.count) return;
  const auto first = at(fleet.first_class[model]);
  std::set<int> sizes(fleet.gpus.begin() + static_cast<std::ptrdiff_t>(first), fleet.gpus.end());
  for (const int size : sizes) {
    const int most = groups_in_nodes(entry, size);
    if (size == 1 || most == *entry.count / size) continue;
    GroupRow& row = fleet.group_rows.emplace_back();
    row.most = most;
    for (std::size_t k = first; k < fleet.gpus.size(); ++k) row.weight[k] = fleet.gpus[k] / size;
  }
}

// The rules with one more class for every group of GPUs, which weighs as much as its GPUs do; in a
// fill it is its GPUs.
hw::PackingRules rules_with_groups(const hw::GpuModel& gpu, const PointTable& table,
                                   KnownRules* known) {
  const auto groups =
      static_cast<std::size_t>(std::ranges::count_if(table.gpus, [](int one) { return one > 1; }));
  const std::size_t singles = table.profiles.size() - groups;
  std::vector<int> profiles(table.profiles.begin(),
                            table.profiles.begin() + static_cast<std::ptrdiff_t>(singles));
  KnownRules own;
  const auto [at, fresh] = (known ? *known : own).try_emplace({gpu.name, profiles});
  if (fresh) at->second = hw::packing_rules(gpu, profiles);
  hw::PackingRules rules = at->second;
  for (std::size_t k = singles; k < table.profiles.size(); ++k) {
    const auto whole = std::ranges::find(table.profiles, table.profiles[k]);
    const auto of = static_cast<std::size_t>(whole - table.profiles.begin());
    rules.profiles.push_back(table.profiles[k]);
    for (hw::Fill& fill : rules.fills) fill.counts.push_back(0);
    for (hw::Facet& facet : rules.facets) facet.weight.push_back(table.gpus[k] * facet.weight[of]);
  }
  return rules;
}

}  // namespace

Result<Fleet> make_fleet(const plan::ServingProblem& problem, const std::vector<PointTable>& tables,
                         KnownRules* known) {
  Fleet fleet;
  for (std::size_t m = 0; m < tables.size(); ++m) {
    const hw::GpuModel& gpu = problem.fleet[m].gpu;
    fleet.first_class.push_back(fleet.classes);
    fleet.classes += static_cast<int>(tables[m].profiles.size());
    if (fleet.classes > kMaxClasses)
      return failed({ErrorCode::limit,
                     fmt::format("the fleet has more than {} instance shapes", kMaxClasses), ""});
    fleet.rules.push_back(rules_with_groups(gpu, tables[m], known));
    for (std::size_t k = 0; k < tables[m].profiles.size(); ++k) {
      const auto at = static_cast<std::size_t>(fleet.first_class[m]) + k;
      const int gpus = tables[m].gpus.empty() ? 1 : tables[m].gpus[k];
      const auto single = std::ranges::find(tables[m].profiles, tables[m].profiles[k]);
      fleet.gpus.push_back(gpus);
      fleet.single.push_back(fleet.first_class[m] +
                             static_cast<int>(single - tables[m].profiles.begin()));
      fleet.gpcs[at] = gpus * gpu.profiles[static_cast<std::size_t>(tables[m].profiles[k])].gpcs;
      fleet.model_of.push_back(static_cast<int>(m));
    }
    add_group_rows(problem.fleet[m], m, fleet);
    for (const hw::Facet& facet : fleet.rules[m].facets) {
      Row row{{}, facet.capacity, static_cast<int>(m)};
      for (std::size_t k = 0; k < facet.weight.size(); ++k)
        row.weight[static_cast<std::size_t>(fleet.first_class[m]) + k] = facet.weight[k];
      fleet.rows.push_back(row);
    }
  }
  fleet.smaller.resize(static_cast<std::size_t>(fleet.classes));
  for (std::size_t k = 0; k < fleet.smaller.size(); ++k)
    for (std::size_t j = 0; j < fleet.smaller.size(); ++j)
      if (is_smaller(fleet, j, k)) fleet.smaller[k].push_back(static_cast<int>(j));
  return fleet;
}

Trials fleet_trials(const plan::ServingProblem& problem, double bound,
                    const std::optional<std::vector<int>>& incumbent) {
  Trials result;
  const auto& fleet = problem.fleet;
  if (fleet.size() == 1) {
    const int most = incumbent ? (*incumbent)[0] - 1 : fleet[0].count.value_or(0);
    for (int gpus = static_cast<int>(bound); gpus <= most; ++gpus) result.counts.push_back({gpus});
    return result;
  }
  const auto price = [&](const std::vector<int>& gpus) { return price_of(fleet, gpus); };
  // Per model: up to its count, and to what the incumbent's price buys.
  std::vector<int> most;
  double size = 1;
  for (const plan::FleetEntry& entry : fleet) {
    int limit = entry.count.value_or(INT32_MAX);
    if (incumbent && entry.price > 0)
      limit = std::min(limit, static_cast<int>(price(*incumbent) / entry.price + 1e-9));
    most.push_back(limit);
    size *= limit + 1.0;
  }
  if (size > 1e6) return {{}, false};
  std::vector<int> gpus(most.size(), 0);
  while (true) {
    const double p = price(gpus);
    if (p >= bound - 1e-9 && (!incumbent || p < price(*incumbent) - 1e-9))
      result.counts.push_back(gpus);
    std::size_t m = 0;
    while (m < gpus.size() && gpus[m] == most[m]) gpus[m++] = 0;
    if (m == gpus.size()) break;
    ++gpus[m];
  }
  std::stable_sort(
      result.counts.begin(), result.counts.end(),
      [&](const std::vector<int>& a, const std::vector<int>& b) { return price(a) < price(b); });
  if (result.counts.size() > kMaxFleetTrials) {
    result.counts.resize(kMaxFleetTrials);
    result.complete = false;
  }
  return result;
}

Trials equally_priced(const plan::ServingProblem& problem, const std::vector<int>& gpus) {
  Trials result{{gpus}, true};
  if (problem.fleet.size() == 1) return result;
  std::vector<std::vector<int>> equal;
  result.complete = Spending(problem.fleet, price_of(problem.fleet, gpus)).run(equal);
  std::erase(equal, gpus);
  std::ranges::stable_sort(equal, {},
                           [&](const std::vector<int>& other) { return apart_by(gpus, other); });
  if (equal.size() > kMaxEqualTrials) {
    equal.resize(kMaxEqualTrials);
    result.complete = false;
  }
  result.counts.insert(result.counts.end(), equal.begin(), equal.end());
  return result;
}

KindTable make_kinds(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
                     const Fleet& fleet, OwnCost own) {
  KindTable table;
  const std::set<std::string> apart = named_in_avoid(problem.services);
  using Key = std::tuple<std::vector<Mode>, int, bool, std::string, std::vector<Burn>>;
  std::map<Key, std::size_t> known;
  for (std::size_t s = 0; s < problem.services.size(); ++s) {
    const plan::Service& service = problem.services[s];
    std::vector<Mode> ways;
    for (const PointTables& tables : modes) ways.push_back(mode_in(problem, tables, fleet, s));
    std::vector<Burn> burn;  // at most one
    if (own == OwnCost::watts) burn.push_back(burn_of(problem, modes, fleet, s));
    const Key key{ways, service.min_replicas, service.spread,
                  apart.contains(service.name) ? service.name : "", burn};
    const auto [at, fresh] = known.emplace(key, table.kinds.size());
    if (fresh) {
      Kind kind{ways.front(), {ways.begin() + 1, ways.end()}, service.min_replicas};
      if (!burn.empty()) kind.burn = std::make_shared<const Burn>(burn.front());
      table.kinds.push_back(std::move(kind));
      table.services.emplace_back();
    } else {
      ++table.kinds[at->second].copies;
    }
    table.services[at->second].push_back(static_cast<int>(s));
  }
  return table;
}

}  // namespace partita::planners::serving
