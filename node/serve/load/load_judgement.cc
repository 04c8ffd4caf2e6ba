#include "serve/load/load_judgement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace partita::serve {
namespace {

constexpr double kServerPercentile = 99;

double ms(sim::Nanos time) { return static_cast<double>(time) / sim::kNanosPerMilli; }

LoadPercentiles percentiles(const sim::LatencyHistogram& times) {
  return {ms(times.percentile(50)), ms(times.percentile(99))};
}

LoadTokens tokens_of(const LoadTally& tally, const LoadOutcome& outcome) {
  const TokenTally& tokens = tally.tokens;
  const double seconds = std::max(outcome.seconds, 1e-9);
  return {.ttft_ms = percentiles(tokens.ttft),
          .tpot_ms = percentiles(tokens.tpot),
          .itl_ms = percentiles(tokens.itl),
          .in = tokens.in,
          .out = tokens.out,
          .asked = tokens.asked,
          .goodput_rps = static_cast<double>(tally.within_slo()) / seconds,
          .tokens_per_s = static_cast<double>(tokens.out) / std::max(outcome.answered_s, 1e-9)};
}

LoadServiceReport service_report(const PlayedService& played, const LoadTally& tally) {
  return {
      .terms = {.name = played.name, .rate = Rps{played.rate_rps}, .slo = Millis{ms(tally.slo())}},
      .offered = tally.offered(),
      .completed = tally.completed(),
      .refused = tally.refused(),
      .failed = tally.failed(),
      .reset = tally.reset(),
      .first_failure = tally.first_failure,
      .first_refusal = tally.first_refusal,
      .slo_attainment = tally.offered() > 0 ? tally.slo_attainment() : kNotPredicted,
      .p50_ms = ms(tally.latencies().percentile(50)),
      .p95_ms = ms(tally.latencies().percentile(95)),
      .p99_ms = ms(tally.latencies().percentile(99)),
      .max_ms = ms(tally.worst())};
}

}  // namespace

LoadReport report_of(const LoadOptions& options, const std::vector<PlayedService>& played,
                     const LoadOutcome& outcome) {
  LoadReport report{.url = fmt::format("{}://{}{}", options.url.tls ? "https" : "http",
                                       authority_of(options.url), options.url.path),
                    .seed = options.seed,
                    .duration_s = outcome.seconds,
                    .stopped = outcome.stopped,
                    .services = {},
                    .generator = {.connections = outcome.connections,
                                  .most_connections = options.connections,
                                  .waited = outcome.waited},
                    .server = {}};
  LoadGenerator& generator = report.generator;
  for (std::size_t i = 0; i < played.size(); ++i) {
    const LoadTally& tally = outcome.services[i];
    report.services.push_back(service_report(played[i], tally));
    if (played[i].tokens) report.services.back().tokens = tokens_of(tally, outcome);
    const double late = ms(tally.lateness().percentile(99));
    generator.late_p50_ms = std::max(generator.late_p50_ms, ms(tally.lateness().percentile(50)));
    generator.late_p99_ms = std::max(generator.late_p99_ms, late);
    generator.late = generator.late || late > kDoubtfulLateMs ||
                     (tally.slo() > 0 && late > kDoubtfulLateShare * ms(tally.slo()));
  }
  return report;
}

ServerScenario judged_server(ServerScenario asked, const LoadOutcome& outcome) {
  const LoadTally& tally = outcome.services.front();
  const auto offered = static_cast<double>(tally.offered());
  const auto completed = static_cast<double>(tally.completed());
  if (outcome.answered_s > 0) asked.completed_qps = completed / outcome.answered_s;
  // The percentile of the offered ones is one of the completed ones, further up.
  const double needed = offered * kServerPercentile / 100;
  if (completed > 0 && needed <= completed)
    asked.p99_ms = ms(tally.latencies().percentile(100 * needed / completed));
  asked.reasons.clear();
  if (!(asked.p99_ms <= asked.latency_bound_ms))
    asked.reasons.push_back(std::isfinite(asked.p99_ms)
                                ? fmt::format("p99 is {:.3f} ms; the bound is {:g} ms",
                                              asked.p99_ms, asked.latency_bound_ms)
                                : fmt::format("{} of {} requests did not complete",
                                              tally.offered() - tally.completed(),
                                              tally.offered()));
  if (tally.offered() < asked.min_requests)
    asked.reasons.push_back(fmt::format("{} requests were offered; {} are needed", tally.offered(),
                                        asked.min_requests));
  if (outcome.seconds < asked.min_duration_s)
    asked.reasons.push_back(
        fmt::format("it took {:.1f} s; {:g} s are needed", outcome.seconds, asked.min_duration_s));
  asked.valid = asked.reasons.empty();
  return asked;
}

}  // namespace partita::serve
