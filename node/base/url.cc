#include "base/url.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/parse_number.h"

namespace partita {
namespace {

constexpr std::string_view kHttp = "http://", kHttps = "https://";

bool harmless(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace

Result<Url> parse_url(const std::string& context, std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return bad_input(context, fmt::format("'{}' is not http://HOST[:PORT][/PATH]: {}",
                                          text.substr(0, kMaxUrlBytes), why));
  };
  Url url;
  url.tls = text.starts_with(kHttps);
  if (!url.tls && !text.starts_with(kHttp)) return refuse("it begins with neither http nor https");
  if (text.size() > kMaxUrlBytes || !harmless(text)) return refuse("too long, or odd characters");
  url.port = url.tls ? 443 : 80;
  std::string_view place = text.substr(url.tls ? kHttps.size() : kHttp.size());
  const std::size_t slash = std::min(place.find('/'), place.size());
  url.path = place.substr(slash);
  place = place.substr(0, slash);
  if (url.path.find('#') != std::string::npos || place.find_first_of("?#@") != place.npos)
    return refuse("it has a fragment, a user, or a query without a path");
  if (place.starts_with('[')) {
    const std::size_t close = place.find(']');
    if (close == place.npos) return refuse("a bracket is not closed");
    url.host = place.substr(1, close - 1);
    place.remove_prefix(close + 1);
  } else {
    url.host = place.substr(0, place.find(':'));
    place.remove_prefix(url.host.size());
  }
  if (url.host.empty()) return refuse("it names no host");
  if (place.empty()) return url;
  const std::optional<int> port =
      place[0] == ':' ? parse_number<int>(place.substr(1)) : std::nullopt;
  if (!port || *port < 1 || *port > 65'535) return refuse("its port is not 1 to 65535");
  url.port = *port;
  return url;
}

Result<Url> parse_url_prefix(const std::string& context, std::string_view text) {
  Url url = TRY(parse_url(context, text));
  if (url.path.find('?') != std::string::npos)
    return bad_input(context, fmt::format("'{}' has a query; paths are to follow it", text));
  while (url.path.ends_with('/')) url.path.pop_back();
  return url;
}

bool is_address(const std::string& host) {
  in6_addr number{};
  return ::inet_pton(AF_INET, host.c_str(), &number) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &number) == 1;
}

std::string authority_of(const Url& url) {
  const bool six = url.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", six ? "[" : "", url.host, six ? "]" : "", url.port);
}

std::string request_head(std::string_view verb, std::string_view target, std::string_view host) {
  return fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", verb, target.empty() ? "/" : target, host);
}

std::string request_head(std::string_view verb, const Url& url, std::string_view path) {
  return request_head(verb, url.path + std::string(path), authority_of(url));
}

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '.' || c == '_' || c == '~';
    out += safe ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace partita
