#include "decide/gpu_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "base/index.h"
#include "base/nearest.h"
#include "forms/power_forms.h"
#include "forms/tariff_reader.h"
#include "profile/csv.h"

namespace partita::decide {
namespace {

constexpr char kBuiltinFile[] = "data/costs/gpus.csv";
constexpr char kBuiltin[] =
#include "builtin_costs.inc"
    ;
constexpr double kLeastWatts = 1, kMostBoardWatts = 5'000;
constexpr double kLeastPrice = 1e-6, kMostPrice = 1e6;

class CostReader {
 public:
  explicit CostReader(const profile::Csv& csv) : csv_(csv) {}

  Result<GpuCost> read(const profile::CsvRow& row) const {
    GpuCost cost;
    cost.line = row.line;
    cost.gpu = cell(row, "gpu");
    cost.source = cell(row, "source");
    if (cost.gpu.empty()) return refuse(row, "gpu is empty");
    if (cost.source.empty())
      return refuse(row, "source is empty: where the figures come from, in a few words");
    cost.price = TRY(number(row, "price_per_hour", {kLeastPrice, kMostPrice}));
    cost.power = TRY(read_power(row));
    return cost;
  }

 private:
  tl::unexpected<Error> refuse(const profile::CsvRow& row, std::string message) const {
    return bad_input(csv_.at(row), std::move(message));
  }
  std::string cell(const profile::CsvRow& row, const char* column) const {
    const int index = csv_.column(column);
    return index < 0 ? "" : row.cells[at(index)];
  }
  // An empty cell, or no such column: not known.
  Result<std::optional<double>> number(const profile::CsvRow& row, const char* column,
                                       profile::NumberRange range) const {
    if (cell(row, column).empty()) return std::optional<double>{};
    const auto value = TRY(profile::csv_number(csv_, row, csv_.column(column), range));
    return std::optional(value);
  }

  Result<std::optional<plan::GpuPower>> read_power(const profile::CsvRow& row) const {
    const auto idle = TRY(number(row, "idle_w", {kLeastWatts, kMostBoardWatts}));
    const auto busy = TRY(number(row, "busy_w", {kLeastWatts, kMostBoardWatts}));
    const auto off = TRY(number(row, "off_w", {0, kMostBoardWatts}));
    if (!idle && !busy && !off) return std::optional<plan::GpuPower>{};
    if (!idle || !busy) return refuse(row, "idle_w and busy_w are given both, or neither");
    if (*busy <= *idle)
      return refuse(row, fmt::format("busy_w is {:g}, no more than idle_w, {:g}", *busy, *idle));
    if (off.value_or(0) > *idle)
      return refuse(row, fmt::format("off_w is {:g}, more than idle_w, {:g}", *off, *idle));
    return std::optional(plan::GpuPower{Watts{*idle}, Watts{*busy}, Watts{off.value_or(0)}});
  }

  const profile::Csv& csv_;
};

const GpuCost* find(const std::vector<GpuCost>& costs, const std::string& gpu) {
  const auto found = std::ranges::find(costs, gpu, &GpuCost::gpu);
  return found == costs.end() ? nullptr : &*found;
}

// The user's row, where it says what is asked for, else the program's.
template <class Said>
const GpuCost* first_that(const std::vector<GpuCost>& own, const std::string& gpu, Said said) {
  for (const std::vector<GpuCost>* costs : {&own, &builtin_gpu_costs()})
    if (const GpuCost* cost = find(*costs, gpu); cost && said(*cost)) return cost;
  return nullptr;
}

Result<std::vector<GpuCost>> load_costs(Files& files, const std::string& file,
                                        const plan::ServingProblem& problem) {
  if (file.empty()) return std::vector<GpuCost>{};
  auto costs = TRY(read_input(files, "--gpu-costs", file, parse_gpu_costs));
  std::vector<std::string> known;
  for (const plan::FleetEntry& entry : problem.fleet) known.push_back(entry.gpu.name);
  for (const GpuCost& cost : builtin_gpu_costs()) known.push_back(cost.gpu);
  for (const GpuCost& cost : costs)
    if (std::ranges::find(known, cost.gpu) == known.end())
      if (const std::string meant = did_you_mean(cost.gpu, known); !meant.empty())
        return bad_input(fmt::format("{}:{}", file, cost.line),
                         fmt::format("unknown GPU '{}'{}", cost.gpu, meant));
  return costs;
}

Result<void> set_prices(const std::vector<GpuCost>& own, const std::vector<FleetSource>& sources,
                        plan::ServingProblem& problem) {
  for (std::size_t e = 0; e < problem.fleet.size(); ++e) {
    if (sources[e].priced) continue;
    plan::FleetEntry& entry = problem.fleet[e];
    const GpuCost* cost =
        first_that(own, entry.gpu.name, [](const GpuCost& c) { return c.price.has_value(); });
    if (!cost)
      return bad_input(sources[e].where,
                       fmt::format("no price of a {} is known; give it in the fleet file "
                                   "(price), or as gpu,price_per_hour,source with --gpu-costs",
                                   entry.gpu.name));
    entry.price = *cost->price;
  }
  return {};
}

Result<void> set_power(Files& files, const ObjectiveFiles& named, const std::vector<GpuCost>& own,
                       const std::vector<FleetSource>& sources, plan::ServingProblem& problem) {
  if (!named.power_table.empty()) {
    if (problem.fleet.size() > 1)
      return bad_input("--power-table",
                       "a table is of one GPU model; give the watts of a fleet with --gpu-costs");
    problem.fleet[0].power =
        TRY(read_input(files, "--power-table", named.power_table, power_of_table, problem));
    if (const GpuCost* cost = find(own, problem.fleet[0].gpu.name); cost && cost->power)
      problem.fleet[0].power->off = cost->power->off;
    return {};
  }
  for (std::size_t e = 0; e < problem.fleet.size(); ++e) {
    plan::FleetEntry& entry = problem.fleet[e];
    const GpuCost* cost =
        first_that(own, entry.gpu.name, [](const GpuCost& c) { return c.power.has_value(); });
    if (!cost)
      return bad_input(
          sources[e].where,
          fmt::format("no power of a {} is known; give gpu,idle_w,busy_w,source with --gpu-costs, "
                      "or a table of `partita power table` with --power-table",
                      entry.gpu.name));
    entry.power = cost->power;
  }
  return {};
}

// Watts above idle of a model on so many units at the highest clock: between its points in their
// largest batches.
double busy_on(const plan::ModelResponse& model, Mhz clock, double units) {
  std::map<int, double> at_units{{0, 0.0}};
  std::map<int, int> batch;
  for (const plan::PowerPoint& point : model.points)
    if (point.clock == clock && point.batch >= batch[point.units]) {
      batch[point.units] = point.batch;
      at_units[point.units] = point.power.value;
    }
  auto above = at_units.lower_bound(static_cast<int>(std::ceil(units)));
  if (above == at_units.end()) --above;
  if (above->first == 0) return 0;
  const auto below = std::prev(above);
  const double share = (units - below->first) / (above->first - below->first);
  return below->second + share * (above->second - below->second);
}

}  // namespace

Result<std::vector<GpuCost>> parse_gpu_costs(const std::string& file, std::string_view text) {
  const profile::Csv csv = TRY(profile::parse_csv(file, text));
  if (auto columns = profile::require_columns(csv, {"gpu", "source"},
                                              {"idle_w", "busy_w", "off_w", "price_per_hour"});
      !columns)
    return failed(columns.error());
  if (csv.rows.size() > kMostCostRows)
    return bad_input(file, fmt::format("more than {} rows", kMostCostRows));
  std::vector<GpuCost> costs;
  for (const profile::CsvRow& row : csv.rows) {
    auto cost = TRY(CostReader(csv).read(row));
    if (const GpuCost* same = find(costs, cost.gpu))
      return bad_input(csv.at(row),
                       fmt::format("gpu '{}' is already in line {}", cost.gpu, same->line));
    costs.push_back(std::move(cost));
  }
  return costs;
}

const std::vector<GpuCost>& builtin_gpu_costs() {
  static const std::vector<GpuCost> kCosts = [] {
    auto costs = parse_gpu_costs(kBuiltinFile, kBuiltin);
    CHECK(costs.has_value());
    return *std::move(costs);
  }();
  return kCosts;
}

Result<plan::GpuPower> power_of_table(const std::string& file, std::string_view text,
                                      const plan::ServingProblem& problem) {
  const hw::GpuModel& gpu = problem.fleet[0].gpu;
  if (!gpu.total_sms)
    return bad_input("--power-table",
                     fmt::format("it is not known how many SMs a {} has", gpu.name));
  const auto table = TRY(forms::parse_power_table(file, text, {gpu.name, {*gpu.total_sms}}));
  const plan::ClockIdle& top = table.clocks.back();
  plan::GpuPower power{top.active_idle, top.active_idle, Watts{0}};
  for (const plan::ModelResponse& model : table.models) {
    std::map<int, Watts>& sizes = power.measured[model.model];
    plan::ModelResponse above = model;
    for (plan::PowerPoint& point : above.points) point.power -= top.active_idle;
    for (const hw::MigProfile& shape : gpu.profiles)
      sizes[shape.gpcs] =
          Watts{busy_on(above, top.clock, 1.0 * *gpu.total_sms * shape.gpcs / gpu.compute_slices)};
    for (const auto& [gpcs, watts] : sizes) power.busy = std::max(power.busy, power.idle + watts);
  }
  for (const plan::Service& service : problem.services)
    if (!power.measured.contains(service.model))
      return bad_input(file, fmt::format("there is no row of model '{}' (service '{}')",
                                         service.model, service.name));
  return power;
}

Result<plan::Tariff> load_tariff(Files& files, const TariffFiles& named) {
  if (named.prices.empty() && named.carbon_price > 0)
    return bad_input("--carbon-price", "needs grams by the hour: --prices");
  if (named.prices.empty()) return plan::Tariff{};
  auto tariff = TRY(read_input(files, "--prices", named.prices, forms::parse_tariff));
  if (named.carbon_price > 0 && !tariff.hours.front().co2_g)
    return bad_input("--carbon-price", named.prices + " has no column co2_g_per_kwh");
  tariff.carbon_price = named.carbon_price;
  return tariff;
}

Result<void> set_objective(Files& files, const ObjectiveFiles& named,
                           const std::vector<FleetSource>& sources, plan::ServingProblem& problem) {
  const bool watts = named.objective == "energy" || named.watts;
  if (!watts && !named.power_table.empty())
    return bad_input("--power-table", "watts are looked at with --objective energy or --prices");
  if (!watts && named.objective != "cost" && !named.costs.empty())
    return bad_input("--gpu-costs", "is looked at with --objective energy or cost, or --prices");
  if (named.objective.empty() && !watts) return {};
  const auto own = TRY(load_costs(files, named.costs, problem));
  if (named.watts) TRY(set_power(files, named, own, sources, problem));
  if (named.objective.empty()) return {};
  if (named.objective == "gpus") {
    // Of one model the fewest are planned anyway, and its price stays what it is.
    if (problem.fleet.size() == 1) return {};
    problem.goal = plan::Goal::gpus;
    for (plan::FleetEntry& entry : problem.fleet) entry.price = 1;
    return {};
  }
  if (named.objective == "cost") {
    problem.goal = plan::Goal::cost;
    return set_prices(own, sources, problem);
  }
  problem.goal = plan::Goal::energy;
  return set_power(files, named, own, sources, problem);
}

}  // namespace partita::decide
