#include "base/door/trace_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>

namespace partita::serve {
namespace {

// "00-TRACE-PARENT-01": where the parts of a parent begin, and how long it is at least.
constexpr std::size_t kTraceAt = 3, kTraceDigits = 32, kSpanAt = 36, kSpanDigits = 16;
constexpr std::size_t kFlagsAt = 53, kParentBytes = 55;

bool lower_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool all_zero(std::string_view text) {
  return text.find_first_not_of('0') == std::string_view::npos;
}

bool valid_parent(std::string_view text) {
  if (text.size() < kParentBytes || text.size() > kMaxTraceParent) return false;
  const std::string_view version = text.substr(0, 2);
  const std::string_view trace = text.substr(kTraceAt, kTraceDigits);
  const std::string_view span = text.substr(kSpanAt, kSpanDigits);
  if (!lower_hex(version) || version == "ff" || !lower_hex(trace) || all_zero(trace) ||
      !lower_hex(span) || all_zero(span) || !lower_hex(text.substr(kFlagsAt, 2)))
    return false;
  if (text[2] != '-' || text[kSpanAt - 1] != '-' || text[kFlagsAt - 1] != '-') return false;
  const std::string_view more = text.substr(kParentBytes);  // later versions may say more
  return more.empty() || (version != "00" && more.front() == '-' &&
                          std::ranges::all_of(more, [](char c) { return c > ' ' && c <= '~'; }));
}

}  // namespace

TraceContext trace_context(std::string_view parent, std::string_view state) {
  if (!valid_parent(parent)) return {};
  const bool plain =
      std::ranges::all_of(state, [](char c) { return (c >= ' ' && c <= '~') || c == '\t'; });
  if (!plain) state = {};
  while (state.size() > kMaxTraceState) {
    const std::size_t comma = state.rfind(',');
    state = state.substr(0, comma == std::string_view::npos ? 0 : comma);
  }
  return {.parent = std::string(parent), .state = std::string(state)};
}

std::string_view trace_id(std::string_view parent) {
  return parent.size() < kParentBytes ? std::string_view() : parent.substr(kTraceAt, kTraceDigits);
}

std::string new_trace_parent() {
  std::random_device source;
  const auto word = [&] { return (std::uint64_t{source()} << 32) | source(); };
  const std::uint64_t high = word(), low = word(), span = word();
  return fmt::format("00-{:016x}{:016x}-{:016x}-01", high, low | 1, span | 1);  // never all zero
}

}  // namespace partita::serve
