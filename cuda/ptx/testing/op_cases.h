// For tests: instructions with an oracle each, run over edge values. One kernel per case, all of
// them in one module.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "ptx/testing/machine_fixture.h"

namespace partita::ptx {

struct OpCase {
  std::string instruction = {};  // "add.s32"
  std::string to = {};           // types of the registers: "u32"
  std::vector<std::string> from = {};
  std::function<std::uint64_t(const std::uint64_t*)> oracle = {};
  bool is_float = false;  // NaN is any NaN where `exact` is false
  double tolerance = 0;   // relative, of f32
  std::string last = {};  // a further operand as text: ", 0x1234"
};

template <class T>
std::string type_word() {
  if constexpr (std::is_same_v<T, float>) return "f32";
  if constexpr (std::is_same_v<T, double>) return "f64";
  if constexpr (std::is_integral_v<T>)
    return (std::is_signed_v<T> ? "s" : "u") + std::to_string(8 * sizeof(T));
}
template <class T>
T value_of(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class T>
std::uint64_t bits_of_value(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

// A case of a function of plain C++ types: op_case<To, From...>(instruction, function).
template <class R, class... A, class F>
OpCase op_case(std::string instruction, F f) {
  OpCase made{
      .instruction = std::move(instruction), .to = type_word<R>(), .from = {type_word<A>()...}};
  made.is_float = std::is_floating_point_v<R>;
  made.oracle = [f](const std::uint64_t* in) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return bits_of_value<R>(f(value_of<A>(in[I])...));
    }
    (std::index_sequence_for<A...>{});
  };
  return made;
}

inline std::size_t bytes_of_word(const std::string& type) { return std::stoul(type.substr(1)) / 8; }

// What values of a type are tried.
inline std::vector<std::uint64_t> edge_values(const std::string& type) {
  if (type == "f32")
    return {0,           0x80000000u, 1,           0x80000001u, 0x007fffffu, 0x00800000u,
            0x3f800000u, 0xbf800000u, 0x3f000000u, 0x40490fdbu, 0x7f7fffffu, 0xff7fffffu,
            0x7f800000u, 0xff800000u, 0x7fc00001u, 0xffc12345u, 0x4f000000u, 0xcf000000u,
            0x4f800000u, 0x3fffffffu, 0x4b000001u, 0x5f000000u, 0xc2c80000u, 0x00000100u};
  if (type == "f64") {
    std::vector<std::uint64_t> values = {0,
                                         1,
                                         0x8000000000000000u,
                                         0x000fffffffffffffu,
                                         0x7fefffffffffffffu,
                                         0x7ff0000000000000u,
                                         0xfff0000000000000u,
                                         0x7ff8000000000001u};
    for (const double v : {1.0, -1.0, 0.5, 3.14159, 2147483648.0, -2147483649.0, 4294967296.0,
                           9.3e18, -9.3e18, 1e-40, 65504.0, 65520.0, 2.5, -1.5, 255.5, -129.0})
      values.push_back(std::bit_cast<std::uint64_t>(v));
    return values;
  }
  const std::uint64_t top = std::uint64_t{1} << (8 * bytes_of_word(type) - 1);
  return {0,
          1,
          2,
          3,
          5,
          7,
          15,
          16,
          24,
          31,
          32,
          33,
          63,
          64,
          65,
          100,
          127,
          128,
          255,
          256,
          0x7fff,
          0x8000,
          0xffff,
          0x12345678,
          top,
          top - 1,
          top + 1,
          ~std::uint64_t{0},
          ~std::uint64_t{1},
          0x5555555555555555u,
          0xff00ff00ff00ff00u,
          ~std::uint64_t{15}};
}

inline std::string register_of(const std::string& type, std::size_t i) {
  const std::size_t bytes = bytes_of_word(type);
  const std::string kind = bytes == 8 ? "%rd" : bytes == 4 ? "%r" : "%rs";
  return kind + std::to_string(20 + i);
}
inline std::string memory_word(const std::string& type) {
  return "b" + std::to_string(8 * bytes_of_word(type));
}

inline std::string kernel_of(const OpCase& c, std::size_t number) {
  std::string text = ".visible .entry k" + std::to_string(number) +
                     "(.param .u64 in, .param .u64 out, .param .u32 n) {\n"
                     ".reg .pred %p<4>; .reg .b16 %rs<30>; .reg .b32 %r<30>; .reg .b64 %rd<30>;\n"
                     "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u32 %r1, [n];\n"
                     "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
                     "mad.lo.u32 %r5, %r2, %r3, %r4; setp.ge.u32 %p1, %r5, %r1; @%p1 bra END;\n"
                     "mad.wide.u32 %rd3, %r5, 32, %rd1; mad.wide.u32 %rd4, %r5, 8, %rd2;\n";
  std::string operands;
  for (std::size_t i = 0; i < c.from.size(); ++i) {
    const std::string name = register_of(c.from[i], i);
    text += "ld.global." + memory_word(c.from[i]) + " " + name + ", [%rd3+" +
            std::to_string(8 * i) + "];\n";
    operands += ", " + name;
  }
  const std::string d = register_of(c.to, 9);
  text += c.instruction + " " + d + operands + c.last + ";\n";
  return text + "st.global." + memory_word(c.to) + " [%rd4], " + d + ";\nEND: ret;\n}\n";
}

// All combinations of edge values for up to two operands, else a random selection; random bits too.
inline std::vector<std::uint64_t> inputs_of(const OpCase& c, Rng& rng) {
  std::vector<std::vector<std::uint64_t>> edges;
  for (const std::string& type : c.from) edges.push_back(edge_values(type));
  std::vector<std::uint64_t> in;
  const auto add = [&](std::uint64_t a, std::uint64_t b, std::uint64_t d, std::uint64_t e) {
    in.insert(in.end(), {a, b, d, e});
  };
  const auto bits = [&] {
    return rng.below(std::uint64_t{1} << 32) << 32 | rng.below(std::uint64_t{1} << 32);
  };
  if (c.from.size() == 1)
    for (const std::uint64_t a : edges[0]) add(a, 0, 0, 0);
  if (c.from.size() == 2)
    for (const std::uint64_t a : edges[0])
      for (const std::uint64_t b : edges[1]) add(a, b, 0, 0);
  for (std::size_t i = 0; i < (c.from.size() > 2 ? 1500u : 200u); ++i) {
    std::uint64_t v[4] = {0, 0, 0, 0};
    for (std::size_t k = 0; k < c.from.size(); ++k)
      v[k] = rng.below(4) == 0 ? bits() : edges[k][rng.below(edges[k].size())];
    add(v[0], v[1], v[2], v[3]);
  }
  return in;
}

template <class T>
bool same_float(std::uint64_t got, std::uint64_t want, double tolerance) {
  const T a = value_of<T>(got), b = value_of<T>(want);
  if (a != a || b != b) return (a != a) == (b != b);
  if (got == want) return true;
  return tolerance > 0 && std::abs(a - b) <= tolerance * std::abs(b);
}

inline void check_cases(const std::vector<OpCase>& cases) {
  std::string text;
  for (std::size_t i = 0; i < cases.size(); ++i) text += kernel_of(cases[i], i);
  Device device(text);
  Rng rng(7);
  const std::size_t most = 4096;
  const std::uint64_t in_at = device.allocate(most * 32), out_at = device.allocate(most * 8);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const OpCase& c = cases[i];
    const std::vector<std::uint64_t> in = inputs_of(c, rng);
    const std::size_t n = in.size() / 4;
    ASSERT_LE(n, most);
    device.write(in_at, in);
    const auto run =
        device.run("k" + std::to_string(i), {static_cast<std::uint32_t>(n / 96 + 1)}, {96},
                   Parameters().add(in_at).add(out_at).add(static_cast<std::uint32_t>(n)));
    ASSERT_TRUE(run);
    EXPECT_TRUE(run->faults().empty()) << c.instruction;
    const auto out = device.download<std::uint64_t>(out_at, n);
    const std::size_t bytes = bytes_of_word(c.to);
    const std::uint64_t low =
        bytes == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * bytes)) - 1;
    for (std::size_t k = 0; k < n; ++k) {
      const std::uint64_t got = out[k] & low, want = c.oracle(&in[4 * k]) & low;
      const bool same = !c.is_float  ? got == want
                        : bytes == 4 ? same_float<float>(got, want, c.tolerance)
                                     : same_float<double>(got, want, c.tolerance);
      ASSERT_TRUE(same) << c.instruction << " of " << std::hex << in[4 * k] << ", " << in[4 * k + 1]
                        << ", " << in[4 * k + 2] << ", " << in[4 * k + 3] << ": got " << got
                        << ", expected " << want;
    }
  }
}

}  // namespace partita::ptx
