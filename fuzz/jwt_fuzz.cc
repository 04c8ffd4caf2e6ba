// Tokens and keys of strangers: nothing that was not signed is let in, whatever it says.
#include <string_view>

#include "base/check.h"
#include "base/oidc/jwt.h"
#include "target.h"

namespace {
// RFC 7515, A.3.
constexpr std::string_view kKeys = R"({"keys":[{"kty":"EC","crv":"P-256","kid":"a",)"
                                   R"("x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",)"
                                   R"("y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]})";
}  // namespace

FUZZ_TARGET(jwt) {
  static const partita::Jwks keys = *partita::Jwks::parse("keys", kKeys);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto found = partita::verify_jwt(text, keys, {.issuer = "i", .audience = "a"}, 1'000'000);
  CHECK(!found && !found.error().why.empty());
  const auto read = partita::Jwks::parse("fuzz", text);
  if (read) static_cast<void>(partita::verify_jwt(text, *read, {.issuer = "i"}, 0));
  return 0;
}
