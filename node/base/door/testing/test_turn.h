// For tests that are on the thread of the server: lets its loop do what there is to do.
#pragma once

#include "base/door/loop.h"

namespace partita::serve::test {

// What is posted, the timers that are due and the descriptors that are ready; waits for nothing.
inline void turn(Loop& loop) {
  loop.post([&loop] { loop.stop(); });  // stop() before run() would end it before it looks
  loop.run();
}

}  // namespace partita::serve::test
