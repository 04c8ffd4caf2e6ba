// A Channel of two byte rings in shared memory (ring.h), with a unix socket beside them. The
// listening side makes the memory (a memfd of sealed size, so that no access to it can fail) and
// a second pair of sockets; both travel over the first one. A side that finds nothing spins for a
// moment, shorter when that did not help lately, and then sleeps in poll() on a socket on which
// the other rings with one byte: on the first socket for bytes, on the second one for room. Either
// socket's end is the other side's end, so nobody sleeps beside a dead one.
#pragma once

#include <memory>

#include "base/descriptor.h"
#include "wire/net/channel.h"

namespace partita::remote {

inline constexpr std::size_t kRingBytes = 1 << 20;  // in each direction; stays in a core's cache

struct RingParts {
  Descriptor socket{-1}, room{-1}, memory{-1};
};

// What the listening side has made: its own parts, and what the other one is to get.
struct RingOffer {
  RingParts mine;
  Descriptor room{-1};  // of the other side
};

// Memory for two rings and the second pair of sockets; `socket` is the accepted connection.
Result<RingOffer> make_rings(Descriptor socket, std::size_t ring_bytes = kRingBytes);

enum class RingSide : bool { listener, connector };

// bad_input when the memory is not two rings of sealed size.
Result<std::unique_ptr<Channel>> ring_channel(RingParts parts, RingSide side);

}  // namespace partita::remote
