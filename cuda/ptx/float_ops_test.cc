// Floating-point instructions and conversions against plain C++.
#include <bit>
#include <cfenv>
#include <cmath>

#include "ptx/testing/op_cases.h"

namespace partita::ptx {
namespace {

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

// Rounded by the processor in another mode; volatile, so that nothing is computed before.
template <class F>
auto in_mode(int mode, F f) {
  return [mode, f](auto... values) {
    using R = decltype(f(values...));
    std::fesetround(mode);
    const volatile R result = [&](volatile auto... v) { return f(v...); }(values...);
    std::fesetround(FE_TONEAREST);
    return static_cast<R>(result);
  };
}
struct Mode {
  std::string word;
  int mode;
};
const Mode kModes[] = {
    {".rn", FE_TONEAREST}, {".rz", FE_TOWARDZERO}, {".rm", FE_DOWNWARD}, {".rp", FE_UPWARD}};

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x; }

template <class T>
T least_of(T a, T b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class T>
T most_of(T a, T b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

template <class T>
void add_arithmetic(std::vector<OpCase>& cases) {
  const std::string t = "." + type_word<T>();
  for (const Mode& mode : kModes) {
    const std::string w = mode.word + t;
    cases.push_back(
        op_case<T, T, T>("add" + w, in_mode(mode.mode, [](T a, T b) { return T(a + b); })));
    cases.push_back(
        op_case<T, T, T>("sub" + w, in_mode(mode.mode, [](T a, T b) { return T(a - b); })));
    cases.push_back(
        op_case<T, T, T>("mul" + w, in_mode(mode.mode, [](T a, T b) { return T(a * b); })));
    cases.push_back(
        op_case<T, T, T>("div" + w, in_mode(mode.mode, [](T a, T b) { return T(a / b); })));
    cases.push_back(op_case<T, T>("rcp" + w, in_mode(mode.mode, [](T a) { return T(T{1} / a); })));
    cases.push_back(
        op_case<T, T>("sqrt" + w, in_mode(mode.mode, [](T a) { return T(std::sqrt(a)); })));
    cases.push_back(op_case<T, T, T, T>(
        "fma" + w, in_mode(mode.mode, [](T a, T b, T c) { return T(std::fma(a, b, c)); })));
  }
  cases.push_back(op_case<T, T, T>("min" + t, least_of<T>));
  cases.push_back(op_case<T, T, T>("max" + t, most_of<T>));
  cases.push_back(op_case<T, T>("neg" + t, [](T a) { return -a; }));
  cases.push_back(op_case<T, T>("abs" + t, [](T a) { return std::fabs(a); }));
  cases.push_back(op_case<T, T, T>("copysign" + t, [](T a, T b) { return std::copysign(b, a); }));
}

TEST(FloatOps, ArithmeticInAllRoundingModes) {
  std::vector<OpCase> cases;
  add_arithmetic<float>(cases);
  add_arithmetic<double>(cases);
  check_cases(cases);
}

TEST(FloatOps, FlushAndSaturate) {
  std::vector<OpCase> cases;
  const auto sat = [](float x) { return x >= 0 ? std::min(x, 1.0F) : 0.0F; };
  cases.push_back(op_case<float, float, float>(
      "add.ftz.f32", [](float a, float b) { return flushed(flushed(a) + flushed(b)); }));
  cases.push_back(op_case<float, float, float>(
      "mul.ftz.f32", [](float a, float b) { return flushed(flushed(a) * flushed(b)); }));
  cases.push_back(
      op_case<float, float, float, float>("fma.rn.ftz.f32", [](float a, float b, float c) {
        return flushed(std::fma(flushed(a), flushed(b), flushed(c)));
      }));
  cases.push_back(
      op_case<float, float, float>("add.sat.f32", [=](float a, float b) { return sat(a + b); }));
  cases.push_back(op_case<float, float, float>(
      "mul.ftz.sat.f32", [=](float a, float b) { return sat(flushed(flushed(a) * flushed(b))); }));
  cases.push_back(op_case<float, float, float>("min.NaN.f32", [](float a, float b) {
    return std::isnan(a) || std::isnan(b) ? NAN : least_of(a, b);
  }));
  cases.push_back(op_case<float, float, float>("max.xorsign.abs.f32", [](float a, float b) {
    const float most = most_of(std::fabs(a), std::fabs(b));
    return std::signbit(a) != std::signbit(b) ? -most : most;
  }));
  check_cases(cases);
}

TEST(FloatOps, ApproximationsAreClose) {
  std::vector<OpCase> cases;
  const auto close = [&](const std::string& name, auto f) {
    OpCase made = op_case<float, float>(name, f);
    made.tolerance = 1e-6;
    cases.push_back(made);
  };
  close("rsqrt.approx.f32",
        [](float a) { return static_cast<float>(1 / std::sqrt(static_cast<double>(a))); });
  close("ex2.approx.f32", [](float a) { return std::exp2(a); });
  close("lg2.approx.f32", [](float a) { return std::log2(a); });
  close("sin.approx.f32", [](float a) { return std::sin(a); });
  close("cos.approx.f32", [](float a) { return std::cos(a); });
  close("tanh.approx.f32", [](float a) { return std::tanh(a); });
  close("rcp.approx.ftz.f32", [](float a) { return flushed(1 / flushed(a)); });
  close("sqrt.approx.f32", [](float a) { return std::sqrt(a); });
  OpCase divide =
      op_case<float, float, float>("div.full.f32", [](float a, float b) { return a / b; });
  divide.tolerance = 1e-6;
  cases.push_back(divide);
  check_cases(cases);
}

// A NaN that arithmetic makes has one pattern.
TEST(FloatOps, NansAreCanonical) {
  std::vector<OpCase> cases;
  OpCase made = op_case<float, float, float>("add.f32", [](float a, float b) { return a + b; });
  made.is_float = false;
  made.oracle = [](const u64* in) -> u64 {
    const float sum = value_of<float>(in[0]) + value_of<float>(in[1]);
    return std::isnan(sum) ? 0x7fffffffu : bits_of_value(sum);
  };
  cases.push_back(made);
  check_cases(cases);
}

template <class T>
void add_float_comparisons(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& how, auto f) {
    OpCase made = op_case<u32, T, T>("", [f](T a, T b) { return f(a, b) ? 1u : 0u; });
    made.is_float = false;
    made.instruction = "setp." + how + "." + type_word<T>() + " %p2, " +
                       register_of(made.from[0], 0) + ", " + register_of(made.from[1], 1) +
                       ";\nselp.u32 %r29, 1, 0, %p2; //";
    cases.push_back(made);
  };
  const auto none = [](T a, T b) { return std::isnan(a) || std::isnan(b); };
  add("eq", [=](T a, T b) { return !none(a, b) && a == b; });
  add("ne", [=](T a, T b) { return !none(a, b) && a != b; });
  add("lt", [=](T a, T b) { return !none(a, b) && a < b; });
  add("le", [=](T a, T b) { return !none(a, b) && a <= b; });
  add("gt", [=](T a, T b) { return !none(a, b) && a > b; });
  add("ge", [=](T a, T b) { return !none(a, b) && a >= b; });
  add("equ", [=](T a, T b) { return none(a, b) || a == b; });
  add("neu", [=](T a, T b) { return none(a, b) || a != b; });
  add("ltu", [=](T a, T b) { return none(a, b) || a < b; });
  add("leu", [=](T a, T b) { return none(a, b) || a <= b; });
  add("gtu", [=](T a, T b) { return none(a, b) || a > b; });
  add("geu", [=](T a, T b) { return none(a, b) || a >= b; });
  add("num", [=](T a, T b) { return !none(a, b); });
  add("nan", none);
  const auto test = [&](const std::string& what, auto f) {
    OpCase made = op_case<u32, T>("", [f](T a) { return f(a) ? 1u : 0u; });
    made.is_float = false;
    made.instruction = "testp." + what + "." + type_word<T>() + " %p2, " +
                       register_of(made.from[0], 0) + ";\nselp.u32 %r29, 1, 0, %p2; //";
    cases.push_back(made);
  };
  test("finite", [](T a) { return std::isfinite(a); });
  test("infinite", [](T a) { return std::isinf(a); });
  test("number", [](T a) { return !std::isnan(a); });
  test("notanumber", [](T a) { return std::isnan(a); });
  test("normal", [](T a) { return std::isnormal(a); });
  test("subnormal", [](T a) { return std::fpclassify(a) == FP_SUBNORMAL; });
}

TEST(FloatOps, ComparisonsAndClasses) {
  std::vector<OpCase> cases;
  add_float_comparisons<float>(cases);
  add_float_comparisons<double>(cases);
  check_cases(cases);
}

// Conversions ----------------------------------------------------------------------------------

template <class To, class From>
To saturated(From x) {
  __extension__ typedef __int128 wide;
  const wide most = std::numeric_limits<To>::max(), least = std::numeric_limits<To>::min();
  const wide value = x;
  return static_cast<To>(value > most ? most : value < least ? least : value);
}
template <class To, class From>
To from_float(From x) {
  if (std::isnan(x))
    return sizeof(From) == 8 || sizeof(To) == 8 ? static_cast<To>(u64{1} << (8 * sizeof(To) - 1))
                                                : To{0};
  const long double value = x;
  if (value >= static_cast<long double>(std::numeric_limits<To>::max()))
    return std::numeric_limits<To>::max();
  if (value <= static_cast<long double>(std::numeric_limits<To>::min()))
    return std::numeric_limits<To>::min();
  return static_cast<To>(value);
}

template <class To, class From>
void add_conversion(std::vector<OpCase>& cases) {
  const std::string t = "." + type_word<To>() + "." + type_word<From>();
  if constexpr (std::is_integral_v<To> && std::is_integral_v<From>) {
    cases.push_back(op_case<To, From>("cvt" + t, [](From x) { return static_cast<To>(x); }));
    cases.push_back(op_case<To, From>("cvt.sat" + t, saturated<To, From>));
  } else if constexpr (std::is_integral_v<To>) {
    cases.push_back(
        op_case<To, From>("cvt.rzi" + t, [](From x) { return from_float<To>(std::trunc(x)); }));
    cases.push_back(
        op_case<To, From>("cvt.rni" + t, [](From x) { return from_float<To>(std::nearbyint(x)); }));
    cases.push_back(
        op_case<To, From>("cvt.rmi" + t, [](From x) { return from_float<To>(std::floor(x)); }));
    cases.push_back(
        op_case<To, From>("cvt.rpi" + t, [](From x) { return from_float<To>(std::ceil(x)); }));
  } else if constexpr (std::is_integral_v<From>) {
    for (const Mode& mode : kModes)
      cases.push_back(op_case<To, From>(
          "cvt" + mode.word + t, in_mode(mode.mode, [](From x) { return static_cast<To>(x); })));
  }
}
template <class From>
void add_conversions(std::vector<OpCase>& cases) {
  add_conversion<std::uint16_t, From>(cases);
  add_conversion<std::int16_t, From>(cases);
  add_conversion<std::uint32_t, From>(cases);
  add_conversion<std::int32_t, From>(cases);
  add_conversion<std::uint64_t, From>(cases);
  add_conversion<std::int64_t, From>(cases);
  if constexpr (std::is_integral_v<From>) {
    add_conversion<float, From>(cases);
    add_conversion<double, From>(cases);
  }
}

TEST(Conversions, BetweenIntegersAndFloats) {
  std::vector<OpCase> cases;
  add_conversions<std::uint16_t>(cases);
  add_conversions<std::int16_t>(cases);
  add_conversions<std::uint32_t>(cases);
  add_conversions<std::int32_t>(cases);
  add_conversions<std::uint64_t>(cases);
  add_conversions<std::int64_t>(cases);
  add_conversions<float>(cases);
  add_conversions<double>(cases);
  check_cases(cases);
}

TEST(Conversions, BetweenFloatsAndOfWiderRegisters) {
  std::vector<OpCase> cases;
  for (const Mode& mode : kModes)
    cases.push_back(
        op_case<float, double>("cvt" + mode.word + ".f32.f64",
                               in_mode(mode.mode, [](double x) { return static_cast<float>(x); })));
  cases.push_back(
      op_case<double, float>("cvt.f64.f32", [](float x) { return static_cast<double>(x); }));
  cases.push_back(
      op_case<float, float>("cvt.rni.f32.f32", [](float x) { return std::nearbyint(x); }));
  cases.push_back(op_case<float, float>("cvt.rpi.f32.f32", [](float x) { return std::ceil(x); }));
  cases.push_back(
      op_case<double, double>("cvt.rmi.f64.f64", [](double x) { return std::floor(x); }));
  cases.push_back(op_case<float, float>("cvt.sat.f32.f32",
                                        [](float x) { return x >= 0 ? std::min(x, 1.0F) : 0; }));
  cases.push_back(op_case<float, float>("cvt.ftz.f32.f32", flushed));
  cases.push_back(op_case<u32, u32>("cvt.u32.u8", [](u32 x) { return x & 0xff; }));
  cases.push_back(op_case<std::int32_t, u32>(
      "cvt.s32.s8", [](u32 x) { return static_cast<std::int32_t>(static_cast<std::int8_t>(x)); }));
  cases.push_back(op_case<u64, u32>("cvt.u64.u16", [](u32 x) { return u64{static_cast<u16>(x)}; }));
  cases.push_back(op_case<u32, u32>("cvt.u8.u32", [](u32 x) { return x & 0xff; }));
  cases.push_back(op_case<float, u64>(
      "cvt.rn.f32.s8", [](u64 x) { return static_cast<float>(static_cast<std::int8_t>(x)); }));
  check_cases(cases);
}

// Half precision: every value is decoded by its definition, and rounding is a search for the
// nearest neighbours.
template <int Exponent, int Mantissa>
struct Small {
  static double value(u32 bits) {
    const u32 sign = bits >> (Exponent + Mantissa) & 1,
              e = bits >> Mantissa & ((1u << Exponent) - 1);
    const u32 m = bits & ((1u << Mantissa) - 1);
    const int bias = (1 << (Exponent - 1)) - 1;
    double v = 0;
    if (e == (1u << Exponent) - 1)
      v = m != 0 ? NAN : INFINITY;
    else if (e == 0)
      v = std::ldexp(m, 1 - bias - Mantissa);
    else
      v = std::ldexp(m + (1 << Mantissa), static_cast<int>(e) - bias - Mantissa);
    return sign != 0 ? -v : v;
  }
  // mode 0 nearest even, 1 zero, 2 down, 3 up; `x` exact as long double.
  static u32 rounded(long double x, int mode) {
    if (std::isnan(x)) return 0x7fff;
    const u32 sign = std::signbit(x) ? 1u << (Exponent + Mantissa) : 0;
    const long double a = std::fabs(x);
    const u32 infinity = ((1u << Exponent) - 1) << Mantissa;
    u32 low = 0, high = infinity;  // the largest that is not above a
    while (high - low > 1) {
      const u32 middle = (low + high) / 2;
      (static_cast<long double>(value(middle)) <= a ? low : high) = middle;
    }
    if (a >= INFINITY) return sign | infinity;
    const long double below = value(low);
    if (below == a) return sign | low;
    const long double above =
        high == infinity ? std::ldexp(2.0L, (1 << (Exponent - 1)) - 1) : value(high);
    bool up = false;
    if (mode == 0) up = a - below > above - a || (a - below == above - a && (low & 1) != 0);
    if (mode == 2) up = sign != 0;
    if (mode == 3) up = sign == 0;
    return sign | (up ? high : low);
  }
};
using Half = Small<5, 10>;
using Brain = Small<8, 7>;

OpCase half_case(std::string instruction, std::string to, std::vector<std::string> from,
                 std::function<u64(const u64*)> oracle) {
  return {.instruction = std::move(instruction),
          .to = std::move(to),
          .from = std::move(from),
          .oracle = std::move(oracle)};
}

template <class F>
void add_half(std::vector<OpCase>& cases, const std::string& t) {
  const char* words[] = {".rn", ".rz"};
  for (int mode = 0; mode < 2; ++mode) {
    const std::string w = std::string("cvt") + words[mode] + t;
    cases.push_back(half_case(w + ".f32", "u16", {"f32"}, [mode](const u64* in) -> u64 {
      return F::rounded(value_of<float>(in[0]), mode);
    }));
  }
  cases.push_back(half_case("cvt.f32" + t, "u32", {"u16"}, [](const u64* in) -> u64 {
    const double v = F::value(static_cast<u16>(in[0]));
    return std::isnan(v) ? 0x7fffffffu : bits_of_value(static_cast<float>(v));
  }));
  const auto number = [](u64 bits) {
    return static_cast<long double>(F::value(static_cast<u16>(bits)));
  };
  const auto canonical = [](u32 bits) -> u64 { return bits; };
  cases.push_back(half_case("add" + t, "u16", {"u16", "u16"}, [=](const u64* in) {
    return canonical(F::rounded(number(in[0]) + number(in[1]), 0));
  }));
  cases.push_back(half_case("sub" + t, "u16", {"u16", "u16"}, [=](const u64* in) {
    return canonical(F::rounded(number(in[0]) - number(in[1]), 0));
  }));
  cases.push_back(half_case("mul" + t, "u16", {"u16", "u16"}, [=](const u64* in) {
    return canonical(F::rounded(number(in[0]) * number(in[1]), 0));
  }));
  cases.push_back(
      half_case("neg" + t, "u16", {"u16"}, [](const u64* in) { return in[0] ^ 0x8000; }));
  cases.push_back(
      half_case("abs" + t, "u16", {"u16"}, [](const u64* in) { return in[0] & 0x7fff; }));
  cases.push_back(half_case("add" + t + "x2", "u32", {"u32", "u32"}, [=](const u64* in) -> u64 {
    return F::rounded(number(in[0]) + number(in[1]), 0) |
           u64{F::rounded(number(in[0] >> 16) + number(in[1] >> 16), 0)} << 16;
  }));
}

TEST(Conversions, HalfPrecisionIsRoundedOnce) {
  std::vector<OpCase> cases;
  add_half<Half>(cases, ".f16");
  add_half<Brain>(cases, ".bf16");
  // The exact sum of a product fits into a long double unless the exponents lie far apart, and then
  // its sign decides: f16 always fits.
  cases.push_back(half_case("fma.rn.f16", "u16", {"u16", "u16", "u16"}, [](const u64* in) -> u64 {
    const auto v = [&](int i) {
      return static_cast<long double>(Half::value(static_cast<u16>(in[i])));
    };
    return Half::rounded(v(0) * v(1) + v(2), 0);
  }));
  cases.push_back(half_case("cvt.rn.f16x2.f32", "u32", {"f32", "f32"}, [](const u64* in) -> u64 {
    return Half::rounded(value_of<float>(in[1]), 0) | u64{Half::rounded(value_of<float>(in[0]), 0)}
                                                          << 16;
  }));
  cases.push_back(half_case("cvt.rn.f16.s32", "u16", {"s32"}, [](const u64* in) -> u64 {
    return Half::rounded(value_of<std::int32_t>(in[0]), 0);
  }));
  cases.push_back(half_case("cvt.rn.bf16.s32", "u16", {"s32"}, [](const u64* in) -> u64 {
    return Brain::rounded(value_of<std::int32_t>(in[0]), 0);
  }));
  check_cases(cases);
}

}  // namespace
}  // namespace partita::ptx
