#include "llm/engine/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "base/check.h"
#include "base/index.h"
#include "base/rng.h"
#include "profile/csv.h"

namespace partita::llm {
namespace {

constexpr double kMsPerSecond = 1000;
constexpr profile::NumberRange kTime{0, 1e10}, kTokenRange{1, kMostTokens};

Result<void> check_tokens(const char* name, const Tokens& tokens) {
  const auto fits = [](int one) { return one >= 1 && one <= kMostTokens; };
  if (const int* fixed = std::get_if<int>(&tokens); fixed && !fits(*fixed))
    return bad_input("", fmt::format("{} is {}, must be 1 to {}", name, *fixed, kMostTokens));
  if (const auto* list = std::get_if<ListedTokens>(&tokens);
      list && (list->empty() || !std::ranges::all_of(*list, fits)))
    return bad_input("", fmt::format("{}: a list of 1 to {} tokens", name, kMostTokens));
  const auto* law = std::get_if<LognormalTokens>(&tokens);
  if (law && !(law->mean >= 1 && law->mean <= kMostTokens && law->cv >= 0 &&
               law->cv <= plan::kMostTokenCv))
    return bad_input(
        "", fmt::format("{}: mean 1 to {}, cv 0 to {}", name, kMostTokens, plan::kMostTokenCv));
  return {};
}

// "2023-11-16 18:15:46.6805900" as seconds since 1970.
Result<double> date_seconds(const profile::Csv& csv, const profile::CsvRow& row, int column) {
  const std::string& text = row.cells[at(column)];
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, end = 0;
  double second = 0;
  const int read = std::sscanf(text.c_str(), "%4d-%2d-%2d%*1[ T]%2d:%2d:%lf%n", &year, &month, &day,
                               &hour, &minute, &second, &end);
  const std::chrono::year_month_day date{std::chrono::year{year},
                                         std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  const bool fits = read == 6 && date.ok() && hour >= 0 && hour < 24 && minute >= 0 &&
                    minute < 60 && second >= 0 && second < 61;
  if (!fits)
    return bad_input(csv.at(row),
                     fmt::format("TIMESTAMP is '{}', must be a date and a time such as "
                                 "2023-11-16 18:15:46.68",
                                 text.substr(0, 64)));
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return 86400.0 * static_cast<double>(days) + 3600 * hour + 60 * minute + second;
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
    request = {
        .arrival = now, .in = plan::drawn(workload.in, in), .out = plan::drawn(workload.out, out)};
    if (prefixes.uniform() >= workload.prefix_share || workload.prefix_tokens == 0) continue;
    request.prefix = 0;
    request.prefix_tokens = workload.prefix_tokens;
    request.in = std::max(request.in, workload.prefix_tokens + 1);
  }
  return requests;
}

Request request_of(const plan::TokenTerms& terms, Rng& rng) {
  const plan::Length length = plan::drawn(terms, rng);
  Request request{.arrival = {}, .in = length.in, .out = length.out};
  if (terms.prefix_tokens > 0 && rng.uniform() < terms.prefix_share) {
    request.prefix = 0;
    request.prefix_tokens = terms.prefix_tokens;
    request.in = std::max(request.in, terms.prefix_tokens + 1);
  }
  return request;
}

std::vector<Request> requests_of(const plan::TokenTerms& terms, plan::ArrivalSource arrivals,
                                 double share, int count, Rng rng) {
  constexpr double kNanosPerMs = 1e6;
  constexpr std::size_t kMostReserved = 100'000;  // a source may end long before
  std::vector<Request> requests;
  requests.reserve(std::min(at(count), kMostReserved));
  while (requests.size() < at(count)) {
    const plan::Nanos time = arrivals.next();
    if (time == plan::kForever) break;
    if (share < 1 && rng.uniform() >= share) continue;
    requests.push_back(request_of(terms, rng));
    requests.back().arrival = Millis{static_cast<double>(time) / kNanosPerMs};
  }
  return requests;
}

Result<std::vector<TracedRequest>> parse_token_trace(const std::string& file,
                                                     std::string_view text) {
  const Result<profile::Csv> csv = profile::parse_csv(file, text);
  if (!csv) return failed(csv.error());
  const bool azure = csv->column("TIMESTAMP") >= 0;
  const std::vector<std::string_view> names =
      azure ? std::vector<std::string_view>{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}
            : std::vector<std::string_view>{"at_s", "prompt_tokens", "output_tokens"};
  if (const auto columns = profile::require_columns(*csv, names); !columns)
    return failed(columns.error());
  if (csv->rows.size() > kMostRequests)
    return bad_input(file, fmt::format("more than {} requests", kMostRequests));
  std::vector<TracedRequest> trace;
  double first = 0, last = 0;
  for (const profile::CsvRow& row : csv->rows) {
    const int column = csv->column(names[0]);
    const auto at =
        azure ? date_seconds(*csv, row, column) : profile::csv_number(*csv, row, column, kTime);
    if (!at) return failed(at.error());
    const auto in = profile::csv_integer(*csv, row, csv->column(names[1]), kTokenRange);
    if (!in) return failed(in.error());
    const auto out = profile::csv_integer(*csv, row, csv->column(names[2]), kTokenRange);
    if (!out) return failed(out.error());
    if (trace.empty()) first = last = *at;
    if (*at < last)
      return bad_input(csv->at(row), fmt::format("{} is before that of the row above", names[0]));
    last = *at;
    trace.push_back({Seconds{*at - first}, *in, *out});
  }
  return trace;
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
