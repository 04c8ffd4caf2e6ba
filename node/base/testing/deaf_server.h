// DeafServer: a server for tests that takes a connection, answers with what it was given, and then
// says nothing and ends nothing, like one whose machine is there and whose program hangs. Without
// serve() connections stand, and nobody has looked at them. Starts no thread: whatever includes a
// header of base would count as code with threads.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <stop_token>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/descriptor.h"

namespace partita {

class DeafServer {
 public:
  DeafServer() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const where = reinterpret_cast<sockaddr*>(&address);
    CHECK(::bind(listener_.get(), where, length) == 0 && ::listen(listener_.get(), 16) == 0 &&
          ::getsockname(listener_.get(), where, &length) == 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  const std::string& url() const { return url_; }
  // Until `end`, on a thread of the caller's.
  void serve(const std::stop_token& end, const std::string& answer) {
    for (pollfd comes{listener_.get(), POLLIN, 0}; !end.stop_requested();) {
      if (::poll(&comes, 1, 10) != 1) continue;
      Descriptor& one = taken_.emplace_back(::accept(listener_.get(), nullptr, nullptr));
      ::send(one.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  }

 private:
  const Descriptor listener_;
  std::string url_;
  std::vector<Descriptor> taken_;
};

}  // namespace partita
