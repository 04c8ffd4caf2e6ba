#include "server/graphs.h"

#include <algorithm>
#include <cstring>

namespace partita::remote::server {
namespace {

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

// ---- capture ----

Done Graphs::on(const CaptureBegin& op) {
  Captured* const stream = streams_.find(op.stream);
  if (stream == nullptr) return streams_.missing(op.stream);
  if (op.stream.value == 0)
    return refuse(kCaptureImplicit, "the default stream cannot be captured");
  if (op.mode > 2) return refuse(kInvalidValue, fmt::format("capture mode {}", op.mode));
  if (stream->capture != 0)
    return refuse(kCaptureUnsupported, "the stream is being captured already");
  captures_.begin(*stream, op.stream.value);
  return {};
}

Reply<CaptureEnd> Graphs::on(const CaptureEnd& op) {
  Captured* const stream = streams_.find(op.stream);
  if (stream == nullptr) return streams_.missing(op.stream);
  Answered<Captures::Taken> taken = captures_.take(*stream, op.stream.value);
  if (!taken) return tl::unexpected<Refused>(taken.error());
  Graph& graph = taken->graph;
  const std::vector<bool> reached = before(graph.spec, stream->frontier);
  const std::vector<Id> last = streams_.leave_capture(taken->number);
  Done kept = graphs_.room(op.graph.value);
  if (taken->invalid) kept = refuse(kCaptureInvalidated, "the capture is spoilt");
  if (!std::ranges::all_of(last, [&](Id node) { return reached[node]; }))
    kept = refuse(kCaptureUnjoined, "a stream that joined the capture was not waited for");
  const auto nodes = static_cast<std::uint32_t>(graph.spec.nodes.size());
  if (!kept) {
    captures_.forget(nodes, graph.bytes);
    return tl::unexpected<Refused>(kept.error());
  }
  graphs_.add(op.graph.value, std::move(graph));
  return CaptureEnd::Reply{nodes};
}

// ---- graphs node by node ----

Done Graphs::on(const GraphCreate& op) {
  if (Done room = graphs_.room(op.graph.value); !room) return room;
  graphs_.add(op.graph.value, captures_.new_graph());
  return {};
}

template <class Op>
std::optional<Answered<StreamWork>> Graphs::work_if(const FrameHeader& header, Bytes body,
                                                    const Graph& graph) {
  if (header.code != Op::kSpec.code) return std::nullopt;
  const std::optional<Op> op = decode<Op>(body);
  if (!op) return refuse(kInvalidValue, fmt::format("a malformed {} in a node", Op::kSpec.name));
  if constexpr (std::is_same_v<Op, HostCall>) {
    graph.tags->tags.push_back(streams_.call_tag(op->token, true));
    return HoldWork{graph.tags->tags.back()};
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
Answered<StreamWork> Graphs::work_of(Bytes frame, const Graph& graph) {
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
  return refuse(kNotSupported, fmt::format("a node with operation {}", header.code));
}

Done Graphs::on(const GraphAdd& op) {
  Graph* const found = graphs_.find(op.graph.value);
  if (found == nullptr) return graphs_.missing(op.graph.value);
  Graph& graph = *found;
  if (op.node.value == 0 || graph.nodes.contains(op.node.value))
    return refuse(kInvalidHandle, fmt::format("node {} is there already", op.node.value));
  if (op.after.size() % 8 != 0) return refuse(kInvalidValue, "half a node's number");
  GraphSpec::Node node;
  for (std::size_t at = 0; at < op.after.size(); at += 8) {
    std::uint64_t handle = 0;
    std::memcpy(&handle, op.after.data() + at, sizeof(handle));
    const auto earlier = graph.nodes.find(handle);
    if (earlier == graph.nodes.end())
      return refuse(kInvalidHandle, fmt::format("there is no node {} to come after", handle));
    node.after.push_back(earlier->second);
  }
  node.empty = op.operation.empty();
  if (!node.empty) {
    Answered<StreamWork> work = work_of(op.operation, graph);
    if (!work) return tl::unexpected<Refused>(work.error());
    node.work = *std::move(work);
  }
  const Id id = static_cast<Id>(graph.spec.nodes.size());
  if (Done done = captures_.add_node(graph, std::move(node)); !done) return done;
  graph.nodes.emplace(op.node.value, id);
  return {};
}

Done Graphs::on(const GraphDestroy& op) {
  const Graph* const graph = graphs_.find(op.graph.value);
  if (graph == nullptr) return graphs_.missing(op.graph.value);
  captures_.forget(graph->spec.nodes.size(), graph->bytes);
  graphs_.erase(op.graph.value);
  return {};
}

// ---- executable graphs ----

Reply<GraphInstantiate> Graphs::on(const GraphInstantiate& op) {
  const Graph* const graph = graphs_.find(op.graph.value);
  if (graph == nullptr) return graphs_.missing(op.graph.value);
  if (op.exec.value == 0 || execs_.find(op.exec.value) != nullptr)
    return refuse(kInvalidHandle, fmt::format("graph {} is there already", op.exec.value));
  const std::size_t nodes = graph->spec.nodes.size();
  if (execs_.all().size() >= limits_.graphs || !captures_.count(nodes))
    return refuse(kOutOfMemory, fmt::format("{} graphs and {} nodes are the limit", limits_.graphs,
                                            limits_.graph_nodes));
  const Done loaded = modules_.are_loaded(graph->modules);
  const Answered<Id> made =
      loaded ? work_.backend().create(graph->spec) : tl::unexpected<Refused>(loaded.error());
  if (!made) {
    captures_.forget(nodes, 0);
    return tl::unexpected<Refused>(made.error());
  }
  execs_.add(op.exec.value, {*made, *graph});
  return NoReply{};
}

Done Graphs::on(const GraphLaunch& op) {
  const Exec* const exec = execs_.find(op.exec.value);
  if (exec == nullptr) return execs_.missing(op.exec.value);
  if (Done loaded = modules_.are_loaded(exec->graph.modules); !loaded) return loaded;
  for (const Touch& touch : exec->graph.touches) {
    if (!allocations_.holds_rows(touch.address, touch.width, touch.pitch, touch.rows))
      return refuse(kInvalidValue, fmt::format("a node uses {} bytes at {:#x}, which were freed",
                                               touch.width, touch.address));
  }
  out_.counts.launches += exec->graph.spec.nodes.size();
  return streams_.submit(op.stream, GraphWork{exec->id});
}

// ---- what changes ----

Done Graphs::on(const GraphClone& op) {
  const Graph* const graph = graphs_.find(op.graph.value);
  if (graph == nullptr) return graphs_.missing(op.graph.value);
  if (Done room = graphs_.room(op.clone.value); !room) return room;
  if (Done counted = captures_.count(graph->spec.nodes.size()); !counted) return counted;
  Graph clone = *graph;
  clone.bytes = 0;  // they lie there once
  graphs_.add(op.clone.value, std::move(clone));
  return {};
}

// The executable graph that was may be running.
Done Graphs::make_again(Exec& exec, Graph graph) {
  if (Done loaded = modules_.are_loaded(graph.modules); !loaded) return loaded;
  const Answered<Id> made = work_.backend().create(graph.spec);
  if (!made) return tl::unexpected<Refused>(made.error());
  work_.fence([this, old = exec.id, tags = exec.graph.tags] {
    work_.backend().destroy(ObjectKind::graph, old);
  });
  exec = {*made, std::move(graph)};
  return {};
}

Done Graphs::on(const GraphSet& op) {
  Exec* const exec = op.exec.value == 0 ? nullptr : execs_.find(op.exec.value);
  if (exec == nullptr && op.exec.value != 0) return execs_.missing(op.exec.value);
  Graph* const graph = exec != nullptr ? &exec->graph : graphs_.find(op.graph.value);
  if (graph == nullptr) return graphs_.missing(op.graph.value);
  if (op.place >= graph->spec.nodes.size() || graph->spec.nodes[op.place].empty)
    return refuse(kInvalidValue, fmt::format("there is no node {} that does anything", op.place));
  Answered<StreamWork> work = work_of(op.operation, *graph);
  if (!work) return tl::unexpected<Refused>(work.error());
  if (work->index() != graph->spec.nodes[op.place].work.index())
    return refuse(kInvalidValue, "a node of another kind");
  Graph changed = *graph;
  changed.spec.nodes[op.place].work = *std::move(work);
  captures_.look_again(changed);
  if (exec != nullptr) return make_again(*exec, std::move(changed));
  *graph = std::move(changed);
  return {};
}

Reply<GraphUpdate> Graphs::on(const GraphUpdate& op) {
  Exec* const exec = execs_.find(op.exec.value);
  if (exec == nullptr) return execs_.missing(op.exec.value);
  const Graph* const graph = graphs_.find(op.graph.value);
  if (graph == nullptr) return graphs_.missing(op.graph.value);
  const auto same = [](const GraphSpec::Node& a, const GraphSpec::Node& b) {
    return a.empty == b.empty && a.after == b.after && a.work.index() == b.work.index();
  };
  if (!std::ranges::equal(exec->graph.spec.nodes, graph->spec.nodes, same))
    return refuse(kUpdateFailure, "the graph has other nodes than the executable one");
  if (Done done = make_again(*exec, *graph); !done) return tl::unexpected<Refused>(done.error());
  return NoReply{};
}

Done Graphs::on(const GraphExecDestroy& op) {
  const Exec* const found = execs_.find(op.exec.value);
  if (found == nullptr) return execs_.missing(op.exec.value);
  // It may be running.
  work_.fence(
      [this, id = found->id, nodes = found->graph.spec.nodes.size(), tags = found->graph.tags] {
        work_.backend().destroy(ObjectKind::graph, id);
        captures_.forget(nodes, 0);
      });
  execs_.erase(op.exec.value);
  return {};
}

}  // namespace partita::remote::server
