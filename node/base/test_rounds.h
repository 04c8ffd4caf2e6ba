// test_rounds: how many random cases a test tries. Release tries all. A build with sanitizers, ten
// times as slow, tries a tenth: errors of memory and arithmetic show in the first cases, rare wrong
// answers are release's to find. The environment variable PARTITA_ROUNDS (default 1) multiplies
// both, for long runs. For tests only.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace partita {

// `usual` in release; at least 1.
inline int test_rounds(int usual) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int kFewer = 10;
#else
  constexpr int kFewer = 1;
#endif
  const char* wish = std::getenv("PARTITA_ROUNDS");
  const int factor = wish == nullptr ? 1 : std::max(1, std::atoi(wish));
  return std::max(1, usual * factor / kFewer);
}

}  // namespace partita
