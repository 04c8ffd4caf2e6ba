#include "api/server.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "api/operations.h"
#include "api/testing/prometheus_check.h"
#include "api/testing/server_fixture.h"
#include "base/source_text.h"

namespace partita::api {
namespace {

using nlohmann::json;
using test::RawCaller;

class ServerTest : public test::ServerFixture {};

std::string with_part(std::string path) {
  const std::size_t open = path.find('{');
  if (open == std::string::npos) return path;
  const std::size_t close = path.find('}');
  return path.replace(open, close + 1 - open,
                      path.find("uuid") == std::string::npos ? "3" : "GPU-1");
}

std::string body_of(const std::string& verb, const std::string& path) {
  if (verb == "GET") return "";
  if (path == "/v1/mode") return R"({"mode": "approve"})";
  if (path == "/v1/plan") return R"({"kind": "ServingPlan"})";
  if (path == "/v1/leases" && verb == "POST") return R"({"owner": "a", "profile": "1g.10gb"})";
  if (path == "/v1/queue/tasks") return test::kSubmission;
  return path == "/v1/services" || path == "/v1/fleet/services" || path == "/v1/preview"
             ? "services: []\n"
         : path == "/v1/batch/tasks" ? "task,time_s_1g\na,1\n"
                                     : "";
}

std::string gunzip(const std::string& bytes) {
  z_stream stream{};
  inflateInit2(&stream, 15 + 16);
  std::string out(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

// ---- who may what

struct Row {
  std::string verb, path, role;
};

// The table of docs/api.md, which people go by.
std::vector<Row> documented() {
  std::vector<Row> rows;
  std::istringstream text(source_text("docs/api.md"));
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    Row row;
    std::string bar;
    words >> bar >> row.verb >> row.path >> bar >> row.role;
    for (const char* verb : {"GET", "PUT", "POST", "DELETE"})
      if (row.verb == verb) rows.push_back(row);
  }
  return rows;
}

TEST_F(ServerTest, EveryCallForEveryRoleIsAsTheDocumentSays) {
  const std::vector<Row> rows = documented();
  ASSERT_EQ(rows.size(), operations().size());
  start(with_tokens());
  const std::vector<std::string> ladder = {"-", "viewer", "operator", "admin"};
  const auto rank = [&](const std::string& role) {
    return std::ranges::find(ladder, role) - ladder.begin();
  };
  for (const Row& row : rows) {
    for (const std::string role : {"", "wrong", "viewer", "operator", "admin"}) {
      RawCaller one(address);
      const std::string headers = role.empty() ? "" : bearer(role);
      one.send(row.verb + " " + with_part(row.path) +
               (row.path == "/v1/series" ? "?metric=watts" : "") +
               (row.verb == "DELETE" ? "?owner=a" : "") + " HTTP/1.1\r\nHost: localhost\r\n" +
               headers + "Content-Length: " + std::to_string(body_of(row.verb, row.path).size()) +
               "\r\n\r\n" + body_of(row.verb, row.path));
      const bool known = role != "" && role != "wrong";
      const bool may = row.role == "-" || (known && rank(role) >= rank(row.role));
      const bool of_queue = row.path.starts_with("/v1/queue");
      const bool at_once =
          row.verb == "GET" || row.path == "/v1/preview" || row.path == "/v1/leases" || of_queue;
      const bool comes = row.verb == "POST" && row.path == "/v1/queue/tasks";
      const int wanted = may ? (comes ? 201 : at_once ? 200 : 202) : known ? 403 : 401;
      const bool stream = may && row.path == "/v1/events";
      ASSERT_TRUE(one.comes("\r\n\r\n"));
      EXPECT_EQ(one.input().substr(0, 12), "HTTP/1.1 " + std::to_string(wanted))
          << row.verb << " " << row.path << " " << role;
      EXPECT_TRUE(!stream || one.comes("event: state"));
    }
  }
}

TEST_F(ServerTest, WhatNeedsARoleAndWhatIsRefusedIsKept) {
  start(with_tokens());
  EXPECT_EQ(call("POST", "/v1/replan", bearer("operator")).status, 202);
  EXPECT_EQ(call("PUT", "/v1/mode", bearer("viewer"), R"({"mode": "observe"})").status, 403);
  EXPECT_EQ(call("GET", "/v1/state").status, 401);
  EXPECT_EQ(call("GET", "/v1/state", bearer("viewer")).status, 200);  // nobody's business
  std::vector<history::Event> kept = agent.kept();
  kept.erase(kept.begin(), kept.begin() + 2);
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[0].user, "token operator-one");
  EXPECT_EQ(kept[0].cause, "POST /v1/replan");
  EXPECT_EQ(kept[0].outcome, history::Outcome::succeeded);
  EXPECT_EQ(kept[1].user, "token viewer-one");
  EXPECT_EQ(kept[1].outcome, history::Outcome::refused);
  EXPECT_EQ(kept[2].user, "nobody");
  for (const history::Event& event : kept) EXPECT_EQ(event.kind, history::EventKind::access);
  ASSERT_EQ(agent.asked().size(), 1u);
  EXPECT_EQ(agent.asked()[0].user, "token operator-one");
}

TEST_F(ServerTest, AFloodOfRefusalsDoesNotFillTheHistory) {
  start(with_tokens());
  RawCaller one(address);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(one.call("GET", "/v1/state").status, 401);
  EXPECT_LT(agent.kept().size(), 2u + 20 + 12);  // the burst, and one a second
}

TEST_F(ServerTest, TokensAreReadAgainWhenTheirFileChanges) {
  start(with_tokens());
  write("tokens", "new:admin:" + sha256_hex("secret-new") + "\n");
  const auto until = [&](int status) {
    for (int i = 0; i < 100; ++i) {
      if (call("GET", "/v1/state", bearer("new")).status == status) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  };
  EXPECT_TRUE(until(200));
  EXPECT_EQ(call("GET", "/v1/state", bearer("admin")).status, 401);
  write("tokens", "nonsense\n");  // the old ones stay, and somebody is told
  for (int i = 0; i < 100 && agent.kept().back().user != "agent"; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(agent.kept().back().outcome, history::Outcome::failed);
  EXPECT_EQ(call("GET", "/v1/state", bearer("new")).status, 200);
}

TEST_F(ServerTest, TheUnixSocketKnowsItsOwner) {
  ServerOptions options = plain();
  options.listen = "";
  options.socket = folder / "api.sock";
  start(options);
  EXPECT_EQ(address, "unix:" + options.socket);
  EXPECT_EQ(call("PUT", "/v1/mode", "", R"({"mode": "approve"})").status, 202);
  const std::string me = ::geteuid() == 0 ? "root" : "uid " + std::to_string(::geteuid());
  EXPECT_EQ(agent.asked().at(0).user, me);
  const auto mode = std::filesystem::status(options.socket).permissions();
  EXPECT_EQ(mode, std::filesystem::perms{0660});
  // A second server does not take it away; once the first has been killed, it does.
  const auto second = Server::start(agent, options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, "somebody listens there already");
  server->stop();
  EXPECT_FALSE(std::filesystem::exists(options.socket));
}

TEST_F(ServerTest, AnAddressThatOthersReachNeedsTlsAndTokens) {
  ServerOptions options = plain();
  options.listen = "0.0.0.0:0";
  EXPECT_NE(to_string(Server::start(agent, options).error()).find("others can reach"),
            std::string::npos);
  options = with_tokens();
  options.listen = "0.0.0.0:0";
  EXPECT_FALSE(Server::start(agent, options));
  options = plain();
  options.tokens_file = write("broken", "ops:king:00\n");
  EXPECT_EQ(Server::start(agent, options).error().context, options.tokens_file + ":1");
}

TEST_F(ServerTest, OnLoopbackWithoutTokensEverybodyMayLook) {
  start(plain());
  EXPECT_EQ(call("GET", "/v1/state").status, 200);
  const auto refused = call("POST", "/v1/changes/3/approve");
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(json::parse(refused.body)["message"],
            "this needs the role operator; local has viewer; set up tokens_file or socket to give "
            "somebody more");
  ServerOptions both = plain();
  both.socket = folder / "api.sock";
  start(both);
  for (const std::string& one : server->addresses())
    if (one.starts_with("http://")) address = one;
  ASSERT_TRUE(address.starts_with("http://")) << address;
  const auto shown = json::parse(call("POST", "/v1/changes/3/approve").body)["message"];
  EXPECT_EQ(shown,
            "this needs the role operator; local has viewer; on this machine go through the "
            "socket: partita --server unix:" +
                both.socket + " (root, and members of its group)");
}

TEST_F(ServerTest, AFileOfTokensThatOthersMayWriteIsRefused) {
  ServerOptions loose = with_tokens();
  std::filesystem::permissions(loose.tokens_file, static_cast<std::filesystem::perms>(0666));
  const auto started = Server::start(agent, loose);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().context, loose.tokens_file);
  EXPECT_NE(started.error().message.find("chmod go-w " + loose.tokens_file), std::string::npos);
}

TEST_F(ServerTest, TheReasonOfAnApprovalReachesTheAgent) {
  start(with_tokens());
  EXPECT_EQ(
      call("POST", "/v1/changes/3/approve", bearer("operator"), R"({"why": "tested"})").status,
      202);
  EXPECT_EQ(call("POST", "/v1/changes/3/approve", bearer("operator")).status, 202);
  const auto asked = agent.asked();
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(std::get<control::Approve>(asked[0].request).why, "tested");
  EXPECT_EQ(std::get<control::Approve>(asked[1].request).why, "");
}

TEST_F(ServerTest, BrowsersOfOtherSitesAreRefused) {
  start(plain());
  const auto get = [&](const std::string& host, const std::string& headers) {
    RawCaller one(address);
    one.send("GET /v1/state HTTP/1.1\r\nHost: " + host + "\r\n" + headers + "\r\n");
    return one.answer().status;
  };
  EXPECT_EQ(get("127.0.0.1:80", ""), 200);
  EXPECT_EQ(get("evil.example", ""), 403);
  EXPECT_EQ(get("localhost", "Origin: http://evil.example\r\n"), 403);
  EXPECT_EQ(get("localhost", "Origin: http://localhost\r\n"), 200);
  EXPECT_EQ(get("localhost", "Sec-Fetch-Site: cross-site\r\n"), 403);
  EXPECT_EQ(get("a\r\nHost: b", ""), 400);
}

// ---- answers

TEST_F(ServerTest, TheStateHasAnEtagAndIsCompressed) {
  agent.set(test::fake_snapshot(50));
  start(plain());
  const auto first = call("GET", "/v1/state");
  EXPECT_EQ(control::parse_snapshot("s", first.body).value(), *agent.snapshot());
  const std::string etag = first.header("ETag");
  ASSERT_NE(etag, "");
  const auto same = call("GET", "/v1/state", "If-None-Match: " + etag + "\r\n");
  EXPECT_EQ(same.status, 304);
  EXPECT_EQ(same.body, "");
  const auto small = call("GET", "/v1/state", "Accept-Encoding: br, gzip\r\n");
  EXPECT_EQ(small.header("Content-Encoding"), "gzip");
  EXPECT_LT(small.body.size() * 4, first.body.size());
  EXPECT_EQ(gunzip(small.body), first.body);
  for (const char* weight : {"0.5", "1", "0.001"})
    EXPECT_EQ(call("GET", "/v1/state", std::string("Accept-Encoding: gzip;q=") + weight + "\r\n")
                  .header("Content-Encoding"),
              "gzip");
  EXPECT_EQ(
      call("GET", "/v1/state", "Accept-Encoding: gzip;q=0.00, br\r\n").header("Content-Encoding"),
      "");
  EXPECT_EQ(call("GET", "/v1/state", "Accept-Encoding: gzip;q=0\r\n").header("Content-Encoding"),
            "");
  control::Snapshot next = test::fake_snapshot();
  next.version = 8;
  agent.set(next);
  EXPECT_EQ(call("GET", "/v1/state", "If-None-Match: " + etag + "\r\n").status, 200);
}

TEST_F(ServerTest, ChangesComeFromTheStateOrFromTheHistory) {
  start(plain());
  EXPECT_EQ(json::parse(call("GET", "/v1/changes/current").body)["number"], 3);
  EXPECT_EQ(json::parse(call("GET", "/v1/changes/3").body)["cause"], test::fake_change(3).cause);
  const json old = json::parse(call("GET", "/v1/changes/1").body);
  EXPECT_EQ(old["state"], "succeeded");
  EXPECT_EQ(old["cause"], "the node is new");
  EXPECT_EQ(old["ended_ms"], 1'600'000'100'000);
  EXPECT_EQ(old["plan"]["kind"], "ServingPlan");
  const auto none = call("GET", "/v1/changes/99");
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(json::parse(none.body)["code"], "not_found");
  EXPECT_EQ(call("GET", "/v1/changes/abc").status, 400);
  EXPECT_EQ(call("GET", "/v1/changes/0").status, 400);
}

TEST_F(ServerTest, RefusalsOfTheAgentSayWhereAndWhy) {
  start(with_tokens());
  const auto wrong = call("PUT", "/v1/services", bearer("admin"), "nonsense\n");
  EXPECT_EQ(wrong.status, 400);
  const json error = json::parse(wrong.body);
  EXPECT_EQ(error["code"], "bad_input");
  EXPECT_EQ(error["where"], "services:1");
  EXPECT_EQ(call("PUT", "/v1/services", bearer("admin"), " \n").status, 400);
  EXPECT_EQ(call("POST", "/v1/changes/4/approve", bearer("admin")).status, 404);
  EXPECT_EQ(call("PUT", "/v1/mode", bearer("admin"), R"({"mode": "soon"})").status, 400);
  EXPECT_EQ(call("PUT", "/v1/mode", bearer("admin"), R"({"mode": "approve", "x": 1})").status, 400);
  EXPECT_EQ(call("POST", "/v1/changes/3/reject", bearer("admin"), R"({"why": 1})").status, 400);
  EXPECT_EQ(agent.asked().size(), 2u);  // the others never reached the agent
}

TEST_F(ServerTest, PathsMethodsAndParametersThatAreNoneAreNamed) {
  start(plain());
  EXPECT_EQ(call("GET", "/v1/nothing").status, 404);
  const auto wrong = call("POST", "/v1/state");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("Allow"), "GET");
  EXPECT_EQ(call("GET", "/v1/services").body, "services: []\n");
  EXPECT_EQ(json::parse(call("GET", "/v1/history?mist=1").body)["where"], "mist");
  for (const char* query : {"most=-1", "most=x", "most=1&most=2", "kind=no", "most=", "most=%zz",
                            "most=0", "most=1001"})
    EXPECT_EQ(call("GET", "/v1/history?" + std::string(query)).status, 400) << query;
  EXPECT_EQ(json::parse(call("GET", "/v1/history?most=1&kind=applied").body)["events"].size(), 1u);
  EXPECT_EQ(call("GET", "/v1/history/77").status, 404);
  EXPECT_EQ(json::parse(call("GET", "/v1/history/2").body)["events"][0]["id"], 2);
  EXPECT_EQ(call("GET", "/v1/series").status, 400);
  EXPECT_EQ(call("GET", "/v1/series?metric=watts&from_ms=2&to_ms=1").status, 400);
  EXPECT_EQ(call("GET", "/v1/series?metric=foo").status, 400);
  EXPECT_EQ(call("DELETE", "/v1/state").status, 405);
  EXPECT_EQ(call("GET", "/v1/gpus/a%2Fb/take-out").status, 405);
}

TEST_F(ServerTest, ThePageNeedsNoTokenAndIsAskedAgainByItsEtag) {
  start(with_tokens());
  const auto first = call("GET", "/");
  EXPECT_EQ(first.status, 200);
  EXPECT_NE(first.header("Content-Type").find("text/html"), std::string::npos);
  EXPECT_NE(first.header("Content-Security-Policy"), "");
  EXPECT_EQ(first.header("Content-Encoding"), "");  // nobody asked for it
  EXPECT_EQ(first.body.find("<!"), 0U);
  const auto packed = call("GET", "/", "Accept-Encoding: gzip, br\r\n");
  EXPECT_EQ(packed.header("Content-Encoding"), "gzip");
  EXPECT_EQ(gunzip(packed.body), first.body);
  EXPECT_EQ(call("GET", "/", "If-None-Match: " + first.header("ETag") + "\r\n").status, 304);
  EXPECT_EQ(call("GET", "/", "Sec-Fetch-Site: cross-site\r\n").status, 200);  // by a link
  EXPECT_EQ(call("POST", "/").status, 405);
  EXPECT_EQ(call("GET", "/../etc/passwd").status, 404);
  EXPECT_EQ(call("GET", "/nothing.js").status, 404);
}

TEST_F(ServerTest, MetricsAreReadByPrometheus) {
  start(plain());
  call("GET", "/v1/nothing");
  const auto answer = call("GET", "/metrics");
  const test::Scraped read = test::scrape(answer.body);
  EXPECT_EQ(read.fault, "");
  EXPECT_EQ(read.values.at("partita_api_answers_total{status=\"4xx\"}"), 1);
  EXPECT_EQ(read.values.at("partita_api_connections"), 1);
}

TEST_F(ServerTest, BodiesHaveALimit) {
  ServerOptions options = with_tokens();
  options.limits.body_bytes = 1000;
  start(options);
  EXPECT_EQ(call("PUT", "/v1/services", bearer("admin"), std::string(1001, 's')).status, 413);
  EXPECT_EQ(
      call("PUT", "/v1/services", bearer("admin"), "services:" + std::string(900, ' ')).status,
      202);
  RawCaller chunked(address);
  chunked.send("PUT /v1/services HTTP/1.1\r\nHost: localhost\r\n" + bearer("admin") +
               "Transfer-Encoding: chunked\r\n\r\n9\r\nservices:\r\n3\r\n []\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.answer().status, 202);
  chunked.send("PUT /v1/services HTTP/1.1\r\nHost: localhost\r\n" + bearer("admin") +
               "Transfer-Encoding: chunked\r\n\r\n3e8\r\n" + std::string(1000, ' ') + "\r\n1\r\n");
  chunked.send("s\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.answer().status, 413);
  RawCaller other(address);
  other.send("PUT /v1/services HTTP/1.1\r\nHost: localhost\r\n" + bearer("admin") +
             "Transfer-Encoding: gzip\r\n\r\n");
  EXPECT_EQ(other.answer().status, 415);
}

// Nor what others do at the address, nor bodies that are announced and never sent.
TEST_F(ServerTest, NobodyIsLockedOutOfTheSocket) {
  ServerOptions options = with_tokens();
  options.socket = folder / "api.sock";
  options.limits.connections = 64;
  options.limits.bodies_bytes = 4u << 20;
  start(options);
  std::vector<RawCaller> silent, announced;
  for (int i = 0; i < 300; ++i) silent.emplace_back(address);
  for (int i = 0; i < 3; ++i) {
    announced.emplace_back(address);
    announced.back().send("PUT /v1/services HTTP/1.1\r\nHost: localhost\r\n" + bearer("admin") +
                          "Content-Length: 4000000\r\n\r\ns");
  }
  const std::string put = "services:" + std::string(900, ' ');
  RawCaller root("unix:" + options.socket);
  EXPECT_EQ(root.call("PUT", "/v1/services", "", put).status, 202);
  EXPECT_EQ(call("PUT", "/v1/services", bearer("admin"), put).status, 202);
}

TEST_F(ServerTest, WhoCallsTooOftenWaits) {
  ServerOptions options = plain();
  options.limits.calls_per_second = 1;
  options.limits.burst = 5;
  start(options);
  int limited = 0;
  for (int i = 0; i < 20; ++i) {
    const auto answer = call("GET", "/v1/health");
    if (answer.status != 429) continue;
    ++limited;
    EXPECT_GE(std::stoi(answer.header("Retry-After")), 1);
  }
  EXPECT_GE(limited, 10);
  EXPECT_LE(limited, 15);
}

TEST_F(ServerTest, AnAgentThatDoesNotAnswerIsWaitedForAWhileAndStopsCleanly) {
  agent.at_once = false;
  ServerOptions options = with_tokens();
  options.limits.answer_s = 1;
  start(options);
  EXPECT_EQ(call("POST", "/v1/replan", bearer("admin")).status, 504);
  auto late = agent.take_waiting();
  ASSERT_EQ(late.size(), 1u);
  late[0](control::Receipt{.change = 1, .sentence = "late"});  // kept, although nobody waits
  for (int i = 0; i < 100 && agent.kept().size() < 3; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_NE(agent.kept().back().detail.find("late"), std::string::npos);
  RawCaller open(address);
  open.send("POST /v1/replan HTTP/1.1\r\nHost: localhost\r\n" + bearer("admin") +
            "Content-Length: 0\r\n\r\n");
  for (int i = 0; i < 100 && agent.asked().size() < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  server->stop();
  for (auto& answer : agent.take_waiting()) answer(control::Receipt{.sentence = "too late"});
  agent.set(test::fake_snapshot());
  server.reset();
  agent.set(test::fake_snapshot());
}

}  // namespace
}  // namespace partita::api
