// Integer instructions against plain C++.
#include <bit>

#include "ptx/testing/op_cases.h"

namespace partita::ptx {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 huge;  // whose sums and products wrap

template <class T>
wide clamp_to(wide value) {
  const wide most = std::numeric_limits<T>::max(), least = std::numeric_limits<T>::min();
  return value > most ? most : value < least ? least : value;
}

template <class T>
void add_plain(std::vector<OpCase>& cases) {
  const std::string t = "." + type_word<T>();
  constexpr unsigned bits = 8 * sizeof(T);
  const auto binary = [&](const std::string& name, auto f) {
    cases.push_back(op_case<T, T, T>(name + t, [f](T a, T b) { return static_cast<T>(f(a, b)); }));
  };
  binary("add", [](wide a, wide b) { return a + b; });
  binary("sub", [](wide a, wide b) { return a - b; });
  binary("mul.lo", [](wide a, wide b) { return static_cast<huge>(a) * static_cast<huge>(b); });
  binary("mul.hi", [](wide a, wide b) {
    if constexpr (sizeof(T) == 8 && std::is_unsigned_v<T>) {
      return static_cast<wide>((static_cast<huge>(a) * static_cast<huge>(b)) >> 64);
    }
    return (a * b) >> bits;
  });
  binary("min", [](wide a, wide b) { return a < b ? a : b; });
  binary("max", [](wide a, wide b) { return a > b ? a : b; });
  cases.push_back(op_case<T, T, T>("div" + t, [](T a, T b) {
    return static_cast<T>(b == 0 ? wide{-1} : static_cast<wide>(a) / static_cast<wide>(b));
  }));
  cases.push_back(op_case<T, T, T>("rem" + t, [](T a, T b) {
    return static_cast<T>(b == 0 ? static_cast<wide>(a)
                                 : static_cast<wide>(a) % static_cast<wide>(b));
  }));
  cases.push_back(op_case<T, T, T, T>("mad.lo" + t, [](T a, T b, T c) {
    const wide x = a, y = b, z = c;
    return static_cast<T>(static_cast<huge>(x) * static_cast<huge>(y) + static_cast<huge>(z));
  }));
  cases.push_back(op_case<T, T, T, T>("sad" + t, [](T a, T b, T c) {
    const wide apart = static_cast<wide>(a) - static_cast<wide>(b);
    return static_cast<T>((apart < 0 ? -apart : apart) + c);
  }));
  cases.push_back(op_case<T, T, u32>("shr" + t, [](T a, u32 b) {
    const wide value = a;
    return static_cast<T>(value >> (b > 100 ? 100 : b));
  }));
  if constexpr (std::is_signed_v<T>) {
    cases.push_back(
        op_case<T, T>("neg" + t, [](T a) { return static_cast<T>(-static_cast<wide>(a)); }));
    cases.push_back(op_case<T, T>(
        "abs" + t, [](T a) { return static_cast<T>(a < 0 ? -static_cast<wide>(a) : a); }));
  }
}

template <class T>
void add_bits(std::vector<OpCase>& cases) {
  const std::string t = ".b" + std::to_string(8 * sizeof(T));
  constexpr u32 bits = 8 * sizeof(T);
  cases.push_back(op_case<T, T, T>("and" + t, [](T a, T b) { return static_cast<T>(a & b); }));
  cases.push_back(op_case<T, T, T>("or" + t, [](T a, T b) { return static_cast<T>(a | b); }));
  cases.push_back(op_case<T, T, T>("xor" + t, [](T a, T b) { return static_cast<T>(a ^ b); }));
  cases.push_back(op_case<T, T>("not" + t, [](T a) { return static_cast<T>(~a); }));
  cases.push_back(op_case<T, T>("cnot" + t, [](T a) { return static_cast<T>(a == 0); }));
  cases.push_back(op_case<T, T>("mov" + t, [](T a) { return a; }));
  cases.push_back(op_case<T, T, u32>("shl" + t, [](T a, u32 b) {
    return b >= bits ? T{0} : static_cast<T>(static_cast<u64>(a) << b);
  }));
}

template <class T>
void add_wide_bits(std::vector<OpCase>& cases) {
  const std::string b = ".b" + std::to_string(8 * sizeof(T));
  const std::string u = ".u" + std::to_string(8 * sizeof(T)),
                    s = ".s" + std::to_string(8 * sizeof(T));
  using S = std::make_signed_t<T>;
  constexpr u32 bits = 8 * sizeof(T);
  cases.push_back(
      op_case<u32, T>("popc" + b, [](T a) { return static_cast<u32>(std::popcount(a)); }));
  cases.push_back(
      op_case<u32, T>("clz" + b, [](T a) { return static_cast<u32>(std::countl_zero(a)); }));
  const auto high = [](T a) {
    return a == 0 ? 0xffffffffu : static_cast<u32>(std::bit_width(a)) - 1;
  };
  cases.push_back(op_case<u32, T>("bfind" + u, high));
  cases.push_back(
      op_case<u32, S>("bfind" + s, [high](S a) { return high(static_cast<T>(a < 0 ? ~a : a)); }));
  cases.push_back(op_case<u32, T>(
      "bfind.shiftamt" + u, [high](T a) { return a == 0 ? 0xffffffffu : bits - 1 - high(a); }));
  cases.push_back(op_case<T, T>("brev" + b, [](T a) {
    T result = 0;
    for (u32 i = 0; i < bits; ++i)
      if ((a >> i & 1) != 0) result |= T{1} << (bits - 1 - i);
    return result;
  }));
  // As PTX words it, bit for bit.
  const auto extract = [](T a, u32 at, u32 count, bool is_signed) {
    const u32 pos = at & 0xff, len = count & 0xff;
    const u32 last = pos + len - 1 < bits - 1 ? pos + len - 1 : bits - 1;
    const T sign = !is_signed || len == 0 ? T{0} : (a >> last & 1);
    T d = 0;
    for (u32 i = 0; i < bits; ++i) {
      const T bit = i < len && pos + i < bits ? (a >> (pos + i) & 1) : sign;
      d |= bit << i;
    }
    return d;
  };
  cases.push_back(op_case<T, T, u32, u32>(
      "bfe" + u, [extract](T a, u32 p, u32 c) { return extract(a, p, c, false); }));
  cases.push_back(op_case<T, T, u32, u32>(
      "bfe" + s, [extract](T a, u32 p, u32 c) { return extract(a, p, c, true); }));
  cases.push_back(op_case<T, T, T, u32, u32>("bfi" + b, [](T a, T into, u32 p, u32 c) {
    const u32 pos = p & 0xff, len = c & 0xff;
    for (u32 i = 0; i < len && pos + i < bits; ++i)
      into = (into & ~(T{1} << (pos + i))) | (a >> i & 1) << (pos + i);
    return into;
  }));
}

template <class N, class W>
void add_widening(std::vector<OpCase>& cases) {
  const std::string t = "." + type_word<N>();
  cases.push_back(op_case<W, N, N>(
      "mul.wide" + t, [](N a, N b) { return static_cast<W>(static_cast<wide>(a) * b); }));
  cases.push_back(op_case<W, N, N, W>(
      "mad.wide" + t, [](N a, N b, W c) { return static_cast<W>(static_cast<wide>(a) * b + c); }));
}

TEST(IntegerOps, ArithmeticOfAllTypes) {
  std::vector<OpCase> cases;
  add_plain<u16>(cases);
  add_plain<s16>(cases);
  add_plain<u32>(cases);
  add_plain<s32>(cases);
  add_plain<u64>(cases);
  add_plain<s64>(cases);
  add_widening<u16, u32>(cases);
  add_widening<s16, s32>(cases);
  add_widening<u32, u64>(cases);
  add_widening<s32, s64>(cases);
  cases.push_back(op_case<s32, s32, s32>(
      "add.sat.s32", [](s32 a, s32 b) { return static_cast<s32>(clamp_to<s32>(wide{a} + b)); }));
  cases.push_back(op_case<s32, s32, s32>(
      "sub.sat.s32", [](s32 a, s32 b) { return static_cast<s32>(clamp_to<s32>(wide{a} - b)); }));
  cases.push_back(op_case<s32, s32, s32, s32>("mad.hi.sat.s32", [](s32 a, s32 b, s32 c) {
    return static_cast<s32>(clamp_to<s32>(((wide{a} * b) >> 32) + c));
  }));
  check_cases(cases);
}

TEST(IntegerOps, BitsOfAllTypes) {
  std::vector<OpCase> cases;
  add_bits<u16>(cases);
  add_bits<u32>(cases);
  add_bits<u64>(cases);
  add_wide_bits<u32>(cases);
  add_wide_bits<u64>(cases);
  check_cases(cases);
}

s64 low24(s32 a) { return static_cast<s32>(static_cast<u32>(a) << 8) >> 8; }

TEST(IntegerOps, PartsAndMixes) {
  std::vector<OpCase> cases;
  cases.push_back(op_case<s32, s32, s32>(
      "mul24.lo.s32", [](s32 a, s32 b) { return static_cast<s32>(low24(a) * low24(b)); }));
  cases.push_back(op_case<u32, u32, u32>("mul24.hi.u32", [](u32 a, u32 b) {
    return static_cast<u32>((u64{a & 0xffffff} * (b & 0xffffff)) >> 16);
  }));
  cases.push_back(op_case<s32, s32, s32, s32>("mad24.lo.s32", [](s32 a, s32 b, s32 c) {
    return static_cast<s32>(low24(a) * low24(b) + c);
  }));
  const auto funnel = [](bool left, bool wraps) {
    return [=](u32 a, u32 b, u32 c) {
      const u32 n = wraps ? c % 32 : std::min(c, 32u);
      const u64 both = u64{b} << 32 | a;
      return static_cast<u32>(left ? both << n >> 32 : both >> n);
    };
  };
  cases.push_back(op_case<u32, u32, u32, u32>("shf.l.wrap.b32", funnel(true, true)));
  cases.push_back(op_case<u32, u32, u32, u32>("shf.l.clamp.b32", funnel(true, false)));
  cases.push_back(op_case<u32, u32, u32, u32>("shf.r.wrap.b32", funnel(false, true)));
  cases.push_back(op_case<u32, u32, u32, u32>("shf.r.clamp.b32", funnel(false, false)));
  for (const u32 table : {0x80u, 0xfeu, 0x96u, 0xcau, 0x1bu, 0u, 0xffu}) {
    OpCase lop = op_case<u32, u32, u32, u32>("lop3.b32", [table](u32 a, u32 b, u32 c) {
      u32 d = 0;
      for (u32 i = 0; i < 32; ++i) {
        const u32 row = (a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1);
        d |= (table >> row & 1) << i;
      }
      return d;
    });
    lop.last = ", " + std::to_string(table);
    cases.push_back(lop);
  }
  cases.push_back(op_case<u32, u32, u32, u32>("prmt.b32", [](u32 a, u32 b, u32 c) {
    u32 d = 0;
    for (u32 i = 0; i < 4; ++i) {
      const u32 pick = c >> (4 * i) & 15;
      const u32 byte = static_cast<u32>((u64{b} << 32 | a) >> (8 * (pick & 7))) & 0xff;
      d |= (pick < 8 ? byte : (byte >> 7) * 0xff) << (8 * i);
    }
    return d;
  }));
  cases.push_back(op_case<s32, u32, u32, s32>("dp4a.s32.s32", [](u32 a, u32 b, s32 c) {
    wide sum = c;
    for (u32 i = 0; i < 32; i += 8)
      sum += static_cast<std::int8_t>(a >> i) * static_cast<std::int8_t>(b >> i);
    return static_cast<s32>(sum);
  }));
  cases.push_back(op_case<u32, u32, u32, u32>("dp4a.u32.u32", [](u32 a, u32 b, u32 c) {
    for (u32 i = 0; i < 32; i += 8) c += u32{static_cast<u8>(a >> i)} * static_cast<u8>(b >> i);
    return c;
  }));
  cases.push_back(op_case<u32, u32, u32, s32>("fns.b32", [](u32 mask, u32 base, s32 n) {
    if (base > 31) return 0xffffffffu;
    s64 left = n;
    if (n == 0) return (mask >> base & 1) != 0 ? base : 0xffffffffu;
    for (s64 at = base; at >= 0 && at<32; at += n> 0 ? 1 : -1)
      if ((mask >> at & 1) != 0 && (left += n > 0 ? -1 : 1) == 0) return static_cast<u32>(at);
    return 0xffffffffu;
  }));
  check_cases(cases);
}

// 128-bit sums and products by carries.
TEST(IntegerOps, CarriesGoFromOneInstructionToTheNext) {
  std::vector<OpCase> cases;
  const auto low = [](wide v) { return static_cast<u32>(v); };
  const auto two = [&](const std::string& first, const std::string& second, auto f) {
    OpCase made = op_case<u32, u32, u32, u32, u32>("", f);
    made.instruction =
        first + " %r10, %r20, %r22;\n" + second + " %r11, %r21, %r23;\nadd.u32 %r29, %r11, 0; //";
    cases.push_back(made);
  };
  two("add.cc.u32", "addc.u32", [=](u32 a, u32 b, u32 c, u32 d) {
    return low(((u64{b} << 32 | a) + (u64{d} << 32 | c)) >> 32);
  });
  two("sub.cc.u32", "subc.u32", [=](u32 a, u32 b, u32 c, u32 d) {
    return low(((u64{b} << 32 | a) - (u64{d} << 32 | c)) >> 32);
  });
  OpCase mad = op_case<u32, u32, u32, u32, u32>("", [](u32 a, u32 b, u32 c, u32 d) {
    return static_cast<u32>((u64{a} * b + (u64{d} << 32 | c)) >> 32);
  });
  mad.instruction =
      "mad.lo.cc.u32 %r10, %r20, %r21, %r22;\nmadc.hi.u32 %r11, %r20, %r21, %r23;\nadd.u32 %r29, "
      "%r11, 0; //";
  cases.push_back(mad);
  check_cases(cases);
}

template <class T>
void add_comparisons(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& how, auto f) {
    OpCase made = op_case<u32, T, T>("", [f](T a, T b) { return f(a, b) ? 1u : 0u; });
    const std::string a = register_of(made.from[0], 0), b = register_of(made.from[1], 1);
    made.instruction = "setp." + how + "." + type_word<T>() + " %p2, " + a + ", " + b +
                       ";\nselp.u32 %r29, 1, 0, %p2; //";
    cases.push_back(made);
  };
  add("eq", [](T a, T b) { return a == b; });
  add("ne", [](T a, T b) { return a != b; });
  add("lt", [](T a, T b) { return a < b; });
  add("le", [](T a, T b) { return a <= b; });
  add("gt", [](T a, T b) { return a > b; });
  add("ge", [](T a, T b) { return a >= b; });
}

TEST(IntegerOps, ComparisonsOfAllTypes) {
  std::vector<OpCase> cases;
  add_comparisons<u16>(cases);
  add_comparisons<s16>(cases);
  add_comparisons<u32>(cases);
  add_comparisons<s32>(cases);
  add_comparisons<u64>(cases);
  add_comparisons<s64>(cases);
  OpCase both = op_case<u32, s32, s32>("", [](s32 a, s32 b) {
    const bool p = a < b && a != 5, q = !(a < b) && a != 5;
    return (p ? 1u : 0u) + (q ? 2u : 0u);
  });
  both.instruction =
      "setp.ne.s32 %p1, %r20, 5;\nsetp.lt.and.s32 %p2|%p3, %r20, %r21, %p1;\n"
      "selp.u32 %r10, 1, 0, %p2; selp.u32 %r11, 2, 0, %p3; add.u32 %r29, %r10, %r11; //";
  cases.push_back(both);
  OpCase negated =
      op_case<u32, s32, s32>("", [](s32 a, s32 b) { return (a < b) != !(a == 5) ? 1u : 0u; });
  negated.instruction =
      "setp.eq.s32 %p1, %r20, 5;\nsetp.lt.xor.s32 %p2, %r20, %r21, !%p1;\nselp.u32 %r29, 1, 0, "
      "%p2; //";
  cases.push_back(negated);
  OpCase set =
      op_case<u32, s32, s32>("set.gt.u32.s32", [](s32 a, s32 b) { return a > b ? ~0u : 0u; });
  cases.push_back(set);
  check_cases(cases);
}

}  // namespace
}  // namespace partita::ptx
