// Streams of inferences over gRPC: what comes back and in which order, what one that fails does to
// the others, what a client may hold.
#include "serve/grpc/testing/grpc_fixture.h"

namespace partita::serve {
namespace {

using test::Fields;
using test::GrpcStream;
using test::Message;
using test::pair_request;
using test::raw;

class GrpcStreamTest : public test::GrpcTest {
 protected:
  bool until(GrpcStream& stream, const std::function<bool()>& done, bool fetch = true) {
    return wait([&] { return stream.look(fetch), done(); });
  }
  bool ended(GrpcStream& stream) {
    return until(stream, [&] { return stream.status.has_value(); });
  }
  static std::string numbered(int i) { return pair_request({.id = std::to_string(i)}); }
  static std::string id_of(const Fields& answer) { return Fields(answer.text(2)).text(3); }
  // Finishes what the backend was given as the `nth` of what it has.
  void finish(std::size_t nth, std::optional<Denial> why = {}) {
    const RequestId id = std::next(backend.requests.begin(), static_cast<long>(nth))->first;
    if (!why) test::compute_pair(backend, id);
    backend.finish(id, std::move(why));
  }
};

// Each answer is that of the call of one message, byte by byte, and says that it is the last.
TEST_F(GrpcStreamTest, AnswersAreThoseOfCallsOfOneMessage) {
  open();
  const auto [status, alone] = ask("ModelInfer", pair_request());
  ASSERT_TRUE(status.ok());
  GrpcStream stream(*stub);
  for (const bool typed : {false, true}) stream.send(pair_request({.typed = typed}));
  stream.close();
  ASSERT_TRUE(ended(stream));
  EXPECT_TRUE(stream.status->ok()) << stream.status->error_message();
  ASSERT_EQ(stream.answers.size(), 2u);
  const Message last =
      Message().text(1, "triton_final_response").message(2, Message().number(1, 1));
  for (const Fields& answer : stream.answers) {
    EXPECT_TRUE(answer.whole);
    EXPECT_EQ(answer.texts.size(), 1u);
    EXPECT_EQ(answer.text(2), Message().message(4, last).bytes + alone);
  }
  EXPECT_TRUE(backend.requests.empty());
  EXPECT_TRUE(ask("ModelInfer", pair_request()).first.ok());
}

TEST_F(GrpcStreamTest, AnswersComeInTheOrderOfTheRequests) {
  open();
  backend.at_once = false;
  GrpcStream stream(*stub);
  for (int i = 0; i < 5; ++i) stream.send(numbered(i));
  stream.close();
  ASSERT_TRUE(until(stream, [&] { return backend.submissions == 5; }));
  for (const std::size_t nth : {4u, 2u, 0u}) finish(nth);
  ASSERT_TRUE(until(stream, [&] { return stream.answers.size() == 1; }));
  finish(0);
  finish(0);
  ASSERT_TRUE(ended(stream));
  ASSERT_EQ(stream.answers.size(), 5u);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(id_of(stream.answers[static_cast<std::size_t>(i)]), std::to_string(i));
  EXPECT_TRUE(backend.requests.empty());
}

TEST_F(GrpcStreamTest, WhatFailsIsSaidInItsPlaceAndTheOthersAreAnswered) {
  open();
  backend.at_once = false;
  GrpcStream stream(*stub);
  stream.send(numbered(0));
  stream.send("\xff");
  stream.send(pair_request({.model = "nobody", .id = "2"}));
  stream.send(numbered(3));
  stream.send(pair_request({.columns = 5}));
  stream.send(numbered(5));
  stream.close();
  ASSERT_TRUE(until(stream, [&] { return backend.submissions == 3; }));
  finish(0);
  finish(0, Denial{Denial::Kind::expired, "too late"});
  finish(0);
  ASSERT_TRUE(ended(stream));
  EXPECT_TRUE(stream.status->ok());
  ASSERT_EQ(stream.answers.size(), 6u);
  const std::vector<std::string> faults = {"<none>",
                                           "",
                                           "there is no model 'nobody'",
                                           "too late",
                                           "input 'x': shape [2,5] where [n,4] is wanted",
                                           "<none>"};
  for (std::size_t i = 0; i < faults.size(); ++i) {
    if (i == 1) continue;
    EXPECT_EQ(stream.answers[i].text(1), faults[i]);
    EXPECT_EQ(id_of(stream.answers[i]), i == 4 ? "9" : std::to_string(i));
  }
  EXPECT_TRUE(stream.answers[1].text(1).starts_with("message: ")) << stream.answers[1].text(1);
}

TEST_F(GrpcStreamTest, AnErrorEndsAStreamWhoseClientWantsThat) {
  open();
  GrpcStream stream(*stub, {{"triton_grpc_error", "true"}});
  stream.send(numbered(0));
  stream.send(pair_request({.model = "nobody"}));
  stream.send(numbered(2));
  ASSERT_TRUE(ended(stream));
  EXPECT_EQ(stream.status->error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(stream.answers.size(), 1u);
  EXPECT_TRUE(backend.requests.empty());
}

TEST_F(GrpcStreamTest, StreamsAskForTokens) {
  GrpcOptions options;
  options.tokens = parse_tokens("t", "pair-pair-pair-pair pair\nother-other-other x\n").value();
  open(options);
  GrpcStream nobody(*stub), other(*stub, {{"authorization", "Bearer other-other-other"}});
  for (GrpcStream* stream : {&nobody, &other}) {
    stream->send(pair_request());
    stream->close();
    ASSERT_TRUE(ended(*stream));
  }
  EXPECT_EQ(nobody.status->error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(nobody.answers.empty());
  EXPECT_TRUE(other.status->ok());
  EXPECT_EQ(other.answers.at(0).text(1), "this token is not for service 'pair'");
  EXPECT_EQ(backend.admissions, 0);
}

// With so many under way no more is read; each answer makes room for one.
TEST_F(GrpcStreamTest, AStreamHasSoManyUnderWay) {
  open({.requests_of_stream = 3});
  backend.at_once = false;
  GrpcStream stream(*stub);
  for (int i = 0; i < 8; ++i) stream.send(numbered(i));
  ASSERT_TRUE(until(stream, [&] { return backend.submissions == 3 && stream.sent > 3; }));
  loop->run_until(Loop::now_ns() + 50'000'000);
  EXPECT_EQ(backend.submissions, 3);
  finish(0);
  ASSERT_TRUE(until(stream, [&] { return backend.submissions == 4; }));
  loop->run_until(Loop::now_ns() + 50'000'000);
  EXPECT_EQ(backend.submissions, 4);
  stream.cancel();
  EXPECT_TRUE(until(stream, [&] { return backend.requests.empty(); }));
}

// Beyond the first, requests of streams count as calls: nobody opens one to have more.
TEST_F(GrpcStreamTest, RequestsOfAStreamCountAsCalls) {
  open({.calls_per_connection = 4});
  backend.at_once = false;
  GrpcStream stream(*stub);
  for (int i = 0; i < 6; ++i) stream.send(numbered(i));
  ASSERT_TRUE(until(stream, [&] { return stream.sent == 6 && backend.submissions == 4; }));
  EXPECT_EQ(ask("ModelInfer", pair_request()).first.error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  while (!backend.requests.empty()) finish(0);
  ASSERT_TRUE(until(stream, [&] { return stream.answers.size() == 6; }));
  EXPECT_EQ(stream.answers[5].text(1), "too many calls on this connection");
  EXPECT_EQ(id_of(stream.answers[5]), "5");
  backend.at_once = true;
  EXPECT_TRUE(ask("ModelInfer", pair_request()).first.ok());
  for (int i = 0; i < 9; ++i) stream.send(numbered(i));  // and what they held is free again
  stream.close();
  ASSERT_TRUE(ended(stream));
  EXPECT_EQ(stream.answers.back().text(1), "<none>");
}

TEST_F(GrpcStreamTest, WhoGoesTakesItsRequestsAlong) {
  open();
  backend.at_once = false;
  {
    GrpcStream stream(*stub);
    for (int i = 0; i < 3; ++i) stream.send(numbered(i));
    ASSERT_TRUE(until(stream, [&] { return backend.submissions == 3; }));
  }
  EXPECT_TRUE(wait([&] { return backend.requests.empty(); }));
}

// One that says nothing ends, but not while a request of it runs.
TEST_F(GrpcStreamTest, AStreamThatSaysNothingIsNotWaitedFor) {
  open({.message_ns = 100'000'000});
  backend.at_once = false;
  GrpcStream silent(*stub), busy(*stub);
  busy.send(numbered(0));
  ASSERT_TRUE(until(busy, [&] { return backend.submissions == 1; }));
  ASSERT_TRUE(ended(silent));
  EXPECT_EQ(silent.status->error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  busy.look();
  EXPECT_FALSE(busy.status);
  finish(0);
  ASSERT_TRUE(until(busy, [&] { return busy.answers.size() == 1; }));
  ASSERT_TRUE(ended(busy));
  EXPECT_EQ(busy.status->error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

// In the middle of an answer, as often as it takes for every end to meet every other.
TEST_F(GrpcStreamTest, ManyGoInTheMiddleOfAnAnswer) {
  open();
  backend.add({.name = "wide",
               .platform = "null",
               .inputs = {{"x", DataType::uint8, {1}}},
               .outputs = {{"y", DataType::uint8, {300'000}}}});
  backend.compute = {};
  const Message x = Message().text(1, "x").text(2, "UINT8").packed(3, {1, 1});
  for (int round = 0; round < 60; ++round) {
    std::vector<std::unique_ptr<GrpcStream>> streams;
    for (int i = 0; i < 4; ++i) {
      streams.push_back(std::make_unique<GrpcStream>(*stub));
      for (int k = 0; k < 8; ++k)
        streams.back()->send(Message().text(1, "wide").message(5, x).text(7, "a").bytes);
    }
    ASSERT_TRUE(wait([&] {
      for (const auto& stream : streams) stream->look();
      return std::ranges::all_of(streams, [](const auto& one) { return !one->answers.empty(); });
    }));
    for (const auto& stream : streams) stream->cancel();
    ASSERT_TRUE(wait([&] { return backend.requests.empty(); }));
  }
  EXPECT_TRUE(ask("ModelInfer", pair_request({.model = "nobody"})).first.error_code() ==
              grpc::StatusCode::NOT_FOUND);
}

// Answers that are not fetched stop the reading, and then the stream; what it held is free.
TEST_F(GrpcStreamTest, WhoFetchesNothingIsPutOut) {
  open({.message_ns = 300'000'000});
  backend.add({.name = "wide",
               .platform = "null",
               .inputs = {{"x", DataType::uint8, {1}}},
               .outputs = {{"y", DataType::uint8, {1'000'000}}}});
  backend.compute = {};
  const Message x = Message().text(1, "x").text(2, "UINT8").packed(3, {1, 1});
  GrpcStream stream(*stub);
  const std::string ballast(30'000, 'b');  // so that not all of them are on their way
  for (int i = 0; i < 250; ++i)
    stream.send(Message().text(1, "wide").message(5, x).text(7, "a").text(99, ballast).bytes);
  ASSERT_TRUE(until(
      stream, [&] { return backend.submissions > 64; }, false));
  EXPECT_TRUE(ask("ServerLive", "").first.ok());
  loop->run_until(Loop::now_ns() + 1'500'000'000);
  EXPECT_LT(backend.submissions, 200);
  EXPECT_TRUE(until(
      stream, [&] { return stream.broken; }, false))
      << "it has ended unfetched";
  ASSERT_TRUE(ended(stream));
  EXPECT_FALSE(stream.status->ok());
}

TEST_F(GrpcStreamTest, ADoorThatClosesAnswersWhatIsUnderWay) {
  open();
  backend.at_once = false;
  GrpcStream busy(*stub), idle(*stub);
  busy.send(numbered(0));
  ASSERT_TRUE(until(busy, [&] { return backend.submissions == 1; }));
  idle.look();
  loop->run_until(Loop::now_ns() + 50'000'000);
  front->drain();
  ASSERT_TRUE(ended(idle));
  EXPECT_EQ(idle.status->error_code(), grpc::StatusCode::UNAVAILABLE);
  finish(0);
  ASSERT_TRUE(ended(busy));
  EXPECT_EQ(busy.status->error_code(), grpc::StatusCode::UNAVAILABLE);
  ASSERT_EQ(busy.answers.size(), 1u);
  EXPECT_EQ(busy.answers[0].text(1), "<none>");
  GrpcStream late(*stub);
  late.send(numbered(1));
  ASSERT_TRUE(ended(late));
  EXPECT_EQ(late.status->error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GrpcStreamTest, TheDoorMayGoWhileAnswersWait) {
  open();
  backend.at_once = false;
  GrpcStream stream(*stub);
  for (int i = 0; i < 3; ++i) stream.send(numbered(i));
  ASSERT_TRUE(until(stream, [&] { return backend.submissions == 3; }));
  finish(2);
  front.reset();
  ASSERT_TRUE(ended(stream));
  EXPECT_FALSE(stream.status->ok());
  EXPECT_TRUE(backend.requests.empty());
}

}  // namespace
}  // namespace partita::serve
