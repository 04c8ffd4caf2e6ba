#include "serve/openai/engine_guess.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace partita::serve {
namespace {

constexpr double kNsPerMs = 1e6;
constexpr double kLearning = 0.1;  // of the logarithm of a ratio

// The factor, a step nearer to what was just measured.
double corrected(double factor, double measured, double expected) {
  if (!(measured > 0) || !(expected > 0)) return factor;
  const double learned = factor * std::pow(measured / expected, kLearning);
  return std::clamp(learned, 1 / kMostCorrection, kMostCorrection);
}

}  // namespace

EngineGuess::EngineGuess(const profile::TokenEngine* known, int sequences,
                         std::shared_ptr<EngineFactors> factors)
    : factors_(std::move(factors)) {
  engine_.spec.cost = kUnknownCost;
  engine_.spec.sequences = kUnknownSequences;
  if (known) engine_ = *known;
  if (sequences > 0) engine_.spec.sequences = sequences;
}

double EngineGuess::decode_ms() const {
  const profile::StepCost& cost = engine_.spec.cost;
  const double n = decoding_;
  return factors_->step * (cost.step + cost.sequence * n + cost.root_sequences * std::sqrt(n) +
                           cost.cached_token * static_cast<double>(context_));
}

double EngineGuess::prefill_ms(int prompt, int cached) const {
  const double computed = std::max(prompt - cached, 1);
  return engine_.spec.cost.prompt_token * computed +
         engine_.spec.cost.prompt_context * computed * (cached + computed / 2);
}

std::int64_t EngineGuess::ttft(int prompt, int cached, std::int64_t now) const {
  double work = prefill_ms(prompt, cached);
  double computed = std::max(prompt - cached, 1);
  for (const GuessedRequest* before : prefilling_) {
    work += before->prefill_ms;
    computed += std::max(before->prompt - before->cached, 1);
  }
  const double room = std::max(engine_.spec.step_tokens - decoding_, 1);
  const double step = decode_ms(), steps = std::ceil(computed / room);
  const double all = work + steps * step;
  // What of it is done already; the prompt itself is not.
  const double before = all - prefill_ms(prompt, cached) - step;
  const double since = static_cast<double>(now - head_since_) / kNsPerMs / factors_->ttft;
  const double done = prefilling_.empty() ? 0 : std::clamp(since, 0.0, std::max(before, 0.0));
  const double begun = open() > 0 ? step / 2 : 0;  // of the step that runs
  const double outside = engine_.request_ms + engine_.request_token_ms * prompt;
  return static_cast<std::int64_t>(factors_->ttft * (outside + begun + all - done) * kNsPerMs);
}

std::int64_t EngineGuess::tpot() const { return static_cast<std::int64_t>(decode_ms() * kNsPerMs); }

std::int64_t EngineGuess::gap(double mean_out) const {
  return static_cast<std::int64_t>(mean_out * decode_ms() * kNsPerMs /
                                   std::max(engine_.spec.sequences, 1));
}

void EngineGuess::begin(GuessedRequest& request, std::int64_t now) {
  request.begun = now;
  request.expected = ttft(request.prompt, request.cached, now);
  request.prefill_ms = prefill_ms(request.prompt, request.cached);
  request.produced = 0;
  request.decodes = false;
  if (prefilling_.empty()) head_since_ = now;
  prefilling_.push_back(&request);
}

void EngineGuess::first_token(GuessedRequest& request, std::int64_t now, bool measured) {
  if (!request.decodes) {  // else it was assumed, before the engine said what it answers with
    std::erase(prefilling_, &request);
    head_since_ = now;
    request.decodes = true;
    ++decoding_;
    context_ += request.prompt;
  }
  if (!measured) return;
  factors_->ttft = corrected(factors_->ttft, static_cast<double>(now - request.begun),
                             static_cast<double>(request.expected));
}

void EngineGuess::tokens(GuessedRequest& request, int count) {
  request.produced += count;
  context_ += count;
}

void EngineGuess::end(GuessedRequest& request, std::int64_t tpot, std::int64_t now) {
  if (!request.decodes) {
    if (!prefilling_.empty() && prefilling_.front() == &request) head_since_ = now;
    std::erase(prefilling_, &request);
    return;
  }
  factors_->step = corrected(factors_->step, static_cast<double>(tpot), decode_ms() * kNsPerMs);
  request.decodes = false;
  --decoding_;
  context_ -= request.prompt + request.produced;
}

}  // namespace partita::serve
