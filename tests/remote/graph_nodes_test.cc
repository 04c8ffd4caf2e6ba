// Nodes of graphs: what a program asks of them, and what it changes, in graphs and in executable
// ones. Oracles: what the memory holds after launches, and what CUDA's documentation says a call
// answers.
#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/remote/shim_harness.h"

namespace partita::remote::test::graph_nodes {
namespace {

using Words = std::vector<std::uint32_t>;
using Handles = std::vector<void*>;

constexpr std::size_t kZero = 0;
constexpr int kInvalid = 1, kIn = 1, kOut = 2, kDevice = 3;

struct Pitched {
  void* memory;
  std::size_t pitch, width, height;
};
struct Copy3 {
  void* from_array;
  std::size_t from_place[3];
  Pitched from;
  void* to_array;
  std::size_t to_place[3];
  Pitched to;
  std::size_t extent[3];
  int kind;
};
struct KernelNode {
  const void* function;
  Dim3 grid, block;
  unsigned shared;
  void** parameters;
  void** extra;
};
struct SetNode {
  void* to;
  std::size_t pitch;
  unsigned value, element;
  std::size_t width, height;
};
struct HostNode {
  void (*function)(void*);
  void* data;
};
struct AnyNode {
  int type, reserved[3];
  union {
    long long words[29];
    KernelNode kernel;
    struct {
      int flags[4];
      Copy3 copy;
    } copy;
    SetNode set;
    HostNode host;
  };
  long long reserved_too;
};
static_assert(sizeof(AnyNode) == 256);

// A program that makes graphs: what it asks for has to work, unless another status is said.
struct Maker {
  const Library& cuda;
  void* graph = nullptr;

  explicit Maker(const Library& library) : cuda(library) {
    SAME(cuda.call("cudaGraphCreate", &graph, 0U), 0);
  }
  void* copy(const Handles& after, void* to, const void* from, std::size_t bytes, int kind) const {
    void* node = nullptr;
    SAME(cuda.call("cudaGraphAddMemcpyNode1D", &node, graph, after.data(), after.size(), to, from,
                   bytes, kind),
         0);
    return node;
  }
  void* set(const Handles& after, const SetNode& what) const {
    return added("cudaGraphAddMemsetNode", after, &what);
  }
  void* fill(const Handles& after, const Program& program, void* to, std::uint32_t value,
             std::uint32_t n) const {
    void* parameters[] = {&to, &value, &n};
    const KernelNode what{&program.fill, {1}, {n}, 0, parameters, nullptr};
    return added("cudaGraphAddKernelNode", after, &what);
  }
  void* host(const Handles& after, void (*function)(void*), void* data) const {
    const HostNode what{function, data};
    return added("cudaGraphAddHostNode", after, &what);
  }
  void* empty(const Handles& after) const {
    void* node = nullptr;
    SAME(cuda.call("cudaGraphAddEmptyNode", &node, graph, after.data(), after.size()), 0);
    return node;
  }
  void* exec() const {
    void* made = nullptr;
    SAME(cuda.call("cudaGraphInstantiate", &made, graph, 0ULL), 0);
    return made;
  }
  int set_copy(void* exec, void* node, void* to, const void* from, std::size_t bytes,
               int kind) const {
    return exec != nullptr
               ? cuda.call("cudaGraphExecMemcpyNodeSetParams1D", exec, node, to, from, bytes, kind)
               : cuda.call("cudaGraphMemcpyNodeSetParams1D", node, to, from, bytes, kind);
  }
  int enable(void* exec, void* node, unsigned is) const {
    return cuda.call("cudaGraphNodeSetEnabled", exec, node, is);
  }
  int is_enabled(void* exec, void* node) const {
    unsigned is = 7;
    const int status = cuda.call("cudaGraphNodeGetEnabled", exec, node, &is);
    return status == 0 ? static_cast<int>(is) : -status;
  }
  void launch(void* exec) const { SAME(cuda.call("cudaGraphLaunch", exec, kNoStream), 0); }
  void wait() const { SAME(cuda.call("cudaDeviceSynchronize"), 0); }
  void run(void* exec) const { launch(exec), wait(); }

 private:
  void* added(const char* name, const Handles& after, const void* what) const {
    void* node = nullptr;
    SAME(cuda.call(name, &node, graph, after.data(), after.size(), what), 0);
    return node;
  }
};

class GraphNodes : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_WHERE_CHILDREN_HAVE_NO_THREADS(); }
  void run(void (*scenario)(const Library&, Program&)) {
    HostServer server(private_address(), test_kernels());
    EXPECT_EQ(in_child(server.address(),
                       [&] {
                         const Library cuda(kRuntime);
                         Program program(cuda);
                         scenario(cuda, program);
                         SAME(cuda.call("cudaDeviceSynchronize"), 0);
                       }),
              0);
  }
};

// ---- changes of executable graphs ----

// There and back: an executable graph reads and writes other memory, pageable or pinned, less or
// more of it, from its next launch on; what was launched before, and what else was made of the
// graph, does what it did.
TEST_F(GraphNodes, CopiesWithOtherMemoryOfTheProgram) {
  run([](const Library& cuda, Program&) {
    constexpr std::size_t n = 8, more = 64;
    const Maker is(cuda);
    const There<std::uint32_t> device(cuda, Words(more, 0));
    Words in(n, 1), out(n, 0), out2(more, 0);
    std::uint32_t* pinned = nullptr;
    SAME(cuda.call("cudaMallocHost", &pinned, 2 * more * 4), 0);
    std::fill(pinned, pinned + 2 * more, 0U);
    void* const first = is.copy({}, device.begin(), in.data(), n * 4, kIn);
    void* const second = is.copy({first}, out.data(), device.begin(), n * 4, kOut);
    void *const exec = is.exec(), *const other = is.exec();
    is.launch(exec);
    // To other memory, while the launch before it may not have begun.
    SAME(is.set_copy(exec, second, out2.data(), device.begin(), more * 4, kOut), 0);
    std::fill(pinned, pinned + more, 2U);
    SAME(is.set_copy(exec, first, device.begin(), pinned, more * 4, kIn), 0);
    is.launch(exec), is.wait();
    NEED(out == Words(n, 1) && out2 == Words(more, 2));
    in.assign(n, 3);
    is.run(other);
    NEED(out == Words(n, 3) && out2 == Words(more, 2));
    // What is there when it is launched is copied; back to pinned memory, and fewer.
    std::fill(pinned, pinned + more, 4U);
    SAME(is.set_copy(exec, second, pinned + more, device.begin(), n * 4, kOut), 0);
    is.run(exec);
    NEED(std::count(pinned + more, pinned + 2 * more, 4U) == n && out2 == Words(more, 2));
    // In the graph: what is made of it from now on.
    Words out3(n, 0);
    SAME(is.set_copy(nullptr, second, out3.data(), device.begin(), n * 4, kOut), 0);
    in.assign(n, 5);
    is.run(is.exec()), is.run(other);
    NEED(out3 == Words(n, 5) && out == Words(n, 5));
    SAME(cuda.call("cudaGraphExecUpdate", exec, is.graph, static_cast<void*>(nullptr)), 0);
    in.assign(n, 6);
    is.run(exec);
    NEED(out3 == Words(n, 6) && out == Words(n, 5) && pinned[more] == 4);
    for (std::uint32_t round = 0; round < 200; ++round) {  // nothing piles up, nothing is mixed
      Words one(1 + round % more, round), back(one.size(), 0);
      SAME(is.set_copy(exec, first, device.begin(), one.data(), one.size() * 4, kIn), 0);
      SAME(is.set_copy(exec, second, back.data(), device.begin(), one.size() * 4, kOut), 0);
      is.run(exec);
      NEED(back == one);
    }
  });
}

// Copies in a graph that was captured, in space, by the form for nodes of any kind.
TEST_F(GraphNodes, CopiesOfACapturedGraph) {
  run([](const Library& cuda, Program&) {
    constexpr std::size_t n = 8;
    const There<std::uint32_t> one(cuda, Words(n, 0)), other(cuda, Words(n, 9));
    Words in(n, 1), out(n, 0), in2(n, 2), out2(n, 0);
    void *stream = nullptr, *graph = nullptr, *exec = nullptr, *nodes[4] = {};
    SAME(cuda.call("cudaStreamCreate", &stream), 0);
    SAME(cuda.call("cudaStreamBeginCapture", stream, 0), 0);
    const auto copy = [&](void* to, const void* from, int kind) {
      SAME(cuda.call("cudaMemcpyAsync", to, from, n * 4, kind, stream), 0);
    };
    copy(one.begin(), in.data(), kIn);
    copy(other.begin(), one.begin(), kDevice);
    copy(out.data(), other.begin(), kOut);
    SAME(cuda.call("cudaStreamEndCapture", stream, &graph), 0);
    std::size_t count = 4;
    SAME(cuda.call("cudaGraphGetNodes", graph, static_cast<void**>(nodes), &count), 0);
    SAME(count, 3U);
    SAME(cuda.call("cudaGraphInstantiate", &exec, graph, 0ULL), 0);
    SAME(cuda.call("cudaGraphDestroy", graph), 0);
    const auto launched = [&] {
      SAME(cuda.call("cudaGraphLaunch", exec, stream), 0);
      SAME(cuda.call("cudaStreamSynchronize", stream), 0);
    };
    launched();
    NEED(out == in);
    AnyNode any{};
    any.type = 1;
    Copy3& part = any.copy.copy;
    part.from = {in2.data(), n * 4, n * 4, 1}, part.to = {one.begin(), n * 4, n * 4, 1};
    part.from_place[0] = 4, part.to_place[0] = 8, part.kind = kIn;
    part.extent[0] = 8, part.extent[1] = part.extent[2] = 1;
    SAME(cuda.call("cudaGraphExecNodeSetParams", exec, nodes[0], static_cast<void*>(&any)), 0);
    launched();
    NEED(out == (Words{1, 1, 2, 2, 1, 1, 1, 1}));
    Copy3 back{};
    back.from = {one.begin(), n * 4, n * 4, 1}, back.to = {out2.data(), n * 4, n * 4, 1};
    back.extent[0] = n * 4, back.extent[1] = back.extent[2] = 1, back.kind = kOut;
    const auto* const what = static_cast<const void*>(&back);
    SAME(cuda.call("cudaGraphExecMemcpyNodeSetParams", exec, nodes[2], what), 0);
    launched();
    NEED(out2 == (Words{1, 1, 2, 2, 1, 1, 1, 1}));
    // Rows, another direction, nothing at all, and more than there is are refused at once.
    const auto is_refused = [&](auto change) {
      Copy3 wrong = back;
      change(wrong);
      SAME(cuda.call("cudaGraphExecMemcpyNodeSetParams", exec, nodes[2],
                     static_cast<const void*>(&wrong)),
           kInvalid);
    };
    is_refused([](Copy3& is) { is.extent[0] = 8, is.extent[1] = 2; });
    is_refused([&](Copy3& is) { is.to.memory = other.begin(), is.kind = kDevice; });
    is_refused([](Copy3& is) { std::swap(is.to, is.from), is.kind = kIn; });
    is_refused([](Copy3& is) { is.extent[0] = 0; });
    is_refused([](Copy3& is) { is.extent[0] = 1 << 20; });
    is_refused([](Copy3& is) { is.to.memory = nullptr; });
    in2.assign(n, 3);
    launched();
    NEED(out2 == (Words{1, 1, 3, 3, 1, 1, 1, 1}));
  });
}

// Variables of the device code.
TEST_F(GraphNodes, CopiesOfVariables) {
  run([](const Library& cuda, Program& program) {
    const Maker is(cuda);
    const void* const symbol = &program.counter;
    std::uint32_t in = 7, out = 0, in2 = 8, out2 = 0;
    void *first = nullptr, *second = nullptr;
    SAME(cuda.call("cudaGraphAddMemcpyNodeToSymbol", &first, is.graph, static_cast<void**>(nullptr),
                   kZero, symbol, static_cast<const void*>(&in), std::size_t{4}, kZero, kIn),
         0);
    SAME(cuda.call("cudaGraphAddMemcpyNodeFromSymbol", &second, is.graph, &first, std::size_t{1},
                   static_cast<void*>(&out), symbol, std::size_t{4}, kZero, kOut),
         0);
    void* const exec = is.exec();
    is.run(exec);
    SAME(out, 7U);
    SAME(cuda.call("cudaGraphExecMemcpyNodeSetParamsToSymbol", exec, first, symbol,
                   static_cast<const void*>(&in2), std::size_t{2}, kZero, kIn),
         0);
    SAME(cuda.call("cudaGraphExecMemcpyNodeSetParamsFromSymbol", exec, second,
                   static_cast<void*>(&out2), symbol, std::size_t{4}, kZero, kOut),
         0);
    in2 = 0xffff0009U;
    is.run(exec);
    SAME(out2, 9U);
    SAME(out, 7U);
    SAME(cuda.call("cudaGraphMemcpyNodeSetParamsFromSymbol", second, static_cast<void*>(&out2),
                   symbol, std::size_t{4}, kZero, kOut),
         0);
    SAME(cuda.call("cudaGraphMemcpyNodeSetParamsToSymbol", first, symbol,
                   static_cast<const void*>(&in2), std::size_t{4}, kZero, kIn),
         0);
    is.run(is.exec());
    SAME(out2, 0xffff0009U);
    SAME(cuda.call("cudaGraphExecMemcpyNodeSetParamsToSymbol", exec, first, symbol,
                   static_cast<const void*>(&in2), std::size_t{4}, std::size_t{1}, kIn),
         kInvalid);
    SAME(cuda.call("cudaGraphExecMemcpyNodeSetParamsToSymbol", exec, first,
                   static_cast<const void*>(&in2), static_cast<const void*>(&in2), std::size_t{4},
                   kZero, kIn),
         13);
  });
}

struct Between {  // what a function of the program does between two copies
  std::uint32_t* from;
  std::uint32_t* to;
  std::uint32_t adds;
};
void add_between(void* given) {
  const auto& is = *static_cast<const Between*>(given);
  *is.to = *is.from + is.adds;
}

// In, out, a function that makes of what came out what goes in next, out: three launches behind one
// another with other memory and another function each, and another executable graph beside them.
TEST_F(GraphNodes, FunctionsAmongCopiesThatChange) {
  run([](const Library& cuda, Program&) {
    struct Place {
      std::uint32_t in = 0, middle = 0, next = 0, out = 0;
      Between between = {&middle, &next, 0};
    } places[4];
    const Maker is(cuda);
    const There<std::uint32_t> device(cuda, Words(1, 0));
    Place& p = places[0];
    void* const in = is.copy({}, device.begin(), &p.in, 4, kIn);
    void* const middle = is.copy({in}, &p.middle, device.begin(), 4, kOut);
    void* const call = is.host({middle}, add_between, &p.between);
    void* const next = is.copy({call}, device.begin(), &p.next, 4, kIn);
    void* const out = is.copy({next}, &p.out, device.begin(), 4, kOut);
    void *const exec = is.exec(), *const other = is.exec();
    const auto use = [&](void* of, Place& place) {
      const HostNode what{add_between, &place.between};
      SAME(is.set_copy(of, in, device.begin(), &place.in, 4, kIn), 0);
      SAME(is.set_copy(of, middle, &place.middle, device.begin(), 4, kOut), 0);
      SAME(cuda.call("cudaGraphExecHostNodeSetParams", of, call, static_cast<const void*>(&what)),
           0);
      SAME(is.set_copy(of, next, device.begin(), &place.next, 4, kIn), 0);
      SAME(is.set_copy(of, out, &place.out, device.begin(), 4, kOut), 0);
    };
    std::size_t free = 0, at_tenth = 0, total = 0;
    for (std::uint32_t round = 1; round <= 50; ++round) {
      for (std::uint32_t i = 0; i < 4; ++i)
        places[i].in = 1000 * i + round, places[i].between.adds = 10 * i;
      is.launch(other);  // the first place, as at first
      for (std::uint32_t i = 1; i < 4; ++i) use(exec, places[i]), is.launch(exec);
      is.wait();
      for (std::uint32_t i = 0; i < 4; ++i) SAME(places[i].out, 1010 * i + round);
      SAME(cuda.call("cudaMemGetInfo", &free, &total), 0);
      if (round == 10) at_tenth = free;
    }
    NEED(free + (64 << 10) > at_tenth);  // a copy's memory takes 256 bytes, and there were 600
    // The graph keeps what it was made with, and may be changed, too.
    HostNode was{};
    SAME(cuda.call("cudaGraphHostNodeGetParams", call, static_cast<void*>(&was)), 0);
    NEED(was.function == add_between && was.data == &p.between);
    const HostNode what{add_between, &places[1].between};
    SAME(cuda.call("cudaGraphHostNodeSetParams", call, static_cast<const void*>(&what)), 0);
    places[1].between = {&p.middle, &p.next, 5};
    p.in = 1, p.out = 0;
    is.run(is.exec());
    SAME(p.out, 6U);
    is.run(other);
    SAME(p.out, 1U);
    SAME(cuda.call("cudaGraphExecUpdate", other, is.graph, static_cast<void*>(nullptr)), 0);
    is.run(other);
    SAME(p.out, 6U);
  });
}

// ---- nodes that are switched off ----

// In, set, fill, out: a word each is theirs, so that each shows whether it ran.
TEST_F(GraphNodes, AreEmptyWhileTheyAreDisabled) {
  run([](const Library& cuda, Program& program) {
    const Maker is(cuda);
    const There<std::uint32_t> device(cuda, Words(3, 0));
    std::uint32_t in = 1;
    Words out(3, 0);
    void* const copy = is.copy({}, device.at, &in, 4, kIn);
    void* const set = is.set({}, {device.at + 1, 0, 2, 4, 1, 1});
    void* const fill = is.fill({}, program, device.at + 2, 3, 1);
    void* const back = is.copy({copy, set, fill}, out.data(), device.begin(), 12, kOut);
    void *const call = is.host(
                    {back}, [](void*) {}, nullptr),
                *const empty = is.empty({});
    void *const exec = is.exec(), *const other = is.exec();
    const auto launched = [&](void* one) {
      SAME(cuda.call("cudaMemset", device.begin(), 0, std::size_t{12}), 0);
      out.assign(3, 9);
      is.run(one);
      return out;
    };
    NEED(launched(exec) == (Words{1, 2, 3}));
    void* const nodes[] = {copy, set, fill};
    for (std::size_t i = 0; i < 3; ++i) {
      Words want = {1, 2, 3};
      want[i] = 0;
      SAME(is.enable(exec, nodes[i], 0), 0);
      SAME(is.is_enabled(exec, nodes[i]), 0);
      SAME(is.is_enabled(other, nodes[i]), 1);
      NEED(launched(exec) == want && launched(other) == (Words{1, 2, 3}));
      // Other parameters wait until it is enabled; an update leaves it as it is.
      const SetNode four{device.at + 1, 0, 4, 4, 1, 1};
      if (nodes[i] == set)
        SAME(cuda.call("cudaGraphExecMemsetNodeSetParams", exec, set,
                       static_cast<const void*>(&four)),
             0);
      NEED(launched(exec) == want);
      SAME(is.enable(exec, nodes[i], 5), 0);
      NEED(launched(exec) == (Words{1, nodes[i] == set ? 4U : 2U, 3}));
      SAME(is.enable(exec, nodes[i], 0), 0);
      SAME(cuda.call("cudaGraphExecUpdate", exec, is.graph, static_cast<void*>(nullptr)), 0);
      SAME(is.is_enabled(exec, nodes[i]), 0);
      NEED(launched(exec) == want);
      SAME(is.enable(exec, nodes[i], 1), 0);
      NEED(launched(exec) == (Words{1, 2, 3}));
    }
    SAME(is.enable(exec, back, 0), 0);
    NEED(launched(exec) == Words(3, 9));
    SAME(cuda.call("cudaGraphExecUpdate", exec, is.graph, static_cast<void*>(nullptr)), 0);
    NEED(launched(exec) == Words(3, 9));
    SAME(is.enable(exec, back, 1), 0);
    NEED(launched(exec) == (Words{1, 2, 3}));
    for (void* const never : {call, empty, is.graph}) {
      SAME(is.enable(exec, never, 0), kInvalid);
      SAME(is.is_enabled(exec, never), -kInvalid);
    }
    SAME(is.enable(nullptr, copy, 0), kInvalid);
    SAME(is.enable(is.graph, copy, 0), kInvalid);
    NEED(launched(exec) == (Words{1, 2, 3}));
  });
}

// What a disabled node uses may be gone.
TEST_F(GraphNodes, ThatAreDisabledNeedNoMemory) {
  run([](const Library& cuda, Program&) {
    const Maker is(cuda);
    const There<std::uint32_t> stays(cuda, {0}), goes(cuda, {0});
    void* const set = is.set({}, {goes.begin(), 0, 2, 4, 1, 1});
    is.set({set}, {stays.begin(), 0, 3, 4, 1, 1});
    void* const exec = is.exec();
    SAME(is.enable(exec, set, 0), 0);
    SAME(cuda.call("cudaFree", goes.begin()), 0);
    is.run(exec);
    SAME(stays.now()[0], 3U);
  });
}

// ---- what there is ----

std::vector<void*> asked(const Library& cuda, const char* name, void* of) {
  std::size_t count = 0;
  SAME(cuda.call(name, of, static_cast<void**>(nullptr), &count), 0);
  std::vector<void*> nodes(count + 1, of);  // one more: null
  std::size_t room = nodes.size();
  SAME(cuda.call(name, of, nodes.data(), &room), 0);
  NEED(room == count && nodes.back() == nullptr);
  nodes.pop_back();
  return nodes;
}
std::vector<void*> beside(const Library& cuda, const char* name, void* node) {
  std::size_t count = 9;
  void* nodes[9];
  long long edges[9];
  SAME(cuda.call(name, node, static_cast<void**>(nodes), static_cast<void*>(edges), &count), 0);
  NEED(std::all_of(edges, edges + count, [](long long edge) { return edge == 0; }));
  return Handles(nodes, nodes + count);
}
Handles before(const Library& cuda, void* node) {
  return beside(cuda, "cudaGraphNodeGetDependencies", node);
}
Handles behind(const Library& cuda, void* node) {
  return beside(cuda, "cudaGraphNodeGetDependentNodes", node);
}
int type_of(const Library& cuda, void* node) {
  int type = -1;
  SAME(cuda.call("cudaGraphNodeGetType", node, &type), 0);
  return type;
}
using EdgePairs = std::vector<std::pair<void*, void*>>;
EdgePairs edges_of(const Library& cuda, void* graph) {
  std::size_t count = 0;
  void* const none = nullptr;
  SAME(cuda.call("cudaGraphGetEdges", graph, none, none, none, &count), 0);
  std::vector<void*> from(count), to(count);
  SAME(cuda.call("cudaGraphGetEdges", graph, from.data(), to.data(), none, &count), 0);
  EdgePairs edges;
  for (std::size_t i = 0; i < count; ++i) edges.emplace_back(from[i], to[i]);
  std::ranges::sort(edges);
  return edges;
}

TEST_F(GraphNodes, SayWhatTheyAre) {
  run([](const Library& cuda, Program& program) {
    const Maker is(cuda);
    const There<std::uint32_t> device(cuda, Words(16, 0));
    Words host(8, 1);
    void* const in = is.copy({}, device.begin(), host.data(), 32, kIn);
    void* const set = is.set({}, {device.at + 8, 16, 2, 2, 3, 2});
    void* const fill = is.fill({in, set}, program, device.at, 3, 2);
    void* const call = is.host({fill}, add_between, &host);
    void* const empty = is.empty({fill});
    const Handles all = {in, set, fill, call, empty};
    NEED(asked(cuda, "cudaGraphGetNodes", is.graph) == all);
    NEED(asked(cuda, "cudaGraphGetRootNodes", is.graph) == (Handles{in, set}));
    const int types[] = {1, 2, 0, 3, 5};
    for (std::size_t i = 0; i < all.size(); ++i) SAME(type_of(cuda, all[i]), types[i]);
    NEED(before(cuda, fill) == (Handles{in, set}) && before(cuda, in).empty());
    NEED(behind(cuda, fill) == (Handles{call, empty}) && behind(cuda, in) == Handles{fill});
    EdgePairs want = {{in, fill}, {set, fill}, {fill, call}, {fill, empty}};
    std::ranges::sort(want);
    NEED(edges_of(cuda, is.graph) == want);
    KernelNode kernel{};
    SAME(cuda.call("cudaGraphKernelNodeGetParams", fill, static_cast<void*>(&kernel)), 0);
    NEED(kernel.function == &program.fill && kernel.block.x == 2 && kernel.extra == nullptr);
    SAME(*static_cast<std::uint32_t*>(kernel.parameters[1]), 3U);
    NEED(*static_cast<void**>(kernel.parameters[0]) == device.begin());
    SetNode memset{};
    SAME(cuda.call("cudaGraphMemsetNodeGetParams", set, static_cast<void*>(&memset)), 0);
    NEED(memset.to == device.at + 8 && memset.pitch == 16 && memset.value == 2 &&
         memset.element == 2 && memset.width == 3 && memset.height == 2);
    Copy3 copy{};
    SAME(cuda.call("cudaGraphMemcpyNodeGetParams", in, static_cast<void*>(&copy)), 0);
    NEED(copy.from.memory == host.data() && copy.to.memory == device.begin() &&
         copy.extent[0] == 32 && copy.extent[1] == 1 && copy.kind == kIn);
    // What a node said may be given back to it, changed.
    std::uint32_t value = 7;
    void* parameters[] = {kernel.parameters[0], &value, kernel.parameters[2]};
    kernel.parameters = parameters;
    SAME(cuda.call("cudaGraphKernelNodeSetParams", fill, static_cast<const void*>(&kernel)), 0);
    is.run(is.exec());
    NEED(device.now() == (Words{7, 7, 1, 1, 1, 1, 1, 1, 0x20002, 2, 0, 0, 0x20002, 2, 0, 0}));
    SAME(cuda.call("cudaGraphNodeGetType", is.graph, static_cast<int*>(nullptr)), kInvalid);
    void* child = nullptr;
    SAME(cuda.call("cudaGraphChildGraphNodeGetGraph", fill, &child), kInvalid);
  });
}

// A graph that was captured on two streams, with nodes of the program's own.
TEST_F(GraphNodes, OfCapturesSayWhatTheyAre) {
  run([](const Library& cuda, Program& program) {
    const There<std::uint32_t> device(cuda, Words(4, 0));
    Words host(4, 5);
    void *one = nullptr, *two = nullptr, *event = nullptr, *graph = nullptr, *found = nullptr;
    for (void** stream : {&one, &two}) SAME(cuda.call("cudaStreamCreate", stream), 0);
    SAME(cuda.call("cudaEventCreate", &event), 0);
    SAME(cuda.call("cudaStreamBeginCapture", one, 0), 0);
    SAME(cuda.call("cudaMemcpyAsync", device.begin(), static_cast<const void*>(host.data()),
                   std::size_t{16}, kIn, one),
         0);
    SAME(cuda.call("cudaEventRecord", event, one), 0);
    SAME(cuda.call("cudaStreamWaitEvent", two, event, 0U), 0);
    SAME(program.launch(program.fill, {1}, {1}, two, device.at, 6U, 1U), 0);
    SAME(cuda.call("cudaMemsetAsync", static_cast<void*>(device.at + 1), 0, std::size_t{4}, one),
         0);
    SAME(cuda.call("cudaEventRecord", event, two), 0);
    SAME(cuda.call("cudaStreamWaitEvent", one, event, 0U), 0);
    SAME(cuda.call("cudaLaunchHostFunc", one, add_between, static_cast<void*>(&host)), 0);
    SAME(cuda.call("cudaStreamEndCapture", one, &graph), 0);
    const Handles nodes = asked(cuda, "cudaGraphGetNodes", graph);
    SAME(nodes.size(), 4U);
    const int types[] = {1, 0, 2, 3};
    for (std::size_t i = 0; i < 4; ++i) SAME(type_of(cuda, nodes[i]), types[i]);
    NEED(before(cuda, nodes[1]) == Handles{nodes[0]});
    NEED(before(cuda, nodes[2]) == Handles{nodes[0]});
    SAME(before(cuda, nodes[3]).size(), 2U);
    NEED(asked(cuda, "cudaGraphGetRootNodes", graph) == Handles{nodes[0]});
    KernelNode kernel{};
    SAME(cuda.call("cudaGraphKernelNodeGetParams", nodes[1], static_cast<void*>(&kernel)), 0);
    NEED(kernel.function == &program.fill);
    SAME(*static_cast<std::uint32_t*>(kernel.parameters[1]), 6U);
    Copy3 copy{};
    SAME(cuda.call("cudaGraphMemcpyNodeGetParams", nodes[0], static_cast<void*>(&copy)), 0);
    NEED(copy.from.memory == host.data());
    HostNode call{};
    SAME(cuda.call("cudaGraphHostNodeGetParams", nodes[3], static_cast<void*>(&call)), 0);
    NEED(call.function == add_between && call.data == &host);
    // A clone says the same of nodes of its own.
    void* clone = nullptr;
    SAME(cuda.call("cudaGraphClone", &clone, graph), 0);
    SAME(cuda.call("cudaGraphNodeFindInClone", &found, nodes[1], clone), 0);
    const Handles cloned = asked(cuda, "cudaGraphGetNodes", clone);
    NEED(found == cloned[1] && before(cuda, cloned[1]) == Handles{cloned[0]});
    SAME(type_of(cuda, found), 0);
  });
}

// A graph in a graph has nodes of its own; what becomes of them is so in the node.
TEST_F(GraphNodes, HaveGraphs) {
  run([](const Library& cuda, Program&) {
    const Maker is(cuda), child(cuda);
    const There<std::uint32_t> device(cuda, Words(2, 0));
    void* const inside = child.set({}, {device.begin(), 0, 1, 4, 2, 1});
    void *node = nullptr, *embedded = nullptr;
    SAME(cuda.call("cudaGraphAddChildGraphNode", &node, is.graph, static_cast<void**>(nullptr),
                   kZero, child.graph),
         0);
    SAME(type_of(cuda, node), 4);
    SAME(cuda.call("cudaGraphChildGraphNodeGetGraph", node, &embedded), 0);
    const Handles its = asked(cuda, "cudaGraphGetNodes", embedded);
    NEED(its.size() == 1 && its[0] != inside && embedded != child.graph);
    SetNode set{};
    SAME(cuda.call("cudaGraphMemsetNodeGetParams", its[0], static_cast<void*>(&set)), 0);
    set.value = 2;
    SAME(cuda.call("cudaGraphMemsetNodeSetParams", its[0], static_cast<const void*>(&set)), 0);
    is.run(is.exec());
    NEED(device.now() == Words(2, 2));
    is.run(child.exec());
    NEED(device.now() == Words(2, 1));
    // Of an executable graph's graphs nothing is changed, and it says so.
    SAME(cuda.call("cudaGraphExecMemsetNodeSetParams", is.exec(), its[0],
                   static_cast<const void*>(&set)),
         801);
    SAME(cuda.call("cudaGraphDestroyNode", node), 0);
    SAME(asked(cuda, "cudaGraphGetNodes", is.graph).size(), 0U);
    SAME(cuda.call("cudaGraphGetNodes", embedded, static_cast<void**>(nullptr),
                   static_cast<std::size_t*>(nullptr)),
         kInvalid);
    is.run(is.exec());
  });
}

// ---- graphs that become others ----

// A node without its edges runs, and one that is destroyed does not; what was made of the graph
// before does what it did.
TEST_F(GraphNodes, ComeAndGo) {
  run([](const Library& cuda, Program& program) {
    const Maker is(cuda);
    const There<std::uint32_t> device(cuda, Words(2, 0));
    std::uint32_t in = 1;
    Words out(2, 0);
    void* const copy = is.copy({}, device.at, &in, 4, kIn);
    void* const fill = is.fill({copy}, program, device.at, 3, 1);
    void* const set = is.set({copy}, {device.at + 1, 0, 2, 4, 1, 1});
    void* const back = is.copy({fill, set}, out.data(), device.begin(), 8, kOut);
    void* const was = is.exec();
    void* const none = nullptr;
    const auto edges = [&](const char* name, void* from, void* to) {
      return cuda.call(name, is.graph, &from, &to, none, std::size_t{1});
    };
    SAME(edges("cudaGraphRemoveDependencies", copy, set), 0);
    NEED(before(cuda, set).empty() && behind(cuda, copy) == Handles{fill});
    SAME(edges("cudaGraphRemoveDependencies", copy, set), kInvalid);  // no longer there
    SAME(edges("cudaGraphRemoveDependencies", copy, back), kInvalid);
    SAME(edges("cudaGraphRemoveDependencies", copy, is.graph), kInvalid);
    SAME(edges("cudaGraphAddDependencies", copy, fill), kInvalid);  // there already
    SAME(edges("cudaGraphAddDependencies", copy, copy), kInvalid);
    SAME(edges("cudaGraphAddDependencies", copy, back), 0);
    NEED(before(cuda, back) == (Handles{fill, set, copy}));
    SAME(edges("cudaGraphAddDependencies", back, copy), 801);
    is.run(is.exec());
    NEED(out == (Words{3, 2}));
    SAME(cuda.call("cudaGraphDestroyNode", fill), 0);
    NEED(asked(cuda, "cudaGraphGetNodes", is.graph) == (Handles{copy, set, back}));
    NEED(before(cuda, back) == (Handles{set, copy}) && behind(cuda, copy) == Handles{back});
    void* const less = is.exec();
    is.run(less);
    NEED(out == (Words{1, 2}));
    SAME(cuda.call("cudaGraphDestroyNode", copy), 0);
    SAME(cuda.call("cudaGraphDestroyNode", copy), kInvalid);
    in = 8;
    is.run(is.exec());
    NEED(out == (Words{1, 2}));  // the copy is gone
    is.run(less);
    NEED(out == (Words{8, 2}));
    is.run(was);
    NEED(out == (Words{3, 2}));
    struct {
      int result;
      void *node, *from;
    } result{};
    SAME(cuda.call("cudaGraphExecUpdate", was, is.graph, static_cast<void*>(&result)), 910);
    SAME(result.result, 2);
    const void* const set_there = set;
    const SetNode five{device.at + 1, 0, 5, 4, 1, 1};
    SAME(cuda.call("cudaGraphMemsetNodeSetParams", set_there, static_cast<const void*>(&five)), 0);
    is.run(is.exec());
    NEED(out == (Words{3, 5}));
  });
}

// A copy that goes takes its place among functions along.
TEST_F(GraphNodes, GoFromAmongFunctions) {
  run([](const Library& cuda, Program&) {
    std::uint32_t first = 1, middle = 0, next = 0, out = 0, unused = 0;
    Between between = {&middle, &next, 10};
    const Maker is(cuda);
    const There<std::uint32_t> device(cuda, Words(2, 0));
    void* const other = is.copy({}, &unused, device.at + 1, 4, kOut);
    void* const in = is.copy({other}, device.at, &first, 4, kIn);
    void* const seen = is.copy({in}, &middle, device.at, 4, kOut);
    void* const call = is.host({seen}, add_between, &between);
    void* const again = is.copy({call}, device.at, &next, 4, kIn);
    is.copy({again}, &out, device.at, 4, kOut);
    void* const was = is.exec();
    SAME(cuda.call("cudaGraphDestroyNode", other), 0);
    is.launch(is.exec()), is.wait();
    SAME(out, 11U);
    SAME(cuda.call("cudaGraphDestroyNode", call), 0);
    next = 5;
    is.run(is.exec());
    SAME(out, 5U);
    is.run(was);
    SAME(out, 11U);
  });
}

// A node that is given what is another kind's refuses it at once, and is as it was.
TEST_F(GraphNodes, RefuseWhatIsAnotherKinds) {
  run([](const Library& cuda, Program& program) {
    const Maker is(cuda);
    const There<std::uint32_t> device(cuda, Words(4, 0));
    std::uint32_t in = 1;
    void* const copy = is.copy({}, device.at, &in, 4, kIn);
    void* const set = is.set({}, {device.at + 1, 0, 2, 4, 1, 1});
    void* const fill = is.fill({}, program, device.at + 2, 3, 1);
    void* const call = is.host(
        {}, [](void*) {}, nullptr);
    void *const empty = is.empty({}), *const exec = is.exec();
    void* to = device.at;
    std::uint32_t value = 9, one = 1;
    void* parameters[] = {&to, &value, &one};
    AnyNode any[4] = {};
    any[0].kernel = {&program.fill, {1}, {1}, 0, parameters, nullptr};
    any[1].copy.copy.from = {&value, 4, 4, 1}, any[1].copy.copy.to = {to, 4, 4, 1};
    any[1].copy.copy.extent[0] = 4, any[1].copy.copy.extent[1] = 1;
    any[1].copy.copy.extent[2] = 1, any[1].copy.copy.kind = kIn;
    any[2].set = {to, 0, 9, 4, 1, 1};
    any[3].host = {[](void*) {}, nullptr};
    const char* const names[] = {"Kernel", "Memcpy", "Memset", "Host"};
    void* const nodes[] = {fill, copy, set, call, empty};
    for (int kind = 0; kind < 4; ++kind) {
      any[kind].type = kind;
      const void* const what = kind == 1 ? static_cast<const void*>(&any[1].copy.copy)
                                         : static_cast<const void*>(any[kind].words);
      for (int node = 0; node < 5; ++node) {
        if (node == kind) continue;
        const std::string rest = std::string(names[kind]) + "NodeSetParams";
        void* const given = nodes[node];
        SAME(cuda.call(("cudaGraph" + rest).c_str(), given, what), kInvalid);
        SAME(cuda.call(("cudaGraphExec" + rest).c_str(), exec, given, what), kInvalid);
        SAME(cuda.call(("cudaGraphExec" + rest).c_str(), kNoStream, given, what), kInvalid);
        SAME(cuda.call("cudaGraphNodeSetParams", given, static_cast<void*>(&any[kind])), kInvalid);
        SAME(cuda.call("cudaGraphExecNodeSetParams", exec, given, static_cast<void*>(&any[kind])),
             kInvalid);
        char room[256];
        const std::string get = "cudaGraph" + std::string(names[kind]) + "NodeGetParams";
        SAME(cuda.call(get.c_str(), given, static_cast<void*>(room)), kInvalid);
      }
    }
    is.run(exec), is.run(is.exec());
    NEED(device.now() == (Words{1, 2, 3, 0}));
    for (AnyNode& what : any)
      SAME(cuda.call("cudaGraphExecNodeSetParams", exec, nodes[what.type],
                     static_cast<void*>(&what)),
           0);
    is.run(exec);
    NEED(device.now() == (Words{9, 2, 3, 0}));
  });
}

// Sets of rows keep their shape in an executable graph, runs stay runs.
TEST_F(GraphNodes, SetsKeepTheirShapeInExecutableGraphs) {
  run([](const Library& cuda, Program&) {
    const Maker is(cuda);
    const There<std::uint32_t> device(cuda, Words(8, 0));
    const SetNode rows{device.at, 16, 1, 4, 2, 2}, run{device.at + 2, 0, 2, 4, 2, 1};
    void *const of_rows = is.set({}, rows), *const of_run = is.set({}, run), *exec = is.exec();
    const auto set = [&](void* node, SetNode what, auto change) {
      change(what);
      return cuda.call("cudaGraphExecMemsetNodeSetParams", exec, node,
                       static_cast<const void*>(&what));
    };
    SAME(set(of_rows, rows, [](SetNode& its) { its.width = 1; }), kInvalid);
    SAME(set(of_rows, rows, [](SetNode& its) { its.height = 1; }), kInvalid);
    SAME(set(of_rows, rows, [](SetNode& its) { its.pitch = 8; }), kInvalid);
    SAME(set(of_rows, rows, [](SetNode& its) { its.element = 2; }), kInvalid);
    SAME(set(of_run, run, [](SetNode& its) { its.height = 2, its.pitch = 16; }), kInvalid);
    SAME(set(of_run, run, [](SetNode& its) { its.width = 0; }), kInvalid);
    SAME(set(of_rows, rows, [](SetNode& its) { its.value = 3; }), 0);
    SAME(set(of_run, run, [](SetNode& its) { its.value = 4, its.width = 1; }), 0);
    is.run(exec);
    NEED(device.now() == (Words{3, 3, 4, 0, 3, 3, 0, 0}));
  });
}

// The runtime of CUDA 12 tells edges without their data, and by another name with it.
TEST_F(GraphNodes, OfTheOlderRuntime) {
  run([](const Library&, Program&) {
    const Library cuda("libcudart.so.12");
    const Maker is(cuda);
    void *const first = is.empty({}), *const second = is.empty({first});
    void *from = nullptr, *to = nullptr, *one[2] = {is.graph, is.graph};
    long long data = 5;
    std::size_t count = 1;
    SAME(cuda.call("cudaGraphGetEdges", is.graph, &from, &to, &count), 0);
    NEED(from == first && to == second && count == 1);
    SAME(cuda.call("cudaGraphGetEdges_v2", is.graph, &from, &to, static_cast<void*>(&data), &count),
         0);
    SAME(data, 0);
    count = 2;
    SAME(cuda.call("cudaGraphNodeGetDependencies", second, static_cast<void**>(one), &count), 0);
    NEED(one[0] == first && one[1] == nullptr && count == 1);
    SAME(cuda.call("cudaGraphNodeGetDependentNodes", first, static_cast<void**>(one), &count), 0);
    NEED(one[0] == second && count == 1);
    SAME(cuda.call("cudaGraphRemoveDependencies", is.graph, &from, &to, std::size_t{1}), 0);
    SAME(cuda.call("cudaGraphGetRootNodes", is.graph, static_cast<void**>(nullptr), &count), 0);
    SAME(count, 2);
    SAME(cuda.call("cudaGraphAddDependencies", is.graph, &from, &to, std::size_t{1}), 0);
    SAME(cuda.call("cudaGraphGetRootNodes", is.graph, static_cast<void**>(nullptr), &count), 0);
    SAME(count, 1);
  });
}

// The driver's functions know the same nodes, and give copies in space their own form.
TEST_F(GraphNodes, OfTheDriver) {
  run([](const Library& cuda, Program& program) {
    struct Place {
      std::size_t x, y, z, level;
      int type;
      const void* host;
      void *device, *array, *reserved;
      std::size_t pitch, height;
    };
    struct {
      Place from, to;
      std::size_t width, height, depth;
    } copy{};
    struct {
      KernelNode node;
      void *kernel, *context;
    } kernel{};
    const Library driver("libcuda.so.1");
    const Maker is(cuda);
    const There<std::uint32_t> device(cuda, Words(2, 0));
    Words in(2, 1), other(2, 2), out(2, 0);
    void* const first = is.copy({}, device.begin(), in.data(), 8, kIn);
    void* const second = is.fill({first}, program, device.at, 3, 1);
    void *third = nullptr, *exec = nullptr;
    SAME(driver.call("cuGraphMemcpyNodeGetParams", first, static_cast<void*>(&copy)), 0);
    NEED(copy.from.host == in.data() && copy.from.type == 1 && copy.to.type == 2 &&
         copy.to.device == device.begin() && copy.width == 8 && copy.height == 1);
    auto back = copy;
    std::swap(back.from, back.to);
    back.to.host = out.data();
    SAME(driver.call("cuGraphAddMemcpyNode", &third, is.graph, &second, std::size_t{1},
                     static_cast<const void*>(&back), kNoStream),
         0);
    SAME(driver.call("cuGraphInstantiateWithFlags", &exec, is.graph, 0ULL), 0);
    is.run(exec);
    NEED(out == (Words{3, 1}));
    copy.from.host = other.data();
    SAME(driver.call("cuGraphExecMemcpyNodeSetParams", exec, first, static_cast<const void*>(&copy),
                     kNoStream),
         0);
    SAME(driver.call("cuGraphKernelNodeGetParams_v2", second, static_cast<void*>(&kernel)), 0);
    std::uint32_t value = 4;
    void* parameters[] = {kernel.node.parameters[0], &value, kernel.node.parameters[2]};
    kernel.node.parameters = parameters;
    SAME(driver.call("cuGraphExecKernelNodeSetParams_v2", exec, second,
                     static_cast<const void*>(&kernel)),
         0);
    is.run(exec);
    NEED(out == (Words{4, 2}));
    SAME(driver.call("cuGraphNodeSetEnabled", exec, second, 0U), 0);
    is.run(exec);
    NEED(out == (Words{2, 2}));
    copy.from.type = 7;  // there is no such memory
    SAME(driver.call("cuGraphExecMemcpyNodeSetParams", exec, first, static_cast<const void*>(&copy),
                     kNoStream),
         kInvalid);
  });
}

TEST_F(GraphNodes, ArePrinted) {
  static const std::string path =
      ::testing::TempDir() + "graph_nodes" + std::to_string(::getpid()) + ".dot";
  run([](const Library& cuda, Program& program) {
    const Maker is(cuda);
    const There<std::uint32_t> device(cuda, Words(4, 0));
    std::uint32_t in = 1;
    void* const copy = is.copy({}, device.at, &in, 4, kIn);
    is.fill({copy}, program, device.at, 3, 1);
    SAME(cuda.call("cudaGraphDebugDotPrint", is.graph, path.c_str(), 0U), 0);
    SAME(cuda.call("cudaGraphDebugDotPrint", is.graph, "/nowhere/at/all", 0U), 304);
    SAME(cuda.call("cudaGraphDebugDotPrint", kNoStream, path.c_str(), 0U), kInvalid);
  });
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::remove(path.c_str());
  EXPECT_NE(text.str().find("digraph"), std::string::npos);
  EXPECT_NE(text.str().find("copy host to device, 4 bytes"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("kernel fill"), std::string::npos);
  EXPECT_NE(text.str().find(" -> "), std::string::npos);
}

}  // namespace
}  // namespace partita::remote::test::graph_nodes
