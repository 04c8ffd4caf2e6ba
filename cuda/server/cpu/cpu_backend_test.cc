#include "server/cpu/cpu_backend.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "server/cpu/device_facts.h"
#include "server/memory.h"
#include "server/modules.h"
#include "server/testing/conformance.h"
#include "server/testing/deaf.h"
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
.visible .entry ring(.param .u64 word, .param .u32 mine, .param .u32 all, .param .u32 until)
{
  .reg .pred %p<3>;
  .reg .b32 %r<7>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [word];
  ld.param.u32 %r1, [mine];
  ld.param.u32 %r2, [all];
  ld.param.u32 %r3, [until];
AGAIN:
  ld.acquire.gpu.global.u32 %r4, [%rd1];
  setp.ne.u32 %p1, %r4, %r1;
  @%p1 bra AGAIN;
  add.u32 %r5, %r4, 1;
  st.release.gpu.global.u32 [%rd1], %r5;
  add.u32 %r1, %r1, %r2;
  setp.lt.u32 %p2, %r1, %r3;
  @%p2 bra AGAIN;
  ret;
}
)";

std::unique_ptr<CpuBackend> open(std::uint32_t flags = 0) {
  auto backend = CpuBackend::open({.units = 2, .memory = 64 << 20, .flags = flags});
  EXPECT_TRUE(backend) << to_string(backend.error());
  return *std::move(backend);
}

TEST(CpuBackend, PassesTheSuite) {
  const auto backend = open();
  EXPECT_THAT(check_backend(*backend, {.image = kModule,
                                       .global = "counter",
                                       .textures = server::kTexturesPtx,
                                       .conditions = server::kConditionsPtx}),
              IsEmpty());
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

// Of a list that lies where it should.
TEST(CpuBackend, APointerToNoMatrixIsAFault) {
  const std::uint64_t at = open()->device().arena;
  for (const std::uint64_t to : {at + 4096 - 8, std::uint64_t{0}, ~std::uint64_t{0} << 4}) {
    const auto fresh = open();
    ASSERT_TRUE(fresh->allocate(at, 4096));
    std::memcpy(fresh->mapped(at, 8, true).data(), &to, 8);
    const Gemm gemm{
        .form = kByPointers, .m = 2, .n = 2, .k = 0, .a_step = 2, .c = {at}, .c_step = 2};
    ASSERT_TRUE(fresh->enqueue(server::kDefaultStream, server::GemmWork{gemm}));
    std::vector<Completed> all;
    while (all.empty()) {
      pollfd ready{fresh->descriptor(), POLLIN, 0};
      ASSERT_EQ(::poll(&ready, 1, 20'000), 1);
      all = fresh->poll().completed;
    }
    EXPECT_EQ(all[0].kind, Completed::Kind::fault);
    EXPECT_EQ(all[0].status, server::kIllegalAddress);
    EXPECT_THAT(all[0].text, HasSubstr("no allocation holds"));
  }
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

void run(CpuBackend& backend) {
  while (!backend.finished(server::ObjectKind::stream, server::kDefaultStream)) {
    pollfd ready{backend.descriptor(), POLLIN, 0};
    ::poll(&ready, 1, 10);
    backend.poll();
  }
}

std::uint32_t word_at(CpuBackend& backend, std::uint64_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, backend.mapped(at, 4, false).data(), 4);
  return word;
}

// A loop of 1,000 rounds that a kernel counts down, with a branch inside that runs in the last.
TEST(CpuBackend, BranchesAreDecidedOnceAllBeforeThemHasRun) {
  const auto backend = open();
  const auto module = backend->create(server::ModuleSpec{kModule});
  const auto add = backend->find_kernel(*module, "add");
  ASSERT_TRUE(add);
  const std::uint64_t word = backend->device().arena, sum = word + 256, last = word + 512;
  for (const std::uint64_t at : {word, sum, last}) ASSERT_TRUE(backend->allocate(at, 4));
  const auto adds = [&](std::uint64_t to, std::uint32_t more) {
    std::vector<std::byte> block(16);
    const std::uint32_t count = 1;
    std::memcpy(block.data(), &to, 8), std::memcpy(block.data() + 8, &count, 4);
    std::memcpy(block.data() + 12, &more, 4);
    return LaunchWork{
        .kernel = add->id, .grid = {1, 1, 1}, .block = {32, 1, 1}, .parameters = block};
  };
  const auto graph = [](std::vector<server::StreamWork> works) {
    auto made = std::make_shared<server::GraphSpec>();
    for (auto& work : works) made->nodes.push_back({.work = std::move(work)});
    return made;
  };
  const server::BranchWork none{kIf, word, {graph({}), graph({adds(last, 1)})}};
  const server::BranchWork loop{
      kWhile, word, {graph({adds(sum, 3), adds(word, ~std::uint32_t{0}), none})}};
  const auto whole = backend->create(*graph({adds(sum, 100), loop, adds(sum, 10'000)}));
  ASSERT_TRUE(whole);
  for (const std::uint32_t rounds : {1000u, 0u, 1u}) {
    for (const auto& [at, value] : {std::pair(word, rounds), {sum, 0u}, {last, 0u}})
      ASSERT_TRUE(backend->enqueue(server::kDefaultStream, server::SetWork{at, value, 4, 1, 1, 0}));
    ASSERT_TRUE(backend->enqueue(server::kDefaultStream, server::GraphWork{*whole}));
    ASSERT_TRUE(backend->enqueue(server::kDefaultStream, adds(last, 50)));
    run(*backend);
    EXPECT_EQ(word_at(*backend, word), 0u);
    EXPECT_EQ(word_at(*backend, sum), 10'100 + 3 * rounds);
    EXPECT_EQ(word_at(*backend, last), (rounds > 0 ? 51u : 50u)) << "what follows comes behind";
  }
}

// Two back ends, as of two processes, on one file; each goes on without the other.
TEST(CpuBackend, MemoryInAFileIsThatOfAllWhoHaveIt) {
  const auto first = open(), second = open();
  const int file = ::memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(file, 8192), 0);
  const std::uint64_t at = first->device().arena, there = at + (std::uint64_t{1} << 20);
  ASSERT_TRUE(first->allocate(at, 8192));
  ASSERT_TRUE(second->allocate(there, 8192));
  ASSERT_TRUE(first->enqueue(server::kDefaultStream, server::SetWork{at, 7, 4, 2048, 1, 0}));
  run(*first);
  ASSERT_TRUE(first->put_into(at, file, true));
  ASSERT_TRUE(second->put_into(there, file, false));
  EXPECT_EQ(word_at(*second, there + 8188), 7u);
  ASSERT_TRUE(second->enqueue(server::kDefaultStream, server::SetWork{there, 9, 4, 1, 1, 0}));
  run(*second);
  EXPECT_EQ(word_at(*first, at), 9u);
  first->release(at);
  EXPECT_EQ(word_at(*second, there), 9u);
  ASSERT_TRUE(first->allocate(at, 8192));
  EXPECT_EQ(word_at(*first, at), 0u) << "nobody's any more";
  // Neighbours on one page, half a page, twice, nothing.
  ASSERT_TRUE(first->allocate(at + 8192, 100));
  ASSERT_TRUE(first->allocate(at + 8192 + 512, 100));
  for (const std::uint64_t wrong : {at + 8192, at + 8192 + 512, there})
    EXPECT_FALSE(first->put_into(wrong, file, false)) << wrong - at;
  ASSERT_TRUE(first->put_into(at, file, false));
  EXPECT_EQ(first->put_into(at, file, false).error().status, server::kNotSupported);
  ::close(file);
}

// Requests of two kernels, though the client comes to wait, or asks, when all has ended.
TEST(CpuBackend, RequestsEndWhereTheClientWaitsForWhatHasEnded) {
  for (const std::string how : {"wait", "ask", "copy"}) {
    std::size_t kernels = 0;
    {
      auto backend = CpuBackend::open(
          {.units = 2, .memory = 64 << 20, .measured = [&kernels](const auto& all) {
             kernels = all.size();
           }});
      ASSERT_TRUE(backend);
      const server::SessionLimits limits;
      server::Deaf channel;
      server::MemoryImages images;
      server::Outbox out(channel, limits);
      server::Allocations allocations;
      CpuBackend& device = **backend;
      server::DeviceWork work(*std::move(backend), out, limits);
      server::Modules modules(work, allocations, images, limits);
      server::Captures captures(work, modules, limits);
      server::Streams streams(work, captures, out, limits);
      server::Memory memory(work, allocations, captures, streams, out, limits);
      const std::uint64_t at = device.device().arena;
      ASSERT_TRUE(memory.on(Alloc{{at}, 256}));
      const auto module = device.create(server::ModuleSpec{kModule});
      const auto add = device.find_kernel(*module, "add");
      LaunchWork launch{.kernel = add->id, .parameters = std::vector<std::byte>(16)};
      std::memcpy(launch.parameters.data(), &at, sizeof(at));
      const server::Answered<server::Id> event = device.create(server::EventSpec{});
      for (int request = 0; request < 3; ++request) {
        ASSERT_TRUE(device.enqueue(server::kDefaultStream, launch));
        ASSERT_TRUE(device.enqueue(server::kDefaultStream, server::RecordWork{*event}));
        while (!device.finished(server::ObjectKind::event, *event)) device.poll();
        // Of what is not all: no request ends here.
        ASSERT_TRUE(device.enqueue(server::kDefaultStream, server::HoldWork{99}));
        EXPECT_TRUE(work.whether_finished<EventQuery>(server::ObjectKind::event, *event));
        ASSERT_TRUE(device.enqueue(server::kDefaultStream, launch));
        work.poll();
        while (!work.finished()) work.poll();
        const bool later = how == "wait"  ? !streams.on(StreamSync{})
                           : how == "ask" ? !streams.on(StreamQuery{})
                                          : !memory.on(CopyOut{{}, {at}, 4});
        EXPECT_EQ(later, how == "copy") << "it is answered while it is asked";
      }
    }
    EXPECT_EQ(kernels, 2u) << how;
  }
}

// Where kernels are measured, products are, too: by their sizes.
TEST(CpuBackend, ProductsAreTimed) {
  std::vector<server::TimedKernel> request;
  {
    const auto backend =
        *CpuBackend::open({.units = 2, .memory = 64 << 20, .measured = [&request](const auto& all) {
                             request = all;
                           }});
    const std::uint64_t at = backend->device().arena;
    ASSERT_TRUE(backend->allocate(at, std::uint64_t{1} << 20));
    const Gemm gemm{.m = 100,
                    .n = 90,
                    .k = 80,
                    .batch = 2,
                    .a = {at},
                    .a_step = 100,
                    .b = {at + (1 << 18)},
                    .b_step = 80,
                    .c = {at + (1 << 19)},
                    .c_step = 100};
    ASSERT_TRUE(backend->enqueue(server::kDefaultStream, server::GemmWork{gemm}));
    run(*backend);
  }
  ASSERT_EQ(request.size(), 1u);
  EXPECT_EQ(request[0].name, "gemm");
  EXPECT_EQ(request[0].shape, "100x90x2 80x1x1");
  EXPECT_GT(request[0].us, 0);
}

// In turns, each more than once: more of them than units, behind a copy that comes last.
TEST(CpuBackend, KernelsOfStreamsWaitForEachOther) {
  constexpr std::uint32_t kRing = 5, kUntil = 10 * kRing, kNotYet = ~0u;
  const auto backend = open();
  const auto module = backend->create(server::ModuleSpec{kModule});
  const auto ring = backend->find_kernel(*module, "ring");
  ASSERT_TRUE(ring) << ring.error().reason;
  const std::uint64_t word = backend->device().arena;
  ASSERT_TRUE(backend->allocate(word, 256));
  std::memcpy(backend->mapped(word, 4, true).data(), &kNotYet, 4);
  std::vector<server::Id> streams;
  for (std::uint32_t i = 0; i <= kRing; ++i) {
    streams.push_back(*backend->create(server::StreamSpec{.blocking = false}));
    std::vector<std::byte> block(20);
    const std::uint32_t words[] = {i, kRing, kUntil};
    std::memcpy(block.data(), &word, 8), std::memcpy(block.data() + 8, words, 12);
    server::StreamWork work = server::SetWork{word, 0, 4, 1, 1, 0};
    if (i < kRing)
      work = LaunchWork{.kernel = ring->id,
                        .grid = {1, 1, 1},
                        .block = {1, 1, 1},
                        .cooperative = i % 2 == 1,
                        .parameters = block};
    ASSERT_TRUE(backend->enqueue(streams.back(), work));
  }
  for (const server::Id stream : streams) backend->watch(server::ObjectKind::stream, stream, 1);
  for (std::size_t ended = 0; ended < streams.size(); ended += backend->poll().completed.size()) {
    pollfd ready{backend->descriptor(), POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 60'000), 1);
  }
  EXPECT_EQ(word_at(*backend, word), kUntil);
}

std::uint64_t sum_of_streams(CpuBackend& backend, int streams, int pieces, LaunchWork first) {
  const std::uint64_t at = backend.device().arena;
  EXPECT_TRUE(backend.allocate(at, 64 * 1024));
  const bool waits = first.kernel != 0;
  std::vector<server::Id> all;
  for (int i = 0; i < streams; ++i) {
    const auto made = backend.create(server::StreamSpec{.blocking = true});
    EXPECT_TRUE(made) << made.error().reason;
    all.push_back(made.value_or(server::kDefaultStream));
  }
  EXPECT_TRUE(!waits || backend.enqueue(all[0], first));
  for (int piece = 1; piece <= pieces; ++piece)
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_TRUE(backend.enqueue(
          all[i], server::SetWork{at + 256 * i, static_cast<std::uint32_t>(piece), 4, 1, 1, 0}));
  if (waits) return 0;
  run(backend);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < all.size(); ++i) sum += word_at(backend, at + 256 * i);
  return sum;
}

// Of those who share units nobody takes the lanes that others need, however many streams he has.
TEST(CpuBackend, StreamsShareTheLanesOfTheirSession) {
  const auto units = *SharedUnits::open(2);
  const std::size_t half = drivers::cpu_mask::kMaxLanes / 2;
  const CpuOptions options{.memory = 64 << 20, .shared = units, .lanes = half};
  const auto first = *CpuBackend::open(options), second = *CpuBackend::open(options);
  EXPECT_EQ(sum_of_streams(*first, 240, 20, {}), 240u * 20u);
  EXPECT_EQ(sum_of_streams(*second, 240, 20, {}), 240u * 20u);
}

// Streams of one lane, with more work than that takes: it waits, and ends with its session.
TEST(CpuBackend, ALaneThatIsSharedMayBeFull) {
  for (const bool forever : {false, true}) {
    auto backend = *CpuBackend::open({.units = 2, .memory = 64 << 20, .lanes = 1});
    const auto module = backend->create(server::ModuleSpec{kModule});
    ASSERT_TRUE(backend->find_kernel(*module, "add"));
    const auto kernel = backend->find_kernel(*module, "forever");
    const LaunchWork launch{.kernel = forever ? kernel->id : 0};
    EXPECT_EQ(sum_of_streams(*backend, 20, 5000, launch), forever ? 0u : 20u * 5000u);
  }
}

TEST(CpuBackend, PassesTheSuiteOnOneLane) {
  const auto backend = *CpuBackend::open({.units = 2, .memory = 64 << 20, .lanes = 1});
  EXPECT_THAT(check_backend(*backend, {.image = kModule,
                                       .global = "counter",
                                       .textures = server::kTexturesPtx,
                                       .conditions = server::kConditionsPtx}),
              IsEmpty());
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
