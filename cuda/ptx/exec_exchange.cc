// What lanes of a warp exchange: shuffles, votes, matches, reductions. An exchange waits until all
// its members that still live are there, wherever they come from: at this instruction, or at
// another one of its kind that names the same.
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "ptx/control.h"
#include "ptx/exec.h"

namespace partita::ptx::control {
namespace {

// What the lanes `here` bring to an exchange: by lane in `a`, as bits of it for a vote. Those of
// the mask get results. `undefined`: lanes whose values are.
struct Brought {
  const void* a = nullptr;
  std::uint32_t here = 0, undefined = 0;
};
// Does the exchange for the lanes of the mask. Whether there are undefined values from here on.
using Part = bool (*)(const Op* op, Warp& w, const Brought& brought);

// Whether all that the lanes of the mask name are among them, or ended.
bool are_together(const Op* op, Warp& w) {
  const std::uint32_t* members = lane_registers<std::uint32_t>(w, op->e);
  if (w.mask != w.live) {
    std::uint32_t ready = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane)
      if ((w.mask >> lane & 1) != 0 && (members[lane] & w.live & ~w.mask) == 0) ready |= 1u << lane;
    if (ready != w.mask) return false;
  }
  if (w.check_races) [[unlikely]]
    w.block->orders.meet(w, members);
  return true;
}

// What the parts bring, in `values`; for lanes that are not there what is in the first's register.
Brought bring(Warp& w, std::span<const Parked> parts, std::uint64_t (&values)[kLanes]) {
  Brought all{.a = values};
  const Op& first = w.code[parts[0].pc];
  const std::size_t bytes = first.fn == match && (first.flags & kWide) != 0 ? 8 : 4;
  std::memcpy(values, w.registers + first.a, first.fn == vote ? 4 : kLanes * bytes);
  for (const Parked& part : parts) {
    const Op& op = w.code[part.pc];
    all.here |= part.mask;
    if (w.undefined != nullptr) all.undefined |= w.undefined->of(op.a) & part.mask;
    if (op.fn == vote) {
      values[0] = (values[0] & ~part.mask) | (mask_register(w, op.a) & part.mask);
      continue;
    }
    for (std::uint32_t left = part.mask; left != 0; left &= left - 1) {
      const std::size_t at = static_cast<std::size_t>(__builtin_ctz(left)) * bytes;
      std::memcpy(reinterpret_cast<std::byte*>(values) + at, w.registers + op.a + at, bytes);
    }
  }
  return all;
}

// Those of one key met, wherever they are.
void meet(Warp& w, std::span<const Parked> parts) {
  for (const Parked& part : parts) {
    std::uint32_t same = 0;
    for (const Parked& other : parts) same |= other.key == part.key ? other.mask : 0;
    if ((same & (0u - same) & part.mask) != 0) w.block->orders.meet(w, same | (part.key & ~w.live));
  }
}

// The lanes wait for others, and who waited for nobody else goes on with them.
const Op* come_apart(const Op* op, Warp& w, Part do_part) {
  count(w, op, 0);
  park_by_members(op, w, Parked::Why::collective);
  std::array<Parked, kLanes> ready;
  std::size_t n = 0;
  std::uint32_t came = 0;
  for (const Parked& parked : std::span(w.parked, w.parked_count)) {
    const Op& there = w.code[parked.pc];
    if (parked.why != Parked::Why::collective || there.fn != op->fn || there.flags != op->flags ||
        (parked.key & w.live & ~came_with(w, parked)) != 0)
      continue;
    ready[n++] = parked;
    came |= parked.mask;
  }
  if (n == 0) return next_group(w);
  for (std::uint32_t i = w.parked_count; i-- > 0;)
    if ((w.parked[i].mask & came) != 0) remove_parked(w, i);
  const std::span<Parked> parts(ready.data(), n);
  if (w.check_races) meet(w, parts);
  alignas(64) std::uint64_t values[kLanes] = {};
  const Brought brought = bring(w, parts, values);
  bool begins_to_follow = false;
  for (Parked& part : parts) {
    w.mask = 0;
    for (Parked& other : parts)
      if (other.pc == part.pc) w.mask |= std::exchange(other.mask, 0);
    if (w.mask == 0) continue;
    w.segment = w.code + part.pc;
    begins_to_follow |= do_part(w.segment, w, brought);
    count(w, w.segment, 1);
    wait_at(w, part.pc + 1, w.mask);
  }
  return begins_to_follow ? nullptr : next_group(w);
}

// What comes after an exchange: groups may have met, so the order is looked at again.
const Op* after(const Op* op, Warp& w) {
  if (w.waiting_count == 0) return op + 1;
  count(w, op, 1);
  return settle(w, static_cast<std::uint32_t>(op + 1 - w.code));
}

template <Part do_part>
const Op* exchange(const Op* op, Warp& w) {
  if (w.check_barriers) [[unlikely]]
    watch_members(op, w);
  if (!are_together(op, w)) return come_apart(op, w, do_part);
  const Brought all{.a = w.registers + op->a,
                    .here = w.mask,
                    .undefined = w.undefined == nullptr ? 0 : w.undefined->of(op->a)};
  if (!do_part(op, w, all)) [[likely]]
    return after(op, w);
  count(w, op, 1);
  wait_at(w, pc_of(op, w) + 1, w.mask);
  return nullptr;
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
[[gnu::noinline]] bool look_at_sources(const Op* op, Warp& w, const Brought& brought) {
  const auto* members = lane_registers<std::uint32_t>(w, op->e);
  if (w.undefined->lanes.empty() && w.mask == kAllLanes && named_by_all(w, members) == kAllLanes)
    return false;
  std::uint32_t from[kLanes];
  sources(op, w, from);
  return note_shuffled(op, w, from, brought.here, brought.undefined);
}

bool shuffle_part(const Op* op, Warp& w, const Brought& brought) {
  const bool begins_to_follow = w.undefined != nullptr && look_at_sources(op, w, brought);
  const auto* a = static_cast<const std::uint32_t*>(brought.a);
  std::uint32_t from[kLanes];
  const std::uint32_t holds = sources(op, w, from);
  alignas(64) std::uint32_t value[kLanes];
  for (unsigned lane = 0; lane < kLanes; ++lane) value[lane] = a[from[lane] & 31];
  std::uint32_t* d = lane_registers<std::uint32_t>(w, op->d);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    d[lane] = (w.mask >> lane & 1) != 0 ? value[lane] : d[lane];
  if (op->imm >= 0) write_mask(w, static_cast<std::uint32_t>(op->imm), holds);
  return begins_to_follow;
}

bool vote_part(const Op* op, Warp& w, const Brought& brought) {
  const std::uint32_t* members = lane_registers<std::uint32_t>(w, op->e);
  const std::uint32_t p = *static_cast<const std::uint32_t*>(brought.a);
  std::uint32_t result = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    const std::uint32_t who = members[lane] & brought.here, set = p & who;
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
  return false;
}

bool match_part(const Op* op, Warp& w, const Brought& brought) {
  const std::uint32_t* members = lane_registers<std::uint32_t>(w, op->e);
  const bool wide = (op->flags & kWide) != 0, all = (op->flags & kHasPredicate) != 0;
  std::uint64_t value[kLanes];
  for (unsigned lane = 0; lane < kLanes; ++lane)
    value[lane] = wide ? static_cast<const std::uint64_t*>(brought.a)[lane]
                       : static_cast<const std::uint32_t*>(brought.a)[lane];
  std::uint32_t holds = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    const std::uint32_t who = members[lane] & brought.here;
    std::uint32_t same = 0;
    for (unsigned other = 0; other < kLanes; ++other)
      if ((who >> other & 1) != 0 && value[other] == value[lane]) same |= 1u << other;
    if (same == who) holds |= 1u << lane;
    lane_registers<std::uint32_t>(w, op->d)[lane] = all && same != who ? 0 : same;
  }
  if (all) write_mask(w, op->b, holds);
  return false;
}

bool redux_part(const Op* op, Warp& w, const Brought& brought) {
  const std::uint32_t* members = lane_registers<std::uint32_t>(w, op->e);
  const auto* a = static_cast<const std::uint32_t*>(brought.a);
  std::uint32_t value[kLanes] = {};
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    const std::uint32_t who = members[lane] & brought.here;
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
  return false;
}

bool elect_part(const Op* op, Warp& w, const Brought& brought) {
  const std::uint32_t* members = lane_registers<std::uint32_t>(w, op->e);
  std::uint32_t holds = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    const std::uint32_t who = members[lane] & brought.here;
    const auto leader = static_cast<std::uint32_t>(who == 0 ? lane : __builtin_ctz(who));
    lane_registers<std::uint32_t>(w, op->d)[lane] = leader;
    if (leader == lane) holds |= 1u << lane;
  }
  write_mask(w, op->b, holds);
  return false;
}

}  // namespace

const Op* shuffle(const Op* op, Warp& w) { return exchange<shuffle_part>(op, w); }
const Op* vote(const Op* op, Warp& w) { return exchange<vote_part>(op, w); }
const Op* match(const Op* op, Warp& w) { return exchange<match_part>(op, w); }
const Op* redux(const Op* op, Warp& w) { return exchange<redux_part>(op, w); }
const Op* elect(const Op* op, Warp& w) { return exchange<elect_part>(op, w); }

const Op* active_mask(const Op* op, Warp& w) {
  std::uint32_t* d = lane_registers<std::uint32_t>(w, op->d);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    if ((w.mask >> lane & 1) != 0) d[lane] = w.mask;
  return op + 1;
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
