#include "serve/worker/http_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "serve/worker/warm_up.h"

namespace partita::serve {
namespace {

constexpr std::size_t kPiecesAtOnce = 512;
constexpr std::size_t kReadBytes = 65'536;

tl::unexpected<Error> http_error(std::string_view doing, int error) {
  return environment_error("forward", fmt::format("{}: {}", doing, std::strerror(error)));
}

// Waits until the socket is ready for `events`.
Result<void> await(int fd, short events, std::int64_t deadline) {
  for (;;) {
    const std::int64_t left = deadline - steady_ns();
    if (left <= 0) return failed({ErrorCode::timeout, "the server does not answer", "forward"});
    pollfd watched{fd, events, 0};
    const int ready = ::poll(&watched, 1, static_cast<int>(left / 1'000'000) + 1);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return http_error("cannot wait", errno);
  }
}

Result<Descriptor> connect_to(const addrinfo& address, std::int64_t deadline) {
  Descriptor fd(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return http_error("cannot make a socket", errno);
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return http_error("cannot connect", errno);
    TRY(await(fd.get(), POLLOUT, deadline));
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return http_error("cannot connect", error);
  }
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

}  // namespace

Result<Url> parse_server_url(const std::string& flag, const std::string& text) {
  Result<Url> url = parse_url_prefix(flag, text);
  if (url && url->tls)
    return bad_input(flag, "https is not spoken here; forward to a server on this machine");
  return url;
}

Result<HttpConnection> HttpConnection::open(const Url& url, std::int64_t deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(url.host.c_str(), std::to_string(url.port).c_str(), &hints, &found);
  if (error != 0) return environment_error(url.host, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  Result<Descriptor> fd = environment_error(url.host, "no address");
  for (const addrinfo* one = found; one != nullptr && !fd; one = one->ai_next)
    fd = connect_to(*one, deadline);
  if (!fd) {
    Error why = fd.error();
    why.context = authority_of(url);
    return failed(std::move(why));
  }
  return HttpConnection(*std::move(fd));
}

Result<void> HttpConnection::send(std::span<const std::string_view> pieces, std::int64_t deadline) {
  std::size_t done = 0, offset = 0;  // pieces sent whole, bytes of the next one
  std::vector<iovec> vectors;
  while (done < pieces.size()) {
    vectors.clear();
    for (std::size_t i = done; i < pieces.size() && vectors.size() < kPiecesAtOnce; ++i) {
      const std::string_view piece = pieces[i].substr(i == done ? offset : 0);
      vectors.push_back({const_cast<char*>(piece.data()), piece.size()});
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = vectors.size();
    const ssize_t sent = ::sendmsg(fd(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) {
      TRY(await(fd(), POLLOUT, deadline));
      continue;
    }
    if (sent < 0 && errno != EINTR) return http_error("cannot send", errno);
    offset += static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
    while (done < pieces.size() && offset >= pieces[done].size()) offset -= pieces[done++].size();
  }
  return {};
}

// What came to the reader; nothing: the connection has ended.
Result<void> HttpConnection::pass_on(HttpResponse& reader, std::span<const char> bytes) {
  if (bytes.empty()) reader.end();
  spoilt_ = reader.take(bytes) < bytes.size();
  if (reader.state() == HttpResponse::State::broken)
    return bad_input("the server's answer", reader.why());
  return {};
}

Result<void> HttpConnection::receive(HttpResponse& reader, std::int64_t deadline) {
  std::array<char, kReadBytes> buffer;
  for (;;) {
    const ssize_t size = ::recv(fd(), buffer.data(), buffer.size(), 0);
    if (size >= 0) return pass_on(reader, std::span(buffer).first(static_cast<std::size_t>(size)));
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return http_error("cannot receive", errno);
    TRY(await(fd(), POLLIN, deadline));
  }
}

Result<HttpResponse> HttpClient::ask(std::span<const std::string_view> pieces,
                                     std::uint64_t max_body) {
  const std::int64_t deadline = steady_ns() + timeout_ns_;
  const bool kept = connection_.has_value();
  Result<HttpResponse> answer = ask_once(pieces, max_body, deadline);
  if (!answer && kept && answer.error().code != ErrorCode::timeout)
    answer = ask_once(pieces, max_body, deadline);
  return answer;
}

Result<HttpResponse> HttpClient::ask_once(std::span<const std::string_view> pieces,
                                          std::uint64_t max_body, std::int64_t deadline) {
  if (!connection_)
    connection_ = TRY(HttpConnection::open(url_, deadline));
  HttpResponse reader(max_body);
  HttpConnection connection = *std::move(connection_);  // kept again only when all went well
  connection_.reset();
  TRY(connection.send(pieces, deadline));
  while (!reader.done()) {
    TRY(connection.receive(reader, deadline));
  }
  if (reader.keeps_alive() && !connection.spoilt()) connection_ = std::move(connection);
  return reader;
}

}  // namespace partita::serve
