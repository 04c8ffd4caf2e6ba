// GraphKernels: what kernels of a task graph file really run on threads of this machine: PTX, by
// ptx::Machine with every access checked, or functions of shared libraries, which are trusted; and
// the buffers that they work on, which both see.
// Limits: kSpareBytes of device memory for what PTX declares itself; files as Files.
// Thread rule: one thread; the work itself from any threads at the same time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/elements.h"
#include "base/files.h"
#include "base/result.h"
#include "base/shared_library.h"
#include "plan/graph.h"
#include "ptx/machine.h"

namespace partita::carry {

inline constexpr std::uint64_t kSpareBytes = std::uint64_t{256} << 20;

class GraphKernels {
 public:
  // Reads the PTX and checks kernels against it: their names, arguments, sizes; and that libraries
  // and what fills buffers are there. Paths are relative to the graph's `file`, which with the line
  // is the context of a refusal. `files` outlives this.
  static Result<std::unique_ptr<GraphKernels>> open(Files& files, const std::string& file,
                                                    plan::GraphProblem problem);
  ~GraphKernels();
  GraphKernels(const GraphKernels&) = delete;
  GraphKernels& operator=(const GraphKernels&) = delete;

  // Before each run of the graph: loads libraries, and fills buffers as they are at the begin.
  Result<void> arm();
  // What the work-groups of a task run, which has code. Once one has done wrong, all kernels of PTX
  // end soon, and no function of a library is called any more.
  std::function<void(std::int64_t group)> work(int task);

  // After a run: what a kernel did wrong first, as text for people; empty: nothing.
  std::string fault() const;
  // What kernels of PTX have printed, in the order of the file.
  std::string printed() const;
  // The bytes of a buffer, by its number.
  Result<std::span<const std::byte>> bytes(std::size_t buffer) const;
  // Writes the buffers that have a file to be saved to.
  Result<void> save();

 private:
  using Function = void (*)(std::int64_t group, void* const* arguments);
  struct Kernel;

  GraphKernels(Files& files, std::string file, plan::GraphProblem problem);
  Result<void> check_buffers();
  Result<void> check(const plan::GraphTask& task, Kernel& kernel);
  Result<void> check_ptx(const plan::GraphTask& task, Kernel& kernel);
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
  std::unique_ptr<ptx::Machine> machine_;
  std::map<std::string, ptx::ModuleId> modules_;    // by path
  std::map<std::string, SharedLibrary> libraries_;  // by path
  std::map<std::string, std::size_t> buffer_of_;    // by name
  std::vector<std::uint64_t> addresses_;            // of buffers, once they are taken
  std::vector<std::unique_ptr<Kernel>> kernels_;    // by task; null: it has no code
  std::atomic<const Kernel*> faulty_ = nullptr;     // the first that did wrong
};

}  // namespace partita::carry
