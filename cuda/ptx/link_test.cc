#include "ptx/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ptx/testing/machine_fixture.h"

namespace partita::ptx {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kUnitHead = ".version 7.8\n.target sm_80\n.address_size 64\n";

// Two units with a variable of their own under one name, a function of each other's, and one that
// both define.
const std::string kOtherUnit = std::string(kUnitHead) + R"(
.global .u32 own = 40;
.visible .global .u32 shared_by_both = 2;
.weak .func (.param .b32 r) twice(.param .b32 a) {
  .reg .b32 %r; ld.param.b32 %r, [a]; add.u32 %r, %r, %r; st.param.b32 [r], %r; ret;
}
.visible .func (.param .b32 r) of_other() {
  .reg .b32 %r; ld.global.u32 %r, [own]; st.param.b32 [r], %r; ret;
})";
constexpr const char* kFirstUnit = R"(
.global .u32 own = 1;
.extern .global .u32 shared_by_both;
.extern .func (.param .b32 r) of_other();
.weak .func (.param .b32 r) twice(.param .b32 a) {
  .reg .b32 %r; ld.param.b32 %r, [a]; add.u32 %r, %r, %r; st.param.b32 [r], %r; ret;
}
.visible .entry sum(.param .u64 out) {
  .reg .b32 %r<5>; .reg .b64 %d;
  ld.param.u64 %d, [out];
  ld.global.u32 %r0, [own]; ld.global.u32 %r1, [shared_by_both];
  { .param .b32 v; call.uni (v), of_other, (); ld.param.b32 %r2, [v]; }
  add.u32 %r0, %r0, %r1; add.u32 %r0, %r0, %r2;
  { .param .b32 p; st.param.b32 [p], %r0; .param .b32 v; call.uni (v), twice, (p);
    ld.param.b32 %r3, [v]; }
  st.global.u32 [%d], %r3;
  ret;
}
)";

TEST(Link, NamesMeetAcrossUnitsAndOwnOnesStayApart) {
  Device device(kFirstUnit + kOtherUnit);
  const std::uint64_t out = device.allocate(4);
  const auto run = device.run("sum", {1}, {1}, Parameters().add(out));
  EXPECT_THAT(run->faults(), IsEmpty());
  EXPECT_EQ(device.download<std::uint32_t>(out, 1)[0], 2u * (1 + 2 + 40));
}

TEST(Link, OneVariableOfTwoSizesIsRefused) {
  const std::string unit = std::string(kUnitHead) + ".visible .global .b8 buffer[";
  const auto linked = parse_linked(unit + "8];\n" + unit + "16];\n");
  ASSERT_FALSE(linked);
  EXPECT_THAT(to_string(linked.error()), HasSubstr("'buffer' is defined with two sizes"));
}

// Each thread of a launch of depth n launches one of depth n - 1 and notes that it ran: when a
// child runs, all of its parent has ended, and siblings run in order.
constexpr const char* kLaunchTree = R"(
.extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2 (.param .b64 a,
  .param .align 4 .b8 b[12], .param .align 4 .b8 c[12], .param .b32 d);
.extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2 (.param .b64 a, .param .b64 b);
.global .u32 next = 0;
.visible .entry tree(.param .u64 notes, .param .u32 depth, .param .u64 stream,
    .param .u32 threads) {
  .reg .b32 %r<8>; .reg .b64 %d<6>; .reg .pred %p;
  ld.param.u64 %d0, [notes]; ld.param.u32 %r0, [depth]; ld.param.u64 %d4, [stream];
  ld.param.u32 %r5, [threads];
  atom.global.add.u32 %r1, [next], 1;
  mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d0, %d1;
  st.global.u32 [%d1], %r0;
  setp.eq.u32 %p, %r0, 0;
  @%p ret;
  sub.u32 %r2, %r0, 1;
  mov.u64 %d2, tree;
  { .param .b64 p0; st.param.b64 [p0], %d2;
    .param .align 4 .b8 p1[12]; st.param.b32 [p1], 1; st.param.b32 [p1+4], 1;
    st.param.b32 [p1+8], 1;
    .param .align 4 .b8 p2[12]; st.param.b32 [p2], %r5; st.param.b32 [p2+4], 1;
    st.param.b32 [p2+8], 1;
    .param .b32 p3; st.param.b32 [p3], 0;
    .param .b64 v; call.uni (v), __cudaCDP2GetParameterBufferV2, (p0, p1, p2, p3);
    ld.param.b64 %d3, [v]; }
  st.u64 [%d3], %d0; st.u32 [%d3+8], %r2; st.u64 [%d3+16], 0; st.u32 [%d3+24], %r5;
  { .param .b64 p0; st.param.b64 [p0], %d3; .param .b64 p1; st.param.b64 [p1], %d4;
    .param .b32 v; call.uni (v), __cudaCDP2LaunchDeviceV2, (p0, p1); }
  ret;
}
)";

std::shared_ptr<Run> run_tree(Device& device, std::uint64_t notes, std::uint32_t depth,
                              std::uint32_t threads, Checks checks = {}) {
  return device.run("tree", {1}, {threads},
                    Parameters().add(notes).add(depth).add(std::uint64_t{0}).add(threads), checks);
}

TEST(DeviceLaunch, ChildrenRunInOrderOnceTheirParentHasEnded) {
  Device device(kLaunchTree);
  const std::uint64_t notes = device.allocate(64);
  const auto run = run_tree(device, notes, 2, 2, {.uninitialised = true, .races = true});
  EXPECT_THAT(run->faults(), IsEmpty());
  // Two of depth 2; each child of them, two of depth 1, with its two children before its sibling.
  EXPECT_EQ(device.download<std::uint32_t>(notes, 14),
            (std::vector<std::uint32_t>{2, 2, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0}));
  EXPECT_GT(run->counts().thread_instructions, 14u * 8);
}

TEST(DeviceLaunch, NestsAsDeepAsCudaHasItAndNoDeeper) {
  Device device(kLaunchTree);
  const std::uint64_t notes = device.allocate(256);
  EXPECT_THAT(run_tree(device, notes, 23, 1)->faults(), IsEmpty());
  const auto faults = run_tree(device, notes, 24, 1)->faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_THAT(faults[0].about, HasSubstr("nest deeper than 24"));
}

TEST(DeviceLaunch, AFaultOfAChildIsTheLaunchs) {
  Device device(kLaunchTree);
  const std::uint64_t notes = device.allocate(2 * 4);  // room for two of four
  const auto faults = run_tree(device, notes, 3, 1)->faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, FaultKind::out_of_bounds);
}

TEST(DeviceLaunch, OfABlockThatNoDeviceTakesIsAFault) {
  Device device(kLaunchTree);
  const std::uint64_t notes = device.allocate(1 << 14);
  const auto run = device.run("tree", {1}, {1},
                              Parameters().add(notes).add(1u).add(std::uint64_t{0}).add(2000u));
  ASSERT_EQ(run->faults().size(), 1u);
  EXPECT_THAT(run->faults()[0].about, HasSubstr("2000 threads"));
}

// What the device runtime does beside launches: memory, copies behind kernels, errors.
TEST(DeviceLaunch, MemoryAndCopiesOfTheDeviceRuntime) {
  Device device(R"(
.extern .func (.param .b32 r) __cudaCDP2Malloc (.param .b64 a, .param .b64 b);
.extern .func (.param .b32 r) __cudaCDP2Free (.param .b64 a);
.extern .func (.param .b32 r) __cudaCDP2MemcpyAsync (.param .b64 a, .param .b64 b, .param .b64 c,
  .param .b32 k, .param .b64 s);
.visible .entry fill(.param .u64 at, .param .u64 out) {
  .reg .b32 %r; .reg .b64 %d<4>;
  ld.param.u64 %d0, [at]; ld.param.u64 %d2, [out];
  { .param .b64 p0; st.param.b64 [p0], %d0; .param .b64 p1; st.param.b64 [p1], 4000;
    .param .b32 v; call.uni (v), __cudaCDP2Malloc, (p0, p1); ld.param.b32 %r, [v]; }
  st.global.u32 [%d0+8], %r;
  ld.global.u64 %d1, [%d0];
  st.u32 [%d1+3996], 77;
  { .param .b64 p0; st.param.b64 [p0], %d2; .param .b64 p1; st.param.b64 [p1], %d1;
    .param .b64 p2; st.param.b64 [p2], 4000; .param .b32 p3; st.param.b32 [p3], 3;
    .param .b64 p4; st.param.b64 [p4], 0;
    .param .b32 v; call.uni (v), __cudaCDP2MemcpyAsync, (p0, p1, p2, p3, p4); }
  ret;
}
.visible .entry give_back(.param .u64 at) {
  .reg .b64 %d<2>;
  ld.param.u64 %d0, [at]; ld.global.u64 %d1, [%d0];
  { .param .b64 p0; st.param.b64 [p0], %d1; .param .b32 v; call.uni (v), __cudaCDP2Free, (p0); }
  ret;
}
)");
  const std::uint64_t at = device.allocate(16), out = device.allocate(4000);
  EXPECT_THAT(device.run("fill", {1}, {1}, Parameters().add(at).add(out))->faults(), IsEmpty());
  EXPECT_EQ(device.download<std::uint32_t>(out, 1000)[999], 77u);
  EXPECT_EQ(device.download<std::uint32_t>(at, 3)[2], 0u);
  EXPECT_THAT(device.run("give_back", {1}, {1}, Parameters().add(at))->faults(), IsEmpty());
  EXPECT_EQ(device.run("give_back", {1}, {1}, Parameters().add(at))->faults().size(), 1u);
}

}  // namespace
}  // namespace partita::ptx
