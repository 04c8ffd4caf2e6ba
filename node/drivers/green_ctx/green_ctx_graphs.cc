// The LaneGraphs side of the driver: a node's mask is the context that it names.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "device/lane_refusals.h"
#include "drivers/green_ctx/green_ctx_driver.h"

namespace partita::drivers::green_ctx {
namespace {

using device::DeviceKernel;
using device::LaneGraphNode;
using device::within;

std::string graph_call(std::string_view name, int graph) {
  return fmt::format("{}(graph {})", name, graph);
}

Result<void> check_order(const std::vector<LaneGraphNode>& nodes, const std::string& call) {
  if (nodes.empty()) return failed({ErrorCode::invalid_argument, "a graph without nodes", call});
  if (nodes.size() > kMaxGraphNodes)
    return failed({ErrorCode::limit, fmt::format("at most {} nodes", kMaxGraphNodes), call});
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const int after : nodes[i].after) {
      if (after < 0 || static_cast<std::size_t>(after) >= i)
        return failed(
            {ErrorCode::invalid_argument,
             fmt::format("node {} comes after node {}, which is no earlier one", i, after), call});
    }
  }
  return {};
}

}  // namespace

// One kernel, in the context of its lane. The device is asked whether it took that context: one
// that ignored it would run the kernel on other SMs.
Result<abi::GraphNode> GreenCtxDriver::add_node(abi::Graph graph, const LaneGraphNode& node,
                                                const std::vector<abi::GraphNode>& after) {
  const std::string call = fmt::format("create_graph(node on lane {})", node.lane);
  const DeviceKernel& run = *TRY(device::device_kernel(node.kernel, call));
  const auto lane = TRY(find_lane(node.lane, "create_graph"));
  abi::KernelNodeParams wanted = {}, got = {};
  std::tie(wanted.grid_x, wanted.grid_y, wanted.grid_z) = std::tuple_cat(run.grid);
  std::tie(wanted.block_x, wanted.block_y, wanted.block_z) = std::tuple_cat(run.block);
  wanted.shared_bytes = run.shared_bytes;
  wanted.arguments = const_cast<void**>(run.arguments.data());
  wanted.kernel = static_cast<abi::Kernel>(run.function);
  wanted.context = lane->context ? lane->context->context : gpu_->context();
  abi::GraphNode added = nullptr;
  const CudaApi& api = gpu_->api();
  abi::Return done = api.add_kernel_node(&added, graph, after.data(), after.size(), &wanted);
  if (done == abi::Return::success) done = api.kernel_node_params(added, &got);
  if (done != abi::Return::success) return failed(gpu_->library().error(done, call));
  if (got.context != wanted.context)
    return failed(
        {ErrorCode::not_supported, "this driver ignores the contexts of graph nodes", call});
  return added;
}

Result<int> GreenCtxDriver::create_graph(const std::vector<LaneGraphNode>& nodes) {
  const std::string call = fmt::format("create_graph({} nodes)", nodes.size());
  TRY(check_order(nodes, call));
  const std::lock_guard lock(mutex_);
  if (graphs_.size() >= kMaxGraphs)
    return failed({ErrorCode::limit, fmt::format("there are {} graphs", kMaxGraphs), call});
  const Current current(*gpu_);
  const CudaApi& api = gpu_->api();
  auto queue = TRY(open_queue(nullptr, call));
  GraphState state{.exec = nullptr, .queue = std::move(queue), .lanes = {}};
  abi::Graph graph = nullptr;
  TRY(gpu_->library().checked(api.create_graph(&graph, 0), call));
  std::vector<abi::GraphNode> added;
  Result<void> built;
  for (auto node = nodes.begin(); built && node != nodes.end(); ++node) {
    std::vector<abi::GraphNode> after;
    for (const int earlier : std::set<int>(node->after.begin(), node->after.end()))
      after.push_back(added[static_cast<std::size_t>(earlier)]);
    const auto made = add_node(graph, *node, after);
    made ? added.push_back(*made) : void(built = failed(made.error()));
  }
  if (built) built = gpu_->library().checked(api.instantiate(&state.exec, graph, 0), call);
  api.destroy_graph(graph);
  if (!built) return failed(built.error());
  for (const LaneGraphNode& node : nodes) {
    state.lanes.push_back(node.lane);
    ++lanes_.at(node.lane).graphs;
  }
  graphs_.emplace(next_graph_, std::move(state));
  return next_graph_++;
}

Result<void> GreenCtxDriver::launch_graph(int graph) {
  const std::string call = graph_call("launch_graph", graph);
  const std::lock_guard lock(mutex_);
  const auto found = TRY(find_graph(graph, "launch_graph"));
  const Current current(*gpu_);
  WorkQueue& queue = *found->queue;
  if (queue.at_most() >= kMaxQueued) {
    const auto queued = TRY(within(call, queue.unfinished(marks_)));
    if (queued >= kMaxQueued)
      return failed({ErrorCode::limit, fmt::format("{} runs are queued", kMaxQueued), call});
  }
  TRY(queue.give(marks_, call, [&](abi::Stream stream) {
    return gpu_->api().launch_graph(found->exec, stream);
  }));
  return {};
}

Result<void> GreenCtxDriver::synchronise_graph(int graph) {
  std::unique_lock lock(mutex_);
  const auto found = TRY(find_graph(graph, "synchronise_graph"));
  return wait_for(*found->queue, std::move(lock), graph_call("synchronise_graph", graph));
}

Result<void> GreenCtxDriver::destroy_graph(int graph) {
  const std::string call = graph_call("destroy_graph", graph);
  const std::lock_guard lock(mutex_);
  const auto found = TRY(find_graph(graph, "destroy_graph"));
  const Current current(*gpu_);
  const auto queued = TRY(within(call, found->queue->unfinished(marks_)));
  if (queued > 0)
    return failed({ErrorCode::in_use, fmt::format("{} runs unfinished", queued), call});
  gpu_->api().destroy_exec(found->exec);
  for (const int lane : found->lanes) --lanes_.at(lane).graphs;
  graphs_.erase(graph);
  return {};
}

Result<GreenCtxDriver::GraphState*> GreenCtxDriver::find_graph(int graph, std::string_view call) {
  const auto at = graphs_.find(graph);
  if (at == graphs_.end())
    return failed({ErrorCode::not_found, "no such graph", graph_call(call, graph)});
  return &at->second;
}

}  // namespace partita::drivers::green_ctx
