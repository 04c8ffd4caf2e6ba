// Events and attributes of nodes of graphs, and what an executable graph may become. Oracles: what
// memory holds once something was waited for, and what CUDA's documentation says a call answers.
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/remote/shim_harness.h"

namespace partita::remote::test::graph_events {
namespace {

using Words = std::vector<std::uint32_t>;
using Handles = std::vector<void*>;
using Block = std::array<char, 64>;  // cudaLaunchAttributeValue

constexpr int kInvalid = 1, kIn = 1, kOut = 2, kDevice = 3;
constexpr int kNotReady = 600, kNotThere = 801, kUpdateFailed = 910;
constexpr std::size_t kZero = 0;

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
    void* event;
    SetNode set;
  };
  long long reserved_too;
};
static_assert(sizeof(AnyNode) == 256);
struct Result {
  int what;
  void *node, *from;
};

// A function of the program that ends when the program lets it.
struct Gate {
  std::atomic<bool> is_open = false;
  static void wait(void* gate) {
    while (!static_cast<Gate*>(gate)->is_open) std::this_thread::yield();
  }
};

struct Maker {
  const Library& cuda;
  void* graph = nullptr;

  explicit Maker(const Library& library) : cuda(library) {
    SAME(cuda.call("cudaGraphCreate", &graph, 0U), 0);
  }
  void* event() const {
    void* made = nullptr;
    SAME(cuda.call("cudaEventCreate", &made), 0);
    return made;
  }
  void* stream() const {
    void* made = nullptr;
    SAME(cuda.call("cudaStreamCreateWithFlags", &made, 1U), 0);
    return made;
  }
  void* copy(const Handles& after, void* to, const void* from, std::size_t bytes, int kind) const {
    void* node = nullptr;
    SAME(cuda.call("cudaGraphAddMemcpyNode1D", &node, graph, after.data(), after.size(), to, from,
                   bytes, kind),
         0);
    return node;
  }
  void* set(const Handles& after, void* to, unsigned value, std::size_t width = 1,
            std::size_t height = 1) const {
    const SetNode what{to, 16, value, 4, width, height};
    return added("cudaGraphAddMemsetNode", after, &what);
  }
  void* gate(const Handles& after, Gate& gate) const {
    const HostNode what{Gate::wait, &gate};
    return added("cudaGraphAddHostNode", after, &what);
  }
  void* fill(const Handles& after, const Program& program, void* to, std::uint32_t value) const {
    std::uint32_t n = 1;
    void* parameters[] = {&to, &value, &n};
    const KernelNode what{&program.fill, {1}, {1}, 0, parameters, nullptr};
    return added("cudaGraphAddKernelNode", after, &what);
  }
  void* record(const Handles& after, void* event) const {
    return of_event("cudaGraphAddEventRecordNode", after, event);
  }
  void* wait(const Handles& after, void* event) const {
    return of_event("cudaGraphAddEventWaitNode", after, event);
  }
  void* child(const Maker& of) const {
    void* node = nullptr;
    SAME(cuda.call("cudaGraphAddChildGraphNode", &node, graph, static_cast<void**>(nullptr), kZero,
                   of.graph),
         0);
    return node;
  }
  void* exec(unsigned long long flags = 0) const {
    void* made = nullptr;
    SAME(cuda.call("cudaGraphInstantiate", &made, graph, flags), 0);
    return made;
  }
  void launch(void* exec, void* on) const { SAME(cuda.call("cudaGraphLaunch", exec, on), 0); }
  int query(void* event) const { return cuda.call("cudaEventQuery", event); }
  void wait_for(void* event) const { SAME(cuda.call("cudaEventSynchronize", event), 0); }
  void wait() const { SAME(cuda.call("cudaDeviceSynchronize"), 0); }

 private:
  void* added(const char* name, const Handles& after, const void* what) const {
    void* node = nullptr;
    SAME(cuda.call(name, &node, graph, after.data(), after.size(), what), 0);
    return node;
  }
  void* of_event(const char* name, const Handles& after, void* event) const {
    void* node = nullptr;
    SAME(cuda.call(name, &node, graph, after.data(), after.size(), event), 0);
    return node;
  }
};

class GraphEvents : public ::testing::Test {
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

// ---- records and waits ----

// What is behind a record runs still when the program has waited for that, at each launch.
TEST_F(GraphEvents, AreRecordedInsideALaunch) {
  run([](const Library& cuda, Program&) {
    const Maker is(cuda);
    const There<std::uint32_t> device(cuda, {0});
    void *const begun = is.event(), *const ended = is.event(), *const stream = is.stream();
    Gate before, behind;
    void* const first = is.record({is.gate({}, before)}, begun);
    is.record({is.set({is.gate({first}, behind)}, device.begin(), 5)}, ended);
    void* const exec = is.exec();
    SAME(is.query(begun), 0);  // no launch yet
    for (int round = 0; round < 3; ++round) {
      before.is_open = behind.is_open = false;
      is.launch(exec, stream);
      SAME(is.query(begun), kNotReady);
      before.is_open = true;
      is.wait_for(begun);
      SAME(is.query(begun), 0);
      SAME(is.query(ended), kNotReady);
      SAME(cuda.call("cudaStreamQuery", stream), kNotReady);
      behind.is_open = true;
      is.wait_for(ended);
      SAME(device.now()[0], 5U);
      float ms = -1;
      SAME(cuda.call("cudaEventElapsedTime", &ms, begun, ended), 0);
      NEED(ms >= 0);
    }
  });
}

// A graph waits for what was recorded before its launch; what it copies the program wrote before.
TEST_F(GraphEvents, AreWaitedForByALaunch) {
  run([](const Library& cuda, Program&) {
    struct Writer {
      Gate gate;
      std::uint32_t* to;
      static void write(void* given) {
        auto& is = *static_cast<Writer*>(given);
        Gate::wait(&is.gate);
        ++*is.to;
      }
    } writer;
    const Maker is(cuda);
    const There<std::uint32_t> device(cuda, {0});
    std::uint32_t out = 0;
    SAME(cuda.call("cudaMallocHost", &writer.to, std::size_t{4}), 0);
    *writer.to = 10;
    void *const written = is.event(), *const one = is.stream(), *const two = is.stream();
    void* const in = is.copy({is.wait({}, written)}, device.begin(), writer.to, 4, kIn);
    is.copy({in}, &out, device.begin(), 4, kOut);
    void* const exec = is.exec();
    is.launch(exec, two), is.wait();
    SAME(out, 10U);  // never recorded: no wait
    for (std::uint32_t round = 1; round < 4; ++round) {
      writer.gate.is_open = false;
      SAME(cuda.call("cudaLaunchHostFunc", one, Writer::write, static_cast<void*>(&writer)), 0);
      SAME(cuda.call("cudaEventRecord", written, one), 0);
      is.launch(exec, two);
      SAME(cuda.call("cudaStreamQuery", two), kNotReady);
      writer.gate.is_open = true;
      SAME(cuda.call("cudaStreamSynchronize", two), 0);
      SAME(out, 10 + round);
    }
  });
}

// An event behind a copy to the program's memory: the bytes are there once it was waited for.
TEST_F(GraphEvents, ComeBehindResults) {
  run([](const Library& cuda, Program&) {
    const Maker is(cuda), inside(cuda);
    const There<std::uint32_t> device(cuda, {0});
    std::uint32_t in = 0, out = 0, late = 0;
    void *const copied = is.event(), *const again = is.event(), *const stream = is.stream();
    const There<std::uint32_t> other(cuda, {7});
    inside.record({inside.copy({}, &late, other.begin(), 4, kOut)}, again);
    void* const first = is.copy({}, device.begin(), &in, 4, kIn);
    void* const second = is.record({is.copy({first}, &out, device.begin(), 4, kOut)}, copied);
    is.child(inside);
    is.set({second}, other.begin(), 7);
    void* const exec = is.exec();
    for (std::uint32_t round = 1; round < 50; ++round) {
      in = round, late = 0;
      is.launch(exec, stream);
      is.wait_for(round % 2 == 0 ? copied : again);
      SAME(round % 2 == 0 ? out : late, round % 2 == 0 ? round : 7);
      is.wait();
    }
  });
}

// Of a captured stream: nodes, where the program asks for such; the event is of no capture.
TEST_F(GraphEvents, AreCaptured) {
  run([](const Library& cuda, Program&) {
    const Maker is(cuda);
    const There<std::uint32_t> device(cuda, {0, 0});
    void *const event = is.event(), *const waited = is.event(), *const stream = is.stream();
    void *graph = nullptr, *exec = nullptr, *found = nullptr, *nodes[4] = {};
    SAME(cuda.call("cudaEventRecordWithFlags", event, stream, 1U), kInvalid);
    SAME(cuda.call("cudaStreamWaitEvent", stream, event, 1U), kInvalid);
    SAME(cuda.call("cudaEventRecordWithFlags", event, stream, 2U), kInvalid);
    SAME(cuda.call("cudaStreamBeginCapture", stream, 0), 0);
    SAME(cuda.call("cudaStreamWaitEvent", stream, waited, 1U), 0);
    SAME(cuda.call("cudaMemsetAsync", device.begin(), 1, std::size_t{4}, stream), 0);
    SAME(cuda.call("cudaEventRecordWithFlags", event, stream, 1U), 0);
    SAME(is.query(event), 0);
    SAME(cuda.call("cudaStreamEndCapture", stream, &graph), 0);
    std::size_t count = 4;
    SAME(cuda.call("cudaGraphGetNodes", graph, static_cast<void**>(nodes), &count), 0);
    SAME(count, 3U);
    const int types[] = {6, 2, 7};
    for (int i = 0; i < 3; ++i) {
      int type = -1;
      SAME(cuda.call("cudaGraphNodeGetType", nodes[i], &type), 0);
      SAME(type, types[i]);
    }
    SAME(cuda.call("cudaGraphEventWaitNodeGetEvent", nodes[0], &found), 0);
    NEED(found == waited);
    SAME(cuda.call("cudaGraphEventRecordNodeGetEvent", nodes[2], &found), 0);
    NEED(found == event);
    SAME(cuda.call("cudaGraphEventRecordNodeGetEvent", nodes[0], &found), kInvalid);
    SAME(cuda.call("cudaGraphEventWaitNodeGetEvent", nodes[1], &found), kInvalid);
    SAME(cuda.call("cudaGraphInstantiate", &exec, graph, 0ULL), 0);
    Gate gate;
    void* const other = is.stream();
    SAME(cuda.call("cudaLaunchHostFunc", other, Gate::wait, static_cast<void*>(&gate)), 0);
    SAME(cuda.call("cudaEventRecord", waited, other), 0);
    is.launch(exec, stream);
    SAME(is.query(event), kNotReady);
    gate.is_open = true;
    is.wait_for(event);
    NEED(device.now() == (Words{0x01010101, 0}));
  });
}

// Another event, in a graph and in an executable one, by both forms; a node goes, an event goes.
TEST_F(GraphEvents, Change) {
  run([](const Library& cuda, Program&) {
    const Maker is(cuda);
    void *const one = is.event(), *const two = is.event(), *const stream = is.stream();
    Gate gate;
    void* const held = is.gate({}, gate);
    void *const record = is.record({held}, one), *const wait = is.wait({held}, one);
    void *const exec = is.exec(), *const other = is.exec();
    const auto records = [&](void* of, bool first, bool second) {
      gate.is_open = false;
      is.launch(of, stream);
      SAME(is.query(one), first ? kNotReady : 0);
      SAME(is.query(two), second ? kNotReady : 0);
      gate.is_open = true;
      is.wait();
      SAME(is.query(one), 0);
      SAME(is.query(two), 0);
    };
    records(exec, true, false);
    SAME(cuda.call("cudaGraphExecEventRecordNodeSetEvent", exec, record, two), 0);
    records(exec, false, true), records(other, true, false);
    AnyNode any{};
    any.type = 7, any.event = one;
    SAME(cuda.call("cudaGraphExecNodeSetParams", exec, record, static_cast<void*>(&any)), 0);
    records(exec, true, false);
    any.event = two;
    SAME(cuda.call("cudaGraphNodeSetParams", record, static_cast<void*>(&any)), 0);
    records(exec, true, false), records(is.exec(), false, true);
    SAME(cuda.call("cudaGraphExecUpdate", exec, is.graph, static_cast<void*>(nullptr)), 0);
    records(exec, false, true);
    SAME(cuda.call("cudaGraphEventWaitNodeSetEvent", wait, two), 0);
    SAME(cuda.call("cudaGraphExecEventWaitNodeSetEvent", exec, wait, two), 0);
    SAME(cuda.call("cudaGraphEventRecordNodeSetEvent", wait, two), kInvalid);
    SAME(cuda.call("cudaGraphExecEventWaitNodeSetEvent", exec, record, two), kInvalid);
    SAME(cuda.call("cudaGraphEventRecordNodeSetEvent", record, is.graph), kInvalid);
    SAME(cuda.call("cudaGraphNodeSetEnabled", exec, record, 0U), kInvalid);
    any.type = 6;
    SAME(cuda.call("cudaGraphNodeSetParams", record, static_cast<void*>(&any)), kInvalid);
    void *made = nullptr, *clone = nullptr;
    any.type = 7, any.event = one;
    SAME(cuda.call("cudaGraphAddNode", &made, is.graph, &held, kNoStream, std::size_t{1},
                   static_cast<void*>(&any)),
         0);
    SAME(cuda.call("cudaGraphClone", &clone, is.graph), 0);
    SAME(cuda.call("cudaGraphDestroyNode", record), 0);
    records(is.exec(), true, false);
    void* of_clone = nullptr;
    SAME(cuda.call("cudaGraphInstantiate", &of_clone, clone, 0ULL), 0);
    records(of_clone, true, true);
    SAME(cuda.call("cudaEventDestroy", two), 0);  // graphs have it still
    gate.is_open = true;
    is.launch(of_clone, stream), is.wait_for(one), is.wait();
  });
}

TEST_F(GraphEvents, ThatCannotBe) {
  run([](const Library& cuda, Program&) {
    const Maker is(cuda);
    void *node = nullptr, *exec = nullptr;
    void* const none = nullptr;
    SAME(cuda.call("cudaGraphAddEventRecordNode", &node, is.graph, &none, kZero, none), kInvalid);
    SAME(cuda.call("cudaGraphAddEventWaitNode", &node, is.graph, &none, kZero, is.graph), kInvalid);
    struct {
      int type, reserved[3];
      unsigned long long condition;
      int kind;
      unsigned bodies;
      void** graphs;
      long long rest[27];
    } branch{};
    static_assert(sizeof branch == 256);
    SAME(cuda.call("cudaGraphConditionalHandleCreate", &branch.condition, is.graph, 1U, 1U), 0);
    branch.type = 13, branch.bodies = 1;
    SAME(cuda.call("cudaGraphAddNode", &node, is.graph, &none, kNoStream, kZero,
                   static_cast<void*>(&branch)),
         0);
    SAME(
        cuda.call("cudaGraphAddEventRecordNode", &node, branch.graphs[0], &none, kZero, is.event()),
        0);
    SAME(cuda.call("cudaGraphInstantiate", &exec, is.graph, 0ULL), kNotThere);
  });
}

// The driver's forms: any node added, told and changed.
TEST_F(GraphEvents, OfTheDriver) {
  run([](const Library& cuda, Program&) {
    const Library driver("libcuda.so.1");
    const Maker is(cuda);
    const There<std::uint32_t> device(cuda, {0, 0});
    void *const event = is.event(), *const other = is.event(), *exec = nullptr;
    void *set = nullptr, *record = nullptr, *wait = nullptr, *found = nullptr;
    AnyNode any{};
    any.type = 2, any.set = {device.begin(), 0, 3, 4, 1, 1};
    const auto* const what = static_cast<const void*>(&any);
    SAME(driver.call("cuGraphAddNode_v2", &set, is.graph, kNoStream, kNoStream, kZero, what), 0);
    SAME(driver.call("cuGraphAddEventRecordNode", &record, is.graph, &set, std::size_t{1}, event),
         0);
    any = {}, any.type = 6, any.event = other;
    SAME(driver.call("cuGraphAddNode", &wait, is.graph, &record, std::size_t{1}, what), 0);
    SAME(driver.call("cuGraphEventWaitNodeGetEvent", wait, &found), 0);
    NEED(found == other);
    SAME(driver.call("cuGraphInstantiateWithFlags", &exec, is.graph, 0ULL), 0);
    any = {}, any.type = 2, any.set = {device.begin(), 0, 4, 4, 2, 1};
    SAME(driver.call("cuGraphExecNodeSetParams", exec, set, what), 0);
    SAME(driver.call("cuGraphExecNodeSetParams", exec, record, what), kInvalid);
    is.launch(exec, kNoStream), is.wait_for(event);
    NEED(device.now() == (Words{4, 4}));
    SAME(driver.call("cuGraphNodeSetParams", set, what), 0);
    any.set.value = 5;
    SAME(driver.call("cuGraphNodeSetParams", set, what), 0);
    SAME(driver.call("cuGraphExecUpdate_v2", exec, is.graph, kNoStream), 0);
    is.launch(exec, kNoStream), is.wait();
    NEED(device.now() == (Words{5, 5}));
    any = {}, any.type = 7, any.event = other;
    SAME(driver.call("cuGraphExecNodeSetParams", exec, record, what), 0);
    any.type = 4;
    SAME(driver.call("cuGraphNodeSetParams", record, what), kInvalid);
    SAME(driver.call("cuEventRecordWithFlags", event, kNoStream, 1U), kInvalid);
  });
}

// ---- attributes of kernels ----

TEST_F(GraphEvents, KernelsHaveAttributes) {
  run([](const Library& cuda, Program& program) {
    const Maker is(cuda);
    const There<std::uint32_t> device(cuda, {0, 0});
    void *const one = is.fill({}, program, device.at, 1), *const set = is.set({}, device.at, 2);
    void* const two = is.fill({one}, program, device.at + 1, 3);
    const auto told = [&](void* node, int attribute) {
      Block value;
      value.fill(0x55);
      SAME(cuda.call("cudaGraphKernelNodeGetAttribute", node, attribute,
                     static_cast<void*>(value.data())),
           0);
      int word = 0;
      std::memcpy(&word, value.data(), sizeof word);
      return word;
    };
    const auto give = [&](void* node, int attribute, int word) {
      Block value{};
      std::memcpy(value.data(), &word, sizeof word);
      return cuda.call("cudaGraphKernelNodeSetAttribute", node, attribute,
                       static_cast<const void*>(value.data()));
    };
    for (const int attribute : {1, 2, 4, 5, 8, 10, 14}) SAME(told(one, attribute), 0);
    SAME(give(one, 8, -3), 0);
    SAME(told(one, 8), -3);
    SAME(told(two, 8), 0);
    SAME(give(one, 2, 1), 0);
    SAME(told(one, 2), 1);
    SAME(give(one, 4, 1), 0);
    SAME(give(one, 4, 2), kNotThere);  // clusters
    SAME(give(one, 13, 1), kNotThere);
    for (const int never : {0, 3, 6, 7, 12, 99}) SAME(give(one, never, 1), kInvalid);
    SAME(give(set, 8, 1), kInvalid);
    SAME(cuda.call("cudaGraphKernelNodeCopyAttributes", two, one), 0);
    SAME(told(two, 8), -3);
    SAME(told(two, 2), 1);
    SAME(cuda.call("cudaGraphKernelNodeCopyAttributes", two, set), kInvalid);
    void *clone = nullptr, *there = nullptr;
    SAME(cuda.call("cudaGraphClone", &clone, is.graph), 0);
    SAME(cuda.call("cudaGraphNodeFindInClone", &there, one, clone), 0);
    SAME(told(there, 8), -3);
    SAME(told(there, 2), 1);
    SAME(give(two, 2, 0), 0);
    SAME(told(two, 2), 0);
    SAME(told(two, 8), -3);
    is.launch(is.exec(), kNoStream), is.wait();
    SAME(device.now()[1], 3U);
  });
}

// A node is of no stream: it does not end the capture of one that waits for the default stream.
TEST_F(GraphEvents, KernelsAreAddedWhileAStreamIsCaptured) {
  run([](const Library& cuda, Program& program) {
    Maker is(cuda);
    const There<std::uint32_t> device(cuda, {0, 0});
    void *stream = nullptr, *made = nullptr, *exec = nullptr;
    SAME(cuda.call("cudaStreamCreate", &stream), 0);
    SAME(cuda.call("cudaStreamBeginCapture", stream, 0), 0);
    SAME(cuda.call("cudaMemsetAsync", device.begin(), 1, std::size_t{4}, stream), 0);
    is.fill({}, program, device.at + 1, 7);
    SAME(cuda.call("cudaStreamEndCapture", stream, &made), 0);
    SAME(cuda.call("cudaGraphInstantiate", &exec, made, 0ULL), 0);
    is.launch(exec, stream), is.launch(is.exec(), stream), is.wait();
    NEED(device.now() == (Words{0x01010101, 7}));
  });
}

// ---- what an executable graph may become ----

int updated(const Library& cuda, void* exec, const Maker& to, const Result& want) {
  Result result{99, nullptr, nullptr};
  const int status = cuda.call("cudaGraphExecUpdate", exec, to.graph, static_cast<void*>(&result));
  SAME(result.what, want.what);
  NEED(result.node == want.node && result.from == want.from);
  return status;
}

// A copy keeps its direction, a set of rows its shape, a launch whether it is cooperative.
TEST_F(GraphEvents, UpdatesKeepWhatNodesAre) {
  run([](const Library& cuda, Program& program) {
    const There<std::uint32_t> device(cuda, Words(64, 0));
    std::uint32_t* const to = device.at;
    std::uint32_t host[2] = {1, 2};
    const auto refuses = [&](auto make, auto make_other, int what) {
      const Maker was(cuda), is(cuda), outer(cuda), inner(cuda);
      make(was);
      void* const exec = was.exec();
      void* const node = make_other(is);
      if (what == 0) {
        SAME(updated(cuda, exec, is, {0, nullptr, nullptr}), 0);
        return;
      }
      SAME(updated(cuda, exec, is, {what, node, nullptr}), kUpdateFailed);
      outer.child(was), inner.child(is);  // and in graphs of graphs
      SAME(cuda.call("cudaGraphExecUpdate", outer.exec(), inner.graph, static_cast<void*>(nullptr)),
           kUpdateFailed);
    };
    const auto copies = [](void* into, const void* from, int kind) {
      return [=](const Maker& in) { return in.copy({}, into, from, 4, kind); };
    };
    const auto into = copies(to, host, kIn), out = copies(host, to, kOut);
    const auto within = copies(to, to + 1, kDevice);
    refuses(into, copies(to + 2, host + 1, kIn), 0);
    refuses(out, copies(host + 1, to + 2, kOut), 0);
    refuses(within, copies(to + 2, to + 3, kDevice), 0);
    refuses(into, out, 5), refuses(into, within, 5), refuses(out, into, 5);
    refuses(out, within, 5), refuses(within, into, 5), refuses(within, out, 5);
    const auto sets = [&](unsigned value, std::size_t width, std::size_t height) {
      return [=](const Maker& in) { return in.set({}, to, value, width, height); };
    };
    refuses(sets(1, 2, 1), sets(2, 4, 1), 0);
    refuses(sets(1, 2, 2), sets(2, 2, 2), 0);
    refuses(sets(1, 2, 2), sets(1, 2, 3), 5), refuses(sets(1, 2, 2), sets(1, 1, 2), 5);
    refuses(sets(1, 2, 1), sets(1, 2, 2), 5);
    const auto fills = [&](int cooperative, int priority) {
      return [&program, &cuda, to, cooperative, priority](const Maker& in) {
        void* const node = in.fill({}, program, to, 3);
        for (const auto& [id, word] : {std::pair(2, cooperative), std::pair(8, priority)}) {
          Block value{};
          std::memcpy(value.data(), &word, sizeof word);
          SAME(cuda.call("cudaGraphKernelNodeSetAttribute", node, id,
                         static_cast<const void*>(value.data())),
               0);
        }
        return node;
      };
    };
    refuses(fills(0, 0), fills(0, -1), 0);
    refuses(fills(0, 0), fills(1, 0), 8), refuses(fills(1, 0), fills(0, 0), 8);
    refuses(fills(0, 0), sets(1, 1, 1), 3);
    const Maker was(cuda), is(cuda);  // with its priorities
    fills(0, -1)(was);
    void *const other = fills(0, -2)(is), *const exec = was.exec(8);
    SAME(updated(cuda, exec, was, {0, nullptr, nullptr}), 0);
    SAME(updated(cuda, exec, is, {8, other, nullptr}), kUpdateFailed);
    SAME(updated(cuda, exec, was, {0, nullptr, nullptr}), 0);
    unsigned long long flags = 0;
    SAME(cuda.call("cudaGraphExecGetFlags", exec, &flags), 0);
    SAME(flags, 8U);
    // Another number of nodes, other edges.
    const Maker more(cuda);
    void* const second = more.set({more.set({}, to, 1)}, to + 1, 2);
    SAME(updated(cuda, exec, more, {2, nullptr, nullptr}), kUpdateFailed);
    const Maker beside(cuda);
    beside.set({}, to, 1), beside.set({}, to + 1, 2);
    SAME(updated(cuda, beside.exec(), more, {2, second, nullptr}), kUpdateFailed);
  });
}

// Captures of copies from and to the program: pinned memory stays that once kernels have it.
TEST_F(GraphEvents, UpdatesOfCapturesKeepDirections) {
  run([](const Library& cuda, Program& program) {
    const Maker is(cuda);
    const There<std::uint32_t> device(cuda, {0});
    std::uint32_t* pinned = nullptr;
    SAME(cuda.call("cudaMallocHost", &pinned, std::size_t{8}), 0);
    std::uint32_t &in = pinned[0], &out = pinned[1];
    void *const stream = is.stream(), *exec = nullptr;
    const auto captured = [&](bool back) {
      void* graph = nullptr;
      SAME(cuda.call("cudaStreamBeginCapture", stream, 0), 0);
      void *const to = device.begin(), *const here = back ? &out : &in;
      for (const bool first : {true, false})
        SAME(cuda.call("cudaMemcpyAsync", first != back ? to : here, first != back ? here : to,
                       std::size_t{4}, first != back ? kIn : kOut, stream),
             0);
      SAME(cuda.call("cudaStreamEndCapture", stream, &graph), 0);
      return graph;
    };
    void *const there = captured(false), *const again = captured(false);
    void* const back = captured(true);
    SAME(cuda.call("cudaGraphInstantiate", &exec, there, 0ULL), 0);
    for (int round = 0; round < 3; ++round) {
      SAME(cuda.call("cudaGraphExecUpdate", exec, again, static_cast<void*>(nullptr)), 0);
      Result result{};
      SAME(cuda.call("cudaGraphExecUpdate", exec, back, static_cast<void*>(&result)),
           kUpdateFailed);
      SAME(result.what, 5);
      NEED(result.node != nullptr);
    }
    SAME(program.launch(program.fill, {1}, {1}, stream, pinned, 6U, 1U), 0);
    is.wait();
    SAME(cuda.call("cudaGraphExecUpdate", exec, captured(false), static_cast<void*>(nullptr)), 0);
    SAME(cuda.call("cudaGraphExecUpdate", exec, captured(true), static_cast<void*>(nullptr)),
         kUpdateFailed);
    is.launch(exec, stream), is.wait();
    NEED(in == 6 && out == 0 && device.now()[0] == 6);
  });
}

}  // namespace
}  // namespace partita::remote::test::graph_events
