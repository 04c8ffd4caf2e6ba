// A provider that signs tokens, for tests.
#pragma once

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/base64.h"

namespace partita::test {

inline std::string url64(std::string_view bytes) {
  std::string text = base64(bytes);
  while (text.ends_with('=')) text.pop_back();
  for (char& c : text) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return text;
}

inline std::string bytes_of(const BIGNUM* number, int size) {
  std::string bytes(static_cast<std::size_t>(size), '\0');
  BN_bn2binpad(number, reinterpret_cast<unsigned char*>(bytes.data()), size);
  return bytes;
}

inline std::string number(EVP_PKEY* key, const char* name, int size) {
  BIGNUM* value = nullptr;
  EVP_PKEY_get_bn_param(key, name, &value);
  std::string bytes = url64(bytes_of(value, size));
  BN_free(value);
  return bytes;
}

// A provider, that signs.
struct Signer {
  bool elliptic = false;
  std::string id;
  std::shared_ptr<EVP_PKEY> key = {elliptic ? EVP_EC_gen("P-256") : EVP_RSA_gen(2048),
                                   EVP_PKEY_free};

  std::string jwk() const {
    const std::string head = R"({"use":"sig","kid":")" + id + R"(",)";
    if (elliptic)
      return head + R"("kty":"EC","crv":"P-256","x":")" +
             number(key.get(), OSSL_PKEY_PARAM_EC_PUB_X, 32) + R"(","y":")" +
             number(key.get(), OSSL_PKEY_PARAM_EC_PUB_Y, 32) + "\"}";
    return head + R"("kty":"RSA","n":")" + number(key.get(), OSSL_PKEY_PARAM_RSA_N, 256) +
           R"(","e":"AQAB"})";
  }
  std::string sign(const std::string& text) const {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    EVP_DigestSignInit(context, nullptr, EVP_sha256(), nullptr, key.get());
    std::string signature(512, '\0');
    std::size_t size = signature.size();
    EVP_DigestSign(context, reinterpret_cast<unsigned char*>(signature.data()), &size,
                   reinterpret_cast<const unsigned char*>(text.data()), text.size());
    EVP_MD_CTX_free(context);
    signature.resize(size);
    if (!elliptic) return signature;
    const auto* from = reinterpret_cast<const unsigned char*>(signature.data());
    ECDSA_SIG* pair = d2i_ECDSA_SIG(nullptr, &from, static_cast<long>(size));
    const std::string raw =
        bytes_of(ECDSA_SIG_get0_r(pair), 32) + bytes_of(ECDSA_SIG_get0_s(pair), 32);
    ECDSA_SIG_free(pair);
    return raw;
  }
  std::string token(const std::string& claims, std::string header = "") const {
    if (header.empty())
      header =
          std::string(R"({"alg":")") + (elliptic ? "ES256" : "RS256") + R"(","kid":")" + id + "\"}";
    const std::string text = url64(header) + "." + url64(claims);
    return text + "." + url64(sign(text));
  }
};

}  // namespace partita::test
