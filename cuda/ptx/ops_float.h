// Ops on f32, f64, f16 and bf16 of one level. Rounding modes other than to nearest are set by an op
// before (exec_control.cc); contraction is off, so that mul and add are two roundings.
#pragma once

#include "ptx/lanes.h"

namespace partita::ptx::PARTITA_PTX_LEVEL {
namespace {

// Results that are not a number are one canonical pattern.
inline f32 canonical(f32 x) { return x == x ? x : cast<f32>(u32{0x7fff'ffff}); }
inline f64 canonical(f64 x) { return x; }
inline f32 flush(f32 x) {
  const u32 bits = cast<u32>(x);
  return cast<f32>((bits & 0x7f80'0000u) == 0 ? bits & 0x8000'0000u : bits);
}
inline f32 saturate(f32 x) { return x >= 0 ? (x > 1 ? 1.0f : x) : 0.0f; }
inline f64 saturate(f64 x) { return x >= 0 ? (x > 1 ? 1.0 : x) : 0.0; }

struct AddFloat {
  template <class T>
  static T f(T a, T b) {
    return canonical(a + b);
  }
};
struct SubFloat {
  template <class T>
  static T f(T a, T b) {
    return canonical(a - b);
  }
};
struct MulFloat {
  template <class T>
  static T f(T a, T b) {
    return canonical(a * b);
  }
};
struct DivFloat {
  template <class T>
  static T f(T a, T b) {
    return canonical(a / b);
  }
};
struct FmaFloat {
  static f32 f(f32 a, f32 b, f32 c) { return canonical(__builtin_fmaf(a, b, c)); }
  static f64 f(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
};
struct Reciprocal {
  template <class T>
  static T f(T a) {
    return canonical(1 / a);
  }
};
struct SquareRoot {
  static f32 f(f32 a) { return canonical(__builtin_sqrtf(a)); }
  static f64 f(f64 a) { return __builtin_sqrt(a); }
};
struct ReciprocalRoot {
  static f32 f(f32 a) { return canonical(1 / __builtin_sqrtf(a)); }
  static f64 f(f64 a) { return 1 / __builtin_sqrt(a); }
};
struct Sine {
  static f32 f(f32 a) { return canonical(__builtin_sinf(a)); }
};
struct Cosine {
  static f32 f(f32 a) { return canonical(__builtin_cosf(a)); }
};
struct Exp2 {
  static f32 f(f32 a) { return canonical(__builtin_exp2f(a)); }
};
struct Log2 {
  static f32 f(f32 a) { return canonical(__builtin_log2f(a)); }
};
struct HyperbolicTangent {
  static f32 f(f32 a) { return canonical(__builtin_tanhf(a)); }
};
template <class T>
inline constexpr bits_of<T> kSignBit = bits_of<T>{1} << (8 * sizeof(T) - 1);
struct NegFloat {
  template <class T>
  static T f(T a) {
    return cast<T>(static_cast<bits_of<T>>(cast<bits_of<T>>(a) ^ kSignBit<T>));
  }
};
struct AbsFloat {
  template <class T>
  static T f(T a) {
    return cast<T>(static_cast<bits_of<T>>(cast<bits_of<T>>(a) & ~kSignBit<T>));
  }
};
// The sign of a on the value of b.
struct CopySign {
  template <class T>
  static T f(T a, T b) {
    return cast<T>(static_cast<bits_of<T>>((cast<bits_of<T>>(a) & kSignBit<T>) |
                                           (cast<bits_of<T>>(b) & ~kSignBit<T>)));
  }
};
// A number wins over what is none; -0 is less than +0.
template <bool Most>
struct Extreme {
  template <class T>
  static T f(T a, T b) {
    using U = bits_of<T>;
    const U x = cast<U>(a), y = cast<U>(b);
    const T zero = cast<T>(static_cast<U>(Most ? x & y : x | y));  // of two equal ones
    const T less = Most ? (a > b ? a : b) : (a < b ? a : b);
    const T number = a != a ? b : b != b ? a : a == b ? zero : less;
    return canonical(number);
  }
};
template <class F>
struct OrNan {
  template <class T>
  static T f(T a, T b) {
    return a != a || b != b ? canonical(static_cast<T>(__builtin_nan(""))) : F::f(a, b);
  }
};
// min.xorsign.abs: of the magnitudes, with the product's sign.
template <class F>
struct XorSign {
  template <class T>
  static T f(T a, T b) {
    using U = bits_of<T>;
    const U sign = (cast<U>(a) ^ cast<U>(b)) & kSignBit<T>;
    const T value = F::f(AbsFloat::f(a), AbsFloat::f(b));
    return cast<T>(static_cast<U>((cast<U>(value) & ~kSignBit<T>) | sign));
  }
};
template <class F>
struct Ftz {
  static f32 f(f32 a) { return flush(F::f(flush(a))); }
  static f32 f(f32 a, f32 b) { return flush(F::f(flush(a), flush(b))); }
  static f32 f(f32 a, f32 b, f32 c) { return flush(F::f(flush(a), flush(b), flush(c))); }
};
template <class F>
struct Sat {
  template <class... T>
  static auto f(T... a) {
    return saturate(F::f(a...));
  }
};
struct SaturateFloat {
  template <class T>
  static T f(T a) {
    return saturate(a);
  }
};
struct FlushFloat {
  static f32 f(f32 a) { return flush(a); }
};

// Comparisons beside those of integers, which are false with what is not a number.
struct CompareNe {
  template <class T>
  static bool f(T a, T b) {
    return a < b || a > b;
  }
};
struct Number {
  template <class T>
  static bool f(T a, T b) {
    return a == a && b == b;
  }
};
struct NotNumber {
  template <class T>
  static bool f(T a, T b) {
    return a != a || b != b;
  }
};
struct FloatEq {
  template <class T>
  static bool f(T a, T b) {
    return a == b;
  }
};
struct FloatLt {
  template <class T>
  static bool f(T a, T b) {
    return a < b;
  }
};
struct FloatLe {
  template <class T>
  static bool f(T a, T b) {
    return a <= b;
  }
};
template <class F>
struct Swapped {
  template <class T>
  static bool f(T a, T b) {
    return F::f(b, a);
  }
};
template <class F>
struct Negated {
  template <class T>
  static bool f(T a, T b) {
    return !F::f(a, b);
  }
};
template <class F>
struct FtzCompare {
  static bool f(f32 a, f32 b) { return F::f(flush(a), flush(b)); }
};
using FloatGt = Swapped<FloatLt>;
using FloatGe = Swapped<FloatLe>;
using FloatEqu = Negated<CompareNe>;
using FloatNeu = Negated<FloatEq>;
using FloatLtu = Negated<FloatGe>;
using FloatLeu = Negated<FloatGt>;
using FloatGtu = Negated<FloatLe>;
using FloatGeu = Negated<FloatLt>;

template <class T>
inline constexpr bits_of<T> kExponent = sizeof(T) == 4
                                            ? static_cast<bits_of<T>>(0x7f80'0000u)
                                            : static_cast<bits_of<T>>(0x7ff0'0000'0000'0000u);
struct IsFinite {
  template <class T>
  static bool f(T a, T) {
    return (cast<bits_of<T>>(a) & kExponent<T>) != kExponent<T>;
  }
};
struct IsInfinite {
  template <class T>
  static bool f(T a, T) {
    return (cast<bits_of<T>>(a) & ~kSignBit<T>) == kExponent<T>;
  }
};
struct IsNormal {
  template <class T>
  static bool f(T a, T) {
    const bits_of<T> exponent = cast<bits_of<T>>(a) & kExponent<T>;
    return exponent != 0 && exponent != kExponent<T>;
  }
};
struct IsSubnormal {
  template <class T>
  static bool f(T a, T) {
    return (cast<bits_of<T>>(a) & kExponent<T>) == 0 && a != 0;
  }
};

#define PARTITA_F1(NAME, F)                                                    \
  {NAME ".f32", op1<F, f32, f32>}, {NAME ".ftz.f32", op1<Ftz<F>, f32, f32>}, { \
    NAME ".f64", op1<F, f64, f64>                                              \
  }
#define PARTITA_F1_SINGLE(NAME, F) \
  {NAME ".f32", op1<F, f32, f32>}, { NAME ".ftz.f32", op1<Ftz<F>, f32, f32> }
#define PARTITA_F2_ONE(NAME, F, T) \
  { NAME, op2<F, T, T, T> }
#define PARTITA_F2(NAME, F)                                                          \
  PARTITA_F2_ONE(NAME ".f32", F, f32), PARTITA_F2_ONE(NAME ".ftz.f32", Ftz<F>, f32), \
      PARTITA_F2_ONE(NAME ".f64", F, f64)
#define PARTITA_F2_SAT(NAME, F)                                      \
  PARTITA_F2(NAME, F), PARTITA_F2_ONE(NAME ".sat.f32", Sat<F>, f32), \
      PARTITA_F2_ONE(NAME ".ftz.sat.f32", Sat<Ftz<F>>, f32)
#define PARTITA_F3_ONE(NAME, F, T) \
  { NAME, op3<F, T, T, T, T> }
#define PARTITA_FCOMPARE_ONE(NAME, F)                                                             \
  {"setp." NAME ".f32", compare<F, f32>}, {"setp." NAME ".ftz.f32", compare<FtzCompare<F>, f32>}, \
  {                                                                                               \
    "setp." NAME ".f64", compare<F, f64>                                                          \
  }
#define PARTITA_TESTP(NAME, F) \
  {"testp." NAME ".f32", compare<F, f32>}, { "testp." NAME ".f64", compare<F, f64> }

const NamedOp kFloatOps[] = {
    PARTITA_F2_SAT("add", AddFloat),
    PARTITA_F2_SAT("sub", SubFloat),
    PARTITA_F2_SAT("mul", MulFloat),
    PARTITA_F2("div", DivFloat),
    PARTITA_F3_ONE("fma.f32", FmaFloat, f32),
    PARTITA_F3_ONE("fma.ftz.f32", Ftz<FmaFloat>, f32),
    PARTITA_F3_ONE("fma.sat.f32", Sat<FmaFloat>, f32),
    PARTITA_F3_ONE("fma.ftz.sat.f32", Sat<Ftz<FmaFloat>>, f32),
    PARTITA_F3_ONE("fma.f64", FmaFloat, f64),
    PARTITA_F1("rcp", Reciprocal),
    PARTITA_F1("sqrt", SquareRoot),
    PARTITA_F1("rsqrt", ReciprocalRoot),
    PARTITA_F1("neg", NegFloat),
    PARTITA_F1("abs", AbsFloat),
    PARTITA_F1_SINGLE("sin", Sine),
    PARTITA_F1_SINGLE("cos", Cosine),
    PARTITA_F1_SINGLE("ex2", Exp2),
    PARTITA_F1_SINGLE("lg2", Log2),
    PARTITA_F1_SINGLE("tanh", HyperbolicTangent),
    PARTITA_F2_ONE("copysign.f32", CopySign, f32),
    PARTITA_F2_ONE("copysign.f64", CopySign, f64),
    PARTITA_F2("min", Extreme<false>),
    PARTITA_F2("max", Extreme<true>),
    PARTITA_F2("min.NaN", OrNan<Extreme<false>>),
    PARTITA_F2("max.NaN", OrNan<Extreme<true>>),
    PARTITA_F2("min.xorsign.abs", XorSign<Extreme<false>>),
    PARTITA_F2("max.xorsign.abs", XorSign<Extreme<true>>),
    PARTITA_F2("min.NaN.xorsign.abs", XorSign<OrNan<Extreme<false>>>),
    PARTITA_F2("max.NaN.xorsign.abs", XorSign<OrNan<Extreme<true>>>),
    {"saturate.f32", op1<SaturateFloat, f32, f32>},
    {"saturate.f64", op1<SaturateFloat, f64, f64>},
    {"flush.f32", op1<FlushFloat, f32, f32>},
    PARTITA_FCOMPARE_ONE("eq", FloatEq),
    PARTITA_FCOMPARE_ONE("ne", CompareNe),
    PARTITA_FCOMPARE_ONE("lt", FloatLt),
    PARTITA_FCOMPARE_ONE("le", FloatLe),
    PARTITA_FCOMPARE_ONE("gt", FloatGt),
    PARTITA_FCOMPARE_ONE("ge", FloatGe),
    PARTITA_FCOMPARE_ONE("equ", FloatEqu),
    PARTITA_FCOMPARE_ONE("neu", FloatNeu),
    PARTITA_FCOMPARE_ONE("ltu", FloatLtu),
    PARTITA_FCOMPARE_ONE("leu", FloatLeu),
    PARTITA_FCOMPARE_ONE("gtu", FloatGtu),
    PARTITA_FCOMPARE_ONE("geu", FloatGeu),
    PARTITA_FCOMPARE_ONE("num", Number),
    PARTITA_FCOMPARE_ONE("nan", NotNumber),
    PARTITA_TESTP("finite", IsFinite),
    PARTITA_TESTP("infinite", IsInfinite),
    PARTITA_TESTP("number", Number),
    PARTITA_TESTP("notanumber", NotNumber),
    PARTITA_TESTP("normal", IsNormal),
    PARTITA_TESTP("subnormal", IsSubnormal),
};

}  // namespace
}  // namespace partita::ptx::PARTITA_PTX_LEVEL
