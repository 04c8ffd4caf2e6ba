// Exchanges of a warp, atomics, calls, printf and grids that synchronise, against plain C++.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <functional>
#include <numeric>
#include <thread>

#include "ptx/memory.h"
#include "ptx/testing/machine_fixture.h"

namespace partita::ptx {
namespace {

using testing::IsEmpty;
using testing::SizeIs;
using Words = std::vector<std::uint32_t>;

// One thread per word: %r1 is its number, %r2 its word of `in`; %r9 goes to `out`.
std::string asking(const std::string& body, const std::string& before = "") {
  return before + R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
.reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .f32 %f<9>; .reg .f64 %fd<4>;
.local .align 8 .b8 stack[64];
ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
mov.u32 %r1, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r1, %r1, %r3, %r4;
mul.wide.u32 %rd3, %r1, 4; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
ld.global.u32 %r2, [%rd4];
mov.u32 %r9, 0;
)" + body +
         "\nst.global.u32 [%rd5], %r9;\nret;\n}\n";
}

struct Outcome {
  Words out;
  std::vector<Fault> faults;
  std::string printed;
};
Outcome outcome(const std::string& text, const Words& in, Extent grid = {1},
                bool cooperative = false) {
  Device device(text);
  const std::uint64_t at = device.upload(in), out = device.upload(Words(in.size()));
  Launch launch = device.launch("k", grid, {static_cast<std::uint32_t>(in.size() / grid.x)},
                                Parameters().add(at).add(out));
  launch.cooperative = cooperative;
  const auto run = device.run(launch);
  return {device.download<std::uint32_t>(out, in.size()), run->faults(), run->printed()};
}
Words numbers(std::uint32_t count) {
  Words in(count);
  for (std::uint32_t i = 0; i < count; ++i) in[i] = i * 2654435761u % 1009;
  return in;
}

// As PTX defines it: c holds the clamp and, from bit 8, the mask of the segment.
std::uint32_t source_lane(const std::string& mode, std::uint32_t lane, std::uint32_t b,
                          std::uint32_t c) {
  const std::uint32_t bits = b & 31, clamp = c & 31, segment = c >> 8 & 31;
  const std::uint32_t most = (lane & segment) | (clamp & ~segment & 31), least = lane & segment;
  const auto at = static_cast<int>(lane);
  const int by = static_cast<int>(bits);
  const int from = mode == "up"     ? at - by
                   : mode == "down" ? at + by
                   : mode == "bfly" ? at ^ by
                                    : static_cast<int>(least | (bits & ~segment));
  const bool in = mode == "up" ? from >= static_cast<int>(most) : from <= static_cast<int>(most);
  return in ? static_cast<std::uint32_t>(from) : lane;
}

TEST(Exchange, ShufflesOfAllModesAndWidths) {
  const Words in = numbers(32);
  for (const std::string mode : {"up", "down", "bfly", "idx"})
    for (const std::uint32_t width : {32u, 16u, 8u, 4u})
      for (const std::uint32_t by : {0u, 1u, 3u, 7u, 15u, 16u}) {
        const std::uint32_t c = (32 - width) << 8 | (mode == "up" ? 0 : 31);
        const Outcome r = outcome(asking("shfl.sync." + mode + ".b32 %r9|%p1, %r2, " +
                                         std::to_string(by) + ", " + std::to_string(c) + ", -1;"),
                                  in);
        for (std::uint32_t lane = 0; lane < 32; ++lane)
          ASSERT_EQ(r.out[lane], in[source_lane(mode, lane, by, c) & 31]) << mode << width << by;
      }
}

TEST(Exchange, MembersComeFromWhereverTheyAre) {
  // Lanes reach one shuffle from two branches of different length; halves exchange on their own.
  const Outcome r = outcome(asking(R"(
setp.lt.u32 %p1, %r1, 11;
@%p1 bra MEET;
mov.u32 %r10, 50;
LOOP: sub.u32 %r10, %r10, 1; setp.ne.u32 %p2, %r10, 0; @%p2 bra LOOP;
MEET:
shfl.sync.bfly.b32 %r9, %r1, 31, 31, -1;
setp.lt.u32 %p3, %r1, 16;
@%p3 bra LOW;
vote.sync.ballot.b32 %r11, %p1, 0xffff0000; add.u32 %r9, %r9, %r11; bra END;
LOW: redux.sync.add.u32 %r11, %r1, 0xffff; add.u32 %r9, %r9, %r11;
END:
)"),
                            Words(32));
  EXPECT_THAT(r.faults, IsEmpty());
  for (std::uint32_t lane = 0; lane < 32; ++lane)
    EXPECT_EQ(r.out[lane], 31 - lane + (lane < 16 ? 120u : 0u)) << lane;
}

// Its operand and result in registers %r of these numbers.
std::string with(std::string exchange, const char* a, const char* d) {
  for (const auto& [what, name] : {std::pair{"$a", a}, {"$d", d}})
    for (std::size_t at = 0; (at = exchange.find(what)) != exchange.npos;)
      exchange.replace(at, 2, name);
  return exchange;
}
// A branch for each part of the warp, with the exchange in all of them, in registers of its own.
std::string in_branches(const std::string& exchange) {
  return "setp.lt.u32 %p4, %r1, 11; setp.gt.u32 %p5, %r1, 20; mov.u32 %r20, 77; mov.u32 %r21, %r2;"
         "@%p4 bra A; @%p5 bra B; mov.u32 %r20, %r2; mov.u32 %r21, 78;" +
         with(exchange, "20", "9") + "bra J; A: " + with(exchange, "2", "9") +
         "mov.u32 %r21, 78; bra J; B: " + with(exchange, "21", "22") +
         "mov.u32 %r9, %r22; mov.u32 %r20, %r2; mov.u32 %r21, 78;"
         "J: setp.eq.u32 %p6, %r20, 77; @%p6 mov.u32 %r20, %r2; add.u32 %r9, %r9, %r21;"
         "add.u32 %r9, %r9, %r20;";
}

TEST(Exchange, TheSameInSeveralBranchesIsOne) {
  const Words in = numbers(32);
  const std::string kExchanges[] = {
      "shfl.sync.bfly.b32 %r$d|%p6, %r$a, 31, 31, -1;",
      "shfl.sync.idx.b32 %r$d, %r$a, %r1, 31, -1;",
      "shfl.sync.up.b32 %r$d, %r$a, 9, 0, -1;",
      "vote.sync.ballot.b32 %r$d, %p1, -1;",
      "vote.sync.any.pred %p2, %p1, -1; selp.u32 %r$d, 1, 0, %p2;",
      "redux.sync.add.u32 %r$d, %r$a, -1;",
      "and.b32 %r30, %r$a, 3; match.any.sync.b32 %r$d, %r30, -1;",
      "cvt.u64.u32 %rd9, %r$a; shl.b64 %rd9, %rd9, 62; match.any.sync.b64 %r$d, %rd9, -1;",
      "elect.sync %r$d|%p2, -1; @%p2 add.u32 %r$d, %r$d, 100;",
      "shfl.sync.bfly.b32 %r$d, %r$a, 1, 31, %r31;",
  };
  for (const std::string& exchange : kExchanges) {
    const std::string before =
        "setp.gt.u32 %p1, %r2, 500; and.b32 %r30, %r1, 24; mov.u32 %r31, 0xff;"
        "shl.b32 %r31, %r31, %r30;";
    const Outcome apart = outcome(asking(before + in_branches(exchange)), in);
    const Outcome together = outcome(
        asking(before + with(exchange, "2", "9") + "add.u32 %r9, %r9, 78; add.u32 %r9, %r9, %r2;"),
        in);
    EXPECT_THAT(apart.faults, IsEmpty()) << exchange;
    EXPECT_EQ(apart.out, together.out) << exchange;
  }
  const auto unlike = [&](const std::string& one, const std::string& other) {
    const Outcome r = outcome(
        asking("setp.lt.u32 %p1, %r1, 11; @%p1 bra A;" + one + "bra B; A: " + other + "B:"), in);
    return r.faults.empty() ? "none" : to_string(r.faults[0].kind);
  };
  const std::string down = "shfl.sync.down.b32 %r9, %r1, 1, 31, -1;";
  EXPECT_EQ(unlike(down, "shfl.sync.down.b32 %r10, %r2, 3, 31, -1;"), "none");
  EXPECT_EQ(unlike(down, "shfl.sync.up.b32 %r9, %r1, 1, 0, -1;"), "deadlock");
  EXPECT_EQ(unlike(down, "shfl.sync.down.b32 %r9, %r1, 1, 31, 0xfffffffe;"), "deadlock");
  EXPECT_EQ(unlike(down, "vote.sync.ballot.b32 %r9, %p1, -1;"), "deadlock");
  EXPECT_EQ(unlike(down, "bar.warp.sync -1;"), "deadlock");
}

TEST(Exchange, VotesMatchesAndReductions) {
  const Words in = numbers(32);
  const auto check = [&](const std::string& body,
                         const std::function<std::uint32_t(std::uint32_t)>& f) {
    const Outcome r = outcome(asking(body), in);
    for (std::uint32_t lane = 0; lane < 32; ++lane) ASSERT_EQ(r.out[lane], f(lane)) << body;
  };
  std::uint32_t ballot = 0, least = ~0u, all = ~0u;
  for (std::uint32_t i = 0; i < 32; ++i) {
    ballot |= in[i] > 500 ? 1u << i : 0;
    least = std::min(least, in[i]);
    all &= in[i];
  }
  const std::string over = "setp.gt.u32 %p1, %r2, 500; ";
  check(over + "vote.sync.ballot.b32 %r9, %p1, -1;", [&](std::uint32_t) { return ballot; });
  check(over + "vote.sync.any.pred %p2, %p1, -1; selp.u32 %r9, 1, 0, %p2;",
        [](std::uint32_t) { return 1u; });
  check(over + "vote.sync.all.pred %p2, %p1, -1; selp.u32 %r9, 1, 0, %p2;",
        [](std::uint32_t) { return 0u; });
  check(over + "vote.sync.uni.pred %p2, !%p1, -1; selp.u32 %r9, 1, 0, %p2;",
        [](std::uint32_t) { return 0u; });
  check("redux.sync.min.u32 %r9, %r2, -1;", [&](std::uint32_t) { return least; });
  check("redux.sync.and.b32 %r9, %r2, -1;", [&](std::uint32_t) { return all; });
  check("and.b32 %r10, %r2, 3; match.any.sync.b32 %r9, %r10, -1;", [&](std::uint32_t lane) {
    std::uint32_t same = 0;
    for (std::uint32_t i = 0; i < 32; ++i) same |= (in[i] & 3) == (in[lane] & 3) ? 1u << i : 0;
    return same;
  });
  check(over + "@!%p1 bra N; activemask.b32 %r9; N:",
        [&](std::uint32_t lane) { return in[lane] > 500 ? ballot : 0; });
  check("elect.sync %r10|%p1, -1; selp.u32 %r9, 7, %r10, %p1;",
        [](std::uint32_t lane) { return lane == 0 ? 7u : 0u; });
}

TEST(Atomics, AllKindsLeaveWhatOrderAllows) {
  const Words in = numbers(64);
  const auto folded = [&](std::uint32_t start, auto f) {
    for (const std::uint32_t value : in) start = f(start, value);
    return start;
  };
  struct Row {
    std::string op;
    std::uint32_t start, end;
  };
  const auto s = [](std::uint32_t v) { return static_cast<std::int32_t>(v); };
  const Row rows[] = {
      {"add.u32", 5, folded(5, [](auto a, auto b) { return a + b; })},
      {"min.u32", 900, folded(900, [](auto a, auto b) { return std::min(a, b); })},
      {"max.s32", ~0u, folded(~0u, [&](auto a, auto b) { return s(a) > s(b) ? a : b; })},
      {"and.b32", ~0u, folded(~0u, [](auto a, auto b) { return a & b; })},
      {"or.b32", 0, folded(0, [](auto a, auto b) { return a | b; })},
      {"xor.b32", 0, folded(0, [](auto a, auto b) { return a ^ b; })},
  };
  for (const Row& row : rows)
    for (const std::string space : {"global", "shared", ""}) {
      const std::string at = space == "shared" ? "[cell]" : space.empty() ? "[%rd9]" : "[cells]";
      const Outcome r =
          outcome(asking("mov.u64 %rd8, cell; cvta.shared.u64 %rd9, %rd8; mov.u32 %r10, " +
                             std::to_string(row.start) +
                             "; st.shared.u32 [cell], %r10; "
                             "st.global.u32 [cells], %r10; bar.sync 0; atom." +
                             space + (space.empty() ? "" : ".") + row.op + " %r11, " + at +
                             ", %r2; bar.sync 0; " +
                             (space == "global" ? "ld.global.u32 %r9, [cells];"
                                                : "ld.shared.u32 %r9, [cell];"),
                         ".global .u32 cells; .shared .u32 cell;\n"),
                  in);
      EXPECT_THAT(r.faults, IsEmpty());
      for (const std::uint32_t got : r.out) ASSERT_EQ(got, row.end) << row.op << " " << space;
    }
  // inc and dec wrap; every thread sees another old value.
  const Outcome inc =
      outcome(asking("atom.global.inc.u32 %r9, [cells], 63;", ".global .u32 cells;\n"), in);
  Words seen = inc.out;
  std::sort(seen.begin(), seen.end());
  for (std::uint32_t i = 0; i < 64; ++i) EXPECT_EQ(seen[i], i);
  const Outcome sum =
      outcome(asking("atom.global.add.f64 %fd1, [cells], 0d3FE0000000000000; bar.sync 0; "
                     "ld.global.f64 %fd2, [cells]; cvt.rzi.u32.f64 %r9, %fd2;",
                     ".global .f64 cells;\n"),
              in);
  for (const std::uint32_t got : sum.out) EXPECT_EQ(got, 32U);
}

TEST(Calls, ByNameAndByAddressWithDivergence) {
  const std::string functions = R"(
.func (.param .b32 r) twice(.param .b32 a)
{ .reg .b32 %r<4>; ld.param.u32 %r1, [a]; add.u32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }
.func (.param .b32 r) plus(.param .b32 a)
{ .reg .b32 %r<9>; .reg .pred %p<2>; .reg .b32 t;
  ld.param.u32 %r1, [a];
  setp.gt.u32 %p1, %r1, 500; @%p1 bra BIG;
  { .param .b32 x; st.param.b32 [x], %r1; .param .b32 y;
    call (y), twice, (x); ld.param.b32 %r2, [y]; }
  add.u32 %r2, %r2, 1; st.param.b32 [r], %r2; ret;
BIG: mov.u32 %r2, 17; st.param.b32 [r], %r2; ret; }
.global .align 8 .u64 table[2] = {twice, plus};
)";
  const auto twice = [](std::uint32_t a) { return 2 * a; };
  const auto plus = [](std::uint32_t a) { return a > 500 ? 17 : 2 * a + 1; };
  const Words in = numbers(64);
  const Outcome direct =
      outcome(asking("{ .param .b32 p; st.param.b32 [p], %r2; .param .b32 q; call (q), plus, (p); "
                     "ld.param.b32 %r9, [q]; }",
                     functions),
              in);
  const Outcome indirect = outcome(asking(R"(
and.b32 %r10, %r1, 1; mul.wide.u32 %rd9, %r10, 8; mov.u64 %rd10, table; add.u64 %rd10, %rd10, %rd9;
ld.global.u64 %rd11, [%rd10];
{ .param .b32 p; st.param.b32 [p], %r2; .param .b32 q;
  proto: .callprototype (.param .b32 _) _ (.param .b32 _);
  call (q), %rd11, (p), proto; ld.param.b32 %r9, [q]; }
)",
                                          functions),
                                   in);
  EXPECT_THAT(direct.faults, IsEmpty());
  EXPECT_THAT(indirect.faults, IsEmpty());
  for (std::uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(direct.out[i], plus(in[i]));
    EXPECT_EQ(indirect.out[i], i % 2 == 0 ? twice(in[i]) : plus(in[i]));
  }
  const Outcome nowhere = outcome(
      asking("mov.u64 %rd11, 5; { proto: .callprototype _ (); call %rd11, (), proto; }", functions),
      in);
  ASSERT_THAT(nowhere.faults, SizeIs(1));
  EXPECT_EQ(nowhere.faults[0].kind, FaultKind::illegal);
}

TEST(Calls, BranchesThroughATable) {
  const Outcome r = outcome(asking(R"(
and.b32 %r10, %r1, 3;
ts: .branchtargets A, B, C, A;
brx.idx %r10, ts;
A: add.u32 %r9, %r9, 10; bra END;
B: add.u32 %r9, %r9, 20;
C: add.u32 %r9, %r9, 30;
END:
)"),
                            numbers(32));
  for (std::uint32_t i = 0; i < 32; ++i) {
    const std::uint32_t want[] = {10, 50, 30, 10};
    EXPECT_EQ(r.out[i], want[i & 3]);
  }
}

TEST(Calls, PrintsAndAllocates) {
  const std::string declared = R"(
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.extern .func (.param .b64 r) malloc(.param .b64 n);
.extern .func free(.param .b64 p);
.global .align 1 .b8 text[32] = {37, 51, 100, 124, 37, 46, 50, 102, 124, 37,
  115, 124, 37, 108, 108, 120, 37, 37, 10, 0};
.global .align 1 .b8 word[4] = {104, 105, 33, 0};
)";  // "%3d|%.2f|%s|%llx%%\n", "hi!"
  const Outcome printed = outcome(asking(R"(
setp.ne.u32 %p1, %r1, 1; @%p1 bra END;
mov.u64 %rd9, stack; cvta.local.u64 %rd10, %rd9;
mov.u32 %r10, -7; st.local.u32 [stack], %r10;
mov.f64 %fd1, 0d400921FB54442D18; st.local.f64 [stack+8], %fd1;
mov.u64 %rd11, word; st.local.u64 [stack+16], %rd11;
mov.u64 %rd12, 0xabcdef0123; st.local.u64 [stack+24], %rd12;
mov.u64 %rd13, text;
{ .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], %rd13; st.param.b64 [b], %rd10;
  call (c), vprintf, (a, b); ld.param.b32 %r9, [c]; }
END:
)",
                                         declared),
                                  Words(4));
  EXPECT_THAT(printed.faults, IsEmpty());
  EXPECT_EQ(printed.printed, " -7|3.14|hi!|abcdef0123%\n");
  EXPECT_EQ(printed.out, (Words{0, 4, 0, 0}));
  const std::string allocate = R"(
mov.u64 %rd9, 16;
{ .param .b64 n; .param .b64 p; st.param.b64 [n], %rd9; call (p), malloc, (n);
  ld.param.b64 %rd10, [p]; }
st.u32 [%rd10+12], %r1; ld.u32 %r9, [%rd10+12];
{ .param .b64 p; st.param.b64 [p], %rd10; call free, (p); }
)";
  const Outcome fine = outcome(asking(allocate, declared), Words(40));
  EXPECT_THAT(fine.faults, IsEmpty());
  for (std::uint32_t i = 0; i < 40; ++i) EXPECT_EQ(fine.out[i], i);
  const Outcome late = outcome(asking(allocate + "ld.u32 %r9, [%rd10];", declared), Words(40));
  ASSERT_THAT(late.faults, SizeIs(1));
  EXPECT_EQ(late.faults[0].kind, FaultKind::use_after_free);
  // The heap has 8 MiB, and what a program allocated is not free's.
  const std::string quarter = R"(
mov.u64 %rd9, 262144;
{ .param .b64 n; .param .b64 p; st.param.b64 [n], %rd9; call (p), malloc, (n);
  ld.param.b64 %rd10, [p]; }
setp.ne.u64 %p1, %rd10, 0; selp.u32 %r9, 1, 0, %p1;
)";
  const Outcome full = outcome(asking(quarter, declared), Words(40));
  EXPECT_THAT(full.faults, IsEmpty());
  EXPECT_EQ(std::accumulate(full.out.begin(), full.out.end(), 0u), 31u) << "each has 64 more";
  const Outcome wrong = outcome(
      asking("{ .param .b64 p; st.param.b64 [p], %rd1; call free, (p); }", declared), Words(1));
  ASSERT_THAT(wrong.faults, SizeIs(1));
  EXPECT_THAT(wrong.faults[0].about, testing::HasSubstr("what malloc did not give"));
}

// Bytes and 64 more of each, up to the limit and no further; the two kinds of memory stay apart.
TEST(Heap, KeepsItsLimit) {
  const auto arena = *Arena::open(std::uint64_t{64} << 20);
  EXPECT_TRUE(arena->allocate_in_heap(kHeapBytes - 64).has_value());
  EXPECT_FALSE(arena->allocate_in_heap(1).has_value());
  EXPECT_EQ(arena->limit_heap(kHeapBytes - 1).error().code, ErrorCode::in_use);
  ASSERT_TRUE(arena->limit_heap(kHeapBytes + 160));
  EXPECT_FALSE(arena->allocate_in_heap(97).has_value());
  EXPECT_FALSE(arena->allocate_in_heap(~std::uint64_t{0}).has_value());
  const auto last = arena->allocate_in_heap(90), other = arena->allocate(8);
  ASSERT_TRUE(last && other);
  EXPECT_EQ(*last % 16, 0u);
  EXPECT_EQ(*other % kAllocationAlignment, 0u);
  EXPECT_FALSE(arena->release(*last));
  EXPECT_FALSE(arena->release_in_heap(*other));
  EXPECT_TRUE(arena->release(*other));
  EXPECT_FALSE(arena->allocate_in_heap(1).has_value());
  EXPECT_TRUE(arena->release_in_heap(*last));
  EXPECT_EQ(arena->allocate_in_heap(96).value_or(0), *last);
}

// The handle of a condition is its word's address: the device's, and aligned.
TEST(Calls, SetConditionsOfGraphs) {
  const std::string declared =
      ".extern .func cudaGraphSetConditional(.param .b64 h, .param .b32 v);";
  const auto setting = [&](const std::string& handle) {
    return outcome(asking("setp.ne.u32 %p1, %r1, 3; @%p1 bra END;\n" + handle + R"(
mov.u32 %r10, 77;
{ .param .b64 h; .param .b32 v; st.param.b64 [h], %rd9; st.param.b32 [v], %r10;
  call cudaGraphSetConditional, (h, v); }
ld.u32 %r9, [%rd9];
END:
)",
                          declared),
                   Words(4));
  };
  // Where the lane's own result will be written.
  const Outcome fine = setting("mov.u64 %rd9, %rd2;");
  EXPECT_THAT(fine.faults, IsEmpty());
  EXPECT_EQ(fine.out[3], 77u);
  for (const char* wrong : {"mov.u64 %rd9, 64;", "add.u64 %rd9, %rd2, 2;"}) {
    const Outcome bad = setting(wrong);
    ASSERT_THAT(bad.faults, SizeIs(1)) << wrong;
    EXPECT_EQ(bad.faults[0].kind, FaultKind::illegal);
    EXPECT_THAT(bad.faults[0].about, testing::HasSubstr("no condition of a graph"));
  }
}

// Each block keeps its numbers in shared memory, adds one to a counter, and waits until all did.
const std::string kWaitForAll = R"(
mov.u64 %rd9, mine; cvta.shared.u64 %rd9, %rd9;
mul.wide.u32 %rd10, %r4, 4; add.u64 %rd9, %rd9, %rd10;
st.u32 [%rd9], %r1; bar.sync 0;
setp.ne.u32 %p1, %r4, 0; @%p1 bra WAITED;
red.global.add.u32 [count], 1;
SPIN: ld.acquire.gpu.global.u32 %r10, [count]; mov.u32 %r11, %nctaid.x;
setp.ne.u32 %p2, %r10, %r11; @%p2 bra SPIN;
WAITED: bar.sync 0;
ld.u32 %r9, [%rd9];
ld.global.u32 %r10, [count]; mad.lo.u32 %r9, %r10, 10000, %r9;
)";
const std::string kWaitForAllMemory = ".global .u32 count;\n.shared .align 4 .b8 mine[4096];\n";

TEST(Grid, BlocksOfALaunchWaitForEachOther) {
  for (const bool cooperative : {true, false})
    for (const std::uint32_t threads : {32U, 40U}) {
      const Outcome r =
          outcome(asking(kWaitForAll, kWaitForAllMemory), Words(12 * threads), {12}, cooperative);
      EXPECT_THAT(r.faults, IsEmpty());
      for (std::uint32_t i = 0; i < r.out.size(); ++i) EXPECT_EQ(r.out[i], 120'000 + i);
    }
}

// As many as the device holds, on fewer threads than it has units.
TEST(Grid, AsManyBlocksWaitForEachOtherAsUnitsHold) {
  constexpr std::uint32_t kUnits = 3, kBlocks = 32 * kUnits;
  Device device(asking(kWaitForAll, kWaitForAllMemory));
  const Words none(kBlocks * 32);
  const std::uint64_t at = device.upload(none), out = device.upload(none);
  Launch launch = device.launch("k", {kBlocks}, {32}, Parameters().add(at).add(out));
  launch.units = kUnits;
  const auto run = *device.machine().prepare(launch);
  {
    std::atomic<std::int64_t> next = 0;
    const auto work = [&] {
      for (std::int64_t i = next++; i < run->groups(); i = next++) run->execute(i);
    };
    const std::jthread other(work);
    work();
  }
  EXPECT_THAT(run->faults(), IsEmpty());
  const auto got = device.download<std::uint32_t>(out, kBlocks * 32);
  for (std::uint32_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], kBlocks * 10'000 + i);
}

// More than the device holds wait for each other: that is said, once, and a stop ends it.
TEST(Grid, MoreBlocksThanUnitsHoldNeverEndAndThatIsSaid) {
  Device device(asking(kWaitForAll, kWaitForAllMemory));
  const Words none(3 * 1024);
  const std::uint64_t at = device.upload(none), out = device.upload(none);
  Launch launch = device.launch("k", {4}, {768}, Parameters().add(at).add(out));
  std::vector<std::string> said;
  std::shared_ptr<ptx::Run> run;
  launch.patience = {};
  launch.stuck = [&](const std::string& text) {
    said.push_back(text);
    run->request_stop();
  };
  run = *device.machine().prepare(launch);
  for (std::int64_t i = 0; i < run->groups(); ++i) run->execute(i);
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_THAT(said[0], testing::StartsWith("kernel k: as many blocks"));
  EXPECT_THAT(said[0], testing::HasSubstr("; 1 have not begun"));
  ASSERT_THAT(run->faults(), SizeIs(1));
  EXPECT_EQ(run->faults()[0].kind, FaultKind::stopped);
}

// One more has to come, of another launch, for which there is no thread before this one leaves it.
TEST(Grid, ALaunchLeavesItsThreadToAnotherThatItWaitsFor) {
  std::string body = kWaitForAll;
  body.replace(body.find("mov.u32 %r11, %nctaid.x;"), 24,
               "mov.u32 %r11, %nctaid.x; add.u32 %r11, %r11, 1;");
  const std::string other = ".visible .entry one(){ red.global.add.u32 [count], 1; ret; }\n";
  for (const bool cooperative : {true, false}) {
    Device device(asking(body, kWaitForAllMemory + other));
    constexpr std::uint32_t kThreads = 12 * 40;
    const std::uint64_t at = device.upload(Words(kThreads)), out = device.upload(Words(kThreads));
    Launch launch = device.launch("k", {12}, {40}, Parameters().add(at).add(out));
    launch.cooperative = cooperative;
    int left = 0;
    launch.others = [&] { return left < 3; };
    const auto run = *device.machine().prepare(launch);
    for (std::int64_t i = 0; i < run->groups(); ++i)
      while (!run->execute(i))
        if (++left == 2) device.run(device.launch("one", {1}, {1}, Parameters()));
    EXPECT_THAT(run->faults(), IsEmpty());
    EXPECT_GE(left, 2);
    const auto got = device.download<std::uint32_t>(out, kThreads);
    for (std::uint32_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], 130'000 + i) << cooperative;
  }
}

// The last four of each `of` blocks do 0 to 3 times 20,000 rounds.
std::string long_blocks(std::uint32_t of) {
  const std::string last = std::to_string(of - 1), rest = std::to_string(of - 4);
  return "mov.u32 %r10, 0; mov.u32 %r12, %ctaid.x; and.b32 %r12, %r12, " + last +
         "; max.u32 %r12, %r12, " + rest + "; sub.u32 %r12, %r12, " + rest + R"(;
mul.lo.u32 %r12, %r12, 20000;
MORE: mad.lo.u32 %r9, %r9, 3, %r1; add.u32 %r10, %r10, 1;
setp.lt.u32 %p1, %r10, %r12; @%p1 bra MORE;
)";
}
void expect_long_blocks(const Words& out, std::uint32_t of) {
  for (std::uint32_t i = 0; i < out.size(); ++i) {
    std::uint32_t want = i;
    const std::uint32_t last = std::max(i / 32 % of, of - 4) - (of - 4);
    for (std::uint32_t n = 1; n < last * 20000; ++n) want = want * 3 + i;
    ASSERT_EQ(out[i], want) << i;
  }
}

// Long blocks that wait for nobody: more than may be under way at once, each right.
TEST(Grid, LongBlocksGiveWayAndEnd) {
  const Outcome r = outcome(asking(long_blocks(4)), Words(70 * 32), {70});
  EXPECT_THAT(r.faults, IsEmpty());
  expect_long_blocks(r.out, 4);
}

// As each holds its registers, few of them are under way at a time, however many there are.
TEST(Grid, LongBlocksAreFewAtATime) {
  const std::string body = R"(
atom.global.add.u32 %r13, [count], 1; add.u32 %r13, %r13, 1; red.global.max.u32 [most], %r13;
mov.u32 %r10, 0;
MORE: add.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, 40000; @%p1 bra MORE;
red.global.add.u32 [count], -1; ld.global.u32 %r9, [most];
)";
  Device device(asking(body, ".global .u32 count;\n.global .u32 most;\n"));
  const Words none(300);
  const std::uint64_t at = device.upload(none), out = device.upload(none);
  Launch launch = device.launch("k", {300}, {1}, Parameters().add(at).add(out));
  launch.units = 8;  // 256 of them
  EXPECT_THAT(device.run(launch)->faults(), IsEmpty());
  const Words most = device.download<std::uint32_t>(out, 300);
  EXPECT_GE(std::ranges::max(most), 2u);
  EXPECT_LE(std::ranges::max(most), 8u);
}

// The same on two threads that leave whenever they may: every block runs once, to its end.
TEST(Grid, ALaunchThatLeavesItsThreadsGoesOn) {
  for (const std::uint32_t blocks : {70U, 3000U}) {  // groups of one block, of two
    const std::uint32_t of = blocks == 70 ? 4 : 64;
    Device device(asking(long_blocks(of)));
    const Words none(blocks * 32);
    const std::uint64_t at = device.upload(none), out = device.upload(none);
    Launch launch = device.launch("k", {blocks}, {32}, Parameters().add(at).add(out));
    launch.others = [] { return true; };
    const auto run = *device.machine().prepare(launch);
    std::atomic<std::int64_t> next = 0, left = 0;
    {
      const auto work = [&] {
        for (std::int64_t i = next++; i < run->groups(); i = next++)
          while (!run->execute(i)) ++left;
      };
      const std::jthread other(work);
      work();
    }
    EXPECT_THAT(run->faults(), IsEmpty());
    EXPECT_GT(left, 0);
    expect_long_blocks(device.download<std::uint32_t>(out, blocks * 32), of);
  }
}

}  // namespace
}  // namespace partita::ptx
