// What the threads of a block know of each other without a barrier of the block: a thread releases
// what it did, by a fence and a strong write or by one with release; who then reads there strongly
// knows it. Vector clocks by thread, of ticks of its warp; they begin anew at each barrier, which
// orders everything. Used where races are checked.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ptx/program.h"

namespace partita::ptx {

class Orders {
 public:
  // Whether `thread` knows what `other` did at the tick.
  bool knows(const Warp& w, std::uint32_t thread, std::uint32_t other, std::uint32_t tick);
  bool knows_any(const Warp& w, std::uint32_t thread);
  void fence(Warp& w);  // by the lanes of the mask
  // Without `all`: what the lane did before its last fence.
  void release(Warp& w, unsigned lane, std::uint64_t place, bool all);
  void acquire(Warp& w, unsigned lane, std::uint64_t place);
  // The lanes of the mask met.
  void meet(Warp& w) {
    if (used_ || w.race.tick >= kMaxTick) return meet_in_full(w);
    w.race.met = ++w.race.tick;
    w.race.met_in = *w.race.epoch;
  }

 private:
  using Clock = std::vector<std::uint32_t>;  // by thread: the first tick that is not known

  void meet_in_full(Warp& w);
  void look_at_epoch(const Warp& w);
  Clock now_of(const Warp& w, unsigned lane) const;
  static void join(Clock& to, const Clock& from);

  std::uint32_t epoch_ = 0, threads_ = 0;
  bool used_ = false;
  std::vector<Clock> known_ = {}, fenced_ = {};  // empty: nothing
  std::unordered_map<std::uint64_t, Clock> places_ = {};
};

// A tick of the warp is over.
void next_tick(Warp& w);

}  // namespace partita::ptx
