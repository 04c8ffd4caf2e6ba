#include "ptx/watch.h"

#include <gmock/gmock.h>

#include <cstring>

namespace partita::ptx {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr const char* kText = R"(.version 7.0
.target sm_70
.address_size 64
.func (.param .b32 out) twice(.param .b32 in)
{
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [in];
  add.u32 %r2, %r1, %r1;
  st.param.b32 [out], %r2;
  ret;
}
.visible .entry k(.param .u64 to)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to];
  mov.u32 %r1, %tid.y;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  {
    .param .b32 a;
    .param .b32 b;
    st.param.b32 [a], %r1;
    call.uni (b), twice, (a);
    ld.param.b32 %r2, [b];
  }
  st.global.u32 [%rd3], %r2;
  ret;
}
)";

class Notes final : public Watcher {
 public:
  void before(const WarpView& warp) override {
    lines.push_back(warp.line());
    if (warp.line() == 8) {
      calls = warp.calls(3);
      own = warp.value("%r1", 3)->bits;
      EXPECT_FALSE(warp.value("%rd1", 3));  // of its caller
    }
    if (warp.line() != 28) return;
    result = warp.value("%r2", 3)->bits;
    const std::uint64_t address = warp.value("%rd1", 0)->bits;
    EXPECT_TRUE(warp.read(0, address + 4, std::as_writable_bytes(std::span(&stored, 1))));
    EXPECT_FALSE(warp.read(0, 64, std::as_writable_bytes(std::span(&stored, 1))));
  }
  void failed(const WarpView& warp, const Fault& fault, unsigned lane) override {
    faults.push_back(fault);
    at = warp.line();
    failed_lane = lane;
  }

  std::vector<int> lines;
  std::vector<WarpView::Call> calls;
  std::uint64_t own = 0, result = 0;
  std::uint32_t stored = 0;
  std::vector<Fault> faults;
  int at = 0;
  unsigned failed_lane = 99;
};

Notes watched(std::uint64_t bytes) {
  Notes notes;
  const auto machine = *Machine::open(1 << 20);
  const auto module = machine->load(kText, "t");
  EXPECT_TRUE(module) << to_string(module.error());
  const std::uint64_t to = *machine->allocate(bytes);
  std::vector<std::byte> parameters(8);
  std::memcpy(parameters.data(), &to, 8);
  const auto run = machine->prepare({.kernel = *machine->find_kernel(*module, "k"),
                                     .grid = {},
                                     .block = {2, 4, 1},
                                     .parameters = parameters,
                                     .watcher = &notes});
  EXPECT_TRUE(run) << to_string(run.error());
  (*run)->execute(0);
  EXPECT_EQ((*run)->faults().size(), notes.faults.size());
  return notes;
}

// A call again when it comes back.
TEST(Watch, EveryInstructionWithItsValues) {
  const Notes notes = watched(16);
  EXPECT_THAT(notes.lines, ElementsAre(16, 17, 18, 19, 23, 24, 7, 8, 9, 10, 24, 25, 27, 28));
  ASSERT_THAT(notes.calls, SizeIs(2));
  EXPECT_EQ(notes.calls[0].function, "twice");
  EXPECT_EQ(notes.calls[1].function, "k");
  EXPECT_EQ(notes.calls[1].line, 24);
  EXPECT_EQ(notes.own, 1u);  // lane 3 is thread (1,1)
  EXPECT_EQ(notes.result, 2u);
  EXPECT_EQ(notes.stored, 2u);
}

TEST(Watch, TheInstructionThatFailed) {
  const Notes notes = watched(8);
  ASSERT_THAT(notes.faults, SizeIs(1));
  EXPECT_EQ(notes.at, 27);
  EXPECT_EQ(notes.failed_lane, 4u);  // (0,2): the first beyond two words
}

}  // namespace
}  // namespace partita::ptx
