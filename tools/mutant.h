// What a source changed by tools/mutants includes first: a numbered change of the program is made
// when the environment variable PARTITA_MUTANT is its number. With PARTITA_MUTANTS_REACHED, a file
// of one byte a mutant, the changes that a run could have met are marked there; children of the run
// mark, too. Never part of a build of ours.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <type_traits>
#include <utility>

namespace mutant {

inline int chosen() {
  static const int number = [] {
    const char* text = std::getenv("PARTITA_MUTANT");
    return text == nullptr ? 0 : std::atoi(text);
  }();
  return number;
}

struct Reached {
  volatile unsigned char* marks = nullptr;
  long size = 0;
};

inline const Reached& reached() {
  static const Reached map = [] {
    Reached made;
    const char* file = std::getenv("PARTITA_MUTANTS_REACHED");
    const int descriptor = file == nullptr ? -1 : ::open(file, O_RDWR | O_CLOEXEC);
    struct stat status = {};
    if (descriptor < 0 || ::fstat(descriptor, &status) != 0) return made;
    void* memory = ::mmap(nullptr, static_cast<std::size_t>(status.st_size),
                          PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    ::close(descriptor);
    if (memory == MAP_FAILED) return made;
    made.marks = static_cast<volatile unsigned char*>(memory);
    made.size = status.st_size;
    return made;
  }();
  return map;
}

inline bool on(int number) {
  const Reached& map = reached();
  if (number < map.size) map.marks[number] = 1;
  return chosen() == number;
}

// `a + b` becomes `a + Add<7>{} + b`, which keeps precedence: the first operator only holds `a`.
template <class Operator, class Left>
struct Held {
  const Left& left;
};

#define PARTITA_MUTANT(Name, right_one, other)                                               \
  template <int number>                                                                     \
  struct Name {};                                                                           \
  template <int number, class Left>                                                         \
  Held<Name<number>, Left> operator right_one(const Left& left, Name<number>) {             \
    return {left};                                                                          \
  }                                                                                         \
  template <int number, class Left, class Right>                                            \
  auto operator right_one(Held<Name<number>, Left> held, const Right& right) {              \
    using Result = std::decay_t<decltype(held.left right_one right)>;                       \
    static_assert(requires { static_cast<Result>(held.left other right); });                \
    return on(number) ? static_cast<Result>(held.left other right)                          \
                      : static_cast<Result>(held.left right_one right);                     \
  }

PARTITA_MUTANT(Less, <, <=)
PARTITA_MUTANT(AtMost, <=, <)
PARTITA_MUTANT(More, >, >=)
PARTITA_MUTANT(AtLeast, >=, >)
PARTITA_MUTANT(Equal, ==, !=)
PARTITA_MUTANT(Unequal, !=, ==)
PARTITA_MUTANT(Add, +, -)
PARTITA_MUTANT(Subtract, -, +)
PARTITA_MUTANT(Multiply, *, /)
PARTITA_MUTANT(Divide, /, *)
#undef PARTITA_MUTANT

}  // namespace mutant
