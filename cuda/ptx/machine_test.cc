#include "ptx/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "ptx/testing/machine_fixture.h"

namespace partita::ptx {
namespace {

using testing::HasSubstr;

TEST(Machine, AddsVectors) {
  Device device(R"(
.visible .entry vadd(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<11>;
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u32 %r2, [n];
  mov.u32 %r3, %ntid.x; mov.u32 %r4, %ctaid.x; mov.u32 %r5, %tid.x;
  mad.lo.s32 %r1, %r4, %r3, %r5;
  setp.ge.s32 %p1, %r1, %r2;
  @%p1 bra DONE;
  cvta.to.global.u64 %rd4, %rd1;
  mul.wide.s32 %rd5, %r1, 4;
  add.s64 %rd6, %rd4, %rd5;
  cvta.to.global.u64 %rd7, %rd2;
  add.s64 %rd8, %rd7, %rd5;
  ld.global.f32 %f1, [%rd8];
  ld.global.f32 %f2, [%rd6];
  add.f32 %f3, %f2, %f1;
  add.s64 %rd10, %rd3, %rd5;
  st.global.f32 [%rd10], %f3;
DONE:
  ret;
})");
  const std::uint32_t n = 1000;
  std::vector<float> a(n), b(n);
  for (std::uint32_t i = 0; i < n; ++i)
    a[i] = static_cast<float>(i), b[i] = 0.5F * static_cast<float>(i);
  const auto at_a = device.upload(a), at_b = device.upload(b);
  const auto at_c = device.allocate(n * 4);
  const auto run =
      device.run("vadd", {4}, {256}, Parameters().add(at_a).add(at_b).add(at_c).add(n));
  EXPECT_THAT(run->faults(), testing::IsEmpty());
  const auto c = device.download<float>(at_c, n);
  for (std::uint32_t i = 0; i < n; ++i) EXPECT_EQ(c[i], a[i] + b[i]) << i;
}

TEST(Machine, ReducesWithShufflesSharedMemoryAndAtomics) {
  Device device(R"(
.visible .entry sum(.param .u64 in, .param .u64 out, .param .u32 n)
{
  .shared .align 4 .b8 part[128];
  .reg .pred %p<6>; .reg .b32 %r<40>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x;
  mad.lo.u32 %r5, %r3, %r4, %r2;
  mov.u32 %r6, 0;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra NONE;
  mul.wide.u32 %rd3, %r5, 4;
  add.u64 %rd4, %rd1, %rd3;
  ld.global.u32 %r6, [%rd4];
NONE:
  shfl.sync.down.b32 %r7, %r6, 16, 31, -1; add.u32 %r6, %r6, %r7;
  shfl.sync.down.b32 %r7, %r6, 8, 31, -1; add.u32 %r6, %r6, %r7;
  shfl.sync.down.b32 %r7|%p2, %r6, 4, 31, -1; add.u32 %r6, %r6, %r7;
  shfl.sync.bfly.b32 %r7, %r6, 2, 31, -1; add.u32 %r6, %r6, %r7;
  shfl.sync.bfly.b32 %r7, %r6, 1, 31, -1; add.u32 %r6, %r6, %r7;
  and.b32 %r8, %r2, 31;
  shr.u32 %r9, %r2, 5;
  setp.ne.u32 %p3, %r8, 0;
  @%p3 bra SYNC;
  shl.b32 %r10, %r9, 2;
  mov.u32 %r11, part;
  add.u32 %r12, %r11, %r10;
  st.shared.u32 [%r12], %r6;
SYNC:
  bar.sync 0;
  setp.ne.u32 %p4, %r2, 0;
  @%p4 bra DONE;
  mov.u32 %r13, 0;
  mov.u32 %r14, part;
  shr.u32 %r15, %r4, 5;
LOOP:
  ld.shared.u32 %r16, [%r14];
  add.u32 %r13, %r13, %r16;
  add.u32 %r14, %r14, 4;
  sub.u32 %r15, %r15, 1;
  setp.ne.u32 %p5, %r15, 0;
  @%p5 bra LOOP;
  red.global.add.u32 [%rd2], %r13;
DONE:
  ret;
})");
  std::vector<std::uint32_t> in(5000);
  std::uint32_t expected = 0;
  for (std::uint32_t i = 0; i < in.size(); ++i) expected += in[i] = i * 2654435761u;
  const auto at = device.upload(in);
  const auto out = device.upload(std::vector<std::uint32_t>(1));
  const auto run =
      device.run("sum", {20}, {256}, Parameters().add(at).add(out).add(std::uint32_t{5000}),
                 {.uninitialised = true, .races = true});
  EXPECT_THAT(run->faults(), testing::IsEmpty());
  EXPECT_EQ(device.download<std::uint32_t>(out, 1)[0], expected);
}

// As on GPUs: programs put a status beside a value and store both at once.
TEST(Machine, AStrongVectorIsOneAccess) {
  Device device(R"(
.visible .entry write(.param .u64 at, .param .u64 wrong)
{
  .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [at];
  mov.u32 %r1, 0;
L: add.u32 %r1, %r1, 1;
  st.relaxed.gpu.global.v2.u32 [%rd1], {%r1, %r1};
  setp.lt.u32 %p1, %r1, 300000;
  @%p1 bra L;
  ret;
}
.visible .entry read(.param .u64 at, .param .u64 wrong)
{
  .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [at]; ld.param.u64 %rd2, [wrong];
  mov.u32 %r1, 0; mov.u32 %r4, 0;
L: add.u32 %r1, %r1, 1;
  ld.relaxed.gpu.global.v2.u32 {%r2, %r3}, [%rd1];
  setp.ne.u32 %p1, %r2, %r3;
  @%p1 add.u32 %r4, %r4, 1;
  setp.lt.u32 %p2, %r1, 300000;
  @%p2 bra L;
  st.global.u32 [%rd2], %r4;
  ret;
})");
  constexpr std::uint64_t kBoth = 0x1'0000'0001;
  const auto at = device.upload(std::vector<std::uint64_t>(1));
  const auto wrong = device.upload(std::vector<std::uint32_t>(1));
  auto* const word = reinterpret_cast<std::uint64_t*>(device.machine().writable(at, 8)->data());
  const auto beside = [&](const char* kernel, const auto& step) {
    std::atomic<bool> ended = false;
    std::thread other([&] {
      for (std::uint64_t round = 0; !ended; ++round) step(round);
    });
    const auto run = device.run(kernel, {1}, {1}, Parameters().add(at).add(wrong));
    ended = true;
    other.join();
    EXPECT_THAT(run->faults(), testing::IsEmpty());
  };
  std::uint64_t torn = 0;
  beside("write", [&](std::uint64_t) {
    torn += __atomic_load_n(word, __ATOMIC_ACQUIRE) % kBoth != 0 ? 1 : 0;
  });
  EXPECT_EQ(torn, 0u);
  beside("read", [&](std::uint64_t round) {
    __atomic_store_n(word, (round & 0xffff'ffff) * kBoth, __ATOMIC_RELEASE);
  });
  EXPECT_EQ(device.download<std::uint32_t>(wrong, 1)[0], 0u);
}

}  // namespace
}  // namespace partita::ptx
