#include "demo/demo_node.h"

#include <fmt/format.h>

#include <set>

#include "actuate/apply.h"
#include "actuate/change_forms.h"
#include "base/check.h"
#include "serving/comparison.h"
#include "device/node_forms.h"
#include "drivers/sim/shared_machine.h"
#include "drivers/sim/sim_driver.h"
#include "forms/serving_forms.h"
#include "serving/replanning.h"

namespace partita::cli {
namespace {

constexpr char kPlanFile[] = "plan.json";

// The MIG devices of a node. Their UUIDs are new at every creation.
Result<std::set<std::string>> devices_of(device::NodeDriver& driver) {
  const Result<device::NodeState> state = device::read_node(driver);
  if (!state) return failed(state.error());
  std::set<std::string> uuids;
  for (const device::GpuState& gpu : state->gpus) {
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

// The least change of the plan in `current` that serves the problem.
Result<plan::ServingPlan> next_plan(Context& context, const plan::ServingProblem& problem,
                                    const plan::ServingPlan& current) {
  MemoryFiles memory;
  memory.content[kPlanFile] = forms::plan_json(current);
  Context inner{.files = memory, .clock = context.clock, .out = context.out, .err = context.err};
  auto next = make_plan_again(inner, {kPlanFile, -1}, problem, hw::builtin_catalogue(),
                              CompareOptions{}.node_budget);
  if (!next) return failed(next.error());
  if (!next->outcome.plan) {
    return environment_error("demo", reasons_text("no plan:", next->outcome.refusals));
  }
  return std::move(*next->outcome.plan);
}

}  // namespace

Result<void> show_node(Context& context, const plan::ServingProblem& problem,
                       const plan::ServingPlan& plan, int gpus) {
  const Result<const hw::GpuModel*> model = hw::builtin_catalogue().get(plan.gpu_model);
  if (!model) return failed(model.error());
  const auto machine = drivers::sim::own_machine(
      drivers::sim::Machine({{*model, gpus, true}}, "demo"), context.clock, 0);
  drivers::sim::SimDriver driver(*machine);
  MemoryFiles disk;
  const actuate::Doors doors{driver, disk, context.clock, hw::builtin_catalogue(), "state"};
  const auto apply = [&](const plan::ServingPlan& wanted) {
    return actuate::apply(doors, actuate::wanted_of(wanted), {}, [](const auto&) {});
  };

  const auto first = apply(plan);
  if (!first) return failed(first.error());
  fmt::print(context.out, "{} instances created in {} steps; NVIDIA's driver would take {:.1f} s\n",
             first->change.create.size(), first->change.steps.size(),
             first->change.predicted.value);
  const auto before = devices_of(driver);
  if (!before) return failed(before.error());

  const plan::ServingProblem grown = with_more_traffic(problem);
  const Result<plan::ServingPlan> next = next_plan(context, grown, plan);
  if (!next) return failed(next.error());
  const auto change = actuate::preview(doors, actuate::wanted_of(*next), {});
  if (!change) return failed(change.error());
  fmt::print(context.out,
             "\nEvery third service gets a quarter more requests; {} GPUs do. The change:\n\n{}\n"
             "{} steps, {:.1f} s of the driver, {} stand-ins meanwhile\n\n{}\n",
             next->gpus.size(), actuate::change_summary(*change), change->steps.size(),
             change->predicted.value, change->temporary.size(),
             actuate::affected_text(change->affected));
  if (const auto second = apply(*next); !second) return failed(second.error());
  const auto after = devices_of(driver);
  if (!after) return failed(after.error());
  const auto stayed = std::count_if(before->begin(), before->end(),
                                    [&](const std::string& uuid) { return after->contains(uuid); });
  fmt::print(context.out, "Done: {} of {} instances were never touched.\n", stayed, before->size());
  return {};
}

}  // namespace partita::cli
