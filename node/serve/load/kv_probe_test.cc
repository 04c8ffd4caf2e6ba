// The search for what fits, in virtual time, against engines whose room is known: one that keeps
// room for whole answers (the stand-in's), and one that takes blocks as it needs them and preempts.
#include "serve/load/kv_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/rng.h"
#include "serve/standin/token_stepper.h"

namespace partita::serve {
namespace {

constexpr double kNanosPerMs = 1e6;

profile::EngineSpec random_spec(Rng& rng) {
  profile::EngineSpec spec;
  spec.cost = {.step = 2 + 20 * rng.uniform(), .sequence = 0.1, .prompt_token = 0.05};
  spec.step_tokens = 256 << rng.below(5);
  spec.sequences = 8 << rng.below(6);
  spec.blocks = static_cast<std::int64_t>(100 * std::pow(2, 6 * rng.uniform()));
  return spec;
}

// As the stand-in does it.
std::vector<TokenTimes> play_whole(const profile::EngineSpec& spec, int requests, int tokens) {
  TokenStepper stepper(spec);
  std::map<std::uint64_t, TokenTimes> answers;
  for (int i = 0; i < requests; ++i) {
    const auto id = static_cast<std::uint64_t>(i);
    answers[id].prompt = tokens;
    if (!stepper.add({.id = id, .prompt = tokens, .out = tokens})) return {};
  }
  std::int64_t now = 0;
  while (!stepper.idle()) {
    now += stepper.begin_ns();
    for (const auto& one : stepper.end()) answers[one.id].at.push_back(now);
  }
  std::vector<TokenTimes> all;
  for (auto& [id, one] : answers) all.push_back(std::move(one));
  return all;
}

// One step after the other. Where blocks run out the youngest goes back to the front, and computes
// all that it had anew.
class ByBlocks {
 public:
  ByBlocks(const profile::EngineSpec& spec, int requests, int tokens)
      : spec_(spec), tokens_(tokens), all_(static_cast<std::size_t>(requests), {tokens, {}}) {
    for (int i = requests; i-- > 0;) waiting_.push_back({static_cast<std::size_t>(i), tokens});
  }
  std::vector<TokenTimes> run() {
    for (std::int64_t now = 0; !waiting_.empty() || !running_.empty();) {
      now += static_cast<std::int64_t>(spec_.cost.step * kNanosPerMs);
      admit();
      int left = spec_.step_tokens;
      for (std::size_t i = 0; i < running_.size(); ++i) {
        Running& one = running_[i];
        const int computed = std::min(left, one.to_compute);
        left -= computed;
        one.to_compute -= computed;
        if (one.to_compute > 0) continue;
        all_[one.id].at.push_back(now);
        ++one.held;
        while (used() > spec_.blocks) preempt();
      }
      std::erase_if(running_, [&](const Running& one) { return had(one) >= tokens_; });
    }
    return std::move(all_);
  }

 private:
  struct Running {
    std::size_t id;
    int to_compute, held = 0;
  };
  static std::int64_t blocks(int held) {
    return (held + profile::kBlockTokens - 1) / profile::kBlockTokens;
  }
  int had(const Running& one) const { return static_cast<int>(all_[one.id].at.size()); }
  std::int64_t used() const {
    std::int64_t sum = 0;
    for (const Running& one : running_) sum += blocks(one.held);
    return sum;
  }
  void admit() {
    while (!waiting_.empty() && std::ssize(running_) < spec_.sequences &&
           used() + blocks(waiting_.back().to_compute) <= spec_.blocks) {
      running_.push_back(waiting_.back());
      running_.back().held = running_.back().to_compute;
      waiting_.pop_back();
    }
  }
  void preempt() {
    const Running last = running_.back();
    running_.pop_back();
    if (had(last) < tokens_) waiting_.push_back({last.id, tokens_ + had(last)});
  }

  const profile::EngineSpec& spec_;
  const int tokens_;
  std::vector<TokenTimes> all_;
  std::vector<Running> waiting_, running_;  // the next one last; the youngest last
};

std::vector<TokenTimes> play_by_blocks(const profile::EngineSpec& spec, int requests, int tokens) {
  return ByBlocks(spec, requests, tokens).run();
}

using Engine = std::vector<TokenTimes> (*)(const profile::EngineSpec&, int, int);

void finds_what_fits(Engine engine, std::uint64_t seed) {
  Rng rng(seed);
  for (int round = 0; round < 12; ++round) {
    const profile::EngineSpec spec = random_spec(rng);
    const auto truth = static_cast<double>(spec.blocks * profile::kBlockTokens);
    int plays = 0;
    const PlayTogether play = [&](int requests, int tokens) -> Result<std::vector<TokenTimes>> {
      ++plays;
      if (2 * tokens > static_cast<int>(truth)) return bad_input("", "longer than the cache");
      return engine(spec, requests, tokens);
    };
    const auto found = find_kv_tokens({.least_tokens = 24}, play);
    ASSERT_TRUE(found) << to_string(found.error());
    EXPECT_LE(found->tokens, truth);
    EXPECT_GE(found->tokens, 0.95 * truth) << spec.sequences << " " << spec.step_tokens << " "
                                           << found->requests << "x" << found->length;
    EXPECT_LE(plays, 40);
  }
}

TEST(KvProbe, FindsWhatFitsWhereWholeAnswersAreKept) { finds_what_fits(play_whole, 1); }
TEST(KvProbe, FindsWhatFitsWhereBlocksAreTakenAsNeeded) { finds_what_fits(play_by_blocks, 2); }

// One with so many tokens, each after so long, and with a pause behind one of them.
TokenTimes answer(std::int64_t begin, int tokens, int paused_at = 0, std::int64_t pause = 0) {
  TokenTimes one{.prompt = 10};
  for (int i = 0; i < tokens; ++i) {
    one.at.push_back(begin + i * 10);
    if (paused_at > 0 && i >= paused_at) one.at.back() += pause;
  }
  return one;
}

TEST(KvProbe, WhatWaitedForAnotherWasNotHeldWithIt) {
  // Six tokens before the end of the first: 15 and 13 tokens are there, the newest is not kept.
  EXPECT_EQ(held_together({answer(0, 20), answer(20, 30)}, 0), (10 + 14) + (10 + 12));
  EXPECT_EQ(held_together({answer(0, 20), answer(200, 30)}, 0), 0);   // it came afterwards
  EXPECT_EQ(held_together({answer(0, 20), answer(130, 30)}, 50), 0);  // or about then
  EXPECT_EQ(held_together({answer(0, 20), {.prompt = 10}}, 0), 0);
  EXPECT_EQ(held_together({}, 0), 0);
}

// A sequence without a token while another has many was preempted.
TEST(KvProbe, WhatPausedWasNotHeld) {
  EXPECT_GT(held_together({answer(0, 40), answer(0, 40)}, 0), 0);
  EXPECT_EQ(held_together({answer(0, 40), answer(0, 40, 20, 60)}, 0), 0);
  EXPECT_EQ(held_together({answer(0, 40), answer(0, 40, 33, 500)}, 0), 0);  // until the other ended
}

// As llama.cpp has it: so many places, each for so many tokens.
TEST(KvProbe, WhatHasPlacesOfALengthHoldsThatManyTimesIt) {
  const profile::EngineSpec spec{.cost = {.step = 10}, .sequences = 8, .blocks = 1'000'000};
  const PlayTogether play = [&](int requests, int tokens) -> Result<std::vector<TokenTimes>> {
    if (2 * tokens > 512) return bad_input("", "the limit is 512");
    return play_whole(spec, requests, tokens);
  };
  const auto found = find_kv_tokens({}, play);
  ASSERT_TRUE(found);
  EXPECT_LE(found->tokens, 8 * 512);
  EXPECT_GE(found->tokens, 0.95 * 8 * 512);
  EXPECT_FALSE(found->full);
}

TEST(KvProbe, SaysWhyItEnded) {
  const profile::EngineSpec spec{.cost = {.step = 10}, .step_tokens = 2048, .blocks = 1'000'000};
  int plays = 0;
  const PlayTogether play = [&](int requests, int tokens) -> Result<std::vector<TokenTimes>> {
    ++plays;
    if (tokens > 300) return bad_input("", "longer than the context");
    return play_whole(spec, requests, tokens);
  };
  const auto most = find_kv_tokens({.most_requests = 16}, play);
  ASSERT_TRUE(most);
  EXPECT_FALSE(most->full);
  EXPECT_EQ(most->ended, "it takes no longer requests");
  EXPECT_EQ(most->requests, 16);
  plays = 0;
  const auto cut = find_kv_tokens({.is_over = [&] { return plays >= 3; }}, play);
  ASSERT_TRUE(cut);
  EXPECT_FALSE(cut->full);
  EXPECT_EQ(cut->ended, "time was up");
  EXPECT_EQ(plays, 3);
  EXPECT_EQ(find_kv_tokens({.least_tokens = 400, .most_requests = 16}, play)->ended, most->ended);
  const PlayTogether none = [](int, int) -> Result<std::vector<TokenTimes>> {
    return bad_input("", "status 500");
  };
  const auto fault = find_kv_tokens({}, none);
  ASSERT_FALSE(fault);
  EXPECT_EQ(fault.error().message, "status 500");
}

}  // namespace
}  // namespace partita::serve
