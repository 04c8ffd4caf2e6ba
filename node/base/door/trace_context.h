// W3C trace context (https://www.w3.org/TR/trace-context/): which trace a request belongs to, in
// the headers `traceparent` and `tracestate`. It is checked and passed on unchanged; we record no
// spans of our own. Limits: below; what is longer or malformed counts as not said.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace partita::serve {

inline constexpr std::size_t kMaxTraceParent = 128;  // version 00 has 55 characters
inline constexpr std::size_t kMaxTraceState = 512;

struct TraceContext {
  std::string parent = {}, state = {};  // parent empty: none
  bool operator==(const TraceContext&) const = default;
};

// The two headers as far as they are usable. Without a valid parent the state says nothing; of a
// state that is too long the last entries are left out.
TraceContext trace_context(std::string_view parent, std::string_view state);

// The 32 hexadecimal digits of a parent that trace_context() let through; empty: none.
std::string_view trace_id(std::string_view parent);

// A trace of its own for a request that came without one, marked as sampled.
std::string new_trace_parent();

}  // namespace partita::serve
