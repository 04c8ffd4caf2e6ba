// gRPC-web at the HTTP door: messages are built and taken apart by a second codec.
#include <gtest/gtest.h>

#include <cstring>

#include "base/base64.h"
#include "base/door/testing/http2_client.h"
#include "serve/front/testing/door_fixture.h"
#include "serve/oip/testing/wire_text.h"

namespace partita::serve::test {
namespace {

const std::string kPath = "/inference.GRPCInferenceService/";

std::string framed(const std::string& message) {
  std::string out(1, '\0');
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(message.size() >> shift);
  return out + message;
}

Message pair_ask(const std::string& model = "pair") {
  const float x[] = {1, 2, 3, 4};
  const std::string raw(reinterpret_cast<const char*>(x), sizeof x);
  const std::int32_t k[] = {5, -6};
  return Message()
      .text(1, model)
      .text(3, "mine")
      .message(5, Message().text(1, "x").text(2, "FP32").packed(3, {1, 4}))
      .message(5, Message().text(1, "k").text(2, "INT32").packed(3, {1, 2}))
      .text(7, raw)
      .text(7, {reinterpret_cast<const char*>(k), sizeof k});
}

// The frames of a body: its messages, then its trailers.
struct Body {
  std::vector<std::string> messages = {};
  std::string trailers = "<none>";
  explicit Body(std::string_view bytes) {
    while (bytes.size() >= 5) {
      std::size_t length = 0;
      for (int i = 1; i < 5; ++i)
        length = length << 8 | static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
      const std::string content(bytes.substr(5, length));
      EXPECT_EQ(content.size(), length);
      EXPECT_EQ(trailers, "<none>");
      if (bytes[0] == 0)
        messages.push_back(content);
      else
        trailers = content;
      bytes.remove_prefix(std::min(bytes.size(), 5 + length));
    }
    EXPECT_TRUE(bytes.empty());
  }
};

class GrpcWeb : public DoorFixture {
 protected:
  GrpcWeb() {
    backend.add(pair_model());
    backend.compute = [this](RequestId id) { compute_pair(backend, id); };
  }
  // What both versions of HTTP say, which is the same.
  Body call(const std::string& name, const std::string& message,
            const std::string& type = "application/grpc-web+proto", Headers more = {}) {
    const bool in_base64 = type.find("-text") != std::string::npos;
    const std::string said = in_base64 ? base64(message) : message;
    more.emplace_back("content-type", type);
    Http2Client two(*loop, front->port());
    const auto got = two.ask("POST", kPath + name, said, more);
    EXPECT_EQ(got.status, 200);
    EXPECT_TRUE(got.header("content-type").starts_with("application/grpc-web"));
    EXPECT_EQ(got.header("content-type").find("-text") != std::string::npos, in_base64);
    std::string lines;
    for (const auto& [key, value] : more) lines += key + ": " + value + "\r\n";
    EXPECT_EQ(ask(request("POST " + kPath + name, said, lines)).body, got.body);
    EXPECT_TRUE(backend.requests.empty());
    return Body(in_base64 ? parse_base64(got.body).value_or("") : got.body);
  }
};

TEST_F(GrpcWeb, AnInferenceIsAnswered) {
  open();
  for (const char* type : {"application/grpc-web", "application/grpc-web+proto",
                           "application/grpc-web-text", "application/grpc-web-text+proto"}) {
    const Body body = call("ModelInfer", framed(pair_ask().bytes), type);
    ASSERT_EQ(body.messages.size(), 1U);
    EXPECT_EQ(body.trailers, "grpc-status:0\r\n");
    const Fields answer(body.messages[0]);
    EXPECT_EQ(answer.text(1), "pair");
    EXPECT_EQ(answer.text(3), "mine");
    float twice[4];
    std::int32_t next[2];
    ASSERT_EQ(answer.text(6, 0).size(), sizeof twice);
    ASSERT_EQ(answer.text(6, 1).size(), sizeof next);
    std::memcpy(twice, answer.text(6, 0).data(), sizeof twice);
    std::memcpy(next, answer.text(6, 1).data(), sizeof next);
    EXPECT_EQ(twice[0], 2);
    EXPECT_EQ(twice[3], 8);
    EXPECT_EQ(next[1], -5);
  }
}

TEST_F(GrpcWeb, TheOtherCallsAreAnswered) {
  open();
  const auto flag = [&](const std::string& name, const std::string& message) {
    const Body body = call(name, framed(message));
    EXPECT_EQ(body.trailers, "grpc-status:0\r\n");
    return body.messages.empty() ? std::string("<none>") : body.messages[0];
  };
  EXPECT_EQ(flag("ServerLive", ""), Message().number(1, 1).bytes);
  EXPECT_EQ(flag("ServerReady", ""), Message().number(1, 1).bytes);
  EXPECT_EQ(flag("ModelReady", Message().text(1, "pair").bytes), Message().number(1, 1).bytes);
  EXPECT_EQ(Fields(flag("ModelMetadata", Message().text(1, "pair").bytes)).text(1), "pair");
  EXPECT_EQ(Fields(flag("ServerMetadata", "")).text(1), "partita");
  backend.all_ready = false;
  EXPECT_NE(flag("ServerReady", ""), Message().number(1, 1).bytes);
}

TEST_F(GrpcWeb, WhatIsWrongHasItsStatus) {
  open();
  const auto trailers = [&](const std::string& name, const std::string& bytes) {
    const Body body = call(name, bytes);
    EXPECT_TRUE(body.messages.empty());
    return body.trailers;
  };
  EXPECT_EQ(trailers("ModelInfer", framed(pair_ask("nobody").bytes)),
            "grpc-status:5\r\ngrpc-message:there is no model 'nobody'\r\n");
  EXPECT_EQ(trailers("ModelInfer", framed(pair_ask().bytes + Message().text(2, "9").bytes)),
            "grpc-status:5\r\ngrpc-message:model 'pair' has no such version\r\n");
  EXPECT_EQ(trailers("ModelStream", framed("")),
            "grpc-status:12\r\ngrpc-message:the protocol has no call ModelStream\r\n");
  const std::string good = framed(pair_ask().bytes);
  for (const std::string& broken :
       {std::string(), std::string("abcd"), good.substr(0, good.size() - 1), good + "x",
        "\x01" + good.substr(1), framed("\xff\xff"), framed(Message().text(1, "pair").bytes)})
    EXPECT_TRUE(trailers("ModelInfer", broken).starts_with("grpc-status:3\r\n"));
}

TEST_F(GrpcWeb, ARefusalSaysWhenToComeAgain) {
  open();
  backend.denial = Denial{Denial::Kind::overloaded, "100 % full\n", 1'500'000'000};
  const Body body = call("ModelInfer", framed(pair_ask().bytes));
  EXPECT_EQ(body.trailers,
            "grpc-status:14\r\ngrpc-message:100 %25 full%0A\r\nretry-after-ms:1500\r\n");
  const std::string counts = ask(request("GET /metrics", "")).body;
  EXPECT_NE(counts.find("partita_http_answers_total{status=\"5xx\"} 2"), std::string::npos);
}

TEST_F(GrpcWeb, ItsDeadlineIsThatOfTheRequest) {
  open();
  backend.at_once = false;
  Http2Client two(*loop, front->port());
  for (const auto& [said, wanted] :
       {std::pair{"100m", 100'000'000L}, std::pair{"2S", 2'000'000'000L}, std::pair{"7u", 7'000L},
        std::pair{"99999999H", 86'400'000'000'000L}}) {
    const int before = backend.submissions;
    const auto id = two.begin("POST", kPath + "ModelInfer", framed(pair_ask().bytes),
                              {{"content-type", "application/grpc-web"}, {"grpc-timeout", said}});
    ASSERT_TRUE(two.wait([&] { return backend.submissions > before; }));
    EXPECT_EQ(backend.requests.at(backend.last).head.timeout_ns, wanted);
    backend.finish(backend.last, Denial{Denial::Kind::expired, "too late", 0});
    EXPECT_EQ(Body(two.answer(id).body).trailers, "grpc-status:4\r\ngrpc-message:too late\r\n");
  }
  const auto bad = two.ask("POST", kPath + "ModelInfer", framed(pair_ask().bytes),
                           {{"content-type", "application/grpc-web"}, {"grpc-timeout", "1y"}});
  EXPECT_EQ(bad.status, 400);
}

// A header by its name in small letters, over HTTP/1.1, too.
template <class Answer>
std::string header_of(const Answer& answer, std::string name) {
  const std::string small = answer.header(name);
  bool first = true;
  for (char& c : name) {
    if (first) c = static_cast<char>(std::toupper(c));
    first = c == '-';
  }
  return small.empty() ? answer.header(name) : small;
}

// A page of another origin may call, where its origin is given: whatever the answer is, it says so,
// and the question before it needs no token. Others see no answer of ours.
TEST_F(GrpcWeb, PagesOfGivenOriginsMayCall) {
  const std::string mine = "https://app.example.com", other = "https://evil.example.com";
  for (const std::vector<std::string>& origins :
       {std::vector<std::string>{}, {mine}, {"http://localhost:1", mine}, {"*"}}) {
    FrontOptions options;
    options.tokens = parse_tokens("f", "0123456789abcdef pair\n").value();
    options.origins = origins;
    open(options);
    Http2Client two(*loop, front->port());
    for (const std::string& origin : {mine, other, mine + ".evil.com", std::string("null")}) {
      const bool all = origins == std::vector<std::string>{"*"};
      const bool may = all || (!origins.empty() && origin == mine);
      const auto check = [&](const auto& answer, int status, const std::string& what) {
        EXPECT_EQ(answer.status, status) << what;
        EXPECT_EQ(header_of(answer, "access-control-allow-origin"), may ? origin : "") << what;
        EXPECT_EQ(header_of(answer, "vary"), origins.empty() ? "" : "Origin") << what;
        EXPECT_EQ(header_of(answer, "access-control-allow-credentials"), "") << what;
      };
      const std::string lines = "Origin: " + origin + "\r\nAccess-Control-Request-Method: POST\r\n";
      const std::string head = " HTTP/1.1\r\nHost: x\r\n" + lines + "\r\n";
      const auto before = ask("OPTIONS " + kPath + "ModelInfer" + head);
      check(before, may ? 200 : 501, "preflight");
      EXPECT_EQ(header_of(before, "access-control-allow-methods"), may ? "GET, HEAD, POST" : "");
      EXPECT_EQ(
          header_of(before, "access-control-allow-headers").find("X-Grpc-Web") != std::string::npos,
          may);
      check(two.ask("OPTIONS", "/v2/models/pair", "", {{"origin", origin}}), may ? 200 : 501, "h2");
      check(ask("GET /v2/models/pair" + head), 401, "no token");
      check(ask("GET /nowhere" + head), 401, "no route");
      const Headers asked{{"content-type", "application/grpc-web"},
                          {"origin", origin},
                          {"authorization", "Bearer 0123456789abcdef"}};
      check(two.ask("POST", kPath + "ModelInfer", framed(pair_ask().bytes), asked), 200, "h2 call");
    }
    EXPECT_EQ(header_of(ask("GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"),
                        "access-control-allow-origin"),
              "");
  }
}

TEST_F(GrpcWeb, TokensAreAskedFor) {
  FrontOptions options;
  options.tokens = parse_tokens("f", "0123456789abcdef other\n").value();
  open(options);
  Http2Client two(*loop, front->port());
  Headers headers{{"content-type", "application/grpc-web"}};
  const std::string ask = framed(pair_ask().bytes);
  EXPECT_EQ(two.ask("POST", kPath + "ModelInfer", ask, headers).status, 401);
  EXPECT_EQ(two.ask("POST", kPath + "ServerLive", framed(""), headers).status, 200);
  headers.emplace_back("authorization", "Bearer 0123456789abcdef");
  const auto other = two.ask("POST", kPath + "ModelInfer", ask, headers);
  EXPECT_TRUE(Body(other.body).trailers.starts_with("grpc-status:7\r\n"));
  EXPECT_EQ(backend.admissions, 0);
}

}  // namespace
}  // namespace partita::serve::test
