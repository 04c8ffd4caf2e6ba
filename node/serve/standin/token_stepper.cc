#include "serve/standin/token_stepper.h"

#include <algorithm>

namespace partita::serve {

bool TokenStepper::add(const Sequence& one) {
  if (needs(one) > most_tokens()) return false;
  waiting_.push_back(one);
  waiting_.back().computed = one.cached;
  return true;
}

void TokenStepper::remove(std::uint64_t id) {
  const auto its = [&](const Sequence& one) { return one.id == id; };
  std::erase_if(waiting_, its);
  for (const Sequence& one : running_) held_ -= its(one) ? needs(one) : 0;
  std::erase_if(running_, its);
}

std::int64_t TokenStepper::begin_ns() {
  const profile::StepCost& cost = spec_.cost;
  double decoding = 0, cached = 0;
  for (const Sequence& one : running_) {
    if (one.computed < one.prompt) continue;
    ++decoding;
    cached += one.prompt + one.produced;
  }
  int left = spec_.step_tokens - static_cast<int>(decoding);
  double ms = cost.of_sequences(decoding) + cost.cached_token * cached;
  const auto compute = [&](Sequence& one) {
    const int tokens = std::clamp(one.prompt - one.computed, 0, left);
    ms += cost.prompt_token * tokens + cost.prompt_context * tokens * (one.computed + tokens / 2.0);
    one.computed += tokens;
    left -= tokens;
  };
  for (Sequence& one : running_) compute(one);
  while (left > 0 && !waiting_.empty() && running() < spec_.sequences &&
         held_ + needs(waiting_.front()) <= most_tokens()) {
    running_.push_back(waiting_.front());
    waiting_.pop_front();
    held_ += needs(running_.back());
    compute(running_.back());
  }
  if (decoding > 0 && left < spec_.step_tokens - static_cast<int>(decoding)) ms += cost.mixed;
  return static_cast<std::int64_t>(ms * 1e6);
}

std::vector<TokenStepper::Produced> TokenStepper::end() {
  std::vector<Produced> produced;
  for (Sequence& one : running_) {
    if (one.computed < one.prompt) continue;
    produced.push_back({one.id, one.produced, one.produced + 1 == one.out});
    if (++one.produced == one.out) held_ -= needs(one);
  }
  std::erase_if(running_, [](const Sequence& one) { return one.produced == one.out; });
  return produced;
}

}  // namespace partita::serve
