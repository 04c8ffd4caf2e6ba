#include "graph_calls.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

namespace partita::remote::shim {

using client::kInvalidValue;
using client::kOk;
using client::MadeNode;
using client::NodeKind;

constexpr std::size_t kEdge = 8;  // bytes of cudaGraphEdgeData

std::vector<std::uint64_t> numbers(void* const* nodes, std::size_t count) {
  std::vector<std::uint64_t> made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(number_of(nodes[i]));
  return made;
}

bool are_plain(const void* edges, std::size_t count) {
  const auto* bytes = static_cast<const unsigned char*>(edges);
  return edges == nullptr ||
         std::all_of(bytes, bytes + count * kEdge, [](unsigned char byte) { return byte == 0; });
}

namespace {

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

// Which of the two are the device's; kInvalidValue where there is not so much there.
client::Got<client::Nodes::Copy> sides_of(const PlainCopy& copy) {
  if (const Status status = session().ready(); status != kOk) return client::refused(status);
  if (copy.to == nullptr || copy.from == nullptr || copy.kind < kHostToHost ||
      copy.kind > kByAddress)
    return client::refused(kInvalidValue);
  client::DeviceMemory& memory = session().memory;
  const client::Nodes::Copy sides{.to = number_of(copy.to),
                                  .from = number_of(copy.from),
                                  .bytes = copy.bytes,
                                  .to_device = memory.contains(number_of(copy.to)),
                                  .from_device = memory.contains(number_of(copy.from))};
  if ((sides.to_device && !memory.covers(sides.to, copy.bytes)) ||
      (sides.from_device && !memory.covers(sides.from, copy.bytes)))
    return client::refused(kInvalidValue);
  return sides;
}

bool has(const std::vector<std::uint64_t>& nodes, std::uint64_t node) {
  return std::ranges::find(nodes, node) != nodes.end();
}

}  // namespace

// ---- new nodes

Status add_empty(const Where& where) {
  return add(where, [](std::uint64_t graph, client::Graphs::Nodes after) {
    return session().graphs.add_empty(graph, after);
  });
}

Status add_kernel(const Where& where, const KernelNode* what) {
  if (what == nullptr) return kInvalidValue;
  if (what->extra != nullptr) return unsupported("cudaGraphAddKernelNode (extra)");
  client::Kernel* kernel = session().kernels.modules().kernel_of(what->function);
  if (kernel == nullptr) return client::kInvalidFunction;
  return add(where, [&](std::uint64_t graph, client::Graphs::Nodes after) {
    return session().graphs.add_launch(graph, after, *kernel, shape_of(*what), what->parameters);
  });
}

Status add_copy(const Where& where, const PlainCopy& copy) {
  const auto sides = sides_of(copy);
  if (!sides) return sides.error();
  const auto [to, from, bytes, to_device, from_device] = *sides;
  return add(where, [&](std::uint64_t graph, client::Graphs::Nodes after) {
    client::Graphs& graphs = session().graphs;
    if (to_device && from_device)
      return graphs.add_copy_device(graph, after,
                                    CopyDevice{.to = {to}, .from = {from}, .width = bytes});
    if (to_device) return graphs.add_copy_in(graph, after, to, copy.from, bytes);
    if (from_device) return graphs.add_copy_out(graph, after, copy.to, from, bytes);
    return client::Got<std::uint64_t>(client::refused(kInvalidValue));
  });
}

Status add_set(const Where& where, const MemsetNode* what) {
  const auto set = set_of(what);
  if (!set) return set.error();
  return add(where, [&](std::uint64_t graph, client::Graphs::Nodes after) {
    return session().graphs.add_set(graph, after, *set);
  });
}

Status add_host(const Where& where, const HostNode* what) {
  if (what == nullptr || what->function == nullptr) return kInvalidValue;
  return add(where, [&](std::uint64_t graph, client::Graphs::Nodes after) {
    return session().graphs.add_call(graph, after,
                                     {.function = what->function, .data = what->data});
  });
}

Status add_child(const Where& where, void* child) {
  return add(where, [&](std::uint64_t graph, client::Graphs::Nodes after) {
    return session().branches.add_child(graph, after, number_of(child));
  });
}

static Status named_event(Status status) {
  return named(status, "a node with an event that other processes may have");
}

Status add_event(const Where& where, void* event, bool records) {
  return named_event(add(where, [&](std::uint64_t graph, client::Graphs::Nodes after) {
    return session().graphs.add_event(graph, after, number_of(event), records);
  }));
}

Status record_event(void* stream, void* event, unsigned flags) {
  if (flags > kExternal) return kInvalidValue;
  return named_event(
      session().events.record(number_of(event), number_of(stream), flags == kExternal));
}

Status wait_for_event(void* stream, void* event, unsigned flags) {
  if (flags > kExternal) return kInvalidValue;
  return named_event(
      session().events.wait(number_of(stream), number_of(event), flags == kExternal));
}

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

// ---- what there is

Status tell(const std::vector<std::uint64_t>& nodes, void** into, std::size_t* count) {
  if (count == nullptr) return kInvalidValue;
  if (into == nullptr) {
    *count = nodes.size();
    return kOk;
  }
  for (std::size_t i = 0; i < *count; ++i)
    into[i] = i < nodes.size() ? handle_of(nodes[i]) : nullptr;
  *count = std::min(*count, nodes.size());
  return kOk;
}

namespace {

// Of the nodes of a graph those for which it is so.
template <class Is>
Status tell_those(std::uint64_t graph, void** into, std::size_t* count, const Is& is) {
  const auto nodes = session().nodes.all_of(graph);
  if (!nodes) return nodes.error();
  std::vector<std::uint64_t> some;
  for (const MadeNode& node : *nodes)
    if (is(node)) some.push_back(node.number);
  return tell(some, into, count);
}

// Edges as such, of as many as were told.
Status tell_data(Status status, const void* nodes, void* data, const std::size_t* count) {
  if (status != kOk || data == nullptr) return status;
  if (nodes == nullptr) return kInvalidValue;
  std::memset(data, 0, *count * kEdge);
  return kOk;
}

}  // namespace

Status tell_nodes(void* graph, void** nodes, std::size_t* count) {
  return tell_those(number_of(graph), nodes, count, [](const MadeNode&) { return true; });
}

Status tell_roots(void* graph, void** nodes, std::size_t* count) {
  return tell_those(number_of(graph), nodes, count,
                    [](const MadeNode& node) { return node.after.empty(); });
}

Status tell_edges(void* graph, const Edges& edges, std::size_t* count) {
  const auto nodes = session().nodes.all_of(number_of(graph));
  if (!nodes) return nodes.error();
  if (count == nullptr || (edges.from == nullptr) != (edges.to == nullptr)) return kInvalidValue;
  std::vector<std::uint64_t> from, to;
  for (const MadeNode& node : *nodes)
    for (const std::uint64_t earlier : node.after) {
      from.push_back(earlier);
      to.push_back(node.number);
    }
  std::size_t room = *count;
  Status status = tell(from, edges.from, count);
  if (edges.to != nullptr) status = tell(to, edges.to, &room);
  return tell_data(status, edges.from, edges.data, count);
}

Status tell_before(void* node, void** nodes, void* data, std::size_t* count) {
  const auto is = session().nodes.find(number_of(node));
  if (!is) return is.error();
  return tell_data(tell(is->after, nodes, count), nodes, data, count);
}

Status tell_behind(void* node, void** nodes, void* data, std::size_t* count) {
  const auto graph = session().nodes.graph_of(number_of(node));
  if (!graph) return graph.error();
  const Status status = tell_those(*graph, nodes, count, [&](const MadeNode& other) {
    return has(other.after, number_of(node));
  });
  return tell_data(status, nodes, data, count);
}

Status tell_type(void* node, int* type) {
  const auto is = session().nodes.find(number_of(node));
  if (!is) return is.error();
  return hand_out(static_cast<int>(is->kind), type);
}

Status tell_child(void* node, void** graph) {
  const auto is = session().nodes.find(number_of(node));
  if (!is) return is.error();
  if (graph == nullptr || is->kind != NodeKind::child) return kInvalidValue;
  *graph = handle_of(is->bodies.at(0));
  return kOk;
}

Status tell_kernel(void* node, KernelNode* what, bool by_host) {
  const auto is = session().nodes.launch_of(number_of(node));
  if (!is) return named(is.error(), "parameters of a node that a library captured");
  if (what == nullptr) return kInvalidValue;
  const void* const function =
      by_host ? session().kernels.modules().host_of(*is->kernel) : is->kernel;
  const auto& [grid, block] = std::pair(is->shape.grid, is->shape.block);
  *what = {.function = const_cast<void*>(function),
           .grid = {grid.x, grid.y, grid.z},
           .block = {block.x, block.y, block.z},
           .shared_bytes = static_cast<unsigned>(is->shape.shared_bytes),
           .parameters = is->parameters,
           .extra = nullptr};
  return kOk;
}

Status tell_set(void* node, MemsetNode* what) {
  const auto is = session().nodes.find(number_of(node));
  if (!is) return is.error();
  const auto set = client::operation_in<Set>(is->operation);
  if (!set || what == nullptr) return kInvalidValue;
  *what = {.to = handle_of(set->to.value),
           .pitch = set->pitch,
           .value = set->value,
           .element = set->element,
           .width = set->count,
           .height = set->rows};
  return kOk;
}

Status tell_host(void* node, HostNode* what) {
  const auto call = session().nodes.call_of(number_of(node));
  if (!call) return named(call.error(), "parameters of a function that is being captured");
  if (what == nullptr) return kInvalidValue;
  *what = {call->function, call->data};
  return kOk;
}

Status tell_event(void* node, bool records, void** event) {
  const auto is = session().nodes.find(number_of(node));
  if (!is) return is.error();
  const std::uint64_t its = client::event_in(is->operation, records);
  if (its == 0 || event == nullptr) return kInvalidValue;
  *event = handle_of(its);
  return kOk;
}

namespace {

std::string label_of(const MadeNode& node) {
  switch (node.kind) {
    case NodeKind::kernel: {
      const auto is = session().nodes.launch_of(node.number);
      return is ? "kernel " + is->kernel->name : "kernel of a library";
    }
    case NodeKind::copy: {
      const auto is = session().nodes.copy_of(node.number);
      if (!is) return "copy";
      const auto side = [](std::uint64_t at) {
        return session().memory.contains(at) ? "device" : "host";
      };
      return std::string("copy ") + side(is->from.value) + " to " + side(is->to.value) + ", " +
             std::to_string(is->width * is->rows) + " bytes";
    }
    case NodeKind::set:
      return "set";
    case NodeKind::call:
      return "host function";
    case NodeKind::child:
      return "child graph";
    case NodeKind::empty:
      return "empty";
    case NodeKind::wait:
      return "wait for an event";
    case NodeKind::record:
      return "record of an event";
    case NodeKind::allocate:
      return "memory";
    case NodeKind::release:
      return "memory freed";
    case NodeKind::branch:
      return "conditional";
  }
  return {};
}

// The nodes of a graph and of those in it, one name for each.
Status print_nodes(std::FILE* file, std::uint64_t graph, int deep) {
  constexpr int kDeepest = 32;
  const auto nodes = session().nodes.all_of(graph);
  if (!nodes || deep > kDeepest) return nodes ? kInvalidValue : nodes.error();
  const auto number = [](std::uint64_t at) { return static_cast<unsigned long long>(at); };
  std::fprintf(file, "subgraph cluster_%llu {\n", number(graph));
  for (const MadeNode& node : *nodes) {
    std::fprintf(file, "n%llu [label=\"%s\"];\n", number(node.number), label_of(node).c_str());
    for (const std::uint64_t earlier : node.after)
      std::fprintf(file, "n%llu -> n%llu;\n", number(earlier), number(node.number));
    for (const std::uint64_t body : node.bodies)
      if (const Status status = print_nodes(file, body, deep + 1); status != kOk) return status;
  }
  std::fputs("}\n", file);
  return kOk;
}

}  // namespace

Status print_graph(void* graph, const char* path) {
  constexpr Status kOperatingSystem = 304;
  if (path == nullptr) return kInvalidValue;
  if (const auto nodes = session().nodes.all_of(number_of(graph)); !nodes) return nodes.error();
  std::FILE* const file = std::fopen(path, "w");
  if (file == nullptr) return kOperatingSystem;
  std::fputs("digraph graph_of_cuda {\n", file);
  const Status status = print_nodes(file, number_of(graph), 0);
  std::fputs("}\n", file);
  const bool failed = std::ferror(file) != 0;
  return std::fclose(file) != 0 || failed ? kOperatingSystem : status;
}

// ---- what changes

Status set_kernel(const At& at, const KernelNode* what) {
  if (what == nullptr) return kInvalidValue;
  if (what->extra != nullptr) return unsupported("parameters of a kernel node (extra)");
  client::Kernel* kernel = session().kernels.modules().kernel_of(what->function);
  if (kernel == nullptr) return client::kInvalidFunction;
  return named(session().nodes.set_launch(at, *kernel, shape_of(*what), what->parameters),
               "other parameters of a kernel of a library, or of a graph in a graph");
}

Status set_copy(const At& at, const PlainCopy& copy) {
  const auto sides = sides_of(copy);
  if (!sides) return sides.error();
  return named(session().nodes.set_copy(at, *sides),
               "another direction of a copy, or copies beside functions in a graph's graphs");
}

Status set_copy(const At& at, const Copy3* copy) {
  if (copy == nullptr) return kInvalidValue;
  const auto plain = as_plain(*copy);
  if (plain) return set_copy(at, *plain);
  return at.exec != 0 ? kInvalidValue : unsupported("a node that copies rows with a pitch");
}

Status set_set(const At& at, const MemsetNode* what) {
  const auto set = set_of(what);
  if (!set) return set.error();
  return named(session().nodes.set_set(at, *set), "nodes of a graph in a graph");
}

Status set_host(const At& at, const HostNode* what) {
  if (what == nullptr || what->function == nullptr) return kInvalidValue;
  return named(session().nodes.set_call(at, {.function = what->function, .data = what->data}),
               "nodes of a graph in a graph");
}

Status set_event(const At& at, bool records, void* event) {
  return named(session().nodes.set_event(at, number_of(event), records),
               "nodes of a graph in a graph, or an event that other processes may have");
}

Status set_other(const At& at, int type) {
  int is = 0;
  const Status status = at.exec == 0 ? tell_type(handle_of(at.node), &is) : kOk;
  if (status != kOk || (at.exec == 0 && is != type)) return kInvalidValue;
  return unsupported("other parameters of graphs in graphs and of memory");
}

Status set_enabled(const At& at, unsigned is) {
  return named(session().nodes.enable(at, is != 0),
               "nodes of a graph in a graph, or copies beside functions in one");
}

Status tell_enabled(const At& at, unsigned* is) {
  if (is == nullptr) return kInvalidValue;
  const auto enabled = session().nodes.is_enabled(at);
  if (!enabled) return named(enabled.error(), "nodes of a graph in a graph");
  *is = *enabled ? 1 : 0;
  return kOk;
}

namespace {

// What each node that an edge leads to comes after now; or why the edges cannot be of the graph.
using Before = std::map<std::uint64_t, std::vector<std::uint64_t>>;
client::Got<Before> before_of(void* graph, const EdgeList& edges) {
  if (edges.count > 0 && (edges.from == nullptr || edges.to == nullptr))
    return client::refused(kInvalidValue);
  if (!are_plain(edges.data, edges.count)) return client::refused(client::kNotSupported);
  const auto nodes = session().nodes.all_of(number_of(graph));
  if (!nodes) return client::refused(nodes.error());
  Before all, those;
  for (const MadeNode& node : *nodes) all[node.number] = node.after;
  for (std::size_t i = 0; i < edges.count; ++i) {
    const auto to = all.find(number_of(edges.to[i]));
    if (to == all.end() || !all.contains(number_of(edges.from[i])))
      return client::refused(kInvalidValue);
    those.insert(*to);
  }
  return those;
}

Status order_all(const Before& those) {
  Status status = kOk;
  for (const auto& [node, after] : those)
    if (status == kOk) status = session().nodes.order(node, after);
  return named(status, "a node that comes after one that was made later");
}

}  // namespace

Status add_edges(void* graph, const EdgeList& edges) {
  auto those = before_of(graph, edges);
  if (!those) return named(those.error(), "edges with data");
  for (std::size_t i = 0; i < edges.count; ++i) {
    std::vector<std::uint64_t>& after = (*those)[number_of(edges.to[i])];
    if (edges.from[i] == edges.to[i] || has(after, number_of(edges.from[i]))) return kInvalidValue;
    after.push_back(number_of(edges.from[i]));
  }
  return order_all(*those);
}

Status remove_edges(void* graph, const EdgeList& edges) {
  auto those = before_of(graph, edges);
  if (!those) return named(those.error(), "edges with data");
  const auto nodes = session().nodes.all_of(number_of(graph));
  if (!nodes) return nodes.error();
  const bool memory = std::ranges::any_of(*nodes, [](const MadeNode& node) {
    return node.kind == NodeKind::allocate || node.kind == NodeKind::release;
  });
  if (memory && edges.count > 0) return kInvalidValue;
  for (std::size_t i = 0; i < edges.count; ++i)
    if (std::erase((*those)[number_of(edges.to[i])], number_of(edges.from[i])) == 0)
      return kInvalidValue;
  return order_all(*those);
}

Status remove_node(void* node) {
  return named(session().nodes.remove(number_of(node)),
               "destroying a node of a graph's memory, or of one that is being captured");
}

Status update(void* exec, void* graph, UpdateResult* result) {
  constexpr int kSuccess = 0, kError = 1;
  const std::uint64_t old = number_of(exec), made = number_of(graph);
  const Status status = named(session().graphs.update(old, made), "an update of so many copies");
  if (result == nullptr) return status;
  *result = {status == kOk ? kSuccess : kError, nullptr, nullptr};
  if (status != client::kUpdateFailure) return status;
  const auto found = client::difference(session(), old, made);
  if (!found) return status;
  // Of graphs in graphs it is not known here what differs.
  const bool inside = found->what == client::Difference::kSame;
  *result = {inside ? client::Difference::kParameters : found->what, handle_of(found->node),
             handle_of(found->from)};
  return status;
}

}  // namespace partita::remote::shim
