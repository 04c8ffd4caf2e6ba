#include "server/captures.h"

#include <algorithm>
#include <cstring>

#include "server/gemm.h"
#include "server/library_calls.h"

namespace partita::remote::server {
namespace {

void note_touches(const StreamWork& work, std::vector<Touch>& touches) {
  if (const auto* in = std::get_if<CopyInWork>(&work)) {
    touches.push_back({in->to, in->bytes->size(), 0, 1});
  } else if (const auto* out = std::get_if<CopyOutWork>(&work)) {
    touches.push_back({out->from, out->bytes, 0, 1});
  } else if (const auto* copy = std::get_if<CopyWork>(&work)) {
    touches.push_back({copy->to, copy->width, copy->to_pitch, copy->rows});
    touches.push_back({copy->from, copy->width, copy->from_pitch, copy->rows});
  } else if (const auto* set = std::get_if<SetWork>(&work)) {
    touches.push_back({set->to, set->count * set->element, set->pitch, set->rows});
  } else if (const auto* gemm = std::get_if<GemmWork>(&work)) {
    for (const auto& [at, bytes] : operands(gemm->what)) touches.push_back({at, bytes, 0, 1});
  } else if (const auto* call = std::get_if<CallWork>(&work)) {
    for (const std::uint64_t at : addresses_in(*arguments_of(*call->function, call->arguments)))
      touches.push_back({at, 1, 0, 1});
  } else if (const auto* branch = std::get_if<BranchWork>(&work);
             branch && branch->kind != kOnce && branch->by_word) {
    touches.push_back({branch->condition, sizeof(std::uint32_t), 0, 1});
  }
}

void note_events(const GraphSpec& spec, std::set<Id>& events) {
  for (const GraphSpec::Node& node : spec.nodes) {
    if (const auto* record = std::get_if<RecordWork>(&node.work)) events.insert(record->event);
    if (const auto* wait = std::get_if<WaitWork>(&node.work)) events.insert(wait->event);
    if (const auto* branch = std::get_if<BranchWork>(&node.work))
      for (const auto& body : branch->bodies) note_events(*body, events);
  }
}

// Bytes that it holds itself.
std::uint64_t staged_by(const GraphSpec::Node& node) {
  const auto* const copy = node.empty ? nullptr : std::get_if<CopyInWork>(&node.work);
  return copy == nullptr ? 0 : copy->bytes->size();
}

}  // namespace

Answered<std::vector<Id>> nodes_in(const Graph& graph, Bytes numbers) {
  if (numbers.size() % 8 != 0) return refuse(kInvalidValue, "half a node's number");
  std::vector<Id> found;
  for (std::size_t at = 0; at < numbers.size(); at += 8) {
    std::uint64_t handle = 0;
    std::memcpy(&handle, numbers.data() + at, sizeof(handle));
    const auto earlier = graph.nodes.find(handle);
    if (earlier == graph.nodes.end())
      return refuse(kInvalidHandle, fmt::format("there is no node {} to come after", handle));
    found.push_back(earlier->second);
  }
  return found;
}

Captures::Capture* Captures::find(std::uint64_t number) {
  const auto found = captures_.find(number);
  return found == captures_.end() ? nullptr : &found->second;
}

Done Captures::count(std::size_t nodes) {
  if (nodes > limits_.graph_nodes - nodes_)
    return refuse(kOutOfMemory, fmt::format("{} nodes are the limit", limits_.graph_nodes));
  nodes_ += nodes;
  return {};
}

Done Captures::add_node(Graph& graph, GraphSpec::Node node) {
  const std::uint64_t bytes = staged_by(node);
  if (bytes > limits_.staging_at_most - bytes_)
    return refuse(kOutOfMemory, "copies into the device in graphs are too large");
  if (Done counted = count(1); !counted) return counted;
  graph.bytes += bytes;
  bytes_ += bytes;
  note(graph, node);
  graph.spec.nodes.push_back(std::move(node));
  return {};
}

void Captures::note(Graph& graph, const GraphSpec::Node& node) const {
  if (node.empty) return;
  note_touches(node.work, graph.touches);
  if (const auto* launch = std::get_if<LaunchWork>(&node.work))
    graph.modules.insert(modules_.module_of(launch->kernel));
  if (const auto* branch = std::get_if<BranchWork>(&node.work))
    for (const auto& body : branch->bodies)
      for (const GraphSpec::Node& inside : body->nodes) note(graph, inside);
}

void Captures::look_again(Graph& graph) const {
  graph.touches.clear();
  graph.modules.clear();
  for (const GraphSpec::Node& node : graph.spec.nodes) note(graph, node);
  std::set<Id> events;
  note_events(graph.spec, events);
  std::erase_if(graph.events, [&](const auto& one) { return !events.contains(one.first); });
}

Done Captures::keep_event(Graph& graph, const std::shared_ptr<LiveEvent>& event) const {
  if (graph.events.size() >= limits_.events) look_again(graph);
  if (graph.events.size() >= limits_.events)
    return refuse(kOutOfMemory, fmt::format("{} events are the limit", limits_.events));
  graph.events.emplace(event->id, event);
  return {};
}

void Captures::remove_node(Graph& graph, Id node) {
  const auto behind = [node](Id id) { return id > node ? id - 1 : id; };
  const std::uint64_t bytes = std::min(graph.bytes, staged_by(graph.spec.nodes[node]));
  graph.spec.nodes.erase(graph.spec.nodes.begin() + node);
  for (GraphSpec::Node& other : graph.spec.nodes) {
    std::erase(other.after, node);
    std::ranges::transform(other.after, other.after.begin(), behind);
  }
  std::erase_if(graph.nodes, [node](const auto& one) { return one.second == node; });
  for (auto& [handle, id] : graph.nodes) id = behind(id);
  std::map<Id, std::vector<std::uint64_t>> bodies;
  for (auto& [id, handles] : graph.bodies)
    if (id != node) bodies[behind(id)] = std::move(handles);
  graph.bodies = std::move(bodies);
  graph.bytes -= bytes;
  forget(1, bytes);
  look_again(graph);
}

void Captures::forget(std::size_t nodes, std::uint64_t bytes) {
  nodes_ -= nodes;
  bytes_ -= bytes;
}

void Captures::begin(Captured& stream, std::uint64_t origin, std::shared_ptr<Graph> graph,
                     std::vector<Id> after, std::uint64_t first) {
  graph->in_capture = true;
  captures_.emplace(next_, Capture{.origin = origin, .graph = std::move(graph), .first = first});
  stream.capture = next_++;
  stream.frontier = std::move(after);
}

Graph* Captures::graph_of(const Captured& stream) {
  Capture* const capture = find(stream.capture);
  return capture == nullptr || capture->invalid ? nullptr : capture->graph.get();
}

Done Captures::refuse_in(const Captured& stream) {
  if (stream.capture == 0) return {};
  if (Capture* const capture = find(stream.capture)) capture->invalid = true;
  return refuse(kCaptureUnsupported, "the stream is being captured");
}

Done Captures::record(Captured& stream, StreamWork work) {
  Capture* const capture = find(stream.capture);
  if (capture == nullptr || capture->invalid)
    return refuse(kCaptureInvalidated, "the capture is spoilt");
  if (std::holds_alternative<GraphWork>(work)) {
    capture->invalid = true;
    return refuse(kNotSupported, "a graph inside a graph");
  }
  Graph& graph = *capture->graph;
  const Id node = static_cast<Id>(graph.spec.nodes.size());
  const std::uint64_t number = capture->first == 0 ? 0 : capture->first + capture->nodes;
  Done done = graph.nodes.contains(number)
                  ? refuse(kInvalidHandle, fmt::format("node {} is there already", number))
                  : add_node(graph, {std::move(work), false, stream.frontier});
  if (!done) {
    capture->invalid = true;
    return done;
  }
  stream.frontier = {node};
  ++capture->nodes;
  if (number != 0) graph.nodes.emplace(number, node);
  return done;
}

Done Captures::record(Captured& stream, StreamWork work, const std::shared_ptr<LiveEvent>& event) {
  Graph* const graph = graph_of(stream);
  if (graph == nullptr)
    return stream.capture == 0 ? refuse(kInvalidValue, "an event as a node, outside of a capture")
                               : refuse(kCaptureInvalidated, "the capture is spoilt");
  if (Done kept = keep_event(*graph, event); !kept) return kept;
  return record(stream, std::move(work));
}

Done Captures::join(Captured& stream, const Captured& event) {
  Capture* const capture = find(event.capture);
  if (capture == nullptr)
    return refuse(kCaptureInvalidated, "the event was recorded in a capture that has ended");
  if (stream.capture != 0 && stream.capture != event.capture) {
    capture->invalid = true;
    static_cast<void>(refuse_in(stream));
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

void Captures::keep(const Captured& stream, std::uint64_t tag) {
  if (Capture* const capture = find(stream.capture))
    capture->graph->tags.front()->tags.push_back(tag);
}

void Captures::leave(const Captured& stream, std::uint64_t handle) {
  Capture* const capture = find(stream.capture);
  // One that joined has done its part: what waits for it does so already.
  if (capture == nullptr || capture->origin != handle) return;
  const std::shared_ptr<Graph> graph = std::move(capture->graph);
  graph->in_capture = false;
  captures_.erase(stream.capture);
  if (graph->number == 0) forget(graph->spec.nodes.size(), graph->bytes);
}

Answered<Captures::Taken> Captures::take(Captured& stream, std::uint64_t handle) {
  Capture* const capture = find(stream.capture);
  if (capture == nullptr) {
    stream.capture = 0;
    return refuse(kCaptureInvalidated, "the stream is not being captured");
  }
  if (capture->origin != handle) {
    capture->invalid = true;
    return refuse(kCaptureUnmatched, "the capture began on another stream");
  }
  auto ended = captures_.extract(stream.capture);
  Capture& done = ended.mapped();
  done.graph->in_capture = false;
  return Taken{stream.capture, std::move(done.graph), done.nodes, done.invalid};
}

}  // namespace partita::remote::server
