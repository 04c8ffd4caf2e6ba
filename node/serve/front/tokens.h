// Who may use which service: bearer tokens. A file has a line per token: the token, then the
// services it is for, or '*' for all; '#' begins a comment.
//
// Of language models it may say how much a minute may have: requests (rpm) and tokens (tpm); of
// other services how much a second may have (rps, bytes), how many requests at once (at-once), and
// the weight of its share where more is asked than a service carries.
//
//   s3cret-of-the-web-shop   resnet50 bert rps=200 bytes=50000000 at-once=64 weight=3
//   s3cret-of-the-help-desk  chat rpm=60 tpm=100000
//   s3cret-of-operations     *
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "base/result.h"
#include "serve/openai/token_limits.h"

namespace partita::serve {

inline constexpr std::size_t kMinTokenBytes = 16, kMaxTokenBytes = 512;
inline constexpr std::size_t kMaxTokens = 10'000;

struct Token {
  std::string secret = {};
  bool all = false;                        // every service, and what concerns all of them
  std::vector<std::string> services = {};  // sorted
  KeyLimits limits = {};
  std::string name = {};  // of its key: "token 3", after its place in the file
  bool operator==(const Token&) const = default;
};

// Lives as long as a request that came with it.
using HeldToken = std::shared_ptr<const Token>;

// The tokens of a file. Each is found in about the same time, however many they are.
class Tokens {
 public:
  Tokens() = default;
  explicit Tokens(std::vector<Token> tokens);
  bool empty() const { return all_.empty(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  // The token of "Bearer SECRET", or null. How long it takes tells nothing but the length: what is
  // compared in order are hashes, of which nobody can make one that is like another.
  const Token* find(std::string_view authorization) const;

 private:
  std::vector<Token> all_;
  std::map<std::string, std::size_t, std::less<>> by_hash_;  // when there are many
};

// What stands behind a token in its line: services and limits.
Result<Token> parse_grant(const std::string& context, std::string_view text);
// bad_input at FILE:LINE.
Result<Tokens> parse_tokens(const std::string& file, std::string_view text);

// What keeps this from being a token; empty: nothing.
std::string token_fault(std::string_view secret);

// SHA-256, in bytes: by which secrets are looked up.
std::string hash_of(std::string_view secret);

class OidcTokens;
// One of the file, or of an OpenID provider (null: there is none); else why neither.
tl::expected<HeldToken, std::string> held_token(const Tokens& tokens, OidcTokens* oidc,
                                                std::string_view authorization);
bool allows(const Token& token, std::string_view service);

}  // namespace partita::serve
