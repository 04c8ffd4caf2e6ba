// An HTTP client for tests, on the thread of the server: whenever it waits, it lets the loop run.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/door/loop.h"

namespace partita::serve::test {

inline constexpr std::int64_t kMilli = 1'000'000;
inline constexpr std::int64_t kPatience = 5'000 * kMilli;  // of a test, before it fails

class RawClient {
 public:
  // `host`: of 127.0.0.x, where it comes from.
  RawClient(Loop& loop, int port, int receive_buffer = 0, std::uint32_t host = 1) : loop_(loop) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (receive_buffer > 0)
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
    if (host != 1) ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  ~RawClient() { leave(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  int fd() const { return fd_; }
  void leave() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void turn() { loop_.run_until(Loop::now_ns() + kMilli); }
  void send(std::string_view bytes) {
    const std::int64_t end = Loop::now_ns() + kPatience;
    while (!bytes.empty() && Loop::now_ns() < end) {
      const auto count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count > 0)
        bytes.remove_prefix(static_cast<std::size_t>(count));
      else
        turn();
    }
    turn();
  }
  void send_now(std::string_view bytes) { ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  bool fetch() {  // what is there; false at the end
    char bytes[65536];
    const auto count = ::recv(fd_, bytes, sizeof bytes, 0);
    if (count > 0) input_.append(bytes, static_cast<std::size_t>(count));
    return count > 0 || (count < 0 && errno == EAGAIN);
  }
  // Whether the other side has closed, within the patience.
  bool closed() {
    const std::int64_t end = Loop::now_ns() + kPatience;
    while (Loop::now_ns() < end) {
      if (!fetch()) return true;
      turn();
    }
    return false;
  }
  struct Answer {
    int status = 0;
    std::string head, body;
    std::string header(const std::string& name) const {
      const std::size_t at = head.find("\r\n" + name + ": ");
      if (at == std::string::npos) return "";
      const std::size_t begin = at + name.size() + 4;
      return head.substr(begin, head.find("\r\n", begin) - begin);
    }
  };
  Answer answer(bool with_body = true) {
    Answer got;
    if (!wait([&] { return input_.find("\r\n\r\n") != std::string::npos; })) return got;
    const std::size_t end = input_.find("\r\n\r\n") + 4;
    got.head = input_.substr(0, end);
    std::from_chars(got.head.data() + 9, got.head.data() + 12, got.status);
    input_.erase(0, end);
    if (!with_body || got.status == 100) return got;
    if (got.header("Transfer-Encoding") == "chunked") {
      got.body = chunked();
      return got;
    }
    const auto length = static_cast<std::size_t>(std::stoul(got.header("Content-Length")));
    wait([&] { return input_.size() >= length; });
    got.body = input_.substr(0, length);
    input_.erase(0, length);
    return got;
  }
  std::string& input() { return input_; }
  template <class F>
  bool wait(F&& until) {
    const std::int64_t end = Loop::now_ns() + kPatience;
    while (!until() && Loop::now_ns() < end) {
      turn();
      if (fd_ >= 0) fetch();
    }
    return until();
  }

 private:
  std::string chunked() {
    std::string body;
    while (wait([&] { return input_.find("\r\n") != std::string::npos; })) {
      const std::size_t size = std::stoul(input_, nullptr, 16);
      const std::size_t begin = input_.find("\r\n") + 2;
      if (!wait([&] { return input_.size() >= begin + size + 2; })) break;
      body += input_.substr(begin, size);
      input_.erase(0, begin + size + 2);
      if (size == 0) return body;
    }
    return body + "<no end>";
  }
  Loop& loop_;
  int fd_ = -1;
  std::string input_;
};

inline std::string request(const std::string& line, const std::string& body,
                           const std::string& headers = "") {
  return line + " HTTP/1.1\r\nHost: h\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace partita::serve::test
