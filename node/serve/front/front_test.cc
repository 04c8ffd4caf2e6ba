#include "serve/front/front.h"

#include <gtest/gtest.h>

#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/door/gzip.h"
#include "base/testing/test_signer.h"
#include "serve/front/oidc_tokens.h"
#include "serve/front/testing/door_fixture.h"

namespace partita::serve {
namespace {

using partita::test::Signer;

using nlohmann::json;
using test::kMilli;
using test::RawClient;
using test::request;

template <class T>
std::string bytes_text(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

constexpr std::string_view kPairJson = R"({"id":"7","inputs":[
  {"name":"x","shape":[2,4],"datatype":"FP32","data":[[1,2,3.5,-4],[0,1e3,0.25,8]]},
  {"name":"k","shape":[2,2],"datatype":"INT32","data":[1,2,3,-4]}]})";

// The same request in binary form.
std::string pair_binary(const std::string& extra = "") {
  const std::string head =
      R"({"id":"7","inputs":[)"
      R"({"name":"x","shape":[2,4],"datatype":"FP32","parameters":{"binary_data_size":32}},)"
      R"({"name":"k","shape":[2,2],"datatype":"INT32","parameters":{"binary_data_size":16}}])" +
      extra + "}";
  const std::string body = head + bytes_text<float>({1, 2, 3.5, -4, 0, 1e3, 0.25, 8}) +
                           bytes_text<std::int32_t>({1, 2, 3, -4});
  return request("POST /v2/models/pair/infer", body,
                 "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n");
}

const json kPairOutputs = json::parse(R"([
  {"name":"twice","datatype":"FP32","shape":[2,4],"data":[2,4,7,-8,0,2000,0.5,16]},
  {"name":"next","datatype":"INT32","shape":[2,2],"data":[2,3,4,-3]}])");

class FrontTest : public test::DoorFixture {
 protected:
  FrontTest() {
    backend.add(test::pair_model());
    backend.add({.name = "image",
                 .platform = "null",
                 .inputs = {{"x", DataType::fp32, {3, 224, 224}}},
                 .outputs = {{"y", DataType::fp32, {1000}}},
                 .max_batch = 8});
    backend.add({.kind = ModelKind::openai, .name = "chat", .platform = "forward"});
    backend.compute = [this](RequestId id) {
      if (backend.requests.at(id).service == "pair") test::compute_pair(backend, id);
    };
  }
  RawClient::Answer get(const std::string& path) {
    return ask("GET " + path + " HTTP/1.1\r\n\r\n");
  }
  // Nothing that was let in is held any more.
  void expect_all_released() { EXPECT_TRUE(backend.requests.empty()); }
};

// A row goes to the shortest bucket that is ready and holds it.
TEST_F(FrontTest, RowsGoToTheirBuckets) {
  for (const std::int64_t bucket : {4, 16, 128})
    backend.add({.name = "text~" + std::to_string(bucket),
                 .platform = "null",
                 .inputs = {{.name = "x",
                             .type = DataType::fp32,
                             .shape = {kOpen},
                             .open_bytes = 1024,
                             .usual = {bucket}}},
                 .outputs = {{.name = "y", .type = DataType::fp32, .shape = {1}}},
                 .max_batch = 8});
  std::vector<std::string> seen;
  backend.compute = [&](RequestId id) { seen.push_back(backend.requests.at(id).service); };
  FrontOptions options;
  options.tokens = Tokens({Token{.secret = "0123456789abcdef", .services = {"text"}}});
  open(options);
  const auto send = [&](int length, const std::string& model) {
    std::string data = "0";
    for (int i = 1; i < length; ++i) data += ",0";
    return ask(request("POST /v2/models/" + model + "/infer",
                       R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,)" +
                           std::to_string(length) + R"(],"data":[)" + data + "]}]}",
                       "Authorization: Bearer 0123456789abcdef\r\n"));
  };
  for (const int length : {1, 4, 5, 16, 17, 128}) EXPECT_EQ(send(length, "text").status, 200);
  EXPECT_EQ(seen, (std::vector<std::string>{"text~4", "text~4", "text~16", "text~16", "text~128",
                                            "text~128"}));
  EXPECT_EQ(send(1, "text~128").status, 200);  // asked for by name
  EXPECT_EQ(send(1, "text/versions/1").status, 200);
  EXPECT_EQ(seen.back(), "text~4");
  EXPECT_EQ(send(1, "text/versions/2").status, 404);
  EXPECT_EQ(send(1, "text~128").status, 200);
  EXPECT_EQ(seen.back(), "text~128");
  backend.set_loaded("text~4", false);
  EXPECT_EQ(send(1, "text").status, 200);
  EXPECT_EQ(seen.back(), "text~16");
  const auto long_row = send(129, "text");
  EXPECT_EQ(long_row.status, 400);
  EXPECT_NE(long_row.body.find("128 is the most that model 'text' takes"), std::string::npos);
  EXPECT_EQ(send(1, "tex").status, 403);
}

TEST_F(FrontTest, CompressesForThoseWhoAsk) {
  FrontOptions options;
  options.compress = true;
  open(options);
  const std::string accept = "Accept-Encoding: gzip\r\n";
  std::string rows = "0,0,0,0", keys = "0,0";
  for (int i = 1; i < 128; ++i) rows += ",0,0,0,0", keys += ",0,0";
  const std::string body = R"({"inputs":[{"name":"x","shape":[128,4],"datatype":"FP32","data":[)" +
                           rows + R"(]},{"name":"k","shape":[128,2],"datatype":"INT32","data":[)" +
                           keys + "]}]}";
  const auto plain = ask(request("POST /v2/models/pair/infer", body));
  ASSERT_EQ(plain.status, 200) << plain.body;
  ASSERT_GT(plain.body.size(), kWorthGzip);
  const auto small = ask(request("POST /v2/models/pair/infer", body, accept));
  EXPECT_EQ(small.header("Content-Encoding"), "gzip");
  EXPECT_EQ(small.body, gzipped(plain.body));
  EXPECT_LT(small.body.size(), plain.body.size() / 4);
  const auto other = ask(request("POST /v2/models/pair/infer", body, "Accept-Encoding: br\r\n"));
  EXPECT_EQ(other.body, plain.body);
  const auto binary = ask(pair_binary(R"(,"parameters":{"binary_data_output":true})"));
  EXPECT_EQ(binary.header("Content-Encoding"), "");
}

// Roles of a provider's tokens say who may use what.
TEST_F(FrontTest, TakesTokensOfAProvider) {
  const Signer signer{.elliptic = true, .id = "k"};
  const std::string keys = testing::TempDir() + "front_keys_" + std::to_string(::getpid());
  std::ofstream(keys) << R"({"keys":[)" << signer.jwk() << "]}";
  const auto settings = [&](const std::string& may) {
    return OidcTokens::open("oidc.yaml", "issuer: i\naudience: a\njwks: " + keys +
                                             "\nroles: {team: " + may + ", ops: '*'}");
  };
  EXPECT_EQ(to_string(settings("'pair rps=x'").error()).substr(0, 24), "oidc.yaml: role 'team': ");
  FrontOptions options;
  options.tokens = parse_tokens("t", "s3cret-of-the-web-shop image\n").value();
  options.oidc = settings("pair rps=1000 weight=3").value();
  open(options);
  const auto token = [&](const std::string& roles, std::int64_t left) {
    return signer.token(R"({"iss":"i","aud":"a","sub":"anna","exp":)" +
                        std::to_string(::time(nullptr) + left) + R"(,"roles":)" + roles + "}");
  };
  std::string seen;
  backend.compute = [&](RequestId id) {
    seen = backend.requests.at(id).client;
    test::compute_pair(backend, id);
  };
  const auto infer = [&](const std::string& bearer) {
    return ask(request("POST /v2/models/pair/infer", std::string(kPairJson),
                       "Authorization: Bearer " + bearer + "\r\n"));
  };
  EXPECT_EQ(infer(token(R"(["team"])", 100)).status, 200);
  EXPECT_EQ(seen, "oidc anna");
  EXPECT_EQ(infer(token(R"(["x","ops"])", 100)).status, 200);
  EXPECT_EQ(infer("s3cret-of-the-web-shop").status, 403);  // those of the file are taken, too
  const auto nobody = infer(token(R"(["x"])", 100));
  EXPECT_EQ(nobody.status, 401);
  EXPECT_NE(nobody.body.find("no role that may use anything"), std::string::npos);
  EXPECT_EQ(infer(token(R"(["team"])", -100)).status, 401);
  EXPECT_EQ(infer(token(R"(["team"])", 100) + "A").status, 401);
  EXPECT_EQ(get("/metrics").status, 401);
  ::unlink(keys.c_str());
}

TEST_F(FrontTest, JsonAndBinaryFormsGiveTheSameNumbers) {
  open();
  const auto text = ask(request("POST /v2/models/pair/infer", std::string(kPairJson)));
  ASSERT_EQ(text.status, 200) << text.body;
  const json answer = json::parse(text.body);
  EXPECT_EQ(answer["model_name"], "pair");
  EXPECT_EQ(answer["id"], "7");
  EXPECT_EQ(answer["outputs"], kPairOutputs);

  const auto mixed = ask(pair_binary());
  ASSERT_EQ(mixed.status, 200) << mixed.body;
  EXPECT_EQ(json::parse(mixed.body)["outputs"], kPairOutputs);

  const auto binary = ask(pair_binary(R"(,"parameters":{"binary_data_output":true})"));
  ASSERT_EQ(binary.status, 200) << binary.body;
  EXPECT_EQ(binary.header("Content-Type"), "application/octet-stream");
  const auto head = std::stoul(binary.header("Inference-Header-Content-Length"));
  const json outputs = json::parse(binary.body.substr(0, head))["outputs"];
  EXPECT_EQ(outputs[0]["parameters"]["binary_data_size"], 32);
  EXPECT_EQ(binary.body.substr(head), bytes_text<float>({2, 4, 7, -8, 0, 2000, 0.5, 16}) +
                                          bytes_text<std::int32_t>({2, 3, 4, -3}));
  expect_all_released();
  EXPECT_EQ(backend.releases, 3);
}

TEST_F(FrontTest, ALargeBodyArrivesWholeHoweverItIsCut) {
  open();
  std::vector<float> image(2 * 150'528);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i % 8191);
  const std::string head = R"({"inputs":[{"name":"x","shape":[2,3,224,224],"datatype":"FP32",)"
                           R"("parameters":{"binary_data_size":1204224}}]})";
  const std::string bytes =
      request("POST /v2/models/image/infer", head + bytes_text(image),
              "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n");
  for (const std::size_t cut : {1u, 60u, 150u, 300u, 20'000u, 700'000u}) {
    bool same = false;
    backend.compute = [&](RequestId id) {
      same = std::memcmp(backend.input(id, 0, 0).data(), image.data(), 602'112) == 0 &&
             std::memcmp(backend.input(id, 1, 0).data(), image.data() + 150'528, 602'112) == 0;
    };
    RawClient one = client();
    one.send(std::string_view(bytes).substr(0, cut));
    one.send(std::string_view(bytes).substr(cut));
    EXPECT_EQ(one.answer().status, 200);
    EXPECT_TRUE(same) << cut;
  }
  expect_all_released();
}

TEST_F(FrontTest, AConnectionServesRequestsOneAfterTheOtherAlsoWhenTheyComeAtOnce) {
  open();
  RawClient one = client();
  const std::string post = request("POST /v2/models/pair/infer", std::string(kPairJson));
  one.send(post + "GET /v2/health/live HTTP/1.1\r\n\r\n" + pair_binary() + post.substr(0, 90));
  EXPECT_EQ(json::parse(one.answer().body)["outputs"], kPairOutputs);
  EXPECT_EQ(one.answer().body, "");
  EXPECT_EQ(json::parse(one.answer().body)["outputs"], kPairOutputs);
  one.send(post.substr(90));
  EXPECT_EQ(json::parse(one.answer().body)["outputs"], kPairOutputs);
  EXPECT_EQ(front->connections(), 1u);
}

TEST_F(FrontTest, PipelinedRequestsWaitWhileOneIsServed) {
  open();
  backend.at_once = false;
  RawClient one = client();
  std::string many;
  for (int i = 0; i < 300; ++i) many += pair_binary();  // more than the buffer of a connection
  one.send(many);
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(one.wait([&] { return backend.submissions == i + 1; }));
    ASSERT_EQ(backend.requests.size(), 1u);
    test::compute_pair(backend, backend.last);
    backend.finish(backend.last, std::nullopt);
    ASSERT_EQ(json::parse(one.answer().body)["outputs"], kPairOutputs);
  }
  expect_all_released();
}

TEST_F(FrontTest, ARefusalComesBeforeTheBody) {
  open();
  backend.denial = Denial{Denial::Kind::overloaded, "the queue is full", 1'500'000'000};
  const std::string head = R"({"inputs":[{"name":"x","shape":[16,3,224,224],"datatype":"FP32",)"
                           R"("parameters":{"binary_data_size":9633792}}]})";
  RawClient one = client();
  one.send("POST /v2/models/image/infer HTTP/1.1\r\nInference-Header-Content-Length: " +
           std::to_string(head.size()) +
           "\r\nContent-Length: " + std::to_string(head.size() + 9'633'792) + "\r\n\r\n" + head);
  const auto answer = one.answer();  // although no byte of the tensors was sent
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.header("Retry-After"), "2");
  EXPECT_EQ(answer.header("Connection"), "close");
  EXPECT_EQ(json::parse(answer.body)["error"], "the queue is full");
  EXPECT_TRUE(one.closed());
}

TEST_F(FrontTest, JsonIsRefusedAsSoonAsItsShapeIsKnown) {
  open();
  backend.denial = Denial{Denial::Kind::would_be_late, "late", 0};
  std::string body = R"({"inputs":[{"name":"x","shape":[1,3,224,224],"datatype":"FP32","data":[)";
  for (int i = 0; i < 5000; ++i) body += "1,";
  RawClient one = client();
  one.send("POST /v2/models/image/infer HTTP/1.1\r\nContent-Length: 400000\r\n\r\n" + body);
  EXPECT_EQ(one.answer().status, 503);  // although most of the body was not sent
  EXPECT_EQ(backend.admissions, 1);
}

TEST_F(FrontTest, AfterASmallRefusedBodyTheConnectionGoesOn) {
  open();
  RawClient one = client();
  const std::string post = request("POST /v2/models/nobody/infer", std::string(kPairJson));
  one.send(post + post);
  EXPECT_EQ(one.answer().status, 404);
  EXPECT_EQ(one.answer().status, 404);
  one.send(request("POST /v2/models/pair/infer", std::string(kPairJson)));
  EXPECT_EQ(one.answer().status, 200);
}

struct BadCase {
  std::string what, bytes;
  int status;
  std::string message;
};

TEST_F(FrontTest, WrongRequestsAreNamed) {
  open();
  const auto infer = [](const std::string& body) {
    return request("POST /v2/models/pair/infer", body);
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string body(kPairJson);
    body.replace(body.find(from), from.size(), to);
    return infer(body);
  };
  const std::vector<BadCase> cases = {
      {"type", with("FP32", "FP64"), 400, "input 'x': datatype FP64 where FP32 is wanted"},
      {"shape", with("[2,4]", "[2,5]"), 400, "input 'x': shape [2,5] where [n,4] is wanted"},
      {"rows", with("[2,4]", "[3,4]"), 400, "input 'k': 2 rows where 'x' has 3"},
      {"name", with("\"x\"", "\"y\""), 400, "input 'y': model 'pair' has 'x', 'k'"},
      {"few", with("-4]", "4,5"), 400, ""},
      {"short", with("3,-4", "3"), 400, "input 'k', data, byte 7: fewer values than the shape has"},
      {"word", with("1e3", "abc"), 400, ""},
      {"fraction", with("3,-4", "3,-4.5"), 400, ""},
      {"json", infer("{"), 400, ""},
      {"empty", infer(""), 400, ""},
      {"nobody", request("POST /v2/models/nobody/infer", "{}"), 404, "there is no model 'nobody'"},
      {"asleep", request("POST /v2/models/asleep/infer", "{}"), 503,
       "no worker of model 'asleep' is ready"},
      {"openai", request("POST /v2/models/chat/infer", "{}"), 400,
       "model 'chat' speaks /v1/chat/completions"},
      {"get", "GET /v2/models/pair/infer HTTP/1.1\r\n\r\n", 405, "inference is a POST"},
      {"verb", "DELETE /v2 HTTP/1.1\r\n\r\n", 501, "GET, HEAD and POST are taken"},
      {"route", "GET /v3 HTTP/1.1\r\n\r\n", 404, "no such route"},
      {"version", "GET /v2/models/pair/versions/2 HTTP/1.1\r\n\r\n", 404, ""},
      {"head", "BROKEN\r\n\r\n", 400, ""},
      {"lengths", "POST /v2 HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, ""},
      {"coding", "POST /v2/models/pair/infer HTTP/1.1\r\nTransfer-Encoding: zip\r\n\r\n", 501,
       "of Transfer-Encoding, chunked alone is taken"},
      {"zipped", request("POST /v2/models/pair/infer", "x", "Content-Encoding: gzip\r\n"), 400,
       "the body is not what its Content-Encoding says"},
      {"brotli", request("POST /v2/models/pair/infer", "x", "Content-Encoding: br\r\n"), 415,
       "of Content-Encoding, gzip and deflate alone are taken"},
      {"zipped elsewhere", request("POST /v1/completions", "x", "Content-Encoding: gzip\r\n"), 415,
       ""},
      {"huge", "POST /v2/models/pair/infer HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413,
       ""},
      {"timeout", request("POST /v2/models/pair/infer", "{}", "Partita-Timeout-Ms: soon\r\n"), 400,
       ""},
      {"priority", request("POST /v2/models/pair/infer", "{}", "Partita-Priority: 9\r\n"), 400,
       "Partita-Priority: a whole number from -8 to 8 is wanted"},
  };
  for (const BadCase& bad : cases) {
    const auto answer = ask(bad.bytes);
    EXPECT_EQ(answer.status, bad.status) << bad.what << ": " << answer.body;
    const json body = json::parse(answer.body, nullptr, false);
    ASSERT_TRUE(body.contains("error")) << bad.what << ": " << answer.body;
    if (bad.message.empty()) continue;
    EXPECT_EQ(body["error"], bad.message) << bad.what;
  }
  EXPECT_EQ(backend.turned, (std::map<std::string, int>{{"asleep", 1}}));
  expect_all_released();
}

TEST_F(FrontTest, AHeadThatNeverEndsIsRefused) {
  open();
  RawClient one = client();
  one.send("GET / HTTP/1.1\r\nX: " + std::string(20'000, 'a'));
  EXPECT_EQ(one.answer().status, 431);
  EXPECT_TRUE(one.closed());
}

TEST_F(FrontTest, AClientThatLeavesFreesItsSlot) {
  open();
  backend.at_once = false;
  {
    RawClient one = client();
    one.send(pair_binary());
    ASSERT_TRUE(one.wait([&] { return backend.submissions == 1; }));
    one.leave();  // while it waits
    ASSERT_TRUE(one.wait([&] { return backend.requests.empty(); }));
  }
  RawClient two = client();
  const std::string bytes = pair_binary();
  two.send(std::string_view(bytes).substr(0, bytes.size() - 10));
  ASSERT_TRUE(two.wait([&] { return backend.requests.size() == 1; }));
  two.leave();  // in the middle of its body
  EXPECT_TRUE(two.wait([&] { return backend.requests.empty(); }));
  EXPECT_EQ(backend.submissions, 1);
  EXPECT_TRUE(two.wait([&] { return front->connections() == 0; }));
}

TEST_F(FrontTest, SlowClientsAreToldSoAndTheirSlotsFreed) {
  FrontOptions options;
  options.limits.idle_ns = 300 * kMilli;
  options.limits.head_ns = options.limits.body_grace_ns = 20 * kMilli;
  open(options);
  RawClient idle = client();
  RawClient slow_head = client();
  slow_head.send("GET /v2 HT");
  EXPECT_EQ(slow_head.answer().status, 408);
  RawClient slow_body = client();
  const std::string bytes = pair_binary();
  slow_body.send(std::string_view(bytes).substr(0, bytes.size() - 1));
  EXPECT_EQ(slow_body.answer().status, 408);
  EXPECT_TRUE(slow_body.closed());
  expect_all_released();
  EXPECT_TRUE(idle.closed());
}

TEST_F(FrontTest, ExpectIsAnsweredUnlessTheRequestIsRefused) {
  open();
  RawClient one = client();
  const std::string bytes =
      request("POST /v2/models/pair/infer", std::string(kPairJson), "Expect: 100-continue\r\n");
  const std::size_t head = bytes.find("\r\n\r\n") + 4;
  one.send(bytes.substr(0, head));
  EXPECT_EQ(one.answer().status, 100);
  one.send(bytes.substr(head));
  EXPECT_EQ(one.answer().status, 200);
  RawClient two = client();
  two.send(
      "POST /v2/models/no/infer HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n");
  EXPECT_EQ(two.answer().status, 404);
}

TEST_F(FrontTest, FailuresOfTheBackendHaveTheirStatus) {
  open();
  backend.at_once = false;
  const std::vector<std::pair<Denial::Kind, int>> kinds = {
      {Denial::Kind::failed, 500}, {Denial::Kind::expired, 504}, {Denial::Kind::not_ready, 503}};
  RawClient one = client();
  for (const auto& [kind, status] : kinds) {
    const int before = backend.submissions;
    one.send(pair_binary());
    ASSERT_TRUE(one.wait([&] { return backend.submissions == before + 1; }));
    backend.finish(backend.last, Denial{kind, "why", 0});
    const auto answer = one.answer();
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(json::parse(answer.body)["error"], "why");
  }
  expect_all_released();
}

TEST_F(FrontTest, WishesOfTheClientReachTheBackend) {
  open();
  backend.at_once = false;
  RawClient one = client();
  std::string body(kPairJson);
  body.replace(body.find("\"id\":"), 5, R"("parameters":{"timeout":900000,"priority":3},"id":)");
  one.send(request("POST /v2/models/pair/versions/1/infer", body,
                   "Partita-Timeout-Ms: 250\r\nPartita-Idempotent: false\r\n"
                   "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
                   "tracestate: a=1\r\nTraceState: b=2\r\n"));
  ASSERT_TRUE(one.wait([&] { return backend.submissions == 1; }));
  const auto& seen = backend.requests.at(backend.last);
  EXPECT_EQ(seen.head.timeout_ns, 250 * kMilli);  // the sooner of the two
  EXPECT_EQ(seen.head.priority, 3);
  EXPECT_FALSE(seen.head.idempotent);
  EXPECT_EQ(seen.trace, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  EXPECT_EQ(seen.trace_state, "a=1,b=2");
  EXPECT_EQ(seen.items, 2);
}

TEST_F(FrontTest, ARequestThatComesInPiecesIsOfferedOnce) {
  open();
  RawClient one = client();
  std::string body(kPairJson);
  body.insert(body.rfind('}'), std::string(4000, ' ') + R"(,"parameters":{"timeout":900000})");
  const std::string text = request("POST /v2/models/pair/infer", body);
  const std::size_t cut = text.size() - 60;  // its rows are there, its wishes are not
  one.send(text.substr(0, cut));
  ASSERT_TRUE(one.wait([&] { return backend.admissions == 1; }));
  one.send(text.substr(cut));
  EXPECT_EQ(one.answer().status, 200);
  EXPECT_EQ(backend.admissions, 2);
  EXPECT_EQ(backend.offered, 1);
}

TEST_F(FrontTest, SaysWhatItIsAndWhatItHas) {
  open();
  EXPECT_EQ(json::parse(get("/v2").body)["name"], "partita");
  EXPECT_EQ(get("/v2/health/live").status, 200);
  EXPECT_EQ(get("/v2/health/ready").status, 200);
  backend.all_ready = false;
  EXPECT_EQ(get("/v2/health/ready").status, 503);
  EXPECT_EQ(get("/v2/models/pair/ready").status, 200);
  EXPECT_EQ(get("/v2/models/asleep/ready").status, 503);
  EXPECT_EQ(json::parse(get("/v2/models/pair").body), json::parse(R"({
    "name":"pair","versions":["1"],"platform":"null",
    "inputs":[{"name":"x","datatype":"FP32","shape":[-1,4]},
              {"name":"k","datatype":"INT32","shape":[-1,2]}],
    "outputs":[{"name":"twice","datatype":"FP32","shape":[-1,4]},
               {"name":"next","datatype":"INT32","shape":[-1,2]}]})"));
  const json stats = json::parse(get("/v2/models/pair/stats").body)["model_stats"];
  ASSERT_EQ(stats.size(), 1u);
  EXPECT_EQ(stats[0]["inference_stats"]["success"], json::parse(R"({"count":3,"ns":4})"));
  EXPECT_EQ(stats[0]["inference_count"], 6);
  EXPECT_EQ(json::parse(get("/v2/models/stats").body)["model_stats"].size(), 3u);
  const json index = json::parse(ask(request("POST /v2/repository/index", "")).body);
  ASSERT_EQ(index.size(), 3u);
  EXPECT_EQ(index[2]["name"], "pair");
  EXPECT_EQ(index[2]["state"], "READY");
  const auto metrics = get("/metrics");
  EXPECT_NE(metrics.body.find("nv_inference_count"), std::string::npos);
  EXPECT_NE(metrics.body.find("partita_http_connections 1\n"), std::string::npos);
  EXPECT_EQ(json::parse(get("/v1/models").body)["data"].size(), 1u);
  RawClient one = client();
  one.send("HEAD /v2 HTTP/1.1\r\n\r\nGET /v2/health/live HTTP/1.0\r\n\r\n");
  EXPECT_EQ(one.answer(false).status, 200);
  const auto last = one.answer();
  EXPECT_EQ(last.status, 200);
  EXPECT_EQ(last.header("Connection"), "close");
  EXPECT_TRUE(one.closed());
}

// Version 1 is the service itself, 2 and 10 are services of their own.
TEST_F(FrontTest, VersionsLieSideBySide) {
  for (const char* version : {"2", "10"}) {
    ModelSpec model = test::pair_model();
    model.version = version;
    backend.models.insert_or_assign(std::string("pair@") + version, model);
  }
  open();
  const json of_all = json::parse(get("/v2/models/pair").body);
  EXPECT_EQ(of_all["versions"], json::parse(R"(["1","2","10"])"));
  EXPECT_EQ(get("/v2/models/pair/versions/10/ready").status, 200);
  EXPECT_EQ(get("/v2/models/pair/versions/3").status, 404);
  EXPECT_EQ(get("/v2/models/pair/versions/3").body,
            R"({"error":"model 'pair' has no version '3'"})");
  const std::string body = R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],
    "data":[1,2,3,4]},{"name":"k","datatype":"INT32","shape":[1,2],"data":[1,2]}]})";
  const auto version_of = [&](const std::string& path) {
    const auto answer = ask(request("POST /v2/models/pair" + path + "/infer", body));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body)["model_version"].get<std::string>();
  };
  EXPECT_EQ(version_of(""), "1");
  EXPECT_EQ(version_of("/versions/1"), "1");
  EXPECT_EQ(version_of("/versions/2"), "2");
  backend.models.erase("pair");
  EXPECT_EQ(version_of(""), "10") << "without one of that name the highest";
  const json index = json::parse(ask(request("POST /v2/repository/index", "")).body);
  EXPECT_TRUE(std::ranges::any_of(
      index, [](const json& one) { return one["name"] == "pair" && one["version"] == "10"; }));
}

TEST_F(FrontTest, ModelsAreUnloadedAndLoaded) {
  open();
  const auto state = [&] {
    const json index = json::parse(ask(request("POST /v2/repository/index", "")).body);
    for (const json& one : index)
      if (one["name"] == "pair")
        return one["state"].get<std::string>() + " " + one["reason"].get<std::string>();
    return std::string("none");
  };
  EXPECT_EQ(state(), "READY ");
  EXPECT_EQ(ask(request("POST /v2/repository/models/pair/unload", "")).status, 200);
  EXPECT_EQ(state(), "UNAVAILABLE unloaded");
  EXPECT_EQ(get("/v2/models/pair/ready").status, 503);
  EXPECT_EQ(ask(request("POST /v2/repository/models/pair/load", "")).status, 200);
  EXPECT_EQ(state(), "READY ");
  const auto load = [&](const std::string& body) {
    return ask(request("POST /v2/repository/models/pair/load", body)).status;
  };
  EXPECT_EQ(ask(request("POST /v2/repository/models/pair/unload", "{}")).status, 200);
  EXPECT_EQ(load(R"({"parameters":{"config":"{}"}})"), 400);
  EXPECT_EQ(load(R"({"parameters":{"file:1/model.onnx":"YWJj"}})"), 400);
  EXPECT_EQ(load("{"), 400);
  EXPECT_EQ(load(std::string(65'537, ' ')), 413);
  EXPECT_EQ(state(), "UNAVAILABLE unloaded");
  EXPECT_EQ(load(R"({"parameters":{"other":1}})"), 200);
  EXPECT_EQ(state(), "READY ");
  EXPECT_EQ(ask(request("POST /v2/repository/models/none/load", "")).status, 400);
  const auto ready = [&](const char* wanted) {
    return json::parse(ask(request("POST /v2/repository/index", wanted)).body).size();
  };
  EXPECT_EQ(ready(R"({"ready":false})"), 3u);
  backend.unloaded.insert("pair");
  EXPECT_EQ(ready(R"({"ready":true})"), 2u);
  EXPECT_EQ(ready(""), 3u);
  EXPECT_EQ(ask(request("POST /v2/repository/index", "{")).status, 400);
  EXPECT_EQ(get("/v2/repository/models/pair/load").status, 405);
  EXPECT_EQ(ask(request("POST /v2/repository/models/pair/burn", "")).status, 404);
}

// What the values are is model_answers_test.cc's.
TEST_F(FrontTest, ModelsHaveConfigurations) {
  ModelSpec second = test::pair_model();
  second.version = "2";
  second.max_batch = 3;
  backend.models.insert_or_assign("pair@2", second);
  open();
  const auto config = [&](const std::string& path) {
    return json::parse(get("/v2/models/pair" + path + "/config").body);
  };
  EXPECT_EQ(config("")["max_batch_size"], 8);
  EXPECT_EQ(config("/versions/2")["max_batch_size"], 3);
  EXPECT_EQ(config("/versions/2")["name"], "pair");
  EXPECT_EQ(config("")["version_policy"]["specific"]["versions"], json({1, 2}));
  EXPECT_EQ(get("/v2/models/pair/versions/3/config").status, 404);
  EXPECT_EQ(get("/v2/models/nobody/config").status, 404);
  EXPECT_EQ(get("/v2/models/asleep/config").status, 503);
  EXPECT_EQ(ask(request("POST /v2/models/pair/config", "{}")).status, 405);
}

TEST_F(FrontTest, WhatIsNoRouteAndWhatIsNotOfferedIsSaid) {
  open();
  const auto post = [&](const std::string& path) {
    return ask(request("POST " + path, "{}")).status;
  };
  for (const char* path : {"/v2/models/pair/nothing", "/v2/models/pair/versions/1/nothing"}) {
    EXPECT_EQ(post(path), 404) << path;
    EXPECT_EQ(get(path).status, 404) << path;
  }
  for (const char* path : {"/v2/trace/setting", "/v2/models/pair/trace/setting", "/v2/logging"}) {
    EXPECT_EQ(post(path), 501) << path;
    EXPECT_NE(get(path).body.find("settings are not offered"), std::string::npos) << path;
  }
}

TEST_F(FrontTest, CanariesAreBegunAndLookedAt) {
  open();
  const std::string base = "/v2/repository/models/pair/";
  const auto post = [&](const std::string& path) {
    return ask(request("POST " + base + path, "")).status;
  };
  EXPECT_EQ(get(base + "canary").status, 404);
  EXPECT_EQ(post("canary/2/5"), 200);
  const json canary = json::parse(get(base + "canary").body);
  EXPECT_EQ(canary["version"], "2");
  EXPECT_EQ(canary["share"], 0.05);
  EXPECT_EQ(canary["shadow"], false);
  EXPECT_EQ(canary["state"], "on trial");
  EXPECT_EQ(post("shadow/b%2Fc/12.5"), 200);
  EXPECT_EQ(backend.canaries["pair"].version, "b/c");
  EXPECT_TRUE(backend.canaries["pair"].shadow);
  for (const char* wrong : {"canary/2/101", "canary/2/-1", "canary/2/x", "canary/2/nan"})
    EXPECT_EQ(post(wrong), 400) << wrong;
  EXPECT_EQ(ask(request("POST /v2/repository/models/none/canary/2/5", "")).status, 400);
  EXPECT_EQ(get(base + "canary/2/5").status, 405);
  EXPECT_EQ(post("canary"), 405);
  EXPECT_EQ(post("canary/2"), 404);
}

}  // namespace
}  // namespace partita::serve
