// Graphs and their nodes, as the runtime's and the driver's functions both have them. A node's
// handle is its number; edges are those that order whole nodes.
#pragma once

#include <vector>

#include "copies.h"

namespace partita::remote::shim {

// Refused by name where it is not there.
inline Status named(Status status, const char* what) {
  return status == client::kNotSupported ? unsupported(what) : status;
}

std::vector<std::uint64_t> numbers(void* const* nodes, std::size_t count);
// Whether these edges (cudaGraphEdgeData) order whole nodes; there may be none.
bool are_plain(const void* edges, std::size_t count);

// ---- new nodes

struct Where {
  void** node;
  void* graph;
  void* const* after;
  std::size_t count;
};
template <class Add>
Status add(const Where& where, Add&& make) {
  if (where.node == nullptr || (where.count > 0 && where.after == nullptr))
    return client::kInvalidValue;
  const std::vector<std::uint64_t> after = numbers(where.after, where.count);
  return give(make(number_of(where.graph), client::Graphs::Nodes(after)), where.node);
}
Status add_empty(const Where& where);
Status add_kernel(const Where& where, const KernelNode* what);
Status add_copy(const Where& where, const PlainCopy& copy);
Status add_set(const Where& where, const MemsetNode* what);
Status add_host(const Where& where, const HostNode* what);
Status add_child(const Where& where, void* child);
// Of each launch; not of events that other processes may have.
Status add_event(const Where& where, void* event, bool records);
// `flags`: 1, as a node of the graph that the stream is captured into.
Status record_event(void* stream, void* event, unsigned flags);
Status wait_for_event(void* stream, void* event, unsigned flags);
// A copy in space that is one run of bytes.
client::Got<PlainCopy> as_plain(const Copy3& copy);

// ---- what there is

// As many handles as there is room for, null behind the last; where there is no room how many.
Status tell(const std::vector<std::uint64_t>& nodes, void** into, std::size_t* count);
Status tell_nodes(void* graph, void** nodes, std::size_t* count);
Status tell_roots(void* graph, void** nodes, std::size_t* count);
struct Edges {
  void **from, **to;
  void* data;
};
Status tell_edges(void* graph, const Edges& edges, std::size_t* count);
Status tell_before(void* node, void** nodes, void* data, std::size_t* count);
Status tell_behind(void* node, void** nodes, void* data, std::size_t* count);
Status tell_type(void* node, int* type);
Status tell_child(void* node, void** graph);
// `by_host`: its function is what the program registered.
Status tell_kernel(void* node, KernelNode* what, bool by_host);
Status tell_set(void* node, MemsetNode* what);
Status tell_host(void* node, HostNode* what);
Status tell_event(void* node, bool records, void** event);
// node_attributes.cc; `into` and `given`: cudaLaunchAttributeValue.
Status tell_attribute(void* node, int attribute, void* into);
Status print_graph(void* graph, const char* path);

// ---- what changes

using At = client::Nodes::At;
inline At in_graph(const void* node) { return {.node = number_of(node)}; }
inline At in_exec(const void* exec, const void* node) {  // null is no executable graph
  return {.exec = exec == nullptr ? ~std::uint64_t{0} : number_of(exec), .node = number_of(node)};
}
Status set_kernel(const At& at, const KernelNode* what);
Status set_copy(const At& at, const PlainCopy& copy);
Status set_copy(const At& at, const Copy3* copy);
Status set_set(const At& at, const MemsetNode* what);
Status set_host(const At& at, const HostNode* what);
Status set_event(const At& at, bool records, void* event);
Status set_other(const At& at, int type);  // what nodes of this kind do does not change
Status set_attribute(void* node, int attribute, const void* given);
Status copy_attributes(void* to, void* from);
Status set_enabled(const At& at, unsigned is);
Status tell_enabled(const At& at, unsigned* is);
struct EdgeList {
  void *const *from, *const *to;
  const void* data;
  std::size_t count;
};
Status add_edges(void* graph, const EdgeList& edges);
Status remove_edges(void* graph, const EdgeList& edges);
Status remove_node(void* node);

struct UpdateResult {  // cudaGraphExecUpdateResultInfo
  int result;
  void *error_node, *error_from_node;
};
Status update(void* exec, void* graph, UpdateResult* result);

}  // namespace partita::remote::shim
