#include "api/access.h"

#include <arpa/inet.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <set>

#include "base/door/constant_time.h"
#include "base/unicode.h"
#include "base/words.h"

namespace partita::api {

namespace {

constexpr std::size_t kMostBuckets = 10'000;
constexpr std::size_t kHashDigits = 64;

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

std::optional<Role> role_of(std::string_view word) {
  for (const Role role : {Role::viewer, Role::operator_, Role::admin})
    if (word == to_string(role)) return role;
  return std::nullopt;
}

struct Line {
  std::string context;
  std::string_view text;
};

// Lines that say something: without comments, blanks around them, and empty ones.
std::vector<Line> lines_of(const std::string& file, std::string_view text) {
  std::vector<Line> lines;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    const std::string_view said = trimmed(line.substr(0, line.find('#')));
    if (!said.empty()) lines.push_back({file + ":" + std::to_string(number), said});
  }
  return lines;
}

bool is_hash(std::string_view text) {
  return text.size() == kHashDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

// The host of "name:1", "[::1]:1", "10.0.0.1".
std::string_view without_port(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(0, authority.find(']') + 1);
  return authority.substr(0, authority.find(':'));
}

bool is_address(std::string_view host) {
  std::string text(host);
  std::array<char, sizeof(in6_addr)> scrap{};
  if (text.size() > 2 && text.front() == '[' && text.back() == ']')
    return ::inet_pton(AF_INET6, text.substr(1, text.size() - 2).c_str(), scrap.data()) == 1;
  return ::inet_pton(AF_INET, text.c_str(), scrap.data()) == 1;
}

Caller of_token(const std::vector<HashedToken>& tokens, std::string_view secret) {
  const std::string hash = sha256_hex(secret);
  const HashedToken* found = nullptr;
  for (const HashedToken& token : tokens)  // all of them, whichever it is
    if (serve::equal_in_constant_time(token.sha256, hash)) found = &token;
  if (found == nullptr) return {.user = "nobody", .bad_token = true};
  return {.user = "token " + found->name, .role = found->role};
}

Caller of_provider(const OidcRules& rules, std::string_view token) {
  const auto identity = rules.oidc->identify(token, ::time(nullptr));
  if (!identity) return {.user = "nobody", .bad_token = true};
  Caller caller{.user = "oidc " + identity->subject};
  for (const std::string& role : identity->roles)
    if (const auto found = rules.roles.find(role); found != rules.roles.end())
      caller.role = std::max(caller.role, found->second);
  return caller;
}

Caller of_user(const AccessRules& rules, const serve::Peer::User& user) {
  Caller caller{.user = user.uid == 0 ? "root" : "uid " + std::to_string(user.uid),
                .role = Role::viewer};
  const bool member =
      rules.group && std::ranges::find(user.groups, *rules.group) != user.groups.end();
  if (user.uid == 0 || user.uid == rules.owner)
    caller.role = Role::admin;
  else if (member)
    caller.role = Role::operator_;
  return caller;
}

}  // namespace

Result<std::vector<HashedToken>> parse_token_hashes(const std::string& file,
                                                    std::string_view text) {
  std::vector<HashedToken> tokens;
  std::set<std::string_view> names, hashes;
  for (const auto& [context, line] : lines_of(file, text)) {
    const std::size_t last = line.rfind(':');
    const std::size_t middle =
        last == line.npos || last == 0 ? line.npos : line.rfind(':', last - 1);
    if (middle == line.npos || middle == 0) return bad_input(context, "NAME:ROLE:SHA256 is wanted");
    const std::string_view name = trimmed(line.substr(0, middle));
    const auto role = role_of(trimmed(line.substr(middle + 1, last - middle - 1)));
    const std::string_view hash = trimmed(line.substr(last + 1));
    if (!name_fault(name).empty()) return bad_input(context, "the name is none");
    if (!role) return bad_input(context, "a role is viewer, operator or admin");
    if (!is_hash(hash))
      return bad_input(context,
                       "a SHA-256 hash has 64 digits of 0-9 and a-f: printf %s TOKEN | sha256sum");
    if (!names.insert(name).second || !hashes.insert(hash).second)
      return bad_input(context, "this name or token was said before");
    if (tokens.size() == kMaxTokens) return bad_input(context, "more than 10000 tokens");
    tokens.push_back({.name = std::string(name), .role = *role, .sha256 = std::string(hash)});
  }
  if (tokens.empty()) return bad_input(file, "there is no token in it");
  return tokens;
}

Result<CertificateRoles> parse_certificate_roles(const std::string& file, std::string_view text) {
  CertificateRoles roles;
  for (const auto& [context, line] : lines_of(file, text)) {
    const std::size_t colon = line.rfind(':');
    if (colon == line.npos || colon == 0) return bad_input(context, "CN:ROLE is wanted");
    const auto role = role_of(trimmed(line.substr(colon + 1)));
    const std::string_view name = trimmed(line.substr(0, colon));
    if (!role) return bad_input(context, "a role is viewer, operator or admin");
    if (!name_fault(name).empty()) return bad_input(context, "the name is none");
    if (!roles.emplace(name, *role).second) return bad_input(context, "this name was said before");
    if (roles.size() > kMaxTokens) return bad_input(context, "more than 10000 names");
  }
  if (roles.empty()) return bad_input(file, "there is no name in it");
  return roles;
}

Result<OidcRules> open_oidc(const std::string& file, std::string_view text) {
  OidcSettings settings = TRY(parse_oidc(file, text));
  OidcRules rules;
  for (const auto& [name, word] : settings.roles) {
    const auto role = role_of(word);
    if (!role) return bad_input(file, "role '" + name + "': a role is viewer, operator or admin");
    rules.roles.emplace(name, *role);
  }
  rules.oidc = TRY(Oidc::open(std::move(settings)));
  return rules;
}

std::string sha256_hex(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &length, EVP_sha256(), nullptr);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (unsigned i = 0; i < length; ++i) {
    out.push_back(kDigits[digest[i] >> 4]);
    out.push_back(kDigits[digest[i] & 15]);
  }
  return out;
}

Caller identify(const AccessRules& rules, const serve::Peer& peer, std::string_view authorization) {
  if (!authorization.empty()) {  // a token counts wherever it is shown
    const std::string_view secret = serve::bearer_of(authorization);
    if (rules.oidc && Oidc::is_jwt(secret)) return of_provider(*rules.oidc, secret);
    if (secret.data() == nullptr || secret.empty() || secret.size() > kMostTokenBytes ||
        !rules.tokens)
      return {.user = "nobody", .bad_token = true};
    return of_token(*rules.tokens, secret);
  }
  if (peer.user) return of_user(rules, *peer.user);
  if (!peer.certificate.empty() && rules.certificates) {
    const auto found = rules.certificates->find(peer.certificate);
    return {.user = "certificate " + peer.certificate,
            .role = found == rules.certificates->end() ? Role::open : found->second};
  }
  const bool open_house =
      !rules.tokens && !rules.certificates && !rules.oidc;  // then on loopback alone
  return {.user = open_house ? "local" : "nobody", .role = open_house ? Role::viewer : Role::open};
}

std::string browser_fault(const serve::HttpHead& head, bool tls,
                          const std::vector<std::string>& hosts) {
  const std::string_view host = without_port(head.host);
  const bool ours =
      is_address(host) || same_word(host, "localhost") ||
      std::ranges::any_of(hosts, [&](const auto& one) { return same_word(host, one); });
  if (head.host.empty() ? !head.http10 : !ours)
    return "this server does not go by the name that the header Host says";
  if (!head.origin.empty()) {
    const std::string own = (tls ? "https://" : "http://") + std::string(head.host);
    if (!same_word(head.origin, own)) return "another site's page may not call this server";
  }
  if (head.fetch_site == "cross-site" || head.fetch_site == "same-site")
    return "another site's page may not call this server";
  return {};
}

double RateLimit::fill(const Bucket& bucket, std::int64_t now_ns) const {
  const double seconds = static_cast<double>(now_ns - bucket.at_ns) / 1e9;
  return std::min(burst_, bucket.tokens + std::max(0.0, seconds) * per_second_);
}

// The fuller half and whoever is as full: they have called least.
void RateLimit::forget_some(std::int64_t now_ns) {
  std::vector<double> fills;
  for (const auto& [client, bucket] : buckets_) fills.push_back(fill(bucket, now_ns));
  const auto middle = fills.begin() + static_cast<std::ptrdiff_t>(fills.size() / 2);
  std::ranges::nth_element(fills, middle);
  std::erase_if(buckets_, [&](const auto& one) { return fill(one.second, now_ns) >= *middle; });
}

int RateLimit::wait_s(const std::string& client, std::int64_t now_ns) {
  auto found = buckets_.find(client);
  if (found == buckets_.end()) {
    if (buckets_.size() >= kMostBuckets) forget_some(now_ns);
    found = buckets_.emplace(client, Bucket{burst_, now_ns}).first;
  }
  Bucket& bucket = found->second;
  bucket.tokens = fill(bucket, now_ns);
  bucket.at_ns = now_ns;
  if (bucket.tokens >= 1) {
    bucket.tokens -= 1;
    return 0;
  }
  return std::max(1, static_cast<int>(std::ceil((1 - bucket.tokens) / per_second_)));
}

}  // namespace partita::api
