#include "serve/load/target_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/parse_number.h"

namespace partita::serve {
namespace {

constexpr std::string_view kPlain = "http://", kTls = "https://";

// Nothing that ends a header line or a word of it.
bool harmless(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace

Result<TargetUrl> parse_target_url(const std::string& context, const std::string& text) {
  const auto refuse = [&](const std::string& why) {
    return bad_input(context, fmt::format("'{}' is not http://HOST[:PORT][/PREFIX]: {}",
                                          text.substr(0, kMaxUrlBytes), why));
  };
  TargetUrl url;
  url.tls = text.starts_with(kTls);
  if (!url.tls && !text.starts_with(kPlain)) return refuse("it begins with neither http nor https");
  if (text.size() > kMaxUrlBytes || !harmless(text)) return refuse("too long, or odd characters");
  url.port = url.tls ? 443 : 80;
  std::string rest = text.substr(url.tls ? kTls.size() : kPlain.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  url.prefix = rest.substr(slash);
  while (url.prefix.ends_with('/')) url.prefix.pop_back();
  rest.resize(slash);
  if (url.prefix.find_first_of("?#") != std::string::npos || rest.find('@') != std::string::npos)
    return refuse("it has a query, a fragment or a user");
  std::size_t host_end = rest.find(':');
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == std::string::npos) return refuse("a bracket is not closed");
    url.host = rest.substr(1, close - 1);
    host_end = close + 1;
  } else {
    url.host = rest.substr(0, host_end);
  }
  if (url.host.empty()) return refuse("it names no host");
  if (host_end >= rest.size()) return url;
  const std::optional<int> port = parse_number<int>(std::string_view(rest).substr(host_end + 1));
  if (rest[host_end] != ':' || !port || *port < 1 || *port > 65535)
    return refuse("its port is not 1 to 65535");
  url.port = *port;
  return url;
}

std::string authority_of(const TargetUrl& url) {
  const bool six = url.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", six ? "[" : "", url.host, six ? "]" : "", url.port);
}

}  // namespace partita::serve
