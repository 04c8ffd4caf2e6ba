#include "base/door/constant_time.h"

#include <algorithm>

namespace partita::serve {

bool equal_in_constant_time(std::string_view secret, std::string_view candidate) {
  unsigned difference = secret.size() == candidate.size() ? 0 : 1;
  for (std::size_t i = 0; i < candidate.size(); ++i) {
    const char other = secret.empty() ? '\0' : secret[i % secret.size()];
    difference |= static_cast<unsigned char>(candidate[i] ^ other);
  }
  return difference == 0;
}

std::string_view bearer_of(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view scheme = authorization.substr(0, kScheme.size());
  const bool bearer = std::equal(scheme.begin(), scheme.end(), kScheme.begin(), kScheme.end(),
                                 [](char a, char b) { return (a | 0x20) == b || a == b; });
  return bearer ? authorization.substr(kScheme.size()) : std::string_view();
}

}  // namespace partita::serve
