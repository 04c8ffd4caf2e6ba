#include "profile/kernel_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/check.h"
#include "base/fields.h"
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
};

Result<Row> parse_row(const Csv& csv, const CsvRow& row, int units) {
  Row one;
  one.kernel = row.cells[static_cast<std::size_t>(csv.column("kernel"))];
  if (one.kernel.empty()) return bad_input(csv.at(row), "'kernel' is empty");
  const auto on = TRY(csv_integer(csv, row, csv.column("units"), {1, static_cast<double>(units)}));
  const auto time = TRY(csv_number(csv, row, csv.column("time_us"), {1e-9, kMaxTimeUs}));
  one.units = on;
  one.time_us = time;
  if (csv.column("index") < 0) return one;
  one.index = TRY(csv_integer(csv, row, csv.column("index"), {0, kMaxKernels - 1}));
  return one;
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

Result<ModelKernels> parse_kernel_csv(const std::string& file, std::string_view text, int units) {
  CHECK(units >= 1 && units <= hw::kMaxUnits);
  const Csv csv = TRY(parse_csv(file, text));
  TRY(require_columns(csv, {"kernel", "units", "time_us"}, {"index"}));
  std::vector<KernelProfile> kernels;
  std::map<std::pair<int, std::string>, std::size_t> at;  // by index, or by name alone
  std::vector<int> order;
  std::set<int> indices;
  int most = 0;
  for (const CsvRow& row : csv.rows) {
    const Row one = TRY(parse_row(csv, row, units));
    const auto [found, fresh] = at.try_emplace({one.index, one.kernel}, kernels.size());
    if (fresh) {
      if (one.index >= 0 && !indices.insert(one.index).second)
        return bad_input(csv.at(row), fmt::format("index {} is another kernel's", one.index));
      if (kernels.size() == kMaxKernels)
        return bad_input(csv.at(row), fmt::format("more than {} kernels", kMaxKernels));
      kernels.push_back({one.kernel, Measured(static_cast<std::size_t>(units))});
      order.push_back(one.index);
    }
    double& time = kernels[found->second].time_us[static_cast<std::size_t>(one.units - 1)];
    if (time != 0)
      return bad_input(csv.at(row),
                       fmt::format("'{}' on {} units appears twice", one.kernel, one.units));
    time = one.time_us;
    most = std::max(most, one.units);
  }
  if (most != units)
    return bad_input(file, fmt::format("no time on all {} units of the GPU, only on up to {}. "
                                       "Profiles hold for one GPU: measure the kernels on all of "
                                       "its units, and on the numbers to plan with",
                                       units, most));
  std::vector<std::size_t> sequence(kernels.size());
  for (std::size_t i = 0; i < sequence.size(); ++i) sequence[i] = i;
  std::ranges::stable_sort(sequence, {}, [&](std::size_t i) { return order[i]; });
  ModelKernels model{file, units, {}};
  for (const std::size_t i : sequence) {
    fill(kernels[i].time_us);
    model.kernels.push_back(std::move(kernels[i]));
  }
  return model;
}

std::string kernel_csv(const ModelKernels& model) {
  std::string text = "index,kernel,units,time_us\n";
  for (std::size_t k = 0; k < model.kernels.size(); ++k) {
    const KernelProfile& kernel = model.kernels[k];
    for (int n = 1; n <= model.units; ++n) {
      const bool same = n > 1 && kernel.on(n) == kernel.on(n - 1);  // read as the same
      if (same && n < model.units) continue;
      text += fmt::format("{},{},{},{}\n", k, csv_cell(kernel.name), n, kernel.on(n));
    }
  }
  return text;
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
