// The table of operations: every message that client and server exchange, with its parameters'
// kinds and its completion class. Stubs, dispatch, validation, the trace printer, the fuzzer and
// the table in docs/remote-protocol.md come from it; the protocol hash in the handshake is taken
// over it, so a client and a server of different tables refuse one another.
//
// An operation is a struct with a Spec, its fields listed in FIELDS, and the fields of its
// answer in `Reply`. Granularity: the CUDA driver API. Order: operations take effect on their
// stream in the order they were sent. Errors are CUDA's numbers (cudaError_t, which CUresult
// mostly shares).
#pragma once

#include <tuple>

#include "wire/kinds.h"

namespace partita::remote {

inline constexpr std::uint32_t kWireVersion = 1;
inline constexpr std::size_t kMostStreams = 4096;  // of a session, some of them the client's own

struct NoReply {
  FIELDS()
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
  FIELDS(version, table, token, shape, program, pid, flags)
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
    FIELDS(session, arena, arena_bytes, granule, quota, device, total_memory, driver_version, uuid,
           attributes, backend, devices)
  };
};

struct Ping {
  static constexpr Spec kSpec{"ping", 2, Completion::sync};
  FIELDS()
  using Reply = NoReply;
};
// The client goes; everything of the session is freed.
struct Bye {
  static constexpr Spec kSpec{"bye", 3, Completion::async};
  FIELDS()
  using Reply = NoReply;
};
// Answered when everything that was sent before on any stream is finished.
struct Fence {
  static constexpr Spec kSpec{"fence", 4, Completion::sync};
  FIELDS()
  using Reply = NoReply;
};
// Everything of the session is freed but the connection stays (cudaDeviceReset).
struct Reset {
  static constexpr Spec kSpec{"reset", 5, Completion::sync};
  FIELDS()
  using Reply = NoReply;
};
// What the program launched until now was a request: kernels are counted and planned by requests.
struct RequestEnded {
  static constexpr Spec kSpec{"request_ended", 6, Completion::async};
  FIELDS()
  using Reply = NoReply;
};

// --- modules -------------------------------------------------------------------------------

// Does the server hold the image with this digest already?
struct ModuleHave {
  static constexpr Spec kSpec{"module_have", 16, Completion::memo};
  Digest digest = {};
  FIELDS(digest)
  struct Reply {
    std::uint32_t have = 0;
    FIELDS(have)
  };
};
// An image (bulk: PTX text or a cubin, as it lies in the fat binary, compressed or not).
struct ModulePut {
  static constexpr Spec kSpec{"module_put", 17, Completion::async, Bulk::in};
  Digest digest = {};             // of the bulk
  std::uint32_t compression = 0;  // 0 none, 1 zstd, 2 LZ4 block
  std::uint64_t raw_bytes = 0;    // when decompressed
  FIELDS(digest, compression, raw_bytes)
  using Reply = NoReply;
};
struct ModuleLoad {
  static constexpr Spec kSpec{"module_load", 18, Completion::async};
  ModuleHandle module = {};
  Digest digest = {};
  FIELDS(module, digest)
  using Reply = NoReply;
};
struct ModuleUnload {
  static constexpr Spec kSpec{"module_unload", 19, Completion::async};
  ModuleHandle module = {};
  FIELDS(module)
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
  FIELDS(kernel, module, name, layout)
  using Reply = NoReply;
};
struct KernelAttributes {
  static constexpr Spec kSpec{"kernel_attributes", 21, Completion::memo};
  KernelHandle kernel = {};
  FIELDS(kernel)
  struct Reply {
    std::uint32_t max_threads = 0, shared_bytes = 0, const_bytes = 0, local_bytes = 0;
    std::uint32_t registers = 0, ptx_version = 0, binary_version = 0, max_dynamic_shared = 0;
    FIELDS(max_threads, shared_bytes, const_bytes, local_bytes, registers, ptx_version,
           binary_version, max_dynamic_shared)
  };
};
struct KernelSetAttribute {
  static constexpr Spec kSpec{"kernel_set_attribute", 22, Completion::async};
  KernelHandle kernel = {};
  std::uint32_t attribute = 0;  // CUfunction_attribute
  std::int32_t value = 0;
  FIELDS(kernel, attribute, value)
  using Reply = NoReply;
};
struct GlobalAddress {
  static constexpr Spec kSpec{"global_address", 23, Completion::memo};
  ModuleHandle module = {};
  Text name = {};
  FIELDS(module, name)
  struct Reply {
    DevicePointer address = {};
    std::uint64_t bytes = 0;
    FIELDS(address, bytes)
  };
};

// --- memory --------------------------------------------------------------------------------

struct Alloc {
  static constexpr Spec kSpec{"alloc", 32, Completion::async};
  DevicePointer address = {};  // chosen by the client inside the arena
  std::uint64_t bytes = 0;
  FIELDS(address, bytes)
  using Reply = NoReply;
};
// Frees after everything sent before has finished (cudaFree).
struct Free {
  static constexpr Spec kSpec{"free", 33, Completion::async};
  DevicePointer address = {};
  FIELDS(address)
  using Reply = NoReply;
};
// Frees in the order of a stream (cudaFreeAsync).
struct FreeOnStream {
  static constexpr Spec kSpec{"free_on_stream", 34, Completion::async};
  StreamHandle stream = {};
  DevicePointer address = {};
  FIELDS(stream, address)
  using Reply = NoReply;
};
// Host to device: the bulk goes to `to`. The client may reuse its memory once it has sent it.
struct CopyIn {
  static constexpr Spec kSpec{"copy_in", 35, Completion::async, Bulk::in};
  StreamHandle stream = {};
  DevicePointer to = {};
  FIELDS(stream, to)
  using Reply = NoReply;
};
// Device to host, waited for: the bytes are the answer's bulk.
struct CopyOut {
  static constexpr Spec kSpec{"copy_out", 36, Completion::sync, Bulk::out};
  StreamHandle stream = {};
  DevicePointer from = {};
  std::uint64_t bytes = 0;
  FIELDS(stream, from, bytes)
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
  FIELDS(stream, from, bytes, token)
  using Reply = NoReply;
};
// Device to device, rows of `width` bytes; a plain copy has one row.
struct CopyDevice {
  static constexpr Spec kSpec{"copy_device", 38, Completion::async};
  StreamHandle stream = {};
  DevicePointer to = {}, from = {};
  std::uint64_t to_pitch = 0, from_pitch = 0, width = 0, rows = 1;
  FIELDS(stream, to, from, to_pitch, from_pitch, width, rows)
  using Reply = NoReply;
};
// `count` elements of `element` (1, 2 or 4) bytes in each of `rows` rows.
struct Set {
  static constexpr Spec kSpec{"set", 39, Completion::async};
  StreamHandle stream = {};
  DevicePointer to = {};
  std::uint32_t value = 0, element = 1;
  std::uint64_t count = 0, rows = 1, pitch = 0;
  FIELDS(stream, to, value, element, count, rows, pitch)
  using Reply = NoReply;
};
inline constexpr std::uint64_t kHeapBytes = std::uint64_t{8} << 20;  // CUDA's default

// What malloc in kernels may hold at the same time: kHeapBytes unless said, which every session has
// beside its memory. What is more counts as allocated.
struct HeapLimit {
  static constexpr Spec kSpec{"heap_limit", 42, Completion::sync};
  std::uint64_t bytes = 0;
  FIELDS(bytes)
  using Reply = NoReply;
};

// Memory and events that other sessions of this server may open, of the same client (its user, or
// its host): who has the key, which the server draws. What is shared lies on pages of its own.

// The allocation at `address`, or where this is 0 new memory that nobody has mapped yet.
struct MemoryShare {
  static constexpr Spec kSpec{"memory_share", 40, Completion::sync};
  DevicePointer address = {};
  std::uint64_t bytes = 0;
  FIELDS(address, bytes)
  struct Reply {
    Bytes key = {};
    FIELDS(key)
  };
};
// As an allocation of this session's; free ends it.
struct MemoryOpen {
  static constexpr Spec kSpec{"memory_open", 41, Completion::sync};
  Bytes key = {};
  DevicePointer address = {};
  std::uint64_t bytes = 0;
  FIELDS(key, address, bytes)
  using Reply = NoReply;
};
struct EventShare {
  static constexpr Spec kSpec{"event_share", 75, Completion::sync};
  EventHandle event = {};
  FIELDS(event)
  struct Reply {
    Bytes key = {};
    FIELDS(key)
  };
};
struct EventOpen {
  static constexpr Spec kSpec{"event_open", 76, Completion::sync};
  Bytes key = {};
  EventHandle event = {};
  FIELDS(key, event)
  using Reply = NoReply;
};

// Numbers of cudaDataType.
enum ElementType : std::uint32_t { kFloat32 = 0, kFloat64 = 1, kFloat16 = 2, kBfloat16 = 14 };
enum GemmForm : std::uint32_t { kTransposedA = 1, kTransposedB = 2, kByPointers = 4 };

// C = alpha op(A) op(B) + beta C for each of `batch`: m x n, k terms each. Matrices lie column
// after column, `step` elements from one to the next, `stride` from one of the batch to the next.
// A and B have elements of the type `in`, C of `out`. By pointers: at a, b and c lie `batch`
// addresses of matrices, which are read when the product is made.
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
  FIELDS(stream, form, in, out, m, n, k, batch, a, a_step, a_stride, b, b_step, b_stride, c, c_step,
         c_stride, alpha, beta, alpha_at, beta_at)
  using Reply = NoReply;
};

// --- functions of NVIDIA's libraries, which the server has where it has a GPU ------------------

// Its arguments one behind the other, as server/library_calls.h says of each function.
struct LibraryCall {
  static constexpr Spec kSpec{"library_call", 95, Completion::async};
  StreamHandle stream = {};
  Text function = {};
  Bytes arguments = {};
  FIELDS(stream, function, arguments)
  using Reply = NoReply;
};
// The same, answered: sizes of work areas, plans, what came of a plan's first run.
struct LibraryAsk {
  static constexpr Spec kSpec{"library_ask", 96, Completion::sync};
  StreamHandle stream = {};
  Text function = {};
  Bytes arguments = {};
  FIELDS(stream, function, arguments)
  struct Reply {
    std::int32_t status = 0;  // the library's own
    Bytes results = {};
    FIELDS(status, results)
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
  FIELDS(stream, kernel, grid, block, shared_bytes, flags, parameters)
  using Reply = NoReply;
};
// A function of the client runs in the order of the stream: the server sends Call with the token,
// the client answers CallDone, and the stream goes on.
struct HostCall {
  static constexpr Spec kSpec{"host_call", 49, Completion::async};
  StreamHandle stream = {};
  Token token = {};
  FIELDS(stream, token)
  using Reply = NoReply;
};
struct CallDone {
  static constexpr Spec kSpec{"call_done", 50, Completion::async};
  Token token = {};
  FIELDS(token)
  using Reply = NoReply;
};

// --- streams and events --------------------------------------------------------------------

enum StreamFlags : std::uint32_t { kNonBlocking = 1 };  // does not wait for the default stream

struct StreamCreate {
  static constexpr Spec kSpec{"stream_create", 64, Completion::async};
  StreamHandle stream = {};
  std::uint32_t flags = 0;
  std::int32_t priority = 0;
  FIELDS(stream, flags, priority)
  using Reply = NoReply;
};
struct StreamDestroy {
  static constexpr Spec kSpec{"stream_destroy", 65, Completion::async};
  StreamHandle stream = {};
  FIELDS(stream)
  using Reply = NoReply;
};
struct StreamSync {
  static constexpr Spec kSpec{"stream_sync", 66, Completion::sync};
  StreamHandle stream = {};
  FIELDS(stream)
  using Reply = NoReply;
};
// Status 0 when finished, 600 (not ready) when not.
struct StreamQuery {
  static constexpr Spec kSpec{"stream_query", 67, Completion::sync};
  StreamHandle stream = {};
  FIELDS(stream)
  using Reply = NoReply;
};
// Of records and waits.
enum EventUse : std::uint32_t { kExternal = 1 };  // in a capture it is a node, as in graph_add

struct StreamWaitEvent {
  static constexpr Spec kSpec{"stream_wait_event", 68, Completion::async};
  StreamHandle stream = {};
  EventHandle event = {};
  std::uint32_t flags = 0;  // EventUse
  FIELDS(stream, event, flags)
  using Reply = NoReply;
};

enum EventFlags : std::uint32_t { kNoTiming = 1 };

struct EventCreate {
  static constexpr Spec kSpec{"event_create", 69, Completion::async};
  EventHandle event = {};
  std::uint32_t flags = 0;
  FIELDS(event, flags)
  using Reply = NoReply;
};
struct EventDestroy {
  static constexpr Spec kSpec{"event_destroy", 70, Completion::async};
  EventHandle event = {};
  FIELDS(event)
  using Reply = NoReply;
};
struct EventRecord {
  static constexpr Spec kSpec{"event_record", 71, Completion::async};
  EventHandle event = {};
  StreamHandle stream = {};
  std::uint32_t flags = 0;  // EventUse
  FIELDS(event, stream, flags)
  using Reply = NoReply;
};
struct EventSync {
  static constexpr Spec kSpec{"event_sync", 72, Completion::sync};
  EventHandle event = {};
  FIELDS(event)
  using Reply = NoReply;
};
struct EventQuery {
  static constexpr Spec kSpec{"event_query", 73, Completion::sync};
  EventHandle event = {};
  FIELDS(event)
  using Reply = NoReply;
};
struct EventElapsed {
  static constexpr Spec kSpec{"event_elapsed", 74, Completion::sync};
  EventHandle from = {}, to = {};
  FIELDS(from, to)
  struct Reply {
    std::uint64_t nanoseconds = 0;
    FIELDS(nanoseconds)
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
  FIELDS(stream, mode, graph, after, first)
  using Reply = NoReply;
};
// Answered with how many nodes were recorded.
struct CaptureEnd {
  static constexpr Spec kSpec{"capture_end", 81, Completion::sync};
  StreamHandle stream = {};
  GraphHandle graph = {};
  FIELDS(stream, graph)
  struct Reply {
    std::uint32_t nodes = 0;
    FIELDS(nodes)
  };
};
// After which nodes (u64 each) the next one of a captured stream comes.
struct CaptureNodes {
  static constexpr Spec kSpec{"capture_nodes", 92, Completion::sync};
  StreamHandle stream = {};
  FIELDS(stream)
  struct Reply {
    Bytes after = {};
    FIELDS(after)
  };
};
// From now on it comes after these nodes of the graph; `add`: after the others, too.
struct CaptureAfter {
  static constexpr Spec kSpec{"capture_after", 93, Completion::async};
  StreamHandle stream = {};
  Bytes after = {};
  std::uint32_t add = 0;
  FIELDS(stream, after, add)
  using Reply = NoReply;
};
struct GraphCreate {
  static constexpr Spec kSpec{"graph_create", 82, Completion::async};
  GraphHandle graph = {};
  FIELDS(graph)
  using Reply = NoReply;
};
// A node that does `operation`, a frame of launch, copy_device, set, host_call, event_record,
// stream_wait_event, or nothing when it is empty (an empty node), after the nodes in `after` (u64
// each). Records and waits are of each launch; not in bodies that a condition decides.
struct GraphAdd {
  static constexpr Spec kSpec{"graph_add", 83, Completion::async};
  GraphHandle graph = {};
  NodeHandle node = {};
  Bytes after = {};
  Bytes operation = {};
  FIELDS(graph, node, after, operation)
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
  FIELDS(graph, node, after, kind, condition, bodies)
  using Reply = NoReply;
};
struct GraphDestroy {
  static constexpr Spec kSpec{"graph_destroy", 84, Completion::async};
  GraphHandle graph = {};
  FIELDS(graph)
  using Reply = NoReply;
};
struct GraphInstantiate {
  static constexpr Spec kSpec{"graph_instantiate", 85, Completion::sync};
  GraphHandle graph = {};
  GraphExecHandle exec = {};
  FIELDS(graph, exec)
  using Reply = NoReply;
};
struct GraphLaunch {
  static constexpr Spec kSpec{"graph_launch", 86, Completion::async};
  GraphExecHandle exec = {};
  StreamHandle stream = {};
  FIELDS(exec, stream)
  using Reply = NoReply;
};
struct GraphExecDestroy {
  static constexpr Spec kSpec{"graph_exec_destroy", 87, Completion::async};
  GraphExecHandle exec = {};
  FIELDS(exec)
  using Reply = NoReply;
};
// Another graph with the same nodes, by the same numbers.
struct GraphClone {
  static constexpr Spec kSpec{"graph_clone", 88, Completion::async};
  GraphHandle graph = {};
  GraphHandle clone = {};
  FIELDS(graph, clone)
  using Reply = NoReply;
};
// The `place`-th node of an executable graph, or of a graph where `exec` is 0, does another
// operation of the kind that it did (empty: the same); of an executable one it does nothing while
// it is not `enabled`.
struct GraphSet {
  static constexpr Spec kSpec{"graph_set", 89, Completion::async};
  GraphHandle graph = {};
  GraphExecHandle exec = {};
  std::uint32_t place = 0;
  Bytes operation = {};
  std::uint32_t enabled = 1;
  FIELDS(graph, exec, place, operation, enabled)
  using Reply = NoReply;
};
// The `place`-th node of a graph comes after these nodes only (u64 each); `gone`: there is no such
// node any more.
struct GraphOrder {
  static constexpr Spec kSpec{"graph_order", 97, Completion::async};
  GraphHandle graph = {};
  std::uint32_t place = 0;
  Bytes after = {};
  std::uint32_t gone = 0;
  FIELDS(graph, place, after, gone)
  using Reply = NoReply;
};
// Answered with the frames (graph_add, graph_branch) that would make the nodes of an executable
// graph, or of a graph where `exec` is 0, in a graph 0: from the `from`-th on, as many as fit.
struct GraphNodes {
  static constexpr Spec kSpec{"graph_nodes", 98, Completion::sync};
  GraphHandle graph = {};
  GraphExecHandle exec = {};
  std::uint32_t from = 0;
  FIELDS(graph, exec, from)
  struct Reply {
    Bytes nodes = {};
    FIELDS(nodes)
  };
};
// An executable graph does what the graph does, whose nodes are of the same kinds, in that order.
// Copies keep their direction: what lies in `host` (address and bytes, u64 each) stands for memory
// of the program.
struct GraphUpdate {
  static constexpr Spec kSpec{"graph_update", 90, Completion::sync};
  GraphExecHandle exec = {};
  GraphHandle graph = {};
  Bytes host = {};
  FIELDS(exec, graph, host)
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
  FIELDS(array, width, height, depth, kind, channels, channel_bytes, flags)
  using Reply = NoReply;
};
// After everything sent before has finished.
struct ArrayDestroy {
  static constexpr Spec kSpec{"array_destroy", 101, Completion::async};
  ArrayHandle array = {};
  FIELDS(array)
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
  FIELDS(stream, array, x, y, z, memory, pitch, slice_rows, width, rows, slices, out)
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
  FIELDS(array, memory, width, rows, pitch, kind, channels, channel_bytes, flags, beyond_x,
         beyond_y, beyond_z, border)
  struct Reply {
    TextureHandle texture = {};
    FIELDS(texture)
  };
};
// After everything sent before has finished.
struct TextureDestroy {
  static constexpr Spec kSpec{"texture_destroy", 104, Completion::async};
  TextureHandle texture = {};
  FIELDS(texture)
  using Reply = NoReply;
};
// What kernels set, and one branch of the graph or of its bodies goes by, in place of a word.
// `assign`: it is `value` whenever the graph is launched.
struct GraphCondition {
  static constexpr Spec kSpec{"graph_condition", 105, Completion::sync};
  GraphHandle graph = {};
  std::uint32_t value = 0, assign = 0;
  FIELDS(graph, value, assign)
  struct Reply {
    DevicePointer condition = {};  // of graph_branch
    FIELDS(condition)
  };
};

// --- notices: from the server, unasked -----------------------------------------------------

struct Waiting {  // before the answer to hello: this place in the queue
  static constexpr Spec kSpec{"waiting", 112, Completion::async};
  std::uint32_t place = 0;
  FIELDS(place)
  using Reply = NoReply;
};
struct CopiedOut {
  static constexpr Spec kSpec{"copied_out", 113, Completion::async, Bulk::in};
  Token token = {};
  FIELDS(token)
  using Reply = NoReply;
};
struct Call {
  static constexpr Spec kSpec{"call", 114, Completion::async};
  Token token = {};
  FIELDS(token)
  using Reply = NoReply;
};
// What kernels printed (standard output), what they did wrong (a fault; to standard error), or why
// something was refused (error; where it is device code the client says it again at the end).
enum SaidTo : std::uint32_t { kToOutput = 0, kToError = 1, kFault = 2, kRefusedCode = 3 };
struct Said {
  static constexpr Spec kSpec{"said", 115, Completion::async};
  std::uint32_t to_error = kToOutput;  // SaidTo
  Bytes text = {};
  FIELDS(to_error, text)
  using Reply = NoReply;
};

template <class... Ops>
struct Table {};
using ClientOperations =
    Table<Hello, Ping, Bye, Fence, Reset, RequestEnded, ModuleHave, ModulePut, ModuleLoad,
          ModuleUnload, KernelOpen, KernelAttributes, KernelSetAttribute, GlobalAddress, Alloc,
          Free, FreeOnStream, CopyIn, CopyOut, CopyOutLater, CopyDevice, Set, MemoryShare,
          MemoryOpen, HeapLimit, EventShare, EventOpen, Gemm, LibraryCall, LibraryAsk, Launch,
          HostCall, CallDone, StreamCreate, StreamDestroy, StreamSync, StreamQuery, StreamWaitEvent,
          EventCreate, EventDestroy, EventRecord, EventSync, EventQuery, EventElapsed, CaptureBegin,
          CaptureEnd, CaptureNodes, CaptureAfter, GraphCreate, GraphAdd, GraphBranch, GraphDestroy,
          GraphInstantiate, GraphLaunch, GraphExecDestroy, GraphClone, GraphSet, GraphOrder,
          GraphNodes, GraphUpdate, ArrayCreate, ArrayDestroy, ArrayCopy, TextureCreate,
          TextureDestroy, GraphCondition>;
using ServerNotices = Table<Waiting, CopiedOut, Call, Said>;

}  // namespace partita::remote
