// LittleServer: an HTTP server for tests, with TLS or without, on a thread of its own: one request
// per connection, answered as a script says. Loopback only.
#pragma once

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"

namespace partita::notify {

class LittleServer {
 public:
  // The status for the n-th request, from 0; 0: hangs up without an answer, -1: never answers.
  using Script = std::function<int(int n)>;
  explicit LittleServer(Script script, SSL_CTX* tls = nullptr)
      : script_(std::move(script)), tls_(tls) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    CHECK(::bind(listener_, plain, sizeof address) == 0 && ::listen(listener_, 64) == 0);
    socklen_t size = sizeof address;
    CHECK(::getsockname(listener_, plain, &size) == 0);
    port = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~LittleServer() {
    over_ = true;
    thread_.join();
    for (const int fd : held_) ::close(fd);
    ::close(listener_);
  }
  LittleServer(const LittleServer&) = delete;

  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  std::string url(const char* scheme = "http") const {
    return std::string(scheme) + "://127.0.0.1:" + std::to_string(port) + "/hook";
  }
  int port = 0;

 private:
  void serve() {
    while (!over_) {
      pollfd wait{listener_, POLLIN, 0};
      if (::poll(&wait, 1, 20) <= 0) continue;
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0 && !answer(fd)) ::close(fd);
    }
  }

  // Whether the connection is kept open.
  bool answer(int fd) {
    const timeval patience{2, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    SSL* ssl = nullptr;
    if (tls_ != nullptr) {
      ssl = SSL_new(tls_);
      SSL_set_fd(ssl, fd);
      if (SSL_accept(ssl) != 1) {
        SSL_free(ssl);
        return false;
      }
    }
    const std::string request = read(fd, ssl);
    int n = 0;
    {
      const std::lock_guard lock(mutex_);
      n = static_cast<int>(requests_.size());
      requests_.push_back(request);
    }
    const int status = script_(n);
    if (status == -1) held_.push_back(fd);
    if (status > 0) {
      const std::string text = "HTTP/1.1 " + std::to_string(status) +
                               " x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
      if (ssl != nullptr) SSL_write(ssl, text.data(), static_cast<int>(text.size()));
      if (ssl == nullptr) ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    }
    if (ssl != nullptr) {
      SSL_shutdown(ssl);
      SSL_free(ssl);
    }
    return status == -1;
  }

  static std::string read(int fd, SSL* ssl) {
    std::string all;
    char some[4096];
    while (true) {
      const auto head = all.find("\r\n\r\n");
      const auto length = all.find("Content-Length: ");
      if (head != all.npos && length != all.npos &&
          all.size() >= head + 4 + std::stoul(all.substr(length + 16)))
        return all;
      const auto got = ssl != nullptr ? SSL_read(ssl, some, sizeof some)
                                      : static_cast<int>(::recv(fd, some, sizeof some, 0));
      if (got <= 0) return all;
      all.append(some, static_cast<std::size_t>(got));
    }
  }

  Script script_;
  SSL_CTX* tls_;
  int listener_ = -1;
  std::vector<int> held_;
  std::atomic<bool> over_{false};
  std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

}  // namespace partita::notify
