// Clients that fetch their streams slowly, or not at all: what waits for them is bounded, who does
// not fetch pays for it, and an answer of any length that is allowed comes whole.
#include <gtest/gtest.h>

#include "base/door/testing/http2_client.h"
#include "serve/front/testing/door_fixture.h"

namespace partita::serve::test {
namespace {

constexpr std::size_t kMiB = 1u << 20;
constexpr int kBuffer = 65'536;  // of a client in the kernel, else it takes megabytes
const std::string kAsk = R"({"model":"chat","prompt":"x"})";

// Of which no two places look the same.
std::string long_text(std::size_t bytes) {
  std::string text;
  text.reserve(bytes + 16);
  for (std::size_t i = 0; text.size() < bytes; ++i) text += std::to_string(i * 7919) + " ";
  text.resize(bytes);
  return text;
}

class SlowClients : public DoorFixture {
 protected:
  void SetUp() override {
    backend.add({.kind = ModelKind::openai, .name = "chat", .platform = "forward"});
    backend.at_once = false;
  }
  // The request that comes next, once it is here.
  template <class Client>
  RequestId asked(Client& client) {
    const int before = submissions_;
    EXPECT_TRUE(client.wait([&] { return backend.submissions > before; }));
    submissions_ = backend.submissions;
    return backend.last;
  }
  RequestId ask_for(RawClient& client) {
    client.send_now(request("POST /v1/completions", kAsk));
    return asked(client);
  }
  void give(RequestId id, const std::string& piece) {
    const auto to = backend.requests.at(id).completion.piece;
    to({.http_status = 200, .bytes = piece});
  }
  bool there(RequestId id) const { return backend.requests.contains(id); }

 private:
  int submissions_ = 0;
};

TEST_F(SlowClients, ALongPieceIsNotCutThoughMoreComesBehindIt) {
  FrontOptions options;
  options.limits.stream_bytes = kMiB / 4;
  open(options);
  const std::string text = long_text(6 * kMiB), token(5000, 't');
  RawClient slow(*loop, front->port(), kBuffer);
  Http2Client slow2(*loop, front->port(), 65'535, false);
  const RequestId one = ask_for(slow);
  const auto stream = slow2.begin("POST", "/v1/completions", kAsk);
  const RequestId other = asked(slow2);
  std::string wanted = text;
  for (const RequestId id : {one, other}) give(id, text);
  for (int i = 0; i < 40; ++i) {
    wanted += token;
    for (const RequestId id : {one, other}) give(id, token);
    slow.turn();
  }
  ASSERT_TRUE(there(one) && there(other));
  for (const RequestId id : {one, other}) backend.finish(id, std::nullopt);
  slow2.fetch_more(stream, 16 * kMiB);
  EXPECT_TRUE(slow.answer().body == wanted);
  const auto answer = slow2.answer(stream);
  EXPECT_TRUE(answer.whole && answer.body == wanted);
}

TEST_F(SlowClients, WhatWaitsBesidesTheLongestPieceIsBounded) {
  FrontOptions options;
  options.limits.stream_bytes = kMiB / 4;
  open(options);
  RawClient deaf(*loop, front->port(), 4096);
  Http2Client deaf2(*loop, front->port(), 65'535, false);
  const RequestId one = ask_for(deaf);
  deaf2.begin("POST", "/v1/completions", kAsk);
  const RequestId other = asked(deaf2);
  const std::string text = long_text(6 * kMiB), piece(25'000, 'x');
  for (const RequestId id : {one, other}) {
    give(id, text);
    int more = 0;
    for (; more < 1000 && there(id); ++more) {
      give(id, piece);
      deaf.turn();
    }
    EXPECT_GE(more, 10);   // a quarter of a MiB of these,
    EXPECT_LT(more, 600);  // and what the kernel took meanwhile
  }
  EXPECT_FALSE(deaf2.gone);  // its other streams go on
}

// Of three who wait for long answers there is room for two: it is not the first that goes, who
// fetches, nor the last that comes, but who fetches nothing.
TEST_F(SlowClients, WhoFetchesNothingMakesRoomForOthers) {
  FrontOptions options;
  options.limits.waiting_bytes = 17 * kMiB;
  open(options);
  const std::string text = long_text(8 * kMiB);
  for (const bool http2 : {false, true}) {
    SCOPED_TRACE(http2);
    const auto begin = [&](Http2Client& client) {
      return client.begin("POST", "/v1/completions", kAsk);
    };
    Http2Client reads(*loop, front->port(), 65'535, false), deaf2(*loop, front->port(), 0, false);
    Http2Client third(*loop, front->port());
    RawClient deaf(*loop, front->port(), 4096);
    const auto first_stream = begin(reads);
    const RequestId first = asked(reads);
    give(first, text);
    if (http2) begin(deaf2);
    const RequestId second = http2 ? asked(deaf2) : ask_for(deaf);
    give(second, text);
    reads.fetch_more(first_stream, kMiB / 2);
    ASSERT_TRUE(reads.wait([&] { return reads.so_far(first_stream).body.size() > kMiB / 2; }));
    EXPECT_TRUE(there(second));
    const auto last_stream = begin(third);
    const RequestId last = asked(third);
    give(last, text);
    EXPECT_TRUE(third.wait([&] { return !there(second); }));
    EXPECT_FALSE(deaf2.gone);
    ASSERT_TRUE(there(first) && there(last));
    for (const RequestId id : {first, last}) backend.finish(id, std::nullopt);
    reads.fetch_more(first_stream, 16 * kMiB);
    EXPECT_TRUE(third.answer(last_stream).body == text);
    EXPECT_TRUE(reads.answer(first_stream).body == text);
    EXPECT_TRUE(http2 || (deaf.closed() && deaf.input().size() < text.size()));
  }
}

}  // namespace
}  // namespace partita::serve::test
