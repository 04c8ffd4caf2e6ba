// Tokens: what a service asks for that answers token by token (a language model), besides its rate:
// how many tokens its requests have, and how long the first token (TTFT) and every further one
// (TPOT) may take. A part of Terms; how long a whole answer may take is Terms::slo. Values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "base/units.h"

namespace partita::plan {

inline constexpr int kMostTokens = 100'000'000;  // of one request, either way
inline constexpr double kMostTokenCv = 10;
inline constexpr double kMostTokenTimes = 1000;  // of a trace's lengths

struct LognormalTokens {
  double mean = 1, cv = 0;  // coefficient of variation, 0: fixed
  bool operator==(const LognormalTokens&) const = default;
};
// One of them, each as likely as the others.
using ListedTokens = std::vector<int>;
using Tokens = std::variant<int, LognormalTokens, ListedTokens>;

struct TracedRequest {
  Seconds at = {};
  int in = 1, out = 1;
  bool operator==(const TracedRequest&) const = default;
};
struct Length {
  int in = 1, out = 1;
};
// Lengths of recorded requests, in and out of one request together, each times a factor. Equal when
// what was recorded is, or, where one is not loaded, when the file is, and the factors are.
struct TokenTrace {
  std::string file;                                                 // as the services file names it
  std::shared_ptr<const std::vector<TracedRequest>> requests = {};  // null: not loaded yet
  int line = 0;                                                     // that names the file
  double in_times = 1, out_times = 1;
  bool operator==(const TokenTrace& other) const;
  Length length_of(const TracedRequest& one) const;
};
struct TokenPair {
  Tokens in = 1, out = 1;
  bool operator==(const TokenPair&) const = default;
};

struct TokenTerms {
  Millis ttft = {}, tpot = {};  // of the percentile's requests; 0: not promised
  std::variant<TokenPair, TokenTrace> lengths = {};
  double prefix_share = 0;  // of requests, which begin with the same tokens
  int prefix_tokens = 0;    // how many; a shorter prompt is made one longer than them
  bool operator==(const TokenTerms&) const = default;
};

// Of one request, without its prefix; a trace must be loaded.
Length drawn(const TokenTerms& terms, Rng& rng);
int drawn(const Tokens& tokens, Rng& rng);
double mean_of(const Tokens& tokens);
struct MeanLength {
  double in = 1, out = 1;
  double context = 1;  // tokens in front of a token of an answer, over all such tokens
};
MeanLength mean_of(const TokenTerms& terms);
// "512", "mean 800, cv 1.5", "one of 3": for people.
std::string to_string(const Tokens& tokens);
std::string to_string(const TokenTerms& terms);

}  // namespace partita::plan
