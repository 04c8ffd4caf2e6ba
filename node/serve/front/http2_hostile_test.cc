// Clients that mean no good over HTTP/2: what each may hold or do is bounded, its connection ends
// or goes on, and the others are served.
#include <gtest/gtest.h>

#include "base/door/testing/http2_client.h"
#include "serve/front/testing/door_fixture.h"

namespace partita::serve::test {
namespace {

constexpr int kData = 0, kHead = 1, kReset = 3, kSettings = 4, kPing = 6, kWindow = 8,
              kContinuation = 9;
constexpr int kEndStream = 1, kEndHeaders = 4;

class Http2Hostile : public DoorFixture {
 protected:
  void SetUp() override {
    backend.add(pair_model());
    backend.compute = [this](RequestId id) { compute_pair(backend, id); };
  }
  // It has gone, what it held is given back, and others are served.
  void expect_ended(RawClient& one) {
    EXPECT_TRUE(one.closed());
    EXPECT_TRUE(backend.requests.empty());
    expect_served();
  }
  void expect_served() {
    const bool at_once = std::exchange(backend.at_once, true);
    EXPECT_EQ(ask(request("POST /v2/models/pair/infer", kPairBody)).status, 200);
    Http2Client good(*loop, front->port());
    EXPECT_EQ(good.ask("POST", "/v2/models/pair/infer", kPairBody).status, 200);
    backend.at_once = at_once;
  }
  // Sends pieces that `next` makes until the server closes; how many it took.
  template <class F>
  int flood(RawClient& one, F&& next, int most) {
    int sent = 0;
    const std::int64_t end = Loop::now_ns() + kPatience;
    std::string bytes;
    while (sent < most && Loop::now_ns() < end) {
      for (int i = 0; i < 64; ++i, ++sent) bytes += next(sent);
      while (!bytes.empty()) {
        const auto count = ::send(one.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (count > 0) bytes.erase(0, static_cast<std::size_t>(count));
        one.turn();
        if (!one.fetch()) return sent;
        if (Loop::now_ns() > end) return sent;
      }
    }
    return sent;
  }
  std::string metric(const std::string& name) {
    const std::string text = ask(request("GET /metrics", "")).body;
    const std::size_t at = text.find("\n" + name + " ");
    if (at == std::string::npos) return "missing";
    return text.substr(at + name.size() + 2, text.find('\n', at + 1) - at - name.size() - 2);
  }
};

TEST_F(Http2Hostile, WhoResetsWhatItAsksForIsPutOut) {  // CVE-2023-44487
  open();
  backend.at_once = false;
  RawClient one = client();
  one.send(preface());
  const std::string head =
      request_head("POST", "/v2/models/pair/infer") + literal("content-length", "140");
  const int sent = flood(
      one,
      [&](int i) {
        const auto id = static_cast<std::uint32_t>(2 * i + 1);
        return frame(kHead, kEndHeaders, id, head) + frame(kData, kEndStream, id, kPairBody) +
               frame(kReset, 0, id, std::string("\0\0\0\x08", 4));
      },
      100'000);
  EXPECT_LT(sent, 5'000);
  EXPECT_LT(backend.admissions, 700);
  expect_ended(one);
  EXPECT_EQ(metric("partita_http2_floods_total"), "1");
}

TEST_F(Http2Hostile, WhoMakesTheServerResetIsPutOut) {  // CVE-2025-8671
  open();
  backend.at_once = false;
  RawClient one = client();
  one.send(preface());
  const int sent = flood(
      one,
      [&](int i) {
        const auto id = static_cast<std::uint32_t>(2 * i + 1);
        return frame(kHead, kEndHeaders, id, request_head("POST", "/v2/models/pair/infer")) +
               frame(kWindow, 0, id, std::string("\x7f\xff\xff\xff", 4));
      },
      100'000);
  EXPECT_LT(sent, 5'000);
  expect_ended(one);
}

TEST_F(Http2Hostile, FramesThatAskForNothingAreCounted) {
  open();
  const std::string ping = frame(kPing, 0, 0, "12345678"), settings = frame(kSettings, 0, 0);
  for (const std::string& kind : {ping, settings, frame(2, 0, 1, std::string(5, '\0'))}) {
    RawClient one = client();
    one.send(preface());
    EXPECT_LT(flood(
                  one, [&](int) { return kind; }, 1'000'000),
              50'000)
        << kind;
    expect_ended(one);
  }
  RawClient one = client();
  one.send(preface() + frame(kHead, kEndHeaders, 1, request_head("POST", "/v2/models/pair/infer")));
  EXPECT_LT(flood(
                one, [&](int) { return frame(kData, 0, 1); }, 1'000'000),
            50'000);
  expect_ended(one);
  RawClient other = client();  // of no known kind: passed over, and others have their turns
  other.send(preface());
  flood(
      other, [&](int) { return frame(77, 0, 0, "what is this"); }, 20'000);
  expect_served();
}

TEST_F(Http2Hostile, AHeadWithoutEndIsNotKept) {
  open();
  RawClient one = client();
  one.send(preface() + frame(kHead, 0, 1, request_head("GET", "/v2")));
  const std::string more = literal("x", std::string(100, 'y'));
  EXPECT_LT(flood(
                one, [&](int) { return frame(kContinuation, 0, 1, more); }, 1'000'000),
            10'000);
  expect_ended(one);
  RawClient empty = client();
  empty.send(preface() + frame(kHead, 0, 1, request_head("GET", "/v2")));
  EXPECT_LT(flood(
                empty, [&](int) { return frame(kContinuation, 0, 1); }, 1'000'000),
            10'000);
  expect_ended(empty);
}

TEST_F(Http2Hostile, AHeadOverItsLimitIsRefused) {
  open();
  Http2Client one(*loop, front->port());
  const Headers large{{"x", std::string(16'000, 'y')}, {"y", std::string(1000, 'y')}};
  EXPECT_EQ(one.ask("GET", "/v2", "", large).status, 431);
  EXPECT_EQ(one.ask("GET", "/v2").status, 200);
  // A few bytes that stand for many: one entry of 4 KiB in the table, named again and again.
  RawClient bomb = client();
  std::string head = request_head("GET", "/v2") + std::string("\x40\x01x\x7f\xa1\x1e", 6);
  head += std::string(4000, 'y') + std::string(12'000, '\xbe');
  bomb.send(preface() + frame(kHead, kEndHeaders | kEndStream, 1, head));
  expect_ended(bomb);
}

TEST_F(Http2Hostile, RequestsOfAConnectionAreCounted) {
  FrontOptions options;
  options.limits.streams_of_connection = 8;
  options.limits.streams = 32;  // of which an address has 30
  open(options);
  backend.at_once = false;
  std::vector<std::unique_ptr<Http2Client>> many;
  int under_way = 0, refused = 0;
  for (int i = 0; i < 5; ++i) {
    RawClient& one = many.emplace_back(std::make_unique<Http2Client>(*loop, front->port()))->raw;
    std::string said = preface();
    for (std::uint32_t id = 1; id < 40; id += 2)
      said += frame(kHead, kEndHeaders, id, request_head("POST", "/v2/models/pair/infer")) +
              frame(kData, kEndStream, id, kPairBody);
    one.send(said);
    for (int turns = 0; turns < 20; ++turns) {
      one.turn();
      one.fetch();
    }
    std::string_view in = one.input();
    for (; in.size() >= 9;
         in.remove_prefix(std::min<std::size_t>(in.size(), 9 + static_cast<unsigned char>(in[2]))))
      refused += in[3] == kReset;
  }
  under_way = static_cast<int>(backend.requests.size());
  EXPECT_EQ(under_way, 30);
  EXPECT_EQ(refused, 5 * 20 - 30);
  many.clear();
  RawClient other = client();
  EXPECT_TRUE(other.wait([&] { return backend.requests.empty(); }));
  expect_served();
}

TEST_F(Http2Hostile, WhoSendsLittleHoldsLittleOfTheJson) {
  FrontOptions options;
  options.limits.json_bytes_in_flight = 1 << 20;
  options.limits.body_grace_ns = 300 * kMilli;
  open(options);
  RawClient one = client();
  std::string said = preface();
  for (std::uint32_t id = 1; id < 257; id += 2)
    said += frame(kHead, kEndHeaders, id, request_head("POST", "/v2/models/pair/infer")) +
            frame(kData, 0, id, "{");
  one.send(said);
  expect_served();  // 128 requests of 16 KiB each would be all of it
  ASSERT_TRUE(one.wait([&] { return one.input().find("too long") != std::string::npos; }));
  expect_served();
}

TEST_F(Http2Hostile, WhoIsSlowIsNotWaitedFor) {
  FrontOptions options;
  options.limits.body_grace_ns = options.limits.head_ns = options.limits.idle_ns = 300 * kMilli;
  open(options);
  Http2Client slow(*loop, front->port());
  const auto id = slow.begin("POST", "/v2/models/pair/infer", "{", {}, 1, true);
  EXPECT_EQ(slow.answer(id).status, 408);
  EXPECT_TRUE(slow.wait([&] { return slow.gone; }));  // idle since then
  EXPECT_EQ(slow.goodbyes, 1);
  RawClient head = client();
  head.send(preface() + frame(kHead, 0, 1, request_head("GET", "/v2")));
  expect_ended(head);
  RawClient nothing = client();
  nothing.send(preface());
  expect_ended(nothing);
  RawClient half = client();
  half.send(kHttp2Preface.substr(0, 10));
  EXPECT_TRUE(half.wait([&] { return half.input().size() > 12; }));
  EXPECT_TRUE(half.input().starts_with("HTTP/1.1 408"));
}

TEST_F(Http2Hostile, AnAnswerThatIsNotFetchedIsTakenBack) {
  FrontOptions options;
  options.limits.body_grace_ns = 300 * kMilli;
  open(options);
  Http2Client one(*loop, front->port(), 10, false);
  const auto id = one.begin("POST", "/v2/models/pair/infer", kPairBody);
  ASSERT_TRUE(one.wait([&] { return one.so_far(id).body.size() == 10; }));
  EXPECT_EQ(backend.requests.size(), 1U);  // its answer is read from its slots
  const auto answer = one.answer(id);
  EXPECT_TRUE(answer.closed && !answer.whole);
  EXPECT_TRUE(backend.requests.empty());
  EXPECT_FALSE(one.gone);
  expect_served();
}

TEST_F(Http2Hostile, StreamsThatAreNotFetchedHoldLittleTogether) {
  FrontOptions options;
  options.limits.stream_bytes = 1 << 20;
  open(options);
  backend.add({.kind = ModelKind::openai, .name = "chat", .platform = "forward"});
  backend.at_once = false;
  Http2Client one(*loop, front->port(), 0, false);
  for (int i = 0; i < 40; ++i)
    one.begin("POST", "/v1/completions", R"({"model":"chat","prompt":"x"})");
  ASSERT_TRUE(one.wait([&] { return backend.submissions == 40; }));
  const std::string piece(100'000, 'x');
  for (int round = 0; round < 9; ++round) {
    std::vector<RequestId> there;
    for (const auto& [id, request] : backend.requests) there.push_back(id);
    for (const RequestId id : there) {
      if (!backend.requests.contains(id)) continue;
      const auto give = backend.requests.at(id).completion.piece;
      give({.http_status = 200, .bytes = piece});
    }
    one.turn();
    one.turn();
  }
  EXPECT_LE(backend.requests.size(), 5U);  // of less than a MiB each
  EXPECT_GE(backend.requests.size(), 3U);
  EXPECT_FALSE(one.gone);
  expect_served();
}

TEST_F(Http2Hostile, ConnectionsThatAreNotReadEnd) {
  FrontOptions options;
  options.limits.body_grace_ns = 500 * kMilli;
  open(options);
  RawClient deaf(*loop, front->port(), 2048);
  std::string said = std::string(kHttp2Preface) +
                     frame(kSettings, 0, 0, std::string("\0\x04\x7f\xff\xff\xff", 6)) +
                     frame(kWindow, 0, 0, std::string("\x7f\0\0\0", 4));
  const std::int64_t end = Loop::now_ns() + kPatience;
  bool ended = false;
  for (std::uint32_t id = 1; !ended && Loop::now_ns() < end;) {
    for (; said.size() < 65'536; id += 2)
      said += frame(kHead, kEndHeaders | kEndStream, id, request_head("GET", "/metrics"));
    const auto count = ::send(deaf.fd(), said.data(), said.size(), MSG_NOSIGNAL);
    if (count > 0) said.erase(0, static_cast<std::size_t>(count));
    ended = count < 0 && errno != EAGAIN;
    deaf.turn();
  }
  EXPECT_TRUE(ended);
  expect_served();
}

TEST_F(Http2Hostile, WhatIsNoHttp2Ends) {
  open();
  const std::string get = frame(kHead, kEndHeaders | kEndStream, 1, request_head("GET", "/v2"));
  for (const std::string& bytes :
       {std::string("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"),
        preface() + get + std::string(4096, '\xff'),
        preface() + frame(kHead, kEndHeaders, 2, request_head("GET", "/v2")),
        preface() + frame(kHead, kEndHeaders, 1, "\xff\xff\xff\xff\xff\xff"),
        preface() + frame(kContinuation, kEndHeaders, 1, ""), std::string(kHttp2Preface) + get}) {
    RawClient one = client();
    one.send(bytes);
    expect_ended(one);
  }
  // A fault of one request ends that alone.
  RawClient one = client();
  one.send(preface() +
           frame(kHead, kEndHeaders | kEndStream, 1,
                 request_head("GET", "/v2") + literal("connection", "close")) +
           frame(kHead, kEndHeaders | kEndStream, 3, request_head("GET", "/v2")));
  EXPECT_TRUE(one.wait([&] { return one.input().find("partita") != std::string::npos; }));
}

}  // namespace
}  // namespace partita::serve::test
