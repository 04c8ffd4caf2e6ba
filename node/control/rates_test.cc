#include "control/rates.h"

#include <gtest/gtest.h>

#include "control/testing/brain_fixture.h"
#include "forms/pipeline_form.h"

namespace partita::control {
namespace {

// A gateway that counts `rate` req/s for a service, seen every 10 s for so many minutes.
std::int64_t count(Rates& rates, std::int64_t now_ms, double rate, int minutes) {
  ServersSeen servers;
  servers.gateway = true;
  servers.loads.push_back({.service = "a"});
  for (int look = 0; look <= 6 * minutes; ++look) {
    servers.loads[0].arrived = servers.loads[0].in_slo =
        static_cast<std::uint64_t>(rate * 10 * look);
    rates.see(servers, now_ms + 10'000 * look);
  }
  return now_ms + 60'000 * minutes;
}

TEST(Rates, NeedIsTheFilesWhileNothingIsMeasured) {
  plan::Service service = wanted_service("a", 100);
  Rates rates{Settings()};
  rates.begin({service});
  rates.see({}, kMonday);
  EXPECT_EQ(rates.needs({service}).at(0), (ServiceNeed{{}, 100, 100}));
  // Of the rates over a day, the highest that the time until then has.
  service.traffic.rates = {{0, Rps{10}}, {40, Rps{70}}, {50, Rps{20}}};
  EXPECT_EQ(rates.needs({service}).at(0), (ServiceNeed{{}, 10, 70}));
}

TEST(Rates, NeedFollowsWhatComesOnAGridWithinItsBounds) {
  const plan::Service service = wanted_service("a", 100);
  Rates rates{Settings()};
  rates.begin({service});
  count(rates, kMonday, 200, 10);
  const ServiceNeed need = rates.needs({service}).at(0);
  EXPECT_DOUBLE_EQ(need.now_rps.value(), 200);
  EXPECT_GE(need.soon_rps, 200);
  EXPECT_NEAR(std::log(need.soon_rps) / std::log(1.05),
              std::round(std::log(need.soon_rps) / std::log(1.05)), 1e-9);
  Rates idle{Settings()};
  idle.begin({service});
  count(idle, kMonday, 0, 60);
  EXPECT_NEAR(idle.needs({service}).at(0).soon_rps, 25, 25 * 0.05);  // floor_share
}

// Two restarts in a minute: the second gateway has soon counted more than the first one did.
// As the file says while nothing is measured: a step's rates of the day have its pipelines' in them
// already, and no request is counted twice.
TEST(Rates, AStepOfTheFileIsCountedOnce) {
  plan::Service pipeline = wanted_service("p", 50), step = wanted_service("s", 20);
  pipeline.pipeline = {{{"s", {{"x", "a"}}, {{"y", "b"}}, 4}}};
  pipeline.traffic.rates = {{0, Rps{50}}, {720, Rps{10}}};
  std::vector<plan::Service> services{pipeline, step};
  ASSERT_FALSE(forms::add_members(services));
  Rates rates{Settings()};
  rates.begin(services);
  for (const auto& [hour, wanted] : {std::pair{3, 4 * 50 + 20.0}, {15, 4 * 10 + 20.0}}) {
    rates.see({}, kMonday + hour * 3'600'000);
    EXPECT_DOUBLE_EQ(rates.needs(services).at(1).soon_rps, wanted) << hour;
  }
}

TEST(Rates, AnotherGatewayCountsFromNothing) {
  const plan::Service service = wanted_service("a", 100);
  Rates rates{Settings()};
  rates.begin({service});
  std::int64_t now = count(rates, kMonday, 200, 10);
  ServersSeen servers{.gateway = true, .loads = {{.service = "a"}}, .counted_by = "first"};
  const auto counted = [&](std::uint64_t requests, int after_s) {
    servers.loads[0].arrived = servers.loads[0].in_slo = requests;
    rates.see(servers, now += 1000 * after_s);
    return rates.needs({service}).at(0).now_rps.value();
  };
  counted(400, 2);
  servers.counted_by = "second";
  counted(800, 50);
  for (std::uint64_t look = 1; look <= 12; ++look)
    EXPECT_NEAR(counted(800 + 2000 * look, 10), 200, 1e-9) << look;
}

// Of a step, what its pipelines made is counted and not forecast: it follows from them.
TEST(Rates, AStepNeedsWhatItsPipelinesAndItsOwnClientsNeed) {
  plan::Service pipeline = wanted_service("p", 50), step = wanted_service("s", 220);
  pipeline.pipeline = {{{"m", {{"x", "a"}}, {{"y", "b"}}}, {"s", {{"x", "b"}}, {{"y", "c"}}, 4}}};
  plan::Service member = wanted_service("m", 50);
  member.member = true;
  const std::vector<plan::Service> services{member, pipeline, step};
  Rates rates{Settings()};
  rates.begin(services);
  EXPECT_EQ(rates.needs(services).at(2), (ServiceNeed{{}, 220, 220}));  // 4 x 50 and 20 of its own
  ServersSeen servers;
  servers.gateway = true;
  servers.loads = {{.service = "m"}, {.service = "p"}, {.service = "s"}};
  for (std::uint64_t look = 0; look <= 60; ++look) {  // 60 and 30 per second, a fan-out a request
    servers.loads[0].arrived = servers.loads[0].by_pipelines = 600 * look;
    servers.loads[1].arrived = 600 * look;
    servers.loads[2].arrived = 900 * look;
    servers.loads[2].by_pipelines = 600 * look;
    rates.see(servers, kMonday + 10'000 * static_cast<std::int64_t>(look));
  }
  const std::vector<ServiceNeed> needs = rates.needs(services);
  EXPECT_DOUBLE_EQ(needs[1].now_rps.value(), 60);
  EXPECT_DOUBLE_EQ(needs[0].now_rps.value(), 60);
  EXPECT_DOUBLE_EQ(needs[2].now_rps.value(), 4 * 60 + 30);
  EXPECT_DOUBLE_EQ(needs[0].soon_rps, needs[1].soon_rps);
  EXPECT_GE(needs[1].soon_rps, 60);
  EXPECT_GE(needs[2].soon_rps - 4 * needs[1].soon_rps, 30);
  EXPECT_LE(needs[2].soon_rps - 4 * needs[1].soon_rps, 40);
  EXPECT_DOUBLE_EQ(*rates.now(services)[2].reading.rate, 4 * 60 + 30);
  EXPECT_GE(*rates.clocked(services).at("s").rps, 4 * 60 + 30);
}

// Of a minute without requests nobody can say how many were in time.
TEST(Rates, WithoutRequestsNoAttainmentIsKnown) {
  const plan::Service service = wanted_service("a", 100);
  Rates rates{Settings()};
  rates.begin({service});
  ServersSeen servers{.gateway = true, .loads = {{.service = "a"}}};
  const auto attainment = [&](std::int64_t second, std::uint64_t requests) {
    servers.loads[0].arrived = requests;
    servers.loads[0].in_slo = requests / 2;
    rates.see(servers, kMonday + 1000 * second);
    return rates.now({service}).at(0).reading.attainment;
  };
  EXPECT_FALSE(attainment(0, 0));
  EXPECT_EQ(attainment(60, 100), 0.5);
  EXPECT_EQ(attainment(90, 100), 0.5) << "of the minute before";
  EXPECT_FALSE(attainment(120, 100));
}

// Rates of keys over a minute against what was put in; nothing of a gateway that begins anew, nor
// of a key that was among the others.
TEST(Rates, KeysHaveThoseOfTheLastMinute) {
  const plan::Service service = wanted_service("a", 100);
  Rates rates{Settings()};
  rates.begin({service});
  ServersSeen servers{.gateway = true, .loads = {{.service = "a"}}, .counted_by = "first"};
  std::int64_t now = kMonday;
  const auto look = [&](double count) {
    servers.loads[0].keys = {{.key = "token 1", .answered = 20 * count, .bytes = 4000 * count},
                             {.key = "token 2", .refused = 5 * count, .tokens = 30 * count}};
    rates.see(servers, now += 10'000);
  };
  for (int n = 0; n <= 7; ++n) look(1000 + n);
  auto keys = rates.now({service}).at(0).reading.keys;
  ASSERT_EQ(keys.size(), 2U);
  EXPECT_EQ(keys[0].key, "token 1");
  EXPECT_DOUBLE_EQ(keys[0].answered, 2);
  EXPECT_DOUBLE_EQ(keys[0].bytes, 400);
  EXPECT_DOUBLE_EQ(keys[1].refused, 0.5);
  EXPECT_DOUBLE_EQ(keys[1].tokens, 3);
  servers.counted_by = "second";
  for (int n = 0; n <= 7; ++n) look(n);
  keys = rates.now({service}).at(0).reading.keys;
  ASSERT_EQ(keys.size(), 2U);
  EXPECT_DOUBLE_EQ(keys[0].answered, 2);
  for (int n = 0; n <= 7; ++n) {
    servers.loads[0].keys = {{.key = actuate::kOtherKeys, .answered = 100.0 * n}};
    if (n == 7) servers.loads[0].keys.push_back({.key = "token 3", .answered = 5000});
    rates.see(servers, now += 10'000);
  }
  keys = rates.now({service}).at(0).reading.keys;
  for (const auto& key : keys) EXPECT_EQ(key.key, actuate::kOtherKeys);
}

TEST(Rates, AnAnswerlessGatewayLeavesClocksWithoutRates) {
  const plan::Service service = wanted_service("a", 100);
  Rates rates{Settings()};
  rates.begin({service});
  const std::int64_t now = count(rates, kMonday, 50, 3);
  ASSERT_TRUE(rates.clocked({service}).contains("a"));
  EXPECT_GE(*rates.clocked({service}).at("a").rps, 50);
  rates.see({}, now + 1000);
  EXPECT_TRUE(rates.clocked({service}).empty());
  EXPECT_FALSE(rates.now({service}).at(0).reading.rate);
  EXPECT_TRUE(rates.now({service}).at(0).forecast);
}

}  // namespace
}  // namespace partita::control
