// The trace context of an item in its slot, so that a worker can pass it on to a server behind it:
// W3C's `traceparent` and `tracestate` as the gateway let them in. SlotLayout::trace says where.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace partita::serve {

inline constexpr std::size_t kMaxSlotParent = 128, kMaxSlotState = 512;
// Two lengths of two bytes, little-endian, then the texts at fixed places.
inline constexpr std::size_t kSlotTraceBytes = 4 + kMaxSlotParent + kMaxSlotState;

struct SlotTrace {
  std::string parent = {}, state = {};  // parent empty: none
  bool operator==(const SlotTrace&) const = default;
};

// `place`: kSlotTraceBytes there. What is longer than its room is left out, the state also where
// there is no parent.
void write_slot_trace(char* place, std::string_view parent, std::string_view state);
// Safe on any bytes: what cannot stand in a header counts as none.
SlotTrace read_slot_trace(const char* place);

}  // namespace partita::serve
