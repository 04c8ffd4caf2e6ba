// TokenStepper: continuous batching in steps, as engines of language models do it: every sequence
// that decodes computes a token, what is left of the budget goes to prompts in order of arrival.
// Cache is kept for a whole answer from its beginning, so nobody is preempted; what the step costs
// says profile/token_engine.h. The owner lets the time pass. Pure; single-threaded.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "profile/token_engine.h"

namespace partita::serve {

class TokenStepper {
 public:
  explicit TokenStepper(profile::EngineSpec spec) : spec_(spec) {}

  struct Sequence {
    std::uint64_t id = 0;
    int prompt = 1, cached = 0, out = 1;  // tokens; cached < prompt
    int computed = 0, produced = 0;       // of the prompt, of the answer
  };
  // Waits from now on; false: it fits no empty cache.
  bool add(const Sequence& one);
  void remove(std::uint64_t id);
  bool idle() const { return running_.empty() && waiting_.empty(); }
  int waiting() const { return static_cast<int>(waiting_.size()); }
  int running() const { return static_cast<int>(running_.size()); }
  std::int64_t tokens_held() const { return held_; }
  std::int64_t most_tokens() const { return spec_.blocks * profile::kBlockTokens; }

  // A step begins: how long it takes. Not while idle.
  std::int64_t begin_ns();
  struct Produced {
    std::uint64_t id = 0;
    int index = 0;  // of the token, from 0
    bool last = false;
  };
  // It is over.
  std::vector<Produced> end();

 private:
  std::int64_t needs(const Sequence& one) const { return std::int64_t{one.prompt} + one.out; }

  profile::EngineSpec spec_;
  std::deque<Sequence> waiting_ = {};
  std::vector<Sequence> running_ = {};  // in order of admission
  std::int64_t held_ = 0;               // tokens of cache
};

}  // namespace partita::serve
