// Groups of lanes of a warp: which runs, who waits, who meets; branches and exits.
#include <cfenv>
#include <utility>

#include "ptx/control.h"
#include "ptx/exec.h"

namespace partita::ptx {
namespace {

// Goes on at pc with the lanes of the mask.
inline const Op* go(Warp& w, std::uint32_t pc) {
  if (--w.budget < 0) [[unlikely]]
    return slice_end(w, pc);
  if (w.waiting_count != 0) return settle(w, pc);
  return w.segment = w.code + pc;
}

// Lanes parked at exchanges whose other members came, or ended.
void wake_parked(Warp& w) {
  for (std::uint32_t i = 0; i < w.parked_count;) {
    const Parked parked = w.parked[i];
    const std::uint32_t here = came_with(w, parked);
    if (parked.why == Parked::Why::barrier || (parked.key & w.live & ~here) != 0) {
      ++i;
      continue;
    }
    if (parked.why == Parked::Why::collective) {
      remove_parked(w, i);
      wait_at(w, parked.pc, parked.mask);
      i = 0;
      continue;
    }
    if (w.check_races) w.block->orders.meet(w, here | (parked.key & ~w.live));
    for (std::uint32_t j = 0; j < w.parked_count;)
      if (w.parked[j].why == parked.why && w.parked[j].key == parked.key) {
        wait_at(w, w.parked[j].pc + 1, w.parked[j].mask);
        remove_parked(w, j);
      } else {
        ++j;
      }
    i = 0;
  }
}

}  // namespace

void park_by_members(const Op* op, Warp& w, Parked::Why why) {
  const std::uint32_t* members = lane_registers<std::uint32_t>(w, op->e);
  for (std::uint32_t left = w.mask; left != 0;) {
    const std::uint32_t key = members[__builtin_ctz(left)];
    std::uint32_t same = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane)
      if ((left >> lane & 1) != 0 && members[lane] == key) same |= 1u << lane;
    const Parked& parked = w.parked[w.parked_count++] = {pc_of(op, w), same, key, why};
    if (w.check_barriers) watch_absent(w, parked);
    left &= ~same;
  }
}

std::uint32_t came_with(const Warp& w, const Parked& parked) {
  const Op& op = w.code[parked.pc];
  std::uint32_t here = 0;
  for (std::uint32_t i = 0; i < w.parked_count; ++i) {
    const Parked& other = w.parked[i];
    const Op& there = w.code[other.pc];
    const bool together = other.why == Parked::Why::collective && other.pc == parked.pc;
    if (other.why == parked.why && (other.key == parked.key || together) && there.fn == op.fn &&
        there.flags == op.flags)
      here |= other.mask;
  }
  return here;
}

void remove_parked(Warp& w, std::uint32_t i) { w.parked[i] = w.parked[--w.parked_count]; }

void wait_at(Warp& w, std::uint32_t pc, std::uint32_t mask) {
  std::uint32_t at = w.waiting_count;
  while (at > 0 && w.waiting[at - 1].pc < pc) --at;
  if (at > 0 && w.waiting[at - 1].pc == pc) {
    w.waiting[at - 1].mask |= mask;
    return;
  }
  for (std::uint32_t i = w.waiting_count; i > at; --i) w.waiting[i] = w.waiting[i - 1];
  w.waiting[at] = {pc, mask};
  ++w.waiting_count;
}

const Op* next_group(Warp& w) {
  w.sticky = false;
  if (w.waiting_count == 0) return nullptr;
  const Group group = w.waiting[--w.waiting_count];
  w.mask = group.mask;
  return w.segment = w.code + group.pc;
}

const Op* settle(Warp& w, std::uint32_t pc) {
  if (w.sticky) {
    for (std::uint32_t i = 0; i < w.waiting_count; ++i) {
      if (w.waiting[i].pc != pc) continue;
      w.mask |= w.waiting[i].mask;
      for (std::uint32_t j = i + 1; j < w.waiting_count; ++j) w.waiting[j - 1] = w.waiting[j];
      --w.waiting_count;
      break;
    }
    return w.segment = w.code + pc;
  }
  const Group& next = w.waiting[w.waiting_count - 1];
  if (next.pc == pc) {
    w.mask |= next.mask;
    --w.waiting_count;
  } else if (next.pc < pc) {
    const Group lower = next;
    --w.waiting_count;
    wait_at(w, pc, w.mask);
    w.mask = lower.mask;
    pc = lower.pc;
  }
  return w.segment = w.code + pc;
}

// A slice is over: another group of the warp, and at times another warp, has its turn, so that
// lanes that wait for what others do see it done.
const Op* slice_end(Warp& w, std::uint32_t pc) {
  Block& block = *w.block;
  RunCore& run = *block.run;
  w.budget = kSliceBranches;
  if (run.stop.load(std::memory_order_relaxed)) {
    report(w.code + pc, w, {.kind = FaultKind::stopped, .about = "the launch was stopped"});
    return nullptr;
  }
  if (run.ended.load(std::memory_order_relaxed)) {
    block.failed = true;
    return nullptr;
  }
  const std::int32_t slices = ++block.slices[w.index] & 0xffff;
  if (run.launch.cooperative || slices % kSlicesOfWarp == 0) {
    wait_at(w, pc, w.mask);
    return nullptr;
  }
  if (w.waiting_count == 0) return w.segment = w.code + pc;
  if (w.sticky) {
    w.sticky = false;
    return settle(w, pc);
  }
  wait_at(w, pc, w.mask);
  return resume_group(w);
}

const Op* resume_group(Warp& w) {
  const auto slices = static_cast<std::uint32_t>(w.block->slices[w.index] & 0xffff);
  if (w.waiting_count < 2 || slices % kFairSlice != 1) return next_group(w);
  const std::uint32_t pick = slices / kFairSlice % w.waiting_count;
  const Group group = w.waiting[pick];
  for (std::uint32_t i = pick + 1; i < w.waiting_count; ++i) w.waiting[i - 1] = w.waiting[i];
  --w.waiting_count;
  w.mask = group.mask;
  w.sticky = true;
  return w.segment = w.code + group.pc;
}

void lanes_exited(Warp& w, std::uint32_t mask) {
  w.live &= ~mask;
  Block& block = *w.block;
  block.live_threads -= static_cast<std::uint32_t>(__builtin_popcount(mask));
  if (block.run->program->barriers != 0) lanes_left_barriers(w, mask);
  if (w.parked_count == 0) return;
  if (w.check_barriers) watch_ended(w, mask);
  wake_parked(w);
}

namespace control {

const Op* head(const Op* op, Warp& w) {
  if (w.waiting_count == 0) [[likely]]
    return op + 1;
  count(w, op, 0);
  return settle(w, pc_of(op, w) + 1);
}

const Op* branch(const Op* op, Warp& w) {
  count(w, op, 1);
  return go(w, static_cast<std::uint32_t>(op->imm));
}

const Op* branch_if(const Op* op, Warp& w) {
  count(w, op, (op->flags & kSynthetic) != 0 ? 0 : 1);
  const std::uint32_t p = mask_register(w, op->a) ^ ((op->flags & kNegated) != 0 ? kAllLanes : 0);
  const std::uint32_t taken = w.mask & p, passed = w.mask & ~p;
  const auto target = static_cast<std::uint32_t>(op->imm), next = pc_of(op, w) + 1;
  if (passed == 0) return go(w, target);
  if (taken == 0) return go(w, next);
  const bool back = target < next;
  wait_at(w, back ? next : target, back ? passed : taken);
  w.mask = back ? taken : passed;
  return go(w, back ? target : next);
}

const Op* branch_table(const Op* op, Warp& w) {
  count(w, op, 1);
  const auto& table = w.block->run->program->tables[static_cast<std::size_t>(op->imm)];
  const std::uint32_t* index = lane_registers<std::uint32_t>(w, op->a);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    if (index[lane] >= table.size()) {
      report(op, w,
             {.kind = FaultKind::illegal,
              .lane = lane,
              .about = "the index of the branch is beyond its targets"});
      return nullptr;
    }
    wait_at(w, table[index[lane]], 1u << lane);
  }
  if (--w.budget < 0) {
    const Op* next = next_group(w);
    return slice_end(w, pc_of(next, w));
  }
  return next_group(w);
}

const Op* guard(const Op* op, Warp& w) {
  const std::uint32_t p = mask_register(w, op->a) ^ ((op->flags & kNegated) != 0 ? kAllLanes : 0);
  const std::uint32_t all = w.mask;
  if ((all & p) == 0) return op + 2;
  w.mask = all & p;
  const Op* next = op[1].fn(op + 1, w);
  w.mask = all;
  return next;
}

const Op* rounding(const Op* op, Warp& w) {
  static constexpr int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  std::fesetround(kModes[op->flags & 3]);
  const Op* next = op[1].fn(op + 1, w);
  std::fesetround(FE_TONEAREST);
  return next;
}

const Op* exit_lanes(const Op* op, Warp& w) {
  count(w, op, 1);
  lanes_exited(w, w.mask);
  return next_group(w);
}

const Op* nothing(const Op* op, Warp&) { return op + 1; }

const Op* bar_warp(const Op* op, Warp& w) {
  const std::uint32_t* members = lane_registers<std::uint32_t>(w, op->e);
  if (w.check_barriers) watch_members(op, w);
  bool all = true;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    if ((w.mask >> lane & 1) != 0 && (members[lane] & w.live & ~w.mask) != 0) all = false;
  if (all) {
    if (w.check_races) w.block->orders.meet(w, members);
    return op + 1;
  }
  count(w, op, 1);
  park_by_members(op, w, Parked::Why::warp_sync);
  wake_parked(w);
  return next_group(w);
}

}  // namespace control
}  // namespace partita::ptx
