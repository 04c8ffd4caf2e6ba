#include "serve/grpc/grpc_front.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/descriptor.h"
#include "serve/front/shared_memory.h"
#include "serve/grpc/testing/grpc_fixture.h"
#include "serve/peers/peer_pool.h"

namespace partita::serve {
namespace {

using test::Fields;
using test::GrpcTest;
using test::Message;
using test::pair_request;
using test::PairOptions;
using test::raw;

TEST_F(GrpcTest, BothFormsOfContentsGiveTheSameNumbers) {
  open();
  for (const bool typed : {false, true}) {
    const auto [status, bytes] = ask("ModelInfer", pair_request({.typed = typed}));
    ASSERT_TRUE(status.ok()) << status.error_message();
    const Fields answer(bytes);
    EXPECT_TRUE(answer.whole);
    EXPECT_EQ(answer.text(1), "pair");
    EXPECT_EQ(answer.text(3), "9");
    const Fields twice(answer.text(5));
    EXPECT_EQ(twice.text(1), "twice");
    EXPECT_EQ(twice.text(2), "FP32");
    EXPECT_EQ(twice.text(3), "\2\4");
    EXPECT_EQ(answer.text(6, 0), raw<float>({2, 4, 6, 8, 10, 12, 14, 16}));
    EXPECT_EQ(answer.text(6, 1), raw<std::int32_t>({2, 3, 4, -3}));
  }
  EXPECT_TRUE(backend.requests.empty());
}

TEST_F(GrpcTest, MessagesLargerThanGrpcsDefaultComeIn) {
  open();
  backend.add({.name = "wide",
               .platform = "null",
               .inputs = {{"x", DataType::uint8, {6'000'000}}},
               .outputs = {{"y", DataType::uint8, {6'000'000}}}});
  backend.compute = [this](RequestId id) {
    const auto in = backend.input(id, 0, 0);
    std::memcpy(backend.output_place(id, 0, 0).data(), in.data(), in.size());
  };
  std::string data(6'000'000, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 % 253);
  const Message x = Message().text(1, "x").text(2, "UINT8").packed(3, {1, 6'000'000});
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  channel = grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(front->port()),
                                      grpc::InsecureChannelCredentials(), arguments);
  stub = std::make_unique<grpc::GenericStub>(channel);
  const auto [status, bytes] =
      ask("ModelInfer", Message().text(1, "wide").message(5, x).text(7, data).bytes);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(bytes.ends_with(data));
}

TEST_F(GrpcTest, TheOtherCallsSayWhatTheHttpDoorSays) {
  open();
  const auto read = [&](const std::string& method, const std::string& model) {
    const auto [status, bytes] = ask(method, Message().text(1, model).bytes);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return bytes;
  };
  const std::string yes = "\x08\x01";
  EXPECT_EQ(read("ServerLive", ""), yes);
  EXPECT_EQ(read("ServerReady", ""), yes);
  EXPECT_EQ(read("ModelReady", "pair"), yes);
  EXPECT_EQ(read("ModelReady", "asleep"), "");
  const Fields server(read("ServerMetadata", ""));
  EXPECT_EQ(server.text(1), "partita");
  EXPECT_EQ(server.texts.at(3),
            (std::vector<std::string>{"model_configuration", "model_repository", "sequence",
                                      "statistics", "system_shared_memory"}));
  const auto tensor = [](const std::string& name, const std::string& type, std::int64_t size) {
    return Message().text(1, name).text(2, type).packed(3, {-1, size});
  };
  EXPECT_EQ(read("ModelMetadata", "pair"), Message()
                                               .text(1, "pair")
                                               .text(2, "1")
                                               .text(3, "null")
                                               .message(4, tensor("x", "FP32", 4))
                                               .message(4, tensor("k", "INT32", 2))
                                               .message(5, tensor("twice", "FP32", 4))
                                               .message(5, tensor("next", "INT32", 2))
                                               .bytes);
}

TEST_F(GrpcTest, TheRepositoryIsLoadedAndUnloaded) {
  open();
  const auto load = [&](const char* call, const Message& message) {
    return ask(call, message.bytes).first.error_code();
  };
  const auto index = [&](bool ready) {
    const Fields all(ask("RepositoryIndex", Message().number(2, ready ? 1 : 0).bytes).second);
    std::string text;
    for (std::size_t i = 0; i < (all.texts.empty() ? 0 : all.texts.at(1).size()); ++i)
      for (const unsigned field : {1u, 2u, 3u, 4u})
        text += Fields(all.text(1, i)).text(field) + " ";
    return text;
  };
  EXPECT_EQ(index(false), "pair 1 READY <none> ");
  EXPECT_EQ(load("RepositoryModelUnload", Message().text(2, "pair")), grpc::StatusCode::OK);
  EXPECT_EQ(index(false), "pair 1 UNAVAILABLE unloaded ");
  EXPECT_EQ(index(true), "");
  const auto with = [](const char* parameter) {
    return Message().text(2, "pair").message(3, Message().text(1, parameter).text(2, "\x22\1x"));
  };
  for (const char* brought : {"config", "file:1/model.onnx"})
    EXPECT_EQ(load("RepositoryModelLoad", with(brought)), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(index(true), "");
  EXPECT_EQ(load("RepositoryModelLoad", with("other")), grpc::StatusCode::OK);
  EXPECT_EQ(index(true), "pair 1 READY <none> ");
  EXPECT_EQ(load("RepositoryModelLoad", Message().text(2, "none")),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(load("RepositoryModelLoad", Message().text(1, "other").text(2, "pair")),
            grpc::StatusCode::UNIMPLEMENTED);
}

// Regions are those of the HTTP door, by the same object.
TEST_F(GrpcTest, TensorsLieInSharedMemory) {
  const std::string name = "partita_grpc_" + std::to_string(::getpid());
  const std::string file = "/dev/shm/" + name;
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  std::ofstream(file, std::ios::binary) << raw(x) << std::string(32, '\0');
  SharedMemory memory;
  open({.memory = &memory});
  const auto code = [&](const char* call, const Message& message) {
    return ask(call, message.bytes).first.error_code();
  };
  const Message region = Message().text(1, "r").text(2, "/" + name).number(4, 64);
  EXPECT_EQ(code("SystemSharedMemoryRegister", region), grpc::StatusCode::OK);
  EXPECT_EQ(code("SystemSharedMemoryRegister", region), grpc::StatusCode::INVALID_ARGUMENT);
  const Fields status(ask("SystemSharedMemoryStatus", Message().text(1, "r").bytes).second);
  EXPECT_EQ(Fields(Fields(status.text(1)).text(2)).text(2), "/" + name);
  EXPECT_EQ(code("SystemSharedMemoryStatus", Message().text(1, "no")),
            grpc::StatusCode::INVALID_ARGUMENT);

  const auto placed = [](std::int64_t offset, std::int64_t bytes) {
    const auto text = Message().text(1, "shared_memory_region").message(2, Message().text(3, "r"));
    return std::vector<Message>{
        text, Message().text(1, "shared_memory_offset").message(2, Message().number(2, offset)),
        Message().text(1, "shared_memory_byte_size").message(2, Message().number(2, bytes))};
  };
  const auto request = [&](std::int64_t room) {
    Message in, k, out, all;
    in.text(1, "x").text(2, "FP32").packed(3, {2, 4});
    for (const Message& parameter : placed(0, 32)) in.message(4, parameter);
    k.text(1, "k").text(2, "INT32").packed(3, {2, 2});
    out.text(1, "twice");
    for (const Message& parameter : placed(32, room)) out.message(2, parameter);
    all.text(1, "pair").message(5, in).message(5, k).message(6, out);
    all.message(6, Message().text(1, "next"));
    return all.text(7, raw<std::int32_t>({1, 2, 3, -4})).bytes;
  };
  const auto [well, bytes] = ask("ModelInfer", request(32));
  ASSERT_TRUE(well.ok()) << well.error_message();
  EXPECT_EQ(Fields(bytes).text(6, 0), "");
  EXPECT_EQ(Fields(bytes).text(6, 1), raw<std::int32_t>({2, 3, 4, -3}));
  std::ifstream in(file, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_EQ(all, raw(x) + raw<float>({2, 4, 6, 8, 10, 12, 14, 16}));
  EXPECT_EQ(ask("ModelInfer", request(31)).first.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code("SystemSharedMemoryUnregister", Message()), grpc::StatusCode::OK);
  EXPECT_EQ(ask("ModelInfer", request(32)).first.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code("CudaSharedMemoryUnregister", Message()), grpc::StatusCode::OK);
  EXPECT_EQ(ask("CudaSharedMemoryStatus", "").second, "");
  EXPECT_TRUE(backend.requests.empty());
  std::filesystem::remove(file);
}

TEST_F(GrpcTest, RefusalsHaveTheirCodes) {
  open();
  const auto code = [&](const std::string& method, const std::string& message) {
    return ask(method, message).first.error_code();
  };
  const auto infer = [&](const PairOptions& is) {
    const auto status = ask("ModelInfer", pair_request(is)).first;
    return std::pair(status.error_code(), status.error_message());
  };
  for (const char* none : {"Nothing", "TraceSetting", "LogSettings", "CudaSharedMemoryRegister"})
    EXPECT_EQ(code(none, ""), grpc::StatusCode::UNIMPLEMENTED) << none;
  EXPECT_EQ(code("ModelInfer", "\xff"), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code("ModelReady", Message().text(1, "no").bytes), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(infer({.model = "nobody"}).first, grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(code("ModelInfer", pair_request() + Message().text(2, "9").bytes),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(infer({.columns = 5}), std::pair(grpc::StatusCode::INVALID_ARGUMENT,
                                             std::string("input 'x': shape [2,5] where [n,4] is "
                                                         "wanted")));
  EXPECT_EQ(infer({.typed = true, .floats = 1}).first, grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(infer({.raws = 1}).first, grpc::StatusCode::INVALID_ARGUMENT);
  backend.denial = Denial{Denial::Kind::overloaded, "full", 1'500'000};
  const auto call = start("ModelInfer", pair_request());
  ASSERT_TRUE(wait([&] { return call->status.has_value(); }));
  EXPECT_EQ(call->status->error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(call->context.GetServerTrailingMetadata().find("retry-after-ms")->second, "2");
  EXPECT_TRUE(backend.requests.empty());
}

TEST_F(GrpcTest, ACallThatIsCancelledOrLateFreesItsSlot) {
  open();
  backend.at_once = false;
  const std::string message = pair_request();
  const auto call = start("ModelInfer", message);
  ASSERT_TRUE(wait([&] { return backend.submissions == 1; }));
  EXPECT_EQ(backend.requests.size(), 1u);
  EXPECT_FALSE(backend.requests.at(backend.last).head.timeout_ns);
  call->context.TryCancel();
  EXPECT_TRUE(wait([&] { return backend.requests.empty() && call->status.has_value(); }));
  EXPECT_EQ(call->status->error_code(), grpc::StatusCode::CANCELLED);

  const auto late = std::make_shared<CallState>();
  grpc::Slice slice(message);
  late->request = grpc::ByteBuffer(&slice, 1);
  late->context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
  stub->UnaryCall(&late->context, "/inference.GRPCInferenceService/ModelInfer", {}, &late->request,
                  &late->response, [this, late](grpc::Status status) {
                    loop->post([late, status] { late->status = status; });
                  });
  ASSERT_TRUE(wait([&] { return backend.submissions == 2; }));
  const auto timeout = backend.requests.at(backend.last).head.timeout_ns;
  ASSERT_TRUE(timeout);
  EXPECT_LE(*timeout, 520'000'000);  // gRPC rounds
  EXPECT_TRUE(wait([&] { return backend.requests.empty() && late->status.has_value(); }));
  EXPECT_EQ(late->status->error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(GrpcTest, TheDoorMayCloseOverOpenCalls) {
  open();
  backend.at_once = false;
  const auto call = start("ModelInfer", pair_request());
  ASSERT_TRUE(wait([&] { return backend.submissions == 1; }));
  front.reset();
  ASSERT_TRUE(wait([&] { return call->status.has_value(); }));
  EXPECT_EQ(call->status->error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(backend.requests.empty());
}

// Text in raw form (a length before each element) and as bytes_contents gives the same.
TEST_F(GrpcTest, TextComesInBothForms) {
  const TensorSpec words{.name = "w", .type = DataType::bytes, .shape = {2}, .text_bytes = 8};
  TensorSpec echoed = words;
  echoed.name = "e";
  backend.add(
      {.name = "echo", .platform = "null", .inputs = {words}, .outputs = {echoed}, .max_batch = 8});
  backend.compute = [this](RequestId id) {
    for (int item = 0; item < backend.requests.at(id).items; ++item) {
      const auto from = backend.input(id, item, 0);
      std::copy(from.begin(), from.end(), backend.output_place(id, item, 0).begin());
    }
  };
  open();
  const auto elements = [](const std::vector<std::string>& texts) {
    std::string bytes;
    for (const std::string& text : texts)
      bytes += std::string{static_cast<char>(text.size()), '\0', '\0', '\0'} + text;
    return bytes;
  };
  const auto request = [&](bool typed, const std::vector<std::string>& texts) {
    Message input, contents, whole;
    input.text(1, "w").text(2, "BYTES").packed(3, {2, 2});
    for (const std::string& text : texts) contents.text(8, text);
    if (typed) input.message(5, contents);
    whole.text(1, "echo").message(5, input);
    if (!typed) whole.text(7, elements(texts));
    return whole.bytes;
  };
  const std::vector<std::string> texts = {"ab", std::string("\0\xFF", 2), "", "12345678"};
  for (const bool typed : {false, true}) {
    const auto [status, bytes] = ask("ModelInfer", request(typed, texts));
    ASSERT_TRUE(status.ok()) << status.error_message();
    const Fields answer(bytes);
    EXPECT_EQ(Fields(answer.text(5)).text(2), "BYTES");
    EXPECT_EQ(answer.text(6), elements(texts));
    for (const std::vector<std::string>& wrong : {std::vector<std::string>{"1", "2", "3"},
                                                  {"1", "2", "3", "4", "5"},
                                                  {"", "", "", "123456789"}})
      EXPECT_EQ(ask("ModelInfer", request(typed, wrong)).first.error_code(),
                grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_TRUE(backend.requests.empty());
  backend.compute = [this](RequestId id) {
    for (char& c : backend.output_place(id, 1, 0)) c = '\x7F';
  };
  EXPECT_EQ(ask("ModelInfer", request(true, texts)).first.error_code(), grpc::StatusCode::INTERNAL);
}

TEST_F(GrpcTest, TracesReachTheBackendAndTheAccessLog) {
  const std::string file = testing::TempDir() + "/grpc_access_" + std::to_string(::getpid());
  auto log = AccessLog::open({.file = file}).value();
  open({.log = log.get()});
  metadata = {{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
              {"tracestate", "a=1"}};
  backend.at_once = false;
  const auto call = start("ModelInfer", pair_request());
  ASSERT_TRUE(wait([&] { return backend.submissions == 1; }));
  EXPECT_EQ(backend.requests.at(backend.last).trace, metadata[0].second);
  EXPECT_EQ(backend.requests.at(backend.last).trace_state, "a=1");
  backend.finish(backend.last, std::nullopt);
  ASSERT_TRUE(wait([&] { return call->status.has_value(); }));
  metadata.clear();
  EXPECT_FALSE(ask("ModelInfer", pair_request({.model = "none"})).first.ok());
  log.reset();
  std::ifstream in(file);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  std::filesystem::remove(file);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["trace_id"], "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(lines[0]["path"], "/inference.GRPCInferenceService/ModelInfer");
  EXPECT_EQ(lines[0]["service"], "pair");
  EXPECT_EQ(lines[0]["status"], 200);
  EXPECT_EQ(lines[0]["items"], 2);
  EXPECT_EQ(lines[0]["bytes_in"], pair_request().size());
  EXPECT_EQ(lines[1]["status"], 404);
  EXPECT_EQ(lines[1]["bytes_in"], last_bytes_in);
  EXPECT_FALSE(lines[1].contains("trace_id"));
}

TEST_F(GrpcTest, TokensSayWhoMayUseWhat) {
  GrpcOptions options;
  options.tokens = parse_tokens("t", "pair-pair-pair-pair pair\nother-other-other x\n").value();
  SharedMemory memory;
  options.memory = &memory;
  open(options);
  const std::string message = pair_request();
  const auto code = [&](const std::string& method, const std::string& token) {
    return ask(method, message, token).first.error_code();
  };
  EXPECT_EQ(code("ServerLive", ""), grpc::StatusCode::OK);
  EXPECT_EQ(code("ModelInfer", ""), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code("ModelInfer", "wrong-wrong-wrong-wrong"), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code("ModelInfer", "other-other-other"), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(code("ModelInfer", "pair-pair-pair-pair"), grpc::StatusCode::OK);
  const auto about = [&](const char* method, const std::string& token) {
    return ask(method, Message().text(1, "pair").bytes, token).first.error_code();
  };
  for (const char* method : {"ModelConfig", "ModelStatistics"}) {
    EXPECT_EQ(about(method, ""), grpc::StatusCode::UNAUTHENTICATED) << method;
    EXPECT_EQ(about(method, "other-other-other"), grpc::StatusCode::PERMISSION_DENIED) << method;
    EXPECT_EQ(about(method, "pair-pair-pair-pair"), grpc::StatusCode::OK) << method;
  }
  EXPECT_EQ(ask("RepositoryIndex", "", "other-other-other").second, "");
  EXPECT_NE(ask("RepositoryIndex", "", "pair-pair-pair-pair").second, "");
  for (const char* method : {"RepositoryModelLoad", "SystemSharedMemoryStatus"})
    EXPECT_EQ(about(method, "pair-pair-pair-pair"), grpc::StatusCode::PERMISSION_DENIED) << method;
  EXPECT_EQ(GrpcFront::open(*loop, backend, {.listen = "0.0.0.0:0"}).error().code,
            ErrorCode::bad_input);
}

// Calls that are opened and say nothing are bounded, and end where others need their places.
TEST_F(GrpcTest, SilentCallsMakeRoomForOthers) {
  open({.calls_per_connection = 8, .calls = 16});
  struct Silent {
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
    grpc::Status status;
  };
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs;
  std::vector<std::unique_ptr<Silent>> silent;
  for (int connection = 0; connection < 3; ++connection) {
    grpc::ChannelArguments own;
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stubs.push_back(std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(
        "127.0.0.1:" + std::to_string(front->port()), grpc::InsecureChannelCredentials(), own)));
    for (int i = 0; i < 7; ++i) {
      silent.push_back(std::make_unique<Silent>());
      Silent& one = *silent.back();
      const std::string method = "/inference.GRPCInferenceService/ModelInfer";
      one.call = stubs.back()->PrepareCall(&one.context, method, &queue);
      one.call->StartCall(nullptr);
      one.call->Finish(&one.status, &one);
    }
  }
  int begun = 0, refused = 0;
  const auto look = [&] {
    void* tag = nullptr;
    bool ok = false;
    while (queue.AsyncNext(&tag, &ok, std::chrono::system_clock::now()) ==
           grpc::CompletionQueue::GOT_EVENT) {
      if (tag == nullptr) {
        ++begun;
        continue;
      }
      refused +=
          static_cast<Silent*>(tag)->status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED
              ? 1
              : 0;
    }
  };
  ASSERT_TRUE(wait([&] { return look(), begun == 21 && refused == 6; })) << begun << refused;
  loop->run_until(Loop::now_ns() + 1'100'000'000);
  const auto [status, bytes] = ask("ModelInfer", pair_request());
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(wait([&] { return look(), refused == 7; }));
  for (const auto& one : silent) one->context.TryCancel();
  int ended = refused;
  EXPECT_TRUE(wait([&] {
    void* tag = nullptr;
    bool ok = false;
    while (queue.AsyncNext(&tag, &ok, std::chrono::system_clock::now()) ==
           grpc::CompletionQueue::GOT_EVENT)
      ++ended;
    return ended == 21;
  }));
  queue.Shutdown();
}

// A client that never says it has heard how many calls it may open, and opens more and more.
TEST_F(GrpcTest, WhoOpensCallsBeyondEveryLimitIsPutOut) {
  open({.calls_per_connection = 8, .calls = 64});
  const Descriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  constexpr int kBuffer = 16384;  // what lies in the client's buffers has not been opened yet
  ASSERT_EQ(::setsockopt(client.get(), SOL_SOCKET, SO_SNDBUF, &kBuffer, sizeof(kBuffer)), 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(front->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  std::string fields;
  const auto add = [&](const std::string& name, const std::string& value) {
    fields += '\0' + std::string(1, static_cast<char>(name.size())) + name +
              static_cast<char>(value.size()) + value;
  };
  add(":method", "POST");
  add(":scheme", "http");
  add(":path", "/inference.GRPCInferenceService/ModelInfer");
  add(":authority", "h");
  add("te", "trailers");
  add("content-type", "application/grpc");
  const auto frame = [](int kind, int flags, std::uint32_t stream, const std::string& content) {
    std::string bytes = {0, 0, static_cast<char>(content.size()), static_cast<char>(kind),
                         static_cast<char>(flags)};
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(stream >> shift);
    return bytes + content;
  };
  std::string said = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "");
  std::uint32_t stream = 1;
  std::string heard(65536, '\0');
  constexpr int kNow = MSG_NOSIGNAL | MSG_DONTWAIT;
  const auto ended = [&] {  // as many as the connection takes, so that refusals wait for their turn
    for (ssize_t sent = 1; sent > 0;) {
      for (; said.size() < 4096; stream += 2) said += frame(1, 4, stream, fields);
      sent = ::send(client.get(), said.data(), said.size(), kNow);
      if (sent > 0) said.erase(0, static_cast<std::size_t>(sent));
    }
    const ssize_t got = ::recv(client.get(), heard.data(), heard.size(), MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
  };
  EXPECT_TRUE(wait(ended)) << stream / 2 << " calls";
  EXPECT_LT(stream / 2, 20'000U);
  const auto [status, bytes] = ask("ModelInfer", pair_request());
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(GrpcTest, AMessageThatDoesNotComeIsNotWaitedFor) {
  open({.message_ns = 100'000'000});
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  const auto call =
      stub->PrepareCall(&context, "/inference.GRPCInferenceService/ModelInfer", &queue);
  call->StartCall(nullptr);
  grpc::Status status;
  call->Finish(&status, &status);
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(wait([&] {
    return tag == &status || (queue.AsyncNext(&tag, &ok, std::chrono::system_clock::now()) ==
                                  grpc::CompletionQueue::GOT_EVENT &&
                              tag == &status);
  }));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  queue.Shutdown();
}

TEST_F(GrpcTest, HarmIsToldAndItsSenderIsNotTrusted) {
  open();
  EXPECT_TRUE(ask("ModelInfer", pair_request()).first.ok());
  backend.at_once = false;
  const auto call = start("ModelInfer", pair_request());
  ASSERT_TRUE(wait([&] { return backend.requests.size() == 1; }));
  EXPECT_TRUE(backend.requests.at(backend.last).head.trusted);
  EXPECT_EQ(backend.requests.at(backend.last).client, "127.0.0.1");
  backend.finish(backend.last, Denial{Denial::Kind::harmful, "it kills", 0});
  ASSERT_TRUE(wait([&] { return call->status.has_value(); }));
  EXPECT_EQ(call->status->error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  const auto next = start("ModelInfer", pair_request());
  ASSERT_TRUE(wait([&] { return backend.requests.size() == 1; }));
  EXPECT_FALSE(backend.requests.at(backend.last).head.trusted);
  backend.finish(backend.last, std::nullopt);
  ASSERT_TRUE(wait([&] { return next->status.has_value(); }));
}

// ---- handed over to the gateways of other nodes

constexpr const char* kGatewaysSecret = "the-secret-of-the-gateways";

class GrpcHandOver : public GrpcTest {
 protected:
  struct Node {
    std::unique_ptr<PeerPool> pool;
    test::FakeBackend backend = {};
    std::unique_ptr<GrpcFront> front = {};
  };
  GrpcHandOver() { backend.models.clear(); }
  ~GrpcHandOver() override {
    front.reset();
    nodes.clear();
  }
  Node& add(const std::string& secret = kGatewaysSecret) {
    auto node = std::make_unique<Node>();
    node->pool = std::make_unique<PeerPool>(*loop, PeerOptions{.token = secret}, nobody);
    test::FakeBackend& its = node->backend;
    its.add(test::pair_model());
    its.compute = [&its](RequestId id) { test::compute_pair(its, id); };
    auto opened = GrpcFront::open(*loop, its, {.listen = "127.0.0.1:0", .peers = node->pool.get()});
    EXPECT_TRUE(opened) << to_string(opened.error());
    node->front = std::move(*opened);
    nodes.push_back(std::move(node));
    return *nodes.back();
  }
  // The door of GrpcTest, whose backend has no model, hears of these ports.
  void begin(const std::map<std::string, int>& ports, GrpcOptions options = {}) {
    actuate::GatewayPeers peers{.node = "a", .wanted = {"pair"}};
    const double share = 1.0 / static_cast<double>(ports.size());
    for (const auto& [name, port] : ports)
      peers.peers.push_back({name, "", "127.0.0.1:" + std::to_string(port), {{"pair", share}}});
    pool.serve(peers);
    options.peers = &pool;
    open(options);
    ASSERT_TRUE(wait([&] { return pool.offers("pair", PeerPool::Way::grpc, {}) == ports.size(); }));
  }
  static void nobody(const std::string& /*line*/) {}
  PeerPool pool{*loop, {.token = kGatewaysSecret}, nobody};
  std::vector<std::unique_ptr<Node>> nodes;
};

TEST_F(GrpcHandOver, TheAnswerIsThatOfWhoCarriesIt) {
  Node& b = add();
  Node& c = add();
  begin({{"b", b.front->port()}, {"c", c.front->port()}});
  const auto [status, bytes] = ask("ModelInfer", pair_request());
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(Fields(bytes).text(6, 0), raw<float>({2, 4, 6, 8, 10, 12, 14, 16}));
  EXPECT_EQ(Fields(bytes).text(3), "9");
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(ask("ModelInfer", pair_request()).first.ok());
  EXPECT_EQ(b.backend.submissions, 3);
  EXPECT_EQ(c.backend.submissions, 3);
  // What is full there is asked elsewhere.
  b.backend.denial = {.kind = Denial::Kind::overloaded, .message = "full", .elsewhere = true};
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(ask("ModelInfer", pair_request()).first.ok());
  EXPECT_EQ(c.backend.submissions, 7);
  // Refused for what it is, it comes back with the reason.
  b.backend.denial = c.backend.denial = {.kind = Denial::Kind::harmful, .message = "it did harm"};
  const auto refused = ask("ModelInfer", pair_request()).first;
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(refused.error_message(), "it did harm");
  EXPECT_TRUE(ask("ModelMetadata", Message().text(1, "pair").bytes).first.ok());
}

TEST_F(GrpcHandOver, WhoIsGoneIsPassedOverAndStrangersAreNotLetIn) {
  Node& b = add();
  int gone = 0;
  {
    const Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));  // nobody listens there
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(socket.get(), reinterpret_cast<sockaddr*>(&at), sizeof at);
    socklen_t size = sizeof at;
    ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &size);
    gone = ntohs(at.sin_port);
  }
  begin({{"b", b.front->port()}, {"g", gone}});
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(ask("ModelInfer", pair_request()).first.ok()) << i;
  EXPECT_EQ(b.backend.submissions, 6);
  metadata = {{kHandedOver, "a"}};
  stub = std::make_unique<grpc::GenericStub>(grpc::CreateChannel(
      "127.0.0.1:" + std::to_string(b.front->port()), grpc::InsecureChannelCredentials()));
  EXPECT_EQ(ask("ModelInfer", pair_request()).first.error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(ask("ModelInfer", pair_request(), kGatewaysSecret).first.ok());
}

// Each request of a stream goes by itself.
TEST_F(GrpcHandOver, RequestsOfStreamsGoAsOthersDo) {
  Node& b = add();
  begin({{"b", b.front->port()}});
  test::GrpcStream stream(*stub);
  for (const char* id : {"1", "2"}) stream.send(pair_request({.id = id}));
  stream.close();
  ASSERT_TRUE(wait([&] { return stream.look(), stream.status.has_value(); }));
  EXPECT_TRUE(stream.status->ok());
  ASSERT_EQ(stream.answers.size(), 2u);
  const Fields second(stream.answers[1].text(2));
  EXPECT_EQ(second.text(3), "2");
  EXPECT_EQ(second.text(6, 0), raw<float>({2, 4, 6, 8, 10, 12, 14, 16}));
  EXPECT_EQ(b.backend.submissions, 2);
  b.backend.denial = {.kind = Denial::Kind::harmful, .message = "it did harm"};
  test::GrpcStream refused(*stub);
  refused.send(pair_request());
  refused.close();
  ASSERT_TRUE(wait([&] { return refused.look(), refused.status.has_value(); }));
  EXPECT_EQ(refused.answers.at(0).text(1), "it did harm");
}

// What is demand of a service that nobody carries: inference, no question of what it takes.
TEST_F(GrpcHandOver, WhatNobodyCarriesIsCounted) {
  begin({});
  EXPECT_EQ(ask("ModelInfer", pair_request()).first.error_code(), grpc::StatusCode::UNAVAILABLE);
  ask("ModelMetadata", std::string("\n\4pair"));
  EXPECT_EQ(pool.uncarried(), (std::map<std::string, long>{{"pair", 1}}));
}

TEST_F(GrpcHandOver, NoCallIsHandedOverTwiceAndWhoLeavesEndsIt) {
  Node& b = add();
  begin({{"b", b.front->port()}});
  actuate::GatewayPeers back{.node = "b"};
  back.peers.push_back({"a", "", "127.0.0.1:" + std::to_string(front->port()), {{"pair", 1}}});
  b.pool->serve(back);
  ASSERT_TRUE(wait([&] { return b.pool->offers("pair", PeerPool::Way::grpc, {}) == 1; }));
  b.backend.models.clear();  // both think that the other has it
  const auto none = ask("ModelInfer", pair_request()).first;
  EXPECT_EQ(none.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(none.error_message(), "no node that answers carries model 'pair' now");
  EXPECT_NE(pool.metrics().find("{service=\"pair\",outcome=\"nobody\"} 1"), std::string::npos);
  EXPECT_EQ(b.pool->metrics().find("handed_back"), std::string::npos);
  EXPECT_TRUE(pool.uncarried().empty()) << "who handed it back counts it";
  b.backend.add(test::pair_model());
  b.backend.at_once = false;
  const auto call = start("ModelInfer", pair_request());
  ASSERT_TRUE(wait([&] { return b.backend.submissions == 1; }));
  EXPECT_EQ(b.backend.releases, 0);
  call->context.TryCancel();
  EXPECT_TRUE(wait([&] { return b.backend.releases == 1; }));
  EXPECT_TRUE(wait([&] { return call->status.has_value(); }));
}

}  // namespace
}  // namespace partita::serve
