// Barriers of a block: who came, who opens them, and who was left out. An ended thread holds nobody
// up, as on a GPU; that it never came is a fault only where somebody asked (Checks::barriers).
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "ptx/control.h"
#include "ptx/exec.h"
#include "ptx/ways.h"

namespace partita::ptx {
namespace {

std::string lanes_text(std::uint32_t mask) {
  std::string text;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    unsigned last = lane;
    while (last + 1 < kLanes && (mask >> (last + 1) & 1) != 0) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", lane);
    if (last > lane) text += fmt::format("-{}", last);
    lane = last;
  }
  return text;
}

// "lanes 8-31 of warp 0, warp 2": neighbours that are left out whole are told together.
class Missing {
 public:
  void add(const Warp& w, std::uint32_t mask) {
    if (mask == lanes_of(w)) {
      if (first_ == kNone) first_ = w.index;
      last_ = w.index;
      return;
    }
    flush();
    append(fmt::format("lane{} {} of warp {}", (mask & (mask - 1)) == 0 ? "" : "s",
                       lanes_text(mask), w.index));
  }
  void nobody() { flush(); }
  const std::string& text() {
    flush();
    return text_;
  }

 private:
  static constexpr std::uint32_t kNone = ~0u;
  void append(const std::string& more) { text_ += (text_.empty() ? "" : ", ") + more; }
  void flush() {
    if (first_ == kNone) return;
    append(first_ == last_ ? fmt::format("warp {}", first_)
                           : fmt::format("warps {}-{}", first_, last_));
    first_ = kNone;
  }
  std::uint32_t first_ = kNone, last_ = 0;
  std::string text_;
};

void diverged(const Op* op, Warp& w, std::uint32_t lanes, std::string about) {
  report(op, w,
         {.kind = FaultKind::divergence,
          .lane = static_cast<unsigned>(__builtin_ctz(lanes)),
          .about = std::move(about)});
}

// What a barrier without a count waits for.
std::uint32_t all_places(const Block& block) { return block.run->warps * kLanes; }

bool is_one_value(const Warp& w, std::uint32_t slot) {
  const auto* value = reinterpret_cast<const std::uint32_t*>(w.registers + slot);
  const auto first = static_cast<unsigned>(__builtin_ctz(w.mask));
  for (unsigned lane = first; lane < kLanes; ++lane)
    if ((w.mask >> lane & 1) != 0 && value[lane] != value[first]) return false;
  return true;
}

void watch_arrival(const Op* op, Warp& w, std::uint32_t id, std::uint32_t count) {
  Block& block = *w.block;
  const BarrierState& barrier = block.barriers[id];
  BarrierWatch& watch = block.watches[id];
  const std::uint32_t wanted = count != 0 ? count : all_places(block);
  const std::uint32_t before = barrier.expected != 0 ? barrier.expected : all_places(block);
  if (!is_one_value(w, op->a) || (count != 0 && !is_one_value(w, op->b)))
    diverged(op, w, w.mask, "lanes of the warp name different barriers or counts");
  else if (barrier.arrived != 0 && before != wanted)
    diverged(op, w, w.mask,
             fmt::format("barrier {} is to open for {} threads here, and for {} where others wait",
                         id, wanted, before));
  else if (wanted % kLanes != 0)
    diverged(op, w, w.mask,
             fmt::format("barrier {} counts {} threads: a count is a multiple of {}", id, wanted,
                         kLanes));
  const Op*& at = watch.at[w.index];
  const std::uint32_t elsewhere = watch.lanes[w.index];
  if (elsewhere != 0 && at != op && (elsewhere & w.mask) == 0 &&
      (op->flags & at->flags & control::kAligned) != 0)
    diverged(op, w, w.mask,
             fmt::format("lanes {} of warp {} come to barrier {} here, lanes {} at line {}",
                         lanes_text(w.mask), w.index, id, lanes_text(elsewhere),
                         block.run->program->origins[at->ordinal].line));
  watch.lanes[w.index] |= w.mask;
  at = op;
}

// The barrier opens: everybody who should have come came.
void watch_opening(Block& block, std::uint32_t id) {
  BarrierWatch& watch = block.watches[id];
  const bool for_all = block.barriers[id].expected == 0;
  Missing missing;
  Warp* first = nullptr;
  bool is_lenient = false;
  for (Warp& w : block.warps) {
    const std::uint32_t came = watch.lanes[w.index];
    const std::uint32_t flags = came != 0 ? watch.at[w.index]->flags : 0;
    if (came != 0 && first == nullptr) first = &w;
    is_lenient = is_lenient || (flags & control::kLenient) != 0;
    const bool asked = for_all || (came != 0 && (flags & control::kAligned) != 0);
    const std::uint32_t left_out = asked ? lanes_of(w) & ~came : 0;
    if (left_out != 0)
      missing.add(w, left_out);
    else
      missing.nobody();
  }
  if (const std::string& who = missing.text(); !who.empty() && first != nullptr && !is_lenient)
    diverged(watch.at[first->index], *first, watch.lanes[first->index],
             fmt::format("barrier {} {} {}", id,
                         for_all ? "is for all threads of the block; without it ended:"
                                 : "takes warps whole; it was left out by",
                         who));
  watch = {};
}

void each_lane(std::uint32_t mask, const auto& what) {
  for (; mask != 0; mask &= mask - 1) what(static_cast<unsigned>(__builtin_ctz(mask)));
}

void wake(Warp& w, std::uint32_t id, const BarrierState& full) {
  for (std::uint32_t i = 0; i < w.parked_count;) {
    const Parked parked = w.parked[i];
    if (parked.why != Parked::Why::barrier || parked.key != id) {
      ++i;
      continue;
    }
    const Op& op = w.code[parked.pc];
    if ((op.flags & control::kReducePopc) != 0) {
      for (unsigned lane = 0; lane < kLanes; ++lane)
        if ((parked.mask >> lane & 1) != 0) lane_registers<std::uint32_t>(w, op.d)[lane] = full.set;
    } else if ((op.flags & control::kReduce) != 0) {
      const bool holds =
          (op.flags & control::kReduceAnd) != 0 ? full.set == full.inputs : full.set != 0;
      std::uint32_t& d = mask_register(w, op.d);
      d = holds ? d | parked.mask : d & ~parked.mask;
    }
    if (w.check_races)
      each_lane(parked.mask, [&](unsigned lane) { w.block->orders.acquire(w, lane, id); });
    remove_parked(w, i);
    wait_at(w, parked.pc + 1, parked.mask);
  }
}

// Of shared memory that is written everywhere nothing has to be looked up any more.
void end_check_when_all_is_written(Block& block) {
  if (std::memchr(block.written.data(), 0, block.run->shared_bytes) != nullptr) return;
  for (Warp& w : block.warps) w.shared_valid = nullptr;
}

void open_barriers(Block& block) {
  for (std::uint32_t id = 0; id < kBarriers; ++id) {
    BarrierState& barrier = block.barriers[id];
    if (barrier.arrived == 0) continue;
    if (barrier.expected != 0 ? barrier.places < barrier.expected
                              : barrier.arrived < block.live_threads)
      continue;
    if (!block.watches.empty()) watch_opening(block, id);
    const BarrierState full = std::exchange(barrier, {});
    if (block.warps[0].shared_valid != nullptr) end_check_when_all_is_written(block);
    const bool all_wait = full.expected == 0 || full.places >= all_places(block);
    if (all_wait && !full.left_early) ++block.epoch;
    for (Warp& w : block.warps) wake(w, id, full);
  }
}

// Where a barrier counts, it counts warps, whatever lanes of them ended or never were: those come
// with the lowest lane that lives.
std::uint32_t places(const Warp& w) {
  const std::uint32_t lanes = static_cast<std::uint32_t>(__builtin_popcount(w.mask));
  const bool lowest = (w.live & (0u - w.live) & w.mask) != 0;
  return lowest ? lanes + kLanes - static_cast<std::uint32_t>(__builtin_popcount(w.live)) : lanes;
}

}  // namespace

void watch_members(const Op* op, Warp& w) {
  const auto* members = lane_registers<std::uint32_t>(w, op->e);
  for (std::uint32_t left = w.mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(left));
    const std::uint32_t own = members[lane];
    if ((own >> lane & 1) == 0)
      return diverged(op, w, 1u << lane,
                      fmt::format("lane {} is not among its own members ({:#x})", lane, own));
    for (std::uint32_t others = own & w.mask; others != 0; others &= others - 1) {
      const auto other = static_cast<unsigned>(__builtin_ctz(others));
      if (members[other] != own)
        return diverged(op, w, 1u << lane,
                        fmt::format("lane {} names the members {:#x}, and lane {} of them {:#x}",
                                    lane, own, other, members[other]));
    }
  }
}

void watch_absent(Warp& w, const Parked& parked) {
  std::array<std::uint32_t, kLanes>& at = w.block->absent_at[w.index];
  const auto note = [&](std::uint32_t pc, std::uint32_t mask) {
    each_lane(mask & parked.key & ~parked.mask, [&](unsigned lane) { at[lane] = pc; });
  };
  note(parked.pc, w.mask);
  for (std::uint32_t i = 0; i < w.waiting_count; ++i) note(w.waiting[i].pc, w.waiting[i].mask);
  for (std::uint32_t i = 0; i < w.parked_count; ++i) note(w.parked[i].pc, w.parked[i].mask);
}

// The op of the kernel itself that the lane is at or that called where it is; nothing: not known.
std::optional<std::uint32_t> in_kernel(Warp& w, std::uint32_t pc, unsigned lane) {
  const Program& program = *w.block->run->program;
  for (std::size_t most = program.functions.size(); most > 0; --most) {
    const FunctionPlace& in = function_at(program, pc);
    if (in.callee < 0) return pc;
    const Callee& callee = program.callees[static_cast<std::size_t>(in.callee)];
    pc = lane_registers<std::uint32_t>(w, callee.return_slot)[lane] - 1;
  }
  return std::nullopt;
}

void watch_ended(Warp& w, std::uint32_t mask) {
  RunCore& run = *w.block->run;
  const auto& at = w.block->absent_at[w.index];
  const auto went = [&](std::uint32_t exchange, std::uint32_t from) {
    if (function_at(*run.program, from).callee >= 0) return false;
    const std::scoped_lock lock(run.mutex);
    const auto [found, is_new] = run.went_on.try_emplace({exchange, from}, false);
    if (is_new) found->second = went_on(*run.program, exchange, from);
    return found->second;
  };
  for (std::uint32_t i = 0; i < w.parked_count; ++i) {
    const Parked& parked = w.parked[i];
    if (parked.why == Parked::Why::barrier) continue;
    const auto first = static_cast<unsigned>(__builtin_ctz(parked.mask));
    const auto exchange = in_kernel(w, parked.pc, first);
    std::uint32_t lanes = 0;
    each_lane(exchange ? parked.key & mask : 0, [&](unsigned lane) {
      if (went(*exchange, at[lane])) lanes |= 1u << lane;
    });
    if (lanes == 0) continue;
    Missing missing;
    missing.add(w, lanes);
    diverged(w.code + parked.pc, w, parked.mask,
             fmt::format("it names {}: went on without it, and ended", missing.text()));
  }
}

void lanes_left_barriers(Warp& w, std::uint32_t mask) {
  for (std::uint32_t i = 0; i < w.parked_count; ++i)
    if (w.parked[i].why == Parked::Why::barrier) {
      w.block->barriers[w.parked[i].key].places +=
          static_cast<std::uint32_t>(__builtin_popcount(mask));
      break;
    }
  open_barriers(*w.block);
}

namespace control {

const Op* bar(const Op* op, Warp& w) {
  count(w, op, 1);
  Block& block = *w.block;
  const unsigned first = static_cast<unsigned>(__builtin_ctz(w.mask));
  const std::uint32_t id = lane_registers<std::uint32_t>(w, op->a)[first];
  if (id >= kBarriers) {
    report(op, w, {.kind = FaultKind::illegal, .lane = first, .about = "there are 16 barriers"});
    return nullptr;
  }
  BarrierState& barrier = block.barriers[id];
  const auto lanes = static_cast<std::uint32_t>(__builtin_popcount(w.mask));
  const bool counted = (op->flags & kCounted) != 0;
  const std::uint32_t threads = counted ? lane_registers<std::uint32_t>(w, op->b)[first] : 0;
  if (!block.watches.empty()) watch_arrival(op, w, id, threads);
  if (counted) barrier.expected = threads;
  if (w.check_races && barrier.expected != 0) {
    w.block->orders.meet(w, w.mask | ~w.live);  // of a warp that comes as one
    each_lane(w.mask, [&](unsigned lane) { w.block->orders.release(w, lane, id, true); });
  }
  barrier.arrived += lanes;
  barrier.places += places(w);
  if ((op->flags & kReduce) != 0) {
    barrier.inputs += lanes;
    barrier.set += static_cast<std::uint32_t>(__builtin_popcount(mask_register(w, op->c) & w.mask));
  }
  if ((op->flags & kArrive) != 0) {
    barrier.left_early = true;
    wait_at(w, pc_of(op, w) + 1, w.mask);
  } else {
    w.parked[w.parked_count++] = {pc_of(op, w), w.mask, id, Parked::Why::barrier};
  }
  open_barriers(block);
  return next_group(w);
}

}  // namespace control
}  // namespace partita::ptx
