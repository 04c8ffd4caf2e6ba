// Graphs of the session. The server records and runs them; copies with the program's memory are
// kept here: in the graph they go to and from staging memory on the device, and every launch of the
// graph sends the bytes as they are then before it, and fetches the results behind it.
#include <algorithm>
#include <cstring>

#include "client/session.h"

namespace partita::remote::client {
namespace {

template <class Op>
std::vector<std::byte> frame_of(const Op& operation) {
  const FrameHeader header{.body_bytes = static_cast<std::uint32_t>(encoded_size(operation)),
                           .code = Op::kSpec.code};
  std::vector<std::byte> bytes(sizeof header + header.body_bytes);
  std::memcpy(bytes.data(), &header, sizeof header);
  encode(operation, bytes.data() + sizeof header);
  return bytes;
}

}  // namespace

Session::Capture* Session::capture_at(std::uint64_t stream) {
  const Stream* found = find(stream);
  if (found == nullptr || found->capture == 0) return nullptr;
  const auto capture = captures_.find(found->capture);
  return capture == captures_.end() ? nullptr : &capture->second;
}

Status Session::begin_capture(std::uint64_t stream, std::uint32_t mode) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  if (stream == 0 || stream == kLegacyStream) return kCaptureUnsupported;
  const auto real = resolved(lock, stream);
  if (!real) return real.error();
  if (capture_at(*real) != nullptr) return kInvalidValue;
  const std::uint64_t id = ++next_handle_;
  captures_[id] = {.origin = *real, .mode = mode};
  find(*real)->capture = id;
  return link_->post(lock, CaptureBegin{.stream = {*real}, .mode = mode});
}

Got<std::uint64_t> Session::end_capture(std::uint64_t stream) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  const auto real = resolved(lock, stream);
  if (!real) return refused(real.error());
  const Stream* at = find(*real);
  const auto found = captures_.find(at->capture);
  if (at->capture == 0 || found == captures_.end()) return refused(kInvalidValue);
  if (found->second.origin != *real) return refused(kCaptureUnmatched);
  const Capture capture = std::move(found->second);
  const std::uint64_t id = found->first;
  captures_.erase(found);
  for (auto& [handle, one] : streams_)
    if (one.capture == id) one.capture = 0;
  const std::uint64_t graph = ++next_handle_;
  const Answer answer =
      link_->call_held(lock, CaptureEnd{.stream = {*real}, .graph = {graph}}, Cause::graph);
  if (answer.status != kOk) return refused(answer.status);
  if (capture.broken) {
    link_->post(lock, GraphDestroy{.graph = {graph}});
    return refused(kCaptureInvalidated);
  }
  const auto reply = decode<CaptureEnd::Reply>(answer.reply);
  Graph& made = graphs_[graph];
  made.copies = capture.copies;
  made.count = reply ? reply->nodes : 0;
  for (std::uint32_t i = 0; i < made.count && i < kMaxBytes; ++i)
    made.nodes.push_back(++next_handle_);
  return graph;
}

Got<CaptureState> Session::capture_of(std::uint64_t stream) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  std::uint64_t real = 0;
  if (stream != 0 && stream != kLegacyStream) {
    const auto found = resolved(lock, stream);
    if (!found) return refused(found.error());
    real = *found;
  }
  const Capture* capture = capture_at(real);
  if (capture == nullptr) return CaptureState{};
  return CaptureState{capture->broken ? 2 : 1, find(real)->capture, 0};
}

Got<std::uint64_t> Session::create_graph() {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  const std::uint64_t graph = ++next_handle_;
  const Status status = link_->post(lock, GraphCreate{.graph = {graph}});
  if (status != kOk) return refused(status);
  graphs_[graph] = {};
  return graph;
}

Status Session::destroy_graph(std::uint64_t graph) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  if (graphs_.erase(graph) == 0) return kInvalidValue;
  return link_->post(lock, GraphDestroy{.graph = {graph}});
}

Got<std::uint64_t> Session::add_node(const Lock& lock, std::uint64_t graph, Nodes after,
                                     Bytes operation) {
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return refused(kInvalidValue);
  std::vector<std::uint64_t>& nodes = found->second.nodes;
  for (const std::uint64_t one : after)
    if (std::find(nodes.begin(), nodes.end(), one) == nodes.end()) return refused(kInvalidValue);
  const std::uint64_t node = ++next_handle_;
  const GraphAdd add{
      .graph = {graph}, .node = {node}, .after = std::as_bytes(after), .operation = operation};
  if (const Status status = link_->post(lock, add); status != kOk) return refused(status);
  nodes.push_back(node);
  return node;
}

template <class Op>
Got<std::uint64_t> Session::add_operation(std::uint64_t graph, Nodes after, const Op& operation) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  return add_node(lock, graph, after, frame_of(operation));
}
template Got<std::uint64_t> Session::add_operation(std::uint64_t, Nodes, const Launch&);

Got<std::uint64_t> Session::add_empty(std::uint64_t graph, Nodes after) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  return add_node(lock, graph, after, {});
}

Got<std::uint64_t> Session::add_set(std::uint64_t graph, Nodes after, const Set& set) {
  return add_operation(graph, after, set);
}

Got<std::uint64_t> Session::add_copy_device(std::uint64_t graph, Nodes after,
                                            const CopyDevice& copy) {
  return add_operation(graph, after, copy);
}

Got<std::uint64_t> Session::add_call(std::uint64_t graph, Nodes after, Callback callback) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  if (const Status status = check_callback(); status != kOk) return refused(status);
  callback.again = true;
  const HostCall call{.token = {add_callback(callback)}};
  return add_node(lock, graph, after, frame_of(call));
}

Got<std::uint64_t> Session::add_copy_in(std::uint64_t graph, Nodes after, std::uint64_t to,
                                        const void* from, std::uint64_t bytes) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  const auto staging = stage(lock, bytes);
  if (!staging) return staging;
  const CopyDevice copy{.to = {to}, .from = {*staging}, .width = bytes};
  const auto node = add_node(lock, graph, after, frame_of(copy));
  if (node) {
    auto* host = static_cast<std::byte*>(const_cast<void*>(from));
    graphs_[graph].copies.in.push_back({*staging, bytes, host});
  }
  return node;
}

Got<std::uint64_t> Session::add_copy_out(std::uint64_t graph, Nodes after, void* to,
                                         std::uint64_t from, std::uint64_t bytes) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  const auto staging = stage(lock, bytes);
  if (!staging) return staging;
  const CopyDevice copy{.to = {*staging}, .from = {from}, .width = bytes};
  const auto node = add_node(lock, graph, after, frame_of(copy));
  if (node) graphs_[graph].copies.out.push_back({*staging, bytes, static_cast<std::byte*>(to)});
  return node;
}

Got<std::uint64_t> Session::graph_of(std::uint64_t node) {
  Lock lock(mutex_);
  for (const auto& [handle, graph] : graphs_)
    if (std::find(graph.nodes.begin(), graph.nodes.end(), node) != graph.nodes.end()) return handle;
  return refused(kInvalidValue);
}

Got<std::vector<std::uint64_t>> Session::nodes_of(std::uint64_t graph) {
  Lock lock(mutex_);
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return refused(kInvalidValue);
  return found->second.nodes;
}

Got<std::uint64_t> Session::instantiate(std::uint64_t graph) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return refused(kInvalidValue);
  const std::uint64_t exec = ++next_handle_;
  const GraphInstantiate make{.graph = {graph}, .exec = {exec}};
  const HostCopies copies = found->second.copies;
  const Answer answer = link_->call_held(lock, make, Cause::graph);
  if (answer.status != kOk) return refused(answer.status);
  execs_[exec] = {.copies = copies, .nodes = found->second.nodes};
  return exec;
}

Got<std::uint64_t> Session::clone(std::uint64_t graph) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return refused(kInvalidValue);
  const std::uint64_t made = ++next_handle_;
  const Status status = link_->post(lock, GraphClone{.graph = {graph}, .clone = {made}});
  if (status != kOk) return refused(status);
  graphs_[made] = Graph(found->second);
  return made;
}

Status Session::set_launch(std::uint64_t graph, std::uint64_t node, Kernel& kernel,
                           const LaunchShape& shape, void** parameters) {
  Got<NodeLaunch> made = launch_of_node(kernel, shape, parameters);
  if (!made) return made.error();
  made->launch.parameters = made->block;
  Lock lock(mutex_);
  const auto exec = execs_.find(graph);
  const auto plain = graphs_.find(graph);
  if (exec == execs_.end() && plain == graphs_.end()) return kInvalidValue;
  const auto& nodes = exec != execs_.end() ? exec->second.nodes : plain->second.nodes;
  const auto at = std::find(nodes.begin(), nodes.end(), node);
  if (at == nodes.end()) return kInvalidValue;
  const std::vector<std::byte> frame = frame_of(made->launch);
  GraphSet set{.place = static_cast<std::uint32_t>(at - nodes.begin()), .operation = frame};
  (exec != execs_.end() ? set.exec.value : set.graph.value) = graph;
  return link_->post(lock, set);
}

Status Session::update(std::uint64_t exec, std::uint64_t graph) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  const auto to = execs_.find(exec);
  const auto from = graphs_.find(graph);
  if (to == execs_.end() || from == graphs_.end()) return kInvalidValue;
  const Answer answer =
      link_->call_held(lock, GraphUpdate{.exec = {exec}, .graph = {graph}}, Cause::graph);
  if (answer.status == kOk) to->second.copies = from->second.copies;
  return answer.status;
}

// Bytes for the graph's staging memory must not come while its last launch still reads there.
Status Session::order_launches(const Lock& lock, Exec& exec, std::uint64_t stream) {
  if (!exec.launched || exec.stream == stream) return kOk;
  return link_->post(lock, StreamWaitEvent{.stream = {stream}, .event = {exec.event}});
}

Status Session::launch_graph(std::uint64_t handle, std::uint64_t stream) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  const auto real = resolved(lock, stream);
  if (!real) return real.error();
  const auto found = execs_.find(handle);
  if (found == execs_.end()) return kInvalidValue;
  if (capture_at(*real) != nullptr) return kNotSupported;
  Exec& exec = found->second;
  const bool copies = !exec.copies.in.empty() || !exec.copies.out.empty();
  if (const Status status = begin_work(lock, *real); status != kOk) return status;
  if (copies)
    if (const Status status = order_launches(lock, exec, *real); status != kOk) return status;
  note_work(*real);
  Status status = kOk;
  for (const HostCopy& copy : exec.copies.in)
    if (status == kOk)
      status = link_->post(lock, CopyIn{.stream = {*real}, .to = {copy.staging}},
                           {copy.host, copy.bytes});
  if (status == kOk) status = link_->post(lock, GraphLaunch{.exec = {handle}, .stream = {*real}});
  for (const HostCopy& copy : exec.copies.out) {
    const std::uint64_t token = ++next_token_;
    {
      const std::lock_guard notices(notice_mutex_);
      deferred_[token] = {copy.host, copy.bytes};
    }
    link_->watch();
    if (status == kOk)
      status = link_->post(
          lock,
          CopyOutLater{
              .stream = {*real}, .from = {copy.staging}, .bytes = copy.bytes, .token = {token}});
  }
  if (status != kOk || !copies) return status;
  if (exec.event == 0) {
    exec.event = ++next_handle_;
    status = link_->post(lock, EventCreate{.event = {exec.event}, .flags = kNoTiming});
  }
  exec.stream = *real;
  exec.launched = true;
  return status != kOk ? status
                       : link_->post(lock, EventRecord{.event = {exec.event}, .stream = {*real}});
}

Status Session::destroy_exec(std::uint64_t exec) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  if (execs_.erase(exec) == 0) return kInvalidValue;
  return link_->post(lock, GraphExecDestroy{.exec = {exec}});
}

}  // namespace partita::remote::client
