#include "llm/engine/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "base/rng.h"
#include "profile/csv.h"

namespace partita::llm {
namespace {

constexpr double kMsPerSecond = 1000;
constexpr profile::NumberRange kTime{0, 1e10}, kTokenRange{1, kMostTokens};

double normal(Rng& rng) {
  const double radius = std::sqrt(2 * rng.exponential());
  return radius * std::cos(2 * std::numbers::pi * rng.uniform());
}

int whole_tokens(double tokens) {
  return static_cast<int>(std::lround(std::clamp(tokens, 1.0, double{kMostTokens})));
}

int drawn(const Tokens& tokens, Rng& rng) {
  if (const int* fixed = std::get_if<int>(&tokens)) return *fixed;
  if (const auto* list = std::get_if<ListedTokens>(&tokens))
    return (*list)[static_cast<std::size_t>(rng.below(list->size()))];
  const auto& law = std::get<LognormalTokens>(tokens);
  const double variance = std::log1p(law.cv * law.cv);
  return whole_tokens(law.mean * std::exp(std::sqrt(variance) * normal(rng) - variance / 2));
}

Result<void> check_tokens(const char* name, const Tokens& tokens) {
  const auto fits = [](int one) { return one >= 1 && one <= kMostTokens; };
  if (const int* fixed = std::get_if<int>(&tokens); fixed && !fits(*fixed))
    return bad_input("", fmt::format("{} is {}, must be 1 to {}", name, *fixed, kMostTokens));
  if (const auto* list = std::get_if<ListedTokens>(&tokens);
      list && (list->empty() || !std::ranges::all_of(*list, fits)))
    return bad_input("", fmt::format("{}: a list of 1 to {} tokens", name, kMostTokens));
  const auto* law = std::get_if<LognormalTokens>(&tokens);
  if (law && !(law->mean >= 1 && law->mean <= kMostTokens && law->cv >= 0 && law->cv <= kMostCv))
    return bad_input("", fmt::format("{}: mean 1 to {}, cv 0 to {}", name, kMostTokens, kMostCv));
  return {};
}

}  // namespace

Result<std::vector<Request>> requests_of(const Workload& workload, Rps rate, int count,
                                         std::uint64_t seed) {
  if (const Result<void> in = check_tokens("tokens in", workload.in); !in)
    return failed(in.error());
  if (const Result<void> out = check_tokens("tokens out", workload.out); !out)
    return failed(out.error());
  if (count < 0 || static_cast<std::size_t>(count) > kMostRequests)
    return bad_input("", fmt::format("{} requests, must be 0 to {}", count, kMostRequests));
  if (!(rate.value >= 0) || !std::isfinite(rate.value)) return bad_input("", "the rate is below 0");
  if (!(workload.prefix_share >= 0 && workload.prefix_share <= 1) || workload.prefix_tokens < 0 ||
      workload.prefix_tokens >= kMostTokens)
    return bad_input("", "a prefix: a share of 0 to 1, and tokens from 0");
  const Rng root(seed);
  Rng in = root.split(0), out = root.split(1), gaps = root.split(2), prefixes = root.split(3);
  std::vector<Request> requests(static_cast<std::size_t>(count));
  Millis now{0};
  for (Request& request : requests) {
    if (rate.value > 0) now += Millis{gaps.exponential() * kMsPerSecond / rate.value};
    request = {.arrival = now, .in = drawn(workload.in, in), .out = drawn(workload.out, out)};
    if (prefixes.uniform() >= workload.prefix_share || workload.prefix_tokens == 0) continue;
    request.prefix = 0;
    request.prefix_tokens = workload.prefix_tokens;
    request.in = std::max(request.in, workload.prefix_tokens + 1);
  }
  return requests;
}

Result<std::vector<TracedRequest>> parse_token_trace(const std::string& file,
                                                     std::string_view text) {
  const Result<profile::Csv> csv = profile::parse_csv(file, text);
  if (!csv) return failed(csv.error());
  const Result<void> columns =
      profile::require_columns(*csv, {"at_s", "prompt_tokens", "output_tokens"});
  if (!columns) return failed(columns.error());
  if (csv->rows.size() > kMostRequests)
    return bad_input(file, fmt::format("more than {} requests", kMostRequests));
  std::vector<TracedRequest> trace;
  double first = 0, last = 0;
  for (const profile::CsvRow& row : csv->rows) {
    const auto at = profile::csv_number(*csv, row, csv->column("at_s"), kTime);
    if (!at) return failed(at.error());
    const auto in = profile::csv_integer(*csv, row, csv->column("prompt_tokens"), kTokenRange);
    if (!in) return failed(in.error());
    const auto out = profile::csv_integer(*csv, row, csv->column("output_tokens"), kTokenRange);
    if (!out) return failed(out.error());
    if (trace.empty()) first = last = *at;
    if (*at < last) return bad_input(csv->at(row), "at_s is before that of the row above");
    last = *at;
    trace.push_back({Seconds{*at - first}, *in, *out});
  }
  return trace;
}

std::string token_trace_csv(const std::vector<TracedRequest>& trace) {
  std::string text = "at_s,prompt_tokens,output_tokens\n";
  for (const TracedRequest& one : trace)
    text += fmt::format("{},{},{}\n", one.at.value, one.in, one.out);
  return text;
}

std::vector<Request> requests_of(const std::vector<TracedRequest>& trace, double speed) {
  CHECK(speed > 0);
  std::vector<Request> requests;
  requests.reserve(trace.size());
  for (const TracedRequest& one : trace)
    requests.push_back(
        {.arrival = Millis{one.at.value * kMsPerSecond / speed}, .in = one.in, .out = one.out});
  return requests;
}

}  // namespace partita::llm
