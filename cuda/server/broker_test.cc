// A whole server: broker, zygote, workers and sessions on fake devices, with real processes and
// sockets.
#include "server/broker.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/check.h"
#include "base/processes.h"
#include "server/testing/test_client.h"

namespace partita::remote::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using SteadyClock = std::chrono::steady_clock;

double ms_since(SteadyClock::time_point begun) {
  return std::chrono::duration<double, std::milli>(SteadyClock::now() - begun).count();
}

// A client with its connection.
struct Guest {
  explicit Guest(const std::string& address) {
    auto connected = system_net().connect(address, seconds(10));
    if (!connected) return;
    channel = *std::move(connected);
    client = std::make_unique<TestClient>(*channel, seconds(20));
  }
  TestClient::Answer<Hello> hello(std::string_view shape = {}, std::string_view token = {},
                                  std::uint32_t flags = 0) {
    return client->ask(Hello{.table = protocol_hash(),
                             .token = token,
                             .shape = shape,
                             .program = "guest",
                             .pid = 4711,
                             .flags = flags});
  }
  std::unique_ptr<Channel> channel;
  std::unique_ptr<TestClient> client;
};

class BrokerTest : public ::testing::Test {
 protected:
  BrokerTest() {
    folder = std::filesystem::temp_directory_path() /
             ("partita-broker-" + std::to_string(::getpid()) + "-" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder);
    // How it was opened is told by its memory, and how often: each process counts from 0.
    options.worker.open =
        [opened = 0](const Part& part, int units,
                     std::uint32_t flags) mutable -> Result<std::unique_ptr<DeviceBackend>> {
      if (part.shape == "broken") return environment_error("", "the device is on fire");
      const int told = 1000 * opened++ + units * 100;
      return std::make_unique<FakeBackend>(FakeBackend::Options{
          .memory = (std::uint64_t{64} << 20) + static_cast<std::uint64_t>(told) + flags});
    };
    options.parts = {{"a", "CPU-1", 1}, {"b", "CPU-2", 2}};
    options.state_file = folder / "server-1.json";
    options.metrics_file = folder / "metrics";
    options.hello_patience = milliseconds(300);
  }
  ~BrokerTest() override {
    finish();
    std::filesystem::remove_all(folder);
  }
  void start(const std::string& scheme = "unix:") { start_at(scheme + (folder / "sock").string()); }
  void start_at(const std::string& where) {
    stop = std::make_unique<Descriptor>(::eventfd(0, EFD_CLOEXEC));
    auto opened = Broker::open(where, options, files);
    CHECK(opened.has_value());
    broker = *std::move(opened);
    address = broker->address();
    thread = std::thread([this] {
      const Result<void> ran = broker->run(stop->get());
      EXPECT_EQ(ran ? "" : ran.error().message, ends);
    });
  }
  void finish() {
    if (!broker) return;
    ::eventfd_write(stop->get(), 1);
    thread.join();
    broker.reset();
  }
  ServerState state() {
    const auto text = files.read(options.state_file);
    if (!text) return {};
    return parse_server_state("state", *text).value_or(ServerState{});
  }
  template <class Condition>
  bool soon(Condition condition, SteadyClock::duration patience = seconds(20)) {
    for (const auto end = SteadyClock::now() + patience; SteadyClock::now() < end;) {
      if (condition(state())) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }

  RealFiles files;
  std::filesystem::path folder;
  BrokerOptions options;
  std::unique_ptr<Descriptor> stop;
  std::unique_ptr<Broker> broker;
  std::string address;
  std::string ends;  // why it ends, if not by us
  std::thread thread;
};

// "bad_hellos_total 3" of a metrics file.
std::string metric(const std::string& text, const std::string& name) {
  const std::string begin = "\npartita_remote_";
  const std::size_t at = text.find(begin + name + " ");
  if (at == text.npos) return "";
  return text.substr(at + begin.size(), text.find('\n', at + 1) - at - begin.size());
}

TEST_F(BrokerTest, AWarmWorkerServes) {
  start();
  ASSERT_TRUE(soon([](const ServerState& s) { return s.ready == 1; }));
  const auto begun = SteadyClock::now();
  Guest guest(address);
  const auto hello = guest.hello();
  RecordProperty("session_ms", std::to_string(ms_since(begun)));
  ASSERT_TRUE(hello.came) << guest.client->error;
  EXPECT_EQ(hello.outcome.status, 0) << guest.client->said;
  EXPECT_EQ(hello.reply.session, 1u);
  guest.client->send(Alloc{{kFakeArena}, 256});
  guest.client->send(CopyIn{{}, {kFakeArena}}, bytes_of("abcd"));
  const auto out = guest.client->ask(CopyOut{{}, {kFakeArena}, 4});
  EXPECT_EQ(out.bulk, std::vector<std::byte>(bytes_of("abcd").begin(), bytes_of("abcd").end()));
  ASSERT_TRUE(soon([](const ServerState& s) {
    return s.sessions.size() == 1 && s.sessions[0].program == "guest" &&
           s.sessions[0].bytes_in == 4 && s.sessions[0].memory == 256;
  }));
  EXPECT_THAT(files.read(options.metrics_file).value_or(""),
              HasSubstr("partita_remote_sessions 1\n"));
  guest.client->send(Bye{});
  EXPECT_TRUE(guest.client->flush());
  EXPECT_TRUE(soon([&](const ServerState& s) {
    const std::string text = files.read(options.metrics_file).value_or("");
    return s.sessions.empty() && metric(text, "bytes_in_total") == "bytes_in_total 4" &&
           metric(text, "bytes_out_total") == "bytes_out_total 4";
  }));
  finish();
  EXPECT_FALSE(std::filesystem::exists(options.state_file));
}

// Threads of one process; once its device is lost it makes room for another.
TEST_F(BrokerTest, SessionsThatShareAProcess) {
  const auto lost = std::make_shared<std::atomic<bool>>(false);
  const auto opened = std::make_shared<std::atomic<int>>(0);  // of this process
  options.worker.shared = true;
  options.worker.spent = [lost] { return lost->load(); };
  options.worker.open = [lost, opened](
                            const Part&, int,
                            std::uint32_t flags) -> Result<std::unique_ptr<DeviceBackend>> {
    if (flags != 0) *lost = true;
    const auto known = static_cast<std::uint64_t>(++*opened) * 1000;
    return std::make_unique<FakeBackend>(FakeBackend::Options{.memory = known});
  };
  start();
  const auto memory_of = [](Guest& guest) { return guest.hello().reply.total_memory; };
  {
    Guest first(address), second(address);
    const std::uint64_t one = memory_of(first), two = memory_of(second);
    EXPECT_NE(one, two);  // one process counted both
    EXPECT_TRUE(first.client->ask(Ping{}).came && second.client->ask(Ping{}).came);
    EXPECT_TRUE(soon([](const ServerState& s) { return s.sessions.size() == 2; }));
  }
  EXPECT_TRUE(soon([](const ServerState& s) { return s.sessions.empty(); }));
  Guest loses(address), beside(address);
  ASSERT_TRUE(beside.hello().came);
  loses.hello({}, {}, 1);
  EXPECT_TRUE(soon([](const ServerState& s) { return s.sessions.empty(); }));
  Guest after(address);
  const auto hello = after.hello();
  ASSERT_TRUE(hello.came) << after.client->error;
  EXPECT_LE(hello.reply.total_memory, 3000u);  // the first ones of a new process
}

TEST_F(BrokerTest, WhoSaysNothingKeepsNobodyOut) {
  options.greeting = 8;
  options.limits.queue = 2;
  options.token = "the right token";
  options.hello_patience = seconds(600);
  start_at("tcp:127.0.0.1:0");
  std::vector<std::unique_ptr<Channel>> silent;
  for (int i = 0; i < 60; ++i) {
    auto connected = system_net().connect(address, seconds(10));
    ASSERT_TRUE(connected);
    silent.push_back(*std::move(connected));
  }
  Guest guest(address);
  const auto hello = guest.hello({}, "the right token");
  ASSERT_TRUE(hello.came) << guest.client->error;
  EXPECT_EQ(hello.outcome.status, 0) << guest.client->said;
  Guest wrong(address);
  EXPECT_NE(wrong.hello({}, "a wrong token").outcome.status, 0);
  int gone = 0;
  for (const auto& channel : silent) {
    std::byte room[1];
    const auto read = channel->read(room, Nanos(0));
    gone += read && *read == 0 ? 1 : 0;
  }
  EXPECT_GE(gone, 60 - 8);
  // Each is counted: those that made room, and the wrong token.
  ASSERT_TRUE(soon([&](const ServerState&) {
    return metric(files.read(options.metrics_file).value_or(""), "bad_hellos_total") ==
           fmt::format("bad_hellos_total {}", gone + 1);
  }));
}

// Up to the limit all are waited for; beyond it the first of the address that has most goes.
TEST_F(BrokerTest, OneSilentClientTooManyCostsItsOwnAddressOne) {
  options.greeting = 4;
  options.hello_patience = seconds(600);
  for (const int silent : {2, 3}) {
    start_at("tcp:127.0.0.1:0");
    const Descriptor alone(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in where{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
    ASSERT_EQ(::inet_pton(AF_INET, "127.0.0.2", &where.sin_addr), 1);
    ASSERT_EQ(::bind(alone.get(), reinterpret_cast<sockaddr*>(&where), sizeof where), 0);
    ASSERT_EQ(::inet_pton(AF_INET, "127.0.0.1", &where.sin_addr), 1);
    where.sin_port =
        ::htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    ASSERT_EQ(::connect(alone.get(), reinterpret_cast<sockaddr*>(&where), sizeof where), 0);
    std::vector<std::unique_ptr<Guest>> others;
    for (int i = 0; i < silent; ++i) others.push_back(std::make_unique<Guest>(address));
    Guest guest(address);
    ASSERT_EQ(guest.hello().outcome.status, 0) << guest.client->said;
    std::string text;
    ASSERT_TRUE(soon([&](const ServerState&) {
      text = files.read(options.metrics_file).value_or("");
      return metric(text, "sessions_total") == "sessions_total 1";
    }));
    EXPECT_EQ(metric(text, "bad_hellos_total"),
              silent == 3 ? "bad_hellos_total 1" : "bad_hellos_total 0");
    std::byte room[1];
    const auto gone = [&](Guest& one) {
      const auto read = one.channel->read(room, Nanos(0));
      return read && *read == 0;
    };
    EXPECT_EQ(gone(*others[0]), silent == 3);
    EXPECT_FALSE(gone(*others[1]));
    EXPECT_EQ(::recv(alone.get(), room, 1, MSG_DONTWAIT), -1) << "it is alone of its address";
    finish();
  }
}

// A hello is the first frame, whole, with a number to be answered by, and alone.
TEST_F(BrokerTest, WhatIsNoHelloIsGoneAndCounted) {
  options.hello_patience = seconds(600);
  start();
  const Hello hello{.table = protocol_hash()};
  const auto gone_after = [&](auto write) {
    Guest guest(address);
    FrameWriter writer(*guest.channel, seconds(1));
    EXPECT_TRUE(write(writer) && writer.flush());
    return !guest.client->read();
  };
  EXPECT_TRUE(gone_after([&](FrameWriter& w) { return w.put(hello, 0); }));
  EXPECT_TRUE(gone_after([&](FrameWriter& w) { return w.put(Ping{}, 1); }));
  EXPECT_TRUE(gone_after([&](FrameWriter& w) { return w.put(hello, 1, bytes_of("more")); }));
  EXPECT_TRUE(gone_after([&](FrameWriter& w) { return w.put(hello, 1) && w.put(Ping{}, 2); }));
  EXPECT_TRUE(gone_after([&](FrameWriter& w) {
    return w.put_raw({.body_bytes = 4, .code = Hello::kSpec.code, .request = 1}, bytes_of("half"));
  }));
  ASSERT_TRUE(soon([&](const ServerState&) {
    return metric(files.read(options.metrics_file).value_or(""), "bad_hellos_total") ==
           "bad_hellos_total 5";
  }));
}

// The process that makes workers is the server's own business: what is typed at its terminal does
// not end it, and without it the server is none.
TEST_F(BrokerTest, TheMakerOfWorkersHeedsNobodyAndIsMissed) {
  ends = "the process that makes workers has ended";
  start();
  const auto zygote = [&] {
    Guest guest(address);
    EXPECT_TRUE(guest.hello().came);
    long parent = 0;
    soon([&](const ServerState& s) {
      if (s.sessions.empty() || s.sessions[0].worker_pid <= 0) return false;
      std::ifstream status(fmt::format("/proc/{}/status", s.sessions[0].worker_pid));
      for (std::string word; status >> word;)
        if (word == "PPid:") status >> parent;
      return true;
    });
    guest.channel->shut();
    soon([](const ServerState& s) { return s.sessions.empty(); });
    return static_cast<pid_t>(parent);
  };
  const pid_t maker = zygote();
  ASSERT_GT(maker, 1);
  for (const int signal : {SIGINT, SIGHUP, SIGPIPE}) {
    ::kill(maker, signal);
    EXPECT_EQ(zygote(), maker) << signal;
  }
  ::kill(maker, SIGKILL);
  thread.join();
  thread = std::thread([] {});
}

// A worker that cannot open its part anew says why, and another one takes its place.
TEST_F(BrokerTest, APartThatCannotBeOpenedAnewIsNamed) {
  options.parts = {{"b", "CPU-2", 2}};
  const auto open = options.worker.open;
  options.worker.open = [open](const Part& part, int units, std::uint32_t flags) {
    if (units == 2) return open(part, units, flags);
    return Result<std::unique_ptr<DeviceBackend>>(environment_error("", "one is too few"));
  };
  start();
  Guest narrow(address);
  EXPECT_NE(narrow.hello("CPU-1").outcome.status, 0);
  EXPECT_THAT(narrow.client->said, HasSubstr("one is too few"));
  Guest wide(address);
  EXPECT_EQ(wide.hello("CPU-2").outcome.status, 0) << wide.client->said;
}

// What one client's worker was sent the next one's has, and nobody else may look.
TEST_F(BrokerTest, ImagesAreKeptBetweenSessions) {
  options.worker.images = folder / "images";
  start();
  const Digest digest = digest_of(bytes_of("fake"));
  for (const std::uint32_t have : {0u, 1u}) {
    Guest guest(address);
    ASSERT_TRUE(guest.hello().came);
    EXPECT_EQ(guest.client->ask(ModuleHave{digest}).reply.have, have);
    guest.client->send(ModulePut{digest, 0, 4}, bytes_of("fake"));
    EXPECT_EQ(guest.client->ask(ModuleHave{digest}).reply.have, 1u);
    guest.client->send(ModuleLoad{{1}, digest});
    guest.client->send(KernelOpen{{1}, {1}, "nothing", {}});
    guest.client->send(Launch{.kernel = {1}});
    EXPECT_EQ(guest.client->ask(Fence{}).outcome, Outcome{}) << guest.client->said;
  }
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(options.worker.images).permissions(), perms::owner_all);
  ASSERT_TRUE(soon([&](const ServerState&) {
    return metric(files.read(options.metrics_file).value_or(""), "launches_total") ==
           "launches_total 2";
  }));
}

// Who waits may ask whether we live, and nothing else.
TEST_F(BrokerTest, WhoWaitsMayOnlyPing) {
  options.parts = {{"a", "CPU-1", 1}};
  start();
  Guest first(address), hasty(address), next(address);
  ASSERT_TRUE(first.hello().came);
  for (Guest* one : {&hasty, &next}) {
    one->client->ask_later(Hello{.table = protocol_hash()});
    ASSERT_TRUE(one->client->read());
  }
  EXPECT_EQ(hasty.client->ask(Ping{}).outcome, Outcome{});
  EXPECT_FALSE(hasty.client->ask(Fence{}).came);
  first.channel->shut();
  while (!next.client->answers.contains(1)) ASSERT_TRUE(next.client->read());
  EXPECT_EQ(next.client->answer_of<Hello>(1).outcome.status, 0);
  std::string text;
  ASSERT_TRUE(soon([&](const ServerState&) {
    text = files.read(options.metrics_file).value_or("");
    return metric(text, "sessions_total") == "sessions_total 2";
  }));
  EXPECT_EQ(metric(text, "bad_hellos_total"), "bad_hellos_total 0") << "theirs were good";
}

TEST_F(BrokerTest, ClientsWaitWithTheirPlace) {
  start("socket:");
  Guest first(address), second(address), third(address), fourth(address);
  ASSERT_TRUE(first.hello().came);
  ASSERT_TRUE(second.hello().came);
  third.client->ask_later(Hello{.table = protocol_hash()});
  ASSERT_TRUE(third.client->read());
  ASSERT_EQ(third.client->notices.size(), 1u);
  EXPECT_EQ(decode<Waiting>(third.client->notices[0].body)->place, 1u);
  fourth.client->ask_later(Hello{.table = protocol_hash()});
  ASSERT_TRUE(fourth.client->read());
  EXPECT_EQ(decode<Waiting>(fourth.client->notices[0].body)->place, 2u);
  EXPECT_TRUE(fourth.client->ask(Ping{}).came);  // who waits may ask whether we live
  const auto begun = SteadyClock::now();
  first.channel->shut();  // as a killed client's
  while (third.client->answers.empty()) ASSERT_TRUE(third.client->read());
  EXPECT_EQ(third.client->answer_of<Hello>(1).outcome.status, 0);
  EXPECT_LT(ms_since(begun), 10'000);  // about 2 here
  third.channel.reset();
  third.client.reset();
  while (!fourth.client->answers.contains(1)) ASSERT_TRUE(fourth.client->read());
  EXPECT_EQ(fourth.client->answer_of<Hello>(1).outcome.status, 0);
}

// Makes parts of shape "2g"; there is room for one, and each takes a while.
class SlowMaker final : public PartMaker {
 public:
  explicit SlowMaker(std::atomic<int>& there) : there_(there) {}
  ~SlowMaker() override { EXPECT_EQ(there_, 0); }
  std::vector<std::string> shapes() override { return {"2g"}; }
  Result<std::string> make(const std::string&) override {
    std::this_thread::sleep_for(milliseconds(200));
    if (there_ == 1) return failed({ErrorCode::no_room, "the GPU is full", ""});
    ++there_;
    return "MIG-" + std::to_string(++made_);
  }
  Result<void> unmake(const std::string& name) override {
    EXPECT_EQ(name, "MIG-" + std::to_string(made_));
    --there_;
    return {};
  }

 private:
  std::atomic<int>& there_;
  int made_ = 0;
};

TEST_F(BrokerTest, PartsAreMadeForSessionsAndNobodyElseWaits) {
  std::atomic<int> there = 0;
  options.open_maker = [&]() -> Result<std::unique_ptr<PartMaker>> {
    return std::make_unique<SlowMaker>(there);
  };
  start();
  Guest first(address), other(address);
  first.client->ask_later(Hello{.table = protocol_hash(), .shape = "2g"});
  const auto begun = SteadyClock::now();
  EXPECT_EQ(other.hello().outcome.status, 0);  // on what is there, while that is made
  RecordProperty("beside_ms", std::to_string(ms_since(begun)));
  while (first.client->answers.empty()) ASSERT_TRUE(first.client->read());
  EXPECT_EQ(first.client->answer_of<Hello>(1).outcome.status, 0);
  ASSERT_TRUE(soon([](const ServerState& s) { return s.sessions.size() == 2 && s.parts == 3; }));
  EXPECT_EQ(there, 1);
  // The second waits until the first has gone.
  Guest second(address);
  second.client->ask_later(Hello{.table = protocol_hash(), .shape = "2g"});
  ASSERT_TRUE(second.client->read());
  ASSERT_FALSE(second.client->notices.empty());
  EXPECT_EQ(decode<Waiting>(second.client->notices[0].body)->place, 1u);
  first.channel->shut();
  while (second.client->answers.empty()) ASSERT_TRUE(second.client->read());
  EXPECT_EQ(second.client->answer_of<Hello>(1).outcome.status, 0);
  ASSERT_TRUE(soon([](const ServerState& s) {
    return std::ranges::any_of(s.sessions, [](const SessionEntry& e) { return e.part == "MIG-1"; });
  }));
  second.channel->shut();
  ASSERT_TRUE(soon([&](const ServerState& s) { return s.parts == 2 && there == 0; }));
  // A server that goes down gives back what is lent then.
  Guest last(address);
  EXPECT_EQ(last.hello("2g").outcome.status, 0);
  EXPECT_EQ(there, 1);
  finish();
  EXPECT_EQ(there, 0);
}

// A maker that always says no.
class NoMaker final : public PartMaker {
 public:
  explicit NoMaker(std::atomic<int>& asked) : asked_(asked) {}
  std::vector<std::string> shapes() override { return {"CPU-1"}; }
  Result<std::string> make(const std::string&) override {
    ++asked_;
    return environment_error("mig", "no rights");
  }
  Result<void> unmake(const std::string&) override { return {}; }

 private:
  std::atomic<int>& asked_;
};

// Who waits for a part that is there has another one asked for now and then, not all the time.
TEST_F(BrokerTest, AMakerThatSaysNoIsLeftInPeaceForAWhile) {
  std::atomic<int> asked = 0;
  options.open_maker = [&]() -> Result<std::unique_ptr<PartMaker>> {
    return std::make_unique<NoMaker>(asked);
  };
  options.ask_again = milliseconds(300);
  start();
  Guest first(address), second(address), waiting(address);
  ASSERT_TRUE(first.hello().came && second.hello().came);
  const auto begun = SteadyClock::now();
  waiting.client->ask_later(Hello{.table = protocol_hash(), .shape = "CPU-1"});
  ASSERT_TRUE(soon([&](const ServerState&) { return asked == 4; }));
  EXPECT_GE(ms_since(begun), 900) << "asked at once, and three times after a pause";
  first.channel->shut();
  while (waiting.client->answers.empty()) ASSERT_TRUE(waiting.client->read());
  EXPECT_EQ(waiting.client->answer_of<Hello>(1).outcome.status, 0);
}

TEST_F(BrokerTest, ShapesTokensAndGarbage) {
  options.token = "open sesame";
  options.parts.push_back({"c", "broken", 0});
  options.limits.warm = 0;
  start("socket:");
  Guest wrong(address), unknown(address), narrow(address), silent(address), garbage(address);
  EXPECT_NE(wrong.hello("", "sesame").outcome.status, 0);
  EXPECT_THAT(wrong.client->said, HasSubstr("the token is not the server's"));
  EXPECT_NE(unknown.hello("1g.5gb", "open sesame").outcome.status, 0);
  EXPECT_THAT(unknown.client->said, HasSubstr("no part of shape 1g.5gb\n"));
  EXPECT_EQ(narrow.hello("CPU-2", "open sesame").outcome.status, 0);
  ASSERT_TRUE(soon([](const ServerState& s) { return s.sessions.size() == 1; }));
  EXPECT_EQ(state().sessions[0].part, "b");
  std::vector<std::byte> noise(100'000, std::byte{0x5a});
  const std::span<const std::byte> part(noise);
  static_cast<void>(garbage.channel->write({&part, 1}, milliseconds(200)));
  EXPECT_FALSE(garbage.client->read());
  EXPECT_FALSE(silent.client->read());  // no hello in time
  Guest burning(address);
  EXPECT_NE(burning.hello("broken", "open sesame").outcome.status, 0);
  EXPECT_THAT(burning.client->said, HasSubstr("the device is on fire"));
  EXPECT_TRUE(narrow.client->ask(Ping{}).came);
  ASSERT_TRUE(soon([&](const ServerState&) {
    const std::string text = files.read(options.metrics_file).value_or("");
    return metric(text, "bad_hellos_total") == "bad_hellos_total 3" &&
           metric(text, "denied_total") == "denied_total 2";
  })) << "a wrong token, noise and silence; a shape that is none, and a fire";
}

TEST_F(BrokerTest, WorkersThatDieAndSessionsThatAreStopped) {
  start();
  Guest killed(address), stopped(address);
  ASSERT_TRUE(killed.hello().came);
  ASSERT_TRUE(stopped.hello().came);
  ASSERT_TRUE(soon([](const ServerState& s) { return s.sessions.size() == 2; }));
  for (const SessionEntry& session : state().sessions)
    ::kill(static_cast<pid_t>(session.worker_pid), session.session == 1 ? SIGKILL : SIGTERM);
  EXPECT_FALSE(killed.client->ask(Fence{}).came);
  EXPECT_FALSE(stopped.client->ask(Fence{}).came && stopped.client->ask(Fence{}).came);
  EXPECT_THAT(stopped.client->said, HasSubstr("it was stopped"));
  Guest next(address), another(address);
  EXPECT_EQ(next.hello().outcome.status, 0);
  EXPECT_EQ(another.hello().outcome.status, 0);
}

TEST_F(BrokerTest, LimitsOfTime) {
  options.worker.idle_limit = milliseconds(300);
  start();
  Guest idle(address);
  ASSERT_TRUE(idle.hello().came);
  EXPECT_TRUE(idle.client->ask(Fence{}).came);
  EXPECT_FALSE(idle.client->read() && idle.client->read());
  EXPECT_THAT(idle.client->said, HasSubstr("nothing was asked for too long"));
}

TEST_F(BrokerTest, WhoAsksIsNotIdleButHasAnEndAllTheSame) {
  options.worker.idle_limit = milliseconds(400);
  options.worker.wall_limit = milliseconds(1200);
  start();
  Guest busy(address);
  ASSERT_TRUE(busy.hello().came);
  const auto begun = SteadyClock::now();
  while (busy.client->ask(Fence{}).came) std::this_thread::sleep_for(milliseconds(50));
  EXPECT_THAT(busy.client->said, HasSubstr("the session's time is over"));
  EXPECT_GE(ms_since(begun), 1000);
  EXPECT_LT(ms_since(begun), 10'000);
}

// What a worker is left with: checked in a child that is confined; 0: all as it should be.
int confined(const SandboxOptions& how, const std::function<int()>& check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(confine(how) ? check() : 99);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

int limits_and_rights() {
  rlimit core{}, open{};
  // In the strictest even that may not be asked.
  const bool told = ::getrlimit(RLIMIT_CORE, &core) == 0 && ::getrlimit(RLIMIT_NOFILE, &open) == 0;
  if (told && (core.rlim_max != 0 || open.rlim_cur != 1024 || open.rlim_max != 1024)) return 3;
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) return 5;
  if (::prctl(PR_GET_DUMPABLE) != 0) return 6;
  int deadly = 0;
  if (::prctl(PR_GET_PDEATHSIG, &deadly) != 0 || deadly != SIGKILL) return 7;
  return 0;
}

// Workers are confined: a program cannot be started from one, and neither can a socket be opened.
TEST_F(BrokerTest, WorkersAreConfined) {
  const auto socket = [] { return ::socket(AF_INET, SOCK_STREAM, 0) >= 0 ? 4 : 0; };
  const auto program = [] {
    ::execl("/bin/true", "true", static_cast<char*>(nullptr));
    return 8;
  };
  for (const Confinement how : {Confinement::none, Confinement::driver, Confinement::strict}) {
    EXPECT_EQ(confined({.confinement = how}, limits_and_rights), 0);
    EXPECT_EQ(confined({.confinement = how}, socket), how == Confinement::strict ? 0 : 4);
    EXPECT_EQ(confined({.confinement = how}, program), how == Confinement::none ? 0 : 256 + SIGSYS);
  }
#ifdef __x86_64__
  // Nor by another door: the numbers of other programs' calls mean other things.
  const auto of_32_bits = [] {
    int answer = 20;  // getpid
    asm volatile("int $0x80" : "+a"(answer) : : "memory");
    return 8;
  };
  const auto of_x32 = [] { return ::syscall(0x4000'0000 | SYS_getpid) >= 0 ? 8 : 9; };
  for (const Confinement how : {Confinement::driver, Confinement::strict}) {
    EXPECT_THAT(confined({.confinement = how}, of_32_bits),
                ::testing::AnyOf(256 + SIGSYS, 256 + SIGSEGV));  // or the kernel knows none
    EXPECT_EQ(confined({.confinement = how}, of_x32), 256 + SIGSYS);
  }
#endif
  if (::getuid() != 0) return;
  const auto nobody = [] {
    const bool all = ::getuid() == 1234 && ::geteuid() == 1234 && ::getgid() == 4321 &&
                     ::getegid() == 4321 && ::getgroups(0, nullptr) == 0;
    return all ? limits_and_rights() : 9;
  };
  EXPECT_EQ(confined({.confinement = Confinement::none, .uid = 1234, .gid = 4321}, nobody), 0);
  const auto same = [] { return ::getgid() == 1234 ? 0 : 10; };
  EXPECT_EQ(confined({.confinement = Confinement::none, .uid = 1234}, same), 0);
}

// A part is opened as it is asked for: with so many of its units, and with the client's checks.
TEST_F(BrokerTest, PartsAreOpenedAsTheyAreAskedFor) {
  start();
  const auto opened = [&](std::string_view shape, std::uint32_t flags) {
    Guest guest(address);
    const auto hello = guest.hello(shape, {}, flags);
    EXPECT_EQ(hello.outcome.status, 0) << guest.client->said;
    return hello.reply.total_memory - (std::uint64_t{64} << 20);
  };
  EXPECT_EQ(opened("CPU-2", 0), 200u);
  EXPECT_EQ(opened("CPU-2", 3), 1203u) << "anew, with the checks";
  ASSERT_TRUE(soon([](const ServerState& s) { return s.sessions.empty(); }));
  Guest narrow(address);  // takes the smaller part
  EXPECT_EQ(narrow.hello("CPU-1").reply.total_memory - (std::uint64_t{64} << 20), 100u);
  EXPECT_EQ(opened("CPU-1", 0), 1100u) << "one of the two units of the other";
}

TEST_F(BrokerTest, TheStateSaysWhoIsThere) {
  options.backend = "fake";
  const long begun = static_cast<long>(std::time(nullptr));
  start();
  ASSERT_TRUE(soon([](const ServerState& s) { return s.ready == 1 && s.parts == 2; }));
  Guest guest(address);
  ASSERT_TRUE(guest.hello("CPU-1").came);
  guest.client->send(Alloc{{kFakeArena}, 512});
  guest.client->send(Free{{kFakeArena + 256}});
  guest.client->ask(Fence{});
  ASSERT_TRUE(soon([](const ServerState& s) {
    return s.sessions.size() == 1 && s.sessions[0].refused == 1 && s.sessions[0].memory == 512;
  }));
  const ServerState now = state();
  EXPECT_EQ(now.pid, ::getpid());
  EXPECT_EQ(now.identity, RealProcesses().identity(::getpid()));
  EXPECT_EQ(now.address, address);
  EXPECT_EQ(now.backend, "fake");
  const SessionEntry& session = now.sessions[0];
  EXPECT_EQ(session.session, 1u);
  EXPECT_EQ(session.part, "a");
  EXPECT_EQ(session.shape, "CPU-1");
  EXPECT_EQ(session.program, "guest");
  EXPECT_EQ(session.client_pid, 4711u);
  EXPECT_NE(session.address, "");
  EXPECT_NE(session.worker_pid, now.pid);
  EXPECT_EQ(session.worker_identity, RealProcesses().identity(session.worker_pid));
  EXPECT_GE(session.begun_s, begun);
  EXPECT_LE(session.begun_s, begun + 60);
  guest.channel->shut();
  ASSERT_TRUE(soon([](const ServerState& s) { return s.sessions.empty(); }));
  // What it did is not forgotten.
  ASSERT_TRUE(soon([&](const ServerState&) {
    const std::string text = files.read(options.metrics_file).value_or("");
    return text.find("partita_remote_sessions 0\n") != text.npos &&
           text.find("partita_remote_refused_total 1\n") != text.npos &&
           text.find("partita_remote_operations_total 3\n") != text.npos;
  }));
  const std::string text = files.read(options.metrics_file).value_or("");
  EXPECT_THAT(text, HasSubstr("partita_remote_sessions_total 1\n"));
  EXPECT_THAT(text, HasSubstr("partita_remote_memory_bytes 0\n"));
}

TEST_F(BrokerTest, WhatClientsSayOfThemselvesIsBounded) {
  start();
  Guest guest(address);
  const std::string longest(300, 'x');
  guest.client->ask(Hello{.table = protocol_hash(), .program = longest});
  ASSERT_TRUE(soon([](const ServerState& s) { return s.sessions.size() == 1; }));
  EXPECT_EQ(state().sessions[0].program, std::string(200, 'x'));
}

// Sessions hear why they end, nobody comes in any more, and who does not end is killed.
TEST_F(BrokerTest, GoingDownEndsWhatRunsInTime) {
  options.stop_patience = milliseconds(300);
  start();
  Guest running(address), stuck(address), waiting(address);
  ASSERT_TRUE(running.hello().came);
  ASSERT_TRUE(stuck.hello().came);
  waiting.client->ask_later(Hello{.table = protocol_hash()});
  ASSERT_TRUE(soon([](const ServerState& s) {
    return s.sessions.size() == 2 && s.waiting == 1 && s.sessions[1].worker_pid > 0;
  }));
  const long stopped = state().sessions[1].worker_pid;
  ::kill(static_cast<pid_t>(stopped), SIGSTOP);
  const auto begun = SteadyClock::now();
  ::eventfd_write(stop->get(), 1);
  while (running.client->ask(Fence{}).came) continue;
  EXPECT_THAT(running.client->said, HasSubstr("the session ends: it was stopped"));
  while (waiting.client->answers.empty()) ASSERT_TRUE(waiting.client->read());
  EXPECT_THAT(waiting.client->said, HasSubstr("the server is going down"));
  EXPECT_FALSE(Guest(address).channel) << "nobody listens";
  thread.join();
  EXPECT_GE(ms_since(begun), 290);
  EXPECT_LT(ms_since(begun), 10'000);
  broker.reset();
  const auto gone = [&](const ServerState&) { return ::kill(static_cast<pid_t>(stopped), 0) != 0; };
  EXPECT_TRUE(soon(gone)) << "it was killed, and takes a moment to end";
}

// What cannot be begun is said, and nothing of it stays.
TEST_F(BrokerTest, WhatCannotBeOpenedLeavesNothing) {
  const auto refusal = [&](const std::string& where) {
    const auto opened = Broker::open(where, options, files);
    EXPECT_FALSE(opened);
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was left";
    return opened ? std::string() : opened.error().message;
  };
  const std::string where = "unix:" + (folder / "sock").string();
  options.begin_beside = []() -> Result<std::shared_ptr<void>> {
    return environment_error("mps", "no daemon");
  };
  EXPECT_EQ(refusal(where), "no daemon");
  options.begin_beside = {};
  options.open_maker = []() -> Result<std::unique_ptr<PartMaker>> {
    return environment_error("mig", "no rights");
  };
  EXPECT_EQ(refusal(where), "no rights");
  options.open_maker = {};
  EXPECT_NE(refusal("unix:" + (folder / "none/sock").string()), "");
}

// Once a client has its worker, nobody else reads what it says.
TEST_F(BrokerTest, WhatAClientSaysIsForItsWorkerAlone) {
  start();
  Guest guest(address);
  ASSERT_TRUE(guest.hello().came);
  ASSERT_TRUE(soon(
      [](const ServerState& s) { return s.sessions.size() == 1 && s.sessions[0].worker_pid > 0; }));
  const auto worker = static_cast<pid_t>(state().sessions[0].worker_pid);
  ASSERT_EQ(::kill(worker, SIGSTOP), 0);
  const std::uint32_t fenced = guest.client->ask_later(Fence{});
  std::this_thread::sleep_for(milliseconds(300));
  ASSERT_EQ(::kill(worker, SIGCONT), 0);
  EXPECT_TRUE(guest.client->read()) << guest.client->error;
  EXPECT_TRUE(guest.client->answer_of<Fence>(fenced).came);
}

// What was begun beside the parts lives as long as the server.
TEST_F(BrokerTest, WhatIsBegunBesideItLivesAsLong) {
  std::weak_ptr<void> beside;
  options.begin_beside = [&]() -> Result<std::shared_ptr<void>> {
    const auto daemon = std::make_shared<int>(1);
    beside = daemon;
    return daemon;
  };
  start();
  EXPECT_FALSE(beside.expired());
  finish();
  EXPECT_TRUE(beside.expired());
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "nor is a process left";
}

// The server is killed: its workers end with it, and another takes over its address.
TEST_F(BrokerTest, AKilledServerLeavesNothing) {
  const pid_t child = ::fork();
  if (child == 0) {
    start("socket:");
    thread.join();
    ::_exit(0);
  }
  address = "socket:" + (folder / "sock").string();
  std::unique_ptr<Guest> guest;
  for (int tries = 0; tries < 2000 && (guest == nullptr || guest->channel == nullptr); ++tries) {
    std::this_thread::sleep_for(milliseconds(5));
    guest = std::make_unique<Guest>(address);
  }
  ASSERT_TRUE(guest->channel);
  ASSERT_TRUE(guest->hello().came);
  ASSERT_TRUE(soon(
      [](const ServerState& s) { return s.sessions.size() == 1 && s.sessions[0].worker_pid > 0; }));
  const long worker = state().sessions[0].worker_pid;
  const auto begun = SteadyClock::now();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(guest->client->ask(Fence{}).came);
  EXPECT_LT(ms_since(begun), 10'000);
  for (int tries = 0; tries < 2000 && ::kill(static_cast<pid_t>(worker), 0) == 0; ++tries)
    std::this_thread::sleep_for(milliseconds(5));
  EXPECT_NE(::kill(static_cast<pid_t>(worker), 0), 0);
  start("socket:");
  Guest next(address);
  EXPECT_EQ(next.hello().outcome.status, 0);
}

}  // namespace
}  // namespace partita::remote::server
