#include "llm/engine/token_times.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/index.h"
#include "llm/engine/split.h"
#include "llm/engine/workload.h"

namespace partita::llm {
namespace {

// What requests saw, and how many each stands for.
using Values = std::vector<std::pair<double, double>>;

Millis percentile_of(Values& values, double percentile) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  double left = 0;
  for (const auto& [value, weight] : values) left += weight * percentile / 100;
  for (const auto& [value, weight] : values)
    if ((left -= weight) < 0) return Millis{value};
  return Millis{values.back().first};
}

// What a request sees, and what of it is promised otherwise.
struct Seen {
  double ttft, tpot, e2e;
  bool late_ttft, late_tpot, late_e2e;

  bool late() const { return late_ttft || late_tpot || late_e2e; }
};

Seen seen(const plan::Terms& service, const profile::TokenEngine& engine, const Request& request,
          const Served& served) {
  const double outside = engine.request_ms + engine.request_token_ms * request.in;
  const auto misses = [&](Millis limit, double value) {
    return served.refused || (limit.value > 0 && value > limit.value);
  };
  const double first = served.ttft().value + outside, next = tpot(served, request).value;
  const double ttft = engine.ttft_tail.of(first), each = engine.tpot_tail.of(next);
  const double e2e = (served.end - served.arrival).value + outside +
                     engine.whole_tail_ms(first, next, request.out - 1);
  return {ttft,
          each,
          e2e,
          misses(service.tokens->ttft, ttft),
          misses(service.tokens->tpot, each),
          misses(service.slo, e2e)};
}

// Adds up what requests see.
class Tally {
 public:
  Tally(const plan::Terms& service, const profile::TokenEngine& engine)
      : service_(service), engine_(engine) {}

  void add(const Request& request, const Served& served) {
    const Seen one = seen(service_, engine_, request, served);
    count_ += request.weight;
    times_.late_ttft += one.late_ttft * request.weight;
    times_.late_tpot += one.late_tpot * request.weight;
    times_.late_e2e += one.late_e2e * request.weight;
    times_.refused += served.refused;
    if (served.refused) return;
    ttft_.emplace_back(one.ttft, request.weight);
    tpot_.emplace_back(one.tpot, request.weight);
    e2e_.emplace_back(one.e2e, request.weight);
    const double busy = (served.end - served.first).value;
    decoding_ms_ += busy;
    held_ += busy * (request.in + request.out / 2.0);
    tokens_ += request.out;
  }

  ReplicaTimes times(Millis span, const Lateness& late) && {
    times_.late = late.share;
    times_.late_at_end = late.at_end;
    for (double* const share : {&times_.late_ttft, &times_.late_tpot, &times_.late_e2e})
      *share = count_ > 0 ? *share / count_ : 0;
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
  Values ttft_, tpot_, e2e_;
  double count_ = 0, decoding_ms_ = 0, held_ = 0, tokens_ = 0;
};

// The busiest of what stands for more comes first, and stands for itself.
bool in_stretches(const std::vector<Request>& requests) {
  return std::ranges::any_of(requests, [](const Request& one) { return one.weight != 1; });
}

std::size_t first_counted(const std::vector<Request>& requests) {
  return in_stretches(requests) ? 0 : requests.size() / 10;
}

Lateness lateness_of(const plan::Terms& service, const profile::TokenEngine& engine,
                     const std::vector<Request>& requests, const EngineRun& run) {
  const std::size_t first = first_counted(requests), end = requests.size() - requests.size() / 3;
  double late = 0, late_at_end = 0, all = 0;
  for (std::size_t i = first; i < requests.size(); ++i) {
    const bool one = seen(service, engine, requests[i], run.requests[i]).late();
    all += requests[i].weight;
    late += one * requests[i].weight;
    late_at_end += one && i >= end;
  }
  const double share = all > 0 ? late / all : 0;
  if (first == 0)
    return {share, share};  // what falls behind is late in the last ones, which weigh most
  const std::size_t last_ones = requests.size() - end;
  return {share, last_ones > 0 ? late_at_end / static_cast<double>(last_ones) : 0};
}

EngineRun run_of(const profile::TokenEngine& engine, const std::vector<Request>& requests) {
  Result<EngineRun> run = simulate_group(engine, requests);
  CHECK(run.has_value());
  return *std::move(run);
}

// None: what tells can be played. A share at random of what is Poisson's at every moment is so,
// too; of recorded times it is drawn.
std::vector<Request> requests_in_stretches(const plan::Terms& service, const ReplicaLoad& load,
                                           Rps source) {
  const plan::Arrivals& law = service.traffic.arrivals;
  const auto* recorded = std::get_if<plan::TraceArrivals>(&law);
  const bool times = recorded && recorded->trace && !recorded->trace->times_s.empty();
  const Rps rate = times ? source : load.rate;
  const double share = load.rate / rate;
  const auto most = static_cast<long>(
      std::min(std::max(kMostTellingRequests, load.count) / share, 1.0 * plan::kMostTelling));
  const Millis slo = service.tokens->ttft.value > 0 ? service.tokens->ttft : service.slo;
  const std::vector<plan::Stretch> stretches = plan::telling_stretches(law, rate, slo, most);
  if (stretches.empty()) return {};
  const Rng root(load.seed);
  std::vector<Request> requests =
      requests_of(*service.tokens, plan::ArrivalSource::of(stretches, law, rate, root.split(1)),
                  share, std::numeric_limits<int>::max(), root.split(2));
  double end = 0;
  auto request = requests.begin();
  for (const plan::Stretch& one : stretches) {
    end += one.length.value * 1e3;
    for (; request != requests.end() && request->arrival.value < end; ++request)
      request->weight = one.weight;
  }
  for (; request != requests.end(); ++request) request->weight = stretches.back().weight;
  return requests;
}

std::vector<Request> requests_for(const plan::Terms& service, const ReplicaLoad& load) {
  CHECK(service.tokens && load.count >= 10);
  const Rng root(load.seed);
  const Rps all = std::max(load.rate, plan::planning_rate(service));
  const bool poisson = plan::is_poisson(service.traffic.arrivals);  // a share of it is Poisson
  const Rps source = poisson ? load.rate : all;
  const double share = load.rate / source;
  if (std::vector<Request> some = requests_in_stretches(service, load, source); !some.empty())
    return some;
  const double telling =
      static_cast<double>(plan::telling_requests(service.traffic.arrivals, source)) * share;
  const int count =
      std::max(load.count, static_cast<int>(std::min(telling, 1.0 * kMostTellingRequests)));
  return requests_of(*service.tokens,
                     plan::ArrivalSource::of(service.traffic.arrivals, source, root.split(1)),
                     share, count, root.split(2));
}

}  // namespace

ReplicaRequests::ReplicaRequests(plan::Terms service, const ReplicaLoad& load)
    : service_(std::move(service)), load_(load) {
  load_.rate = Rps{1};
  if (!plan::is_poisson(service_.traffic.arrivals)) return;
  drawn_ = requests_for(service_, load_);
  shown_ = drawn_;
}

const std::vector<Request>& ReplicaRequests::at(Rps rate) {
  load_.rate = rate;
  if (drawn_.empty()) return shown_ = requests_for(service_, load_);
  for (std::size_t i = 0; i < drawn_.size(); ++i)
    shown_[i].arrival = drawn_[i].arrival / rate.value;
  return shown_;
}

Lateness lateness(const plan::Terms& service, const profile::TokenEngine& engine,
                  const std::vector<Request>& requests) {
  return lateness_of(service, engine, requests, run_of(engine, requests));
}

ReplicaTimes replica_times(const plan::Terms& service, const profile::TokenEngine& engine,
                           const ReplicaLoad& load) {
  const std::vector<Request> requests = requests_for(service, load);
  const EngineRun run = run_of(engine, requests);
  Tally tally(service, engine);
  const std::size_t first = first_counted(requests);
  for (std::size_t i = first; i < requests.size(); ++i) tally.add(requests[i], run.requests[i]);
  ReplicaTimes times = std::move(tally).times(run.end - requests[first].arrival,
                                              lateness_of(service, engine, requests, run));
  times.most_sequences = run.most_sequences;
  times.most_cached =
      static_cast<double>(run.most_blocks) / static_cast<double>(engine.spec.blocks);
  times.preemptions = static_cast<long>(run.preemptions);
  return times;
}

Rps served_at_most(const plan::Terms& service, const profile::TokenEngine& engine,
                   const ReplicaLoad& load) {
  constexpr double kFrom = 0.4, kTo = 0.8;  // of the requests, by their ends
  CHECK(service.tokens && load.count >= 10);
  plan::Terms calm = service;
  calm.traffic = {};
  std::vector<Request> requests =
      requests_for(calm, {.rate = Rps{1}, .count = load.count, .seed = load.seed});
  for (Request& request : requests) request.arrival = Millis{0};
  std::vector<double> ends;
  for (const Served& served : run_of(engine, requests).requests)
    if (!served.refused) ends.push_back(served.end.value);
  std::ranges::sort(ends);
  const auto from = static_cast<std::size_t>(kFrom * static_cast<double>(ends.size()));
  const auto to = static_cast<std::size_t>(kTo * static_cast<double>(ends.size()));
  if (from >= to) return Rps{0};
  const double ms = ends[to] - ends[from];
  return ms > 0 ? Rps{1e3 * static_cast<double>(to - from) / ms}
                : Rps{std::numeric_limits<double>::infinity()};
}

}  // namespace partita::llm
