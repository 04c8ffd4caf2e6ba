// A member of etcd for tests: it answers every call with an empty range, and begins a watch that
// tells of nothing, unless it is to close what comes without a word. In TLS with a certificate.
#pragma once

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/descriptor.h"
#include "base/door/transport.h"

namespace partita::fleet {

class FakeMember {
 public:
  explicit FakeMember(std::shared_ptr<serve::TlsServer> tls = {})
      : tls_(std::move(tls)), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const where = reinterpret_cast<sockaddr*>(&address);
    CHECK(::bind(listener_.get(), where, length) == 0 && ::listen(listener_.get(), 16) == 0 &&
          ::getsockname(listener_.get(), where, &length) == 0);
    endpoint_ = std::string(tls_ ? "https" : "http") +
                "://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeMember() {
    ending_ = true;
    thread_.join();
  }
  const std::string& endpoint() const { return endpoint_; }
  int calls() const { return calls_; }  // that it answered
  void stay_silent(bool is_silent) { silent_ = is_silent; }

 private:
  void serve() {
    for (pollfd comes{listener_.get(), POLLIN, 0}; !ending_;)
      if (::poll(&comes, 1, 10) == 1)
        answer(Descriptor(::accept(listener_.get(), nullptr, nullptr)));
  }
  void answer(Descriptor connection) {
    if (silent_) return;
    std::unique_ptr<SSL, void (*)(SSL*)> ssl(tls_ ? SSL_new(tls_->context()) : nullptr, SSL_free);
    if (ssl && (SSL_set_fd(ssl.get(), connection.get()) != 1 || SSL_accept(ssl.get()) != 1)) return;
    char room[4096];  // requests are small, and come whole
    const auto got = ssl ? SSL_read(ssl.get(), room, sizeof room)
                         : ::recv(connection.get(), room, sizeof room, 0);
    if (got <= 0) return;
    const bool watches = std::string_view(room, static_cast<std::size_t>(got)).find("/v3/watch") !=
                         std::string_view::npos;
    std::string text = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    text += watches ? "{\"result\":{\"created\":true}}\n" : "{\"header\":{\"revision\":\"7\"}}";
    if (ssl)
      SSL_write(ssl.get(), text.data(), static_cast<int>(text.size()));
    else
      ::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL);
    ++calls_;
    if (watches) watched_.push_back(std::move(connection));
  }

  const std::shared_ptr<serve::TlsServer> tls_;
  const Descriptor listener_;
  std::string endpoint_;
  std::vector<Descriptor> watched_;
  std::atomic<bool> ending_ = false, silent_ = false;
  std::atomic<int> calls_ = 0;
  std::thread thread_;  // last: it uses the others
};

}  // namespace partita::fleet
