// An engine that runs, asked from outside: what it is called, how its tokens and our words go
// together, and what comes of loops of requests at it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "context.h"
#include "llm/engine/engines.h"
#include "serve/load/kv_probe.h"
#include "serve/load/load_run.h"
#include "serve/openai/engine_metrics.h"
#include "stop_request.h"

namespace partita::cli {

struct LoopPoint {
  llm::Shape shape;
  int in_flight = 1;    // of a closed loop
  double rate_rps = 0;  // of an open one; 0: it is closed
};

// What a loop came to, in milliseconds. Of a few requests nobody can say p90 or p99.
struct LoopSeen {
  llm::LoopTimes mean, median, p99;
  llm::Percentiles ttft_at = {}, tpot_at = {}, itl_at = {};
  Millis itl = {};
  double tokens_per_s = 0, in_flight = 0;  // on average
};
// The same of a simulated loop, but for gaps and rates.
LoopSeen seen_of(const std::vector<llm::LoopTimes>& times);

class RunningEngine {
 public:
  RunningEngine(Context& context, serve::LoadOptions options);

  // Once asked to, for good: what was under way then is no measurement.
  bool stopped() { return stopped_ = stopped_ || stop_.within(0); }
  const std::string& name() const { return name_; }
  std::string where() const { return authority_of(options_.url); }

  // Asks for its name, unless it is said, and how its tokens and our words go together.
  Result<void> meet(const std::string& said);
  Result<LoopSeen> play(const LoopPoint& point);
  // So many requests at once; when their tokens came. Prompts are all different.
  Result<std::vector<serve::TokenTimes>> play_together(int requests, int tokens);
  // What it says at /metrics; nothing of what it does not.
  serve::EngineMetrics metrics();
  Millis step() const { return step_; }  // about, with one sequence

 private:
  struct Played {
    serve::LoadTally tally;
    double seconds = 0;
  };
  int words_for(int tokens) const;
  Result<void> ask_name();
  std::string fault_of(const plan::Length& length);
  Result<void> check_lengths(const serve::LoadTally& tally, double asked) const;
  // Every request is answered, or it is refused.
  Result<Played> run(serve::LoadService service, int connections);
  Result<Played> run_loop(std::vector<plan::Length> lengths, int in_flight);

  Context& context_;
  serve::LoadOptions options_;
  StopRequest stop_;
  bool stopped_ = false;
  std::string name_;
  double per_word_ = 1, extra_ = 0;  // tokens
  Millis step_ = {};
};

}  // namespace partita::cli
