// Atomics on global, shared and generic memory: lane after lane, with the host's atomics.
#include <cstring>
#include <type_traits>

#include "ptx/barrier_word.h"
#include "ptx/control.h"
#include "ptx/exec.h"
#include "ptx/memory_ops.h"

namespace partita::ptx::control {
namespace {

constexpr std::uint32_t kWideAddress = 4;
constexpr std::int32_t kSpinCost = 15;  // branches that what may be a lock counts for

constexpr bool is_barrier(Atomic what) { return what >= Atomic::barrier_arrive; }

template <Atomic What, class T>
T updated(T old, T b, T c) {
  if constexpr (What == Atomic::barrier_arrive) return barrier_word::arrived(old, b);
  if constexpr (What == Atomic::barrier_drop) return barrier_word::dropped(old, b);
  if constexpr (What == Atomic::barrier_expect) return barrier_word::expecting(old, b);
  if constexpr (What == Atomic::barrier_complete) return barrier_word::completed(old, b);
  if constexpr (What == Atomic::barrier_arrive_expect)
    return barrier_word::arrived(barrier_word::expecting(old, b), 1);
  if constexpr (What == Atomic::exch) return b;
  if constexpr (What == Atomic::cas) return std::memcmp(&old, &b, sizeof(T)) == 0 ? c : old;
  if constexpr (What == Atomic::min) return b < old ? b : old;
  if constexpr (What == Atomic::max) return b > old ? b : old;
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    if constexpr (What == Atomic::add)
      return static_cast<T>(static_cast<U>(old) + static_cast<U>(b));
    if constexpr (What == Atomic::inc) return old >= b ? T{0} : static_cast<T>(old + 1);
    if constexpr (What == Atomic::dec) return old == 0 || old > b ? b : static_cast<T>(old - 1);
    if constexpr (What == Atomic::and_) return old & b;
    if constexpr (What == Atomic::or_) return old | b;
    if constexpr (What == Atomic::xor_) return old ^ b;
  } else if constexpr (What == Atomic::add) {
    return old + b;
  }
  return old;
}

template <Atomic What, class T>
T update(std::byte* at, T b, T c) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
  Bits* const word = reinterpret_cast<Bits*>(at);
  Bits seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (true) {
    T old, next;
    std::memcpy(&old, &seen, sizeof(old));
    next = updated<What, T>(old, b, c);
    Bits wanted;
    std::memcpy(&wanted, &next, sizeof(wanted));
    if (__atomic_compare_exchange_n(word, &seen, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      return old;
  }
}

template <Atomic What, class T>
const Op* atomic(const Op* op, Warp& w) {
  alignas(64) std::uint64_t address[kLanes];
  const bool wide = (op->flags & kWideAddress) != 0;
  const std::uint64_t window = (op->flags & kSharedSpace) != 0 ? kSharedWindow : 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    address[i] =
        wide ? lane_registers<std::uint64_t>(w, op->a)[i] + static_cast<std::uint64_t>(op->imm)
             : lane_registers<std::uint32_t>(w, op->a)[i] + static_cast<std::uint32_t>(op->imm);
    if (window == 0) continue;
    address[i] = address[i] < kWindowBytes ? window + address[i] : kSharedWindow + kWindowBytes - 1;
  }
  Op access = *op;
  access.flags = kStrong | kUpdate | (op->flags & kRelease) | (is_barrier(What) ? kPhased : 0) |
                 (window != 0 || (op->flags & kGeneric) != 0 ? kGeneric : 0);
  if (What != Atomic::exch && w.block->run->launch.checks.uninitialised &&
      resolve(&access, w, address, false).failed)
    return nullptr;
  const LanePointers found = resolve(&access, w, address, true);
  if (found.failed) return nullptr;
  if (What == Atomic::cas || What == Atomic::exch || is_barrier(What)) w.budget -= kSpinCost;
  const T* b = lane_registers<T>(w, op->b);
  const T* c = lane_registers<T>(w, op->c);
  T old[kLanes];
  for (unsigned i = 0; i < kLanes; ++i)
    if ((w.mask >> i & 1) != 0) old[i] = update<What, T>(found.at[i], b[i], c[i]);
  if (found.local != 0) write_back(&access, w, address, found);
  if ((op->flags & kNoResult) != 0) return op + 1;
  T* d = lane_registers<T>(w, op->d);
  for (unsigned i = 0; i < kLanes; ++i)
    if ((w.mask >> i & 1) != 0) d[i] = old[i];
  return op + 1;
}

template <class T>
OpFn bits_op(Atomic what) {
  switch (what) {
    case Atomic::and_:
      return atomic<Atomic::and_, T>;
    case Atomic::or_:
      return atomic<Atomic::or_, T>;
    case Atomic::xor_:
      return atomic<Atomic::xor_, T>;
    case Atomic::exch:
      return atomic<Atomic::exch, T>;
    case Atomic::cas:
      return atomic<Atomic::cas, T>;
    default:
      return nullptr;
  }
}
template <class T>
OpFn integer_op(Atomic what) {
  switch (what) {
    case Atomic::add:
      return atomic<Atomic::add, T>;
    case Atomic::min:
      return atomic<Atomic::min, T>;
    case Atomic::max:
      return atomic<Atomic::max, T>;
    case Atomic::inc:
      return atomic<Atomic::inc, T>;
    case Atomic::dec:
      return atomic<Atomic::dec, T>;
    default:
      return bits_op<T>(what);
  }
}

OpFn barrier_op(Atomic what) {
  switch (what) {
    case Atomic::barrier_arrive:
      return atomic<Atomic::barrier_arrive, std::uint64_t>;
    case Atomic::barrier_drop:
      return atomic<Atomic::barrier_drop, std::uint64_t>;
    case Atomic::barrier_expect:
      return atomic<Atomic::barrier_expect, std::uint64_t>;
    case Atomic::barrier_complete:
      return atomic<Atomic::barrier_complete, std::uint64_t>;
    case Atomic::barrier_arrive_expect:
      return atomic<Atomic::barrier_arrive_expect, std::uint64_t>;
    default:
      return nullptr;
  }
}

}  // namespace

const Op* copy_bytes(const Op* op, Warp& w) {
  const auto* to = lane_registers<std::uint64_t>(w, op->d);
  const auto* from = lane_registers<std::uint64_t>(w, op->a);
  const auto* have = lane_registers<std::uint64_t>(w, op->b);
  const auto* want = lane_registers<std::uint64_t>(w, op->c);
  Op access = *op;
  access.flags = kGeneric | op->flags;
  const std::uint32_t mask = w.mask;
  alignas(64) std::uint64_t address[kLanes] = {};
  bool good = true;
  for (unsigned i = 0; good && i < kLanes; ++i) {
    if ((mask >> i & 1) == 0) continue;
    w.mask = 1u << i;
    for (std::uint64_t at = 0; good && at < want[i]; at += access.size) {
      const std::uint64_t left = have[i] > at ? have[i] - at : 0;
      const bool torn = (left > 0 && left < op->size) || at % op->size != 0;
      access.size = torn ? 1 : op->size;
      std::byte piece[16] = {};
      if (left > 0) {
        address[i] = from[i] + at;
        const LanePointers source = resolve(&access, w, address, false);
        good = !source.failed;
        if (good) std::memcpy(piece, source.at[i], access.size);
      }
      if (!good) break;
      address[i] = to[i] + at;
      const LanePointers target = resolve(&access, w, address, true);
      good = !target.failed;
      if (good) std::memcpy(target.at[i], piece, access.size);
      if (good && target.local != 0) write_back(&access, w, address, target);
    }
  }
  w.mask = mask;
  return good ? op + 1 : nullptr;
}

OpFn atomic_op(Atomic what, Type type) {
  const bool counts = what == Atomic::inc || what == Atomic::dec;
  switch (type) {
    case Type::u32:
      return integer_op<std::uint32_t>(what);
    case Type::s32:
      return counts ? nullptr : integer_op<std::int32_t>(what);
    case Type::u64:
      return is_barrier(what) ? barrier_op(what)
             : counts         ? nullptr
                              : integer_op<std::uint64_t>(what);
    case Type::s64:
      return counts ? nullptr : integer_op<std::int64_t>(what);
    case Type::b16:
      return what == Atomic::cas || what == Atomic::exch ? bits_op<std::uint16_t>(what) : nullptr;
    case Type::b32:
      return bits_op<std::uint32_t>(what);
    case Type::b64:
      return bits_op<std::uint64_t>(what);
    case Type::f32:
      return what == Atomic::add    ? atomic<Atomic::add, float>
             : what == Atomic::exch ? bits_op<std::uint32_t>(what)
                                    : nullptr;
    case Type::f64:
      return what == Atomic::add    ? atomic<Atomic::add, double>
             : what == Atomic::exch ? bits_op<std::uint64_t>(what)
                                    : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace partita::ptx::control
