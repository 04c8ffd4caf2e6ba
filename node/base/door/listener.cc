#include "base/door/listener.h"

#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <list>
#include <map>
#include <optional>
#include <utility>

#include "base/descriptor.h"
#include "base/door/access_log.h"
#include "base/door/address.h"

namespace partita::serve {

namespace {

constexpr std::int64_t kTickNs = 250'000'000;
constexpr int kAcceptsAtOnce = 32;
constexpr std::size_t kOwnDescriptors = 128;  // files, links to workers, answers of others
constexpr std::size_t kKeptForOthers = 16;    // one of so many connections no address gets alone
constexpr int kLooksForRoom = 256;            // at connections, for one that can be closed

std::string date_line() {
  std::tm utc{};
  const std::time_t now = std::time(nullptr);
  ::gmtime_r(&now, &utc);
  char text[64];
  const std::size_t length =
      std::strftime(text, sizeof text, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &utc);
  return {text, length};
}

// Who is at the other end of a Unix socket, from the kernel.
Peer local_peer(int fd) {
  ucred who{};
  socklen_t length = sizeof who;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) return {.address = "unix"};
  Peer peer{.address = "uid " + std::to_string(who.uid), .user = Peer::User{.uid = who.uid}};
  std::vector<unsigned> groups(256);
  length = static_cast<socklen_t>(groups.size() * sizeof(unsigned));
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &length) != 0) length = 0;
  groups.resize(length / sizeof(unsigned));
  groups.push_back(who.gid);
  peer.user->groups = std::move(groups);
  return peer;
}

}  // namespace

struct DoorListener::Impl {
  struct Entry {
    std::unique_ptr<DoorConnection> connection;
    std::string host = {};  // of its client: an address, a user of this machine
    bool is_idle = false;
    std::int64_t deadline = 0;  // for which it stands where it stands
  };
  using Entries = std::list<Entry>;

  Impl(Loop& on, Desk& shared, int listener_fd, std::shared_ptr<TlsServer> with_tls)
      : loop(on),
        desk(shared),
        listener(listener_fd),
        tls(std::move(with_tls)),
        tick(on, [this](std::int64_t due) { on_tick(due); }) {}

  void accept_some();
  std::size_t most() const;
  bool room_for(const std::string& host);
  bool close_spare_of(const std::string& host);
  void add(int fd, const sockaddr_storage& peer);
  void changed(Entries::iterator entry);
  void expire(Entries& entries, std::int64_t now, bool sorted);
  void on_tick(std::int64_t due);

  Loop& loop;
  Desk& desk;
  Descriptor listener;
  std::shared_ptr<TlsServer> tls;
  Loop::Timer tick;
  Loop::Watch accepting = {};
  Entries idle = {};  // in the order of their deadlines
  Entries busy = {};
  std::map<std::string, std::size_t> hosts = {};  // connections of each
  Entries ended = {};                             // to be destroyed outside of their calls
  std::size_t most_connections = 0;
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);  // for what is posted
};

void DoorListener::Impl::accept_some() {
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

// A connection needs a descriptor, and others in this process need some, too.
std::size_t DoorListener::Impl::most() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length);
  const DoorLimits& limits = desk.limits;
  if (address.ss_family == AF_UNIX) return limits.local_connections;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return limits.connections;
  const auto reserved = kOwnDescriptors + limits.local_connections;
  const auto there = static_cast<std::size_t>(files.rlim_cur);
  return std::min(limits.connections, there > 2 * reserved ? there - reserved : there / 2);
}

// Where it is full, or one address has its share, a connection without a request makes room: of
// the newcomer's address, or of the one that has most.
bool DoorListener::Impl::room_for(const std::string& host) {
  const std::size_t limit = most_connections;
  const std::size_t share = limit - limit / kKeptForOthers;
  const auto mine = hosts.find(host);
  const std::size_t has = mine == hosts.end() ? 0 : mine->second;
  const bool full = idle.size() + busy.size() >= limit;
  if (!full && has < share) return true;
  if (full) {
    const auto most_of_all = std::max_element(hosts.begin(), hosts.end(),
                                              [](auto& a, auto& b) { return a.second < b.second; });
    if (most_of_all->second > has && close_spare_of(std::string(most_of_all->first))) return true;
  }
  return has > 0 && close_spare_of(host);
}

// The first that never asked for anything, else the one that has been idle for longest.
bool DoorListener::Impl::close_spare_of(const std::string& host) {
  std::optional<Entries::iterator> found;
  for (Entries* entries : {&idle, &busy}) {
    int looked = 0;
    for (auto entry = entries->begin(); entry != entries->end() && looked < kLooksForRoom;
         ++entry, ++looked) {
      if (entry->host != host || !entry->connection->spare()) continue;
      if (!found || !entry->connection->asked()) found = entry;
      if (!entry->connection->asked()) break;
    }
    if (found && !(*found)->connection->asked()) break;
  }
  if (!found) return false;
  (*found)->connection->close();
  changed(*found);
  ++desk.counts.displaced;
  return true;
}

void DoorListener::Impl::add(int fd, const sockaddr_storage& peer) {
  const int on = 1;
  if (peer.ss_family != AF_UNIX) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  Peer who = peer.ss_family == AF_UNIX ? local_peer(fd) : Peer{.address = address_text(peer)};
  const std::string host = host_of(who.address);
  if (!room_for(host)) {
    static constexpr std::string_view kFull =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
        "Connection: close\r\n\r\n";
    if (tls == nullptr) ::send(fd, kFull.data(), kFull.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    ::close(fd);
    ++desk.counts.answers[5];
    return;
  }
  ++hosts[host];
  busy.push_back(
      {.connection = std::make_unique<DoorConnection>(desk, fd, tls.get(), std::move(who)),
       .host = host});
  const auto entry = std::prev(busy.end());
  entry->connection->on_change = [this, entry] { changed(entry); };
  entry->connection->start(loop);
  if (tls == nullptr) changed(entry);  // a TLS one has a handshake to make first
}

// Called from inside of a connection, which is therefore not destroyed here.
void DoorListener::Impl::changed(Entries::iterator entry) {
  DoorConnection& is = *entry->connection;
  Entries& home = entry->is_idle ? idle : busy;
  if (is.dead()) {
    if (ended.empty())
      loop.post([this, lives = std::weak_ptr(alive)] {
        if (!lives.expired()) ended.clear();
      });
    if (const auto host = hosts.find(entry->host); --host->second == 0) hosts.erase(host);
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

void DoorListener::Impl::expire(Entries& entries, std::int64_t now, bool sorted) {
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

void DoorListener::Impl::on_tick(std::int64_t due) {
  const std::int64_t now = Loop::now_ns();
  desk.date = date_line();
  if (desk.log != nullptr) desk.log->flush();
  if (accepting) accepting.want(true, false);
  expire(idle, now, true);
  expire(busy, now, false);
  tick.at(std::max(due + kTickNs, now));
}

DoorListener::DoorListener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DoorListener::~DoorListener() = default;

std::unique_ptr<DoorListener> DoorListener::open(Loop& loop, Desk& desk, int fd,
                                                 std::shared_ptr<TlsServer> tls) {
  std::signal(SIGPIPE, SIG_IGN);
  auto impl = std::make_unique<Impl>(loop, desk, fd, std::move(tls));
  Impl& listener = *impl;
  desk.date = date_line();
  listener.most_connections = listener.most();
  listener.accepting = loop.watch(fd, [&listener](Readiness) { listener.accept_some(); });
  listener.tick.at(Loop::now_ns() + kTickNs);
  return std::unique_ptr<DoorListener>(new DoorListener(std::move(impl)));
}

int DoorListener::port() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getsockname(impl_->listener.get(), reinterpret_cast<sockaddr*>(&address), &length);
  if (address.ss_family == AF_UNIX) return 0;
  const std::string text = address_text(address);
  return std::stoi(text.substr(text.rfind(':') + 1));
}

void DoorListener::drain() {
  impl_->accepting.reset();
  impl_->listener.close_now();
  impl_->desk.closing = true;
  for (auto entry = impl_->idle.begin(); entry != impl_->idle.end();) {
    const auto here = entry++;
    if (here->connection->idle()) here->connection->close();
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
