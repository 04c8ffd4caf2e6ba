// Integer ops of one level.
#pragma once

#include "ptx/lanes.h"

namespace partita::ptx::PARTITA_PTX_LEVEL {
namespace {

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 s128;

// The type with twice the bits, of the same sign.
template <class T>
struct Twice;
template <>
struct Twice<u16> {
  using type = u32;
};
template <>
struct Twice<s16> {
  using type = s32;
};
template <>
struct Twice<u32> {
  using type = u64;
};
template <>
struct Twice<s32> {
  using type = s64;
};
template <>
struct Twice<u64> {
  using type = u128;
};
template <>
struct Twice<s64> {
  using type = s128;
};
template <class T>
using twice = typename Twice<T>::type;
template <class T>
inline constexpr unsigned kWidth = 8 * sizeof(T);
template <class T>
inline constexpr bool kSigned = static_cast<T>(-1) < static_cast<T>(0);
template <class T>
inline constexpr T kMost = kSigned<T> ? static_cast<T>((u64{1} << (kWidth<T> - 1)) - 1)
                                      : static_cast<T>(-1);
template <class T>
inline constexpr T kLeast = kSigned<T> ? static_cast<T>(u64{1} << (kWidth<T> - 1)) : T{0};

// Unsigned, so that nothing overflows; u16 would be promoted to int.
template <class T>
using wrap_type = typename Bits<(sizeof(T) < 4 ? 4 : sizeof(T))>::type;
template <class T>
inline wrap_type<T> wrap(T a) {
  return static_cast<wrap_type<T>>(a);
}

#define PARTITA_UNARY(NAME, VALUE)  \
  struct NAME {                     \
    template <class T>              \
    static T f(T a) {               \
      return static_cast<T>(VALUE); \
    }                               \
  }
#define PARTITA_BINARY(NAME, VALUE) \
  struct NAME {                     \
    template <class T>              \
    static T f(T a, T b) {          \
      return static_cast<T>(VALUE); \
    }                               \
  }
PARTITA_BINARY(Add, wrap(a) + wrap(b));
PARTITA_BINARY(Sub, wrap(a) - wrap(b));
PARTITA_BINARY(MulLo, wrap(a) * wrap(b));
PARTITA_BINARY(MulHi, (static_cast<twice<T>>(a) * static_cast<twice<T>>(b)) >> kWidth<T>);
PARTITA_BINARY(And, a& b);
PARTITA_BINARY(Or, a | b);
PARTITA_BINARY(Xor, a ^ b);
PARTITA_BINARY(MinInt, a < b ? a : b);
PARTITA_BINARY(MaxInt, a > b ? a : b);
PARTITA_UNARY(Not, ~a);
PARTITA_UNARY(NegInt, wrap<T>(0) - wrap(a));
PARTITA_UNARY(AbsInt, a < 0 ? wrap<T>(0) - wrap(a) : wrap(a));
PARTITA_UNARY(CNot, a == 0 ? 1 : 0);
PARTITA_UNARY(Move, a);

struct AddSat {
  static s32 f(s32 a, s32 b) {
    const s64 sum = static_cast<s64>(a) + b;
    return static_cast<s32>(sum > kMost<s32> ? kMost<s32> : sum < kLeast<s32> ? kLeast<s32> : sum);
  }
};
struct SubSat {
  static s32 f(s32 a, s32 b) {
    const s64 sum = static_cast<s64>(a) - b;
    return static_cast<s32>(sum > kMost<s32> ? kMost<s32> : sum < kLeast<s32> ? kLeast<s32> : sum);
  }
};
struct MulWide {
  template <class T>
  static twice<T> f(T a, T b) {
    return static_cast<twice<T>>(static_cast<twice<T>>(a) * static_cast<twice<T>>(b));
  }
};
struct MadLo {
  template <class T>
  static T f(T a, T b, T c) {
    return static_cast<T>(wrap(a) * wrap(b) + wrap(c));
  }
};
struct MadHi {
  template <class T>
  static T f(T a, T b, T c) {
    return static_cast<T>(wrap(MulHi::f(a, b)) + wrap(c));
  }
};
struct MadHiSat {
  static s32 f(s32 a, s32 b, s32 c) { return AddSat::f(MulHi::f(a, b), c); }
};
struct MadWide {
  template <class T>
  static twice<T> f(T a, T b, twice<T> c) {
    return static_cast<twice<T>>(wrap(MulWide::f(a, b)) + wrap(c));
  }
};
// 24 low bits, sign or zero extended.
template <class T>
inline s64 low24(T a) {
  if constexpr (kSigned<T>) return static_cast<s32>(static_cast<u32>(a) << 8) >> 8;
  return static_cast<s64>(static_cast<u32>(a) & 0xff'ffffu);
}
PARTITA_BINARY(Mul24Lo, low24(a) * low24(b));
PARTITA_BINARY(Mul24Hi, (low24(a) * low24(b)) >> 16);
struct Mad24Lo {
  template <class T>
  static T f(T a, T b, T c) {
    return Add::f(Mul24Lo::f(a, b), c);
  }
};
struct Mad24Hi {
  template <class T>
  static T f(T a, T b, T c) {
    return Add::f(Mul24Hi::f(a, b), c);
  }
};
struct Mad24HiSat {
  static s32 f(s32 a, s32 b, s32 c) { return AddSat::f(Mul24Hi::f(a, b), c); }
};
struct Sad {
  template <class T>
  static T f(T a, T b, T c) {
    return static_cast<T>(wrap(c) + (a < b ? wrap(b) - wrap(a) : wrap(a) - wrap(b)));
  }
};
// By zero: all ones, as GPUs give; the most negative by -1: itself.
struct DivInt {
  template <class T>
  static T f(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if (kSigned<T> && b == static_cast<T>(-1)) return NegInt::f(a);
    return static_cast<T>(a / b);
  }
};
struct RemInt {
  template <class T>
  static T f(T a, T b) {
    if (b == 0) return a;
    if (kSigned<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Shl {
  template <class T>
  static T f(T a, u32 b) {
    return b >= kWidth<T> ? T{0} : static_cast<T>(wrap(a) << (b & (kWidth<T> - 1)));
  }
};
struct Shr {
  template <class T>
  static T f(T a, u32 b) {
    const u32 most = kWidth<T> - 1;
    if constexpr (kSigned<T>) return static_cast<T>(a >> (b > most ? most : b));
    return b > most ? T{0} : static_cast<T>(a >> (b & most));
  }
};
template <bool Left, bool Wrap>
struct Funnel {
  static u32 f(u32 a, u32 b, u32 c) {
    const u32 n = Wrap ? c & 31 : (c > 32 ? 32 : c);
    const u64 both = static_cast<u64>(b) << 32 | a;
    return static_cast<u32>(Left ? (both << n) >> 32 : both >> n);
  }
};
struct PopCount {
  template <class T>
  static u32 f(T a) {
    u64 x = a;
    x = x - ((x >> 1) & 0x5555555555555555u);
    x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return static_cast<u32>((x * 0x0101010101010101u) >> 56);
  }
};
struct LeadingZeros {
  template <class T>
  static u32 f(T a) {
    if (a == 0) return kWidth<T>;
    return static_cast<u32>(__builtin_clzll(a)) - (64 - kWidth<T>);
  }
};
template <bool Shift>
struct FindHigh {
  template <class T>
  static u32 f(T a) {
    const auto bits = static_cast<bits_of<T>>(kSigned<T> && a < 0 ? ~a : a);
    if (bits == 0) return 0xffff'ffffu;
    const u32 at = kWidth<T> - 1 - LeadingZeros::f(bits);
    return Shift ? kWidth<T> - 1 - at : at;
  }
};
struct Reverse {
  template <class T>
  static T f(T a) {
    u64 x = a;
    x = (x >> 1 & 0x5555555555555555u) | (x & 0x5555555555555555u) << 1;
    x = (x >> 2 & 0x3333333333333333u) | (x & 0x3333333333333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0fu) | (x & 0x0f0f0f0f0f0f0f0fu) << 4;
    return static_cast<T>(__builtin_bswap64(x) >> (64 - kWidth<T>));
  }
};
// The position of the n-th set bit from `base` on (n > 0 upwards, n < 0 downwards), or all ones.
struct FindNth {
  static u32 f(u32 mask, u32 base, s32 n) {
    if (base > 31) return 0xffff'ffffu;
    if (n == 0) return (mask & kBit[base]) != 0 ? base : 0xffff'ffffu;
    u32 left = n > 0 ? static_cast<u32>(n) : u32{0} - static_cast<u32>(n);
    for (u32 at = base; at<32; at += n> 0 ? 1u : 0xffff'ffffu)
      if ((mask & kBit[at]) != 0 && --left == 0) return at;
    return 0xffff'ffffu;
  }
};
struct ExtractField {
  template <class T>
  static T f(T a, u32 b, u32 c) {
    const u32 at = b & 0xff, count = c & 0xff, most = kWidth<T> - 1;
    using U = bits_of<T>;
    if (count == 0) return 0;
    const u32 last = at + count - 1 > most ? most : at + count - 1;  // of the field, in a
    const bool sign = kSigned<T> && (static_cast<U>(a) >> last & 1) != 0;
    U field = at > most ? U{0} : static_cast<U>(static_cast<U>(a) >> at);
    if (count <= most) {
      const U low = static_cast<U>((U{1} << count) - 1);
      field &= low;
    }
    // Bits above those that a has are copies of the sign.
    const u32 have = at > most ? 0 : last - at + 1;
    if (sign && have <= most) field |= static_cast<U>(~U{0} << have);
    return static_cast<T>(field);
  }
};
struct InsertField {
  template <class T>
  static T f(T a, T b, u32 c, u32 d) {
    const u32 at = c & 0xff, count = d & 0xff;
    if (count == 0 || at >= kWidth<T>) return b;
    T low = count >= kWidth<T> ? static_cast<T>(-1) : static_cast<T>((T{1} << count) - 1);
    low = static_cast<T>(low << at);
    return static_cast<T>((b & ~low) | (static_cast<T>(a << at) & low));
  }
};
template <class A, class B>
struct Dot4 {
  static u32 f(u32 a, u32 b, u32 c) {
    for (unsigned i = 0; i < 32; i += 8)
      c += static_cast<u32>(static_cast<s32>(static_cast<A>(a >> i)) *
                            static_cast<s32>(static_cast<B>(b >> i)));
    return c;
  }
};
template <class A, class B, bool High>
struct Dot2 {
  static u32 f(u32 a, u32 b, u32 c) {
    for (unsigned i = 0; i < 2; ++i)
      c += static_cast<u32>(static_cast<A>(a >> (16 * i))) *
           static_cast<u32>(static_cast<s32>(static_cast<B>(b >> (8 * i + (High ? 16 : 0)))));
    return c;
  }
};
// d = the table e looked up with a, b, c.
struct Lop3 {
  static u32 f(u32 a, u32 b, u32 c, u32 table) {
    u32 result = 0;
    for (u32 i = 0; i < 8; ++i) {
      const u32 term = ((i & 4) != 0 ? a : ~a) & ((i & 2) != 0 ? b : ~b) & ((i & 1) != 0 ? c : ~c);
      result |= (table >> i & 1) != 0 ? term : 0;
    }
    return result;
  }
};
template <int Mode>
struct Permute {
  static u32 f(u32 a, u32 b, u32 c) {
    const u64 both = static_cast<u64>(b) << 32 | a;
    u32 result = 0;
    for (u32 i = 0; i < 4; ++i) {
      const u32 n = c & 3;
      u32 pick = c >> (4 * i) & 15;
      if (Mode == 1) pick = n + i;                  // f4e
      if (Mode == 2) pick = (n - i) & 7;            // b4e
      if (Mode == 3) pick = n;                      // rc8
      if (Mode == 4) pick = i > n ? i : n;          // ecl
      if (Mode == 5) pick = i < n ? i : n;          // ecr
      if (Mode == 6) pick = (n & 1) * 2 + (i & 1);  // rc16
      u32 byte = static_cast<u32>(both >> (8 * (pick & 7))) & 0xff;
      if (Mode == 0 && (pick & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
      result |= byte << (8 * i);
    }
    return result;
  }
};
template <bool Clamp>
struct BitMask {
  static u32 f(u32 a, u32 b) {
    if (!Clamp) a &= 31, b &= 31;
    if (a > 31 || b == 0) return 0;
    const u32 low = b > 31 ? 0xffff'ffffu : (1u << b) - 1;
    return low << a;
  }
};

// d = a + b (+ carry), the carry out of it in the mask e.
template <class T, bool Subtract, bool In, bool Out>
const Op* carry(const Op* op, Warp& w) {
  const T* a = lanes<T>(w, op->a);
  const T* b = lanes<T>(w, op->b);
  T* d = lanes<T>(w, op->d);
  u32* flag = reinterpret_cast<u32*>(w.registers + op->e);
  u32 out = 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((w.mask & kBit[i]) == 0) continue;
    const T in = In && (*flag & kBit[i]) != 0 ? 1 : 0;
    const T x = a[i], y = b[i];
    const T part = static_cast<T>(Subtract ? x - y : x + y);
    const T all = static_cast<T>(Subtract ? part - in : part + in);
    const bool over = Subtract ? x < y || part < in : part < x || all < part;
    if (over) out |= kBit[i];
    d[i] = all;
  }
  if (Out) *flag = (*flag & ~w.mask) | out;
  return op + 1;
}
template <class T, bool High, bool In, bool Out>
const Op* multiply_carry(const Op* op, Warp& w) {
  using U = bits_of<T>;
  const T* a = lanes<T>(w, op->a);
  const T* b = lanes<T>(w, op->b);
  const U* c = lanes<U>(w, op->c);
  U* d = lanes<U>(w, op->d);
  u32* flag = reinterpret_cast<u32*>(w.registers + op->e);
  u32 out = 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((w.mask & kBit[i]) == 0) continue;
    const U in = In && (*flag & kBit[i]) != 0 ? 1 : 0;
    const U product = static_cast<U>(High ? MulHi::f(a[i], b[i]) : MulLo::f(a[i], b[i]));
    const U part = product + c[i], all = part + in;
    if (part < product || all < part) out |= kBit[i];
    d[i] = all;
  }
  if (Out) *flag = (*flag & ~w.mask) | out;
  return op + 1;
}

// d = bit of the predicate c ? a : b
template <class T>
const Op* select(const Op* op, Warp& w) {
  const T* a = lanes<T>(w, op->a);
  const T* b = lanes<T>(w, op->b);
  const u32 p = *reinterpret_cast<const u32*>(w.registers + op->c);
  each<T>(w, op->d, [=](unsigned i) { return (p & kBit[i]) != 0 ? a[i] : b[i]; });
  return op + 1;
}
struct SelectBySign {
  template <class T>
  static T f(T a, T b, s32 c) {
    return c >= 0 ? a : b;
  }
};
struct SelectByFloat {
  template <class T>
  static T f(T a, T b, f32 c) {
    return c >= 0 ? a : b;
  }
};

struct Equal {
  template <class T>
  static bool f(T a, T b) {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  static bool f(T a, T b) {
    return a != b;
  }
};
struct Less {
  template <class T>
  static bool f(T a, T b) {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  static bool f(T a, T b) {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  static bool f(T a, T b) {
    return a > b;
  }
};
struct GreaterEqual {
  template <class T>
  static bool f(T a, T b) {
    return a >= b;
  }
};
// {a, b} -> one register and back.
struct Pack32 {
  static u32 f(u16 a, u16 b) { return static_cast<u32>(a) | static_cast<u32>(b) << 16; }
};
struct Pack64 {
  static u64 f(u32 a, u32 b) { return static_cast<u64>(a) | static_cast<u64>(b) << 32; }
};
struct Pack64x4 {
  static u64 f(u16 a, u16 b, u16 c, u16 d) { return Pack64::f(Pack32::f(a, b), Pack32::f(c, d)); }
};
template <unsigned Shift>
struct Part {
  template <class T>
  static T f(T a) {
    return static_cast<T>(a >> Shift);
  }
};

#define PARTITA_2(NAME, F, T) \
  { NAME, op2<F, T, T, T> }
#define PARTITA_UNSIGNED(NAME, F) \
  PARTITA_2(NAME ".u16", F, u16), PARTITA_2(NAME ".u32", F, u32), PARTITA_2(NAME ".u64", F, u64)
#define PARTITA_SIGNED(NAME, F) \
  PARTITA_2(NAME ".s16", F, s16), PARTITA_2(NAME ".s32", F, s32), PARTITA_2(NAME ".s64", F, s64)
#define PARTITA_BITS1(NAME, F)                                        \
  {NAME ".u16", op1<F, u16, u16>}, {NAME ".u32", op1<F, u32, u32>}, { \
    NAME ".u64", op1<F, u64, u64>                                     \
  }
#define PARTITA_WIDE(NAME, F, T) \
  { NAME, op2<F, twice<T>, T, T> }
#define PARTITA_3(NAME, F, T) \
  { NAME, op3<F, T, T, T, T> }
#define PARTITA_ALL3(NAME, F)                                                                     \
  PARTITA_3(NAME ".u16", F, u16), PARTITA_3(NAME ".u32", F, u32), PARTITA_3(NAME ".u64", F, u64), \
      PARTITA_3(NAME ".s16", F, s16), PARTITA_3(NAME ".s32", F, s32),                             \
      PARTITA_3(NAME ".s64", F, s64)
#define PARTITA_SHIFT(NAME, F, T) \
  { NAME, op2<F, T, T, u32> }
#define PARTITA_CARRY(T, NAME)                                                                    \
  {"add.cc." NAME, carry<T, false, false, true>}, {"addc." NAME, carry<T, false, true, false>},   \
      {"addc.cc." NAME, carry<T, false, true, true>},                                             \
      {"sub.cc." NAME, carry<T, true, false, true>}, {"subc." NAME, carry<T, true, true, false>}, \
  {                                                                                               \
    "subc.cc." NAME, carry<T, true, true, true>                                                   \
  }
#define PARTITA_MADC(T, NAME)                                     \
  {"mad.lo.cc." NAME, multiply_carry<T, false, false, true>},     \
      {"madc.lo." NAME, multiply_carry<T, false, true, false>},   \
      {"madc.lo.cc." NAME, multiply_carry<T, false, true, true>}, \
      {"mad.hi.cc." NAME, multiply_carry<T, true, false, true>},  \
      {"madc.hi." NAME, multiply_carry<T, true, true, false>}, {  \
    "madc.hi.cc." NAME, multiply_carry<T, true, true, true>       \
  }
#define PARTITA_COMPARE(T, NAME)                                                     \
  {"setp.eq." NAME, compare<Equal, T>}, {"setp.ne." NAME, compare<NotEqual, T>},     \
      {"setp.lt." NAME, compare<Less, T>}, {"setp.le." NAME, compare<LessEqual, T>}, \
      {"setp.gt." NAME, compare<Greater, T>}, {                                      \
    "setp.ge." NAME, compare<GreaterEqual, T>                                        \
  }

const NamedOp kIntegerOps[] = {
    PARTITA_UNSIGNED("add", Add),
    PARTITA_UNSIGNED("sub", Sub),
    PARTITA_UNSIGNED("mul.lo", MulLo),
    PARTITA_UNSIGNED("mul.hi", MulHi),
    PARTITA_SIGNED("mul.hi", MulHi),
    PARTITA_UNSIGNED("and", And),
    PARTITA_UNSIGNED("or", Or),
    PARTITA_UNSIGNED("xor", Xor),
    PARTITA_UNSIGNED("min", MinInt),
    PARTITA_SIGNED("min", MinInt),
    PARTITA_UNSIGNED("max", MaxInt),
    PARTITA_SIGNED("max", MaxInt),
    PARTITA_UNSIGNED("div", DivInt),
    PARTITA_SIGNED("div", DivInt),
    PARTITA_UNSIGNED("rem", RemInt),
    PARTITA_SIGNED("rem", RemInt),
    PARTITA_2("add.sat.s32", AddSat, s32),
    PARTITA_2("sub.sat.s32", SubSat, s32),
    PARTITA_BITS1("not", Not),
    PARTITA_BITS1("neg", NegInt),
    PARTITA_BITS1("cnot", CNot),
    PARTITA_BITS1("mov", Move),
    {"abs.s16", op1<AbsInt, s16, s16>},
    {"abs.s32", op1<AbsInt, s32, s32>},
    {"abs.s64", op1<AbsInt, s64, s64>},
    PARTITA_WIDE("mul.wide.u16", MulWide, u16),
    PARTITA_WIDE("mul.wide.s16", MulWide, s16),
    PARTITA_WIDE("mul.wide.u32", MulWide, u32),
    PARTITA_WIDE("mul.wide.s32", MulWide, s32),
    PARTITA_3("mad.lo.u16", MadLo, u16),
    PARTITA_3("mad.lo.u32", MadLo, u32),
    PARTITA_3("mad.lo.u64", MadLo, u64),
    PARTITA_ALL3("mad.hi", MadHi),
    PARTITA_ALL3("sad", Sad),
    PARTITA_3("mad.hi.sat.s32", MadHiSat, s32),
    {"mad.wide.u16", op3<MadWide, u32, u16, u16, u32>},
    {"mad.wide.s16", op3<MadWide, s32, s16, s16, s32>},
    {"mad.wide.u32", op3<MadWide, u64, u32, u32, u64>},
    {"mad.wide.s32", op3<MadWide, s64, s32, s32, s64>},
    PARTITA_2("mul24.lo.u32", Mul24Lo, u32),
    PARTITA_2("mul24.lo.s32", Mul24Lo, s32),
    PARTITA_2("mul24.hi.u32", Mul24Hi, u32),
    PARTITA_2("mul24.hi.s32", Mul24Hi, s32),
    PARTITA_3("mad24.lo.u32", Mad24Lo, u32),
    PARTITA_3("mad24.lo.s32", Mad24Lo, s32),
    PARTITA_3("mad24.hi.u32", Mad24Hi, u32),
    PARTITA_3("mad24.hi.s32", Mad24Hi, s32),
    PARTITA_3("mad24.hi.sat.s32", Mad24HiSat, s32),
    PARTITA_SHIFT("shl.u16", Shl, u16),
    PARTITA_SHIFT("shl.u32", Shl, u32),
    PARTITA_SHIFT("shl.u64", Shl, u64),
    PARTITA_SHIFT("shr.u16", Shr, u16),
    PARTITA_SHIFT("shr.u32", Shr, u32),
    PARTITA_SHIFT("shr.u64", Shr, u64),
    PARTITA_SHIFT("shr.s16", Shr, s16),
    PARTITA_SHIFT("shr.s32", Shr, s32),
    PARTITA_SHIFT("shr.s64", Shr, s64),
    {"shf.l.clamp.u32", op3<Funnel<true, false>, u32, u32, u32, u32>},
    {"shf.l.wrap.u32", op3<Funnel<true, true>, u32, u32, u32, u32>},
    {"shf.r.clamp.u32", op3<Funnel<false, false>, u32, u32, u32, u32>},
    {"shf.r.wrap.u32", op3<Funnel<false, true>, u32, u32, u32, u32>},
    {"popc.u32", op1<PopCount, u32, u32>},
    {"popc.u64", op1<PopCount, u32, u64>},
    {"clz.u32", op1<LeadingZeros, u32, u32>},
    {"clz.u64", op1<LeadingZeros, u32, u64>},
    {"bfind.u32", op1<FindHigh<false>, u32, u32>},
    {"bfind.s32", op1<FindHigh<false>, u32, s32>},
    {"bfind.u64", op1<FindHigh<false>, u32, u64>},
    {"bfind.s64", op1<FindHigh<false>, u32, s64>},
    {"bfind.shiftamt.u32", op1<FindHigh<true>, u32, u32>},
    {"bfind.shiftamt.s32", op1<FindHigh<true>, u32, s32>},
    {"bfind.shiftamt.u64", op1<FindHigh<true>, u32, u64>},
    {"bfind.shiftamt.s64", op1<FindHigh<true>, u32, s64>},
    {"brev.u32", op1<Reverse, u32, u32>},
    {"brev.u64", op1<Reverse, u64, u64>},
    {"fns.u32", op3<FindNth, u32, u32, u32, s32>},
    {"bfe.u32", op3<ExtractField, u32, u32, u32, u32>},
    {"bfe.s32", op3<ExtractField, s32, s32, u32, u32>},
    {"bfe.u64", op3<ExtractField, u64, u64, u32, u32>},
    {"bfe.s64", op3<ExtractField, s64, s64, u32, u32>},
    {"bfi.u32", op4<InsertField, u32, u32, u32, u32, u32>},
    {"bfi.u64", op4<InsertField, u64, u64, u64, u32, u32>},
    {"dp4a.u32.u32", op3<Dot4<u8, u8>, u32, u32, u32, u32>},
    {"dp4a.u32.s32", op3<Dot4<u8, s8>, u32, u32, u32, u32>},
    {"dp4a.s32.u32", op3<Dot4<s8, u8>, u32, u32, u32, u32>},
    {"dp4a.s32.s32", op3<Dot4<s8, s8>, u32, u32, u32, u32>},
    {"dp2a.lo.u32.u32", op3<Dot2<u16, u8, false>, u32, u32, u32, u32>},
    {"dp2a.lo.u32.s32", op3<Dot2<u16, s8, false>, u32, u32, u32, u32>},
    {"dp2a.lo.s32.u32", op3<Dot2<s16, u8, false>, u32, u32, u32, u32>},
    {"dp2a.lo.s32.s32", op3<Dot2<s16, s8, false>, u32, u32, u32, u32>},
    {"dp2a.hi.u32.u32", op3<Dot2<u16, u8, true>, u32, u32, u32, u32>},
    {"dp2a.hi.u32.s32", op3<Dot2<u16, s8, true>, u32, u32, u32, u32>},
    {"dp2a.hi.s32.u32", op3<Dot2<s16, u8, true>, u32, u32, u32, u32>},
    {"dp2a.hi.s32.s32", op3<Dot2<s16, s8, true>, u32, u32, u32, u32>},
    {"lop3.u32", op4<Lop3, u32, u32, u32, u32, u32>},
    {"prmt.u32", op3<Permute<0>, u32, u32, u32, u32>},
    {"prmt.f4e.u32", op3<Permute<1>, u32, u32, u32, u32>},
    {"prmt.b4e.u32", op3<Permute<2>, u32, u32, u32, u32>},
    {"prmt.rc8.u32", op3<Permute<3>, u32, u32, u32, u32>},
    {"prmt.ecl.u32", op3<Permute<4>, u32, u32, u32, u32>},
    {"prmt.ecr.u32", op3<Permute<5>, u32, u32, u32, u32>},
    {"prmt.rc16.u32", op3<Permute<6>, u32, u32, u32, u32>},
    PARTITA_2("bmsk.clamp.u32", BitMask<true>, u32),
    PARTITA_2("bmsk.wrap.u32", BitMask<false>, u32),
    {"selp.u16", select<u16>},
    {"selp.u32", select<u32>},
    {"selp.u64", select<u64>},
    {"slct.u16.s32", op3<SelectBySign, u16, u16, u16, s32>},
    {"slct.u32.s32", op3<SelectBySign, u32, u32, u32, s32>},
    {"slct.u64.s32", op3<SelectBySign, u64, u64, u64, s32>},
    {"slct.u16.f32", op3<SelectByFloat, u16, u16, u16, f32>},
    {"slct.u32.f32", op3<SelectByFloat, u32, u32, u32, f32>},
    {"slct.u64.f32", op3<SelectByFloat, u64, u64, u64, f32>},
    PARTITA_CARRY(u32, "u32"),
    PARTITA_CARRY(u64, "u64"),
    PARTITA_MADC(u32, "u32"),
    PARTITA_MADC(s32, "s32"),
    PARTITA_MADC(u64, "u64"),
    PARTITA_MADC(s64, "s64"),
    PARTITA_COMPARE(u16, "u16"),
    PARTITA_COMPARE(s16, "s16"),
    PARTITA_COMPARE(u32, "u32"),
    PARTITA_COMPARE(s32, "s32"),
    PARTITA_COMPARE(u64, "u64"),
    PARTITA_COMPARE(s64, "s64"),
    {"pack.u32", op2<Pack32, u32, u16, u16>},
    {"pack.u64", op2<Pack64, u64, u32, u32>},
    {"pack4.u64", op4<Pack64x4, u64, u16, u16, u16, u16>},
    {"part.u32.0", op1<Part<0>, u16, u32>},
    {"part.u32.16", op1<Part<16>, u16, u32>},
    {"part.u64.0", op1<Part<0>, u32, u64>},
    {"part.u64.32", op1<Part<32>, u32, u64>},
    {"part4.u64.0", op1<Part<0>, u16, u64>},
    {"part4.u64.16", op1<Part<16>, u16, u64>},
    {"part4.u64.32", op1<Part<32>, u16, u64>},
    {"part4.u64.48", op1<Part<48>, u16, u64>},
};

}  // namespace
}  // namespace partita::ptx::PARTITA_PTX_LEVEL
