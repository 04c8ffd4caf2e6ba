// Graphs: streams whose work is recorded instead of done, graphs built node by node, and their
// launches. A node only depends on nodes that are there already, so no graph has a cycle.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "server/session_core.h"

namespace partita::remote::server {

void Session::Core::note_touches(const StreamWork& work, std::vector<Touch>& touches) {
  if (const auto* in = std::get_if<CopyInWork>(&work)) {
    touches.push_back({in->to, in->bytes->size(), 0, 1});
  } else if (const auto* out = std::get_if<CopyOutWork>(&work)) {
    touches.push_back({out->from, out->bytes, 0, 1});
  } else if (const auto* copy = std::get_if<CopyWork>(&work)) {
    touches.push_back({copy->to, copy->width, copy->to_pitch, copy->rows});
    touches.push_back({copy->from, copy->width, copy->from_pitch, copy->rows});
  } else if (const auto* set = std::get_if<SetWork>(&work)) {
    touches.push_back({set->to, set->count * set->element, set->pitch, set->rows});
  }
}

// A node behind the others, if limits allow; what it launches is noted.
Done Session::Core::add_node(Graph& graph, GraphSpec::Node node) {
  if (graph_nodes_ >= limits_.graph_nodes)
    return refuse(kOutOfMemory, fmt::format("{} nodes are the limit", limits_.graph_nodes));
  if (const auto* copy = std::get_if<CopyInWork>(&node.work); copy != nullptr && !node.empty) {
    if (copy->bytes->size() > limits_.staging_at_most - graph_bytes_)
      return refuse(kOutOfMemory, "copies into the device in graphs are too large");
    graph.bytes += copy->bytes->size();
    graph_bytes_ += copy->bytes->size();
  }
  ++graph_nodes_;
  if (!node.empty) note_touches(node.work, graph.touches);
  graph.spec.nodes.push_back(std::move(node));
  return {};
}

// Gives back what a graph counted for.
void Session::Core::forget(std::size_t nodes, std::uint64_t bytes) {
  graph_nodes_ -= nodes;
  graph_bytes_ -= bytes;
}

// ---- capture ----

// What waits or asks cannot be recorded: it spoils the capture.
Status Session::Core::refuse_in_capture(Stream& stream) {
  if (stream.capture == 0) return 0;
  const auto capture = captures_.find(stream.capture);
  if (capture != captures_.end()) capture->second.invalid = true;
  return kCaptureUnsupported;
}

Done Session::Core::record(Stream& stream, StreamWork work) {
  const auto found = captures_.find(stream.capture);
  if (found == captures_.end() || found->second.invalid)
    return refuse(kCaptureInvalidated, "the capture is spoilt");
  Graph& graph = found->second.graph;
  if (std::holds_alternative<GraphWork>(work)) {
    found->second.invalid = true;
    return refuse(kNotSupported, "a graph inside a graph");
  }
  const Id node = static_cast<Id>(graph.spec.nodes.size());
  if (const auto* launch = std::get_if<LaunchWork>(&work))
    graph.modules.insert(module_of_kernel_.at(launch->kernel));
  if (Done done = add_node(graph, {std::move(work), false, stream.frontier}); !done) {
    found->second.invalid = true;
    return done;
  }
  stream.frontier = {node};
  return {};
}

// A stream waits for an event that was recorded in a capture: it joins the capture.
Done Session::Core::join(Stream& stream, const Event& event) {
  const auto capture = captures_.find(event.capture);
  if (capture == captures_.end())
    return refuse(kCaptureInvalidated, "the event was recorded in a capture that has ended");
  if (stream.capture != 0 && stream.capture != event.capture) {
    capture->second.invalid = true;
    refuse_in_capture(stream);
    return refuse(kCaptureMerge, "two captures would become one");
  }
  if (stream.capture == 0) stream.frontier.clear();
  stream.capture = event.capture;
  for (const Id node : event.frontier) {
    if (std::ranges::find(stream.frontier, node) == stream.frontier.end())
      stream.frontier.push_back(node);
  }
  return {};
}

Done Session::Core::on(const CaptureBegin& op) {
  Stream* const stream = find(op.stream);
  if (stream == nullptr)
    return refuse(kInvalidHandle, fmt::format("there is no stream {}", op.stream.value));
  if (op.stream.value == 0)
    return refuse(kCaptureImplicit, "the default stream cannot be captured");
  if (op.mode > 2) return refuse(kInvalidValue, fmt::format("capture mode {}", op.mode));
  if (stream->capture != 0)
    return refuse(kCaptureUnsupported, "the stream is being captured already");
  const std::uint64_t number = next_serial_++;
  Capture capture{.origin = op.stream.value};
  capture.graph.tags = std::make_shared<Tags>(*this);
  captures_.emplace(number, std::move(capture));
  stream->capture = number;
  stream->frontier.clear();
  return {};
}

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

Reply<CaptureEnd> Session::Core::on(const CaptureEnd& op) {
  Stream* const stream = find(op.stream);
  if (stream == nullptr)
    return refuse(kInvalidHandle, fmt::format("there is no stream {}", op.stream.value));
  const auto found = captures_.find(stream->capture);
  if (found == captures_.end()) {
    stream->capture = 0;
    return refuse(kCaptureInvalidated, "the stream is not being captured");
  }
  if (found->second.origin != op.stream.value) {
    found->second.invalid = true;
    return refuse(kCaptureUnmatched, "the capture began on another stream");
  }
  Capture capture = std::move(found->second);
  const std::uint64_t number = found->first;
  captures_.erase(found);
  const std::vector<bool> reached = before(capture.graph.spec, stream->frontier);
  bool joined = true;
  for (auto& [handle, other] : streams_) {
    if (other.capture != number) continue;
    for (const Id node : other.frontier) joined = joined && reached[node];
    other.capture = 0;
    other.frontier.clear();
  }
  for (auto& [handle, event] : events_) {
    if (event.capture == number) event.frontier.clear();
  }
  Reply<CaptureEnd> answer = finish(op, capture);
  if (!joined)
    answer = refuse(kCaptureUnjoined, "a stream that joined the capture was not waited for");
  if (!*answer) forget(capture.graph.spec.nodes.size(), capture.graph.bytes);
  if (*answer) graphs_.emplace(op.graph.value, std::move(capture.graph));
  return answer;
}

// What stands against keeping the captured graph.
Reply<CaptureEnd> Session::Core::finish(const CaptureEnd& op, const Capture& capture) {
  if (capture.invalid) return refuse(kCaptureInvalidated, "the capture is spoilt");
  if (op.graph.value == 0 || graphs_.contains(op.graph.value))
    return refuse(kInvalidHandle, fmt::format("graph {} is there already", op.graph.value));
  if (graphs_.size() >= limits_.graphs)
    return refuse(kOutOfMemory, fmt::format("{} graphs are the limit", limits_.graphs));
  return CaptureEnd::Reply{static_cast<std::uint32_t>(capture.graph.spec.nodes.size())};
}

// ---- graphs node by node ----

Done Session::Core::on(const GraphCreate& op) {
  if (op.graph.value == 0 || graphs_.contains(op.graph.value))
    return refuse(kInvalidHandle, fmt::format("graph {} is there already", op.graph.value));
  if (graphs_.size() >= limits_.graphs)
    return refuse(kOutOfMemory, fmt::format("{} graphs are the limit", limits_.graphs));
  Graph graph;
  graph.tags = std::make_shared<Tags>(*this);
  graphs_.emplace(op.graph.value, std::move(graph));
  return {};
}

template <class Op>
std::optional<Answered<StreamWork>> Session::Core::work_if(const FrameHeader& header, Bytes body,
                                                           Graph& graph) {
  if (header.code != Op::kSpec.code) return std::nullopt;
  const std::optional<Op> op = decode<Op>(body);
  if (!op) return refuse(kInvalidValue, fmt::format("a malformed {} in a node", Op::kSpec.name));
  if constexpr (std::is_same_v<Op, HostCall>) {
    graph.tags->tags.push_back(call_tag(op->token, true));
    return HoldWork{graph.tags->tags.back()};
  } else {
    auto work = checked(*op);
    if (!work) return tl::unexpected<Refused>(work.error());
    if constexpr (std::is_same_v<Op, Launch>)
      graph.modules.insert(module_of_kernel_.at(work->kernel));
    return StreamWork(*std::move(work));
  }
}

// What the frame in a node says; its stream does not matter.
Answered<StreamWork> Session::Core::work_of(Bytes frame, Graph& graph) {
  FrameHeader header;
  if (frame.size() < sizeof(header)) return refuse(kInvalidValue, "a node with half a frame");
  std::memcpy(&header, frame.data(), sizeof(header));
  const Bytes body = frame.subspan(sizeof(header));
  if (!is_legal(header) || header.body_bytes != body.size() || header.bulk_bytes != 0)
    return refuse(kInvalidValue, "a node with half a frame");
  if (auto work = work_if<Launch>(header, body, graph)) return *std::move(work);
  if (auto work = work_if<CopyDevice>(header, body, graph)) return *std::move(work);
  if (auto work = work_if<Set>(header, body, graph)) return *std::move(work);
  if (auto work = work_if<HostCall>(header, body, graph)) return *std::move(work);
  return refuse(kNotSupported, fmt::format("a node with operation {}", header.code));
}

Done Session::Core::on(const GraphAdd& op) {
  const auto found = graphs_.find(op.graph.value);
  if (found == graphs_.end())
    return refuse(kInvalidHandle, fmt::format("there is no graph {}", op.graph.value));
  Graph& graph = found->second;
  if (op.node.value == 0 || graph.nodes.contains(op.node.value))
    return refuse(kInvalidHandle, fmt::format("node {} is there already", op.node.value));
  if (op.after.size() % 8 != 0) return refuse(kInvalidValue, "half a node's number");
  GraphSpec::Node node;
  for (std::size_t at = 0; at < op.after.size(); at += 8) {
    std::uint64_t handle = 0;
    std::memcpy(&handle, op.after.data() + at, 8);
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
  if (Done done = add_node(graph, std::move(node)); !done) return done;
  graph.nodes.emplace(op.node.value, id);
  return {};
}

Done Session::Core::on(const GraphDestroy& op) {
  const auto found = graphs_.find(op.graph.value);
  if (found == graphs_.end())
    return refuse(kInvalidHandle, fmt::format("there is no graph {}", op.graph.value));
  forget(found->second.spec.nodes.size(), found->second.bytes);
  graphs_.erase(found);
  return {};
}

// ---- executable graphs ----

Reply<GraphInstantiate> Session::Core::on(const GraphInstantiate& op) {
  const auto found = graphs_.find(op.graph.value);
  if (found == graphs_.end())
    return refuse(kInvalidHandle, fmt::format("there is no graph {}", op.graph.value));
  if (op.exec.value == 0 || execs_.contains(op.exec.value))
    return refuse(kInvalidHandle, fmt::format("graph {} is there already", op.exec.value));
  const Graph& graph = found->second;
  if (execs_.size() >= limits_.graphs ||
      graph.spec.nodes.size() > limits_.graph_nodes - graph_nodes_)
    return refuse(kOutOfMemory, fmt::format("{} graphs and {} nodes are the limit", limits_.graphs,
                                            limits_.graph_nodes));
  for (const std::uint64_t module : graph.modules) {
    if (!living_modules_.contains(module))
      return refuse(kInvalidHandle, "a kernel of the graph has been unloaded");
  }
  const Answered<Id> made = backend_->create(graph.spec);
  if (!made) return tl::unexpected<Refused>(made.error());
  graph_nodes_ += graph.spec.nodes.size();
  execs_.emplace(op.exec.value,
                 Exec{*made, graph.touches, graph.modules, graph.tags, graph.spec.nodes.size()});
  return NoReply{};
}

Done Session::Core::on(const GraphLaunch& op) {
  const auto found = execs_.find(op.exec.value);
  if (found == execs_.end())
    return refuse(kInvalidHandle, fmt::format("there is no executable graph {}", op.exec.value));
  for (const std::uint64_t module : found->second.modules) {
    if (!living_modules_.contains(module))
      return refuse(kInvalidHandle, "a kernel of the graph has been unloaded");
  }
  for (const Touch& touch : found->second.touches) {
    if (!allocations_.holds_rows(touch.address, touch.width, touch.pitch, touch.rows))
      return refuse(kInvalidValue, fmt::format("a node uses {} bytes at {:#x}, which were freed",
                                               touch.width, touch.address));
  }
  counts_.launches += found->second.nodes;
  return submit(op.stream, GraphWork{found->second.id});
}

Done Session::Core::on(const GraphExecDestroy& op) {
  const auto found = execs_.find(op.exec.value);
  if (found == execs_.end())
    return refuse(kInvalidHandle, fmt::format("there is no executable graph {}", op.exec.value));
  // It may be running.
  fence([this, exec = found->second] {
    backend_->destroy(ObjectKind::graph, exec.id);
    forget(exec.nodes, 0);
  });
  execs_.erase(found);
  return {};
}

}  // namespace partita::remote::server
