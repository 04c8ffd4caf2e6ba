#include "serve/wire/slot_trace.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace partita::serve {
namespace {

constexpr std::size_t kLengths = 4;

std::string read_text(const char* place, std::size_t size, std::size_t most) {
  if (size > most) return "";
  std::string text(place, size);
  const bool fits =
      std::ranges::all_of(text, [](char c) { return (c >= ' ' && c <= '~') || c == '\t'; });
  return fits ? text : "";
}

}  // namespace

void write_slot_trace(char* place, std::string_view parent, std::string_view state) {
  if (parent.size() > kMaxSlotParent) parent = {};
  if (parent.empty() || state.size() > kMaxSlotState) state = {};
  const auto sizes = static_cast<std::uint32_t>(parent.size() | state.size() << 16);
  std::memcpy(place, &sizes, kLengths);
  if (!parent.empty()) std::memcpy(place + kLengths, parent.data(), parent.size());
  if (!state.empty()) std::memcpy(place + kLengths + kMaxSlotParent, state.data(), state.size());
}

SlotTrace read_slot_trace(const char* place) {
  std::uint32_t sizes = 0;
  std::memcpy(&sizes, place, kLengths);
  SlotTrace trace;
  trace.parent = read_text(place + kLengths, sizes & 0xFFFF, kMaxSlotParent);
  if (!trace.parent.empty())
    trace.state = read_text(place + kLengths + kMaxSlotParent, sizes >> 16, kMaxSlotState);
  return trace;
}

}  // namespace partita::serve
