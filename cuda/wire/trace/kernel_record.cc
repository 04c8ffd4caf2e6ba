#include "wire/trace/kernel_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/repeats.h"

namespace partita::remote {
namespace {

using Kernels = std::vector<RecordedKernel>;
using Sequence = std::vector<std::size_t>;  // kernels as numbers

constexpr std::size_t kMostOfGraphs = 1'000'000;  // kernels remembered or repeated of graphs

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
  void on(const KernelOpen& op) { names_[op.kernel.value] = std::string(op.name); }
  void on(const RequestEnded&) { said_.push_back(launched.size()); }
  void on(const CaptureBegin& op) { capturing_[op.stream.value]; }
  void on(const Launch& op) {
    RecordedKernel kernel{.name = names_[op.kernel.value],
                          .grid = op.grid,
                          .block = op.block,
                          .shared_bytes = op.shared_bytes,
                          .stream = op.stream.value,
                          .nanoseconds = at_};
    const auto capture = capturing_.find(op.stream.value);
    if (capture == capturing_.end())
      launched.push_back(std::move(kernel));
    else if (of_graphs_++ < kMostOfGraphs)
      capture->second.push_back(std::move(kernel));
  }
  void on(const CaptureEnd& op) {
    graphs_[op.graph.value] =
        std::make_shared<const Kernels>(std::move(capturing_[op.stream.value]));
    capturing_.erase(op.stream.value);
  }
  void on(const GraphInstantiate& op) { execs_[op.exec.value] = graphs_[op.graph.value]; }
  void on(const GraphClone& op) { graphs_[op.clone.value] = graphs_[op.graph.value]; }
  void on(const GraphLaunch& op) {
    const auto exec = execs_[op.exec.value];
    if (exec == nullptr) return;
    for (RecordedKernel kernel : *exec) {
      if (of_graphs_++ >= kMostOfGraphs) return;
      kernel.stream = op.stream.value;
      kernel.nanoseconds = at_;
      launched.push_back(std::move(kernel));
    }
  }

  std::int64_t at_ = 0;
  std::size_t of_graphs_ = 0;
  std::map<std::uint64_t, std::string> names_;
  std::map<std::uint64_t, Kernels> capturing_;
  std::map<std::uint64_t, std::shared_ptr<const Kernels>> graphs_, execs_;
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
