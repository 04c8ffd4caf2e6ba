// The table of operations: every message that client and server exchange, with its parameters'
// kinds and its completion class. Stubs, dispatch, validation, the trace printer, the fuzzer and
// the table in docs/remote-protocol.md come from it; the protocol hash in the handshake is taken
// over it, so a client and a server of different tables refuse one another.
//
// An operation is a struct with a Spec, its fields listed once in `fields`, and the fields of its
// answer in `Reply`. Granularity: the CUDA driver API. Order: operations take effect on their
// stream in the order they were sent. Errors are CUDA's numbers (cudaError_t, which CUresult
// mostly shares).
#pragma once

#include <tuple>

#include "wire/kinds.h"

namespace partita::remote {

inline constexpr std::uint32_t kWireVersion = 1;

struct NoReply {
  static constexpr void fields(auto&, auto&&) {}
  bool operator==(const NoReply&) const = default;
};

// --- session -------------------------------------------------------------------------------

enum HelloFlags : std::uint32_t {
  kCheckMemory = 1,    // report uninitialised reads
  kCheckRaces = 2,     // and races on shared memory
  kCheckBarriers = 4,  // and barriers that some threads leave out
};

struct Hello {
  static constexpr Spec kSpec{"hello", 1, Completion::sync};
  std::uint32_t version = kWireVersion;
  std::uint64_t table = 0;  // protocol_hash()
  Text token = {};          // the server's secret, empty on one host
  Text shape = {};          // "2g.20gb", "gpu", "CPU-4"; empty: what is free
  Text program = {};        // for `remote sessions`
  std::uint64_t pid = 0;
  std::uint32_t flags = 0;  // HelloFlags
  static constexpr void fields(auto& o, auto&& field) {
    field("version", o.version), field("table", o.table), field("token", o.token);
    field("shape", o.shape), field("program", o.program), field("pid", o.pid);
    field("flags", o.flags);
  }
  struct Reply {
    std::uint64_t session = 0;
    DevicePointer arena = {};  // addresses the client hands out itself
    std::uint64_t arena_bytes = 0;
    std::uint64_t granule = 0;  // allocations are multiples of it at multiples of it
    std::uint64_t quota = 0;    // bytes that may be allocated at the same time
    // The snapshot of the device: what the client answers queries from.
    Text device = {};  // its name
    std::uint64_t total_memory = 0;
    std::uint32_t driver_version = 0;  // 13000
    Bytes uuid = {};                   // 16 bytes
    Bytes attributes = {};             // i32 by CUdevice_attribute number; missing ones are 0
    Text backend = {};                 // "cpu", "cuda"
    // Alike, in one address space; which one memory and modules are on is the client's to know.
    std::uint32_t devices = 1;
    static constexpr void fields(auto& o, auto&& field) {
      field("session", o.session), field("arena", o.arena), field("arena_bytes", o.arena_bytes);
      field("granule", o.granule), field("quota", o.quota), field("device", o.device);
      field("total_memory", o.total_memory), field("driver_version", o.driver_version);
      field("uuid", o.uuid), field("attributes", o.attributes), field("backend", o.backend);
      field("devices", o.devices);
    }
  };
};

struct Ping {
  static constexpr Spec kSpec{"ping", 2, Completion::sync};
  static constexpr void fields(auto&, auto&&) {}
  using Reply = NoReply;
};
// The client goes; everything of the session is freed.
struct Bye {
  static constexpr Spec kSpec{"bye", 3, Completion::async};
  static constexpr void fields(auto&, auto&&) {}
  using Reply = NoReply;
};
// Answered when everything that was sent before on any stream is finished.
struct Fence {
  static constexpr Spec kSpec{"fence", 4, Completion::sync};
  static constexpr void fields(auto&, auto&&) {}
  using Reply = NoReply;
};
// Everything of the session is freed but the connection stays (cudaDeviceReset).
struct Reset {
  static constexpr Spec kSpec{"reset", 5, Completion::sync};
  static constexpr void fields(auto&, auto&&) {}
  using Reply = NoReply;
};
// What the program launched until now was a request: kernels are counted and planned by requests.
struct RequestEnded {
  static constexpr Spec kSpec{"request_ended", 6, Completion::async};
  static constexpr void fields(auto&, auto&&) {}
  using Reply = NoReply;
};

// --- modules -------------------------------------------------------------------------------

// Does the server hold the image with this digest already?
struct ModuleHave {
  static constexpr Spec kSpec{"module_have", 16, Completion::memo};
  Digest digest = {};
  static constexpr void fields(auto& o, auto&& field) { field("digest", o.digest); }
  struct Reply {
    std::uint32_t have = 0;
    static constexpr void fields(auto& o, auto&& field) { field("have", o.have); }
  };
};
// An image (bulk: PTX text or a cubin, as it lies in the fat binary, compressed or not).
struct ModulePut {
  static constexpr Spec kSpec{"module_put", 17, Completion::async, Bulk::in};
  Digest digest = {};             // of the bulk
  std::uint32_t compression = 0;  // 0 none, 1 zstd, 2 LZ4 block
  std::uint64_t raw_bytes = 0;    // when decompressed
  static constexpr void fields(auto& o, auto&& field) {
    field("digest", o.digest), field("compression", o.compression);
    field("raw_bytes", o.raw_bytes);
  }
  using Reply = NoReply;
};
struct ModuleLoad {
  static constexpr Spec kSpec{"module_load", 18, Completion::async};
  ModuleHandle module = {};
  Digest digest = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("module", o.module), field("digest", o.digest);
  }
  using Reply = NoReply;
};
struct ModuleUnload {
  static constexpr Spec kSpec{"module_unload", 19, Completion::async};
  ModuleHandle module = {};
  static constexpr void fields(auto& o, auto&& field) { field("module", o.module); }
  using Reply = NoReply;
};
// Names a kernel. `layout`: the client's view of its parameters, {u32 offset, u32 size} each; the
// server compares it with the module and refuses a difference.
struct KernelOpen {
  static constexpr Spec kSpec{"kernel_open", 20, Completion::async};
  KernelHandle kernel = {};
  ModuleHandle module = {};
  Text name = {};
  Bytes layout = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("kernel", o.kernel), field("module", o.module), field("name", o.name);
    field("layout", o.layout);
  }
  using Reply = NoReply;
};
struct KernelAttributes {
  static constexpr Spec kSpec{"kernel_attributes", 21, Completion::memo};
  KernelHandle kernel = {};
  static constexpr void fields(auto& o, auto&& field) { field("kernel", o.kernel); }
  struct Reply {
    std::uint32_t max_threads = 0, shared_bytes = 0, const_bytes = 0, local_bytes = 0;
    std::uint32_t registers = 0, ptx_version = 0, binary_version = 0, max_dynamic_shared = 0;
    static constexpr void fields(auto& o, auto&& field) {
      field("max_threads", o.max_threads), field("shared_bytes", o.shared_bytes);
      field("const_bytes", o.const_bytes), field("local_bytes", o.local_bytes);
      field("registers", o.registers), field("ptx_version", o.ptx_version);
      field("binary_version", o.binary_version);
      field("max_dynamic_shared", o.max_dynamic_shared);
    }
  };
};
struct KernelSetAttribute {
  static constexpr Spec kSpec{"kernel_set_attribute", 22, Completion::async};
  KernelHandle kernel = {};
  std::uint32_t attribute = 0;  // CUfunction_attribute
  std::int32_t value = 0;
  static constexpr void fields(auto& o, auto&& field) {
    field("kernel", o.kernel), field("attribute", o.attribute), field("value", o.value);
  }
  using Reply = NoReply;
};
struct GlobalAddress {
  static constexpr Spec kSpec{"global_address", 23, Completion::memo};
  ModuleHandle module = {};
  Text name = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("module", o.module), field("name", o.name);
  }
  struct Reply {
    DevicePointer address = {};
    std::uint64_t bytes = 0;
    static constexpr void fields(auto& o, auto&& field) {
      field("address", o.address), field("bytes", o.bytes);
    }
  };
};

// --- memory --------------------------------------------------------------------------------

struct Alloc {
  static constexpr Spec kSpec{"alloc", 32, Completion::async};
  DevicePointer address = {};  // chosen by the client inside the arena
  std::uint64_t bytes = 0;
  static constexpr void fields(auto& o, auto&& field) {
    field("address", o.address), field("bytes", o.bytes);
  }
  using Reply = NoReply;
};
// Frees after everything sent before has finished (cudaFree).
struct Free {
  static constexpr Spec kSpec{"free", 33, Completion::async};
  DevicePointer address = {};
  static constexpr void fields(auto& o, auto&& field) { field("address", o.address); }
  using Reply = NoReply;
};
// Frees in the order of a stream (cudaFreeAsync).
struct FreeOnStream {
  static constexpr Spec kSpec{"free_on_stream", 34, Completion::async};
  StreamHandle stream = {};
  DevicePointer address = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("stream", o.stream), field("address", o.address);
  }
  using Reply = NoReply;
};
// Host to device: the bulk goes to `to`. The client may reuse its memory once it has sent it.
struct CopyIn {
  static constexpr Spec kSpec{"copy_in", 35, Completion::async, Bulk::in};
  StreamHandle stream = {};
  DevicePointer to = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("stream", o.stream), field("to", o.to);
  }
  using Reply = NoReply;
};
// Device to host, waited for: the bytes are the answer's bulk.
struct CopyOut {
  static constexpr Spec kSpec{"copy_out", 36, Completion::sync, Bulk::out};
  StreamHandle stream = {};
  DevicePointer from = {};
  std::uint64_t bytes = 0;
  static constexpr void fields(auto& o, auto&& field) {
    field("stream", o.stream), field("from", o.from), field("bytes", o.bytes);
  }
  using Reply = NoReply;
};
// Device to host into memory that may be written later (pinned): the bytes come as a CopiedOut
// notice, before the answer of any later synchronisation of the stream.
struct CopyOutLater {
  static constexpr Spec kSpec{"copy_out_later", 37, Completion::async};
  StreamHandle stream = {};
  DevicePointer from = {};
  std::uint64_t bytes = 0;
  Token token = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("stream", o.stream), field("from", o.from), field("bytes", o.bytes);
    field("token", o.token);
  }
  using Reply = NoReply;
};
// Device to device, rows of `width` bytes; a plain copy has one row.
struct CopyDevice {
  static constexpr Spec kSpec{"copy_device", 38, Completion::async};
  StreamHandle stream = {};
  DevicePointer to = {}, from = {};
  std::uint64_t to_pitch = 0, from_pitch = 0, width = 0, rows = 1;
  static constexpr void fields(auto& o, auto&& field) {
    field("stream", o.stream), field("to", o.to), field("from", o.from);
    field("to_pitch", o.to_pitch), field("from_pitch", o.from_pitch), field("width", o.width);
    field("rows", o.rows);
  }
  using Reply = NoReply;
};
// `count` elements of `element` (1, 2 or 4) bytes in each of `rows` rows.
struct Set {
  static constexpr Spec kSpec{"set", 39, Completion::async};
  StreamHandle stream = {};
  DevicePointer to = {};
  std::uint32_t value = 0, element = 1;
  std::uint64_t count = 0, rows = 1, pitch = 0;
  static constexpr void fields(auto& o, auto&& field) {
    field("stream", o.stream), field("to", o.to), field("value", o.value);
    field("element", o.element), field("count", o.count), field("rows", o.rows);
    field("pitch", o.pitch);
  }
  using Reply = NoReply;
};

// Memory and events that other sessions of this server may open, of the same client (its user, or
// its host): who has the key, which the server draws. What is shared lies on pages of its own.

// The allocation at `address`, or where this is 0 new memory that nobody has mapped yet.
struct MemoryShare {
  static constexpr Spec kSpec{"memory_share", 40, Completion::sync};
  DevicePointer address = {};
  std::uint64_t bytes = 0;
  static constexpr void fields(auto& o, auto&& field) {
    field("address", o.address), field("bytes", o.bytes);
  }
  struct Reply {
    Bytes key = {};
    static constexpr void fields(auto& o, auto&& field) { field("key", o.key); }
  };
};
// As an allocation of this session's; free ends it.
struct MemoryOpen {
  static constexpr Spec kSpec{"memory_open", 41, Completion::sync};
  Bytes key = {};
  DevicePointer address = {};
  std::uint64_t bytes = 0;
  static constexpr void fields(auto& o, auto&& field) {
    field("key", o.key), field("address", o.address), field("bytes", o.bytes);
  }
  using Reply = NoReply;
};
struct EventShare {
  static constexpr Spec kSpec{"event_share", 75, Completion::sync};
  EventHandle event = {};
  static constexpr void fields(auto& o, auto&& field) { field("event", o.event); }
  struct Reply {
    Bytes key = {};
    static constexpr void fields(auto& o, auto&& field) { field("key", o.key); }
  };
};
struct EventOpen {
  static constexpr Spec kSpec{"event_open", 76, Completion::sync};
  Bytes key = {};
  EventHandle event = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("key", o.key), field("event", o.event);
  }
  using Reply = NoReply;
};

// Numbers of cudaDataType.
enum ElementType : std::uint32_t { kFloat32 = 0, kFloat64 = 1, kFloat16 = 2, kBfloat16 = 14 };
enum GemmForm : std::uint32_t { kTransposedA = 1, kTransposedB = 2 };

// C = alpha op(A) op(B) + beta C for each of `batch`: m x n, k terms each. Matrices lie column
// after column, `step` elements from one to the next, `stride` from one of the batch to the next.
// A and B have elements of the type `in`, C of `out`.
struct Gemm {
  static constexpr Spec kSpec{"gemm", 91, Completion::async};
  StreamHandle stream = {};
  std::uint32_t form = 0, in = kFloat32, out = kFloat32;
  std::uint64_t m = 0, n = 0, k = 0, batch = 1;
  DevicePointer a = {};
  std::uint64_t a_step = 1, a_stride = 0;
  DevicePointer b = {};
  std::uint64_t b_step = 1, b_stride = 0;
  DevicePointer c = {};
  std::uint64_t c_step = 1, c_stride = 0;
  std::uint64_t alpha = 0, beta = 0;  // bits of a double
  // Where they lie instead: a float, or a double where C's elements are such; 0: as above.
  DevicePointer alpha_at = {}, beta_at = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("stream", o.stream), field("form", o.form), field("in", o.in), field("out", o.out);
    field("m", o.m), field("n", o.n), field("k", o.k), field("batch", o.batch);
    field("a", o.a), field("a_step", o.a_step), field("a_stride", o.a_stride);
    field("b", o.b), field("b_step", o.b_step), field("b_stride", o.b_stride);
    field("c", o.c), field("c_step", o.c_step), field("c_stride", o.c_stride);
    field("alpha", o.alpha), field("beta", o.beta);
    field("alpha_at", o.alpha_at), field("beta_at", o.beta_at);
  }
  using Reply = NoReply;
};

// --- functions of NVIDIA's libraries, which the server has where it has a GPU ------------------

// Its arguments one behind the other, as server/library_calls.h says of each function.
struct LibraryCall {
  static constexpr Spec kSpec{"library_call", 95, Completion::async};
  StreamHandle stream = {};
  Text function = {};
  Bytes arguments = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("stream", o.stream), field("function", o.function), field("arguments", o.arguments);
  }
  using Reply = NoReply;
};
// The same, answered: sizes of work areas, plans, what came of a plan's first run.
struct LibraryAsk {
  static constexpr Spec kSpec{"library_ask", 96, Completion::sync};
  StreamHandle stream = {};
  Text function = {};
  Bytes arguments = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("stream", o.stream), field("function", o.function), field("arguments", o.arguments);
  }
  struct Reply {
    std::int32_t status = 0;  // the library's own
    Bytes results = {};
    static constexpr void fields(auto& o, auto&& field) {
      field("status", o.status), field("results", o.results);
    }
  };
};

// --- launches ------------------------------------------------------------------------------

enum LaunchFlags : std::uint32_t { kCooperative = 1 };

struct Launch {
  static constexpr Spec kSpec{"launch", 48, Completion::async};
  StreamHandle stream = {};
  KernelHandle kernel = {};
  Extent3 grid = {}, block = {};
  std::uint32_t shared_bytes = 0;  // dynamic
  std::uint32_t flags = 0;         // LaunchFlags
  Bytes parameters = {};           // the parameter block
  static constexpr void fields(auto& o, auto&& field) {
    field("stream", o.stream), field("kernel", o.kernel), field("grid", o.grid);
    field("block", o.block), field("shared_bytes", o.shared_bytes), field("flags", o.flags);
    field("parameters", o.parameters);
  }
  using Reply = NoReply;
};
// A function of the client runs in the order of the stream: the server sends Call with the token,
// the client answers CallDone, and the stream goes on.
struct HostCall {
  static constexpr Spec kSpec{"host_call", 49, Completion::async};
  StreamHandle stream = {};
  Token token = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("stream", o.stream), field("token", o.token);
  }
  using Reply = NoReply;
};
struct CallDone {
  static constexpr Spec kSpec{"call_done", 50, Completion::async};
  Token token = {};
  static constexpr void fields(auto& o, auto&& field) { field("token", o.token); }
  using Reply = NoReply;
};

// --- streams and events --------------------------------------------------------------------

enum StreamFlags : std::uint32_t { kNonBlocking = 1 };  // does not wait for the default stream

struct StreamCreate {
  static constexpr Spec kSpec{"stream_create", 64, Completion::async};
  StreamHandle stream = {};
  std::uint32_t flags = 0;
  std::int32_t priority = 0;
  static constexpr void fields(auto& o, auto&& field) {
    field("stream", o.stream), field("flags", o.flags), field("priority", o.priority);
  }
  using Reply = NoReply;
};
struct StreamDestroy {
  static constexpr Spec kSpec{"stream_destroy", 65, Completion::async};
  StreamHandle stream = {};
  static constexpr void fields(auto& o, auto&& field) { field("stream", o.stream); }
  using Reply = NoReply;
};
struct StreamSync {
  static constexpr Spec kSpec{"stream_sync", 66, Completion::sync};
  StreamHandle stream = {};
  static constexpr void fields(auto& o, auto&& field) { field("stream", o.stream); }
  using Reply = NoReply;
};
// Status 0 when finished, 600 (not ready) when not.
struct StreamQuery {
  static constexpr Spec kSpec{"stream_query", 67, Completion::sync};
  StreamHandle stream = {};
  static constexpr void fields(auto& o, auto&& field) { field("stream", o.stream); }
  using Reply = NoReply;
};
struct StreamWaitEvent {
  static constexpr Spec kSpec{"stream_wait_event", 68, Completion::async};
  StreamHandle stream = {};
  EventHandle event = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("stream", o.stream), field("event", o.event);
  }
  using Reply = NoReply;
};

enum EventFlags : std::uint32_t { kNoTiming = 1 };

struct EventCreate {
  static constexpr Spec kSpec{"event_create", 69, Completion::async};
  EventHandle event = {};
  std::uint32_t flags = 0;
  static constexpr void fields(auto& o, auto&& field) {
    field("event", o.event), field("flags", o.flags);
  }
  using Reply = NoReply;
};
struct EventDestroy {
  static constexpr Spec kSpec{"event_destroy", 70, Completion::async};
  EventHandle event = {};
  static constexpr void fields(auto& o, auto&& field) { field("event", o.event); }
  using Reply = NoReply;
};
struct EventRecord {
  static constexpr Spec kSpec{"event_record", 71, Completion::async};
  EventHandle event = {};
  StreamHandle stream = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("event", o.event), field("stream", o.stream);
  }
  using Reply = NoReply;
};
struct EventSync {
  static constexpr Spec kSpec{"event_sync", 72, Completion::sync};
  EventHandle event = {};
  static constexpr void fields(auto& o, auto&& field) { field("event", o.event); }
  using Reply = NoReply;
};
struct EventQuery {
  static constexpr Spec kSpec{"event_query", 73, Completion::sync};
  EventHandle event = {};
  static constexpr void fields(auto& o, auto&& field) { field("event", o.event); }
  using Reply = NoReply;
};
struct EventElapsed {
  static constexpr Spec kSpec{"event_elapsed", 74, Completion::sync};
  EventHandle from = {}, to = {};
  static constexpr void fields(auto& o, auto&& field) { field("from", o.from), field("to", o.to); }
  struct Reply {
    std::uint64_t nanoseconds = 0;
    static constexpr void fields(auto& o, auto&& field) { field("nanoseconds", o.nanoseconds); }
  };
};

// --- graphs --------------------------------------------------------------------------------

// From here to CaptureEnd operations on the stream (and on those that wait for it) are recorded:
// behind what `graph` has, after its nodes in `after` (u64 each), or in a new graph where there is
// none of that number (0: it has its number from CaptureEnd). Nodes are numbered from `first` on
// (0: they have no numbers).
struct CaptureBegin {
  static constexpr Spec kSpec{"capture_begin", 80, Completion::async};
  StreamHandle stream = {};
  std::uint32_t mode = 0;  // cudaStreamCaptureMode
  GraphHandle graph = {};
  Bytes after = {};
  NodeHandle first = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("stream", o.stream), field("mode", o.mode), field("graph", o.graph);
    field("after", o.after), field("first", o.first);
  }
  using Reply = NoReply;
};
// Answered with how many nodes were recorded.
struct CaptureEnd {
  static constexpr Spec kSpec{"capture_end", 81, Completion::sync};
  StreamHandle stream = {};
  GraphHandle graph = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("stream", o.stream), field("graph", o.graph);
  }
  struct Reply {
    std::uint32_t nodes = 0;
    static constexpr void fields(auto& o, auto&& field) { field("nodes", o.nodes); }
  };
};
// After which nodes (u64 each) the next one of a captured stream comes.
struct CaptureNodes {
  static constexpr Spec kSpec{"capture_nodes", 92, Completion::sync};
  StreamHandle stream = {};
  static constexpr void fields(auto& o, auto&& field) { field("stream", o.stream); }
  struct Reply {
    Bytes after = {};
    static constexpr void fields(auto& o, auto&& field) { field("after", o.after); }
  };
};
// From now on it comes after these nodes of the graph; `add`: after the others, too.
struct CaptureAfter {
  static constexpr Spec kSpec{"capture_after", 93, Completion::async};
  StreamHandle stream = {};
  Bytes after = {};
  std::uint32_t add = 0;
  static constexpr void fields(auto& o, auto&& field) {
    field("stream", o.stream), field("after", o.after), field("add", o.add);
  }
  using Reply = NoReply;
};
struct GraphCreate {
  static constexpr Spec kSpec{"graph_create", 82, Completion::async};
  GraphHandle graph = {};
  static constexpr void fields(auto& o, auto&& field) { field("graph", o.graph); }
  using Reply = NoReply;
};
// A node that does `operation`, a frame of launch, copy_device, set, host_call, or nothing when it
// is empty (an empty node), after the nodes in `after` (u64 each).
struct GraphAdd {
  static constexpr Spec kSpec{"graph_add", 83, Completion::async};
  GraphHandle graph = {};
  NodeHandle node = {};
  Bytes after = {};
  Bytes operation = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("graph", o.graph), field("node", o.node), field("after", o.after);
    field("operation", o.operation);
  }
  using Reply = NoReply;
};
// What decides which of a branch's bodies runs: a word of the device, or a graph_condition.
enum BranchKind : std::uint32_t {
  kOnce = 0,    // the only body, whatever the word is
  kIf = 1,      // the first where the word is not 0, else the second, if there is one
  kWhile = 2,   // the only one again and again while the word is not 0
  kSwitch = 3,  // the one with the word's number, if there is one
};
// A node that runs a body, one of the graphs in `bodies` (u64 each), which are its graph's from now
// on: nodes may be added to them, but they go with it.
struct GraphBranch {
  static constexpr Spec kSpec{"graph_branch", 94, Completion::async};
  GraphHandle graph = {};
  NodeHandle node = {};
  Bytes after = {};
  std::uint32_t kind = kOnce;
  DevicePointer condition = {};  // not of kOnce
  Bytes bodies = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("graph", o.graph), field("node", o.node), field("after", o.after);
    field("kind", o.kind), field("condition", o.condition), field("bodies", o.bodies);
  }
  using Reply = NoReply;
};
struct GraphDestroy {
  static constexpr Spec kSpec{"graph_destroy", 84, Completion::async};
  GraphHandle graph = {};
  static constexpr void fields(auto& o, auto&& field) { field("graph", o.graph); }
  using Reply = NoReply;
};
struct GraphInstantiate {
  static constexpr Spec kSpec{"graph_instantiate", 85, Completion::sync};
  GraphHandle graph = {};
  GraphExecHandle exec = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("graph", o.graph), field("exec", o.exec);
  }
  using Reply = NoReply;
};
struct GraphLaunch {
  static constexpr Spec kSpec{"graph_launch", 86, Completion::async};
  GraphExecHandle exec = {};
  StreamHandle stream = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("exec", o.exec), field("stream", o.stream);
  }
  using Reply = NoReply;
};
struct GraphExecDestroy {
  static constexpr Spec kSpec{"graph_exec_destroy", 87, Completion::async};
  GraphExecHandle exec = {};
  static constexpr void fields(auto& o, auto&& field) { field("exec", o.exec); }
  using Reply = NoReply;
};
// Another graph with the same nodes, by the same numbers.
struct GraphClone {
  static constexpr Spec kSpec{"graph_clone", 88, Completion::async};
  GraphHandle graph = {};
  GraphHandle clone = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("graph", o.graph), field("clone", o.clone);
  }
  using Reply = NoReply;
};
// The `place`-th node of an executable graph, or of a graph where `exec` is 0, does another
// operation of the kind that it did.
struct GraphSet {
  static constexpr Spec kSpec{"graph_set", 89, Completion::async};
  GraphHandle graph = {};
  GraphExecHandle exec = {};
  std::uint32_t place = 0;
  Bytes operation = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("graph", o.graph), field("exec", o.exec), field("place", o.place);
    field("operation", o.operation);
  }
  using Reply = NoReply;
};
// An executable graph does what the graph does, whose nodes are of the same kinds, in that order.
struct GraphUpdate {
  static constexpr Spec kSpec{"graph_update", 90, Completion::sync};
  GraphExecHandle exec = {};
  GraphHandle graph = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("exec", o.exec), field("graph", o.graph);
  }
  using Reply = NoReply;
};

// --- arrays, textures, conditions: of devices that keep them themselves, as GPUs do ----------

// Numbers of cudaChannelFormatKind.
enum TexelKind : std::uint32_t { kSignedTexel = 0, kUnsignedTexel = 1, kFloatTexel = 2 };
// Of texels with 1, 2 or 4 channels of so many bytes; a height or depth of 0: it has none.
struct ArrayCreate {
  static constexpr Spec kSpec{"array_create", 100, Completion::sync};
  ArrayHandle array = {};
  std::uint64_t width = 0, height = 0, depth = 0;  // texels
  std::uint32_t kind = kSignedTexel, channels = 1, channel_bytes = 1;
  std::uint32_t flags = 0;  // of cudaMalloc3DArray: layers, surfaces, cubes, gathering
  static constexpr void fields(auto& o, auto&& field) {
    field("array", o.array), field("width", o.width), field("height", o.height);
    field("depth", o.depth), field("kind", o.kind), field("channels", o.channels);
    field("channel_bytes", o.channel_bytes), field("flags", o.flags);
  }
  using Reply = NoReply;
};
// After everything sent before has finished.
struct ArrayDestroy {
  static constexpr Spec kSpec{"array_destroy", 101, Completion::async};
  ArrayHandle array = {};
  static constexpr void fields(auto& o, auto&& field) { field("array", o.array); }
  using Reply = NoReply;
};
// `slices` times `rows` rows of `width` bytes, from or to memory of the device: there rows lie
// `pitch` apart, and `slice_rows` of them from one slice to the next.
struct ArrayCopy {
  static constexpr Spec kSpec{"array_copy", 102, Completion::async};
  StreamHandle stream = {};
  ArrayHandle array = {};
  std::uint64_t x = 0, y = 0, z = 0;  // in the array; x in bytes
  DevicePointer memory = {};
  std::uint64_t pitch = 0, slice_rows = 1, width = 0, rows = 1, slices = 1;
  std::uint32_t out = 0;  // 1: from the array
  static constexpr void fields(auto& o, auto&& field) {
    field("stream", o.stream), field("array", o.array), field("x", o.x), field("y", o.y);
    field("z", o.z), field("memory", o.memory), field("pitch", o.pitch);
    field("slice_rows", o.slice_rows), field("width", o.width), field("rows", o.rows);
    field("slices", o.slices), field("out", o.out);
  }
  using Reply = NoReply;
};
enum TextureFlags : std::uint32_t {
  kSurface = 1,         // of an array; kernels write to it, and the rest says nothing
  kFiltered = 2,        // else the nearest texel
  kNormalized = 4,      // coordinates are 0 to 1 over the width
  kTexelsAsTheyAre = 8  // integers are no fractions
};
// Of an array, or where this is 0 of memory: texels as in ArrayCreate, `rows` rows of them `pitch`
// apart; 0: one line.
struct TextureCreate {
  static constexpr Spec kSpec{"texture_create", 103, Completion::sync};
  ArrayHandle array = {};
  DevicePointer memory = {};
  std::uint64_t width = 0, rows = 0, pitch = 0;
  std::uint32_t kind = kSignedTexel, channels = 1, channel_bytes = 1;
  std::uint32_t flags = 0;                                 // TextureFlags
  std::uint32_t beyond_x = 0, beyond_y = 0, beyond_z = 0;  // cudaTextureAddressMode
  Bytes border = {};                                       // 4 floats, or none
  static constexpr void fields(auto& o, auto&& field) {
    field("array", o.array), field("memory", o.memory), field("width", o.width);
    field("rows", o.rows), field("pitch", o.pitch), field("kind", o.kind);
    field("channels", o.channels), field("channel_bytes", o.channel_bytes);
    field("flags", o.flags), field("beyond_x", o.beyond_x), field("beyond_y", o.beyond_y);
    field("beyond_z", o.beyond_z), field("border", o.border);
  }
  struct Reply {
    TextureHandle texture = {};
    static constexpr void fields(auto& o, auto&& field) { field("texture", o.texture); }
  };
};
// After everything sent before has finished.
struct TextureDestroy {
  static constexpr Spec kSpec{"texture_destroy", 104, Completion::async};
  TextureHandle texture = {};
  static constexpr void fields(auto& o, auto&& field) { field("texture", o.texture); }
  using Reply = NoReply;
};
// What kernels set, and one branch of the graph or of its bodies goes by, in place of a word.
// `assign`: it is `value` whenever the graph is launched.
struct GraphCondition {
  static constexpr Spec kSpec{"graph_condition", 105, Completion::sync};
  GraphHandle graph = {};
  std::uint32_t value = 0, assign = 0;
  static constexpr void fields(auto& o, auto&& field) {
    field("graph", o.graph), field("value", o.value), field("assign", o.assign);
  }
  struct Reply {
    DevicePointer condition = {};  // of graph_branch
    static constexpr void fields(auto& o, auto&& field) { field("condition", o.condition); }
  };
};

// --- notices: from the server, unasked -----------------------------------------------------

struct Waiting {  // before the answer to hello: this place in the queue
  static constexpr Spec kSpec{"waiting", 112, Completion::async};
  std::uint32_t place = 0;
  static constexpr void fields(auto& o, auto&& field) { field("place", o.place); }
  using Reply = NoReply;
};
struct CopiedOut {
  static constexpr Spec kSpec{"copied_out", 113, Completion::async, Bulk::in};
  Token token = {};
  static constexpr void fields(auto& o, auto&& field) { field("token", o.token); }
  using Reply = NoReply;
};
struct Call {
  static constexpr Spec kSpec{"call", 114, Completion::async};
  Token token = {};
  static constexpr void fields(auto& o, auto&& field) { field("token", o.token); }
  using Reply = NoReply;
};
// What kernels printed (standard output), what they did wrong (a fault; to standard error) or why
// something was refused (error).
enum SaidTo : std::uint32_t { kToOutput = 0, kToError = 1, kFault = 2 };
struct Said {
  static constexpr Spec kSpec{"said", 115, Completion::async};
  std::uint32_t to_error = kToOutput;  // SaidTo
  Bytes text = {};
  static constexpr void fields(auto& o, auto&& field) {
    field("to_error", o.to_error), field("text", o.text);
  }
  using Reply = NoReply;
};

template <class... Ops>
struct Table {};
using ClientOperations =
    Table<Hello, Ping, Bye, Fence, Reset, RequestEnded, ModuleHave, ModulePut, ModuleLoad,
          ModuleUnload, KernelOpen, KernelAttributes, KernelSetAttribute, GlobalAddress, Alloc,
          Free, FreeOnStream, CopyIn, CopyOut, CopyOutLater, CopyDevice, Set, MemoryShare,
          MemoryOpen, EventShare, EventOpen, Gemm, LibraryCall, LibraryAsk, Launch, HostCall,
          CallDone, StreamCreate, StreamDestroy, StreamSync, StreamQuery, StreamWaitEvent,
          EventCreate, EventDestroy, EventRecord, EventSync, EventQuery, EventElapsed, CaptureBegin,
          CaptureEnd, CaptureNodes, CaptureAfter, GraphCreate, GraphAdd, GraphBranch, GraphDestroy,
          GraphInstantiate, GraphLaunch, GraphExecDestroy, GraphClone, GraphSet, GraphUpdate,
          ArrayCreate, ArrayDestroy, ArrayCopy, TextureCreate, TextureDestroy, GraphCondition>;
using ServerNotices = Table<Waiting, CopiedOut, Call, Said>;

}  // namespace partita::remote
