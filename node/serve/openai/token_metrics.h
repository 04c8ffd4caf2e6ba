// What became of the requests of language models: counts, histograms, tokens by key, as Prometheus
// text under vLLM's names where vLLM has them, so that boards made for it work. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/terms.h"
#include "serve/openai/event_stream.h"

namespace partita::serve {

// Counts by upper bounds in seconds, as vLLM draws them.
class SecondsHistogram {
 public:
  explicit SecondsHistogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}
  void add(std::int64_t ns, long times = 1);
  std::span<const double> bounds() const { return bounds_; }
  const std::vector<long>& counts() const { return counts_; }  // by bound, the last above all
  double sum() const { return sum_; }
  long count() const;

 private:
  std::span<const double> bounds_;
  std::vector<long> counts_;
  double sum_ = 0;
};

inline constexpr double kTtftBounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08,
                                         0.1,   0.25,  0.5,  0.75, 1,    2.5,  5,
                                         7.5,   10,    20,   40,   80,   160,  640};
inline constexpr double kTokenBounds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4,
                                          0.5,  0.75,  1,    2.5,   5,   7.5,  10,  20,  40};
inline constexpr double kAnswerBounds[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                           30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};

// Each request ends in one of them.
struct TokenFates {
  long answered = 0;   // whole
  long in_slo = 0;     // of those, with all that is promised kept
  long cut = 0;        // its engine was lost in the middle of the answer
  long failed = 0;     // no engine gave an answer, or one that says that the service is at fault
  long late = 0;       // refused: it would miss its TTFT
  long limited = 0;    // refused: its key is over its limit
  long over_share = 0;  // refused: its key has had its share of what is too little
  long full = 0;       // refused: too many wait, here or at the engines
  long unready = 0;    // refused: no engine is ready
  long rejected = 0;   // its client is at fault: the engine says so, or none could be in time
  long expired = 0;    // waited too long
  long withdrawn = 0;  // its client left
};

struct KeyFates {
  long answered = 0;
  long refused = 0;         // for its limits, or the shares of others
  std::uint64_t bytes = 0;  // of bodies that were let in
};

struct TokenCounters {
  long arrived = 0;
  TokenFates fates = {};
  long retries = 0;  // sent again to another engine
  SecondsHistogram ttft{kTtftBounds}, tpot{kTokenBounds}, itl{kTokenBounds}, e2e{kAnswerBounds};
  TokenUsage used = {};
  std::map<std::string, TokenUsage> by_key = {};  // bounded by the keys that there are
  std::map<std::string, KeyFates> keys = {};
};

struct EngineSnapshot {
  std::string name;  // its address
  std::string state;
  int open = 0;
  std::int64_t tokens_held = 0;
  std::optional<double> kv_cache_usage = {};  // as it says itself
};
struct TokenSnapshot {
  const plan::Terms* terms = nullptr;
  const TokenCounters* counters = nullptr;
  int running = 0, waiting = 0;
  std::vector<EngineSnapshot> engines = {};
};

// "" without services.
std::string token_metrics_text(const std::vector<TokenSnapshot>& services);

}  // namespace partita::serve
