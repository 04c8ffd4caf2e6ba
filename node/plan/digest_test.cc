#include "plan/digest.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

namespace partita::plan {
namespace {

ServingProblem some_services() {
  ServingProblem problem;
  problem.services.resize(3);
  const char* const names[] = {"a", "b", "c"};
  for (int s = 0; s < 3; ++s) {
    Service& service = problem.services[static_cast<std::size_t>(s)];
    service.name = names[s];
    service.model = s == 1 ? "lm" : "cnn";
    service.rate = Rps{10.0 + s};
    service.slo = Millis{100};
  }
  problem.services[0].avoid = {"c", "b"};
  profile::ProfileTable table;
  table["cnn"] = {"cnn", {{1, 1, 1, Rps{5}, Millis{9}, {}}, {1, 2, 1, Rps{8}, Millis{12}, {}}}};
  table["lm"] = {"lm", {{7, 1, 1, Rps{5}, Millis{9}, Mib{100}}}};
  table["unused"] = {"unused", {{1, 1, 1, Rps{5}, Millis{9}, {}}}};
  hw::GpuModel big, small;
  big.name = "big";
  small.name = "small";
  problem.fleet = {{big, table, std::nullopt, 1}, {small, table, 3, 2}};
  return problem;
}

TraceArrivals some_trace(std::vector<double> times_s) {
  return {"file", "", std::make_shared<const TrafficTrace>(TrafficTrace{std::move(times_s), {}})};
}

BatchProblem some_tasks() {
  BatchProblem problem;
  problem.models.resize(2);
  problem.models[0].name = "big";
  problem.models[1].name = "small";
  problem.gpus = {0, 1, 1};
  for (const char* name : {"x", "y", "z"}) {
    Task task{.name = name, .times = std::vector<SizeTimes>(2)};
    task.times[0][1] = 7;
    task.times[1][2] = 9;
    problem.tasks.push_back(task);
  }
  problem.tasks[2].after = {"x", "y"};
  return problem;
}

KernelProblem some_kernels() {
  return {.workers = {{"a", {{30, 60}, {10, 9, 20, 5}}}, {"b", {{30, 60}, {8, 7, 8, 6}}}}};
}

template <class Problem>
void expect_all_different(const Problem& problem,
                          const std::vector<std::function<void(Problem&)>>& changes) {
  std::set<std::string> seen{digest(problem)};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Problem changed = problem;
    changes[i](changed);
    EXPECT_TRUE(seen.insert(digest(changed)).second) << "change " << i;
  }
}

RC_GTEST_PROP(Digest, OrderOfServicesModelsAndPointsDoesNotCount, ()) {
  const auto shuffle = [](auto& items) {
    for (std::size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[*rc::gen::inRange<std::size_t>(0, i)]);
  };
  ServingProblem problem = some_services();
  shuffle(problem.services);
  shuffle(problem.fleet);
  for (Service& service : problem.services) shuffle(service.avoid);
  for (FleetEntry& entry : problem.fleet) shuffle(entry.profiles.at("cnn").points);
  RC_ASSERT(digest(problem) == digest(some_services()));
  BatchProblem tasks = some_tasks();
  shuffle(tasks.tasks);
  for (Task& task : tasks.tasks) shuffle(task.after);
  RC_ASSERT(digest(tasks) == digest(some_tasks()));
}

TEST(Digest, WhatAPlanMayLeaveUnusedDoesNotCount) {
  ServingProblem problem = some_services();
  problem.fleet[1].count = 7;
  problem.fleet[1].price = 9;
  problem.max_processes = 1;
  problem.services[0].line = 12;
  problem.services[0].traffic = Traffic{};
  for (FleetEntry& entry : problem.fleet) entry.profiles.erase("unused");
  EXPECT_EQ(digest(problem), digest(some_services()));
  BatchProblem tasks = some_tasks();
  tasks.tasks[0].command = "true";
  tasks.tasks[0].deadline = 1;
  tasks.tasks[0].priority = 2;
  // The same models, listed in another order.
  std::swap(tasks.models[0], tasks.models[1]);
  tasks.gpus = {1, 0, 0};
  for (Task& task : tasks.tasks) std::swap(task.times[0], task.times[1]);
  EXPECT_EQ(digest(tasks), digest(some_tasks()));
}

TEST(Digest, EverythingElseOfServingCounts) {
  using P = ServingProblem;
  const auto point = [](P& p) -> profile::ProfilePoint& {
    return p.fleet[0].profiles.at("cnn").points[0];
  };
  expect_all_different<P>(some_services(),
                          {
                              [](P& p) { p.services[0].name = "d"; },
                              [](P& p) { p.services[0].model = "lm"; },
                              [](P& p) { p.services[0].rate = Rps{10.5}; },
                              [](P& p) { p.services[0].slo = Millis{101}; },
                              [](P& p) { p.services[0].percentile = 95; },
                              [](P& p) { p.services[0].min_replicas = 2; },
                              [](P& p) { p.services[0].spread = true; },
                              [](P& p) { p.services[0].avoid.pop_back(); },
                              [](P& p) { p.services[0].traffic.headroom = 0.1; },
                              [](P& p) { p.services[0].traffic.arrivals = EvenArrivals{}; },
                              [](P& p) { p.services[0].traffic.arrivals = GammaArrivals{2}; },
                              [](P& p) { p.services[0].traffic.arrivals = GammaArrivals{3}; },
                              [](P& p) {
                                p.services[0].traffic.arrivals = BurstArrivals{{3, 5, 60}};
                              },
                              [](P& p) {
                                p.services[0].traffic.arrivals = MmppArrivals{{3, 5, 60}};
                              },
                              [](P& p) {
                                p.services[0].traffic.arrivals = MmppArrivals{{3, 6, 60}};
                              },
                              [](P& p) {
                                p.services[0].traffic.arrivals = some_trace({1, 2});
                              },
                              [](P& p) {
                                p.services[0].traffic.arrivals = some_trace({1, 3});
                              },
                              [](P& p) {
                                p.services[0].traffic.rates = {{60, Rps{10}}};
                              },
                              [](P& p) {
                                p.services[0].traffic.rates = {{61, Rps{10}}};
                              },
                              [](P& p) { p.services.pop_back(); },
                              [](P& p) { p.rule = kQueueing; },
                              [](P& p) { p.rule = rule_for(Dispatch::shared_queue); },
                              [](P& p) { p.rule = rule_for(Dispatch::per_process); },
                              [](P& p) {
                                p.rule = {SloRule::Kind::execution, 0.5};
                              },
                              [](P& p) {
                                p.rule = {SloRule::Kind::execution, 0.45};
                              },
                              [](P& p) { p.fleet.pop_back(); },
                              [](P& p) { p.fleet[0].gpu.name = "other"; },
                              [&](P& p) { point(p).gpcs = 2; },
                              [&](P& p) { point(p).batch = 4; },
                              [&](P& p) { point(p).processes = 2; },
                              [&](P& p) { point(p).throughput = Rps{5.5}; },
                              [&](P& p) { point(p).latency = Millis{9.5}; },
                              [&](P& p) { point(p).memory = Mib{1}; },
                              [](P& p) { p.fleet[0].profiles.at("cnn").points.pop_back(); },
                          });
}

TEST(Digest, EverythingElseOfBatchesAndKernelsCounts) {
  using B = BatchProblem;
  expect_all_different<B>(some_tasks(),
                          {
                              [](B& p) { p.tasks[0].name = "w"; },
                              [](B& p) { p.tasks[0].times[0][1] = 8; },
                              [](B& p) { std::swap(p.tasks[0].times[0], p.tasks[0].times[1]); },
                              [](B& p) { p.tasks[0].release = 1; },
                              [](B& p) { p.tasks[2].after.pop_back(); },
                              [](B& p) { p.tasks.pop_back(); },
                              [](B& p) {
                                p.gpus = {0, 0, 1};
                              },
                              [](B& p) { p.gpus.pop_back(); },
                          });
  using K = KernelProblem;
  expect_all_different<K>(some_kernels(), {
                                              [](K& p) { p.workers[0].name = "c"; },
                                              [](K& p) { p.workers[0].times.units[0] = 15; },
                                              [](K& p) { p.workers[0].times.time[3] = 4; },
                                              [](K& p) { std::swap(p.workers[0], p.workers[1]); },
                                              [](K& p) { p.workers.pop_back(); },
                                              [](K& p) { p.total_units = 64; },
                                              [](K& p) { p.switches = 3; },
                                              [](K& p) { p.switch_cost = 1; },
                                              [](K& p) { p.overlap = Overlap::literal; },
                                          });
}

}  // namespace
}  // namespace partita::plan
