// Frames in words, from the table of operations: for `partita remote trace` and the table in
// docs/remote-protocol.md.
#pragma once

#include <optional>
#include <string>

#include "wire/frame.h"

namespace partita::remote {

enum class Direction : std::uint8_t { up, down };  // from the client, from the server

// The operation of a table with this code, if there is one: visit.template operator()<Op>().
template <class... Ops, class Visit>
bool with_operation(Table<Ops...>, unsigned code, Visit&& visit) {
  return ((Ops::kSpec.code == code && (visit.template operator()<Ops>(), true)) || ...);
}

// The row of the table that a frame belongs to; nothing when there is none.
std::optional<Spec> spec_of(const FrameHeader& header, Direction direction);

// "launch stream=1 kernel=2 grid=10x2x1 ..."; what does not decode is said to.
std::string describe(const FrameHeader& header, Bytes body, Direction direction);

// Of an answer; nothing when it is none or does not decode.
std::optional<Outcome> outcome_of(const FrameHeader& header, Bytes body);

// The page docs/remote-protocol.md.
std::string protocol_page();

}  // namespace partita::remote
