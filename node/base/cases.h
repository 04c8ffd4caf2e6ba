// Functions for the cases of a variant, as one that std::visit takes.
#pragma once

namespace partita {

template <class... Each>
struct Cases : Each... {
  using Each::operator()...;
};
template <class... Each>
Cases(Each...) -> Cases<Each...>;  // clang 16 has no guides of its own for aggregates

}  // namespace partita
