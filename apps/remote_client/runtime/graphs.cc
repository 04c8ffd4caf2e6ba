// Graphs: by capture, and node by node (kernel, memcpy, memset, host, empty).
#include <algorithm>
#include <vector>

#include "copies.h"

namespace partita::remote::shim {
namespace {

using client::kInvalidValue;
using client::kOk;

// A node's handle is its number; dependencies come as an array of them.
std::vector<std::uint64_t> numbers(void* const* nodes, std::size_t count) {
  std::vector<std::uint64_t> made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(number_of(nodes[i]));
  return made;
}

// Edges as such, which order whole nodes.
bool are_plain(const void* edges, std::size_t count) {
  constexpr std::size_t kEdge = 8;  // cudaGraphEdgeData
  const auto* bytes = static_cast<const unsigned char*>(edges);
  return edges == nullptr ||
         std::all_of(bytes, bytes + count * kEdge, [](unsigned char byte) { return byte == 0; });
}

struct Where {
  void** node;
  void* graph;
  void* const* after;
  std::size_t count;
};

template <class Add>
Status add(const Where& where, Add&& make) {
  if (where.node == nullptr || (where.count > 0 && where.after == nullptr)) return kInvalidValue;
  const std::vector<std::uint64_t> after = numbers(where.after, where.count);
  return give(make(number_of(where.graph), client::Graphs::Nodes(after)), where.node);
}

Status add_copy(const Where& where, const PlainCopy& copy) {
  if (const Status status = session().ready(); status != kOk) return status;
  const bool to_device = session().memory.contains(number_of(copy.to));
  const bool from_device = session().memory.contains(number_of(copy.from));
  return add(where, [&](std::uint64_t graph, client::Graphs::Nodes after) {
    client::Session& s = session();
    if (to_device && from_device)
      return s.graphs.add_copy_device(
          graph, after,
          CopyDevice{
              .to = {number_of(copy.to)}, .from = {number_of(copy.from)}, .width = copy.bytes});
    if (to_device)
      return s.graphs.add_copy_in(graph, after, number_of(copy.to), copy.from, copy.bytes);
    if (from_device)
      return s.graphs.add_copy_out(graph, after, copy.to, number_of(copy.from), copy.bytes);
    return client::Got<std::uint64_t>(client::refused(kInvalidValue));
  });
}

client::LaunchShape shape_of(const KernelNode& node) {
  return {.grid = {node.grid.x, node.grid.y, node.grid.z},
          .block = {node.block.x, node.block.y, node.block.z},
          .shared_bytes = node.shared_bytes};
}

// The server hears of nodes later, and what it refuses then ends the session.
client::Got<Set> set_of(const MemsetNode* node) {
  if (node == nullptr) return client::refused(kInvalidValue);
  const auto is_devices =
      sets_device({node->to, node->pitch, node->value, node->element, node->width, node->height});
  if (!is_devices) return client::refused(is_devices.error());
  return Set{.to = {number_of(node->to)},
             .value = node->value,
             .element = node->element,
             .count = node->width,
             .rows = node->height,
             .pitch = node->pitch};
}

// A copy in space that is one run of bytes.
client::Got<PlainCopy> as_plain(const Copy3& copy) {
  const auto whole = [&](const Pitched& memory) {
    return (copy.extent.y <= 1 && copy.extent.z <= 1) || memory.pitch == copy.extent.x;
  };
  if (copy.from_array != nullptr || copy.to_array != nullptr || !whole(copy.from) ||
      !whole(copy.to) || copy.extent.z > 1)
    return client::refused(client::kNotSupported);
  const auto at = [](const Pitched& memory, const Place3& place) {
    return static_cast<std::byte*>(memory.memory) + place.y * memory.pitch + place.x;
  };
  return PlainCopy{at(copy.to, copy.to_place), at(copy.from, copy.from_place),
                   copy.extent.x * std::max<std::size_t>(copy.extent.y, 1), copy.kind};
}

}  // namespace

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
CUDA_EXPORT Status cudaStreamUpdateCaptureDependencies_v2(void* stream, void** nodes,
                                                          const void* edges, std::size_t count,
                                                          unsigned flags) {
  return guarded([&] { return set_dependencies(stream, nodes, edges, count, flags); });
}
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
  if (status == nullptr) return kInvalidValue;
  *status = state->status;
  return kOk;
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

CUDA_EXPORT Status cudaGraphCreate(void** graph, unsigned) {
  return guarded([&] { return give(session().graphs.create(), graph); });
}
CUDA_EXPORT Status cudaGraphDestroy(void* graph) {
  return guarded([&] { return session().graphs.destroy(number_of(graph)); });
}
CUDA_EXPORT Status cudaGraphAddEmptyNode(void** node, void* graph, void* const* after,
                                         std::size_t count) {
  return guarded([&] {
    return add({node, graph, after, count}, [](std::uint64_t in, client::Graphs::Nodes behind) {
      return session().graphs.add_empty(in, behind);
    });
  });
}
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
  if (!session().graph_memory.has(number_of(memory))) return remember(kInvalidValue);
  return cudaGraphAddEmptyNode(node, graph, after, count);
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
static Status set_kernel_node(void* graph, void* node, const KernelNode* what) {
  if (what == nullptr) return kInvalidValue;
  if (what->extra != nullptr) return unsupported("parameters of a kernel node (extra)");
  client::Kernel* kernel = session().kernels.modules().kernel_of(what->function);
  if (kernel == nullptr) return client::kInvalidFunction;
  return session().graphs.set_launch(number_of(graph), number_of(node), *kernel, shape_of(*what),
                                     what->parameters);
}
CUDA_EXPORT Status cudaGraphKernelNodeSetParams(void* node, const KernelNode* what) {
  return guarded_launch([&] {
    const auto graph = session().graphs.graph_of(number_of(node));
    return graph ? set_kernel_node(handle_of(*graph), node, what) : graph.error();
  });
}
CUDA_EXPORT Status cudaGraphExecKernelNodeSetParams(void* exec, void* node,
                                                    const KernelNode* what) {
  return guarded_launch([&] { return set_kernel_node(exec, node, what); });
}
CUDA_EXPORT Status cudaGraphClone(void** clone, void* graph) {
  return guarded([&] { return give(session().graphs.clone(number_of(graph)), clone); });
}
CUDA_EXPORT Status cudaGraphNodeFindInClone(void** node, void* original, void* clone) {
  return guarded([&] {
    return give(client::node_in_clone(session(), number_of(original), number_of(clone)), node);
  });
}
struct UpdateResult {  // cudaGraphExecUpdateResultInfo
  int result;
  void *error_node, *error_from_node;
};
CUDA_EXPORT Status cudaGraphExecUpdate(void* exec, void* graph, UpdateResult* result) {
  return guarded([&] {
    constexpr int kSuccess = 0, kTopologyChanged = 2;
    const Status status = session().graphs.update(number_of(exec), number_of(graph));
    if (result != nullptr)
      *result = {status == kOk ? kSuccess : kTopologyChanged, nullptr, nullptr};
    return status;
  });
}
CUDA_EXPORT Status cudaGraphAddKernelNode(void** node, void* graph, void* const* after,
                                          std::size_t count, const KernelNode* what) {
  return guarded_launch([&] {
    if (what == nullptr) return kInvalidValue;
    if (what->extra != nullptr) return unsupported("cudaGraphAddKernelNode (extra)");
    client::Kernel* kernel = session().kernels.modules().kernel_of(what->function);
    if (kernel == nullptr) return client::kInvalidFunction;
    return add({node, graph, after, count}, [&](std::uint64_t in, client::Graphs::Nodes behind) {
      return session().graphs.add_launch(in, behind, *kernel, shape_of(*what), what->parameters);
    });
  });
}
CUDA_EXPORT Status cudaGraphAddMemsetNode(void** node, void* graph, void* const* after,
                                          std::size_t count, const MemsetNode* what) {
  return guarded([&] {
    const auto set = set_of(what);
    if (!set) return set.error();
    return add({node, graph, after, count}, [&](std::uint64_t in, client::Graphs::Nodes behind) {
      return session().graphs.add_set(in, behind, *set);
    });
  });
}
CUDA_EXPORT Status cudaGraphMemsetNodeSetParams(void* node, const MemsetNode* what) {
  return guarded([&] {
    const auto graph = session().graphs.graph_of(number_of(node));
    if (!graph) return graph.error();
    const auto set = set_of(what);
    return set ? session().graphs.set_set(*graph, number_of(node), *set) : set.error();
  });
}
CUDA_EXPORT Status cudaGraphExecMemsetNodeSetParams(void* exec, void* node,
                                                    const MemsetNode* what) {
  return guarded([&] {
    const auto set = set_of(what);
    return set ? session().graphs.set_set(number_of(exec), number_of(node), *set) : set.error();
  });
}
CUDA_EXPORT Status cudaGraphAddHostNode(void** node, void* graph, void* const* after,
                                        std::size_t count, const HostNode* what) {
  return guarded([&] {
    if (what == nullptr || what->function == nullptr) return kInvalidValue;
    return add({node, graph, after, count}, [&](std::uint64_t in, client::Graphs::Nodes behind) {
      return session().graphs.add_call(in, behind,
                                       {.function = what->function, .data = what->data});
    });
  });
}
CUDA_EXPORT Status cudaGraphAddMemcpyNode1D(void** node, void* graph, void* const* after,
                                            std::size_t count, void* to, const void* from,
                                            std::size_t bytes, int kind) {
  return guarded([&] { return add_copy({node, graph, after, count}, {to, from, bytes, kind}); });
}
CUDA_EXPORT Status cudaGraphAddMemcpyNode(void** node, void* graph, void* const* after,
                                          std::size_t count, const Copy3* copy) {
  return guarded([&] {
    if (copy == nullptr) return kInvalidValue;
    const auto plain = as_plain(*copy);
    if (!plain) return unsupported("cudaGraphAddMemcpyNode (rows with a pitch)");
    return add_copy({node, graph, after, count}, *plain);
  });
}
CUDA_EXPORT Status cudaGraphAddChildGraphNode(void** node, void* graph, void* const* after,
                                              std::size_t count, void* child) {
  return guarded([&] {
    return add({node, graph, after, count}, [&](std::uint64_t in, client::Graphs::Nodes behind) {
      return session().branches.add_child(in, behind, number_of(child));
    });
  });
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
    case 10:
      return cudaGraphAddMemAllocNode(node, graph, after, count, &what->memory);
    case 11:
      return cudaGraphAddMemFreeNode(node, graph, after, count, what->freed);
    case 13:
      return guarded([&] { return add_branch({node, graph, after, count}, what->branch); });
    default:
      return unsupported("cudaGraphAddNode (events, semaphores)");
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
CUDA_EXPORT Status cudaGraphGetNodes(void* graph, void** nodes, std::size_t* count) {
  return guarded([&] {
    const auto known = session().graphs.nodes_of(number_of(graph));
    if (!known) return known.error();
    if (count == nullptr) return kInvalidValue;
    if (nodes == nullptr) {
      *count = known->size();
      return kOk;
    }
    for (std::size_t i = 0; i < *count; ++i)
      nodes[i] = i < known->size() ? handle_of((*known)[i]) : nullptr;
    *count = std::min(*count, known->size());
    return kOk;
  });
}

CUDA_EXPORT Status cudaGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  return guarded([&] { return give(session().graphs.instantiate(number_of(graph)), exec); });
}
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
CUDA_EXPORT Status cudaGraphExecDestroy(void* exec) {
  return guarded([&] { return session().graphs.destroy_exec(number_of(exec)); });
}

}  // namespace partita::remote::shim
