// The HTTP door over HTTP/2: the answers are those of HTTP/1.1, side by side on one connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/door/testing/http2_client.h"
#include "serve/front/testing/door_fixture.h"

namespace partita::serve::test {
namespace {

using nlohmann::json;

const std::string kChat = R"({"model":"chat","stream":true,"messages":[]})";

class Http2Test : public DoorFixture {
 protected:
  Http2Test() {
    backend.add(pair_model());
    backend.add({.name = "wide",
                 .platform = "null",
                 .inputs = {{"x", DataType::uint8, {300'000}}},
                 .outputs = {{"y", DataType::uint8, {300'000}}}});
    backend.add({.kind = ModelKind::openai, .name = "chat", .platform = "forward"});
    backend.compute = [this](RequestId id) {
      const std::string& service = backend.requests.at(id).service;
      if (service == "pair") compute_pair(backend, id);
      if (service != "wide") return;
      const auto in = backend.input(id, 0, 0);
      std::memcpy(backend.output_place(id, 0, 0).data(), in.data(), in.size());
    };
  }
  Http2Client client2(std::uint32_t window = 1u << 20, bool fetches = true) {
    return Http2Client(*loop, front->port(), window, fetches);
  }
  struct Case {
    std::string method, path, body = {};
    Headers headers = {};
  };
  // What both say of it. What tells the time, or how the connection goes on, is left out.
  void expect_same(const Case& one) {
    std::string lines;
    for (const auto& [name, value] : one.headers) lines += name + ": " + value + "\r\n";
    RawClient old = client();
    old.send(request(one.method + " " + one.path, one.body, lines));
    const auto expected = old.answer(one.method != "HEAD");
    Headers headers = one.headers;
    headers.emplace_back("content-length", std::to_string(one.body.size()));
    Http2Client connection = client2();
    for (const std::size_t piece : {std::size_t{16'384}, std::size_t{97}}) {
      const auto got = connection.ask(one.method, one.path, one.body, headers, piece);
      EXPECT_EQ(got.status, expected.status) << one.path;
      EXPECT_EQ(got.body, expected.body) << one.path;
      for (const auto& [name, lower] :
           {std::pair{"Content-Type", "content-type"},
            std::pair{"Content-Length", "content-length"}, std::pair{"Retry-After", "retry-after"},
            std::pair{"Allow", "allow"}, std::pair{"WWW-Authenticate", "www-authenticate"},
            std::pair{"Content-Encoding", "content-encoding"},
            std::pair{"Inference-Header-Content-Length", "inference-header-content-length"}})
        EXPECT_EQ(got.header(lower), expected.header(name)) << one.path << " " << name;
      EXPECT_TRUE(got.whole) << one.path;
    }
    EXPECT_TRUE(backend.requests.empty());
  }
  static Case wide() {
    std::string data(300'000, '\0');
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 31 % 251);
    const std::string head =
        R"({"parameters":{"binary_data_output":true},"inputs":[{"name":"x","shape":[1,300000],)"
        R"("datatype":"UINT8","parameters":{"binary_data_size":300000}}]})";
    return {"POST",
            "/v2/models/wide/infer",
            head + data,
            {{"inference-header-content-length", std::to_string(head.size())}}};
  }
};

TEST_F(Http2Test, AnswersAreThoseOfHttp1) {
  FrontOptions options;
  options.limits.body_bytes = 400'000;
  options.compress = true;
  open(options);
  const Case cases[] = {{"GET", "/v2"},
                        {"GET", "/v2/models/pair"},
                        {"GET", "/v2/models/pair", "", {{"accept-encoding", "gzip"}}},
                        {"HEAD", "/v2/models/pair"},
                        {"GET", "/v2/health/live"},
                        {"GET", "/v2/models/nobody"},
                        {"GET", "/nowhere%zz"},
                        {"DELETE", "/v2"},
                        {"PUT", "/v2"},
                        {"GET", "/v2/models/pair/infer"},
                        {"POST", "/v2/repository/index"},
                        {"POST", "/v2/models/pair/infer", kPairBody},
                        {"POST", "/v2/models/pair/infer?x=1", kPairBody},
                        {"POST", "/v2/models/pair/infer", kPairBody + std::string(40'000, ' ')},
                        {"POST", "/v2/models/pair/infer", "{\"inputs\":[]}"},
                        {"POST", "/v2/models/pair/infer", ""},
                        {"POST", "/v2/models/asleep/infer", kPairBody},
                        {"POST", "/v2/models/nobody/infer", kPairBody},
                        {"POST", "/v2/models/wide/infer", std::string(400'001, 'x')},
                        {"POST", "/v2/models/pair/infer", kPairBody, {{"partita-priority", "99"}}},
                        {"POST", "/v2/models/pair/infer", kPairBody, {{"partita-timeout-ms", "x"}}},
                        {"POST", "/v2/models/pair/infer", kPairBody, {{"content-encoding", "br"}}},
                        {"POST", "/v1/chat/completions", "{}"},
                        wide()};
  for (const Case& one : cases) expect_same(one);
  backend.denial = Denial{Denial::Kind::overloaded, "full", 1'500'000'000};
  expect_same({"POST", "/v2/models/pair/infer", kPairBody});
  EXPECT_EQ(client2().ask("GET", "/metrics").status, 200);
}

TEST_F(Http2Test, TokensAreAskedFor) {
  FrontOptions options;
  options.tokens = parse_tokens("f", "0123456789abcdef pair\n").value();
  open(options);
  const Headers good{{"authorization", "Bearer 0123456789abcdef"}};
  for (const Headers& headers : {Headers{}, Headers{{"authorization", "Bearer x"}}, good}) {
    expect_same({"POST", "/v2/models/pair/infer", kPairBody, headers});
    expect_same({"POST", "/v2/models/wide/infer", kPairBody, headers});
    expect_same({"GET", "/v2/health/live", "", headers});
  }
  backend.at_once = false;
  Http2Client one = client2();
  one.begin("POST", "/v2/models/pair/infer", kPairBody, good);
  ASSERT_TRUE(one.wait([&] { return !backend.requests.empty(); }));
  EXPECT_EQ(backend.requests.begin()->second.client, "token 1");
}

TEST_F(Http2Test, ABodyOfUntoldLengthIsTaken) {
  open();
  const std::string expected = ask(request("POST /v2/models/pair/infer", kPairBody)).body;
  Http2Client one = client2();
  EXPECT_EQ(one.ask("POST", "/v2/models/pair/infer", kPairBody).body, expected);
  EXPECT_EQ(one.ask("POST", "/v2/models/pair/infer", kPairBody, {}, 1).body, expected);
  Case binary = wide();
  const auto got = one.ask("POST", binary.path, binary.body, binary.headers);
  ASSERT_EQ(got.status, 200);
  EXPECT_EQ(got.body.substr(got.body.size() - 300'000),
            binary.body.substr(binary.body.size() - 300'000));
  binary.body.resize(binary.body.size() - 1);
  EXPECT_EQ(one.ask("POST", binary.path, binary.body, binary.headers).status, 400);
  EXPECT_TRUE(backend.requests.empty());
}

TEST_F(Http2Test, RequestsGoSideBySide) {
  open();
  backend.at_once = false;
  Http2Client one = client2();
  std::vector<std::pair<std::int32_t, RequestId>> asked;
  for (int i = 0; i < 20; ++i) {
    const std::int32_t id = one.begin("POST", "/v2/models/pair/infer", kPairBody);
    ASSERT_TRUE(one.wait([&] { return backend.submissions == i + 1; }));
    asked.emplace_back(id, backend.last);
  }
  EXPECT_EQ(front->connections(), 1U);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto& [id, request] = asked[(i * 7 + 3) % asked.size()];
    compute_pair(backend, request);
    backend.finish(request, std::nullopt);
    const auto got = one.answer(id);
    EXPECT_EQ(got.status, 200);
    EXPECT_EQ(json::parse(got.body)["outputs"][0]["data"], json({2, 4, 6, 8}));
  }
  EXPECT_TRUE(backend.requests.empty());
}

TEST_F(Http2Test, AStreamComesPieceByPiece) {
  open();
  backend.at_once = false;
  Http2Client one = client2();
  const auto id = one.begin("POST", "/v1/chat/completions", kChat);
  ASSERT_TRUE(one.wait([&] { return backend.submissions == 1; }));
  auto& completion = backend.requests.at(backend.last).completion;
  completion.piece(
      {.http_status = 200, .content_type = "text/event-stream", .bytes = "data: 1\n\n"});
  ASSERT_TRUE(one.wait([&] { return one.so_far(id).body == "data: 1\n\n"; }));
  EXPECT_EQ(one.ask("GET", "/v2/health/live").status, 200);  // beside it
  completion.piece({.bytes = "data: 2\n\n"});
  completion.piece({.bytes = "data: [DONE]\n\n", .last = true});
  EXPECT_FALSE(one.so_far(id).whole);
  backend.finish(backend.last, std::nullopt);
  const auto answer = one.answer(id);
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.header("content-type"), "text/event-stream");
  EXPECT_EQ(answer.body, "data: 1\n\ndata: 2\n\ndata: [DONE]\n\n");
  EXPECT_TRUE(backend.requests.empty());
}

TEST_F(Http2Test, AStreamThatBreaksHasNoEnd) {
  open();
  backend.at_once = false;
  Http2Client one = client2();
  const auto id = one.begin("POST", "/v1/chat/completions", kChat);
  ASSERT_TRUE(one.wait([&] { return backend.submissions == 1; }));
  backend.requests.at(backend.last).completion.piece({.http_status = 200, .bytes = "abc"});
  one.turn();
  backend.finish(backend.last, Denial{Denial::Kind::failed, "its worker died", 0});
  const auto answer = one.answer(id);
  EXPECT_TRUE(answer.closed && !answer.whole);
  EXPECT_EQ(answer.error, static_cast<std::uint32_t>(NGHTTP2_INTERNAL_ERROR));
  EXPECT_EQ(one.ask("GET", "/v2/health/live").status, 200);  // the connection goes on
  EXPECT_TRUE(backend.requests.empty());
}

TEST_F(Http2Test, WhoGoesTakesItsRequestsAlong) {
  open();
  backend.at_once = false;
  Http2Client one = client2();
  const auto first = one.begin("POST", "/v2/models/pair/infer", kPairBody);
  one.begin("POST", "/v2/models/pair/infer", kPairBody);
  ASSERT_TRUE(one.wait([&] { return backend.submissions == 2; }));
  one.reset(first);
  EXPECT_TRUE(one.wait([&] { return backend.requests.size() == 1; }));
  one.raw.leave();
  RawClient other = client();
  EXPECT_TRUE(other.wait([&] { return backend.requests.empty(); }));
  EXPECT_EQ(backend.releases, 2);
}

TEST_F(Http2Test, AStreamThatIsNotFetchedIsBrokenOffAlone) {
  FrontOptions options;
  options.limits.stream_bytes = 1 << 20;
  open(options);
  backend.at_once = false;
  Http2Client one = client2(65'535, false);
  const auto id = one.begin("POST", "/v1/chat/completions", kChat);
  ASSERT_TRUE(one.wait([&] { return backend.submissions == 1; }));
  const RequestId request = backend.last;
  const std::string piece(100'000, 'x');
  int pieces = 0;
  for (; pieces < 200 && backend.requests.contains(request); ++pieces) {
    const auto give = backend.requests.at(request).completion.piece;
    give({.http_status = 200, .bytes = piece});
    one.turn();
  }
  EXPECT_LT(pieces, 20);
  EXPECT_TRUE(backend.requests.empty());
  EXPECT_FALSE(one.answer(id).whole);
  EXPECT_FALSE(one.gone);
  EXPECT_EQ(one.ask("HEAD", "/v2").status, 200);
}

TEST_F(Http2Test, WhoExpectsToBeAskedForItsBodyIs) {
  open();
  Http2Client one = client2();
  const Headers expects{{"expect", "100-continue"}};
  const auto id = one.begin("POST", "/v2/models/pair/infer", "", expects, 1, true);
  EXPECT_TRUE(one.wait([&] { return one.so_far(id).continues == 1; }));
  const auto refused = one.begin("POST", "/v2/models/nobody/infer", "", expects, 1, true);
  const auto answer = one.answer(refused);
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.continues, 0);
}

TEST_F(Http2Test, TheAccessLogSaysTheSame) {
  const auto file =
      std::filesystem::path(testing::TempDir()) / ("http2_log" + std::to_string(::getpid()));
  FrontOptions options;
  options.access_log.file = file.string();
  open(options);
  ask(request("POST /v2/models/pair/infer", kPairBody));
  client2().ask("POST", "/v2/models/pair/infer", kPairBody);
  backend.at_once = false;
  {
    Http2Client gone = client2();
    gone.begin("POST", "/v2/models/pair/infer", kPairBody);
    ASSERT_TRUE(gone.wait([&] { return backend.submissions == 3; }));
  }
  RawClient(*loop, front->port()).wait([&] { return backend.requests.empty(); });
  front->access_log()->flush();
  std::vector<json> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  ASSERT_EQ(lines.size(), 3U);
  for (const char* key : {"method", "path", "service", "status", "items", "bytes_in"})
    EXPECT_EQ(lines[0][key], lines[1][key]) << key;
  EXPECT_GT(lines[1]["bytes_out"], 100);
  EXPECT_EQ(lines[2]["status"], 499);
  std::filesystem::remove(file);
}

TEST_F(Http2Test, ADoorThatClosesAnswersWhatIsUnderWay) {
  open();
  backend.at_once = false;
  Http2Client one = client2();
  Http2Client idle = client2();
  EXPECT_EQ(idle.ask("GET", "/v2").status, 200);
  const auto id = one.begin("POST", "/v2/models/pair/infer", kPairBody);
  ASSERT_TRUE(one.wait([&] { return backend.submissions == 1; }));
  front->drain();
  EXPECT_TRUE(idle.wait([&] { return idle.gone; }));
  EXPECT_EQ(idle.goodbyes, 1);
  EXPECT_FALSE(one.gone);
  compute_pair(backend, backend.last);
  backend.finish(backend.last, std::nullopt);
  EXPECT_EQ(one.answer(id).status, 200);
  EXPECT_TRUE(one.wait([&] { return one.gone; }));
  EXPECT_EQ(one.goodbyes, 1);
  EXPECT_EQ(one.why, static_cast<std::uint32_t>(NGHTTP2_NO_ERROR));
}

}  // namespace
}  // namespace partita::serve::test
