// The vocabulary of task graphs: GraphProblem (tasks of the CPU, kernels on lanes and copies, what
// each waits for, how much work it is) and GraphRun (what ran when on which units). Values; work in
// microseconds, times in nanoseconds from the begin of the run.
// Limits: kMaxGraphTasks tasks, kMaxGraphEdges dependencies.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hw/topology.h"

namespace partita::plan {

inline constexpr std::size_t kMaxGraphTasks = 100'000;
inline constexpr std::size_t kMaxGraphEdges = 1'000'000;
inline constexpr int kMaxGraphGroups = 1'000'000;
inline constexpr double kMaxGraphWorkUs = 1e9;  // of a task, or a work-group
inline constexpr double kMaxGraphBytes = 1e12;  // of a copy
inline constexpr std::size_t kMaxGraphBuffers = 10'000;
inline constexpr double kMaxGraphBufferBytes = 17'179'869'184;  // of one: 16 GiB
inline constexpr std::size_t kMaxGraphArguments = 1'000;        // of a kernel

enum class GraphTaskKind { cpu, lane, copy };
const char* to_string(GraphTaskKind kind);

// Memory that kernels of the graph work on.
struct GraphBuffer {
  std::string name;           // unique
  std::string type = "f32";   // of its elements, a word of base/elements.h
  std::uint64_t count = 1;    // of elements
  std::string fill = "zero";  // as fill_elements has it, or @FILE of raw bytes
  std::string save = {};      // file that it is written to after the run; empty: none
  int line = 0;               // of the file; 0: of none
  bool operator==(const GraphBuffer&) const = default;
};

// What a kernel runs: one of a PTX file, in blocks of threads, on AMD's GPUs its equal in HIP; or a
// function of a shared library, `void NAME(int64_t group, void* const* arguments)`, each argument a
// pointer to its value.
struct GraphCode {
  std::string ptx, library;  // the file: the library, or PTX or HIP or both; empty: none
  std::string kernel;        // its name there
  std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};  // not of a library
  std::uint32_t shared = 0;                 // likewise: bytes of dynamic shared memory of a block
  std::vector<std::string> arguments = {};  // names of buffers, or TYPE:VALUE
  std::string hip = {};                     // the file
  bool operator==(const GraphCode&) const = default;
};

struct GraphTask {
  std::string name;  // unique
  GraphTaskKind kind = GraphTaskKind::lane;
  std::vector<int> after;            // tasks that must have ended; each once
  double work_us = 0;                // cpu: of the task; lane: of each work-group on a unit alone
  int groups = 1;                    // lane: work-groups; blocks of its grid
  int units = 0;                     // lane: that it shall get; 0: `share` of those there are
  double share = 1;                  // lane, where units is 0: above 0, at most 1
  double bytes = 0;                  // copy
  std::string policy;                // lane: of its mask; empty: the graph's
  std::optional<int> overlap_limit;  // lane: none: the graph's
  std::optional<GraphCode> code;     // lane: real work; work_us may be 0 then
  int line = 0;                      // of the file; 0: of none
  bool operator==(const GraphTask&) const = default;
};

struct GraphProblem {
  std::string name;
  std::vector<GraphTask> tasks;
  std::string policy = "fair";
  int overlap_limit = 0;  // units of a mask that may run other kernels already
  std::vector<GraphBuffer> buffers = {};
  bool operator==(const GraphProblem&) const = default;
};

// The units that a task shall get of so many: at least one; may be more than there are where the
// task names a number.
int wanted_units(const GraphTask& task, int units);

struct GraphTaskRun {
  std::int64_t begin_ns = 0, end_ns = 0;
  hw::UnitMask mask;  // of a kernel
  int lane = -1;      // of a kernel, from 0
  int thread = -1;    // of a task of the CPU or a copy, from 0; a kernel's in a sequential run
  bool operator==(const GraphTaskRun&) const = default;
};

// What became of the dependencies: the task before had ended when anybody looked; the device
// waited, by the order of a lane or an event; a task was held back on the host.
struct GraphWaits {
  long skipped = 0, on_device = 0, on_host = 0;
  bool operator==(const GraphWaits&) const = default;
};

struct GraphRun {
  std::string driver;  // "cpu_mask", "sim", "sequential"
  hw::Topology topology;
  int threads = 1;
  std::vector<GraphTaskRun> tasks;  // as the problem's
  GraphWaits waits;
  int lanes = 0;
  bool operator==(const GraphRun&) const = default;
};

// From the first begin to the last end.
std::int64_t run_ns(const GraphRun& run);
// The tasks' times summed.
std::int64_t work_ns(const GraphRun& run);

// Tasks of which each waits for the one before, and their times summed.
struct CriticalPath {
  std::int64_t ns = 0;
  std::vector<int> tasks;  // first to last
};
// The one that takes longest with the times of the run; the graph has no cycle.
CriticalPath critical_path(const GraphProblem& problem, const GraphRun& run);

}  // namespace partita::plan
