#include "base/door/exchange.h"

#include <utility>

#include "base/door/loop.h"

namespace partita::serve {

void Exchange::pieces_taken() {
  constexpr std::size_t kKept = 65'536;  // bytes, for the next ones
  if (pieces.capacity() > kKept)
    std::string().swap(pieces);
  else
    pieces.clear();
}

bool Exchange::end() {
  if (std::exchange(ended_, true)) return false;
  ended_ns = Loop::now_ns();
  if (wake) wake();
  return true;
}

}  // namespace partita::serve
