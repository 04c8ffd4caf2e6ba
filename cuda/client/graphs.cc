#include "client/graphs.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <ranges>
#include <utility>

#include "client/session.h"

namespace partita::remote::client {
// --- captures

Captures::Capture* Captures::at(std::uint64_t stream) {
  const Streams::Stream* found = all_.streams.find(stream);
  if (found == nullptr || found->capture == 0) return nullptr;
  const auto capture = captures_.find(found->capture);
  return capture == captures_.end() ? nullptr : &capture->second;
}

bool Captures::break_blocking() {
  for (auto& [id, capture] : captures_) {
    const Streams::Stream* origin = all_.streams.find(capture.origin);
    if (origin == nullptr || (origin->flags & kNonBlocking) != 0) continue;
    capture.broken = true;
    return true;
  }
  return false;
}

Status Captures::begin(std::uint64_t stream, std::uint32_t mode, std::uint64_t graph,
                       std::span<const std::uint64_t> after) {
  // More than a server takes of nodes.
  constexpr std::uint64_t kMostNodes = std::uint64_t{1} << 32;
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  if (stream == 0 || stream == kLegacyStream) return kCaptureUnsupported;
  const auto real = all_.streams.resolved(lock, stream);
  if (!real) return real.error();
  if (at(*real) != nullptr || (graph != 0 && made_graph(all_, graph) == nullptr))
    return kInvalidValue;
  const std::uint64_t id = core_.new_handle();
  const bool fresh = graph == 0;
  if (fresh) graph = core_.new_handle();
  const std::uint64_t first = core_.new_handles(kMostNodes);
  if (fresh) all_.graphs.all()[graph] = {};
  const auto known = made_graph(all_, graph)->for_server(after);
  made_graph(all_, graph)->being_captured = true;
  captures_[id] = {
      .id = id, .origin = *real, .graph = graph, .first = first, .fresh = fresh, .mode = mode};
  all_.streams.find(*real)->capture = id;
  return core_.link->post(lock, CaptureBegin{.stream = {*real},
                                             .mode = mode,
                                             .graph = {graph},
                                             .after = std::as_bytes(std::span(known)),
                                             .first = {first}});
}

Got<std::uint64_t> Captures::end(std::uint64_t stream) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const auto real = all_.streams.resolved(lock, stream);
  if (!real) return refused(real.error());
  const Streams::Stream* at = all_.streams.find(*real);
  const auto found = captures_.find(at->capture);
  if (at->capture == 0 || found == captures_.end()) return refused(kInvalidValue);
  if (found->second.origin != *real) return refused(kCaptureUnmatched);
  const Capture capture = std::move(found->second);
  const std::uint64_t id = found->first;
  captures_.erase(found);
  all_.streams.leave_capture(id);
  const Answer answer = core_.link->call_held(
      lock, CaptureEnd{.stream = {*real}, .graph = {capture.graph}}, Cause::graph);
  MadeGraph& graph = *made_graph(all_, capture.graph);
  graph.being_captured = false;
  if (answer.status != kOk) {
    if (capture.fresh) all_.graphs.forget(capture.graph);
    return refused(answer.status);
  }
  graph.copies.add(capture.copies);
  const auto reply = decode<CaptureEnd::Reply>(answer.reply);
  const bool told = graph.find(capture.first) != nullptr;  // of what was captured by then
  for (std::uint32_t i = 0; reply && i < reply->nodes; ++i)
    if (!told || graph.find(capture.first + i) == nullptr) graph.add({.number = capture.first + i});
  graph.known = graph.known && reply && reply->nodes == 0;
  if (!capture.broken) return capture.graph;
  if (capture.fresh) {
    all_.graphs.forget(capture.graph);
    core_.link->post(lock, GraphDestroy{.graph = {capture.graph}});
  }
  return refused(kCaptureInvalidated);
}

Got<std::vector<std::uint64_t>> Captures::nodes_before(std::uint64_t stream) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const auto real = all_.streams.resolved(lock, stream);
  if (!real) return refused(real.error());
  const Answer answer = core_.link->call_held(lock, CaptureNodes{.stream = {*real}}, Cause::graph);
  if (answer.status != kOk) return refused(answer.status);
  const auto reply = decode<CaptureNodes::Reply>(answer.reply);
  if (!reply) return refused(kUnknown);
  std::vector<std::uint64_t> nodes(reply->after.size() / sizeof(std::uint64_t));
  if (!nodes.empty())
    std::memcpy(nodes.data(), reply->after.data(), nodes.size() * sizeof(std::uint64_t));
  return nodes;
}

Status Captures::set_nodes_before(std::uint64_t stream, std::span<const std::uint64_t> nodes,
                                  bool add) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto real = all_.streams.resolved(lock, stream);
  if (!real) return real.error();
  if (at(*real) == nullptr) return kInvalidValue;
  return core_.link->post(
      lock, CaptureAfter{.stream = {*real}, .after = std::as_bytes(nodes), .add = add ? 1U : 0U});
}

Got<Captures::Capture*> Captures::of(const Lock& lock, std::uint64_t stream) {
  if (stream == 0 || stream == kLegacyStream) return nullptr;
  const auto real = all_.streams.resolved(lock, stream);
  if (!real) return refused(real.error());
  return at(*real);
}

Got<CaptureState> Captures::state_of(std::uint64_t stream) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const auto capture = of(lock, stream);
  if (!capture) return refused(capture.error());
  if (*capture == nullptr) return CaptureState{};
  return CaptureState{(*capture)->broken ? 2 : 1, (*capture)->id, (*capture)->graph};
}

bool Captures::spoil(std::uint64_t stream) {
  Lock lock(core_.mutex);
  if (core_.connected(lock) != kOk) return false;
  const auto capture = of(lock, stream);
  if (!capture || *capture == nullptr) return false;
  return (*capture)->broken = true;
}

// --- graphs

std::vector<HostCopy> enabled(std::span<const HostCopy> copies) {
  std::vector<HostCopy> some;
  std::ranges::copy_if(copies, std::back_inserter(some), &HostCopy::enabled);
  return some;
}

void HostCopies::replace(const Event& event, std::uint64_t other) {
  const auto is = [&](const Event& one) {
    return one.event == event.event && one.records == event.records;
  };
  const auto found = std::ranges::find_if(events, is);
  if (found == events.end()) return;
  // Which of several with the same event it is nobody needs to know: all are as late as the last.
  for (Event& one : events)
    if (is(one)) found->out = std::max(found->out, one.out);
  for (Event& one : events)
    if (is(one)) one.out = found->out;
  if (other == 0)
    events.erase(found);
  else
    found->event = other;
}

void HostCopies::add(const HostCopies& others) {
  for (Event event : others.events) {
    event.out += out.size();
    events.push_back(event);
  }
  for (Call call : others.calls) {
    call.in += in.size();
    call.out += out.size();
    calls.push_back(call);
  }
  in.insert(in.end(), others.in.begin(), others.in.end());
  out.insert(out.end(), others.out.begin(), others.out.end());
  memory.insert(memory.end(), others.memory.begin(), others.memory.end());
  conditions.insert(conditions.end(), others.conditions.begin(), others.conditions.end());
}

void Graphs::forget(std::uint64_t graph) {
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return;
  const std::vector<std::uint64_t> bodies = found->second.bodies;
  graphs_.erase(found);
  for (const std::uint64_t body : bodies) forget(body);
}

HostCopies Graphs::all_copies(const MadeGraph& graph) const {
  HostCopies all = graph.copies;
  for (const std::uint64_t body : graph.bodies) all.add(all_copies(graphs_.at(body)));
  return all;
}

void Graphs::clear() {
  graphs_.clear();
  execs_.clear();
}

Got<std::uint64_t> Graphs::create() {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const std::uint64_t graph = core_.new_handle();
  const Status status = core_.link->post(lock, GraphCreate{.graph = {graph}});
  if (status != kOk) return refused(status);
  graphs_[graph] = {};
  return graph;
}

Status Graphs::destroy(std::uint64_t graph) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto found = graphs_.find(graph);
  if (found == graphs_.end() || found->second.is_body || found->second.being_captured)
    return kInvalidValue;
  forget(graph);
  const Status status = core_.link->post(lock, GraphDestroy{.graph = {graph}});
  return status == kOk ? all_.graph_memory.sweep(lock) : status;
}

Got<std::uint64_t> GraphMemory::make(Lock& lock, HostCopies& of, std::uint64_t bytes) {
  const auto address = all_.memory.allocate(lock, bytes);
  if (!address) return address;
  of.memory.push_back(blocks_[*address] = std::make_shared<const Block>(Block{*address, bytes}));
  return address;
}

Got<std::shared_ptr<const Block>> GraphMemory::make_staging(Lock& lock, std::uint64_t bytes) {
  HostCopies nobodys;
  const auto address = make(lock, nobodys, bytes);
  if (!address) return refused(address.error());
  staging_.insert(*address);
  return nobodys.memory.back();
}

Status GraphMemory::sweep(const Lock& lock) {
  Status status = kOk;
  for (auto next = blocks_.begin(); next != blocks_.end();) {
    const auto here = next++;
    if (here->second.use_count() > 1) continue;
    const std::uint64_t address = here->first;
    blocks_.erase(here);
    staging_.erase(address);
    if (status == kOk) status = all_.memory.release(lock, address);
  }
  return status;
}

Got<std::uint64_t> GraphMemory::hold(std::uint64_t bytes) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  HostCopies nobodys;
  const auto address = make(lock, nobodys, bytes);
  if (address) held_[*address] = blocks_[*address];
  return address;
}

void GraphMemory::use(std::uint64_t stream, std::uint64_t address) {
  Lock lock(core_.mutex);
  if (core_.connected(lock) != kOk) return;
  const auto capture = all_.captures.of(lock, stream);
  const auto block = blocks_.find(address);
  if (!capture || *capture == nullptr || block == blocks_.end()) return;
  std::vector<std::shared_ptr<const Block>>& kept = (*capture)->copies.memory;
  if (std::ranges::find(kept, block->second) == kept.end()) kept.push_back(block->second);
}

Status GraphMemory::drop(std::uint64_t address) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  held_.erase(address);
  return sweep(lock);
}

Got<std::uint64_t> Graphs::add_memory(std::uint64_t graph, Nodes after, std::uint64_t& address,
                                      std::uint64_t bytes) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  if (bytes == 0 || !graphs_.contains(graph)) return refused(kInvalidValue);
  const auto node = add_node(lock, graph, after, {}, NodeKind::allocate);
  if (!node) return node;
  const auto made = all_.graph_memory.make(lock, graphs_[graph].copies, bytes);
  if (!made) return made;
  address = *made;
  return node;
}

bool GraphMemory::has(std::uint64_t address) {
  const Lock lock(core_.mutex);
  return has(lock, address);
}

std::uint64_t GraphMemory::bytes() {
  const Lock lock(core_.mutex);
  std::uint64_t sum = 0;
  for (const auto& [address, block] : blocks_)
    if (!held_.contains(address) && !staging_.contains(address)) sum += block->bytes;
  return sum;
}

bool MadeGraph::has(std::span<const std::uint64_t> some) const {
  return being_captured ||
         std::ranges::all_of(some, [&](std::uint64_t node) { return find(node) != nullptr; });
}

void MadeGraph::add(MadeNode node) {
  if (node.at_server == 0) node.at_server = node.number;
  nodes.push_back(std::move(node));
}

std::vector<std::uint64_t> MadeGraph::for_server(std::span<const std::uint64_t> some) const {
  std::vector<std::uint64_t> there(some.begin(), some.end());
  for (std::uint64_t& node : there)
    if (const MadeNode* const is = find(node)) node = is->at_server;
  return there;
}

MadeGraph cloned(const MadeGraph& graph, Core& core) {
  MadeGraph copy = graph;
  copy.is_body = copy.being_captured = false;
  std::map<std::uint64_t, std::uint64_t> numbers;
  for (MadeNode& node : copy.nodes) {
    node.original = node.number;
    node.number = numbers[node.original] = core.new_handle();
  }
  for (MadeNode& node : copy.nodes)
    for (std::uint64_t& earlier : node.after) earlier = numbers[earlier];
  return copy;
}

MadeGraph* made_graph(Session& all, std::uint64_t graph) {
  auto& graphs = all.graphs.all();
  const auto found = graphs.find(graph);
  return found == graphs.end() ? nullptr : &found->second;
}

Got<std::uint64_t> Graphs::add_node(const Lock& lock, std::uint64_t graph, Nodes after,
                                    std::vector<std::byte> operation, NodeKind empty) {
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return refused(kInvalidValue);
  if (!found->second.has(after)) return refused(kInvalidValue);
  const std::uint64_t node = core_.new_handle();
  const auto known = found->second.for_server(after);
  const GraphAdd add{.graph = {graph},
                     .node = {node},
                     .after = std::as_bytes(std::span(known)),
                     .operation = operation};
  if (const Status status = core_.link->post(lock, add); status != kOk) return refused(status);
  found->second.add({.number = node,
                     .known = true,
                     .kind = operation.empty() ? empty : kind_of(operation),
                     .after = {after.begin(), after.end()},
                     .operation = std::move(operation)});
  return node;
}

template <class Op>
Got<std::uint64_t> Graphs::add_operation(std::uint64_t graph, Nodes after, const Op& operation) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  return add_node(lock, graph, after, frame_of(operation));
}

Got<std::uint64_t> Graphs::add_empty(std::uint64_t graph, Nodes after, NodeKind kind) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  return add_node(lock, graph, after, {}, kind);
}

Got<std::uint64_t> Graphs::add_launch(std::uint64_t graph, Nodes after, Kernel& kernel,
                                      const LaunchShape& shape, void** parameters) {
  Got<NodeLaunch> node = all_.kernels.launch_of_node(kernel, shape, parameters);
  if (!node) return refused(node.error());
  node->launch.parameters = node->block;
  return add_operation(graph, after, node->launch);
}

Got<std::uint64_t> Graphs::add_set(std::uint64_t graph, Nodes after, Set set) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  if (const Status status = all_.host.map_address(lock, set.to); status != kOk)
    return refused(status);
  return add_node(lock, graph, after, frame_of(set));
}

Got<std::uint64_t> Graphs::add_event(std::uint64_t graph, Nodes after, std::uint64_t event,
                                     bool records) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  if (const Status status = all_.events.check_node(event); status != kOk) return refused(status);
  const auto node = add_node(lock, graph, after, frame_of_event(event, records));
  if (node) {
    HostCopies& copies = graphs_[graph].copies;
    copies.events.push_back({event, records, copies.out.size()});
  }
  return node;
}

Got<std::uint64_t> Graphs::add_copy_device(std::uint64_t graph, Nodes after,
                                           const CopyDevice& copy) {
  return add_operation(graph, after, copy);
}

Got<std::uint64_t> Graphs::add_call(std::uint64_t graph, Nodes after, Callback callback) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  if (const Status status = all_.managed.check_callback(); status != kOk) return refused(status);
  callback.again = true;
  const HostCall call{.token = {core_.add_callback(callback)}};
  const auto node = add_node(lock, graph, after, frame_of(call));
  if (node) graphs_[graph].copies.add_call(call.token.value, callback);
  return node;
}

void CallCopies::note(const std::shared_ptr<const HostCopies>& copies) {
  for (const HostCopies::Call& call : copies->calls) {
    Around& around = around_[call.token];
    around.of = copies;
    around.in_from = call.in;
    around.out_to = call.out;
    around.retired = false;
    ++around.due;
  }
}

void CallCopies::retire(std::uint64_t token) {
  const auto found = around_.find(token);
  if (found == around_.end()) return;
  found->second.retired = true;
  if (found->second.due == 0) around_.erase(found);
}

Status CallCopies::fetch(const Lock& lock, std::uint64_t stream, const std::vector<HostCopy>& in,
                         bool frees) {
  const std::uint64_t token = core_.add_callback({});
  around_[token] = {.in = in, .once = true, .frees = frees, .stream = stream};
  return core_.link->post(lock, HostCall{.stream = {stream}, .token = {token}});
}

// The bytes are fetched by a function of the stream, between what it comes behind and the copy.
Status CallCopies::copy_in(Lock& lock, std::uint64_t stream, std::uint64_t to, Bytes from) {
  const auto staging = all_.memory.allocate(lock, from.size());
  if (!staging) return staging.error();
  all_.streams.note_work(stream);
  const HostCopy in{.staging = *staging,
                    .bytes = from.size(),
                    .host = const_cast<std::byte*>(from.data())};  // only read
  const Status status = fetch(lock, stream, {in}, true);
  if (status != kOk) return status;
  return core_.link->post(
      lock, CopyDevice{.stream = {stream}, .to = {to}, .from = {*staging}, .width = from.size()});
}

Status CallCopies::wait(std::uint64_t stream, const void* memory, std::uint64_t bytes) {
  {
    Lock lock(core_.mutex);
    if (const Status status = core_.connected(lock); status != kOk) return status;
    const auto real = all_.streams.resolved(lock, stream);
    if (!real) return real.error();
    if (all_.captures.at(*real) != nullptr || !all_.host.is_pinned(lock, memory, bytes) ||
        !(all_.host.mapped(lock, memory, bytes) || all_.streams.is_behind_writes(*real)))
      return kOk;
  }
  return all_.streams.synchronise(stream);
}

Status CallCopies::show_rest(const Lock& lock, std::uint64_t stream, std::vector<HostCopy> seen) {
  const std::uint64_t token = core_.add_callback({});
  around_[token] = {.rest = std::move(seen), .once = true};
  return core_.link->post(lock, HostCall{.stream = {stream}, .token = {token}});
}

bool CallCopies::is_due(std::uint64_t token) const {
  const auto found = around_.find(token);
  return found != around_.end() && found->second.due > 0;
}

// False: the session has ended.
static bool copy_now(Session& all, Core& core, Lock& lock, std::uint64_t from,
                     std::span<std::byte> to) {
  if (core.link == nullptr) return false;
  const auto stream = all.managed.side_stream(lock);
  if (!stream) return false;
  const CopyOut copy{.stream = *stream, .from = {from}, .bytes = to.size()};
  const Answer answer = core.link->call(lock, copy, Cause::graph, to);
  lock.lock();
  return answer.status == kOk;
}

void CallCopies::take_rest(Lock& lock, const HostCopy& copy) {
  std::vector<std::byte> now(copy.bytes);
  if (!copy_now(all_, core_, lock, copy.staging, now)) return;
  const auto seen = seen_.find(copy.staging);
  if (seen == seen_.end() || seen->second != now) std::ranges::copy(now, copy.host);
  if (seen != seen_.end()) seen_.erase(seen);
}

void CallCopies::before(std::uint64_t token) {
  Lock lock(core_.mutex);
  const auto found = around_.find(token);
  if (found == around_.end()) return;
  const Around around = found->second;
  if (!around.rest.empty()) around_.erase(found);
  for (const HostCopy& copy : around.rest) take_rest(lock, copy);
  const std::span out =
      around.of ? std::span(around.of->out).first(around.out_to) : std::span<const HostCopy>();
  for (const HostCopy& copy : out) {
    if (!copy.enabled) continue;
    if (!copy_now(all_, core_, lock, copy.staging, {copy.host, copy.bytes})) return;
    seen_[copy.staging].assign(copy.host, copy.host + copy.bytes);
  }
}

void CallCopies::after(std::uint64_t token) {
  Lock lock(core_.mutex);
  const auto found = around_.find(token);
  if (found == around_.end()) return;
  Around around = found->second;
  if (around.due > 0) --found->second.due;
  if (around.once || (around.retired && found->second.due == 0)) around_.erase(found);
  if (around.of) around.in = enabled(std::span(around.of->in).subspan(around.in_from));
  if (around.in.empty() || core_.link == nullptr) return;
  const auto stream = all_.managed.side_stream(lock);
  if (!stream) return;
  for (const HostCopy& copy : around.in) {
    all_.host.map_named(lock, copy.staging, {copy.host, copy.bytes});
    core_.link->post(lock, CopyIn{.stream = *stream, .to = {copy.staging}},
                     {copy.host, copy.bytes});
  }
  core_.link->call(lock, StreamSync{.stream = *stream}, Cause::graph);
  if (!around.frees) return;
  lock.lock();
  if (core_.link == nullptr || core_.left) return;
  for (const HostCopy& copy : around.in)
    all_.memory.release_behind(lock, around.stream, copy.staging);
}

Got<std::uint64_t> Graphs::add_copy_in(std::uint64_t graph, Nodes after, std::uint64_t to,
                                       const void* from, std::uint64_t bytes) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const auto staging = all_.memory.allocate(lock, bytes);
  if (!staging) return staging;
  const CopyDevice copy{.to = {to}, .from = {*staging}, .width = bytes};
  const auto node = add_node(lock, graph, after, frame_of(copy));
  if (node) {
    auto* host = static_cast<std::byte*>(const_cast<void*>(from));
    graphs_[graph].copies.in.push_back({*staging, bytes, host});
  }
  return node;
}

Got<std::uint64_t> Graphs::add_copy_out(std::uint64_t graph, Nodes after, void* to,
                                        std::uint64_t from, std::uint64_t bytes) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const auto staging = all_.memory.allocate(lock, bytes);
  if (!staging) return staging;
  const CopyDevice copy{.to = {*staging}, .from = {from}, .width = bytes};
  const auto node = add_node(lock, graph, after, frame_of(copy));
  if (node) graphs_[graph].copies.out.push_back({*staging, bytes, static_cast<std::byte*>(to)});
  return node;
}

Got<std::uint64_t> Graphs::instantiate(std::uint64_t graph, std::uint64_t flags) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return refused(kInvalidValue);
  const std::uint64_t exec = core_.new_handle();
  const GraphInstantiate make{.graph = {graph}, .exec = {exec}};
  MadeExec made{.copies = all_copies(found->second),
                .nodes = found->second.nodes,
                .known = found->second.known,
                .flags = flags};
  const Answer answer = core_.link->call_held(lock, make, Cause::graph);
  if (answer.status != kOk) return refused(answer.status);
  execs_[exec] = std::move(made);
  return exec;
}

Got<std::uint64_t> Graphs::clone(std::uint64_t graph) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const auto found = graphs_.find(graph);
  if (found == graphs_.end() || !found->second.bodies.empty()) return refused(kInvalidValue);
  const std::uint64_t made = core_.new_handle();
  const Status status = core_.link->post(lock, GraphClone{.graph = {graph}, .clone = {made}});
  if (status != kOk) return refused(status);
  graphs_[made] = cloned(found->second, core_);
  return made;
}

Got<std::uint64_t> Graphs::flags(std::uint64_t exec) {
  const Lock lock(core_.mutex);
  const auto found = execs_.find(exec);
  if (found == execs_.end()) return refused(kInvalidValue);
  return found->second.flags;
}

// The server knows no priorities.
Status Graphs::update(std::uint64_t exec, std::uint64_t graph) {
  const auto with = flags(exec);
  if (!with) return with.error();
  if ((*with & kUsesPriorities) != 0) {
    const auto found = difference(all_, exec, graph);
    if (!found || found->what != Difference::kSame) return found ? kUpdateFailure : found.error();
  }
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto to = execs_.find(exec);
  const auto from = graphs_.find(graph);
  if (to == execs_.end() || from == graphs_.end()) return kInvalidValue;
  HostCopies copies = all_copies(from->second);
  std::vector<Block> host = all_.host.blocks_on_device(lock);
  for (const auto* const some :
       {&to->second.copies.in, &to->second.copies.out, &copies.in, &copies.out})
    for (const HostCopy& copy : *some) host.push_back({copy.staging, copy.bytes});
  static_assert(sizeof(Block) == 2 * sizeof(std::uint64_t));
  const GraphUpdate update{
      .exec = {exec}, .graph = {graph}, .host = std::as_bytes(std::span(host))};
  if (!within_limits(update)) return kNotSupported;
  const Answer answer = core_.link->call_held(lock, update, Cause::graph);
  if (answer.status != kOk) return answer.status;
  to->second.copies = std::move(copies);
  to->second.as_launched = nullptr;
  return all_.nodes.updated(lock, exec);
}

// Bytes for the graph's staging memory must not come while its last launch still reads there.
Status Graphs::order_launches(const Lock& lock, MadeExec& exec, std::uint64_t stream) {
  if (!exec.launched || exec.stream == stream) return kOk;
  all_.streams.note_work(stream);
  all_.streams.note_wait(stream);
  return core_.link->post(lock, StreamWaitEvent{.stream = {stream}, .event = {exec.event}});
}

// Copies may read what something that they come behind still writes.
Status Graphs::wait_for_events(const Lock& lock, const MadeExec& exec, std::uint64_t stream) {
  Status status = kOk;
  for (const HostCopies::Event& one : exec.copies.events) {
    if (one.records || !all_.events.is_due(one.event)) continue;
    all_.streams.note_work(stream);
    all_.streams.note_wait(stream);
    if (!exec.copies.in.empty() && status == kOk)
      status = core_.link->post(lock, StreamWaitEvent{.stream = {stream}, .event = {one.event}});
  }
  return status;
}

// What is recorded behind results of the program's is recorded once they are there.
Status Graphs::note_records(const Lock& lock, const MadeExec& exec, std::uint64_t stream) {
  Status status = kOk;
  for (const HostCopies::Event& one : exec.copies.events) {
    const bool late = one.out > 0;
    if (!one.records || !all_.events.note_record(one.event, stream, late)) continue;
    if (late && status == kOk)
      status = core_.link->post(lock, EventRecord{.event = {one.event}, .stream = {stream}});
  }
  return status;
}

Status Graphs::fetch_results(const Lock& lock, const MadeExec& exec, std::uint64_t stream) {
  std::size_t seen = 0;  // by functions of the graph
  for (const HostCopies::Call& call : exec.copies.calls) seen = std::max(seen, call.out);
  const std::span all(exec.copies.out);
  for (const HostCopy& copy : all.subspan(seen)) {
    if (!copy.enabled) continue;
    const std::uint64_t token = core_.expect_copy(copy.host, copy.bytes);
    core_.link->watch();
    const CopyOutLater fetch{
        .stream = {stream}, .from = {copy.staging}, .bytes = copy.bytes, .token = {token}};
    if (const Status status = core_.link->post(lock, fetch); status != kOk) return status;
  }
  const std::vector<HostCopy> rest = enabled(all.first(seen));
  return rest.empty() ? kOk : all_.call_copies.show_rest(lock, stream, rest);
}

Status Graphs::launch(std::uint64_t handle, std::uint64_t stream) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto real = all_.streams.resolved(lock, stream);
  if (!real) return real.error();
  const auto found = execs_.find(handle);
  if (found == execs_.end()) return kInvalidValue;
  if (all_.captures.at(*real) != nullptr) return kNotSupported;
  MadeExec& exec = found->second;
  const bool any_in = std::ranges::any_of(exec.copies.in, &HostCopy::enabled);
  const bool copies =
      !exec.copies.in.empty() || !exec.copies.out.empty() || !exec.copies.conditions.empty();
  auto is_in = std::views::filter(exec.copies.in, &HostCopy::enabled);
  for (const HostCopy& copy : is_in)
    if (const Status status = all_.host.map_named(lock, copy.staging, {copy.host, copy.bytes});
        status != kOk)
      return status;
  if (const Status status = all_.managed.begin_work(lock, *real); status != kOk) return status;
  if (copies)
    if (const Status status = order_launches(lock, exec, *real); status != kOk) return status;
  if (const Status status = wait_for_events(lock, exec, *real); status != kOk) return status;
  const bool behind = any_in && all_.streams.is_behind_writes(*real);
  all_.streams.note_work(*real);
  if (!exec.copies.out.empty() || !exec.copies.calls.empty()) all_.streams.note_write(*real);
  if (!exec.copies.calls.empty()) {
    if (exec.as_launched == nullptr)
      exec.as_launched = std::make_shared<const HostCopies>(exec.copies);
    all_.call_copies.note(exec.as_launched);
  }
  Status status = behind ? all_.call_copies.fetch(lock, *real, enabled(exec.copies.in)) : kOk;
  for (const HostCopies::Condition& one : exec.copies.conditions)
    if (status == kOk)
      status = core_.link->post(lock, Set{.stream = {*real},
                                          .to = {one.address},
                                          .value = one.value,
                                          .element = sizeof(one.value),
                                          .count = 1});
  for (const HostCopy& copy : is_in)
    if (status == kOk && !behind)
      status = core_.link->post(lock, CopyIn{.stream = {*real}, .to = {copy.staging}},
                                {copy.host, copy.bytes});
  if (status == kOk)
    status = core_.link->post(lock, GraphLaunch{.exec = {handle}, .stream = {*real}});
  if (status == kOk) status = fetch_results(lock, exec, *real);
  if (status == kOk) status = note_records(lock, exec, *real);
  if (status != kOk || !copies) return status;
  if (exec.event == 0) {
    exec.event = core_.new_handle();
    status = core_.link->post(lock, EventCreate{.event = {exec.event}, .flags = kNoTiming});
  }
  exec.stream = *real;
  exec.launched = true;
  return status != kOk
             ? status
             : core_.link->post(lock, EventRecord{.event = {exec.event}, .stream = {*real}});
}

Status Graphs::destroy_exec(std::uint64_t exec) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  if (execs_.erase(exec) == 0) return kInvalidValue;
  const Status status = core_.link->post(lock, GraphExecDestroy{.exec = {exec}});
  return status == kOk ? all_.graph_memory.sweep(lock) : status;
}

}  // namespace partita::remote::client
