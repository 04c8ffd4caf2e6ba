// An HTTP server for tests: answers each connection with the next of its texts, whatever is asked.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/descriptor.h"

namespace partita::serve {

class TextServer {
 public:
  explicit TextServer(std::vector<std::string> answers, bool stay_open = false)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* where = reinterpret_cast<sockaddr*>(&address);
    CHECK(::bind(fd_.get(), where, size) == 0 && ::listen(fd_.get(), 8) == 0);
    CHECK(::getsockname(fd_.get(), where, &size) == 0);
    port = ntohs(address.sin_port);
    thread_ = std::jthread([this, answers = std::move(answers), stay_open] {
      for (const std::string& answer : answers) serve(answer, stay_open);
    });
  }
  ~TextServer() { ::shutdown(fd_.get(), SHUT_RDWR); }

  int port = 0;
  std::string end_of_request = "}";  // after this a request is complete
  std::vector<std::string> asked;    // read after the answers came

 private:
  void serve(const std::string& answer, bool stay_open) {
    const Descriptor client(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client.get() < 0) return;
    std::string got;
    std::array<char, 4096> buffer{};
    const auto more = [&] {
      const ssize_t size = ::recv(client.get(), buffer.data(), buffer.size(), 0);
      if (size > 0) got.append(buffer.data(), static_cast<std::size_t>(size));
      return size > 0;
    };
    while (got.find(end_of_request) == got.npos && more()) continue;
    asked.push_back(got);
    ::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    while (stay_open && more()) continue;  // until the client hangs up
  }

  Descriptor fd_;
  std::jthread thread_;
};

}  // namespace partita::serve
