// The law of an engine that serves a language model: TTFT and TPOT for any tokens in and out and
// any number of requests in flight, learned from points of one configuration.
//
//   r    = min(n, kv / (in + h out))                       what runs; the others wait for KV blocks
//   TPOT = (a + b r + c r (in + out/2) + d r in/out + e sqrt r) x deviation
//   TTFT = (a + b in + c in r + d r + e r in/out) x deviation + out TPOT (n/r - 1)
//
// Terms of TPOT: weights read once a step; work per sequence; KV cache read; prefill of the r/out
// requests that begin per step; the mild concavity of batching. Coefficients are not negative:
// least squares of relative errors, outliers weighed down. Deviations: deviation.h. `kv`, the
// tokens of cache that fit, is told by points whose requests wait (Little's law), where any do.
// docs/llm.md has how the form was chosen and how good it is. Limit: kMostPoints points.
//
// Kin, other configurations (of other models the least), tell of what was not measured in this one:
// how TTFT goes elsewhere (they share in the fit of its closed form, each with a scale of its own,
// and in its deviations), and how many tokens of cache fit where no requests waited.
#pragma once

#include <array>
#include <limits>
#include <string>

#include "llm/deviation.h"
#include "llm/measured_range.h"
#include "llm/points.h"

namespace partita::llm {

inline constexpr std::size_t kMostPoints = 300;  // learning is cubic in them
inline constexpr std::size_t kLeastPoints = 5;

// Tokens of KV cache; requests hold `in` and this share of `out`.
struct CacheLimit {
  double tokens = std::numeric_limits<double>::infinity();
  double output_share = 0.5;
};

struct TokenLaw {
  std::array<double, 5> tpot_ms{}, ttft_ms{};
  Deviation tpot_deviation, ttft_deviation;
  CacheLimit cache;
  MeasuredRange measured;
};

struct Expected {
  Millis ttft, tpot;
  double running = 0;                                       // of those in flight; the others wait
  bool shape_outside = false, concurrency_outside = false;  // of what was measured
};

// Of at least kLeastPoints and at most kMostPoints points.
Result<TokenLaw> learn(const std::vector<Point>& points);

// Another configuration, with the law that was learned from its points alone.
struct Kin {
  Measured measured;
  TokenLaw law;
};
// Those of which a law can be learned.
std::vector<Kin> kin_of(const std::vector<Measured>& all);
// The same with what kin tell: kMostKin at most, the most alike. Those that are the same points
// under another name, and `measured` itself, tell nothing.
inline constexpr std::size_t kMostKin = 12;
Result<TokenLaw> learn(const Measured& measured, const std::vector<Kin>& kin);
// concurrency >= 1, both token counts >= 1.
Expected expect(const TokenLaw& law, const Shape& shape, double concurrency);

}  // namespace partita::llm
