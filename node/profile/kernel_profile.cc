#include "profile/kernel_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/fields.h"
#include "base/median.h"
#include "hw/topology.h"
#include "profile/csv.h"

namespace partita::profile {
namespace {

constexpr double kMaxTimeUs = 1e12;
constexpr double kMaxGrid = 1e12;

// The measured times of one kernel by units, with 0 where there is none.
using Measured = std::vector<double>;

// Fills the gaps: the next smaller number of units that was measured; below all, in proportion.
void fill(Measured& times) {
  std::size_t first = 0;
  while (times[first] == 0) ++first;
  for (std::size_t n = 0; n < first; ++n)
    times[n] = std::min(kMaxTimeUs,
                        times[first] * static_cast<double>(first + 1) / static_cast<double>(n + 1));
  for (std::size_t n = first + 1; n < times.size(); ++n)
    if (times[n] == 0) times[n] = times[n - 1];
}

struct Row {
  int index = -1;
  std::string kernel;
  int units = 0;
  double time_us = 0;
  std::optional<double> gap_us;
  std::optional<Neighbour> beside;
  double presses = 0;
};

// The text of a cell; none where there is no such column, or nothing in it.
std::string cell(const Csv& csv, const CsvRow& row, std::string_view name) {
  const int column = csv.column(name);
  return column < 0 ? std::string() : row.cells[static_cast<std::size_t>(column)];
}

// What a row says besides the time.
Result<void> parse_beside(const Csv& csv, const CsvRow& row, int units, Row& one) {
  if (!cell(csv, row, "gap_us").empty())
    one.gap_us = TRY(csv_number(csv, row, csv.column("gap_us"), {0, kMaxTimeUs}));
  const std::string beside = cell(csv, row, "beside");
  for (const Neighbour neighbour : {Neighbour::computing, Neighbour::reading})
    if (beside == word(neighbour)) one.beside = neighbour;
  if (!beside.empty() && !one.beside)
    return bad_input(csv.at(row), fmt::format("'beside' is '{}', neither computing nor reading, "
                                              "nor empty",
                                              beside));
  if (one.beside && one.units == units)
    return bad_input(csv.at(row),
                     fmt::format("beside '{}' on all {} units: none are left", beside, units));
  if (cell(csv, row, "presses").empty()) return {};
  if (one.beside != Neighbour::reading)
    return bad_input(csv.at(row), "'presses' is for rows beside 'reading'");
  one.presses = TRY(csv_number(csv, row, csv.column("presses"), {0, 1}));
  return {};
}

Result<Row> parse_row(const Csv& csv, const CsvRow& row, int units) {
  Row one;
  one.kernel = cell(csv, row, "kernel");
  if (one.kernel.empty()) return bad_input(csv.at(row), "'kernel' is empty");
  const auto on = TRY(csv_integer(csv, row, csv.column("units"), {1, static_cast<double>(units)}));
  const auto time = TRY(csv_number(csv, row, csv.column("time_us"), {1e-9, kMaxTimeUs}));
  one.units = on;
  one.time_us = time;
  TRY(parse_beside(csv, row, units, one));
  if (csv.column("index") < 0) return one;
  one.index = TRY(csv_integer(csv, row, csv.column("index"), {0, kMaxKernels - 1}));
  return one;
}

// A kernel while its rows are read.
struct Read {
  KernelProfile kernel;
  int index = -1;
  std::string first_row;  // FILE:LINE
  std::vector<std::vector<Row>> measured = {};  // each: on as many units beside the same
};

// Whether it may be: what is measured again has an index, else it may be another launch.
bool add_row(const Row& row, Read& read) {
  const auto found = std::ranges::find_if(read.measured, [&](const std::vector<Row>& rows) {
    return rows.front().units == row.units && rows.front().beside == row.beside;
  });
  if (found == read.measured.end()) {
    read.measured.push_back({row});
    return true;
  }
  found->push_back(row);
  return row.index >= 0;
}

// The medians of what was measured.
void take_medians(Read& read) {
  KernelProfile& kernel = read.kernel;
  int gap_units = 0;  // that said the gap
  for (const std::vector<Row>& rows : read.measured) {
    std::vector<double> times, gaps, presses;
    for (const Row& row : rows) {
      times.push_back(row.time_us), presses.push_back(row.presses);
      if (row.gap_us) gaps.push_back(*row.gap_us);
    }
    const auto gap = gaps.empty() ? std::nullopt : std::optional(median(gaps));
    const Row& one = rows.front();
    if (one.beside) {
      kernel.beside.push_back({one.units, *one.beside, median(times), gap, median(presses)});
      continue;
    }
    kernel.time_us[static_cast<std::size_t>(one.units - 1)] = median(times);
    if (gap && one.units > gap_units) kernel.gap_us = *gap, gap_units = one.units;
  }
}

// The kernels in the order of their rows.
Result<std::vector<Read>> read_kernels(const Csv& csv, int units) {
  std::vector<Read> kernels;
  std::map<std::pair<int, std::string>, std::size_t> at;  // by index, or by name alone
  std::set<int> indices;
  for (const CsvRow& row : csv.rows) {
    const Row one = TRY(parse_row(csv, row, units));
    const auto [found, fresh] = at.try_emplace({one.index, one.kernel}, kernels.size());
    if (fresh) {
      if (one.index >= 0 && !indices.insert(one.index).second)
        return bad_input(csv.at(row), fmt::format("index {} is another kernel's", one.index));
      if (kernels.size() == kMaxKernels)
        return bad_input(csv.at(row), fmt::format("more than {} kernels", kMaxKernels));
      kernels.push_back(
          {{one.kernel, Measured(static_cast<std::size_t>(units))}, one.index, csv.at(row)});
    }
    if (!add_row(one, kernels[found->second]))
      return bad_input(csv.at(row), fmt::format("'{}' on {} units{}{} appears twice", one.kernel,
                                                one.units, one.beside ? " beside " : "",
                                                one.beside ? word(*one.beside) : ""));
  }
  for (Read& read : kernels) {
    take_medians(read);
    if (std::ranges::count(read.kernel.time_us, 0) == units)
      return bad_input(read.first_row,
                       fmt::format("'{}' has no time alone, only beside others", read.kernel.name));
  }
  return kernels;
}

// ---- REEF ----

struct Launch {
  std::string kernel;
  double groups = 0;
};

Result<std::vector<Launch>> parse_sequence(const std::string& file, std::string_view text) {
  const Document document = TRY(parse_document(file, text));
  Fields fields(document);
  std::vector<Launch> launches;
  for (const Node& item : fields.list("kernels", kMaxKernels)) {
    Fields kernel(fields, item);
    Launch launch{kernel.text("name"), 1};
    const std::vector<Node>& grid = kernel.list("launch_params", 6);
    for (std::size_t i = 0; i < 3 && i < grid.size(); ++i) launch.groups *= grid[i].number;
    if (grid.size() != 6 || !(launch.groups >= 1 && launch.groups <= kMaxGrid))
      kernel.refuse(item, "'launch_params' must be six numbers, grid and block");
    launches.push_back(std::move(launch));
  }
  if (fields.error()) return failed(*fields.error());
  if (launches.empty()) return bad_input(file, "no kernels");
  return launches;
}

using Tables = std::map<std::string, std::vector<double>>;  // latencies by kernel

Result<Tables> parse_tables(const std::string& file, std::string_view text) {
  const Document document = TRY(parse_document(file, text));
  Fields fields(document);
  Fields kernels = fields.object("kernel_latency");
  Tables tables;
  for (const Node::Member& member : kernels.node().members) {
    Fields kernel(kernels, member.value);
    std::vector<double>& table = tables[member.key];
    for (const Node& item : kernel.list("latency", hw::kMaxUnits)) {
      if (item.kind != Node::Kind::number || !(item.number > 0 && item.number <= kMaxTimeUs))
        kernel.refuse(item, "'latency' holds positive numbers");
      table.push_back(item.number);
    }
    if (table.empty()) kernel.refuse("latency", "must have at least one time");
  }
  if (fields.error()) return failed(*fields.error());
  return tables;
}

double wave_time(const std::vector<double>& latency, double groups, int units) {
  const double per_unit = std::ceil(groups / units);
  const auto at_once = static_cast<double>(latency.size());
  const double waves = std::floor(per_unit / at_once);
  const double rest = per_unit - waves * at_once;
  return waves * latency.back() + (rest > 0 ? latency[static_cast<std::size_t>(rest) - 1] : 0);
}

}  // namespace

double ModelKernels::time_us(int on_units) const {
  double sum = 0;
  for (const KernelProfile& kernel : kernels) sum += kernel.on(on_units);
  return sum;
}

std::string_view word(Neighbour neighbour) {
  return neighbour == Neighbour::computing ? "computing" : "reading";
}

Result<ModelKernels> parse_kernel_csv(const std::string& file, std::string_view text, int units) {
  CHECK(units >= 1 && units <= hw::kMaxUnits);
  const Csv csv = TRY(parse_csv(file, text));
  TRY(require_columns(csv, {"kernel", "units", "time_us"},
                      {"index", "gap_us", "beside", "presses"}));
  auto kernels = TRY(read_kernels(csv, units));
  int most = 0;
  for (const Read& read : kernels)
    for (int n = most + 1; n <= units; ++n)
      if (read.kernel.on(n) != 0) most = n;
  if (most != units)
    return bad_input(file, fmt::format("no time on all {} units of the GPU, only on up to {}. "
                                       "Profiles hold for one GPU: measure the kernels on all of "
                                       "its units, and on the numbers to plan with",
                                       units, most));
  std::ranges::stable_sort(kernels, {}, &Read::index);
  ModelKernels model{file, units, {}};
  for (Read& read : kernels) {
    fill(read.kernel.time_us);
    model.kernels.push_back(std::move(read.kernel));
  }
  return model;
}

Result<ModelKernels> parse_reef(const ReefFiles& files, const std::string& model, int units) {
  const auto launches = TRY(parse_sequence(files.sequence_file, files.sequence));
  const auto tables = TRY(parse_tables(files.table_file, files.table));
  ModelKernels all{model, units, {}};
  for (const Launch& launch : launches) {
    const auto table = tables.find(launch.kernel);
    if (table == tables.end())
      return bad_input(files.table_file, "no times of kernel '" + launch.kernel + "'");
    KernelProfile kernel{launch.kernel, {}};
    for (int n = 1; n <= units; ++n)
      kernel.time_us.push_back(wave_time(table->second, launch.groups, n));
    all.kernels.push_back(std::move(kernel));
  }
  return all;
}

}  // namespace partita::profile
