// Tasks that wait for cheap hours, in virtual time: none is late, all is cheaper, and it is said.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "queue/host/testing/test_world.h"

namespace partita::queue {
namespace {
namespace hours {

using test::kEpoch;
using test::kSec;
using test::Machine;
using test::World;

constexpr Nanos kHour = 3600 * kSec;
constexpr Nanos kFirstHour = kEpoch / kHour * kHour;  // that kEpoch is in

const hw::GpuModel& a100() { return *hw::builtin_catalogue().find("A100-80GB"); }

plan::Tariff tariff_of(const std::vector<double>& prices) {
  plan::Tariff tariff{.from_s = kFirstHour / kSec};
  for (const double price : prices) tariff.hours.push_back({price, 1000 * price});
  return tariff;
}

Spec task(double time_s, double deadline_s) {
  Spec spec{.name = "train", .command = "true", .user = "anna"};
  for (const int gpcs : {1, 2, 3, 4, 7}) spec.times.push_back({gpcs, time_s});
  spec.time_cv = 0.1;
  spec.deadline_s = deadline_s;
  spec.flexible = true;
  return spec;
}

struct Bench {
  explicit Bench(const std::vector<double>& prices, int gpus = 1) : config(on(gpus, prices)) {}
  static Config on(int gpus, const std::vector<double>& prices) {
    Config config = test::config_on(a100(), gpus);
    config.tariff = tariff_of(prices);
    return config;
  }
  Config config;
  World world{a100()};
  MemoryStore store;
  Machine machine{world, store, config};
  Nanos began(long id) { return machine.host().show(id, world.now)->task.began_ms * 1'000'000; }
};

TEST(QueueHours, WaitsForTheCheapHourAndSaysSo) {
  Bench bench({0.3, 0.2, 0.1, 0.4, 0.4});
  ASSERT_TRUE(bench.machine.submit(task(600, 3 * 3600)));
  bench.machine.run_until(bench.world.now + 60 * kSec);
  EXPECT_TRUE(bench.world.starts.empty());
  const auto shown = bench.machine.host().show(1, bench.world.now);
  EXPECT_EQ(shown->why,
            "waits until 2023-11-15 00:00 UTC: a kWh costs 0.1 then and 0.3 now, is "
            "100 g of CO2 then and 300 now");
  const Nanos cheap = kFirstHour + 2 * kHour;
  EXPECT_NEAR(*shown->begins_in_s, static_cast<double>(cheap - bench.world.now) / 1e9, 1);
  // It waits over a crash of the queue, too.
  bench.machine.revive();
  bench.machine.run_until(bench.world.now + 20 * kHour);
  EXPECT_GE(bench.began(1), cheap);
  EXPECT_LT(bench.began(1), cheap + 10 * kSec);
  EXPECT_EQ(bench.world.faults, std::vector<std::string>());
}

TEST(QueueHours, WhoIsNotFlexibleOrCannotKnowBeginsAtOnce) {
  Bench bench({0.3, 0.1, 0.1, 0.4});
  Spec plain = task(60, 3 * 3600);
  plain.flexible = false;
  ASSERT_TRUE(bench.machine.submit(plain));
  Spec unknown = task(60, 3 * 3600);
  unknown.times.clear();
  unknown.name = "never run";
  ASSERT_TRUE(bench.machine.submit(unknown));
  ASSERT_TRUE(bench.machine.submit(task(600, 700)));  // no time to wait
  bench.machine.run_until(bench.world.now + 600 * kSec);
  EXPECT_EQ(bench.world.starts.size(), 3u);
  const auto refused = bench.machine.submit([] {
    Spec spec = task(60, 60);
    spec.deadline_s.reset();
    return spec;
  }());
  EXPECT_EQ(to_string(refused.error()), "flexible: needs a deadline: until when may it wait?");
}

TEST(QueueHours, AfterTheTariffNobodyWaits) {
  Bench bench({0.3});
  ASSERT_TRUE(bench.machine.submit(task(600, 30 * 3600)));
  bench.machine.run_until(bench.world.now + 60 * kSec);
  // The rest of this hour is all that is known, and what is known is not left for what is not.
  EXPECT_EQ(bench.world.starts.size(), 1u);
}

// Of slices and hours, as what was started says.
double cost_of(const Bench& bench, const std::map<long, Nanos>& took) {
  double sum = 0;
  for (const Task& one : bench.world.starts) {
    const hw::MigProfile& profile =
        bench.world.model.profiles[at(bench.world.model.profile_index(one.places[0].profile))];
    const double from = static_cast<double>(one.began_ms) / 1e3;
    const double length = static_cast<double>(took.at(one.id)) / 1e9;
    sum +=
        *plan::mean_rate(bench.config.tariff, from, from + length)->price * profile.gpcs * length;
  }
  return sum;
}

// A day of tasks of which many may wait, that take other times than thought: none of those is late,
// where one waits for nobody else's sake; and all cost less than when nobody waits.
TEST(QueueHours, NobodyIsLateAndAllIsCheaper) {
  double cheaper = 0, dearer = 0;
  int waited = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    double costs[2] = {};
    for (const bool flexible : {false, true}) {
      Rng rng(seed);
      std::vector<double> prices;
      for (int hour = 0; hour < 60; ++hour)
        prices.push_back(0.2 + 0.15 * std::sin(hour / 24.0 * 6.28) + 0.05 * rng.uniform());
      Bench bench(prices, 1 + static_cast<int>(seed % 2));
      const auto factor = [seed](long id) {
        return 0.85 + 0.3 * Rng(seed * 1000 + static_cast<std::uint64_t>(id)).uniform();
      };
      bench.world.factor = [factor](const Task& one) { return factor(one.id); };
      std::map<long, Nanos> took, due;
      for (long id = 1; id <= 20; ++id) {
        bench.machine.run_until(bench.world.now +
                                static_cast<Nanos>(rng.uniform() * 40 * 60) * kSec);
        const double time_s = 60 + std::floor(rng.uniform() * 1200);
        Spec spec = task(time_s, time_s * 1.5 + 7200 + std::floor(rng.uniform() * 15 * 3600));
        const bool may_wait = rng.uniform() < 0.7;
        spec.flexible = flexible && may_wait;
        spec.name = std::to_string(id);
        ASSERT_TRUE(bench.machine.submit(spec));
        took[id] = static_cast<Nanos>(time_s * factor(id) * 1e9);
        if (spec.flexible) due[id] = bench.world.now + static_cast<Nanos>(*spec.deadline_s) * kSec;
      }
      ASSERT_TRUE(bench.machine.run_until(bench.world.now + 50 * kHour));
      EXPECT_EQ(bench.world.faults, std::vector<std::string>());
      for (const auto& [id, deadline] : due) {
        const Task ended = bench.machine.host().show(id, bench.world.now)->task;
        EXPECT_LE(ended.ended_ms * 1'000'000, deadline) << "task " << id << ", seed " << seed;
        waited += ended.began_ms - ended.submitted_ms > 600'000 ? 1 : 0;
      }
      costs[flexible ? 1 : 0] = cost_of(bench, took);
    }
    cheaper += costs[1];
    dearer += costs[0];
  }
  EXPECT_GT(waited, 20);
  EXPECT_LT(cheaper, 0.9 * dearer);
  RecordProperty("share_of_cost", std::to_string(cheaper / dearer));
}

// 100 W, all the time: what an attempt cost, and what waiting saved.
TEST(QueueHours, RunsSayMoneyAndCarbon) {
  const Config config = Bench::on(1, {0.3, 0.2, 0.1, 0.4, 0.4});
  World world{a100()};
  MemoryStore store;
  const auto joules = [&](const std::string&) {
    return std::optional(static_cast<double>(world.now - kEpoch) / 1e9 * 100);
  };
  auto host = Host::open(config, {store, world, world, joules}, world.now);
  ASSERT_TRUE(host);
  ASSERT_TRUE((*host)->submit(task(600, 3 * 3600), world.now));
  while ((*host)->queue().tasks().size() > 0 && world.now < kEpoch + 10 * kHour) {
    (*host)->turn(world.now);
    while (const auto call = (*host)->next_call())
      (*host)->call_done(*call, call->create ? world.create(call->place) : "", world.now);
    world.now += kSec;
  }
  const auto runs = (*host)->runs(1);
  ASSERT_EQ(runs->size(), 1u);
  const queue::Run& run = runs->front();
  const double kwh = *run.energy_j / plan::kJoulesPerKwh;
  EXPECT_NEAR(kwh, 100.0 * 600 / 3.6e6, 0.001);
  EXPECT_NEAR(*run.cost, kwh * 0.1, 1e-9);
  EXPECT_NEAR(*run.co2_g, kwh * 100, 1e-6);
  EXPECT_NEAR(*run.saved_cost, kwh * 0.2, 1e-9);
  EXPECT_NEAR(*run.saved_co2_g, kwh * 200, 1e-6);
}

}  // namespace hours
}  // namespace
}  // namespace partita::queue
