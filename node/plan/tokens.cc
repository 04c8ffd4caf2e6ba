#include "plan/tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/check.h"

namespace partita::plan {
namespace {

double normal(Rng& rng) {
  const double radius = std::sqrt(2 * rng.exponential());
  return radius * std::cos(2 * std::numbers::pi * rng.uniform());
}

int whole_tokens(double tokens) {
  return static_cast<int>(std::lround(std::clamp(tokens, 1.0, double{kMostTokens})));
}

}  // namespace

bool TokenTrace::operator==(const TokenTrace& other) const {
  const bool same = requests && other.requests ? *requests == *other.requests : file == other.file;
  return same && in_times == other.in_times && out_times == other.out_times;
}

Length TokenTrace::length_of(const TracedRequest& one) const {
  if (in_times == 1 && out_times == 1) return {one.in, one.out};
  return {whole_tokens(one.in * in_times), whole_tokens(one.out * out_times)};
}

int drawn(const Tokens& tokens, Rng& rng) {
  if (const int* fixed = std::get_if<int>(&tokens)) return *fixed;
  if (const auto* list = std::get_if<ListedTokens>(&tokens))
    return (*list)[static_cast<std::size_t>(rng.below(list->size()))];
  const auto& law = std::get<LognormalTokens>(tokens);
  const double variance = std::log1p(law.cv * law.cv);
  return whole_tokens(law.mean * std::exp(std::sqrt(variance) * normal(rng) - variance / 2));
}

Length drawn(const TokenTerms& terms, Rng& rng) {
  if (const auto* pair = std::get_if<TokenPair>(&terms.lengths)) {
    const int in = drawn(pair->in, rng);
    return {in, drawn(pair->out, rng)};
  }
  const auto& trace = std::get<TokenTrace>(terms.lengths);
  CHECK(trace.requests && !trace.requests->empty());
  const auto place = static_cast<std::size_t>(rng.below(trace.requests->size()));
  return trace.length_of((*trace.requests)[place]);
}

double mean_of(const Tokens& tokens) {
  if (const int* fixed = std::get_if<int>(&tokens)) return *fixed;
  if (const auto* law = std::get_if<LognormalTokens>(&tokens)) return law->mean;
  const auto& list = std::get<ListedTokens>(tokens);
  return std::accumulate(list.begin(), list.end(), 0.0) / static_cast<double>(list.size());
}

namespace {

double mean_square(const Tokens& tokens) {
  if (const auto* law = std::get_if<LognormalTokens>(&tokens))
    return law->mean * law->mean * (1 + law->cv * law->cv);
  const auto* list = std::get_if<ListedTokens>(&tokens);
  if (!list) return mean_of(tokens) * mean_of(tokens);
  double sum = 0;
  for (const double one : *list) sum += one * one;
  return sum / static_cast<double>(list->size());
}

}  // namespace

MeanLength mean_of(const TokenTerms& terms) {
  if (const auto* pair = std::get_if<TokenPair>(&terms.lengths)) {
    const double in = mean_of(pair->in), out = mean_of(pair->out);
    return {in, out, in + mean_square(pair->out) / (2 * out)};
  }
  const auto& trace = std::get<TokenTrace>(terms.lengths);
  CHECK(trace.requests && !trace.requests->empty());
  double in = 0, out = 0, read = 0;
  for (const TracedRequest& recorded : *trace.requests) {
    const Length one = trace.length_of(recorded);
    in += one.in;
    out += one.out;
    read += one.out * (one.in + one.out / 2.0);
  }
  const auto count = static_cast<double>(trace.requests->size());
  return {in / count, out / count, read / out};
}

std::string to_string(const Tokens& tokens) {
  if (const int* fixed = std::get_if<int>(&tokens)) return fmt::format("{}", *fixed);
  if (const auto* law = std::get_if<LognormalTokens>(&tokens))
    return fmt::format("mean {:g}, cv {:g}", law->mean, law->cv);
  return fmt::format("one of {}", std::get<ListedTokens>(tokens).size());
}

std::string to_string(const TokenTerms& terms) {
  std::string text;
  if (terms.ttft.value > 0) text += fmt::format("ttft {:g} ms, ", terms.ttft.value);
  if (terms.tpot.value > 0) text += fmt::format("tpot {:g} ms, ", terms.tpot.value);
  if (const auto* pair = std::get_if<TokenPair>(&terms.lengths))
    text += fmt::format("in {}, out {}", to_string(pair->in), to_string(pair->out));
  else if (const auto& trace = std::get<TokenTrace>(terms.lengths);
           trace.in_times == 1 && trace.out_times == 1)
    text += "trace " + trace.file;
  else
    text += fmt::format("trace {}, in times {:g}, out times {:g}", trace.file, trace.in_times,
                        trace.out_times);
  if (terms.prefix_share > 0)
    text += fmt::format(", prefix {} of {:g}", terms.prefix_tokens, terms.prefix_share);
  return text;
}

}  // namespace partita::plan
