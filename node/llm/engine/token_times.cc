#include "llm/engine/token_times.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/index.h"
#include "llm/engine/workload.h"

namespace partita::llm {
namespace {

Millis percentile_of(std::vector<double>& values, double percentile) {
  if (values.empty()) return {};
  const auto rank = static_cast<std::size_t>(percentile / 100 * static_cast<double>(values.size()));
  const auto place =
      values.begin() + static_cast<std::ptrdiff_t>(std::min(rank, values.size() - 1));
  std::nth_element(values.begin(), place, values.end());
  return Millis{*place};
}

// Adds up what requests see.
class Tally {
 public:
  Tally(const plan::Terms& service, const profile::TokenEngine& engine)
      : service_(service), engine_(engine) {}

  void add(const Request& request, const Served& served, bool at_end) {
    const double outside = engine_.request_ms + engine_.request_token_ms * request.in;
    const double ttft = served.ttft().value + outside;
    const double token = tpot(served, request).value;
    const double e2e = (served.end - served.arrival).value + outside;
    const auto misses = [&](Millis limit, double value, double& count) {
      const bool missed = served.refused || (limit.value > 0 && value > limit.value);
      count += missed;
      return missed;
    };
    const bool first = misses(service_.tokens->ttft, ttft, times_.late_ttft);
    const bool rest = misses(service_.tokens->tpot, token, times_.late_tpot);
    const bool all = misses(service_.slo, e2e, times_.late_e2e);
    const bool late = first || rest || all || served.refused;
    late_ += late;
    late_at_end_ += late && at_end;
    at_end_ += at_end;
    ++count_;
    times_.refused += served.refused;
    if (served.refused) return;
    ttft_.push_back(ttft);
    tpot_.push_back(token);
    e2e_.push_back(e2e);
    const double busy = (served.end - served.first).value;
    decoding_ms_ += busy;
    held_ += busy * (request.in + request.out / 2.0);
    tokens_ += request.out;
  }

  ReplicaTimes times(Millis span) && {
    const auto share = [&](double late) { return count_ > 0 ? late / count_ : 0; };
    times_.late = share(late_);
    times_.late_at_end = at_end_ > 0 ? late_at_end_ / at_end_ : 0;
    times_.late_ttft = share(times_.late_ttft);
    times_.late_tpot = share(times_.late_tpot);
    times_.late_e2e = share(times_.late_e2e);
    times_.ttft = percentile_of(ttft_, service_.percentile);
    times_.tpot = percentile_of(tpot_, service_.percentile);
    times_.e2e = percentile_of(e2e_, service_.percentile);
    if (span.value <= 0) return times_;
    times_.running = decoding_ms_ / span.value;
    times_.cached_tokens = held_ / span.value;
    times_.tokens = Rps{1e3 * tokens_ / span.value};
    return times_;
  }

 private:
  const plan::Terms& service_;
  const profile::TokenEngine& engine_;
  ReplicaTimes times_;
  std::vector<double> ttft_, tpot_, e2e_;
  double late_ = 0, late_at_end_ = 0, at_end_ = 0, count_ = 0;
  double decoding_ms_ = 0, held_ = 0, tokens_ = 0;
};

}  // namespace

ReplicaTimes replica_times(const plan::Terms& service, const profile::TokenEngine& engine,
                           const ReplicaLoad& load) {
  CHECK(service.tokens && load.count >= 10);
  const Rng root(load.seed);
  const Rps all = std::max(load.rate, plan::planning_rate(service));
  const bool poisson = plan::is_poisson(service.traffic.arrivals);  // a share of it is Poisson
  const Rps source = poisson ? load.rate : all;
  const std::vector<Request> requests = requests_of(
      *service.tokens, plan::ArrivalSource::of(service.traffic.arrivals, source, root.split(1)),
      load.rate / source, load.count, root.split(2));
  const Result<EngineRun> run = simulate(engine.spec, requests);
  CHECK(run.has_value());
  Tally tally(service, engine);
  const std::size_t first = requests.size() / 10, end = requests.size() - requests.size() / 3;
  for (std::size_t i = first; i < requests.size(); ++i)
    tally.add(requests[i], run->requests[i], i >= end);
  return std::move(tally).times(run->end - requests[first].arrival);
}

}  // namespace partita::llm
