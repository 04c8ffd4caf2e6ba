// Clients of the HTTP door that mean no good, and what is left to the others.
#include <algorithm>

#include "serve/front/gateway_exchange.h"
#include "serve/front/testing/door_fixture.h"

namespace partita::serve::test {
namespace {

constexpr std::string_view kBody =
    R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]},)"
    R"({"name":"k","shape":[1,2],"datatype":"INT32","data":[5,6]}]})";

class HostileTest : public DoorFixture {
 protected:
  void SetUp() override {
    backend.add(pair_model());
    backend.compute = [this](RequestId id) { compute_pair(backend, id); };
  }
  // The JSON of a request of so many rows in binary form.
  static std::string binary_json(int rows) {
    const std::string n = std::to_string(rows);
    return R"({"inputs":[{"name":"x","shape":[)" + n + R"(,4],"datatype":"FP32","parameters":{)" +
           R"("binary_data_size":)" + std::to_string(rows * 16) + R"(}},{"name":"k","shape":[)" +
           n + R"(,2],"datatype":"INT32","parameters":{"binary_data_size":)" +
           std::to_string(rows * 8) + "}}]}";
  }
  static std::string binary_head(int rows, const std::string& length) {
    return "POST /v2/models/pair/infer HTTP/1.1\r\nHost: h\r\nInference-Header-Content-Length: " +
           std::to_string(binary_json(rows).size()) + "\r\n" + length + "\r\n";
  }
  static std::string begin_binary(int rows) {
    const std::string json = binary_json(rows);
    return binary_head(rows, "Content-Length: " +
                                 std::to_string(json.size() + static_cast<std::size_t>(rows) * 24) +
                                 "\r\n") +
           json;
  }
  static std::string good() { return request("POST /v2/models/pair/infer", std::string(kBody)); }
  static std::string chunked(std::string_view body, std::size_t piece) {
    std::string out;
    for (; !body.empty(); body.remove_prefix(std::min(piece, body.size()))) {
      char size[32];
      std::snprintf(size, sizeof size, "%zX;why=not\r\n", std::min(piece, body.size()));
      out += size;
      out += body.substr(0, piece);
      out += "\r\n";
    }
    return out + "0\r\nTrailer: dropped\r\n\r\n";
  }
  static std::string chunked_head(const std::string& more = "") {
    return "POST /v2/models/pair/infer HTTP/1.1\r\nHost: h\r\n" + more +
           "Transfer-Encoding: chunked\r\n\r\n";
  }
};

TEST_F(HostileTest, WhoSendsLittleHoldsLittle) {
  open();
  backend.free_rows = 65'536;
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 16; ++i) {
    slow.push_back(std::make_unique<RawClient>(*loop, front->port()));
    slow.back()->send(begin_binary(4096) + std::string(1000, 'x'));
  }
  ASSERT_TRUE(slow.back()->wait([&] { return backend.requests.size() == 16; }));
  EXPECT_GE(backend.free_rows, 65'536 - 16 * 128);
  EXPECT_EQ(ask(good()).status, 200);
}

TEST_F(HostileTest, WhoIsSlowMakesRoomForWhoIsNot) {
  open();
  backend.free_rows = 100;
  RawClient slow = client();
  slow.send(begin_binary(100) + std::string(64 * 16, 'x'));
  ASSERT_TRUE(slow.wait([&] { return backend.free_rows == 0; }));
  EXPECT_EQ(ask(good()).status, 503);  // it has only just begun
  const std::int64_t later = Loop::now_ns() + kFillGrace + 10 * kMilli;
  loop->run_until(later);
  EXPECT_EQ(ask(good()).status, 200);
  EXPECT_EQ(slow.answer().status, 503);
  EXPECT_EQ(backend.free_rows, 100);
}

TEST_F(HostileTest, WhoAnnouncesMuchJsonHoldsWhatComes) {
  open();
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 6; ++i) {
    slow.push_back(std::make_unique<RawClient>(*loop, front->port()));
    slow.back()->send("POST /v2/models/pair/infer HTTP/1.1\r\nContent-Length: 60000000\r\n\r\n{");
  }
  EXPECT_EQ(ask(good()).status, 200);
}

// Most of a text, whose end does not come: "id" may be long.
std::string endless_text(std::size_t bytes) {
  return "POST /v2/models/pair/infer HTTP/1.1\r\nContent-Length: " + std::to_string(bytes) +
         "\r\n\r\n{\"id\":\"" + std::string(bytes - 100, 'x');
}

TEST_F(HostileTest, TextThatComesSlowlyMakesRoom) {
  FrontOptions options;
  options.limits.json_bytes_in_flight = 4 << 20;
  open(options);
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 3; ++i) {
    slow.push_back(std::make_unique<RawClient>(*loop, front->port()));
    slow.back()->send(endless_text(1 << 20));
  }
  EXPECT_EQ(ask(good()).status, 200) << "a part is the others'";
  RawClient next = client();
  next.send(endless_text(1 << 20));
  EXPECT_EQ(next.answer().status, 503) << "and nobody has been slow yet";
  loop->run_until(Loop::now_ns() + kFillGrace + 10 * kMilli);
  RawClient last = client();
  last.send(endless_text(1 << 20));
  const auto dropped = [&] {
    return std::ranges::count_if(slow, [](const auto& one) {
      one->fetch();
      return one->input().find("503") != std::string::npos;
    });
  };
  EXPECT_TRUE(last.wait([&] { return dropped() > 0; }));
  EXPECT_EQ(dropped(), 1);
  EXPECT_EQ(ask(good()).status, 200);
}

TEST_F(HostileTest, OneKeyHasAShareOfTheText) {
  FrontOptions options;
  options.limits.json_bytes_in_flight = 4 << 20;
  options.tokens = parse_tokens("t", "greedy-greedy-greedy *\nmodest-modest-modest *\n").value();
  open(options);
  const auto as = [](std::string request, const std::string& who) {
    return request.insert(request.find("\r\n") + 2, "Authorization: Bearer " + who + "\r\n");
  };
  RawClient modest = client();
  modest.send(as(endless_text(300'000), "modest-modest-modest"));
  std::vector<std::unique_ptr<RawClient>> greedy;
  for (const std::size_t bytes : {700, 700, 700, 700, 700, 380}) {
    greedy.push_back(std::make_unique<RawClient>(*loop, front->port()));
    greedy.back()->send(as(endless_text(1000 * bytes), "greedy-greedy-greedy"));
  }
  // It could be all but 14 KB.
  const std::string longer = std::string(kBody) + std::string(100'000, ' ');
  const std::string asks =
      as(request("POST /v2/models/pair/infer", longer), "modest-modest-modest");
  EXPECT_EQ(ask(asks).status, 200);
  loop->run_until(Loop::now_ns() + kFillGrace + 10 * kMilli);
  RawClient more = client();
  more.send(as(endless_text(3 << 20), "greedy-greedy-greedy"));
  EXPECT_EQ(more.answer().status, 503);
  EXPECT_EQ(ask(asks).status, 200);
  modest.fetch();
  EXPECT_EQ(modest.input(), "") << "who has less is not made to go";
}

TEST_F(HostileTest, WhoStopsSendingIsNotWaitedFor) {
  FrontOptions options;
  options.limits.body_grace_ns = 300 * kMilli;
  open(options);
  RawClient slow = client();
  slow.send(begin_binary(4096) + std::string(1000, 'x'));
  EXPECT_EQ(slow.answer().status, 408);  // by the length that it announced: after 1.5 s more
  const auto begun = Loop::now_ns();
  RawClient huge = client();
  huge.send("POST /v2/models/pair/infer HTTP/1.1\r\nContent-Length: 60000000\r\n\r\n{");
  EXPECT_EQ(huge.answer().status, 408);
  EXPECT_LT(Loop::now_ns() - begun, kPatience);
}

TEST_F(HostileTest, ChunkedBodiesAreTaken) {
  open();
  const std::string expected = ask(good()).body;
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, kBody.size()}) {
    RawClient one = client();
    const std::string text = chunked_head() + chunked(kBody, piece);
    for (std::size_t at = 0; at < text.size(); at += 50) one.send(text.substr(at, 50));
    EXPECT_EQ(one.answer().body, expected) << piece;
    one.send(chunked_head() + chunked(kBody, piece) + good());  // and the connection goes on
    EXPECT_EQ(one.answer().body, expected);
    EXPECT_EQ(one.answer().body, expected);
  }
  RawClient waits = client();
  waits.send(chunked_head("Expect: 100-continue\r\n"));
  EXPECT_EQ(waits.answer().status, 100);
  waits.send(chunked(kBody, 11));
  EXPECT_EQ(waits.answer().body, expected);
  // Binary tensors behind their JSON.
  std::string body = binary_json(3);
  for (int i = 0; i < 12; ++i) body.append(reinterpret_cast<const char*>(&i), 4);
  for (int i = 0; i < 6; ++i) body.append(reinterpret_cast<const char*>(&i), 4);
  for (const std::size_t piece : {std::size_t{5}, std::size_t{100}, body.size()}) {
    RawClient one = client();
    one.send(binary_head(3, "Transfer-Encoding: chunked\r\n") + chunked(body, piece) + good());
    const auto answer = one.answer();
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_NE(answer.body.find("[1,2,3,4,5,6]"), std::string::npos) << answer.body;
    EXPECT_EQ(one.answer().body, expected);
  }
}

TEST_F(HostileTest, BrokenChunksAreRefused) {
  FrontOptions options;
  options.limits.json_bytes = 300;
  open(options);
  EXPECT_EQ(ask(chunked_head() + "x\r\n").status, 400);
  EXPECT_EQ(ask(chunked_head() + "3\r\nabcd\r\n").status, 400);
  EXPECT_EQ(ask(chunked_head() + "1;" + std::string(5000, 'e')).status, 400);
  EXPECT_EQ(ask(chunked_head() + "FFFFFFFFFFFFFFFF\r\n").status, 400);
  EXPECT_EQ(ask(chunked_head() + chunked(std::string(400, ' '), 50)).status, 413);
  EXPECT_EQ(ask(binary_head(3, "Transfer-Encoding: chunked\r\n") + "3\r\n{}\n\r\n0\r\n\r\n").status,
            400);
  EXPECT_EQ(ask("POST /v2/models/pair/infer HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
                "Content-Length: 3\r\n\r\n")
                .status,
            400);
  EXPECT_EQ(
      ask("POST /v2/models/pair/infer HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n").status,
      501);
  EXPECT_EQ(backend.requests.size(), 0U);
  EXPECT_EQ(ask(chunked_head() + chunked(kBody, 9)).status, 200);
}

TEST_F(HostileTest, IdleConnectionsMakeRoomAndAnAddressHasAShare) {
  FrontOptions options;
  options.limits.connections = 32;
  open(options);
  backend.at_once = false;
  const auto from = [&](std::uint32_t host) {
    return std::make_unique<RawClient>(*loop, front->port(), 0, host);
  };
  std::vector<std::unique_ptr<RawClient>> idle, busy;
  auto known = from(2);
  known->send(request("GET /v2/health/live", ""));
  EXPECT_EQ(known->answer().status, 200);
  for (int i = 0; i < 200; ++i) {
    idle.push_back(from(2));
    if (i % 2 == 0) idle.back()->send_now("GET /never");  // nor does half a head keep its place
    idle.back()->turn();
  }
  EXPECT_LE(front->connections(), 32U);
  auto other = from(1);
  other->send(request("GET /v2/health/live", ""));
  EXPECT_EQ(other->answer().status, 200);
  known->send(request("GET /v2/health/live", ""));
  EXPECT_EQ(known->answer().status, 200);  // it has asked before; the silent ones went first
  // With requests under way nobody makes room: an address has its share, others get the rest.
  int refused = 0;
  idle.clear();
  ASSERT_TRUE(known->wait([&] { return front->connections() == 2; }));
  for (int i = 0; i < 40; ++i) {
    busy.push_back(from(3));
    busy.back()->send(good());
    busy.back()->turn();
  }
  ASSERT_TRUE(busy.back()->wait([&] { return backend.submissions >= 30; }));
  for (auto& one : busy) {
    one->fetch();
    refused += one->input().starts_with("HTTP/1.1 503") ? 1 : 0;
  }
  EXPECT_EQ(refused, 10);
  other->send(request("GET /v2/health/live", ""));
  EXPECT_EQ(other->answer().status, 200);
}

TEST_F(HostileTest, TheBackendLearnsWhoAsksAndWhetherItIsWell) {
  open();
  backend.at_once = true;
  const std::int64_t begin = Loop::now_ns();
  RawClient one = client();
  one.send(good());
  EXPECT_EQ(one.answer().status, 200);
  std::vector<bool> trusted;
  backend.compute = [&](RequestId id) {
    const RequestHead& head = backend.requests.at(id).head;
    trusted.push_back(head.trusted);
    EXPECT_TRUE(!head.trusted || head.trusted_since >= begin);
    EXPECT_LE(head.trusted_since, Loop::now_ns());
    EXPECT_EQ(backend.requests.at(id).client, "127.0.0.1");
    compute_pair(backend, id);
  };
  one.send(good());
  EXPECT_EQ(one.answer().status, 200);
  EXPECT_EQ(ask(good()).status, 200);
  backend.at_once = false;
  one.send(good());
  ASSERT_TRUE(one.wait([&] { return backend.requests.size() == 1; }));
  backend.finish(backend.last, Denial{Denial::Kind::harmful, "", 0});
  EXPECT_EQ(one.answer().status, 422);
  backend.at_once = true;
  one.send(good());
  EXPECT_EQ(one.answer().status, 200);
  EXPECT_EQ(trusted, (std::vector<bool>{true, false, false}));
}

}  // namespace
}  // namespace partita::serve::test
