// Shapes of ops over 32 lanes. Included by the ops_*.h of one level only: everything lies in the
// level's own namespace, and nothing here may be an inline function of a library, since the linker
// keeps one copy of those for all levels.
#pragma once

#include <cstdint>
#include <cstring>

#include "ptx/levels.h"
#include "ptx/program.h"

#ifndef PARTITA_PTX_LEVEL
#define PARTITA_PTX_LEVEL baseline
#endif

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace partita::ptx::PARTITA_PTX_LEVEL {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using f32 = float;
using f64 = double;

template <class T>
inline T* lanes(Warp& w, u32 offset) {
  return reinterpret_cast<T*>(__builtin_assume_aligned(w.registers + offset, 64));
}

template <std::size_t Bytes>
struct Bits;
template <>
struct Bits<1> {
  using type = u8;
};
template <>
struct Bits<2> {
  using type = u16;
};
template <>
struct Bits<4> {
  using type = u32;
};
template <>
struct Bits<8> {
  using type = u64;
};
template <class T>
using bits_of = typename Bits<sizeof(T)>::type;

template <class To, class From>
inline To cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

alignas(64) constexpr u32 kBit[32] = {
    1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,
    1u << 8,  1u << 9,  1u << 10, 1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15,
    1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21, 1u << 22, 1u << 23,
    1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};

// Writes `from` to the lanes of the mask and leaves the others as they are.
template <class B>
__attribute__((noinline)) void blend(B* to, const B* from, u32 mask) {
#pragma GCC ivdep
  for (unsigned i = 0; i < kLanes; ++i) to[i] = (mask & kBit[i]) != 0 ? from[i] : to[i];
}

// d = value(lane) in the lanes of the mask. `value` is to hold its pointers by value: by reference
// they could change with every store, for all that the compiler knows.
template <class D, class F>
__attribute__((always_inline)) inline void each(Warp& w, u32 offset, F value) {
  D* const d = lanes<D>(w, offset);
  alignas(64) D spare[kLanes];
  D* const out = w.mask == kAllLanes ? d : spare;
#pragma GCC ivdep
  for (unsigned i = 0; i < kLanes; ++i) out[i] = value(i);
  if (out == d) [[likely]]
    return;
  using B = bits_of<D>;
  blend(reinterpret_cast<B*>(d), reinterpret_cast<const B*>(spare), w.mask);
}

template <class F, class D, class A>
const Op* op1(const Op* op, Warp& w) {
  const A* a = lanes<A>(w, op->a);
  each<D>(w, op->d, [=](unsigned i) { return static_cast<D>(F::f(a[i])); });
  return op + 1;
}
template <class F, class D, class A, class B>
const Op* op2(const Op* op, Warp& w) {
  const A* a = lanes<A>(w, op->a);
  const B* b = lanes<B>(w, op->b);
  each<D>(w, op->d, [=](unsigned i) { return static_cast<D>(F::f(a[i], b[i])); });
  return op + 1;
}
template <class F, class D, class A, class B, class C>
const Op* op3(const Op* op, Warp& w) {
  const A* a = lanes<A>(w, op->a);
  const B* b = lanes<B>(w, op->b);
  const C* c = lanes<C>(w, op->c);
  each<D>(w, op->d, [=](unsigned i) { return static_cast<D>(F::f(a[i], b[i], c[i])); });
  return op + 1;
}
template <class F, class D, class A, class B, class C, class E>
const Op* op4(const Op* op, Warp& w) {
  const A* a = lanes<A>(w, op->a);
  const B* b = lanes<B>(w, op->b);
  const C* c = lanes<C>(w, op->c);
  const E* e = lanes<E>(w, op->e);
  each<D>(w, op->d, [=](unsigned i) { return static_cast<D>(F::f(a[i], b[i], c[i], e[i])); });
  return op + 1;
}

// Bit i of the result: lane i is not zero (0 or all ones).
inline u32 move_mask(const s32* lane) {
#if defined(__AVX512DQ__)
  const u32 low = _mm512_movepi32_mask(_mm512_load_si512(lane));
  const u32 high = _mm512_movepi32_mask(_mm512_load_si512(lane + 16));
  return low | high << 16;
#elif defined(__AVX2__)
  u32 mask = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const __m256i part = _mm256_load_si256(reinterpret_cast<const __m256i*>(lane) + i);
    mask |= static_cast<u32>(_mm256_movemask_ps(_mm256_castsi256_ps(part))) << (8 * i);
  }
  return mask;
#elif defined(__SSE2__)
  u32 mask = 0;
  for (unsigned i = 0; i < 8; ++i) {
    const __m128i part = _mm_load_si128(reinterpret_cast<const __m128i*>(lane) + i);
    mask |= static_cast<u32>(_mm_movemask_ps(_mm_castsi128_ps(part))) << (4 * i);
  }
  return mask;
#else
  u32 mask = 0;
  for (unsigned i = 0; i < kLanes; ++i) mask |= static_cast<u32>(lane[i]) & kBit[i];
  return mask;
#endif
}

template <class F, class T>
const Op* compare(const Op* op, Warp& w) {
  const T* a = lanes<T>(w, op->a);
  const T* b = lanes<T>(w, op->b);
  alignas(64) s32 lane[kLanes];
#pragma GCC ivdep
  for (unsigned i = 0; i < kLanes; ++i) lane[i] = F::f(a[i], b[i]) ? -1 : 0;
  u32 p = move_mask(lane), q = ~p;
  if (op->flags != 0) {
    u32 c = *reinterpret_cast<const u32*>(w.registers + op->c);
    if ((op->flags & kNegateC) != 0) c = ~c;
    const u32 kind = op->flags & kBoolKinds;
    if (kind == kBoolAnd) p &= c, q &= c;
    if (kind == kBoolOr) p |= c, q |= c;
    if (kind == kBoolXor) p ^= c, q ^= c;
    if ((op->flags & kSecondResult) != 0) {
      u32* second = reinterpret_cast<u32*>(w.registers + op->e);
      *second = (*second & ~w.mask) | (q & w.mask);
    }
  }
  u32* first = reinterpret_cast<u32*>(w.registers + op->d);
  *first = (*first & ~w.mask) | (p & w.mask);
  return op + 1;
}

}  // namespace
}  // namespace partita::ptx::PARTITA_PTX_LEVEL
