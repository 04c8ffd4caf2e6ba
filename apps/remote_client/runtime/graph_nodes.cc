// Nodes of graphs: what they are, and how they change, in graphs and in executable ones.
#include "graph_calls.h"

namespace partita::remote::shim {

using client::kInvalidValue;
using client::kOk;

// ---- what there is

GUARDED(cudaGraphGetNodes, (void* graph, void** nodes, std::size_t* count),
        tell_nodes(graph, nodes, count))
GUARDED(cudaGraphGetRootNodes, (void* graph, void** nodes, std::size_t* count),
        tell_roots(graph, nodes, count))
GUARDED(cudaGraphGetEdges_v2, (void* graph, void** from, void** to, void* data, std::size_t* count),
        tell_edges(graph, {from, to, data}, count))
GUARDED(cudaGraphNodeGetDependencies_v2, (void* node, void** nodes, void* data, std::size_t* count),
        tell_before(node, nodes, data, count))
GUARDED(cudaGraphNodeGetDependentNodes_v2,
        (void* node, void** nodes, void* data, std::size_t* count),
        tell_behind(node, nodes, data, count))
GUARDED(cudaGraphAddDependencies_v2,
        (void* graph, void* const* from, void* const* to, const void* data, std::size_t count),
        add_edges(graph, {from, to, data, count}))
GUARDED(cudaGraphRemoveDependencies_v2,
        (void* graph, void* const* from, void* const* to, const void* data, std::size_t count),
        remove_edges(graph, {from, to, data, count}))
#if PARTITA_CUDART >= 13
CUDA_EXPORT Status cudaGraphGetEdges(void* graph, void** from, void** to, void* data,
                                     std::size_t* count) {
  return cudaGraphGetEdges_v2(graph, from, to, data, count);
}
CUDA_EXPORT Status cudaGraphNodeGetDependencies(void* node, void** nodes, void* data,
                                                std::size_t* count) {
  return cudaGraphNodeGetDependencies_v2(node, nodes, data, count);
}
CUDA_EXPORT Status cudaGraphNodeGetDependentNodes(void* node, void** nodes, void* data,
                                                  std::size_t* count) {
  return cudaGraphNodeGetDependentNodes_v2(node, nodes, data, count);
}
CUDA_EXPORT Status cudaGraphAddDependencies(void* graph, void* const* from, void* const* to,
                                            const void* data, std::size_t count) {
  return cudaGraphAddDependencies_v2(graph, from, to, data, count);
}
CUDA_EXPORT Status cudaGraphRemoveDependencies(void* graph, void* const* from, void* const* to,
                                               const void* data, std::size_t count) {
  return cudaGraphRemoveDependencies_v2(graph, from, to, data, count);
}
#else
CUDA_EXPORT Status cudaGraphGetEdges(void* graph, void** from, void** to, std::size_t* count) {
  return cudaGraphGetEdges_v2(graph, from, to, nullptr, count);
}
CUDA_EXPORT Status cudaGraphNodeGetDependencies(void* node, void** nodes, std::size_t* count) {
  return cudaGraphNodeGetDependencies_v2(node, nodes, nullptr, count);
}
CUDA_EXPORT Status cudaGraphNodeGetDependentNodes(void* node, void** nodes, std::size_t* count) {
  return cudaGraphNodeGetDependentNodes_v2(node, nodes, nullptr, count);
}
CUDA_EXPORT Status cudaGraphAddDependencies(void* graph, void* const* from, void* const* to,
                                            std::size_t count) {
  return cudaGraphAddDependencies_v2(graph, from, to, nullptr, count);
}
CUDA_EXPORT Status cudaGraphRemoveDependencies(void* graph, void* const* from, void* const* to,
                                               std::size_t count) {
  return cudaGraphRemoveDependencies_v2(graph, from, to, nullptr, count);
}
#endif
GUARDED(cudaGraphNodeGetType, (void* node, int* type), tell_type(node, type))
GUARDED(cudaGraphChildGraphNodeGetGraph, (void* node, void** graph), tell_child(node, graph))
GUARDED(cudaGraphNodeFindInClone, (void** node, void* original, void* clone),
        give(session().nodes.in_clone(number_of(original), number_of(clone)), node))
GUARDED(cudaGraphKernelNodeGetParams, (void* node, KernelNode* what), tell_kernel(node, what, true))
CUDA_EXPORT Status cudaGraphMemcpyNodeGetParams(void* node, Copy3* what) {
  return guarded([&] {
    const auto copy = session().nodes.copy_of(number_of(node));
    if (!copy) return named(copy.error(), "parameters of a copy that is being captured");
    if (what == nullptr) return kInvalidValue;
    const auto place = [&](std::uint64_t at, std::uint64_t pitch) {
      return Pitched{handle_of(at), copy->rows > 1 ? pitch : copy->width, copy->width, copy->rows};
    };
    const bool from = session().memory.contains(copy->from.value);
    const bool to = session().memory.contains(copy->to.value);
    *what = {};
    what->from = place(copy->from.value, copy->from_pitch);
    what->to = place(copy->to.value, copy->to_pitch);
    what->extent = {copy->width, copy->rows, 1};
    what->kind = from ? (to ? kDeviceToDevice : kDeviceToHost) : kHostToDevice;
    return kOk;
  });
}
GUARDED(cudaGraphMemsetNodeGetParams, (void* node, MemsetNode* what), tell_set(node, what))
GUARDED(cudaGraphHostNodeGetParams, (void* node, HostNode* what), tell_host(node, what))
GUARDED(cudaGraphEventRecordNodeGetEvent, (void* node, void** event), tell_event(node, true, event))
GUARDED(cudaGraphEventWaitNodeGetEvent, (void* node, void** event), tell_event(node, false, event))
GUARDED(cudaGraphKernelNodeGetAttribute, (void* node, int attribute, void* value),
        tell_attribute(node, attribute, value))
GUARDED(cudaGraphDebugDotPrint, (void* graph, const char* path, unsigned), print_graph(graph, path))

// ---- what changes

GUARDED(cudaGraphDestroyNode, (void* node), remove_node(node))
GUARDED(cudaGraphExecUpdate, (void* exec, void* graph, UpdateResult* result),
        update(exec, graph, result))
GUARDED(cudaGraphNodeSetEnabled, (void* exec, void* node, unsigned is),
        set_enabled(in_exec(exec, node), is))
GUARDED(cudaGraphNodeGetEnabled, (void* exec, void* node, unsigned* is),
        tell_enabled(in_exec(exec, node), is))

CUDA_EXPORT Status cudaGraphKernelNodeSetParams(void* node, const KernelNode* what) {
  return guarded_launch([&] { return set_kernel(in_graph(node), what); });
}
CUDA_EXPORT Status cudaGraphExecKernelNodeSetParams(void* exec, void* node,
                                                    const KernelNode* what) {
  return guarded_launch([&] { return set_kernel(in_exec(exec, node), what); });
}
GUARDED(cudaGraphEventRecordNodeSetEvent, (void* node, void* event),
        set_event(in_graph(node), true, event))
GUARDED(cudaGraphEventWaitNodeSetEvent, (void* node, void* event),
        set_event(in_graph(node), false, event))
GUARDED(cudaGraphExecEventRecordNodeSetEvent, (void* exec, void* node, void* event),
        set_event(in_exec(exec, node), true, event))
GUARDED(cudaGraphExecEventWaitNodeSetEvent, (void* exec, void* node, void* event),
        set_event(in_exec(exec, node), false, event))
CUDA_EXPORT Status cudaGraphKernelNodeSetAttribute(void* node, int attribute, const void* value) {
  return guarded_launch([&] { return set_attribute(node, attribute, value); });
}
GUARDED(cudaGraphKernelNodeCopyAttributes, (void* to, void* from), copy_attributes(to, from))
GUARDED(cudaGraphMemsetNodeSetParams, (void* node, const MemsetNode* what),
        set_set(in_graph(node), what))
GUARDED(cudaGraphExecMemsetNodeSetParams, (void* exec, void* node, const MemsetNode* what),
        set_set(in_exec(exec, node), what))
GUARDED(cudaGraphHostNodeSetParams, (void* node, const HostNode* what),
        set_host(in_graph(node), what))
GUARDED(cudaGraphExecHostNodeSetParams, (void* exec, void* node, const HostNode* what),
        set_host(in_exec(exec, node), what))
GUARDED(cudaGraphMemcpyNodeSetParams, (void* node, const Copy3* copy),
        set_copy(in_graph(node), copy))
GUARDED(cudaGraphExecMemcpyNodeSetParams, (void* exec, void* node, const Copy3* copy),
        set_copy(in_exec(exec, node), copy))
GUARDED(cudaGraphMemcpyNodeSetParams1D,
        (void* node, void* to, const void* from, std::size_t bytes, int kind),
        set_copy(in_graph(node), PlainCopy{to, from, bytes, kind}))
GUARDED(cudaGraphExecMemcpyNodeSetParams1D,
        (void* exec, void* node, void* to, const void* from, std::size_t bytes, int kind),
        set_copy(in_exec(exec, node), PlainCopy{to, from, bytes, kind}))

// ---- variables of the device code

// Where these bytes of a variable lie.
static client::Got<void*> place_of(const void* symbol, std::size_t offset, std::size_t bytes) {
  const auto block = symbol_of(symbol);
  if (!block) return client::refused(block.error());
  if (offset > block->bytes || bytes > block->bytes - offset) return client::refused(kInvalidValue);
  return handle_of(block->address + offset);
}
CUDA_EXPORT Status cudaGraphAddMemcpyNodeToSymbol(void** node, void* graph, void* const* after,
                                                  std::size_t count, const void* symbol,
                                                  const void* from, std::size_t bytes,
                                                  std::size_t offset, int kind) {
  return guarded([&] {
    const auto to = place_of(symbol, offset, bytes);
    return to ? add_copy({node, graph, after, count}, {*to, from, bytes, kind}) : to.error();
  });
}
CUDA_EXPORT Status cudaGraphAddMemcpyNodeFromSymbol(void** node, void* graph, void* const* after,
                                                    std::size_t count, void* to, const void* symbol,
                                                    std::size_t bytes, std::size_t offset,
                                                    int kind) {
  return guarded([&] {
    const auto from = place_of(symbol, offset, bytes);
    return from ? add_copy({node, graph, after, count}, {to, *from, bytes, kind}) : from.error();
  });
}
static Status set_to_symbol(const At& at, const void* symbol, const PlainCopy& copy,
                            std::size_t offset) {
  const auto to = place_of(symbol, offset, copy.bytes);
  return to ? set_copy(at, PlainCopy{*to, copy.from, copy.bytes, copy.kind}) : to.error();
}
static Status set_from_symbol(const At& at, const void* symbol, const PlainCopy& copy,
                              std::size_t offset) {
  const auto from = place_of(symbol, offset, copy.bytes);
  return from ? set_copy(at, PlainCopy{copy.to, *from, copy.bytes, copy.kind}) : from.error();
}
CUDA_EXPORT Status cudaGraphMemcpyNodeSetParamsToSymbol(void* node, const void* symbol,
                                                        const void* from, std::size_t bytes,
                                                        std::size_t offset, int kind) {
  return guarded([&] {
    return set_to_symbol(in_graph(node), symbol, {nullptr, from, bytes, kind}, offset);
  });
}
CUDA_EXPORT Status cudaGraphExecMemcpyNodeSetParamsToSymbol(void* exec, void* node,
                                                            const void* symbol, const void* from,
                                                            std::size_t bytes, std::size_t offset,
                                                            int kind) {
  return guarded([&] {
    return set_to_symbol(in_exec(exec, node), symbol, {nullptr, from, bytes, kind}, offset);
  });
}
CUDA_EXPORT Status cudaGraphMemcpyNodeSetParamsFromSymbol(void* node, void* to, const void* symbol,
                                                          std::size_t bytes, std::size_t offset,
                                                          int kind) {
  return guarded([&] {
    return set_from_symbol(in_graph(node), symbol, {to, nullptr, bytes, kind}, offset);
  });
}
CUDA_EXPORT Status cudaGraphExecMemcpyNodeSetParamsFromSymbol(void* exec, void* node, void* to,
                                                              const void* symbol, std::size_t bytes,
                                                              std::size_t offset, int kind) {
  return guarded([&] {
    return set_from_symbol(in_exec(exec, node), symbol, {to, nullptr, bytes, kind}, offset);
  });
}

// ---- of any kind

static Status set_any(const At& at, const AnyNode* what) {
  if (what == nullptr) return kInvalidValue;
  switch (static_cast<client::NodeKind>(what->type)) {
    case client::NodeKind::kernel:
      return set_kernel(at, &what->kernel);
    case client::NodeKind::copy:
      return set_copy(at, &what->copy.copy);
    case client::NodeKind::set:
      return set_set(at, &what->set);
    case client::NodeKind::call:
      return set_host(at, &what->host);
    case client::NodeKind::wait:
      return set_event(at, false, what->event);
    case client::NodeKind::record:
      return set_event(at, true, what->event);
    default:
      return set_other(at, what->type);
  }
}
GUARDED(cudaGraphNodeSetParams, (void* node, AnyNode* what), set_any(in_graph(node), what))
GUARDED(cudaGraphExecNodeSetParams, (void* exec, void* node, AnyNode* what),
        set_any(in_exec(exec, node), what))

}  // namespace partita::remote::shim
