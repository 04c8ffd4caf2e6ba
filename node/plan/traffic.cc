#include "plan/traffic.h"

#include <fmt/format.h>

#include <numeric>

#include "base/check.h"

namespace partita::plan {
namespace {

constexpr double kMinuteSeconds = 60;

std::string text_of(const OnOff& on_off) {
  return fmt::format("{} x for {} s of every {} s", on_off.peak, on_off.seconds, on_off.every);
}

struct Words {
  std::string operator()(const PoissonArrivals&) const { return "poisson"; }
  std::string operator()(const EvenArrivals&) const { return "uniform"; }
  std::string operator()(const GammaArrivals& gamma) const {
    return fmt::format("gamma, cv {}", gamma.cv);
  }
  std::string operator()(const BurstArrivals& burst) const {
    return "burst, " + text_of(burst.on_off);
  }
  std::string operator()(const MmppArrivals& mmpp) const { return "mmpp, " + text_of(mmpp.on_off); }
  std::string operator()(const TraceArrivals& trace) const {
    return "trace " + trace.file + (trace.row.empty() ? "" : ", row " + trace.row);
  }
};

}  // namespace

Seconds TrafficTrace::span() const {
  if (times_s.empty()) return Seconds{kMinuteSeconds * static_cast<double>(per_minute.size())};
  CHECK(times_s.size() > 1);
  const double n = static_cast<double>(times_s.size());
  return Seconds{(times_s.back() - times_s.front()) * n / (n - 1)};
}

Rps TrafficTrace::mean() const {
  const double count = times_s.empty() ? std::accumulate(per_minute.begin(), per_minute.end(), 0.0)
                                       : static_cast<double>(times_s.size());
  return Rps{count / span().value};
}

bool TraceArrivals::operator==(const TraceArrivals& other) const {
  if (trace && other.trace) return trace == other.trace || *trace == *other.trace;
  return file == other.file && row == other.row;
}

std::string to_string(const Arrivals& arrivals) { return std::visit(Words{}, arrivals); }

Rps rate_at(const std::vector<RateAt>& rates, int minute) {
  CHECK(!rates.empty());
  Rps rate = rates.back().rate;
  for (const RateAt& entry : rates)
    if (entry.minute <= minute) rate = entry.rate;
  return rate;
}

}  // namespace partita::plan
