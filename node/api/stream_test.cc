// Streams of events, slow clients, many clients.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <thread>

#include "api/exchanges.h"
#include "api/testing/server_fixture.h"
#include "base/door/listener.h"

namespace partita::api {
namespace {

using test::RawCaller;

class StreamTest : public test::ServerFixture {
 protected:
  RawCaller stream(const std::string& headers = "", int receive_buffer = 0) const {
    RawCaller one(address, receive_buffer);
    one.send("GET /v1/events HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
    return one;
  }
  void next(long version, int services = 2) {
    control::Snapshot snapshot = test::fake_snapshot(services);
    snapshot.version = version;
    agent.set(snapshot);
  }
};

// The data of the last event, its lines put together again.
std::string data_of(const std::string& input) {
  std::string data;
  std::size_t at = input.rfind("event: state");
  while ((at = input.find("\ndata: ", at)) != std::string::npos) {
    at += 7;
    data += input.substr(at, input.find('\n', at) - at) + "\n";
    at = input.find('\n', at);
  }
  return data;
}

TEST(EventTextTest, EveryLineOfTheDataIsOne) {
  EXPECT_EQ(event_text("state", "5", "a\nb\n"), "event: state\nid: 5\ndata: a\ndata: b\n\n");
  EXPECT_EQ(event_text("state", "5", "a\n\nb"),
            "event: state\nid: 5\ndata: a\ndata: \ndata: b\n\n");
}

TEST_F(StreamTest, TheStateComesWheneverItHasChanged) {
  start(plain());
  RawCaller one = stream();
  ASSERT_TRUE(one.comes("-7\n"));
  EXPECT_NE(one.input().find("Content-Type: text/event-stream"), std::string::npos);
  for (long version = 8; version < 11; ++version) {
    next(version);
    ASSERT_TRUE(one.comes("-" + std::to_string(version) + "\n"));
    ASSERT_TRUE(one.ends("\n\n\r\n"));
  }
  EXPECT_EQ(control::parse_snapshot("s", data_of(one.input())).value().version, 10);
}

TEST_F(StreamTest, WhoKnowsTheStateGetsItOnlyWhenItChanges) {
  start(plain());
  std::string id;
  {
    RawCaller one = stream();
    ASSERT_TRUE(one.comes("\ndata"));
    const std::size_t at = one.input().find("\nid: ") + 5;
    id = one.input().substr(at, one.input().find('\n', at) - at);
  }
  RawCaller again = stream("Last-Event-ID: " + id + "\r\n");
  EXPECT_TRUE(again.comes("retry: "));
  EXPECT_FALSE(again.comes("event: state", 300));
  next(8);
  EXPECT_TRUE(again.comes("-8\n"));
  RawCaller other = stream("Last-Event-ID: 1-7\r\n");  // of another run of the agent
  EXPECT_TRUE(other.comes("event: state"));
}

TEST_F(StreamTest, WhoWantsChangesGetsThemBehindTheFirstState) {
  ServerOptions options = plain();
  options.limits.heartbeat_s = 3600;  // which is an event, too
  start(options);
  RawCaller one(address), other = stream();
  one.send("GET /v1/events?changes=true HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(one.comes("-7\n"));
  control::Snapshot snapshot = test::fake_snapshot(200);
  for (long version = 8; version < 12; ++version) {
    snapshot.version = version;
    snapshot.time_ms += 1000;
    snapshot.services[static_cast<std::size_t>(version)].is.asked_rps =
        3.25 * static_cast<double>(version);
    agent.set(snapshot);
    ASSERT_TRUE(one.comes("-" + std::to_string(version) + "\n"));
    ASSERT_TRUE(other.comes("-" + std::to_string(version) + "\n"));
    ASSERT_TRUE(one.ends("\n\n\r\n"));
  }
  // Version 8 is larger than its changes are short: all of it. Then what is another alone.
  const std::string last = one.input().substr(one.input().rfind("event: "));
  EXPECT_TRUE(last.starts_with("event: changes\n")) << last.substr(0, 60);
  EXPECT_LT(last.size(), 300u);
  EXPECT_NE(last.find("{\"asked_rps\":35.75}"), std::string::npos) << last;
  EXPECT_EQ(other.input().find("event: changes"), std::string::npos);
}

TEST_F(StreamTest, AHeartbeatSaysWhenTheAgentLooked) {
  ServerOptions options = plain();
  options.limits.heartbeat_s = 1;
  start(options);
  RawCaller one(address);
  one.send("GET /v1/events?changes=true HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(one.comes("-7\n"));
  control::Snapshot snapshot = test::fake_snapshot();
  snapshot.time_ms += 5000;
  agent.set(snapshot);
  EXPECT_TRUE(one.comes("event: changes"));
  EXPECT_TRUE(one.comes("{\"time_ms\":1700000005000}"));
}

TEST_F(StreamTest, ALargeNodesStateIsBriefAndWholeForWhoAsks) {
  start(plain());
  control::Snapshot large = test::fake_snapshot(500);
  agent.set(large);
  const auto brief = control::parse_snapshot("s", call("GET", "/v1/state").body);
  ASSERT_TRUE(brief) << to_string(brief.error());
  EXPECT_EQ(*brief, control::brief_of(large));
  EXPECT_EQ(control::parse_snapshot("s", call("GET", "/v1/state?whole=true").body).value(), large);
}

TEST_F(StreamTest, AHeartbeatComesWhenThereIsNoNews) {
  ServerOptions options = plain();
  options.limits.heartbeat_s = 1;
  start(options);
  RawCaller one = stream();
  EXPECT_TRUE(one.comes("\n:\n\n"));
}

TEST_F(StreamTest, NewsComeAtMostFourTimesASecondTheNewestOne) {
  start(plain());
  RawCaller one = stream();
  ASSERT_TRUE(one.comes("-7\n"));
  const auto begin = std::chrono::steady_clock::now();
  for (long version = 8; version <= 1007; ++version) next(version);
  ASSERT_TRUE(one.comes("-1007\n"));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const auto events = [&] {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = one.input().find("event: state", at)) != std::string::npos; ++at)
      ++count;
    return count;
  }();
  EXPECT_LE(static_cast<double>(events), 3 + took.count() * 4);
}

TEST_F(StreamTest, ASlowReaderHoldsUpNobodyAndGetsTheNewestOnceItReads) {
  start(plain());
  const auto next_large = [&](long version) {  // more than the system's buffers take
    control::Snapshot snapshot = test::fake_snapshot();
    snapshot.version = version;
    snapshot.doing.assign(6u << 20, 'x');
    agent.set(snapshot);
  };
  next_large(100);
  RawCaller slow = stream("", 1 << 16);
  RawCaller quick = stream();
  for (long version = 101; version < 104; ++version) {
    next_large(version);
    const std::string id = "-" + std::to_string(version) + "\n";
    ASSERT_TRUE(quick.comes(id));
    quick.input().erase(0, quick.input().find(id));
    ASSERT_TRUE(quick.ends("\n\n\r\n"));  // all of it
    quick.input().clear();
  }
  ASSERT_TRUE(slow.comes("-103\n"));
  EXPECT_EQ(slow.input().find("-101\n"), std::string::npos);  // left out, not queued
}

TEST_F(StreamTest, StreamsAreBounded) {
  ServerOptions options = plain();
  options.limits.streams = 3;
  start(options);
  std::vector<RawCaller> open;
  for (int i = 0; i < 3; ++i) {
    open.push_back(stream());
    ASSERT_TRUE(open.back().comes("event: state"));
  }
  EXPECT_EQ(call("GET", "/v1/events").status, 503);
  open.pop_back();
  bool again = false;
  for (int i = 0; i < 100 && !again; ++i) {
    RawCaller one = stream();
    one.comes("\r\n\r\n");
    again = one.input().find("200 OK") != std::string::npos;
  }
  EXPECT_TRUE(again);
}

// ---- slow and many

TEST_F(StreamTest, SlowHeadsAndBodiesEndTheirConnections) {
  ServerOptions options = plain();
  options.limits.head_ns = 200'000'000;
  options.limits.idle_ns = 400'000'000;
  start(options);
  RawCaller head(address), idle(address);
  head.send("GET /v1/sta");
  EXPECT_EQ(head.answer().status, 408);
  EXPECT_TRUE(head.closed());
  EXPECT_TRUE(idle.closed());
  EXPECT_EQ(call("GET", "/v1/health").status, 200);
}

TEST_F(StreamTest, HalfRequestsHarmNobody) {
  start(plain());
  const std::string whole =
      "POST /v1/replan HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabc";
  for (std::size_t length = 1; length <= whole.size(); ++length) {
    RawCaller one(address);
    one.send(std::string_view(whole).substr(0, length));
    one.leave();
  }
  EXPECT_EQ(call("GET", "/v1/health").status, 200);
  EXPECT_TRUE(agent.asked().empty());
}

TEST_F(StreamTest, AThousandIdleConnectionsLeaveRoomForOthers) {
  serve::raise_descriptor_limit();
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 2500) GTEST_SKIP() << "the system lets this process open too few";
  ServerOptions options = plain();
  options.limits.connections = 1072;  // of which an address gets 1005
  start(options);
  std::vector<RawCaller> idle;
  for (int i = 0; i < 1000; ++i) idle.emplace_back(address);
  EXPECT_TRUE(std::ranges::all_of(idle, [](const RawCaller& one) { return one.connected(); }));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(idle[0].call("GET", "/v1/health").status, 200);
  // Beyond its share, idle ones of the same address make room.
  std::vector<RawCaller> more;
  for (int i = 0; i < 50; ++i) more.emplace_back(address);
  EXPECT_EQ(more.back().call("GET", "/v1/health").status, 200);
  EXPECT_EQ(idle[0].call("GET", "/v1/health").status, 200);  // it has asked for something
}

TEST_F(StreamTest, ManyCallersAtOnceAllGetTheirAnswers) {
  start(plain());
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      RawCaller one(address);
      for (int i = 0; i < 100; ++i) good += one.call("GET", "/v1/state").status == 200 ? 1 : 0;
    });
  for (long version = 8; version < 60; ++version) next(version);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 400);
}

}  // namespace
}  // namespace partita::api
