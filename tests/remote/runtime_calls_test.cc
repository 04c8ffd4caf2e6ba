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
    NEED(bytes.now() == bytes.here);
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
