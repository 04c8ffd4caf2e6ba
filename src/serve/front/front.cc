#include "serve/front/front.h"

#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <list>
#include <utility>

#include "serve/front/access_log.h"
#include "serve/front/address.h"
#include "serve/front/front_connection.h"
#include "serve/front/transport.h"

namespace partita::serve {

namespace {

constexpr std::int64_t kTickNs = 250'000'000;
constexpr int kBacklog = 4096;
constexpr int kAcceptsAtOnce = 32;

std::string date_line() {
  std::tm utc{};
  const std::time_t now = std::time(nullptr);
  ::gmtime_r(&now, &utc);
  char text[64];
  const std::size_t length =
      std::strftime(text, sizeof text, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &utc);
  return {text, length};
}

Result<int> listen_on(const std::string& name, const ListenAddress& address) {
  const int fd = ::socket(address.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return environment_error(name, std::strerror(errno));
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto* where = reinterpret_cast<const sockaddr*>(&address.address);
  if (::bind(fd, where, address.length) != 0 || ::listen(fd, kBacklog) != 0) {
    const int error = errno;
    ::close(fd);
    return environment_error(name, std::string("cannot listen: ") + std::strerror(error));
  }
  return fd;
}

}  // namespace

struct Front::Impl {
  struct Entry {
    std::unique_ptr<FrontConnection> connection;
    bool is_idle = false;
    std::int64_t deadline = 0;  // for which it stands where it stands
  };
  using Entries = std::list<Entry>;

  Impl(Loop& on, Backend& backend, FrontOptions given, int listener_fd)
      : loop(on),
        options(std::move(given)),
        door{.backend = backend, .options = options},
        desk{.door = door},
        listener(listener_fd),
        tick(on, [this](std::int64_t due) { on_tick(due); }) {}

  void accept_some();
  void add(int fd, const sockaddr_storage& peer);
  void changed(Entries::iterator entry);
  void expire(Entries& entries, std::int64_t now, bool sorted);
  void on_tick(std::int64_t due);

  Loop& loop;
  const FrontOptions options;
  Door door;
  Desk desk;
  Descriptor listener;
  std::shared_ptr<TlsServer> tls = {};
  std::unique_ptr<AccessLog> log = {};
  Loop::Timer tick;
  Loop::Watch accepting = {};
  Entries idle = {};  // in the order of their deadlines
  Entries busy = {};
  Entries ended = {};  // to be destroyed outside of their calls
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);  // for what is posted
};

void Front::Impl::accept_some() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    const int fd = ::accept4(listener.get(), reinterpret_cast<sockaddr*>(&peer), &length,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      add(fd, peer);
      continue;
    }
    const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    if (full) accepting.want(false, false);  // until the next tick
    if (errno != ECONNABORTED && errno != EINTR) return;
  }
}

void Front::Impl::add(int fd, const sockaddr_storage& peer) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (door.connections >= options.limits.connections) {
    static constexpr std::string_view kFull =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
        "Connection: close\r\n\r\n";
    if (tls == nullptr) ::send(fd, kFull.data(), kFull.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    ::close(fd);
    ++door.answers[5];
    return;
  }
  busy.push_back(
      {.connection = std::make_unique<FrontConnection>(desk, fd, tls.get(), address_text(peer))});
  const auto entry = std::prev(busy.end());
  entry->connection->on_change = [this, entry] { changed(entry); };
  entry->connection->start(loop);
  if (tls == nullptr) changed(entry);  // a TLS one has a handshake to make first
}

// Called from inside of a connection, which is therefore not destroyed here.
void Front::Impl::changed(Entries::iterator entry) {
  FrontConnection& is = *entry->connection;
  Entries& home = entry->is_idle ? idle : busy;
  if (is.dead()) {
    if (ended.empty())
      loop.post([this, lives = std::weak_ptr(alive)] {
        if (!lives.expired()) ended.clear();
      });
    ended.splice(ended.end(), home, entry);
  } else if (is.idle() && (!entry->is_idle || entry->deadline != is.deadline())) {
    idle.splice(idle.end(), home, entry);
    entry->is_idle = true;
    entry->deadline = is.deadline();
  } else if (!is.idle() && entry->is_idle) {
    busy.splice(busy.end(), home, entry);
    entry->is_idle = false;
  }
}

void Front::Impl::expire(Entries& entries, std::int64_t now, bool sorted) {
  for (auto entry = entries.begin(); entry != entries.end();) {
    const auto here = entry++;
    if (here->connection->deadline() > now) {
      if (sorted) return;
      continue;
    }
    here->connection->expire();
    changed(here);
  }
}

void Front::Impl::on_tick(std::int64_t due) {
  const std::int64_t now = Loop::now_ns();
  desk.date = date_line();
  if (log != nullptr) log->flush();
  if (accepting) accepting.want(true, false);
  expire(idle, now, true);
  expire(busy, now, false);
  tick.at(std::max(due + kTickNs, now));
}

Front::Front(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Front::~Front() = default;

Result<std::unique_ptr<Front>> Front::open(Loop& loop, Backend& backend, FrontOptions options) {
  const auto address = parse_listen_address(options.listen);
  if (!address) return failed(address.error());
  const bool secure = !options.tls_certificate.empty() || !options.tls_key.empty();
  const std::string listen = options.listen;
  if (auto safe = check_exposure(listen, *address, secure, !options.tokens.empty()); !safe)
    return failed(safe.error());
  std::shared_ptr<TlsServer> tls;
  if (secure) {
    auto made = TlsServer::make(options.tls_certificate, options.tls_key);
    if (!made) return failed(made.error());
    tls = std::move(*made);
  }
  std::unique_ptr<AccessLog> log;
  if (!options.access_log.file.empty()) {
    auto opened = AccessLog::open(options.access_log);
    if (!opened) return failed(opened.error());
    log = std::move(*opened);
  }
  const auto listener = listen_on(listen, *address);
  if (!listener) return failed(listener.error());
  std::signal(SIGPIPE, SIG_IGN);
  auto impl = std::make_unique<Impl>(loop, backend, std::move(options), *listener);
  Impl& front = *impl;
  front.tls = std::move(tls);
  front.log = std::move(log);
  front.desk.log = front.log.get();
  front.desk.date = date_line();
  front.door.shared_memory_on = front.options.shared_memory.value_or(address->loopback);
  front.accepting = loop.watch(*listener, [&front](Readiness) { front.accept_some(); });
  front.tick.at(Loop::now_ns() + kTickNs);
  return std::unique_ptr<Front>(new Front(std::move(impl)));
}

int Front::port() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getsockname(impl_->listener.get(), reinterpret_cast<sockaddr*>(&address), &length);
  const std::string text = address_text(address);
  return std::stoi(text.substr(text.rfind(':') + 1));
}

std::size_t Front::connections() const { return impl_->door.connections; }

void Front::drain() {
  impl_->accepting.reset();
  impl_->listener.close_now();
  impl_->desk.closing = true;
  for (auto entry = impl_->idle.begin(); entry != impl_->idle.end();) {
    const auto here = entry++;
    here->connection->close_if_idle();
    impl_->changed(here);
  }
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace partita::serve
