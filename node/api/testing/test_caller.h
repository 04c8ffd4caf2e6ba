// A client of the API for tests: blocking, one connection, plain or a Unix socket.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace partita::api::test {

inline constexpr int kPatienceMs = 60'000;  // of a test, before it fails

class RawCaller {
 public:
  struct Answer {
    int status = 0;  // 0: none came
    std::string head, body;
    std::string header(const std::string& name) const {
      const std::size_t at = head.find("\r\n" + name + ": ");
      if (at == std::string::npos) return "";
      const std::size_t begin = at + name.size() + 4;
      return head.substr(begin, head.find("\r\n", begin) - begin);
    }
  };

  // "http://127.0.0.1:4711" or "unix:/path".
  explicit RawCaller(const std::string& address, int receive_buffer = 0) {
    if (address.starts_with("unix:")) {
      sockaddr_un where{};
      where.sun_family = AF_UNIX;
      std::strncpy(where.sun_path, address.c_str() + 5, sizeof where.sun_path - 1);
      fd_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
      connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0;
      return;
    }
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer > 0)
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0;
  }
  ~RawCaller() { leave(); }
  RawCaller(RawCaller&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        connected_(other.connected_),
        input_(std::move(other.input_)) {}
  RawCaller& operator=(RawCaller&&) = delete;

  bool connected() const { return connected_; }
  void leave() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  // Whether text comes; what came stays.
  bool comes(std::string_view text, int patience_ms = kPatienceMs) {
    std::size_t from = 0;  // megabytes are not searched again for every piece that comes
    const auto found = [&] {
      if (input_.find(text, from) != std::string::npos) return true;
      from = input_.size() < text.size() ? 0 : input_.size() - text.size();
      return false;
    };
    return fetch(found, patience_ms);
  }
  // Whether what came ends so; at the latest after the patience. Of a stream: after whole chunks.
  bool ends(std::string_view text) {
    return fetch([&] { return input_.ends_with(text); }, kPatienceMs);
  }
  // Whether the other side closes, within the patience.
  bool closed(int patience_ms = kPatienceMs) {
    fetch([] { return false; }, patience_ms);
    return ended_;
  }
  std::string& input() { return input_; }
  Answer answer() {
    Answer got;
    if (!comes("\r\n\r\n")) return got;
    const std::size_t end = input_.find("\r\n\r\n") + 4;
    got.head = input_.substr(0, end);
    got.status = std::atoi(got.head.c_str() + 9);
    input_.erase(0, end);
    const auto length = static_cast<std::size_t>(std::atoi(got.header("Content-Length").c_str()));
    fetch([&] { return input_.size() >= length; }, kPatienceMs);
    got.body = input_.substr(0, length);
    input_.erase(0, length);
    return got;
  }
  Answer call(std::string_view method, std::string_view target, const std::string& headers = "",
              const std::string& body = "") {
    send(std::string(method) + " " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n" +
         headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return answer();
  }

 private:
  template <class Until>
  bool fetch(Until until, int patience_ms) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
    while (!until()) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      pollfd one{.fd = fd_, .events = POLLIN, .revents = 0};
      if (left.count() <= 0 || ::poll(&one, 1, static_cast<int>(left.count())) <= 0) return false;
      char bytes[65'536];
      const auto count = ::recv(fd_, bytes, sizeof bytes, 0);
      if (count <= 0) {
        ended_ = true;
        return until();
      }
      input_.append(bytes, static_cast<std::size_t>(count));
    }
    return true;
  }
  int fd_ = -1;
  bool connected_ = false, ended_ = false;
  std::string input_ = {};
};

}  // namespace partita::api::test
