#include "profile/readers.h"

#include <fmt/format.h>
#include <algorithm>

#include <iterator>
#include <map>
#include <tuple>

#include "base/unicode.h"
#include "profile/buckets.h"
#include "profile/consistency.h"
#include "profile/csv.h"

namespace partita::profile {
namespace {

// Generous bounds: what lies beyond is a unit mistake or damage, not a measurement.
constexpr double kMaxThroughputRps = 1e12;
constexpr double kMaxLatencyMs = 1e12;
constexpr double kMaxMemoryMib = 1e12;
constexpr std::size_t kMaxModelName = 128, kMaxShape = 1024;
constexpr std::string_view kPredicted = "predicted";

// Where a format keeps the columns of a point, and its units. Memory and source are -1 when the
// format has none.
struct Columns {
  int gpcs, batch, processes, throughput, latency, memory, source;
  RowUnits units;
};

// Where a point comes from: nothing when it was measured, else the GPU model behind "predicted:".
Result<std::optional<std::string>> parse_source(const Csv& csv, const CsvRow& row, int column) {
  const std::string& cell = row.cells[static_cast<std::size_t>(column)];
  if (cell.empty() || cell == "measured") return std::optional<std::string>();
  if (cell == kPredicted) return std::optional<std::string>("");
  std::string_view gpu = cell;
  if (gpu.starts_with(kPredicted) && gpu[kPredicted.size()] == ':') {
    gpu.remove_prefix(kPredicted.size() + 1);
    if (name_fault(gpu).empty()) return std::optional<std::string>(gpu);
  }
  return bad_input(csv.at(row),
                   "source is none of: measured, predicted, predicted:GPU (the GPU model on which "
                   "the law was learned)");
}

// A point; throughput and latency stay 0 in a row that did not run.
Result<ProfilePoint> parse_point(const Csv& csv, const CsvRow& row, const Columns& at) {
  const int gpcs = TRY(csv_integer(csv, row, at.gpcs, {1, kMaxGpcs}));
  const int batch = TRY(csv_integer(csv, row, at.batch, {1, kMaxBatch}));
  const int processes = TRY(csv_integer(csv, row, at.processes, {1, kMaxProcesses}));
  const double share =
      at.units.throughput_per_process ? processes : 1;  // the limit is on the total
  const double throughput =
      TRY(csv_number(csv, row, at.throughput, {0, kMaxThroughputRps / share}));
  const double latency =
      TRY(csv_number(csv, row, at.latency, {0, kMaxLatencyMs / at.units.latency_unit_ms}));
  if ((throughput == 0) != (latency == 0)) {
    return bad_input(csv.at(row),
                     "throughput and latency must both be positive, or both 0 (did not run)");
  }
  const double total = std::min(throughput * share, kMaxThroughputRps);
  ProfilePoint point{gpcs, batch, processes, Rps{total}, Millis{latency * at.units.latency_unit_ms},
                     {}};
  if (at.memory >= 0 && !row.cells[static_cast<std::size_t>(at.memory)].empty()) {
    const double memory = TRY(csv_number(csv, row, at.memory, {0, kMaxMemoryMib}));
    point.memory = Mib{memory};
  }
  if (at.source >= 0) {
    point.learned_on = TRY(parse_source(csv, row, at.source));
  }
  return point;
}

// The rows of one model by their sort key. Rows that did not run are kept too, so that repeats are
// seen.
struct Collected {
  struct Row {
    int line;
    ProfilePoint point;
  };
  std::map<std::tuple<int, int, int>, Row> rows;

  Result<void> add(const Csv& csv, const CsvRow& row, const Columns& at) {
    const ProfilePoint point = TRY(parse_point(csv, row, at));
    const std::tuple key(point.gpcs, point.processes, point.batch);
    if (!rows.emplace(key, Row{row.line, point}).second) {
      return bad_input(csv.at(row), fmt::format("{} GPCs, batch {}, {} processes appear twice",
                                                point.gpcs, point.batch, point.processes));
    }
    return {};
  }

  WorkloadProfile profile(const std::string& model) const {
    WorkloadProfile result{model, {}};
    for (const auto& [key, row] : rows) {
      const ProfilePoint& point = row.point;
      if (point.throughput.value > 0) {
        result.points.push_back(point);
      } else if (!point.predicted()) {  // that a law expects it not to run is no knowledge
        result.no_runs.push_back({point.gpcs, point.batch, point.processes});
      }
    }
    return result;
  }
};

using Models = std::map<std::pair<std::string, std::string>, Collected>;  // model and shape

// Refuses rows whose columns contradict each other.
Result<void> check_rows(const Csv& csv, const Models& models, const RowUnits& units) {
  std::vector<LinedPoint> ran;
  for (const auto& [model, collected] : models)
    for (const auto& [key, row] : collected.rows)
      if (row.point.throughput.value > 0) ran.push_back({row.line, model.first, row.point});
  std::sort(ran.begin(), ran.end(),
            [](const LinedPoint& a, const LinedPoint& b) { return a.line < b.line; });
  const std::optional<Contradiction> wrong = contradiction(ran, units);
  if (!wrong) return {};
  return bad_input(fmt::format("{}:{}", csv.file, wrong->line), wrong->message);
}

Result<std::string> parse_model(const Csv& csv, const CsvRow& row, int column) {
  const std::string& model = row.cells[static_cast<std::size_t>(column)];
  if (model.empty()) return bad_input(csv.at(row), "model is empty");
  if (model.size() > kMaxModelName) {
    return bad_input(csv.at(row), fmt::format("model is longer than {} bytes", kMaxModelName));
  }
  return model;
}

Result<std::string> parse_shape(const Csv& csv, const CsvRow& row, int column) {
  if (column < 0) return std::string();
  const std::string& shape = row.cells[static_cast<std::size_t>(column)];
  if (shape.size() > kMaxShape)
    return bad_input(csv.at(row), fmt::format("shape is longer than {} bytes", kMaxShape));
  return shape;
}

}  // namespace

Result<ProfileTable> parse_native_csv(const std::string& file, std::string_view text) {
  const Csv csv = TRY(parse_csv(file, text));
  TRY(require_columns(csv, {"model", "gpcs", "batch", "processes", "throughput_rps", "latency_ms"},
                      {"memory_mib", "source", "shape"}));
  const Columns at{csv.column("gpcs"),       csv.column("batch"),
                   csv.column("processes"),  csv.column("throughput_rps"),
                   csv.column("latency_ms"), csv.column("memory_mib"),
                   csv.column("source"),     {"throughput_rps", "latency_ms", 1.0, false}};
  Models models;
  std::map<std::string, std::map<Length, std::string>> shapes;  // of a model, by their lengths
  const int model_column = csv.column("model"), shape_column = csv.column("shape");
  for (const CsvRow& row : csv.rows) {
    const std::string model = TRY(parse_model(csv, row, model_column));
    const std::string shape = TRY(parse_shape(csv, row, shape_column));
    TRY(models[{model, shape}].add(csv, row, at));
    auto& known = shapes[model];
    const auto [same, fresh] = known.emplace(length_of(shape), shape);
    if (same->second != shape || (known.size() > 1 && known.contains(0)))
      return bad_input(csv.at(row),
                       fmt::format("model '{}' has points of the shapes '{}' and '{}', which are "
                                   "told apart by their greatest sizes: give it another name",
                                   model, known.begin()->second, shape));
  }
  ProfileTable table;
  for (const auto& [key, collected] : models) {
    WorkloadProfile profile = collected.profile(key.first);
    profile.shape = key.second;
    const bool alone = shapes.at(key.first).size() == 1;
    std::string name = alone ? key.first : with_bucket(key.first, length_of(key.second));
    if (!profile.points.empty() && !table.emplace(name, std::move(profile)).second)
      return bad_input(csv.at(csv.header), fmt::format("there are two models '{}'", name));
  }
  if (table.empty()) return bad_input(csv.at(csv.header), "no row ran: every row is 0,0");
  TRY(check_rows(csv, models, at.units));
  return table;
}

Result<WorkloadProfile> parse_parvagpu_csv(const std::string& file, const std::string& model,
                                           std::string_view text) {
  const Csv csv = TRY(parse_csv(file, text));
  TRY(require_columns(csv,
                      {"Mig instance", "Batch size", "Workload Number", "Throughput", "Latency"}));
  const Columns at{csv.column("Mig instance"),
                   csv.column("Batch size"),
                   csv.column("Workload Number"),
                   csv.column("Throughput"),
                   csv.column("Latency"),
                   -1,
                   -1,
                   {"Throughput", "Latency", 1000.0, true}};
  Models models;
  Collected& collected = models[{model, ""}];
  for (const CsvRow& row : csv.rows) {
    const Result<void> added = collected.add(csv, row, at);
    if (!added) return failed(added.error());
  }
  WorkloadProfile profile = collected.profile(model);
  if (profile.points.empty()) {
    return bad_input(csv.at(csv.header), "no row ran: every row is 0,0");
  }
  TRY(check_rows(csv, models, at.units));
  return profile;
}

std::string native_csv(const ProfileTable& table) {
  bool any_predicted = false, any_shape = false;
  for (const auto& [model, profile] : table) {
    any_predicted |= std::any_of(profile.points.begin(), profile.points.end(),
                                 [](const ProfilePoint& p) { return p.predicted(); });
    any_shape |= !profile.shape.empty();
  }
  const auto source = [any_predicted](const std::optional<std::string>& learned_on) {
    if (!any_predicted) return std::string();
    if (!learned_on) return std::string(",measured");
    return learned_on->empty() ? ",predicted" : "," + csv_cell("predicted:" + *learned_on);
  };
  std::string text = "model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib";
  text += any_predicted ? ",source" : "";
  text += any_shape ? ",shape\n" : "\n";
  for (const auto& [model, profile] : table) {
    const BucketName named = bucket_name(model);
    const bool of_shapes = named.bucket > 0 && named.bucket == length_of(profile.shape);
    const std::string name = csv_cell(of_shapes ? named.name : model);
    const std::string shape = any_shape ? "," + csv_cell(profile.shape) : "";
    for (const ProfilePoint& p : profile.points)
      text += fmt::format("{},{},{},{},{},{},{}{}{}\n", name, p.gpcs, p.batch, p.processes,
                          p.throughput.value, p.latency.value,
                          p.memory ? fmt::format("{}", p.memory->value) : std::string(),
                          source(p.learned_on), shape);
    for (const NoRun& none : profile.no_runs)
      text += fmt::format("{},{},{},{},0,0,{}{}\n", name, none.gpcs, none.batch, none.processes,
                          source({}), shape);
  }
  return text;
}

}  // namespace partita::profile
