// Loads and stores of one level. The fast path is one range check of all lanes against the
// allocation used last; everything else goes to memory_ops.h.
#pragma once

#include "ptx/lanes.h"
#include "ptx/memory_ops.h"

namespace partita::ptx::PARTITA_PTX_LEVEL {
namespace {

enum class Reach { row, lanes, slow };

// Whether the lanes lie within the span, in a row or anywhere; their offsets in it.
template <unsigned Size>
inline Reach reach(const Op* op, const Warp& w, const Span& span, u64* offset) {
  const u64* a = lanes<u64>(const_cast<Warp&>(w), op->a);
  const u64 begin = span.begin - static_cast<u64>(op->imm);
  if (span.bytes < Size) return Reach::slow;
  const u64 limit = span.bytes - Size;
  u64 bad = 0, low = 0;
  if (w.mask == kAllLanes) {
    const u64 base = a[0];
    u64 apart = 0;
    for (unsigned i = 0; i < kLanes; ++i) apart |= a[i] ^ (base + i * Size);
    const u64 first = base - begin;
    if (apart == 0 && first <= limit && limit - first >= (kLanes - 1) * Size && first % Size == 0) {
      offset[0] = first;
      return Reach::row;
    }
    for (unsigned i = 0; i < kLanes; ++i) {
      const u64 o = a[i] - begin;
      offset[i] = o;
      bad |= o | (limit - o);
      low |= o;
    }
  } else {
    const u64 first = a[__builtin_ctz(w.mask)];
    for (unsigned i = 0; i < kLanes; ++i) {
      const u64 o = ((w.mask & kBit[i]) != 0 ? a[i] : first) - begin;
      offset[i] = o;
      bad |= o | (limit - o);
      low |= o;
    }
  }
  return static_cast<s64>(bad) < 0 || low % Size != 0 ? Reach::slow : Reach::lanes;
}

template <unsigned Size>
inline bool all_valid(const Span& span, const u64* offset, Reach how) {
  u8 all = 1;
  if (how == Reach::row) {
    const u8* valid = span.valid + offset[0];
    for (unsigned i = 0; i < kLanes * Size; ++i) all &= valid[i];
    return all != 0;
  }
  for (unsigned i = 0; i < kLanes; ++i)
    for (unsigned n = 0; n < Size; ++n) all &= span.valid[offset[i] + n];
  return all != 0;
}

template <unsigned N>
inline u32 element(const Op* op, unsigned n) {
  static_assert(N <= 4);
  return n == 0 ? op->d : n == 1 ? op->b : n == 2 ? op->c : op->e;
}

// Reads without promises about types: memory belongs to the kernel.
template <class M>
inline M peek(const std::byte* from) {
  M value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}
template <class M>
inline void poke(std::byte* to, M value) {
  __builtin_memcpy(to, &value, sizeof(value));
}

template <class M, class Offset>
inline void gather(M* to, const std::byte* from, const Offset* offset) {
#if defined(__AVX2__)
  if constexpr (sizeof(M) == 4 && sizeof(Offset) == 4) {
    for (unsigned i = 0; i < kLanes; i += 8) {
      const __m256i at = _mm256_load_si256(reinterpret_cast<const __m256i*>(offset + i));
      const __m256i got = _mm256_i32gather_epi32(reinterpret_cast<const int*>(from), at, 1);
      _mm256_store_si256(reinterpret_cast<__m256i*>(to + i), got);
    }
    return;
  }
#endif
  for (unsigned i = 0; i < kLanes; ++i) to[i] = peek<M>(from + offset[i]);
}

// All N at once where the processor can: programs take a strong vector access for one, as it is on
// GPUs (a status beside its value). Aligned to its size.
template <class M, unsigned N, class Whole>
inline void load_strong(M* to, const std::byte* from) {
  static_assert(sizeof(Whole) == sizeof(M) * N);
  const Whole got = __atomic_load_n(reinterpret_cast<const Whole*>(from), __ATOMIC_ACQUIRE);
  __builtin_memcpy(to, &got, sizeof(got));
}
template <class M, unsigned N>
inline void load_strong(M* to, const std::byte* from) {
  constexpr unsigned size = sizeof(M) * N;
  if constexpr (size == 2) return load_strong<M, N, u16>(to, from);
  if constexpr (size == 4) return load_strong<M, N, u32>(to, from);
  if constexpr (size == 8) return load_strong<M, N, u64>(to, from);
#if defined(__SSE2__)
  if constexpr (size == 16) {  // one access with AVX; x86 loads acquire, its stores release
    const __m128i got = *reinterpret_cast<const volatile __m128i_u*>(from);
    __atomic_signal_fence(__ATOMIC_ACQUIRE);
    return __builtin_memcpy(to, &got, size), void();
  }
#endif
  for (unsigned n = 0; n < N; ++n)
    to[n] = __atomic_load_n(reinterpret_cast<const M*>(from) + n, __ATOMIC_ACQUIRE);
}
template <class M, unsigned N, class Whole>
inline void store_strong(std::byte* to, const M* from) {
  static_assert(sizeof(Whole) == sizeof(M) * N);
  Whole value;
  __builtin_memcpy(&value, from, sizeof(value));
  __atomic_store_n(reinterpret_cast<Whole*>(to), value, __ATOMIC_RELEASE);
}
template <class M, unsigned N>
inline void store_strong(std::byte* to, const M* from) {
  constexpr unsigned size = sizeof(M) * N;
  if constexpr (size == 2) return store_strong<M, N, u16>(to, from);
  if constexpr (size == 4) return store_strong<M, N, u32>(to, from);
  if constexpr (size == 8) return store_strong<M, N, u64>(to, from);
#if defined(__SSE2__)
  if constexpr (size == 16) {
    __m128i value;
    __builtin_memcpy(&value, from, size);
    __atomic_signal_fence(__ATOMIC_RELEASE);
    *reinterpret_cast<volatile __m128i_u*>(to) = value;
    return;
  }
#endif
  for (unsigned n = 0; n < N; ++n)
    __atomic_store_n(reinterpret_cast<M*>(to) + n, from[n], __ATOMIC_RELEASE);
}

template <class M, class R, unsigned N>
const Op* load_slowly(const Op* op, Warp& w) {
  const u64* a = lanes<u64>(w, op->a);
  alignas(64) u64 address[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) address[i] = a[i] + static_cast<u64>(op->imm);
  const LanePointers found = resolve(op, w, address, false);
  if (found.failed) return nullptr;
  const bool strong = (op->flags & kStrong) != 0;
  for (u32 left = w.mask; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(__builtin_ctz(left));
    M value[N];
    if (strong)
      load_strong<M, N>(value, found.at[i]);
    else
      __builtin_memcpy(value, found.at[i], sizeof(value));
    for (unsigned n = 0; n < N; ++n) lanes<R>(w, element<N>(op, n))[i] = static_cast<R>(value[n]);
  }
  return op + 1;
}

template <class M, class R, unsigned N>
const Op* load_global(const Op* op, Warp& w) {
  constexpr unsigned size = sizeof(M) * N;
  if ((op->flags & kStrong) != 0 || w.check_global) [[unlikely]]
    return load_slowly<M, R, N>(op, w);
  const Span& span = w.spans[op->span];
  alignas(64) u64 offset[kLanes];
  const Reach how = reach<size>(op, w, span, offset);
  if (how == Reach::slow) return load_slowly<M, R, N>(op, w);
  if (span.valid != nullptr && !all_valid<size>(span, offset, how))
    return load_slowly<M, R, N>(op, w);
  if (how == Reach::row) {
    const std::byte* from = span.host + offset[0];
    for (unsigned n = 0; n < N; ++n)
      each<R>(w, element<N>(op, n),
              [=](unsigned i) { return static_cast<R>(peek<M>(from + (i * N + n) * sizeof(M))); });
    return op + 1;
  }
  for (unsigned n = 0; n < N; ++n) {
    alignas(64) M value[kLanes];
    gather(value, span.host + n * sizeof(M), offset);
    const M* got = value;
    each<R>(w, element<N>(op, n), [=](unsigned i) { return static_cast<R>(got[i]); });
  }
  return op + 1;
}

template <class M, class R, unsigned N>
const Op* store_slowly(const Op* op, Warp& w) {
  const u64* a = lanes<u64>(w, op->a);
  alignas(64) u64 address[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) address[i] = a[i] + static_cast<u64>(op->imm);
  const LanePointers found = resolve(op, w, address, true);
  if (found.failed) return nullptr;
  const bool strong = (op->flags & kStrong) != 0;
  for (u32 left = w.mask; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(__builtin_ctz(left));
    M value[N];
    for (unsigned n = 0; n < N; ++n) value[n] = static_cast<M>(lanes<R>(w, element<N>(op, n))[i]);
    if (strong)
      store_strong<M, N>(found.at[i], value);
    else
      __builtin_memcpy(found.at[i], value, sizeof(value));
  }
  if (found.local != 0) write_back(op, w, address, found);
  return op + 1;
}

template <class M, class R, unsigned N>
const Op* store_global(const Op* op, Warp& w) {
  constexpr unsigned size = sizeof(M) * N;
  if ((op->flags & kStrong) != 0 || w.check_global) [[unlikely]]
    return store_slowly<M, R, N>(op, w);
  const Span& span = w.spans[op->span];
  alignas(64) u64 offset[kLanes];
  const Reach how = reach<size>(op, w, span, offset);
  if (how == Reach::slow || span.read_only) return store_slowly<M, R, N>(op, w);
  if (how == Reach::row) {
    std::byte* to = span.host + offset[0];
    for (unsigned n = 0; n < N; ++n) {
      const R* d = lanes<R>(w, element<N>(op, n));
#pragma GCC ivdep
      for (unsigned i = 0; i < kLanes; ++i)
        poke(to + (i * N + n) * sizeof(M), static_cast<M>(d[i]));
    }
    if (span.valid != nullptr) __builtin_memset(span.valid + offset[0], 1, kLanes * size);
    return op + 1;
  }
  for (u32 left = w.mask; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(__builtin_ctz(left));
    for (unsigned n = 0; n < N; ++n)
      poke(span.host + offset[i] + n * sizeof(M),
           static_cast<M>(lanes<R>(w, element<N>(op, n))[i]));
    if (span.valid != nullptr) __builtin_memset(span.valid + offset[i], 1, size);
  }
  return op + 1;
}

inline constexpr u32 kWideAddress = 4;  // flag: the address register has 64 bits
inline constexpr u32 kStatic = 8;       // flag: the offset is imm

// Offsets of the lanes in shared or local memory; false where one is outside or misaligned.
template <unsigned Size, class A>
inline bool offsets_of(const Op* op, Warp& w, u32 bytes, u32* offset) {
  using S = typename Bits<sizeof(A)>::type;
  if (bytes < Size) return false;
  const A* a = lanes<A>(w, op->a);
  const A limit = bytes - Size, imm = static_cast<A>(op->imm);
  S bad = 0, low = 0;
  if (w.mask == kAllLanes) {
    for (unsigned i = 0; i < kLanes; ++i) {
      const A o = a[i] + imm;
      offset[i] = static_cast<u32>(o);
      bad |= o | (limit - o);
      low |= o;
    }
  } else {
    const A first = a[__builtin_ctz(w.mask)];
    for (unsigned i = 0; i < kLanes; ++i) {
      const A o = ((w.mask & kBit[i]) != 0 ? a[i] : first) + imm;
      offset[i] = static_cast<u32>(o);
      bad |= o | (limit - o);
      low |= o;
    }
  }
  return (bad >> (8 * sizeof(A) - 1)) == 0 && low % Size == 0;
}
template <unsigned Size>
inline bool small_offsets(const Op* op, Warp& w, u32 bytes, u32* offset) {
  return (op->flags & kWideAddress) != 0 ? offsets_of<Size, u64>(op, w, bytes, offset)
                                         : offsets_of<Size, u32>(op, w, bytes, offset);
}
inline void full_offsets(const Op* op, Warp& w, u64* offset) {
  for (unsigned i = 0; i < kLanes; ++i)
    offset[i] = (op->flags & kWideAddress) != 0
                    ? lanes<u64>(w, op->a)[i] + static_cast<u64>(op->imm)
                    : lanes<u32>(w, op->a)[i] + static_cast<u32>(op->imm);
}
inline const Op* fail_shared(const Op* op, Warp& w, bool write) {
  alignas(64) u64 offset[kLanes];
  full_offsets(op, w, offset);
  shared_fault(op, w, offset, write);
  return nullptr;
}

// The race check for all lanes at once; false where a conflict (of a write: no row) asks
// for a closer look. `word`: the word of each lane.
__attribute__((noinline)) bool note_reads(const Warp& w, const u32* word) {
  const u64 epoch = static_cast<u64>(*w.race.epoch) << 32;
  const u64 base = epoch | static_cast<u64>(w.race.tick) << kTickShift;
  const u64 all = epoch | kSeveralReaders, warp = base | (kSeveralOfWarp + w.index);
  const u64 me = base | w.index * kLanes, index = w.index;
  alignas(64) u64 last[kLanes], read[kLanes], next[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) last[i] = w.race.writer[word[i]];
  for (unsigned i = 0; i < kLanes; ++i) read[i] = w.race.reader[word[i]];
  u64 bad = 0, changed = 0;
  for (unsigned i = 0; i < kLanes; ++i) bad |= last[i] >= epoch && last[i] != me + i ? 1u : 0u;
  for (unsigned i = 0; i < kLanes; ++i) {
    const u64 old = read[i], who = old & kThreadBits, mine = (me + i) & kThreadBits;
    const u64 of_warp = who >= kSeveralOfWarp ? who - kSeveralOfWarp : who / kLanes;
    const u64 shared = of_warp == index ? warp : all;
    next[i] = old < epoch || who == mine ? me + i : shared;
    changed |= next[i] ^ old;
  }
  if (bad != 0) return false;
  if (changed == 0) return true;
  for (unsigned i = 0; i < kLanes; ++i) w.race.reader[word[i]] = next[i];
  u32 twice = 0;  // lanes whose word another lane has too
  for (unsigned i = 0; i < kLanes; ++i) twice |= w.race.reader[word[i]] != next[i] ? kBit[i] : 0;
  for (; twice != 0; twice &= twice - 1) w.race.reader[word[__builtin_ctz(twice)]] = warp;
  return true;
}
__attribute__((noinline)) bool note_writes(const Warp& w, const u32* word) {
  const u64 epoch = static_cast<u64>(*w.race.epoch) << 32;
  const u64 me = epoch | static_cast<u64>(w.race.tick) << kTickShift | w.index * kLanes;
  u64 bad = 0;
  const u32 step = word[1] - word[0];
  for (unsigned i = 0; i < kLanes; ++i) bad |= word[i] ^ (word[0] + i * step);
  if (bad != 0 || step == 0) return false;
  for (unsigned i = 0; i < kLanes; ++i) {
    const u64 last = w.race.writer[word[i]], read = w.race.reader[word[i]];
    bad |= last >= epoch && last != me + i ? 1u : 0u;
    bad |= read >= epoch && read != me + i ? 1u : 0u;
  }
  if (bad != 0) return false;
  for (unsigned i = 0; i < kLanes; ++i) w.race.writer[word[i]] = me + i;
  return true;
}
template <unsigned Size>
inline bool races_known(const Op* op, const Warp& w, const u32* offset, bool write) {
  if (w.mask != kAllLanes || (op->flags & (kStrong | kCopying)) != 0) return false;
  const ArrayBounds array = w.arrays[op->span];
  const u32 limit = array.end - array.begin - Size;
  u32 outside = array.end - array.begin < Size ? 1 : 0;
  for (unsigned i = 0; i < kLanes; ++i) outside |= offset[i] - array.begin > limit ? 1u : 0u;
  if (outside != 0) return false;
  const unsigned shift = w.race.shift;
  for (unsigned n = 0; n < Size >> shift; ++n) {
    alignas(64) u32 word[kLanes];
    for (unsigned i = 0; i < kLanes; ++i) word[i] = (offset[i] >> shift) + n;
    if (!(write ? note_writes(w, word) : note_reads(w, word))) return false;
  }
  return true;
}

template <unsigned Size>
inline bool written(const Warp& w, const u32* offset) {
  if constexpr (Size % 4 == 0) {
    u32 all = ~0u;
    for (unsigned n = 0; n < Size; n += 4) {
      alignas(64) u32 valid[kLanes];
      gather(valid, reinterpret_cast<const std::byte*>(w.shared_valid) + n, offset);
      for (unsigned i = 0; i < kLanes; ++i) all &= valid[i];
    }
    return all == 0x01010101u;
  }
  u8 all = 1;
  for (unsigned i = 0; i < kLanes; ++i)
    for (unsigned n = 0; n < Size; ++n) all &= w.shared_valid[offset[i] + n];
  return all != 0;
}

template <class M, class R, unsigned N>
const Op* load_shared(const Op* op, Warp& w) {
  alignas(64) u32 offset[kLanes];
  if (!small_offsets<sizeof(M) * N>(op, w, w.shared_bytes, offset)) [[unlikely]]
    return fail_shared(op, w, false);
  if (w.check_races && !races_known<sizeof(M) * N>(op, w, offset, false) &&
      !note_shared(op, w, offset, false)) [[unlikely]]
    return nullptr;
  if (w.shared_valid != nullptr && !written<sizeof(M) * N>(w, offset)) [[unlikely]]
    note_unwritten(op, w, offset);
  for (unsigned n = 0; n < N; ++n) {
    alignas(64) M value[kLanes];
    gather(value, w.shared + n * sizeof(M), offset);
    const M* got = value;
    each<R>(w, element<N>(op, n), [=](unsigned i) { return static_cast<R>(got[i]); });
  }
  return op + 1;
}
template <class M, class R, unsigned N>
const Op* store_shared(const Op* op, Warp& w) {
  alignas(64) u32 offset[kLanes];
  if (!small_offsets<sizeof(M) * N>(op, w, w.shared_bytes, offset)) [[unlikely]]
    return fail_shared(op, w, true);
  if (w.check_races && !races_known<sizeof(M) * N>(op, w, offset, true) &&
      !note_shared(op, w, offset, true)) [[unlikely]]
    return nullptr;
  if (w.shared_valid != nullptr)
    for (unsigned i = 0; i < kLanes; ++i)
      __builtin_memset(w.shared_valid + offset[i], 1, sizeof(M) * N);
  for (unsigned n = 0; n < N; ++n) {
    const R* d = lanes<R>(w, element<N>(op, n));
    if (w.mask == kAllLanes) {
      for (unsigned i = 0; i < kLanes; ++i)
        poke(w.shared + offset[i] + n * sizeof(M), static_cast<M>(d[i]));
      continue;
    }
    for (u32 left = w.mask; left != 0; left &= left - 1) {
      const auto i = static_cast<unsigned>(__builtin_ctz(left));
      poke(w.shared + offset[i] + n * sizeof(M), static_cast<M>(d[i]));
    }
  }
  return op + 1;
}

// Local memory: word k of lane l at 4 * (32 k + l), so that equal offsets lie in a row.
template <class M>
inline M local_get(const std::byte* local, u32 offset, unsigned lane) {
  const std::byte* from = local + (offset >> 2) * 128 + lane * 4;
  if constexpr (sizeof(M) == 8)
    return static_cast<M>(peek<u32>(from) | static_cast<u64>(peek<u32>(from + 128)) << 32);
  else
    return peek<M>(from + (offset & 3));
}
template <class M>
inline void local_put(std::byte* local, u32 offset, unsigned lane, M value) {
  std::byte* to = local + (offset >> 2) * 128 + lane * 4;
  if constexpr (sizeof(M) == 8) {
    poke(to, static_cast<u32>(static_cast<u64>(value)));
    poke(to + 128, static_cast<u32>(static_cast<u64>(value) >> 32));
  } else {
    poke(to + (offset & 3), value);
  }
}
// True where all lanes of the mask use one offset, given in offset[0].
template <unsigned Size>
inline bool one_offset(const Op* op, Warp& w, u32* offset) {
  if ((op->flags & kStatic) != 0) {
    offset[0] = static_cast<u32>(op->imm);
    return true;
  }
  u32 apart = 0;
  const u32 first = offset[__builtin_ctz(w.mask)];
  for (unsigned i = 0; i < kLanes; ++i) apart |= (w.mask & kBit[i]) != 0 ? offset[i] ^ first : 0;
  if (apart != 0) return false;
  offset[0] = first;
  return true;
}
template <class M, class R, unsigned N>
const Op* load_local(const Op* op, Warp& w) {
  constexpr unsigned size = sizeof(M) * N;
  alignas(64) u32 offset[kLanes];
  if ((op->flags & kStatic) == 0 && !small_offsets<size>(op, w, w.local_bytes, offset)) {
    alignas(64) u64 full[kLanes];
    full_offsets(op, w, full);
    local_fault(op, w, full, false);
    return nullptr;
  }
  const bool one = one_offset<size>(op, w, offset);
  const std::byte* const local = w.local;
  const u32* const at = offset;
  for (unsigned n = 0; n < N; ++n) {
    const u32 more = n * static_cast<u32>(sizeof(M)), first = offset[0] + more;
    if (one)
      each<R>(w, element<N>(op, n),
              [=](unsigned i) { return static_cast<R>(local_get<M>(local, first, i)); });
    else
      each<R>(w, element<N>(op, n),
              [=](unsigned i) { return static_cast<R>(local_get<M>(local, at[i] + more, i)); });
  }
  return op + 1;
}
template <class M, class R, unsigned N>
const Op* store_local(const Op* op, Warp& w) {
  constexpr unsigned size = sizeof(M) * N;
  alignas(64) u32 offset[kLanes];
  if ((op->flags & kStatic) == 0 && !small_offsets<size>(op, w, w.local_bytes, offset)) {
    alignas(64) u64 full[kLanes];
    full_offsets(op, w, full);
    local_fault(op, w, full, true);
    return nullptr;
  }
  const bool one = one_offset<size>(op, w, offset);
  for (unsigned n = 0; n < N; ++n) {
    const R* d = lanes<R>(w, element<N>(op, n));
    const u32 more = n * static_cast<u32>(sizeof(M)), first = offset[0] + more;
    if (one && w.mask == kAllLanes) {
      for (unsigned i = 0; i < kLanes; ++i) local_put<M>(w.local, first, i, static_cast<M>(d[i]));
      continue;
    }
    for (u32 left = w.mask; left != 0; left &= left - 1) {
      const auto i = static_cast<unsigned>(__builtin_ctz(left));
      local_put<M>(w.local, one ? first : offset[i] + more, i, static_cast<M>(d[i]));
    }
  }
  return op + 1;
}

// Names: ld.SPACE.TYPE.REGISTER BITS.COUNT
#define PARTITA_LD(SPACE, M, BITS, N) \
  { "ld." #SPACE "." #M "." #BITS "." #N, load_##SPACE<M, u##BITS, N> }
#define PARTITA_LD_N(SPACE, M, BITS) \
  PARTITA_LD(SPACE, M, BITS, 1), PARTITA_LD(SPACE, M, BITS, 2), PARTITA_LD(SPACE, M, BITS, 4)
#define PARTITA_LOADS(SPACE)                                                                    \
  PARTITA_LD_N(SPACE, u8, 16), PARTITA_LD_N(SPACE, u8, 32), PARTITA_LD_N(SPACE, u8, 64),        \
      PARTITA_LD_N(SPACE, s8, 16), PARTITA_LD_N(SPACE, s8, 32), PARTITA_LD_N(SPACE, s8, 64),    \
      PARTITA_LD_N(SPACE, u16, 16), PARTITA_LD_N(SPACE, u16, 32), PARTITA_LD_N(SPACE, u16, 64), \
      PARTITA_LD_N(SPACE, s16, 32), PARTITA_LD_N(SPACE, s16, 64), PARTITA_LD_N(SPACE, u32, 32), \
      PARTITA_LD_N(SPACE, u32, 64), PARTITA_LD_N(SPACE, s32, 64), PARTITA_LD_N(SPACE, u64, 64)
#define PARTITA_ST(SPACE, M, BITS, N) \
  { "st." #SPACE "." #M "." #BITS "." #N, store_##SPACE<M, u##BITS, N> }
#define PARTITA_ST_N(SPACE, M, BITS) \
  PARTITA_ST(SPACE, M, BITS, 1), PARTITA_ST(SPACE, M, BITS, 2), PARTITA_ST(SPACE, M, BITS, 4)
#define PARTITA_STORES(SPACE)                                                                   \
  PARTITA_ST_N(SPACE, u8, 16), PARTITA_ST_N(SPACE, u8, 32), PARTITA_ST_N(SPACE, u8, 64),        \
      PARTITA_ST_N(SPACE, u16, 16), PARTITA_ST_N(SPACE, u16, 32), PARTITA_ST_N(SPACE, u16, 64), \
      PARTITA_ST_N(SPACE, u32, 32), PARTITA_ST_N(SPACE, u32, 64), PARTITA_ST_N(SPACE, u64, 64)

const NamedOp kMemoryOps[] = {
    PARTITA_LOADS(global),  PARTITA_LOADS(shared),  PARTITA_LOADS(local),
    PARTITA_STORES(global), PARTITA_STORES(shared), PARTITA_STORES(local),
};

}  // namespace
}  // namespace partita::ptx::PARTITA_PTX_LEVEL
