// Barrier objects in memory, copies that arrive at them, against a plain model and plain C++.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ptx/barrier_word.h"
#include "ptx/testing/machine_fixture.h"

namespace partita::ptx {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Words = std::vector<std::uint32_t>;

// As PTX words it.
struct Model {
  long expected, pending, bytes = 0;
  bool phase = false;
  void settle() {
    if (pending != 0 || bytes != 0) return;
    phase = !phase;
    pending = expected;
  }
};

TEST(Mbarrier, TheWordIsTheModel) {
  namespace word = barrier_word;
  std::mt19937 random(7);
  const auto below = [&](long n) { return static_cast<long>(random() % static_cast<unsigned>(n)); };
  for (int run = 0; run < 2000; ++run) {
    const long count = 1 + below(run % 3 == 0 ? 1'000'000 : 40);
    Model model{count, count};
    std::uint64_t now =
        static_cast<std::uint64_t>(count) * word::kPerCount + (word::kNoBytes << word::kBytesAt);
    for (int step = 0; step < 50 && model.expected > 0; ++step) {
      const bool waited_for = model.pending > 0;  // nobody else may arrive
      const long n = 1 + below(std::clamp(model.pending, 1L, 5L));
      switch (waited_for ? below(4) : 3) {
        case 0:
          now = word::arrived(now, static_cast<std::uint64_t>(n));
          model.pending -= n;
          model.settle();
          break;
        case 1:
          now = word::dropped(now, 1);
          --model.pending;
          --model.expected;
          model.settle();
          break;
        case 2:
          now = word::expecting(now, static_cast<std::uint64_t>(16 * n));
          model.bytes += 16 * n;
          break;
        default: {
          // Bytes may be there before they are expected.
          const long done = model.bytes > 0 ? model.bytes : 16;
          if (model.bytes < -1000) break;
          now = word::completed(now, static_cast<std::uint64_t>(done));
          model.bytes -= done;
          model.settle();
        }
      }
      ASSERT_EQ(now >> word::kPhaseAt != 0, model.phase) << run << " " << step;
      ASSERT_EQ(word::pending(now), static_cast<std::uint64_t>(model.pending));
      ASSERT_EQ(word::expected(now), static_cast<std::uint64_t>(model.expected));
    }
  }
}

// Threads in a ring: in every round each hands its number to the next one through shared memory
// and a barrier; `wait` says how they wait.
std::string ring(const std::string& wait) {
  return R"(
.visible .entry k(.param .u64 out, .param .u32 rounds)
{
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<9>;
.shared .align 8 .b64 bar; .shared .align 4 .b8 cells[2048];
ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [rounds];
mov.u32 %r2, %tid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, bar; mov.u32 %r5, cells;
setp.ne.u32 %p1, %r2, 0;
@%p1 bra MADE;
mbarrier.init.shared::cta.b64 [%r4], %r3;
MADE: bar.sync 0;
mov.u32 %r6, %r2;
mov.u32 %r7, 0;
add.u32 %r8, %r2, 1; rem.u32 %r8, %r8, %r3;
ROUND:
and.b32 %r9, %r7, 1; mul.lo.u32 %r10, %r9, 1024; add.u32 %r10, %r10, %r5;
shl.b32 %r11, %r2, 2; add.u32 %r11, %r11, %r10;
st.shared.u32 [%r11], %r6;
)" + wait +
         R"(
shl.b32 %r12, %r8, 2; add.u32 %r12, %r12, %r10;
ld.shared.u32 %r6, [%r12];
add.u32 %r7, %r7, 1;
setp.lt.u32 %p3, %r7, %r1;
@%p3 bra ROUND;
mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r6;
ret;
}
)";
}

TEST(Mbarrier, ThreadsMeetByStateAndByParity) {
  const std::string waits[] = {
      "mbarrier.arrive.shared.b64 %rd4, [%r4];\n"
      "W: mbarrier.test_wait.shared.b64 %p2, [%r4], %rd4; @!%p2 bra W;",
      "mbarrier.arrive.release.cta.shared::cta.b64 _, [%r4], 1;\n"
      "W: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [%r4], %r9, 1000;"
      " @!%p2 bra W;",
      // Bytes that one thread expects and another completes hold the phase up, too.
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r4], 16;\n"
      "mbarrier.arrive.noComplete.shared.b64 %rd4, [%r4], 1;\n"
      "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r4], 16;\n"
      "W: mbarrier.try_wait.shared.b64 %p2, [%r4], %rd4; @!%p2 bra W;"};
  for (const std::string& wait : waits)
    for (const std::uint32_t threads : {1u, 31u, 64u, 256u})
      for (const bool races : {false, true}) {
        Device device(ring(wait));
        constexpr std::uint32_t kRounds = 37;
        const std::uint64_t out = device.upload(Words(threads));
        const auto run = device.run("k", {1}, {threads}, Parameters().add(out).add(kRounds),
                                    {.uninitialised = races, .races = races});
        EXPECT_THAT(run->faults(), IsEmpty()) << wait << threads;
        const Words got = device.download<std::uint32_t>(out, threads);
        for (std::uint32_t i = 0; i < threads; ++i)
          ASSERT_EQ(got[i], (i + kRounds) % threads) << wait << threads;
      }
}

TEST(Mbarrier, WithoutWaitingItIsARace) {
  Device device(ring("mbarrier.arrive.shared.b64 %rd4, [%r4];"));
  const std::uint64_t out = device.upload(Words(64));
  const auto run = device.run("k", {1}, {64}, Parameters().add(out).add(3u), {.races = true});
  EXPECT_FALSE(run->faults().empty());
}

TEST(Mbarrier, CopiesArriveWithTheirBytes) {
  const std::string body = R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<9>;
.shared .align 8 .b64 bar; .shared .align 16 .b8 cells[512];
ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
mov.u32 %r2, %tid.x; mov.u32 %r4, bar; mov.u32 %r5, cells; mov.u32 %r6, %ntid.x;
setp.ne.u32 %p1, %r2, 0;
@%p1 bra MADE;
mbarrier.init.shared.b64 [%r4], %r6;
MADE: bar.sync 0;
mov.b64 %rd4, 0;
@%p1 bra MANY;
mov.u32 %r7, 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd1], %r7, [%r4];
mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %rd4, [%r4], %r7;
bra.uni WAIT;
MANY: mbarrier.arrive.shared.b64 %rd4, [%r4];
WAIT: mbarrier.test_wait.shared.b64 %p2, [%r4], %rd4; @!%p2 bra WAIT;
// The last 256 bytes: each thread its own 4 of 4, but the last two of them 2 and none.
shl.b32 %r8, %r2, 2; add.u32 %r9, %r8, %r5; cvt.u64.u32 %rd5, %r8; add.u64 %rd6, %rd1, %rd5;
sub.u32 %r10, %r6, %r2; sub.u32 %r10, %r10, 1; shl.b32 %r10, %r10, 1; min.u32 %r10, %r10, 4;
cp.async.ca.shared.global [%r9+256], [%rd6+256], 4, %r10;
cp.async.mbarrier.arrive.noinc.shared.b64 [%r4];
AGAIN: mbarrier.test_wait.parity.shared.b64 %p3, [%r4], 1; @!%p3 bra AGAIN;
xor.b32 %r11, %r2, 1; shl.b32 %r11, %r11, 2; add.u32 %r11, %r11, %r5;
ld.shared.u32 %r12, [%r11]; ld.shared.u32 %r13, [%r11+256];
add.u64 %rd7, %rd2, %rd5;
st.global.u32 [%rd7], %r12; st.global.u32 [%rd7+256], %r13;
ret;
}
)";
  Words in(128);
  for (std::uint32_t i = 0; i < 128; ++i) in[i] = 0x01010101u * (i + 1);
  Device device(body);
  const std::uint64_t from = device.upload(in), out = device.upload(Words(128));
  const auto run = device.run("k", {1}, {64}, Parameters().add(from).add(out),
                              {.uninitialised = true, .races = true});
  EXPECT_THAT(run->faults(), IsEmpty());
  in[126] &= 0xffff;
  in[127] = 0;
  const Words got = device.download<std::uint32_t>(out, 128);
  for (std::uint32_t i = 0; i < 128; ++i) ASSERT_EQ(got[i], in[i ^ 1]) << i;
  // A copy from behind the end is found, at its line.
  const auto beyond = device.run("k", {1}, {64}, Parameters().add(from + 384).add(out));
  ASSERT_FALSE(beyond->faults().empty());
  EXPECT_THAT(to_text(beyond->faults().front()), HasSubstr("cp.async.bulk"));
}

TEST(Mbarrier, WhatIsNotThereIsRefusedByName) {
  const auto refused = [](const std::string& line) {
    auto machine = *Machine::open(1 << 20);
    const auto module = machine->load(
        ".version 8.0\n.target sm_90\n.address_size 64\n.entry k() {\n.reg .b32 %r<3>; "
        ".reg .b64 %rd<3>; .reg .pred %p<2>;\n" +
            line + "\nret; }",
        "t.ptx");
    EXPECT_FALSE(module) << line;
    return module ? std::string() : to_string(module.error());
  };
  EXPECT_THAT(refused("mbarrier.wobble.shared.b64 [%r1], 1;"), HasSubstr("t.ptx:6"));
  EXPECT_THAT(refused("mbarrier.init.global.b64 [%rd1], 1;"), HasSubstr("shared memory"));
  EXPECT_THAT(refused("mbarrier.arrive.expect_tx.shared.b64 %rd1, [%r1];"),
              HasSubstr("number of bytes"));
  EXPECT_THAT(refused("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r2;"),
              HasSubstr("not supported"));
}

}  // namespace
}  // namespace partita::ptx
