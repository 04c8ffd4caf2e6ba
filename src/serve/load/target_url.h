// The server that load is sent to, from a URL: http or https, host, port and the prefix of its
// paths. Pure; bounded.
#pragma once

#include <string>

#include "base/result.h"

namespace partita::serve {

inline constexpr std::size_t kMaxUrlBytes = 2048;

struct TargetUrl {
  bool tls = false;
  std::string host;  // of an IPv6 address without its brackets
  int port = 80;
  std::string prefix = {};  // of every path; empty, or begins with / and does not end in one
  bool operator==(const TargetUrl&) const = default;
};

// http://HOST[:PORT][/PREFIX] or https://...; anything else is bad_input with `context`.
Result<TargetUrl> parse_target_url(const std::string& context, const std::string& text);
// As in a Host header: "localhost:8080", "[::1]:8080".
std::string authority_of(const TargetUrl& url);

}  // namespace partita::serve
