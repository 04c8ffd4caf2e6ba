// OidcTokens: what those may use who show a token of an OpenID provider. Its roles say so, in the
// words of a line of the tokens file; who has several may use what any of them may, and has the
// limits of the first. A token is looked at once and remembered until it expires. Everybody is a
// key of its own, kMostSubjects of them at most; later ones share the key of their role. Any thread
// may ask.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "base/oidc/oidc.h"
#include "serve/front/tokens.h"

namespace partita::serve {

class OidcTokens {
 public:
  static constexpr std::size_t kMostSubjects = 10'000, kMostRemembered = 4'096;

  // bad_input at FILE:LINE: the settings, or what a role may.
  static Result<std::shared_ptr<OidcTokens>> open(const std::string& file, std::string_view text);

  // Else why it is not taken.
  tl::expected<HeldToken, std::string> find(std::string_view token, std::int64_t now_s);

 private:
  struct Role {
    std::string name;
    Token may;
  };
  struct Known {
    HeldToken token;
    std::int64_t expires_s = 0;
  };
  OidcTokens(std::shared_ptr<Oidc> oidc, std::vector<Role> roles)
      : oidc_(std::move(oidc)), roles_(std::move(roles)) {}
  tl::expected<Known, std::string> look_at(std::string_view token, std::int64_t now_s);
  void remember(const std::string& hash, const Known& known, std::int64_t now_s);

  const std::shared_ptr<Oidc> oidc_;
  const std::vector<Role> roles_;
  std::mutex mutex_;
  std::map<std::string, Known> known_;  // by the token's SHA-256
  std::set<std::string> subjects_;
};

}  // namespace partita::serve
