// States: they go from step to step, and to another worker in parts, byte for byte.
#include "serve/worker/sequence_states.h"

#include <gtest/gtest.h>

#include <numeric>

namespace partita::serve {
namespace {

void write(SequenceStates& states, const SlotStep& step, char value, bool well = true) {
  SequenceStates::Kept* const kept = states.begin(step);
  ASSERT_NE(kept, nullptr);
  std::ranges::fill(kept->next, value);
  states.settle(step, well);
}

TEST(SequenceStates, GoFromStepToStep) {
  SequenceStates states(4);
  write(states, {.sequence = 1, .begins = true}, 'a');
  write(states, {.sequence = 2, .begins = true}, 'b');
  write(states, {.sequence = 1}, 'c', false);
  EXPECT_EQ(states.begin({.sequence = 1})->now, std::vector<char>(4, 'a')) << "as before";
  EXPECT_EQ(states.begin({.sequence = 1}), nullptr) << "twice in a batch";
  states.settle({.sequence = 1, .ends = true}, true);
  EXPECT_EQ(states.begin({.sequence = 1}), nullptr) << "it has ended";
  write(states, {.sequence = 2, .begins = true}, 'd');
  EXPECT_EQ(states.at({.sequence = 2}).now, std::vector<char>(4, 'd'));
  states.forget(2);
  EXPECT_EQ(states.size(), 0U);
}

TEST(SequenceStates, MoveInParts) {
  for (const std::size_t bytes : {1UL, kMaxPartBytes, (2 * kMaxPartBytes) + 1}) {
    SequenceStates old(bytes), fresh(bytes);
    const SlotStep step{.sequence = 9, .begins = true};
    SequenceStates::Kept* const kept = old.begin(step);
    std::iota(kept->next.begin(), kept->next.end(), 1);
    const std::vector<char> state = kept->next;
    old.settle(step, true);
    FetchState next{.sequence = 9};
    std::size_t parts = 0;
    for (; next.offset < bytes; ++parts) {
      EXPECT_EQ(fresh.begin({.sequence = 9}), nullptr) << "it is not there before all is";
      next = fresh.take(old.part(next));
    }
    EXPECT_EQ(parts, (bytes + kMaxPartBytes - 1) / kMaxPartBytes);
    EXPECT_EQ(next.offset, bytes);
    ASSERT_NE(fresh.begin({.sequence = 9}), nullptr);
    EXPECT_EQ(fresh.at({.sequence = 9}).now, state);
  }
}

TEST(SequenceStates, WhatDoesNotFitIsNotTaken) {
  SequenceStates states(8);
  EXPECT_EQ(states.part({.sequence = 3}), (StatePart{.sequence = 3})) << "nothing of nothing";
  EXPECT_EQ(states.take({.sequence = 3, .offset = 4, .total = 8, .bytes = "abcd"}).offset, 0U)
      << "from the beginning, please";
  EXPECT_EQ(states.take({.sequence = 3, .total = 8, .bytes = "abcd"}).offset, 4U);
  EXPECT_EQ(states.take({.sequence = 3, .total = 8, .bytes = "efgh"}).offset, 4U) << "begun anew";
  EXPECT_EQ(states.take({.sequence = 4, .total = 5, .bytes = "abcde"}).offset, 5U);
  EXPECT_EQ(states.begin({.sequence = 4}), nullptr) << "a state of another model";
}

}  // namespace
}  // namespace partita::serve
