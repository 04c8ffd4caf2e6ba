#include "sim/arrivals.h"

#include <map>
#include <utility>

#include "profile/csv.h"

namespace partita::sim {
namespace {

constexpr double kMaxTraceSeconds = 1e9;

}  // namespace

ArrivalSource arrivals_of(const plan::Service& service, const ServingOptions& options,
                          std::span<const double> trace) {
  const Rng rng = component_rng(options.seed, service.name);
  const auto source = [&](const plan::Arrivals& arrivals) {
    return ArrivalSource::of(arrivals, service.rate, rng);
  };
  switch (options.arrivals) {
    case ArrivalKind::declared:
      return source(service.traffic.arrivals);
    case ArrivalKind::poisson:
      return source(plan::PoissonArrivals{});
    case ArrivalKind::uniform:
      return source(plan::EvenArrivals{});
    case ArrivalKind::gamma:
      return source(plan::GammaArrivals{options.cv});
    case ArrivalKind::trace:
      break;
  }
  return ArrivalSource::recorded(trace);
}

Result<std::vector<Trace>> parse_trace(const std::string& file, std::string_view text) {
  const Result<profile::Csv> csv = profile::parse_csv(file, text);
  if (!csv) return failed(csv.error());
  if (const auto columns = profile::require_columns(*csv, {"time_s", "service"}); !columns) {
    return failed(columns.error());
  }
  const int time = csv->column("time_s");
  const auto service = static_cast<std::size_t>(csv->column("service"));
  std::map<std::string, std::vector<double>> times;
  double previous = 0;
  for (const profile::CsvRow& row : csv->rows) {
    const Result<double> at = profile::csv_number(*csv, row, time, {0, kMaxTraceSeconds});
    if (!at) return failed(at.error());
    if (*at < previous) {
      return bad_input(csv->at(row), "time_s " + row.cells[static_cast<std::size_t>(time)] +
                                         " is before the row above it; times must ascend");
    }
    if (row.cells[service].empty()) return bad_input(csv->at(row), "service is empty");
    times[row.cells[service]].push_back(previous = *at);
  }
  std::vector<Trace> traces;
  for (auto& [name, list] : times) traces.push_back({name, std::move(list)});
  return traces;
}

}  // namespace partita::sim
