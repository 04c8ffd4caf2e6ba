// libcuda: graphs and their nodes.
#include "driver.h"
#include "graph_calls.h"

namespace partita::remote::shim {
namespace {

struct DriverKernelNode {  // CUDA_KERNEL_NODE_PARAMS_v2
  KernelNode node;
  void *kernel, *context;
};
static_assert(sizeof(DriverKernelNode) == 72);

// Of the two names for what is launched the first counts.
KernelNode with_kernel(const DriverKernelNode& what) {
  KernelNode node = what.node;
  if (node.function == nullptr) node.function = what.kernel;
  return node;
}

struct DriverPlace3 {  // of CUDA_MEMCPY3D
  std::size_t x, y, z, level;
  int type;
  void* host;
  DevicePtr device;
  void *array, *reserved;
  std::size_t pitch, height;
};
struct DriverCopy3D {
  DriverPlace3 from, to;
  std::size_t width, height, depth;
};
static_assert(sizeof(DriverCopy3D) == 200);

struct AnyDriverNode {  // CUgraphNodeParams
  int type, reserved[3];
  union {
    long long words[29];
    DriverKernelNode kernel;
    struct {
      int flags[2];
      void* context;
      DriverCopy3D copy;
    } copy;
    MemsetNode set;
    HostNode host;
    void* child;
    void* event;
  };
  long long reserved_too;
};
static_assert(sizeof(AnyDriverNode) == 256 && offsetof(AnyDriverNode, copy.copy) == 32);

enum MemoryType : int { kHostMemory = 1, kDeviceMemory, kArrayMemory, kUnifiedMemory };

// As the runtime has it: the addresses say what they are.
client::Got<Copy3> in_space(const DriverCopy3D* copy) {
  if (copy == nullptr) return client::refused(kInvalidValue);
  Copy3 made{};
  const auto place = [&](const DriverPlace3& at, Pitched& memory, Place3& begin) {
    void* const where = at.type == kHostMemory ? at.host : handle_of(at.device);
    memory = {where, at.pitch == 0 ? copy->width : at.pitch, copy->width, at.height};
    begin = {at.x, at.y, at.z};
    return at.type == kHostMemory || at.type == kDeviceMemory || at.type == kUnifiedMemory;
  };
  const bool from = place(copy->from, made.from, made.from_place);
  const bool to = place(copy->to, made.to, made.to_place);
  made.extent = {copy->width, copy->height, copy->depth};
  made.kind = kByAddress;
  if (from && to) return made;
  return client::refused(copy->from.type == kArrayMemory || copy->to.type == kArrayMemory
                             ? client::kNotSupported
                             : kInvalidValue);
}

Status set_in_space(const At& at, const DriverCopy3D* copy) {
  const auto made = in_space(copy);
  return made ? set_copy(at, &*made) : named(made.error(), "a node that copies arrays");
}

Status set_launch(const At& at, const DriverKernelNode* what) {
  if (what == nullptr) return kInvalidValue;
  const KernelNode kernel = with_kernel(*what);
  return set_kernel(at, &kernel);
}

Status set_any(const At& at, const AnyDriverNode* what) {
  if (what == nullptr) return kInvalidValue;
  switch (static_cast<client::NodeKind>(what->type)) {
    case client::NodeKind::kernel:
      return session().launched(set_launch(at, &what->kernel));
    case client::NodeKind::copy:
      return set_in_space(at, &what->copy.copy);
    case client::NodeKind::set:
      return set_set(at, &what->set);
    case client::NodeKind::call:
      return set_host(at, &what->host);
    case client::NodeKind::wait:
    case client::NodeKind::record:
      return set_event(at, what->type == static_cast<int>(client::NodeKind::record), what->event);
    default:
      return set_other(at, what->type);
  }
}

Status add_launch(const Where& where, const DriverKernelNode* what) {
  if (what == nullptr) return kInvalidValue;
  const KernelNode kernel = with_kernel(*what);
  return add_kernel(where, &kernel);
}

Status add_in_space(const Where& where, const DriverCopy3D* copy) {
  const auto made = in_space(copy);
  if (!made) return named(made.error(), "a node that copies arrays");
  const auto plain = as_plain(*made);
  return plain ? add_copy(where, *plain) : unsupported("a node that copies rows with a pitch");
}

Status add_any(const Where& where, const AnyDriverNode* what) {
  if (what == nullptr) return kInvalidValue;
  switch (static_cast<client::NodeKind>(what->type)) {
    case client::NodeKind::kernel:
      return session().launched(add_launch(where, &what->kernel));
    case client::NodeKind::copy:
      return add_in_space(where, &what->copy.copy);
    case client::NodeKind::set:
      return add_set(where, &what->set);
    case client::NodeKind::call:
      return add_host(where, &what->host);
    case client::NodeKind::child:
      return add_child(where, what->child);
    case client::NodeKind::empty:
      return add_empty(where);
    case client::NodeKind::wait:
    case client::NodeKind::record:
      return add_event(where, what->event,
                       what->type == static_cast<int>(client::NodeKind::record));
    default:
      return unsupported("cuGraphAddNode (memory, conditions, semaphores)");
  }
}

}  // namespace

GUARDED(cuGraphCreate, (void** graph, unsigned), give(session().graphs.create(), graph))
GUARDED(cuGraphDestroy, (void* graph), session().graphs.destroy(number_of(graph)))
GUARDED(cuGraphInstantiateWithFlags, (void** exec, void* graph, unsigned long long flags),
        give(session().graphs.instantiate(number_of(graph), flags), exec))
STREAM_FUNCTION(cuGraphLaunch, _ptsz, (void* exec, void* stream), {
  return session().launched(session().graphs.launch(number_of(exec), number_of(stream)));
})
GUARDED(cuGraphExecDestroy, (void* exec), session().graphs.destroy_exec(number_of(exec)))

GUARDED(cuGraphClone, (void** clone, void* graph),
        give(session().graphs.clone(number_of(graph)), clone))
GUARDED(cuGraphExecGetFlags, (void* exec, unsigned long long* flags),
        give(session().graphs.flags(number_of(exec)), flags))
GUARDED(cuGraphExecUpdate_v2, (void* exec, void* graph, UpdateResult* result),
        update(exec, graph, result))

// ---- new nodes

GUARDED(cuGraphAddEmptyNode, (void** node, void* graph, void* const* after, std::size_t count),
        add_empty({node, graph, after, count}))
CUDA_EXPORT Status cuGraphAddKernelNode_v2(void** node, void* graph, void* const* after,
                                           std::size_t count, const DriverKernelNode* what) {
  return guarded_launch([&] { return add_launch({node, graph, after, count}, what); });
}
CUDA_EXPORT Status cuGraphAddMemcpyNode(void** node, void* graph, void* const* after,
                                        std::size_t count, const DriverCopy3D* copy, void*) {
  return guarded([&] { return add_in_space({node, graph, after, count}, copy); });
}
CUDA_EXPORT Status cuGraphAddMemsetNode(void** node, void* graph, void* const* after,
                                        std::size_t count, const MemsetNode* what, void*) {
  return guarded([&] { return add_set({node, graph, after, count}, what); });
}
GUARDED(cuGraphAddHostNode,
        (void** node, void* graph, void* const* after, std::size_t count, const HostNode* what),
        add_host({node, graph, after, count}, what))
GUARDED(cuGraphAddChildGraphNode,
        (void** node, void* graph, void* const* after, std::size_t count, void* child),
        add_child({node, graph, after, count}, child))

CUDA_EXPORT Status cuGraphAddEventRecordNode(void** node, void* graph, void* const* after,
                                             std::size_t count, void* event) {
  return guarded([&] { return add_event({node, graph, after, count}, event, true); });
}
CUDA_EXPORT Status cuGraphAddEventWaitNode(void** node, void* graph, void* const* after,
                                           std::size_t count, void* event) {
  return guarded([&] { return add_event({node, graph, after, count}, event, false); });
}
CUDA_EXPORT Status cuGraphAddNode_v2(void** node, void* graph, void* const* after,
                                     const void* edges, std::size_t count,
                                     const AnyDriverNode* what) {
  return guarded([&] {
    if (!are_plain(edges, count)) return unsupported("cuGraphAddNode (edges)");
    return add_any({node, graph, after, count}, what);
  });
}
CUDA_EXPORT Status cuGraphAddNode(void** node, void* graph, void* const* after, std::size_t count,
                                  const AnyDriverNode* what) {
  return cuGraphAddNode_v2(node, graph, after, nullptr, count, what);
}

// ---- what there is

GUARDED(cuGraphGetNodes, (void* graph, void** nodes, std::size_t* count),
        tell_nodes(graph, nodes, count))
GUARDED(cuGraphGetRootNodes, (void* graph, void** nodes, std::size_t* count),
        tell_roots(graph, nodes, count))
GUARDED(cuGraphGetEdges_v2, (void* graph, void** from, void** to, void* data, std::size_t* count),
        tell_edges(graph, {from, to, data}, count))
GUARDED(cuGraphNodeGetDependencies_v2, (void* node, void** nodes, void* data, std::size_t* count),
        tell_before(node, nodes, data, count))
GUARDED(cuGraphNodeGetDependentNodes_v2, (void* node, void** nodes, void* data, std::size_t* count),
        tell_behind(node, nodes, data, count))
GUARDED(cuGraphGetEdges, (void* graph, void** from, void** to, std::size_t* count),
        tell_edges(graph, {from, to, nullptr}, count))
GUARDED(cuGraphNodeGetDependencies, (void* node, void** nodes, std::size_t* count),
        tell_before(node, nodes, nullptr, count))
GUARDED(cuGraphNodeGetDependentNodes, (void* node, void** nodes, std::size_t* count),
        tell_behind(node, nodes, nullptr, count))
GUARDED(cuGraphNodeGetType, (void* node, int* type), tell_type(node, type))
GUARDED(cuGraphChildGraphNodeGetGraph, (void* node, void** graph), tell_child(node, graph))
GUARDED(cuGraphNodeFindInClone, (void** node, void* original, void* clone),
        give(session().nodes.in_clone(number_of(original), number_of(clone)), node))
CUDA_EXPORT Status cuGraphKernelNodeGetParams_v2(void* node, DriverKernelNode* what) {
  return guarded([&] {
    if (what != nullptr) what->kernel = what->context = nullptr;
    return tell_kernel(node, what == nullptr ? nullptr : &what->node, false);
  });
}
GUARDED(cuGraphMemsetNodeGetParams, (void* node, MemsetNode* what), tell_set(node, what))
GUARDED(cuGraphHostNodeGetParams, (void* node, HostNode* what), tell_host(node, what))
GUARDED(cuGraphEventRecordNodeGetEvent, (void* node, void** event), tell_event(node, true, event))
GUARDED(cuGraphEventWaitNodeGetEvent, (void* node, void** event), tell_event(node, false, event))
GUARDED(cuGraphKernelNodeGetAttribute, (void* node, int attribute, void* value),
        tell_attribute(node, attribute, value))
CUDA_EXPORT Status cuGraphMemcpyNodeGetParams(void* node, DriverCopy3D* what) {
  return guarded([&] {
    const auto copy = session().nodes.copy_of(number_of(node));
    if (!copy) return named(copy.error(), "parameters of such a copy");
    if (what == nullptr) return kInvalidValue;
    *what = {};
    const auto place = [&](DriverPlace3& at, DevicePointer memory, std::uint64_t pitch) {
      const bool device = session().memory.contains(memory.value);
      at.type = device ? kDeviceMemory : kHostMemory;
      if (device) at.device = memory.value;
      if (!device) at.host = handle_of(memory.value);
      at.pitch = copy->rows > 1 ? pitch : copy->width;
    };
    place(what->from, copy->from, copy->from_pitch);
    place(what->to, copy->to, copy->to_pitch);
    what->width = copy->width, what->height = copy->rows, what->depth = 1;
    return kOk;
  });
}
GUARDED(cuGraphDebugDotPrint, (void* graph, const char* path, unsigned), print_graph(graph, path))

// ---- what changes

GUARDED(cuGraphDestroyNode, (void* node), remove_node(node))
GUARDED(cuGraphAddDependencies_v2,
        (void* graph, void* const* from, void* const* to, const void* data, std::size_t count),
        add_edges(graph, {from, to, data, count}))
GUARDED(cuGraphAddDependencies,
        (void* graph, void* const* from, void* const* to, std::size_t count),
        add_edges(graph, {from, to, nullptr, count}))
GUARDED(cuGraphRemoveDependencies_v2,
        (void* graph, void* const* from, void* const* to, const void* data, std::size_t count),
        remove_edges(graph, {from, to, data, count}))
GUARDED(cuGraphRemoveDependencies,
        (void* graph, void* const* from, void* const* to, std::size_t count),
        remove_edges(graph, {from, to, nullptr, count}))
GUARDED(cuGraphNodeSetEnabled, (void* exec, void* node, unsigned is),
        set_enabled(in_exec(exec, node), is))
GUARDED(cuGraphNodeGetEnabled, (void* exec, void* node, unsigned* is),
        tell_enabled(in_exec(exec, node), is))
CUDA_EXPORT Status cuGraphKernelNodeSetParams_v2(void* node, const DriverKernelNode* what) {
  return guarded_launch([&] { return set_launch(in_graph(node), what); });
}
CUDA_EXPORT Status cuGraphExecKernelNodeSetParams_v2(void* exec, void* node,
                                                     const DriverKernelNode* what) {
  return guarded_launch([&] { return set_launch(in_exec(exec, node), what); });
}
GUARDED(cuGraphEventRecordNodeSetEvent, (void* node, void* event),
        set_event(in_graph(node), true, event))
GUARDED(cuGraphEventWaitNodeSetEvent, (void* node, void* event),
        set_event(in_graph(node), false, event))
GUARDED(cuGraphExecEventRecordNodeSetEvent, (void* exec, void* node, void* event),
        set_event(in_exec(exec, node), true, event))
GUARDED(cuGraphExecEventWaitNodeSetEvent, (void* exec, void* node, void* event),
        set_event(in_exec(exec, node), false, event))
CUDA_EXPORT Status cuGraphKernelNodeSetAttribute(void* node, int attribute, const void* value) {
  return guarded_launch([&] { return set_attribute(node, attribute, value); });
}
GUARDED(cuGraphKernelNodeCopyAttributes, (void* to, void* from), copy_attributes(to, from))
GUARDED(cuGraphNodeSetParams, (void* node, const AnyDriverNode* what),
        set_any(in_graph(node), what))
GUARDED(cuGraphExecNodeSetParams, (void* exec, void* node, const AnyDriverNode* what),
        set_any(in_exec(exec, node), what))
GUARDED(cuGraphMemsetNodeSetParams, (void* node, const MemsetNode* what),
        set_set(in_graph(node), what))
GUARDED(cuGraphExecMemsetNodeSetParams, (void* exec, void* node, const MemsetNode* what, void*),
        set_set(in_exec(exec, node), what))
GUARDED(cuGraphHostNodeSetParams, (void* node, const HostNode* what),
        set_host(in_graph(node), what))
GUARDED(cuGraphExecHostNodeSetParams, (void* exec, void* node, const HostNode* what),
        set_host(in_exec(exec, node), what))
GUARDED(cuGraphMemcpyNodeSetParams, (void* node, const DriverCopy3D* copy),
        set_in_space(in_graph(node), copy))
GUARDED(cuGraphExecMemcpyNodeSetParams, (void* exec, void* node, const DriverCopy3D* copy, void*),
        set_in_space(in_exec(exec, node), copy))

}  // namespace partita::remote::shim
