#include "wire/trace/kernel_record.h"

#include <gmock/gmock.h>

#include <cstring>
#include <deque>

namespace partita::remote {
namespace {

// What a client sent, with the kernels p, q and r.
class Sent {
 public:
  Sent() {
    for (const std::uint64_t kernel : {1, 2, 3})
      send(KernelOpen{{kernel}, {1}, std::string_view(&"pqr"[kernel - 1], 1), {}});
  }
  template <class Op>
  Sent& send(const Op& op) {
    bodies_.push_back(body_of(op));
    trace_.records.push_back({.header = header_of(op), .body = bodies_.back()});
    return *this;
  }
  // As a node of a graph has it.
  template <class Op>
  static std::vector<std::byte> frame(const Op& op) {
    const FrameHeader header = header_of(op);
    std::vector<std::byte> frame(sizeof(header)), body = body_of(op);
    std::memcpy(frame.data(), &header, sizeof(header));
    frame.insert(frame.end(), body.begin(), body.end());
    return frame;
  }
  std::vector<RecordedKernel> kernels() const { return recorded_kernels(trace_).kernels; }
  // "pq p": the kernels by request.
  std::string recorded() const {
    std::string text;
    std::size_t request = 0;
    for (const RecordedKernel& kernel : kernels()) {
      if (kernel.request != request) text += ' ';
      request = kernel.request;
      text += kernel.name;
    }
    return text;
  }

 private:
  template <class Op>
  static std::vector<std::byte> body_of(const Op& op) {
    std::vector<std::byte> body(encoded_size(op));
    encode(op, body.data());
    return body;
  }
  template <class Op>
  static FrameHeader header_of(const Op& op) {
    return {.body_bytes = static_cast<std::uint32_t>(encoded_size(op)), .code = Op::kSpec.code};
  }
  std::deque<std::vector<std::byte>> bodies_;
  Trace trace_;
};

Launch launch(std::uint64_t kernel, std::uint64_t stream = 1) {
  return {.stream = {stream}, .kernel = {kernel}, .grid = {1, 1, 1}, .block = {1, 1, 1}};
}

// p, then q on a stream that joins and r behind both: no more is launched by the capture itself.
TEST(KernelRecord, AGraphHasTheKernelsOfAllItsStreams) {
  Sent sent;
  sent.send(CaptureBegin{{1}, 0, {}, {}, {}}).send(launch(1)).send(EventRecord{{7}, {1}});
  sent.send(StreamWaitEvent{{2}, {7}}).send(launch(2, 2)).send(EventRecord{{8}, {2}});
  sent.send(StreamWaitEvent{{1}, {8}}).send(launch(3)).send(CaptureEnd{{1}, {5}});
  sent.send(GraphInstantiate{{5}, {6}});
  for (int i = 0; i < 3; ++i) sent.send(GraphLaunch{{6}, {1}}).send(StreamSync{{1}});
  // It has left the capture, and the other event is of a capture that has ended.
  sent.send(StreamWaitEvent{{3}, {8}}).send(launch(2, 2)).send(launch(1, 3)).send(StreamSync{{1}});
  sent.send(launch(2, 2)).send(launch(1, 3));
  EXPECT_EQ(sent.recorded(), "pqr pqr pqr qp qp");
}

TEST(KernelRecord, GraphsMadeNodeByNode) {
  const auto p = Sent::frame(launch(1)), q = Sent::frame(launch(2)), r = Sent::frame(launch(3));
  const auto set = Sent::frame(Set{});
  Sent sent;
  const std::uint64_t inner = 6;
  const Bytes body = std::as_bytes(std::span(&inner, 1));
  sent.send(GraphCreate{{5}}).send(GraphCreate{{6}});
  sent.send(GraphAdd{{5}, {1}, {}, p}).send(GraphAdd{{5}, {2}, {}, {}});
  sent.send(GraphBranch{{5}, {3}, {}, kOnce, {}, body});
  sent.send(GraphBranch{{5}, {4}, {}, kIf, {}, body});
  sent.send(GraphAdd{{6}, {1}, {}, set}).send(GraphAdd{{6}, {2}, {}, q});
  sent.send(GraphInstantiate{{5}, {9}});
  for (int i = 0; i < 2; ++i) sent.send(GraphLaunch{{9}, {}}).send(Fence{});
  sent.send(GraphSet{{}, {9}, 0, r}).send(GraphLaunch{{9}, {}}).send(Fence{});
  sent.send(GraphSet{{6}, {}, 1, p}).send(GraphUpdate{{9}, {5}});
  sent.send(GraphLaunch{{9}, {}}).send(Fence{});
  EXPECT_EQ(sent.recorded(), "pq pq rq pp");
}

TEST(KernelRecord, EventsAreNodesOfCaptures) {
  const auto r = Sent::frame(launch(3));
  Sent sent;
  sent.send(CaptureBegin{{1}, 0, {}, {}, {}}).send(launch(1));
  sent.send(EventRecord{{7}, {1}, kExternal}).send(StreamWaitEvent{{1}, {7}, kExternal});
  sent.send(launch(2)).send(CaptureEnd{{1}, {5}}).send(GraphInstantiate{{5}, {6}});
  sent.send(GraphSet{{}, {6}, 3, r}).send(GraphLaunch{{6}, {1}}).send(Fence{});
  EXPECT_EQ(sent.recorded(), "pr");
}

// A node that is disabled is not recorded, whatever becomes of it; nor is one that is gone.
TEST(KernelRecord, NodesThatDoNothing) {
  const auto p = Sent::frame(launch(1)), q = Sent::frame(launch(2)), r = Sent::frame(launch(3));
  Sent sent;
  sent.send(GraphCreate{{5}}).send(GraphAdd{{5}, {1}, {}, p}).send(GraphAdd{{5}, {2}, {}, q});
  sent.send(GraphInstantiate{{5}, {9}}).send(GraphSet{{}, {9}, 0, {}, 0});
  sent.send(GraphLaunch{{9}, {}}).send(Fence{});
  sent.send(GraphSet{{}, {9}, 0, r, 0}).send(GraphLaunch{{9}, {}}).send(Fence{});
  sent.send(GraphSet{{}, {9}, 0, {}, 1}).send(GraphLaunch{{9}, {}}).send(Fence{});
  sent.send(GraphSet{{}, {9}, 1, {}, 0}).send(GraphUpdate{{9}, {5}});
  sent.send(GraphLaunch{{9}, {}}).send(Fence{});
  sent.send(GraphOrder{{5}, 0, {}, 1}).send(GraphOrder{{5}, 0, {}, 0});
  sent.send(GraphInstantiate{{5}, {8}}).send(GraphLaunch{{8}, {}}).send(Fence{});
  EXPECT_EQ(sent.recorded(), "q q rq p q");
}

// By its sizes, launched or in a graph.
TEST(KernelRecord, ProductsAreKernels) {
  Sent sent;
  const Gemm gemm{.stream = {1}, .m = 4, .n = 5, .k = 6, .batch = 7};
  const auto node = Sent::frame(gemm);
  sent.send(gemm).send(GraphAdd{{5}, {1}, {}, node}).send(GraphInstantiate{{5}, {9}});
  sent.send(GraphLaunch{{9}, {2}});
  const std::vector<RecordedKernel> kernels = sent.kernels();
  ASSERT_EQ(kernels.size(), 2u);
  for (const RecordedKernel& kernel : kernels) {
    EXPECT_EQ(kernel.name, "gemm");
    EXPECT_EQ(kernel.grid, (Extent3{4, 5, 7}));
    EXPECT_EQ(kernel.block, (Extent3{6, 1, 1}));
  }
  EXPECT_EQ(kernels[1].stream, 2u);
}

// A graph that is inside itself comes to an end.
TEST(KernelRecord, WhatNoServerTakesEnds) {
  Sent sent;
  const std::uint64_t inner[] = {5, 5};
  const Bytes bodies = std::as_bytes(std::span(inner));
  const auto p = Sent::frame(launch(1));
  sent.send(GraphAdd{{5}, {1}, {}, p}).send(GraphBranch{{5}, {3}, {}, kOnce, {}, bodies});
  sent.send(GraphInstantiate{{5}, {9}}).send(GraphLaunch{{9}, {}});
  EXPECT_FALSE(sent.recorded().empty());
}

TEST(KernelRecord, ConnectionsComeOneBehindTheOther) {
  RecordedKernels all{.kernels = {{.request = 0}, {.request = 1}}, .requests = 2};
  append(all, {.kernels = {{.request = 0}, {.request = 2}}, .requests = 3});
  EXPECT_EQ(all.requests, 5u);
  EXPECT_EQ(all.kernels[2].request, 2u);
  EXPECT_EQ(all.kernels[3].request, 4u);
}

}  // namespace
}  // namespace partita::remote
