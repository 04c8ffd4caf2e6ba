#include "base/http/http_stream.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/descriptor.h"
#include "base/secret_file.h"
#include "base/unix_socket.h"
#include "base/http/http_response.h"

namespace partita::serve {
namespace {

using Moved = HttpStream::Moved;

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using SslContext = std::unique_ptr<SSL_CTX, FreeSsl>;

std::string ssl_reason() {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  return text.data();
}

Result<SslContext> context_of(const TlsWishes& wishes) {
  TRY(check_secret_file(wishes.key));
  SslContext context(SSL_CTX_new(TLS_client_method()));
  if (!context) return environment_error("TLS", ssl_reason());
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (!wishes.certificate.empty() &&
      (SSL_CTX_use_certificate_chain_file(context.get(), wishes.certificate.c_str()) != 1 ||
       SSL_CTX_use_PrivateKey_file(context.get(), wishes.key.c_str(), SSL_FILETYPE_PEM) != 1))
    return bad_input(wishes.certificate, "cannot be shown as a certificate: " + ssl_reason());
  if (wishes.insecure) return context;
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  const bool trusted =
      wishes.ca_file.empty()
          ? SSL_CTX_set_default_verify_paths(context.get()) == 1
          : SSL_CTX_load_verify_locations(context.get(), wishes.ca_file.c_str(), nullptr) == 1;
  if (!trusted)
    return bad_input(wishes.ca_file.empty() ? "TLS" : wishes.ca_file,
                     "cannot read the certificates to trust: " + ssl_reason());
  return context;
}

Moved plain_result(ssize_t count) {
  if (count > 0) return {Moved::Kind::some, static_cast<std::size_t>(count)};
  if (count == 0) return {Moved::Kind::ended, 0};
  const bool later = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ||
                     errno == ENOTCONN || errno == EINPROGRESS;
  return {later ? Moved::Kind::blocked : Moved::Kind::broken, 0};
}

Moved ssl_result(SSL* ssl, int count) {
  if (count > 0) return {Moved::Kind::some, static_cast<std::size_t>(count)};
  const int error = SSL_get_error(ssl, count);
  ERR_clear_error();
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
    return {Moved::Kind::blocked, 0};
  return {error == SSL_ERROR_ZERO_RETURN ? Moved::Kind::ended : Moved::Kind::broken, 0};
}

}  // namespace

struct HttpStream::Impl {
  explicit Impl(int descriptor) : fd(descriptor) {}
  Descriptor fd;
  bool connecting = true;
  std::unique_ptr<SSL, FreeSsl> ssl;

  // Whether the connection stands; nothing said: not yet.
  Moved::Kind connected() {
    if (!connecting) return Moved::Kind::some;
    pollfd one{fd.get(), POLLOUT, 0};
    if (::poll(&one, 1, 0) == 0) return Moved::Kind::blocked;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    connecting = false;
    return error == 0 ? Moved::Kind::some : Moved::Kind::broken;
  }
};

HttpStream::HttpStream() = default;
HttpStream::HttpStream(HttpStream&&) noexcept = default;
HttpStream& HttpStream::operator=(HttpStream&&) noexcept = default;
HttpStream::~HttpStream() = default;

bool HttpStream::open() const { return impl_ != nullptr; }
int HttpStream::descriptor() const { return impl_->fd.get(); }

Moved HttpStream::write(std::span<const char> bytes) {
  if (const auto stands = impl_->connected(); stands != Moved::Kind::some) return {stands, 0};
  if (impl_->ssl) {
    const auto count = static_cast<int>(std::min<std::size_t>(bytes.size(), 1u << 20));
    return ssl_result(impl_->ssl.get(), SSL_write(impl_->ssl.get(), bytes.data(), count));
  }
  return plain_result(::send(impl_->fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

Moved HttpStream::read(std::span<char> room) {
  if (const auto stands = impl_->connected(); stands != Moved::Kind::some) return {stands, 0};
  if (impl_->ssl) {
    const auto count = static_cast<int>(std::min<std::size_t>(room.size(), 1u << 20));
    return ssl_result(impl_->ssl.get(), SSL_read(impl_->ssl.get(), room.data(), count));
  }
  Moved moved = plain_result(::recv(impl_->fd.get(), room.data(), room.size(), 0));
  moved.emptied = moved.bytes < room.size();
  return moved;
}

std::string HttpStream::certificate_fault() const {
  const long code = impl_->ssl ? SSL_get_verify_result(impl_->ssl.get()) : X509_V_OK;
  return code == X509_V_OK ? std::string() : X509_verify_cert_error_string(code);
}

struct HttpDialer::Impl {
  Url url;
  sockaddr_storage address{};
  socklen_t address_size = 0;
  SslContext tls;
  std::string name;  // of the server's certificate; an address: of its host
  std::optional<UnixAddress> unix_address;

  const sockaddr* where() const {
    return unix_address ? unix_address->get() : reinterpret_cast<const sockaddr*>(&address);
  }
};

HttpDialer::HttpDialer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpDialer::HttpDialer(HttpDialer&&) noexcept = default;
HttpDialer::~HttpDialer() = default;

Result<HttpDialer> HttpDialer::to(const Url& url, const TlsWishes& tls) {
  auto impl = std::make_unique<Impl>();
  impl->url = url;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code =
      ::getaddrinfo(url.host.c_str(), std::to_string(url.port).c_str(), &hints, &found);
  if (code != 0) return environment_error(url.host, ::gai_strerror(code));
  std::memcpy(&impl->address, found->ai_addr, found->ai_addrlen);
  impl->address_size = found->ai_addrlen;
  ::freeaddrinfo(found);
  if (url.tls) {
    impl->tls = TRY(context_of(tls));
    impl->name = tls.name.empty() ? url.host : tls.name;
  }
  return HttpDialer(std::move(impl));
}

Result<HttpDialer> HttpDialer::to_socket(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  impl->url.host = "localhost";
  impl->unix_address = TRY(UnixAddress::of(path));
  impl->address.ss_family = AF_UNIX;
  impl->address_size = UnixAddress::size();
  return HttpDialer(std::move(impl));
}

std::string HttpDialer::request(std::string_view verb, std::string_view path,
                                std::string_view headers, std::string_view body) const {
  const std::string length =
      verb == "GET" ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return request_head(verb, impl_->url, path)
      .append(headers)
      .append(length + "Connection: close\r\n\r\n")
      .append(body);
}

HttpStream HttpDialer::dial() const {
  HttpStream stream;
  auto made = std::make_unique<HttpStream::Impl>(
      ::socket(impl_->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (made->fd.get() < 0) return stream;
  const int on = 1;
  if (!impl_->unix_address) ::setsockopt(made->fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const int code = ::connect(made->fd.get(), impl_->where(), impl_->address_size);
  if (code != 0 && errno != EINPROGRESS) return stream;
  made->connecting = code != 0;
  if (impl_->tls) {
    made->ssl.reset(SSL_new(impl_->tls.get()));
    const bool ready = made->ssl && SSL_set_fd(made->ssl.get(), made->fd.get()) == 1;
    if (!ready) return stream;
    SSL_set_connect_state(made->ssl.get());
    if (is_address(impl_->name)) {
      X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(made->ssl.get()), impl_->name.c_str());
    } else {
      SSL_set_tlsext_host_name(made->ssl.get(), impl_->name.c_str());
      SSL_set1_host(made->ssl.get(), impl_->name.c_str());
    }
  }
  stream.impl_ = std::move(made);
  return stream;
}

namespace {

// Both directions of one request, until the answer is there.
class OneFetch {
 public:
  OneFetch(HttpStream stream, const std::string& request, std::uint64_t most_bytes)
      : stream_(std::move(stream)), request_(request), answer_(most_bytes) {}
  int descriptor() const { return stream_.descriptor(); }
  bool writes() const { return sent_ < request_.size(); }
  const HttpResponse& answer() const { return answer_; }
  std::string take_body() { return answer_.take_body(); }
  std::string fault() const {
    const std::string certificate = stream_.certificate_fault();
    if (!certificate.empty()) return "its certificate: " + certificate;
    return answer_.begun() ? fmt::format("a broken answer: {}", answer_.why())
                           : "the connection was refused or closed";
  }
  // False once nothing more can come.
  bool pump() {
    while (sent_ < request_.size()) {
      const Moved moved = stream_.write(std::span(request_).subspan(sent_));
      if (moved.kind == Moved::Kind::blocked) break;
      if (moved.kind != Moved::Kind::some) return false;
      sent_ += moved.bytes;
    }
    std::array<char, 16'384> room{};
    while (answer_.state() < HttpResponse::State::done) {
      const Moved moved = stream_.read(room);
      if (moved.kind == Moved::Kind::blocked) return true;
      if (moved.kind != Moved::Kind::some) {
        answer_.end();
        return false;
      }
      answer_.take(std::span(room).first(moved.bytes));
    }
    return false;
  }

 private:
  HttpStream stream_;
  const std::string& request_;
  std::size_t sent_ = 0;
  HttpResponse answer_;
};

// A peer that is gone without a word is found within half a minute, though nothing is sent.
void keep_alive(int socket) {
  const int on = 1, idle_s = 10, again_s = 5, times = 3;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &again_s, sizeof again_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

Error not_connected(int code) {
  return {code == EACCES ? ErrorCode::denied : ErrorCode::lost,
          std::string("cannot connect: ") + std::strerror(code), ""};
}

}  // namespace

Result<FetchedAnswer> fetch(const HttpDialer& dialer, const std::string& request, Clock& clock,
                            std::int64_t patience_ns, std::uint64_t most_bytes) {
  HttpStream stream = dialer.dial();
  if (!stream.open()) return failed(not_connected(errno));
  const std::int64_t until = clock.now_ns() + patience_ns;
  OneFetch one(std::move(stream), request, most_bytes);
  while (one.pump()) {
    const std::int64_t left = until - clock.now_ns();
    if (left <= 0) return environment_error("", "no answer in time");
    pollfd wait{one.descriptor(), static_cast<short>(one.writes() ? POLLIN | POLLOUT : POLLIN), 0};
    ::poll(&wait, 1, static_cast<int>(std::min<std::int64_t>(left / 1'000'000 + 1, 100)));
  }
  if (one.answer().state() != HttpResponse::State::done) return environment_error("", one.fault());
  return FetchedAnswer{one.answer().status(), one.answer().body()};
}

Result<void> fetch_pieces(const HttpDialer& dialer, const std::string& request, Clock& clock,
                          std::int64_t silence_ns, const TakePiece& take) {
  HttpStream stream = dialer.dial();
  if (!stream.open()) return failed(not_connected(errno));
  keep_alive(stream.descriptor());
  const std::int64_t begin = clock.now_ns();
  std::int64_t until = begin + silence_ns;
  OneFetch one(std::move(stream), request, std::numeric_limits<std::uint64_t>::max());
  for (bool more = true; more;) {
    more = one.pump();
    const std::string piece = one.take_body();
    if (!piece.empty()) until = clock.now_ns() + silence_ns;
    if (!piece.empty() && !take(one.answer().status(), piece)) return {};
    if (!more) break;
    const std::int64_t now = clock.now_ns();
    if (!one.answer().begun() && now - begin >= kMostUnanswered)
      return environment_error("", "no answer in time");
    if (now >= until) return environment_error("", "nothing came for too long");
    if (!take(one.answer().status(), {})) return {};
    pollfd wait{one.descriptor(), static_cast<short>(one.writes() ? POLLIN | POLLOUT : POLLIN), 0};
    ::poll(&wait, 1, 100);
  }
  if (one.answer().state() != HttpResponse::State::done) return environment_error("", one.fault());
  return {};
}

}  // namespace partita::serve
