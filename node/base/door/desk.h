// Desk: what the connections of a door share: the site behind it, its limits and counts, buffers.
// Loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/door/access_log.h"
#include "base/door/exchange.h"
#include "base/door/inlet.h"

namespace partita::serve {

inline constexpr std::size_t kBlockBytes = 65'536;
using Block = std::unique_ptr<char[]>;

class Backlog;

struct Desk {
  Site& site;
  const DoorLimits& limits;
  DoorCounts& counts;
  AccessLog* log = nullptr;
  bool closing = false;   // answers say so and end their connections
  std::string date = {};  // "Date: ...", renewed every second
  HeadBuffers buffers = {};
  // Streams of which something waits, by when that began; and how much that is.
  std::set<std::pair<std::int64_t, Backlog*>> behind = {};
  std::size_t waiting = 0;
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

// What waits of one stream for a client that has not fetched it. Who does not fetch pays for it:
// where all of a door would be more than DoorLimits::waiting_bytes, that stream goes whose client
// is furthest behind the slowest rate, and no newcomer is refused.
class Backlog {
 public:
  // `drop`: the stream lets go of what waits, and breaks off soon, but not inside of this call.
  Backlog(Desk& desk, std::function<void()> drop) : desk_(desk), drop_(std::move(drop)) {}
  ~Backlog() { is(0); }
  Backlog(const Backlog&) = delete;
  Backlog& operator=(const Backlog&) = delete;
  // So many bytes wait now. May drop any stream, this one too.
  void is(std::size_t bytes);

 private:
  Desk& desk_;
  const std::function<void()> drop_;
  std::size_t bytes_ = 0;
  std::int64_t since_ = 0;     // something waits,
  std::uint64_t fetched_ = 0;  // and so much was fetched
};

inline constexpr int kClientGone = 499;  // in the access log

// A line of the access log, where there is one.
void log_answer(Desk& desk, const Peer& peer, const Exchange& exchange, const AnswerFacts& facts);
// Its answer has gone out: into the counts, and into what is known of the client.
void count_answer(Desk& desk, Peer& peer, const Exchange& exchange);

}  // namespace partita::serve
