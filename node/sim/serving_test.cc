#include "sim/serving.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/document.h"
#include "hw/catalogue.h"

namespace partita::sim {
namespace {

hw::MigProfile mig(const std::string& name, int gpcs, int sms) {
  hw::MigProfile profile;
  profile.name = name;
  profile.gpcs = gpcs;
  profile.sms = sms;
  return profile;
}

// A GPU of 7 compute slices; model m takes 10 ms for up to 4 requests on 1g, 4 ms on 3g.
plan::FleetEntry fleet() {
  plan::FleetEntry fleet;
  fleet.gpu.name = std::string("G");
  fleet.gpu.compute_slices = 7;
  fleet.gpu.profiles = {mig("1g", 1, 14), mig("3g", 3, 42)};
  profile::WorkloadProfile& workload = fleet.profiles["m"];
  workload.model = std::string("m");
  workload.points = {{1, 4, 1, Rps{400}, Millis{10}, {}},
                     {1, 4, 2, Rps{600}, Millis{13}, {}},
                     {3, 4, 1, Rps{1000}, Millis{4}, {}}};
  return fleet;
}

plan::Service service(const std::string& name, double rate, double slo_ms) {
  plan::Service service;
  service.name = name;
  service.model = std::string("m");
  service.rate = Rps{rate};
  service.slo = Millis{slo_ms};
  return service;
}

plan::PlannedInstance on_1g(const std::string& name, int start) {
  return {"1g", start, name, 4, 1, Rps{400}, Millis{10}};
}

plan::PlannedInstance on_3g(const std::string& name, int start) {
  return {"3g", start, name, 4, 1, Rps{1000}, Millis{4}};
}

struct ServingScene {
  plan::ServingProblem problem;
  plan::ServingPlan plan;
  ServingOptions options;
};

// a on one 1g; b on a 3g and a 1g; the second GPU is empty.
ServingScene scene() {
  ServingScene scene;
  scene.problem.fleet = {fleet()};
  scene.problem.services = {service("a", 250, 40), service("b", 900, 40)};
  scene.plan.gpus = {{0, "G", {on_1g("a", 0), on_3g("b", 1), on_1g("b", 4)}}, {1, "G", {}}};
  scene.options.duration = Seconds{20};
  return scene;
}

ServingReport run(const ServingScene& scene) {
  const Result<ServingReport> report = simulate(scene.problem, scene.plan, scene.options);
  EXPECT_TRUE(report) << to_string(report.error());
  return report ? *report : ServingReport{};
}

TEST(Simulate, ConservesRequestsAndMeetsAnEasySlo) {
  for (const auto batching : {BatchingKind::paced, BatchingKind::full}) {
    for (const auto arrivals : {ArrivalKind::poisson, ArrivalKind::uniform}) {
      ServingScene s = scene();
      s.options.batching = batching;
      s.options.arrivals = arrivals;
      const ServingReport report = run(s);
      for (const ServiceReport& service : report.services) {
        EXPECT_EQ(service.offered, service.completed);
        EXPECT_GT(service.slo_attainment, batching == BatchingKind::full ? 0.9 : 0.99);
        EXPECT_LE(service.p50, service.p95);
        EXPECT_LE(service.p95, service.p99);
      }
      EXPECT_NEAR(static_cast<double>(report.services[0].offered), 5000, 300);
      EXPECT_NEAR(static_cast<double>(report.services[1].offered), 18000, 600);
    }
  }
}

TEST(Simulate, UniformTrafficThatFitsTheExecutionNeverWaits) {
  ServingScene s = scene();
  s.problem.services = {service("a", 80, 11)};  // one every 12.5 ms, 10 ms each
  s.plan.gpus = {{0, "G", {on_1g("a", 0)}}};
  s.options.arrivals = ArrivalKind::uniform;
  const ServingReport report = run(s);
  EXPECT_EQ(report.services[0].offered, 1600);
  EXPECT_EQ(report.services[0].slo_attainment, 1);
  EXPECT_EQ(report.services[0].p50, Millis{10});
  EXPECT_EQ(report.services[0].p99, Millis{10});
  EXPECT_EQ(report.events, 3 * 1600);
  EXPECT_NEAR(report.internal_slack, 1 - 80 * 0.010, 1e-3);
  EXPECT_DOUBLE_EQ(report.external_fragmentation, 1 - 1.0 / 7);
}

TEST(Simulate, SlackWeighsInstancesByTheirSms) {
  ServingScene s = scene();
  s.problem.services = {service("a", 50, 100), service("b", 50, 100)};
  s.plan.gpus = {{0, "G", {on_1g("a", 0), on_3g("b", 1)}}, {1, "G", {}}};
  s.options.arrivals = ArrivalKind::uniform;
  const double expected = 1 - (14 * 50 * 0.010 + 42 * 50 * 0.004) / (14 + 42);
  EXPECT_NEAR(run(s).internal_slack, expected, 1e-3);
  EXPECT_DOUBLE_EQ(run(s).external_fragmentation, 1 - 4.0 / 7);
  s.problem.fleet[0].gpu.profiles[1].sms.reset();  // then compute slices weigh
  const double by_slices = 1 - (1 * 50 * 0.010 + 3 * 50 * 0.004) / (1 + 3);
  EXPECT_NEAR(run(s).internal_slack, by_slices, 1e-3);
}

TEST(Simulate, SameSeedSameReportOtherSeedOtherLog) {
  ServingScene s = scene();
  const ServingReport first = run(s);
  EXPECT_EQ(run(s), first);
  s.options.seed = 2;
  EXPECT_NE(run(s).log_hash, first.log_hash);
}

TEST(Simulate, OrderOfServicesOnlyPermutesTheReport) {
  ServingScene s = scene();
  s.problem.services.push_back(service("c", 100, 50));
  s.plan.gpus[1].instances = {on_1g("c", 0)};
  ServingReport first = run(s);
  std::rotate(s.problem.services.begin(), s.problem.services.begin() + 1, s.problem.services.end());
  ServingReport second = run(s);
  EXPECT_EQ(second.services[2].name, "a");
  EXPECT_NE(first, second);
  std::rotate(first.services.begin(), first.services.begin() + 1, first.services.end());
  EXPECT_EQ(first, second);
}

TEST(Simulate, AServiceDoesNotFeelItsNeighbours) {
  ServingScene s = scene();
  const ServiceReport before = run(s).services[0];
  s.problem.services[1].rate = Rps{5000};
  EXPECT_EQ(run(s).services[0], before);
}

TEST(Simulate, OverloadIsSeen) {
  ServingScene s = scene();
  s.problem.services[0].rate = Rps{600};  // 400 can be served
  const ServiceReport shed = run(s).services[0];
  EXPECT_EQ(shed.offered, shed.completed + shed.refused);
  EXPECT_NEAR(shed.slo_attainment, 400.0 / 600, 0.02);
  s.options.shed = false;
  const ServiceReport a = run(s).services[0];
  EXPECT_EQ(a.offered, a.completed);
  EXPECT_LT(a.slo_attainment, 0.05);
  EXPECT_NEAR(a.p99.value, 0.99 * 20e3 * 0.5, 500);  // 200/s pile up for 20 s, 400/s leave
}

TEST(Simulate, WithoutAnInstanceNothingIsCompleted) {
  ServingScene s = scene();
  s.plan.gpus = {{0, "G", {on_1g("a", 0)}}};
  const ServingReport report = run(s);
  EXPECT_GT(report.services[1].offered, 17000);
  EXPECT_EQ(report.services[1].completed, 0);
  EXPECT_EQ(report.services[1].slo_attainment, 0);
  s.plan.gpus.clear();
  EXPECT_EQ(run(s).internal_slack, 0);
  EXPECT_EQ(run(s).external_fragmentation, 0);
}

TEST(Simulate, FullBatchesMissWhatPacedBatchesMeet) {
  ServingScene s = scene();
  s.problem.services = {service("a", 20, 40)};  // a batch of 4 takes 150 ms to fill
  s.plan.gpus = {{0, "G", {on_1g("a", 0)}}};
  EXPECT_GT(run(s).services[0].slo_attainment, 0.99);
  s.options.batching = BatchingKind::full;
  EXPECT_LT(run(s).services[0].slo_attainment, 0.5);
}

TEST(Simulate, TracesDriveTheServicesTheyName) {
  ServingScene s = scene();
  s.options.arrivals = ArrivalKind::trace;
  s.options.traces = {{"b", {0, 1, 2, 19.9, 20, 30}}};
  const ServingReport report = run(s);
  EXPECT_EQ(report.services[0].offered, 0);
  EXPECT_EQ(report.services[0].slo_attainment, 1);
  EXPECT_EQ(report.services[1].offered, 4);  // arrivals stop at 20 s
  EXPECT_EQ(report.services[1].p99, Millis{4});
}

TEST(Simulate, DeclaredArrivalsDriveTheServices) {
  ServingScene poisson = scene(), declared = scene();
  poisson.options.arrivals = ArrivalKind::poisson;
  EXPECT_EQ(run(declared), run(poisson));
  declared.problem.services[1].traffic.arrivals = plan::GammaArrivals{3};
  const ServingReport bursty = run(declared);
  EXPECT_EQ(bursty.services[0], run(poisson).services[0]);
  EXPECT_LT(bursty.services[1].slo_attainment, run(poisson).services[1].slo_attainment);
  poisson.options.arrivals = ArrivalKind::gamma;
  poisson.options.cv = 3;
  EXPECT_EQ(bursty.services[1], run(poisson).services[1]);
  // 20 s of a minute with 12,000 requests, however many the next has: at the mean of both.
  auto& traffic = declared.problem.services[0].traffic;
  const plan::TrafficTrace trace{{}, {12'000, 6'000}};
  traffic.arrivals =
      plan::TraceArrivals{"f", "", std::make_shared<const plan::TrafficTrace>(trace)};
  declared.problem.services[0].rate = trace.mean();
  EXPECT_NEAR(static_cast<double>(run(declared).services[0].offered), 4000, 5 * std::sqrt(4000));
}

TEST(Simulate, RefusesATraceThatIsNotLoaded) {
  ServingScene s = scene();
  s.problem.services[1].traffic.arrivals = plan::TraceArrivals{"f.csv", "", nullptr};
  const auto report = simulate(s.problem, s.plan, s.options);
  ASSERT_FALSE(report);
  EXPECT_EQ(to_string(report.error()), "service b: its trace f.csv has not been loaded");
  s.options.arrivals = ArrivalKind::poisson;
  EXPECT_TRUE(simulate(s.problem, s.plan, s.options));
}

TEST(Simulate, RefusesWhatTheProblemDoesNotKnow) {
  const auto context = [](auto change) {
    ServingScene s = scene();
    change(s);
    const auto report = simulate(s.problem, s.plan, s.options);
    return report ? std::string("accepted") : to_string(report.error());
  };
  const auto instance = [](ServingScene& s) -> plan::PlannedInstance& {
    return s.plan.gpus[0].instances[1];
  };
  EXPECT_EQ(context([&](ServingScene& s) { instance(s).service = "x"; }),
            "plan gpu 0 start 1: unknown service x");
  EXPECT_EQ(context([&](ServingScene& s) { instance(s).profile = "2g"; }),
            "plan gpu 0 start 1: unknown MIG profile 2g");
  EXPECT_EQ(context([&](ServingScene& s) { instance(s).batch = 3; }),
            "plan gpu 0 start 1: m was not measured on 3 GPCs with batch 3 and 1 processes");
  EXPECT_EQ(context([&](ServingScene& s) { instance(s).throughput = Rps{0}; }),
            "plan gpu 0 start 1: the planned throughput is not positive");
  EXPECT_EQ(context([](ServingScene& s) { s.plan.gpus[0].model = "H"; }),
            "plan gpu 0: unknown GPU model H");
  EXPECT_EQ(context([](ServingScene& s) { s.problem.services[1].model = "n"; }),
            "plan gpu 0 start 1: no profile of model n on G");
  EXPECT_EQ(context([](ServingScene& s) { s.problem.services[1].name = "a"; }),
            "service a: the name appears twice");
  EXPECT_EQ(context([](ServingScene& s) { s.problem.services[1].rate = Rps{-1}; }),
            "service b: rate and SLO must be positive");
  EXPECT_EQ(context([](ServingScene& s) {
              s.options.traces = {{"x", {1}}};
            }),
            "trace: unknown service x");
  EXPECT_EQ(context([](ServingScene& s) {
              s.options.traces = {{"a", {2, 1}}};
            }),
            "trace: times of a do not ascend from 0");
  EXPECT_EQ(context([](ServingScene& s) { s.options.warmup = Seconds{20}; }),
            "warmup: must be at least 0 and less than the duration");
  for (const double seconds : {0.0, -1.0, 2e8, std::nan("")}) {
    EXPECT_EQ(context([&](ServingScene& s) { s.options.duration = Seconds{seconds}; }),
              "duration: must be positive and at most 100000000 s");
  }
}

TEST(Simulate, LimitsAreNamed) {
  ServingScene s = scene();
  s.options.duration = Seconds{1e7};
  EXPECT_EQ(simulate(s.problem, s.plan, s.options).error().code, ErrorCode::limit);
  s = scene();
  s.problem.fleet[0].profiles["m"].points[0].latency = Millis{1e12};
  EXPECT_EQ(simulate(s.problem, s.plan, s.options).error().code, ErrorCode::limit);
}

TEST(Simulate, TenThousandServices) {
  ServingScene s = scene();
  s.problem.services.clear();
  s.plan.gpus.clear();
  for (int i = 0; i < 10'000; ++i) {
    const std::string name = "service-" + std::to_string(i);
    s.problem.services.push_back(service(name, 10, 30));
    s.plan.gpus.push_back({i, "G", {on_1g(name, 0)}});
  }
  s.options.duration = Seconds{2};
  long offered = 0;
  for (const ServiceReport& report : run(s).services) {
    offered += report.offered;
    ASSERT_EQ(report.offered, report.completed);
  }
  EXPECT_NEAR(static_cast<double>(offered), 200e3, 5 * std::sqrt(200e3));
}

TEST(ReportJson, HasTheAgreedKeys) {
  ServingReport report;
  report.services = {{"a \"b\"", 10, 9, 0.9, Millis{1.5}, Millis{2.5}, Millis{3.5}}};
  report.internal_slack = 0.25;
  report.external_fragmentation = 0.125;
  report.log_hash = 0xab;
  const auto document = parse_document("report.json", report_json(report, 7, 1e6));
  ASSERT_TRUE(document) << to_string(document.error());
  const Node& root = document->root;
  EXPECT_EQ(root.find("api_version")->text, "partita/v1");
  EXPECT_EQ(root.find("kind")->text, "ServingReport");
  EXPECT_EQ(root.find("seed")->number, 7);
  EXPECT_EQ(root.find("events_per_second")->number, 1e6);
  EXPECT_EQ(root.find("log_hash")->text, "00000000000000ab");
  EXPECT_EQ(root.find("gpus")->find("internal_slack")->number, 0.25);
  EXPECT_EQ(root.find("gpus")->find("external_fragmentation")->number, 0.125);
  ASSERT_EQ(root.find("services")->items.size(), 1u);
  const Node& service = root.find("services")->items[0];
  EXPECT_EQ(service.find("name")->text, "a \"b\"");
  const std::vector<std::pair<const char*, double>> numbers = {
      {"offered", 10}, {"completed", 9}, {"slo_attainment", 0.9},
      {"p50_ms", 1.5}, {"p95_ms", 2.5},  {"p99_ms", 3.5}};
  for (const auto& [key, value] : numbers) EXPECT_EQ(service.find(key)->number, value) << key;
}

TEST(Simulate, WhoWasAskedForNothingHasNoShareInTime) {
  ServingReport report;
  report.services.emplace_back().name = "a";
  report.services[0].slo_attainment = 1;
  const std::string text = report_json(report, 7, 1e6);
  EXPECT_NE(text.find("\"slo_attainment\": null"), std::string::npos) << text;
  const auto read = parse_serving_report("report.json", text);
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(report_json(*read), text);
}

// What a plan says of 1.05 and 1.2 times its rates is what a long run says.
TEST(Simulate, AboveItsRatesAPlanDoesWhatItSays) {
  ServingScene s = scene();
  s.problem.services = {service("a", 390, 60), service("b", 900, 40)};
  const auto stated = with_overload(s.problem, [&] {
    for (const plan::Service& one : s.problem.services) {
      plan::PlannedService& row = s.plan.services.emplace_back();
      row.name = one.name;
    }
    return s.plan;
  }());
  ASSERT_TRUE(stated) << to_string(stated.error());
  for (std::size_t f = 0; f < 2; ++f) {
    ServingScene more = s;
    for (plan::Service& one : more.problem.services) one.rate = one.rate * kOverloads[f];
    more.options.duration = Seconds{200};
    const ServingReport report = run(more);
    for (std::size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(stated->services[i].overload.size(), 2u);
      EXPECT_EQ(stated->services[i].overload[f].factor, kOverloads[f]);
      EXPECT_NEAR(stated->services[i].overload[f].in_time, report.services[i].slo_attainment, 0.04);
    }
  }
  EXPECT_LT(stated->services[0].overload[1].in_time, 0.9);
  EXPECT_GT(stated->services[1].overload[1].in_time, 0.99);
  // More requests in flight than are played for it: nothing is said of that service.
  s.problem.services[0].rate = Rps{1e6};
  const auto large = with_overload(s.problem, s.plan);
  ASSERT_TRUE(large);
  EXPECT_TRUE(large->services[0].overload.empty());
  EXPECT_FALSE(large->services[1].overload.empty());
}

TEST(Simulate, AboveItsRateALanguageModelDoesWhatItsPlanSays) {
  ServingScene s;
  plan::FleetEntry& entry = s.problem.fleet.emplace_back();
  entry.gpu = *hw::builtin_model("A100-80GB");
  profile::TokenEngine& engine = entry.engines["lm"].emplace_back();
  engine.name.configuration = "made up";
  engine.spec.cost = {.step = 8, .sequence = 0.05, .prompt_token = 0.04};
  engine.spec.sequences = 64;
  plan::Service& chat = s.problem.services.emplace_back();
  chat.name = "chat";
  chat.model = "lm";
  chat.rate = Rps{30};
  chat.tokens = plan::TokenTerms{.ttft = Millis{60}, .lengths = plan::TokenPair{500, 100}};
  s.plan.gpu_model = entry.gpu.name;
  for (int g = 0; g < 2; ++g) {
    plan::PlannedInstance one{"7g.80gb", 0, "chat", 64, 1, Rps{15}, Millis{10}};
    one.engine = engine.name;
    s.plan.gpus.push_back({g, entry.gpu.name, {one}});
  }
  s.plan.services.emplace_back().name = "chat";
  const auto stated = with_overload(s.problem, s.plan);
  ASSERT_TRUE(stated) << to_string(stated.error());
  ASSERT_EQ(stated->services[0].overload.size(), 2u);
  for (std::size_t f = 0; f < 2; ++f) {
    ServingScene more = s;
    more.problem.services[0].rate = chat.rate * kOverloads[f];
    more.options.duration = Seconds{300};
    more.options.shed = false;
    const double in_time = run(more).services[0].slo_attainment;
    more.options.shed = true;
    EXPECT_GT(run(more).services[0].slo_attainment, in_time);
    EXPECT_NEAR(stated->services[0].overload[f].in_time, in_time, 0.05);
    EXPECT_LT(in_time, 0.99);
    EXPECT_GT(in_time, 0.3);
  }
}

}  // namespace
}  // namespace partita::sim
