// Desk: what the connections of a door share: the site behind it, its limits and counts, buffers.
// Loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/door/access_log.h"
#include "base/door/exchange.h"
#include "base/door/inlet.h"

namespace partita::serve {

inline constexpr std::size_t kBlockBytes = 65'536;
using Block = std::unique_ptr<char[]>;

struct Desk {
  Site& site;
  const DoorLimits& limits;
  DoorCounts& counts;
  AccessLog* log = nullptr;
  bool closing = false;   // answers say so and end their connections
  std::string date = {};  // "Date: ...", renewed every second
  HeadBuffers buffers = {};
  // ---- over HTTP/2
  std::vector<Block> blocks = {};  // of kBlockBytes, for the time of a read or write
  struct OfHost {
    std::size_t connections = 0, streams = 0;
  };
  std::map<std::string, OfHost> hosts = {};  // with connections, by address
};

// When a request that was answered, or left, had its head, and what it cost the connection.
struct AnswerFacts {
  int status = 0;
  std::int64_t began_ns = 0, began_unix_ns = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;
};
// Until when: an answer of so many bytes that begins now; a body, or anything else, that began then
// and of which so many have come. Both have the grace, and the time that the slowest rate takes:
// who stops is not waited for because much is still to come.
std::int64_t answer_by(const DoorLimits& limits, std::uint64_t bytes);
std::int64_t moved_by(const DoorLimits& limits, std::int64_t began_ns, std::uint64_t moved);

inline constexpr int kClientGone = 499;  // in the access log

// A line of the access log, where there is one.
void log_answer(Desk& desk, const Peer& peer, const Exchange& exchange, const AnswerFacts& facts);
// Its answer has gone out: into the counts, and into what is known of the client.
void count_answer(Desk& desk, Peer& peer, const Exchange& exchange);

}  // namespace partita::serve
