// URLs of HTTP servers. Pure; bounded.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace partita {

inline constexpr std::size_t kMaxUrlBytes = 2048;

struct Url {
  bool tls = false;
  std::string host = {};  // of an IPv6 address without its brackets
  int port = 80;
  std::string path = {};  // with its query; empty, or begins with /
  bool operator==(const Url&) const = default;
};

// http://HOST[:PORT][/PATH] or https://...; without user and fragment, and without characters that
// end a header line or a word of it. Anything else is bad_input with `context`.
Result<Url> parse_url(const std::string& context, std::string_view text);
// The same for a server whose paths follow: without a query, and without slashes at the end.
Result<Url> parse_url_prefix(const std::string& context, std::string_view text);
// Whether it is an address of IPv4 or IPv6 (without brackets) rather than a name.
bool is_address(const std::string& host);
// As in a Host header: "localhost:8080", "[::1]:8080".
std::string authority_of(const Url& url);

// The first lines of a request of HTTP/1.1: what of it ("/" where it is empty), and its Host.
std::string request_head(std::string_view verb, std::string_view target, std::string_view host);
// Of `path` behind the URL's.
std::string request_head(std::string_view verb, const Url& url, std::string_view path = {});
// A text as a part of a path or query.
std::string percent_encoded(std::string_view text);

}  // namespace partita
