// Pinned memory of programs, as they and their kernels see it. Oracles: hand values.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "tests/remote/ptx_server.h"
#include "tests/remote/shim_harness.h"

namespace partita::remote::test {
namespace {

class PinnedMemory : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_WHERE_CHILDREN_HAVE_NO_THREADS(); }
};

// What a kernel is given of pinned memory is managed from then on, by the program's address and by
// the device's; a copy between the program's writing and the launch takes nothing away.
TEST_F(PinnedMemory, InKernels) {
  HostServer server(private_address(), test_kernels());
  EXPECT_EQ(
      in_child(server.address(),
               [] {
                 const Library cuda(kRuntime);
                 Program program(cuda);
                 constexpr std::uint32_t n = 16;
                 std::size_t before = 0, now = 0, total = 0;
                 There<std::uint32_t> other(cuda, std::vector<std::uint32_t>(n));
                 SAME(cuda.call("cudaMemGetInfo", &before, &total), 0);
                 float *pinned = nullptr, *there = nullptr;
                 std::vector<float> registered(3 * n, 5);
                 SAME(cuda.call("cudaMallocHost", &pinned, std::size_t{n} * 4), 0);
                 SAME(cuda.call("cudaHostRegister", static_cast<void*>(registered.data()),
                                registered.size() * 4, 2U),
                      0);
                 SAME(cuda.call("cudaMemGetInfo", &now, &total), 0);
                 SAME(now, before);  // nothing on the device yet
                 SAME(program.launch(program.fill, {1}, {16}, kNoStream, pinned, 0x40000000U, n),
                      0);
                 SAME(cuda.call("cudaDeviceSynchronize"), 0);
                 NEED(pinned[0] == 2 && pinned[n - 1] == 2);
                 SAME(cuda.call("cudaHostGetDevicePointer", &there,
                                static_cast<void*>(registered.data() + n), 0U),
                      0);
                 for (float round = 1; round <= 3; ++round) {
                   pinned[0] = round, registered[n] = 10 * round;
                   SAME(cuda.call("cudaMemset", other.begin(), 0, std::size_t{n} * 4), 0);
                   SAME(other.now()[0], 0U);
                   pinned[1] = round + 1;
                   SAME(program.launch(program.vadd, {1}, {16}, kNoStream, pinned, there,
                                       registered.data() + 2 * n, n),
                        0);
                   SAME(cuda.call("cudaDeviceSynchronize"), 0);
                   const float* const result = registered.data() + 2 * n;
                   NEED(result[0] == 11 * round && result[1] == round + 6 && result[2] == 7);
                   NEED(registered[0] == 5 && pinned[0] == round);
                 }
                 SAME(cuda.call("cudaHostUnregister", static_cast<void*>(pinned)), 713);
                 SAME(cuda.call("cudaHostUnregister", static_cast<void*>(registered.data())), 0);
                 SAME(cuda.call("cudaFreeHost", static_cast<void*>(pinned)), 0);
                 SAME(cuda.call("cudaFreeHost", static_cast<void*>(pinned)), 1);
                 SAME(cuda.call("cudaMemGetInfo", &now, &total), 0);
                 SAME(now, before);
               }),
      0);
}

// A copy to the device reads pinned memory when its stream gets there: behind copies into it,
// functions of the program, and what other streams did before an event.
TEST_F(PinnedMemory, IsReadInTheOrderOfStreams) {
  HostServer server(private_address(), test_kernels());
  EXPECT_EQ(
      in_child(server.address(),
               [] {
                 const Library cuda(kRuntime);
                 Program program(cuda);
                 constexpr std::uint32_t n = 1024;
                 constexpr std::size_t bytes = n * 4;
                 std::uint32_t* pinned = nullptr;
                 SAME(cuda.call("cudaMallocHost", &pinned, bytes), 0);
                 There<std::uint32_t> a(cuda, std::vector<std::uint32_t>(n)),
                     b(cuda, std::vector<std::uint32_t>(n));
                 void *one = nullptr, *two = nullptr, *event = nullptr;
                 SAME(cuda.call("cudaStreamCreateWithFlags", &one, 1U), 0);
                 SAME(cuda.call("cudaStreamCreateWithFlags", &two, 1U), 0);
                 SAME(cuda.call("cudaEventCreate", &event), 0);
                 const auto out = [&](void* stream) {
                   SAME(cuda.call("cudaMemcpyAsync", static_cast<void*>(pinned),
                                  static_cast<const void*>(a.begin()), bytes, 2, stream),
                        0);
                 };
                 const auto in = [&](void* stream) {
                   SAME(cuda.call("cudaMemcpyAsync", static_cast<void*>(b.begin()),
                                  static_cast<const void*>(pinned), bytes, 1, stream),
                        0);
                 };
                 for (std::uint32_t round = 1; round <= 20; ++round) {
                   SAME(program.launch(program.fill, {1}, {1}, one, a.begin(), round, n), 0);
                   out(one);
                   if (round % 3 == 1) {  // another stream
                     SAME(cuda.call("cudaEventRecord", event, one), 0);
                     SAME(cuda.call("cudaStreamWaitEvent", two, event, 0U), 0);
                     in(two);
                   } else {
                     if (round % 3 == 2)
                       SAME(cuda.call(
                                "cudaLaunchHostFunc", one,
                                +[](void* there) { *static_cast<std::uint32_t*>(there) += 100; },
                                static_cast<void*>(pinned)),
                            0);
                     in(one);
                   }
                   SAME(cuda.call("cudaDeviceSynchronize"), 0);
                   const auto now = b.now();
                   SAME(now[0], round % 3 == 2 ? round + 100 : round);
                   SAME(now[n - 1], round);
                 }
                 SAME(cuda.call("cudaFreeHost", static_cast<void*>(pinned)), 0);
               }),
      0);
}

// A function of the program that waits holds up nothing of another stream's: the program opens the
// door once that one is done.
TEST_F(PinnedMemory, IsReadBesideAFunctionThatWaits) {
  HostServer server(private_address(), test_kernels());
  const auto beside = [] {
    const Library cuda(kRuntime);
    constexpr std::size_t n = 16, bytes = n * 4;
    struct Door {
      std::mutex mutex = {};
      std::condition_variable moved = {};
      bool open = false, waited_in_vain = false;
    } door;
    int* pinned = nullptr;
    SAME(cuda.call("cudaMallocHost", &pinned, bytes), 0);
    const There<int> a(cuda, std::vector<int>(n, 7)), b(cuda, std::vector<int>(n));
    void *waits = nullptr, *works = nullptr;
    SAME(cuda.call("cudaStreamCreateWithFlags", &waits, 1U), 0);
    SAME(cuda.call("cudaStreamCreateWithFlags", &works, 1U), 0);
    SAME(cuda.call(
             "cudaLaunchHostFunc", waits,
             +[](void* there) {
               auto& at = *static_cast<Door*>(there);
               std::unique_lock lock(at.mutex);
               at.waited_in_vain =
                   !at.moved.wait_for(lock, std::chrono::minutes(1), [&] { return at.open; });
             },
             static_cast<void*>(&door)),
         0);
    SAME(cuda.call("cudaMemcpyAsync", static_cast<void*>(pinned),
                   static_cast<const void*>(a.begin()), bytes, 2, works),
         0);
    SAME(cuda.call("cudaMemcpyAsync", b.begin(), static_cast<const void*>(pinned), bytes, 1, works),
         0);
    SAME(cuda.call("cudaStreamSynchronize", works), 0);
    {
      const std::lock_guard lock(door.mutex);
      NEED(!door.waited_in_vain);
      door.open = true;
    }
    door.moved.notify_one();
    SAME(cuda.call("cudaDeviceSynchronize"), 0);
    SAME(b.now()[n - 1], 7);
  };
  EXPECT_EQ(in_child(server.address(), beside), 0);
}

// Three launches of a graph that copies there and back, without waiting: each reads what the
// function of the one before it made of its copy.
void doubling_graph() {
  const Library cuda(kRuntime);
  const Program program(cuda);
  constexpr std::size_t n = 16, bytes = n * 4;
  float* pinned = nullptr;
  SAME(cuda.call("cudaMallocHost", &pinned, bytes), 0);
  const There<float> a(cuda, std::vector<float>(n));
  void *stream = nullptr, *graph = nullptr, *exec = nullptr;
  SAME(cuda.call("cudaStreamCreate", &stream), 0);
  SAME(cuda.call("cudaStreamBeginCapture", stream, 0), 0);
  const auto copy = [&](void* to, const void* from, int kind) {
    SAME(cuda.call("cudaMemcpyAsync", to, from, bytes, kind, stream), 0);
  };
  copy(a.begin(), pinned, 1);
  copy(pinned, a.begin(), 2);
  void (*const doubles)(void*) = [](void* there) {
    auto* const value = static_cast<float*>(there);
    *value = 2 * *value + 1;
  };
  SAME(cuda.call("cudaLaunchHostFunc", stream, doubles, static_cast<void*>(pinned)), 0);
  SAME(cuda.call("cudaStreamEndCapture", stream, &graph), 0);
  SAME(cuda.call("cudaGraphInstantiate", &exec, graph, 0ULL), 0);
  std::fill(pinned, pinned + n, 1.0F);
  for (int i = 0; i < 3; ++i) SAME(cuda.call("cudaGraphLaunch", exec, stream), 0);
  SAME(cuda.call("cudaStreamSynchronize", stream), 0);
  NEED(pinned[0] == 15 && pinned[1] == 1);  // 1, 3, 7, 15
}

TEST_F(PinnedMemory, IsReadByGraphsBehindTheirFunctions) {
  const PtxServer server(private_address(), 1);
  EXPECT_EQ(in_child(server.address(), doubling_graph), 0);
}

struct Item {
  std::uint64_t number = 0;
  const void* next = nullptr;
};

Item* pinned_items(const Library& cuda, std::size_t bytes = 4096) {
  Item* items = nullptr;
  SAME(cuda.call("cudaHostAlloc", &items, bytes, 2U), 0);
  return items;
}

std::uint64_t walked(const Library& cuda, Program& program, const void* first) {
  There<std::uint64_t> sum(cuda, {0});
  SAME(program.launch(program.walk, {1}, {1}, kNoStream, first, sum.begin()), 0);
  return sum.now()[0];
}

std::size_t free_memory(const Library& cuda) {
  std::size_t free = 0, total = 0;
  SAME(cuda.call("cudaMemGetInfo", &free, &total), 0);
  return free;
}

// A kernel finds pinned memory under the address that the program has stored: in memory of the
// device's, in managed and in other pinned memory. What nothing names stays the program's alone.
TEST_F(PinnedMemory, UnderStoredAddresses) {
  HostServer server(private_address(), test_kernels());
  const auto list = [] {
    const Library cuda(kRuntime);
    Program program(cuda);
    Item* managed = nullptr;
    SAME(cuda.call("cudaMallocManaged", &managed, sizeof(Item), 1U), 0);
    Item *const one = pinned_items(cuda), *const two = pinned_items(cuda);
    std::vector<Item> registered(8);
    void* there = nullptr;
    SAME(cuda.call("cudaHostRegister", static_cast<void*>(registered.data()), std::size_t{128}, 2U),
         0);
    SAME(cuda.call("cudaHostGetDevicePointer", &there, static_cast<void*>(&registered[3]), 0U), 0);
    const std::size_t before = free_memory(cuda);
    const Item* const unused = pinned_items(cuda, 1 << 20);
    NEED(unused != nullptr && free_memory(cuda) == before);
    one[5] = {2, &two[3]}, two[3] = {4, managed}, *managed = {8, there}, registered[3] = {16};
    const There<Item> first(cuda, {{1, &one[5]}});
    SAME(walked(cuda, program, first.begin()), 31U);
    SAME(cuda.call("cudaDeviceSynchronize"), 0);
    NEED(one[5].number == 3 && two[3].number == 5 && managed->number == 9);
    NEED(registered[3].number == 17 && first.now()[0].number == 2);
    const std::size_t used = before - free_memory(cuda);
    NEED(used >= 2 * 4096 && used < 1 << 20);
    two[3].number = 100;
    SAME(walked(cuda, program, first.begin()), 2U + 3 + 100 + 9 + 17);
    SAME(cuda.call("cudaFreeHost", static_cast<void*>(one)), 0);
    SAME(cuda.call("cudaFreeHost", static_cast<void*>(two)), 0);
    NEED(free_memory(cuda) > before - 4096);
  };
  EXPECT_EQ(in_child(server.address(), list), 0);
}

// Also where the device remembers the address from memory that was there before; after a reset the
// program's memory is where it was.
TEST_F(PinnedMemory, AtAnAddressOfBefore) {
  HostServer server(private_address(), test_kernels());
  const auto reuse = [] {
    const Library cuda(kRuntime);
    Program program(cuda);
    Item* const before = pinned_items(cuda);
    before[0] = {7};
    There<Item> first(cuda, {{1, before}});
    SAME(walked(cuda, program, first.begin()), 8U);
    // No other address is free.
    const Library driver("libcuda.so.1");
    constexpr std::size_t kLeast = std::size_t{2} << 20;
    std::vector<std::pair<unsigned long long, std::size_t>> taken;
    unsigned long long at = 0;
    const auto reserve = [&](std::size_t bytes) {
      return driver.call("cuMemAddressReserve", &at, bytes, std::size_t{0}, 0ULL, 0ULL) == 0;
    };
    for (std::size_t bytes = std::size_t{1} << 40; bytes >= kLeast; bytes /= 2)
      while (reserve(bytes)) taken.emplace_back(at, bytes);
    SAME(cuda.call("cudaFreeHost", static_cast<void*>(before)), 0);
    NEED(!reserve(kLeast));  // what was freed has been waited for
    Item* const again = pinned_items(cuda);
    NEED(again == before);
    for (const auto& [address, bytes] : taken)
      SAME(driver.call("cuMemAddressFree", address, bytes), 0);
    again[0] = {20};
    SAME(walked(cuda, program, first.begin()), 2U + 20);
    SAME(cuda.call("cudaDeviceReset"), 0);
    again[0].number = 50;
    const There<Item> second(cuda, {{1, again}});
    NEED(second.at < static_cast<void*>(again) || second.at > static_cast<void*>(again + 1));
    SAME(walked(cuda, program, second.begin()), 51U);
  };
  EXPECT_EQ(in_child(server.address(), reuse), 0);
}

// Where the program has something else there, that is said, and parameters are translated.
TEST_F(PinnedMemory, WhereItsAddressIsTaken) {
  HostServer server(private_address(), test_kernels());
  const auto elsewhere = [] {
    const Library cuda(kRuntime);
    Program program(cuda);
    Item* const one = pinned_items(cuda);
    constexpr std::size_t kTaken = std::size_t{1} << 30;
    char* const behind = reinterpret_cast<char*>(one) + 4096;
    NEED(::mmap(behind, kTaken, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
                0) == behind);
    int said[2] = {-1, -1};
    NEED(::pipe(said) == 0);
    const int standard = ::dup(2);
    ::dup2(said[1], 2);
    Item* const two = pinned_items(cuda);
    ::dup2(standard, 2);
    char text[200] = {};
    NEED(::read(said[0], text, sizeof text - 1) > 0);
    NEED(std::string(text).find("something else") != std::string::npos);
    const char* const at = reinterpret_cast<char*>(two);
    NEED(at != nullptr && (at + 4096 <= behind || at >= behind + kTaken));
    two[0] = {5};
    SAME(walked(cuda, program, two), 5U);
    SAME(cuda.call("cudaDeviceSynchronize"), 0);
    NEED(two[0].number == 6);
    SAME(cuda.call("cudaFreeHost", static_cast<void*>(two)), 0);
    SAME(cuda.call("cudaFreeHost", static_cast<void*>(one)), 0);
  };
  EXPECT_EQ(in_child(server.address(), elsewhere), 0);
}

// What the program writes before it launches a kernel the kernel sees, also where others run: each
// reads its own place, in either stream.
TEST_F(PinnedMemory, IsSeenAsItIsAtEachLaunch) {
  HostServer server(private_address(), test_kernels());
  const auto launches = [] {
    const Library cuda(kRuntime);
    Program program(cuda);
    constexpr std::size_t n = 40, kApart = 2000;
    float* pinned = nullptr;
    SAME(cuda.call("cudaHostAlloc", &pinned, n * kApart * 4, 2U), 0);
    const There<float> zeros(cuda, std::vector<float>(n)), out(cuda, std::vector<float>(n));
    void* streams[2] = {};
    for (void*& stream : streams) SAME(cuda.call("cudaStreamCreateWithFlags", &stream, 1U), 0);
    for (std::size_t i = 0; i < n; ++i) {
      if (i % 4 != 3) pinned[i * kApart] = static_cast<float>(i + 1);
      if (i % 4 == 2) pinned[(i + 1) * kApart] = static_cast<float>(i + 2);  // for the next, too
      SAME(program.launch(program.vadd, {1}, {1}, streams[i % 2], pinned + i * kApart, zeros.at,
                          out.at + i, 1U),
           0);
    }
    SAME(cuda.call("cudaDeviceSynchronize"), 0);
    for (std::size_t i = 0; i < n; ++i) SAME(out.now()[i], static_cast<float>(i + 1));
  };
  EXPECT_EQ(in_child(server.address(), launches), 0);
}

// Pinned memory may be called the device's in a copy, the program's other memory may not.
TEST_F(PinnedMemory, InCopies) {
  HostServer server(private_address(), test_kernels());
  EXPECT_EQ(in_child(server.address(),
                     [] {
                       const Library cuda(kRuntime);
                       int plain[4] = {1, 2, 3, 4}, out[4] = {}, *pinned = nullptr;
                       constexpr std::size_t kBytes = sizeof plain;
                       SAME(cuda.call("cudaMallocHost", &pinned, 2 * kBytes), 0);
                       SAME(cuda.call("cudaMemcpy", pinned, plain, kBytes, 1), 0);
                       SAME(cuda.call("cudaMemcpy", pinned + 4, pinned, kBytes, 3), 0);
                       SAME(cuda.call("cudaMemcpyAsync", out, pinned + 4, kBytes, 2, kNoStream), 0);
                       NEED(std::equal(plain, plain + 4, out));
                       SAME(cuda.call("cudaMemcpy", out, plain, kBytes, 1), 1);
                       SAME(cuda.call("cudaMemcpy", out, plain, kBytes, 2), 1);
                     }),
            0);
}

}  // namespace
}  // namespace partita::remote::test
