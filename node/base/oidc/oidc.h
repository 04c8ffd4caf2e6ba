// Oidc: bearer tokens of an OpenID provider, held against its keys and what a settings file says.
// Keys come from a file or a URL; they are read by a thread of its own, so that a provider that
// hangs keeps nobody waiting: anew every five minutes, and ten seconds after a key was unknown.
// While they cannot be read the last ones stay. Any thread may ask.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/oidc/jwt.h"
#include "base/result.h"

namespace partita {

// A YAML or JSON file:
//   issuer: https://login.example.com/
//   audience: partita
//   jwks: https://login.example.com/keys    # or a file beside this one
//   claim: realm_access.roles               # missing: roles
//   roles: {ml-team: resnet50 bert rps=200, operations: "*"}
struct OidcSettings {
  JwtWishes wishes = {};
  std::string jwks = {};
  std::string ca = {};  // certificates to trust at a URL; empty: the system's
  std::vector<std::pair<std::string, std::string>> roles = {};  // in their order: what each may
};
// bad_input at FILE:LINE; a file of keys is named relative to `file`.
Result<OidcSettings> parse_oidc(const std::string& file, std::string_view text);

class Oidc {
 public:
  // bad_input where a file of keys is none. Of a URL the first keys are waited for, 3 s at most.
  static Result<std::shared_ptr<Oidc>> open(OidcSettings settings);
  ~Oidc();

  // Whether a bearer token looks like one: three parts.
  static bool is_jwt(std::string_view token);
  tl::expected<Identity, JwtFault> identify(std::string_view token, std::int64_t now_s);
  const OidcSettings& settings() const;
  std::string fault() const;  // why the keys could not be read last; empty: they could

 private:
  struct Impl;
  explicit Oidc(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace partita
