// JSON Web Tokens (RFC 7519) signed with RS256 or ES256, and the keys that they are signed with
// (JWKS, RFC 7517). Nothing else is taken: no token without a signature, none with a shared secret,
// no key that came with the token. Pure but for OpenSSL; no clock: callers say what time it is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/document.h"
#include "base/result.h"

namespace partita {

inline constexpr std::size_t kMostJwtBytes = 8u << 10;
inline constexpr std::size_t kMostJwksBytes = 256u << 10, kMostJwks = 256;
inline constexpr std::int64_t kJwtLeewayS = 60;  // that clocks may differ

class Jwks {
 public:
  // bad_input for what is no JWKS, and for one without a key that signs with RS256 (2,048 to 8,192
  // bits) or ES256; keys of other kinds are passed over.
  static Result<Jwks> parse(const std::string& file, std::string_view text);

  enum class Found : std::uint8_t { good, bad, unknown_key };
  // Whether `signature` is one of `signed_text` by the key of that name, or without a name by the
  // only one for the algorithm.
  Found check(std::string_view algorithm, std::string_view key, std::string_view signed_text,
              std::string_view signature) const;

 private:
  struct Key {
    std::string id;
    bool elliptic = false;
    std::shared_ptr<void> key;  // EVP_PKEY
  };
  std::vector<Key> keys_;
};

struct JwtWishes {
  std::string issuer = {}, audience = {};
  std::string claim = "roles";  // a text, its words, or a list of texts; "a.b" is b of a
};

struct Identity {
  std::string subject = {};
  std::vector<std::string> roles = {};
  std::int64_t expires_s = 0;  // Unix time
  bool operator==(const Identity&) const = default;
};

struct JwtFault {
  std::string why;
  bool unknown_key = false;  // fresh keys may help
};
tl::expected<Identity, JwtFault> verify_jwt(std::string_view token, const Jwks& keys,
                                            const JwtWishes& wishes, std::int64_t now_s);

}  // namespace partita
