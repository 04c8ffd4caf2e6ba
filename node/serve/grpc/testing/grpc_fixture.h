// What tests of the gRPC door share: a loop, a scripted backend, a door on a free port, calls of
// one message and streams of them.
#pragma once

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/front/testing/fake_backend.h"
#include "serve/grpc/grpc_front.h"
#include "serve/oip/testing/wire_text.h"

namespace partita::serve::test {

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

struct PairOptions {
  std::string model = "pair", id = "9";
  std::int64_t columns = 4;
  bool typed = false;
  std::size_t floats = 8;  // of typed contents
  int raws = 2;
};
// A ModelInferRequest for pair_model(), two rows.
inline std::string pair_request(const PairOptions& is = {}) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  Message input_x, input_k, request;
  input_x.text(1, "x").text(2, "FP32").packed(3, {2, is.columns});
  input_k.text(1, "k").text(2, "INT32").number(3, 2).number(3, 2);
  if (is.typed) {
    input_x.message(5, Message().text(6, raw(x).substr(0, 4 * is.floats)));
    input_k.message(5, Message().packed(2, {1, 2, 3, -4}));
  }
  request.text(1, is.model).text(3, is.id).message(5, input_x).message(5, input_k);
  if (!is.typed && is.raws > 0) request.text(7, raw(x));
  if (!is.typed && is.raws > 1) request.text(7, raw<std::int32_t>({1, 2, 3, -4}));
  return request.bytes;
}

class GrpcTest : public testing::Test {
 protected:
  GrpcTest() {
    backend.add(pair_model());
    backend.compute = [this](RequestId id) { compute_pair(backend, id); };
  }
  void open(GrpcOptions options = {}) {
    options.listen = "127.0.0.1:0";
    auto opened = GrpcFront::open(*loop, backend, options);
    ASSERT_TRUE(opened) << to_string(opened.error());
    front = std::move(*opened);
    channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(front->port()),
                                  grpc::InsecureChannelCredentials());
    stub = std::make_unique<grpc::GenericStub>(channel);
  }
  struct CallState {
    grpc::ClientContext context;
    grpc::ByteBuffer request, response;
    std::optional<grpc::Status> status;  // set on the loop
    std::string bytes;
  };
  std::shared_ptr<CallState> start(const std::string& method, const std::string& message,
                                   const std::string& token = "") {
    last_bytes_in = message.size();
    auto call = std::make_shared<CallState>();
    grpc::Slice slice(message);
    call->request = grpc::ByteBuffer(&slice, 1);
    call->context.set_wait_for_ready(true);
    if (!token.empty()) call->context.AddMetadata("authorization", "Bearer " + token);
    for (const auto& [key, value] : metadata) call->context.AddMetadata(key, value);
    stub->UnaryCall(&call->context, "/inference.GRPCInferenceService/" + method, {}, &call->request,
                    &call->response, [this, call](grpc::Status status) {
                      loop->post([call, status] {
                        call->status = status;
                        std::vector<grpc::Slice> slices;
                        call->response.Dump(&slices);
                        for (const auto& each : slices)
                          call->bytes.append(reinterpret_cast<const char*>(each.begin()),
                                             each.size());
                      });
                    });
    return call;
  }
  template <class F>
  bool wait(F&& until) {
    const std::int64_t end = Loop::now_ns() + 10'000'000'000;
    while (!until() && Loop::now_ns() < end) loop->run_until(Loop::now_ns() + 1'000'000);
    return until();
  }
  std::pair<grpc::Status, std::string> ask(const std::string& method, const std::string& message,
                                           const std::string& token = "") {
    const auto call = start(method, message, token);
    EXPECT_TRUE(wait([&] { return call->status.has_value(); })) << method;
    return {call->status.value_or(grpc::Status::CANCELLED), call->bytes};
  }

  std::unique_ptr<Loop> loop = Loop::make().value();
  FakeBackend backend;
  std::unique_ptr<GrpcFront> front;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<grpc::GenericStub> stub;
  std::vector<std::pair<std::string, std::string>> metadata;  // of every call
  std::size_t last_bytes_in = 0;
};

// A stream of a client, by a completion queue that it asks now and then.
class GrpcStream {
 public:
  using Metadata = std::vector<std::pair<std::string, std::string>>;
  explicit GrpcStream(grpc::GenericStub& stub, const Metadata& metadata = {}) {
    context_.set_wait_for_ready(true);
    for (const auto& [key, value] : metadata) context_.AddMetadata(key, value);
    call_ =
        stub.PrepareCall(&context_, "/inference.GRPCInferenceService/ModelStreamInfer", &queue_);
    call_->StartCall(tag(kBegun));
  }
  ~GrpcStream() {
    context_.TryCancel();
    if (!status) call_->Finish(&ended_, tag(kEnded));
    queue_.Shutdown();
    void* got = nullptr;
    for (bool ok = false; queue_.Next(&got, &ok);) {
    }
  }
  // Goes when those before it have gone.
  void send(std::string message) { unsent_.push_back(std::move(message)); }
  void close() { closes_ = true; }
  void cancel() { context_.TryCancel(); }
  // Does what can be done. `fetch`: takes answers.
  void look(bool fetch = true) {
    void* got = nullptr;
    for (bool ok = false; queue_.AsyncNext(&got, &ok, std::chrono::system_clock::now()) ==
                          grpc::CompletionQueue::GOT_EVENT;)
      took(reinterpret_cast<std::intptr_t>(got), ok);
    if (!begun_) return;
    if (fetch && !reading_ && !over_) {
      reading_ = true;
      call_->Read(&in_, tag(kRead));
    }
    if (!writing_ && !unsent_.empty() && !over_) {
      grpc::Slice slice(unsent_.front());
      unsent_.erase(unsent_.begin());
      writing_ = true;
      call_->Write(grpc::ByteBuffer(&slice, 1), tag(kWritten));
    } else if (!writing_ && unsent_.empty() && std::exchange(closes_, false)) {
      writing_ = true;
      call_->WritesDone(tag(kWritten));
    }
  }
  std::vector<Fields> answers = {};         // ModelStreamInferResponses
  std::size_t sent = 0;                     // messages
  bool broken = false;                      // a message does not go
  std::optional<grpc::Status> status = {};  // when all answers are there

 private:
  enum : std::intptr_t { kBegun = 1, kRead, kWritten, kEnded };
  static void* tag(std::intptr_t number) { return reinterpret_cast<void*>(number); }
  void took(std::intptr_t what, bool ok) {
    if (what == kBegun) begun_ = true;
    if (what == kWritten) {
      writing_ = false;
      sent += ok ? 1 : 0;
      broken = broken || !ok;
    }
    if (what == kEnded) status = ended_;
    if (what != kRead) return;
    reading_ = false;
    if (!ok) {
      over_ = true;
      return call_->Finish(&ended_, tag(kEnded));
    }
    std::vector<grpc::Slice> slices;
    std::string bytes;
    in_.Dump(&slices);
    for (const grpc::Slice& each : slices)
      bytes.append(reinterpret_cast<const char*>(each.begin()), each.size());
    answers.emplace_back(bytes);
  }
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::ByteBuffer in_;
  grpc::Status ended_;
  std::vector<std::string> unsent_ = {};
  bool begun_ = false, reading_ = false, writing_ = false, over_ = false, closes_ = false;
};

}  // namespace partita::serve::test
