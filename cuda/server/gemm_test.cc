#include "server/gemm.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/rng.h"

namespace partita::remote::server {
namespace {

std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

double read(const std::byte* at, std::uint32_t type) {
  switch (type) {
    case kFloat32: {
      float value = 0;
      std::memcpy(&value, at, 4);
      return value;
    }
    case kFloat64: {
      double value = 0;
      std::memcpy(&value, at, 8);
      return value;
    }
    case kFloat16: {
      _Float16 value = 0;
      std::memcpy(&value, at, 2);
      return static_cast<double>(value);
    }
    default: {
      std::uint16_t half = 0;
      std::memcpy(&half, at, 2);
      return std::bit_cast<float>(std::uint32_t{half} << 16);
    }
  }
}

std::uint64_t size_of(std::uint32_t type) {
  return type == kFloat64 ? 8 : type == kFloat32 ? 4 : 2;
}

// Small whole numbers are exact in all types.
void write(std::byte* at, std::uint32_t type, int value) {
  if (type == kFloat64) {
    const double wide = value;
    std::memcpy(at, &wide, 8);
  } else if (type == kFloat32) {
    const auto single = static_cast<float>(value);
    std::memcpy(at, &single, 4);
  } else if (type == kFloat16) {
    const auto half = static_cast<_Float16>(value);
    std::memcpy(at, &half, 2);
  } else {
    const auto upper =
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
    std::memcpy(at, &upper, 2);
  }
}

// One memory in which everything lies, A at 0.
struct Problem {
  Gemm op;
  std::vector<std::byte> memory;
  std::vector<std::byte*> places() {
    std::vector<std::byte*> all;
    for (const Operand& operand : operands(op)) all.push_back(memory.data() + operand.at);
    return all;
  }
};

Problem drawn(Rng& rng) {
  constexpr std::pair<std::uint32_t, std::uint32_t> kTypes[] = {
      {kFloat32, kFloat32}, {kFloat64, kFloat64},   {kFloat16, kFloat16},
      {kFloat16, kFloat32}, {kBfloat16, kBfloat16}, {kBfloat16, kFloat32}};
  const auto [in, out] = kTypes[rng.below(6)];
  Gemm op{.form = static_cast<std::uint32_t>(rng.below(4)),
          .in = in,
          .out = out,
          .m = rng.below(9),
          .n = rng.below(9),
          .k = rng.below(9),
          .batch = rng.below(4)};
  const bool turned_a = (op.form & kTransposedA) != 0, turned_b = (op.form & kTransposedB) != 0;
  const auto step = [&](std::uint64_t rows) {
    return std::max<std::uint64_t>(rows, 1) + rng.below(3);
  };
  op.a_step = step(turned_a ? op.k : op.m);
  op.b_step = step(turned_b ? op.n : op.k);
  op.c_step = step(op.m);
  op.a_stride = rng.below(100);
  op.b_stride = rng.below(100);
  op.c_stride = op.n * op.c_step + rng.below(5);
  op.alpha = bits(static_cast<double>(rng.below(5)) - 2);
  op.beta = bits(static_cast<double>(rng.below(3)) - 1);
  Problem problem{op, std::vector<std::byte>(40'000)};
  problem.op.b.value = 8'000;
  problem.op.c.value = 16'000;
  for (std::uint64_t at = 0; at + 8 <= 16'000; at += size_of(in))
    write(&problem.memory[at], in, static_cast<int>(rng.below(7)) - 3);
  for (std::uint64_t at = 16'000; at + 8 <= 32'000; at += size_of(out))
    write(&problem.memory[at], out, static_cast<int>(rng.below(7)) - 3);
  if (rng.below(3) == 0) {  // factors in memory
    const std::uint32_t type = out == kFloat64 ? kFloat64 : kFloat32;
    write(&problem.memory[32'000], type, static_cast<int>(std::bit_cast<double>(op.alpha)));
    write(&problem.memory[32'008], type, static_cast<int>(std::bit_cast<double>(op.beta)));
    problem.op.alpha_at.value = 32'000;
    problem.op.beta_at.value = 32'008;
    problem.op.alpha = problem.op.beta = bits(77);
  }
  return problem;
}

double factor(const Problem& p, std::uint64_t bits, DevicePointer at) {
  if (at.value == 0) return std::bit_cast<double>(bits);
  return read(&p.memory[at.value], p.op.out == kFloat64 ? kFloat64 : kFloat32);
}

// What stands in the definition, element by element.
std::vector<std::byte> by_definition(const Problem& p) {
  const Gemm& op = p.op;
  std::vector<std::byte> memory = p.memory;
  const double alpha = factor(p, op.alpha, op.alpha_at), beta = factor(p, op.beta, op.beta_at);
  for (std::uint64_t which = 0; which < op.batch; ++which)
    for (std::uint64_t row = 0; row < op.m; ++row)
      for (std::uint64_t column = 0; column < op.n; ++column) {
        double sum = 0;
        for (std::uint64_t i = 0; i < op.k; ++i) {
          const std::uint64_t a =
              (op.form & kTransposedA) != 0 ? row * op.a_step + i : i * op.a_step + row;
          const std::uint64_t b =
              (op.form & kTransposedB) != 0 ? i * op.b_step + column : column * op.b_step + i;
          sum += read(&p.memory[op.a.value + (which * op.a_stride + a) * size_of(op.in)], op.in) *
                 read(&p.memory[op.b.value + (which * op.b_stride + b) * size_of(op.in)], op.in);
        }
        std::byte* const c = &memory[op.c.value + (which * op.c_stride + column * op.c_step + row) *
                                                      size_of(op.out)];
        const double before = beta == 0 ? 0 : read(c, op.out);
        write(c, op.out, static_cast<int>(alpha * sum + beta * before));
      }
  return memory;
}

TEST(Products, AreWhatTheDefinitionSaysHoweverTheyAreDivided) {
  Rng rng(1);
  for (int round = 0; round < 3000; ++round) {
    Problem problem = drawn(rng);
    ASSERT_EQ(wrong_in(problem.op), nullptr);
    const std::vector<std::byte> wanted = by_definition(problem);
    const auto parts = static_cast<std::int64_t>(1 + rng.below(6));
    const auto places = problem.places();
    for (std::int64_t part = 0; part < parts; ++part)
      multiply(
          problem.op, places, part, parts, [] { return false; }, round % 2 == 0);
    // By value: -0 is 0.
    for (std::uint64_t at = problem.op.c.value; at < 32'000; at += size_of(problem.op.out))
      ASSERT_EQ(read(&problem.memory[at], problem.op.out), read(&wanted[at], problem.op.out))
          << "round " << round << ", byte " << at;
    ASSERT_TRUE(std::equal(wanted.begin(), wanted.begin() + 16'000, problem.memory.begin()));
  }
}

// The bytes that are really touched: each one within an operand, its last one among them.
TEST(Products, OperandsAreTheBytesThatAreTouched) {
  Rng rng(2);
  for (int round = 0; round < 500; ++round) {
    const Gemm op = drawn(rng).op;
    const auto all = operands(op);
    if (op.m == 0 || op.n == 0 || op.batch == 0) {
      EXPECT_TRUE(all.empty());
      continue;
    }
    const std::uint64_t last = (op.batch - 1) * op.c_stride + (op.n - 1) * op.c_step + op.m - 1;
    EXPECT_EQ(all[0], (Operand{op.c.value, (last + 1) * size_of(op.out)}));
    if (op.k == 0) continue;
    const bool turned = (op.form & kTransposedA) != 0;
    const std::uint64_t rows = turned ? op.k : op.m, columns = turned ? op.m : op.k;
    const std::uint64_t end = (op.batch - 1) * op.a_stride + (columns - 1) * op.a_step + rows;
    EXPECT_EQ(all[1], (Operand{op.a.value, end * size_of(op.in)}));
    EXPECT_EQ(all.size(), op.alpha_at.value != 0 ? 5u : 3u);
  }
}

TEST(Products, WhatCannotBeIsRefused) {
  const Gemm fine{
      .m = 4, .n = 4, .k = 4, .batch = 2, .a_step = 4, .b_step = 4, .c_step = 4, .c_stride = 16};
  EXPECT_EQ(wrong_in(fine), nullptr);
  const auto with = [&](auto change) {
    Gemm op = fine;
    change(op);
    return wrong_in(op);
  };
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;
  EXPECT_NE(with([](Gemm& op) { op.in = 3; }), nullptr);
  EXPECT_NE(with([](Gemm& op) { op.out = kFloat64; }), nullptr);
  EXPECT_NE(with([](Gemm& op) { op.in = kFloat64; }), nullptr);
  EXPECT_NE(with([](Gemm& op) { op.form = 8; }), nullptr);
  EXPECT_NE(with([](Gemm& op) { op.a_step = 3; }), nullptr);
  EXPECT_NE(with([](Gemm& op) { op.b_step = 3; }), nullptr);
  EXPECT_NE(with([](Gemm& op) { op.c_step = 3; }), nullptr);
  EXPECT_NE(with([](Gemm& op) { op.c_stride = 15; }), nullptr);
  EXPECT_NE(with([](Gemm& op) { op.a.value = 2; }), nullptr);
  EXPECT_NE(with([](Gemm& op) { op.alpha_at.value = 2; }), nullptr);
  EXPECT_NE(with([](Gemm& op) { op.m = op.a_step = op.c_step = std::uint64_t{1} << 31; }), nullptr);
  EXPECT_NE(with([](Gemm& op) { op.batch = std::uint64_t{1} << 31, op.c_stride = 16; }), nullptr);
  EXPECT_NE(with([](Gemm& op) { op.a_stride = kHuge; }), nullptr);
  EXPECT_NE(with([](Gemm& op) { op.b_stride = kHuge, op.batch = 5; }), nullptr);
  EXPECT_NE(with([](Gemm& op) { op.c_stride = kHuge / 2; }), nullptr);
  EXPECT_EQ(with([](Gemm& op) { op.a_stride = kHuge / 4; }), nullptr);
}

// Longer than a block in every direction; by the library and by loops.
TEST(Products, HalvesOfManyBlocksAreSummedWhole) {
  struct Sizes {
    std::uint64_t m, n, k;
  };
  for (const auto& [m, n, k] : {Sizes{520, 3, 1030}, {3, 520, 5}}) {
    for (const bool plainly : {false, true}) {
      Gemm op{.form = kTransposedA, .in = kFloat16, .out = kFloat32, .m = m, .n = n, .k = k};
      op.a_step = k, op.b.value = m * k * 2, op.b_step = k;
      op.c.value = op.b.value + n * k * 2, op.c_step = m, op.alpha = bits(1), op.beta = bits(2);
      Problem problem{op, std::vector<std::byte>(op.c.value + 2 * m * n * 4)};  // and more behind
      Rng rng(9);
      for (std::uint64_t at = 0; at < op.c.value; at += 2)
        write(&problem.memory[at], kFloat16, static_cast<int>(rng.below(3)) - 1);
      for (std::uint64_t at = op.c.value; at < problem.memory.size(); at += 4)
        write(&problem.memory[at], kFloat32, static_cast<int>(rng.below(9)));
      const std::vector<std::byte> wanted = by_definition(problem);
      multiply(
          op, problem.places(), 0, 1, [] { return false; }, plainly);
      EXPECT_TRUE(problem.memory == wanted) << plainly;
    }
  }
}

// A part for two million multiplications each, as long as there are cores and columns for them.
TEST(Products, AreDividedWhereThatIsWorthIt) {
  constexpr std::uint64_t kMany = 1'000'000;
  const auto parts = [](std::uint64_t m, std::uint64_t n, std::uint64_t k, std::uint64_t batch) {
    return parts_of(Gemm{.m = m, .n = n, .k = k, .batch = batch}, 8);
  };
  EXPECT_EQ(parts(kMany, 2, 2, 2), 4);
  EXPECT_EQ(parts(2, 2, kMany, 2), 4);
  EXPECT_EQ(parts(kMany, 1, 4, 1), 1) << "one column";
  EXPECT_EQ(parts(kMany, 1, 4, 3), 3) << "three products";
  EXPECT_EQ(parts(kMany, 64, 4, 1), 8) << "all cores";
  EXPECT_EQ(parts(2, 2, 2, 2), 1);
}

// Lists of pointers behind the matrices, which lead to where those of a strided batch lie.
struct ByPointers {
  explicit ByPointers(Problem of) : problem(std::move(of)) {
    Gemm& op = problem.op;
    const auto list = [&](DevicePointer& matrix, std::uint64_t stride, std::uint64_t at) {
      for (std::uint64_t i = 0; i < op.batch; ++i) {
        const std::uint64_t one = matrix.value + i * stride;
        std::memcpy(&problem.memory[at + i * 8], &one, 8);
      }
      matrix.value = at;
    };
    list(op.a, op.a_stride * size_of(op.in), 34'000);
    list(op.b, op.b_stride * size_of(op.in), 35'000);
    list(op.c, op.c_stride * size_of(op.out), 36'000);
    op.form |= kByPointers;
  }
  const char* multiply(
      std::int64_t parts, const std::function<bool()>& stop = [] { return false; }) {
    const auto places = problem.places();
    const char* wrong = nullptr;
    for (std::int64_t part = 0; part < parts && wrong == nullptr; ++part)
      wrong = multiply_each(problem.op, places, part, parts, stop,
                            [this](const Operand& operand, bool) -> std::byte* {
                              const bool inside = operand.at < 34'000 && operand.bytes < 34'000;
                              return inside ? problem.memory.data() + operand.at : nullptr;
                            });
    return wrong;
  }
  Problem problem;
};

TEST(Products, ByPointersAreThoseOfABatch) {
  Rng rng(5);
  for (int round = 0; round < 2000; ++round) {
    const Problem strided = drawn(rng);
    ByPointers tried(strided);
    ASSERT_EQ(wrong_in(tried.problem.op), nullptr);
    for (const Operand& operand : operands(tried.problem.op))
      ASSERT_LE(operand.bytes, std::max<std::uint64_t>(8 * strided.op.batch, 8));
    ASSERT_EQ(tried.multiply(static_cast<std::int64_t>(1 + rng.below(4))), nullptr);
    const std::vector<std::byte> wanted = by_definition(strided);
    for (std::uint64_t at = 16'000; at < 32'000; at += size_of(strided.op.out))
      ASSERT_EQ(read(&tried.problem.memory[at], strided.op.out), read(&wanted[at], strided.op.out))
          << "round " << round << ", byte " << at;
  }
}

TEST(Products, APointerToNowhereIsSaid) {
  Rng rng(6);
  Problem problem = drawn(rng);
  problem.op.m = problem.op.n = problem.op.k = 2;
  problem.op.batch = 3;
  problem.op.c_stride = 4 * problem.op.c_step;
  for (const std::uint64_t bad : {std::uint64_t{1} << 60, ~std::uint64_t{0}, std::uint64_t{8'001}})
    for (const std::size_t list : {34'000, 35'000, 36'000}) {
      ByPointers tried(problem);
      std::memcpy(&tried.problem.memory[list + 8], &bad, 8);
      EXPECT_NE(tried.multiply(1), nullptr);
    }
  EXPECT_EQ(ByPointers(problem).multiply(1, [] { return true; }), nullptr);
}

TEST(Products, StopWhenTheyAreToldTo) {
  Rng rng(3);
  Problem problem = drawn(rng);
  problem.op.m = problem.op.n = problem.op.k = problem.op.batch = 2;
  const std::vector<std::byte> before = problem.memory;
  multiply(problem.op, problem.places(), 0, 1, [] { return true; });
  EXPECT_EQ(problem.memory, before);
}

// Rounded to the nearest, to even where two are as near; no number stays none.
TEST(Products, HalvesAreRoundedOnce) {
  Gemm op{.in = kBfloat16, .out = kBfloat16, .m = 1, .n = 1, .k = 1, .c = {4}, .alpha = bits(1)};
  op.b.value = 2;
  const auto product = [&](float a, float b) {
    std::vector<std::byte> memory(8);
    const auto put = [&](std::size_t at, float value) {
      const auto upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
      std::memcpy(&memory[at], &upper, 2);
    };
    put(0, a), put(2, b);
    std::vector<std::byte*> places = {&memory[4], &memory[0], &memory[2]};
    multiply(op, places, 0, 1, [] { return false; });
    return read(&memory[4], kBfloat16);
  };
  EXPECT_EQ(product(1.0078125F, 1.0078125F), 1.015625);  // 1.01568...
  EXPECT_EQ(product(1.0078125F, 1.5F), 1.515625);        // 1.51171875 lies between; to even
  EXPECT_TRUE(std::isnan(product(std::nanf(""), 1)));
  EXPECT_EQ(product(HUGE_VALF, 1), HUGE_VALF);
}

}  // namespace
}  // namespace partita::remote::server
