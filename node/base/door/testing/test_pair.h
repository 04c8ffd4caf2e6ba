// A transport and the other side of it, for tests.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/door/transport.h"

namespace partita::serve::test {

struct Ends {
  Ends() { ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds); }
  int fds[2] = {-1, -1};
};

class Pair {
 public:
  Pair() : transport(ends_.fds[0], nullptr) {}
  ~Pair() { leave(); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  void send(std::string_view text) { ::send(ends_.fds[1], text.data(), text.size(), MSG_NOSIGNAL); }
  // What has come of what the transport wrote.
  std::string fetch() {
    std::string text(1 << 20, '\0');
    const auto count = ::recv(ends_.fds[1], text.data(), text.size(), 0);
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text;
  }
  void leave() {
    if (ends_.fds[1] >= 0) ::close(std::exchange(ends_.fds[1], -1));
  }

 private:
  Ends ends_;

 public:
  Transport transport;
};

}  // namespace partita::serve::test
