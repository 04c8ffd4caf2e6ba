// Graphs: by capture, and node by node (kernel, memcpy, memset, host, empty).
#include <vector>

#include "graph_calls.h"

namespace partita::remote::shim {

using client::kInvalidValue;
using client::kOk;

STREAM_FUNCTION(cudaStreamBeginCapture, _ptsz, (void* stream, int mode), {
  return session().captures.begin(number_of(stream), static_cast<std::uint32_t>(mode));
})
STREAM_FUNCTION(cudaStreamBeginCaptureToGraph, _ptsz,
                (void* stream, void* graph, void* const* after, const void* edges,
                 std::size_t count, int mode),
                {
                  if (count > 0 && after == nullptr) return kInvalidValue;
                  if (!are_plain(edges, count))
                    return unsupported("cudaStreamBeginCaptureToGraph (edges)");
                  return session().captures.begin(number_of(stream),
                                                  static_cast<std::uint32_t>(mode),
                                                  number_of(graph), numbers(after, count));
                })
static Status set_dependencies(void* stream, void** nodes, const void* edges, std::size_t count,
                               unsigned flags) {
  if (flags > 1 || (count > 0 && nodes == nullptr)) return kInvalidValue;
  if (!are_plain(edges, count)) return unsupported("cudaStreamUpdateCaptureDependencies (edges)");
  return session().captures.set_nodes_before(number_of(stream), numbers(nodes, count), flags == 0);
}
GUARDED(cudaStreamUpdateCaptureDependencies_v2,
        (void* stream, void** nodes, const void* edges, std::size_t count, unsigned flags),
        set_dependencies(stream, nodes, edges, count, flags))
#if PARTITA_CUDART >= 13
STREAM_FUNCTION(cudaStreamUpdateCaptureDependencies, _ptsz,
                (void* stream, void** nodes, const void* edges, std::size_t count, unsigned flags),
                { return set_dependencies(stream, nodes, edges, count, flags); })
#else
STREAM_FUNCTION(cudaStreamUpdateCaptureDependencies, _ptsz,
                (void* stream, void** nodes, std::size_t count, unsigned flags),
                { return set_dependencies(stream, nodes, nullptr, count, flags); })
#endif
STREAM_FUNCTION(cudaStreamEndCapture, _ptsz, (void* stream, void** graph), {
  void* made = nullptr;  // who captured into a graph knows it
  const Status status = give(session().captures.end(number_of(stream)), &made);
  if (graph != nullptr) *graph = made;
  return status;
})
STREAM_FUNCTION(cudaStreamIsCapturing, _ptsz, (void* stream, int* status), {
  const auto state = session().captures.state_of(number_of(stream));
  if (!state) return state.error();
  return hand_out(state->status, status);
})
static Status capture_info(void* stream, int* status, unsigned long long* id, void** graph,
                           void* const** nodes, const void** edges, std::size_t* count) {
  const auto state = session().captures.state_of(number_of(stream));
  if (!state) return state.error();
  if (status == nullptr) return kInvalidValue;
  *status = state->status;
  if (state->status == 0) return kOk;
  if (id != nullptr) *id = state->id;
  if (graph != nullptr) *graph = handle_of(state->graph);
  if (edges != nullptr) *edges = nullptr;
  if (nodes == nullptr && count == nullptr) return kOk;
  const auto known = session().captures.nodes_before(number_of(stream));
  if (!known) return known.error();
  thread_local std::vector<void*> told;  // until the thread's next call
  told.clear();
  for (const std::uint64_t node : *known) told.push_back(handle_of(node));
  if (nodes != nullptr) *nodes = told.data();
  if (count != nullptr) *count = told.size();
  return kOk;
}
STREAM_FUNCTION(cudaStreamGetCaptureInfo, _ptsz,
                (void* stream, int* status, unsigned long long* id, void** graph,
                 void* const** nodes, const void** edges, std::size_t* count),
                { return capture_info(stream, status, id, graph, nodes, edges, count); })
STREAM_FUNCTION(cudaStreamGetCaptureInfo_v2, _ptsz,
                (void* stream, int* status, unsigned long long* id, void** graph,
                 void* const** nodes, std::size_t* count),
                { return capture_info(stream, status, id, graph, nodes, nullptr, count); })
CUDA_EXPORT Status cudaThreadExchangeStreamCaptureMode(int* mode) {
  thread_local int now = 0;
  if (mode == nullptr || *mode < 0 || *mode > 2) return remember(kInvalidValue);
  std::swap(*mode, now);
  return kOk;
}

GUARDED(cudaGraphCreate, (void** graph, unsigned), give(session().graphs.create(), graph))
GUARDED(cudaGraphDestroy, (void* graph), session().graphs.destroy(number_of(graph)))
GUARDED(cudaGraphAddEmptyNode, (void** node, void* graph, void* const* after, std::size_t count),
        add_empty({node, graph, after, count}))
CUDA_EXPORT Status cudaGraphAddMemAllocNode(void** node, void* graph, void* const* after,
                                            std::size_t count, MemoryNode* what) {
  return guarded([&] {
    if (what == nullptr) return kInvalidValue;
    std::uint64_t address = 0;
    const Status status =
        add({node, graph, after, count}, [&](std::uint64_t in, client::Graphs::Nodes behind) {
          return session().graphs.add_memory(in, behind, address, what->bytes);
        });
    what->memory = handle_of(address);
    return status;
  });
}
// The memory is the graph's: the node is there for its place in the order.
CUDA_EXPORT Status cudaGraphAddMemFreeNode(void** node, void* graph, void* const* after,
                                           std::size_t count, void* memory) {
  return guarded([&] {
    if (!session().graph_memory.has(number_of(memory))) return kInvalidValue;
    return add({node, graph, after, count}, [](std::uint64_t in, client::Graphs::Nodes behind) {
      return session().graphs.add_empty(in, behind, client::NodeKind::release);
    });
  });
}
CUDA_EXPORT Status cudaDeviceGetGraphMemAttribute(int device, int attribute, void* value) {
  constexpr int kAttributes = 4;  // used and reserved, now and at most
  return guarded([&] {
    if (device < 0 || device >= session().device().count || attribute < 0 ||
        attribute >= kAttributes || value == nullptr)
      return kInvalidValue;
    *static_cast<std::uint64_t*>(value) = session().graph_memory.bytes();
    return kOk;
  });
}
CUDA_EXPORT Status cudaDeviceGraphMemTrim(int device) {
  return remember(device >= 0 && device < session().device().count ? kOk : client::kInvalidDevice);
}
GUARDED(cudaGraphClone, (void** clone, void* graph),
        give(session().graphs.clone(number_of(graph)), clone))
CUDA_EXPORT Status cudaGraphAddKernelNode(void** node, void* graph, void* const* after,
                                          std::size_t count, const KernelNode* what) {
  return guarded_launch([&] { return add_kernel({node, graph, after, count}, what); });
}
GUARDED(cudaGraphAddMemsetNode,
        (void** node, void* graph, void* const* after, std::size_t count, const MemsetNode* what),
        add_set({node, graph, after, count}, what))
GUARDED(cudaGraphAddHostNode,
        (void** node, void* graph, void* const* after, std::size_t count, const HostNode* what),
        add_host({node, graph, after, count}, what))
GUARDED(cudaGraphAddMemcpyNode1D,
        (void** node, void* graph, void* const* after, std::size_t count, void* to,
         const void* from, std::size_t bytes, int kind),
        add_copy({node, graph, after, count}, {to, from, bytes, kind}))
CUDA_EXPORT Status cudaGraphAddMemcpyNode(void** node, void* graph, void* const* after,
                                          std::size_t count, const Copy3* copy) {
  return guarded([&] {
    if (copy == nullptr) return kInvalidValue;
    const auto plain = as_plain(*copy);
    if (!plain) return unsupported("cudaGraphAddMemcpyNode (rows with a pitch)");
    return add_copy({node, graph, after, count}, *plain);
  });
}
GUARDED(cudaGraphAddChildGraphNode,
        (void** node, void* graph, void* const* after, std::size_t count, void* child),
        add_child({node, graph, after, count}, child))

CUDA_EXPORT Status cudaGraphAddEventRecordNode(void** node, void* graph, void* const* after,
                                               std::size_t count, void* event) {
  return guarded([&] { return add_event({node, graph, after, count}, event, true); });
}
CUDA_EXPORT Status cudaGraphAddEventWaitNode(void** node, void* graph, void* const* after,
                                             std::size_t count, void* event) {
  return guarded([&] { return add_event({node, graph, after, count}, event, false); });
}

// The handle is the address of a word on the device, or what the device has in its place.
CUDA_EXPORT Status cudaGraphConditionalHandleCreate(unsigned long long* handle, void* graph,
                                                    unsigned value, unsigned flags) {
  return guarded([&] {
    if (handle == nullptr || flags > 1) return kInvalidValue;
    const auto made = session().branches.add_condition(number_of(graph), value, flags != 0);
    if (!made) return made.error();
    *handle = *made;
    return kOk;
  });
}

static Status add_branch(const Where& where, BranchNode& what) {
  constexpr int kKinds = 3;
  if (what.kind < 0 || what.kind >= kKinds) return kInvalidValue;
  const client::Branches::Branch branch{.kind = static_cast<BranchKind>(what.kind + kIf),
                                        .condition = what.condition,
                                        .bodies = what.bodies};
  return add(where, [&](std::uint64_t in, client::Graphs::Nodes behind) {
    const auto made = session().branches.add(in, behind, branch);
    if (!made) return client::Got<std::uint64_t>(client::refused(made.error()));
    what.graphs = made->bodies;
    return client::Got<std::uint64_t>(made->node);
  });
}

CUDA_EXPORT Status cudaGraphAddNode_v2(void** node, void* graph, void* const* after,
                                       const void* edges, std::size_t count, AnyNode* what) {
  if (what == nullptr) return remember(kInvalidValue);
  if (!are_plain(edges, count)) return unsupported("cudaGraphAddNode (edges)");
  switch (what->type) {
    case 0:
      return cudaGraphAddKernelNode(node, graph, after, count, &what->kernel);
    case 1:
      return cudaGraphAddMemcpyNode(node, graph, after, count, &what->copy.copy);
    case 2:
      return cudaGraphAddMemsetNode(node, graph, after, count, &what->set);
    case 3:
      return cudaGraphAddHostNode(node, graph, after, count, &what->host);
    case 4:
      return cudaGraphAddChildGraphNode(node, graph, after, count, what->child);
    case 5:
      return cudaGraphAddEmptyNode(node, graph, after, count);
    case 6:
      return cudaGraphAddEventWaitNode(node, graph, after, count, what->event);
    case 7:
      return cudaGraphAddEventRecordNode(node, graph, after, count, what->event);
    case 10:
      return cudaGraphAddMemAllocNode(node, graph, after, count, &what->memory);
    case 11:
      return cudaGraphAddMemFreeNode(node, graph, after, count, what->freed);
    case 13:
      return guarded([&] { return add_branch({node, graph, after, count}, what->branch); });
    default:
      return unsupported("cudaGraphAddNode (semaphores)");
  }
}
#if PARTITA_CUDART >= 13
CUDA_EXPORT Status cudaGraphAddNode(void** node, void* graph, void* const* after, const void* edges,
                                    std::size_t count, AnyNode* what) {
  return cudaGraphAddNode_v2(node, graph, after, edges, count, what);
}
#else
CUDA_EXPORT Status cudaGraphAddNode(void** node, void* graph, void* const* after, std::size_t count,
                                    AnyNode* what) {
  return cudaGraphAddNode_v2(node, graph, after, nullptr, count, what);
}
#endif
GUARDED(cudaGraphInstantiateWithFlags, (void** exec, void* graph, unsigned long long flags),
        give(session().graphs.instantiate(number_of(graph), flags), exec))
GUARDED(cudaGraphExecGetFlags, (void* exec, unsigned long long* flags),
        give(session().graphs.flags(number_of(exec)), flags))
CUDA_EXPORT Status cudaGraphInstantiate(void** exec, void* graph, unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(exec, graph, flags);
}
CUDA_EXPORT Status cudaGraphLaunch(void* exec, void* stream) {
  return guarded_launch(
      [&] { return session().graphs.launch(number_of(exec), number_of(stream)); });
}
CUDA_EXPORT Status cudaGraphLaunch_ptsz(void* exec, void* stream) {
  return cudaGraphLaunch(exec, own_default(stream));
}
CUDA_EXPORT Status cudaGraphUpload(void*, void*) { return kOk; }
CUDA_EXPORT Status cudaGraphUpload_ptsz(void*, void*) { return kOk; }
GUARDED(cudaGraphExecDestroy, (void* exec), session().graphs.destroy_exec(number_of(exec)))

}  // namespace partita::remote::shim
