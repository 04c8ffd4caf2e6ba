#include "demo/demo_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "act/apply.h"
#include "act/assignment.h"
#include "act/change_forms.h"
#include "decide/energy.h"
#include "decide/serving.h"
#include "device/observe/sampler.h"
#include "progress.h"

namespace partita::cli {
namespace {

using JudgedPlan = plan::Judged<plan::ServingPlan>;

constexpr char kState[] = "state", kAssignment[] = "state/assignment.json";
constexpr char kTelemetry[] = "telemetry.jsonl";
constexpr int kQuiet = 5, kWatched = 60;  // seconds
constexpr std::int64_t kOneSecondNs = 1'000'000'000;

// The MIG devices of a node. Their UUIDs are new at every creation.
Result<std::set<std::string>> devices_of(device::NodeDriver& driver) {
  const device::NodeState state = TRY(device::read_node(driver));
  std::set<std::string> uuids;
  for (const device::GpuState& gpu : state.gpus) {
    for (const device::Instance& instance : gpu.instances) uuids.insert(instance.uuid());
  }
  return uuids;
}

plan::ServingProblem with_more_traffic(plan::ServingProblem problem) {
  for (std::size_t s = 0; s < problem.services.size(); s += 3) {
    problem.services[s].rate.value *= 1.25;
  }
  return problem;
}

// The least change of the current plan that serves the problem.
Result<JudgedPlan> next_plan(Context& context, const plan::ServingProblem& problem,
                             const plan::ServingPlan& current) {
  auto next = TRY(decide::make_plan_again(problem, current, std::nullopt,
                                          {.watch = Progress(context).watch()}));
  if (!next.made.plan) {
    return environment_error("demo", decide::reasons_text("no plan:", next.made.refusals));
  }
  return *std::move(next.made.plan);
}

struct DevicePlace {
  int gpu = 0, gi_id = 0, ci_id = 0;
};

// Where the MIG device with this UUID is.
std::optional<DevicePlace> place_of(const drivers::sim::Machine& machine, const std::string& uuid) {
  for (std::size_t gpu = 0; gpu < machine.gpus().size(); ++gpu)
    for (const drivers::sim::SimInstance& instance : machine.gpus()[gpu].instances)
      for (const drivers::sim::SimComputeInstance& compute : instance.compute)
        if (compute.uuid == uuid)
          return DevicePlace{static_cast<int>(gpu), instance.gi_id, compute.ci_id};
  return std::nullopt;
}

}  // namespace

DemoNode::DemoNode(const hw::GpuModel& model, int gpus)
    : machine_(drivers::sim::own_machine(drivers::sim::Machine({{&model, gpus, true}}, "demo"),
                                         clock_, 0)),
      driver_(*machine_) {}

Result<void> DemoNode::show_change(Context& context, const plan::ServingProblem& problem,
                                   const plan::Judged<plan::ServingPlan>& plan) {
  const actuate::Doors doors{driver_, disk_, clock_, hw::builtin_catalogue(), kState};
  const auto apply = [&](const JudgedPlan& wanted) {
    return actuate::apply(doors, actuate::wanted_of(wanted), {}, [](const auto&) {});
  };

  const auto first = TRY(apply(plan));
  say(context,
      fmt::format("{} instances created in {} steps; NVIDIA's driver would take {:.1f} s\n",
                  first.change.create.size(), first.change.steps.size(),
                  first.change.predicted.value));
  const auto before = TRY(devices_of(driver_));

  problem_ = with_more_traffic(problem);
  const JudgedPlan next = TRY(next_plan(context, problem_, *plan));
  const auto change = TRY(actuate::preview(doors, actuate::wanted_of(next), {}));
  say(context,
      fmt::format(
          "\nEvery third service gets 25 % more requests; {} GPUs are enough. The "
          "change:\n\n{}\n{} steps, {:.1f} s of driver time, {} temporary stand-ins\n\n{}\n",
          next->gpus.size(), actuate::change_summary(change), change.steps.size(),
          change.predicted.value, change.temporary.size(),
          actuate::affected_text(change.affected)));
  TRY(apply(next));
  const auto after = TRY(devices_of(driver_));
  const auto stayed = std::count_if(before.begin(), before.end(),
                                    [&](const std::string& uuid) { return after.contains(uuid); });
  say(context,
      fmt::format("Done: {} of {} instances were never touched.\n", stayed, before.size()));
  return {};
}

// On every assigned device a process that is as busy as the service's rate asks for.
Result<void> DemoNode::start_workers() {
  const auto text = TRY(disk_.read(kAssignment));
  const auto assignment = TRY(actuate::parse_assignment(kAssignment, text));
  std::map<std::string, double> rates, capacities;
  for (const plan::Service& service : problem_.services) rates[service.name] = service.rate.value;
  for (const actuate::AssignedSegment& one : assignment.segments)
    capacities[one.service] += one.throughput_rps;
  Result<void> attached;
  const auto attach = [&](drivers::sim::Machine& machine) {
    std::int64_t pid = 1000;
    for (const actuate::AssignedSegment& one : assignment.segments)
      if (const auto place = place_of(machine, one.device); place && attached)
        attached = machine.attach(
            place->gpu,
            {++pid, one.service, place->gi_id, place->ci_id, false,
             std::min(1.0, rates[one.service] / std::max(capacities[one.service], 1.0))});
  };
  TRY(machine_->with(attach));
  return attached;
}

// A line per second of what the boards say.
Result<std::string> DemoNode::watch(int seconds) {
  std::string log;
  for (int second = 0; second < seconds; ++second) {
    const auto sample =
        TRY(observe::take_sample(driver_, Seconds{static_cast<double>(clock_.now) / kOneSecondNs}));
    log += telemetry::write_line(sample);
    clock_.sleep_ns(kOneSecondNs);
  }
  return log;
}

Result<void> DemoNode::show_energy(Context& context) {
  const auto quiet = watch(kQuiet);  // what the boards take without work
  if (!quiet) return failed(quiet.error());
  TRY(start_workers());
  const auto busy = TRY(watch(kWatched));
  const std::string log = *quiet + busy;
  TRY(disk_.write_atomic(kTelemetry, log));
  decide::EnergyQuestion question;
  question.telemetry = kTelemetry;
  question.plan = kAssignment;
  const auto report = TRY(decide::attribute_energy(disk_, question));
  say(context, energy::report_text(report));
  return {};
}

}  // namespace partita::cli
