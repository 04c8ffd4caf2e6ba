// What nvcc's headers make of calls with `--default-stream per-thread`, and what sets memory.
// Oracles: hand values, and what CUDA's documentation says a call answers.
#include <algorithm>

#include "tests/remote/shim_harness.h"

namespace partita::remote::test {
namespace {

constexpr std::size_t kZero = 0;

class RuntimeCalls : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_WHERE_CHILDREN_HAVE_NO_THREADS(); }
  void run(void (*scenario)(const Library&, Program&)) {
    HostServer server(private_address(), test_kernels());
    EXPECT_EQ(in_child(server.address(),
                       [&] {
                         const Library cuda(kRuntime);
                         Program program(cuda);
                         scenario(cuda, program);
                       }),
              0);
  }
};

// What goes into a capture of the thread's own stream does not run until its graph does, so each of
// these is known to have gone there.
TEST_F(RuntimeCalls, GoToTheThreadsOwnStream) {
  run([](const Library& cuda, Program& program) {
    There<std::uint32_t> numbers(cuda, {1, 2, 3, 4, 5, 6, 7, 8}), rows(cuda, {0, 0, 0, 0});
    const void* const symbol = &program.counter;
    void *graph = nullptr, *exec = nullptr;
    static int called = 0;
    int status = 0;
    unsigned flags = 9;
    SAME(cuda.call("cudaStreamBeginCapture_ptsz", kNoStream, 1), 0);
    SAME(cuda.call("cudaStreamIsCapturing_ptsz", kNoStream, &status), 0);
    SAME(status, 1);
    SAME(cuda.call("cudaStreamGetFlags_ptsz", kNoStream, &flags), 0);
    SAME(flags, 0U);
    SAME(cuda.call("cudaMemcpy2DAsync_ptsz", rows.begin(), std::size_t{8},
                   static_cast<const void*>(numbers.begin()), std::size_t{16}, std::size_t{8},
                   std::size_t{2}, 3, kNoStream),
         0);
    SAME(cuda.call("cudaMemset2DAsync_ptsz", numbers.begin(), std::size_t{16}, 0, std::size_t{4},
                   std::size_t{2}, kNoStream),
         0);
    SAME(cuda.call("cudaMemcpyToSymbolAsync_ptsz", symbol, static_cast<const void*>(rows.begin()),
                   std::size_t{4}, kZero, 3, kNoStream),
         0);
    const auto note = +[](void*, int, void*) { ++called; };
    SAME(cuda.call("cudaStreamAddCallback_ptsz", kNoStream, note, kNoStream, 0U), 0);
    SAME(cuda.call("cudaStreamEndCapture_ptsz", kNoStream, &graph), 0);
    NEED(rows.now() == rows.here && numbers.now() == numbers.here && called == 0);
    SAME(cuda.call("cudaGraphInstantiate", &exec, graph, 0ULL), 0);
    SAME(cuda.call("cudaGraphUpload_ptsz", exec, kNoStream), 0);
    SAME(cuda.call("cudaGraphLaunch_ptsz", exec, kNoStream), 0);
    SAME(cuda.call("cudaStreamSynchronize_ptsz", kNoStream), 0);
    NEED(rows.now() == (std::vector<std::uint32_t>{1, 2, 5, 6}));
    NEED(numbers.now() == (std::vector<std::uint32_t>{0, 2, 3, 4, 0, 6, 7, 8}));
    SAME(called, 1);
    std::uint32_t now = 0;
    SAME(cuda.call("cudaMemcpyFromSymbol_ptds", static_cast<void*>(&now), symbol, std::size_t{4},
                   kZero, 2),
         0);
    SAME(now, 1U);
  });
}

TEST_F(RuntimeCalls, SetSpacePinnedMemoryAndNodes) {
  run([](const Library& cuda, Program&) {
    struct {
      void* memory;
      std::size_t pitch, width, height;
    } space{nullptr, 8, 8, 3};  // cudaPitchedPtr: slices of three rows
    struct Extent {
      std::size_t x, y, z;
    };
    There<std::uint8_t> bytes(cuda, std::vector<std::uint8_t>(8 * 3 * 2, 1));
    space.memory = bytes.begin();
    SAME(cuda.call("cudaMemset3D", space, 7, Extent{5, 2, 2}), 0);
    const auto after = bytes.now();
    for (std::size_t i = 0; i < after.size(); ++i)
      SAME(after[i], i % 8 < 5 && i / 8 % 3 < 2 ? 7 : 1);
    // Behind a copy into it, and in front of one from it.
    std::uint8_t* pinned = nullptr;
    There<std::uint8_t> copy(cuda, std::vector<std::uint8_t>(48));
    SAME(cuda.call("cudaMallocHost", &pinned, std::size_t{48}), 0);
    SAME(cuda.call("cudaMemcpyAsync", static_cast<void*>(pinned),
                   static_cast<const void*>(bytes.begin()), std::size_t{48}, 2, kNoStream),
         0);
    SAME(cuda.call("cudaMemset2DAsync", static_cast<void*>(pinned), std::size_t{8}, 9,
                   std::size_t{3}, std::size_t{2}, kNoStream),
         0);
    SAME(cuda.call("cudaMemcpyAsync", copy.begin(), static_cast<const void*>(pinned),
                   std::size_t{48}, 1, kNoStream),
         0);
    SAME(cuda.call("cudaDeviceSynchronize"), 0);
    for (std::size_t i = 0; i < after.size(); ++i)
      SAME(pinned[i], i % 8 < 3 && i < 16 ? 9 : after[i]);
    NEED(std::equal(pinned, pinned + 48, copy.now().begin()));
    SAME(cuda.call("cudaMemset", static_cast<void*>(pinned), 1, std::size_t{49}), 1);
  });
}

// The program sees what a call without a stream set in its own memory, or in both's.
TEST_F(RuntimeCalls, SetsOfTheProgramsMemoryAreDoneWhenTheyReturn) {
  run([](const Library& cuda, Program& program) {
    const Library driver("libcuda.so.1");
    constexpr std::size_t kBytes = 1 << 16;
    There<float> zeros(cuda, std::vector<float>(4)), out(cuda, zeros.here);
    for (const bool is_managed : {false, true}) {
      std::uint8_t* memory = nullptr;
      SAME(is_managed ? cuda.call("cudaMallocManaged", &memory, kBytes, 1U)
                      : cuda.call("cudaMallocHost", &memory, kBytes),
           0);
      for (std::uint8_t value = 1; value < 40; ++value) {
        void* const to = memory;
        const auto address = reinterpret_cast<std::uint64_t>(to);
        if (value == 20)  // the device has it from now on
          SAME(program.launch(program.vadd, {1}, {1}, kNoStream, to, zeros.at, out.at, 4U), 0);
        SAME(value % 3 == 0 ? cuda.call("cudaMemset", to, int{value}, kBytes)
             : value % 3 == 1
                 ? cuda.call("cudaMemset2D", to, kBytes / 4, int{value}, kBytes / 4, std::size_t{4})
                 : driver.call("cuMemsetD8_v2", address, value, kBytes),
             0);
        SAME(std::count(memory, memory + kBytes, value), std::ptrdiff_t{kBytes});
      }
    }
  });
}

// Refused where it is asked for; the session goes on.
TEST_F(RuntimeCalls, SizesThatCannotBe) {
  run([](const Library& cuda, Program&) {
    constexpr std::size_t kLarge = std::size_t{1} << 40, kHalf = std::size_t{1} << 63;
    There<std::uint8_t> bytes(cuda, std::vector<std::uint8_t>(64, 1));
    void* memory = nullptr;
    std::size_t pitch = 0;
    struct {
      void* memory = nullptr;
      std::size_t pitch = 0, width = 0, height = 0;
    } space;
    struct Extent {
      std::size_t x, y, z;
    };
    SAME(cuda.call("cudaMallocPitch", &memory, &pitch, kLarge, kLarge), 2);
    SAME(cuda.call("cudaMalloc3D", &space, Extent{kLarge, 1 << 24, 1}), 2);
    SAME(cuda.call("cudaMalloc3D", &space, Extent{512, kLarge, kLarge}), 2);
    SAME(cuda.call("cudaMemset2D", bytes.begin(), std::size_t{8}, 0, std::size_t{16},
                   std::size_t{2}),
         1);  // rows longer than their pitch
    SAME(cuda.call("cudaMemset2D", bytes.begin(), kHalf, 0, std::size_t{8}, std::size_t{3}), 1);
    SAME(cuda.call("cudaMemcpy2D", bytes.begin(), kHalf, static_cast<const void*>(bytes.begin()),
                   std::size_t{8}, std::size_t{8}, std::size_t{3}, 3),
         1);
    const void* const from = bytes.begin();
    for (const int kind : {1, 2, 3})  // more bytes than numbers have
      SAME(
          cuda.call("cudaMemcpy2D", bytes.begin(), kHalf, from, kHalf, kHalf, std::size_t{2}, kind),
          1);
    SAME(cuda.call("cudaMallocPitch", &memory, &pitch, ~kZero, std::size_t{1}), 2);
    SAME(cuda.call("cudaMalloc3D", &space, Extent{~kZero, 1, 1}), 2);
    // Nothing, however often.
    space = {bytes.begin(), 8, 8, 8};
    SAME(cuda.call("cudaMemset3D", space, 0, Extent{0, 8, ~kZero}), 0);
    SAME(cuda.call("cudaMemset3D", space, 0, Extent{8, 0, ~kZero}), 0);
    NEED(bytes.now() == bytes.here);
  });
}

TEST_F(RuntimeCalls, SizesThatCannotBeForTheDriver) {
  run([](const Library&, Program&) {
    const Library driver("libcuda.so.1");
    constexpr std::size_t kLarge = std::size_t{1} << 40;
    std::uint64_t memory = 0;
    std::size_t pitch = 0;
    SAME(driver.call("cuMemAllocPitch_v2", &memory, &pitch, kLarge, kLarge, 4U), 2);
    SAME(driver.call("cuMemAllocPitch_v2", &memory, &pitch, ~kZero, std::size_t{1}, 4U), 2);
    SAME(driver.call("cuMemAlloc_v2", &memory, std::size_t{64}), 0);
    SAME(driver.call("cuMemsetD16_v2", memory, std::uint16_t{1}, std::size_t{1} << 63), 1);
    SAME(driver.call("cuMemsetD32_v2", memory, 1U, std::size_t{1} << 62), 1);
    SAME(driver.call("cuMemsetD32_v2", memory + 2, 1U, std::size_t{1}), 1);  // between two words
    SAME(
        driver.call("cuMemsetD2D32_v2", memory, std::size_t{6}, 1U, std::size_t{1}, std::size_t{2}),
        1);
    SAME(driver.call("cuCtxSynchronize"), 0);
  });
}

TEST_F(RuntimeCalls, NodesSetSomethingElse) {
  run([](const Library& cuda, Program&) {
    There<std::uint32_t> numbers(cuda, {0, 0});
    struct {
      void* to;
      std::size_t pitch;
      unsigned value, element;
      std::size_t width, height;
    } set{numbers.begin(), 0, 9, 4, 2, 1};
    const auto* const what = static_cast<const void*>(&set);
    void *graph = nullptr, *node = nullptr, *exec = nullptr, *other = nullptr;
    SAME(cuda.call("cudaGraphCreate", &graph, 0U), 0);
    SAME(cuda.call("cudaGraphAddMemsetNode", &node, graph, static_cast<void**>(nullptr), kZero,
                   what),
         0);
    SAME(cuda.call("cudaGraphInstantiate", &exec, graph, 0ULL), 0);
    SAME(cuda.call("cudaGraphInstantiate", &other, graph, 0ULL), 0);
    const auto launched = [&](void* one) {
      SAME(cuda.call("cudaGraphLaunch", one, kNoStream), 0);
      return numbers.now();
    };
    set.value = 10, set.width = 1;
    SAME(cuda.call("cudaGraphExecMemsetNodeSetParams", exec, node, what), 0);
    NEED(launched(other) == (std::vector<std::uint32_t>{9, 9}));
    NEED(launched(exec) == (std::vector<std::uint32_t>{10, 9}));
    set.value = 11;
    SAME(cuda.call("cudaGraphMemsetNodeSetParams", node, what), 0);
    NEED(launched(other) == (std::vector<std::uint32_t>{9, 9}));
    SAME(cuda.call("cudaGraphExecUpdate", other, graph, static_cast<void*>(nullptr)), 0);
    NEED(launched(other) == (std::vector<std::uint32_t>{11, 9}));
    SAME(cuda.call("cudaGraphExecMemsetNodeSetParams", exec, graph, what), 1);  // no node
    std::uint8_t* pinned = nullptr;
    SAME(cuda.call("cudaMallocHost", &pinned, std::size_t{16}), 0);
    std::fill(pinned, pinned + 16, std::uint8_t{1});
    auto to_pinned = set;
    to_pinned.to = pinned, to_pinned.element = 1, to_pinned.width = 5;
    SAME(cuda.call("cudaGraphExecMemsetNodeSetParams", exec, node,
                   static_cast<const void*>(&to_pinned)),
         0);
    for (const std::ptrdiff_t set_there : {0, 5}) {
      SAME(std::count(pinned, pinned + 16, 11), set_there);
      SAME(cuda.call("cudaGraphLaunch", exec, kNoStream), 0);
      SAME(cuda.call("cudaDeviceSynchronize"), 0);
    }
    // What cannot be set is refused at once, and nodes stay as they are.
    const auto is_refused = [&](auto wrong) {
      void* new_node = nullptr;
      const auto* const bad = static_cast<const void*>(&wrong);
      SAME(cuda.call("cudaGraphExecMemsetNodeSetParams", other, node, bad), 1);
      SAME(cuda.call("cudaGraphMemsetNodeSetParams", node, bad), 1);
      SAME(cuda.call("cudaGraphAddMemsetNode", &new_node, graph, static_cast<void**>(nullptr),
                     kZero, bad),
           1);
      NEED(launched(other) == (std::vector<std::uint32_t>{11, 9}));
    };
    auto wrong = set;
    wrong.width = 1 << 20;
    is_refused(wrong);
    wrong = set, wrong.height = 2, wrong.pitch = 2;
    is_refused(wrong);
    wrong = set, wrong.element = 3;
    is_refused(wrong);
    wrong = set, wrong.to = reinterpret_cast<char*>(set.to) + 2;
    is_refused(wrong);
    wrong = set, wrong.width = std::size_t{1} << 62;
    is_refused(wrong);
  });
}

TEST_F(RuntimeCalls, PrioritiesAreThoseThereAre) {
  run([](const Library& cuda, Program&) {
    int least = 1, greatest = 1, got = 1;
    SAME(cuda.call("cudaDeviceGetStreamPriorityRange", &least, &greatest), 0);
    for (const int asked : {-1000, greatest, -1, least, 1000}) {
      void* stream = nullptr;
      SAME(cuda.call("cudaStreamCreateWithPriority", &stream, 0U, asked), 0);
      SAME(cuda.call("cudaStreamGetPriority", stream, &got), 0);
      SAME(got, std::clamp(asked, greatest, least));
    }
  });
}

}  // namespace
}  // namespace partita::remote::test
