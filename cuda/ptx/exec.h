// How a launch is executed: blocks of warps on a worker. A worker is what one thread uses while it
// executes a group: register files, shared memory, a snapshot of the allocations. Workers are kept
// by the machine and used again, so that a launch pays for nothing that the last one had.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ptx/machine.h"
#include "ptx/memory.h"
#include "ptx/orders.h"
#include "ptx/program.h"

namespace partita::ptx {

inline constexpr std::int32_t kSliceBranches = 256;  // then stop and fairness are looked at
inline constexpr std::uint32_t kFairSlice = 4;    // of so many, one goes to any group of the warp
inline constexpr std::int32_t kSlicesOfWarp = 4;  // then another warp has its turn
inline constexpr int kTurnsOfBlock = 4;           // then another block of the launch has its turn
inline constexpr std::uint64_t kTurnsOfAll = 8;   // of each under way, then more may begin
inline constexpr std::chrono::milliseconds kTurnOfLaunch{1};  // then another one, if it wants
inline constexpr std::size_t kMaxPrinted = std::size_t{1} << 20;
inline constexpr unsigned kBarriers = 16;
inline constexpr std::uint64_t kMaxRaceBlocks = std::uint64_t{1} << 20;  // larger grids: no check
inline constexpr std::uint64_t kRaceSerials = std::uint64_t{1} << 16;

// A loaded module, kept while a run uses it.
struct Loaded {
  Module module = {};
  std::string name = {};
  std::vector<std::string_view> lines = {};  // of `text`
  std::string text = {};
  std::vector<Program> programs = {};              // of the kernels, in order
  std::vector<std::optional<Error>> refused = {};  // why a kernel cannot run
  std::vector<KernelInfo> infos = {};
  std::map<std::string, Machine::Global> globals = {};
};

struct AlignedBytes {
  std::byte* data = nullptr;
  std::size_t size = 0;
  AlignedBytes() = default;
  ~AlignedBytes();
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  AlignedBytes(AlignedBytes&& other) noexcept;
  AlignedBytes& operator=(AlignedBytes&& other) noexcept;
  bool reserve(std::size_t bytes);  // content is zero afterwards where it grew
};

struct Block;

// Shared by the workers of one launch.
struct RunCore {
  std::shared_ptr<const Loaded> loaded;
  const Program* program = nullptr;
  Launch launch;
  Arena* arena = nullptr;
  std::uint64_t serial = 0;
  std::uint64_t workspace = 0;        // of a cooperative launch
  std::vector<std::byte> image = {};  // constant registers
  std::vector<FillSlot> block_fills = {}, warp_fills = {};
  std::uint32_t threads = 0, warps = 0, shared_bytes = 0;
  // Of a check of global memory, by block: the first of its times that others do not know.
  std::vector<std::atomic<std::uint32_t>> published = {};
  std::atomic<bool> stop = false;   // asked for from outside
  std::atomic<bool> ended = false;  // a fault ended the launch
  std::atomic<std::uint64_t> thread_instructions = 0, warp_instructions = 0;
  std::uint64_t per_group = 1;  // blocks
  std::atomic<std::uint64_t> next_block = 0;
  std::uint64_t resident = 0;  // most of `paused`, ever
  std::mutex mutex;
  std::uint64_t most_paused = 1;  // now
  std::uint64_t turns = 0, done_at_turn = 0;  // since a block has ended; `done_when_full` of it
  std::deque<std::unique_ptr<Block>> paused = {};  // began; the next one to go on is first
  std::uint64_t done_when_full = 0;                // warp instructions of the blocks that had ended
  std::chrono::steady_clock::time_point full_since = {};
  std::vector<Fault> faults = {};
  std::string printed = {};
  // What its threads launch: by the parameter block that they are about to fill, then in order.
  int depth = 0;  // of launches by kernels
  std::map<std::uint64_t, Launch> begun = {};
  std::vector<Launch> launched = {}, launched_last = {};
  std::map<std::pair<std::uint32_t, std::uint32_t>, bool> went_on = {};  // what went_on says
  // More of a check of global memory: as `published`, of what was read alone; of an address, for
  // its word or byte.
  std::vector<std::atomic<std::uint32_t>> reads_published = {};
  unsigned global_shift = 2;
};

struct Frame {  // registers and local memory of a warp
  AlignedBytes registers, local;
  std::uint64_t serial = 0;  // of the run whose constants it has
  std::uint64_t block = ~std::uint64_t{0};
  std::uint32_t warp = ~std::uint32_t{0};
};

struct BarrierState {
  std::uint32_t arrived = 0;   // threads
  std::uint32_t places = 0;    // as counts count them: warps are whole
  std::uint32_t expected = 0;  // places; 0: all threads that live
  std::uint32_t set = 0;       // of bar.red: threads whose predicate holds
  std::uint32_t inputs = 0;
  bool left_early = false;  // some went on without waiting (bar.arrive)
};

// Who came to a barrier since it last opened, by warp (Checks::barriers).
struct BarrierWatch {
  std::array<std::uint32_t, kMaxThreadsPerBlock / kLanes> lanes = {};
  std::array<const Op*, kMaxThreadsPerBlock / kLanes> at = {};  // where the last of them came
};

// Values of a warp that shuffles read from lanes that took no part.
struct Undefined {
  static constexpr std::uint32_t kMostFollowed = 1 << 16;
  std::map<std::uint32_t, std::uint32_t> lanes = {};  // by slot of their register
  std::uint32_t left = kMostFollowed;                 // instructions, then they are forgotten
  int line = 0;                                       // of the last such shuffle
  std::uint32_t from = 0;                             // and a lane that was not there
  std::uint32_t of(std::uint32_t slot) const;
  void set(std::uint32_t slot, std::uint32_t mask, std::uint32_t now);
};

struct Worker;

struct Block {
  RunCore* run = nullptr;
  Worker* worker = nullptr;
  std::uint64_t linear = 0;
  Extent index = {0, 0, 0};
  std::uint32_t live_threads = 0;
  bool failed = false;
  std::vector<Warp> warps = {};
  std::vector<std::unique_ptr<Frame>> frames = {};  // of warps that started and did not end
  std::vector<std::uint8_t> started = {};
  std::vector<std::int32_t> slices = {};
  std::array<BarrierState, kBarriers> barriers = {};
  std::vector<BarrierWatch> watches = {};  // of the barriers; empty where nobody checks
  // By warp and lane: where it was when others last waited for it (Checks::barriers).
  std::vector<std::array<std::uint32_t, kLanes>> absent_at = {};
  AlignedBytes shared;
  std::vector<std::uint64_t> writers = {}, readers = {};  // RaceShadow
  std::vector<std::uint8_t> written = {};                 // Warp::shared_valid
  std::vector<Undefined> undefined = {};                  // by warp
  std::uint32_t epoch = 1;
  Orders orders = {};
  // Of a check of global memory: time goes on at barriers and where the block publishes what it
  // did; what other blocks published is known from the first strong read on.
  std::uint32_t time = 1, barrier_time = 0, time_of_epoch = 0;
  std::uint32_t fence_time = 0;  // what was before it was before the last fence
  bool time_used = false;        // by an access
  bool has_acquired = false;
  struct Copy {  // asynchronous, that its thread has not waited for
    std::uint32_t thread = 0, group = 0;
    std::uint32_t first = 0, last = 0;  // cells of `writers`
  };
  std::vector<Copy> copies = {};
  std::vector<std::uint32_t> copy_groups = {};  // committed so far, by thread
};

struct BlockRange {
  std::uint64_t first = 0, last = 0;
};

struct Worker {
  std::vector<std::unique_ptr<Frame>> spare = {};
  std::shared_ptr<const Table> table = {};
  std::uint64_t table_version = 0;
  std::vector<Span> spans = {};  // Warp::spans
  std::uint64_t spans_of = 0;    // run
  std::vector<std::unique_ptr<Block>> blocks = {};  // more than one of a cooperative launch
  BlockRange mine = {};  // taken, to be begun; of a cooperative launch: all
  bool left = false;     // execute_blocks() in the middle
  std::chrono::steady_clock::time_point since = {};  // it has had the thread, looked at first
  alignas(64) std::byte bounce[kLanes][32];
};

// Runs the blocks of one group: one after the other, or in turns (cooperative). One that takes long
// gives way to others that did not begin or gave way before, and whoever is free goes on with it.
// False: the worker has left in the middle (Launch::others), and goes on when called again.
bool execute_blocks(RunCore& run, Worker& worker);
void begin_block(RunCore& run, Worker& worker, Block& block, std::uint64_t linear);

void begin_shadows(Block& block, std::uint32_t shared_bytes, std::uint32_t shift);

// Scheduling, for control ops.
const Op* next_group(Warp& w);    // nullptr where none is ready
const Op* resume_group(Warp& w);  // as next_group, fair after a slice
const Op* settle(Warp& w, std::uint32_t pc);
void wait_at(Warp& w, std::uint32_t pc, std::uint32_t mask);
const Op* slice_end(Warp& w, std::uint32_t pc);
// The lanes of the mask wait at an exchange or barrier of the warp for those they name.
void park_by_members(const Op* op, Warp& w, Parked::Why why);
void remove_parked(Warp& w, std::uint32_t i);
// Lanes at the exchange of `parked` or at another that is the same one to the PTX ISA: of one kind,
// with the same members, wherever it stands.
std::uint32_t came_with(const Warp& w, const Parked& parked);
void lanes_left_barriers(Warp& w, std::uint32_t mask);  // what their end opens
void lanes_exited(Warp& w, std::uint32_t mask);
// Checks::barriers: the members that lanes name for an exchange or a barrier of the warp.
void watch_members(const Op* op, Warp& w);
void watch_absent(Warp& w, const Parked& parked);  // where those are that it waits for
void watch_ended(Warp& w, std::uint32_t mask);     // lanes, and whether others waited for them
inline std::uint64_t lanes_in(std::uint32_t mask) {
  if (mask == kAllLanes) return kLanes;
  mask = mask - ((mask >> 1) & 0x5555'5555u);
  mask = (mask & 0x3333'3333u) + ((mask >> 2) & 0x3333'3333u);
  return ((mask + (mask >> 4)) & 0x0f0f'0f0fu) * 0x0101'0101u >> 24;
}
inline std::uint32_t lanes_of(const Warp& w) {  // those that the block has
  const std::uint32_t lanes = w.block->run->threads - w.index * kLanes;
  return lanes >= kLanes ? kAllLanes : (1u << lanes) - 1;
}
// Of `members` by lane: those that each lane of the mask names.
inline std::uint32_t named_by_all(const Warp& w, const std::uint32_t* members) {
  std::uint32_t all = kAllLanes;
  if (w.mask == kAllLanes) {
    for (unsigned lane = 0; lane < kLanes; ++lane) all &= members[lane];
    return all;
  }
  for (std::uint32_t left = w.mask; left != 0; left &= left - 1)
    all &= members[__builtin_ctz(left)];
  return all;
}
inline std::uint32_t pc_of(const Op* op, const Warp& w) {
  return static_cast<std::uint32_t>(op - w.code);
}
inline void count(Warp& w, const Op* last, std::uint32_t extra) {
  const std::uint64_t n = last->ordinal - w.segment->ordinal + extra;
  w.warp_instructions += n;
  w.thread_instructions += n * lanes_in(w.mask);
}

// Faults.
struct Report {
  FaultKind kind = FaultKind::trap;
  unsigned lane = 0;
  std::uint64_t address = 0;
  std::uint32_t size = 0;
  bool write = false;
  std::string about = {};
};
// Whether the launch goes on (races, uninitialised reads, divergence).
bool report(const Op* op, Warp& w, Report what);
// Executes the warp as the scheduler does, and shows each instruction to the launch's watcher, if
// it has one, and to follow_undefined.
void run_watched(const Op* op, Warp& w);
// Before an instruction: where its undefined values go, and whether it needs one.
void follow_undefined(const Op* op, Warp& w);
// Of a shuffle among `here`, before it writes to the lanes of the mask: the lanes that each lane
// reads, and `before`, those whose values are undefined. Whether there is something to follow now
// and was not before.
bool note_shuffled(const Op* op, Warp& w, const std::uint32_t* from, std::uint32_t here,
                   std::uint32_t before);
// The function that an op is of: the last one whose entry is not behind it.
const FunctionPlace& function_at(const Program& program, std::uint32_t pc);
// From generic memory as the lane sees it; false where not all of it is there.
bool peek_generic(Warp& w, unsigned lane, std::uint64_t address, std::span<std::byte> to);
// From generic memory into this process, as device functions of the system need it.
bool read_generic(const Op* op, Warp& w, unsigned lane, std::uint64_t address,
                  std::span<std::byte> to);
std::string read_text(const Op* op, Warp& w, unsigned lane, std::uint64_t address);

template <class T>
T* lane_registers(Warp& w, std::uint32_t slot) {
  return reinterpret_cast<T*>(w.registers + slot);
}
inline std::uint32_t& mask_register(Warp& w, std::uint32_t slot) {
  return *reinterpret_cast<std::uint32_t*>(w.registers + slot);
}

}  // namespace partita::ptx
