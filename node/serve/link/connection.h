// Connections between the gateway and workers of this machine: unix SOCK_SEQPACKET sockets, never
// blocking, a message a frame, optionally with a descriptor beside it. Each object owns its socket;
// whoever holds it watches fd() with epoll. Frames are bytes here (serve/wire/frames.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"
#include "base/unix_socket.h"

namespace partita::serve {

inline constexpr int kBacklog = 128;  // workers that wait to be accepted

struct Received {
  enum class Kind : std::uint8_t { frame, nothing_yet, ended };
  Kind kind = Kind::nothing_yet;
  std::span<char> bytes = {};  // of the frame, in the caller's buffer
  Descriptor descriptor{-1};   // what came beside it, or -1
};

class Connection {
 public:
  // To the gateway that listens at `path`. ErrorCode::not_found where none does (it may come back),
  // environment for everything else.
  static Result<Connection> connect(const std::string& path);
  explicit Connection(Descriptor fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  Result<UnixPeer> peer() const;
  // True: sent whole, with a copy of `descriptor` (-1: none). False: the other end is slow and the
  // socket is full; again once it is writable. An Error: the other end is gone.
  Result<bool> send(std::string_view frame, int descriptor = -1);
  // One frame into `buffer`; one that does not fit is an Error, as is a broken socket. `ended`: the
  // other end closed it or died.
  Result<Received> receive(std::span<char> buffer);

 private:
  Descriptor fd_;
};

class Listener {
 public:
  // Listens at `path`; only its owner's processes may connect. The socket of a gateway that died is
  // replaced. ErrorCode::in_use where a living one listens. A lock beside it (`path`.lock) decides
  // between two that start at once. The socket is removed with the object.
  static Result<Listener> open(const std::string& path);
  ~Listener();
  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&&) = delete;

  int fd() const { return fd_.get(); }
  // Nothing: none waits.
  Result<std::optional<Connection>> accept();

 private:
  Listener(std::string path, Descriptor lock, Descriptor fd);

  std::string path_;
  Descriptor lock_, fd_;
};

}  // namespace partita::serve
