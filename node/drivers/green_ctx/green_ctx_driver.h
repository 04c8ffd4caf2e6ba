// GreenCtxDriver: the LaneDriver door on NVIDIA's green contexts. The SMs are split once into
// atoms, and any atoms together make a mask: a green context and a stream of it for each lane. A
// lane over all units is a plain stream of the primary context, so it also has the SMs that belong
// to no atom; no other mask has those. Units are numbered by this driver: CUDA tells neither the
// SMs of an atom (CudaKernels finds them by running on it) nor its GPC, so the clusters of
// info().topology are those of the board's data, not of this board. A kernel's function is a
// CUkernel of cuLibraryGetKernel, which belongs to no context, so any mask fits. Events are CUDA's
// without timing. Owns its contexts, streams, events and graphs; its end waits for what is queued.
// Limits: the constants below, groups 2^31 - 1 per kernel.
// Thread rule: any thread, at the same time; a green context is never current to any. Making and
// destroying lanes, and the first launch of a kernel in a context, may wait for kernels that run.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "device/lane_driver.h"
#include "device/lane_graphs.h"
#include "drivers/green_ctx/atoms.h"
#include "drivers/green_ctx/context_pool.h"
#include "drivers/green_ctx/gpu_memory.h"
#include "drivers/green_ctx/work_queue.h"

namespace partita::drivers::green_ctx {

inline constexpr int kMaxLanes = 128;
inline constexpr int kMaxEvents = 4096;
// A GPU's own queues hold about a thousand launches and block the caller when they are full.
inline constexpr std::int64_t kMaxQueued = 256;
inline constexpr int kMaxGraphs = 64;
inline constexpr int kMaxGraphNodes = 4096;

struct Options {
  std::string gpu = "0";  // ordinal or UUID
  int atom = 0;           // SMs per atom; 0: what the device keeps together (8 on Hopper)
  std::string vendor_library = "libcuda.so.1";
};

class GreenCtxDriver final : public device::LaneDriver, private device::LaneGraphs {
 public:
  // environment: no library, or one older than CUDA 12.5; not_found: no such GPU; invalid_argument:
  // the device makes no atoms of that size; not_supported: it has no green contexts.
  static Result<std::unique_ptr<GreenCtxDriver>> open(const Options& options);
  ~GreenCtxDriver() override;
  GreenCtxDriver(const GreenCtxDriver&) = delete;
  GreenCtxDriver& operator=(const GreenCtxDriver&) = delete;

  Result<device::LaneDriverInfo> info() override;
  Result<int> create_lane(const hw::UnitMask& mask) override;
  Result<void> destroy_lane(int lane) override;
  Result<device::LaneState> query(int lane) override;
  Result<void> launch(int lane, device::Kernel kernel) override;
  Result<void> synchronise(int lane) override;
  Result<int> record_event(int lane) override;
  Result<bool> wait_event(int lane, int event) override;
  Result<bool> event_finished(int event) override;
  Result<void> destroy_event(int event) override;
  device::LaneGraphs* graphs() override { return this; }
  device::LaneMemory* memory() override { return &memory_; }

  // The GPU, shared with whoever has memory or kernels on it.
  std::shared_ptr<const PrimaryContext> gpu() const { return gpu_; }
  // Green contexts that exist: of lanes, of graphs, and kept.
  std::size_t contexts();

 private:
  struct Lane {
    hw::UnitMask mask;
    std::shared_ptr<const GreenContext> context;  // null: the whole device
    std::unique_ptr<WorkQueue> queue;
    int graphs = 0;  // that have nodes on it
  };
  struct GraphState {
    abi::GraphExec exec = nullptr;
    std::unique_ptr<WorkQueue> queue;  // its runs
    std::vector<int> lanes;
  };

  GreenCtxDriver(std::shared_ptr<const PrimaryContext> gpu, Atoms atoms);
  Result<int> create_graph(const std::vector<device::LaneGraphNode>& nodes) override;
  Result<void> launch_graph(int graph) override;
  Result<void> synchronise_graph(int graph) override;
  Result<void> destroy_graph(int graph) override;

  Result<std::unique_ptr<WorkQueue>> open_queue(const GreenContext* context,
                                                const std::string& call);
  Result<void> give(int lane, std::string_view call,
                    const std::function<abi::Return(abi::Stream)>& work);
  Result<Lane*> find_lane(int lane, std::string_view call);
  Result<Lane*> find_with_room(int lane, std::string_view call);
  Result<std::shared_ptr<Mark>> find_event(int event, std::string_view call);
  Result<GraphState*> find_graph(int graph, std::string_view call);
  Result<void> wait_for(const WorkQueue& queue, std::unique_lock<std::mutex> lock,
                        const std::string& call);
  Result<abi::GraphNode> add_node(abi::Graph graph, const device::LaneGraphNode& node,
                                  const std::vector<abi::GraphNode>& after);

  const std::shared_ptr<const PrimaryContext> gpu_;
  const Atoms atoms_;
  GpuMemory memory_;
  std::mutex mutex_;  // of everything below
  Marks marks_;
  ContextPool pool_;
  std::map<int, Lane> lanes_;
  std::map<int, std::shared_ptr<Mark>> events_;
  std::map<int, GraphState> graphs_;
  int next_lane_ = 1;
  int next_event_ = 1;
  int next_graph_ = 1;
};

}  // namespace partita::drivers::green_ctx
