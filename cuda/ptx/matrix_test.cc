// Products of matrices in registers against plain loops. Where elements lie is written here as the
// PTX ISA words it for mma.
#include "ptx/matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <random>

#include "ptx/program.h"
#include "ptx/testing/machine_fixture.h"

namespace partita::ptx {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Words = std::vector<std::uint32_t>;

using Lies = std::function<Position(std::uint32_t group, std::uint32_t thread, std::uint32_t i)>;
struct NumberType {
  std::string name;
  std::uint32_t bytes;
  std::function<std::uint64_t(double)> bits;
  std::function<double(std::uint64_t)> value;
};
const NumberType kF16{
    "f16", 2, [](double x) { return std::bit_cast<std::uint16_t>(static_cast<_Float16>(x)); },
    [](std::uint64_t bits) {
      return static_cast<double>(std::bit_cast<_Float16>(static_cast<std::uint16_t>(bits)));
    }};
const NumberType kBf16{
    "bf16", 2, [](double x) { return std::bit_cast<std::uint32_t>(static_cast<float>(x)) >> 16; },
    nullptr};
const NumberType kF32{
    "f32", 4, [](double x) { return std::bit_cast<std::uint32_t>(static_cast<float>(x)); },
    [](std::uint64_t bits) {
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    }};
const NumberType kTf32{"tf32", 4, kF32.bits, nullptr};
const NumberType kF64{"f64", 8, [](double x) { return std::bit_cast<std::uint64_t>(x); },
                      [](std::uint64_t bits) { return std::bit_cast<double>(bits); }};
const NumberType kS8{
    "s8", 1, [](double x) { return static_cast<std::uint8_t>(static_cast<int>(x)); }, nullptr};
const NumberType kU8{
    "u8", 1, [](double x) { return static_cast<std::uint8_t>(static_cast<int>(x)); }, nullptr};
const NumberType kS32{
    "s32", 4, [](double x) { return static_cast<std::uint32_t>(static_cast<int>(x)); },
    [](std::uint64_t bits) { return static_cast<double>(static_cast<std::int32_t>(bits)); }};

struct Product {
  std::uint32_t m, n, k;
  const NumberType &a, &b, &c;
  std::uint32_t of_a, of_b, of_c;  // elements of a lane
  Lies a_lies, b_lies;
  std::string tail = "";
  double least = -4;
};

Position c_lies(std::uint32_t group, std::uint32_t thread, std::uint32_t i) {
  return {i < 2 ? group : group + 8, thread * 2 + (i & 1)};
}

std::vector<Product> products() {
  const Lies f16_a = [](auto g, auto t, auto i) {
    return Position{i < 2 || (4 <= i && i < 6) ? g : g + 8, t * 2 + (i & 1) + (i < 4 ? 0 : 8)};
  };
  const Lies f16_b = [](auto g, auto t, auto i) {
    return Position{t * 2 + (i & 1) + (i < 2 ? 0 : 8), g};
  };
  const Lies tf32_a = [](auto g, auto t, auto i) {
    return Position{i == 0 || i == 2 ? g : g + 8, i < 2 ? t : t + 4};
  };
  const Lies tf32_b = [](auto g, auto t, auto i) { return Position{i == 0 ? t : t + 4, g}; };
  const Lies s8_a = [](auto g, auto t, auto i) {
    return Position{i < 4 || (8 <= i && i < 12) ? g : g + 8, t * 4 + (i & 3) + (i < 8 ? 0 : 16)};
  };
  const Lies s8_b = [](auto g, auto t, auto i) {
    return Position{t * 4 + (i & 3) + (i < 4 ? 0 : 16), g};
  };
  const Lies f64_a = [](auto g, auto t, auto) { return Position{g, t}; };
  const Lies f64_b = [](auto g, auto t, auto) { return Position{t, g}; };
  return {{16, 8, 16, kF16, kF16, kF32, 8, 4, 4, f16_a, f16_b},
          {16, 8, 16, kF16, kF16, kF16, 8, 4, 4, f16_a, f16_b},
          {16, 8, 8, kF16, kF16, kF32, 4, 2, 4, f16_a, f16_b},
          {16, 8, 16, kBf16, kBf16, kF32, 8, 4, 4, f16_a, f16_b},
          {16, 8, 8, kBf16, kBf16, kF32, 4, 2, 4, f16_a, f16_b},
          {16, 8, 8, kTf32, kTf32, kF32, 4, 2, 4, tf32_a, tf32_b},
          {16, 8, 4, kTf32, kTf32, kF32, 2, 1, 4, tf32_a, tf32_b},
          {16, 8, 32, kS8, kS8, kS32, 16, 8, 4, s8_a, s8_b},
          {16, 8, 32, kU8, kS8, kS32, 16, 8, 4, s8_a, s8_b, ".satfinite", 0},
          {16, 8, 16, kS8, kS8, kS32, 8, 4, 4, s8_a, s8_b},
          {8, 8, 16, kS8, kS8, kS32, 4, 4, 2, s8_a, s8_b},
          {8, 8, 4, kF64, kF64, kF64, 1, 1, 2, f64_a, f64_b}};
}

// RegisterList of a lane, one behind the other, as bytes.
using LaneBytes = std::vector<std::vector<std::byte>>;
LaneBytes packed(const std::vector<double>& matrix, std::uint32_t columns, const NumberType& type,
                 std::uint32_t count, const Lies& lies) {
  LaneBytes lanes(kLanes);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane)
    for (std::uint32_t i = 0; i < count; ++i) {
      const Position at = lies(lane >> 2, lane % 4, i);
      const std::uint64_t bits = type.bits(matrix[at.row * columns + at.column]);
      const auto* bytes = reinterpret_cast<const std::byte*>(&bits);
      lanes[lane].insert(lanes[lane].end(), bytes, bytes + type.bytes);
    }
  return lanes;
}

// A list of registers %PREFIX1 .. of `bytes` bytes in all, and loads of them from [%rd1 + at].
struct RegisterList {
  std::string list, loads, stores;
};
RegisterList register_list(const std::string& prefix, std::size_t bytes, bool is_wide,
                           std::size_t at) {
  RegisterList all{"{", "", ""};
  const std::size_t each = is_wide ? 8 : 4;
  const std::string type = is_wide ? "f64" : "b32";
  for (std::size_t i = 0; i < bytes / each; ++i) {
    const std::string name = "%" + prefix + std::to_string(i);
    all.list += (i > 0 ? ", " : "") + name;
    const std::string place = std::to_string(at + i * each);
    all.loads += "ld.global." + type + " " + name + ", [%rd1+" + place + "];\n";
    all.stores += "st.global." + type + " [%rd2+" + place + "], " + name + ";\n";
  }
  all.list += "}";
  return all;
}

TEST(Matrix, ProductsOfEveryShapeAndType) {
  std::mt19937 random(3);
  for (const Product& p : products()) {
    const auto numbers = [&](std::uint32_t count, double least) {
      std::vector<double> all(count);
      for (double& one : all) one = least + static_cast<double>(random() % 9);
      return all;
    };
    const auto a = numbers(p.m * p.k, p.least), b = numbers(p.k * p.n, -4),
               c = numbers(p.m * p.n, -4);
    const LaneBytes la = packed(a, p.k, p.a, p.of_a, p.a_lies),
                    lb = packed(b, p.n, p.b, p.of_b, p.b_lies),
                    lc = packed(c, p.n, p.c, p.of_c, c_lies);
    const std::size_t size_a = la[0].size(), size_b = lb[0].size(), size_c = lc[0].size();
    const std::size_t stride = size_a + size_b + size_c;
    std::vector<std::byte> in;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane)
      for (const LaneBytes* lanes : {&la, &lb, &lc})
        in.insert(in.end(), (*lanes)[lane].begin(), (*lanes)[lane].end());
    const bool is_wide = p.a.bytes == 8;
    const RegisterList ra = register_list("a", size_a, is_wide, 0),
                       rb = register_list("b", size_b, is_wide, size_a),
                       rc = register_list("c", size_c, is_wide, size_a + size_b),
                       rd = register_list("d", size_c, is_wide, 0);
    const std::string name = "mma.sync.aligned.m" + std::to_string(p.m) + "n" +
                             std::to_string(p.n) + "k" + std::to_string(p.k) + ".row.col" + p.tail +
                             "." + p.c.name + "." + p.a.name + "." + p.b.name + "." + p.c.name;
    const std::string kind = is_wide ? ".f64" : ".b32";
    Device device(
        ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg " + kind +
        " %a<9>, %b<9>, %c<9>, %d<9>; .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p<2>;\n"
        "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x;\n"
        "mul.wide.u32 %rd3, %r1, " +
        std::to_string(stride) + "; add.u64 %rd1, %rd1, %rd3;\nmul.wide.u32 %rd4, %r1, " +
        std::to_string(size_c) + "; add.u64 %rd2, %rd2, %rd4;\n" + ra.loads + rb.loads + rc.loads +
        // LaneBytes come from two branches.
        "setp.lt.u32 %p1, %r1, 7; @%p1 bra HERE; add.u32 %r2, %r1, 1;\nHERE:\n" + name + " " +
        rd.list + ", " + ra.list + ", " + rb.list + ", " + rc.list + ";\n" + rd.stores +
        "ret;\n}\n");
    const std::uint64_t from = device.upload(in),
                        out = device.upload(std::vector<std::byte>(kLanes * size_c));
    const auto run = device.run("k", {1}, {kLanes}, Parameters().add(from).add(out));
    ASSERT_THAT(run->faults(), IsEmpty()) << name;
    const auto got = device.download<std::byte>(out, kLanes * size_c);
    for (std::uint32_t lane = 0; lane < kLanes; ++lane)
      for (std::uint32_t i = 0; i < p.of_c; ++i) {
        const Position at = c_lies(lane >> 2, lane % 4, i);
        double sum = c[at.row * p.n + at.column];
        for (std::uint32_t k = 0; k < p.k; ++k) sum += a[at.row * p.k + k] * b[k * p.n + at.column];
        std::uint64_t bits = 0;
        std::memcpy(&bits, &got[lane * size_c + i * p.c.bytes], p.c.bytes);
        ASSERT_EQ(p.c.value(bits), sum) << name << " lane " << lane << " element " << i;
      }
  }
}

TEST(Matrix, SumsOfIntegersSaturateWhereTheyAreTo) {
  const auto of = [](const std::string& tail) {
    Device device(
        ".visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<9>; .reg .b64 %rd<4>;\n"
        "ld.param.u64 %rd1, [out]; mov.u32 %r1, 0x7f7f7f7f; mov.u32 %r2, 0x7ffffff0;\n"
        "mma.sync.aligned.m8n8k16.row.col" +
        tail +
        ".s32.s8.s8.s32 {%r3, %r4}, {%r1}, {%r1}, {%r2, %r2};\n"
        "st.global.u32 [%rd1], %r3;\nret;\n}\n");
    const std::uint64_t out = device.upload(Words(1));
    device.run("k", {1}, {kLanes}, Parameters().add(out));
    return device.download<std::uint32_t>(out, 1)[0];
  };
  EXPECT_EQ(of(".satfinite"), 0x7fffffffu);
  EXPECT_EQ(of(""), 0x7ffffff0u + 16 * 127 * 127);
}

// Through memory and back; rows and columns, shared and global memory, wider strides.
TEST(Matrix, LoadsAndStoresOfWmmaAgree) {
  for (const std::string load : {"row", "col"})
    for (const std::string store : {"row", "col"}) {
      constexpr std::uint32_t kStride = 24;
      Device device(
          ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b32 %r<9>; .reg .b64 "
          "%rd<4>; "
          ".reg .f32 %f<9>;\nld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];\n"
          "mov.u32 %r1, " +
          std::to_string(kStride) + ";\nwmma.load.c.sync.aligned." + load +
          ".m16n16k16.global.f32 {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, [%rd1+4], %r1;\n"
          "wmma.store.d.sync.aligned." +
          store + ".m16n16k16.f32 [%rd2], {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8};\nret;\n}\n");
      std::vector<float> in(kStride * 16 + 1);
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
      const std::uint64_t from = device.upload(in), out = device.upload(std::vector<float>(256));
      const auto run = device.run("k", {1}, {kLanes}, Parameters().add(from).add(out));
      EXPECT_THAT(run->faults(), IsEmpty());
      const auto got = device.download<float>(out, 256);
      for (std::uint32_t row = 0; row < 16; ++row)
        for (std::uint32_t column = 0; column < 16; ++column) {
          const float want =
              in[1 + (load == "row" ? row * kStride + column : column * kStride + row)];
          ASSERT_EQ(got[store == "row" ? row * 16 + column : column * 16 + row], want);
        }
      const auto beyond = device.run("k", {1}, {kLanes}, Parameters().add(from + 40).add(out));
      ASSERT_FALSE(beyond->faults().empty());
      EXPECT_THAT(to_text(beyond->faults().front()), HasSubstr("wmma.load.c"));
    }
}

TEST(Matrix, RowsOfHalvesAreLoadedAndTransposed) {
  for (const std::uint32_t count : {1u, 2u, 4u})
    for (const bool transposed : {false, true}) {
      std::string list, stores;
      for (std::uint32_t i = 0; i < count; ++i) {
        list += (i > 0 ? ", %r" : "%r") + std::to_string(4 + i);
        stores += "st.global.u32 [%rd4+" + std::to_string(128 * i) + "], %r" +
                  std::to_string(4 + i) + ";\n";
      }
      Device device(
          ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b32 %r<12>; "
          ".reg .b64 %rd<6>; .reg .b32 %x<5>;\n.shared .align 16 .b8 cells[512];\n"
          "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x;\n"
          "mul.wide.u32 %rd3, %r1, 16; add.u64 %rd1, %rd1, %rd3;\n"
          "ld.global.v4.u32 {%x1, %x2, %x3, %x4}, [%rd1];\n"
          "mov.u32 %r2, cells; shl.b32 %r3, %r1, 4; add.u32 %r2, %r2, %r3;\n"
          "st.shared.v4.u32 [%r2], {%x1, %x2, %x3, %x4}; bar.sync 0;\n"
          "mul.wide.u32 %rd3, %r1, 4; add.u64 %rd4, %rd2, %rd3;\n"
          "ldmatrix.sync.aligned.m8n8.x" +
          std::to_string(count) + (transposed ? ".trans" : "") + ".shared.b16 {" + list +
          "}, [%r2];\n" + stores + "ret;\n}\n");
      std::vector<std::uint16_t> in(256);
      for (std::uint16_t i = 0; i < 256; ++i) in[i] = static_cast<std::uint16_t>(3 * i + 1);
      const std::uint64_t from = device.upload(in), out = device.upload(Words(32 * count));
      const auto run = device.run("k", {1}, {kLanes}, Parameters().add(from).add(out));
      EXPECT_THAT(run->faults(), IsEmpty());
      const Words got = device.download<std::uint32_t>(out, std::size_t{32} * count);
      for (std::uint32_t i = 0; i < count; ++i)
        for (std::uint32_t lane = 0; lane < kLanes; ++lane)
          for (std::uint32_t e = 0; e < 2; ++e) {
            const std::uint32_t row = lane / 4, column = 2 * (lane % 4) + e;
            const std::uint32_t at = transposed ? column * 8 + row : row * 8 + column;
            ASSERT_EQ(got[32 * i + lane] >> 16 * e & 0xffff, in[64 * i + at])
                << count << transposed;
          }
    }
}

TEST(Matrix, WhatIsNotThereIsRefusedByName) {
  const auto refused = [](const std::string& line) {
    auto machine = *Machine::open(1 << 20);
    const auto module = machine->load(
        ".version 8.0\n.target sm_90\n.address_size 64\n.entry k() {\n.reg .b32 %r<20>; "
        ".reg .b64 %rd<3>; .reg .pred %p<2>; .reg .f32 %f<9>;\n" +
            line + "\nret; }",
        "t.ptx");
    EXPECT_FALSE(module) << line;
    return module ? std::string() : to_string(module.error());
  };
  EXPECT_THAT(refused("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%r1,%r2,%r3,%r4}, "
                      "{%r5,%r6,%r7,%r8}, {%r9,%r10}, {%r1,%r2,%r3,%r4};"),
              HasSubstr("t.ptx:6"));
  EXPECT_THAT(refused("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, "
                      "{%r5,%r6,%r7}, {%r9,%r10}, {%f1,%f2,%f3,%f4};"),
              HasSubstr("wrong number of registers"));
  EXPECT_THAT(refused("mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%f1,%f2,%f3,%f4}, "
                      "{%r5,%r6,%r7,%r8}, {%r9,%r10}, {%f1,%f2,%f3,%f4};"),
              HasSubstr("not supported"));
  EXPECT_THAT(refused("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1,%r2}, [%r3];"),
              HasSubstr("wrong number of registers"));
}

}  // namespace
}  // namespace partita::ptx
