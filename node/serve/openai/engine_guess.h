// EngineGuess: what a replica has to do, in tokens, and when a prompt would have its first token if
// it went there now. Costs of a step are the profile's where it knows the engine; what was measured
// of late corrects them. It knows only the requests that went through this gateway. Times are
// nanoseconds. Pure; single-threaded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "plan/token_room.h"
#include "profile/token_engine.h"
#include "serve/openai/measured_ratio.h"

namespace partita::serve {

// Of an engine that nobody measured: some GPU with some model; what is measured corrects it.
inline constexpr profile::StepCost kUnknownCost{.step = 15, .sequence = 0.1, .prompt_token = 0.1};
inline constexpr int kUnknownSequences = 256;
inline constexpr int kUsualPrompt = 1000;  // tokens, by which engines are compared

// Measured over expected, of engines of one kind: one that was lucky once would else get all.
struct EngineFactors {
  MeasuredRatio ttft = {}, step = {};
};

struct GuessedRequest {
  int prompt = 1, cached = 0;  // tokens
  std::uint64_t client = 0;    // a number of whoever sends it
  std::int64_t begun = 0;
  std::int64_t expected = 0;  // its TTFT
  double uncorrected = 0;     // the same, as if nothing had been measured of TTFTs
  double prefill_ms = 0;
  int produced = 0;
  bool decodes = false;
};

class EngineGuess {
 public:
  // `known`: what it may be, which outlive it: the quickest of them is believed, until something
  // was measured. `sequences`: at once, 0: as many as any of them may have.
  EngineGuess(std::vector<const profile::TokenEngine*> known, int sequences,
              std::shared_ptr<EngineFactors> factors);

  int limit() const { return room_.limit(); }
  int open() const { return static_cast<int>(prefilling_.size()) + decoding_; }
  int prefilling() const { return static_cast<int>(prefilling_.size()); }
  std::int64_t tokens_held() const { return context_; }
  // From now to the first token, with what is there before it.
  std::int64_t ttft(int prompt, int cached, std::int64_t now) const;
  // The same at the soonest: with nothing before it, by costs that were measured beforehand, of
  // those that it may be the quickest's, and as if nothing had been slow since. Nothing: nobody
  // measured such an engine.
  std::optional<std::int64_t> soonest_ttft(int prompt, int cached, std::int64_t now) const;
  // Per token of those that decode.
  std::int64_t tpot(std::int64_t now) const;
  // From one end of a request to the next while it is full, of answers of so many tokens.
  std::int64_t gap(double mean_out, std::int64_t now) const;
  // Of the engine's time, that one with an answer of `out` tokens takes from others.
  std::int64_t work(int prompt, int cached, double out, std::int64_t now) const;

  // A request has gone there; it is told of until end(), and lives as long.
  void begin(GuessedRequest& request, std::int64_t now);
  // Again of one that was assumed to have come: it has.
  void first_token(GuessedRequest& request, std::int64_t now, bool measured);
  void tokens(GuessedRequest& request, int count);
  // `tpot`: as it was measured over the answer; 0: not.
  void end(GuessedRequest& request, std::int64_t tpot, std::int64_t now);
  // One that has ended is answered: whether it was late by its TPOT, as so many may be.
  void answered(bool late, double may_be_late) { room_.ended(late, may_be_late, open() + 1); }

 private:
  double decode_ms(std::int64_t now) const { return factors_->step.at(now) * decode_ms(); }
  double decode_ms() const;  // uncorrected
  // Milliseconds, uncorrected by TTFTs.
  double uncorrected_ttft(int prompt, int cached, std::int64_t now) const;

  std::vector<const profile::TokenEngine*> may_be_;
  profile::TokenEngine engine_;
  plan::TokenRoom room_{kUnknownSequences};
  std::shared_ptr<EngineFactors> factors_;
  std::vector<GuessedRequest*> prefilling_ = {};  // in order
  std::int64_t head_since_ = 0;                   // the first of them is computed
  int decoding_ = 0;
  std::int64_t context_ = 0;  // tokens that those that decode read
};

}  // namespace partita::serve
