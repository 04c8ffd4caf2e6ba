// What lanes of a warp exchange: shuffles, votes, matches, reductions. An exchange waits until all
// its members that still live are there, wherever they come from.
#include "ptx/control.h"
#include "ptx/exec.h"

namespace partita::ptx::control {
namespace {

// All are there.
bool gathered(const Op* op, Warp& w) {
  if (w.check_races) [[unlikely]]
    w.block->orders.meet(w, lane_registers<std::uint32_t>(w, op->e));
  return true;
}

// Whether the members are together; w.mask then are those that take part. Else the lanes wait and
// another group goes on (`next`).
bool gather_members(const Op* op, Warp& w, const Op*& next) {
  if (w.check_barriers) [[unlikely]]
    watch_members(op, w);
  const std::uint32_t* members = lane_registers<std::uint32_t>(w, op->e);
  const auto pc = static_cast<std::uint32_t>(op - w.code);
  const auto ready_lanes = [&] {
    std::uint32_t ready = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane)
      if ((w.mask >> lane & 1) != 0 && (members[lane] & w.live & ~w.mask) == 0) ready |= 1u << lane;
    return ready;
  };
  if (w.mask == w.live) return gathered(op, w);
  std::uint32_t ready = ready_lanes();
  if (ready == w.mask) return gathered(op, w);
  count(w, op, 0);
  for (std::uint32_t i = 0; i < w.parked_count;) {
    if (w.parked[i].why != Parked::Why::collective || w.parked[i].pc != pc) {
      ++i;
      continue;
    }
    w.mask |= w.parked[i].mask;
    w.parked[i] = w.parked[--w.parked_count];
  }
  ready = ready_lanes();
  const std::uint32_t wait = w.mask & ~ready;
  std::uint32_t key = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    if ((wait >> lane & 1) != 0) key |= members[lane];
  if (wait != 0) w.parked[w.parked_count++] = {pc, wait, key, Parked::Why::collective};
  if (ready == 0) {
    next = next_group(w);
    return false;
  }
  w.mask = ready;
  w.segment = op;
  return gathered(op, w);
}

// What comes after an exchange: groups may have met, so the order is looked at again.
const Op* after(const Op* op, Warp& w) {
  if (w.waiting_count == 0) return op + 1;
  count(w, op, 1);
  return settle(w, static_cast<std::uint32_t>(op + 1 - w.code));
}

void write_mask(Warp& w, std::uint32_t slot, std::uint32_t value) {
  std::uint32_t& d = mask_register(w, slot);
  d = (d & ~w.mask) | (value & w.mask);
}

std::uint32_t reduced(Reduce how, std::uint32_t a, std::uint32_t b) {
  const auto x = static_cast<std::int32_t>(a), y = static_cast<std::int32_t>(b);
  switch (how) {
    case Reduce::add:
      return a + b;
    case Reduce::min_u:
      return a < b ? a : b;
    case Reduce::max_u:
      return a > b ? a : b;
    case Reduce::min_s:
      return x < y ? a : b;
    case Reduce::max_s:
      return x > y ? a : b;
    case Reduce::and_:
      return a & b;
    case Reduce::or_:
      return a | b;
    case Reduce::xor_:
      return a ^ b;
  }
  return a;
}

// `from`: the lane that each lane reads, itself where the rule finds none; those where it does.
inline std::uint32_t sources(const Op* op, Warp& w, std::uint32_t* from) {
  const std::uint32_t* b = lane_registers<std::uint32_t>(w, op->b);
  const std::uint32_t* c = lane_registers<std::uint32_t>(w, op->c);
  std::uint32_t holds = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const std::uint32_t by = b[lane] & 31, clamp = c[lane] & 31, segment = c[lane] >> 8 & 31;
    const std::uint32_t most = (lane & segment) | (clamp & ~segment), least = lane & segment;
    std::uint32_t j = lane;
    bool in = false;
    switch (static_cast<Shuffle>(op->flags & 3)) {
      case Shuffle::up:
        j = lane - by;
        in = static_cast<std::int32_t>(j) >= static_cast<std::int32_t>(most);
        break;
      case Shuffle::down:
        j = lane + by, in = j <= most;
        break;
      case Shuffle::bfly:
        j = lane ^ by, in = j <= most;
        break;
      case Shuffle::idx:
        j = least | (by & ~segment), in = j <= most;
        break;
    }
    if (in) holds |= 1u << lane;
    from[lane] = in ? j : lane;
  }
  return holds;
}

// Whether values are undefined from here on (note_shuffled).
[[gnu::noinline]] bool look_at_sources(const Op* op, Warp& w) {
  const auto* members = lane_registers<std::uint32_t>(w, op->e);
  if (w.undefined->lanes.empty() && w.mask == kAllLanes && named_by_all(w, members) == kAllLanes)
    return false;
  std::uint32_t from[kLanes];
  sources(op, w, from);
  return note_shuffled(op, w, from);
}

}  // namespace

const Op* shuffle(const Op* op, Warp& w) {
  const Op* next = nullptr;
  if (!gather_members(op, w, next)) return next;
  const bool begins_to_follow = w.undefined != nullptr && look_at_sources(op, w);
  const std::uint32_t* a = lane_registers<std::uint32_t>(w, op->a);
  std::uint32_t from[kLanes];
  const std::uint32_t holds = sources(op, w, from);
  alignas(64) std::uint32_t value[kLanes];
  for (unsigned lane = 0; lane < kLanes; ++lane) value[lane] = a[from[lane] & 31];
  std::uint32_t* d = lane_registers<std::uint32_t>(w, op->d);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    d[lane] = (w.mask >> lane & 1) != 0 ? value[lane] : d[lane];
  if (op->imm >= 0) write_mask(w, static_cast<std::uint32_t>(op->imm), holds);
  if (!begins_to_follow) [[likely]]
    return after(op, w);
  count(w, op, 1);
  wait_at(w, pc_of(op, w) + 1, w.mask);
  return nullptr;
}

const Op* vote(const Op* op, Warp& w) {
  const Op* next = nullptr;
  if (!gather_members(op, w, next)) return next;
  const std::uint32_t* members = lane_registers<std::uint32_t>(w, op->e);
  const std::uint32_t p = mask_register(w, op->a);
  std::uint32_t result = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    const std::uint32_t who = members[lane] & w.mask, set = p & who;
    switch (static_cast<Vote>(op->flags & 3)) {
      case Vote::all:
        result |= set == who ? 1u << lane : 0;
        break;
      case Vote::any:
        result |= set != 0 ? 1u << lane : 0;
        break;
      case Vote::uni:
        result |= set == who || set == 0 ? 1u << lane : 0;
        break;
      case Vote::ballot:
        lane_registers<std::uint32_t>(w, op->d)[lane] = set;
        break;
    }
  }
  if (static_cast<Vote>(op->flags & 3) != Vote::ballot) write_mask(w, op->d, result);
  return after(op, w);
}

const Op* active_mask(const Op* op, Warp& w) {
  std::uint32_t* d = lane_registers<std::uint32_t>(w, op->d);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    if ((w.mask >> lane & 1) != 0) d[lane] = w.mask;
  return op + 1;
}

const Op* match(const Op* op, Warp& w) {
  const Op* next = nullptr;
  if (!gather_members(op, w, next)) return next;
  const std::uint32_t* members = lane_registers<std::uint32_t>(w, op->e);
  const bool wide = (op->flags & kWide) != 0, all = (op->flags & kHasPredicate) != 0;
  std::uint64_t value[kLanes];
  for (unsigned lane = 0; lane < kLanes; ++lane)
    value[lane] = wide ? lane_registers<std::uint64_t>(w, op->a)[lane]
                       : lane_registers<std::uint32_t>(w, op->a)[lane];
  std::uint32_t holds = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    const std::uint32_t who = members[lane] & w.mask;
    std::uint32_t same = 0;
    for (unsigned other = 0; other < kLanes; ++other)
      if ((who >> other & 1) != 0 && value[other] == value[lane]) same |= 1u << other;
    if (same == who) holds |= 1u << lane;
    lane_registers<std::uint32_t>(w, op->d)[lane] = all && same != who ? 0 : same;
  }
  if (all) write_mask(w, op->b, holds);
  return after(op, w);
}

const Op* redux(const Op* op, Warp& w) {
  const Op* next = nullptr;
  if (!gather_members(op, w, next)) return next;
  const std::uint32_t* members = lane_registers<std::uint32_t>(w, op->e);
  const std::uint32_t* a = lane_registers<std::uint32_t>(w, op->a);
  std::uint32_t value[kLanes] = {};
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    const std::uint32_t who = members[lane] & w.mask;
    bool first = true;
    for (unsigned other = 0; other < kLanes; ++other) {
      if ((who >> other & 1) == 0) continue;
      value[lane] =
          first ? a[other] : reduced(static_cast<Reduce>(op->flags), value[lane], a[other]);
      first = false;
    }
  }
  std::uint32_t* d = lane_registers<std::uint32_t>(w, op->d);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    if ((w.mask >> lane & 1) != 0) d[lane] = value[lane];
  return after(op, w);
}

const Op* elect(const Op* op, Warp& w) {
  const Op* next = nullptr;
  if (!gather_members(op, w, next)) return next;
  const std::uint32_t* members = lane_registers<std::uint32_t>(w, op->e);
  std::uint32_t holds = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    const std::uint32_t who = members[lane] & w.mask;
    const auto leader = static_cast<std::uint32_t>(who == 0 ? lane : __builtin_ctz(who));
    lane_registers<std::uint32_t>(w, op->d)[lane] = leader;
    if (leader == lane) holds |= 1u << lane;
  }
  write_mask(w, op->b, holds);
  return after(op, w);
}

const Op* pred_and(const Op* op, Warp& w) {
  write_mask(w, op->d, mask_register(w, op->a) & mask_register(w, op->b));
  return op + 1;
}
const Op* pred_or(const Op* op, Warp& w) {
  write_mask(w, op->d, mask_register(w, op->a) | mask_register(w, op->b));
  return op + 1;
}
const Op* pred_xor(const Op* op, Warp& w) {
  write_mask(w, op->d, mask_register(w, op->a) ^ mask_register(w, op->b));
  return op + 1;
}
const Op* pred_not(const Op* op, Warp& w) {
  write_mask(w, op->d, ~mask_register(w, op->a));
  return op + 1;
}
const Op* pred_move(const Op* op, Warp& w) {
  write_mask(w, op->d, mask_register(w, op->a));
  return op + 1;
}
const Op* pred_select(const Op* op, Warp& w) {
  const std::uint32_t c = mask_register(w, op->c);
  write_mask(w, op->d, (mask_register(w, op->a) & c) | (mask_register(w, op->b) & ~c));
  return op + 1;
}

}  // namespace partita::ptx::control
