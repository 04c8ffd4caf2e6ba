// Net: the door to bytes between client and server. A Channel is an ordered stream of bytes in both
// directions; a Net makes them. Implementations: shared-memory rings with a unix socket for the
// handshake (one host), unix socket, TCP (no delay), and a simulated one in virtual time
// (sim_net.h) with delay, bandwidth and cuts. Faults are adaptors. No exception, no thread of its
// own.
// Thread rule: one thread writes and one reads at the same time; shut() from any.
// After fork() only one of the two processes may go on with a channel; the other destroys its copy
// (which tells the other side nothing) and connects anew.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::remote {

using Nanos = std::chrono::nanoseconds;
inline constexpr Nanos kNoWait{0};

class Channel {
 public:
  virtual ~Channel() = default;
  // Writes all parts, one behind the other; blocks while the other side does not read. timeout:
  // nothing could be written for `patience`; lost: the other side is gone. After an Error the
  // channel is of no use.
  virtual Result<void> write(std::span<const std::span<const std::byte>> parts, Nanos patience) = 0;
  // At least one byte into `into`, at most its size; 0: the other side closed. timeout after
  // `patience` (0: what is there now); lost as above.
  virtual Result<std::size_t> read(std::span<std::byte> into, Nanos patience) = 0;
  // For epoll: readable when read() may have something, once a read() has ended in timeout; -1 when
  // there is none (simulated).
  virtual int descriptor() const = 0;
  // All descriptors that it needs, to be handed to another process (adopt() in system_net.h); empty
  // when it cannot be handed over. They remain the channel's.
  virtual std::vector<int> descriptors() const { return {}; }
  // Ends both directions; blocked calls return.
  virtual void shut() noexcept = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;
  // The next connection, or timeout. Who it is, as the system says it, is in `peer`.
  struct Accepted {
    std::unique_ptr<Channel> channel;
    long pid = 0;         // 0: not on this host
    long uid = -1;        // -1: unknown
    std::string address;  // "unix", "127.0.0.1:40312"
  };
  virtual Result<Accepted> accept(Nanos patience) = 0;
  virtual int descriptor() const = 0;
  // "unix:/run/partita.sock", "tcp:127.0.0.1:7070" with the port that was taken for port 0.
  virtual std::string address() const = 0;
};

// ADDRESS: "unix:PATH" (rings over shared memory where the other side is of the same host; plain
// socket with "socket:PATH"), "tcp:HOST:PORT" or "HOST:PORT"; "slow:MICROSECONDS:ADDRESS" on both
// sides makes the way longer, for measurements (slow_channel.h).
class Net {
 public:
  virtual ~Net() = default;
  virtual Result<std::unique_ptr<Channel>> connect(std::string_view address, Nanos patience) = 0;
  virtual Result<std::unique_ptr<Listener>> listen(std::string_view address) = 0;
};

// The system's sockets and shared memory.
Net& system_net();

}  // namespace partita::remote
