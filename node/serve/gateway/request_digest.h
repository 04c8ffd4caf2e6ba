// RequestDigest: what a request asks for, as 128 bits, in place of its bytes: GMAC (NIST SP
// 800-38D) by AES-256 under a random key of this object that nobody is ever told, over fields that
// are written with their lengths. No digest leaves the process. Two different texts then have the
// same digest with a chance of at most (blocks of the longer one + 1) / 2^128, whoever wrote them
// (GHASH is almost universal, and what is told of digests, that they are equal, tells nothing of
// the key before two are). Of 2^40 requests of a MiB any two meet with less than 2^-32. Faster than
// a plain cryptographic hash: docs/results/gateway.md. One thread at a time.
#pragma once

#include <memory>
#include <span>

#include "serve/gateway/response_cache.h"

namespace partita::serve {

class RequestDigest {
 public:
  RequestDigest();
  ~RequestDigest();
  RequestDigest(const RequestDigest&) = delete;

  void begin();
  void add(std::span<const char> field);
  CacheKey end();

 private:
  struct Mac;
  std::unique_ptr<Mac> mac_;
};

}  // namespace partita::serve
