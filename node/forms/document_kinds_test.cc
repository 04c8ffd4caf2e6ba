// Documents of every kind, made at random: what is written reads back equal, and every value of
// another type is refused with its line.
#include "forms/document_kinds.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/index.h"
#include "base/testing/form_check.h"
#include "forms/batch_forms.h"
#include "forms/comparison_forms.h"
#include "forms/day_forms.h"
#include "forms/graph_forms.h"
#include "forms/kernel_forms.h"
#include "forms/power_forms.h"
#include "forms/reason_forms.h"
#include "forms/serving_forms.h"

namespace partita::forms {
namespace {

std::string some_name() {
  return *rc::gen::element<std::string>("a", "b c", "é/\"\\", "語", "{7}");
}
double some_number() {
  const auto bits = *rc::gen::arbitrary<std::uint32_t>();
  return *rc::gen::element(0.0, 0.1, 1e12, std::ldexp(bits, -20), 1.0 * bits);
}
int below(int limit) { return *rc::gen::inRange(0, limit); }
bool coin() { return *rc::gen::arbitrary<bool>(); }
template <class Make>
auto several(int most, Make make) {
  std::vector<decltype(make())> all;
  for (int i = below(most + 1); i > 0; --i) all.push_back(make());
  return all;
}
template <class T>
std::optional<T> maybe(T value) {
  return coin() ? std::optional(value) : std::nullopt;
}

StatedWorker some_worker(const hw::Topology& topology, const std::vector<int>& sizes) {
  StatedWorker worker{some_name(),
                      maybe(below(9)),
                      maybe(some_number() / 1e10),
                      maybe(some_number()),
                      maybe(some_number()),
                      {},
                      {},
                      {}};
  worker.units = several(9, [&] { return sizes[at(below(static_cast<int>(sizes.size())))]; });
  for (std::size_t k = 0; k < worker.units.size(); ++k) {
    if (k == 0 || worker.units[k] != worker.units[k - 1])
      worker.groups.push_back({static_cast<int>(k), 0, worker.units[k]});
    ++worker.groups.back().kernels;
  }
  worker.lanes = several(3, [&] {
    const auto bits = *rc::gen::arbitrary<std::uint64_t>();
    hw::UnitMask mask(bits & ((1ULL << topology.units()) - 1));
    mask.set(0);
    return StatedLane{1 + below(9), below(9), hw::units_per_cluster(topology, mask),
                      coin() ? std::vector<int>{} : hw::units_per_die(topology, mask),
                      hw::mask_hex(mask)};
  });
  return worker;
}

StatedKernelPlan some_kernel_plan() {
  const hw::Topology topology = hw::generic_topology(4, 15);
  const int atom = *rc::gen::element(1, 2, 5);
  StatedKernelPlan plan{topology.name,
                        maybe(60),
                        atom,
                        maybe(below(20)),
                        plan::Overlap::others,
                        coin() ? 0 : some_number(),
                        coin() ? "" : some_name(),
                        maybe(some_number()),
                        maybe(some_number()),
                        coin(),
                        {},
                        {}};
  if (coin()) plan.overlap = plan::Overlap::literal;
  const std::vector<int> sizes = hw::mask_sizes(topology, atom);
  plan.workers.push_back(some_worker(topology, sizes));
  if (coin()) plan.workers.push_back(some_worker(topology, sizes));
  plan.curve = several(3, [] { return SwitchPoint{below(9), some_number(), coin()}; });
  return plan;
}

forms::StatedGraphRun some_graph_run() {
  forms::StatedGraphRun run{.graph = coin() ? "" : some_name(),
                            .driver = "sim",
                            .gpu = "4x15",
                            .total_units = 60,
                            .threads = below(9),
                            .lanes = below(9),
                            .policy = "fair",
                            .overlap_limit = below(60),
                            .time_us = some_number(),
                            .critical_path_us = some_number(),
                            .work_us = some_number(),
                            .sequential_us = maybe(some_number()),
                            .speed_up = maybe(some_number()),
                            .relative_error = maybe(some_number()),
                            .waits = {below(9), below(9), below(9)}};
  run.critical_path = several(3, some_name);
  run.tasks = several(4, [] {
    forms::StatedGraphTask task{
        some_name(), plan::GraphTaskKind::cpu, 0 - some_number(), some_number(), {}, {}, {}, {}};
    task.kind = *rc::gen::element(plan::GraphTaskKind::cpu, plan::GraphTaskKind::lane,
                                  plan::GraphTaskKind::copy);
    task.lane = maybe(below(9));
    task.units = maybe(below(60));
    if (coin()) task.mask_hex = "0x3f";
    task.thread = maybe(below(9));
    return task;
  });
  return run;
}

std::vector<plan::Reason> some_reasons() {
  return several(4, [] {
    return plan::Reason{some_name(), some_name(), 0 - some_number(), some_number(),
                        coin() ? "" : some_name()};
  });
}

plan::BatchSchedule some_schedule() {
  plan::BatchSchedule schedule;
  schedule.scheduler = some_name();
  schedule.gpu_models = {"A30-24GB"};
  if (coin()) schedule.gpu_models.push_back(some_name());
  const auto time = [] { return *rc::gen::inRange<plan::Nanos>(-5, 4'000'000'000'000'000); };
  schedule.tasks = several(3, [&] {
    return plan::ScheduledTask{{some_name(), below(8)}, below(9), some_name(), time(), time()};
  });
  schedule.reconfigurations = several(3, [&] {
    using Op = plan::Reconfiguration::Op;
    return plan::Reconfiguration{
        {some_name(), below(8)}, below(9), coin() ? Op::create : Op::destroy, time(), time()};
  });
  plan::put_in_order(schedule);
  schedule.makespan = time();
  schedule.lower_bound = time();
  if (coin()) schedule.problem_digest = some_name();
  schedule.explanation = several(2, some_name);
  return schedule;
}

plan::ServingPlan some_plan() {
  plan::ServingPlan plan;
  plan.gpu_model = some_name();
  plan.planner = some_name();
  if (coin()) plan.problem_digest = some_name();
  plan.gpus = several(3, [] {
    plan::PlannedGpu gpu{below(9), some_name(), {}};
    if (coin())
      gpu.instances.push_back(
          {some_name(), below(8), some_name(), 1, 2, Rps{some_number()}, Millis{some_number()}});
    return gpu;
  });
  plan.services = several(3, [] {
    return plan::PlannedService{
        {.name = some_name(), .rate = Rps{some_number()}, .slo = Millis{some_number()}},
        Rps{some_number()},
        Millis{some_number()}};
  });
  plan.explanation = several(2, some_name);
  return plan;
}

StatedStanding some_standing() {
  StatedStanding row{.planner = some_name(), .slo_rule = "queueing", .feasible = coin()};
  if (!row.feasible) {
    row.reasons = some_reasons();
    return row;
  }
  row.gpus = below(9);
  row.optimal = coin();
  row.internal_slack = 0 - some_number();
  row.worst_paced = maybe(StatedStanding::Worst{some_name(), 0.25});
  row.worst_full = maybe(StatedStanding::Worst{some_name(), 1});
  row.unfillable = several(2, [] {
    return StatedStanding::Unfillable{some_name(), below(9), some_number(), some_number(), 1, 2};
  });
  return row;
}

StatedBatchStanding some_batch_standing() {
  StatedBatchStanding row{.scheduler = some_name(), .feasible = coin(), .ok = coin()};
  if (!row.feasible || !row.ok) {
    row.reasons = some_reasons();
    return row;
  }
  row.makespan_s = some_number();
  row.ratio_to_bound = *rc::gen::element(1.5, std::numeric_limits<double>::infinity());
  row.late = below(9);
  return row;
}

// Reads what was written, compares, and tries every mutation.
template <class T, class Write, class Parse>
void round_trip(const T& value, Write write, Parse parse) {
  const std::string text = write(value);
  const auto again = parse("d.json", text);
  if (!again) RC_FAIL(to_string(again.error()) + "\n" + text);
  RC_ASSERT(*again == value);
  RC_ASSERT(write(*again) == text);
  for (const MutatedDocument& one : mutated_documents(text)) {
    const auto read = parse("d.json", one.text);
    if (read) RC_FAIL("accepted: another type at " + one.path);
    if (read.error().context != "d.json:" + std::to_string(one.line))
      RC_FAIL(one.path + " in line " + std::to_string(one.line) + ": " + to_string(read.error()));
  }
}

plan::PowerPlan some_power_plan() {
  plan::PowerPlan plan{some_name(),
                       static_cast<plan::Gating>(below(3)),
                       static_cast<plan::PowerPromise>(below(2)),
                       {},
                       below(9),
                       {1e3 * below(100)},
                       {0.5 * below(99)},
                       coin(),
                       coin() ? "" : some_name()};
  plan.gpus = several(3, [] {
    plan::PowerGpu gpu{{1.0 + below(9999)}, {0.25 * below(9000)}, {1.0 * below(5000)}, {}};
    gpu.shares = several(2, [] {
      return plan::PowerShare{some_name(), 1 + below(60), 1 + below(8), {0.5 + below(1000)}};
    });
    gpu.shares.push_back({some_name(), 1 + below(60), 1, {0.1}});
    return gpu;
  });
  return plan;
}
RC_GTEST_PROP(DocumentKinds, PowerPlan, ()) {
  round_trip(some_power_plan(), power_plan_json, parse_power_plan);
}

RC_GTEST_PROP(DocumentKinds, KernelPlan, ()) {
  round_trip(some_kernel_plan(), kernel_plan_json, parse_kernel_plan);
}

RC_GTEST_PROP(DocumentKinds, GraphRun, ()) {
  const auto write = [](const forms::StatedGraphRun& run) { return forms::graph_run_json(run); };
  round_trip(some_graph_run(), write, forms::parse_graph_run);
}

RC_GTEST_PROP(DocumentKinds, Refusal, ()) {
  round_trip(some_reasons(), refusal_json, parse_refusal);
}

RC_GTEST_PROP(DocumentKinds, Verdict, ()) {
  round_trip(some_reasons(), verdict_json, parse_verdict);
}

RC_GTEST_PROP(DocumentKinds, Comparison, ()) {
  round_trip(StatedComparison{some_number(), 7, several(3, some_standing)}, comparison_json,
             parse_comparison);
}

RC_GTEST_PROP(DocumentKinds, BatchComparison, ()) {
  round_trip(
      StatedBatchComparison{below(9), below(9), some_number(), several(3, some_batch_standing)},
      batch_comparison_json, parse_batch_comparison);
}

RC_GTEST_PROP(DocumentKinds, BatchSchedule, ()) {
  const std::vector<plan::LateTask> late = several(2, [] {
    return plan::LateTask{some_name(), below(9), below(9)};
  });
  const auto chosen = maybe(forms::ChosenFor{0.1, 20, 7, {1}, {2}});
  const auto write = [&](const plan::BatchSchedule& schedule) {
    return forms::schedule_json(schedule, late, chosen);
  };
  round_trip(some_schedule(), write, forms::parse_schedule);
}

RC_GTEST_PROP(DocumentKinds, ServingPlan, ()) {
  const auto changes = maybe(forms::PlanChanges{1, 2, 3, 4, 5, {{1, 2, 3, 3, true}}});
  const std::vector<plan::SloAdvice> advice = several(2, [] {
    const auto ms = [] { return Millis{1.0 + below(9)}; };
    plan::SloAdvice one{some_name(), ms(), ms(), ms(), below(9), {{ms(), below(9)}}};
    one.eased = coin() ? plan::Eased::percentile : plan::Eased::slo;
    if (one.eased == plan::Eased::percentile) one.percentile = 99, one.options[0].percentile = 95;
    one.language = coin();
    return one;
  });
  const auto write = [&](const plan::ServingPlan& plan) {
    return forms::plan_json(plan, changes, advice);
  };
  plan::ServingPlan plan = some_plan();
  for (plan::PlannedService& service : plan.services) {
    service.predicted = coin();
    if (coin()) service.wanted = Rps{some_number()};
  }
  for (plan::PlannedGpu& gpu : plan.gpus)
    for (plan::PlannedInstance& instance : gpu.instances)
      if ((instance.predicted = coin())) instance.learned_on = some_name();
  round_trip(plan, write, forms::parse_plan);
}

RC_GTEST_PROP(DocumentKinds, DayPlan, ()) {
  plan::DayPlan day;
  day.periods = several(3, [] {
    return plan::DayPeriod{below(1440), below(1440), Rps{some_number()}, some_plan()};
  });
  if (day.periods.empty()) day.periods.emplace_back().plan = some_plan();
  day.changes = several(3, [] {
    return plan::DayChange{
        below(1440), {below(9), below(9), below(9), below(9), below(9)}, below(9), below(9)};
  });
  day.change_time = Seconds{some_number()};
  day.peak_gpus = below(9);
  day.peak_optimal = coin();
  day.gpu_hours = some_number();
  day.peak_gpu_hours = some_number();
  round_trip(day, day_json, parse_day);
}

TEST(DocumentKinds, EveryKindHasASchemaOfItsName) {
  for (const DocumentKind& kind : document_kinds()) {
    const auto schema = nlohmann::json::parse(kind.schema());
    EXPECT_EQ(schema["title"], std::string(kind.name));
    EXPECT_EQ(schema["properties"]["kind"]["const"], std::string(kind.name));
    EXPECT_FALSE(kind.about.empty());
  }
}

}  // namespace
}  // namespace partita::forms
