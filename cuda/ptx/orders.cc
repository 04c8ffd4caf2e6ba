#include "ptx/orders.h"

#include <algorithm>

#include "ptx/exec.h"

namespace partita::ptx {

void next_tick(Warp& w) {
  if (++w.race.tick <= kMaxTick) return;
  ++*w.race.epoch;  // as if there were a barrier: rather a race missed than one made up
  w.race.tick = w.race.met = 0;
  w.race.parted = false;
}

void Orders::look_at_epoch(const Warp& w) {
  if (epoch_ == *w.race.epoch && threads_ == w.block->run->threads) return;
  epoch_ = *w.race.epoch;
  threads_ = w.block->run->threads;
  if (!used_ && known_.size() == threads_) return;
  used_ = false;
  known_.assign(threads_, {});
  fenced_.assign(threads_, {});
  places_.clear();
}

void Orders::join(Clock& to, const Clock& from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
}

Orders::Clock Orders::now_of(const Warp& w, unsigned lane) const {
  const std::uint32_t first = w.index * kLanes;
  Clock clock = known_[first + lane];
  clock.resize(threads_);
  for (std::uint32_t mate = first; mate < std::min(first + kLanes, threads_); ++mate)
    clock[mate] = std::max({clock[mate], w.race.met,
                            w.race.parted ? mates_[first + lane][mate - first] : 0});
  clock[first + lane] = w.race.tick + 1;
  return clock;
}

bool Orders::knows(const Warp& w, std::uint32_t thread, std::uint32_t other, std::uint32_t tick) {
  look_at_epoch(w);
  const Clock& clock = known_[thread];
  return other < clock.size() && tick < clock[other];
}

bool Orders::knows_any(const Warp& w, std::uint32_t thread) {
  look_at_epoch(w);
  return !known_[thread].empty();
}

void Orders::fence(Warp& w) {
  look_at_epoch(w);
  used_ = true;
  for (std::uint32_t left = w.mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(left));
    fenced_[w.index * kLanes + lane] = now_of(w, lane);
  }
  next_tick(w);
}

void Orders::release(Warp& w, unsigned lane, std::uint64_t place, bool all) {
  look_at_epoch(w);
  const Clock& before = fenced_[w.index * kLanes + lane];
  if (!all && before.empty()) return;
  used_ = true;
  join(places_[place], all ? now_of(w, lane) : before);
  if (all) next_tick(w);
}

void Orders::acquire(Warp& w, unsigned lane, std::uint64_t place) {
  look_at_epoch(w);
  const auto found = places_.find(place);
  if (found != places_.end()) join(known_[w.index * kLanes + lane], found->second);
}

void Orders::share_known(const Warp& w, std::uint32_t lanes) {
  look_at_epoch(w);
  if (!used_) return;
  Clock all;
  for (std::uint32_t left = lanes; left != 0; left &= left - 1)
    join(all, known_[w.index * kLanes + static_cast<unsigned>(__builtin_ctz(left))]);
  if (all.empty()) return;
  for (std::uint32_t left = lanes; left != 0; left &= left - 1)
    known_[w.index * kLanes + static_cast<unsigned>(__builtin_ctz(left))] = all;
}

void Orders::part(Warp& w) {
  mates_.resize(std::max(mates_.size(), std::size_t{w.block->run->warps} * kLanes));
  std::fill_n(mates_.begin() + w.index * kLanes, kLanes, Mates{});
  w.race.parted = true;
}

void Orders::meet(Warp& w, std::uint32_t lanes) {
  next_tick(w);
  if ((lanes & lanes_of(w)) == lanes_of(w)) {
    w.race.met = w.race.tick;
  } else {
    if (!w.race.parted) part(w);
    Mates* const rows = &mates_[w.index * kLanes];
    Mates all = {};
    for (std::uint32_t left = lanes; left != 0; left &= left - 1) {
      const auto lane = static_cast<unsigned>(__builtin_ctz(left));
      for (unsigned mate = 0; mate < kLanes; ++mate)
        all[mate] = std::max(all[mate], rows[lane][mate]);
    }
    for (unsigned mate = 0; mate < kLanes; ++mate)
      if ((lanes >> mate & 1) != 0) all[mate] = w.race.tick;
    for (std::uint32_t left = lanes; left != 0; left &= left - 1)
      rows[__builtin_ctz(left)] = all;
  }
  if (used_) share_known(w, lanes & lanes_of(w));
}

void Orders::meet(Warp& w, const std::uint32_t* members) {
  if ((named_by_all(w, members) | ~lanes_of(w)) == kAllLanes) return meet(w, lanes_of(w));
  for (std::uint32_t left = w.mask; left != 0;) {
    const std::uint32_t own = members[__builtin_ctz(left)];
    std::uint32_t same = 0;
    for (std::uint32_t others = left; others != 0; others &= others - 1)
      if (members[__builtin_ctz(others)] == own) same |= others & (0u - others);
    meet(w, same | (own & ~w.live));
    left &= ~same;
  }
}

}  // namespace partita::ptx
