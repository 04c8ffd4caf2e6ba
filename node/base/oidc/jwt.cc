#include "base/oidc/jwt.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/base64.h"
#include "base/split.h"
#include "base/unicode.h"

namespace partita {
namespace {

constexpr std::string_view kRsa = "RS256", kElliptic = "ES256";
constexpr int kFewestBits = 2048, kMostBits = 8192;
constexpr std::size_t kCoordinate = 32, kMostRoles = 1'000, kMostSubject = 256;
constexpr double kMostTime = 1e12;

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* value) const {
    Free(value);
  }
};
template <class T, auto Free>
using Owned = std::unique_ptr<T, Freed<Free>>;
using Params = Owned<OSSL_PARAM, OSSL_PARAM_free>;

// Without padding, in the alphabet of URLs (RFC 7515).
std::optional<std::string> base64url(std::string_view text) {
  std::string plain(text);
  for (char& c : plain) {
    if (c == '+' || c == '/' || c == '=') return std::nullopt;
    c = c == '-' ? '+' : c == '_' ? '/' : c;
  }
  plain.append((4 - plain.size() % 4) % 4, '=');
  return parse_base64(plain);
}

std::shared_ptr<void> made_key(const char* kind, OSSL_PARAM_BLD* build) {
  const Params params(OSSL_PARAM_BLD_to_param(build));
  const Owned<EVP_PKEY_CTX, EVP_PKEY_CTX_free> context(
      EVP_PKEY_CTX_new_from_name(nullptr, kind, nullptr));
  EVP_PKEY* key = nullptr;
  if (!params || !context || EVP_PKEY_fromdata_init(context.get()) <= 0 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, params.get()) <= 0)
    return nullptr;
  return {key, [](void* owned) { EVP_PKEY_free(static_cast<EVP_PKEY*>(owned)); }};
}

using Build = Owned<OSSL_PARAM_BLD, OSSL_PARAM_BLD_free>;
using Number = Owned<BIGNUM, BN_free>;

Number number_of(const std::string& bytes) {
  return Number(BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()),
                          static_cast<int>(bytes.size()), nullptr));
}

std::shared_ptr<void> rsa_key(const std::string& modulus, const std::string& exponent) {
  const Number n = number_of(modulus), e = number_of(exponent);
  if (!n || !e || BN_num_bits(n.get()) < kFewestBits || BN_num_bits(n.get()) > kMostBits ||
      BN_num_bits(e.get()) > 64 || !BN_is_odd(e.get()) || BN_is_one(e.get()))
    return nullptr;
  const Build build(OSSL_PARAM_BLD_new());
  if (!build || !OSSL_PARAM_BLD_push_BN(build.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) ||
      !OSSL_PARAM_BLD_push_BN(build.get(), OSSL_PKEY_PARAM_RSA_E, e.get()))
    return nullptr;
  return made_key("RSA", build.get());
}

std::shared_ptr<void> elliptic_key(const std::string& x, const std::string& y) {
  if (x.size() != kCoordinate || y.size() != kCoordinate) return nullptr;
  const std::string point = '\4' + x + y;
  const Build build(OSSL_PARAM_BLD_new());
  if (!build ||
      !OSSL_PARAM_BLD_push_utf8_string(build.get(), OSSL_PKEY_PARAM_GROUP_NAME, "P-256", 0) ||
      !OSSL_PARAM_BLD_push_octet_string(build.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                        point.size()))
    return nullptr;
  return made_key("EC", build.get());
}

std::string text_of(const Node& object, std::string_view key) {
  const Node* found = object.find(key);
  return found && found->kind == Node::Kind::string ? found->text : "";
}
std::optional<std::string> bytes_of(const Node& object, std::string_view key) {
  const std::string text = text_of(object, key);
  return text.empty() ? std::nullopt : base64url(text);
}

// As OpenSSL wants it: the two numbers in ASN.1.
std::string in_asn1(std::string_view signature) {
  const auto half = [&](std::size_t at) {
    return BN_bin2bn(reinterpret_cast<const unsigned char*>(signature.data()) + at, kCoordinate,
                     nullptr);
  };
  const Owned<ECDSA_SIG, ECDSA_SIG_free> pair(ECDSA_SIG_new());
  if (!pair || signature.size() != 2 * kCoordinate ||
      !ECDSA_SIG_set0(pair.get(), half(0), half(kCoordinate)))
    return {};
  std::array<unsigned char, 128> bytes{};
  unsigned char* to = bytes.data();
  const int size = i2d_ECDSA_SIG(pair.get(), &to);
  return {reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(std::max(size, 0))};
}

bool signed_by(void* key, std::string_view text, std::string_view signature) {
  const Owned<EVP_MD_CTX, EVP_MD_CTX_free> context(EVP_MD_CTX_new());
  return context &&
         EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr,
                              static_cast<EVP_PKEY*>(key)) == 1 &&
         EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                          signature.size(), reinterpret_cast<const unsigned char*>(text.data()),
                          text.size()) == 1;
}

// A part of a token, which is a JSON object.
std::optional<Document> part_of(std::string_view text) {
  const auto json = base64url(text);
  if (!json || !json->starts_with('{')) return std::nullopt;
  auto document = parse_document("token.json", *json);
  if (!document || document->root.kind != Node::Kind::object) return std::nullopt;
  return *std::move(document);
}

const Node* claim_at(const Node& claims, std::string_view path) {
  if (const Node* whole = claims.find(path)) return whole;
  const Node* at = &claims;
  for (const std::string& part : split(path, '.'))
    if (at == nullptr || (at = at->find(part)) == nullptr) return nullptr;
  return at;
}

std::vector<std::string> roles_of(const Node& claims, const std::string& claim) {
  const Node* const found = claim_at(claims, claim);
  std::vector<std::string> roles;
  if (found && found->kind == Node::Kind::string) roles = split(found->text, ' ');
  if (found && found->kind == Node::Kind::list)
    for (const Node& item : found->items)
      if (item.kind == Node::Kind::string) roles.push_back(item.text);
  std::erase(roles, "");
  if (roles.size() > kMostRoles) roles.resize(kMostRoles);
  return roles;
}

bool is_for(const Node& claims, const std::string& audience) {
  const Node* const found = claims.find("aud");
  if (found && found->kind == Node::Kind::string) return found->text == audience;
  return found && found->kind == Node::Kind::list &&
         std::ranges::any_of(found->items, [&](const Node& item) {
           return item.kind == Node::Kind::string && item.text == audience;
         });
}

std::optional<std::int64_t> time_of(const Node& claims, std::string_view key) {
  const Node* const found = claims.find(key);
  if (!found || found->kind != Node::Kind::number || !(found->number >= 0) ||
      found->number > kMostTime)
    return std::nullopt;
  return static_cast<std::int64_t>(found->number);
}

// Of a token whose signature is right; empty: nothing.
std::string claims_fault(const Node& claims, const JwtWishes& wishes, std::int64_t now_s) {
  if (text_of(claims, "iss") != wishes.issuer) return "the token is of another issuer";
  if (!is_for(claims, wishes.audience)) return "the token is for another audience";
  const auto expires = time_of(claims, "exp");
  if (!expires) return "the token does not say when it expires";
  if (now_s >= *expires + kJwtLeewayS) return "the token has expired";
  const auto from = time_of(claims, "nbf");
  if (claims.find("nbf") && (!from || now_s + kJwtLeewayS < *from))
    return "the token is not valid yet";
  const std::string subject = text_of(claims, "sub");
  if (subject.empty() || subject.size() > kMostSubject || !name_fault(subject).empty())
    return "the token does not say whose it is";
  return {};
}

}  // namespace

Result<Jwks> Jwks::parse(const std::string& file, std::string_view text) {
  if (text.size() > kMostJwksBytes) return bad_input(file, "more than 256 KiB of keys");
  const auto document = TRY(parse_document(file, text));
  const Node* const keys = document.root.find("keys");
  if (!keys || keys->kind != Node::Kind::list) return bad_input(file, "there are no 'keys' in it");
  Jwks all;
  for (const Node& one : keys->items) {
    const std::string use = text_of(one, "use"), kind = text_of(one, "kty");
    const std::string algorithm = text_of(one, "alg");
    const bool elliptic = kind == "EC" && text_of(one, "crv") == "P-256";
    if ((kind != "RSA" && !elliptic) || (!use.empty() && use != "sig") ||
        (!algorithm.empty() && algorithm != (elliptic ? kElliptic : kRsa)))
      continue;
    const auto a = bytes_of(one, elliptic ? "x" : "n"), b = bytes_of(one, elliptic ? "y" : "e");
    auto key = !a || !b ? nullptr : elliptic ? elliptic_key(*a, *b) : rsa_key(*a, *b);
    if (key && all.keys_.size() < kMostJwks)
      all.keys_.push_back({text_of(one, "kid"), elliptic, std::move(key)});
  }
  if (all.keys_.empty()) return bad_input(file, "no key in it signs with RS256 or ES256");
  return all;
}

Jwks::Found Jwks::check(std::string_view algorithm, std::string_view key,
                        std::string_view signed_text, std::string_view signature) const {
  const bool elliptic = algorithm == kElliptic;
  if (!elliptic && algorithm != kRsa) return Found::bad;
  const Key* found = nullptr;
  for (const Key& one : keys_) {
    if (one.elliptic != elliptic || (!key.empty() && one.id != key)) continue;
    if (key.empty() && found) return Found::bad;  // which of them?
    if (!found) found = &one;
  }
  if (!found) return Found::unknown_key;
  const std::string asn1 = elliptic ? in_asn1(signature) : std::string();
  return signed_by(found->key.get(), signed_text, elliptic ? asn1 : signature) ? Found::good
                                                                               : Found::bad;
}

tl::expected<Identity, JwtFault> verify_jwt(std::string_view token, const Jwks& keys,
                                            const JwtWishes& wishes, std::int64_t now_s) {
  const auto refused = [](std::string why, bool unknown = false) {
    return tl::unexpected(JwtFault{std::move(why), unknown});
  };
  if (token.size() > kMostJwtBytes) return refused("the token is longer than 8 KiB");
  const std::size_t first = token.find('.'), second = token.find('.', first + 1);
  if (first == token.npos || second == token.npos || token.find('.', second + 1) != token.npos)
    return refused("the token is none");
  const auto header = part_of(token.substr(0, first));
  const auto signature = base64url(token.substr(second + 1));
  if (!header || !signature) return refused("the token is none");
  const std::string algorithm = text_of(header->root, "alg");
  if (algorithm != kRsa && algorithm != kElliptic)
    return refused("the token is not signed with RS256 or ES256");
  if (header->root.find("crit")) return refused("the token asks for what nobody knows (crit)");
  const auto found =
      keys.check(algorithm, text_of(header->root, "kid"), token.substr(0, second), *signature);
  if (found == Jwks::Found::unknown_key) return refused("the token's key is not known", true);
  if (found == Jwks::Found::bad) return refused("the token's signature is wrong");
  const auto claims = part_of(token.substr(first + 1, second - first - 1));
  if (!claims) return refused("the token is none");
  if (std::string fault = claims_fault(claims->root, wishes, now_s); !fault.empty())
    return refused(std::move(fault));
  return Identity{.subject = text_of(claims->root, "sub"),
                  .roles = roles_of(claims->root, wishes.claim),
                  .expires_s = *time_of(claims->root, "exp")};
}

}  // namespace partita
