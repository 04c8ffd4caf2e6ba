#include "profile/readers.h"

#include <fmt/format.h>
#include <algorithm>

#include <iterator>
#include <map>
#include <tuple>

#include "profile/csv.h"

namespace partita::profile {
namespace {

// Generous bounds: what lies beyond is a unit mistake or damage, not a measurement.
constexpr double kMaxThroughputRps = 1e12;
constexpr double kMaxLatencyMs = 1e12;
constexpr double kMaxMemoryMib = 1e12;
constexpr std::size_t kMaxModelName = 128;

// Where a format keeps the columns of a point, and its units. Memory is -1 when the format has
// none.
struct Columns {
  int gpcs, batch, processes, throughput, latency, memory;
  double latency_unit_ms;
  bool throughput_per_process;
};

// A point; throughput and latency stay 0 in a row that did not run.
Result<ProfilePoint> parse_point(const Csv& csv, const CsvRow& row, const Columns& at) {
  const Result<int> gpcs = csv_integer(csv, row, at.gpcs, {1, kMaxGpcs});
  if (!gpcs) return failed(gpcs.error());
  const Result<int> batch = csv_integer(csv, row, at.batch, {1, kMaxBatch});
  if (!batch) return failed(batch.error());
  const Result<int> processes = csv_integer(csv, row, at.processes, {1, kMaxProcesses});
  if (!processes) return failed(processes.error());
  const double share = at.throughput_per_process ? *processes : 1;  // the limit is on the total
  const Result<double> throughput =
      csv_number(csv, row, at.throughput, {0, kMaxThroughputRps / share});
  if (!throughput) return failed(throughput.error());
  const Result<double> latency =
      csv_number(csv, row, at.latency, {0, kMaxLatencyMs / at.latency_unit_ms});
  if (!latency) return failed(latency.error());
  if ((*throughput == 0) != (*latency == 0)) {
    return bad_input(csv.at(row),
                     "throughput and latency must both be positive, or both 0 (did not run)");
  }
  const double total = std::min(*throughput * share, kMaxThroughputRps);
  ProfilePoint point{*gpcs, *batch, *processes, Rps{total}, Millis{*latency * at.latency_unit_ms},
                     {}};
  if (at.memory >= 0 && !row.cells[static_cast<std::size_t>(at.memory)].empty()) {
    const Result<double> memory = csv_number(csv, row, at.memory, {0, kMaxMemoryMib});
    if (!memory) return failed(memory.error());
    point.memory = Mib{*memory};
  }
  return point;
}

// The rows of one model by their sort key. Rows that did not run are kept too, so that repeats are
// seen.
struct Collected {
  std::map<std::tuple<int, int, int>, ProfilePoint> rows;

  Result<void> add(const Csv& csv, const CsvRow& row, const Columns& at) {
    const Result<ProfilePoint> point = parse_point(csv, row, at);
    if (!point) return failed(point.error());
    if (!rows.emplace(std::tuple(point->gpcs, point->processes, point->batch), *point).second) {
      return bad_input(csv.at(row), fmt::format("{} GPCs, batch {}, {} processes appear twice",
                                                point->gpcs, point->batch, point->processes));
    }
    return {};
  }

  WorkloadProfile profile(const std::string& model) const {
    WorkloadProfile result{model, {}};
    for (const auto& [key, point] : rows) {
      if (point.throughput.value > 0) result.points.push_back(point);
    }
    return result;
  }
};

Result<std::string> parse_model(const Csv& csv, const CsvRow& row, int column) {
  const std::string& model = row.cells[static_cast<std::size_t>(column)];
  if (model.empty()) return bad_input(csv.at(row), "model is empty");
  if (model.size() > kMaxModelName) {
    return bad_input(csv.at(row), fmt::format("model is longer than {} bytes", kMaxModelName));
  }
  return model;
}

}  // namespace

Result<ProfileTable> parse_native_csv(const std::string& file, std::string_view text) {
  const Result<Csv> csv = parse_csv(file, text);
  if (!csv) return failed(csv.error());
  const Result<void> columns =
      require_columns(*csv, {"model", "gpcs", "batch", "processes", "throughput_rps", "latency_ms"},
                      {"memory_mib"});
  if (!columns) return failed(columns.error());
  const Columns at{csv->column("gpcs"),
                   csv->column("batch"),
                   csv->column("processes"),
                   csv->column("throughput_rps"),
                   csv->column("latency_ms"),
                   csv->column("memory_mib"),
                   1.0,
                   false};
  std::map<std::string, Collected> models;
  for (const CsvRow& row : csv->rows) {
    const Result<std::string> model = parse_model(*csv, row, csv->column("model"));
    if (!model) return failed(model.error());
    const Result<void> added = models[*model].add(*csv, row, at);
    if (!added) return failed(added.error());
  }
  ProfileTable table;
  for (const auto& [model, collected] : models) {
    WorkloadProfile profile = collected.profile(model);
    if (!profile.points.empty()) table.emplace(model, std::move(profile));
  }
  if (table.empty()) return bad_input(csv->at(csv->header), "no row ran: every row is 0,0");
  return table;
}

Result<WorkloadProfile> parse_parvagpu_csv(const std::string& file, const std::string& model,
                                           std::string_view text) {
  const Result<Csv> csv = parse_csv(file, text);
  if (!csv) return failed(csv.error());
  const Result<void> columns = require_columns(
      *csv, {"Mig instance", "Batch size", "Workload Number", "Throughput", "Latency"});
  if (!columns) return failed(columns.error());
  const Columns at{csv->column("Mig instance"),
                   csv->column("Batch size"),
                   csv->column("Workload Number"),
                   csv->column("Throughput"),
                   csv->column("Latency"),
                   -1,
                   1000.0,
                   true};
  Collected collected;
  for (const CsvRow& row : csv->rows) {
    const Result<void> added = collected.add(*csv, row, at);
    if (!added) return failed(added.error());
  }
  WorkloadProfile profile = collected.profile(model);
  if (profile.points.empty()) {
    return bad_input(csv->at(csv->header), "no row ran: every row is 0,0");
  }
  return profile;
}

std::string native_csv(const ProfileTable& table) {
  std::string text = "model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib\n";
  for (const auto& [model, profile] : table) {
    const std::string name = csv_cell(model);
    for (const ProfilePoint& p : profile.points) {
      text += fmt::format("{},{},{},{},{},{},{}\n", name, p.gpcs, p.batch,
                     p.processes, p.throughput.value, p.latency.value,
                     p.memory ? fmt::format("{}", p.memory->value) : std::string());
    }
  }
  return text;
}

}  // namespace partita::profile
