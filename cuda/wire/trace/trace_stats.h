// What a recorded connection amounts to: calls, blocking round trips by operation, bytes, kernels.
#pragma once

#include <map>
#include <string>

#include "wire/trace/format.h"

namespace partita::remote {

struct TraceStats {
  std::map<std::string, std::uint64_t> calls;              // frames of the client
  std::map<std::string, std::uint64_t> blocking;           // those that were answered
  std::map<std::string, std::int64_t> waited_nanoseconds;  // until the answer
  std::map<std::string, std::uint64_t> notices;
  std::uint64_t bytes_up = 0, bytes_down = 0;  // headers, bodies, bulk
  std::uint64_t bulk_up = 0, bulk_down = 0;
  std::uint64_t launches = 0, kernels = 0;  // `kernels`: different ones
  std::uint64_t failures = 0;               // answers with a status other than success, not ready
  std::uint64_t unanswered = 0;
  std::int64_t nanoseconds = 0;  // from the first to the last frame

  std::uint64_t all_calls() const;
  std::uint64_t blocking_round_trips() const;
};

TraceStats trace_stats(const Trace& trace);

}  // namespace partita::remote
