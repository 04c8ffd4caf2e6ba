// Our numbers of things are int (GPU 3, slice 0, task 12: never negative, small); the containers of
// the library count in std::size_t. This is the one conversion between them.
#pragma once

#include <cstddef>

namespace partita {

// The position of the thing with a number >= 0.
constexpr std::size_t at(int number) { return static_cast<std::size_t>(number); }

}  // namespace partita
