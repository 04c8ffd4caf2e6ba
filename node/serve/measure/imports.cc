#include "serve/measure/imports.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/fields.h"
#include "base/parse_number.h"
#include "base/unicode.h"
#include "profile/consistency.h"
#include "profile/csv.h"
#include "serve/measure/points.h"

namespace partita::serve {
namespace {

using profile::Csv;
using profile::CsvRow;
using profile::ProfilePoint;

constexpr profile::NumberRange kRates{0, kMaxQuantity};
constexpr profile::NumberRange kBatches{1, profile::kMaxBatch};
constexpr double kMicrosPerMilli = 1000;

// What a saturated instance needs for a batch.
double implied_ms(const ProfilePoint& point) {
  return 1000.0 * point.batch * point.processes / point.throughput.value;
}

Result<std::string> name_in(const std::string& at, const ToldOfImport& told,
                            const std::string& said) {
  const std::string name = told.model.value_or(said);
  const std::string fault = name_fault(name);
  if (!fault.empty()) return bad_input(at, fmt::format("the model's name {}; say --model", fault));
  return name;
}

// Keeps the point when it is the fastest of its configuration.
void keep_fastest(profile::WorkloadProfile& profile, const ProfilePoint& point) {
  const ProfilePoint* before = find_point(profile, point.gpcs, point.batch, point.processes);
  if (before != nullptr && before->throughput.value >= point.throughput.value) return;
  std::erase_if(profile.points, [&](const ProfilePoint& p) {
    return p.gpcs == point.gpcs && p.batch == point.batch && p.processes == point.processes;
  });
  add_point(profile, point);
}

Result<profile::ProfileTable> from_perf_analyzer(const Csv& csv, const ToldOfImport& told) {
  const std::string at = csv.at(csv.header);
  if (!told.batch) return bad_input("--batch", "perf_analyzer does not write it (its -b); say it");
  const auto name = TRY(name_in(at, told, ""));
  const int rate = csv.column("Inferences/Second");
  if (rate < 0 || (csv.column("Concurrency") < 0 && csv.column("Request Rate") < 0))
    return bad_input(at, "no columns Concurrency and Inferences/Second: not perf_analyzer's");
  profile::WorkloadProfile profile{.model = name, .points = {}};
  int line = 0;
  for (const CsvRow& row : csv.rows) {
    const double throughput = TRY(csv_number(csv, row, rate, kRates));
    double micros = 0;
    for (const char* column :
         {"Server Compute Input", "Server Compute Infer", "Server Compute Output"}) {
      const int index = csv.column(column);
      if (index < 0) continue;
      const double part = TRY(csv_number(csv, row, index, kRates));
      micros += part;
    }
    if (throughput == 0) continue;
    ProfilePoint point{.gpcs = told.gpcs,
                       .batch = *told.batch,
                       .processes = told.processes,
                       .throughput = {throughput},
                       .latency = {micros / kMicrosPerMilli},
                       .memory = {}};
    if (micros == 0) point.latency = {implied_ms(point)};
    const auto before = profile.points;
    keep_fastest(profile, point);
    if (!(profile.points == before)) line = row.line;
  }
  if (profile.points.empty()) return bad_input(at, "no row has a throughput");
  const double agrees = profile::agreement(profile.points[0]);
  if (agrees > profile::kContradiction || agrees < 1 / profile::kContradiction) {
    return bad_input(fmt::format("{}:{}", csv.file, line),
                     fmt::format("a batch takes {:.3f} ms, the throughput implies {:.3f}; are "
                                 "--batch {} and --processes {} right?",
                                 profile.points[0].latency.value, implied_ms(profile.points[0]),
                                 *told.batch, told.processes));
  }
  return profile::ProfileTable{{name, std::move(profile)}};
}

// "2:GPU", "1/GPU": how many instances of the model ran.
Result<int> instances_of(const Csv& csv, const CsvRow& row, int column) {
  std::string_view text = row.cells[static_cast<std::size_t>(column)];
  const std::string whole(text);
  const auto count = take_number<int>(text);
  const bool good = count && *count >= 1 && *count <= profile::kMaxProcesses &&
                    (text.empty() || text[0] == ':' || text[0] == '/');
  if (!good) return bad_input(csv.at(row), fmt::format("'{}' is no Instance Group", whole));
  return *count;
}

Result<profile::ProfileTable> from_model_analyzer(const Csv& csv, const ToldOfImport& told) {
  const int model = csv.column("Model"), batch = csv.column("Batch"),
            group = csv.column("Instance Group"), rate = csv.column("Throughput (infer/sec)");
  if (model < 0 || batch < 0 || group < 0 || rate < 0) {
    return bad_input(csv.at(csv.header),
                     "no columns Model, Batch, Instance Group and Throughput (infer/sec): not "
                     "Model Analyzer's metrics-model-inference.csv");
  }
  profile::ProfileTable table;
  for (const CsvRow& row : csv.rows) {
    const auto name = TRY(name_in(csv.at(row), told, row.cells[static_cast<std::size_t>(model)]));
    const int size = TRY(csv_integer(csv, row, batch, kBatches));
    const int processes = TRY(instances_of(csv, row, group));
    const double throughput = TRY(csv_number(csv, row, rate, kRates));
    if (throughput == 0) continue;
    ProfilePoint point{.gpcs = told.gpcs,
                       .batch = size,
                       .processes = processes,
                       .throughput = {throughput},
                       .latency = {},
                       .memory = {}};
    point.latency = {implied_ms(point)};
    profile::WorkloadProfile& profile = table[name];
    profile.model = name;
    keep_fastest(profile, point);
  }
  if (table.empty()) return bad_input(csv.at(csv.header), "no row has a throughput");
  return table;
}

}  // namespace

std::optional<ForeignForm> foreign_form(std::string_view word) {
  if (word == "perf-analyzer") return ForeignForm::perf_analyzer;
  if (word == "model-analyzer") return ForeignForm::model_analyzer;
  return std::nullopt;
}

Result<profile::ProfileTable> import_foreign(ForeignForm form, const std::string& file,
                                             std::string_view text, const ToldOfImport& told) {
  const Csv csv = TRY(profile::parse_csv(file, text));
  return form == ForeignForm::perf_analyzer ? from_perf_analyzer(csv, told)
                                            : from_model_analyzer(csv, told);
}

}  // namespace partita::serve
