// Response tables of power_forms.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "forms/power_forms.h"
#include "profile/csv.h"
#include "profile/workload_profile.h"

namespace partita::forms {
namespace {

using plan::PowerPoint;
using plan::ResponseTable;
using profile::Csv;
using profile::CsvRow;

constexpr double kMostMhz = 10'000, kLeastMhz = 50, kMostWatts = 5'000;
// p95 x max rate is about the batch; a factor of a thousand is a wrong unit.
constexpr double kLeastAgreement = 0.5, kMostAgreement = 50;
// Measured power scatters: so much less at a higher clock is noise.
constexpr double kPowerNoise = 0.01;

// (clock, units, batch), and the line that said it.
using PointKey = std::tuple<double, int, int>;
struct PowerCell {
  PowerPoint point;
  const CsvRow* row = nullptr;
};
using PowerGrid = std::map<PointKey, PowerCell>;

struct IdleRow {
  Watts power;
  const CsvRow* row = nullptr;
};

class TableReader {
 public:
  TableReader(const Csv& csv, const TableOf& gpu) : csv_(csv), gpu_(gpu) {
    table_.gpu = gpu.gpu;
    table_.units_in = gpu.units_in;
  }

  Result<ResponseTable> read() {
    for (const CsvRow& row : csv_.rows) TRY(read_row(row));
    TRY(check_idle());
    for (const auto& [model, grid] : grids_) {
      TRY(check_grid(model, grid));
      plan::ModelResponse response{model, {}};
      for (const auto& [key, cell] : grid) response.points.push_back(cell.point);
      table_.models.push_back(std::move(response));
    }
    return std::move(table_);
  }

 private:
  tl::unexpected<Error> refuse(const CsvRow& row, std::string message) const {
    return bad_input(csv_.at(row), std::move(message));
  }
  Result<double> number(const CsvRow& row, const char* column, double low, double high) const {
    return profile::csv_number(csv_, row, csv_.column(column), {low, high});
  }

  Result<void> read_row(const CsvRow& row) {
    const std::string& model = row.cells[static_cast<std::size_t>(csv_.column("model"))];
    if (model.empty()) return refuse(row, "model is empty");
    if (model == "-") return read_idle(row);
    const auto clock = TRY(number(row, "clock_mhz", kLeastMhz, kMostMhz));
    const auto units = TRY(number(row, "units", 1, table_.units()));
    const auto batch = TRY(number(row, "batch", 1, profile::kMaxBatch));
    const auto p95 = TRY(number(row, "p95_ms", 1e-6, 1e7));
    const auto rate = TRY(number(row, "max_rps", 1e-6, 1e9));
    const auto power = TRY(number(row, "power_w", 1e-3, kMostWatts));
    if (units != std::floor(units) || batch != std::floor(batch))
      return refuse(row, "units and batch must be whole numbers");
    const double agreement = p95 * 1e-3 * rate / batch;
    if (agreement < kLeastAgreement || agreement > kMostAgreement)
      return refuse(row, fmt::format("p95_ms {:g} and max_rps {:g} contradict one another for "
                                     "batches of {:g}: is one in another unit?",
                                     p95, rate, batch));
    const PowerPoint point{
        Mhz{clock},  static_cast<int>(units), static_cast<int>(batch), Millis{p95}, Rps{rate},
        Watts{power}};
    if (!grids_[model]
             .emplace(PointKey{clock, point.units, point.batch}, PowerCell{point, &row})
             .second)
      return refuse(row, "this clock, units and batch of the model are there twice");
    return {};
  }

  Result<void> read_idle(const CsvRow& row) {
    const auto clock = TRY(number(row, "clock_mhz", 0, kMostMhz));
    if (clock != 0 && clock < kLeastMhz)
      return refuse(row,
                    fmt::format("clock_mhz is {:g}, must be 0 or at least {:g}", clock, kLeastMhz));
    for (const char* column : {"units", "batch", "p95_ms", "max_rps"}) {
      const auto none = number(row, column, 0, 0);
      if (!none) return failed(none.error());
    }
    const auto power = TRY(number(row, "power_w", 0, kMostWatts));
    if (!idle_.emplace(clock, IdleRow{Watts{power}, &row}).second)
      return refuse(row, "this idle clock is there twice");
    return {};
  }

  Result<void> check_idle() {
    if (!idle_.contains(0))
      return bad_input(csv_.file, "no row '-,0,0,0,0,0,WATTS': the power of the board at rest");
    if (grids_.empty()) return bad_input(csv_.file, "no model");
    Watts before{0};
    for (const auto& [clock, idle] : idle_) {
      if (idle.power < before)
        return refuse(*idle.row, fmt::format("the idle board takes {:g} W, less than {:g} W at a "
                                             "lower clock",
                                             idle.power.value, before.value));
      before = idle.power;
      if (clock == 0) {
        table_.idle = idle.power;
      } else {
        table_.clocks.push_back({Mhz{clock}, idle.power});
      }
    }
    if (table_.clocks.empty() || table_.clocks.size() > plan::kMaxClocks)
      return bad_input(csv_.file, fmt::format("{} clocks with an idle row, there must be 1 to {}",
                                              table_.clocks.size(), plan::kMaxClocks));
    return {};
  }

  // Every clock of the idle rows, with the same units and batches.
  Result<void> check_grid(const std::string& model, const PowerGrid& grid) const {
    std::set<std::pair<int, int>> shape;
    for (const auto& [key, cell] : grid) {
      shape.insert({std::get<1>(key), std::get<2>(key)});
      if (!idle_.contains(std::get<0>(key)))
        return refuse(*cell.row,
                      fmt::format("{:g} MHz has no row of the idle board", std::get<0>(key)));
    }
    if (grid.size() != shape.size() * table_.clocks.size())
      return refuse(*grid.begin()->second.row,
                    fmt::format("'{}' has {} points, {} clocks x {} units and batches are {}: a "
                                "table has no holes",
                                model, grid.size(), table_.clocks.size(), shape.size(),
                                shape.size() * table_.clocks.size()));
    for (const auto& [key, cell] : grid) TRY(check_cell(grid, key, cell));
    return {};
  }

  Result<void> check_cell(const PowerGrid& grid, const PointKey& key, const PowerCell& cell) const {
    const auto& [clock, units, batch] = key;
    const PowerPoint& point = cell.point;
    const Watts idle = idle_.at(clock).power;
    if (point.power < idle)
      return refuse(*cell.row, fmt::format("power_w is {:g}, the board without work takes {:g} at "
                                           "this clock",
                                           point.power.value, idle.value));
    const auto above =
        std::ranges::upper_bound(table_.clocks, Mhz{clock}, {}, &plan::ClockIdle::clock);
    if (above != table_.clocks.end()) {
      const PowerCell& faster = grid.at({above->clock.value, units, batch});
      if (faster.point.power < point.power * (1 - kPowerNoise))
        return refuse(*faster.row, fmt::format("power falls with the clock: {:g} W here, {:g} W at "
                                               "{:g} MHz",
                                               faster.point.power.value, point.power.value, clock));
      if (faster.point.p95 > point.p95 * (1 + kPowerNoise))
        return refuse(*faster.row, fmt::format("p95_ms grows with the clock: {:g} here, {:g} at "
                                               "{:g} MHz",
                                               faster.point.p95.value, point.p95.value, clock));
    }
    const auto larger = grid.upper_bound(key);
    if (larger != grid.end() && std::get<0>(larger->first) == clock &&
        std::get<1>(larger->first) == units && larger->second.point.p95 < point.p95)
      return refuse(*larger->second.row, "a larger batch takes less time than a smaller one");
    return {};
  }

  const Csv& csv_;
  const TableOf& gpu_;
  ResponseTable table_;
  std::map<std::string, PowerGrid> grids_;
  std::map<double, IdleRow> idle_;
};

}  // namespace

Result<ResponseTable> parse_power_table(const std::string& file, std::string_view text,
                                        const TableOf& gpu) {
  std::string source;
  std::string kept;  // the comment's line stays, empty, so that lines keep their numbers
  if (text.starts_with('#')) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    source = text.substr(1, end - 1);
    if (source.starts_with(' ')) source.erase(0, 1);
    if (source.ends_with('\r')) source.pop_back();
    kept = text.substr(end);
    text = kept;
  }
  const Csv csv = TRY(profile::parse_csv(file, text));
  if (auto columns = profile::require_columns(
          csv, {"model", "clock_mhz", "units", "batch", "p95_ms", "max_rps", "power_w"});
      !columns)
    return failed(columns.error());
  ResponseTable table = TRY(TableReader(csv, gpu).read());
  table.source = source;
  table.modelled = source.starts_with("modelled");
  return table;
}

std::string power_table_csv(const ResponseTable& table) {
  std::string out;
  if (!table.source.empty()) out += fmt::format("# {}\n", table.source);
  out += "model,clock_mhz,units,batch,p95_ms,max_rps,power_w\n";
  out += fmt::format("-,0,0,0,0,0,{}\n", table.idle.value);
  for (const plan::ClockIdle& clock : table.clocks)
    out += fmt::format("-,{},0,0,0,0,{}\n", clock.clock.value, clock.active_idle.value);
  for (const plan::ModelResponse& model : table.models)
    for (const PowerPoint& p : model.points)
      out += fmt::format("{},{},{},{},{},{},{}\n", profile::csv_cell(model.model), p.clock.value,
                         p.units, p.batch, p.p95.value, p.max_rate.value, p.power.value);
  return out;
}

}  // namespace partita::forms
