#include "serve/openai/engine_guess.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace partita::serve {
namespace {

constexpr double kNsPerMs = 1e6;

double prefill_ms(const profile::TokenEngine& engine, int prompt, int cached) {
  const profile::StepCost& cost = engine.prompts_by().cost;
  const double computed = std::max(prompt - cached, 1);
  return cost.prompt_token * computed + cost.prompt_context * computed * (cached + computed / 2);
}

double outside_ms(const profile::TokenEngine& engine, int prompt) {
  return engine.request_ms + engine.request_token_ms * prompt;
}

// With nothing else there, steps taking `slower` times as long.
double alone_ms(const profile::TokenEngine& engine, int prompt, int cached, double slower) {
  const profile::EngineSpec& spec = engine.prompts_by();
  const double steps =
      std::ceil(static_cast<double>(std::max(prompt - cached, 1)) / std::max(spec.step_tokens, 1));
  return outside_ms(engine, prompt) + prefill_ms(engine, prompt, cached) +
         steps * slower * spec.cost.step;
}

}  // namespace

EngineGuess::EngineGuess(std::vector<const profile::TokenEngine*> known, int sequences,
                         std::shared_ptr<EngineFactors> factors)
    : may_be_(std::move(known)), factors_(std::move(factors)) {
  engine_.spec.cost = kUnknownCost;
  engine_.spec.sequences = kUnknownSequences;
  if (!may_be_.empty()) {
    engine_ = **std::ranges::min_element(may_be_, {}, [](const profile::TokenEngine* one) {
      return alone_ms(*one, kUsualPrompt, 0, 1);
    });
    for (const profile::TokenEngine* one : may_be_)
      engine_.spec.sequences = std::max(engine_.spec.sequences, one->spec.sequences);
  }
  if (sequences > 0) engine_.spec.sequences = sequences;
  room_ = plan::TokenRoom(std::max(engine_.spec.sequences, 1));
}

double EngineGuess::decode_ms() const {
  const profile::StepCost& cost = engine_.spec.cost;
  return cost.of_sequences(decoding_) + cost.cached_token * static_cast<double>(context_);
}

double EngineGuess::uncorrected_ttft(int prompt, int cached, std::int64_t now) const {
  const double own = prefill_ms(engine_, prompt, cached);
  double work = own;
  double computed = std::max(prompt - cached, 1);
  for (const GuessedRequest* before : prefilling_) {
    work += before->prefill_ms;
    computed += std::max(before->prompt - before->cached, 1);
  }
  const double room = std::max(engine_.spec.step_tokens - decoding_, 1);
  const double step = decode_ms(now), steps = std::ceil(computed / room);
  const double all = work + steps * step;
  // What of it is done already; the prompt itself is not.
  const double before = all - own - step;
  const double since = static_cast<double>(now - head_since_) / kNsPerMs / factors_->ttft.at(now);
  const double done = prefilling_.empty() ? 0 : std::clamp(since, 0.0, std::max(before, 0.0));
  const double begun = open() > 0 ? step / 2 : 0;  // of the step that runs
  return outside_ms(engine_, prompt) + begun + all - done;
}

std::int64_t EngineGuess::ttft(int prompt, int cached, std::int64_t now) const {
  return static_cast<std::int64_t>(factors_->ttft.at(now) * uncorrected_ttft(prompt, cached, now) *
                                   kNsPerMs);
}

std::optional<std::int64_t> EngineGuess::soonest_ttft(int prompt, int cached,
                                                      std::int64_t now) const {
  if (may_be_.empty()) return std::nullopt;
  const double slower = std::min(factors_->step.at(now), 1.0);
  double alone = std::numeric_limits<double>::infinity();
  for (const profile::TokenEngine* one : may_be_)
    alone = std::min(alone, alone_ms(*one, prompt, cached, slower));
  return static_cast<std::int64_t>(std::min(factors_->ttft.at(now), 1.0) * alone * kNsPerMs);
}

std::int64_t EngineGuess::tpot(std::int64_t now) const {
  return static_cast<std::int64_t>(decode_ms(now) * kNsPerMs);
}

std::int64_t EngineGuess::gap(double mean_out, std::int64_t now) const {
  return static_cast<std::int64_t>(mean_out * decode_ms(now) * kNsPerMs / limit());
}

std::int64_t EngineGuess::work(int prompt, int cached, double out, std::int64_t now) const {
  return gap(out, now) +
         static_cast<std::int64_t>(factors_->ttft.at(now) * prefill_ms(engine_, prompt, cached) *
                                   kNsPerMs);
}

void EngineGuess::begin(GuessedRequest& request, std::int64_t now) {
  request.begun = now;
  request.uncorrected = uncorrected_ttft(request.prompt, request.cached, now) * kNsPerMs;
  request.expected = static_cast<std::int64_t>(factors_->ttft.at(now) * request.uncorrected);
  request.prefill_ms = prefill_ms(engine_, request.prompt, request.cached);
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
  if (measured && request.uncorrected > 0)
    factors_->ttft.add(static_cast<double>(now - request.begun) / request.uncorrected,
                       request.client, now);
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
  factors_->step.add(static_cast<double>(tpot) / (decode_ms() * kNsPerMs), request.client, now);
  request.decodes = false;
  --decoding_;
  context_ -= request.prompt + request.produced;
}

}  // namespace partita::serve
