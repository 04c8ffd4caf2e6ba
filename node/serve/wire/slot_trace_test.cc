#include "serve/wire/slot_trace.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace partita::serve {
namespace {

using TracePlace = std::array<char, kSlotTraceBytes>;

TEST(SlotTrace, ComesBackAsItWasWritten) {
  TracePlace place;
  place.fill('x');
  const std::string parent(kMaxSlotParent, 'p'), state(kMaxSlotState, 's');
  write_slot_trace(place.data(), parent, state);
  EXPECT_EQ(read_slot_trace(place.data()), (SlotTrace{parent, state}));
  write_slot_trace(place.data(), "p", "");
  EXPECT_EQ(read_slot_trace(place.data()), (SlotTrace{"p", ""}));
  write_slot_trace(place.data(), "", "state");  // of the request before nothing is left
  EXPECT_EQ(read_slot_trace(place.data()), SlotTrace());
  write_slot_trace(place.data(), "p", state + "s");
  EXPECT_EQ(read_slot_trace(place.data()), (SlotTrace{"p", ""}));
  write_slot_trace(place.data(), parent + "p", "s");
  EXPECT_EQ(read_slot_trace(place.data()), SlotTrace());
}

TEST(SlotTrace, WhatHeadersMayNotHoldCountsAsNone) {
  std::mt19937 random(7);
  for (int turn = 0; turn < 2000; ++turn) {
    TracePlace place;
    for (char& byte : place) byte = static_cast<char>(random());
    place[1] = place[3] = 0;  // lengths that may be within the limits
    const SlotTrace trace = read_slot_trace(place.data());
    ASSERT_LE(trace.parent.size(), kMaxSlotParent);
    ASSERT_LE(trace.state.size(), kMaxSlotState);
    for (const std::string& text : {trace.parent, trace.state})
      for (const char c : text) ASSERT_TRUE((c >= ' ' && c <= '~') || c == '\t');
  }
}

}  // namespace
}  // namespace partita::serve
