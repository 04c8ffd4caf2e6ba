#include "plan/streams.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace partita::plan {
namespace {

constexpr double kPart = 0.99;
constexpr double kNormal = 2.3263478740408408;  // which so much of a normal law is below

double of_list(std::vector<int> all) {
  const auto rank = static_cast<std::ptrdiff_t>(std::ceil(kPart * static_cast<double>(all.size())));
  std::ranges::nth_element(all, all.begin() + rank - 1);
  return all[static_cast<std::size_t>(rank - 1)];
}

double long_one(const Tokens& tokens) {
  if (const int* fixed = std::get_if<int>(&tokens)) return *fixed;
  if (const auto* list = std::get_if<ListedTokens>(&tokens)) return of_list(*list);
  const auto& law = std::get<LognormalTokens>(tokens);
  const double variance = std::log1p(law.cv * law.cv);
  return law.mean * std::exp(std::sqrt(variance) * kNormal - variance / 2);
}

// Tokens of a long answer; 0: nobody knows.
double long_answer(const TokenTerms& terms) {
  if (const auto* pair = std::get_if<TokenPair>(&terms.lengths)) return long_one(pair->out);
  const auto& trace = std::get<TokenTrace>(terms.lengths);
  if (!trace.requests || trace.requests->empty()) return 0;
  std::vector<int> all;
  for (const TracedRequest& one : *trace.requests) all.push_back(trace.length_of(one).out);
  return of_list(std::move(all));
}

}  // namespace

Seconds drain_of(const Terms& terms) {
  Millis takes = terms.slo;
  if (terms.tokens && terms.tokens->tpot.value > 0)
    if (const double tokens = long_answer(*terms.tokens); tokens > 0)
      takes = std::max(takes, terms.tokens->ttft + tokens * terms.tokens->tpot);
  if (takes.value <= 0) return kUsualDrain;
  return Seconds{std::clamp(takes.value / 1e3, kLeastDrain.value, kMostDrain.value)};
}

}  // namespace partita::plan
