#include "verify/serving.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "hw/catalogue.h"
#include "hw/layout.h"

namespace partita::verify {
namespace {

using plan::PlannedInstance;
using plan::Reason;
using plan::ServingPlan;
using plan::ServingProblem;
using plan::SloRule;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- problems and plans that are right by construction ----

// Sizes 1..7 x batches 1..8 x 1 or 2 processes, faster on more GPCs; `work` ms per request on 1
// GPC.
profile::WorkloadProfile workload(const std::string& model, double work) {
  profile::WorkloadProfile profile{model, {}};
  for (const int gpcs : {1, 2, 3, 4, 7})
    for (const int processes : {1, 2})
      for (const int batch : {1, 2, 4, 8}) {
        const double latency = (4 + work * batch * (processes == 1 ? 1 : 1.6)) / gpcs;
        profile.points.push_back({gpcs, batch, processes, Rps{1000.0 * batch * processes / latency},
                                  Millis{latency}, Mib{400.0 * processes + 8 * batch}});
      }
  return profile;
}

plan::FleetEntry fleet_of(const std::string& model) {
  plan::FleetEntry entry;
  entry.gpu = *hw::builtin_catalogue().find(model);
  entry.profiles = {{"cnn", workload("cnn", 1)}, {"lm", workload("lm", 9)}};
  return entry;
}

const hw::MigProfile& shape_of(const plan::FleetEntry& entry, const PlannedInstance& instance) {
  return entry.gpu.profiles.at(static_cast<std::size_t>(entry.gpu.profile_index(instance.profile)));
}

// Fills everything that follows from profile, start, service, batch and processes.
void complete(const ServingProblem& problem, ServingPlan& plan) {
  plan.gpu_model = problem.fleet.front().gpu.name;
  plan.rule = problem.rule;
  plan.services.clear();
  for (const plan::Service& service : problem.services)
    plan.services.push_back(plan::row_of(service, problem.rule));
  plan::Objective& objective = plan.objective = {};
  for (plan::PlannedGpu& gpu : plan.gpus) {
    const auto entry = std::ranges::find_if(
        problem.fleet, [&](const plan::FleetEntry& e) { return e.gpu.name == gpu.model; });
    objective.gpus += 1;
    objective.cost += entry->price;
    for (PlannedInstance& instance : gpu.instances) {
      objective.gpcs += shape_of(*entry, instance).gpcs;
      const auto service =
          std::ranges::find(problem.services, instance.service, &plan::Service::name);
      const profile::ProfilePoint* point =
          profile::find_point(entry->profiles.at(service->model), shape_of(*entry, instance).gpcs,
                              instance.batch, instance.processes);
      instance.throughput = point->throughput;
      instance.latency = point->latency;
      plan::PlannedService& row =
          *std::ranges::find(plan.services, instance.service, &plan::PlannedService::name);
      row.planned += point->throughput;
      row.predicted_latency = problem.rule.kind == SloRule::Kind::execution
                                  ? std::max(row.predicted_latency, point->latency)
                                  : row.slo * 0.99;
    }
  }
}

plan::Service service(const std::string& name, const std::string& model, double rps, double slo) {
  plan::Service made;
  made.name = name;
  made.model = model;
  made.rate = Rps{rps};
  made.slo = Millis{slo};
  return made;
}

struct Case {
  ServingProblem problem;
  ServingPlan plan;
};

PlannedInstance segment(const std::string& profile, int start, const std::string& service) {
  return {profile, start, service, 4, 2, {}, {}};
}

// Three services on two A100; batch 4, 2 processes: latencies (cnn 10.4, lm 61.6)/gpcs ms.
Case a100(SloRule rule = {SloRule::Kind::execution, 0.5}) {
  Case c;
  c.problem.fleet = {fleet_of("A100-80GB")};
  c.problem.rule = rule;
  c.problem.services = {service("cats", "cnn", 1000, 100), service("dogs", "cnn", 3000, 60),
                        service("talk", "lm", 500, 170)};
  c.plan.planner = "by hand";
  c.plan.gpus = {{0, "A100-80GB", {segment("4g.40gb", 0, "dogs"), segment("3g.40gb", 4, "talk")}},
                 {1,
                  "A100-80GB",
                  {segment("2g.20gb", 0, "cats"), segment("1g.10gb", 2, "dogs"),
                   segment("3g.40gb", 4, "talk")}}};
  complete(c.problem, c.plan);
  return c;
}

std::set<std::string> words(const Case& c) {
  std::set<std::string> found;
  for (const Reason& reason : verify(c.problem, c.plan))
    EXPECT_TRUE(found.insert(reason.constraint + ": " + reason.subject).second)
        << "twice: " << plan::to_string(reason);
  return found;
}

TEST(Verify, ARightPlanHasNoViolation) {
  EXPECT_EQ(words(a100()), std::set<std::string>{});
  EXPECT_EQ(words(a100(SloRule{})), std::set<std::string>{});
  EXPECT_EQ(words(a100(plan::kQueueing)), std::set<std::string>{});
}

TEST(Verify, OtherGpuModels) {
  for (const auto& [model, big, small, second] : {std::tuple("A30-24GB", "2g.12gb", "1g.6gb", 2),
                                                  {"H100-80GB-SXM5", "3g.40gb", "1g.10gb", 4}}) {
    Case c = a100();
    c.problem.fleet = {fleet_of(model)};
    c.problem.services = {service("cats", "cnn", 900, 100), service("talk", "lm", 200, 170)};
    c.plan.gpus = {{3, model, {segment(small, 0, "cats"), segment(big, second, "talk")}},
                   {5, model, {segment(small, 1, "cats")}}};
    complete(c.problem, c.plan);
    EXPECT_EQ(words(c), std::set<std::string>{}) << model;
    c.plan.gpus[0].instances[0].start = second;
    EXPECT_EQ(words(c), std::set<std::string>{"memory_slices: gpu 3 instances 0 and 1"}) << model;
  }
}

// ---- one mutation, exactly its violations ----

struct Mutation {
  std::string what;
  std::function<void(Case&)> apply;
  std::set<std::string> expected;  // the first is the point, others follow from it by logic
};

PlannedInstance& at(Case& c, std::size_t gpu, std::size_t instance) {
  return c.plan.gpus[gpu].instances[instance];
}

std::vector<Mutation> layout_mutations() {
  return {
      {"an instance moves by one slice",
       [](Case& c) { at(c, 1, 0).start = 1; },
       {"illegal_start: gpu 1 instance 0"}},
      {"a start far outside",
       [](Case& c) { at(c, 1, 0).start = 1'000'000; },
       {"illegal_start: gpu 1 instance 0"}},
      {"a negative start",
       [](Case& c) { at(c, 0, 0).start = -1; },
       {"illegal_start: gpu 0 instance 0"}},
      {"two instances overlap",
       [](Case& c) { at(c, 1, 1).start = 1; },
       {"memory_slices: gpu 1 instances 0 and 1"}},
      {"the last size overlaps the first",
       [](Case& c) { at(c, 0, 1).start = 0; },
       {"memory_slices: gpu 0 instances 0 and 1"}},
      {"an instance too many in compute slices",
       [](Case& c) {
         c.plan.gpus[1].instances = {segment("3g.40gb", 0, "dogs"), segment("3g.40gb", 4, "talk")};
         c.plan.gpus[0].instances[0] = segment("3g.40gb", 0, "dogs");
         c.plan.gpus.push_back({2, "A100-80GB", {}});
         for (int start = 0; start < 7; ++start)
           c.plan.gpus[2].instances.push_back(segment("1g.10gb", start, "cats"));
         c.plan.gpus[2].instances.push_back(segment("1g.10gb", 0, "cats"));
         complete(c.problem, c.plan);
       },
       {"memory_slices: gpu 2 instances 0 and 7", "compute_slices: gpu 2",
        "max_instances: gpu 2 instance 7"}},
      {"a misspelt profile",
       [](Case& c) { at(c, 1, 0).profile = "2g.21gb"; },
       {"unknown_profile: gpu 1 instance 0", "rate: service cats"}},
      {"a profile of another GPU model",
       [](Case& c) { at(c, 1, 1).profile = "1g.6gb"; },
       {"unknown_profile: gpu 1 instance 1"}},
      {"an unknown GPU model",
       [](Case& c) { c.plan.gpus[1].model = "A100-81GB"; },
       {"unknown_gpu_model: gpu 1", "rate: service cats", "rate: service talk"}},
      {"another model in the head",
       [](Case& c) { c.plan.gpu_model = "A30-24GB"; },
       {"unknown_gpu_model: plan"}},
      {"one index for two GPUs",
       [](Case& c) { c.plan.gpus[1].index = 0; },
       {"duplicate_gpu: gpu 0"}},
      {"a negative index", [](Case& c) { c.plan.gpus[1].index = -1; }, {"gpu_index: gpu -1"}},
      {"a fleet too small",
       [](Case& c) { c.problem.fleet[0].count = 1; },
       {"fleet_count: fleet A100-80GB"}},
      {"a fleet just large enough", [](Case& c) { c.problem.fleet[0].count = 2; }, {}},
      {"two media extensions on one GPU",
       [](Case& c) {
         at(c, 1, 1) = segment("1g.10gb+me", 2, "dogs");
         c.plan.gpus[1].instances.push_back(segment("1g.10gb+me", 3, "dogs"));
         complete(c.problem, c.plan);
       },
       {"media_engines: gpu 1", "max_instances: gpu 1 instance 3"}},
  };
}

std::vector<Mutation> point_mutations() {
  return {
      {"an unknown service",
       [](Case& c) { at(c, 1, 0).service = "birds"; },
       {"unknown_service: gpu 1 instance 0", "missing_service: service cats",
        "service_row: service cats planned_rps"}},
      {"a batch that was not measured",
       [](Case& c) { at(c, 0, 0).batch = 5; },
       {"unknown_point: gpu 0 instance 0", "rate: service dogs"}},
      {"a negative batch",
       [](Case& c) { at(c, 1, 1).batch = -4; },
       {"unknown_point: gpu 1 instance 1"}},
      {"no process",
       [](Case& c) { at(c, 1, 1).processes = 0; },
       {"unknown_point: gpu 1 instance 1"}},
      {"too many processes, measured",
       [](Case& c) { c.problem.max_processes = 1; },
       {"processes: gpu 0 instance 0", "processes: gpu 0 instance 1", "processes: gpu 1 instance 0",
        "processes: gpu 1 instance 1", "processes: gpu 1 instance 2"}},
      {"too many processes, not measured",
       [](Case& c) { at(c, 1, 1).processes = 4; },
       {"processes: gpu 1 instance 1", "unknown_point: gpu 1 instance 1"}},
      {"a model without profile",
       [](Case& c) { c.problem.fleet[0].profiles.erase("lm"); },
       {"unknown_point: gpu 0 instance 1", "unknown_point: gpu 1 instance 2",
        "rate: service talk"}},
      {"not enough memory",
       [](Case& c) {
         for (profile::ProfilePoint& point : c.problem.fleet[0].profiles["cnn"].points)
           if (point.gpcs == 1) point.memory = Mib{1e5};
       },
       {"memory: gpu 1 instance 1"}},
      {"unknown memory is no violation",
       [](Case& c) {
         for (profile::ProfilePoint& point : c.problem.fleet[0].profiles["cnn"].points)
           point.memory.reset();
       },
       {}},
      {"throughput stated 1 % too high",
       [](Case& c) { at(c, 1, 1).throughput.value *= 1.01; },
       {"throughput: gpu 1 instance 1", "service_row: service dogs planned_rps"}},
      {"throughput stated 1e-8 too high",
       [](Case& c) { at(c, 1, 1).throughput.value *= 1 + 1e-8; },
       {"throughput: gpu 1 instance 1", "service_row: service dogs planned_rps"}},
      {"throughput off by rounding",
       [](Case& c) { at(c, 1, 1).throughput.value *= 1 + 1e-12; },
       {}},
      {"a modest statement",
       [](Case& c) {
         c.plan.services[1].planned.value -= at(c, 1, 1).throughput.value / 2;
         at(c, 1, 1).throughput.value /= 2;
       },
       {}},
      {"nothing carried",
       [](Case& c) {
         c.plan.services[1].planned.value -= at(c, 1, 1).throughput.value;
         at(c, 1, 1).throughput.value = 0;
       },
       {"throughput: gpu 1 instance 1"}},
      {"latency stated too low",
       [](Case& c) { at(c, 0, 1).latency.value *= 0.99; },
       {"latency: gpu 0 instance 1"}},
      {"latency stated too high",
       [](Case& c) { at(c, 0, 1).latency.value *= 1 + 1e-6; },
       {"latency: gpu 0 instance 1"}},
  };
}

std::vector<Mutation> rate_mutations() {
  return {
      {"a rate just above what is carried",
       [](Case& c) { c.plan.services[1].rate = c.problem.services[1].rate = Rps{3846.16}; },
       {"rate: service dogs"}},
      {"a rate just below",
       [](Case& c) { c.plan.services[1].rate = c.problem.services[1].rate = Rps{3846.15}; },
       {}},
      {"the statement is too modest for the rate",
       [](Case& c) {
         c.plan.services[1].planned.value -= at(c, 0, 0).throughput.value / 2;
         at(c, 0, 0).throughput.value /= 2;
       },
       {"rate: service dogs"}},
      {"a raised rate that the rows do not know",
       [](Case& c) { c.problem.services[0].rate.value *= 1.01; },
       {"service_row: service cats rate_rps"}},
      {"a tighter SLO, still kept",
       [](Case& c) { c.problem.services[0].slo.value = 99; },
       {"service_row: service cats slo_ms"}},
      {"an SLO that one instance misses",
       [](Case& c) { c.plan.services[1].slo = c.problem.services[1].slo = Millis{20.5}; },
       {"slo: gpu 1 instance 1"}},
      {"the execution rule is strict",
       [](Case& c) {
         c.problem.rule.fraction = 0.125;  // a power of two: no rounding
         c.problem.services = {service("cats", "cnn", 100, 8 * at(c, 1, 1).latency.value)};
         c.plan.gpus = {{0, "A100-80GB", {segment("1g.10gb", 0, "cats")}}};
         complete(c.problem, c.plan);
       },
       {"slo: gpu 0 instance 0"}},
      {"another fraction",
       [](Case& c) { c.problem.rule.fraction = 0.15; },
       {"slo: gpu 1 instance 1"}},
  };
}

std::vector<Mutation> row_mutations() {
  return {
      {"an instance is dropped",
       [](Case& c) { c.plan.gpus[1].instances.erase(c.plan.gpus[1].instances.begin() + 1); },
       {"service_row: service dogs planned_rps", "service_row: service dogs predicted_latency_ms",
        "objective: objective gpcs"}},
      {"the only instance is dropped",
       [](Case& c) { c.plan.gpus[1].instances.erase(c.plan.gpus[1].instances.begin()); },
       {"missing_service: service cats", "service_row: service cats planned_rps",
        "objective: objective gpcs"}},
      {"services swapped",
       [](Case& c) { std::swap(at(c, 1, 0).service, at(c, 1, 1).service); },
       {"rate: service cats", "service_row: service cats planned_rps",
        "service_row: service dogs planned_rps", "service_row: service cats predicted_latency_ms",
        "service_row: service dogs predicted_latency_ms"}},
      {"services of different models swapped",
       [](Case& c) { std::swap(at(c, 0, 0).service, at(c, 0, 1).service); },
       {"latency: gpu 0 instance 0", "latency: gpu 0 instance 1", "throughput: gpu 0 instance 0",
        "rate: service dogs", "service_row: service dogs planned_rps",
        "service_row: service talk planned_rps"}},
      {"a service without row",
       [](Case& c) { c.plan.services.pop_back(); },
       {"service_row: service talk"}},
      {"a row of no service",
       [](Case& c) {
         c.plan.services.push_back(
             {{.name = "birds", .rate = Rps{1}, .slo = Millis{1}}, Rps{1}, Millis{1}});
       },
       {"service_row: service birds"}},
      {"a row three times",
       [](Case& c) { c.plan.services.insert(c.plan.services.end(), 2, c.plan.services[0]); },
       {"duplicate_service: service cats"}},
      {"other terms",
       [](Case& c) {
         c.plan.services[0].percentile = 99.9;
         c.plan.services[0].spread = true;
         c.plan.services[1].model = "lm";
         c.plan.services[1].min_replicas += 1;
         c.plan.services[1].avoid = {"talk"};
         c.plan.services[2].traffic = {0.2, plan::GammaArrivals{2}, {{60, Rps{1}}}};
       },
       {"service_row: service cats percentile", "service_row: service cats spread",
        "service_row: service dogs model", "service_row: service dogs min_replicas",
        "service_row: service dogs avoid", "service_row: service talk headroom",
        "service_row: service talk arrivals", "service_row: service talk rates"}},
      {"an older plan, which says name, rate and SLO alone",
       [](Case& c) {
         for (plan::PlannedService& row : c.plan.services)
           row = {{.name = row.name, .rate = row.rate, .slo = row.slo, .percentile = 0},
                  row.planned,
                  row.predicted_latency};
         c.plan.services[0].planned.value += 1e-5;
       },
       {"service_row: service cats planned_rps"}},
      {"a wrong sum",
       [](Case& c) { c.plan.services[0].planned.value += 1e-5; },
       {"service_row: service cats planned_rps"}},
      {"a wrong prediction",
       [](Case& c) { c.plan.services[0].predicted_latency.value += 1e-5; },
       {"service_row: service cats predicted_latency_ms"}},
  };
}

std::vector<Mutation> replica_mutations() {
  return {
      {"too few replicas",
       [](Case& c) { c.problem.services[0].min_replicas = 2; },
       {"min_replicas: service cats"}},
      {"just enough replicas", [](Case& c) { c.problem.services[1].min_replicas = 2; }, {}},
      {"spread, kept", [](Case& c) { c.problem.services[2].spread = true; }, {}},
      {"spread, broken",
       [](Case& c) {
         c.problem.services[1].spread = true;
         c.plan.gpus[1].instances.insert(c.plan.gpus[1].instances.begin() + 2,
                                         segment("1g.10gb", 3, "dogs"));
         complete(c.problem, c.plan);
       },
       {"anti_affinity: service dogs on gpu 1"}},
      {"avoidance, broken",
       [](Case& c) { c.problem.services[2].avoid = {"cats"}; },
       {"anti_affinity: services cats and talk on gpu 1"}},
      {"mutual avoidance is one violation per GPU",
       [](Case& c) {
         c.problem.services[2].avoid = {"dogs"};
         c.problem.services[1].avoid = {"talk"};
       },
       {"anti_affinity: services dogs and talk on gpu 0",
        "anti_affinity: services dogs and talk on gpu 1"}},
  };
}

// Req/s of these instances: dogs 3077 and 769 (asked 3000), cats 1538 (1000) in one place, talk 390
// in each of two (500).
std::vector<Mutation> loss_mutations() {
  const std::string lone_cats = "survive: service cats without gpu 1";
  const std::string large_dogs = "survive: service dogs without gpu 0";
  const auto less_talk = [](Case& c) {
    c.problem.survive = 1;
    c.problem.services[2].rate = Rps{389};
    complete(c.problem, c.plan);
  };
  return {
      {"what one GPU carries is lost",
       [](Case& c) { c.problem.survive = 1; },
       {lone_cats, large_dogs, "survive: service talk without gpu 0",
        "survive: service talk without gpu 1"}},
      {"half of the instances carry the rate", less_talk, {lone_cats, large_dogs}},
      {"a third GPU in reserve",
       [=](Case& c) {
         c.plan.gpus.push_back(
             {2, "A100-80GB", {segment("4g.40gb", 0, "dogs"), segment("3g.40gb", 4, "cats")}});
         less_talk(c);
       },
       {}},
      {"a reserve on the same GPU",
       [=](Case& c) {
         c.plan.gpus[0].instances = {segment("3g.40gb", 0, "talk"), segment("3g.40gb", 4, "talk")};
         c.plan.gpus[1].instances = {segment("2g.20gb", 0, "cats"), segment("3g.40gb", 4, "dogs")};
         c.problem.services[1].rate = Rps{2000};
         less_talk(c);
       },
       {lone_cats, "survive: service dogs without gpu 1", "survive: service talk without gpu 0"}},
  };
}

std::vector<Mutation> objective_mutations() {
  return {
      {"fewer GPUs stated",
       [](Case& c) { c.plan.objective.gpus = 1; },
       {"objective: objective gpus"}},
      {"fewer GPCs stated",
       [](Case& c) { --c.plan.objective.gpcs; },
       {"objective: objective gpcs"}},
      {"a wrong cost", [](Case& c) { c.plan.objective.cost = 1.5; }, {"objective: objective cost"}},
      {"no cost stated", [](Case& c) { c.plan.objective.cost = 0; }, {}},
      {"optimal above its bound",
       [](Case& c) { c.plan.objective.optimal = true; },
       {"objective: objective optimal"}},
      {"optimal with bounds that are met",
       [](Case& c) {
         c.plan.objective.optimal = true;
         c.plan.objective.lower_bound_gpus = 2;
         c.plan.objective.lower_bound_gpcs = c.plan.objective.gpcs;
       },
       {}},
      {"optimal in GPUs, not in GPCs",
       [](Case& c) {
         c.plan.objective.optimal = true;
         c.plan.objective.lower_bound_gpus = 2;
         c.plan.objective.lower_bound_gpcs = 1;
       },
       {"objective: objective optimal"}},
      {"optimal in cost",
       [](Case& c) {
         c.plan.objective.optimal = true;
         c.plan.objective.lower_bound_cost = 2;
         c.plan.objective.lower_bound_gpcs = c.plan.objective.gpcs;
       },
       {}},
      {"a bound above the plan",
       [](Case& c) { c.plan.objective.lower_bound_gpus = 3; },
       {"objective: objective lower_bound_gpus"}},
      {"a GPC bound above the plan",
       [](Case& c) { c.plan.objective.lower_bound_gpcs = 14; },
       {"objective: objective lower_bound_gpcs"}},
      {"a cost bound above the plan",
       [](Case& c) { c.plan.objective.lower_bound_cost = 2.01; },
       {"objective: objective lower_bound_cost"}},
      {"another price",
       [](Case& c) { c.problem.fleet[0].price = 3; },
       {"objective: objective cost"}},
  };
}

// The plan's rows say what the problem asks for now.
void promise_what_is_asked(Case& c) {
  for (const plan::Service& service : c.problem.services)
    for (plan::PlannedService& row : c.plan.services)
      if (row.name == service.name) static_cast<plan::Terms&>(row) = service;
}

void expect_exactly(
    const std::vector<Mutation>& mutations, void (*then)(Case&) = [](Case&) {}) {
  for (const Mutation& mutation : mutations) {
    Case c = a100();
    mutation.apply(c);
    then(c);
    EXPECT_EQ(words(c), mutation.expected) << mutation.what;
  }
}

TEST(Verify, LayoutMutations) { expect_exactly(layout_mutations()); }
TEST(Verify, PointMutations) { expect_exactly(point_mutations()); }
TEST(Verify, RateMutations) { expect_exactly(rate_mutations()); }
TEST(Verify, RowMutations) { expect_exactly(row_mutations()); }
TEST(Verify, LossMutations) { expect_exactly(loss_mutations()); }
TEST(Verify, ReplicaMutations) { expect_exactly(replica_mutations(), promise_what_is_asked); }
TEST(Verify, ObjectiveMutations) { expect_exactly(objective_mutations()); }

TEST(Verify, NumbersThatAreNone) {
  struct Number {
    std::string subject;
    std::function<double&(ServingPlan&)> pick;
  };
  const std::vector<Number> numbers = {
      {"gpu 0 instance 1 throughput_rps",
       [](ServingPlan& p) -> double& { return p.gpus[0].instances[1].throughput.value; }},
      {"gpu 0 instance 1 latency_ms",
       [](ServingPlan& p) -> double& { return p.gpus[0].instances[1].latency.value; }},
      {"service dogs rate_rps", [](ServingPlan& p) -> double& { return p.services[1].rate.value; }},
      {"service dogs planned_rps",
       [](ServingPlan& p) -> double& { return p.services[1].planned.value; }},
      {"service dogs slo_ms", [](ServingPlan& p) -> double& { return p.services[1].slo.value; }},
      {"service dogs predicted_latency_ms",
       [](ServingPlan& p) -> double& { return p.services[1].predicted_latency.value; }},
      {"objective cost", [](ServingPlan& p) -> double& { return p.objective.cost; }},
      {"objective lower_bound_cost",
       [](ServingPlan& p) -> double& { return p.objective.lower_bound_cost; }},
      {"plan slo_rule", [](ServingPlan& p) -> double& { return p.rule.fraction; }},
      {"stats planning_ms", [](ServingPlan& p) -> double& { return p.stats.planning_ms; }},
      {"stats capacity_ms", [](ServingPlan& p) -> double& { return p.stats.capacity_ms; }}};
  for (const SloRule& rule : {SloRule{SloRule::Kind::execution, 0.5}, SloRule{}, plan::kQueueing}) {
    for (const double value : {kNan, kInfinity, -kInfinity}) {
      for (const Number& number : numbers) {
        Case c = a100(rule);
        number.pick(c.plan) = value;
        std::set<std::string> expected = {"not_finite: " + number.subject};
        EXPECT_EQ(words(c), expected) << value;
      }
    }
  }
}

// ---- the queueing rule ----

TEST(Verify, AnEmptyPlanMissesEveryService) {
  Case c = a100();
  c.plan = {};
  EXPECT_EQ(words(c),
            (std::set<std::string>{"unknown_gpu_model: plan", "missing_service: service cats",
                                   "missing_service: service dogs", "missing_service: service talk",
                                   "service_row: service cats", "service_row: service dogs",
                                   "service_row: service talk"}));
}

// talk on 3 GPCs, 250 req/s each: a full batch takes 61.6/3 = 20.5 ms and may follow another after
// half of that, 30.8 ms in all, and a little more when both processes are busy.
TEST(Verify, QueueingRule) {
  const auto with_slo = [](double slo, double stated) {
    Case c = a100(plan::kQueueing);
    c.problem.services[2].slo = c.plan.services[2].slo = Millis{slo};
    c.plan.services[2].predicted_latency = Millis{stated};
    return words(c);
  };
  const std::string first = "slo: gpu 0 instance 1";
  const std::string second = "slo: gpu 1 instance 2";
  const std::string row = "service_row: service talk predicted_latency_ms";
  using Said = std::set<std::string>;
  EXPECT_EQ(with_slo(100, 99), Said{});
  EXPECT_EQ(with_slo(37, 36), Said{});
  EXPECT_EQ(with_slo(30, 30), (Said{first, second}));
  EXPECT_EQ(with_slo(15, 15), (Said{first, second, row}));
  EXPECT_EQ(with_slo(100, 10), Said{row});     // too rosy
  EXPECT_EQ(with_slo(100, 100.5), Said{row});  // admits a miss
}

// Headroom is planned for as if it arrived; what is stated is of the rate alone.
TEST(Verify, QueueingRuleKeepsTheSloWithHeadroom) {
  const auto with_headroom = [](double rate, double headroom, double slo, double stated) {
    Case c = a100(plan::kQueueing);
    c.problem.services[2].rate = c.plan.services[2].rate = Rps{rate};
    c.problem.services[2].traffic.headroom = c.plan.services[2].traffic.headroom = headroom;
    c.problem.services[2].slo = c.plan.services[2].slo = Millis{slo};
    c.plan.services[2].predicted_latency = Millis{stated};
    return words(c);
  };
  using Said = std::set<std::string>;
  const Said missed{"slo: gpu 0 instance 1", "slo: gpu 1 instance 2"};
  EXPECT_EQ(with_headroom(100, 0, 36, 35), Said{});
  Said untrue = missed;
  untrue.insert("service_row: service talk predicted_latency_ms");
  EXPECT_EQ(with_headroom(750, 0, 60, 59), untrue);
  EXPECT_EQ(with_headroom(100, 6.5, 60, 59), missed);
  EXPECT_EQ(with_headroom(375, 1, 60, 59), missed);
  // 300 ms are kept with 375 req/s on each; 35 ms, which are true of 50, need not be.
  EXPECT_EQ(with_headroom(750, 0, 300, 35), Said{"service_row: service talk predicted_latency_ms"});
  EXPECT_EQ(with_headroom(100, 6.5, 300, 35), Said{});
}

TEST(Verify, QueueingRuleKeepsTheSloWithHeadroomAfterALoss) {
  const auto after_loss = [](double rate, double headroom) {
    Case c = a100(plan::kQueueing);
    c.problem.survive = c.plan.survive = 1;
    c.problem.services = {service("talk", "lm", rate, 60)};
    c.problem.services[0].traffic.headroom = headroom;
    c.plan.gpus[0].instances = c.plan.gpus[1].instances = {segment("3g.40gb", 4, "talk")};
    complete(c.problem, c.plan);
    return words(c);
  };
  using Said = std::set<std::string>;
  const Said missed{"survive: service talk without gpu 0", "survive: service talk without gpu 1"};
  EXPECT_EQ(after_loss(60, 0), Said{});
  EXPECT_EQ(after_loss(375, 0), missed);  // of the 389.6 that one carries
  EXPECT_EQ(after_loss(60, 5.25), missed);
}

TEST(Verify, QueueingRuleNamesTheOverload) {
  Case c = a100(plan::kQueueing);
  c.problem.services[2].rate = c.plan.services[2].rate = Rps{800};  // carried: 2 x 389.6
  EXPECT_EQ(words(c), (std::set<std::string>{"rate: service talk", "overload: gpu 0 instance 1",
                                             "overload: gpu 1 instance 2"}));
}

// The load follows the stated throughputs, as plan::share_of says.
TEST(Verify, QueueingRuleSharesTheLoadByStatedThroughput) {
  Case c = a100(plan::kQueueing);
  PlannedInstance& modest = c.plan.gpus[0].instances[1];
  c.plan.services[2].planned.value -= modest.throughput.value * 0.7;
  modest.throughput.value *= 0.3;
  EXPECT_EQ(plan::share_of(c.plan.services[2], modest).value,
            500 * (modest.throughput.value / c.plan.services[2].planned.value));
  c.problem.services[2].slo = c.plan.services[2].slo = Millis{42};
  c.plan.services[2].predicted_latency = Millis{41};
  // 384.6 of the 389.6 req/s that the other instance sustains; the modest one is at ease.
  EXPECT_EQ(words(c), (std::set<std::string>{"slo: gpu 1 instance 2",
                                             "service_row: service talk predicted_latency_ms"}));
}

// ---- the pooled rule ----

// talk with that SLO and rate; its two instances on 3 GPCs have four processes together, which
// take 6.2 ms for one request and 61.6/3 = 20.5 ms for four, 779 req/s at most.
Case pool_case(double slo, double rate, SloRule rule = {}) {
  Case c = a100(rule);
  c.problem.services[2].slo = c.plan.services[2].slo = Millis{slo};
  c.problem.services[2].rate = c.plan.services[2].rate = Rps{rate};
  c.plan.services[2].predicted_latency = Millis{0.99 * slo};
  return c;
}

TEST(Verify, APoolThatHolds) {
  for (const double rate : {5.0, 100.0, 500.0, 740.0})
    EXPECT_EQ(words(pool_case(170, rate)), std::set<std::string>{}) << rate;
}

// Two queues of 250 req/s each miss 30 ms, one of 500 req/s does not.
TEST(Verify, APoolHoldsWhatSeparateQueuesDoNot) {
  EXPECT_EQ(words(pool_case(30, 500)), std::set<std::string>{});
  EXPECT_EQ(words(pool_case(30, 500, plan::kQueueing)),
            (std::set<std::string>{"slo: gpu 0 instance 1", "slo: gpu 1 instance 2"}));
}

TEST(Verify, APoolThatOverloads) {
  EXPECT_EQ(words(pool_case(170, 800)),
            (std::set<std::string>{"rate: service talk", "overload: service talk"}));
  // Stated and measured throughputs that cover the rate do not help when the batches are slower.
  Case c = pool_case(170, 750);
  for (profile::ProfilePoint& point : c.problem.fleet[0].profiles["lm"].points)
    if (point.gpcs == 3 && point.batch == 4 && point.processes == 2) point.latency.value *= 1.2;
  for (const auto& [gpu, instance] : {std::pair<std::size_t, std::size_t>{0, 1}, {1, 2}})
    at(c, gpu, instance).latency.value *= 1.2;
  EXPECT_EQ(words(c), std::set<std::string>{"overload: service talk"});
}

TEST(Verify, APoolThatMisses) {
  // Less than one request takes, and less than the two of a queue that is seldom empty.
  for (const double slo : {6.0, 12.0})
    EXPECT_EQ(words(pool_case(slo, 500)).count("slo: service talk"), 1U) << slo;
  Case c = pool_case(6, 500);
  c.plan.services[2].predicted_latency = Millis{5};
  for (const Reason& reason : verify(c.problem, c.plan)) {
    if (reason.constraint == "slo") {
      EXPECT_EQ(reason.have, 0) << "percent in time";
    }
  }
  // One slow instance of the pool is enough to miss: 61.6 ms for a batch, of 40.
  c = pool_case(40, 500);
  EXPECT_EQ(words(c), std::set<std::string>{});
  c.plan.gpus.push_back({2, "A100-80GB", {segment("1g.10gb", 0, "talk")}});
  complete(c.problem, c.plan);
  EXPECT_EQ(words(c), std::set<std::string>{"slo: service talk"});
}

// Twice what is stated must reach the simulated percentile, which is above one full batch.
TEST(Verify, APoolsPrediction) {
  const auto stated = [](double ms) {
    Case c = pool_case(100, 700);
    c.plan.services[2].predicted_latency = Millis{ms};
    return words(c);
  };
  const std::string row = "service_row: service talk predicted_latency_ms";
  EXPECT_EQ(stated(99), std::set<std::string>{});
  EXPECT_EQ(stated(10), std::set<std::string>{row});     // 20.5 / 2 and less is too rosy
  EXPECT_EQ(stated(100.5), std::set<std::string>{row});  // admits a miss
}

// ---- properties ----

// A layout is judged legal exactly when a bitmap of memory slices and a sum of GPCs say so.
RC_GTEST_PROP(VerifyProperty, LayoutsAgainstBitmaps, ()) {
  const auto& models = hw::builtin_catalogue().gpus;
  const hw::GpuModel& gpu = *rc::gen::elementOf(models);
  Case c = a100();
  c.problem.fleet[0].gpu = gpu;
  c.plan.gpu_model = gpu.name;
  c.plan.gpus = {{0, gpu.name, {}}};
  unsigned taken = 0;
  int gpcs = 0;
  bool legal = true;
  for (int i = *rc::gen::inRange(1, 6); i > 0; --i) {
    const hw::MigProfile& shape = *rc::gen::elementOf(gpu.profiles);
    if (!shape.plain()) continue;  // media engines are another matter
    const int start = *rc::gen::inRange(-1, gpu.memory_slices + 1);
    c.plan.gpus[0].instances.push_back(segment(shape.name, start, "cats"));
    gpcs += shape.gpcs;
    if (std::ranges::count(shape.starts, start) == 0) {
      legal = false;
      continue;
    }
    const unsigned mask = ((1U << shape.size) - 1) << start;
    legal = legal && (taken & mask) == 0;
    taken |= mask;
  }
  legal = legal && gpcs <= gpu.compute_slices;
  const std::set<std::string> of_layout = {"illegal_start", "memory_slices", "compute_slices",
                                           "max_instances", "media_engines"};
  bool accepted = true;
  for (const Reason& reason : verify(c.problem, c.plan))
    accepted = accepted && !of_layout.contains(reason.constraint);
  RC_ASSERT(accepted == legal);
}

// Random GPUs full of random measured segments; rates and SLOs that they carry, under any rule.
Case random_case() {
  static const std::vector<std::string> kModels = {"A30-24GB", "A100-80GB", "H200-141GB"};
  Case c;
  const auto model = *rc::gen::elementOf(kModels);
  c.problem.fleet = {fleet_of(model)};
  c.problem.fleet[0].price = *rc::gen::elementOf(std::vector<double>{1, 2.5});
  c.problem.rule = *rc::gen::elementOf(
      std::vector<SloRule>{SloRule{SloRule::Kind::execution, 0.4}, plan::kQueueing, SloRule{}});
  const int services = *rc::gen::inRange(1, 4);
  const auto layouts =
      hw::maximal_layouts(c.problem.fleet[0].gpu, hw::plain_profiles(c.problem.fleet[0].gpu));
  for (int s = 0; s < services; ++s) {
    const std::string name(1, static_cast<char>('a' + s));
    const hw::Layout layout = *rc::gen::elementOf(layouts);
    plan::PlannedGpu gpu{s, model, {}};
    for (const hw::PlacedProfile& placed : layout) {
      const auto& shape = c.problem.fleet[0].gpu.profiles[static_cast<std::size_t>(placed.profile)];
      PlannedInstance instance = segment(shape.name, placed.start, name);
      instance.batch = 1 << *rc::gen::inRange(0, 4);
      instance.processes = *rc::gen::inRange(1, 3);
      gpu.instances.push_back(instance);
    }
    c.plan.gpus.push_back(gpu);
    c.problem.services.push_back(
        service(name, *rc::gen::element<std::string>("cnn", "lm"), 1, 1000));
  }
  complete(c.problem, c.plan);
  for (std::size_t s = 0; s < c.problem.services.size(); ++s)
    c.problem.services[s].rate = c.plan.services[s].planned * 0.5;
  complete(c.problem, c.plan);
  return c;
}

RC_GTEST_PROP(VerifyProperty, RightPlansPass, ()) {
  const Case c = random_case();
  for (const Reason& reason : verify(c.problem, c.plan)) RC_FAIL(plan::to_string(reason));
}

// Every number and name of a plan matters: change one, and at least one violation appears.
RC_GTEST_PROP(VerifyProperty, EveryChangeIsSeen, ()) {
  Case c = random_case();
  const auto some = [](auto& list) -> auto& {
    return list[*rc::gen::inRange<std::size_t>(0, list.size())];
  };
  PlannedInstance& instance = some(some(c.plan.gpus).instances);
  plan::PlannedService& row = some(c.plan.services);
  const double factor = *rc::gen::element(0.5, 0.99, 1.01, 2.0, -1.0, 0.0, kNan, kInfinity);
  const bool exact = c.problem.rule.kind == SloRule::Kind::execution;
  switch (*rc::gen::inRange(0, 13)) {
    case 0:
      instance.throughput.value *= factor;
      break;
    case 1:
      instance.latency.value *= factor;
      break;
    case 2:
      instance.batch += *rc::gen::element(-16, -1, 1, 16);
      RC_PRE(instance.batch != 2);
      break;
    case 3:
      instance.processes += *rc::gen::element(-2, 2);
      break;
    case 4:
      instance.service += "x";
      break;
    case 5:
      instance.profile += "x";
      break;
    case 6:
      row.rate.value *= factor;
      break;
    case 7:
      row.planned.value *= factor;
      break;
    case 8:
      row.slo.value *= factor;
      break;
    case 9:
      row.predicted_latency.value *= exact ? factor : 1.02;
      break;
    case 10:
      c.plan.objective.gpus += *rc::gen::element(-1, 1);
      break;
    case 11:
      c.plan.objective.gpcs += *rc::gen::element(-1, 1);
      break;
    case 12:
      c.plan.objective.optimal = true;
      break;
  }
  RC_ASSERT(!verify(c.problem, c.plan).empty());
}

}  // namespace
}  // namespace partita::verify
