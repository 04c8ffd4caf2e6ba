// What decoding makes and execution runs: a kernel with all functions it may call as one dense
// array of ops over the register file of a warp. Registers are [register][32 lanes] arrays, 64-byte
// aligned; predicates are one 32-bit mask; immediates, parameters and special registers are
// registers too, filled before a warp starts, so that no op tests what kind its operands are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ptx/matrix.h"
#include "ptx/module.h"

namespace partita::ptx {

inline constexpr unsigned kLanes = 32;
inline constexpr std::uint32_t kAllLanes = 0xffff'ffffu;

// Generic addresses below the arena (machine.h).
inline constexpr std::uint64_t kSharedWindow = 0x0000'6000'0000'0000;
inline constexpr std::uint64_t kLocalWindow = 0x0000'6100'0000'0000;
inline constexpr std::uint64_t kParameterWindow = 0x0000'6200'0000'0000;
inline constexpr std::uint64_t kFunctionWindow = 0x0000'6300'0000'0000;
inline constexpr std::uint64_t kFunctionStride = 16;  // between addresses of functions
inline constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 40;

struct Op;
struct Warp;
// Executes the op for the lanes of the warp's mask; the next op, or nullptr where the scheduler has
// to look at the warp (it parked, ended, lost its time slice or failed).
using OpFn = const Op* (*)(const Op*, Warp&);

struct Op {
  OpFn fn = nullptr;
  std::int64_t imm = 0;                             // address offset, target of a branch, ...
  std::uint32_t d = 0, a = 0, b = 0, c = 0, e = 0;  // byte offsets into the register file
  std::uint32_t ordinal = 0;                        // PTX instructions before this op
  std::uint32_t flags = 0;                          // by op
  std::uint32_t size = 0;                           // of a memory access: bytes of one lane
  std::uint32_t span = 0;  // of an access to global memory: its place in Warp::spans
};

// Flags of memory ops.
inline constexpr std::uint32_t kGeneric = 1;    // any window; else global memory only
inline constexpr std::uint32_t kStrong = 2;     // volatile, relaxed, acquire, release
inline constexpr std::uint32_t kRelease = 64;   // what the thread did before is seen with it
inline constexpr std::uint32_t kUpdate = 128;   // an atomic: reads and writes
inline constexpr std::uint32_t kCopying = 256;  // into shared memory, seen once waited for
inline constexpr std::uint32_t kPhased = 512;   // a barrier in memory: arrives (kRelease) or waits
// Flags of setp: how the result meets the predicate c.
inline constexpr std::uint32_t kBoolAnd = 1, kBoolOr = 2, kBoolXor = 3, kBoolKinds = 3;
inline constexpr std::uint32_t kNegateC = 4, kSecondResult = 8;

// A piece of memory that one range check covers.
struct Span {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::byte* host = nullptr;
  std::uint8_t* valid = nullptr;  // one byte per byte, where uninitialised reads are checked
  bool read_only = false;
};

struct Group {
  std::uint32_t pc = 0;
  std::uint32_t mask = 0;
};

struct Parked {
  enum class Why : std::uint8_t { barrier, collective, warp_sync };
  std::uint32_t pc = 0;
  std::uint32_t mask = 0;
  std::uint32_t key = 0;  // of a barrier its number, of warp_sync its members
  Why why = Why::barrier;
};

struct Block;
struct Undefined;

// Race check of shared memory, per 4-byte word or, in kernels that access single bytes and halves,
// per byte: the last writer and the last reader, as epoch of the block << 32 | tick of the warp
// << 12 | kStrongBit | thread. Ids from kSeveralOfWarp on: several readers.
inline constexpr std::uint64_t kThreadBits = 2047, kStrongBit = 2048;
inline constexpr std::uint64_t kSeveralReaders = 2047, kSeveralOfWarp = 1024;
inline constexpr std::uint32_t kTickShift = 12, kMaxTick = (1u << 20) - 1;
struct RaceShadow {
  std::uint64_t* writer = nullptr;
  std::uint64_t* reader = nullptr;
  std::uint32_t* epoch = nullptr;
  std::uint32_t tick = 0;   // exchanges, barriers and releases of the warp so far
  std::uint32_t met = 0;    // the tick when all of its lanes met last
  std::uint32_t shift = 2;  // of an offset, for the index of its word or byte
  bool parted = false;      // some of its lanes met without the others: Orders knows who
};

// The variable in shared memory that an access must stay in, where decoding knows it.
struct ArrayBounds {
  std::uint32_t begin = 0, end = ~0u;
};

struct Warp {
  std::byte* registers = nullptr;
  std::uint32_t mask = 0;   // lanes that execute now
  std::int32_t budget = 0;  // branches left of the time slice
  Span* spans = nullptr;    // for each op that accesses global memory, what it used last
  std::byte* shared = nullptr;
  std::uint32_t shared_bytes = 0;
  std::uint32_t local_bytes = 0;  // per lane; words of the lanes interleaved
  std::byte* local = nullptr;
  bool check_races = false, check_barriers = false, check_global = false;
  std::uint8_t* shared_valid = nullptr;  // one byte per byte, where reads of nothing are checked
  const ArrayBounds* arrays = nullptr;   // by Op::span
  Undefined* undefined = nullptr;        // where undefined values are looked for
  bool sticky = false;  // the group keeps the warp until its slice ends, for fairness
  std::uint32_t waiting_count = 0, parked_count = 0;
  const Op* segment = nullptr;  // since here nothing was counted yet
  const Op* code = nullptr;
  std::uint64_t thread_instructions = 0, warp_instructions = 0;
  std::uint32_t live = 0;  // lanes that did not exit
  std::uint32_t index = 0;
  Block* block = nullptr;
  RaceShadow race = {};
  Group waiting[kLanes] = {};  // highest pc first: the last one is next
  Parked parked[kLanes] = {};
};

// What fills a register before a warp starts.
enum class Fill : std::uint8_t {
  lane_id,
  lane_mask_eq,
  lane_mask_lt,
  lane_mask_le,
  lane_mask_gt,
  lane_mask_ge,
  tid_x,
  tid_y,
  tid_z,
  warp_id,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  nwarp_id,
  sm_id,
  nsm_id,
  grid_id,
  zero,
  one,
  workspace_high,
  workspace_low,
  total_shared,
  dynamic_shared,
};

struct FillSlot {
  Fill fill = Fill::zero;
  std::uint32_t slot = 0;
};

struct ParameterSlot {
  std::uint32_t offset = 0, size = 0, slot = 0;
  bool is_signed = false;
  std::uint32_t width = 0;  // bytes of a lane's register
};

// Where an op comes from, by ordinal.
struct Origin {
  int line = 0;
  int source_line = 0, source_file = 0;
};

// Where a value of a call lies: in local memory, or in a register.
struct Place {
  bool is_register = false;
  std::uint32_t offset = 0, bytes = 0;
};

struct Callee {
  std::string name = {};
  std::uint32_t entry = 0;        // index of its first op
  std::uint32_t return_slot = 0;  // u32 per lane: the op to go on with
  std::uint32_t active_slot = 0;  // a mask: lanes that are inside
  std::vector<Place> parameters = {}, results = {};
  // Of one that may call itself: what a call keeps on the thread's stack until it is over (of
  // predicates 0 bytes), where the variables of the activation begin (u64), and how long they are.
  bool is_recursive = false;
  std::vector<Place> kept = {};
  std::uint32_t frame_slot = 0, kept_bytes = 0, frame_bytes = 0;
};

enum class Builtin : std::uint8_t {
  none,
  vprintf,
  assert_fail,
  set_conditional,
  malloc,
  free,
  begin_launch,
  launch,
};

struct CallSite {
  Builtin builtin = Builtin::none;
  std::int32_t callee = -1;  // -1: by address in the register `target`
  std::uint32_t target = 0;
  std::vector<Place> arguments = {}, results = {};
};

// tex, tld4, suld, sust.
struct TextureOp {
  enum class Kind : std::uint8_t { sample, gather, load, store };
  enum class Outside : std::uint8_t { fault, clamp, zero };  // of surfaces
  Kind kind = Kind::sample;
  Outside outside = Outside::fault;
  std::uint8_t directions = 1;  // 1, 2, 3
  bool is_cube = false, has_layer = false;
  bool by_number = false;      // coordinates are whole numbers
  std::uint8_t component = 0;  // that is gathered
  std::uint8_t bytes = 4;      // of a value; its register's for surfaces: at least 2
  std::uint32_t handle = 0;    // slot
  std::vector<std::uint32_t> coordinates = {};  // slots, without the layer
  std::uint32_t layer = 0;
  // Slots of what is read or stored; nothing: not wanted.
  std::vector<std::optional<std::uint32_t>> values = {};
};

// Where a function's ops and registers are.
struct FunctionPlace {
  const Function* function = nullptr;     // of the loaded module
  std::uint32_t entry = 0;                // index of its first op
  std::int64_t callee = -1;               // in Program::callees; -1: the kernel
  std::vector<std::uint32_t> slots = {};  // of Function::registers
};

struct Program {
  std::string kernel = {};
  std::vector<FunctionPlace> functions = {};
  std::uint32_t entry = 0;
  std::vector<Op> code = {};
  std::vector<Origin> origins = {};
  std::vector<std::vector<std::uint32_t>> tables = {};  // targets of brx.idx
  std::vector<Callee> callees = {};
  std::vector<CallSite> calls = {};
  std::vector<MatrixOp> matrices = {};                     // by Op::imm
  std::vector<TextureOp> textures = {};                    // by Op::imm
  std::map<std::uint64_t, std::uint32_t> by_address = {};  // of functions: index in callees
  std::uint32_t register_bytes = 0;
  std::uint32_t constant_begin = 0;       // registers from here on are constant in a launch
  std::vector<std::byte> constants = {};  // their content, without what a launch fills
  std::vector<FillSlot> fills = {};
  std::vector<ParameterSlot> parameters = {};
  std::uint32_t shared_bytes = 0, local_bytes = 0;
  std::uint32_t stack_slot = 0, stack_begin = 0;  // u64, local memory; 0: nothing calls itself
  std::uint32_t register_count = 0;
  std::uint32_t spans = 0;
  std::vector<ArrayBounds> arrays = {};  // by Op::span
  std::uint32_t barriers = 0;            // 1: has barriers
  bool accesses_bytes = false;           // or halves, maybe of shared memory
  bool accesses_global_bytes = false;    // or halves, maybe of global memory
};

}  // namespace partita::ptx
