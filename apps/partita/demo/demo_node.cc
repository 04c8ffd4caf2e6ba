#include "demo/demo_node.h"

#include <fmt/format.h>

#include <set>

#include "actuate/apply.h"
#include "actuate/change_forms.h"
#include "base/check.h"
#include "decide/serving.h"
#include "drivers/sim/shared_machine.h"
#include "drivers/sim/sim_driver.h"
#include "progress.h"

namespace partita::cli {
namespace {

using JudgedPlan = plan::Judged<plan::ServingPlan>;

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

// The least change of the current plan that serves the problem.
Result<JudgedPlan> next_plan(Context& context, const plan::ServingProblem& problem,
                             const plan::ServingPlan& current) {
  auto next =
      decide::make_plan_again(problem, current, std::nullopt, {.watch = Progress(context).watch()});
  if (!next) return failed(next.error());
  if (!next->made.plan) {
    return environment_error("demo", decide::reasons_text("no plan:", next->made.refusals));
  }
  return *std::move(next->made.plan);
}

}  // namespace

Result<void> show_node(Context& context, const plan::ServingProblem& problem,
                       const plan::Judged<plan::ServingPlan>& plan, int gpus) {
  const Result<const hw::GpuModel*> model = hw::builtin_catalogue().get(plan->gpu_model);
  if (!model) return failed(model.error());
  const auto machine = drivers::sim::own_machine(
      drivers::sim::Machine({{*model, gpus, true}}, "demo"), context.clock, 0);
  drivers::sim::SimDriver driver(*machine);
  MemoryFiles disk;
  const actuate::Doors doors{driver, disk, context.clock, hw::builtin_catalogue(), "state"};
  const auto apply = [&](const JudgedPlan& wanted) {
    return actuate::apply(doors, actuate::wanted_of(wanted), {}, [](const auto&) {});
  };

  const auto first = apply(plan);
  if (!first) return failed(first.error());
  say(context,
      fmt::format("{} instances created in {} steps; NVIDIA's driver would take {:.1f} s\n",
                  first->change.create.size(), first->change.steps.size(),
                  first->change.predicted.value));
  const auto before = devices_of(driver);
  if (!before) return failed(before.error());

  const plan::ServingProblem grown = with_more_traffic(problem);
  const Result<JudgedPlan> next = next_plan(context, grown, *plan);
  if (!next) return failed(next.error());
  const auto change = actuate::preview(doors, actuate::wanted_of(*next), {});
  if (!change) return failed(change.error());
  say(context,
      fmt::format(
          "\nEvery third service gets 25 % more requests; {} GPUs are enough. The "
          "change:\n\n{}\n{} steps, {:.1f} s of driver time, {} temporary stand-ins\n\n{}\n",
          (*next)->gpus.size(), actuate::change_summary(*change), change->steps.size(),
          change->predicted.value, change->temporary.size(),
          actuate::affected_text(change->affected)));
  if (const auto second = apply(*next); !second) return failed(second.error());
  const auto after = devices_of(driver);
  if (!after) return failed(after.error());
  const auto stayed = std::count_if(before->begin(), before->end(),
                                    [&](const std::string& uuid) { return after->contains(uuid); });
  say(context,
      fmt::format("Done: {} of {} instances were never touched.\n", stayed, before->size()));
  return {};
}

}  // namespace partita::cli
