#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace partita {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: bug in partita: CHECK(%s) failed\n", file, line, condition);
  std::abort();
}

}  // namespace partita
