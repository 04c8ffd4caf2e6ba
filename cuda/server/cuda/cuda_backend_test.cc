#include "server/cuda/cuda_backend.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/check.h"
#include "server/cuda/testing/sim_library.h"
#include "server/library_calls.h"
#include "server/testing/conformance.h"
#include "server/testing/wire_bytes.h"

namespace partita::remote::cuda {
namespace {

using server::Completed;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What the simulated library takes.
const server::ConformanceModule kSimSuite = {
    .image = "sim cuda", .global = "counter", .textures = "sim cuda", .conditions = "sim cuda"};

class CudaBackendTest : public SimLibrary {
 protected:
  CudaBackendTest() : SimLibrary(PARTITA_CUDA_SIM) {}
  static std::unique_ptr<CudaBackend> open() {
    auto backend = CudaBackend::open({.vendor_library = PARTITA_CUDA_SIM, .pinned_ahead = 2});
    EXPECT_TRUE(backend) << to_string(backend.error());
    return *std::move(backend);
  }
};

TEST_F(CudaBackendTest, PassesTheSuiteOnAStrictLibrary) {
  {
    const auto backend = open();
    EXPECT_EQ(backend->device().name, "Simulated GPU");
    EXPECT_EQ(backend->device().granule, 2u << 20);
    EXPECT_THAT(check_backend(*backend, kSimSuite), IsEmpty());
    EXPECT_EQ(violations(), "");
  }
  EXPECT_EQ(objects(), 0);
  EXPECT_EQ(violations(), "");
}

// Streams of a lane, which CUDA orders by nothing but events, behave as CUDA's all the same.
TEST_F(CudaBackendTest, PassesTheSuiteOnLanes) {
  SharedUse use{.lanes = {lane(8), lane(24), lane(16)}};
  // Kernels change lanes all the time.
  use.cursor = lanes::KernelCursor({{"add", 1}, {"add", 2}, {"add", 0}}, 1);
  std::vector<server::TimedKernel> request;
  use.measured = [&request](const std::vector<server::TimedKernel>& all) { request = all; };
  {
    const auto backend = CudaBackend::open({.vendor_library = PARTITA_CUDA_SIM, .shared = use});
    ASSERT_TRUE(backend);
    EXPECT_EQ((*backend)->device().attributes[16], 24);
    EXPECT_THAT(check_backend(**backend, kSimSuite), IsEmpty());
    EXPECT_EQ(violations(), "");
  }
  ASSERT_FALSE(request.empty());
  EXPECT_EQ(request[0].name, "add");
  EXPECT_EQ(objects(), 0);
  EXPECT_EQ(violations(), "");
}

// Prefill and decode of one session whose border moves all the time; lanes are as many as borders
// ask for, and nobody has work once the suite is over.
TEST_F(CudaBackendTest, PassesTheSuiteInPhases) {
  for (const std::optional<lanes::Phase> phase :
       {std::optional<lanes::Phase>(), std::optional(lanes::Phase::prefill),
        std::optional(lanes::Phase::decode)}) {
    const auto share = std::make_shared<lanes::PhaseShare>(lanes::PhaseOptions{
        .units = 24, .decode = {8, 16}, .window = 1, .lend_after = 0, .decode_at_most = 1});
    SharedUse use{.lanes = {lane(24), lane(16), lane(8), lane(8), lane(16)},
                  .phases = {share, phase}};
    call("sim_reset");
    {
      const auto backend = CudaBackend::open({.vendor_library = PARTITA_CUDA_SIM, .shared = use});
      ASSERT_TRUE(backend) << to_string(backend.error());
      const auto beside = lanes::PhaseShare::work(share, lanes::Phase::prefill);
      EXPECT_THAT(check_backend(**backend, kSimSuite), IsEmpty());
      EXPECT_EQ(violations(), "");
      while ((*backend)->poll().again) {
      }
    }
    const lanes::PhaseShare::Report report = share->report();
    EXPECT_GT(report.kernels[0] + report.kernels[1], 0);
    EXPECT_EQ(share->lane_of(lanes::Phase::decode), 0u);
    EXPECT_EQ(share->lane_of(lanes::Phase::prefill), 0u);
    EXPECT_EQ(objects(), 0);
    EXPECT_EQ(violations(), "");
  }
}

// Twenty requests of three kernels that change lanes add as often as one stream would.
TEST_F(CudaBackendTest, KernelsOnOtherLanesComeOneAfterAnother) {
  SharedUse use{.lanes = {lane(8), lane(24)}};
  use.cursor = lanes::KernelCursor({{"add", 0}, {"add", 1}, {"add", 1}}, 0);
  std::size_t kernels = 0;
  use.measured = [&kernels](const std::vector<server::TimedKernel>& all) { kernels = all.size(); };
  {
    const auto backend = CudaBackend::open({.vendor_library = PARTITA_CUDA_SIM, .shared = use});
    CHECK(backend.has_value());
    const std::uint64_t at = (*backend)->device().arena;
    CHECK((*backend)->allocate(at, (*backend)->device().granule).has_value());
    const auto module = (*backend)->create(server::ModuleSpec{"sim cuda"});
    const auto add = (*backend)->find_kernel(*module, "add");
    const auto stream = (*backend)->create(server::StreamSpec{false, 0});
    server::LaunchWork work{.kernel = add->id, .block = {1, 1, 1}};
    work.parameters.resize(16);
    const std::uint32_t one = 1;
    std::memcpy(work.parameters.data(), &at, 8);
    std::memcpy(work.parameters.data() + 8, &one, 4);
    std::memcpy(work.parameters.data() + 12, &one, 4);
    CHECK((*backend)->enqueue(*stream, server::SetWork{at, 0, 4, 1, 1, 0}).has_value());
    for (int request = 0; request < 20; ++request) {
      for (int i = 0; i < 3; ++i) CHECK((*backend)->enqueue(*stream, work).has_value());
      CHECK((*backend)->enqueue(*stream, server::CopyOutWork{at, 4, 7}).has_value());
      std::vector<Completed> all;
      while (all.empty()) all = (*backend)->poll().completed;
      std::uint32_t sum = 0;
      std::memcpy(&sum, all[0].bytes.data(), 4);
      EXPECT_EQ(sum, 3u * static_cast<std::uint32_t>(request + 1));
    }
  }
  EXPECT_EQ(kernels, 3u);
  EXPECT_EQ(violations(), "");
}

TEST_F(CudaBackendTest, WhatKernelsPrintIsTheClients) {
  std::vector<Completed> all;
  {
    const auto backend = CudaBackend::open(
        {.vendor_library = PARTITA_CUDA_SIM, .pinned_ahead = 2, .own_process = true});
    CHECK(backend.has_value());
    const auto module = (*backend)->create(server::ModuleSpec{"sim cuda, vprintf"});
    const auto kernel = (*backend)->find_kernel(*module, "print");
    CHECK(kernel && (*backend)->enqueue(0, server::LaunchWork{.kernel = kernel->id}));
    (*backend)->watch(server::ObjectKind::stream, 0, 9);
    while (all.size() < 2) std::ranges::move((*backend)->poll().completed, std::back_inserter(all));
  }  // and standard output is ours again
  EXPECT_EQ(all[0].kind, Completed::Kind::printed);
  EXPECT_EQ(all[0].text, "said by a kernel\n");
  EXPECT_EQ(all[1].tag, 9u);
}

// A library that was not called before a graph: its handle cannot be made while that is captured.
TEST_F(CudaBackendTest, LibrariesCalledInGraphsAreReadyBefore) {
  void* const blas = ::dlopen("libcublas.so.13", RTLD_NOW);
  ASSERT_NE(blas, nullptr) << ::dlerror();
  auto* const captured = static_cast<int (**)()>(::dlsym(blas, "sim_vendor_captured"));
  ASSERT_NE(captured, nullptr);
  *captured = reinterpret_cast<int (*)()>(::dlsym(library, "sim_captured"));
  {
    const auto backend = open();
    const server::WireBytes nothing(0, 0.0, 1.0, std::uint64_t{0}, 1);
    server::GraphSpec inner, spec;
    inner.nodes.push_back(
        {.work = server::CallWork{server::library_function("cublasZscal_v2"), nothing.bytes}});
    spec.nodes.push_back(
        {.work = server::BranchWork{
             kOnce, 0, {std::make_shared<const server::GraphSpec>(std::move(inner))}}});
    const auto graph = backend->create(spec);
    EXPECT_TRUE(graph) << (graph ? "" : graph.error().reason);
    EXPECT_TRUE(backend->enqueue(0, server::GraphWork{*graph}));
  }
  *captured = nullptr;
  ::dlclose(blas);
  EXPECT_EQ(violations(), "");
}

TEST_F(CudaBackendTest, SaysWhatTheCompilerSays) {
  const auto backend = open();
  const auto bad = backend->create(server::ModuleSpec{"no PTX"});
  EXPECT_EQ(bad.error().status, server::kInvalidImage);
  EXPECT_THAT(bad.error().reason, HasSubstr("line 1: nonsense"));
}

TEST_F(CudaBackendTest, MemoryIsBounded) {
  const auto backend = open();
  const std::uint64_t at = backend->device().arena, all = backend->device().total_memory;
  EXPECT_EQ(backend->allocate(at, all * 2).error().status, server::kOutOfMemory);
  EXPECT_TRUE(backend->allocate(at, all));
  backend->release(at);
  EXPECT_TRUE(backend->allocate(at, all));
}

TEST_F(CudaBackendTest, LargeCopiesGoThroughPinnedParts) {
  const auto backend = open();
  const std::uint64_t at = backend->device().arena;
  ASSERT_TRUE(backend->allocate(at, 16 << 20));
  std::vector<std::byte> data((10 << 20) + 12);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 + i / 999);
  const auto staging = std::make_shared<const std::vector<std::byte>>(data);
  ASSERT_TRUE(backend->enqueue(0, server::CopyInWork{at + 4, staging}));
  ASSERT_TRUE(backend->enqueue(0, server::CopyOutWork{at + 4, data.size(), 5}));
  std::vector<Completed> all;
  while (all.empty()) all = backend->poll().completed;
  EXPECT_EQ(all[0].tag, 5u);
  EXPECT_TRUE(all[0].bytes == data);
  EXPECT_EQ(violations(), "");
}

// What the suite asks for, as the driver compiles it.
constexpr const char* kSuitePtx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 counter;
.visible .entry add(.param .u64 to, .param .u32 count, .param .u32 more)
{
  .reg .pred %p;
  .reg .b32 %r<5>;
  .reg .b64 %d<3>;
  mov.u32 %r0, %tid.x;
  ld.param.u32 %r1, [count];
  setp.ge.u32 %p, %r0, %r1;
  @%p bra DONE;
  ld.param.u64 %d0, [to];
  ld.param.u32 %r2, [more];
  mul.wide.u32 %d1, %r0, 4;
  add.u64 %d2, %d0, %d1;
  ld.global.u32 %r3, [%d2];
  add.u32 %r4, %r3, %r2;
  st.global.u32 [%d2], %r4;
DONE:
  ret;
}
.visible .entry crash()
{
  .reg .b64 %d0;
  mov.u64 %d0, 64;
  st.global.u32 [%d0], 1;
  ret;
}
)";

TEST(CudaBackendOnAGpu, PassesTheSuite) {
  const auto backend = CudaBackend::open({});
  if (!backend) GTEST_SKIP() << to_string(backend.error());
  EXPECT_THAT(check_backend(**backend, {.image = kSuitePtx,
                                        .global = "counter",
                                        .textures = server::kTexturesPtx,
                                        .conditions = server::kConditionsPtx}),
              IsEmpty());
}

TEST(DriverLibrary, SaysWhatIsMissing) {
  const auto none = DriverLibrary::open("/nowhere/libcuda.so.1");
  EXPECT_EQ(none.error().code, ErrorCode::no_driver);
  EXPECT_THAT(to_string(none.error()), HasSubstr("/nowhere/libcuda.so.1"));
  const auto other = DriverLibrary::open("libc.so.6");
  EXPECT_THAT(to_string(other.error()), HasSubstr("has no cuGetErrorString"));
}

}  // namespace
}  // namespace partita::remote::cuda
