#include "server/graphs.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "server/library_calls.h"

namespace partita::remote::server {
namespace {

constexpr int kMostNested = 16;  // branches inside branches
constexpr std::size_t kMostBodies = 256;

// Which nodes lie before (or are) those of `from`.
std::vector<bool> before(const GraphSpec& spec, const std::vector<Id>& from) {
  std::vector<bool> is(spec.nodes.size(), false);
  for (const Id node : from) is[node] = true;
  for (std::size_t node = spec.nodes.size(); node-- > 0;) {
    if (!is[node]) continue;
    for (const Id earlier : spec.nodes[node].after) is[earlier] = true;
  }
  return is;
}

// Where what stands for the program's memory begins, and how many bytes it has.
using HostPlaces = std::map<std::uint64_t, std::uint64_t>;

HostPlaces host_places(Bytes bytes) {
  HostPlaces places;
  std::uint64_t place[2];
  for (; bytes.size() >= sizeof(place); bytes = bytes.subspan(sizeof(place))) {
    std::memcpy(place, bytes.data(), sizeof(place));
    places.emplace(place[0], place[1]);
  }
  return places;
}

bool is_in(const HostPlaces& places, std::uint64_t address) {
  const auto behind = places.upper_bound(address);
  return behind != places.begin() && address - std::prev(behind)->first < std::prev(behind)->second;
}

// Whether a node of an executable graph can do this in place of what it does, of the same kind
// (cudaGraphExecUpdate has the rules).
bool can_become(const StreamWork& work, const StreamWork& other, const HostPlaces& host) {
  if (const auto* was = std::get_if<LaunchWork>(&work))
    return was->cooperative == std::get<LaunchWork>(other).cooperative;
  if (const auto* was = std::get_if<CopyWork>(&work)) {
    const auto& is = std::get<CopyWork>(other);
    return is_in(host, was->from) == is_in(host, is.from) &&
           is_in(host, was->to) == is_in(host, is.to);
  }
  if (const auto* was = std::get_if<SetWork>(&work)) {
    const auto& is = std::get<SetWork>(other);
    return (was->rows <= 1 && is.rows <= 1) ||
           (was->rows == is.rows && was->count == is.count && was->element == is.element &&
            was->pitch == is.pitch);
  }
  return true;
}

// Whether they have nodes of the same kinds, in the same order, that may become one another.
bool alike(const GraphSpec& a, const GraphSpec& b, const HostPlaces& host) {
  return std::ranges::equal(
      a.nodes, b.nodes, [&](const GraphSpec::Node& one, const GraphSpec::Node& other) {
        if (one.empty != other.empty || one.after != other.after ||
            one.work.index() != other.work.index())
          return false;
        const auto* const branch = std::get_if<BranchWork>(&one.work);
        if (branch == nullptr) return one.empty || can_become(one.work, other.work, host);
        const auto& beside = std::get<BranchWork>(other.work);
        return branch->kind == beside.kind &&
               std::ranges::equal(branch->bodies, beside.bodies, [&](const auto& x, const auto& y) {
                 return alike(*x, *y, host);
               });
      });
}

bool is_of_event(const StreamWork& work) {
  return std::holds_alternative<RecordWork>(work) || std::holds_alternative<WaitWork>(work);
}

// Whether there are events in a body that a condition decides, or in these nodes, if one does.
bool decides_events(const GraphSpec& spec, bool decided) {
  return std::ranges::any_of(spec.nodes, [&](const GraphSpec::Node& node) {
    const auto* const branch = std::get_if<BranchWork>(&node.work);
    if (branch == nullptr) return decided && is_of_event(node.work);
    return std::ranges::any_of(branch->bodies, [&](const auto& body) {
      return decides_events(*body, decided || branch->kind != kOnce);
    });
  });
}

// What would do this work; nothing where no client says such.
std::vector<std::byte> operation_of(const StreamWork& work, const Modules& modules,
                                    const Graph& graph) {
  if (const auto* const record = std::get_if<RecordWork>(&work))
    return frame_of(EventRecord{.event = {graph.events.at(record->event)->handle}});
  if (const auto* const wait = std::get_if<WaitWork>(&work))
    return frame_of(StreamWaitEvent{.event = {graph.events.at(wait->event)->handle}});
  if (const auto* const launch = std::get_if<LaunchWork>(&work))
    return frame_of(Launch{.kernel = {modules.handle_of(launch->kernel)},
                           .grid = launch->grid,
                           .block = launch->block,
                           .shared_bytes = launch->shared_bytes,
                           .flags = launch->cooperative ? kCooperative : 0U,
                           .parameters = launch->parameters});
  if (const auto* const copy = std::get_if<CopyWork>(&work))
    return frame_of(CopyDevice{.to = {copy->to},
                               .from = {copy->from},
                               .to_pitch = copy->to_pitch,
                               .from_pitch = copy->from_pitch,
                               .width = copy->width,
                               .rows = copy->rows});
  if (const auto* const set = std::get_if<SetWork>(&work))
    return frame_of(Set{.to = {set->to},
                        .value = set->value,
                        .element = set->element,
                        .count = set->count,
                        .rows = set->rows,
                        .pitch = set->pitch});
  if (const auto* const hold = std::get_if<HoldWork>(&work))
    return frame_of(HostCall{.token = {hold->token}});
  if (const auto* const gemm = std::get_if<GemmWork>(&work)) return frame_of(gemm->what);
  if (const auto* const call = std::get_if<CallWork>(&work))
    return frame_of(LibraryCall{.function = call->function->name, .arguments = call->arguments});
  if (const auto* const in = std::get_if<CopyInWork>(&work))
    return frame_of(CopyIn{.to = {in->to}});
  if (const auto* const out = std::get_if<CopyOutWork>(&work))
    return frame_of(CopyOutLater{.from = {out->from}, .bytes = out->bytes});
  return {};
}

}  // namespace

Graphs::Graphs(DeviceWork& work, const Allocations& allocations, const Modules& modules,
               Captures& captures, Streams& streams, const Memory& memory, Outbox& out,
               const SessionLimits& limits)
    : work_(work),
      allocations_(allocations),
      modules_(modules),
      captures_(captures),
      streams_(streams),
      memory_(memory),
      out_(out),
      limits_(limits),
      graphs_("graph", limits.graphs),
      execs_("executable graph", limits.graphs) {}

Graph* Graphs::find(std::uint64_t handle) {
  const std::shared_ptr<Graph>* const found = graphs_.find(handle);
  return found == nullptr ? nullptr : found->get();
}

// ---- capture ----

Done Graphs::on(const CaptureBegin& op) {
  Captured* const stream = streams_.find(op.stream);
  if (stream == nullptr) return streams_.missing(op.stream);
  if (op.stream.value == 0)
    return refuse(kCaptureImplicit, "the default stream cannot be captured");
  if (op.mode > 2) return refuse(kInvalidValue, fmt::format("capture mode {}", op.mode));
  if (stream->capture != 0)
    return refuse(kCaptureUnsupported, "the stream is being captured already");
  std::shared_ptr<Graph> graph;
  if (const auto* const there = graphs_.find(op.graph.value)) {
    graph = *there;
    if (graph->in_capture)
      return refuse(kInvalidValue, fmt::format("graph {} is being captured", op.graph.value));
  } else {
    if (op.graph.value != 0)
      if (Done room = graphs_.room(op.graph.value); !room) return room;
    graph = std::make_shared<Graph>(captures_.new_graph());
  }
  Answered<std::vector<Id>> after = nodes_in(*graph, op.after);
  if (!after) return tl::unexpected<Refused>(after.error());
  if (op.graph.value != 0 && graph->number == 0) {
    graph->number = op.graph.value;
    graph->fresh = true;
    graphs_.add(op.graph.value, graph);
  }
  captures_.begin(*stream, op.stream.value, std::move(graph), *std::move(after), op.first.value);
  return {};
}

Reply<CaptureEnd> Graphs::on(const CaptureEnd& op) {
  Captured* const stream = streams_.find(op.stream);
  if (stream == nullptr) return streams_.missing(op.stream);
  Answered<Captures::Taken> taken = captures_.take(*stream, op.stream.value);
  if (!taken) return tl::unexpected<Refused>(taken.error());
  Graph& graph = *taken->graph;
  const std::vector<bool> reached = before(graph.spec, stream->frontier);
  const std::vector<Id> last = streams_.leave_capture(taken->number);
  Done kept;
  if (graph.number == 0)
    kept = graphs_.room(op.graph.value);
  else if (graph.number != op.graph.value)
    kept = refuse(kInvalidValue, fmt::format("the capture is into graph {}", graph.number));
  if (taken->invalid) kept = refuse(kCaptureInvalidated, "the capture is spoilt");
  if (!std::ranges::all_of(last, [&](Id node) { return reached[node]; }))
    kept = refuse(kCaptureUnjoined, "a stream that joined the capture was not waited for");
  if (!kept) {
    if (graph.fresh)
      drop(graph.number);
    else if (graph.number == 0)
      captures_.forget(graph.spec.nodes.size(), graph.bytes);
    return tl::unexpected<Refused>(kept.error());
  }
  graph.fresh = false;
  if (std::exchange(graph.number, op.graph.value) == 0) graphs_.add(op.graph.value, taken->graph);
  return CaptureEnd::Reply{taken->nodes};
}

Reply<CaptureNodes> Graphs::on(const CaptureNodes& op) {
  const Captured* const stream = streams_.find(op.stream);
  if (stream == nullptr) return streams_.missing(op.stream);
  const Graph* const graph = captures_.graph_of(*stream);
  if (graph == nullptr) return refuse(kCaptureInvalidated, "the stream is not being captured");
  asked_.clear();
  for (const auto& [handle, node] : graph->nodes)
    if (std::ranges::find(stream->frontier, node) != stream->frontier.end())
      asked_.push_back(handle);
  if (asked_.size() * sizeof(asked_[0]) > kMaxBytes)
    return refuse(kNotSupported, fmt::format("{} nodes to come after", asked_.size()));
  return CaptureNodes::Reply{std::as_bytes(std::span(asked_))};
}

Done Graphs::on(const CaptureAfter& op) {
  Captured* const stream = streams_.find(op.stream);
  if (stream == nullptr) return streams_.missing(op.stream);
  const Graph* const graph = captures_.graph_of(*stream);
  if (graph == nullptr) return refuse(kCaptureInvalidated, "the stream is not being captured");
  Answered<std::vector<Id>> after = nodes_in(*graph, op.after);
  if (!after) return tl::unexpected<Refused>(after.error());
  if (op.add == 0) stream->frontier.clear();
  for (const Id node : *after)
    if (std::ranges::find(stream->frontier, node) == stream->frontier.end())
      stream->frontier.push_back(node);
  return {};
}

// ---- graphs node by node ----

Done Graphs::on(const GraphCreate& op) {
  if (Done room = graphs_.room(op.graph.value); !room) return room;
  auto made = std::make_shared<Graph>(captures_.new_graph());
  made->number = op.graph.value;
  graphs_.add(op.graph.value, std::move(made));
  return {};
}

template <class Op>
std::optional<Answered<StreamWork>> Graphs::work_if(const FrameHeader& header, Bytes body,
                                                    Graph& graph) {
  if (header.code != Op::kSpec.code) return std::nullopt;
  const std::optional<Op> op = decode<Op>(body);
  if (!op) return refuse(kInvalidValue, fmt::format("a malformed {} in a node", Op::kSpec.name));
  if constexpr (std::is_same_v<Op, HostCall>) {
    std::vector<std::uint64_t>& tags = graph.tags.front()->tags;
    tags.push_back(streams_.call_tag(op->token, true));
    return HoldWork{tags.back(), op->token.value};
  } else if constexpr (std::is_same_v<Op, EventRecord> || std::is_same_v<Op, StreamWaitEvent>) {
    const auto event = streams_.event_of_node(op->event);
    if (!event) return tl::unexpected<Refused>(event.error());
    if (Done kept = captures_.keep_event(graph, *event); !kept)
      return tl::unexpected<Refused>(kept.error());
    if constexpr (std::is_same_v<Op, EventRecord>) return StreamWork(RecordWork{(*event)->id});
    return StreamWork(WaitWork{(*event)->id});
  } else {
    auto work = [&] {
      if constexpr (std::is_same_v<Op, Launch>)
        return modules_.checked(*op);
      else
        return memory_.checked(*op);
    }();
    if (!work) return tl::unexpected<Refused>(work.error());
    return StreamWork(*std::move(work));
  }
}

// What the frame in a node says; its stream does not matter.
Answered<StreamWork> Graphs::work_of(Bytes frame, Graph& graph) {
  FrameHeader header;
  if (frame.size() < sizeof(header)) return refuse(kInvalidValue, "a node with half a frame");
  std::memcpy(&header, frame.data(), sizeof(header));
  const Bytes body = frame.subspan(sizeof(header));
  if (!is_legal(header) || header.body_bytes != body.size() || header.bulk_bytes != 0)
    return refuse(kInvalidValue, "a node with half a frame");
  if (auto work = work_if<Launch>(header, body, graph)) return *std::move(work);
  if (auto work = work_if<CopyDevice>(header, body, graph)) return *std::move(work);
  if (auto work = work_if<Gemm>(header, body, graph)) return *std::move(work);
  if (auto work = work_if<Set>(header, body, graph)) return *std::move(work);
  if (auto work = work_if<HostCall>(header, body, graph)) return *std::move(work);
  if (auto work = work_if<EventRecord>(header, body, graph)) return *std::move(work);
  if (auto work = work_if<StreamWaitEvent>(header, body, graph)) return *std::move(work);
  return refuse(kNotSupported, fmt::format("a node with operation {}", header.code));
}

Done Graphs::add_node(Graph& graph, NodeHandle node, Bytes after, GraphSpec::Node made) {
  if (node.value == 0 || graph.nodes.contains(node.value))
    return refuse(kInvalidHandle, fmt::format("node {} is there already", node.value));
  Answered<std::vector<Id>> earlier = nodes_in(graph, after);
  if (!earlier) return tl::unexpected<Refused>(earlier.error());
  made.after = *std::move(earlier);
  const Id id = static_cast<Id>(graph.spec.nodes.size());
  if (Done done = captures_.add_node(graph, std::move(made)); !done) return done;
  graph.nodes.emplace(node.value, id);
  return {};
}

Done Graphs::on(const GraphAdd& op) {
  Graph* const graph = find(op.graph.value);
  if (graph == nullptr) return graphs_.missing(op.graph.value);
  GraphSpec::Node node{.empty = op.operation.empty()};
  if (!node.empty) {
    Answered<StreamWork> work = work_of(op.operation, *graph);
    if (!work) return tl::unexpected<Refused>(work.error());
    node.work = *std::move(work);
  }
  return add_node(*graph, op.node, op.after, std::move(node));
}

// Whether these graphs can be bodies of this one's: nobody else's, and none that it is inside.
Done Graphs::adopt(const Graph& graph, const std::vector<std::uint64_t>& bodies) {
  std::set<std::uint64_t> around = {graph.number};
  for (const Graph* one = &graph; one != nullptr && one->owner != 0; one = find(one->owner))
    around.insert(one->owner);
  if (around.size() > kMostNested)
    return refuse(kNotSupported, fmt::format("branches {} deep", kMostNested));
  std::set<std::uint64_t> others;
  for (const std::uint64_t handle : bodies) {
    const Graph* const body = find(handle);
    if (body == nullptr) return graphs_.missing(handle);
    if (body->owner != 0 || around.contains(handle) || !others.insert(handle).second)
      return refuse(kInvalidValue, fmt::format("graph {} is in use elsewhere", handle));
    if (!body->bodies.empty() || body->conditions != nullptr)
      return refuse(kNotSupported, fmt::format("graph {} has branches already", handle));
  }
  return {};
}

// The graph that this is a body of, or itself.
Graph& Graphs::outermost(Graph& graph) {
  Graph* one = &graph;
  while (one->owner != 0 && find(one->owner) != nullptr) one = find(one->owner);
  return *one;
}

Reply<GraphCondition> Graphs::on(const GraphCondition& op) {
  Graph* const graph = find(op.graph.value);
  if (graph == nullptr) return graphs_.missing(op.graph.value);
  DeviceConditions* const device = work_.backend().conditions();
  if (device == nullptr)
    return refuse(kNotSupported, "this device keeps no conditions; its client has words");
  std::shared_ptr<ConditionSet>& set = outermost(*graph).conditions;
  if (set == nullptr) {
    const Answered<Id> made = device->create_set();
    if (!made) return tl::unexpected<Refused>(made.error());
    set = std::make_shared<ConditionSet>(work_, *made);
  }
  if (set->numbers.size() >= limits_.graph_nodes)
    return refuse(kOutOfMemory, fmt::format("{} conditions are the limit", limits_.graph_nodes));
  const Answered<std::uint64_t> made = device->add(set->id, op.value, op.assign != 0);
  if (!made) return tl::unexpected<Refused>(made.error());
  set->numbers.insert(*made);
  return GraphCondition::Reply{{*made}};
}

Done Graphs::on(const GraphBranch& op) {
  Graph* const graph = find(op.graph.value);
  if (graph == nullptr) return graphs_.missing(op.graph.value);
  if (op.bodies.size() % 8 != 0) return refuse(kInvalidValue, "half a graph's number");
  std::vector<std::uint64_t> bodies(op.bodies.size() / 8);
  if (!bodies.empty()) std::memcpy(bodies.data(), op.bodies.data(), op.bodies.size());
  const std::size_t most = op.kind == kSwitch ? kMostBodies : op.kind == kIf ? 2 : 1;
  if (op.kind > kSwitch || bodies.empty() || bodies.size() > most)
    return refuse(kInvalidValue,
                  fmt::format("a branch of kind {} with {} bodies", op.kind, bodies.size()));
  const std::shared_ptr<ConditionSet>& set = outermost(*graph).conditions;
  if (op.kind != kOnce && set != nullptr) {
    if (!set->numbers.contains(op.condition.value))
      return refuse(kInvalidValue, fmt::format("condition {:#x} is none of graph {}'s",
                                               op.condition.value, op.graph.value));
  } else if (op.kind != kOnce && (op.condition.value % sizeof(std::uint32_t) != 0 ||
                                  !allocations_.holds(op.condition.value, sizeof(std::uint32_t)))) {
    return not_held("a branch by", op.condition, sizeof(std::uint32_t));
  }
  if (Done done = adopt(*graph, bodies); !done) return done;
  BranchWork work{static_cast<BranchKind>(op.kind), op.condition.value, {}};
  work.by_word = set == nullptr;
  if (Done done = add_node(*graph, op.node, op.after, {.work = work}); !done) return done;
  for (const std::uint64_t handle : bodies) find(handle)->owner = graph->number;
  graph->bodies.emplace(static_cast<Id>(graph->spec.nodes.size() - 1), std::move(bodies));
  return {};
}

// With its bodies. It is none itself, or its owner goes.
void Graphs::drop(std::uint64_t handle) {
  const Graph* const graph = find(handle);
  if (graph == nullptr) return;
  captures_.forget(graph->spec.nodes.size(), graph->bytes);
  const auto bodies = graph->bodies;
  graphs_.erase(handle);
  for (const auto& [node, handles] : bodies)
    for (const std::uint64_t body : handles) drop(body);
}

Done Graphs::on(const GraphDestroy& op) {
  const Graph* const graph = find(op.graph.value);
  if (graph == nullptr) return graphs_.missing(op.graph.value);
  if (graph->owner != 0 || graph->in_capture)
    return refuse(kInvalidValue, fmt::format("graph {} is {}", op.graph.value,
                                             graph->owner != 0 ? "a body" : "being captured"));
  drop(op.graph.value);
  return {};
}

Graph Graphs::whole(const Graph& graph, std::size_t& nodes) {
  Graph all = graph;
  if (graph.conditions != nullptr) all.spec.conditions = graph.conditions->id;
  nodes += graph.spec.nodes.size();
  for (const auto& [node, handles] : graph.bodies) {
    auto& branch = std::get<BranchWork>(all.spec.nodes[node].work);
    for (const std::uint64_t handle : handles) {
      Graph body = whole(*find(handle), nodes);
      branch.bodies.push_back(std::make_shared<const GraphSpec>(std::move(body.spec)));
      all.tags.insert(all.tags.end(), body.tags.begin(), body.tags.end());
      all.touches.insert(all.touches.end(), body.touches.begin(), body.touches.end());
      all.modules.merge(body.modules);
      all.events.merge(body.events);
    }
  }
  return all;
}

// ---- executable graphs ----

Reply<GraphInstantiate> Graphs::on(const GraphInstantiate& op) {
  const Graph* const graph = find(op.graph.value);
  if (graph == nullptr) return graphs_.missing(op.graph.value);
  if (op.exec.value == 0 || execs_.find(op.exec.value) != nullptr)
    return refuse(kInvalidHandle, fmt::format("graph {} is there already", op.exec.value));
  std::size_t nodes = 0;
  Graph all = whole(*graph, nodes);
  if (execs_.all().size() >= limits_.graphs || !captures_.count(nodes))
    return refuse(kOutOfMemory, fmt::format("{} graphs and {} nodes are the limit", limits_.graphs,
                                            limits_.graph_nodes));
  const Answered<Id> made = make(all);
  if (!made) {
    captures_.forget(nodes, 0);
    return tl::unexpected<Refused>(made.error());
  }
  execs_.add(op.exec.value, {*made, std::move(all), nodes});
  return NoReply{};
}

Done Graphs::on(const GraphLaunch& op) {
  Exec* const exec = execs_.find(op.exec.value);
  if (exec == nullptr) return execs_.missing(op.exec.value);
  if (exec->stale) {
    captures_.look_again(exec->graph);
    if (Done made = make_again(*exec, exec->graph); !made) return made;
  }
  if (Done loaded = modules_.are_loaded(exec->graph.modules); !loaded) return loaded;
  for (const Touch& touch : exec->graph.touches) {
    if (!allocations_.holds_rows(touch.address, touch.width, touch.pitch, touch.rows))
      return refuse(kInvalidValue, fmt::format("a node uses {} bytes at {:#x}, which were freed",
                                               touch.width, touch.address));
  }
  out_.counts.launches += exec->nodes;
  Done done = streams_.submit(op.stream, GraphWork{exec->id});
  if (done) streams_.note_records(exec->graph, exec->graph.spec);
  return done;
}

// ---- what changes ----

Done Graphs::on(const GraphClone& op) {
  const Graph* const graph = find(op.graph.value);
  if (graph == nullptr) return graphs_.missing(op.graph.value);
  if (!graph->bodies.empty() || graph->conditions != nullptr || graph->in_capture)
    return refuse(kNotSupported, fmt::format("a copy of graph {}, which {}", op.graph.value,
                                             graph->in_capture ? "is being captured"
                                                               : "has branches"));
  if (Done room = graphs_.room(op.clone.value); !room) return room;
  if (Done counted = captures_.count(graph->spec.nodes.size()); !counted) return counted;
  auto clone = std::make_shared<Graph>(*graph);
  clone->bytes = 0;  // they lie there once
  clone->number = op.clone.value;
  clone->owner = 0;
  graphs_.add(op.clone.value, std::move(clone));
  return {};
}

Answered<Id> Graphs::make(const Graph& graph) {
  if (const Done loaded = modules_.are_loaded(graph.modules); !loaded)
    return tl::unexpected<Refused>(loaded.error());
  if (decides_events(graph.spec, false))
    return refuse(kNotSupported, "an event in a body of a graph that a condition decides");
  return work_.backend().create(graph.spec);
}

// The executable graph that was may be running.
Done Graphs::make_again(Exec& exec, Graph graph) {
  const Answered<Id> made = make(graph);
  if (!made) return tl::unexpected<Refused>(made.error());
  work_.fence([this, old = exec.id, tags = exec.graph.tags] {
    work_.backend().destroy(ObjectKind::graph, old);
  });
  exec.id = *made;
  exec.graph = std::move(graph);
  exec.stale = false;
  return {};
}

Done Graphs::on(const GraphSet& op) {
  Exec* const exec = op.exec.value == 0 ? nullptr : execs_.find(op.exec.value);
  if (exec == nullptr && op.exec.value != 0) return execs_.missing(op.exec.value);
  Graph* const graph = exec != nullptr ? &exec->graph : find(op.graph.value);
  if (graph == nullptr) return graphs_.missing(op.graph.value);
  const std::vector<GraphSpec::Node>& nodes = graph->spec.nodes;
  if (op.place >= nodes.size() || (nodes[op.place].empty && !graph->disabled.contains(op.place)))
    return refuse(kInvalidValue, fmt::format("there is no node {} that does anything", op.place));
  if (op.enabled == 0 &&
      (exec == nullptr || std::holds_alternative<BranchWork>(nodes[op.place].work)))
    return refuse(kInvalidValue, "a node that cannot be disabled");
  GraphSpec::Node& node = graph->spec.nodes[op.place];
  if (!op.operation.empty()) {
    Answered<StreamWork> work = work_of(op.operation, *graph);
    if (!work) return tl::unexpected<Refused>(work.error());
    if (work->index() != node.work.index()) return refuse(kInvalidValue, "a node of another kind");
    node.work = *std::move(work);
  }
  node.empty = op.enabled == 0;
  if (node.empty)
    graph->disabled.insert(op.place);
  else
    graph->disabled.erase(op.place);
  if (exec != nullptr)
    exec->stale = true;  // once for all that changes before it is launched
  else
    captures_.look_again(*graph);
  return {};
}

Done Graphs::on(const GraphOrder& op) {
  Graph* const graph = find(op.graph.value);
  if (graph == nullptr) return graphs_.missing(op.graph.value);
  if (op.place >= graph->spec.nodes.size())
    return refuse(kInvalidValue, fmt::format("there is no node {}", op.place));
  if (graph->in_capture)
    return refuse(kNotSupported, fmt::format("graph {} is being captured", op.graph.value));
  if (op.gone != 0) {
    const auto bodies = graph->bodies.find(op.place);
    const std::vector<std::uint64_t> its =
        bodies == graph->bodies.end() ? std::vector<std::uint64_t>{} : bodies->second;
    captures_.remove_node(*graph, op.place);
    for (const std::uint64_t body : its) drop(body);
    return {};
  }
  Answered<std::vector<Id>> after = nodes_in(*graph, op.after);
  if (!after) return tl::unexpected<Refused>(after.error());
  if (std::ranges::any_of(*after, [&](Id node) { return node >= op.place; }))
    return refuse(kNotSupported, "a node that comes after a later one");
  graph->spec.nodes[op.place].after = *std::move(after);
  return {};
}

std::vector<std::byte> Graphs::frame_for(const Graph& graph, std::uint64_t handle, Id node,
                                         std::span<const std::uint64_t> after) const {
  const GraphSpec::Node& what = graph.spec.nodes[node];
  if (const auto* const branch = std::get_if<BranchWork>(&what.work)) {
    const std::vector<std::uint64_t>& bodies = graph.bodies.at(node);
    return frame_of(GraphBranch{.node = {handle},
                                .after = std::as_bytes(after),
                                .kind = branch->kind,
                                .condition = {branch->condition},
                                .bodies = std::as_bytes(std::span(bodies))});
  }
  const bool empty = what.empty && !graph.disabled.contains(node);
  const auto operation =
      empty ? std::vector<std::byte>{} : operation_of(what.work, modules_, graph);
  return frame_of(
      GraphAdd{.node = {handle}, .after = std::as_bytes(after), .operation = operation});
}

Reply<GraphNodes> Graphs::on(const GraphNodes& op) {
  const Exec* const exec = op.exec.value == 0 ? nullptr : execs_.find(op.exec.value);
  if (exec == nullptr && op.exec.value != 0) return execs_.missing(op.exec.value);
  const Graph* const graph = exec != nullptr ? &exec->graph : find(op.graph.value);
  if (graph == nullptr) return graphs_.missing(op.graph.value);
  std::vector<std::uint64_t> numbers(graph->spec.nodes.size());
  for (const auto& [handle, node] : graph->nodes) numbers[node] = handle;
  told_.clear();
  for (std::size_t node = op.from; node < numbers.size(); ++node) {
    std::vector<std::uint64_t> after;
    for (const Id earlier : graph->spec.nodes[node].after) after.push_back(numbers[earlier]);
    const auto frame = frame_for(*graph, numbers[node], static_cast<Id>(node), after);
    if (told_.size() + frame.size() > kMaxBytes) break;
    told_.insert(told_.end(), frame.begin(), frame.end());
  }
  if (told_.empty() && op.from < numbers.size())
    return refuse(kNotSupported, fmt::format("what node {} does is too long to say", op.from));
  return GraphNodes::Reply{told_};
}

Reply<GraphUpdate> Graphs::on(const GraphUpdate& op) {
  Exec* const exec = execs_.find(op.exec.value);
  if (exec == nullptr) return execs_.missing(op.exec.value);
  const Graph* const graph = find(op.graph.value);
  if (graph == nullptr) return graphs_.missing(op.graph.value);
  std::size_t nodes = 0;
  Graph all = whole(*graph, nodes);
  GraphSpec was = exec->graph.spec;
  for (const Id node : exec->graph.disabled) was.nodes[node].empty = false;
  if (!alike(was, all.spec, host_places(op.host)))
    return refuse(kUpdateFailure, "the graph has other nodes than the executable one");
  all.nodes = exec->graph.nodes;
  all.disabled = exec->graph.disabled;
  for (const Id node : all.disabled) all.spec.nodes[node].empty = true;
  if (!all.disabled.empty()) captures_.look_again(all);
  if (Done done = make_again(*exec, std::move(all)); !done)
    return tl::unexpected<Refused>(done.error());
  return NoReply{};
}

Done Graphs::on(const GraphExecDestroy& op) {
  const Exec* const found = execs_.find(op.exec.value);
  if (found == nullptr) return execs_.missing(op.exec.value);
  // It may be running.
  work_.fence(
      [this, id = found->id, nodes = found->nodes, tags = found->graph.tags] {
        work_.backend().destroy(ObjectKind::graph, id);
        captures_.forget(nodes, 0);
      });
  execs_.erase(op.exec.value);
  return {};
}

}  // namespace partita::remote::server
