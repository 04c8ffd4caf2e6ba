// A change while a gateway runs: what is started counts once its workers are ready, and nothing is
// stopped before; on simulated machines, with a gateway that takes its time.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "act/gateway_state.h"
#include "base/processes.h"
#include "base/test_rounds.h"
#include "world.h"

namespace partita::actuation_tests {
namespace {

using actuate::ApplyEvent;
using actuate::ApplyOptions;
using actuate::AssignedSegment;
using actuate::GatewayState;
using actuate::Wanted;

constexpr std::int64_t kGatewaySecond = 1'000'000'000;

// The world with a gateway in it, which looks whenever time passes.
class GatewayWorld final : public Clock {
 public:
  World world;
  std::int64_t warm_ns = kGatewaySecond;       // from the assignment of a segment until it is ready
  bool present = true;                         // the gateway runs
  std::optional<Rng> moods;                    // by which it hangs, dies and comes back
  std::map<std::string, std::int64_t> silent;  // devices, and until when
  std::map<std::string, double> least;         // ready capacity of services, at any moment
  std::map<std::string, std::int64_t> gone;    // when devices left the assignment

  GatewayWorld(const std::vector<sim_driver::Machine::Gpus>& gpus, std::uint64_t seed)
      : world(gpus, seed) {
    pid_ = *processes_.start({.argv = {"gateway"}});
    look();
  }
  std::int64_t now_ns() override { return world.clock.now; }
  std::int64_t cpu_ns() override { return world.clock.now; }
  void sleep_ns(std::int64_t ns) override {
    constexpr std::int64_t kStep = 20'000'000;
    for (; ns > 0; ns -= kStep) {
      world.clock.sleep_ns(std::min(ns, kStep));
      look();
    }
  }
  actuate::Doors doors() {
    const actuate::Doors inner = world.doors();
    return {inner.driver, inner.files, *this, inner.catalogue, inner.state_dir, &processes_};
  }
  Result<actuate::ApplyReport> apply(const Wanted& wanted, const ApplyOptions& options = {}) {
    return actuate::apply(doors(), wanted, options, [](const ApplyEvent&) {});
  }
  std::map<std::string, double> ready() const {
    std::map<std::string, double> capacity;
    for (const actuate::GatewayService& one : told_.services) capacity[one.name] = one.capacity_rps;
    return capacity;
  }
  std::size_t ready_workers() const {
    return static_cast<std::size_t>(std::ranges::count(
        told_.workers, actuate::WorkerReadiness::ready, &actuate::GatewayWorker::state));
  }

 private:
  // What is assigned is seen at once, and ready after a while.
  void look() {
    const actuate::Assignment assignment = world.assignment();
    std::set<std::string> devices;
    told_ = {.revision = assignment.revision,
             .pid = pid_,
             .identity = processes_.identity(pid_),
             .written_s = static_cast<double>(world.clock.now) / 1e9,
             .services = {},
             .workers = {}};
    std::map<std::string, double> capacity;
    for (const plan::Terms& one : assignment.services) capacity[one.name] = 0;
    for (const AssignedSegment& one : assignment.segments) {
      devices.insert(one.device);
      const std::int64_t since = since_.try_emplace(one.device, world.clock.now).first->second;
      if (world.clock.now - since < warm_ns) continue;
      const bool well = !silent.contains(one.device) || silent[one.device] <= world.clock.now;
      if (well) capacity[one.service] += one.throughput_rps;
      for (int i = 0; i < one.processes; ++i)
        told_.workers.push_back(
            {one.device, i, one.service, 4711 + i,
             well ? actuate::WorkerReadiness::ready : actuate::WorkerReadiness::silent, 0});
    }
    for (auto it = since_.begin(); it != since_.end();) {
      const bool stays = devices.contains(it->first);
      if (!stays) gone.try_emplace(it->first, world.clock.now);
      it = stays ? std::next(it) : since_.erase(it);
    }
    for (const auto& [name, rps] : capacity) {
      const auto rate = std::ranges::find(assignment.services, name, &plan::Terms::name);
      const bool known = rate != assignment.services.end();
      told_.services.push_back({name, rps, known ? rate->rate.value : 0});
      least[name] = std::min(least.try_emplace(name, rps).first->second, rps);
    }
    if (moods && moods->below(40) == 0) present = !present;
    if (moods && moods->below(100) == 0) {
      processes_.crash(pid_, 1);
      pid_ = *processes_.start({.argv = {"gateway"}});
    }
    if (!present) return;
    ASSERT_TRUE(world.disk.make_directories(kStateDir));
    ASSERT_TRUE(
        world.disk.write_atomic(actuate::gateway_path(kStateDir), actuate::gateway_json(told_)));
  }

  SimProcesses processes_{world.clock, [](const ProcessSpec&) { return SimBehaviour{}; }};
  Pid pid_ = 0;
  std::map<std::string, std::int64_t> since_;  // devices, since when they are assigned
  GatewayState told_;
};

std::map<std::string, double> capacity_of(const Wanted& wanted) {
  std::map<std::string, double> capacity;
  for (const actuate::WantedGpu& gpu : wanted.gpus)
    for (const actuate::WantedInstance& one : gpu.instances)
      if (!one.segment.service.empty()) capacity[one.segment.service] += one.segment.throughput_rps;
  return capacity;
}

// Services that the change says stay up were measured to stay up; without a gateway, a worker that
// warms up is not waited for, and some go down.
TEST(WithAGateway, NothingIsStoppedBeforeItsSuccessorIsReady) {
  const int rounds = std::max(8, test_rounds(16));
  int broken_without = 0, judged = 0;
  for (int seed = 1; seed <= rounds; ++seed) {
    for (const bool present : {true, false}) {
      Rng rng(static_cast<std::uint64_t>(seed));
      const hw::GpuModel& model = **hw::builtin_catalogue().get("A100-80GB");
      const Wanted from = random_wanted(model, 2, rng, 0.5), to = altered(from, model, rng);
      GatewayWorld world({{&model, 3, true}}, static_cast<std::uint64_t>(seed));
      world.present = present;
      ASSERT_TRUE(world.apply(from)) << seed;
      world.sleep_ns(world.warm_ns);
      world.least = world.ready();
      const auto applied = world.apply(to);
      ASSERT_TRUE(applied) << seed << ": " << to_string(applied.error());
      EXPECT_EQ(difference(world.world, to), "") << seed;
      if (present) {
        std::size_t workers = 0;
        for (const AssignedSegment& one : world.world.assignment().segments)
          workers += static_cast<std::size_t>(one.processes);
        EXPECT_EQ(world.ready_workers(), workers) << seed;
      }
      const auto before = capacity_of(from), after = capacity_of(to);
      for (const auto& [name, capacity] : before) {
        if (!after.contains(name)) continue;
        const auto affected =
            std::ranges::find(applied->change.affected, name, &actuate::Affected::service);
        if (affected != applied->change.affected.end() && affected->least < 1) continue;
        const bool kept = world.least[name] >= std::min(capacity, after.at(name)) * (1 - 1e-9);
        EXPECT_TRUE(kept || !present) << seed << " " << name << " " << world.least[name];
        ++judged;
        broken_without += !present && !kept ? 1 : 0;
      }
    }
  }
  EXPECT_GT(judged, rounds);
  EXPECT_GT(broken_without, 0);
}

// A gateway that hangs, dies and comes back amid changes holds nothing up for ever.
TEST(WithAGateway, OneThatComesAndGoesDoesNotStopAChange) {
  const int rounds = std::max(6, test_rounds(12));
  for (int seed = 1; seed <= rounds; ++seed) {
    Rng rng(static_cast<std::uint64_t>(seed));
    const hw::GpuModel& model = **hw::builtin_catalogue().get("A30-24GB");
    GatewayWorld world({{&model, 2, true}}, static_cast<std::uint64_t>(seed));
    world.moods = Rng(static_cast<std::uint64_t>(seed)).split(5);
    Wanted wanted = random_wanted(model, 2, rng, 0.6);
    for (int change = 0; change < 4; ++change) {
      const auto applied = world.apply(wanted);
      ASSERT_TRUE(applied) << seed << ": " << to_string(applied.error());
      EXPECT_EQ(difference(world.world, wanted), "") << seed;
      wanted = altered(wanted, model, rng);
    }
  }
}

Wanted chat_at(const std::vector<int>& starts) {
  Wanted wanted{{{"A30-24GB", "", {}}}};
  for (const int start : starts)
    wanted.gpus[0].instances.push_back({"1g.6gb", start, {"chat", 4, 1, 10}});
  wanted.services = {{.name = "chat", .model = "m", .rate = Rps{20}, .slo = Millis{50}}};
  return wanted;
}

TEST(WithAGateway, WhatDoesNotComeUpReplacesNothing) {
  const hw::GpuModel& model = **hw::builtin_catalogue().get("A30-24GB");
  GatewayWorld world({{&model, 1, true}}, 1);
  ASSERT_TRUE(world.apply(chat_at({0, 1})));
  world.sleep_ns(5 * kGatewaySecond);
  const auto before = world.world.assignment().segments;
  world.warm_ns = 1000 * kGatewaySecond;
  const std::int64_t began = world.now_ns();
  const auto applied = world.apply(chat_at({1, 2}), {.ready_timeout = {20}});
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().code, ErrorCode::timeout);
  EXPECT_LT(world.now_ns() - began, 35 * kGatewaySecond) << "what came to nothing is not repeated";
  for (const AssignedSegment& one : before) EXPECT_FALSE(world.gone.contains(one.device));
}

// Workers that never leave are waited for once, and so are those that never come.
TEST(WithoutAGateway, WhatWasWaitedForInVainIsNotWaitedForAgain) {
  const hw::GpuModel& model = **hw::builtin_catalogue().get("A30-24GB");
  for (const bool stubborn : {true, false}) {
    World world({{&model, 1, true}}, 1);
    ASSERT_TRUE(actuate::apply(world.doors(), chat_at({0, 1}), {}, [](const ApplyEvent&) {}));
    world.clock.sleep_ns(5 * kGatewaySecond);
    if (stubborn) world.stubborn = {"chat"};
    world.workers = stubborn;
    const std::int64_t began = world.clock.now;
    const auto applied = actuate::apply(
        world.doors(),
        stubborn ? Wanted{.gpus = {{.model = "A30-24GB", .uuid = {}, .instances = {}}}}
                 : chat_at({1, 2}),
        {.drain_timeout = {20}, .ready_timeout = {stubborn ? 0.0 : 20.0}},
        [](const ApplyEvent&) {});
    ASSERT_FALSE(applied);
    EXPECT_GE(world.clock.now - began, 20 * kGatewaySecond);
    EXPECT_LT(world.clock.now - began, 35 * kGatewaySecond) << to_string(applied.error());
  }
}

// Wherever the program dies, the next one keeps what the gateway needs as well.
TEST(WithAGateway, ADeathAmidStopsNothingTooEarly) {
  const hw::GpuModel& model = **hw::builtin_catalogue().get("A30-24GB");
  for (long point = 1;; ++point) {
    GatewayWorld world({{&model, 1, true}}, 1);
    ASSERT_TRUE(world.apply(chat_at({0, 1})));
    world.sleep_ns(world.warm_ns);
    world.least = world.ready();
    world.world.calls = 0;
    bool died = false;
    world.world.mishap = [&](long call) {
      if (died || call != point) return Mishap{};
      died = true;
      return Mishap{Mishap::Kind::crash_after};
    };
    try {
      ASSERT_TRUE(world.apply(chat_at({1, 2})));
    } catch (const Crash&) {
      ASSERT_TRUE(world.apply(chat_at({1, 2})));
    }
    EXPECT_EQ(difference(world.world, chat_at({1, 2})), "");
    EXPECT_EQ(world.least["chat"], 20) << point;
    EXPECT_EQ(world.ready()["chat"], 20);
    if (!died) {
      EXPECT_GT(point, 5);
      return;
    }
  }
}

TEST(WithAGateway, AServiceThatIsShortOfWorkersKeepsWhatItHas) {
  const hw::GpuModel& model = **hw::builtin_catalogue().get("A30-24GB");
  for (const double share : {1.0, 0.5}) {
    GatewayWorld world({{&model, 1, true}}, 1);
    ASSERT_TRUE(world.apply(chat_at({0, 1})));
    world.sleep_ns(5 * kGatewaySecond);
    std::string moved, kept;
    for (const AssignedSegment& one : world.world.assignment().segments)
      (one.start == 0 ? moved : kept) = one.device;
    const std::int64_t begin = world.now_ns();
    world.silent[kept] = begin + 30 * kGatewaySecond;
    const auto applied = world.apply(chat_at({1, 2}), {.min_available = share});
    ASSERT_TRUE(applied) << to_string(applied.error());
    ASSERT_TRUE(world.gone.contains(moved));
    // Half of the rate is carried by the new one alone.
    const bool waited = world.gone[moved] - begin >= 30 * kGatewaySecond;
    EXPECT_EQ(waited, share == 1.0);
  }
}

// What ran on a GPU that fell off the bus does not come: what is left may be rearranged all the
// same, and keeps what it carries.
TEST(WithAGateway, SegmentsOfALostGpuAreNotWaitedFor) {
  const hw::GpuModel& model = **hw::builtin_catalogue().get("A30-24GB");
  GatewayWorld world({{&model, 2, true}}, 1);
  Wanted both = chat_at({0, 1});
  both.gpus.push_back({"A30-24GB", "", {{"1g.6gb", 0, {"chat", 4, 1, 10}}}});
  both.services[0].rate = Rps{30};
  ASSERT_TRUE(world.apply(both));
  world.sleep_ns(5 * kGatewaySecond);
  std::string left;
  for (const device::GpuState& gpu : world.world.look().gpus) {
    if (gpu.instances.size() == 2) {
      left = gpu.uuid;
      continue;
    }
    world.silent[gpu.instances.at(0).uuid()] = INT64_MAX;
    world.world.change_machine([&](sim_driver::Machine& machine) { machine.lose(gpu.index); });
  }
  world.sleep_ns(kGatewaySecond);
  world.least = world.ready();
  Wanted moved = chat_at({1, 2});
  moved.gpus[0].uuid = left;
  moved.services = both.services;
  const auto applied = world.apply(moved);
  ASSERT_TRUE(applied) << to_string(applied.error());
  EXPECT_EQ(world.ready()["chat"], 20);
  EXPECT_EQ(world.least["chat"], 20);
}

}  // namespace
}  // namespace partita::actuation_tests
