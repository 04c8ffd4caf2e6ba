#include "server/cpu/cpu_backend.h"

#include <gmock/gmock.h>
#include <poll.h>

#include <cstring>

#include "server/testing/conformance.h"
#include "server/cpu/device_facts.h"
#include "wire/operations.h"

namespace partita::remote::cpu {
namespace {

using server::Completed;
using server::LaunchWork;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kModule = R"(.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 counter;
.visible .entry add(.param .u64 to, .param .u32 count, .param .u32 more)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [count];
  ld.param.u32 %r2, [more];
  mov.u32 %r3, %tid.x;
  setp.ge.u32 %p1, %r3, %r1;
  @%p1 bra DONE;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r3, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.u32 %r4, [%rd4];
  add.s32 %r5, %r4, %r2;
  st.global.u32 [%rd4], %r5;
DONE:
  ret;
}
.visible .entry crash()
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  mov.u64 %rd1, 64;
  ld.global.u32 %r1, [%rd1];
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry forever()
{
LOOP:
  bra LOOP;
}
)";

std::unique_ptr<CpuBackend> open(std::uint32_t flags = 0) {
  auto backend = CpuBackend::open({.units = 2, .memory = 64 << 20, .flags = flags});
  EXPECT_TRUE(backend) << to_string(backend.error());
  return *std::move(backend);
}

TEST(CpuBackend, PassesTheSuite) {
  const auto backend = open();
  EXPECT_THAT(check_backend(*backend, {.image = kModule, .global = "counter"}), IsEmpty());
}

TEST(CpuBackend, SaysWhatAKernelDidWrong) {
  const auto backend = open();
  const auto module = backend->create(server::ModuleSpec{kModule});
  ASSERT_TRUE(module) << module.error().reason;
  const auto crash = backend->find_kernel(*module, "crash");
  ASSERT_TRUE(crash);
  ASSERT_TRUE(backend->enqueue(server::kDefaultStream, LaunchWork{.kernel = crash->id}));
  std::vector<Completed> all;
  while (all.empty()) {
    pollfd ready{backend->descriptor(), POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 20'000), 1);
    all = backend->poll().completed;
  }
  EXPECT_EQ(all[0].kind, Completed::Kind::fault);
  EXPECT_EQ(all[0].status, server::kIllegalAddress);
  EXPECT_THAT(all[0].text, HasSubstr("crash"));
}

TEST(CpuBackend, RefusesMachineCodeAndBadText) {
  const auto backend = open();
  EXPECT_EQ(backend
                ->create(server::ModuleSpec{"\x7f"
                                            "ELF and so on"})
                .error()
                .status,
            kNoBinary);
  const auto bad = backend->create(server::ModuleSpec{".version 7.0\nnonsense"});
  EXPECT_EQ(bad.error().status, server::kInvalidPtx);
  EXPECT_THAT(bad.error().reason, HasSubstr("2"));
}

// Work beyond what a lane takes waits here and is done all the same.
TEST(CpuBackend, MoreWorkThanALaneTakes) {
  const auto backend = open();
  const std::uint64_t at = backend->device().arena;
  ASSERT_TRUE(backend->allocate(at, 256));
  for (std::uint32_t i = 0; i < 20'000; ++i)
    ASSERT_TRUE(backend->enqueue(server::kDefaultStream, server::SetWork{at, i, 4, 1, 1, 0}));
  while (!backend->finished(server::ObjectKind::stream, server::kDefaultStream)) {
    pollfd ready{backend->descriptor(), POLLIN, 0};
    ::poll(&ready, 1, 10);
    backend->poll();
  }
  std::uint32_t last = 0;
  std::memcpy(&last, backend->mapped(at, 4, false).data(), 4);
  EXPECT_EQ(last, 19'999u);
}

// A kernel that never ends, ends with its backend.
TEST(CpuBackend, EndsWhatRuns) {
  auto backend = open();
  const auto module = backend->create(server::ModuleSpec{kModule});
  const auto forever = backend->find_kernel(*module, "forever");
  ASSERT_TRUE(forever) << forever.error().reason;
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(backend->enqueue(server::kDefaultStream, LaunchWork{.kernel = forever->id}));
  EXPECT_FALSE(backend->finished(server::ObjectKind::stream, server::kDefaultStream));
  backend.reset();
}

TEST(CpuBackend, IsADeviceOfCapability9) {
  const auto backend = open();
  const auto& attributes = backend->device().attributes;
  EXPECT_EQ(attributes[16], 2);  // multiprocessors: the units
  EXPECT_EQ(attributes[10], 32);
  EXPECT_EQ(attributes[75], 9);
  EXPECT_EQ(backend->device().name, "Partita CPU");
}

}  // namespace
}  // namespace partita::remote::cpu
