// libcudart.so.13 and .12 against real sessions: what a program sees. Oracles: hand values, and
// what CUDA's documentation says a call answers.
#include <fstream>
#include <iterator>
#include <numeric>

#include "tests/remote/shim_harness.h"

namespace partita::remote::test {
namespace {

constexpr int kToDevice = 1, kToHost = 2, kOnDevice = 3, kDefault = 4;

using Words = std::vector<std::uint32_t>;

struct Memory {  // of the device
  Memory(const Library& library, std::size_t bytes) : cuda(library) {
    SAME(cuda.call("cudaMalloc", &address, bytes), 0);
  }
  const Library& cuda;
  void* address = nullptr;
};

Words read(const Library& cuda, void* from, std::size_t count) {
  Words words(count);
  SAME(cuda.call("cudaMemcpy", static_cast<void*>(words.data()), static_cast<const void*>(from),
                 count * 4, kToHost),
       0);
  return words;
}

class Shim : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { SKIP_WHERE_CHILDREN_HAVE_NO_THREADS(); }
  void run(void (*scenario)(const Library&, Program&)) {
    HostServer server(private_address(), test_kernels());
    EXPECT_EQ(in_child(server.address(),
                       [&] {
                         const Library cuda(GetParam());
                         Program program(cuda);
                         scenario(cuda, program);
                       }),
              0);
  }
};

TEST_P(Shim, VectorAdd) {
  run([](const Library& cuda, Program& program) {
    constexpr unsigned n = 10'000;
    std::vector<float> a(n), b(n), c(n);
    std::iota(a.begin(), a.end(), 0.F);
    std::iota(b.begin(), b.end(), 1000.F);
    Memory da(cuda, n * 4), db(cuda, n * 4), dc(cuda, n * 4);
    SAME(cuda.call("cudaMemcpy", da.address, static_cast<const void*>(a.data()), std::size_t{n} * 4,
                   kToDevice),
         0);
    SAME(cuda.call("cudaMemcpy", db.address, static_cast<const void*>(b.data()), std::size_t{n} * 4,
                   kDefault),
         0);
    SAME(
        program.launch(program.vadd, {40}, {256}, kNoStream, da.address, db.address, dc.address, n),
        0);
    SAME(cuda.call("cudaMemcpy", static_cast<void*>(c.data()), static_cast<const void*>(dc.address),
                   std::size_t{n} * 4, kToHost),
         0);
    for (unsigned i = 0; i < n; ++i) NEED(c[i] == a[i] + b[i]);
    SAME(cuda.call("cudaFree", da.address), 0);
    SAME(cuda.call("cudaDeviceSynchronize"), 0);
  });
}

TEST_P(Shim, WrongCallsAnswerAsCudaDoes) {
  run([](const Library& cuda, Program& program) {
    Memory memory(cuda, 4096);
    std::uint32_t word = 0;
    const auto last = [&] { return cuda.call("cudaGetLastError"); };
    SAME(program.launch(program.fill, {1}, {1025}, kNoStream, memory.address, 1U, 1U), 9);
    SAME(program.launch(program.fill, {0}, {1}, kNoStream, memory.address, 1U, 1U), 9);
    SAME(program.launch(program.fill, {1, 65536}, {1}, kNoStream, memory.address, 1U, 1U), 9);
    SAME(cuda.call("cudaPeekAtLastError"), 9);
    SAME(last(), 9);
    SAME(last(), 0);
    void* const nowhere = reinterpret_cast<void*>(0x1234);
    SAME(program.launch(program.fill, {1}, {1}, nowhere, memory.address, 1U, 1U), 400);
    SAME(cuda.call("cudaFree", nowhere), 1);
    SAME(cuda.call("cudaMemcpy", static_cast<void*>(&word),
                   static_cast<const void*>(memory.address), std::size_t{4097}, kToHost),
         1);
    SAME(cuda.call("cudaMemcpy", static_cast<void*>(&word), static_cast<const void*>(&word),
                   std::size_t{4}, kToHost),
         1);
    SAME(
        cuda.call("cudaMemcpy", memory.address, static_cast<const void*>(&word), std::size_t{4}, 9),
        21);
    SAME(cuda.call("cudaSetDevice", 1), 101);
    SAME(cuda.call("cudaMalloc", &memory.address, std::size_t{1} << 40), 2);
    void* array = nullptr;
    SAME(cuda.call("cudaMallocMipmappedArray", &array, static_cast<const void*>(nullptr),
                   std::size_t{16}),
         801);
    SAME(cuda.call("cudaMemcpyToSymbol", static_cast<const void*>(&word),
                   static_cast<const void*>(&word), std::size_t{4}, std::size_t{0}, kToDevice),
         13);
    char not_a_kernel = 0;
    SAME(program.launch(not_a_kernel, {1}, {1}, kNoStream), 98);
    NEED(std::string(cuda.call<const char*>("cudaGetErrorName", 98)) ==
         "cudaErrorInvalidDeviceFunction");
    last();
    SAME(cuda.call("cudaDeviceSynchronize"), 0);  // nothing of this reached the device
  });
}

TEST_P(Shim, RowsSetsAndSymbols) {
  run([](const Library& cuda, Program& program) {
    constexpr std::size_t kPitch = 64, kWidth = 12, kRows = 5;
    Memory memory(cuda, kPitch * kRows);
    SAME(cuda.call("cudaMemset", memory.address, 0x7f, kPitch * kRows), 0);
    SAME(cuda.call("cudaMemset2D", memory.address, kPitch, 0x11, kWidth, kRows), 0);
    Words words = read(cuda, memory.address, kPitch * kRows / 4);
    for (std::size_t i = 0; i < words.size(); ++i)
      SAME(words[i], i % 16 < 3 ? 0x11111111U : 0x7f7f7f7fU);
    Words rows(kWidth / 4 * kRows), back(16 * kRows, 5);
    std::iota(rows.begin(), rows.end(), 100U);
    SAME(cuda.call("cudaMemcpy2D", memory.address, kPitch, static_cast<const void*>(rows.data()),
                   kWidth, kWidth, kRows, kToDevice),
         0);
    SAME(cuda.call("cudaMemcpy2D", static_cast<void*>(back.data()), std::size_t{64},
                   static_cast<const void*>(memory.address), kPitch, kWidth, kRows, kToHost),
         0);
    for (std::size_t i = 0; i < back.size(); ++i)
      SAME(back[i], i % 16 < 3 ? 100 + i / 16 * 3 + i % 16 : 5);
    SAME(cuda.call("cudaMemcpy2D", memory.address, std::size_t{8},
                   static_cast<const void*>(rows.data()), kWidth, kWidth, kRows, kToDevice),
         12);

    std::uint32_t value = 77, got = 0;
    const void* const symbol = &program.counter;
    SAME(cuda.call("cudaMemcpyToSymbol", symbol, static_cast<const void*>(&value), std::size_t{4},
                   std::size_t{0}, kToDevice),
         0);
    SAME(cuda.call("cudaMemcpyFromSymbol", static_cast<void*>(&got), symbol, std::size_t{4},
                   std::size_t{0}, kToHost),
         0);
    SAME(got, 77U);
    SAME(cuda.call("cudaMemcpyToSymbol", symbol, static_cast<const void*>(&value), std::size_t{4},
                   std::size_t{1}, kToDevice),
         1);
    void* address = nullptr;
    SAME(cuda.call("cudaGetSymbolAddress", &address, symbol), 0);
    SAME(cuda.call("cudaMemset", address, 1, std::size_t{4}), 0);
    SAME(read(cuda, address, 1)[0], 0x01010101U);
  });
}

struct Noted {
  const Library* cuda;
  std::uint32_t* seen;
  std::uint32_t value;
};

TEST_P(Shim, StreamsEventsPinnedCopiesAndCallbacks) {
  run([](const Library& cuda, Program& program) {
    void *stream = nullptr, *begin = nullptr, *end = nullptr, *pinned = nullptr;
    SAME(cuda.call("cudaStreamCreateWithFlags", &stream, 1U), 0);
    SAME(cuda.call("cudaEventCreate", &begin), 0);
    SAME(cuda.call("cudaEventCreate", &end), 0);
    SAME(cuda.call("cudaMallocHost", &pinned, std::size_t{400}), 0);
    auto* words = static_cast<std::uint32_t*>(pinned);
    Memory memory(cuda, 400);
    SAME(cuda.call("cudaEventRecord", begin, stream), 0);
    SAME(program.launch(program.fill, {1}, {100}, stream, memory.address, 42U, 100U), 0);
    words[99] = 1;
    SAME(cuda.call("cudaMemcpyAsync", pinned, static_cast<const void*>(memory.address),
                   std::size_t{400}, kToHost, stream),
         0);
    // The copy is done before the function runs, and the function before the stream goes on.
    static std::uint32_t seen;
    static Noted noted{&cuda, &words[99], 0};
    SAME(cuda.call("cudaLaunchHostFunc", stream, static_cast<void (*)(void*)>([](void* data) {
                     auto& note = *static_cast<Noted*>(data);
                     ::usleep(20'000);
                     seen = note.value = *note.seen;
                   }),
                   static_cast<void*>(&noted)),
         0);
    SAME(cuda.call("cudaEventRecord", end, stream), 0);
    const int query = cuda.call("cudaEventQuery", end);
    NEED(query == 600 || query == 0);
    SAME(cuda.call("cudaStreamSynchronize", stream), 0);
    SAME(seen, 42U);
    SAME(words[0], 42U);
    SAME(cuda.call("cudaEventQuery", end), 0);
    float ms = -1;
    SAME(cuda.call("cudaEventElapsedTime", &ms, begin, end), 0);
    NEED(ms >= 0);
    SAME(cuda.call("cudaStreamQuery", stream), 0);
    SAME(cuda.call("cudaStreamDestroy", stream), 0);
    SAME(cuda.call("cudaStreamSynchronize", stream), 400);
    SAME(cuda.call("cudaEventDestroy", end), 0);
    SAME(cuda.call("cudaFreeHost", pinned), 0);
    SAME(cuda.call("cudaFreeHost", pinned), 1);
  });
}

// Copies with the program's memory in a captured graph happen at every launch, with what the
// memory holds then.
TEST_P(Shim, GraphsByCapture) {
  run([](const Library& cuda, Program& program) {
    void *stream = nullptr, *graph = nullptr, *exec = nullptr;
    SAME(cuda.call("cudaStreamCreate", &stream), 0);
    constexpr unsigned n = 16;
    Memory a(cuda, n * 4), b(cuda, n * 4), c(cuda, n * 4);
    std::vector<float> in(n, 1), out(n, 0);
    SAME(program.launch(program.fill, {1}, {16}, kNoStream, b.address, 0x40000000U, n), 0);  // 2.0F
    SAME(cuda.call("cudaStreamBeginCapture", stream, 0), 0);
    SAME(cuda.call("cudaStreamSynchronize", stream), 900);
    void* broken = nullptr;
    SAME(cuda.call("cudaStreamEndCapture", stream, &broken), 901);
    SAME(cuda.call("cudaStreamBeginCapture", stream, 0), 0);
    SAME(cuda.call("cudaMemcpyAsync", a.address, static_cast<const void*>(in.data()),
                   std::size_t{n} * 4, kToDevice, stream),
         0);
    SAME(program.launch(program.vadd, {1}, {16}, stream, a.address, b.address, c.address, n), 0);
    SAME(cuda.call("cudaMemcpyAsync", static_cast<void*>(out.data()),
                   static_cast<const void*>(c.address), std::size_t{n} * 4, kToHost, stream),
         0);
    SAME(cuda.call("cudaStreamEndCapture", stream, &graph), 0);
    SAME(cuda.call("cudaGraphInstantiate", &exec, graph, 0ULL), 0);
    for (int round = 1; round <= 3; ++round) {
      in.assign(n, static_cast<float>(10 * round));
      SAME(cuda.call("cudaGraphLaunch", exec, stream), 0);
      SAME(cuda.call("cudaStreamSynchronize", stream), 0);
      NEED(out[0] == static_cast<float>(10 * round + 2));
      NEED(out[n - 1] == static_cast<float>(10 * round + 2));
    }
    SAME(cuda.call("cudaGraphExecDestroy", exec), 0);
    SAME(cuda.call("cudaGraphDestroy", graph), 0);
  });
}

// A function in a graph reads what was copied before it, and what it writes is copied after it.
TEST_P(Shim, FunctionsInGraphsStandBetweenCopies) {
  run([](const Library& cuda, Program& program) {
    constexpr unsigned n = 16;
    struct Host {
      std::vector<std::uint32_t> in = Words(n, 0), middle = Words(n, 0), next = Words(n, 0),
                                 out = Words(n, 0);
    } host;
    void *stream = nullptr, *graph = nullptr, *exec = nullptr;
    SAME(cuda.call("cudaStreamCreate", &stream), 0);
    Memory device(cuda, n * 4);
    const auto copy = [&](void* to, const void* from, int kind) {
      SAME(cuda.call("cudaMemcpyAsync", to, from, std::size_t{n} * 4, kind, stream), 0);
    };
    SAME(cuda.call("cudaStreamBeginCapture", stream, 0), 0);
    copy(device.address, host.in.data(), kToDevice);
    copy(host.middle.data(), device.address, kToHost);
    SAME(cuda.call("cudaLaunchHostFunc", stream, static_cast<void (*)(void*)>([](void* given) {
                     auto& is = *static_cast<Host*>(given);
                     for (unsigned i = 0; i < n; ++i) is.next[i] = is.middle[i] + i;
                   }),
                   static_cast<void*>(&host)),
         0);
    copy(device.address, host.next.data(), kToDevice);
    copy(host.out.data(), device.address, kToHost);
    SAME(cuda.call("cudaStreamEndCapture", stream, &graph), 0);
    SAME(cuda.call("cudaGraphInstantiate", &exec, graph, 0ULL), 0);
    for (std::uint32_t round = 1; round <= 3; ++round) {
      host.in.assign(n, round * 100);
      SAME(cuda.call("cudaGraphLaunch", exec, stream), 0);
      SAME(cuda.call("cudaStreamSynchronize", stream), 0);
      for (unsigned i = 0; i < n; ++i) SAME(host.out[i], round * 100 + i);
    }
    static_cast<void>(program);
  });
}

// Memory that a graph has: made by a node and in a capture, used by its launches, gone with the
// last that has it. A stream that joined a capture may end in it.
TEST_P(Shim, GraphsHaveMemory) {
  run([](const Library& cuda, Program& program) {
    constexpr std::uint32_t n = 16;
    std::size_t before = 0, now = 0, total = 0;
    void *stream = nullptr, *side = nullptr, *graph = nullptr, *exec = nullptr, *event = nullptr;
    SAME(cuda.call("cudaStreamCreate", &stream), 0);
    SAME(cuda.call("cudaStreamCreate", &side), 0);
    SAME(cuda.call("cudaEventCreate", &event), 0);
    SAME(cuda.call("cudaMemGetInfo", &before, &total), 0);
    SAME(cuda.call("cudaStreamBeginCapture", stream, 0), 0);
    void* memory = nullptr;
    SAME(cuda.call("cudaMallocAsync", &memory, std::size_t{n} * 4, stream), 0);
    SAME(program.launch(program.fill, {1}, {16}, stream, memory, 3U, n), 0);
    SAME(cuda.call("cudaEventRecord", event, stream), 0);
    SAME(cuda.call("cudaStreamWaitEvent", side, event, 0U), 0);
    SAME(cuda.call("cudaFreeAsync", memory, side), 0);
    SAME(cuda.call("cudaEventRecord", event, side), 0);
    SAME(cuda.call("cudaStreamWaitEvent", stream, event, 0U), 0);
    SAME(cuda.call("cudaStreamDestroy", side), 0);
    SAME(cuda.call("cudaStreamEndCapture", stream, &graph), 0);
    SAME(cuda.call("cudaGraphInstantiate", &exec, graph, 0ULL), 0);
    SAME(cuda.call("cudaGraphDestroy", graph), 0);
    SAME(cuda.call("cudaGraphLaunch", exec, stream), 0);
    SAME(cuda.call("cudaStreamSynchronize", stream), 0);
    SAME(read(cuda, memory, n)[n - 1], 3U);
    SAME(cuda.call("cudaFree", memory), 0);  // the graph's next launch has it again
    SAME(read(cuda, memory, n)[0], 3U);
    SAME(cuda.call("cudaGraphExecDestroy", exec), 0);

    struct {
      char pool[88] = {};
      const void* access = nullptr;
      std::size_t accesses = 0, bytes = n * 4;
      void* memory = nullptr;
    } node;
    void *made = nullptr, *freed = nullptr;
    SAME(cuda.call("cudaGraphCreate", &graph, 0U), 0);
    SAME(cuda.call("cudaGraphAddMemAllocNode", &made, graph, static_cast<void**>(nullptr),
                   std::size_t{0}, static_cast<void*>(&node)),
         0);
    NEED(node.memory != nullptr);
    SAME(cuda.call("cudaGraphAddMemFreeNode", &freed, graph, &made, std::size_t{1}, node.memory),
         0);
    SAME(cuda.call("cudaGraphAddMemFreeNode", &freed, graph, &made, std::size_t{1},
                   static_cast<void*>(&node)),
         1);
    std::uint64_t used = 0;
    SAME(cuda.call("cudaDeviceGetGraphMemAttribute", 0, 0, static_cast<void*>(&used)), 0);
    SAME(used, n * 4);
    SAME(cuda.call("cudaGraphDestroy", graph), 0);
    SAME(cuda.call("cudaDeviceGetGraphMemAttribute", 0, 0, static_cast<void*>(&used)), 0);
    SAME(used, 0U);
    SAME(cuda.call("cudaMemGetInfo", &now, &total), 0);
    SAME(now, before);
  });
}

// Node by node: set, then fill the first half; then other values.
TEST_P(Shim, GraphsByNodes) {
  run([](const Library& cuda, Program& program) {
    void *stream = nullptr, *exec = nullptr, *node = nullptr;
    SAME(cuda.call("cudaStreamCreate", &stream), 0);
    constexpr unsigned n = 16;
    Memory c(cuda, n * 4);
    struct {
      void* to;
      std::size_t pitch;
      unsigned value, element;
      std::size_t width, height;
    } set{c.address, 0, 9, 4, n, 1};
    std::uint32_t value = 5, half = n / 2;
    void* parameters[] = {&c.address, &value, &half};
    struct {
      void* function;
      Dim3 grid, block;
      unsigned shared;
      void** parameters;
      void** extra;
    } launch{&program.fill, {1}, {8}, 0, parameters, nullptr};
    void* graph2 = nullptr;
    SAME(cuda.call("cudaGraphCreate", &graph2, 0U), 0);
    SAME(cuda.call("cudaGraphAddMemsetNode", &node, graph2, static_cast<void**>(nullptr),
                   std::size_t{0}, static_cast<const void*>(&set)),
         0);
    void* second = nullptr;
    SAME(cuda.call("cudaGraphAddKernelNode", &second, graph2, &node, std::size_t{1},
                   static_cast<const void*>(&launch)),
         0);
    SAME(cuda.call("cudaGraphInstantiate", &exec, graph2, 0ULL), 0);
    SAME(cuda.call("cudaGraphLaunch", exec, stream), 0);
    SAME(cuda.call("cudaStreamSynchronize", stream), 0);
    const Words words = read(cuda, c.address, n);
    for (unsigned i = 0; i < n; ++i) SAME(words[i], i < half ? 5U : 9U);
    // Its kernel writes another value, first in the executable graph, then in a clone that the
    // executable one is brought up to; the graph itself stays as it was.
    const auto launched = [&](void* what) {
      SAME(cuda.call("cudaGraphLaunch", what, stream), 0);
      SAME(cuda.call("cudaStreamSynchronize", stream), 0);
      return read(cuda, c.address, n)[0];
    };
    void *clone = nullptr, *found = nullptr, *plain = nullptr;
    SAME(cuda.call("cudaGraphClone", &clone, graph2), 0);
    SAME(cuda.call("cudaGraphNodeFindInClone", &found, second, clone), 0);
    value = 6;
    SAME(cuda.call("cudaGraphExecKernelNodeSetParams", exec, second,
                   static_cast<const void*>(&launch)),
         0);
    SAME(launched(exec), 6U);
    SAME(cuda.call("cudaGraphInstantiate", &plain, clone, 0ULL), 0);
    SAME(launched(plain), 5U);
    value = 7;
    SAME(cuda.call("cudaGraphKernelNodeSetParams", second, static_cast<const void*>(&launch)), 0);
    SAME(cuda.call("cudaGraphExecUpdate", plain, graph2, static_cast<void*>(nullptr)), 0);
    SAME(launched(plain), 7U);
    SAME(launched(exec), 6U);
    SAME(cuda.call("cudaGraphExecKernelNodeSetParams", exec, clone,
                   static_cast<const void*>(&launch)),
         1);  // no node
  });
}

// A clone has nodes of its own: what becomes of one is not so in the graph that it was made of.
TEST_P(Shim, NodesOfAClone) {
  run([](const Library& cuda, Program& program) {
    constexpr unsigned n = 8;
    Memory c(cuda, n * 4);
    std::uint32_t value = 5, count = n;
    void* parameters[] = {&c.address, &value, &count};
    struct {
      const void* function;
      Dim3 grid, block;
      unsigned shared;
      void** parameters;
      void** extra;
    } launch{&program.fill, {1}, {8}, 0, parameters, nullptr};
    const auto what = static_cast<const void*>(&launch);
    void *graph = nullptr, *clone = nullptr, *node = nullptr, *found = nullptr, *behind = nullptr;
    SAME(cuda.call("cudaGraphCreate", &graph, 0U), 0);
    SAME(cuda.call("cudaGraphAddKernelNode", &node, graph, static_cast<void**>(nullptr),
                   std::size_t{0}, what),
         0);
    SAME(cuda.call("cudaGraphClone", &clone, graph), 0);
    SAME(cuda.call("cudaGraphNodeFindInClone", &found, node, clone), 0);
    NEED(found != node);
    SAME(cuda.call("cudaGraphNodeFindInClone", &behind, found, clone), 1);
    const auto launched = [&](void* of) {
      void* exec = nullptr;
      SAME(cuda.call("cudaGraphInstantiate", &exec, of, 0ULL), 0);
      SAME(cuda.call("cudaGraphLaunch", exec, kNoStream), 0);
      SAME(cuda.call("cudaDeviceSynchronize"), 0);
      return read(cuda, c.address, n)[0];
    };
    value = 8;
    SAME(cuda.call("cudaGraphKernelNodeSetParams", found, what), 0);
    SAME(launched(clone), 8U);
    SAME(launched(graph), 5U);
    value = 9;  // by a node behind it, in the clone
    SAME(cuda.call("cudaGraphAddKernelNode", &behind, clone, &found, std::size_t{1}, what), 0);
    SAME(launched(clone), 9U);
    SAME(launched(graph), 5U);
  });
}

// As many streams as there may be, all of them with work; one more is refused, and nothing else.
TEST_P(Shim, AsManyStreamsAsThereMayBe) {
  run([](const Library& cuda, Program& program) {
    std::vector<void*> streams;
    int status = 0;
    for (void* stream = nullptr; status == 0 && streams.size() < kMostStreams;) {
      status = cuda.call("cudaStreamCreate", &stream);
      if (status == 0) streams.push_back(stream);
    }
    SAME(status, 2);
    NEED(streams.size() > 4000);
    void* memory = nullptr;
    SAME(cuda.call("cudaMalloc", &memory, std::size_t{4} * streams.size()), 0);
    for (unsigned i = 0; i < streams.size(); ++i)
      SAME(program.launch(program.fill, {}, {}, streams[i], static_cast<unsigned*>(memory) + i, i,
                          1U),
           0);
    const Words words = read(cuda, memory, static_cast<unsigned>(streams.size()));
    for (unsigned i = 0; i < words.size(); ++i) SAME(words[i], i);
    SAME(cuda.call("cudaStreamDestroy", streams.back()), 0);
    SAME(cuda.call("cudaStreamCreate", &streams.back()), 0);
  });
}

TEST_P(Shim, PropertiesAttributesOccupancyMemory) {
  run([](const Library& cuda, Program& program) {
    std::vector<char> properties(1032);
    SAME(cuda.call("cudaGetDeviceProperties", static_cast<void*>(properties.data()), 0), 0);
    NEED(std::string(properties.data()) == "Test device");
    int value = 0;
    SAME(cuda.call("cudaDeviceGetAttribute", &value, 75, 0), 0);
    SAME(value, 9);
    std::vector<char> attributes(144);
    SAME(cuda.call("cudaFuncGetAttributes", static_cast<void*>(attributes.data()),
                   static_cast<const void*>(&program.fill)),
         0);
    int most = 0;
    std::memcpy(&most, attributes.data() + 24, 4);
    SAME(most, 1024);
    // 32 registers, 256 threads: 8 warps of 1024 registers; 64 warps fit a multiprocessor of 65536.
    SAME(cuda.call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", &value,
                   static_cast<const void*>(&program.fill), 256, std::size_t{0}),
         0);
    SAME(value, 8);
    // 100 KiB and 1 KiB reserved each: two fit 228 KiB.
    SAME(cuda.call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", &value,
                   static_cast<const void*>(&program.fill), 256, std::size_t{100 * 1024}),
         0);
    SAME(value, 2);
    std::size_t before = 0, after = 0, total = 0;
    SAME(cuda.call("cudaMemGetInfo", &before, &total), 0);
    Memory memory(cuda, 1 << 20);
    SAME(cuda.call("cudaMemGetInfo", &after, &total), 0);
    SAME(before - after, std::size_t{1} << 20);
    struct {
      int type, device;
      void *device_pointer, *host_pointer;
      long reserved[8];
    } about{};
    SAME(cuda.call("cudaPointerGetAttributes", static_cast<void*>(&about),
                   static_cast<const void*>(memory.address)),
         0);
    SAME(about.type, 2);
    SAME(cuda.call("cudaPointerGetAttributes", static_cast<void*>(&about),
                   static_cast<const void*>(&about)),
         0);
    SAME(about.type, 0);
    SAME(cuda.call("cudaDeviceReset"), 0);
    SAME(cuda.call("cudaMemGetInfo", &after, &total), 0);
    SAME(after, before);
    Memory again(cuda, 64);  // and everything works from the beginning
    SAME(program.launch(program.fill, {1}, {16}, kNoStream, again.address, 3U, 16U), 0);
    SAME(read(cuda, again.address, 16)[15], 3U);
  });
}

INSTANTIATE_TEST_SUITE_P(Runtimes, Shim, ::testing::Values("libcudart.so.12", "libcudart.so.13"),
                         [](const auto& which) { return std::string(which.param).substr(13); });

// The second part: one library is enough.

class ShimSession : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_WHERE_CHILDREN_HAVE_NO_THREADS(); }
};

TEST_F(ShimSession, AFaultStays) {
  HostServer server(private_address(), test_kernels());
  EXPECT_EQ(in_child(server.address(),
                     [] {
                       const Library cuda(kRuntime);
                       Program program(cuda);
                       Memory memory(cuda, 64);
                       SAME(program.launch(program.crash, {1}, {1}, kNoStream), 0);
                       SAME(cuda.call("cudaGetLastError"), 0);  // not known yet
                       const int fault = cuda.call("cudaDeviceSynchronize");
                       NEED(fault >= 700);
                       void* more = nullptr;
                       SAME(cuda.call("cudaMalloc", &more, std::size_t{64}), fault);
                       SAME(cuda.call("cudaGetLastError"), fault);
                       SAME(cuda.call("cudaGetLastError"), fault);  // it cannot be cleared
                       SAME(cuda.call("cudaStreamSynchronize", kNoStream), fault);
                       SAME(cuda.call("cudaDeviceReset"), 0);
                       SAME(cuda.call("cudaMalloc", &more, std::size_t{64}), 0);
                     }),
            0);
}

// Also of a program that looks at no status, and ends with 0.
TEST_F(ShimSession, WhatWasRefusedOrFailedIsSaidAtTheEnd) {
  HostServer server(private_address(), test_kernels());
  testing::internal::CaptureStderr();
  EXPECT_EQ(in_child(server.address(),
                     [] {
                       const Library cuda(kRuntime);
                       Program program(cuda);
                       void* any = nullptr;
                       for (int i = 0; i < 2; ++i)
                         cuda.call("cudaMallocMipmappedArray", &any, &any, std::size_t{64});
                       program.launch(program.crash, {1}, {1}, kNoStream);
                       cuda.call("cudaDeviceSynchronize");
                     }),
            0);
  const std::string said = testing::internal::GetCapturedStderr();
  const auto end = said.find("partita remote: the session ended with error 7");
  ASSERT_NE(end, std::string::npos) << said;
  EXPECT_EQ(said.find("cudaMallocMipmappedArray is not supported"),
            said.rfind("cudaMallocMipmappedArray is not supported"));
  EXPECT_NE(said.find("refused in this program: cudaMallocMipmappedArray\n", end),
            std::string::npos)
      << said;
}

// One in which nothing failed says nothing.
TEST_F(ShimSession, AProgramThatIsWellEndsWithoutAWord) {
  HostServer server(private_address(), test_kernels());
  testing::internal::CaptureStderr();
  EXPECT_EQ(in_child(server.address(),
                     [] {
                       const Library cuda(kRuntime);
                       Memory memory(cuda, 64);
                       SAME(cuda.call("cudaDeviceSynchronize"), 0);
                     }),
            0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(ShimSession, OnlyWhatNeedsAnAnswerWaitsForOne) {
  HostServer server(private_address(), test_kernels());
  const std::string file = "/tmp/partita-shim-stats-" + std::to_string(::getpid());
  ::setenv("PARTITA_REMOTE_STATS", file.c_str(), 1);
  EXPECT_EQ(
      in_child(server.address(),
               [] {
                 const Library cuda(kRuntime);
                 Program program(cuda);
                 void *stream = nullptr, *event = nullptr;
                 SAME(cuda.call("cudaStreamCreate", &stream), 0);
                 SAME(cuda.call("cudaEventCreate", &event), 0);
                 for (int i = 0; i < 50; ++i) {
                   Memory memory(cuda, 4096);
                   int device = -1;
                   SAME(cuda.call("cudaGetDevice", &device), 0);
                   SAME(program.launch(program.fill, {1}, {64}, stream, memory.address, 1U, 64U),
                        0);
                   SAME(cuda.call("cudaEventRecord", event, stream), 0);
                   SAME(cuda.call("cudaGetLastError"), 0);
                   SAME(cuda.call("cudaFree", memory.address), 0);
                 }
                 SAME(cuda.call("cudaStreamSynchronize", stream), 0);
                 SAME(cuda.call("cudaEventSynchronize", event), 0);  // known by now
                 SAME(cuda.call("cudaEventQuery", event), 0);
                 SAME(cuda.call("cudaStreamQuery", stream), 0);
               }),
      0);
  ::unsetenv("PARTITA_REMOTE_STATS");
  std::ifstream stream(file);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  ::unlink(file.c_str());
  EXPECT_NE(text.find("\"blocking_round_trips\": 2,"), text.npos) << text;
  EXPECT_NE(text.find("\"blocking_by_cause\": {\"session\": 1, \"stream_sync\": 1}"), text.npos)
      << text;
  EXPECT_NE(text.find("\"kernels\": 50"), text.npos) << text;
}

TEST_F(ShimSession, AServerThatDiesIsALostDevice) {
  HostServer server(private_address(), test_kernels());
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  std::thread cutter([&] {
    char ready = 0;
    if (::read(pipes[0], &ready, 1) == 1) server.cut();
  });
  EXPECT_EQ(in_child(server.address(),
                     [&] {
                       const Library cuda(kRuntime);
                       Program program(cuda);
                       Memory memory(cuda, 64);
                       read(cuda, memory.address, 4);
                       NEED(::write(pipes[1], "x", 1) == 1);
                       const auto begin = std::chrono::steady_clock::now();
                       int status = 0;
                       while (status == 0) {
                         program.launch(program.fill, {1}, {16}, kNoStream, memory.address, 1U,
                                        16U);
                         status = cuda.call("cudaDeviceSynchronize");
                         NEED(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
                       }
                       SAME(status, 46);
                       void* more = nullptr;
                       SAME(cuda.call("cudaMalloc", &more, std::size_t{64}), 46);
                       SAME(cuda.call("cudaFree", memory.address), 46);
                       SAME(cuda.call("cudaGetLastError"), 46);
                     }),
            0);
  static_cast<void>(!::write(pipes[1], "x", 1));
  cutter.join();
}

TEST_F(ShimSession, NoServerIsSaidAndNoHang) {
  EXPECT_EQ(in_child("unix:/nowhere/at/all",
                     [] {
                       const Library cuda(kRuntime);
                       int count = -1;
                       SAME(cuda.call("cudaGetDeviceCount", &count), 46);
                       SAME(count, 0);
                     }),
            0);
  EXPECT_EQ(in_child("",
                     [] {
                       const Library cuda(kRuntime);
                       int count = -1;
                       SAME(cuda.call("cudaGetDeviceCount", &count), 100);
                     }),
            0);
}

// A server that takes the connection and says nothing: after the time that was set, no later.
TEST_F(ShimSession, ASilentServerIsGivenUp) {
  const auto listener = std::move(*system_net().listen(private_address()));
  std::atomic<bool> stop = false;
  std::vector<std::unique_ptr<Channel>> held;
  std::thread acceptor([&] {
    while (!stop)
      if (auto accepted = listener->accept(std::chrono::milliseconds(10)))
        held.push_back(std::move(accepted->channel));
  });
  ::setenv("PARTITA_REMOTE_TIMEOUT_MS", "300", 1);
  EXPECT_EQ(in_child(listener->address(),
                     [] {
                       const Library cuda(kRuntime);
                       const auto begin = std::chrono::steady_clock::now();
                       int count = -1;
                       SAME(cuda.call("cudaGetDeviceCount", &count), 46);
                       const auto took = std::chrono::steady_clock::now() - begin;
                       NEED(took >= std::chrono::milliseconds(250));
                       NEED(took < std::chrono::seconds(5));
                     }),
            0);
  ::unsetenv("PARTITA_REMOTE_TIMEOUT_MS");
  stop = true;
  acceptor.join();
}

// What a program calls behind the end of the session is refused, not sent. Exit handlers run in the
// reverse order, so one that was there before the first call runs behind the session's own.
TEST_F(ShimSession, BehindTheEndNothingIsSent) {
  HostServer server(private_address(), test_kernels());
  EXPECT_EQ(in_child(server.address(),
                     [] {
                       static const Library cuda(kRuntime);
                       static Program program(cuda);
                       static void* address = nullptr;
                       std::atexit([] {
                         SAME(cuda.call("cudaFree", address), 4);
                         cuda.call<void>("__cudaUnregisterFatBinary", program.handle());
                       });
                       SAME(cuda.call("cudaMalloc", &address, std::size_t{64}), 0);
                       SAME(program.launch(program.fill, {1}, {16}, kNoStream, address, 1U, 16U),
                            0);
                     }),
            0);
}

TEST_F(ShimSession, AForkedChildHasItsOwn) {
  HostServer server(private_address(), test_kernels());
  EXPECT_EQ(
      in_child(
          server.address(),
          [] {
            const Library cuda(kRuntime);
            Program program(cuda);
            Memory memory(cuda, 64);
            SAME(program.launch(program.fill, {1}, {16}, kNoStream, memory.address, 1U, 16U), 0);
            const pid_t child = ::fork();
            if (child == 0) {
              Memory own(cuda, 64);
              SAME(program.launch(program.fill, {1}, {16}, kNoStream, own.address, 2U, 16U), 0);
              SAME(read(cuda, own.address, 16)[3], 2U);
              std::exit(0);
            }
            int status = -1;
            NEED(::waitpid(child, &status, 0) == child);
            SAME(status, 0);
            SAME(read(cuda, memory.address, 16)[3], 1U);  // the parent goes on
          }),
      0);
  EXPECT_EQ(server.sessions(), 2u);
}

// CUB's launches on sm_90 say that a kernel may begin early: it may as well not.
TEST_F(ShimSession, LaunchesSayWhatTheyNeedAndWhatTheyMayHave) {
  HostServer server(private_address(), test_kernels());
  EXPECT_EQ(in_child(server.address(),
                     [] {
                       struct Attribute {
                         int id, padding, value[16];
                       };
                       struct Config {
                         Dim3 grid, block;
                         std::size_t shared_bytes;
                         void* stream;
                         const Attribute* attributes;
                         unsigned count;
                       };
                       const Library cuda(kRuntime);
                       Program program(cuda);
                       Memory memory(cuda, 64);
                       std::uint32_t value = 0, count = 16;
                       void* parameters[] = {&memory.address, &value, &count};
                       const auto launch = [&](const Attribute& one) {
                         ++value;
                         const Config config{{1}, {16}, 0, kNoStream, &one, 1};
                         return cuda.call("cudaLaunchKernelExC", &config,
                                          static_cast<const void*>(&program.fill),
                                          static_cast<void**>(parameters));
                       };
                       for (const int may : {0, 1, 3, 5, 6, 8, 9, 10, 14}) {
                         SAME(launch({may, 0, {1}}), 0);
                         SAME(read(cuda, memory.address, 16)[15], value);
                       }
                       SAME(launch({4, 0, {1, 1, 1}}), 0);
                       SAME(launch({4, 0, {2, 1, 1}}), 801);  // clusters
                       SAME(launch({7, 0, {1}}), 801);        // an event amid the kernel
                       SAME(read(cuda, memory.address, 16)[15], value - 2);
                     }),
            0);
}

// Managed memory beside what tests/remote/programs/managed.cu has: what is said of it, and its end.
TEST_F(ShimSession, ManagedMemoryIsOneForBothSides) {
  HostServer server(private_address(), test_kernels());
  EXPECT_EQ(
      in_child(
          server.address(),
          [] {
            const Library cuda(kRuntime), driver("libcuda.so.1");
            Program program(cuda);
            int managed = 0, concurrent = 1;
            SAME(cuda.call("cudaDeviceGetAttribute", &managed, 83, 0), 0);
            SAME(cuda.call("cudaDeviceGetAttribute", &concurrent, 89, 0), 0);
            NEED(managed == 1 && concurrent == 0);
            std::uint32_t* both = nullptr;
            SAME(cuda.call("cudaMallocManaged", &both, std::size_t{0}, 1U), 1);
            SAME(cuda.call("cudaMallocManaged", &both, std::size_t{8192}, 3U), 1);
            SAME(cuda.call("cudaMallocManaged", &both, std::size_t{8192}, 1U), 0);
            const auto address = reinterpret_cast<std::uint64_t>(both);
            unsigned is_managed = 0;
            SAME(driver.call("cuPointerGetAttribute", &is_managed, 8, address), 0);
            SAME(is_managed, 1U);
            SAME(cuda.call("cudaMemPrefetchAsync", both, std::size_t{8192}, 0, kNoStream), 0);
            SAME(cuda.call("cudaMemPrefetchAsync", both, std::size_t{8193}, 0, kNoStream), 1);
            SAME(cuda.call("cudaMemAdvise", &managed, std::size_t{4}, 1, 0), 1);
            // A host function could look at it while work runs: refused, not wrong.
            SAME(cuda.call("cudaLaunchHostFunc", kNoStream,
                           static_cast<void (*)(void*)>([](void*) {}), static_cast<void*>(both)),
                 801);
            both[0] = 7;
            SAME(program.launch(program.fill, {1}, {16}, kNoStream, address + 4, 5U, 16U), 0);
            SAME(cuda.call("cudaDeviceSynchronize"), 0);
            NEED(both[0] == 7 && both[1] == 5 && both[16] == 5 && both[17] == 0);
            // Attached to the host, it is looked at before each launch.
            SAME(cuda.call("cudaStreamAttachMemAsync", kNoStream, both, std::size_t{0}, 2U), 0);
            SAME(program.launch(program.fill, {1}, {16}, kNoStream, address + 4, 6U, 16U), 0);
            both[100] = 9;
            SAME(program.launch(program.fill, {1}, {16}, kNoStream, address + 8, 8U, 16U), 0);
            SAME(read(cuda, both + 100, 1)[0], 9U);
            NEED(both[1] == 6 && both[2] == 8);
            SAME(cuda.call("cudaFreeAsync", both, kNoStream), 1);
            SAME(cuda.call("cudaFree", both + 1), 1);
            SAME(cuda.call("cudaFree", both), 0);
            SAME(cuda.call("cudaFree", both), 1);
            SAME(cuda.call("cudaMallocManaged", &both, std::size_t{64}, 2U), 0);
            both[3] = 1;
            SAME(cuda.call("cudaDeviceReset"), 0);
            SAME(cuda.call("cudaMallocManaged", &both, std::size_t{64}, 1U), 0);
            NEED(both[3] == 0);
          }),
      0);
}

TEST_F(ShimSession, AddressesAreReservedAndMemoryIsPutThere) {
  HostServer server(private_address(), test_kernels());
  EXPECT_EQ(
      in_child(
          server.address(),
          [] {
            const Library cuda(kRuntime), driver("libcuda.so.1");
            Program program(cuda);
            constexpr std::size_t kPart = std::size_t{2} << 20;
            constexpr int kNotSupported = 801;
            int device = 7;
            SAME(driver.call("cuCtxGetDevice", &device), 0);  // the runtime's
            std::size_t before = 0, now = 0, total = 0, granularity = 0;
            SAME(cuda.call("cudaMemGetInfo", &before, &total), 0);
            struct {
              int type = 1, handles = 0, place = 1, device = 0;
              void* attributes = nullptr;
              unsigned char flags[8] = {};
            } properties;
            SAME(driver.call("cuMemGetAllocationGranularity", &granularity, &properties, 0), 0);
            SAME(granularity, kPart);
            unsigned long long at = 0;
            SAME(driver.call("cuMemAddressReserve", &at, 4 * kPart, std::size_t{0}, 0ULL, 0ULL), 0);
            SAME(cuda.call("cudaMemGetInfo", &now, &total), 0);
            SAME(now, before);
            void *one = nullptr, *two = nullptr;
            SAME(driver.call("cuMemCreate", &one, kPart, &properties, 0ULL), 0);
            SAME(driver.call("cuMemCreate", &two, 2 * kPart, &properties, 0ULL), 0);
            SAME(driver.call("cuMemMap", at, kPart, std::size_t{0}, one, 0ULL), 0);
            SAME(driver.call("cuMemMap", at + kPart, kPart, std::size_t{0}, one, 0ULL),
                 kNotSupported);
            SAME(driver.call("cuMemMap", at, 2 * kPart, std::size_t{0}, two, 0ULL), 1);
            SAME(driver.call("cuMemMap", at + 3 * kPart, 2 * kPart, std::size_t{0}, two, 0ULL), 1);
            SAME(driver.call("cuMemMap", at + kPart, 2 * kPart, std::size_t{0}, two, 0ULL), 0);
            SAME(driver.call("cuMemRelease", two), 0);
            SAME(driver.call("cuMemSetAccess", at, 3 * kPart, &properties, std::size_t{1}), 0);
            SAME(program.launch(program.fill, {1}, {16}, kNoStream, at + kPart, 9U, 16U), 0);
            SAME(read(cuda, reinterpret_cast<void*>(at + kPart), 16)[15], 9U);
            SAME(cuda.call("cudaFree", reinterpret_cast<void*>(at)), 1);
            SAME(driver.call("cuMemAddressFree", at, 4 * kPart), 1);
            SAME(driver.call("cuMemUnmap", at, 3 * kPart), 0);
            SAME(driver.call("cuMemAddressFree", at, 4 * kPart), 0);
            SAME(driver.call("cuMemRelease", one), 0);
            SAME(cuda.call("cudaMemGetInfo", &now, &total), 0);
            SAME(now, before);
          }),
      0);
}

// A thread that waits for a stream does not stop another thread, on which that stream waits.
TEST_F(ShimSession, AWaitingThreadHoldsUpNobody) {
  HostServer server(private_address(), test_kernels());
  EXPECT_EQ(
      in_child(server.address(),
               [] {
                 const Library cuda(kRuntime);
                 Program program(cuda);
                 void *slow = nullptr, *other = nullptr;
                 SAME(cuda.call("cudaStreamCreateWithFlags", &slow, 1U), 0);
                 SAME(cuda.call("cudaStreamCreateWithFlags", &other, 1U), 0);
                 static std::atomic<bool> go = false;
                 SAME(cuda.call("cudaLaunchHostFunc", slow, static_cast<void (*)(void*)>([](void*) {
                                  while (!go) ::usleep(100);
                                }),
                                static_cast<void*>(nullptr)),
                      0);
                 std::thread waiter([&] { SAME(cuda.call("cudaStreamSynchronize", slow), 0); });
                 ::usleep(20'000);
                 Memory memory(cuda, 64);
                 for (std::uint32_t i = 0; i < 100; ++i) {
                   SAME(program.launch(program.fill, {1}, {16}, other, memory.address, i, 16U), 0);
                   SAME(cuda.call("cudaStreamSynchronize", other), 0);
                 }
                 go = true;
                 waiter.join();
                 SAME(read(cuda, memory.address, 16)[0], 99U);
               }),
      0);
}

TEST_F(ShimSession, BothRuntimesAndTheDriverShareOne) {
  HostServer server(private_address(), test_kernels());
  EXPECT_EQ(
      in_child(server.address(),
               [] {
                 const Library runtime(kRuntime), older("libcudart.so.12"), driver("libcuda.so.1");
                 Program program(runtime);
                 Memory memory(runtime, 64);
                 SAME(older.call("cudaMemset", memory.address, 1, std::size_t{64}), 0);
                 SAME(driver.call("cuInit", 0U), 0);
                 const std::string ptx(kPtx);
                 void *module = nullptr, *function = nullptr;
                 SAME(driver.call("cuModuleLoadData", &module,
                                  static_cast<const void*>(ptx.c_str())),
                      0);
                 SAME(driver.call("cuModuleGetFunction", &function, module,
                                  static_cast<const char*>("fill")),
                      0);
                 std::uint32_t value = 8, n = 8;
                 void* parameters[] = {&memory.address, &value, &n};
                 SAME(driver.call("cuLaunchKernel", function, 1U, 1U, 1U, 8U, 1U, 1U, 0U, kNoStream,
                                  static_cast<void**>(parameters), static_cast<void**>(nullptr)),
                      0);
                 const Words words = read(runtime, memory.address, 16);
                 SAME(words[7], 8U);
                 SAME(words[8], 0x01010101U);
                 SAME(driver.call("cuModuleGetFunction", &function, module,
                                  static_cast<const char*>("no_such")),
                      500);
               }),
      0);
  EXPECT_EQ(server.sessions(), 1u);
}

// Versions and flags of names, as cudaTypedefs.h of CUDA 13.0 gives them.
TEST(ShimDriver, NamesByVersion) {
  const Library driver("libcuda.so.1");
  const auto found = [&](const char* name, int version, std::uint64_t flags) {
    void* function = nullptr;
    int result = -1;
    driver.call("cuGetProcAddress_v2", name, &function, version, flags, &result);
    return std::pair(function, result);
  };
  const auto is = [&](const char* exported) { return std::pair(driver.find(exported), 0); };
  EXPECT_EQ(found("cuMemAlloc", 12000, 0), is("cuMemAlloc_v2"));
  EXPECT_EQ(found("cuCtxCreate", 11030, 0), is("cuCtxCreate_v2"));
  EXPECT_EQ(found("cuCtxCreate", 11040, 0), is("cuCtxCreate_v3"));
  EXPECT_EQ(found("cuCtxCreate", 13000, 0), is("cuCtxCreate_v4"));
  EXPECT_EQ(found("cuLaunchKernel", 13000, 2), is("cuLaunchKernel_ptsz"));
  EXPECT_EQ(found("cuLaunchKernel", 13000, 1), is("cuLaunchKernel"));
  EXPECT_EQ(found("cuMemcpyHtoD", 13000, 2), is("cuMemcpyHtoD_v2_ptds"));
  EXPECT_EQ(found("cuGetProcAddress", 11030, 0), is("cuGetProcAddress"));
  EXPECT_EQ(found("cuGetProcAddress", 12000, 0), is("cuGetProcAddress_v2"));
  EXPECT_EQ(found("cuMemAlloc", 2000, 0).second, 2);
  EXPECT_EQ(found("cuNothing", 13000, 0).second, 1);
}

}  // namespace
}  // namespace partita::remote::test
