// What GPUs cost: watts and money per GPU model, from a CSV of the user's or the one that comes
// with the program (data/costs/gpus.csv), and what a problem needs of it for its goal. Limits:
// kMostCostRows.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decide/input.h"
#include "plan/serving.h"
#include "plan/tariff.h"

namespace partita::decide {

inline constexpr std::size_t kMostCostRows = 1000;

struct GpuCost {
  std::string gpu;                      // catalogue name
  std::optional<plan::GpuPower> power;  // idle_w, busy_w, off_w
  std::optional<double> price;          // per GPU and hour
  std::string source;
  int line = 0;
};

// CSV with the columns gpu, source and any of idle_w, busy_w (both or none), off_w, price_per_hour;
// empty cells are not known. Refused with FILE:LINE: prices of nothing or less, a GPU that takes no
// more busy than idle, or more off; a GPU twice.
Result<std::vector<GpuCost>> parse_gpu_costs(const std::string& file, std::string_view text);
const std::vector<GpuCost>& builtin_gpu_costs();

struct ObjectiveFiles {
  std::string objective;    // --objective: gpus, cost, energy; empty: the standard one
  std::string costs;        // --gpu-costs
  std::string power_table;  // --power-table
  bool watts = false;       // are wanted, though they are not the objective
};

struct TariffFiles {
  std::string prices;       // --prices; empty: no tariff
  double carbon_price = 0;  // --carbon-price
};
// Refused: what parse_tariff() refuses, and a price of carbon that nobody is said to make.
Result<plan::Tariff> load_tariff(Files& files, const TariffFiles& named);

// Where a problem's fleet was read, per entry, and whether a price was given there.
struct FleetSource {
  std::string where;
  bool priced = false;
};

// Sets the problem's goal and the prices or watts that it asks for. Refused: a GPU model whose
// price or power nobody said, and what the energy planner does not know (GPUs that may be lost,
// services that keep apart).
Result<void> set_objective(Files& files, const ObjectiveFiles& named,
                           const std::vector<FleetSource>& sources, plan::ServingProblem& problem);

// What a response table (power_forms.h) says of a GPU's slices: at its highest clock, in its
// largest batches, between the units that it has.
Result<plan::GpuPower> power_of_table(const std::string& file, std::string_view text,
                                      const plan::ServingProblem& problem);

}  // namespace partita::decide
