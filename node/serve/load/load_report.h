// What a load run came to, as a document (kind LoadReport) and for people. Values only; latencies
// count from when a request was due.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "plan/terms.h"

namespace partita::serve {

inline constexpr double kNotPredicted = std::numeric_limits<double>::infinity();

struct LoadPercentiles {
  double p50 = 0, p99 = 0;
  bool operator==(const LoadPercentiles&) const = default;
};
// Of a language model, of its whole answers; and what the simulator says of such requests.
struct LoadTokens {
  LoadPercentiles ttft_ms = {}, tpot_ms = {}, itl_ms = {};
  long in = 0, out = 0, asked = 0;  // tokens; those of answers that were asked for
  double goodput_rps = 0;   // answers that kept all that is promised
  double tokens_per_s = 0;  // out
  bool operator==(const LoadTokens&) const = default;
};
struct PredictedTokens {
  LoadPercentiles ttft_ms = {}, tpot_ms = {};
  double tokens_per_s = 0;
  bool operator==(const PredictedTokens&) const = default;
};

struct LoadServiceReport {
  plan::Terms terms;  // name, SLO, rate that was played (0: a trace's)
  long offered = 0, completed = 0, refused = 0;
  long failed = 0;                 // the reset ones among them
  long reset = 0;                  // the connection was refused or broken
  // Why the first one failed, or was refused; empty: none was.
  std::string first_failure = {}, first_refusal = {};
  // Share of the offered ones that completed within the SLO; infinite: none was offered.
  double slo_attainment = 0;
  double p50_ms = 0, p95_ms = 0, p99_ms = 0, max_ms = 0;  // of the completed ones
  // Of the simulator, for the same arrivals.
  double predicted_p50_ms = kNotPredicted, predicted_p99_ms = kNotPredicted;
  double predicted_slo_attainment = kNotPredicted;
  std::optional<LoadTokens> tokens = {};
  std::optional<PredictedTokens> predicted = {};
  bool operator==(const LoadServiceReport&) const = default;
};

// How well the generator kept time: what its own lateness adds to every latency.
struct LoadGenerator {
  double late_p50_ms = 0, late_p99_ms = 0;
  bool late = false;         // enough to doubt the latencies
  int connections = 0;       // most that were open
  int most_connections = 0;  // that were allowed
  long waited = 0;           // requests that found none of them free
  bool operator==(const LoadGenerator&) const = default;
};

// The Server scenario as MLPerf's LoadGen has it: Poisson arrivals of one model at a rate.
struct ServerScenario {
  double target_qps = 0, latency_bound_ms = 0;
  long min_requests = 0;
  double min_duration_s = 0;
  double completed_qps = 0;
  // Of the offered ones; null: more than 1 % never completed.
  double p99_ms = std::numeric_limits<double>::infinity();
  bool valid = false;
  std::vector<std::string> reasons;  // why it is not
  bool operator==(const ServerScenario&) const = default;
};

struct LoadReport {
  std::string url;
  std::uint64_t seed = 0;
  double duration_s = 0;  // in which requests were due
  bool stopped = false;   // broken off: there would have been more
  std::vector<LoadServiceReport> services;
  LoadGenerator generator;
  std::optional<ServerScenario> server;
  bool operator==(const LoadReport&) const = default;
};

// parse_load_report(load_report_json(r)) == r. Refused with FILE:LINE.
std::string load_report_json(const LoadReport& report);
Result<LoadReport> parse_load_report(const std::string& file, std::string_view text);
DocumentKind load_report_kind();

// For people: a table, what was predicted beside what was measured, and doubts.
std::string load_report_text(const LoadReport& report);
// Services of which requests were due, and all failed, with why: what was measured says nothing.
std::string silence(const LoadReport& report);
// Why the services do not keep their SLO for such a share of their requests; none: they do. Above
// 0, what was not asked, or was broken off, does not.
std::vector<std::string> unkept(const LoadReport& report, double require);
// Sentences on what makes the latencies doubtful; none when nothing does.
std::vector<std::string> load_doubts(const LoadReport& report);

}  // namespace partita::serve
