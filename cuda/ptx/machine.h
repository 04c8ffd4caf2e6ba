// Machine: PTX on threads of the CPU. A machine owns device memory and loaded modules; a Launch of
// a kernel becomes a Run, whose work-groups any threads may execute at the same time, so that the
// owner (a lane driver, a loop) decides which threads those are. Every access is checked against
// the allocations; what a kernel does wrong is a Fault with kernel, block, thread and PTX line.
//
// Device addresses are not addresses of this process: kGlobalBase + offset into one arena. Generic
// addresses: windows for shared and local memory lie below it.
// Thread rule: calls on Machine from one thread at a time; Run::execute from any, at the same time
// as anything but release() or unload() of what it uses (the owner orders those).
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ptx/module.h"

namespace partita::ptx {

inline constexpr std::uint64_t kGlobalBase = 0x0000'7000'0000'0000;
inline constexpr std::uint64_t kAllocationAlignment = 256;
inline constexpr std::uint64_t kMaxArenaBytes = std::uint64_t{1} << 40;
inline constexpr std::uint64_t kHeapBytes = std::uint64_t{8} << 20;  // CUDA's default
inline constexpr std::uint32_t kMaxThreadsPerBlock = 1024;
inline constexpr std::uint32_t kMaxSharedBytes = 227 * 1024;
inline constexpr std::uint32_t kMaxParameterBytes = 32'764;

struct Extent {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t volume() const { return std::uint64_t{x} * y * z; }
  bool operator==(const Extent&) const = default;
};

struct Checks {
  bool uninitialised = false;  // reads of global and shared memory that nobody wrote
  bool races = false;          // on shared memory, between barriers
  bool barriers = false;       // that some threads leave out
  bool global_races = false;   // on global memory, between threads of a launch
  bool operator==(const Checks&) const = default;
};

enum class FaultKind : std::uint8_t {
  out_of_bounds,  // no allocation holds all of the access (also: null, host pointers)
  misaligned,
  use_after_free,
  uninitialised,
  race,
  read_only,  // a store into constant memory
  illegal,    // an instruction with operands that have no meaning (bad indirect call, ...)
  assertion,  // device assert
  trap,
  divergence,  // a barrier opened without threads that had to come
  deadlock,    // no warp of the block can ever go on (barrier that some left out)
  stopped,     // request_stop()
};
std::string to_string(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::trap;
  std::string kernel = {};
  Extent block = {0, 0, 0}, thread = {0, 0, 0};
  int line = 0;                  // of the PTX text
  std::string instruction = {};  // as written there
  int source_line = 0;           // by .loc, 0: unknown
  std::string source_file = {};
  std::uint64_t address = 0;  // 0 where there is none
  std::uint32_t size = 0;     // bytes of the access
  bool write = false;
  std::string about = {};  // "4 bytes behind the end of a 1024-byte allocation at 0x70..."
  bool operator==(const Fault&) const = default;
};
// One paragraph for people, as a sanitizer prints it.
std::string to_text(const Fault& fault);
// Those of one run: the first of each kind at each line, and how many more there were.
std::string to_text(const std::vector<Fault>& faults);

struct ParameterLayout {
  std::uint32_t offset = 0, size = 0, alignment = 1;
  bool operator==(const ParameterLayout&) const = default;
};

struct KernelInfo {
  std::string name = {};
  std::vector<ParameterLayout> parameters = {};
  std::uint32_t parameter_bytes = 0;
  std::uint32_t shared_bytes = 0;  // static
  std::uint32_t local_bytes = 0;   // per thread
  std::uint32_t const_bytes = 0;
  std::uint32_t registers = 0;
  std::uint32_t max_threads = kMaxThreadsPerBlock;
  std::uint32_t target = 0;  // 80 of a module for sm_80
  bool operator==(const KernelInfo&) const = default;
};

enum class ModuleId : std::uint64_t {};
struct KernelId {
  ModuleId module{};
  std::uint32_t index = 0;  // among the kernels of its module
  bool operator==(const KernelId&) const = default;
};

class Watcher;  // watch.h

struct Launch {
  KernelId kernel;
  Extent grid, block;
  std::uint32_t dynamic_shared = 0;
  std::vector<std::byte> parameters = {};  // the parameter block, KernelInfo::parameter_bytes
  bool cooperative = false;                // the grid may synchronise: all groups make progress
  // Of the device: of a launch so many times 32 blocks, or 2,048 threads, may wait for each other.
  std::uint32_t units = 1;
  // Told by a thread that executes where so many are under way, none has ended for `patience`, and
  // others have not begun: they may wait for those.
  std::function<void(const std::string&)> stuck = {};
  // Whether something else wants the thread that asks: execute() may then return before its end.
  // Asked about once each ms. Empty: nothing does.
  std::function<bool()> others = {};
  std::chrono::nanoseconds patience = std::chrono::seconds(30);
  Checks checks = {};
  Watcher* watcher = nullptr;  // outlives the run; groups are executed by one thread then
  // Most faults kept (races, uninitialised reads and divergence go on; the others end the launch).
  std::size_t max_faults = 64;
};

// One launch under way. The owner calls execute for each group once (groups() of them) and may then
// ask for the outcome. A cooperative launch has one group, which executes all blocks in turns.
class Run {
 public:
  virtual ~Run() = default;
  virtual std::int64_t groups() const = 0;
  // Runs the group to its end or a fault; nothing after a fault that ends the launch. False, only
  // where there is Launch::others: it is not at its end, and is to be called for it again.
  virtual bool execute(std::int64_t group) noexcept = 0;
  // From any thread: groups end soon (within 1 ms of work) with FaultKind::stopped.
  virtual void request_stop() noexcept = 0;
  // After the last execute returned.
  virtual std::vector<Fault> faults() const = 0;
  virtual std::string printed() const = 0;  // of vprintf, bounded (the newest is dropped)
  // PTX instructions x active lanes, and warp instructions, executed so far.
  struct Counts {
    std::uint64_t thread_instructions = 0, warp_instructions = 0;
    bool operator==(const Counts&) const = default;
  };
  virtual Counts counts() const = 0;
};

class Machine {
 public:
  // A machine whose arena has `bytes` (taken from the system when first written).
  static Result<std::unique_ptr<Machine>> open(std::uint64_t bytes);
  virtual ~Machine() = default;

  // The arena in device addresses: [kGlobalBase, kGlobalBase + arena_bytes()).
  virtual std::uint64_t arena_bytes() const = 0;
  // An allocation where the machine likes (multiple of kAllocationAlignment); no_room when full.
  virtual Result<std::uint64_t> allocate(std::uint64_t bytes) = 0;
  // An allocation where the caller likes; invalid_argument outside the arena or not aligned,
  // in_use where one is.
  virtual Result<void> allocate_at(std::uint64_t address, std::uint64_t bytes) = 0;
  // not_found when no allocation begins there.
  virtual Result<void> release(std::uint64_t address) = 0;

  // Most that malloc in kernels has given and free has not taken back, kHeapBytes at first; beyond
  // it gives 0. in_use where that is more already.
  virtual Result<void> limit_heap(std::uint64_t bytes) = 0;

  // The allocation that begins there lies in the file from now on, from the file's begin; `keep`:
  // which gets what the allocation holds. not_supported where it shares a page with another one,
  // not_found as above. Nothing may be using it.
  virtual Result<void> put_into(std::uint64_t address, int file, bool keep) = 0;

  // The bytes behind a device address, for copies; not_found unless one allocation holds all of
  // them. `writable` marks them as initialised.
  virtual Result<std::span<const std::byte>> readable(std::uint64_t address,
                                                      std::uint64_t bytes) = 0;
  virtual Result<std::span<std::byte>> writable(std::uint64_t address, std::uint64_t bytes) = 0;

  // Parses, decodes every kernel, allocates and fills globals and constants. What cannot run is
  // not_supported with NAME:LINE and why: a kernel when it is looked for, and the module where
  // that is so of all its kernels.
  virtual Result<ModuleId> load(std::string_view ptx, std::string_view name) = 0;
  virtual Result<void> unload(ModuleId module) = 0;
  virtual Result<std::vector<KernelInfo>> kernels(ModuleId module) = 0;
  virtual Result<KernelId> find_kernel(ModuleId module, std::string_view name) = 0;
  struct Global {
    std::uint64_t address = 0, bytes = 0;
    bool operator==(const Global&) const = default;
  };
  virtual Result<Global> find_global(ModuleId module, std::string_view name) = 0;

  // A launch, checked (extents, shared memory, parameter bytes): invalid_argument names what.
  virtual Result<std::shared_ptr<Run>> prepare(Launch launch) = 0;
};

// Prepares and executes all groups on this thread.
Result<std::shared_ptr<Run>> run_here(Machine& machine, Launch launch);

}  // namespace partita::ptx
