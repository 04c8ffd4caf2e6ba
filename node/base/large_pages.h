// Memory for many numbers that are written once, in order: in large pages where the system has
// them, since a fault for every 4 KiB takes longer than computing what is written there. Owns what
// it allocates; never gives it back before its end.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace partita {

struct FreeMemory {
  void operator()(double* memory) const { std::free(memory); }
};
using LargePages = std::unique_ptr<double[], FreeMemory>;

// Numbers of one such block; their values are not set.
inline constexpr std::size_t kLargePageNumbers = (std::size_t{2} << 20) / sizeof(double);
LargePages large_page();

// From now on what is freed stays with the program, which soon asks for as much again: for commands
// that compute and end. Needs glibc; nothing happens elsewhere.
void keep_freed_memory();

}  // namespace partita
