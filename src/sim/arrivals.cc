#include "sim/arrivals.h"

#include <cmath>
#include <map>
#include <utility>

#include "base/check.h"
#include "profile/csv.h"

namespace partita::sim {
namespace {

constexpr double kMaxTraceSeconds = 1e9;

double gap_of(Rps rate) {
  CHECK(rate.value > 0);
  return kNanosPerSecond / rate.value;
}

// A far future stands for "never" before the conversion to integers could overflow.
Nanos to_nanos(double ns) { return ns < 9e18 ? static_cast<Nanos>(ns) : kForever; }

}  // namespace

ArrivalSource ArrivalSource::poisson(Rps rate, Rng rng) {
  ArrivalSource source(ArrivalKind::poisson, rng);
  source.gap_ns_ = gap_of(rate);
  return source;
}

ArrivalSource ArrivalSource::uniform(Rps rate, Rng rng) {
  ArrivalSource source(ArrivalKind::uniform, rng);
  source.gap_ns_ = gap_of(rate);
  source.clock_ns_ = source.rng_.uniform() * source.gap_ns_;
  return source;
}

ArrivalSource ArrivalSource::recorded(std::span<const double> times_s) {
  ArrivalSource source;
  source.times_s_ = times_s;
  return source;
}

Nanos ArrivalSource::next() {
  switch (kind_) {
    case ArrivalKind::poisson:
      clock_ns_ += rng_.exponential() * gap_ns_;
      return to_nanos(clock_ns_);
    case ArrivalKind::uniform:
      return to_nanos(clock_ns_ + gap_ns_ * number_++);
    case ArrivalKind::trace:
      break;
  }
  if (times_s_.empty()) return kForever;
  const double time_s = times_s_.front();
  times_s_ = times_s_.subspan(1);
  return to_nanos(std::round(time_s * kNanosPerSecond));
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
