// Who calls, and what they may: tokens, certificates and users of the Unix socket -> a name and a
// role. Pure but for the hash; files are read by the server.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/operations.h"
#include "base/door/exchange.h"
#include "base/oidc/oidc.h"
#include "base/result.h"

namespace partita::api {

inline constexpr std::size_t kMaxTokens = 10'000;
inline constexpr std::size_t kMostTokenBytes = 512;

// A line of the tokens file: NAME:ROLE:SHA256, the hash of the token in hexadecimal digits.
struct HashedToken {
  std::string name;
  Role role = Role::viewer;
  std::string sha256;  // 64 digits, lower case
  bool operator==(const HashedToken&) const = default;
};
// bad_input at FILE:LINE: other forms, names or hashes said twice, no token at all.
Result<std::vector<HashedToken>> parse_token_hashes(const std::string& file, std::string_view text);

// Lines CN:ROLE of the common names of client certificates. bad_input at FILE:LINE.
using CertificateRoles = std::map<std::string, Role, std::less<>>;
Result<CertificateRoles> parse_certificate_roles(const std::string& file, std::string_view text);

std::string sha256_hex(std::string_view text);

// Who shows a token of an OpenID provider has the highest of their roles.
struct OidcRules {
  std::shared_ptr<Oidc> oidc;
  std::map<std::string, Role, std::less<>> roles;
};
// bad_input at FILE:LINE: the settings (base/oidc/oidc.h), or a role that is none.
Result<OidcRules> open_oidc(const std::string& file, std::string_view text);

struct AccessRules {
  std::optional<std::vector<HashedToken>> tokens = {};  // none: no token is asked for
  std::optional<CertificateRoles> certificates = {};
  std::optional<OidcRules> oidc = {};
  unsigned owner = 0;                  // admin on the Unix socket, as is root
  std::optional<unsigned> group = {};  // operators on the Unix socket
};

struct Caller {
  std::string user;  // "root", "uid 1000", "token ops", "oidc anna", "certificate ops", "local"
  Role role = Role::open;
  bool bad_token = false;  // one was shown that is none
};
Caller identify(const AccessRules& rules, const serve::Peer& peer, std::string_view authorization);

// Whether a browser that was told a wrong address for a name, or that shows another site's page, is
// behind a request (DNS rebinding, forgery): then why it is refused, else empty. `hosts`: names of
// this server besides addresses and localhost.
std::string browser_fault(const serve::HttpHead& head, bool tls,
                          const std::vector<std::string>& hosts);

// Calls per second of each client: a bucket of `burst`, filled at `per_second`. Bounded; the
// fullest buckets are forgotten first.
class RateLimit {
 public:
  RateLimit(double per_second, double burst) : per_second_(per_second), burst_(burst) {}
  // Zero: go on; else seconds to wait, at least 1.
  int wait_s(const std::string& client, std::int64_t now_ns);

 private:
  struct Bucket {
    double tokens = 0;
    std::int64_t at_ns = 0;
  };
  double fill(const Bucket& bucket, std::int64_t now_ns) const;
  void forget_some(std::int64_t now_ns);
  double per_second_, burst_;
  std::map<std::string, Bucket, std::less<>> buckets_;
};

}  // namespace partita::api
