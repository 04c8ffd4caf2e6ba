#include "serve/front/oidc_tokens.h"

#include <algorithm>

namespace partita::serve {
Result<std::shared_ptr<OidcTokens>> OidcTokens::open(const std::string& file,
                                                     std::string_view text) {
  OidcSettings settings = TRY(parse_oidc(file, text));
  std::vector<Role> roles;
  for (const auto& [name, words] : settings.roles) {
    Token may = TRY(parse_grant(file + ": role '" + name + "'", words));
    roles.push_back({name, std::move(may)});
  }
  auto oidc = TRY(Oidc::open(std::move(settings)));
  return std::shared_ptr<OidcTokens>(new OidcTokens(std::move(oidc), std::move(roles)));
}

tl::expected<HeldToken, std::string> OidcTokens::find(std::string_view token, std::int64_t now_s) {
  if (!Oidc::is_jwt(token) || token.size() > kMostJwtBytes)
    return tl::unexpected<std::string>("no such token");
  const std::string hash = hash_of(token);
  {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(hash);
    if (known != known_.end() && now_s < known->second.expires_s) return known->second.token;
  }
  auto known = look_at(token, now_s);
  if (!known) return tl::unexpected(std::move(known.error()));
  remember(hash, *known, now_s);
  return known->token;
}

tl::expected<OidcTokens::Known, std::string> OidcTokens::look_at(std::string_view token,
                                                                 std::int64_t now_s) {
  const auto identity = oidc_->identify(token, now_s);
  if (!identity) return tl::unexpected(identity.error().why);
  auto own = std::make_shared<Token>();
  const Role* first = nullptr;
  for (const Role& role : roles_) {
    if (std::ranges::find(identity->roles, role.name) == identity->roles.end()) continue;
    if (!first) own->limits = role.may.limits;
    if (!first) first = &role;
    own->all |= role.may.all;
    own->services.insert(own->services.end(), role.may.services.begin(), role.may.services.end());
  }
  if (!first) return tl::unexpected<std::string>("the token has no role that may use anything");
  std::ranges::sort(own->services);
  const std::lock_guard lock(mutex_);
  const bool room = subjects_.size() < kMostSubjects || subjects_.contains(identity->subject);
  if (room) subjects_.insert(identity->subject);
  own->name = room ? "oidc " + identity->subject : "oidc role " + first->name;
  return Known{std::move(own), identity->expires_s + kJwtLeewayS};
}

void OidcTokens::remember(const std::string& hash, const Known& known, std::int64_t now_s) {
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMostRemembered)
    std::erase_if(known_, [&](const auto& one) { return one.second.expires_s <= now_s; });
  if (known_.size() >= kMostRemembered) known_.erase(known_.begin());
  known_.insert_or_assign(hash, known);
}

}  // namespace partita::serve
