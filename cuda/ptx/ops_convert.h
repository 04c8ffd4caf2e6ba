// Conversions, and arithmetic on f16 and bf16 (computed in double, which holds each sum and product
// of two exactly or with its last bit odd, then rounded once), of one level.
#pragma once

#include "ptx/ops_float.h"
#include "ptx/ops_integer.h"

namespace partita::ptx::PARTITA_PTX_LEVEL {
namespace {

enum class Round { nearest, zero, down, up, away };

// The bits of x in a format of 1 + Exponent + Mantissa bits.
template <unsigned Exponent, unsigned Mantissa, Round Mode>
inline u32 narrow(f64 x) {
  constexpr s32 bias = (1 << (Exponent - 1)) - 1;
  constexpr u32 infinity = ((1u << Exponent) - 1) << Mantissa;
  const u64 bits = cast<u64>(x);
  const bool negative = (bits >> 63) != 0;
  const u32 sign = negative ? 1u << (Exponent + Mantissa) : 0u;
  const s32 exponent = static_cast<s32>(bits >> 52 & 0x7ff) - 1023;
  const u64 fraction = bits & ((u64{1} << 52) - 1);
  if (exponent == 1024) return fraction != 0 ? (1u << (Exponent + Mantissa)) - 1 : sign | infinity;
  if (exponent == -1023 && fraction == 0) return sign;
  const u64 full = exponent == -1023 ? fraction : fraction | u64{1} << 52;
  const s32 least = 1 - bias;
  const s32 real = exponent == -1023 ? -1022 : exponent;
  u32 shift = 52 - Mantissa + static_cast<u32>(real < least ? least - real : 0);
  if (shift > 63) shift = 63;
  u64 kept = full >> shift;
  const u64 rest = full & ((u64{1} << shift) - 1), half = u64{1} << (shift - 1);
  bool up = false;
  if (Mode == Round::nearest) up = rest > half || (rest == half && (kept & 1) != 0);
  if (Mode == Round::away) up = rest >= half;
  if (Mode == Round::down) up = negative && rest != 0;
  if (Mode == Round::up) up = !negative && rest != 0;
  kept += up ? 1 : 0;
  const u32 result = real < least
                         ? static_cast<u32>(kept)
                         : (static_cast<u32>(real + bias - 1) << Mantissa) + static_cast<u32>(kept);
  if (real < least || result < infinity) return sign | result;
  const bool infinite = Mode == Round::nearest || Mode == Round::away ||
                        (Mode == Round::down && negative) || (Mode == Round::up && !negative);
  return sign | (infinite ? infinity : infinity - 1);
}

struct F16 {
  static f32 load(u16 h) {
    const u32 sign = static_cast<u32>(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
    const u32 moved = (magnitude << 13) + (112u << 23);
    const u32 normal = magnitude >= 0x7c00u ? moved + (112u << 23) : moved;
    const u32 small = cast<u32>(static_cast<f32>(static_cast<s32>(magnitude)) * 0x1p-24f);
    return cast<f32>(sign | (magnitude < 0x400u ? small : normal));
  }
  template <Round Mode = Round::nearest>
  static u16 store(f64 x) {
    return static_cast<u16>(narrow<5, 10, Mode>(x));
  }
};
struct BF16 {
  static f32 load(u16 h) { return cast<f32>(static_cast<u32>(h) << 16); }
  template <Round Mode = Round::nearest>
  static u16 store(f64 x) {
    return static_cast<u16>(narrow<8, 7, Mode>(x));
  }
};

// a + b with the last bit odd where it is inexact, so that rounding it once more is right.
inline f64 odd_sum(f64 a, f64 b) {
  const f64 sum = a + b;
  const f64 part = sum - a;
  const f64 error = (a - (sum - part)) + (b - part);
  const u64 bits = cast<u64>(sum);
  if (!(error < 0 || error > 0) || (bits & 1) != 0) return sum;
  return cast<f64>((error > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

struct HalfAdd {
  static f64 f(f64 a, f64 b) { return odd_sum(a, b); }
};
struct HalfSub {
  static f64 f(f64 a, f64 b) { return odd_sum(a, -b); }
};
struct HalfMul {
  static f64 f(f64 a, f64 b) { return a * b; }
};
struct HalfFma {
  static f64 f(f64 a, f64 b, f64 c) { return odd_sum(a * b, c); }
};
// Computes F on values of the format.
template <class Format, class F>
struct OnHalf {
  static u16 f(u16 a) { return Format::store(F::f(Format::load(a))); }
  static u16 f(u16 a, u16 b) { return Format::store(F::f(Format::load(a), Format::load(b))); }
  static u16 f(u16 a, u16 b, u16 c) {
    return Format::store(F::f(static_cast<f64>(Format::load(a)), static_cast<f64>(Format::load(b)),
                              static_cast<f64>(Format::load(c))));
  }
};
template <class Format>
struct HalfSaturate {
  static u16 f(u16 a) { return Format::store(saturate(Format::load(a))); }
};
template <class Format>
struct HalfRelu {
  static u16 f(u16 a) {
    const f32 x = Format::load(a);
    return x != x ? u16{0x7fff} : x > 0 ? a : u16{0};
  }
};
struct HalfFlush {
  static u16 f(u16 a) { return (a & 0x7c00) == 0 ? a & 0x8000 : a; }
};
struct HalfNeg {
  static u16 f(u16 a) { return a ^ 0x8000; }
};
struct HalfAbs {
  static u16 f(u16 a) { return a & 0x7fff; }
};
// Both halves of a register.
template <class F>
struct Twin {
  template <class... T>
  static u32 f(T... a) {
    return static_cast<u32>(F::f(static_cast<u16>(a)...)) |
           static_cast<u32>(F::f(static_cast<u16>(a >> 16)...)) << 16;
  }
};
template <class F, class T>
struct TwinOf {
  static u32 f(u32 a, u32 b) {
    const auto part = [&](unsigned by) {
      return static_cast<u32>(static_cast<u16>(F::f(static_cast<T>(static_cast<u16>(a >> by)),
                                                    static_cast<T>(static_cast<u16>(b >> by)))))
             << by;
    };
    return part(0) | part(16);
  }
};
template <class Format, class F>
struct HalfCompare {
  static bool f(u16 a, u16 b) { return F::f(Format::load(a), Format::load(b)); }
};

struct ToInteger {
  template <class D, class S>
  static D f(S x) {
    constexpr D most = kMost<D>, least = kLeast<D>;
    constexpr S over = static_cast<S>(2) * static_cast<S>(u64{1} << (kWidth<D> - 1 - kSigned<D>));
    constexpr bool wide = sizeof(S) == 8 || sizeof(D) == 8;
    constexpr D nothing = wide ? static_cast<D>(u64{1} << (kWidth<D> - 1)) : D{0};
    if (x != x) return nothing;
    if (x >= over) return most;
    if (x <= static_cast<S>(least)) return least;
    return static_cast<D>(x);
  }
};
template <class D, class S, class Store>
struct FloatToInt {
  static Store f(S x) { return static_cast<Store>(ToInteger::f<D, S>(x)); }
};
// As many bits as D has of the register of S, in a register of Store.
template <class D, class S, class From, class Store>
struct IntToInt {
  static Store f(From x) { return static_cast<Store>(static_cast<D>(static_cast<S>(x))); }
};
template <class D, class S, class From, class Store>
struct IntToIntSat {
  static Store f(From x) {
    const s128 value = static_cast<S>(x), most = kMost<D>, least = kLeast<D>;
    return static_cast<Store>(static_cast<D>(value > most ? most : value < least ? least : value));
  }
};
template <class D, class S, class From>
struct IntToFloat {
  static D f(From x) { return static_cast<D>(static_cast<S>(x)); }
};
template <class D, class S>
struct FloatToFloat {
  static D f(S x) { return canonical(static_cast<D>(x)); }
};
template <class Format>
struct Widen {
  static f32 f(u16 x) { return canonical(Format::load(x)); }
};
template <class Format, Round Mode>
struct Narrow {
  template <class S>
  static u16 f(S x) {
    return Format::template store<Mode>(static_cast<f64>(x));
  }
};
template <class Format, Round Mode>
struct NarrowTwo {  // the first becomes the upper half
  static u32 f(f32 a, f32 b) {
    return static_cast<u32>(Narrow<Format, Mode>::f(a)) << 16 | Narrow<Format, Mode>::f(b);
  }
};
template <Round Mode>
struct NarrowTf32 {
  static u32 f(f32 a) { return narrow<8, 10, Mode>(static_cast<f64>(a)) << 13; }
};
struct RoundNearest {
  static f32 f(f32 x) { return __builtin_rintf(x); }
  static f64 f(f64 x) { return __builtin_rint(x); }
};
struct RoundZero {
  static f32 f(f32 x) { return __builtin_truncf(x); }
  static f64 f(f64 x) { return __builtin_trunc(x); }
};
struct RoundDown {
  static f32 f(f32 x) { return __builtin_floorf(x); }
  static f64 f(f64 x) { return __builtin_floor(x); }
};
struct RoundUp {
  static f32 f(f32 x) { return __builtin_ceilf(x); }
  static f64 f(f64 x) { return __builtin_ceil(x); }
};

template <class T>
using kept_in = typename Bits<(sizeof(T) < 2 ? 2 : sizeof(T))>::type;

// From S to every integer type; `cvt.sat` likewise.
#define PARTITA_CVT_II(S, D)                                                                     \
  {"cvt." #D "." #S, op1<IntToInt<D, S, kept_in<S>, kept_in<D>>, kept_in<D>, kept_in<S>>}, {     \
    "cvt.sat." #D "." #S, op1<IntToIntSat<D, S, kept_in<S>, kept_in<D>>, kept_in<D>, kept_in<S>> \
  }
#define PARTITA_CVT_IF(S, D) \
  { "cvt." #D "." #S, op1<IntToFloat<D, S, kept_in<S>>, D, kept_in<S>> }
#define PARTITA_CVT_FI(S, D) \
  { "cvt." #D "." #S, op1<FloatToInt<D, S, kept_in<D>>, kept_in<D>, S> }
#define PARTITA_FROM_INT(S)                                                                     \
  PARTITA_CVT_II(S, u8), PARTITA_CVT_II(S, s8), PARTITA_CVT_II(S, u16), PARTITA_CVT_II(S, s16), \
      PARTITA_CVT_II(S, u32), PARTITA_CVT_II(S, s32), PARTITA_CVT_II(S, u64),                   \
      PARTITA_CVT_II(S, s64), PARTITA_CVT_IF(S, f32), PARTITA_CVT_IF(S, f64)
#define PARTITA_FROM_FLOAT(S)                                                                   \
  PARTITA_CVT_FI(S, u8), PARTITA_CVT_FI(S, s8), PARTITA_CVT_FI(S, u16), PARTITA_CVT_FI(S, s16), \
      PARTITA_CVT_FI(S, u32), PARTITA_CVT_FI(S, s32), PARTITA_CVT_FI(S, u64),                   \
      PARTITA_CVT_FI(S, s64)
#define PARTITA_NARROW(NAME, FORMAT, MODE)                            \
  {"cvt." NAME ".f32", op1<Narrow<FORMAT, MODE>, u16, f32>},          \
      {"cvt." NAME ".f64", op1<Narrow<FORMAT, MODE>, u16, f64>}, {    \
    "cvt." NAME "x2.f32", op2<NarrowTwo<FORMAT, MODE>, u32, f32, f32> \
  }
#define PARTITA_HALF1(NAME, F)                                                                  \
  {NAME ".f16", op1<OnHalf<F16, F>, u16, u16>}, {NAME ".bf16", op1<OnHalf<BF16, F>, u16, u16>}, \
      {NAME ".f16x2", op1<Twin<OnHalf<F16, F>>, u32, u32>}, {                                   \
    NAME ".bf16x2", op1<Twin<OnHalf<BF16, F>>, u32, u32>                                        \
  }
#define PARTITA_HALF2(NAME, F)                                     \
  {NAME ".f16", op2<OnHalf<F16, F>, u16, u16, u16>},               \
      {NAME ".bf16", op2<OnHalf<BF16, F>, u16, u16, u16>},         \
      {NAME ".f16x2", op2<Twin<OnHalf<F16, F>>, u32, u32, u32>}, { \
    NAME ".bf16x2", op2<Twin<OnHalf<BF16, F>>, u32, u32, u32>      \
  }
#define PARTITA_HALF3(NAME, F)                                          \
  {NAME ".f16", op3<OnHalf<F16, F>, u16, u16, u16, u16>},               \
      {NAME ".bf16", op3<OnHalf<BF16, F>, u16, u16, u16, u16>},         \
      {NAME ".f16x2", op3<Twin<OnHalf<F16, F>>, u32, u32, u32, u32>}, { \
    NAME ".bf16x2", op3<Twin<OnHalf<BF16, F>>, u32, u32, u32, u32>      \
  }
#define PARTITA_HALF_BITS(NAME, F16OP, BF16OP)                                \
  {NAME ".f16", op1<F16OP, u16, u16>}, {NAME ".bf16", op1<BF16OP, u16, u16>}, \
      {NAME ".f16x2", op1<Twin<F16OP>, u32, u32>}, {                          \
    NAME ".bf16x2", op1<Twin<BF16OP>, u32, u32>                               \
  }
#define PARTITA_HALF_COMPARE(NAME, F)                         \
  {"setp." NAME ".f16", compare<HalfCompare<F16, F>, u16>}, { \
    "setp." NAME ".bf16", compare<HalfCompare<BF16, F>, u16>  \
  }
#define PARTITA_ROUND(NAME, F) \
  {"round." NAME ".f32", op1<F, f32, f32>}, { "round." NAME ".f64", op1<F, f64, f64> }

const NamedOp kConvertOps[] = {
    PARTITA_FROM_INT(u8),
    PARTITA_FROM_INT(s8),
    PARTITA_FROM_INT(u16),
    PARTITA_FROM_INT(s16),
    PARTITA_FROM_INT(u32),
    PARTITA_FROM_INT(s32),
    PARTITA_FROM_INT(u64),
    PARTITA_FROM_INT(s64),
    PARTITA_FROM_FLOAT(f32),
    PARTITA_FROM_FLOAT(f64),
    {"cvt.f64.f32", op1<FloatToFloat<f64, f32>, f64, f32>},
    {"cvt.f32.f64", op1<FloatToFloat<f32, f64>, f32, f64>},
    {"cvt.f32.f16", op1<Widen<F16>, f32, u16>},
    {"cvt.f32.bf16", op1<Widen<BF16>, f32, u16>},
    PARTITA_NARROW("rn.f16", F16, Round::nearest),
    PARTITA_NARROW("rz.f16", F16, Round::zero),
    PARTITA_NARROW("rm.f16", F16, Round::down),
    PARTITA_NARROW("rp.f16", F16, Round::up),
    PARTITA_NARROW("rn.bf16", BF16, Round::nearest),
    PARTITA_NARROW("rz.bf16", BF16, Round::zero),
    PARTITA_NARROW("rm.bf16", BF16, Round::down),
    PARTITA_NARROW("rp.bf16", BF16, Round::up),
    {"cvt.rna.tf32.f32", op1<NarrowTf32<Round::away>, u32, f32>},
    {"cvt.rn.tf32.f32", op1<NarrowTf32<Round::nearest>, u32, f32>},
    {"cvt.rz.tf32.f32", op1<NarrowTf32<Round::zero>, u32, f32>},
    PARTITA_ROUND("rni", RoundNearest),
    PARTITA_ROUND("rzi", RoundZero),
    PARTITA_ROUND("rmi", RoundDown),
    PARTITA_ROUND("rpi", RoundUp),
    PARTITA_HALF2("add", HalfAdd),
    PARTITA_HALF2("sub", HalfSub),
    PARTITA_HALF2("mul", HalfMul),
    PARTITA_HALF3("fma", HalfFma),
    PARTITA_HALF2("min", Extreme<false>),
    PARTITA_HALF2("max", Extreme<true>),
    PARTITA_HALF2("min.NaN", OrNan<Extreme<false>>),
    PARTITA_HALF2("max.NaN", OrNan<Extreme<true>>),
    {"add.u16x2", op2<TwinOf<Add, u16>, u32, u32, u32>},
    {"add.s16x2", op2<TwinOf<Add, u16>, u32, u32, u32>},
    {"min.u16x2", op2<TwinOf<MinInt, u16>, u32, u32, u32>},
    {"min.s16x2", op2<TwinOf<MinInt, s16>, u32, u32, u32>},
    {"max.u16x2", op2<TwinOf<MaxInt, u16>, u32, u32, u32>},
    {"max.s16x2", op2<TwinOf<MaxInt, s16>, u32, u32, u32>},
    PARTITA_HALF1("ex2", Exp2),
    PARTITA_HALF1("tanh", HyperbolicTangent),
    PARTITA_HALF_BITS("neg", HalfNeg, HalfNeg),
    PARTITA_HALF_BITS("abs", HalfAbs, HalfAbs),
    PARTITA_HALF_BITS("flush", HalfFlush, HalfFlush),
    PARTITA_HALF_BITS("saturate", HalfSaturate<F16>, HalfSaturate<BF16>),
    PARTITA_HALF_BITS("relu", HalfRelu<F16>, HalfRelu<BF16>),
    PARTITA_HALF_COMPARE("eq", FloatEq),
    PARTITA_HALF_COMPARE("ne", CompareNe),
    PARTITA_HALF_COMPARE("lt", FloatLt),
    PARTITA_HALF_COMPARE("le", FloatLe),
    PARTITA_HALF_COMPARE("gt", FloatGt),
    PARTITA_HALF_COMPARE("ge", FloatGe),
    PARTITA_HALF_COMPARE("equ", FloatEqu),
    PARTITA_HALF_COMPARE("neu", FloatNeu),
    PARTITA_HALF_COMPARE("ltu", FloatLtu),
    PARTITA_HALF_COMPARE("leu", FloatLeu),
    PARTITA_HALF_COMPARE("gtu", FloatGtu),
    PARTITA_HALF_COMPARE("geu", FloatGeu),
    PARTITA_HALF_COMPARE("num", Number),
    PARTITA_HALF_COMPARE("nan", NotNumber),
};

}  // namespace
}  // namespace partita::ptx::PARTITA_PTX_LEVEL
