#include "base/door/exchange.h"

#include "base/door/loop.h"

namespace partita::serve {

bool Exchange::end() {
  if (std::exchange(ended_, true)) return false;
  ended_ns = Loop::now_ns();
  if (wake) wake();
  return true;
}

}  // namespace partita::serve
