// A key's limits and its cache hold whichever door it comes to: the core behind both doors.
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include "base/door/testing/test_client.h"
#include "serve/front/front.h"
#include "serve/gateway/testing/core_fixture.h"
#include "serve/grpc/grpc_front.h"
#include "serve/oip/testing/wire_text.h"

namespace partita::serve {
namespace {

using test::CoreTest;
using test::kMs;
using test::Message;
using test::RawClient;

constexpr std::size_t kRowBytes = 16;

class BothDoors : public CoreTest {
 protected:
  void open_doors(const std::string& limits) {
    CoreOptions core = patient();
    core.caches.emplace("s", plan::CacheTerms{.memory = Mib{1}});
    open(core);
    const auto tokens =
        parse_tokens("t", "anna-anna-anna-anna * " + limits + "\nbert-bert-bert-bert *\n");
    ASSERT_TRUE(tokens) << to_string(tokens.error());
    auto http = Front::open(*loop_, *core_, {.listen = "127.0.0.1:0", .tokens = *tokens});
    ASSERT_TRUE(http) << to_string(http.error());
    http_ = *std::move(http);
    auto grpc = GrpcFront::open(*loop_, *core_, {.listen = "127.0.0.1:0", .tokens = *tokens});
    ASSERT_TRUE(grpc) << to_string(grpc.error());
    grpc_ = *std::move(grpc);
    stub_ = std::make_unique<grpc::GenericStub>(grpc::CreateChannel(
        "127.0.0.1:" + std::to_string(grpc_->port()), grpc::InsecureChannelCredentials()));
    worker_ = worker(kMs / 10);
    ASSERT_TRUE(until_ready(1));
  }
  void TearDown() override {
    stub_.reset();
    grpc_.reset();
    http_.reset();
    CoreTest::TearDown();
  }
  static std::string row(float value) {
    const std::vector<float> values(4, value);
    return {reinterpret_cast<const char*>(values.data()), kRowBytes};
  }
  // The status; 429 for RESOURCE_EXHAUSTED.
  int ask_grpc(float value, const std::string& token = "anna-anna-anna-anna") {
    Message input, request;
    input.text(1, "x").text(2, "FP32").packed(3, {1, 4});
    request.text(1, "s").message(5, input).text(7, row(value));
    grpc::Slice slice(request.bytes);
    grpc::ByteBuffer message(&slice, 1), response;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.AddMetadata("authorization", "Bearer " + token);
    std::optional<grpc::Status> ended;
    stub_->UnaryCall(
        &context, "/inference.GRPCInferenceService/ModelInfer", {}, &message, &response,
        [&](grpc::Status status) { loop_->post([&ended, status] { ended = status; }); });
    EXPECT_TRUE(until([&] { return ended.has_value(); }));
    if (ended->ok()) return 200;
    const auto& said = context.GetServerTrailingMetadata();
    EXPECT_TRUE(said.contains("retry-after-ms")) << ended->error_message();
    return ended->error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ? 429 : 500;
  }
  // Binary, in chunks or not.
  int ask_http(float value, bool chunked) {
    const std::string json = R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32",)"
                             R"("parameters":{"binary_data_size":16}}]})";
    const std::string body = json + row(value);
    char size[16];
    std::snprintf(size, sizeof size, "%zx", body.size());
    RawClient client(*loop_, http_->port());
    client.send(
        "POST /v2/models/s/infer HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer "
        "anna-anna-anna-anna\r\nInference-Header-Content-Length: " +
        std::to_string(json.size()) + "\r\n" +
        (chunked ? "Transfer-Encoding: chunked\r\n\r\n" + std::string(size) + "\r\n" + body +
                       "\r\n0\r\n\r\n"
                 : "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body));
    return client.answer().status;
  }
  double usage(const std::string& of) {
    return metric("partita_key_" + of + "_total{service=\"s\",key=\"token 1\"}");
  }

  std::unique_ptr<Front> http_;
  std::unique_ptr<GrpcFront> grpc_;
  std::unique_ptr<grpc::GenericStub> stub_;
  std::unique_ptr<test::TestWorker> worker_;
};

// One bucket for both doors: what is left of it is counted by the clock.
TEST_F(BothDoors, RequestsPerSecondAreOfTheKeyAndNotOfItsDoor) {
  open_doors("rps=4");
  const Nanos began = Loop::now_ns();
  int answered = 0, slowed = 0;
  for (int i = 0; i < 24; ++i) {
    const int status =
        i % 2 == 0 ? ask_grpc(static_cast<float>(i)) : ask_http(static_cast<float>(i), i % 4 == 1);
    ASSERT_TRUE(status == 200 || status == 429) << status;
    ++(status == 200 ? answered : slowed);
  }
  const double seconds = static_cast<double>(Loop::now_ns() - began) / 1e9;
  EXPECT_GE(answered, 4);
  EXPECT_LE(answered, 4 + 4 * seconds);
  EXPECT_EQ(usage("requests"), answered);
  EXPECT_EQ(usage("over_limit"), slowed);
  EXPECT_EQ(ask_grpc(1, "bert-bert-bert-bert"), 200) << "another key's";
}

// Bytes are of bodies and messages, however they come: a key far below nothing waits.
TEST_F(BothDoors, BytesAreCountedHoweverTheyCome) {
  for (const int door : {0, 1, 2}) {
    open_doors("bytes=1");
    const auto ask_once = [&] { return door == 0 ? ask_grpc(1) : ask_http(1, door == 2); };
    EXPECT_EQ(ask_once(), 200);
    EXPECT_GT(usage("bytes"), static_cast<double>(kRowBytes)) << door;
    EXPECT_EQ(ask_grpc(1), 429) << door;
    EXPECT_EQ(ask_http(1, false), 429) << door;
    EXPECT_EQ(ask_http(1, true), 429) << door;
    TearDown();
    worker_.reset();
    SetUp();
  }
}

TEST_F(BothDoors, WhatOneDoorAnsweredTheOtherFinds) {
  open_doors("weight=1");
  EXPECT_EQ(ask_grpc(1), 200);
  EXPECT_EQ(ask_http(1, false), 200);
  EXPECT_EQ(ask_http(1, true), 200);
  EXPECT_EQ(worker_->items, 1);
  EXPECT_EQ(ask_grpc(1, "bert-bert-bert-bert"), 200);
  EXPECT_EQ(worker_->items, 2) << "each key finds its own";
}

}  // namespace
}  // namespace partita::serve
