// The worker's loop against a gateway of a few lines: batches come back right, a gateway may come
// back, leaving drains, a hung engine falls silent, streams are passed on and broken off.
#include "serve/worker/worker_loop.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cstring>
#include <filesystem>
#include <future>

#include "serve/wire/slot_trace.h"
#include "serve/worker/null_engine.h"
#include "serve/worker/pulse.h"
#include "serve/worker/testing/fake_gateway.h"
#include "serve/worker/testing/text_server.h"
#include "serve/worker/warm_up.h"

namespace partita::serve {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
using RunFrame = Run;  // a test has a member Run

ModelSpec echo_model() {
  return {.name = "echo",
          .platform = "null",
          .inputs = {{.name = "x", .type = DataType::int32, .shape = {4}}},
          .outputs = {{.name = "y", .type = DataType::int32, .shape = {4}}},
          .max_batch = 4};
}

// An engine that a test can break.
class Brittle final : public Engine {
 public:
  const ModelSpec& spec() const override { return spec_; }
  Result<void> run(std::span<char* const> slots) override {
    ++runs;
    if (fails) return environment_error("engine", "no luck");
    faults_.clear();
    if (drops >= 0) faults_.push_back({static_cast<std::size_t>(drops.load()), "too long"});
    return echo_->run(slots);
  }
  std::atomic<bool> fails = false;
  std::atomic<int> runs = 0, drops = -1;  // drops: this item has no answer

 private:
  ModelSpec spec_ = echo_model();
  EnginePointer echo_ = null_engine(echo_model(), {});
};

class WorkerLoop : public testing::Test {
 protected:
  WorkerLoop() {
    std::string name = testing::TempDir() + "loopXXXXXX";
    folder = ::mkdtemp(name.data());
    options.seat = {.link = folder + "/gateway.sock", .place = "s:d:0", .service = "echo"};
    leave = ::eventfd(0, EFD_CLOEXEC);
    options.leave_fd = leave;
  }
  ~WorkerLoop() override {
    tell_to_leave();
    gateway.reset();
    if (worker.valid()) worker.wait();
    ::close(leave);
    std::filesystem::remove_all(folder);
  }
  void open_gateway() { gateway.emplace(options.seat.link); }
  template <class What>
  void start(What& what) {
    worker = std::async(std::launch::async, [this, &what] { return run_worker(what, options); });
  }
  void tell_to_leave() {
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(leave, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }
  // Runs a batch of these numbers; what came back of each.
  std::vector<int> echoed(const std::vector<int>& numbers, std::uint64_t batch) {
    RunFrame run{.batch = batch};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto slot = static_cast<std::uint32_t>(7 - i);  // in no order
      run.slots.push_back(slot);
      std::memcpy(gateway->memory->base(slot), &numbers[i], sizeof(int));
    }
    gateway->send(run);
    const auto done = gateway->expect<Done>();
    if (!done || done->batch != batch || done->status.size() != numbers.size()) return {};
    std::vector<int> answers(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const char* slot = gateway->memory->base(run.slots[i]) + gateway->layout.outputs[0];
      std::memcpy(&answers[i], slot, sizeof(int));
      if (done->status[i] != ItemStatus::ok) answers[i] = -1;
    }
    return answers;
  }

  std::string folder;
  int leave = -1;
  LoopOptions options;
  std::optional<FakeGateway> gateway;
  std::future<Result<void>> worker;
};

TEST_F(WorkerLoop, ServesLeavesAndDrains) {
  open_gateway();
  Brittle engine;
  start(engine);
  ASSERT_TRUE(gateway->accept());
  const auto ready = gateway->greet(8);
  ASSERT_TRUE(ready);
  EXPECT_TRUE(gateway->model == echo_model());
  ASSERT_EQ(ready->curve.size(), 3U);  // 1, 2, 4
  EXPECT_EQ(ready->curve.back().batch, 4);
  EXPECT_EQ(echoed({5, 6, 7}, 1), (std::vector{5, 6, 7}));
  engine.fails = true;
  EXPECT_EQ(echoed({5, 6}, 2), (std::vector{-1, -1}));
  engine.fails = false;
  engine.drops = 1;
  EXPECT_EQ(echoed({5, 6, 7}, 7), (std::vector{5, -1, 7}));
  engine.drops = -1;
  gateway->send(RunFrame{.batch = 3, .slots = {0, 8}});  // there is no slot 8
  const auto outside = gateway->expect<Done>();
  ASSERT_TRUE(outside);
  EXPECT_EQ(outside->status[0], ItemStatus::failed);
  gateway->send(RunFrame{.batch = 4, .slots = {0, 1, 2, 3, 4}});  // above the largest batch
  EXPECT_EQ(gateway->expect<Done>()->status[4], ItemStatus::failed);
  tell_to_leave();
  ASSERT_TRUE(gateway->expect<Leaving>());
  EXPECT_EQ(echoed({9}, 5), (std::vector{9}));  // what was on its way is still done
  gateway->send(Drain{});
  EXPECT_TRUE(gateway->expect<Drained>());
  EXPECT_TRUE(worker.get());
}

TEST_F(WorkerLoop, OutlivesItsGatewayWithoutWarmingUpAgain) {
  Brittle engine;
  start(engine);  // before there is a gateway
  open_gateway();
  ASSERT_TRUE(gateway->accept());
  const auto first = gateway->greet(8);
  ASSERT_TRUE(first);
  const int runs = engine.runs;
  gateway.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::int64_t begin = steady_ns();
  open_gateway();
  ASSERT_TRUE(gateway->accept());
  const auto second = gateway->greet(8);
  ASSERT_TRUE(second);
  EXPECT_EQ(echoed({3}, 1), (std::vector{3}));
  EXPECT_LT(steady_ns() - begin, 1000 * kMillisecond);  // 100 on a machine that is not busy
  EXPECT_TRUE(*first == *second);
  EXPECT_EQ(engine.runs, runs + 1);
}

TEST_F(WorkerLoop, EndsWhenToldWithoutAGateway) {
  Brittle engine;
  start(engine);
  tell_to_leave();
  EXPECT_TRUE(worker.get());
  EXPECT_EQ(engine.runs, 0);
}

TEST_F(WorkerLoop, ARefusalAndALyingGatewayEndIt) {
  open_gateway();
  Brittle engine;
  start(engine);
  ASSERT_TRUE(gateway->accept());
  ASSERT_TRUE(gateway->expect<Hello>());
  gateway->send(Refused{.reason = "no service echo"});
  const Result<void> refused = worker.get();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("no service echo"), std::string::npos);
  start(engine);
  ASSERT_TRUE(gateway->accept());
  ASSERT_TRUE(gateway->expect<Hello>());
  auto memory = SlotMemory::create(4096, 2);
  gateway->send(Region{.slot_bytes = 4096, .slots = 8}, memory->fd());  // more than there is
  EXPECT_FALSE(worker.get());
}

TEST_F(WorkerLoop, AnEngineThatFailsToWarmUpIsAnError) {
  open_gateway();
  Brittle engine;
  engine.fails = true;
  start(engine);
  ASSERT_TRUE(gateway->accept());
  EXPECT_FALSE(gateway->greet(8));
  EXPECT_FALSE(worker.get());
}

TEST(Pulse, BeatsUnlessTheLoopHangs) {
  int ends[2] = {};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  Connection gateway{Descriptor(ends[0])};
  Pulse pulse;
  pulse.send_to(std::make_shared<LinkSender>(Connection(Descriptor(ends[1]))));
  std::array<char, 100> buffer{};
  const auto beats_within = [&](std::int64_t ns) {
    int beats = 0;
    for (const std::int64_t end = steady_ns() + ns; steady_ns() < end;) {
      pollfd watched{gateway.fd(), POLLIN, 0};
      if (::poll(&watched, 1, 10) <= 0) continue;
      const auto got = gateway.receive(buffer);
      if (!got || got->kind != Received::Kind::frame) continue;
      EXPECT_TRUE(std::holds_alternative<Beat>(*decode(got->bytes)));
      ++beats;
    }
    return beats;
  };
  EXPECT_GE(beats_within(kBeatNs), 1);
  pulse.busy_until(steady_ns() + 3600 * std::int64_t{1'000'000'000});  // a long batch is no hang
  EXPECT_GE(beats_within(kBeatNs), 1);
  pulse.busy_until(1);  // this one is
  beats_within(kBeatNs / 2);
  EXPECT_EQ(beats_within(kBeatNs), 0);
}

class StreamLoop : public WorkerLoop {
 protected:
  void ready(int port) {
    open_gateway();
    streams = std::make_unique<Streams>(StreamOptions{
        .url = {.host = "127.0.0.1", .port = port, .path = ""}, .name = "chat", .max_batch = 4});
    start(*streams);
    ASSERT_TRUE(gateway->accept());
    ASSERT_TRUE(gateway->greet(8));
  }
  void ask(const std::string& body) {
    const std::uint64_t size = body.size();
    std::memcpy(gateway->memory->base(2), &size, sizeof size);
    std::memcpy(gateway->memory->base(2) + sizeof size, body.data(), body.size());
    write_slot_trace(gateway->memory->base(2) + gateway->layout.trace, trace, "");
    gateway->send(RunFrame{.batch = 6, .slots = {2}});
  }
  ~StreamLoop() override {
    tell_to_leave();
    gateway.reset();
    if (worker.valid()) worker.wait();
  }
  std::unique_ptr<Streams> streams;
  std::string trace = {};
};

TEST_F(StreamLoop, PassesEventsOn) {
  TextServer server(
      {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
       "Transfer-Encoding: chunked\r\n\r\n"
       "9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n"});
  ready(server.port);
  trace = "00-aa-bb-01";
  ask("{\"model\": \"m\", \"messages\": []}");
  std::string text;
  std::uint32_t sequence = 0;
  std::optional<Frame> frame;
  while ((frame = gateway->next()) && std::holds_alternative<Part>(*frame)) {
    const auto& part = std::get<Part>(*frame);
    EXPECT_EQ(part.sequence, sequence);
    EXPECT_EQ(part.http_status, sequence == 0 ? 200U : 0U);
    EXPECT_EQ(part.content_type, sequence == 0 ? "text/event-stream" : "");
    text += part.bytes;
    ++sequence;
  }
  EXPECT_EQ(text, "data: 1\n\ndata: 2\n\n");
  ASSERT_TRUE(frame && std::holds_alternative<Done>(*frame));
  EXPECT_EQ(std::get<Done>(*frame).status, std::vector{ItemStatus::ok});
  ASSERT_EQ(server.asked.size(), 1U);
  EXPECT_TRUE(server.asked[0].starts_with("POST /v1/chat/completions HTTP/1.1\r\n"));
  EXPECT_NE(server.asked[0].find("\r\ntraceparent: 00-aa-bb-01\r\n"), std::string::npos);
  EXPECT_TRUE(server.asked[0].ends_with("\r\n\r\n{\"model\": \"m\", \"messages\": []}"));
}

TEST_F(StreamLoop, BreaksOffWhatIsCancelled) {
  TextServer server({"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"},
                    true);
  ready(server.port);
  ask("{\"prompt\": \"messages\"}");
  ASSERT_TRUE(gateway->expect<Part>());
  gateway->send(Cancel{.batch = 6, .items = {0, 17}});
  const auto done = gateway->expect<Done>();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status, std::vector{ItemStatus::cancelled});
  gateway->send(Drain{});
  EXPECT_TRUE(gateway->expect<Drained>());
}

TEST_F(StreamLoop, AServerThatIsNotThereIsA502) {
  int port = 0;
  { port = TextServer({}).port; }
  ready(port);
  ask("{}");
  const auto part = gateway->expect<Part>();
  ASSERT_TRUE(part);
  EXPECT_EQ(part->http_status, 502U);
  const auto done = gateway->expect<Done>();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status, std::vector{ItemStatus::failed});
  EXPECT_NE(done->message, "");
}

TEST(Streams, KnowsChatsByTheirOutermostKeys) {
  EXPECT_TRUE(has_messages(R"({"model": "m", "messages": []})"));
  EXPECT_TRUE(has_messages(R"({"a": {"b": [1, "x"]}, "messages": []})"));
  EXPECT_FALSE(has_messages(R"({"prompt": "messages", "a": {"messages": 1}})"));
  EXPECT_FALSE(has_messages(R"({"a\"messages": 1, "b": ["messages"]})"));
  EXPECT_FALSE(has_messages(R"(["messages"])"));
  EXPECT_FALSE(has_messages("{\"messages"));
}

}  // namespace
}  // namespace partita::serve
