// StubServer: a server for tests of load generators, on a thread of its own. It knows a few models
// and answers every request as a script says, so long after the last byte of it was read; while it
// stalls it reads and writes nothing. Loopback only.
#pragma once

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"

namespace partita::serve {

struct StubAnswer {
  int status = 200;
  std::int64_t after_ns = 0;
  bool hangs_up = false;       // instead of an answer
  bool closes = false;         // after the answer
  std::int64_t stalls_ns = 0;  // the whole server, before it goes on
  std::string body = "{}";
};

class StubServer {
 public:
  // Asked for the n-th request for tensors, with all its bytes.
  using Script = std::function<StubAnswer(long n, const std::string& request)>;

  // `models`: their metadata by name.
  StubServer(std::map<std::string, std::string> models, Script script)
      : models_(std::move(models)), script_(std::move(script)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    CHECK(::bind(listener_, plain, sizeof address) == 0 && ::listen(listener_, 4096) == 0);
    socklen_t size = sizeof address;
    CHECK(::getsockname(listener_, plain, &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~StubServer() {
    over_ = true;
    thread_.join();
    for (const Client& client : clients_) ::close(client.fd);
    ::close(listener_);
  }
  StubServer(const StubServer&) = delete;
  StubServer& operator=(const StubServer&) = delete;

  int port() const { return port_; }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }
  long requests() const { return asked_; }

 private:
  struct Client {
    int fd = -1;
    std::string in = {}, out = {};
    std::int64_t out_at = 0;
    bool answering = false, closes = false, gone = false;
  };

  void run() {
    while (!over_) {
      std::vector<pollfd> fds{{listener_, POLLIN, 0}};
      std::int64_t next = clock_.now_ns() + 5'000'000;
      for (const Client& client : clients_) {
        fds.push_back({client.fd, static_cast<short>(client.answering ? 0 : POLLIN), 0});
        if (client.answering) next = std::min(next, client.out_at);
      }
      const std::int64_t wait = std::max<std::int64_t>(next - clock_.now_ns(), 0);
      const timespec time{0, wait};
      ::ppoll(fds.data(), fds.size(), &time, nullptr);
      const std::int64_t now = clock_.now_ns();
      std::size_t i = 1;
      for (Client& client : clients_) {
        if ((fds[i++].revents & (POLLIN | POLLHUP | POLLERR)) != 0) read(client);
        if (client.answering && client.out_at <= now) write(client);
      }
      clients_.remove_if([](const Client& client) {
        if (client.gone) ::close(client.fd);
        return client.gone;
      });
      if ((fds[0].revents & POLLIN) != 0) accept();
    }
  }

  void accept() {
    for (int fd = 0; fd >= 0;) {
      fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) clients_.push_back({.fd = fd});
    }
  }

  void read(Client& client) {
    char room[65'536];
    const ssize_t count = ::recv(client.fd, room, sizeof room, 0);
    if (count == 0) client.gone = true;
    if (count <= 0) return;
    client.in.append(room, static_cast<std::size_t>(count));
    const std::size_t head = client.in.find("\r\n\r\n");
    if (head == std::string::npos) return;
    const std::size_t length = client.in.find("\r\nContent-Length: ");
    std::size_t whole = head + 4;
    if (length < head) whole += std::strtoul(client.in.c_str() + length + 18, nullptr, 10);
    if (client.in.size() < whole) return;
    const std::string request = client.in.substr(0, whole);
    client.in.erase(0, whole);
    answer(client, request);
  }

  void answer(Client& client, const std::string& request) {
    StubAnswer said{.status = 404};
    if (request.starts_with("GET /v2/models/")) {
      const std::string name = request.substr(15, request.find(' ', 15) - 15);
      if (models_.contains(name)) said = {.body = models_.at(name)};
    } else {
      said = script_(asked_++, request);
    }
    if (said.stalls_ns > 0) clock_.sleep_ns(said.stalls_ns);
    if (said.hangs_up) {
      client.gone = true;
      return;
    }
    client.answering = true;
    client.closes = said.closes;
    client.out_at = clock_.now_ns() + said.after_ns;
    client.out =
        fmt::format("HTTP/1.1 {} X\r\nContent-Length: {}\r\n{}\r\n{}", said.status,
                    said.body.size(), said.closes ? "Connection: close\r\n" : "", said.body);
  }

  void write(Client& client) {
    const bool sent = ::send(client.fd, client.out.data(), client.out.size(), MSG_NOSIGNAL) ==
                      static_cast<ssize_t>(client.out.size());
    client.answering = false;
    client.gone = !sent || client.closes;
  }

  const std::map<std::string, std::string> models_;
  const Script script_;
  RealClock clock_;
  int listener_ = -1, port_ = 0;
  std::list<Client> clients_;
  std::atomic<long> asked_ = 0;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace partita::serve
