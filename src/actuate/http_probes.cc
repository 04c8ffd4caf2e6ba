#include "actuate/http_probes.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "base/descriptor.h"
#include "base/parse_number.h"

namespace partita::actuate {
namespace {

constexpr std::size_t kStatusEnd = 12;  // of "HTTP/1.1 200"

struct ProbeAddress {
  sockaddr_storage raw{};
  socklen_t size = 0;
};

std::optional<ProbeAddress> address_of(const ProbeUrl& url) {
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

Result<ProbeUrl> parse_probe_url(const std::string& context, std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  const auto refuse = [&] {
    return bad_input(context, fmt::format("'{}' is not http://ADDRESS[:PORT][/PATH]", text));
  };
  const bool plain = std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
  if (!text.starts_with(kScheme) || !plain) return refuse();
  ProbeUrl url;
  std::string rest(text.substr(kScheme.size()));
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  if (slash < rest.size()) url.path = rest.substr(slash);
  rest.resize(slash);
  const std::size_t bracket = rest.starts_with('[') ? rest.find(']') : 0;
  if (bracket == std::string::npos) return refuse();
  const std::size_t colon = std::min(rest.find(':', bracket), rest.size());
  url.host = bracket > 0 ? rest.substr(1, bracket - 1) : rest.substr(0, colon);
  if (url.host == "localhost") url.host = "127.0.0.1";
  if (colon < rest.size()) {
    const auto port = parse_number<int>(std::string_view(rest).substr(colon + 1));
    if (!port || *port < 1 || *port > 65535) return refuse();
    url.port = *port;
  }
  if (!address_of(url)) return refuse();
  return url;
}

struct RealHttpProbes::Asking {
  Descriptor fd;
  std::string request, answer = {};
  bool sent = false;
  std::optional<bool> well = {};

  Asking(const ProbeUrl& url, const ProbeAddress& address)
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
  const Result<ProbeUrl> parsed = parse_probe_url("", url);
  const auto address = parsed ? address_of(*parsed) : std::nullopt;
  asked_[next_] =
      std::make_unique<Asking>(parsed.value_or(ProbeUrl{}), address.value_or(ProbeAddress{}));
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
