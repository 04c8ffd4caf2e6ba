// What the threads of a block know of each other without a barrier of the block: a thread releases
// what it did, by a fence and a strong write or by one with release; who then reads there strongly
// knows it. Vector clocks by thread, of ticks of its warp; they begin anew at each barrier, which
// orders everything. Used where races are checked.
#pragma once

#include <array>
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
  // The lanes of the mask met, each those that it names in `members` (by lane).
  void meet(Warp& w, const std::uint32_t* members);
  // `lanes` met, the ended ones that they name among them.
  void meet(Warp& w, std::uint32_t lanes);
  // Whether the lane knows by such meetings what `other` of its warp did at the tick.
  bool met(const Warp& w, unsigned lane, std::uint32_t other, std::uint32_t tick) const {
    return tick < w.race.met ||
           (w.race.parted && tick < mates_[w.index * kLanes + lane][other % kLanes]);
  }

 private:
  using Clock = std::vector<std::uint32_t>;  // by thread: the first tick that is not known
  using Mates = std::array<std::uint32_t, kLanes>;  // the same of the lanes of the warp

  void share_known(const Warp& w, std::uint32_t lanes);
  void part(Warp& w);
  void look_at_epoch(const Warp& w);
  Clock now_of(const Warp& w, unsigned lane) const;
  static void join(Clock& to, const Clock& from);

  std::uint32_t epoch_ = 0, threads_ = 0;
  bool used_ = false;
  std::vector<Clock> known_ = {}, fenced_ = {};  // empty: nothing
  std::vector<Mates> mates_ = {};                // by thread, of warps that parted
  std::unordered_map<std::uint64_t, Clock> places_ = {};
};

// A tick of the warp is over.
void next_tick(Warp& w);

}  // namespace partita::ptx
