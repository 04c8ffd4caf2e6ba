// What kernels do wrong, and what is reported of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "ptx/testing/machine_fixture.h"

namespace partita::ptx {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A kernel of one buffer and one number with this body; its thread's number is in %r1.
std::string kernel(const std::string& body) {
  return R"(
.const .align 4 .b32 table[4] = {1, 2, 3, 4};
.visible .entry k(.param .u64 buffer, .param .u32 number)
{
.shared .align 16 .b8 tile[1024];
.local .align 8 .b8 stack[64];
.reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<40>; .reg .b64 %rd<40>;
mov.u32 %r1, %tid.x;
ld.param.u64 %rd1, [buffer];
ld.param.u32 %r2, [number];
mul.wide.u32 %rd2, %r1, 4;
add.u64 %rd3, %rd1, %rd2;
shl.b32 %r3, %r1, 2;
mov.u32 %r4, tile;
add.u32 %r5, %r4, %r3;
)" + body +
         "\nret;\n}\n";
}

struct Ran {
  std::vector<Fault> faults;
  std::uint64_t buffer = 0;
};
Ran ran(const std::string& body, std::uint32_t number, std::uint64_t bytes, Extent block = {32},
        Checks checks = {}) {
  Device device(kernel(body));
  const std::uint64_t buffer = device.allocate(bytes);
  const auto run = device.run("k", {1}, block, Parameters().add(buffer).add(number), checks);
  return {run->faults(), buffer};
}

TEST(Faults, AnAccessBehindTheEndIsNamedWithItsPlace) {
  const Ran r = ran("st.global.u32 [%rd3], %r1;", 0, 100);  // 25 elements
  ASSERT_THAT(r.faults, SizeIs(1));
  const Fault& fault = r.faults[0];
  EXPECT_EQ(fault.kind, FaultKind::out_of_bounds);
  EXPECT_EQ(fault.kernel, "k");
  EXPECT_EQ(fault.thread, (Extent{25, 0, 0}));
  EXPECT_EQ(fault.block, (Extent{0, 0, 0}));
  EXPECT_EQ(fault.address, r.buffer + 100);
  EXPECT_EQ(fault.size, 4U);
  EXPECT_TRUE(fault.write);
  EXPECT_EQ(fault.instruction, "st.global.u32 [%rd3], %r1;");
  EXPECT_THAT(fault.about, HasSubstr("0 bytes behind the end of a 100-byte allocation"));
  EXPECT_THAT(to_text(fault), HasSubstr("block (0,0,0), thread (25,0,0)"));
  Fault elsewhere = fault;
  elsewhere.line = fault.line + 1;
  const std::string text = to_text(std::vector{fault, fault, elsewhere, fault});
  EXPECT_EQ(text, to_text(fault) + "  and 2 more at this line\n" + to_text(elsewhere));
}

TEST(Faults, KindsOfWrongAccesses) {
  const auto only = [](const Ran& r) {
    return r.faults.size() == 1 ? to_string(r.faults[0].kind) : "?";
  };
  EXPECT_EQ(only(ran("ld.global.u32 %r9, [%rd1+-4];", 0, 128)), "out of bounds");
  EXPECT_EQ(only(ran("mov.u64 %rd9, 0; ld.global.u32 %r9, [%rd9];", 0, 128)), "out of bounds");
  EXPECT_EQ(only(ran("mov.u64 %rd9, 0x7fff12345678; ld.u32 %r9, [%rd9];", 0, 128)),
            "out of bounds");
  EXPECT_EQ(only(ran("ld.global.u32 %r9, [%rd3+2];", 0, 256)), "misaligned");
  EXPECT_EQ(only(ran("ld.global.v4.u32 {%r9,%r10,%r11,%r12}, [%rd3];", 0, 4096)), "misaligned");
  EXPECT_EQ(only(ran("ld.shared.u32 %r9, [%r5+1000];", 0, 128)), "out of bounds");
  EXPECT_EQ(only(ran("st.shared.u64 [%r5+4], %rd1;", 0, 128)), "misaligned");
  EXPECT_EQ(only(ran("cvt.u64.u32 %rd9, %r2; mov.u64 %rd10, stack; add.u64 %rd9, %rd9, %rd10;"
                     "st.local.u32 [%rd9], %r1;",
                     1 << 20, 128)),
            "out of bounds");
  EXPECT_EQ(only(ran("mov.u64 %rd9, table; st.global.u32 [%rd9], %r1;", 0, 128)), "read only");
  EXPECT_EQ(only(ran("setp.eq.u32 %p1, %r1, 7; @%p1 trap;", 0, 128)), "trap");
  EXPECT_EQ(only(ran("atom.global.add.u32 %r9, [%rd1+128], 1;", 0, 128)), "out of bounds");
  EXPECT_EQ(only(ran("cvta.shared.u64 %rd9, 1024; ld.u32 %r9, [%rd9];", 0, 128)), "out of bounds");
  EXPECT_EQ(only(ran("bar.sync 17;", 0, 128)), "illegal");
  EXPECT_EQ(only(ran("ld.const.u32 %r9, [table+12]; st.global.u32 [%rd3], %r9;", 0, 128)), "?");
}

TEST(Faults, MemoryThatWasFreedIsRecognised) {
  Device device(kernel("ld.global.u32 %r9, [%rd3];"));
  const std::uint64_t buffer = device.allocate(512);
  ASSERT_TRUE(device.machine().release(buffer));
  const auto run = device.run("k", {1}, {32}, Parameters().add(buffer).add(0u));
  ASSERT_THAT(run->faults(), SizeIs(1));
  EXPECT_EQ(run->faults()[0].kind, FaultKind::use_after_free);
  EXPECT_THAT(run->faults()[0].about, HasSubstr("0 bytes into a 512-byte allocation"));
}

TEST(Faults, ReadsOfWhatNobodyWrote) {
  Device device(kernel(
      "ld.global.u32 %r9, [%rd3]; st.global.u32 [%rd3+256], %r9; ld.global.u32 %r10, [%rd3+256];"));
  const std::uint64_t buffer = device.allocate(1024);
  device.write(buffer,
               std::vector<std::uint32_t>(30));  // the last two lanes' words are not written
  const Parameters parameters = Parameters().add(buffer).add(0u);
  const auto run = device.run("k", {1}, {32}, parameters, {.uninitialised = true});
  ASSERT_THAT(run->faults(), SizeIs(2));
  for (const Fault& fault : run->faults()) EXPECT_EQ(fault.kind, FaultKind::uninitialised);
  EXPECT_EQ(run->faults()[0].thread.x, 30U);
  EXPECT_EQ(run->faults()[1].thread.x, 31U);
  EXPECT_EQ(run->faults()[0].address, buffer + 120);
  device.write(buffer, std::vector<std::uint32_t>(32));
  EXPECT_THAT(device.run("k", {1}, {32}, parameters, {.uninitialised = true})->faults(), IsEmpty());
  // Bytes: half of a word is not enough.
  const std::uint64_t halves = device.allocate(1024);
  device.write(halves, std::vector<std::uint8_t>(126));
  const auto half =
      device.run("k", {1}, {32}, Parameters().add(halves).add(0u), {.uninitialised = true});
  ASSERT_THAT(half->faults(), SizeIs(1));
  EXPECT_EQ(half->faults()[0].thread.x, 31U);
}

TEST(Faults, RacesOnSharedMemory) {
  const Checks races{.races = true};
  const Extent block{64};
  // Neighbours read what is written with no barrier between.
  const std::string wrong = "st.shared.u32 [%r5], %r1; ld.shared.u32 %r9, [%r5+4];";
  const std::string right = "st.shared.u32 [%r5], %r1; bar.sync 0; ld.shared.u32 %r9, [%r5+4];";
  const Ran bad = ran(wrong, 0, 128, block, races);
  ASSERT_FALSE(bad.faults.empty());
  EXPECT_EQ(bad.faults[0].kind, FaultKind::race);
  EXPECT_THAT(bad.faults[0].about, HasSubstr("wrote it with no barrier between"));
  EXPECT_THAT(ran(right, 0, 128, block, races).faults, IsEmpty());
  // Read, then written by another without a barrier.
  EXPECT_FALSE(ran("ld.shared.u32 %r9, [%r5+4]; st.shared.u32 [%r5], %r1;", 0, 128, block, races)
                   .faults.empty());
  EXPECT_THAT(
      ran("ld.shared.u32 %r9, [%r5+4]; bar.sync 0; st.shared.u32 [%r5], %r1;", 0, 128, block, races)
          .faults,
      IsEmpty());
  // One's own element needs no barrier; a warp's barrier orders its lanes, not another warp's.
  EXPECT_THAT(ran("st.shared.u32 [%r5], %r1; ld.shared.u32 %r9, [%r5]; st.shared.u32 [%r5], %r9;",
                  0, 128, block, races)
                  .faults,
              IsEmpty());
  const std::string by_warp =
      "st.shared.u32 [%r5], %r1; bar.warp.sync -1; xor.b32 %r6, %r5, 4; ld.shared.u32 %r9, [%r6]; "
      "bar.warp.sync -1; st.shared.u32 [%r6], %r9;";
  EXPECT_THAT(ran(by_warp, 0, 128, block, races).faults, IsEmpty());
  EXPECT_FALSE(ran("st.shared.u32 [%r5], %r1; bar.warp.sync -1; xor.b32 %r6, %r5, 128; "
                   "ld.shared.u32 %r9, [%r6];",
                   0, 128, block, races)
                   .faults.empty());
  // All write one value; atomics.
  EXPECT_THAT(ran("st.shared.u32 [%r4], %r2;", 5, 128, block, races).faults, IsEmpty());
  EXPECT_FALSE(ran("st.shared.u32 [%r4], %r1;", 5, 128, block, races).faults.empty());
  EXPECT_THAT(ran("atom.shared.add.u32 %r9, [%r4], 1; atom.shared.add.u32 %r9, [%r4], %r1;", 5, 128,
                  block, races)
                  .faults,
              IsEmpty());
  EXPECT_THAT(ran(wrong, 0, 128, block).faults, IsEmpty());  // not asked for
}

TEST(Faults, BarriersThatNobodyCompletes) {
  const Ran apart = ran(
      "setp.lt.u32 %p1, %r1, 16; @%p1 bra A; bar.sync 1; bra E; A: bar.sync 2; E:", 0, 128, {64});
  ASSERT_THAT(apart.faults, SizeIs(1));
  EXPECT_EQ(apart.faults[0].kind, FaultKind::deadlock);
  // Two places of one barrier meet; threads that ended need not come.
  EXPECT_THAT(ran("setp.lt.u32 %p1, %r1, 16; @%p1 bra A; bar.sync 0; bra E; A: bar.sync 0; E:", 0,
                  128, {64})
                  .faults,
              IsEmpty());
  EXPECT_THAT(ran("setp.lt.u32 %p1, %r1, 40; @%p1 exit; bar.sync 0;", 0, 128, {64}).faults,
              IsEmpty());
  const Ran shuffle = ran(
      "setp.lt.u32 %p1, %r1, 16; @%p1 bra A; bar.sync 0; A: shfl.sync.idx.b32 %r9, %r1, 0, 31, -1;",
      0, 128);
  ASSERT_THAT(shuffle.faults, SizeIs(1));
  EXPECT_EQ(shuffle.faults[0].kind, FaultKind::deadlock);
}

std::string left_out(const std::string& body, std::uint32_t threads) {
  const Ran r = ran(body, 0, 4096, {threads}, {.barriers = true});
  return r.faults.empty() ? "none" : to_text(r.faults);
}

TEST(Faults, WhoLeftABarrierOutIsNamed) {
  const auto early = [](const std::string& first, std::uint32_t threads) {
    return left_out("setp." + first + "; @%p1 exit; bar.sync 0;", threads);
  };
  EXPECT_THAT(early("ge.u32 %p1, %r1, 40", 64),
              HasSubstr("barrier 0 is for all threads of the block; without it ended: lanes 8-31 "
                        "of warp 1\n"));
  EXPECT_THAT(early("ge.u32 %p1, %r1, 40", 128), HasSubstr(": lanes 8-31 of warp 1, warps 2-3\n"));
  EXPECT_THAT(early("lt.u32 %p1, %r1, 64", 256), HasSubstr(": warps 0-1\n"));
  EXPECT_THAT(early("eq.u32 %p1, %r1, 35", 36), HasSubstr(": lane 3 of warp 1\n"));
  EXPECT_THAT(early("ge.u32 %p1, %r1, 32", 36), HasSubstr(": warp 1\n"));
  const std::string parted = left_out(
      "setp.lt.u32 %p1, %r1, 4;\n@%p1 bra A;\nbar.sync 0;\nbra E;\nA: bar.sync 0;\nE:", 32);
  EXPECT_THAT(parted, HasSubstr("in kernel k, block (0,0,0), thread (0,0,0)\n"));
  EXPECT_THAT(parted, HasSubstr("lanes 0-3 of warp 0 come to barrier 0 here, lanes 4-31 at line "));
  EXPECT_THAT(left_out("shr.u32 %r6, %r1, 5; add.u32 %r6, %r6, 1; mul.lo.u32 %r6, %r6, 32; "
                       "bar.sync 2, %r6;",
                       32),
              HasSubstr("none"));
}

// Nobody asked: as on a GPU an ended thread holds nobody up.
TEST(Faults, EndedThreadsAreFoundOnlyWhenAskedFor) {
  const std::string body =
      "setp.lt.u32 %p1, %r1, 40; @%p1 exit; bar.sync 0; st.global.u32 [%rd1], "
      "%r1;";
  EXPECT_THAT(ran(body, 0, 128, {64}).faults, IsEmpty());
  EXPECT_THAT(ran(body, 0, 128, {64}, {.races = true}).faults, IsEmpty());
  const Ran asked = ran(body, 0, 128, {64}, {.barriers = true});
  ASSERT_THAT(asked.faults, SizeIs(1));  // and the kernel went on to its end
  EXPECT_EQ(asked.faults[0].kind, FaultKind::divergence);
}

TEST(Faults, RightUsesOfBarriersAreNotAccused) {
  const struct {
    const char *what, *body;
    std::uint32_t threads;
  } kRight[] = {
      {"the block returns as a whole", "setp.eq.u32 %p1, %r2, 0; @%p1 exit; bar.sync 0;", 64},
      {"a last warp of a few", "bar.sync 0; bar.sync 1, 64; bar.sync 1, 64;", 48},
      {"some return after the last barrier",
       "bar.sync 0; setp.lt.u32 %p1, %r1, 40; @%p1 exit; st.shared.u32 [%r5], %r1;", 64},
      {"halves of the block, a barrier each",
       "shr.u32 %r6, %r1, 6; add.u32 %r6, %r6, 1; bar.sync %r6, 64; bar.sync %r6, 64;", 128},
      {"a barrier of two warps, the others return",
       "setp.ge.u32 %p1, %r1, 64; @%p1 exit; bar.sync 3, 64; bar.sync 3, 64;", 128},
      {"producers arrive and end, consumers wait",
       "setp.lt.u32 %p1, %r1, 64; @%p1 bra P; bar.sync 1, 128; bra E; P: bar.arrive 1, 128; E:",
       128},
      {"full and empty in a loop",
       "mov.u32 %r6, 0; setp.lt.u32 %p1, %r1, 32; @%p1 bra P;"
       "C: bar.sync 1, 64; bar.arrive 2, 64; add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 4;"
       "@%p2 bra C; bra E;"
       "P: bar.arrive 1, 64; bar.sync 2, 64; add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 4;"
       "@%p2 bra P; E:",
       64},
      {"warps alone among themselves",
       "setp.lt.u32 %p1, %r1, 32; @%p1 exit; and.b32 %r6, %r1, 31; setp.lt.u32 %p1, %r6, 16;"
       "@%p1 bra L; bar.warp.sync 0xffff0000; bra E; L: bar.warp.sync 0xffff; E: "
       "shfl.sync.idx.b32 %r9, %r1, 0, 31, -1;",
       64},
      {"warps at two places of one barrier",
       "setp.lt.u32 %p1, %r1, 32; @%p1 bra A; bar.sync 0; bra E; A: bar.sync 0; E:", 64},
      {"lanes at two places of one that need not be aligned",
       "setp.lt.u32 %p1, %r1, 16; @%p1 bra A; barrier.sync 0; bra E; A: barrier.sync 0; E:", 64},
      {"lanes on two ways that meet before it",
       "setp.lt.u32 %p1, %r1, 7; @%p1 bra A; add.u32 %r6, %r1, 1; bra E; A: add.u32 %r6, %r1, 2;"
       "E: bar.sync 0; bar.red.popc.u32 %r7, 0, %p1;",
       96},
      {"a loop of equal trips",
       "mov.u32 %r6, 0; L: bar.sync 0; add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 5; @%p1 bra L;",
       160},
      {"all threads, said as a count", "bar.sync 0; bar.sync 0, 96; bar.sync 0;", 96},
      {"a barrier of the cluster, which ended threads need not come to",
       "setp.lt.u32 %p1, %r1, 5; @%p1 exit; barrier.cluster.arrive; barrier.cluster.wait;", 64},
  };
  for (const auto& right : kRight)
    EXPECT_EQ(left_out(right.body, right.threads), "none") << right.what;
}

TEST(Faults, OneThatEndsTheLaunchEndsIt) {
  Device device(kernel("st.global.u32 [%rd3+4096], %r1; st.global.u32 [%rd3], %r1;"));
  const auto zeros = std::vector<std::uint32_t>(32);
  const std::uint64_t buffer = device.upload(zeros);
  const auto run = device.run("k", {5}, {32}, Parameters().add(buffer).add(0u));
  EXPECT_THAT(run->faults(), SizeIs(1));
  EXPECT_EQ(device.download<std::uint32_t>(buffer, 32), zeros);
}

TEST(Machine, LocksMakeProgress) {
  // All threads of four warps take one lock, spinning, and count.
  Device device(kernel(R"(
SPIN:
atom.global.cas.b32 %r9, [%rd1], 0, 1;
setp.ne.u32 %p1, %r9, 0;
@%p1 bra SPIN;
ld.volatile.global.u32 %r10, [%rd1+4];
add.u32 %r10, %r10, 1;
st.volatile.global.u32 [%rd1+4], %r10;
atom.global.exch.b32 %r11, [%rd1], 0;
)"));
  const std::uint64_t buffer = device.upload(std::vector<std::uint32_t>(2));
  const auto run = device.run("k", {3}, {128}, Parameters().add(buffer).add(0u));
  EXPECT_THAT(run->faults(), IsEmpty());
  EXPECT_EQ(device.download<std::uint32_t>(buffer, 2), (std::vector<std::uint32_t>{0, 3 * 128}));
}

TEST(Machine, AStopEndsAnEndlessLoop) {
  Device device(kernel("L: bra L;"));
  const std::uint64_t buffer = device.allocate(64);
  auto run =
      *device.machine().prepare(device.launch("k", {4}, {64}, Parameters().add(buffer).add(0u)));
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    run->request_stop();
  });
  for (std::int64_t group = 0; group < run->groups(); ++group) run->execute(group);
  ASSERT_THAT(run->faults(), SizeIs(1));
  EXPECT_EQ(run->faults()[0].kind, FaultKind::stopped);
}

TEST(Machine, GroupsRunOnSeveralThreads) {
  Device device(kernel(R"(
mov.u32 %r9, %ctaid.x; mov.u32 %r10, %ntid.x; mad.lo.u32 %r11, %r9, %r10, %r1;
mul.wide.u32 %rd9, %r11, 4; add.u64 %rd10, %rd1, %rd9;
mov.u32 %r13, 0;
st.shared.u32 [%r4], %r13;
atom.shared.add.u32 %r12, [%r4], 1;
st.global.u32 [%rd10+16], %r11;
red.global.add.u32 [%rd1], %r11;
)"));
  const std::uint32_t blocks = 64, threads = 96, n = blocks * threads;
  const std::uint64_t buffer = device.upload(std::vector<std::uint32_t>(n + 4));
  auto run = *device.machine().prepare(device.launch(
      "k", {blocks}, {threads}, Parameters().add(buffer).add(0u), {.uninitialised = true}));
  {
    std::vector<std::jthread> workers;
    for (std::int64_t first = 0; first < 4; ++first)
      workers.emplace_back([&, first] {
        for (std::int64_t group = first; group < run->groups(); group += 4) run->execute(group);
      });
  }
  EXPECT_THAT(run->faults(), IsEmpty());
  const auto got = device.download<std::uint32_t>(buffer, n + 4);
  EXPECT_EQ(got[0], n / 2 * (n - 1));
  for (std::uint32_t i = 0; i < n; ++i) ASSERT_EQ(got[i + 4], i);
  EXPECT_EQ(run->counts().thread_instructions % n, 0U);
}

TEST(Machine, RefusesWhatItCannotRunByNameAndLine) {
  const auto machine = std::move(*Machine::open(1 << 20));
  const auto refused = [&](const std::string& text) {
    const auto module =
        machine->load(".version 8.0\n.target sm_80\n.address_size 64\n" + text, "file.ptx");
    return module ? std::string("loaded") : to_string(module.error());
  };
  EXPECT_EQ(refused(".entry k()\n{\n.reg .b32 %r<3>;\nfrob.u32 %r1, %r2;\nret;\n}"),
            "file.ptx:7: 'frob.u32' is not supported");
  EXPECT_THAT(refused(".entry k() {\n.reg .b32 %r<3>; add.wibble.u32 %r1, %r2, %r2; ret; }"),
              HasSubstr("'.wibble' that is not supported"));
  EXPECT_THAT(
      refused(".entry k() {\n.reg .b32 %r<3>; .reg .b64 %d<2>; add.u32 %r1, %d1, %r2; ret; }"),
      HasSubstr("does not have the size of u32"));
  EXPECT_THAT(refused(".entry k() { tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [t, {%f1,%f2}]; }"),
              HasSubstr("file.ptx:4: "));
  // One kernel that cannot run does not keep the others from it.
  Device device(
      ".entry bad() { .reg .b64 %rd<2>; alloca.u64 %rd1, 8; ret; }\n.entry good() { ret; }");
  const auto bad = device.machine().find_kernel(device.module(), "bad");
  ASSERT_FALSE(bad);
  EXPECT_THAT(to_string(bad.error()), HasSubstr("test:4: 'alloca.u64' is not supported"));
  EXPECT_THAT(device.run("good", {1}, {32}, Parameters())->faults(), IsEmpty());
}

// Naive Fibonacci, by a function that keeps the first half in a variable whose address it passes
// down, and two that call each other; lanes nest differently deep.
constexpr const char* kRecursive = R"(
.func (.param .b32 out) fib(.param .b32 n, .param .b64 to);
.func store(.param .b32 n, .param .b64 to)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>;
ld.param.u32 %r1, [n]; ld.param.u64 %rd1, [to];
{ .param .b32 a; st.param.b32 [a], %r1; .param .b64 b; st.param.b64 [b], %rd1; .param .b32 c;
call (c), fib, (a, b); ld.param.b32 %r2, [c]; }
st.u32 [%rd1], %r2;
ret;
}
.func (.param .b32 out) fib(.param .b32 n, .param .b64 to)
{
.local .align 4 .b8 first[4];
.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
ld.param.u32 %r1, [n];
setp.lt.u32 %p1, %r1, 2;
@%p1 bra DONE;
mov.u64 %rd1, first; cvta.local.u64 %rd2, %rd1;
sub.u32 %r2, %r1, 1;
{ .param .b32 a; st.param.b32 [a], %r2; .param .b64 b; st.param.b64 [b], %rd2;
call store, (a, b); }
sub.u32 %r3, %r1, 2;
{ .param .b32 a; st.param.b32 [a], %r3; .param .b64 b; st.param.b64 [b], %rd2; .param .b32 c;
call (c), fib, (a, b); ld.param.b32 %r4, [c]; }
ld.local.u32 %r5, [first];
add.u32 %r1, %r4, %r5;
DONE:
st.param.b32 [out], %r1;
ret;
}
.func (.reg .b32 %out) gcd(.reg .b32 %a, .reg .b32 %b)
{
.reg .pred %p<3>; .reg .b32 %r<3>;
setp.eq.u32 %p1, %b, 0;
mov.u32 %out, %a;
@%p1 ret;
rem.u32 %a, %a, %b;
call (%out), gcd, (%b, %a);
ret;
}
.visible .entry k(.param .u64 buffer, .param .u32 depth)
{
.reg .b32 %r<20>; .reg .b64 %rd<9>;
mov.u32 %r1, %tid.x;
ld.param.u64 %rd1, [buffer]; ld.param.u32 %r4, [depth];
mul.wide.u32 %rd2, %r1, 8; add.u64 %rd3, %rd1, %rd2;
add.u32 %r5, %r1, %r4;
{ .param .b32 a; st.param.b32 [a], %r5; .param .b64 b; st.param.b64 [b], %rd3; .param .b32 c;
call (c), fib, (a, b); ld.param.b32 %r2, [c]; }
st.global.u32 [%rd3], %r2;
add.u32 %r6, %r1, 1; mul.lo.u32 %r6, %r6, 12; mov.u32 %r7, 360;
call (%r8), gcd, (%r6, %r7);
st.global.u32 [%rd3+4], %r8;
ret;
}
)";
TEST(Machine, FunctionsCallThemselves) {
  Device device(kRecursive);
  const std::uint64_t buffer = device.upload(std::vector<std::uint32_t>(32));
  const auto run = device.run("k", {1}, {16}, Parameters().add(buffer).add(0u));
  EXPECT_THAT(run->faults(), IsEmpty());
  const auto got = device.download<std::uint32_t>(buffer, 32);
  std::uint32_t a = 0, b = 1;
  for (std::uint32_t i = 0; i < 16; ++i) {
    EXPECT_EQ(got[2 * i], a) << i;
    EXPECT_EQ(got[2 * i + 1], std::gcd(12 * (i + 1), 360u)) << i;
    a = std::exchange(b, a + b);
  }
  const auto deep = device.run("k", {1}, {1}, Parameters().add(buffer).add(100'000u));
  ASSERT_THAT(deep->faults(), SizeIs(1));
  EXPECT_THAT(deep->faults()[0].about, HasSubstr("calls nest too deep"));
}

TEST(Machine, LaunchesAreChecked) {
  Device device(kernel(""));
  const std::uint64_t buffer = device.allocate(64);
  const Launch good = device.launch("k", {1}, {32}, Parameters().add(buffer).add(0u));
  const auto why = [&](auto change) {
    Launch launch = good;
    change(launch);
    const auto run = device.machine().prepare(launch);
    return run ? std::string("fine") : run.error().message;
  };
  EXPECT_EQ(why([](Launch&) {}), "fine");
  EXPECT_THAT(why([](Launch& l) { l.block = {2048}; }), HasSubstr("2048 threads"));
  EXPECT_THAT(why([](Launch& l) { l.grid.y = 70'000; }), HasSubstr("too many blocks"));
  EXPECT_THAT(why([](Launch& l) { l.grid.x = 0; }), HasSubstr("at least one"));
  EXPECT_THAT(why([](Launch& l) { l.parameters.pop_back(); }), HasSubstr("11 bytes of parameters"));
  EXPECT_THAT(why([](Launch& l) { l.dynamic_shared = kMaxSharedBytes; }),
              HasSubstr("shared memory"));
}

}  // namespace
}  // namespace partita::ptx
