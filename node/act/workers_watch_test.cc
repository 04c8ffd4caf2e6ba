// Whether workers answer: probes and the gateway's word, on simulated processes and a clock; and
// HTTP probes at a real socket.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "act/workers.h"
#include "base/descriptor.h"

namespace partita::actuate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kWatchSecond = 1'000'000'000;

// One worker, a probe for it, and a switch for what it answers.
struct Watched {
  enum class Mood { well, ill, mute };
  ManualClock clock;
  MemoryFiles files;
  Mood mood = Mood::well;
  bool heeds = true;
  bool startable = true;  // are probes
  std::int64_t poll_ns = WorkerPolicy{}.poll_ns;
  int probes = 0;
  SimProcesses processes{clock, [this](const ProcessSpec& spec) { return behaviour(spec); }};
  std::optional<GatewayState> gateway;
  std::vector<plan::Terms> services;
  std::vector<std::string> log;
  std::optional<WorkerProbe> probe;
  std::unique_ptr<Supervisor> supervisor;

  SimBehaviour behaviour(const ProcessSpec& spec) {
    if (spec.argv[0] == "worker") return {.heeds_terminate = heeds};
    ++probes;
    if (!startable) return {.refused = Error{ErrorCode::environment, "no such program", "probe"}};
    EXPECT_FALSE(spec.environment.contains(kWorkerVariable));
    if (mood == Mood::mute) return {};
    return {.run_ns = kWatchSecond / 20, .status = mood == Mood::well ? 0 : 1};
  }

  void start() {
    SupervisorOptions options{.command = parse_command("c", "worker").value(),
                              .state_file = "/s/workers.json",
                              .log_dir = ""};
    options.policy.grace_ns = 2 * kWatchSecond;
    options.policy.startup_ns = 20 * kWatchSecond;
    options.policy.poll_ns = poll_ns;
    options.probe = probe;
    options.hooks.gateway = [this] { return gateway; };
    options.hooks.say = [this](const std::string& line) { log.push_back(line); };
    supervisor = std::make_unique<Supervisor>(processes, files, std::move(options));
    ASSERT_TRUE(supervisor->recover(clock.now));
    Assignment assignment;
    assignment.segments = {{{"1g.10gb", 0}, {"a", 4, 1, 0}, "MIG-1", "GPU"}};
    assignment.services = services;
    supervisor->follow(assignment);
    run_for(0);
  }
  void run_for(std::int64_t ns) {
    for (const std::int64_t until = clock.now + ns; clock.now <= until;)
      clock.now = supervisor->step(clock.now);
  }
  long workers() {
    const auto running = processes.running();
    return std::ranges::count_if(
        running, [](const auto& one) { return one.second.spec.argv[0] == "worker"; });
  }
  WorkerRecord worker() const { return supervisor->state().workers.at(0); }
};

WorkerProbe command_probe() { return {parse_command("p", "probe {service}").value()}; }

TEST(WorkersWatch, StreamsAreWaitedFor) {
  for (const bool end : {true, false}) {
    Watched world;
    world.start();
    GatewayWorker told{.device = "MIG-1", .service = "a", .pid = world.worker().pid};
    const auto says = [&](WorkerReadiness state, int open) {
      told.state = state;
      told.open = open;
      world.gateway.emplace().workers = {told};
    };
    says(WorkerReadiness::ready, 0);
    world.supervisor->stop_all();
    world.run_for(kWatchSecond);
    EXPECT_EQ(world.workers(), 1) << "the gateway may send it more";
    EXPECT_EQ(world.worker().answering, Answering::leaving);
    says(WorkerReadiness::leaving, 3);
    world.run_for(40 * kWatchSecond);
    EXPECT_EQ(world.workers(), 1);
    if (end) says(WorkerReadiness::leaving, 0);
    world.run_for((end ? 1 : 15) * kWatchSecond);
    EXPECT_EQ(world.workers(), 0);
  }
}

// Engines take their time, and whoever waits for one that is started again wants to know how much.
TEST(WorkersWatch, HowLongAStartTookIsKnownWhenItIsStartedAgain) {
  Watched world;
  world.start();
  world.gateway.emplace();
  world.run_for(30 * kWatchSecond);
  EXPECT_EQ(world.worker().answering, Answering::starting);
  EXPECT_EQ(world.worker().start_s, std::nullopt);
  world.gateway->workers = {{.device = "MIG-1", .service = "a", .pid = world.worker().pid}};
  world.run_for(kWatchSecond);
  ASSERT_TRUE(world.worker().start_s);
  EXPECT_NEAR(*world.worker().start_s, 30, 1);
  world.run_for(60 * kWatchSecond);
  EXPECT_NEAR(*world.worker().start_s, 30, 1);
  ASSERT_TRUE(world.processes.stop(world.worker().pid, StopSignal::kill));
  world.gateway->workers.clear();
  world.run_for(5 * kWatchSecond);
  EXPECT_EQ(world.worker().restarts, 1);
  EXPECT_EQ(world.worker().answering, Answering::starting);
  EXPECT_NEAR(*world.worker().start_s, 30, 1);
}

// Answers of 2,000 tokens of 50 ms: 100 s, also when the service is no longer wanted.
TEST(WorkersWatch, LongStreamsAreWaitedForLonger) {
  Watched world;
  plan::Terms& terms = world.services.emplace_back();
  terms.name = "a";
  terms.tokens = plan::TokenTerms{.ttft = Millis{500}, .tpot = Millis{50}};
  terms.tokens->lengths = plan::TokenPair{10, 2000};
  world.start();
  world.gateway.emplace().workers = {{.device = "MIG-1",
                                      .service = "a",
                                      .pid = world.worker().pid,
                                      .state = WorkerReadiness::leaving,
                                      .open = 1}};
  world.supervisor->follow({});
  world.run_for(98 * kWatchSecond);
  EXPECT_EQ(world.workers(), 1);
  world.run_for(5 * kWatchSecond);
  EXPECT_EQ(world.workers(), 0);
}

// Nobody is waited for of whom the gateway does not say that it may stream.
TEST(WorkersWatch, WithoutStreamsNobodyIsWaitedFor) {
  using Told = std::pair<WorkerReadiness, std::optional<int>>;
  const Told plain{WorkerReadiness::ready, std::nullopt}, silent{WorkerReadiness::silent, 3},
      idle{WorkerReadiness::leaving, 0};
  for (const std::optional<Told>& told :
       {std::optional(plain), std::optional(silent), std::optional(idle), std::optional<Told>()}) {
    Watched world;
    world.start();
    world.gateway.emplace();
    if (told)
      world.gateway->workers = {
          {"MIG-1", 0, "a", world.worker().pid, told->first, 0, told->second}};
    world.supervisor->stop_all();
    world.run_for(kWatchSecond);
    EXPECT_EQ(world.workers(), 0);
  }
}

TEST(WorkersWatch, TheFirstProbeComesAfterAPeriod) {
  Watched world;
  world.probe = command_probe();
  world.start();
  world.run_for(kWatchSecond * 7 / 10);
  EXPECT_EQ(world.probes, 0);
  world.run_for(kWatchSecond / 5);
  EXPECT_EQ(world.probes, 1);
}

TEST(WorkersWatch, AWorkerThatAnswersIsLeftAlone) {
  for (const std::int64_t poll_ns : {WorkerPolicy{}.poll_ns, 1000 * kWatchSecond}) {
    Watched world;
    world.probe = command_probe();
    world.poll_ns = poll_ns;  // probes come when they are due all the same
    world.start();
    const Pid pid = world.worker().pid;
    EXPECT_EQ(world.worker().answering, Answering::starting);
    world.run_for(100 * kWatchSecond);
    EXPECT_EQ(world.worker().pid, pid);
    EXPECT_EQ(world.worker().answering, Answering::ready);
    EXPECT_GT(world.probes, 80);  // one in 1.05 s, and the time until that is noticed
    EXPECT_LT(world.probes, 100);
    EXPECT_EQ(world.workers(), 1);
  }
}

TEST(WorkersWatch, OneThatFailsItsProbesIsReplacedAndComesBack) {
  for (const Watched::Mood mood : {Watched::Mood::ill, Watched::Mood::mute}) {
    for (const bool heeds : {true, false}) {
      Watched world;
      world.probe = command_probe();
      world.heeds = heeds;
      world.start();
      const Pid pid = world.worker().pid;
      world.run_for(30 * kWatchSecond);
      world.mood = mood;
      world.run_for(kWatchSecond * 5 / 2);
      EXPECT_EQ(world.worker().answering, Answering::silent);
      EXPECT_EQ(world.worker().pid, pid);  // two failures may be chance
      // Three failures take 1.05 s each, or 2 s where nothing comes.
      world.run_for(kWatchSecond * (mood == Watched::Mood::ill ? 3 : 9) / 2);
      EXPECT_EQ(world.processes.alive(pid), !heeds);
      world.mood = Watched::Mood::well;
      world.run_for(10 * kWatchSecond);
      EXPECT_FALSE(world.processes.alive(pid));
      EXPECT_NE(world.worker().pid, pid);
      EXPECT_EQ(world.worker().answering, Answering::ready);
      EXPECT_EQ(world.worker().restarts, 1);
      EXPECT_EQ(world.workers(), 1);
    }
  }
}

// Of a worker that has ended nothing is held against the next one.
TEST(WorkersWatch, MissesAreOfOneProcess) {
  Watched world;
  world.probe = command_probe();
  world.start();
  world.run_for(30 * kWatchSecond);
  world.mood = Watched::Mood::ill;
  world.run_for(kWatchSecond * 5 / 2);  // two of three
  world.processes.crash(world.worker().pid, 1);
  world.mood = Watched::Mood::well;
  world.run_for(30 * kWatchSecond);
  const Pid pid = world.worker().pid;
  EXPECT_EQ(world.worker().answering, Answering::ready);
  world.mood = Watched::Mood::ill;
  world.run_for(kWatchSecond * 5 / 2);
  EXPECT_EQ(world.worker().answering, Answering::silent);
  EXPECT_EQ(world.worker().pid, pid);
}

TEST(WorkersWatch, OneThatNeverAnswersHasTheTimeToStart) {
  Watched world;
  world.clock.now = 1000 * kWatchSecond;
  world.probe = command_probe();
  world.mood = Watched::Mood::ill;
  world.start();
  const Pid pid = world.worker().pid;
  world.run_for(19 * kWatchSecond);
  EXPECT_EQ(world.worker().pid, pid);
  EXPECT_EQ(world.worker().answering, Answering::starting);
  world.run_for(3 * kWatchSecond);
  EXPECT_FALSE(world.processes.alive(pid));
  EXPECT_THAT(world.log, testing::Contains(HasSubstr("replacing it")));
}

// A probe that cannot be started is one that failed.
TEST(WorkersWatch, OneThatCannotBeAskedIsReplaced) {
  Watched world;
  world.probe = command_probe();
  world.start();
  const Pid pid = world.worker().pid;
  world.run_for(10 * kWatchSecond);
  world.startable = false;
  world.run_for(5 * kWatchSecond);
  EXPECT_FALSE(world.processes.alive(pid));
  EXPECT_THAT(world.log, testing::Contains(HasSubstr("does not answer, 3 probes failed")));
}

// A probe of a worker that has ended says nothing of the next one, and ends.
TEST(WorkersWatch, AProbeEndsWithItsWorker) {
  Watched world;
  world.probe = command_probe();
  world.start();
  world.mood = Watched::Mood::mute;
  while (world.processes.running().size() == 1) world.run_for(0);
  world.processes.crash(world.worker().pid, 1);
  world.clock.now = world.supervisor->step(world.clock.now);
  EXPECT_TRUE(world.processes.running().empty());
}

TEST(WorkersWatch, NobodyIsProbedOnItsWayOut) {
  Watched world;
  world.probe = command_probe();
  world.heeds = false;
  world.start();
  world.run_for(10 * kWatchSecond);
  world.supervisor->follow({});
  world.run_for(kWatchSecond / 5);
  const int before = world.probes;
  world.mood = Watched::Mood::mute;
  world.run_for(10 * kWatchSecond);
  EXPECT_EQ(world.probes, before);
  EXPECT_TRUE(world.processes.running().empty());
}

// ---- the gateway's word

GatewayState gateway_of(const WorkerRecord& worker, WorkerReadiness state) {
  GatewayState gateway;
  gateway.workers = {{"MIG-1", 0, "a", worker.pid, state, 4}};
  return gateway;
}

TEST(WorkersWatch, WhomTheGatewayCallsSilentForLongIsReplaced) {
  Watched world;
  world.start();
  const WorkerRecord first = world.worker();
  EXPECT_EQ(first.answering, Answering::unknown);
  for (const auto& [said, heard] : {std::pair(WorkerReadiness::ready, Answering::ready),
                                    std::pair(WorkerReadiness::leaving, Answering::leaving),
                                    std::pair(WorkerReadiness::ready, Answering::ready)}) {
    world.gateway = gateway_of(first, said);
    world.run_for(10 * kWatchSecond);
    EXPECT_EQ(world.worker().answering, heard);
  }
  // A gateway that was held up for a moment calls everybody silent.
  world.gateway = gateway_of(first, WorkerReadiness::silent);
  world.run_for(2 * kWatchSecond);
  EXPECT_EQ(world.worker().answering, Answering::silent);
  world.gateway = gateway_of(first, WorkerReadiness::ready);
  world.run_for(10 * kWatchSecond);
  EXPECT_EQ(world.worker().pid, first.pid);
  world.gateway = gateway_of(first, WorkerReadiness::silent);
  world.run_for(2 * kWatchSecond);
  EXPECT_EQ(world.worker().pid, first.pid) << "it counts from the beginning";
  world.run_for(4 * kWatchSecond);
  EXPECT_FALSE(world.processes.alive(first.pid));
  // What is said of the one before says nothing of the one after.
  world.run_for(60 * kWatchSecond);
  EXPECT_EQ(world.worker().restarts, 1);
  EXPECT_EQ(world.worker().answering, Answering::starting);
}

// The next one has its own time, whatever was said of the one before.
TEST(WorkersWatch, SilenceIsOfOneProcess) {
  Watched world;
  world.start();
  const auto silent_for = [&](std::int64_t ns) {
    for (const std::int64_t until = world.clock.now + ns; world.clock.now <= until;) {
      world.gateway = gateway_of(world.worker(), WorkerReadiness::silent);
      world.run_for(0);
    }
  };
  const Pid first = world.worker().pid;
  silent_for(2 * kWatchSecond);
  EXPECT_EQ(world.worker().pid, first);
  while (world.worker().pid == first || world.worker().pid == 0) silent_for(0);
  const Pid second = world.worker().pid;
  silent_for(2 * kWatchSecond);
  EXPECT_EQ(world.worker().pid, second);
  silent_for(2 * kWatchSecond);
  EXPECT_NE(world.worker().pid, second);
}

// One request that kills whoever runs it, sent again and again, is no reason to give a worker up.
TEST(WorkersWatch, WhoDiesUnderRequestsIsNotGivenUp) {
  for (const bool told : {true, false}) {
    Watched world;
    world.start();
    GatewayState gateway;
    for (int death = 0; death < 20; ++death) {
      const WorkerRecord worker = world.worker();
      if (worker.pid != 0) {
        world.processes.crash(worker.pid, 11);
        if (told) gateway.lost.push_back({"MIG-1", 0, worker.pid});
      }
      world.run_for(kWatchSecond / 2);  // it may be seen before it is told
      world.gateway = gateway;
      world.run_for(kWatchSecond);
      if (told) {
        ASSERT_EQ(world.workers(), 1) << death;
      }
    }
    EXPECT_EQ(world.worker().given_up, !told);
    EXPECT_EQ(world.worker().quick_failures, told ? 0 : 5);
    EXPECT_EQ(world.supervisor->troubled(), !told);
  }
}

// An end under requests takes back what it was counted for, and no failure of before it.
TEST(WorkersWatch, AnEndUnderRequestsIsNoFailureAmongOthers) {
  for (const int failures : {4, 5}) {
    Watched world;
    world.start();
    for (int death = 0; death < failures; ++death) {
      world.processes.crash(world.worker().pid, 11);
      world.run_for((death < 4 ? 9 : 301) * kWatchSecond);
    }
    ASSERT_EQ(world.worker().quick_failures, failures);
    ASSERT_EQ(world.workers(), 1);
    world.gateway.emplace().lost.push_back({"MIG-1", 0, world.worker().pid});
    world.processes.crash(world.worker().pid, 11);
    world.run_for(kWatchSecond / 2);
    EXPECT_EQ(world.worker().quick_failures, failures);
    EXPECT_EQ(world.worker().given_up, failures == 5);
    EXPECT_EQ(world.workers(), 0);
    world.run_for(kWatchSecond);
    EXPECT_EQ(world.workers(), 1) << "after the first wait";
  }
}

// What the gateway tells late is of no matter once another has run for long.
TEST(WorkersWatch, AnEndOfBeforeIsForgivenNoMore) {
  Watched world;
  world.start();
  const Pid first = world.worker().pid;
  world.processes.crash(first, 11);
  world.run_for(20 * kWatchSecond);
  world.processes.crash(world.worker().pid, 11);
  world.run_for(kWatchSecond / 2);
  world.gateway.emplace().lost.push_back({"MIG-1", 0, first});
  world.run_for(kWatchSecond);
  EXPECT_THAT(world.log, testing::Not(testing::Contains(HasSubstr("under requests"))));
}

// ---- what a worker leaves behind

TEST(WorkersWatch, WhatAWorkerLeavesBehindEndsWithIt) {
  Watched world;
  world.start();
  ProcessSpec orphan{.argv = {"worker"}};
  orphan.environment[kWorkerVariable] = "/s/workers.json:MIG-1:0";
  ProcessSpec other = orphan;
  other.environment[kWorkerVariable] = "/s/workers.json:MIG-1:1";
  const Pid left = *world.processes.start(orphan), foreign = *world.processes.start(other);
  world.run_for(kWatchSecond);
  EXPECT_TRUE(world.processes.alive(left));
  world.processes.crash(world.worker().pid, 1);
  world.run_for(kWatchSecond / 2);
  EXPECT_FALSE(world.processes.alive(left));
  EXPECT_TRUE(world.processes.alive(foreign));
}

// ---- HTTP

class FakeProbes final : public HttpProbes {
 public:
  bool well = true;
  std::vector<std::string> urls;
  std::set<long> open;
  long begin(const std::string& url) override {
    urls.push_back(url);
    open.insert(static_cast<long>(urls.size()));
    return static_cast<long>(urls.size());
  }
  std::vector<ProbeEnd> ended() override {
    std::vector<ProbeEnd> ends;
    if (well)
      for (const long id : std::exchange(open, {})) ends.push_back({id, true});
    return ends;
  }
  void abandon(long id) override { open.erase(id); }
};

TEST(WorkersWatch, UrlsAreAskedInTheSameWay) {
  Watched world;
  FakeProbes probes;
  const auto probe = parse_probe("--probe", "http://127.0.0.1:{port}/ready", probes);
  ASSERT_TRUE(probe) << to_string(probe.error());
  world.probe = *probe;
  world.start();
  const Pid pid = world.worker().pid;
  world.run_for(10 * kWatchSecond);
  EXPECT_EQ(world.worker().answering, Answering::ready);
  EXPECT_EQ(probes.urls.front(), "http://127.0.0.1:0/ready");
  probes.well = false;
  world.run_for(8 * kWatchSecond);
  EXPECT_FALSE(world.processes.alive(pid));
  EXPECT_LE(probes.open.size(), 1U);  // the others were abandoned
}

TEST(WorkersWatch, ProbesAreReadOrRefused) {
  FakeProbes probes;
  EXPECT_EQ(parse_probe("p", "check {port}", probes)->http, nullptr);
  EXPECT_EQ(parse_probe_url("p", "http://localhost/a"), (Url{.host = "127.0.0.1", .path = "/a"}));
  EXPECT_EQ(parse_probe_url("p", "http://[::1]:8/"), (Url{.host = "::1", .port = 8, .path = "/"}));
  EXPECT_EQ(parse_probe_url("p", "http://1.2.3.4"), (Url{.host = "1.2.3.4", .path = "/"}));
  for (const char* bad : {"http://a.b:{port}/", "http://127.0.0.1:{prt}/", "http://", "'",
                          "http://127.0.0.1:1{service}/", "http://127.0.0.1:99999/",
                          "http://127.0.0.1 x", "http://[::1"})
    EXPECT_FALSE(parse_probe("p", bad, probes)) << bad;
}

// Answers one connection with `text`, or with nothing.
class OneAnswer {
 public:
  OneAnswer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), raw, size), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    ::getsockname(listener_.get(), raw, &size);
    port = ntohs(address.sin_port);
  }
  void answer(const std::string& text) {
    const Descriptor peer(::accept(listener_.get(), nullptr, nullptr));
    char room[1000];
    EXPECT_GT(::recv(peer.get(), room, sizeof room, 0), 0);
    EXPECT_EQ(::send(peer.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  int port = 0;

 private:
  Descriptor listener_;
};

std::vector<ProbeEnd> ends_of(RealHttpProbes& probes) {
  RealClock clock;
  for (int i = 0; i < 2000; ++i) {
    if (auto ends = probes.ended(); !ends.empty()) return ends;
    clock.sleep_ns(1'000'000);
  }
  return {};
}

TEST(HttpProbes, TellWellFromIll) {
  OneAnswer server;
  RealHttpProbes probes;
  const std::string url = fmt::format("http://127.0.0.1:{}/x", server.port);
  for (const auto& [text, well] :
       {std::pair("HTTP/1.1 200 OK\r\n\r\n", true), std::pair("HTTP/1.0 204 X", true),
        std::pair("HTTP/1.1 503 Busy\r\n\r\n", false), std::pair("SSH-2.0-x 200 200 200", false),
        std::pair("HTTP", false), std::pair("", false)}) {
    const long id = probes.begin(url);
    EXPECT_TRUE(probes.ended().empty());
    server.answer(text);
    EXPECT_THAT(ends_of(probes), ElementsAre(ProbeEnd{id, well})) << text;
  }
  const long refused = probes.begin("http://127.0.0.1:1/");
  EXPECT_THAT(ends_of(probes), ElementsAre(ProbeEnd{refused, false}));
  probes.abandon(probes.begin(url));
  EXPECT_TRUE(probes.ended().empty());
}

}  // namespace
}  // namespace partita::actuate
