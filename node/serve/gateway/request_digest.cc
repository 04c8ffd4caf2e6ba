#include "serve/gateway/request_digest.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <array>

#include "base/check.h"

namespace partita::serve {
namespace {

constexpr std::size_t kKeyBytes = 32, kNonceBytes = 12;

const unsigned char* bytes_of_text(const void* text) {
  return static_cast<const unsigned char*>(text);
}

}  // namespace

struct RequestDigest::Mac {
  EVP_MAC_CTX* context = nullptr;
  std::array<unsigned char, kNonceBytes> nonce = {};  // always the same: no tag is ever shown
  OSSL_PARAM again[2];
  ~Mac() { EVP_MAC_CTX_free(context); }
};

RequestDigest::RequestDigest() : mac_(std::make_unique<Mac>()) {
  std::array<unsigned char, kKeyBytes> key;
  CHECK(RAND_bytes(key.data(), static_cast<int>(key.size())) == 1);
  EVP_MAC* const gmac = EVP_MAC_fetch(nullptr, "GMAC", nullptr);
  CHECK(gmac != nullptr);
  mac_->context = EVP_MAC_CTX_new(gmac);
  EVP_MAC_free(gmac);
  char cipher[] = "AES-256-GCM";
  const OSSL_PARAM nonce =
      OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_IV, mac_->nonce.data(), kNonceBytes);
  const OSSL_PARAM first[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_CIPHER, cipher, 0),
                              nonce, OSSL_PARAM_construct_end()};
  CHECK(mac_->context != nullptr &&
        EVP_MAC_init(mac_->context, key.data(), key.size(), first) == 1);
  mac_->again[0] = nonce;
  mac_->again[1] = OSSL_PARAM_construct_end();
}

RequestDigest::~RequestDigest() = default;

void RequestDigest::begin() { CHECK(EVP_MAC_init(mac_->context, nullptr, 0, mac_->again) == 1); }

void RequestDigest::add(std::span<const char> field) {
  const std::uint64_t size = field.size();
  CHECK(EVP_MAC_update(mac_->context, bytes_of_text(&size), sizeof size) == 1);
  CHECK(field.empty() ||
        EVP_MAC_update(mac_->context, bytes_of_text(field.data()), field.size()) == 1);
}

CacheKey RequestDigest::end() {
  CacheKey key;
  std::size_t size = 0;
  CHECK(EVP_MAC_final(mac_->context, reinterpret_cast<unsigned char*>(key.data()), &size,
                      sizeof key) == 1);
  CHECK(size == sizeof key);
  return key;
}

}  // namespace partita::serve
