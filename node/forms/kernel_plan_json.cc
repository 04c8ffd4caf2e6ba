// KernelPlan JSON of kernel_forms.h.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/form_rules.h"
#include "base/index.h"
#include "forms/kernel_forms.h"

namespace partita::forms {
namespace {

constexpr Range kKernels{.high = profile::kMaxKernels};
constexpr Range kUnitCount{.low = 1, .high = hw::kMaxUnits};
constexpr ListForm kKernelLines{.most = profile::kMaxKernels, .indent = "      "};

void describe(Form& f, KernelGroup& group) {
  f.integer("first", group.first, kKernels, "number of its first kernel in a request");
  f.integer("kernels", group.kernels, kKernels, "how many");
  f.integer("units", group.units, kUnitCount, "of each");
}

void describe(Form& f, StatedLane& lane) {
  f.integer("units", lane.units, kUnitCount, "of its mask");
  f.integer("kernels", lane.kernels, kKernels, "of a request that run on it");
  f.integers("units_per_cluster", lane.units_per_cluster, {.high = hw::kMaxUnits},
             {.most = hw::kMaxClusters}, "units of the mask per cluster of the GPU");
  f.optional(!lane.units_per_die.empty())
      .integers("units_per_die", lane.units_per_die, {.high = hw::kMaxUnits},
                {.most = hw::kMaxClusters}, "units of the mask per die of the GPU");
  f.text("mask_hex", lane.mask_hex, "unit 0 is the lowest bit");
}

void describe(Form& f, StatedWorker& worker) {
  f.name("name", worker.name, "its model; NAME#2: the second worker of it");
  f.integer("switches", worker.switches, kKernels, "changes of the number of units");
  f.number("mean_units", worker.mean_units, {.high = hw::kMaxUnits}, "over its kernels");
  f.number("alone_us", worker.alone_us, kNotNegative, "of a request without other workers");
  f.number("predicted_us", worker.predicted_us, kNotNegative, "of a request beside the others");
  f.line("     ").optional(!worker.groups.empty());
  f.list("groups", worker.groups, describe, kKernelLines, "kernels in a row on as many units");
  f.line("     ").optional(!worker.lanes.empty());
  f.list("lanes", worker.lanes, describe, kKernelLines,
         "the mask that its kernels on so many units run on");
  f.line("     ").integers("units", worker.units, kUnitCount,
                           {.most = profile::kMaxKernels, .between = ","}, "of every kernel");
  Fields* const in = f.reading();
  const bool named = worker.name.find('#') > 0 && worker.name.find(',') == worker.name.npos;
  if (in && !named)
    in->refuse("name", "a worker has the name of its profile file, without a comma");
}

void describe(Form& f, SwitchPoint& point) {
  f.integer("max_switches", point.max_switches, kKernels, "of every worker");
  f.number("objective", point.objective, kNotNegative, "the best with so many, microseconds");
  f.boolean("optimal", point.optimal, "proven");
}

std::vector<KernelGroup> stated_groups(const std::vector<int>& units) {
  std::vector<KernelGroup> groups;
  for (int k = 0; k < static_cast<int>(units.size()); ++k) {
    if (k == 0 || groups.back().units != units[at(k)]) groups.push_back({k, 0, units[at(k)]});
    ++groups.back().kernels;
  }
  return groups;
}

// What a mask on the GPU can be, and what the members of a worker say twice.
void check_worker(Fields in, const StatedWorker& worker, const hw::Topology& topology,
                  const std::vector<int>& sizes) {
  const std::vector<Node>& units = in.list("units");
  for (std::size_t k = 0; k < units.size(); ++k)
    if (!std::ranges::binary_search(sizes, worker.units[k]))
      in.refuse(units[k], fmt::format("must be a number of units from {} to {}, in whole atoms",
                                      sizes.front(), sizes.back()));
  if (in.has("groups") && worker.groups != stated_groups(worker.units))
    in.refuse("groups", "'groups' are not those of 'units'");
  if (worker.lanes.empty()) return;
  const std::vector<Node>& lanes = in.list("lanes");
  for (std::size_t i = 0; i < lanes.size() && !in.error(); ++i) {
    Fields lane(in, lanes[i]);
    const auto mask = hw::mask_of_hex(worker.lanes[i].mask_hex);
    if (!mask) {
      lane.refuse("mask_hex", "'mask_hex' must be 0x and hexadecimal digits");
    } else if (hw::units_per_cluster(topology, *mask) != worker.lanes[i].units_per_cluster) {
      lane.refuse("units_per_cluster", "'units_per_cluster' are not those of 'mask_hex'");
    } else if (lane.has("units_per_die") &&
               hw::units_per_die(topology, *mask) != worker.lanes[i].units_per_die) {
      lane.refuse("units_per_die", "'units_per_die' are not those of 'mask_hex'");
    }
  }
}

void check_plan(Fields& in, const StatedKernelPlan& plan) {
  const auto topology = hw::topology_named(plan.gpu);
  if (!topology) return in.refuse("gpu", topology.error().message);
  const int widest = *std::ranges::max_element(topology->units_in);
  const int atom = plan.atom.value_or(topology->atoms.front());
  if (atom > widest)
    in.refuse("atom", fmt::format("{}: no {} of {} has more than {} {}s", atom,
                                  topology->cluster_name, topology->name, widest,
                                  topology->unit_name));
  if (plan.total_units && *plan.total_units != topology->units())
    in.refuse("total_units", fmt::format("'total_units' is {}, {} has {}", *plan.total_units,
                                         topology->name, topology->units()));
  if (in.error()) return;
  const std::vector<int> sizes = hw::mask_sizes(*topology, atom);
  const std::vector<Node>& workers = in.list("workers");
  for (std::size_t w = 0; w < workers.size() && !in.error(); ++w)
    check_worker({in, workers[w]}, plan.workers[w], *topology, sizes);
}

void describe(Form& f, StatedKernelPlan& plan) {
  f.optional().document("KernelPlan");
  f.line("  ").text("gpu", plan.gpu, "its topology");
  f.integer("total_units", plan.total_units, kUnitCount, "SMs or CUs of the GPU");
  f.integer("atom", plan.atom, kUnitCount, "units that can only be masked together");
  f.integer("max_switches", plan.max_switches, kKernels, "of every worker");
  f.optional().word("overlap", plan.overlap, {"others", "literal"}, "what slows a worker down");
  f.optional(plan.switch_cost_us != 0)
      .number("switch_cost_us", plan.switch_cost_us, kNotNegative, "what a switch takes");
  f.line("  ").optional(!plan.problem_digest.empty());
  f.name("problem_digest", plan.problem_digest, "of the problem that it solves");
  f.line("  ").number("objective", plan.objective, kNotNegative, "microseconds");
  f.number("bound", plan.bound, kNotNegative, "no plan has less");
  f.optional().boolean("optimal", plan.optimal, "proven that none has less than the objective");
  f.line("  ").list("workers", plan.workers, describe,
                    {.most = plan::kMaxWorkers, .indent = "    ", .least = 1}, "co-located");
  f.optional(!plan.curve.empty())
      .line("  ")
      .list("curve", plan.curve, describe, {.indent = "    "}, "per number of switches");
  if (Fields* in = f.reading(); in && !in->error()) check_plan(*in, plan);
}

plan::Grouping grouping_of(const StatedWorker& worker, const plan::KernelTimes& times,
                           double switch_cost) {
  plan::Grouping grouping;
  double time = 0, units = 0;
  int switches = 0;
  const std::size_t kernels = std::min(worker.units.size(), at(times.kernels()));
  for (std::size_t k = 0; k < worker.units.size(); ++k) {
    const auto option = std::ranges::lower_bound(times.units, worker.units[k]) -
                        times.units.begin();
    grouping.option.push_back(static_cast<std::uint8_t>(option));
    if (k < kernels) time += times.time[k * times.units.size() + static_cast<std::size_t>(option)];
    if (k > 0 && worker.units[k] != worker.units[k - 1]) ++switches;
    units += worker.units[k];
  }
  grouping.switches = worker.switches.value_or(switches);
  grouping.mean_units =
      worker.mean_units.value_or(units / static_cast<double>(std::max<std::size_t>(1, kernels)));
  grouping.time = worker.alone_us.value_or(time + switches * switch_cost);
  return grouping;
}

}  // namespace

StatedKernelPlan stated_plan(const plan::KernelProblem& problem,
                             const plan::PlannedKernels& planned, const hw::Topology& topology) {
  const auto& [plan, lanes, digest] = planned;
  StatedKernelPlan stated{topology.name,    problem.total_units, lanes.atom,
                          problem.switches, problem.overlap,     problem.switch_cost,
                          digest,           plan.objective,      plan.bound,
                          plan.optimal,     {},                  {}};
  for (std::size_t w = 0; w < plan.workers.size(); ++w) {
    const plan::Grouping& one = plan.workers[w];
    StatedWorker worker{problem.workers[w].name, one.switches,
                        one.mean_units,          one.time,
                        plan::predicted_time(problem, plan, w), {}, {}, {}};
    for (const std::uint8_t option : one.option)
      worker.units.push_back(problem.workers[w].times.units[option]);
    worker.groups = stated_groups(worker.units);
    for (const plan::Lane& lane : lanes.all)
      if (lane.worker == w)
        worker.lanes.push_back({lane.units, lane.kernels,
                                hw::units_per_cluster(topology, lane.mask),
                                hw::units_per_die(topology, lane.mask),
                                hw::mask_hex(lane.mask)});
    stated.workers.push_back(std::move(worker));
  }
  return stated;
}

std::string kernel_plan_json(const StatedKernelPlan& plan) { return write_form(plan, describe); }

Result<StatedKernelPlan> parse_kernel_plan(const std::string& file, std::string_view text) {
  return read_form<StatedKernelPlan>(file, text, describe);
}

DocumentKind kernel_plan_kind() {
  return document_kind<StatedKernelPlan, describe, "KernelPlan",
                       "how many SMs or CUs every kernel of co-located models gets">();
}

Result<KernelClaim> kernel_claim(const std::string& file, const StatedKernelPlan& plan,
                                 const std::vector<profile::ModelKernels>& models) {
  const auto topology = hw::topology_named(plan.gpu);
  if (!topology) return bad_input(file, topology.error().message);
  if (plan.workers.size() != models.size())
    return bad_input(file, fmt::format("plans {} workers, not {}", plan.workers.size(),
                                       models.size()));
  KernelClaim claim{*topology, {}, {{}, {}, plan.problem_digest}, {}};
  auto& [planned, lanes, digest] = claim.planned;
  lanes.atom = plan.atom.value_or(topology->atoms.front());
  claim.problem.total_units = topology->units();
  claim.problem.switches = plan.max_switches.value_or(static_cast<int>(profile::kMaxKernels));
  claim.problem.switch_cost = plan.switch_cost_us;
  claim.problem.overlap = plan.overlap;
  for (std::size_t w = 0; w < models.size(); ++w) {
    const StatedWorker& worker = plan.workers[w];
    const std::set<int> options(worker.units.begin(), worker.units.end());
    if (options.size() > plan::kMaxOptions)
      return bad_input(file, fmt::format("{} has more than {} numbers of units", worker.name,
                                         plan::kMaxOptions));
    plan::KernelTimes times{{options.begin(), options.end()}, {}};
    for (const profile::KernelProfile& kernel : models[w].kernels)
      for (const int units : options) times.time.push_back(kernel.on(units));
    claim.problem.workers.push_back({worker.name, std::move(times)});
    planned.workers.push_back(
        grouping_of(worker, claim.problem.workers[w].times, plan.switch_cost_us));
    claim.predicted.push_back(worker.predicted_us);
    for (const StatedLane& lane : worker.lanes)
      lanes.all.push_back({w, lane.units,
                                 hw::mask_of_hex(lane.mask_hex).value_or(hw::UnitMask{}),
                                 lane.kernels});
  }
  double sum = 0;
  for (std::size_t w = 0; w < models.size(); ++w)
    sum += plan::predicted_time(claim.problem, planned, w);
  planned.objective = plan.objective.value_or(sum);
  planned.bound = plan.bound.value_or(0);
  planned.optimal = plan.optimal;
  return claim;
}

}  // namespace partita::forms
