#include "api/server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "api/site.h"
#include "base/door/access_log.h"
#include "base/door/address.h"
#include "base/door/listener.h"
#include "base/files.h"
#include "base/quiet_thread.h"
#include "base/secret_file.h"

namespace partita::api {

namespace {

constexpr unsigned kSocketMode = 0660;
constexpr std::int64_t kRereadNs = 1'000'000'000;

// Tells one content of a file from the next.
struct FileStamp {
  timespec changed = {};
  off_t size = -1;
  ino_t inode = 0;
  bool operator==(const FileStamp& other) const {
    return changed.tv_sec == other.changed.tv_sec && changed.tv_nsec == other.changed.tv_nsec &&
           size == other.size && inode == other.inode;
  }
};

FileStamp stamp_of(const std::string& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return {};
  return {status.st_mtim, status.st_size, status.st_ino};
}

template <class T>
Result<T> read_rules(const std::string& file,
                     Result<T> (*parse)(const std::string&, std::string_view)) {
  TRY(check_trusted_file(file));
  RealFiles files;
  const auto text = TRY(files.read(file));
  return parse(file, text);
}

Result<void> give_to_group(const std::string& path, unsigned group) {
  if (::chown(path.c_str(), static_cast<uid_t>(-1), group) == 0) return {};
  return environment_error(path,
                           std::string("cannot be given to its group: ") + std::strerror(errno));
}

}  // namespace

struct Server::Impl {
  Impl(std::unique_ptr<serve::Loop> on, Backend& backend, ServerOptions given)
      : options(std::move(given)),
        loop(std::move(on)),
        site(*loop, backend, options),
        desk{.site = site, .limits = site.door_limits, .counts = site.counts},
        reread(*loop, [this](std::int64_t due) { look_at_files(due); }) {}
  ~Impl() { stop(); }

  Result<void> read_files();
  Result<void> listen();
  Result<void> listen_on_socket();
  Result<void> listen_on_tcp();
  void look_at_files(std::int64_t due_ns);
  void stop();

  const ServerOptions options;
  std::unique_ptr<serve::Loop> loop;
  ApiSite site;
  std::unique_ptr<serve::AccessLog> log = {};
  serve::Desk desk;
  std::vector<std::unique_ptr<serve::DoorListener>> listeners = {};  // end before what they use
  serve::Loop::Timer reread;
  FileStamp tokens_stamp = {}, roles_stamp = {};
  std::vector<std::string> addresses = {};
  std::thread thread = {};
};

Result<void> Server::Impl::read_files() {
  if (!options.tokens_file.empty()) {
    tokens_stamp = stamp_of(options.tokens_file);
    site.rules.tokens = TRY(read_rules(options.tokens_file, &parse_token_hashes));
  }
  if (!options.client_roles.empty()) {
    roles_stamp = stamp_of(options.client_roles);
    site.rules.certificates = TRY(read_rules(options.client_roles, &parse_certificate_roles));
  }
  if (!options.oidc.empty() && !site.rules.oidc) {
    site.rules.oidc = TRY(read_rules(options.oidc, &open_oidc));
  }
  return {};
}

// A file that cannot be read any more leaves what it said before in force.
void Server::Impl::look_at_files(std::int64_t due_ns) {
  const bool changed =
      (!options.tokens_file.empty() && !(stamp_of(options.tokens_file) == tokens_stamp)) ||
      (!options.client_roles.empty() && !(stamp_of(options.client_roles) == roles_stamp));
  if (changed)
    if (const auto read = read_files(); !read) site.keep_fault(to_string(read.error()));
  reread.at(std::max(due_ns + kRereadNs, serve::Loop::now_ns()));
}

Result<void> Server::Impl::listen_on_socket() {
  if (options.socket.front() != '/')
    return bad_input(options.socket, "the path of a socket begins with /");
  RealFiles files;
  if (auto made = files.make_directories(options.socket.substr(0, options.socket.rfind('/')));
      !made)
    return failed(made.error());
  const auto fd = TRY(serve::listen_on_path(options.socket, kSocketMode));
  listeners.push_back(serve::DoorListener::open(*loop, desk, fd));
  if (options.group) {
    site.rules.group = *options.group;
    if (auto given = give_to_group(options.socket, *options.group); !given)
      return failed(given.error());
  }
  addresses.push_back("unix:" + options.socket);
  return {};
}

Result<void> Server::Impl::listen_on_tcp() {
  const auto address = TRY(serve::parse_listen_address(options.listen));
  const bool secure = !options.tls_certificate.empty() || !options.tls_key.empty();
  const bool closed = site.rules.tokens || site.rules.certificates || site.rules.oidc;
  TRY(serve::check_exposure(options.listen, address, secure, closed));
  if (!secure && !options.client_ca.empty())
    return bad_input(options.client_ca, "client certificates need TLS");
  if (options.client_ca.empty() != options.client_roles.empty())
    return bad_input(options.client_ca.empty() ? options.client_roles : options.client_ca,
                     "client certificates need both their authority and their roles");
  std::shared_ptr<serve::TlsServer> tls;
  if (secure) {
    tls = TRY(serve::TlsServer::make(options.tls_certificate, options.tls_key, options.client_ca));
  }
  const auto fd = TRY(serve::listen_on(options.listen, address));
  site.tls = secure;
  listeners.push_back(serve::DoorListener::open(*loop, desk, fd, std::move(tls)));
  const std::string host = options.listen.substr(0, options.listen.rfind(':'));
  addresses.push_back((secure ? "https://" : "http://") + host + ":" +
                      std::to_string(listeners.back()->port()));
  return {};
}

Result<void> Server::Impl::listen() {
  if (options.socket.empty() && options.listen.empty())
    return bad_input("", "the server is to listen on a socket or an address");
  TRY(read_files());
  site.rules.owner = ::geteuid();
  if (!options.access_log.empty()) {
    log = TRY(serve::AccessLog::open({.file = options.access_log}));
    desk.log = log.get();
  }
  if (!options.listen.empty()) TRY(listen_on_tcp());
  if (!options.socket.empty()) TRY(listen_on_socket());
  return {};
}

void Server::Impl::stop() {
  site.close();
  if (!thread.joinable()) return;
  loop->stop();
  thread.join();
  listeners.clear();
  if (!options.socket.empty()) ::unlink(options.socket.c_str());
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::start(Backend& backend, ServerOptions options) {
  auto loop = TRY(serve::Loop::make());
  auto impl = std::make_unique<Impl>(std::move(loop), backend, std::move(options));
  TRY(impl->listen());
  impl->reread.at(serve::Loop::now_ns() + kRereadNs);
  impl->thread = quiet_thread([server = impl.get()] { server->loop->run(); });
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

std::vector<std::string> Server::addresses() const { return impl_->addresses; }

void Server::stop() { impl_->stop(); }

}  // namespace partita::api
