#include "problems.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/source_text.h"
#include "forms/serving_forms.h"
#include "hw/catalogue.h"
#include "hw/layout.h"
#include "profile/testing/published.h"

#ifdef PARTITA_HAVE_CBC
#include <coin/Cbc_C_Interface.h>
#endif

namespace partita::planning_test {
namespace {

using Vector = std::vector<int>;

plan::FleetEntry entry_of(const std::string& gpu) {
  plan::FleetEntry entry;
  entry.gpu = *hw::builtin_catalogue().find(gpu);
  return entry;
}

// All count vectors of maximal layouts.
std::vector<Vector> fills_of(const hw::GpuModel& gpu) {
  const std::vector<int> profiles = hw::plain_profiles(gpu);
  std::set<Vector> fills;
  for (const hw::Layout& layout : hw::maximal_layouts(gpu, profiles)) {
    Vector counts(profiles.size(), 0);
    for (const hw::PlacedProfile& placed : layout)
      ++counts[static_cast<std::size_t>(
          std::find(profiles.begin(), profiles.end(), placed.profile) - profiles.begin())];
    fills.insert(counts);
  }
  return {fills.begin(), fills.end()};
}

struct Exhaustive {
  std::vector<Vector> fills;
  std::vector<std::vector<Vector>> covers;  // per service
  Vector slices;
  std::map<Vector, int> packed;
  std::set<std::pair<std::size_t, Vector>> seen;
  std::pair<int, int> best{1 << 20, 1 << 20};

  int gpus(const Vector& counts) {
    if (std::all_of(counts.begin(), counts.end(), [](int n) { return n == 0; })) return 0;
    if (const auto known = packed.find(counts); known != packed.end()) return known->second;
    int fewest = 1 << 20;
    for (const Vector& fill : fills) {
      Vector left = counts;
      for (std::size_t k = 0; k < left.size(); ++k) left[k] = std::max(0, left[k] - fill[k]);
      if (left != counts) fewest = std::min(fewest, 1 + gpus(left));
    }
    return packed[counts] = fewest;
  }

  void choose(std::size_t service, const Vector& sum) {
    if (!seen.insert({service, sum}).second) return;
    if (service == covers.size()) {
      int total = 0;
      for (std::size_t k = 0; k < sum.size(); ++k) total += sum[k] * slices[k];
      best = std::min(best, {gpus(sum), total});
      return;
    }
    for (const Vector& cover : covers[service]) {
      Vector next = sum;
      for (std::size_t k = 0; k < next.size(); ++k) next[k] += cover[k];
      choose(service + 1, next);
    }
  }
};

// Every vector that carries the demand and of which nothing can be left out.
void list_covers(const std::vector<double>& rates, double left, std::size_t k, Vector& counts,
                 std::vector<Vector>& found) {
  if (left <= 1e-9) {
    found.push_back(counts);
    return;
  }
  if (k == rates.size()) return;
  const int most = rates[k] > 0 ? static_cast<int>(std::ceil(left / rates[k] - 1e-9)) : 0;
  for (int n = 0; n <= most; ++n) {
    counts[k] = n;
    list_covers(rates, left - n * rates[k], k + 1, counts, found);
  }
  counts[k] = 0;
}

}  // namespace

std::vector<std::vector<double>> rates_of(const plan::ServingProblem& problem,
                                          const plan::FleetEntry& entry) {
  std::vector<std::vector<double>> rates;
  for (const plan::Service& service : problem.services) {
    std::vector<double> row;
    for (const int p : hw::plain_profiles(entry.gpu)) {
      double best = 0;
      for (const auto& point : entry.profiles.at(service.model).points)
        if (point.gpcs == entry.gpu.profiles[static_cast<std::size_t>(p)].gpcs &&
            point.processes <= problem.max_processes &&
            point.latency.value < problem.rule.fraction * service.slo.value)
          best = std::max(best, point.throughput.value);
      row.push_back(best);
    }
    rates.push_back(row);
  }
  return rates;
}

plan::ServingProblem random_problem(Rng& rng, const std::string& gpu, int services, double scale) {
  plan::ServingProblem problem;
  problem.rule = {plan::SloRule::Kind::execution, 0.5};
  plan::FleetEntry entry = entry_of(gpu);
  const int count = 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(services)));
  for (int s = 0; s < count; ++s) {
    const std::string name = "m" + std::to_string(s);
    profile::WorkloadProfile profile{name, {}};
    const double base = 50 + 150 * rng.uniform();
    double throughput = 0;
    for (const int p : hw::plain_profiles(entry.gpu)) {
      const int gpcs = entry.gpu.profiles[static_cast<std::size_t>(p)].gpcs;
      throughput = std::max(throughput, base * std::pow(gpcs, 0.6 + 0.6 * rng.uniform()));
      const bool largest = p == hw::plain_profiles(entry.gpu).back();
      if (rng.below(8) == 0 && !largest) continue;
      profile.points.push_back({gpcs, 1, 1, Rps{throughput}, Millis{10}, {}});
    }
    entry.profiles[name] = profile;
    plan::Service service;
    service.name = service.model = name;
    service.rate = Rps{std::floor(1 + scale * base * rng.uniform())};
    service.slo = Millis{100};
    problem.services.push_back(service);
  }
  problem.fleet.push_back(entry);
  return problem;
}

plan::ServingProblem published_problem(Rng& rng, int services, double scale) {
  plan::ServingProblem problem;
  problem.rule = {plan::SloRule::Kind::execution, 0.45};
  problem.fleet.push_back(entry_of("A100-80GB"));
  problem.fleet[0].profiles = profile::published_profiles();
  std::vector<std::string> models;
  for (const auto& [name, profile] : problem.fleet[0].profiles) models.push_back(name);
  for (int s = 0; s < services; ++s) {
    plan::Service service;
    service.model = models[rng.below(models.size())];
    service.name = service.model + "-" + std::to_string(s);
    const bool slow = service.model == "bert";
    service.rate = Rps{std::floor(1 + scale * 1500 * rng.uniform() / (slow ? 5 : 1))};
    service.slo = Millis{(50 + 400 * rng.uniform()) * (slow ? 15 : 1)};
    problem.services.push_back(service);
  }
  return problem;
}

plan::ServingProblem scenario(int number) {
  const std::string name = "data/scenarios/s" + std::to_string(number) + ".yaml";
  plan::ServingProblem problem;
  problem.services = *forms::parse_services(name, source_text(name));
  problem.fleet.push_back(entry_of("A100-80GB"));
  problem.fleet[0].profiles = profile::published_profiles();
  problem.rule = {plan::SloRule::Kind::execution, 0.45};
  return problem;
}

std::pair<int, int> brute_force(const plan::ServingProblem& problem) {
  const plan::FleetEntry& entry = problem.fleet[0];
  Exhaustive search;
  search.fills = fills_of(entry.gpu);
  for (const int p : hw::plain_profiles(entry.gpu))
    search.slices.push_back(entry.gpu.profiles[static_cast<std::size_t>(p)].gpcs);
  const auto rates = rates_of(problem, entry);
  for (std::size_t s = 0; s < rates.size(); ++s) {
    Vector counts(rates[s].size(), 0);
    search.covers.emplace_back();
    list_covers(rates[s], problem.services[s].rate.value, 0, counts, search.covers.back());
  }
  search.choose(0, Vector(search.slices.size(), 0));
  return search.best;
}

#ifdef PARTITA_HAVE_CBC
namespace {

// Columns: GPUs per fill and entry, then instances per service and size. Rows: sizes of every
// entry, services, and in the second stage the first stage's value.
struct IntegerProgram {
  std::vector<int> start, index;
  std::vector<double> value, upper, first_cost, second_cost;
  std::vector<double> row_lower, row_upper;

  void column(double most, double first, double second) {
    start.push_back(static_cast<int>(index.size()));
    upper.push_back(most);
    first_cost.push_back(first);
    second_cost.push_back(second);
  }
  void entry(int row, double v) {
    index.push_back(row);
    value.push_back(v);
  }
};

void add_entry(IntegerProgram& program, const plan::ServingProblem& problem,
               const plan::FleetEntry& entry, int first_row) {
  const int service_rows = static_cast<int>(program.row_lower.size() - problem.services.size() - 1);
  const int last_row = static_cast<int>(program.row_lower.size()) - 1;
  const double price = problem.fleet.size() == 1 ? 1 : entry.price;
  for (const Vector& fill : fills_of(entry.gpu)) {
    program.column(1e6, price, 0);
    for (std::size_t k = 0; k < fill.size(); ++k)
      if (fill[k] > 0) program.entry(first_row + static_cast<int>(k), fill[k]);
    program.entry(last_row, price);
  }
  const std::vector<int> profiles = hw::plain_profiles(entry.gpu);
  const auto rates = rates_of(problem, entry);
  for (std::size_t s = 0; s < rates.size(); ++s)
    for (std::size_t k = 0; k < profiles.size(); ++k) {
      const bool usable = rates[s][k] > 0;
      program.column(usable ? 1e6 : 0, 0,
                     entry.gpu.profiles[static_cast<std::size_t>(profiles[k])].gpcs);
      program.entry(first_row + static_cast<int>(k), -1);
      if (usable)
        program.entry(service_rows + static_cast<int>(s),
                      rates[s][k] / problem.services[s].rate.value);
    }
}

std::optional<double> solve(const IntegerProgram& program, bool second, double gap) {
  Cbc_Model* model = Cbc_newModel();
  const int columns = static_cast<int>(program.upper.size());
  std::vector<int> start = program.start;
  start.push_back(static_cast<int>(program.index.size()));
  const std::vector<double> lower(program.upper.size(), 0);
  Cbc_loadProblem(model, columns, static_cast<int>(program.row_lower.size()), start.data(),
                  program.index.data(), program.value.data(), lower.data(), program.upper.data(),
                  second ? program.second_cost.data() : program.first_cost.data(),
                  program.row_lower.data(), program.row_upper.data());
  for (int c = 0; c < columns; ++c) Cbc_setInteger(model, c);
  Cbc_setParameter(model, "log", "0");
  Cbc_setParameter(model, "sec", "10");
  Cbc_setParameter(model, "ratioGap", "0");
  Cbc_setParameter(model, "allowableGap", std::to_string(gap).c_str());
  Cbc_solve(model);
  std::optional<double> result;
  if (Cbc_isProvenOptimal(model)) result = Cbc_getObjValue(model);
  Cbc_deleteModel(model);
  return result;
}

}  // namespace

std::optional<MilpOptimum> milp(const plan::ServingProblem& problem) {
  IntegerProgram program;
  std::size_t sizes = 0;
  for (const plan::FleetEntry& entry : problem.fleet) sizes += hw::plain_profiles(entry.gpu).size();
  const std::size_t rows = sizes + problem.services.size() + 1;
  program.row_lower.assign(rows, 0);
  program.row_upper.assign(rows, 1e30);
  for (std::size_t r = sizes; r + 1 < rows; ++r) program.row_lower[r] = 1;
  int first_row = 0;
  for (const plan::FleetEntry& entry : problem.fleet) {
    add_entry(program, problem, entry, first_row);
    first_row += static_cast<int>(hw::plain_profiles(entry.gpu).size());
  }
  const bool whole = problem.fleet.size() == 1;
  const auto first = solve(program, false, whole ? 0.999 : 1e-9);
  if (!first) return std::nullopt;
  program.row_upper.back() = *first + 1e-6;
  const auto second = solve(program, true, 0.999);
  if (!second) return std::nullopt;
  return MilpOptimum{*first, static_cast<int>(std::lround(*second))};
}
#else
std::optional<MilpOptimum> milp(const plan::ServingProblem&) { return std::nullopt; }
#endif

// The oracles agree with each other on tiny problems.
TEST(PlanningOracles, ExhaustiveSearchEqualsCbc) {
  Rng rng(3);
  int compared = 0;
  for (int round = 0; round < 15; ++round) {
    const auto problem = random_problem(rng, "A100-80GB", 3, 4);
    const auto optimum = milp(problem);
    if (!optimum) continue;
    ++compared;
    const auto [gpus, gpcs] = brute_force(problem);
    EXPECT_EQ(gpus, std::lround(optimum->first));
    EXPECT_EQ(gpcs, optimum->gpcs);
  }
  if (compared == 0) GTEST_SKIP() << "CBC is not built in";
}

}  // namespace partita::planning_test
