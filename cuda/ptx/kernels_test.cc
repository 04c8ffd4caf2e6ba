// Kernels with one fault each, and right ones that look like them: what all checks say of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "ptx/testing/machine_fixture.h"

namespace partita::ptx {
namespace {

// %r1: thread, %r3: its offset in words, %r4: tile, %r5: tile[thread], %r6: lane, %r7: warp,
// %r8: two words (a lock or flag, and what it guards), %rd1: 4096 zeros, %rd3: their [thread of the
// grid], %rd5: 64 words that nobody wrote. The words of %r8 are 0 before the body.
std::string sample_kernel(const std::string& body) {
  return R"(
.visible .entry k(.param .u64 zeros, .param .u64 fresh)
{
.shared .align 16 .b8 tile[1024];
.shared .align 16 .b8 guard[16];
.shared .align 16 .b8 next[1024];
.reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<60>; .reg .b64 %rd<20>;
ld.param.u64 %rd1, [zeros]; ld.param.u64 %rd5, [fresh];
mov.u32 %r1, %tid.x; shl.b32 %r3, %r1, 2;
mov.u32 %r4, tile; add.u32 %r5, %r4, %r3;
and.b32 %r6, %r1, 31; shr.u32 %r7, %r1, 5; mov.u32 %r8, guard;
mov.u32 %r50, %ctaid.x; mov.u32 %r51, %ntid.x; mad.lo.u32 %r9, %r50, %r51, %r1;
mul.wide.u32 %rd2, %r9, 4; add.u64 %rd3, %rd1, %rd2;
mov.u32 %r52, 0;
setp.lt.u32 %p8, %r1, 4;
@%p8 add.u32 %r53, %r8, %r3;
@%p8 st.shared.u32 [%r53], %r52;
bar.sync 0;
)" + body +
         "\nE: ret;\n}\n";
}

struct Sample {
  const char* what;
  const char* kind;  // of the fault; none
  std::string body;
  std::uint32_t threads = 64, blocks = 1;
};

std::string found(const Sample& sample) {
  Device device(sample_kernel(sample.body));
  const std::uint64_t zeros = device.upload(std::vector<std::uint32_t>(4096));
  const std::uint64_t fresh = device.allocate(256);
  const Checks all{.uninitialised = true, .races = true, .barriers = true, .global_races = true};
  const auto run =
      device.run("k", {sample.blocks}, {sample.threads}, Parameters().add(zeros).add(fresh), all);
  if (run == nullptr) return "not run";
  std::string kinds;  // a race can show as a read before anybody wrote, too
  for (const Fault& fault : run->faults())
    if (kinds.find(to_string(fault.kind)) == std::string::npos)
      kinds += to_string(fault.kind) + " ";
  return kinds.empty() ? "none" : kinds;
}

const std::string kWrite = "st.shared.u32 [%r5], %r1;";
const std::string kBarrier = "bar.sync 0;";
const std::string kNeighbour = "xor.b32 %r10, %r5, 4; ld.shared.u32 %r11, [%r10];";
const std::string kOtherWarp = "xor.b32 %r10, %r5, 128; ld.shared.u32 %r11, [%r10];";
const std::string kCount =
    "ld.shared.u32 %r20, [%r8+4]; add.u32 %r20, %r20, 1; st.shared.u32 [%r8+4], %r20;";
const std::string kTake =
    "L: atom.shared.cas.b32 %r21, [%r8], 0, 1; setp.ne.u32 %p1, %r21, 0; @%p1 bra L;";
const std::string kFence = "membar.cta;";
const std::string kGive = "atom.shared.exch.b32 %r22, [%r8], 0;";
// Warp 0 makes something, the others wait for a flag.
const std::string kSplit = "setp.ne.u32 %p2, %r7, 0; @%p2 bra C;";
const std::string kMake =
    "setp.ne.u32 %p3, %r1, 0; @%p3 bra E; mov.u32 %r23, 7; st.shared.u32 [%r8+4], %r23;";
const std::string kFlag = "mov.u32 %r24, 1; st.volatile.shared.u32 [%r8], %r24;";
const std::string kAwait =
    "bra E; C: ld.volatile.shared.u32 %r25, [%r8]; setp.eq.u32 %p4, %r25, 0; @%p4 bra C;";
const std::string kUse = "ld.shared.u32 %r26, [%r8+4];";
const std::string kCopy = "cp.async.ca.shared.global [%r5], [%rd3], 4;";
const std::string kCommit = "cp.async.commit_group;";
const std::string kWaitAll = "cp.async.wait_all;";
const std::string kRead = "ld.shared.u32 %r11, [%r5];";
const std::string kHalves = "setp.lt.u32 %p1, %r6, 16; @%p1 bra A;";
const std::string kInit =
    "setp.ne.u32 %p5, %r1, 0; @%p5 bra I; mbarrier.init.shared.b64 [%r8+8], 64; I: bar.sync 0;";
const std::string kArrive = "mbarrier.arrive.shared.b64 %rd9, [%r8+8];";
const std::string kWait = "W: mbarrier.try_wait.shared.b64 %p6, [%r8+8], %rd9; @!%p6 bra W;";

// Members: the lane's tile of 16 or 8 lanes.
const std::string kTile16 =
    "and.b32 %r30, %r6, 16; mov.u32 %r31, 0xffff; shl.b32 %r31, %r31, %r30;";
const std::string kTile8 = "and.b32 %r30, %r6, 24; mov.u32 %r31, 0xff; shl.b32 %r31, %r31, %r30;";
const std::string kMeet = "bar.warp.sync %r31;";
std::string of_lane(int across) {  // what the lane with this bit turned wrote
  return "xor.b32 %r10, %r5, " + std::to_string(4 * across) + "; ld.shared.u32 %r11, [%r10];";
}
const std::string kFirst20 = "setp.ge.u32 %p1, %r6, 20; @%p1 exit;";
const std::string kStore = "st.global.u32 [%rd3], %r10;";
// Block 0 makes something and sets a flag, the others wait for it.
const std::string kBlocks =
    "setp.ne.u32 %p3, %r1, 0; @%p3 exit; setp.ne.u32 %p2, %r50, 0; @%p2 bra C;";
const std::string kTell = "mov.u32 %r24, 1; st.volatile.global.u32 [%rd1+4096], %r24;";
const std::string kHear =
    "bra E; C: ld.volatile.global.u32 %r25, [%rd1+4096]; setp.eq.u32 %p4, %r25, 0; @%p4 bra C;";

std::string reduction(const std::string& load, const std::string& store, const std::string& sync) {
  std::string text;
  for (const char* by : {"64", "32", "16", "8", "4"}) {
    const std::string at = std::string("[%r5+") + by + "]";
    text += "ld." + load + "shared.u32 %r30, " + at + "; " + sync + "ld." + load +
            "shared.u32 %r31, [%r5]; add.u32 %r31, %r31, %r30; " + sync + "st." + store +
            "shared.u32 [%r5], %r31; " + sync;
  }
  return text;
}

// The upper half of each warp goes past what comes before J.
const std::string kPast = "mov.u32 %r10, %r1; setp.ge.u32 %p1, %r6, 16; @%p1 bra J;";
const std::string kRest = "J: st.global.u32 [%rd3], %r10;";
const std::string kAsk = "shfl.sync.idx.b32 %r10, %r1, 3, 31, -1;";
const std::string kWarp = "bar.warp.sync -1;";
// Rounds of a loop in which ever fewer lanes come to the shuffle.
const std::string kFewer =
    "mov.u32 %r10, %r1; mov.u32 %r12, 16; L: setp.ge.u32 %p1, %r6, %r12; @%p1 bra J;"
    "shfl.sync.down.b32 %r11, %r10, %r12, 31, -1; add.u32 %r10, %r10, %r11; J: "
    "shr.u32 %r12, %r12, 1; setp.ne.u32 %p2, %r12, 0; @%p2 bra L;";
// Lanes of the warp that are done leave this loop for where `to` says, one in each round.
std::string rounds(const std::string& sync, const std::string& to) {
  return "mov.u32 %r10, 0; L: setp.ge.u32 %p1, %r10, %r6; @%p1 bra " + to + ";" + sync +
         "add.u32 %r10, %r10, 1; bra L;";
}

const std::vector<Sample> kFaulty = {
    {"a neighbour's element without a barrier", "race", kWrite + kNeighbour},
    {"read, then written by the neighbour", "race",
     kWrite + kBarrier + kNeighbour + "st.shared.u32 [%r5], %r11;"},
    {"another warp's element behind a barrier of the warp", "race",
     kWrite + "bar.warp.sync -1;" + kOtherWarp},
    {"two values for one word", "race", "st.shared.u32 [%r4], %r1;"},
    {"a counter of all without a lock", "race", kCount},
    {"one thread counts without the lock", "race",
     "setp.eq.u32 %p7, %r1, 40; @%p7 bra N;" + kTake + kFence + kCount + kFence + kGive +
         "bra E; N:" + kCount},
    {"a lock that is given back without a fence", "race", kTake + kCount + kGive},
    {"two locks around one counter", "race",
     "and.b32 %r40, %r1, 1; mul.lo.u32 %r40, %r40, 8; add.u32 %r41, %r8, %r40;"
     "L: atom.shared.cas.b32 %r21, [%r41], 0, 1; setp.ne.u32 %p1, %r21, 0; @%p1 bra L;" +
         kFence + kCount + kFence + "atom.shared.exch.b32 %r22, [%r41], 0;"},
    {"a flag without a fence", "race", kSplit + kMake + kFlag + kAwait + kUse},
    {"a flag before what it tells of", "race",
     kSplit + "setp.ne.u32 %p3, %r1, 0; @%p3 bra E;" + kFence + kFlag +
         "mov.u32 %r23, 7; st.shared.u32 [%r8+4], %r23;" + kAwait + kUse},
    {"a plain store beside atomics", "race",
     "atom.shared.add.u32 %r20, [%r8], 1; setp.ne.u32 %p1, %r1, 9; @%p1 bra E;"
     "st.shared.u32 [%r8], %r1;"},
    {"a plain read beside atomics", "race",
     "atom.shared.add.u32 %r20, [%r8], 1; ld.shared.u32 %r21, [%r8];"},
    {"zeroed by one thread while others add", "race",
     "setp.ne.u32 %p1, %r1, 0; @%p1 bra N; st.shared.u32 [%r4], %r1;"
     "N: red.shared.add.u32 [%r4], 1;"},
    {"one byte from two threads", "race",
     "shr.u32 %r10, %r1, 1; add.u32 %r10, %r10, %r4; cvt.u16.u32 %rs1, %r1;"
     "st.shared.u8 [%r10], %rs1;"},
    {"a pair that reaches into the neighbour's", "race",
     "shl.b32 %r10, %r1, 2; and.b32 %r10, %r10, 0xfffffff8; add.u32 %r10, %r10, %r4;"
     "st.shared.v2.u32 [%r10], {%r1, %r6};"},
    {"a reduction of a warp without barriers of it", "race",
     kWrite + kBarrier + "setp.ge.u32 %p1, %r1, 32; @%p1 bra E;" + reduction("", "", "")},
    {"sums of warps read without a barrier", "race",
     "shl.b32 %r10, %r7, 2; add.u32 %r10, %r10, %r4; setp.ne.u32 %p1, %r6, 0; @%p1 bra N;"
     "st.shared.u32 [%r10], %r7; N: ld.shared.u32 %r11, [%r4+4];"},
    {"two buffers with a barrier too few", "race",
     kWrite + kBarrier + kOtherWarp + "st.shared.u32 [%r5+512], %r1; " + kOtherWarp +
         "st.shared.u32 [%r5], %r11;"},
    {"halves of the block with barriers of their own", "race",
     kWrite + "shr.u32 %r12, %r1, 6; add.u32 %r12, %r12, 1; bar.sync %r12, 64;"
              "xor.b32 %r10, %r5, 256; ld.shared.u32 %r11, [%r10];",
     128},
    {"a consumer that only arrives", "race",
     kSplit + kWrite +
         "bar.sync 1, 64; bra E; C: bar.arrive 1, 64; xor.b32 %r10, %r5, 128;"
         "ld.shared.u32 %r11, [%r10];"},
    {"the next round before others have read", "race",
     "mov.u32 %r40, 0; R: add.u32 %r41, %r1, %r40; st.shared.u32 [%r5], %r41; bar.sync 0;" +
         kOtherWarp + "add.u32 %r40, %r40, 1; setp.lt.u32 %p1, %r40, 3; @%p1 bra R;"},
    {"a copy read before it was waited for", "race", kCopy + kCommit + kRead + kWaitAll},
    {"the last group read when all but one are there", "race",
     kCopy + kCommit + "cp.async.ca.shared.global [%r5+512], [%rd3], 4;" + kCommit +
         "cp.async.wait_group 1; ld.shared.u32 %r11, [%r5+512];" + kWaitAll},
    {"a neighbour's copy without a barrier", "race", kCopy + kWaitAll + kNeighbour},
    {"a barrier, and no wait", "race", kCopy + kCommit + kBarrier + kNeighbour + kWaitAll},
    {"a copy over what others still read", "race",
     kWrite + kBarrier + kNeighbour + kCopy + kWaitAll},
    {"copies that arrive, nobody waits", "race",
     kInit + kCopy + "cp.async.mbarrier.arrive.noinc.shared.b64 [%r8+8];" + kOtherWarp},
    {"shared memory that nobody wrote", "uninitialised", "ld.shared.u32 %r10, [%r5];"},
    {"half of it written", "uninitialised",
     "setp.lt.u32 %p1, %r1, 32; @%p1 st.shared.u32 [%r5], %r1; bar.sync 0;" + kRead},
    {"beside the tile's border", "uninitialised",
     kWrite + kBarrier + "ld.shared.u32 %r10, [%r5+4];"},
    {"an atomic on what nobody wrote", "uninitialised", "atom.shared.add.u32 %r10, [%r4], 1;"},
    {"global memory that nobody wrote", "uninitialised",
     "mul.wide.u32 %rd6, %r6, 4; add.u64 %rd6, %rd6, %rd5; ld.global.u32 %r10, [%rd6];"},
    {"lanes that return before the barrier", "divergence",
     "setp.ge.u32 %p1, %r1, 50; @%p1 exit; bar.sync 0;"},
    {"barriers in both branches", "divergence", kHalves + "bar.sync 0; bra E; A: bar.sync 0;"},
    {"a count that is no multiple of 32", "divergence", "bar.sync 1, 40;", 40},
    {"counts that differ", "divergence", kSplit + "bar.sync 1, 64; bra E; C: bar.sync 1, 96;"},
    {"an exchange without itself", "divergence", "shfl.sync.idx.b32 %r10, %r1, 0, 31, 0xffff;", 32},
    {"members that differ", "divergence",
     "mov.u32 %r10, -1; setp.lt.u32 %p1, %r6, 8; @%p1 mov.u32 %r10, 0xffff;"
     "vote.sync.any.pred %p2, %p1, %r10;",
     32},
    {"an exchange that half of the warp never comes to", "deadlock",
     kHalves + "bar.sync 0; bra E; A: shfl.sync.idx.b32 %r10, %r1, 0, 31, -1;", 32},
    {"a barrier of the warp that half of it never comes to", "deadlock",
     kHalves + "bar.sync 0; bra E; A: bar.warp.sync -1;", 32},
    {"a shuffle that half of the warp goes past", "divergence", kPast + kAsk + kRest, 32},
    {"a barrier of the warp that half of it goes past", "divergence",
     kPast + "bar.warp.sync 0xfffffff;" + kRest, 32},
    {"a vote that half of the warp goes past", "divergence",
     kPast + "vote.sync.ballot.b32 %r10, %p1, -1;" + kRest, 32},
    {"a sum that half of the warp goes past", "divergence",
     kPast + "redux.sync.add.u32 %r10, %r1, -1;" + kRest, 32},
    {"a match that half of the warp goes past", "divergence",
     kPast + "match.any.sync.b32 %r10, %r1, -1;" + kRest, 32},
    {"a neighbour's element behind a barrier of half of the warp", "divergence",
     kWrite + kPast + kWarp + of_lane(16) + kRest, 32},
    {"an exchange that some go past where others have returned", "divergence",
     "setp.ge.u32 %p2, %r6, 28; @%p2 bra E;" + kPast + kAsk + kRest, 64},
    {"an exchange that half of the warp does something else for", "divergence",
     "setp.ge.u32 %p1, %r6, 16; @%p1 bra H;" + kAsk + "bra J; H: add.u32 %r10, %r1, 1;" + kRest,
     32},
    {"an exchange that half of the warp goes past, and more behind it", "divergence",
     kPast + kAsk + "J: setp.gt.u32 %p2, %r6, 3; @%p2 bra E;" + kStore, 32},
    {"rounds of a loop that fewer and fewer lanes take part in", "divergence", kFewer, 32},
    {"rounds that fewer lanes take part in, and a store", "divergence", kFewer + kStore, 32},
    {"a barrier of the warp for one lane", "divergence",
     "setp.ne.u32 %p1, %r6, 0; @%p1 bra J;" + kWarp + kRest, 32},
    {"over the end of an array into the next", "out of bounds",
     "add.u32 %r10, %r5, 960; st.shared.u32 [%r10], %r1;"},
    {"before the begin of an array", "out of bounds",
     "mov.u32 %r10, next; add.u32 %r10, %r10, %r3; st.shared.u32 [%r10+-4], %r1;"},
    {"one word from all blocks", "race", "st.global.u32 [%rd1], %r9;", 64, 4},
    {"what another block writes", "race",
     "st.global.u32 [%rd3], %r9; ld.global.u32 %r10, [%rd3+256];", 64, 4},
    {"a counter in global memory without atomics", "race",
     "ld.global.u32 %r10, [%rd1]; add.u32 %r10, %r10, 1; st.global.u32 [%rd1], %r10;"},
    {"a neighbour's word in global memory without a barrier", "race",
     "st.global.u32 [%rd3], %r9; xor.b64 %rd6, %rd3, 4; ld.global.u32 %r10, [%rd6];"},
    {"halves of a warp that meet apart", "race",
     kHalves + "bar.warp.sync 0xffff0000;" + of_lane(16) + "bra E; A:" + kWrite +
         "bar.warp.sync 0xffff;",
     32},
    {"tiles that meet at once, and the other's element", "race",
     kTile16 + kWrite + kMeet + of_lane(16), 32},
    {"small tiles, and the neighbour tile's element", "race", kTile8 + kWrite + kMeet + of_lane(8)},
    {"halves that exchange apart", "race",
     kHalves + "shfl.sync.idx.b32 %r12, %r1, 16, 31, 0xffff0000;" + of_lane(16) +
         "bra E; A:" + kWrite + "shfl.sync.idx.b32 %r12, %r1, 0, 31, 0xffff;",
     32},
    {"tiles that meet after the write of one that does not", "race",
     "setp.eq.u32 %p1, %r6, 20; @%p1 bra A; mov.u32 %r31, 0xffefffff;" + kMeet + of_lane(8) +
         "bra E; A:" + kWrite,
     32},
    {"a neighbour's word in global memory, a barrier of the warp before both", "race",
     "bar.warp.sync -1; st.global.u32 [%rd3], %r9; xor.b64 %rd6, %rd3, 4;"
     "ld.global.u32 %r10, [%rd6]; bar.warp.sync -1;",
     32},
    {"another tile's word in global memory", "race",
     kTile8 + "st.global.u32 [%rd3], %r9;" + kMeet +
         "xor.b64 %rd6, %rd3, 32; ld.global.u32 %r10, [%rd6];",
     32},
    {"bytes of global memory without a barrier", "race",
     "cvt.u64.u32 %rd6, %r1; add.u64 %rd6, %rd1, %rd6; cvt.u16.u32 %rs1, %r1;"
     "st.global.u8 [%rd6], %rs1; xor.b64 %rd6, %rd6, 32; ld.global.u8 %rs2, [%rd6];"},
    {"a word of global memory beside bytes of it", "race",
     "cvt.u64.u32 %rd6, %r1; add.u64 %rd6, %rd1, %rd6; cvt.u16.u32 %rs1, %r1;"
     "st.global.u8 [%rd6+1], %rs1; ld.global.u32 %r10, [%rd1];"},
    {"made after having arrived", "race",
     kSplit + "bar.arrive 1, 64;" + kWrite + "bra E; C: bar.sync 1, 64;" + kOtherWarp},
    {"made after having arrived at a barrier in memory", "race",
     kInit + kArrive + kWrite + kWait + kOtherWarp},
    {"the next round, with one barrier in memory instead of two", "race",
     kInit + "mov.u32 %r40, 0; R: st.shared.u32 [%r5], %r40;" + kArrive + kWait + kOtherWarp +
         "add.u32 %r40, %r40, 1; setp.lt.u32 %p1, %r40, 3; @%p1 bra R;"},
    {"made in global memory after having arrived", "race",
     kSplit + "bar.arrive 1, 64; st.global.u32 [%rd3], %r9; bra E; C: bar.sync 1, 64;"
              "xor.b64 %rd6, %rd3, 128; ld.global.u32 %r10, [%rd6];"},
    {"a flag whose fence came before what it tells of", "race",
     kBlocks + "st.global.u32 [%rd1], %r24; membar.gl; st.global.u32 [%rd1+64], %r24;" + kTell +
         kHear + "ld.global.u32 %r26, [%rd1+64];",
     64, 2},
    {"stored, from a lane that ended", "uninitialised",
     kFirst20 + "shfl.sync.idx.b32 %r10, %r1, 25, 31, -1;" + kStore},
    {"added up, from lanes that ended", "uninitialised",
     kFirst20 +
         "mov.u32 %r10, %r1; shfl.sync.down.b32 %r11, %r10, 16, 31, -1;"
         "add.u32 %r10, %r10, %r11; shfl.sync.down.b32 %r11, %r10, 8, 31, -1;"
         "add.u32 %r10, %r10, %r11; setp.eq.u32 %p2, %r6, 0; @%p2 " +
         kStore},
    {"asked for, from a lane outside of the tile", "uninitialised",
     kTile16 +
         "shfl.sync.bfly.b32 %r10, %r1, 16, 31, %r31; setp.lt.u32 %p2, %r10, 9;"
         "@%p2 bra E;" +
         kWrite},
    {"an address of a lane that was never there", "uninitialised",
     "shfl.sync.idx.b32 %r10, %r5, 12, 31, -1; ld.shared.u32 %r11, [%r10];", 40},
};
const std::string kWarpZero = "setp.ge.u32 %p1, %r1, 32; @%p1 bra E;";
const std::string kTiles =
    kCopy + kCommit + "cp.async.ca.shared.global [%r5+512], [%rd3], 4;" + kCommit;
const std::vector<Sample> kRight = {
    {"a barrier between", "none", kWrite + kBarrier + kNeighbour},
    {"one's own element", "none", kWrite + kRead + kWrite},
    {"a barrier of the warp between", "none", kWrite + "bar.warp.sync -1;" + kNeighbour},
    {"one value from all", "none", "mov.u32 %r10, 5; st.shared.u32 [%r4], %r10;"},
    {"atomics alone", "none", "atom.shared.add.u32 %r10, [%r8], %r1;"},
    {"a lock with fences", "none", kTake + kFence + kCount + kFence + kGive},
    {"a lock with a fence before it is given back", "none", kTake + kCount + kFence + kGive},
    {"a lock by acquire and release", "none",
     "L: atom.acquire.cta.shared.cas.b32 %r21, [%r8], 0, 1; setp.ne.u32 %p1, %r21, 0;"
     "@%p1 bra L;" +
         kCount + "atom.release.cta.shared.exch.b32 %r22, [%r8], 0;"},
    {"a lock for one lane of each warp", "none",
     "setp.ne.u32 %p3, %r6, 0; @%p3 bra E;" + kTake + kFence + kCount + kFence + kGive, 128},
    {"a ticket lock", "none",
     "atom.shared.add.u32 %r20, [%r8+8], 1; L: ld.volatile.shared.u32 %r21, [%r8];"
     "setp.ne.u32 %p1, %r20, %r21; @%p1 bra L;" +
         kFence +
         "ld.shared.u32 %r22, [%r8+4]; add.u32 %r22, %r22, 1;"
         "st.shared.u32 [%r8+4], %r22;" +
         kFence + "add.u32 %r21, %r21, 1; st.volatile.shared.u32 [%r8], %r21;"},
    {"a flag behind a fence", "none", kSplit + kMake + kFence + kFlag + kAwait + kFence + kUse},
    {"a flag behind a fence, used at once", "none", kSplit + kMake + kFence + kFlag + kAwait + kUse,
     128},
    {"a flag by release and acquire", "none",
     kSplit + kMake +
         "mov.u32 %r24, 1; st.release.cta.shared.u32 [%r8], %r24; bra E;"
         "C: ld.acquire.cta.shared.u32 %r25, [%r8]; setp.eq.u32 %p4, %r25, 0;"
         "@%p4 bra C;" +
         kUse},
    {"a flag for what a whole warp made", "none",
     kSplit + kWrite + "bar.warp.sync -1; setp.ne.u32 %p3, %r6, 0; @%p3 bra E;" + kFence + kFlag +
         kAwait + kOtherWarp},
    {"one lane waits for the flag, then all of its warp read", "none",
     kSplit + kMake + kFence + kFlag +
         "bra E; C: setp.ne.u32 %p3, %r6, 0; @%p3 bra J;"
         "S: ld.volatile.shared.u32 %r25, [%r8]; setp.eq.u32 %p4, %r25, 0; @%p4 bra S;" +
         kFence + "J: bar.warp.sync -1;" + kUse},
    {"a flag handed on from warp to warp", "none",
     "setp.ne.u32 %p3, %r6, 0; @%p3 bra E; S: ld.volatile.shared.u32 %r25, [%r8];"
     "setp.ne.u32 %p4, %r25, %r7; @%p4 bra S;" +
         kFence + kCount + kFence + "add.u32 %r25, %r25, 1; st.volatile.shared.u32 [%r8], %r25;",
     256},
    {"the warp-synchronous reduction of old", "none",
     kWrite + "st.shared.u32 [%r5+256], %r1;" + kBarrier + kWarpZero +
         reduction("volatile.", "volatile.", "")},
    {"a reduction with barriers of the warp", "none",
     kWrite + "st.shared.u32 [%r5+256], %r1;" + kBarrier + kWarpZero +
         reduction("", "", "bar.warp.sync -1; ")},
    {"a reduction by shuffles", "none",
     "shfl.sync.down.b32 %r10, %r1, 16, 31, -1; add.u32 %r10, %r10, %r1;"
     "shl.b32 %r11, %r7, 2; add.u32 %r11, %r11, %r4; setp.eq.u32 %p1, %r6, 0;"
     "@%p1 st.shared.u32 [%r11], %r10; bar.sync 0; ld.shared.u32 %r12, [%r4+4];"},
    {"a histogram", "none",
     "st.shared.u32 [%r5], %r52; bar.sync 0; and.b32 %r10, %r3, 31; and.b32 %r10, %r10, 28;"
     "add.u32 %r10, %r10, %r4; red.shared.add.u32 [%r10], 1; bar.sync 0;" +
         kRead},
    {"two buffers in turns", "none",
     "mov.u32 %r40, 0; mov.u32 %r41, %r5; R: st.shared.u32 [%r41], %r40; bar.sync 0;"
     "xor.b32 %r42, %r41, 128; ld.shared.u32 %r43, [%r42]; xor.b32 %r41, %r41, 512;"
     "add.u32 %r40, %r40, 1; setp.lt.u32 %p1, %r40, 4; @%p1 bra R;"},
    {"halves of the block with barriers of their own", "none",
     kWrite + "shr.u32 %r12, %r1, 6; add.u32 %r12, %r12, 1; bar.sync %r12, 64;" + kOtherWarp, 128},
    {"a producer arrives, a consumer waits", "none",
     kSplit + kWrite + "bar.arrive 1, 64; bra E; C: bar.sync 1, 64;" + kOtherWarp},
    {"full and empty", "none",
     "mov.u32 %r40, 0;" + kSplit +
         "P: st.shared.u32 [%r5], %r40; bar.arrive 1, 64; bar.sync 2, 64; add.u32 %r40, %r40, 1;"
         "setp.lt.u32 %p1, %r40, 3; @%p1 bra P; bra E; C: bar.sync 1, 64;" +
         kOtherWarp +
         "bar.arrive 2, 64; add.u32 %r40, %r40, 1; setp.lt.u32 %p1, %r40, 3;"
         "@%p1 bra C;"},
    {"copies, waited for, behind a barrier", "none",
     kCopy + kCommit + kWaitAll + kBarrier + kNeighbour},
    {"the first group while the second comes", "none",
     kTiles + "cp.async.wait_group 1; bar.sync 0;" + kNeighbour + kWaitAll + kBarrier +
         "ld.shared.u32 %r12, [%r10+512];"},
    {"one's own copy needs no barrier", "none", kCopy + kWaitAll + kRead},
    {"a barrier in memory", "none", kInit + kWrite + kArrive + kWait + kOtherWarp},
    {"copies that arrive at a barrier in memory", "none",
     kInit + kCopy +
         "cp.async.mbarrier.arrive.noinc.shared.b64 [%r8+8]; mov.u64 %rd9, 0;"
         "W: mbarrier.try_wait.parity.shared.b64 %p6, [%r8+8], 0; @!%p6 bra W;" +
         kOtherWarp},
    {"a block that returns as a whole", "none", "setp.gt.u32 %p1, %r9, 63; @%p1 exit; bar.sync 0;",
     64, 2},
    {"a last warp of a few lanes", "none",
     kWrite + "bar.warp.sync -1; shfl.sync.idx.b32 %r10, %r1, 0, 31, -1; bar.sync 0;", 40},
    {"halves of a warp among themselves", "none",
     kHalves + "bar.warp.sync 0xffff0000; bra E; A: bar.warp.sync 0xffff;"},
    {"those who are here", "none",
     kHalves + "bra E; A: activemask.b32 %r10; shfl.sync.idx.b32 %r11, %r1, 0, 31, %r10;"},
    {"leaders of a ballot", "none",
     "setp.lt.u32 %p1, %r6, 5; vote.sync.ballot.b32 %r10, %p1, -1; @!%p1 bra E;"
     "elect.sync %r11|%p2, %r10; @%p2 red.shared.add.u32 [%r8], 1;"},
    {"some return, the others exchange", "none",
     "setp.ge.u32 %p1, %r6, 16; @%p1 exit; shfl.sync.down.b32 %r10, %r1, 8, 31, 0xffff;"
     "bar.warp.sync 0xffff;"},
    {"some return, the others exchange with all who are left", "none",
     kPast + kAsk + kStore + kWarp + "vote.sync.ballot.b32 %r10, %p1, -1; bra E; J:", 32},
    {"some return from one of two conditions, the others exchange", "none",
     "setp.ge.u32 %p1, %r6, 28; @%p1 bra E; setp.lt.u32 %p2, %r6, 4; @%p2 bra E;" + kWarp +
         "shfl.sync.bfly.b32 %r10, %r1, 4, 31, -1; setp.lt.u32 %p3, %r6, 24;"
         "@%p3 st.global.u32 [%rd3], %r1;",
     64},
    {"some store and return, the others exchange", "none",
     kPast + kAsk + kStore + "bra E; J: st.global.u32 [%rd3+4096], %r10;", 32},
    {"a loop that lanes return from", "none", rounds(kWarp, "E"), 32},
    {"a loop that lanes store and return from", "none", rounds(kWarp, "J") + kRest, 32},
    {"a loop that lanes return from, some behind the others", "none",
     rounds(kWarp + "xor.b32 %r11, %r10, %r1; and.b32 %r11, %r11, 1; setp.eq.u32 %p2, %r11, 0;"
                    "@%p2 bra K; add.u32 %r10, %r10, 1; bra L; K: ",
            "E"),
     32},
    {"a loop that each takes another way through, with a return", "none",
     "mov.u32 %r10, 0; L: setp.gt.u32 %p1, %r10, 7; @%p1 bra E; add.u32 %r10, %r10, 1;" + kWarp +
         "and.b32 %r11, %r6, 3; setp.eq.u32 %p2, %r11, 0; @%p2 bra L; mov.u32 %r12, 9;"
         "K: sub.u32 %r12, %r12, 1; setp.ne.u32 %p3, %r12, 0; @%p3 bra K; bra L;",
     32},
    {"an exchange in both branches", "none",
     "setp.ge.u32 %p1, %r6, 16; @%p1 bra H;" + kAsk +
         "bra J; H: shfl.sync.idx.b32 %r10, %r1, 20, 31, -1;" + kRest,
     32},
    {"an exchange in both branches of a tile", "none",
     kTile8 + "and.b32 %r11, %r6, 1; setp.eq.u32 %p1, %r11, 0;" + kWrite +
         "@%p1 bra H; vote.sync.ballot.b32 %r10, %p1, %r31;" + of_lane(1) +
         "bra J; H: vote.sync.ballot.b32 %r12, %p1, %r31;" + of_lane(2) + kRest},
    {"bytes of one word", "none",
     "add.u32 %r10, %r4, %r1; cvt.u16.u32 %rs1, %r1; st.shared.u8 [%r10], %rs1;"},
    {"an address that starts before its array", "none",
     "add.u32 %r10, %r3, 64; mov.u32 %r11, next-64; add.u32 %r11, %r11, %r10;"
     "st.shared.u32 [%r11], %r1;"},
    {"one of two arrays", "none",
     "setp.lt.u32 %p1, %r1, 32; mov.u32 %r10, next; selp.b32 %r11, %r4, %r10, %p1;"
     "add.u32 %r11, %r11, %r3; st.shared.u32 [%r11], %r1;"},
    {"the distance between two arrays", "none",
     "mov.u32 %r10, next; sub.u32 %r11, %r10, %r4; add.u32 %r12, %r5, %r11;"
     "st.shared.u32 [%r12], %r1;"},
    {"all read one word, then it is written", "none",
     "st.shared.u32 [%r4], %r52; bar.sync 0; ld.shared.u32 %r10, [%r4]; bar.sync 0;"
     "setp.eq.u32 %p1, %r1, 3; @%p1 st.shared.u32 [%r4], %r1;"},
    {"the last block reads what the others made", "none",
     "st.global.u32 [%rd3], %r9; membar.gl; bar.sync 0; setp.ne.u32 %p1, %r1, 0; @%p1 bra N;"
     "atom.global.add.u32 %r10, [%rd1+8192], 1; st.shared.u32 [%r8], %r10; N: bar.sync 0;"
     "ld.shared.u32 %r11, [%r8]; setp.ne.u32 %p2, %r11, 3; @%p2 exit;"
     "add.u64 %rd6, %rd1, %rd2; sub.u64 %rd6, %rd3, 256; ld.global.u32 %r12, [%rd6];",
     64, 4},
    {"a block exchanges through global memory", "none",
     "st.global.u32 [%rd3], %r9; bar.sync 0; xor.b64 %rd6, %rd3, 128; ld.global.u32 %r10, "
     "[%rd6];",
     64, 4},
    {"one value from all blocks", "none", "mov.u32 %r10, 5; st.global.u32 [%rd1], %r10;", 64, 4},
    {"all blocks read, each writes its own", "none",
     "ld.global.u32 %r10, [%rd1+12288]; st.global.u32 [%rd3], %r10;", 64, 4},
    {"a lock in global memory", "none",
     "L: atom.global.cas.b32 %r21, [%rd1], 0, 1; setp.ne.u32 %p1, %r21, 0; @%p1 bra L; membar.gl;"
     "ld.global.u32 %r20, [%rd1+64]; add.u32 %r20, %r20, 1; st.global.u32 [%rd1+64], %r20;"
     "membar.gl; atom.global.exch.b32 %r22, [%rd1], 0;",
     64, 3},
    {"tiles that meet, each its own", "none", kTile16 + kWrite + kMeet + of_lane(8)},
    {"small tiles that meet, then the whole warp", "none",
     kTile8 + kWrite + kMeet + of_lane(4) + "bar.warp.sync -1;" + kWrite + kMeet +
         "bar.warp.sync -1;" + of_lane(16)},
    {"handed on from group to group", "none",
     "setp.ge.u32 %p1, %r6, 24; @%p1 bra E; setp.ge.u32 %p2, %r6, 16; @%p2 bra B;" + kWrite +
         "bar.warp.sync 0xffff; setp.lt.u32 %p3, %r6, 8; @%p3 bra E;"
         "B: bar.warp.sync 0xffff00; and.b32 %r10, %r6, 7; shl.b32 %r10, %r10, 2;"
         "add.u32 %r10, %r10, %r4; ld.shared.u32 %r11, [%r10];",
     32},
    {"lanes that met, by the members that an exchange gave them", "none",
     "and.b32 %r10, %r6, 3; match.any.sync.b32 %r31, %r10, -1;" + kWrite + kMeet + of_lane(16)},
    {"members that the exchange itself writes over", "none",
     kTile16 + kWrite + "shfl.sync.idx.b32 %r31, %r31, 0, 31, %r31;" + of_lane(8), 32},
    {"others of the block while a warp's lanes part", "none",
     kTile16 + kWrite + kMeet + of_lane(1) + kBarrier + kOtherWarp + kBarrier + kWrite},
    {"a word of global memory that the warp reads, then one lane writes", "none",
     "ld.global.u32 %r10, [%rd1]; bar.warp.sync -1; setp.eq.u32 %p1, %r1, 7;"
     "@%p1 st.global.u32 [%rd1], %r9;",
     32},
    {"a tile's words in global memory", "none",
     kTile8 + "st.global.u32 [%rd3], %r9;" + kMeet +
         "xor.b64 %rd6, %rd3, 16; ld.global.u32 %r10, [%rd6];"},
    {"bytes of global memory, each thread its own, halves behind a barrier", "none",
     "cvt.u64.u32 %rd6, %r1; add.u64 %rd6, %rd1, %rd6; cvt.u16.u32 %rs1, %r1;"
     "st.global.u8 [%rd6], %rs1; bar.sync 0; xor.b64 %rd6, %rd6, 33; and.b64 %rd6, %rd6, -2;"
     "ld.global.u16 %rs2, [%rd6];"},
    {"made before having arrived, and more of its own after", "none",
     kSplit + kWrite + "bar.arrive 1, 64; st.shared.u32 [%r5+512], %r1; bra E; C: bar.sync 1, 64;" +
         kOtherWarp},
    {"more of its own after having arrived at a barrier in memory", "none",
     kInit + kWrite + kArrive + "st.shared.u32 [%r5+512], %r1;" + kWait + kOtherWarp, 64},
    {"rounds between barriers in memory", "none",
     kInit + "mov.u32 %r40, 0; R: st.shared.u32 [%r5], %r40;" + kArrive + kWait + kOtherWarp +
         kArrive +
         "V: mbarrier.try_wait.shared.b64 %p6, [%r8+8], %rd9; @!%p6 bra V;"
         "add.u32 %r40, %r40, 1; setp.lt.u32 %p1, %r40, 3; @%p1 bra R;"},
    {"in global memory, a producer that arrives", "none",
     kSplit + "st.global.u32 [%rd3], %r9; bar.arrive 1, 64; bra E; C: bar.sync 1, 64;"
              "xor.b64 %rd6, %rd3, 128; ld.global.u32 %r10, [%rd6];"},
    {"two flags, a fence before each", "none",
     kBlocks +
         "st.global.u32 [%rd1], %r24; membar.gl; st.volatile.global.u32 [%rd1+4100], %r24;"
         "st.global.u32 [%rd1+64], %r24; membar.gl;" +
         kTell + kHear + "ld.global.u32 %r26, [%rd1+64]; ld.global.u32 %r26, [%rd1];",
     64, 2},
    {"read by a block that says so behind a barrier, then written by the next", "none",
     "setp.ne.u32 %p3, %r1, 0; setp.ne.u32 %p2, %r50, 0; @%p2 bra B; ld.global.u32 %r10, [%rd3];"
     "bar.sync 0; @%p3 bra E;" +
         kTell +
         "bra E; B: @%p3 bra J; W: ld.volatile.global.u32 %r25, [%rd1+4096];"
         "setp.eq.u32 %p4, %r25, 0; @%p4 bra W; J: bar.sync 0; sub.u64 %rd6, %rd3, 256;"
         "st.global.u32 [%rd6], %r9;",
     64, 2},
    {"the end of a sum, whose last lanes read nobody and drop it", "none",
     kFirst20 +
         "mov.u32 %r12, 16; mov.u32 %r10, %r1;"
         "L: shfl.sync.down.b32 %r11, %r10, %r12, 31, 0xfffff; add.u32 %r13, %r6, %r12;"
         "setp.lt.u32 %p2, %r13, 20; @%p2 add.u32 %r10, %r10, %r11; shr.u32 %r12, %r12, 1;"
         "setp.ne.u32 %p3, %r12, 0; @%p3 bra L;" +
         kStore},
    {"chosen, or not taken from a lane that ended", "none",
     kFirst20 +
         "add.u32 %r12, %r6, 1; shfl.sync.idx.b32 %r11, %r1, %r12, 31, -1;"
         "setp.lt.u32 %p2, %r6, 19; selp.b32 %r10, %r11, %r1, %p2;" +
         kStore +
         "setp.gt.and.u32 %p3, %r11, %r1, %p2; @%p3 bra E; setp.gt.u32 %p4, %r11, 3;"
         "and.pred %p4, %p4, %p2; @%p4 st.global.u32 [%rd3+1024], %r11;"},
};

TEST(Kernels, FaultsAreFound) {
  EXPECT_GE(kFaulty.size(), 40U);
  for (const Sample& sample : kFaulty)
    EXPECT_THAT(found(sample), testing::HasSubstr(sample.kind)) << sample.what;
}

TEST(Kernels, RightOnesAreNotAccused) {
  EXPECT_GE(kRight.size(), 40U);
  for (const Sample& sample : kRight) EXPECT_EQ(found(sample), "none") << sample.what;
}

// Random kernels of exchanges that all lanes come to who have not returned; on the way they branch,
// go round and return, as few or as many as it falls.
class RightAuthor {
 public:
  explicit RightAuthor(Rng& rng) : rng_(rng) {}
  std::string body() { return "mov.u32 %r10, %r1;" + together(0); }

 private:
  std::string label() { return "T" + std::to_string(labels_++); }
  std::string some_lanes(const std::string& to) {
    const std::string bit = std::to_string(rng_.below(32));
    return "xor.b32 %r11, %r6, " + bit + "; setp.lt.u32 %p1, %r11, " +
           std::to_string(1 + rng_.below(31)) + "; @%p1 bra " + to + ";";
  }
  std::string apart(int depth) {  // by some of the lanes
    const std::string skip = label(), end = label();
    switch (rng_.below(depth > 2 ? 2 : 5)) {
      case 0:
        return "add.u32 %r10, %r10, %r6;";
      case 1:
        return kStore;
      case 2:
        return some_lanes(skip) + apart(depth + 1) + (rng_.below(2) == 0 ? "exit;" : "bra E;") +
               skip + ": ";
      case 3:
        return some_lanes(skip) + apart(depth + 1) + "bra " + end + ";" + skip + ": " +
               apart(depth + 1) + end + ": ";
      default:
        return apart(depth + 1) + apart(depth + 1);
    }
  }
  std::string together(int depth) {  // by all that are left
    static const char* const kExchanges[] = {
        "bar.warp.sync -1;", "redux.sync.add.u32 %r12, %r10, -1; add.u32 %r10, %r10, %r12;",
        "vote.sync.ballot.b32 %r12, %p1, -1; add.u32 %r10, %r10, %r12;"};
    std::string text;
    for (std::uint64_t i = 1 + rng_.below(4); i > 0; --i) {
      const std::string skip = label(), again = label();
      const std::string round = "%r" + std::to_string(20 + depth);
      const std::uint64_t kind = rng_.below(depth > 1 ? 3 : 5);
      if (kind == 0) text += kExchanges[rng_.below(3)];
      if (kind == 1) text += apart(0);
      if (kind == 2) {  // in both branches
        const std::string same = kExchanges[rng_.below(3)];
        text += some_lanes(skip) + apart(1) + same + "bra " + again + ";" + skip + ": " + apart(1) +
                same + again + ": ";
      }
      if (kind == 3)  // some go on to the next round before others
        text += "mov.u32 " + round + ", " + std::to_string(1 + rng_.below(4)) + ";" + again + ": " +
                together(depth + 1) + "sub.u32 " + round + ", " + round + ", 1; setp.eq.u32 %p2, " +
                round + ", 0; @%p2 bra " + skip + ";" + some_lanes(again) + apart(1) + "bra " +
                again + ";" + skip + ": ";
      if (kind == 4)  // until all have returned
        text += "mov.u32 " + round + ", " + std::to_string(rng_.below(4)) + ";" + again +
                ": setp.gt.u32 %p2, " + round + ", %r6; @%p2 bra E; add.u32 " + round + ", " +
                round + ", 4;" + together(depth + 1) + "bra " + again + ";";
    }
    return text;
  }
  Rng& rng_;
  int labels_ = 0;
};

TEST(Kernels, RandomRightOnesAreNotAccused) {
  Rng rng(5);
  for (int round = 0; round < test_rounds(300); ++round) {
    const std::string body = RightAuthor(rng).body();
    ASSERT_EQ(found({"random", "none", body, 64}), "none") << body;
  }
}

}  // namespace
}  // namespace partita::ptx
