#include "base/door/chunked_body.h"

#include <algorithm>
#include <cstring>

namespace partita::serve {
namespace {

constexpr int kMostDigits = 15;  // of a chunk's size: no sum overflows

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

ChunkedBody::State ChunkedBody::extra(State stays) {
  return ++extras_ > kMostChunkExtras ? State::broken : stays;
}

ChunkedBody::State ChunkedBody::size_digit(char c) {
  const int value = hex_value(c);
  if (value >= 0) {
    left_ = left_ * 16 + static_cast<std::uint64_t>(value);
    return ++digits_ > kMostDigits ? State::broken : State::size;
  }
  if (digits_ == 0) return State::broken;
  if (c == '\r') return State::size_end;
  return c == ';' || c == ' ' || c == '\t' ? extra(State::extension) : State::broken;
}

// Where a byte that is not of the body leads.
ChunkedBody::State ChunkedBody::next(char c) {
  switch (state_) {
    case State::size:
      return size_digit(c);
    case State::extension:
      if (c == '\r') return State::size_end;
      return c == '\n' ? State::broken : extra(State::extension);
    case State::size_end:
      if (c != '\n') return State::broken;
      digits_ = 0;
      return left_ > 0 ? State::data : State::trailer_begin;
    case State::data_return:
      return c == '\r' ? State::data_end : State::broken;
    case State::data_end:
      return c == '\n' ? State::size : State::broken;
    case State::trailer_begin:
      if (c == '\r') return State::last_end;
      return c == '\n' ? State::broken : extra(State::trailer);
    case State::trailer:
      if (c == '\r') return State::trailer_end;
      return c == '\n' ? State::broken : extra(State::trailer);
    case State::trailer_end:
      return c == '\n' ? State::trailer_begin : State::broken;
    case State::last_end:
      return c == '\n' ? State::ended : State::broken;
    case State::data:
    case State::ended:
    case State::broken:
      break;
  }
  return State::broken;
}

ChunkedBody::Taken ChunkedBody::take(std::string_view wire, std::span<char> into) {
  Taken taken;
  while (taken.wire < wire.size() && !ended() && !broken()) {
    if (state_ != State::data) {
      state_ = next(wire[taken.wire++]);
      continue;
    }
    const auto room = std::min<std::uint64_t>(into.size() - taken.body, left_);
    const auto count = std::min(static_cast<std::size_t>(room), wire.size() - taken.wire);
    if (count == 0) break;
    std::memcpy(into.data() + taken.body, wire.data() + taken.wire, count);
    taken.wire += count;
    taken.body += count;
    left_ -= count;
    if (left_ == 0) state_ = State::data_return;
  }
  return taken;
}

}  // namespace partita::serve
