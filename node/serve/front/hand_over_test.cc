// Gateways of several nodes in one process, which hand requests over to each other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/base64.h"
#include "base/door/testing/test_client.h"
#include "base/testing/test_certificate.h"
#include "serve/engines/engine_pool.h"
#include "serve/front/front.h"
#include "serve/front/testing/fake_backend.h"
#include "serve/oip/testing/wire_text.h"
#include "serve/peers/peer_pool.h"

namespace partita::serve {
namespace {

using test::FakeBackend;
using test::RawClient;
using Answer = RawClient::Answer;

constexpr const char* kSecret = "the-secret-of-the-gateways";
constexpr std::int64_t kHandMilli = 1'000'000;

std::string pair_body(int first) {
  return R"({"id":"r)" + std::to_string(first) +
         R"(","inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[)" +
         std::to_string(first) +
         R"(,2,3,4]},{"name":"k","shape":[1,2],"datatype":"INT32","data":[7,8]}]})";
}

std::string sent(const std::string& path, const std::string& body, const std::string& more = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: x\r\n" + more +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
std::string infer(int first, const std::string& more = "", const std::string& model = "pair") {
  return sent("/v2/models/" + model + "/infer", pair_body(first), more);
}

// What pair_model() says to pair_body(first), computed here.
void expect_right(const Answer& answer, int first) {
  ASSERT_EQ(answer.status, 200) << answer.head << answer.body;
  const auto said = nlohmann::json::parse(answer.body);
  EXPECT_EQ(said["id"], "r" + std::to_string(first));
  EXPECT_EQ(said["outputs"][0]["data"], nlohmann::json({2.0 * first, 4, 6, 8}));
  EXPECT_EQ(said["outputs"][1]["data"], nlohmann::json({8, 9}));
}

// Of gRPC-web, behind its length.
std::string pair_message() {
  const float x[] = {1, 2, 3, 4};
  const std::int32_t k[] = {7, 8};
  const std::string message =
      test::Message()
          .text(1, "pair")
          .message(5, test::Message().text(1, "x").text(2, "FP32").packed(3, {1, 4}))
          .message(5, test::Message().text(1, "k").text(2, "INT32").packed(3, {1, 2}))
          .text(7, {reinterpret_cast<const char*>(x), sizeof x})
          .text(7, {reinterpret_cast<const char*>(k), sizeof k})
          .bytes;
  return std::string("\0\0\0\0", 4) + static_cast<char>(message.size()) + message;
}

struct Node {
  std::string name;
  FakeBackend backend = {};
  std::unique_ptr<PeerPool> pool = {};
  std::unique_ptr<Front> front = {};
  int port = 0;
};

// A server that is no gateway: takes connections, answers what it is told to.
class Stub {
 public:
  explicit Stub(Loop& loop) : loop_(loop) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at);
    ::listen(fd_, 16);
    socklen_t size = sizeof at;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size);
    port = ntohs(at.sin_port);
    watch_ = loop.watch(fd_, [this](Readiness) { take(); });
  }
  ~Stub() {
    watch_.reset();
    for (auto& [fd, watch] : open_) {
      watch.reset();
      ::close(fd);
    }
    ::close(fd_);
  }
  int port = 0, asked = 0;
  bool well = true;                             // answers questions whether it lives
  std::function<void(int fd)> on_request = {};  // its body has come or comes
  std::string last = {};
  void end(int fd) {
    loop_.post([this, fd] {
      open_.erase(fd);
      ::close(fd);
    });
  }

 private:
  void take() {
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK);
    if (fd < 0) return;
    open_[fd] = loop_.watch(fd, [this, fd](Readiness) {
      char bytes[65536];
      const auto count = ::recv(fd, bytes, sizeof bytes, 0);
      if (count <= 0) return open_[fd].want(false, false);
      const std::string_view text(bytes, static_cast<std::size_t>(count));
      if (text.starts_with("GET /v2/health")) {
        static constexpr std::string_view kYes = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        if (well) ::send(fd, kYes.data(), kYes.size(), MSG_NOSIGNAL);
        return;
      }
      last = text;
      ++asked;
      if (on_request) on_request(fd);
    });
  }
  Loop& loop_;
  int fd_ = -1;
  std::map<int, Loop::Watch> open_;
  Loop::Watch watch_ = {};
};

class HandOver : public testing::Test {
 protected:
  HandOver()
      : folder_(std::filesystem::temp_directory_path() /
                ("hand_over." + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~HandOver() override {
    nodes.clear();
    std::filesystem::remove_all(folder_);
  }

  Node& add(const std::string& name, bool carries, FrontOptions options = {},
            PeerOptions peers = {}, EnginePool* engines = nullptr) {
    auto node = std::make_unique<Node>(Node{.name = name});
    if (carries) node->backend.add(test::pair_model());
    FakeBackend& backend = node->backend;
    backend.compute = [&backend](RequestId id) { test::compute_pair(backend, id); };
    if (peers.token.empty()) peers.token = kSecret;
    node->pool = std::make_unique<PeerPool>(
        *loop, peers, [this](const std::string& line) { said.push_back(line); });
    options.listen = "127.0.0.1:0";
    options.peers = node->pool.get();
    auto opened = Front::open(*loop, backend, options, engines);
    EXPECT_TRUE(opened) << to_string(opened.error());
    node->front = std::move(*opened);
    node->port = node->front->port();
    nodes.push_back(std::move(node));
    return *nodes.back();
  }
  // `at` hears of these ports, by node, with shares of "pair".
  void tell(Node& at, const std::map<std::string, std::pair<int, double>>& peers,
            const std::string& service = "pair") {
    actuate::GatewayPeers all{.node = at.name, .wanted = {service}};
    for (const auto& [name, peer] : peers)
      all.peers.push_back(
          {name, "127.0.0.1:" + std::to_string(peer.first), "", {{service, peer.second}}});
    at.pool->serve(all);
    turn([&] { return at.pool->offers(service, PeerPool::Way::http, {}) == peers.size(); });
  }
  template <class F>
  bool turn(F&& until, std::int64_t ms = 5000) {
    const std::int64_t end = Loop::now_ns() + ms * kHandMilli;
    while (!until() && Loop::now_ns() < end) loop->run_until(Loop::now_ns() + kHandMilli);
    return until();
  }
  Answer ask(Node& at, const std::string& bytes) {
    RawClient one(*loop, at.port);
    one.send(bytes);
    return one.answer();
  }
  std::string metric(Node& at, const std::string& line) {
    const std::string all = at.pool->metrics();
    const std::size_t from = all.find(line + " ");
    return from == std::string::npos
               ? "none"
               : all.substr(from + line.size() + 1, all.find('\n', from) - from - line.size() - 1);
  }

  const std::filesystem::path folder_;
  std::unique_ptr<Loop> loop = Loop::make().value();
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::string> said;
};

TEST_F(HandOver, WhatIsNotHereIsAnsweredByWhoCarriesIt) {
  Node& a = add("a", false);
  Node& b = add("b", true);
  tell(a, {{"b", {b.port, 1}}});
  for (int i = 0; i < 20; ++i) expect_right(ask(a, infer(i)), i);
  EXPECT_EQ(b.backend.submissions, 20);
  EXPECT_EQ(metric(a, R"(partita_handed_over_total{service="pair",outcome="answered"})"), "20");
  EXPECT_EQ(metric(b, R"(partita_handed_in_total{service="pair"})"), "20");
  // What the fleet does not know is not here.
  EXPECT_EQ(ask(a, infer(1, "", "nothing")).status, 404);
  // What is said of a model is asked there; whether it is ready here is said of here.
  const std::string get = " HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_EQ(ask(a, "GET /v2/models/pair" + get).status, 200);
  EXPECT_EQ(ask(a, "GET /v2/models/pair/ready" + get).status, 404);
}

// gRPC-web goes as it came: messages as bytes on the way, in base64 to who speaks that.
TEST_F(HandOver, GrpcWebIsHandedOverAsOthersAre) {
  Node& a = add("a", false);
  Node& b = add("b", true);
  const std::string pair = std::string("\0\0\0\0\6\n\4", 7) + "pair";  // ModelMetadataRequest
  const auto call = [&](Node& at, const std::string& body, const std::string& type) {
    return ask(at, sent("/inference.GRPCInferenceService/ModelMetadata", body,
                        "Content-Type: application/grpc-web" + type + "\r\n"));
  };
  const Answer there = call(b, pair, "+proto");
  EXPECT_NE(there.body.find("grpc-status:0"), std::string::npos);
  EXPECT_NE(call(a, pair, "").body.find("grpc-status:5"), std::string::npos);
  tell(a, {{"b", {b.port, 1}}});
  const Answer over = call(a, pair, "+proto");
  EXPECT_EQ(over.body, there.body);
  EXPECT_EQ(over.header("Content-Type"), "application/grpc-web+proto");
  const Answer text = call(a, base64(pair), "-text");
  EXPECT_EQ(parse_base64(text.body).value_or(""), there.body);
  EXPECT_EQ(text.header("Content-Type"), "application/grpc-web-text+proto");
  EXPECT_EQ(metric(a, R"(partita_handed_over_total{service="pair",outcome="answered"})"), "2");
  // One that b is too full for, too, comes back, and its client hears why.
  b.backend.denial = {.kind = Denial::Kind::overloaded,
                      .message = "full",
                      .retry_after_ns = kHandMilli,
                      .elsewhere = true};
  const Answer full = ask(a, sent("/inference.GRPCInferenceService/ModelInfer", pair_message(),
                                  "Content-Type: application/grpc-web\r\n"));
  EXPECT_NE(full.body.find("grpc-status:14"), std::string::npos) << full.body;
  EXPECT_EQ(metric(a, R"(partita_handed_over_total{service="pair",outcome="handed_back"})"), "1");
  b.backend.denial.reset();
  loop->run_until(Loop::now_ns() + 5 * kHandMilli);
  const Answer answer = ask(a, sent("/inference.GRPCInferenceService/ModelInfer", pair_message(),
                                    "Content-Type: application/grpc-web\r\n"));
  EXPECT_NE(answer.body.find("grpc-status:0"), std::string::npos) << answer.body;
  EXPECT_EQ(b.backend.submissions, 1);
}

// Between a node's loss and the plan that makes up for it: clients are told to come again, whatever
// they speak, and are counted.
TEST_F(HandOver, WhatNobodyCarriesNowIsToBeAskedForAgain) {
  Node& a = add("a", false);
  a.pool->serve({.node = "a", .wanted = {"chat@2", "pair"}});
  const std::string asks[] = {
      infer(1), "GET /v2/models/pair HTTP/1.1\r\nHost: x\r\n\r\n",
      sent("/v1/chat/completions",
           R"({"model": "chat", "messages": [{"role": "user", "content": "x"}]})")};
  for (const std::string& one : asks) {
    const Answer answer = ask(a, one);
    EXPECT_EQ(answer.status, 503) << one << answer.body;
    EXPECT_NE(answer.head.find("Retry-After: 1\r\n"), std::string::npos) << answer.head;
    EXPECT_NE(answer.body.find("no node that answers carries model"), std::string::npos);
  }
  const std::string pair = std::string("\0\0\0\0\6\n\4", 7) + "pair";  // ModelMetadataRequest
  const Answer web = ask(a, "POST /inference.GRPCInferenceService/ModelMetadata HTTP/1.1\r\n"
                            "Host: x\r\nContent-Type: application/grpc-web\r\n"
                            "Content-Length: 11\r\n\r\n" +
                                pair);
  EXPECT_NE(web.body.find("grpc-status:14\r\n"), std::string::npos) << web.body;
  EXPECT_EQ(metric(a, R"(partita_handed_over_total{service="pair",outcome="nobody"})"), "3");
  EXPECT_EQ(metric(a, R"(partita_handed_over_total{service="chat",outcome="nobody"})"), "1");
  EXPECT_EQ(ask(a, infer(1, "", "nothing")).status, 404);
  // What is demand: inference, and no questions of what a model takes.
  using Demand = std::map<std::string, long>;
  EXPECT_EQ(a.pool->uncarried(), (Demand{{"chat@2", 1}, {"pair", 1}}));
  // Who carried it does not answer.
  Node& b = add("b", true);
  tell(a, {{"b", {b.port, 1}}});
  expect_right(ask(a, infer(1)), 1);
  b.front.reset();
  EXPECT_EQ(ask(a, infer(2)).status, 503);
}

TEST_F(HandOver, SharesAreThePlans) {
  Node& a = add("a", false);
  Node& b = add("b", true);
  Node& c = add("c", true);
  tell(a, {{"b", {b.port, 0.7}}, {"c", {c.port, 0.1}}});
  RawClient client(*loop, a.port);
  for (int i = 0; i < 80; ++i) {
    client.send(infer(i));
    expect_right(client.answer(), i);
  }
  EXPECT_EQ(b.backend.submissions, 70);
  EXPECT_EQ(c.backend.submissions, 10);
}

// Traces, ids, senders, wishes go along; the binary form too, in both directions.
TEST_F(HandOver, ARequestArrivesAsItWasSent) {
  Node& a = add("a", false);
  Node& b = add("b", true);
  tell(a, {{"b", {b.port, 1}}});
  std::optional<FakeBackend::Request> seen;
  b.backend.compute = [&](RequestId id) {
    seen = b.backend.requests.at(id);
    test::compute_pair(b.backend, id);
  };
  const std::string parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const std::string head =
      R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32",)"
      R"("parameters":{"binary_data_size":16}},)"
      R"({"name":"k","shape":[1,2],"datatype":"INT32","data":[7,8]}],)"
      R"("parameters":{"binary_data_output":true}})";
  const float x[4] = {1, 2, 3, 4};
  const std::string body = head + std::string(reinterpret_cast<const char*>(x), sizeof x);
  const Answer answer =
      ask(a, sent("/v2/models/pair/infer", body,
                  "traceparent: " + parent +
                      "\r\ntracestate: v=1\r\nPartita-Priority: 3\r\nPartita-Idempotent: false\r\n"
                      "Partita-Timeout-Ms: 4000\r\nInference-Header-Content-Length: " +
                      std::to_string(head.size()) + "\r\n"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto json_bytes = std::stoul(answer.header("Inference-Header-Content-Length"));
  ASSERT_EQ(answer.body.size(), json_bytes + 16 + 8);
  const auto* twice = reinterpret_cast<const float*>(answer.body.data() + json_bytes);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(twice[i], 2 * x[i]);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->trace, parent);
  EXPECT_EQ(seen->trace_state, "v=1");
  EXPECT_EQ(seen->client, "127.0.0.1");
  EXPECT_EQ(seen->head.priority, 3);
  EXPECT_FALSE(seen->head.idempotent);
  ASSERT_TRUE(seen->head.timeout_ns);
  EXPECT_LE(*seen->head.timeout_ns, 4'000 * kHandMilli);
  EXPECT_GT(*seen->head.timeout_ns, 1'000 * kHandMilli);
  EXPECT_EQ(seen->head.limits, nullptr);
}

// A node whose own part is full: before and behind the first look at the body.
TEST_F(HandOver, WhatIsFullHereGoesToWhoHasRoom) {
  Node& a = add("a", true);
  Node& b = add("b", true);
  tell(a, {{"b", {b.port, 0.5}}});
  a.backend.denial = {.kind = Denial::Kind::overloaded,
                      .message = "full",
                      .retry_after_ns = kHandMilli,
                      .elsewhere = true};
  expect_right(ask(a, infer(1)), 1);
  // More than the door looks at before it lets a request in: many rows, with spaces between.
  std::string long_body = pair_body(2);
  long_body.insert(long_body.find("2,3,4"), std::string(40'000, ' '));
  expect_right(ask(a, sent("/v2/models/pair/infer", long_body)), 2);
  EXPECT_EQ(b.backend.submissions, 2);
  // Its key has had its part: of no concern to others.
  a.backend.denial->elsewhere = false;
  EXPECT_EQ(ask(a, infer(3)).status, 503);
  EXPECT_EQ(b.backend.submissions, 2);
}

// Both think that the other has it; and a ring of three.
TEST_F(HandOver, ItIsHandedOverOnceAtMost) {
  Node& a = add("a", false);
  Node& b = add("b", false);
  Node& c = add("c", false);
  tell(a, {{"b", {b.port, 0.5}}, {"c", {c.port, 0.5}}});
  tell(b, {{"a", {a.port, 0.5}}, {"c", {c.port, 0.5}}});
  tell(c, {{"a", {a.port, 0.5}}, {"b", {b.port, 0.5}}});
  EXPECT_EQ(ask(a, infer(1)).status, 503);
  EXPECT_EQ(metric(a, R"(partita_handed_over_total{service="pair",outcome="handed_back"})"), "2");
  EXPECT_EQ(metric(a, R"(partita_handed_over_total{service="pair",outcome="nobody"})"), "1");
  EXPECT_TRUE(a.pool->uncarried().empty()) << "those who hand it back count it";
  for (Node* other : {&b, &c})
    EXPECT_EQ(other->pool->metrics().find("outcome=\"handed_back\""), std::string::npos);
}

TEST_F(HandOver, WhoIsFullIsLeftOutForAWhile) {
  Node& a = add("a", false);
  Node& b = add("b", true);
  Node& c = add("c", true);
  tell(a, {{"b", {b.port, 0.9}}, {"c", {c.port, 0.1}}});
  b.backend.denial = {.kind = Denial::Kind::would_be_late,
                      .message = "late",
                      .retry_after_ns = 500 * kHandMilli,
                      .elsewhere = true};
  for (int i = 0; i < 10; ++i) expect_right(ask(a, infer(i)), i);
  EXPECT_EQ(b.backend.admissions, 1);
  EXPECT_EQ(c.backend.submissions, 10);
  b.backend.denial.reset();
  turn([] { return false; }, 600);
  for (int i = 0; i < 10; ++i) expect_right(ask(a, infer(i)), i);
  EXPECT_GE(b.backend.submissions, 8);
}

// A token that is not the gateways' hands nothing over, whatever its header says; and the
// gateways' token is for nothing else.
TEST_F(HandOver, OnlyGatewaysHandOver) {
  FrontOptions closed;
  closed.tokens =
      Tokens({Token{.secret = "secret-of-a-client", .services = {"pair"}, .name = "token 1"}});
  Node& a = add("a", false, closed);
  Node& b = add("b", true, closed);
  Node& stranger = add("s", false, {}, {.token = "another-secret-altogether"});
  tell(a, {{"b", {b.port, 1}}});
  tell(stranger, {{"b", {b.port, 1}}});
  const std::string client = "Authorization: Bearer secret-of-a-client\r\n";
  const std::string gateway = "Authorization: Bearer " + std::string(kSecret) + "\r\n";
  expect_right(ask(a, infer(1, client)), 1);
  EXPECT_EQ(ask(a, infer(1)).status, 401);
  EXPECT_EQ(ask(a, infer(1, client, "other")).status, 403);
  EXPECT_EQ(ask(stranger, infer(1)).status, 401);
  EXPECT_EQ(ask(b, infer(1, client + "Partita-Handed-Over: a\r\n")).status, 401);
  EXPECT_EQ(ask(b, infer(1, gateway)).status, 401);
  const std::string over = gateway + "Partita-Handed-Over: a\r\n";
  EXPECT_EQ(ask(b, infer(1, over)).status, 200);
  EXPECT_EQ(ask(b, "GET /metrics HTTP/1.1\r\nHost: x\r\n" + over + "\r\n").status, 403);
  EXPECT_EQ(ask(b, "POST /v2/repository/models/pair/unload HTTP/1.1\r\nHost: x\r\n" + over +
                       "Content-Length: 0\r\n\r\n")
                .status,
            403);
}

// Its limits are asked at the door where it came in, and hold for as long as it is under way.
TEST_F(HandOver, AKeysLimitsHoldWhereItCameIn) {
  FrontOptions closed;
  closed.tokens = Tokens({Token{.secret = "secret-of-a-client",
                                .services = {"pair"},
                                .limits = {.at_once = 2},
                                .name = "token 1"}});
  Node& a = add("a", false, closed);
  Node& b = add("b", true, closed);
  tell(a, {{"b", {b.port, 1}}});
  a.backend.most_at_once = 2;
  b.backend.at_once = false;
  const std::string client = "Authorization: Bearer secret-of-a-client\r\n";
  {
    RawClient one(*loop, a.port), other(*loop, a.port);
    one.send(infer(1, client));
    other.send(infer(2, client));
    ASSERT_TRUE(turn([&] { return b.backend.submissions == 2; }));
    EXPECT_EQ(ask(a, infer(3, client)).status, 429);
    EXPECT_EQ(b.backend.admissions, 2);
    for (const auto& [id, request] : b.backend.requests) {
      EXPECT_EQ(request.client, "token 1");
      EXPECT_EQ(request.head.limits, nullptr);
    }
  }
  EXPECT_TRUE(turn([&] { return a.backend.under_way == 0; }));
  b.backend.at_once = true;
  expect_right(ask(a, infer(4, client)), 4);
  EXPECT_EQ(b.backend.under_way, 0);
}

// ---- peers that are not well

TEST_F(HandOver, WhoIsGoneIsFoundOutAndComesBack) {
  Node& a = add("a", false);
  Node& b = add("b", true);
  Stub gone(*loop);
  gone.well = false;
  gone.on_request = [&](int fd) { gone.end(fd); };  // closes without a word
  tell(a, {{"b", {b.port, 0.5}}, {"g", {gone.port, 0.5}}});
  for (int i = 0; i < 20; ++i) expect_right(ask(a, infer(i)), i);
  EXPECT_LE(gone.asked, 3);  // then it gets nothing
  EXPECT_EQ(b.backend.submissions, 20);
  EXPECT_EQ(metric(a, R"(partita_peer_up{node="g"})"), "0");
  gone.well = true;  // found out without spending a request on it
  const int before = gone.asked;
  EXPECT_TRUE(turn([&] { return metric(a, R"(partita_peer_up{node="g"})") == "1"; }));
  EXPECT_EQ(gone.asked, before);
}

TEST_F(HandOver, WhatMayNotRunTwiceIsSentOnce) {
  Node& a = add("a", false);
  Node& b = add("b", true);
  Stub broken(*loop);
  broken.on_request = [&](int fd) { broken.end(fd); };
  tell(a, {{"b", {b.port, 0.01}}, {"g", {broken.port, 0.99}}});
  const Answer lost = ask(a, infer(1, "Partita-Idempotent: false\r\n"));
  EXPECT_EQ(lost.status, 500) << lost.body;
  EXPECT_NE(lost.body.find("node g was lost"), std::string::npos) << lost.body;
  EXPECT_EQ(broken.asked, 1);
  EXPECT_EQ(b.backend.submissions, 0);
  expect_right(ask(a, infer(2)), 2);  // this one may
}

TEST_F(HandOver, AnAnswerThatBreaksOffIsNotPassedOn) {
  Node& a = add("a", false);
  Node& b = add("b", true);
  Stub broken(*loop);
  broken.on_request = [&](int fd) {
    static constexpr std::string_view kHalf =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
        "90\r\n\r\n{\"outputs\":";
    ::send(fd, kHalf.data(), kHalf.size(), MSG_NOSIGNAL);
    broken.end(fd);
  };
  tell(a, {{"b", {b.port, 0.01}}, {"g", {broken.port, 0.99}}});
  expect_right(ask(a, infer(5)), 5);
  EXPECT_EQ(broken.asked, 1);
}

// One that lives and answers nothing holds kMostAtPeer requests, and no others.
TEST_F(HandOver, ASlowNodeHurtsNobodyElse) {
  Node& a = add("a", false);
  Node& b = add("b", true);
  Stub slow(*loop);
  tell(a, {{"b", {b.port, 0.5}}, {"g", {slow.port, 0.5}}});
  std::vector<std::unique_ptr<RawClient>> waiting;
  int right = 0;
  for (int i = 0; i < 40; ++i) {
    waiting.push_back(std::make_unique<RawClient>(*loop, a.port));
    waiting.back()->send(infer(i));
  }
  EXPECT_TRUE(turn([&] { return slow.asked + b.backend.submissions == 40; }));
  for (auto& one : waiting) {
    one->fetch();
    right += one->input().starts_with("HTTP/1.1 200") ? 1 : 0;
  }
  EXPECT_EQ(right, b.backend.submissions);
  EXPECT_GE(right, 19);
  // It falls silent altogether: what it has goes to the other.
  slow.well = false;
  EXPECT_TRUE(turn([&] { return b.backend.submissions == 40; }, 8000));
}

// A gateway that got no time itself has heard nobody meanwhile, and takes nobody for dead.
TEST_F(HandOver, WhoStoodStillItselfBlamesNobody) {
  Node& a = add("a", false);
  Stub other(*loop);
  tell(a, {{"g", {other.port, 1}}});
  RawClient one(*loop, a.port);
  one.send(infer(1));
  EXPECT_TRUE(turn([&] { return other.asked == 1; }));
  loop->post([] { std::this_thread::sleep_for(std::chrono::nanoseconds(kPeerSilent * 5 / 4)); });
  turn([] { return false; }, 300);
  EXPECT_EQ(said, std::vector<std::string>());
  EXPECT_EQ(a.pool->offers("pair", PeerPool::Way::http, {}), 1U);
}

// Who has many requests at a node leaves places to others, and is told that it has its part.
TEST_F(HandOver, PlacesAtANodeAreShared) {
  FrontOptions options;
  options.tokens = parse_tokens("t", "0123456789abcdef pair\nfedcba9876543210 pair\n").value();
  Node& a = add("a", false, std::move(options));
  Node& b = add("b", true);
  const std::string port = "127.0.0.1:" + std::to_string(b.port);
  a.pool->serve({.node = "a",
                 .peers = {{"b", port, "", {{"other", 1}, {"pair", 1}}}},
                 .wanted = {"other", "pair"}});
  constexpr auto kHttp = PeerPool::Way::http;
  EXPECT_TRUE(turn([&] { return a.pool->offers("pair", kHttp, {}) == 1; }));
  std::vector<std::unique_ptr<PeerUse>> taken;
  const auto take_all = [&](const std::string& service, const std::string& sender,
                            std::size_t bytes) {
    const std::size_t before = taken.size();
    while (auto use = a.pool->take(service, kHttp, {}, bytes, sender))
      taken.push_back(std::move(use));
    return taken.size() - before;
  };
  const std::string one = "token 1", key = "Authorization: Bearer 0123456789abcdef\r\n";
  EXPECT_EQ(take_all("pair", one, 10), kMostAtPeer / 2);
  EXPECT_EQ(a.pool->offers("pair", kHttp, {}, one), 0U);
  EXPECT_EQ(a.pool->offers("other", kHttp, {}, one), 1U);
  const Answer full = ask(a, infer(1, key));
  EXPECT_EQ(full.status, 503);
  EXPECT_NE(full.body.find("as much of this client's as they may"), std::string::npos) << full.body;
  EXPECT_TRUE(a.pool->uncarried().empty());
  EXPECT_EQ(metric(a, R"(partita_handed_over_total{service="pair",outcome="full"})"), "1");
  expect_right(ask(a, infer(2, "Authorization: Bearer fedcba9876543210\r\n")), 2);
  // Each takes as many as it leaves.
  EXPECT_EQ(take_all("other", one, 10), kMostAtPeer / 4);
  EXPECT_EQ(take_all("pair", "token 2", 10), kMostAtPeer / 8);
  taken.clear();
  EXPECT_EQ(take_all("pair", one, kMostBytesAtPeer / 8), 4U);
  EXPECT_EQ(take_all("pair", "token 2", kMostBytesAtPeer / 8), 2U);
  taken.clear();
  expect_right(ask(a, infer(3, key)), 3);
}

TEST_F(HandOver, AClientThatLeavesEndsIt) {
  Node& a = add("a", false);
  Node& b = add("b", true);
  b.backend.at_once = false;
  tell(a, {{"b", {b.port, 1}}});
  {
    RawClient client(*loop, a.port);
    client.send(infer(1));
    ASSERT_TRUE(turn([&] { return b.backend.submissions == 1; }));
    EXPECT_EQ(b.backend.releases, 0);
  }
  EXPECT_TRUE(turn([&] { return b.backend.releases == 1; }));
}

TEST_F(HandOver, ACertificateOfSomebodyElseIsNotTrusted) {
  const auto good = partita::test::make_certificate(folder_, "partita");
  std::filesystem::create_directories(folder_ / "other");
  const auto forged = partita::test::make_certificate(folder_ / "other", "partita");
  const auto named = partita::test::make_certificate(folder_, "somebody");
  const PeerOptions trusting{.token = kSecret, .tls = true, .ca_file = good.certificate};
  const auto secure = [](const partita::test::Certificate& of) {
    FrontOptions options;
    options.tls_certificate = of.certificate, options.tls_key = of.key;
    return options;
  };
  Node& a = add("a", false, {}, trusting);
  Node& right = add("b", true, secure(good));
  Node& wrong = add("c", true, secure(forged));
  Node& other = add("d", true, secure(named));
  Node& d = add("e", false, {}, {.token = kSecret, .tls = true, .ca_file = named.certificate});
  tell(a, {{"b", {right.port, 0.2}}, {"c", {wrong.port, 0.8}}});
  for (int i = 0; i < 10; ++i) expect_right(ask(a, infer(i)), i);
  EXPECT_EQ(right.backend.submissions, 10);
  EXPECT_EQ(wrong.backend.admissions, 0);
  tell(d, {{"d", {other.port, 1}}});  // signed by whom it trusts, and of another name
  EXPECT_EQ(ask(d, infer(1)).status, 503);
  EXPECT_EQ(other.backend.admissions, 0);
}

// ---- streams

ModelSpec chat_of_tests() {
  return {.kind = ModelKind::openai, .name = "chat", .platform = "forward", .max_batch = 1};
}
std::string chat_request() {
  return sent("/v1/chat/completions", R"({"model":"chat","stream":true,"messages":[]})");
}

TEST_F(HandOver, StreamsKeepFlowingAndEndWithTheirClient) {
  Node& a = add("a", false);
  Node& b = add("b", false);
  b.backend.add(chat_of_tests());
  b.backend.at_once = false;
  tell(a, {{"b", {b.port, 1}}}, "chat");
  RawClient client(*loop, a.port);
  client.send(chat_request());
  ASSERT_TRUE(turn([&] { return b.backend.submissions == 1; }));
  const auto piece = [&](const std::string& text, bool first) {
    b.backend.requests.at(b.backend.last)
        .completion.piece({.http_status = first ? 200 : 0,
                           .content_type = first ? "text/event-stream" : "",
                           .bytes = text});
  };
  for (int i = 0; i < 3; ++i) {  // each is with the client before the next is made
    const std::string event = "data: {\"n\":" + std::to_string(i) + "}\n\n";
    piece(event, i == 0);
    EXPECT_TRUE(client.wait([&] { return client.input().find(event) != std::string::npos; })) << i;
  }
  EXPECT_NE(client.input().find("text/event-stream"), std::string::npos);
  EXPECT_EQ(b.backend.releases, 0);
  client.leave();
  EXPECT_TRUE(turn([&] { return b.backend.releases == 1; }));
}

TEST_F(HandOver, AStreamWhoseNodeDiesSaysSo) {
  Node& a = add("a", false);
  Stub dies(*loop);
  dies.on_request = [&](int fd) {
    static constexpr std::string_view kBegun =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        "c\r\ndata: {\"a\"}\n\r\n";
    ::send(fd, kBegun.data(), kBegun.size(), MSG_NOSIGNAL);
    dies.end(fd);
  };
  tell(a, {{"g", {dies.port, 1}}}, "chat");
  const Answer answer = ask(a, chat_request());
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find("data: {\"a\"}"), std::string::npos);
  EXPECT_NE(answer.body.find("\"code\":\"node_lost\""), std::string::npos) << answer.body;
  EXPECT_EQ(dies.asked, 1);
}

// ---- tokens of language models, which the door counts

class HandOverTokens : public HandOver {
 protected:
  HandOverTokens() {
    FrontOptions closed;
    closed.tokens = Tokens({Token{.secret = "secret-of-a-client",
                                  .services = {"chat"},
                                  .limits = {.tokens = 2'000},
                                  .name = "token 1"}});
    door = &add("a", false, closed, {}, &none);
    carrier.on_request = [this](int fd) {
      ::send(fd, reply.data(), reply.size(), MSG_NOSIGNAL);
      carrier.end(fd);
    };
    tell(*door, {{"g", {carrier.port, 1}}}, "chat");
  }
  ~HandOverTokens() override { door->front.reset(); }  // what is under way gives back to `none`
  Answer ask_chat(const std::string& more) {
    return ask(*door,
               sent("/v1/completions", R"({"model":"chat","prompt":"a","stream":true)" + more + "}",
                    "Authorization: Bearer secret-of-a-client\r\n"));
  }
  static std::string stream(const std::vector<std::string>& events) {
    std::string text =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
        "Transfer-Encoding: chunked\r\n\r\n";
    for (const std::string& event : events) {
      const std::string whole = "data: " + event + "\n\n";
      text += fmt::format("{:x}\r\n{}\r\n", whole.size(), whole);
    }
    return text + "0\r\n\r\n";
  }

  EnginePool none{*loop, {}, nullptr};
  Stub carrier{*loop};
  std::string reply;
  Node* door = nullptr;
};

TEST_F(HandOverTokens, AreThoseThatWhoCarriesItTells) {
  const std::string token = R"({"choices":[{"index":0,"text":"w"}]})";
  const std::string usage =
      R"({"choices":[],"usage":{"prompt_tokens":900,"completion_tokens":300}})";
  reply = stream({token, usage, "[DONE]"});
  for (const char* options : {"", R"(,"stream_options":{"include_usage":false})"}) {
    const Answer answer = ask_chat(options);
    EXPECT_EQ(answer.status, 200);
    EXPECT_NE(carrier.last.find(R"("include_usage":true)"), std::string::npos) << carrier.last;
    EXPECT_NE(answer.body.find(token), std::string::npos);
    EXPECT_NE(answer.body.find("[DONE]"), std::string::npos);
    EXPECT_EQ(answer.body.find("usage"), std::string::npos) << "nobody asked for it";
  }
  EXPECT_EQ(ask_chat("").status, 429);
  EXPECT_EQ(carrier.asked, 2);
  EXPECT_DOUBLE_EQ(none.usual_out("chat"), (100 + 300 + 300) / 3.0);
}

TEST_F(HandOverTokens, AreThoseOfUsualAnswersWhereNobodySays) {
  carrier.on_request = [](int) {};  // under way
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 19; ++i) {  // of 100 tokens and a prompt, of 2,000
    clients.push_back(std::make_unique<RawClient>(*loop, door->port));
    clients.back()->send(sent("/v1/completions", R"({"model":"chat","prompt":"a","stream":true})",
                              "Authorization: Bearer secret-of-a-client\r\n"));
  }
  ASSERT_TRUE(turn([&] { return carrier.asked == 19; }));
  EXPECT_EQ(ask_chat("").status, 429);
}

TEST_F(HandOverTokens, AreGivenBackWhereNothingCame) {
  reply = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(ask_chat(R"(,"max_tokens":1900)").status, 503) << "of 2,000 a minute, none were used";
}

}  // namespace
}  // namespace partita::serve
