// Graphs of kernels: each node runs on the context that it was given, on a thread of its own once
// the nodes before it have ended.
#include <algorithm>
#include <set>
#include <utility>

#include "drivers/green_ctx/testing/api.h"
#include "drivers/green_ctx/testing/world.h"

namespace partita::fake_cuda {
namespace {

using Needs = Call::Needs;

void run_graph(const Exec& exec) {
  World& at = world();
  std::set<abi::GraphNode> ended;  // under the lock
  std::vector<std::thread> threads;
  for (const auto& [handle, node] : exec.nodes) {
    threads.emplace_back([&, own = handle, run = &node] {
      std::unique_lock lock(at.mutex);
      at.changed.wait(lock, [&] {
        return std::ranges::all_of(run->after, [&](auto before) { return ended.contains(before); });
      });
      lock.unlock();
      run->run();
      lock.lock();
      ended.insert(own);
      at.changed.notify_all();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Where a node runs: on the primary context or on a green one.
Return place_of(Call& call, abi::Context context, Node& node) {
  if (!context) context = current_contexts().back();
  for (const auto& [device, known] : call->contexts) {
    if (known != context || call->primary[device] == 0) continue;
    node.place = std::make_shared<const Place>(call->whole(device));
    node.params.context = context;
    return Return::success;
  }
  for (const auto& [handle, green] : call->greens) {
    if (green.context != context) continue;
    node.place = green.place;
    node.green = handle;
    node.params.context = context;
    return Return::success;
  }
  return Return::invalid_context;
}

}  // namespace

extern "C" {

Return cuGraphCreate(abi::Graph* graph, unsigned flags) {
  Call call("cuGraphCreate", Needs::initialised);
  if (call.code() != Return::success) return call.code();
  if (flags != 0) return Return::invalid_value;
  *graph = call->handle<abi::Graph>();
  call->graphs.insert(*graph);
  return Return::success;
}

Return cuGraphDestroy(abi::Graph graph) {
  Call call("cuGraphDestroy", Needs::nothing);
  if (call.code() != Return::success) return call.code();
  if (call->graphs.erase(graph) == 0) return Return::invalid_value;
  std::erase_if(call->nodes, [&](const auto& node) { return node.second.graph == graph; });
  return Return::success;
}

Return cuGraphAddKernelNode_v2(abi::GraphNode* added, abi::Graph graph, const abi::GraphNode* after,
                               std::size_t count, const abi::KernelNodeParams* params) {
  Call call("cuGraphAddKernelNode", Needs::context);
  if (call.code() != Return::success) return call.code();
  if (!call->graphs.contains(graph)) return Return::invalid_value;
  Node node;
  node.graph = graph;
  node.params = *params;
  node.after.assign(after, after + count);
  if (std::set(node.after.begin(), node.after.end()).size() != count) return Return::invalid_value;
  for (const abi::GraphNode before : node.after) {
    const auto known = call->nodes.find(before);
    if (known == call->nodes.end() || known->second.graph != graph) return Return::invalid_value;
  }
  // A function brings the context that it was loaded in, and the given one is ignored.
  const auto function = call->functions.find(params->function);
  const bool own = params->function == nullptr && call->config.keeps_graph_contexts;
  if (params->function != nullptr && function == call->functions.end())
    return Return::invalid_value;
  const auto kernel = call->kernels.find(params->function ? function->second : params->kernel);
  if (kernel == call->kernels.end()) return Return::invalid_value;
  const Return placed = place_of(call, own ? params->context : nullptr, node);
  if (placed != Return::success) return placed;
  node.run = kernel_run(*call, kernel->second, *node.place, *params);
  if (!node.run) return Return::invalid_value;
  node.params.arguments = node.params.extra = nullptr;
  *added = call->handle<abi::GraphNode>();
  call->nodes[*added] = std::move(node);
  return Return::success;
}

Return cuGraphKernelNodeGetParams_v2(abi::GraphNode node, abi::KernelNodeParams* params) {
  Call call("cuGraphKernelNodeGetParams", Needs::initialised);
  if (call.code() != Return::success) return call.code();
  const auto known = call->nodes.find(node);
  if (known == call->nodes.end()) return Return::invalid_value;
  *params = known->second.params;
  return Return::success;
}

Return cuGraphInstantiateWithFlags(abi::GraphExec* exec, abi::Graph graph,
                                   unsigned long long flags) {
  Call call("cuGraphInstantiateWithFlags", Needs::context);
  if (call.code() != Return::success) return call.code();
  if (!call->graphs.contains(graph) || flags != 0) return Return::invalid_value;
  auto made = std::make_shared<Exec>();
  for (const auto& [handle, node] : call->nodes)
    if (node.graph == graph) made->nodes[handle] = node;
  *exec = call->handle<abi::GraphExec>();
  call->execs[*exec] = std::move(made);
  return Return::success;
}

Return cuGraphLaunch(abi::GraphExec exec, abi::Stream stream) {
  Call call("cuGraphLaunch", Needs::context);
  if (call.code() != Return::success) return call.code();
  std::shared_ptr<Stream> on;
  if (const Return found = find_stream(*call, stream, on); found != Return::success) return found;
  const auto known = call->execs.find(exec);
  if (known == call->execs.end()) return Return::invalid_value;
  for (const auto& [handle, node] : known->second->nodes)
    if (node.green && !call->greens.contains(node.green)) return Return::context_is_destroyed;
  enqueue(*call, on, [run = known->second] { run_graph(*run); });
  return Return::success;
}

Return cuGraphExecDestroy(abi::GraphExec exec) {
  Call call("cuGraphExecDestroy", Needs::nothing);
  if (call.code() != Return::success) return call.code();
  return call->execs.erase(exec) == 1 ? Return::success : Return::invalid_value;
}
}

}  // namespace partita::fake_cuda
