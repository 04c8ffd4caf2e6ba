// Messages between the processes of a server, over sockets that keep them apart (SOCK_SEQPACKET),
// with descriptors beside them. Both ends are ours, yet a worker may have been taken over by its
// client: what comes from one is bounded and means nothing but what it says of its own session.
#pragma once

#include <poll.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "server/session.h"

namespace partita::remote::server {

// What poll() is asked: whether something can be read there.
inline pollfd readable(int descriptor) { return {descriptor, POLLIN, 0}; }

// A pair of such sockets.
Result<std::pair<Descriptor, Descriptor>> message_pair();

// Broker to zygote, with the worker's control socket beside it.
struct StartMessage {
  static constexpr std::size_t kMaxText = 128;  // with its end
  std::uint64_t worker = 0;
  std::int32_t units = 0;
  std::array<char, kMaxText> name = {}, shape = {};
};
// Broker to worker, with the channel's descriptors beside it.
struct GiveMessage {
  std::uint64_t session = 0;
  std::uint32_t request = 0;  // of the hello
  std::uint32_t flags = 0;    // of the hello
  std::int32_t units = 0;     // of the CPU, at most the part's
};
// Worker to broker.
struct WorkerMessage {
  enum class Kind : std::uint32_t { ready = 1, counts, ended, unable };
  Kind kind = Kind::ready;
  std::int64_t pid = 0;
  SessionCounts counts = {};
  std::array<char, 200> text = {};  // why it ended, or cannot begin
};

template <class Message>
struct Received {
  Message message = {};
  std::vector<Descriptor> descriptors = {};
};

bool send_bytes(int socket, Bytes bytes, std::span<const int> descriptors);
enum class Arrival { came, none, gone };
Arrival receive_bytes(int socket, std::span<std::byte> into, std::vector<Descriptor>& descriptors,
                      bool wait);

template <class Message>
bool send_message(int socket, const Message& message, std::span<const int> descriptors = {}) {
  return send_bytes(socket, std::as_bytes(std::span(&message, 1)), descriptors);
}
// `gone` also for what is no such message.
template <class Message>
Arrival receive_message(int socket, Received<Message>& into, bool wait = false) {
  into.descriptors.clear();
  return receive_bytes(socket, std::as_writable_bytes(std::span(&into.message, 1)),
                       into.descriptors, wait);
}

}  // namespace partita::remote::server
