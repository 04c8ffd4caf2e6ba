#include "control/verdict.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace partita::control {
namespace {

constexpr std::int64_t kNoon = 1'767'614'400'000;

// A service for 100 req/s at 99 %, on two devices that carry 60 each.
struct Given {
  Given() {
    plan::Service& service = services.emplace_back();
    service.name = "s";
    service.slo = Millis{100};
    service.rate = Rps{100};
    memory.target.emplace();
    memory.target->rates = {{.service = "s", .rate_rps = 100}};
    assignment.segments = {{{"1g", 0}, {"s", 4, 2, 60}, "d", "GPU-0"},
                           {{"1g", 0}, {"s", 4, 1, 60}, "e", "GPU-1"}};
    servers.gateway = true;
    servers.loads = {{.service = "s", .ready_workers = 3}};
    servers.ready = {{"d", 2}, {"e", 1}};
    servers.supervisor = true;
    requests(100, 100, 100);
  }
  // So many a second, in time so many in the last seconds, and before them, in the last quarter of
  // a minute and in all of it.
  void requests(double rate, double now, double before) { requests(rate, now, before, before); }
  void requests(double rate, double now, double lately, double before) {
    ServiceLoad& load = servers.loads[0];
    load.recent = {3, 3 * rate, 3 * rate, 3 * now};
    load.lately = {15, 15 * rate, 15 * rate, 3 * now + 12 * lately};
    load.minute = {60, 60 * rate, 60 * rate, 3 * now + 12 * lately + 45 * before};
  }
  ServiceVerdict verdict(const std::vector<ServiceVerdict>& last = {}) const {
    return judge_services({services, memory, assignment, servers, blind}, kNoon, last).at(0);
  }
  Standing word() const { return verdict().verdict; }

  std::vector<plan::Service> services;
  AgentMemory memory;
  actuate::Assignment assignment;
  ServersSeen servers;
  std::string blind;
};

TEST(Verdict, ServesWhatWasPromisedToWhomeverAsks) {
  const Given given;
  const ServiceVerdict is = given.verdict();
  EXPECT_EQ(is.verdict, Standing::serves);
  EXPECT_EQ(is.why, "");
  EXPECT_DOUBLE_EQ(is.asked_rps, 100);
  EXPECT_DOUBLE_EQ(is.answered_rps, 100);
  EXPECT_DOUBLE_EQ(is.can_carry_rps, 120);
  EXPECT_EQ(is.as_of_ms, kNoon);
  EXPECT_EQ(is.since_ms, kNoon);
}

// A step that nobody else asks has a share of an SLO that the planner chose; pipelines are judged.
TEST(Verdict, AStepHasNoPromiseOfItsOwn) {
  Given given;
  given.services[0].member = true;
  given.requests(100, 0, 0);
  EXPECT_EQ(given.word(), Standing::serves);
  plan::Service& pipeline = given.services.emplace_back();
  pipeline.name = "p";
  pipeline.slo = Millis{100};
  pipeline.rate = Rps{50};
  pipeline.pipeline = {{{"s", {{"x", "a"}}, {{"y", "b"}}, 2}}};
  given.memory.target->rates.push_back({.service = "p", .rate_rps = 50});
  given.servers.loads.push_back(given.servers.loads[0]);
  given.servers.loads[1].service = "p";
  const auto word = [&] {
    return judge_services(
               {given.services, given.memory, given.assignment, given.servers, given.blind}, kNoon,
               {})
        .at(1)
        .verdict;
  };
  EXPECT_EQ(word(), Standing::down);
  given.servers.loads[1].recent->in_slo = given.servers.loads[1].recent->due;
  given.servers.loads[1].lately->in_slo = given.servers.loads[1].lately->due;
  given.servers.loads[1].minute->in_slo = given.servers.loads[1].minute->due;
  given.servers.loads[1].recent->asked = 3 * 50;
  EXPECT_EQ(word(), Standing::serves);
  given.servers.ready = {};
  given.servers.loads[0].ready_workers = 0;
  EXPECT_EQ(word(), Standing::down) << "its step is";
}

TEST(Verdict, TellsColdStartsOfASet) {
  Given given;
  given.servers.loads[0].cold = actuate::ColdStarts{10, 9, 600, 50};
  EXPECT_EQ(given.verdict().cold, given.servers.loads[0].cold);
}

TEST(Verdict, CapacityIsThatOfReadyWorkers) {
  Given given;
  given.servers.ready = {{"d", 1}, {"e", 1}};
  EXPECT_DOUBLE_EQ(given.verdict().can_carry_rps, 90);
  EXPECT_EQ(given.word(), Standing::at_risk);
  given.servers.ready.clear();
  given.servers.loads[0].ready_workers = 0;
  given.requests(100, 0, 50);
  EXPECT_EQ(given.word(), Standing::down);
  EXPECT_DOUBLE_EQ(given.verdict().can_carry_rps, 0);
  EXPECT_DOUBLE_EQ(given.verdict().asked_rps, 100);
  given.requests(0, 0, 0);  // nobody asks: it is down all the same
  EXPECT_EQ(given.word(), Standing::down);
  given.assignment.segments.clear();
  EXPECT_EQ(given.word(), Standing::down);
}

TEST(Verdict, WhatNobodyMeasuresIsUnknownAndKeepsItsNumbers) {
  Given given;
  const std::vector<ServiceVerdict> last = {given.verdict()};
  given.servers.gateway_age_s = 3.5;
  EXPECT_EQ(given.verdict(last).verdict, Standing::unknown);
  EXPECT_DOUBLE_EQ(given.verdict(last).asked_rps, 100);
  EXPECT_EQ(given.verdict(last).as_of_ms, last[0].as_of_ms);
  given.servers = {};
  EXPECT_EQ(given.word(), Standing::unknown);
  EXPECT_EQ(given.verdict().as_of_ms, 0);
  Given blind;
  blind.blind = "the node cannot be read";
  EXPECT_EQ(blind.word(), Standing::unknown);
  blind.requests(100, 0, 90);
  EXPECT_EQ(blind.word(), Standing::down);
  Given silent;
  silent.servers.loads[0].recent.reset();
  EXPECT_EQ(silent.word(), Standing::unknown);
}

// One that has just begun anew: what it carries says nothing of what becomes of requests.
TEST(Verdict, AGatewayThatHasJustBegunKnowsNothingGood) {
  Given given;
  const auto counted = [&](double seconds, double in_time) {
    ServiceLoad& load = given.servers.loads[0];
    const double due = 100 * seconds;
    load.recent = load.lately = load.minute = {seconds, due, due, due * in_time};
    return given.word();
  };
  EXPECT_EQ(counted(0, 1), Standing::unknown);
  EXPECT_EQ(counted(2, 1), Standing::unknown);
  EXPECT_EQ(counted(2.9, 1), Standing::serves);
  EXPECT_EQ(counted(1, 0.5), Standing::degraded);  // what is bad is said at once
  given.servers.ready = {{"d", 1}, {"e", 1}};
  EXPECT_EQ(counted(1, 1), Standing::unknown);
  EXPECT_EQ(counted(3, 1), Standing::at_risk);
}

TEST(Verdict, SharesInTime) {
  Given given;
  given.requests(100, 100, 99.2);
  EXPECT_EQ(given.word(), Standing::serves);
  given.requests(100, 98.9, 97);
  EXPECT_EQ(given.word(), Standing::degraded);
  given.requests(100, 50, 99.1);  // it has just begun
  EXPECT_EQ(given.word(), Standing::degraded);
  given.requests(100, 0, 99);
  EXPECT_EQ(given.word(), Standing::down);
  given.requests(100, 100, 50);  // it is over
  EXPECT_EQ(given.word(), Standing::serves);
  given.requests(100, 100, 100, 95);  // the last of it
  EXPECT_EQ(given.word(), Standing::serves);
  given.requests(100, 99.1, 96.28, 30);  // the last third of a second of it
  EXPECT_EQ(given.word(), Standing::serves);
  given.requests(100, 99, 98, 98);  // it goes on
  EXPECT_EQ(given.word(), Standing::degraded);
  given.requests(1, 0.667, 0.98);  // one of three, one of fifty: chance
  EXPECT_EQ(given.word(), Standing::serves);
}

// A service that is exactly as good as was promised is not called degraded by chance.
TEST(Verdict, ChanceIsNoReason) {
  Rng rng(5);
  long alarms = 0;
  constexpr int kRounds = 5'000;
  for (int round = 0; round < kRounds; ++round) {
    Given given;
    const double rate = std::exp(rng.uniform() * 4);
    const auto binomial = [&](double n) {
      long missed = 0;
      for (long i = 0; i < std::lround(n); ++i) missed += rng.uniform() < 0.01 ? 1 : 0;
      return static_cast<double>(missed);
    };
    const double of_short = binomial(3 * rate), of_middle = binomial(12 * rate),
                 of_long = binomial(45 * rate);
    given.requests(rate, rate - of_short / 3, rate - of_middle / 12, rate - of_long / 45);
    const Standing word = given.word();
    alarms += word == Standing::degraded || word == Standing::down ? 1 : 0;
  }
  EXPECT_LT(alarms, kRounds / 500);
}

TEST(Verdict, WhatWouldBreakNextIsARisk) {
  const auto word = [](auto change) {
    Given given;
    change(given);
    return given.word();
  };
  EXPECT_EQ(word([](Given& g) { g.requests(130, 130, 130); }), Standing::at_risk);
  EXPECT_EQ(word([](Given& g) { g.memory.target->rates[0].needed_rps = 150; }), Standing::at_risk);
  EXPECT_EQ(word([](Given& g) { g.servers.supervisor = false; }), Standing::at_risk);
  EXPECT_EQ(word([](Given& g) { g.servers.supervisor.reset(); }), Standing::serves);
  const auto out = [](bool by_person) {
    return
        [=](Given& g) { g.memory.out = {{.uuid = "GPU-1", .why = "ill", .by_person = by_person}}; };
  };
  EXPECT_EQ(word(out(false)), Standing::at_risk);
  EXPECT_EQ(word(out(true)), Standing::serves);
  const auto proposal = [](double rate, bool gain) {
    return [=](Given& g) {
      g.memory.proposal.emplace();
      g.memory.proposal->rates = {{.service = "s", .rate_rps = rate}};
      g.memory.proposal->gain = gain;
    };
  };
  EXPECT_EQ(word(proposal(150, false)), Standing::at_risk);
  EXPECT_EQ(word(proposal(100, false)), Standing::serves);
  EXPECT_EQ(word(proposal(150, true)), Standing::serves);
}

// GPU-1 carries nothing off the bus, whatever its worker says, and what another carries instead is
// no risk.
TEST(Verdict, AGpuThatIsOutMattersAsFarAsItIsNeeded) {
  Given given;
  given.memory.out = {{.uuid = "GPU-1", .why = "off the bus", .lost = true}};
  EXPECT_DOUBLE_EQ(given.verdict().can_carry_rps, 60);
  EXPECT_EQ(given.word(), Standing::at_risk);
  given.assignment.segments.push_back({{"1g", 0}, {"s", 4, 1, 60}, "f", "GPU-2"});
  given.servers.ready["f"] = 1;
  EXPECT_DOUBLE_EQ(given.verdict().can_carry_rps, 120);
  EXPECT_EQ(given.word(), Standing::serves);
  given.memory.out[0].lost = false;  // it still works
  EXPECT_DOUBLE_EQ(given.verdict().can_carry_rps, 180);
  EXPECT_EQ(given.word(), Standing::serves);
  given.servers.ready["f"] = 0;
  EXPECT_EQ(given.word(), Standing::at_risk);
}

// An agent that began while the driver did not answer.
TEST(Verdict, AnAssignmentThatWasNeverReadIsNotNothing) {
  Given given;
  given.assignment.segments.clear();
  EXPECT_EQ(given.word(), Standing::down);
  given.blind = "the driver does not answer";
  EXPECT_EQ(given.word(), Standing::unknown);
  given.requests(100, 0, 0);  // that is known
  EXPECT_EQ(given.word(), Standing::down);
}

TEST(Verdict, ItHasBeenSoSinceItBecameSo) {
  Given given;
  given.memory.verdicts = {{"s", Standing::serves, kNoon - 5000}};
  EXPECT_EQ(given.verdict().since_ms, kNoon - 5000);
  given.requests(100, 0, 90);
  EXPECT_EQ(given.verdict().since_ms, kNoon);
  given.memory.verdicts = {{"s", Standing::down, kNoon + 5000}};  // a clock that went back
  EXPECT_EQ(given.verdict().since_ms, kNoon);
}

TEST(Standing, TimesAreWrittenAndRead) {
  EXPECT_EQ(utc_text(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(utc_text(1'767'571'200'250), "2026-01-05T00:00:00.250Z");
  for (const std::int64_t ms : {0L, 951'782'399'999L, 1'767'571'200'250L, 253'402'300'799'999L})
    EXPECT_EQ(parse_utc(utc_text(ms)), ms);
  for (const char* const wrong : {"", "2026-01-05", "2026-02-30T00:00:00.000Z", "now",
                                  "2026-01-05T00:00:00.250Zx", "2026-01-05T24:00:00.000Z"})
    EXPECT_FALSE(parse_utc(wrong)) << wrong;
}

}  // namespace
}  // namespace partita::control
