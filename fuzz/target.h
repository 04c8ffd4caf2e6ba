// FUZZ_TARGET(name) { ... }: one reader under arbitrary bytes, `data` and `size`; it returns 0, and
// aborts on what must not be. Under libFuzzer it is the target of its own program; elsewhere
// replay.cc finds it by its name, which is that of its source and of its corpus.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef PARTITA_LIBFUZZER
#define FUZZ_TARGET(name) \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
#else
namespace partita::fuzz {

using Target = int (*)(const std::uint8_t* data, std::size_t size);

// Makes the target known to replay.cc.
struct Registered {
  Registered(const char* name, Target target);
};

}  // namespace partita::fuzz

#define FUZZ_TARGET(name)                                                       \
  static int fuzz_##name(const std::uint8_t* data, std::size_t size);           \
  static const partita::fuzz::Registered registered_##name(#name, fuzz_##name); \
  static int fuzz_##name(const std::uint8_t* data, std::size_t size)
#endif
