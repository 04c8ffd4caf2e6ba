#include "sim/token_service.h"

#include <algorithm>

#include "base/check.h"
#include "llm/engine/split.h"
#include "llm/engine/workload.h"
#include "sim/engine.h"

namespace partita::sim {
namespace {

constexpr double kNanosPerMs = 1e6, kMsPerSecond = 1e3;

// What is seen of the requests of all replicas.
struct Seen {
  std::vector<double> ttft, tpot, whole;
  long offered = 0, in_time = 0, refused = 0;
  double tokens = 0;
};

std::size_t drawn_replica(const std::vector<TokenReplica>& replicas, double all, Rng& rng) {
  double left = rng.uniform() * all;
  for (std::size_t r = 0; r + 1 < replicas.size(); ++r)
    if ((left -= replicas[r].share) < 0) return r;
  return replicas.size() - 1;
}

bool keeps(Millis limit, double value) { return limit.value <= 0 || value <= limit.value; }

void look(const plan::Service& service, const profile::TokenEngine& engine,
          const llm::Request& request, const llm::Served& served, Seen& seen) {
  ++seen.offered;
  seen.refused += served.refused;
  if (served.refused) return;
  const double outside = engine.request_ms + engine.request_token_ms * request.in;
  // Taken for as long as plan and judge take them, where percentiles were measured.
  const double first = served.ttft().value + outside, next = llm::tpot(served, request).value;
  const double ttft = engine.ttft_tail.of(first), tpot = engine.tpot_tail.of(next);
  const double whole = (served.end - served.arrival).value + outside +
                       engine.whole_tail_ms(first, next, request.out - 1);
  seen.ttft.push_back(ttft);
  seen.tpot.push_back(tpot);
  seen.whole.push_back(whole);
  seen.tokens += request.out;
  seen.in_time += keeps(service.tokens->ttft, ttft) && keeps(service.tokens->tpot, tpot) &&
                  keeps(service.slo, whole);
}

Millis at_percent(const std::vector<double>& sorted, double percent) {
  if (sorted.empty()) return {};
  const auto rank = static_cast<std::size_t>(percent / 100 * static_cast<double>(sorted.size()));
  return Millis{sorted[std::min(rank, sorted.size() - 1)]};
}

ServiceReport report_of(const plan::Service& service, Seen seen, double seconds) {
  for (auto* values : {&seen.ttft, &seen.tpot, &seen.whole}) std::ranges::sort(*values);
  const auto offered = static_cast<double>(std::max(1L, seen.offered));
  ServiceReport report{
      .name = service.name,
      .offered = seen.offered,
      .completed = static_cast<long>(seen.whole.size()),
      .slo_attainment = seen.offered == 0 ? 1 : static_cast<double>(seen.in_time) / offered,
      .p50 = at_percent(seen.whole, 50),
      .p95 = at_percent(seen.whole, 95),
      .p99 = at_percent(seen.whole, 99),
      .refused = seen.refused};
  report.tokens = {at_percent(seen.ttft, 50), at_percent(seen.ttft, 99), at_percent(seen.tpot, 50),
                   at_percent(seen.tpot, 99), seconds > 0 ? seen.tokens / seconds : 0};
  return report;
}

}  // namespace

namespace {

// As the gateway has it: by the promised TTFT, which it refuses by, and by its patience.
llm::Door door_of(const plan::Service& service, const profile::TokenEngine& engine) {
  constexpr Millis kPatience{10'000}, kPatienceOfNone{60'000};
  const Millis ttft = service.tokens->ttft;
  return {.ttft = ttft,
          .wait = ttft.value > 0 ? std::max(kPatience, 2 * ttft) : kPatienceOfNone,
          .request_ms = engine.request_ms,
          .request_token_ms = engine.request_token_ms,
          .mean_out = plan::mean_of(*service.tokens).out,
          .tpot = service.tokens->tpot,
          .may_be_late = 1 - service.percentile / 100};
}

}  // namespace

TokenOutcome play_tokens(const plan::Service& service, const std::vector<TokenReplica>& replicas,
                         TokenRun run) {
  CHECK(service.tokens);
  std::vector<std::vector<llm::Request>> requests(std::max<std::size_t>(1, replicas.size()));
  double all = 0;
  for (const TokenReplica& replica : replicas) all += replica.share;
  TokenOutcome outcome;
  Seen seen;
  while (true) {
    const plan::Nanos time = run.arrivals.next();
    if (time >= run.end) break;
    ++outcome.events;
    if (replicas.empty()) {
      seen.offered += time >= run.warmup;
      continue;
    }
    llm::Request request = llm::request_of(*service.tokens, run.rng);
    request.arrival = Millis{static_cast<double>(time) / kNanosPerMs};
    requests[drawn_replica(replicas, all, run.rng)].push_back(request);
  }
  const Millis warm{static_cast<double>(run.warmup) / kNanosPerMs};
  EventLog log;
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    const profile::TokenEngine& engine = replicas[r].engine;
    const llm::Door door = run.shed ? door_of(service, engine) : llm::Door{};
    const auto played = llm::simulate_group(engine, requests[r], door);
    CHECK(played.has_value());
    outcome.events += played->steps;
    log.absorb(static_cast<std::uint64_t>(played->end.value * kNanosPerMs));
    for (std::size_t i = 0; i < requests[r].size(); ++i)
      if (requests[r][i].arrival >= warm)
        look(service, engine, requests[r][i], played->requests[i], seen);
  }
  outcome.log_hash = log.hash();
  const double seconds = static_cast<double>(run.end - run.warmup) / kNanosPerMs / kMsPerSecond;
  outcome.report = report_of(service, std::move(seen), seconds);
  return outcome;
}

}  // namespace partita::sim
