// DeafServer: a server for tests that takes a connection, answers with what it was given, and then
// says nothing and ends nothing, like one whose machine is there and whose program hangs. An empty
// answer: connections stand, and nobody has looked at them.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/descriptor.h"

namespace partita {

class DeafServer {
 public:
  explicit DeafServer(std::string answer)
      : answer_(std::move(answer)), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const where = reinterpret_cast<sockaddr*>(&address);
    CHECK(::bind(listener_.get(), where, length) == 0 && ::listen(listener_.get(), 16) == 0 &&
          ::getsockname(listener_.get(), where, &length) == 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    if (!answer_.empty()) thread_ = std::jthread([this] { serve(); });
  }
  ~DeafServer() { ending_ = true; }
  const std::string& url() const { return url_; }

 private:
  void serve() {
    for (pollfd comes{listener_.get(), POLLIN, 0}; !ending_;) {
      if (::poll(&comes, 1, 10) != 1) continue;
      Descriptor& one = taken_.emplace_back(::accept(listener_.get(), nullptr, nullptr));
      ::send(one.get(), answer_.data(), answer_.size(), MSG_NOSIGNAL);
    }
  }

  const std::string answer_;
  const Descriptor listener_;
  std::string url_;
  std::vector<Descriptor> taken_;
  std::atomic<bool> ending_ = false;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace partita
