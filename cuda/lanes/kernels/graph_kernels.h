// GraphKernels: what kernels of a task graph file really run, and the buffers that they work on. On
// threads of this machine: PTX, by ptx::Machine with every access checked, or functions of shared
// libraries, which are trusted and see the same buffers. On a GPU: PTX on NVIDIA's, HIP on AMD's.
// Limits: kSpareBytes of device memory for what PTX declares itself; files as Files.
// Thread rule: one thread; the work itself from any threads at the same time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/elements.h"
#include "base/files.h"
#include "base/result.h"
#include "base/shared_library.h"
#include "device/lane_memory.h"
#include "lanes/kernels/gpu_buffers.h"
#include "lanes/task_graph.h"
#include "plan/graph.h"
#include "ptx/machine.h"

namespace partita::carry {

inline constexpr std::uint64_t kSpareBytes = std::uint64_t{256} << 20;

class GraphKernels {
 public:
  // Reads the PTX and checks kernels against it: their names, arguments, sizes; and that libraries
  // and what fills buffers are there. Paths are relative to the graph's `file`, which with the line
  // is the context of a refusal. For a GPU, whose memory it is then, code is loaded onto it, and
  // kernels without code for it are refused. `files` and `gpu` outlive this.
  static Result<std::unique_ptr<GraphKernels>> open(Files& files, const std::string& file,
                                                    plan::GraphProblem problem,
                                                    device::LaneMemory* gpu = nullptr);
  ~GraphKernels();
  GraphKernels(const GraphKernels&) = delete;
  GraphKernels& operator=(const GraphKernels&) = delete;

  // Before each run of the graph: loads libraries, and fills buffers as they are at the begin.
  Result<void> arm();
  // What a task runs, which has code. On threads, once one has done wrong, all kernels of PTX end
  // soon, and no function of a library is called any more.
  void put(int task, exec::LaneWork& work);

  // After a run on threads: what a kernel did wrong first, as text for people; empty: nothing.
  std::string fault() const;
  // What kernels of PTX have printed, in the order of the file.
  std::string printed() const;
  // The bytes of a buffer, by its number; on a GPU of those to be saved.
  Result<std::span<const std::byte>> bytes(std::size_t buffer) const;
  // Writes the buffers that have a file to be saved to.
  Result<void> save();

 private:
  using Function = void (*)(std::int64_t group, void* const* arguments);
  struct Kernel;

  GraphKernels(Files& files, std::string file, plan::GraphProblem problem, device::LaneMemory* gpu);
  Result<void> check_buffers();
  Result<void> check(const plan::GraphTask& task, Kernel& kernel);
  Result<void> check_file(const plan::GraphTask& task, const std::string& file) const;
  Result<void> check_ptx(const plan::GraphTask& task, Kernel& kernel);
  Result<void> load_on_gpu(const plan::GraphTask& task, Kernel& kernel);
  Result<void> take_buffers();
  Result<void> fill(std::size_t buffer);
  Result<void> find_function(const plan::GraphTask& task, Kernel& kernel);
  Result<std::vector<std::uint64_t>> values(const plan::GraphTask& task) const;
  Result<void> prepare(const plan::GraphTask& task, Kernel& kernel);
  void run(Kernel& kernel, std::int64_t group);
  std::string where(int line) const;

  Files& files_;
  const std::string file_;
  const plan::GraphProblem problem_;
  device::LaneMemory* const gpu_;  // null: threads
  std::optional<GpuBuffers> on_gpu_;
  std::map<std::string, int> loaded_;  // onto the GPU, by path
  std::unique_ptr<ptx::Machine> machine_;
  std::map<std::string, ptx::ModuleId> modules_;    // by path
  std::map<std::string, SharedLibrary> libraries_;  // by path
  std::map<std::string, std::size_t> buffer_of_;    // by name
  std::vector<std::uint64_t> addresses_;            // of buffers, once they are taken
  std::vector<std::unique_ptr<Kernel>> kernels_;    // by task; null: it has no code
  std::atomic<const Kernel*> faulty_ = nullptr;     // the first that did wrong
};

}  // namespace partita::carry
