// CHECK(condition): always on. For our own bugs only, never for what the environment or an input
// can cause.
#pragma once

namespace partita {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace partita

#define CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::partita::check_failed(#condition, __FILE__, __LINE__))
