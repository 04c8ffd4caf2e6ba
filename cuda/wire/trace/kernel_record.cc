#include "wire/trace/kernel_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/repeats.h"
#include "wire/products.h"

namespace partita::remote {
namespace {

using Kernels = std::vector<RecordedKernel>;
using Sequence = std::vector<std::size_t>;  // kernels as numbers

constexpr std::size_t kMostOfGraphs = 1'000'000;  // nodes remembered or repeated of graphs
constexpr int kDeepest = 32;                      // of graphs in graphs

// What becomes a node of a captured graph and is no kernel.
template <class Op>
concept OtherNode =
    std::is_same_v<Op, CopyDevice> || std::is_same_v<Op, Set> || std::is_same_v<Op, LibraryCall> ||
    std::is_same_v<Op, HostCall> || std::is_same_v<Op, CopyOutLater>;

struct Graph;
struct Node {
  std::optional<RecordedKernel> kernel = {};
  bool enabled = true;
  std::vector<std::shared_ptr<Graph>> bodies = {};  // that always run
};
struct Graph {
  std::vector<Node> nodes = {};  // in an order that suits their dependencies
};

// All graphs there were. What was recorded may have one in itself, which would own itself.
class Graphs {
 public:
  Graphs() = default;
  ~Graphs() {
    for (const std::weak_ptr<Graph>& one : all_)
      if (const auto graph = one.lock()) graph->nodes.clear();
  }
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  std::shared_ptr<Graph> make(const Graph& like = {}) {
    auto graph = std::make_shared<Graph>(like);
    all_.push_back(graph);
    return graph;
  }

 private:
  std::vector<std::weak_ptr<Graph>> all_;
};

// Reads the client's frames in their order.
class Reader {
 public:
  void read(const TraceRecord& record) {
    at_ = record.nanoseconds;
    with_operation(ClientOperations{}, record.header.code, [&]<class Op>() {
      if constexpr (requires(const Op& op) { on(op); })
        if (const auto op = decode<Op>(record.body)) on(*op);
      if constexpr (Op::kSpec.completion == Completion::sync) waits_.push_back(launched.size());
    });
  }

  Kernels launched;
  const std::vector<std::size_t>& waits() const { return waits_; }
  const std::vector<std::size_t>& said() const { return said_; }

 private:
  struct Capture {
    std::shared_ptr<Graph> graph = {};  // null: it has ended
  };

  void on(const KernelOpen& op) { names_[op.kernel.value] = std::string(op.name); }
  void on(const RequestEnded&) { said_.push_back(launched.size()); }
  void on(const Launch& op) { kernel(op.stream, kernel_of(op)); }
  void on(const Gemm& op) { kernel(op.stream, kernel_of(op)); }
  void kernel(StreamHandle stream, RecordedKernel one) {
    if (const auto capture = capture_of(streams_, stream.value))
      add(*capture->graph, {std::move(one)});
    else
      launched.push_back(std::move(one));
  }
  template <OtherNode Op>
  void on(const Op& op) {
    node(op.stream);
  }
  void node(StreamHandle stream) {
    if (const auto capture = capture_of(streams_, stream.value)) add(*capture->graph, {});
  }

  void on(const CaptureBegin& op) {
    const auto capture = std::make_shared<Capture>();
    capture->graph = op.graph.value == 0 ? made_.make() : graph_of(op.graph);
    streams_[op.stream.value] = capture;
  }
  void on(const EventRecord& op) {
    if ((op.flags & kExternal) != 0) return node(op.stream);
    events_[op.event.value] = capture_of(streams_, op.stream.value);
  }
  void on(const StreamWaitEvent& op) {
    if ((op.flags & kExternal) != 0) return node(op.stream);
    if (auto capture = capture_of(events_, op.event.value))
      streams_[op.stream.value] = std::move(capture);
  }
  void on(const CaptureEnd& op) {
    if (const auto capture = capture_of(streams_, op.stream.value))
      graphs_[op.graph.value] = std::exchange(capture->graph, nullptr);
  }

  void on(const GraphCreate& op) { graphs_[op.graph.value] = made_.make(); }
  void on(const GraphAdd& op) { add(*graph_of(op.graph), {kernel_in(op.operation)}); }
  void on(const GraphBranch& op) {
    Node node;
    for (std::size_t at = 0; op.kind == kOnce && at + 8 <= op.bodies.size(); at += 8) {
      std::uint64_t handle = 0;
      std::memcpy(&handle, op.bodies.data() + at, sizeof(handle));
      node.bodies.push_back(graph_of({handle}));
    }
    add(*graph_of(op.graph), std::move(node));
  }
  void on(const GraphSet& op) {
    Graph& graph = op.exec.value == 0 ? *graph_of(op.graph) : execs_[op.exec.value];
    if (op.place >= graph.nodes.size()) return;
    if (!op.operation.empty()) graph.nodes[op.place].kernel = kernel_in(op.operation);
    graph.nodes[op.place].enabled = op.enabled != 0;
  }
  void on(const GraphOrder& op) {
    std::vector<Node>& nodes = graph_of(op.graph)->nodes;
    if (op.gone != 0 && op.place < nodes.size()) nodes.erase(nodes.begin() + op.place);
  }
  void on(const GraphClone& op) { graphs_[op.clone.value] = made_.make(*graph_of(op.graph)); }
  void on(const GraphInstantiate& op) { execs_[op.exec.value] = *graph_of(op.graph); }
  void on(const GraphUpdate& op) {
    const Graph was = std::exchange(execs_[op.exec.value], *graph_of(op.graph));
    std::vector<Node>& nodes = execs_[op.exec.value].nodes;
    for (std::size_t i = 0; i < nodes.size() && i < was.nodes.size(); ++i)
      nodes[i].enabled = was.nodes[i].enabled;
  }
  void on(const GraphLaunch& op) { launch(execs_[op.exec.value], op.stream, 0); }

  RecordedKernel kernel_of(const Launch& op) {
    return {.name = names_[op.kernel.value],
            .grid = op.grid,
            .block = op.block,
            .shared_bytes = op.shared_bytes,
            .stream = op.stream.value,
            .nanoseconds = at_};
  }
  RecordedKernel kernel_of(const Gemm& op) const {
    const auto [grid, block] = product_shape(op);
    return {.name = kProduct,
            .grid = grid,
            .block = block,
            .stream = op.stream.value,
            .nanoseconds = at_};
  }
  std::optional<RecordedKernel> kernel_in(Bytes frame) {
    FrameHeader header;
    if (frame.size() < sizeof(header)) return std::nullopt;
    std::memcpy(&header, frame.data(), sizeof(header));
    const Bytes body = frame.subspan(sizeof(header));
    if (header.code == Launch::kSpec.code)
      if (const auto op = decode<Launch>(body)) return kernel_of(*op);
    if (header.code == Gemm::kSpec.code)
      if (const auto op = decode<Gemm>(body)) return kernel_of(*op);
    return std::nullopt;
  }
  std::shared_ptr<Graph> graph_of(GraphHandle handle) {
    std::shared_ptr<Graph>& graph = graphs_[handle.value];
    if (graph == nullptr) graph = made_.make();
    return graph;
  }
  using Captures = std::map<std::uint64_t, std::shared_ptr<Capture>>;
  // What is under way of a stream, or of an event's last record.
  static std::shared_ptr<Capture> capture_of(const Captures& captures, std::uint64_t handle) {
    const auto found = captures.find(handle);
    if (found == captures.end() || found->second == nullptr) return nullptr;
    return found->second->graph == nullptr ? nullptr : found->second;
  }
  void add(Graph& graph, Node node) {
    if (of_graphs_++ < kMostOfGraphs) graph.nodes.push_back(std::move(node));
  }
  void launch(const Graph& graph, StreamHandle stream, int depth) {
    for (const Node& node : graph.nodes) {
      if (of_graphs_++ >= kMostOfGraphs) return;
      if (node.kernel && node.enabled) {
        launched.push_back(*node.kernel);
        launched.back().stream = stream.value;
        launched.back().nanoseconds = at_;
      }
      for (const auto& body : node.bodies)
        if (depth < kDeepest) launch(*body, stream, depth + 1);
    }
  }

  std::int64_t at_ = 0;
  std::size_t of_graphs_ = 0;
  std::map<std::uint64_t, std::string> names_;
  Graphs made_;
  Captures streams_, events_;
  std::map<std::uint64_t, std::shared_ptr<Graph>> graphs_;
  std::map<std::uint64_t, Graph> execs_;
  std::vector<std::size_t> waits_, said_;  // launches before each
};

Sequence numbered(const Kernels& kernels) {
  std::map<std::string, std::size_t> numbers;
  Sequence sequence;
  for (const RecordedKernel& kernel : kernels)
    sequence.push_back(numbers.emplace(kernel.name, numbers.size()).first->second);
  return sequence;
}

// How many kernels belong to requests of which there are several equal ones, of two or more
// kernels.
std::size_t in_equal_requests(const Sequence& all, const std::vector<std::size_t>& ends) {
  std::map<Sequence, std::size_t> counts;
  std::size_t from = 0, kernels = 0;
  for (const std::size_t end : ends) {
    if (end - from >= 2)
      ++counts[Sequence(all.begin() + static_cast<long>(from),
                        all.begin() + static_cast<long>(end))];
    from = end;
  }
  for (const auto& [request, count] : counts)
    if (count > 1) kernels += count * request.size();
  return kernels;
}

std::string cell(const std::string& name) {
  if (name.find_first_of(",\"\n\r") == name.npos) return name;
  std::string text = "\"";
  for (const char c : name)
    text += c == '"' ? "\"\"" : c == '\n' || c == '\r' ? " " : std::string(1, c);
  return text + "\"";
}

std::string text_of(const Extent3& of) { return fmt::format("{}x{}x{}", of.x, of.y, of.z); }

}  // namespace

RecordedKernels recorded_kernels(const Trace& trace) {
  Reader reader;
  for (const TraceRecord& record : trace.records)
    if (record.direction == Direction::up) reader.read(record);
  const Sequence all = numbered(reader.launched);
  RecordedKernels recorded{.kernels = std::move(reader.launched)};
  std::vector<std::size_t> ends = reader.waits();
  if (!reader.said().empty()) {
    recorded.borders = Borders::said;
    ends = reader.said();
  } else if (in_equal_requests(all, ends) * 2 < all.size()) {
    if (auto learned = repeats(all); !learned.empty()) {
      recorded.borders = Borders::learned;
      ends = std::move(learned);
    }
  }
  std::size_t from = 0;
  ends.push_back(all.size());
  for (const std::size_t end : ends) {
    if (end <= from) continue;
    for (; from < end; ++from) recorded.kernels[from].request = recorded.requests;
    ++recorded.requests;
  }
  return recorded;
}

void append(RecordedKernels& to, RecordedKernels more) {
  for (RecordedKernel& kernel : more.kernels) {
    kernel.request += to.requests;
    to.kernels.push_back(std::move(kernel));
  }
  to.requests += more.requests;
}

std::string to_csv(const RecordedKernels& recorded) {
  std::string text = "index,kernel,request,grid,block,shared_bytes,stream,at_us\n";
  std::size_t index = 0;
  const RecordedKernel* before = nullptr;
  for (const RecordedKernel& kernel : recorded.kernels) {
    index = before != nullptr && before->request == kernel.request ? index + 1 : 0;
    before = &kernel;
    text += fmt::format("{},{},{},{},{},{},{},{:.3f}\n", index, cell(kernel.name), kernel.request,
                        text_of(kernel.grid), text_of(kernel.block), kernel.shared_bytes,
                        kernel.stream, static_cast<double>(kernel.nanoseconds) * 1e-3);
  }
  return text;
}

}  // namespace partita::remote
