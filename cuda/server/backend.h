// DeviceBackend: what carries out one session's operations: server/cpu (PTX on threads),
// server/cuda (libcuda), and FakeBackend for tests. The session has checked what it hands over: ids
// are those that the backend gave, addresses lie in live allocations or globals, parameter blocks
// have the kernel's size. Work is enqueued on streams and begins and ends later; completions come
// from poll(). Stream 0 is there from the start: CUDA's legacy default stream, which waits for all
// blocking streams and they for it.
// After a fault (a kernel that did something illegal) nothing that was or will be enqueued takes
// effect any more, but everything still ends. The destructor ends what runs.
// Thread rule: one thread; conformance.h is the suite that all of them pass.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/errors.h"
#include "wire/operations.h"

namespace partita::remote::server {

using Id = std::uint32_t;
inline constexpr Id kDefaultStream = 0;

// What a client may know of the device, and the range of addresses that it may hand out itself.
struct DeviceSnapshot {
  std::string name = {};
  std::string backend = {};  // "cpu"
  std::uint64_t arena = 0, arena_bytes = 0, granule = 256;
  std::uint64_t total_memory = 0;
  std::uint32_t driver_version = 13000;
  std::vector<std::byte> uuid = {};           // 16
  std::vector<std::int32_t> attributes = {};  // by CUdevice_attribute
  std::uint32_t devices = 1;                  // that the session is to see
};

struct KernelParameter {
  std::uint32_t offset = 0, size = 0;
  bool operator==(const KernelParameter&) const = default;
};
struct KernelFacts {
  Id id = 0;
  std::vector<KernelParameter> parameters = {};
  std::uint32_t parameter_bytes = 0;
  std::uint32_t max_threads = 0, shared_bytes = 0, const_bytes = 0, local_bytes = 0;
  std::uint32_t registers = 0, ptx_version = 0, binary_version = 0;
};
struct GlobalPlace {
  std::uint64_t address = 0, bytes = 0;
};

// --- work ---

// Bytes on their way to the device. Who still waits for his turn is counted by use_count().
using Staging = std::shared_ptr<const std::vector<std::byte>>;

struct CopyInWork {
  std::uint64_t to = 0;
  Staging bytes = {};
};
struct CopyOutWork {  // a `copied` completion with the bytes
  std::uint64_t from = 0, bytes = 0, tag = 0;
};
struct CopyWork {
  std::uint64_t to = 0, from = 0, to_pitch = 0, from_pitch = 0, width = 0, rows = 1;
};
struct SetWork {
  std::uint64_t to = 0;
  std::uint32_t value = 0, element = 1;
  std::uint64_t count = 0, rows = 1, pitch = 0;
};
struct GemmWork {  // as remote::Gemm says it; all of it lies in live memory
  Gemm what = {};
};
struct LibraryFunction;
struct CallWork {  // of a library's function (library_calls.h); its addresses lie in live memory
  const LibraryFunction* function = nullptr;
  std::vector<std::byte> arguments = {};
};
struct LaunchWork {
  Id kernel = 0;
  Extent3 grid = {}, block = {};
  std::uint32_t shared_bytes = 0;
  bool cooperative = false;
  std::vector<std::byte> parameters = {};
};
struct RecordWork {
  Id event = 0;
};
struct WaitWork {  // for the last record of the event before this; none: no wait
  Id event = 0;
};
struct HoldWork {  // a `held` completion; the stream goes on after resume()
  std::uint64_t tag = 0;
  std::uint64_t token = 0;  // of the client's function, if it waits for one
};
struct GraphWork {
  Id graph = 0;
};
struct GraphSpec;
struct BranchWork {  // in graphs only
  BranchKind kind = kOnce;
  std::uint64_t condition = 0;  // the address of a word, or one of DeviceConditions; not of kOnce
  std::vector<std::shared_ptr<const GraphSpec>> bodies = {};
  bool by_word = true;
};
using StreamWork = std::variant<CopyInWork, CopyOutWork, CopyWork, SetWork, GemmWork, CallWork,
                                LaunchWork, RecordWork, WaitWork, HoldWork, GraphWork, BranchWork>;
// The body that runs where the word has this value; nullptr: none does.
const GraphSpec* body_at(const BranchWork& branch, std::uint32_t value);

// --- objects ---

struct ModuleSpec {
  std::string_view image;  // PTX text or a cubin
};
struct StreamSpec {
  bool blocking = true;
  int priority = 0;
};
struct EventSpec {
  bool timing = true;
};
// Nodes only depend on earlier ones. No graph among them; records and waits are those of each
// launch, of events that are there as long as the graph, and in no body that a condition decides.
struct GraphSpec {
  Id conditions = 0;  // of DeviceConditions: what its branches go by; 0: words
  struct Node {
    StreamWork work = {};
    bool empty = false;  // only dependencies
    std::vector<Id> after = {};
  };
  std::vector<Node> nodes = {};
};
using ObjectSpec = std::variant<ModuleSpec, StreamSpec, EventSpec, GraphSpec>;
enum class ObjectKind : std::uint8_t { module, stream, event, graph };

struct LibraryAnswer {
  std::int32_t status = 0;  // the library's own
  std::vector<std::byte> results = {};
};

struct Completed {
  enum class Kind : std::uint8_t {
    reached,  // watch() with this tag
    copied,   // CopyOutWork with this tag: `bytes`
    held,     // HoldWork with this tag; resume(hold)
    fault,    // the device is dead: `status`, `text`
    found,    // a check found something: `text`
    noted,    // what people may want to know: `text`
    printed,  // by kernels: `text`
  };
  Kind kind = Kind::reached;
  std::uint64_t tag = 0;
  std::uint64_t hold = 0;
  Status status = 0;
  std::string text = {};
  std::vector<std::byte> bytes = {};
};

// Arrays, textures and surfaces of a device that keeps them itself. The session has checked that
// copies lie in the array and in live memory. Nothing that is unfinished uses what is destroyed.
class DeviceTextures {
 public:
  virtual ~DeviceTextures() = default;
  virtual Answered<Id> create_array(const ArrayCreate& what) = 0;
  virtual void destroy_array(Id array) = 0;
  virtual Answered<void> copy(Id stream, Id array, const ArrayCopy& what) = 0;
  // The number by which kernels know it. `array`: what it shows, unless that is memory.
  virtual Answered<std::uint64_t> create(const TextureCreate& what, Id array) = 0;
  virtual void destroy(std::uint64_t texture) = 0;
};

// Conditions that kernels set and branches of graphs go by, of a device that keeps them itself: a
// set of them belongs to one graph (GraphSpec::conditions), of which there is one at a time.
class DeviceConditions {
 public:
  virtual ~DeviceConditions() = default;
  virtual Answered<Id> create_set() = 0;
  // The number by which kernels know it (BranchWork::condition). `assign`: it has this value
  // whenever the graph is launched.
  virtual Answered<std::uint64_t> add(Id set, std::uint32_t value, bool assign) = 0;
  // Graphs that were made with it go on.
  virtual void destroy_set(Id set) = 0;
};

class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;
  virtual const DeviceSnapshot& device() const = 0;

  // Readable when poll() has something; -1: only poll() tells.
  virtual int descriptor() const = 0;
  struct Polled {
    std::vector<Completed> completed = {};  // of a stream in its order
    // Ask again after so long even when the descriptor stays silent.
    std::optional<std::chrono::nanoseconds> again = {};
    std::size_t queued = 0;  // pieces of work that are not finished
  };
  virtual Polled poll() = 0;

  // Memory at an address in the arena (multiples of the granule); the session keeps them apart.
  virtual Answered<void> allocate(std::uint64_t address, std::uint64_t bytes) = 0;
  // Nothing that is unfinished uses it.
  virtual void release(std::uint64_t address) = 0;
  // Where memory of the device lies in ours; empty where it does not. `write`: it will be written.
  virtual std::span<std::byte> mapped(std::uint64_t address, std::uint64_t bytes, bool write) = 0;

  // The allocation at this address, which has pages of its own, lies in the file from now on; with
  // `keep` the file gets what it holds. Nothing that is unfinished uses it.
  virtual Answered<void> put_into(std::uint64_t address, int /*file*/, bool /*keep*/) {
    return refuse(kNotSupported,
                  fmt::format("sharing what lies at {:#x}, on this device", address));
  }

  // What malloc in kernels may hold at the same time.
  virtual Answered<void> limit_heap(std::uint64_t bytes) {
    return refuse(kNotSupported, fmt::format("a heap of {} bytes, on this device", bytes));
  }

  virtual Answered<Id> create(const ObjectSpec& spec) = 0;
  // What uses it (a kernel of the module, a graph) has finished; a stream's and an event's work
  // goes on.
  virtual void destroy(ObjectKind kind, Id id) = 0;
  virtual Answered<KernelFacts> find_kernel(Id module, const std::string& name) = 0;
  virtual Answered<GlobalPlace> find_global(Id module, const std::string& name) = 0;

  virtual Answered<void> enqueue(Id stream, StreamWork work) = 0;
  // As enqueue(), with the library's answer.
  virtual Answered<LibraryAnswer> ask(Id /*stream*/, const CallWork& /*work*/) {
    return refuse(kNotSupported, "functions of NVIDIA's libraries, on this device");
  }
  // A `reached` completion once everything that is enqueued on the stream by now has finished (the
  // default stream: on it and all blocking ones); of an event: its last record.
  virtual void watch(ObjectKind kind, Id id, std::uint64_t tag) = 0;
  // Whether such a completion would come at once.
  virtual bool finished(ObjectKind kind, Id id) = 0;
  // Nanoseconds between the last records of two events; kNotReady, kInvalidHandle.
  virtual Answered<std::uint64_t> elapsed(Id from, Id to) = 0;
  virtual void resume(std::uint64_t hold) = 0;
  // What the program launched until now was a request: it says so, or it waits for it, which ends
  // one unless it says itself where one does.
  virtual void request_ended(bool /*said*/) {}

  // nullptr: the device keeps none. Arrays are memory then, textures descriptions in memory
  // (ptx/texture.h), conditions words.
  virtual DeviceTextures* textures() { return nullptr; }
  virtual DeviceConditions* conditions() { return nullptr; }
};

inline const GraphSpec* body_at(const BranchWork& branch, std::uint32_t value) {
  const bool first = branch.kind == kOnce || value != 0;
  const std::size_t at = branch.kind == kSwitch ? value : first ? 0 : 1;
  return at < branch.bodies.size() ? branch.bodies[at].get() : nullptr;
}

}  // namespace partita::remote::server
