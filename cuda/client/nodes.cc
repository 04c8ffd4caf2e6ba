#include "client/nodes.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "client/session.h"

namespace partita::remote::client {
namespace {

std::vector<std::uint64_t> numbers_in(Bytes bytes) {
  std::vector<std::uint64_t> numbers(bytes.size() / sizeof(std::uint64_t));
  if (!numbers.empty())
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::uint64_t));
  return numbers;
}

std::optional<MadeNode> node_in(Bytes frame) {
  if (const auto add = operation_in<GraphAdd>(frame))
    return MadeNode{.at_server = add->node.value,
                    .known = true,
                    .kind = kind_of(add->operation),
                    .after = numbers_in(add->after),
                    .operation = {add->operation.begin(), add->operation.end()}};
  if (const auto branch = operation_in<GraphBranch>(frame))
    return MadeNode{.at_server = branch->node.value,
                    .known = true,
                    .kind = branch->kind == kOnce ? NodeKind::child : NodeKind::branch,
                    .after = numbers_in(branch->after),
                    .bodies = numbers_in(branch->bodies)};
  return std::nullopt;
}

// Whether these are whole frames of nodes.
bool read(Bytes frames, std::vector<MadeNode>& into) {
  while (!frames.empty()) {
    FrameHeader header;
    if (frames.size() < sizeof header) return false;
    std::memcpy(&header, frames.data(), sizeof header);
    if (frames.size() - sizeof header < header.body_bytes) return false;
    auto node = node_in(frames.first(sizeof header + header.body_bytes));
    if (!node) return false;
    into.push_back(*std::move(node));
    frames = frames.subspan(sizeof header + header.body_bytes);
  }
  return true;
}

// What the server told, in its order, with what is known here besides.
std::vector<MadeNode> merged(std::vector<MadeNode>& here, std::vector<MadeNode> told) {
  std::map<std::uint64_t, MadeNode*> known;
  std::map<std::uint64_t, std::uint64_t> numbers;  // by the server's
  for (MadeNode& node : here) known[node.at_server] = &node;
  for (MadeNode& node : told) {
    const auto found = known.find(node.at_server);
    node.number = found == known.end() ? node.at_server : found->second->number;
    numbers[node.at_server] = node.number;
  }
  for (MadeNode& node : told) {
    for (std::uint64_t& earlier : node.after) earlier = numbers[earlier];
    const auto found = known.find(node.at_server);
    if (found == known.end()) continue;
    if (found->second->known) {
      node = std::move(*found->second);
      continue;
    }
    node.original = found->second->original;
    node.attributes = std::move(found->second->attributes);
    if (node.kind == NodeKind::empty) node.kind = found->second->kind;
  }
  return told;
}

bool is_memory(const MadeNode& node) {
  return node.kind == NodeKind::allocate || node.kind == NodeKind::release;
}

// Takes the copy away from those of which functions have seen some.
void take_away(HostCopies& copies, const HostCopy* copy) {
  const auto take = [&](std::vector<HostCopy>& from, std::size_t HostCopies::Call::*seen) {
    if (copy < from.data() || copy >= from.data() + from.size()) return false;
    const auto at = static_cast<std::size_t>(copy - from.data());
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(at));
    for (HostCopies::Call& call : copies.calls)
      if (call.*seen > at) --(call.*seen);
    return true;
  };
  if (take(copies.in, &HostCopies::Call::in)) return;
  const auto at = static_cast<std::size_t>(copy - copies.out.data());
  take(copies.out, &HostCopies::Call::out);
  for (HostCopies::Event& event : copies.events)
    if (event.out > at) --event.out;
}

// Whether nothing else calls it by its token, nor a launch that is under way.
bool is_free(const CallCopies& copies, const HostCopies::Call& call) {
  return call.own && !copies.is_due(call.token);
}

}  // namespace

NodeKind kind_of(Bytes operation) {
  FrameHeader header;
  if (operation.size() < sizeof header) return NodeKind::empty;
  std::memcpy(&header, operation.data(), sizeof header);
  switch (header.code) {
    case CopyDevice::kSpec.code:
    case CopyIn::kSpec.code:
    case CopyOutLater::kSpec.code:
      return NodeKind::copy;
    case Set::kSpec.code:
      return NodeKind::set;
    case HostCall::kSpec.code:
      return NodeKind::call;
    case EventRecord::kSpec.code:
      return NodeKind::record;
    case StreamWaitEvent::kSpec.code:
      return NodeKind::wait;
    default:  // launches, and what libraries launch
      return NodeKind::kernel;
  }
}

std::vector<std::byte> frame_of_event(std::uint64_t event, bool records) {
  return records ? frame_of(EventRecord{.event = {event}})
                 : frame_of(StreamWaitEvent{.event = {event}});
}

std::uint64_t event_in(Bytes operation, bool records) {
  if (!records) {
    const auto wait = operation_in<StreamWaitEvent>(operation);
    return wait ? wait->event.value : 0;
  }
  const auto record = operation_in<EventRecord>(operation);
  return record ? record->event.value : 0;
}

// ---- what they are

Nodes::Found Nodes::found_in(std::uint64_t graph, MadeGraph& made) {
  return {.graph = graph,
          .nodes = &made.nodes,
          .known = &made.known,
          .copies = &made.copies,
          .grows = made.being_captured};
}

Nodes::Found Nodes::found_in(std::uint64_t exec, MadeExec& made) {
  made.as_launched = nullptr;  // who finds it may change it
  return {.exec = exec,
          .nodes = &made.nodes,
          .known = &made.known,
          .copies = &made.copies,
          .made = &made};
}

Status Nodes::learn(const Lock& lock, const Found& of) {
  std::vector<MadeNode>& nodes = *of.nodes;
  if (*of.known && !of.grows) return kOk;
  std::vector<MadeNode> told;
  for (std::size_t before = ~std::size_t{0};
       told.size() != before && (of.grows || told.size() < nodes.size());) {
    before = told.size();
    const GraphNodes ask{
        .graph = {of.graph}, .exec = {of.exec}, .from = static_cast<std::uint32_t>(before)};
    const Answer answer = core_.link->call_held(lock, ask, Cause::graph);
    if (answer.status != kOk) return answer.status;
    const auto reply = decode<GraphNodes::Reply>(answer.reply);
    if (!reply || !read(reply->nodes, told)) return kUnknown;
  }
  nodes = merged(nodes, std::move(told));
  *of.known = true;
  return kOk;
}

Got<std::uint64_t> Nodes::graph_of(const Lock& lock, std::uint64_t node) {
  for (const auto& [handle, graph] : all_.graphs.all())
    if (graph.find(node) != nullptr) return handle;
  for (auto& [handle, graph] : all_.graphs.all()) {  // one that was captured just now
    if (!graph.being_captured) continue;
    if (const Status status = learn(lock, found_in(handle, graph)); status != kOk)
      return refused(status);
    if (graph.find(node) != nullptr) return handle;
  }
  return refused(kInvalidValue);
}

Got<std::uint64_t> Nodes::graph_of(std::uint64_t node) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  return graph_of(lock, node);
}

Got<Nodes::Found> Nodes::find(const Lock& lock, const At& at) {
  Found found;
  if (at.exec != 0) {
    const auto exec = all_.graphs.execs().find(at.exec);
    if (exec == all_.graphs.execs().end()) return refused(kInvalidValue);
    found = found_in(at.exec, exec->second);
    if (node_at(*found.nodes, at.node) == nullptr) {
      const auto graph = graph_of(lock, at.node);  // a body's are not its branch's
      return refused(graph && made_graph(all_, *graph)->is_body ? kNotSupported : kInvalidValue);
    }
  } else {
    const auto graph = graph_of(lock, at.node);
    if (!graph) return refused(graph.error());
    found = found_in(*graph, *made_graph(all_, *graph));
  }
  if (const Status status = learn(lock, found); status != kOk) return refused(status);
  const MadeNode* const here = node_at(*found.nodes, at.node);
  if (here == nullptr) return refused(kInvalidValue);
  found.place = static_cast<std::size_t>(here - found.nodes->data());
  return found;
}

Got<std::vector<MadeNode>> Nodes::all_of(std::uint64_t graph) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const auto exec = all_.graphs.execs().find(graph);
  MadeGraph* const made = made_graph(all_, graph);
  if (made == nullptr && exec == all_.graphs.execs().end()) return refused(kInvalidValue);
  const Found of = made != nullptr ? found_in(graph, *made) : found_in(graph, exec->second);
  if (const Status status = learn(lock, of); status != kOk) return refused(status);
  return *of.nodes;
}

Got<MadeNode> Nodes::find(std::uint64_t node) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const auto found = find(lock, At{.node = node});
  if (!found) return refused(found.error());
  return found->node();
}

Got<std::uint64_t> Nodes::in_clone(std::uint64_t original, std::uint64_t clone) {
  const Lock lock(core_.mutex);
  const MadeGraph* const graph = made_graph(all_, clone);
  if (graph == nullptr || original == 0) return refused(kInvalidValue);
  const auto at = std::ranges::find(graph->nodes, original, &MadeNode::original);
  if (at == graph->nodes.end()) return refused(kInvalidValue);
  return at->number;
}

Got<Nodes::Launched> Nodes::launch_of(std::uint64_t node) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const auto found = find(lock, At{.node = node});
  if (!found) return refused(found.error());
  MadeNode& is = found->node();
  if (is.kind != NodeKind::kernel) return refused(kInvalidValue);
  const auto launch = operation_in<Launch>(is.operation);
  if (!launch) return refused(kNotSupported);
  Kernel* const kernel = all_.kernels.modules().kernel_by(launch->kernel, core_.generation);
  if (kernel == nullptr) return refused(kInvalidFunction);
  is.parameters.clear();
  for (const image::Place& place : kernel->layout->parameters)
    is.parameters.push_back(const_cast<std::byte*>(launch->parameters.data()) + place.offset);
  return Launched{.kernel = kernel,
                  .shape = {.grid = launch->grid,
                            .block = launch->block,
                            .shared_bytes = launch->shared_bytes,
                            .cooperative = (launch->flags & kCooperative) != 0},
                  .parameters = is.parameters.empty() ? nullptr : is.parameters.data()};
}

Got<CopyDevice> Nodes::copy_of(std::uint64_t node) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const auto found = find(lock, At{.node = node});
  if (!found) return refused(found.error());
  if (found->node().kind != NodeKind::copy) return refused(kInvalidValue);
  auto copy = operation_in<CopyDevice>(found->node().operation);
  if (!copy || found->grows) return refused(kNotSupported);
  if (const HostCopy* const hosts = host_copy(*found)) {
    DevicePointer& place = copy->from.value == hosts->staging ? copy->from : copy->to;
    place.value = reinterpret_cast<std::uintptr_t>(hosts->host);
  }
  return *copy;
}

Got<Callback> Nodes::call_of(std::uint64_t node) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const auto found = find(lock, At{.node = node});
  if (!found) return refused(found.error());
  const auto call = operation_in<HostCall>(found->node().operation);
  if (!call) return refused(kInvalidValue);
  const auto known =
      std::ranges::find(found->copies->calls, call->token.value, &HostCopies::Call::token);
  if (known == found->copies->calls.end()) return refused(kNotSupported);
  return known->what;
}

HostCopy* Nodes::host_copy(const Found& of) {
  const auto copy = operation_in<CopyDevice>(of.node().operation);
  if (!copy) return nullptr;
  const auto in = std::ranges::find(of.copies->in, copy->from.value, &HostCopy::staging);
  if (in != of.copies->in.end()) return &*in;
  const auto out = std::ranges::find(of.copies->out, copy->to.value, &HostCopy::staging);
  return out == of.copies->out.end() ? nullptr : &*out;
}

// ---- how they change

// `operation` empty: it stays what it is, enabled or not.
Status Nodes::change(const Lock& lock, const Found& of, std::vector<std::byte> operation) {
  const bool disabled = of.made != nullptr && of.made->disabled.contains(of.node().number);
  const GraphSet set{.graph = {of.graph},
                     .exec = {of.exec},
                     .place = static_cast<std::uint32_t>(of.place),
                     .operation = operation,
                     .enabled = disabled ? 0U : 1U};
  const Status status = core_.link->post(lock, set);
  if (status == kOk && !operation.empty()) of.node().operation = std::move(operation);
  return status;
}

bool Nodes::can_rename_calls(const Found& of) {
  return std::ranges::all_of(of.copies->calls, [&](const HostCopies::Call& call) {
    return std::ranges::any_of(*of.nodes, [&](const MadeNode& node) {
      const auto its = operation_in<HostCall>(node.operation);
      return its && its->token.value == call.token;
    });
  });
}

// Launches that are under way keep the old ones, and so does what else was made of the same graph.
Status Nodes::rename_calls(const Lock& lock, const Found& of) {
  for (HostCopies::Call& call : of.copies->calls) {
    if (is_free(all_.call_copies, call)) continue;
    Found its = of;
    for (its.place = 0; its.place < its.nodes->size(); ++its.place) {
      const auto is = operation_in<HostCall>(its.node().operation);
      if (is && is->token.value == call.token) break;
    }
    if (its.place == its.nodes->size()) continue;
    const std::uint64_t token = core_.add_callback(call.what);
    const Status status = change(lock, its, frame_of(HostCall{.token = {token}}));
    if (status != kOk) return status;
    if (of.made != nullptr) all_.call_copies.retire(call.token);
    call.token = token;
    call.own = of.made != nullptr;
  }
  return kOk;
}

Status Nodes::set_launch(const At& at, Kernel& kernel, const LaunchShape& shape,
                         void** parameters) {
  Got<NodeLaunch> made = all_.kernels.launch_of_node(kernel, shape, parameters);
  if (!made) return made.error();
  Lock lock(core_.mutex);
  const auto found = find(lock, at);
  if (!found) return found.error();
  if (found->node().kind != NodeKind::kernel) return kInvalidValue;
  const auto was = operation_in<Launch>(found->node().operation);
  if (!was) return kNotSupported;
  made->launch.flags = was->flags;
  made->launch.parameters = made->block;
  return change(lock, *found, frame_of(made->launch));
}

// Of an executable graph rows stay as they are, and a run of bytes stays one.
Status Nodes::set_set(const At& at, Set set) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  if (const Status status = all_.host.map_address(lock, set.to); status != kOk) return status;
  const auto found = find(lock, at);
  if (!found) return found.error();
  const auto was = operation_in<Set>(found->node().operation);
  if (!was) return kInvalidValue;
  const bool rows = was->rows > 1;
  const bool alike = set.rows == was->rows && set.count == was->count &&
                     set.element == was->element && set.pitch == was->pitch;
  if (at.exec != 0 && (set.count == 0 || set.rows == 0 || (rows ? !alike : set.rows > 1)))
    return kInvalidValue;
  return change(lock, *found, frame_of(set));
}

// The staging memory of a copy is for so many bytes, and nobody else's.
Status Nodes::place_copy(Lock& lock, HostCopy& copy, std::uint64_t bytes) {
  constexpr int kAlone = 2;  // the copy, and the list of such memory
  if (copy.block == nullptr || copy.block.use_count() > kAlone || copy.block->bytes < bytes) {
    auto block = all_.graph_memory.make_staging(lock, bytes);
    if (!block) return block.error();
    copy.block = *std::move(block);
  }
  copy.staging = copy.block->address;
  copy.bytes = bytes;
  return kOk;
}

Status Nodes::set_copy(const At& at, Copy copy) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto found = find(lock, at);
  if (!found) return found.error();
  if (found->node().kind != NodeKind::copy || copy.bytes == 0) return kInvalidValue;
  const auto was = operation_in<CopyDevice>(found->node().operation);
  if (!was || found->grows) return kNotSupported;
  if (at.exec != 0 && was->rows > 1) return kInvalidValue;
  HostCopy* const hosts = host_copy(*found);
  const bool in = hosts != nullptr && was->from.value == hosts->staging;
  const auto reach = [&](std::uint64_t& place, bool& device) {  // pinned memory that kernels have
    if (device || hosts != nullptr) return;
    const auto there = all_.host.mapped(lock, reinterpret_cast<const void*>(place), copy.bytes);
    if (there) place = *there, device = true;
  };
  reach(copy.to, copy.to_device), reach(copy.from, copy.from_device);
  if (copy.from_device == in || copy.to_device == (hosts != nullptr && !in))
    return at.exec != 0 || (!copy.to_device && !copy.from_device) ? kInvalidValue : kNotSupported;
  CopyDevice next{.to = {copy.to}, .from = {copy.from}, .width = copy.bytes};
  if (hosts == nullptr) return change(lock, *found, frame_of(next));
  if (!can_rename_calls(*found)) return kNotSupported;
  HostCopy now = *hosts;
  hosts->block.reset();
  Status status = place_copy(lock, now, copy.bytes);
  if (status != kOk) return hosts->block = now.block, status;
  now.host = reinterpret_cast<std::byte*>(in ? copy.from : copy.to);
  (in ? next.from : next.to).value = now.staging;
  *hosts = std::move(now);
  status = change(lock, *found, frame_of(next));
  if (status == kOk) status = rename_calls(lock, *found);
  return status == kOk ? all_.graph_memory.sweep(lock) : status;
}

Status Nodes::set_call(const At& at, Callback callback) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto found = find(lock, at);
  if (!found) return found.error();
  const auto was = operation_in<HostCall>(found->node().operation);
  if (!was) return kInvalidValue;
  const auto call =
      std::ranges::find(found->copies->calls, was->token.value, &HostCopies::Call::token);
  if (call == found->copies->calls.end()) return kNotSupported;
  callback.again = true;
  call->what = callback;
  if (is_free(all_.call_copies, *call)) return core_.put_callback(call->token, callback), kOk;
  const std::uint64_t token = core_.add_callback(callback);
  if (found->made != nullptr) all_.call_copies.retire(call->token);
  call->token = token;
  call->own = found->made != nullptr;
  return change(lock, *found, frame_of(HostCall{.token = {token}}));
}

Status Nodes::set_event(const At& at, std::uint64_t event, bool records) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto found = find(lock, at);
  if (!found) return found.error();
  const std::uint64_t was = event_in(found->node().operation, records);
  if (was == 0) return kInvalidValue;
  if (const Status status = all_.events.check_node(event); status != kOk) return status;
  found->copies->replace({was, records}, event);
  return change(lock, *found, frame_of_event(event, records));
}

Status Nodes::set_attribute(std::uint64_t node, int attribute, const AttributeValue& value) {
  if (attribute != kIsCooperative) {
    Lock lock(core_.mutex);
    const auto found = find(lock, At{.node = node});
    if (!found) return found.error();
    if (found->node().kind != NodeKind::kernel) return kInvalidValue;
    found->node().attributes[attribute] = value;
    return kOk;
  }
  const auto now = launch_of(node);
  if (!now) return now.error();
  LaunchShape shape = now->shape;
  std::int32_t word = 0;
  std::memcpy(&word, value.data(), sizeof word);
  shape.cooperative = word != 0;
  Got<NodeLaunch> made = all_.kernels.launch_of_node(*now->kernel, shape, now->parameters);
  if (!made) return made.error();
  made->launch.parameters = made->block;
  Lock lock(core_.mutex);
  const auto found = find(lock, At{.node = node});
  if (!found) return found.error();
  return change(lock, *found, frame_of(made->launch));
}

Status Nodes::enable(const At& at, bool is) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto found = at.exec == 0 ? Got<Found>(refused(kInvalidValue)) : find(lock, at);
  if (!found) return found.error();
  const NodeKind kind = found->node().kind;
  if (kind != NodeKind::kernel && kind != NodeKind::copy && kind != NodeKind::set)
    return kInvalidValue;
  std::set<std::uint64_t>& disabled = found->made->disabled;
  if (is == !disabled.contains(at.node)) return kOk;
  HostCopy* const hosts = host_copy(*found);
  if (hosts != nullptr && !can_rename_calls(*found)) return kNotSupported;
  if (is)
    disabled.erase(at.node);
  else
    disabled.insert(at.node);
  const Status status = change(lock, *found, {});
  if (hosts == nullptr || status != kOk) return status;
  hosts->enabled = is;
  return rename_calls(lock, *found);
}

Got<bool> Nodes::is_enabled(const At& at) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const auto found = at.exec == 0 ? Got<Found>(refused(kInvalidValue)) : find(lock, at);
  if (!found) return refused(found.error());
  const NodeKind kind = found->node().kind;
  if (kind != NodeKind::kernel && kind != NodeKind::copy && kind != NodeKind::set)
    return refused(kInvalidValue);
  return !found->made->disabled.contains(at.node);
}

Status Nodes::updated(Lock& lock, std::uint64_t exec) {
  MadeExec& made = all_.graphs.execs().at(exec);
  for (MadeNode& node : made.nodes) node.known = false;
  made.known = made.nodes.empty();
  if (made.disabled.empty()) return kOk;
  Found of = found_in(exec, made);
  if (const Status status = learn(lock, of); status != kOk) return status;
  bool any = false;
  for (of.place = 0; of.place < made.nodes.size(); ++of.place) {
    if (!made.disabled.contains(of.node().number)) continue;
    HostCopy* const hosts = host_copy(of);
    if (hosts == nullptr) continue;
    hosts->enabled = false;
    any = true;
  }
  return any ? rename_calls(lock, of) : kOk;
}

Status Nodes::order(std::uint64_t node, std::span<const std::uint64_t> after) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto found = find(lock, At{.node = node});
  if (!found) return found.error();
  MadeGraph& graph = *made_graph(all_, found->graph);
  if (found->grows) return kNotSupported;
  if (!graph.has(after)) return kInvalidValue;
  for (const std::uint64_t earlier : after)
    if (graph.find(earlier) >= &found->node()) return kNotSupported;
  const auto known = graph.for_server(after);
  found->node().after.assign(after.begin(), after.end());
  return core_.link->post(lock, GraphOrder{.graph = {found->graph},
                                           .place = static_cast<std::uint32_t>(found->place),
                                           .after = std::as_bytes(std::span(known))});
}

Status Nodes::remove(std::uint64_t node) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto found = find(lock, At{.node = node});
  if (!found) return found.error();
  MadeGraph& graph = *made_graph(all_, found->graph);
  const bool memory = std::ranges::any_of(graph.nodes, is_memory);
  if (found->grows || is_memory(found->node())) return kNotSupported;
  const auto comes_after = [node](const MadeNode& other) {
    return std::ranges::find(other.after, node) != other.after.end();
  };
  if (memory && (!found->node().after.empty() || std::ranges::any_of(graph.nodes, comes_after)))
    return kInvalidValue;
  const HostCopy* const hosts = host_copy(*found);
  if (hosts != nullptr && !can_rename_calls(*found)) return kNotSupported;
  const Status status =
      core_.link->post(lock, GraphOrder{.graph = {found->graph},
                                        .place = static_cast<std::uint32_t>(found->place),
                                        .gone = 1});
  if (status != kOk) return status;
  if (hosts != nullptr) take_away(graph.copies, hosts);
  if (const auto call = operation_in<HostCall>(found->node().operation))
    std::erase_if(graph.copies.calls,
                  [&](const HostCopies::Call& one) { return one.token == call->token.value; });
  for (const bool records : {false, true})
    if (const std::uint64_t event = event_in(found->node().operation, records); event != 0)
      graph.copies.replace({event, records}, 0);
  for (const std::uint64_t body : found->node().bodies) {
    std::erase(graph.bodies, body);
    all_.graphs.forget(body);
  }
  graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(found->place));
  for (MadeNode& other : graph.nodes) std::erase(other.after, node);
  return hosts == nullptr ? kOk : rename_calls(lock, *found);
}

// ---- whether an executable graph can become a graph

namespace {

// Whether a copy is from and to the program's memory, pinned memory on the device included.
std::pair<bool, bool> sides_of(const MadeNode& node, const HostCopies& copies,
                               std::span<const Block> pinned) {
  const auto copy = operation_in<CopyDevice>(node.operation);
  if (!copy) return {};
  const auto is_host = [&](const std::vector<HostCopy>& some, std::uint64_t address) {
    return std::ranges::find(some, address, &HostCopy::staging) != some.end() ||
           std::ranges::any_of(pinned, [address](const Block& block) {
             return address - block.address < block.bytes;
           });
  };
  return {is_host(copies.in, copy->from.value), is_host(copies.out, copy->to.value)};
}

// Why `was` cannot become `is`, of the same kind: cudaGraphExecUpdate has the rules.
Difference::What change_of(const MadeNode& was, const MadeNode& is, std::uint64_t flags) {
  const auto launched = operation_in<Launch>(was.operation);
  const auto launch = operation_in<Launch>(is.operation);
  if (launched && launch && ((launched->flags ^ launch->flags) & kCooperative) != 0)
    return Difference::kAttributes;
  const auto priority = [](const MadeNode& node) {
    std::int32_t value = 0;
    const auto at = node.attributes.find(kNodePriority);
    if (at != node.attributes.end()) std::memcpy(&value, at->second.data(), sizeof value);
    return value;
  };
  if ((flags & kUsesPriorities) != 0 && priority(was) != priority(is))
    return Difference::kAttributes;
  const auto before = operation_in<Set>(was.operation), set = operation_in<Set>(is.operation);
  if (before && set && (before->rows > 1 || set->rows > 1) &&
      (before->rows != set->rows || before->count != set->count ||
       before->element != set->element || before->pitch != set->pitch))
    return Difference::kParameters;
  return Difference::kSame;
}

}  // namespace

Got<Difference> difference(Session& all, std::uint64_t exec, std::uint64_t graph) {
  const auto executed = all.nodes.all_of(exec), made = all.nodes.all_of(graph);
  if (!executed || !made) return refused((executed ? made : executed).error());
  if (executed->size() != made->size()) return Difference{Difference::kTopology};
  const Lock lock(all.core.mutex);
  const auto found = all.graphs.execs().find(exec);
  const MadeGraph* const from = made_graph(all, graph);
  if (found == all.graphs.execs().end() || from == nullptr) return refused(kInvalidValue);
  const std::vector<Block> pinned = all.host.blocks_on_device(lock);
  std::map<std::uint64_t, std::uint64_t> pairs;
  for (std::size_t i = 0; i < made->size(); ++i) pairs[(*made)[i].number] = (*executed)[i].number;
  for (std::size_t i = 0; i < made->size(); ++i) {
    const MadeNode &was = (*executed)[i], &is = (*made)[i];
    if (was.kind != is.kind) return Difference{Difference::kType, is.number};
    if (was.after.size() != is.after.size()) return Difference{Difference::kTopology, is.number};
    for (std::size_t at = 0; at < is.after.size(); ++at)
      if (pairs[is.after[at]] != was.after[at])
        return Difference{Difference::kTopology, is.number, is.after[at]};
    const Difference::What what = change_of(was, is, found->second.flags);
    if (what != Difference::kSame) return Difference{what, is.number};
    if (sides_of(was, found->second.copies, pinned) != sides_of(is, from->copies, pinned))
      return Difference{Difference::kParameters, is.number};
  }
  return Difference{};
}

}  // namespace partita::remote::client
