#include "act/http_probes.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <optional>

#include "base/descriptor.h"

namespace partita::actuate {
namespace {

constexpr std::size_t kStatusEnd = 12;  // of "HTTP/1.1 200"

struct ProbeAddress {
  sockaddr_storage raw{};
  socklen_t size = 0;
};

std::optional<ProbeAddress> address_of(const Url& url) {
  ProbeAddress address;
  auto* four = reinterpret_cast<sockaddr_in*>(&address.raw);
  auto* six = reinterpret_cast<sockaddr_in6*>(&address.raw);
  if (::inet_pton(AF_INET, url.host.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(static_cast<std::uint16_t>(url.port));
    address.size = sizeof *four;
    return address;
  }
  if (::inet_pton(AF_INET6, url.host.c_str(), &six->sin6_addr) != 1) return std::nullopt;
  six->sin6_family = AF_INET6;
  six->sin6_port = htons(static_cast<std::uint16_t>(url.port));
  address.size = sizeof *six;
  return address;
}

bool later() {
  return errno == EAGAIN || errno == EINPROGRESS || errno == ENOTCONN || errno == EINTR;
}

}  // namespace

Result<Url> parse_probe_url(const std::string& context, std::string_view text) {
  Result<Url> url = parse_url(context, text);
  if (!url) return url;
  if (url->host == "localhost") url->host = "127.0.0.1";
  if (url->path.empty()) url->path = "/";
  if (url->tls) return bad_input(context, fmt::format("'{}': probes speak http, not https", text));
  if (!address_of(*url)) return bad_input(context, fmt::format("'{}' names no address", text));
  return url;
}

struct RealHttpProbes::Asking {
  Descriptor fd;
  std::string request, answer = {};
  bool sent = false;
  std::optional<bool> well = {};

  Asking(const Url& url, const ProbeAddress& address)
      : fd(::socket(address.raw.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
        request(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                            url.path)) {
    const auto* raw = reinterpret_cast<const sockaddr*>(&address.raw);
    if (fd.get() < 0 || (::connect(fd.get(), raw, address.size) != 0 && !later())) well = false;
  }

  void go_on() {
    if (!sent && !well) {
      const ssize_t count = ::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
      if (count < 0 && later()) return;
      sent = count == static_cast<ssize_t>(request.size());
      if (!sent) well = false;
    }
    std::array<char, 256> room{};
    while (!well) {
      const ssize_t count = ::recv(fd.get(), room.data(), room.size(), 0);
      if (count < 0 && later()) return;
      if (count > 0) answer.append(room.data(), static_cast<std::size_t>(count));
      if (count <= 0)
        well = false;
      else if (answer.size() >= kStatusEnd)
        well = answer.starts_with("HTTP/1.") && answer.compare(8, 2, " 2") == 0;
    }
  }
};

RealHttpProbes::RealHttpProbes() = default;
RealHttpProbes::~RealHttpProbes() = default;

long RealHttpProbes::begin(const std::string& url) {
  const Result<Url> parsed = parse_probe_url("", url);
  const auto address = parsed ? address_of(*parsed) : std::nullopt;
  asked_[next_] =
      std::make_unique<Asking>(parsed.value_or(Url{}), address.value_or(ProbeAddress{}));
  return next_++;
}

std::vector<ProbeEnd> RealHttpProbes::ended() {
  std::vector<ProbeEnd> ends;
  for (auto it = asked_.begin(); it != asked_.end();) {
    it->second->go_on();
    const std::optional<bool> well = it->second->well;
    if (well) ends.push_back({it->first, *well});
    it = well ? asked_.erase(it) : std::next(it);
  }
  return ends;
}

void RealHttpProbes::abandon(long id) { asked_.erase(id); }

}  // namespace partita::actuate
